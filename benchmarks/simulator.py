"""The simulator's speed on the real implementation, and that of frontrun on the same A/B defect, in CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tornproof.harness.common.garbage import collect_seldom
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.explorers.power_cuts.explorer import explore_power
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.product_reduction import ProductReduction
from tornproof.harness.search.random_schedules import Sampler, uniform
from tornproof.harness.simulator.persistence.models import model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.harness.systems.scenario import load_scenario
from tornproof.harness.systems.simulation import setting_of
from tornproof.harness.systems.toy_records import LooksOnce

PEER = "frontrun"
SCHEDULE_COUNT = 4_000
DEFECT_SCHEDULE_COUNT = 10_000
SIZE = "2 commits x 2 readers"
SCHEDULES = "two-commits-two-readers"
CRASHES = "append-and-power-cut"
PRODUCT = "reader-lives-through-a-kill"


@dataclass(frozen=True, slots=True)
class Rate:
    """A count of something in so many seconds of CPU time on one core.

    `before` is how many a second there were before searches were made faster, by the same benchmark.
    """

    what: str
    count: int
    seconds: float
    note: str = ""
    goal: int | None = None
    before: int | None = None

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def case_named(name: str) -> TestCase:
    return setting_of(load_scenario(name), HARDENED_PRESET).case


def random_rates() -> Iterator[Rate]:
    """Random complete schedules: with every call chosen, and with those that others depend on, as `check` samples."""
    case = case_named(SCHEDULES)
    process_group = case.process_group()
    choose = uniform(np.random.default_rng(0))
    begin, calls = time.process_time(), 0
    for _ in range(SCHEDULE_COUNT):
        world = case.begin(process_group)
        while enabled := world.enabled:
            world.step(choose(enabled, 0))
            calls += 1
    seconds = time.process_time() - begin
    process_group.close()
    yield Rate(f"steps of random schedules, {SIZE}", calls, seconds, goal=150_000, before=286_685)
    yield Rate(f"random schedules of all calls, {SIZE}", SCHEDULE_COUNT, seconds, goal=1_000, before=1_190)
    process_group = case.process_group()
    begin = time.process_time()
    sampler = Sampler(case.begin(process_group))
    for _ in range(SCHEDULE_COUNT):
        sampler.run(choose)
    seconds = time.process_time() - begin
    process_group.close()
    yield Rate(f"random schedules of dependent calls, {SIZE}", SCHEDULE_COUNT, seconds, before=821)


def reduced_rate() -> Rate:
    case = case_named(SCHEDULES)
    process_group = case.process_group()
    begin = time.process_time()
    counts = explore_all(case.begin(process_group), lambda run: None)
    seconds = time.process_time() - begin
    process_group.close()
    note = "complete" if counts.is_done else ""
    return Rate(f"complete schedules by DPOR, {SIZE}", counts.complete, seconds, note, 3_000, 1_979)


def crash_rate() -> Rate:
    case = case_named(CRASHES)
    models = [model_named("C-8")]
    begin = time.process_time()
    phase = explore_power(case, models=models, points=())
    seconds = time.process_time() - begin
    return Rate("deeply checked distinct crash images, C-8", phase.explored, seconds, goal=5_000, before=3_499)


def product_rate() -> Rate:
    sessions = Sessions.of(case_named(PRODUCT))
    begin = time.process_time()
    counts = ProductReduction(sessions, "A", lambda kernel: []).run()
    seconds = time.process_time() - begin
    sessions.close()
    note = "complete" if counts.is_complete else ""
    return Rate("schedule x crash states, model A", counts.states, seconds, note, before=21_664)


def defect_rate() -> Rate:
    """Schedules of the A/B defect, with a reader that reads the version once, on the simulated disk."""
    case = TestCase(target=LooksOnce(), path="r", operations=(1, 2), first_session=(0, 1), readers=(Readers(),))
    process_group = case.process_group()
    sampler = Sampler(case.begin(process_group))
    choose = uniform(np.random.default_rng(0))
    found: set[bool] = set()

    def note(run: Run) -> None:
        found.add(bool(run.world.progress.violations))

    begin = time.process_time()
    explore_all(case.begin(process_group), note)
    for _ in range(DEFECT_SCHEDULE_COUNT):
        sampler.run(choose)
    seconds = time.process_time() - begin
    process_group.close()
    what = "schedules of a toy with the A/B defect, ours"
    return Rate(what, DEFECT_SCHEDULE_COUNT, seconds, f"found: {True in found}")


def peer_rate() -> Rate:
    launcher = Path(sys.executable).with_name(PEER)
    script = Path(__file__).with_name("ab_peer.py")
    done = subprocess.run([launcher, sys.executable, script], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout[done.stdout.index("{") :])
    return Rate(
        f"schedules of a toy with the A/B defect, {PEER}",
        result["schedules"],
        result["seconds"],
        f"found: {result['found']}",
    )


def rates() -> list[Rate]:
    collect_seldom()
    with remembered_decoding():
        return [*random_rates(), reduced_rate(), crash_rate(), product_rate(), defect_rate(), peer_rate()]
