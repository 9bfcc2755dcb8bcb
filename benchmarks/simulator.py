"""The simulator's speed on the real implementation, and that of frontrun on the same A/B defect."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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
SECONDS = 5.0
SCHEDULES = "two-commits-two-readers"
CRASHES = "append-and-power-cut"
PRODUCT = "reader-lives-through-a-kill"


@dataclass(frozen=True, slots=True)
class Rate:
    """A count of something in so many seconds on one core."""

    what: str
    count: int
    seconds: float
    note: str = ""

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


def case_named(name: str) -> TestCase:
    return setting_of(load_scenario(name), HARDENED_PRESET).case


def random_rates() -> Iterator[Rate]:
    """Random complete schedules, with every call served by the simulated disk."""
    case = case_named(SCHEDULES)
    process_group = case.process_group()
    draw = np.random.default_rng(0)
    begin, calls, schedules = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < SECONDS:
        world = case.begin(process_group)
        while enabled := world.enabled:
            world.step(enabled[int(draw.integers(len(enabled)))])
            calls += 1
        schedules += 1
    seconds = time.perf_counter() - begin
    process_group.close()
    yield Rate("steps of random schedules, 2 commits x 2 readers", calls, seconds, "goal 100,000")
    yield Rate("complete random schedules, 2 commits x 2 readers", schedules, seconds, "goal 500")


def reduced_rate() -> Rate:
    case = case_named(SCHEDULES)
    process_group = case.process_group()
    begin = time.perf_counter()
    counts = explore_all(
        case.begin(process_group), lambda run: None, has_time=lambda: time.perf_counter() - begin < SECONDS
    )
    seconds = time.perf_counter() - begin
    process_group.close()
    return Rate("complete schedules by DPOR, 2 commits x 2 readers", counts.complete, seconds, "goal 500")


def crash_rate() -> Rate:
    case = case_named(CRASHES)
    models = [model_named("C-8")]
    begin = time.perf_counter()
    phase = explore_power(case, models=models, points=())
    return Rate("deeply checked distinct crash images, C-8", phase.explored, time.perf_counter() - begin, "goal 2,000")


def product_rate() -> Rate:
    sessions = Sessions.of(case_named(PRODUCT))
    begin = time.perf_counter()
    counts = ProductReduction(sessions, "A", lambda kernel: [], lambda states: True).run()
    seconds = time.perf_counter() - begin
    sessions.close()
    return Rate("schedule x crash states, model A", counts.states, seconds, "complete")


def defect_rate() -> Rate:
    """Schedules of the A/B defect, with a reader that reads the version once, on the simulated disk."""
    case = TestCase(target=LooksOnce(), path="r", operations=(1, 2), first_session=(0, 1), readers=(Readers(),))
    process_group = case.process_group()
    sampler = Sampler(case.begin(process_group))
    choose = uniform(np.random.default_rng(0))
    found: set[bool] = set()

    def note(run: Run) -> None:
        found.add(bool(run.world.progress.violations))

    begin, count = time.perf_counter(), 0
    explore_all(case.begin(process_group), note)
    while time.perf_counter() - begin < SECONDS / 5:
        sampler.run(choose)
        count += 1
    seconds = time.perf_counter() - begin
    process_group.close()
    return Rate("schedules of a toy with the A/B defect, ours", count, seconds, f"found: {True in found}")


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
    with remembered_decoding():
        return [*random_rates(), reduced_rate(), crash_rate(), product_rate(), defect_rate(), peer_rate()]
