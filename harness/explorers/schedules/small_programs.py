"""Small programs of which every order of calls is tried as well: controls of what reduced searches leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tornproof.harness.explorers.schedules.exploration import PCT_DEPTHS
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.search.dpor import explore_all
from tornproof.harness.search.every_order import every_crash, every_end
from tornproof.harness.search.outcome import Outcomes, Said, said_by
from tornproof.harness.search.product_reduction import ProductReduction
from tornproof.harness.search.random_schedules import Choose, Sampler, pct, uniform
from tornproof.harness.search.reader_reduction import ReaderReduction, Trace
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Body, Process, Say
from tornproof.harness.simulator.process.world import ProcessGroup, World
from tornproof.impl.storage.interface import OpenMode, Storage

FILE = "d/f"
START = DiskImage({FILE: b"........"}, frozenset({"d"}))
FOUND = "found"
ROUNDS = 200
READER_INDEX = 1


class Program(NamedTuple):
    """Processes, of which the second one is a reader if it `has_reader`; all may do something at once."""

    title: str
    bodies: Sequence[Body]
    has_reader: bool = False


def _writes(offset_bytes: int, content: bytes) -> Body:
    def body(storage: Storage, say: Say) -> None:
        with storage.open_for_writing(FILE) as file:
            file.pwrite(content, offset_bytes)

    return body


def _reads(*ranges: tuple[int, int]) -> Body:
    def body(storage: Storage, say: Say) -> None:
        with storage.open_for_reading(FILE) as file:
            for start, stop in ranges:
                say(FOUND, file.pread(stop - start, start))

    return body


def _measures(storage: Storage, say: Say) -> None:
    with storage.open_for_reading(FILE) as file:
        say(FOUND, file.size_bytes())


def _makes(name: str, storage: Storage, say: Say) -> None:
    storage.open_for_writing(f"d/{name}", OpenMode.NEW).close()


def _renames(storage: Storage, say: Say) -> None:
    storage.rename(FILE, "d/g")


def _lists(storage: Storage, say: Say) -> None:
    say(FOUND, tuple(storage.listdir("d")))


def _copies(start: int, stop: int) -> Body:
    def body(storage: Storage, say: Say) -> None:
        with storage.open_for_writing(FILE) as file:
            file.pwrite(file.pread(1, start), stop)

    return body


PROGRAMS = (
    Program("a write in the middle of what another one reads", (_writes(3, b"x"), _reads((0, 8))), True),
    Program("a write of more than another one reads", (_writes(0, b"xxxxxxxx"), _reads((3, 4), (5, 6))), True),
    Program("a file that grows while it is measured", (_writes(8, b"x"), _measures), True),
    Program("a new name beside a listing", (partial(_makes, "new"), _lists), True),
    Program("a rename beside who opens the file", (_renames, _reads((0, 1))), True),
    Program("two writes and a read of both", (_writes(0, b"x"), _writes(7, b"y"), _reads((0, 8)))),
    Program("two bytes that two processes copy crosswise", (_writes(0, b"x"), _copies(0, 1), _copies(1, 0))),
    Program(
        "two writes of one byte, which is read twice", (_writes(0, b"x"), _writes(0, b"y"), _reads((0, 1), (0, 1)))
    ),
)


def failed_controls(seed: int) -> Iterator[str]:
    """Search each program in every order and in the reduced ones, and describe each that has other outcomes."""
    for program in PROGRAMS:
        group = ProcessGroup(
            processes=tuple(Process(f"process {number}", body) for number, body in enumerate(program.bodies)),
            judge=Judge(lambda operations: None),
        )
        try:
            for method, is_right in _compared(group, seed, has_reader=program.has_reader):
                if not is_right:
                    yield f"{method} did not have the outcomes of every order: {program.title}"
        finally:
            group.close()


def _compared(group: ProcessGroup, seed: int, *, has_reader: bool) -> Iterator[tuple[str, bool]]:
    outcomes, generator = Outcomes(), np.random.default_rng(seed)
    world = group.begin(Kernel.of(START), Progress())
    ends = [*every_end(world)]
    every = {outcomes.of(end) for end in ends}
    reduced = set()
    explore_all(world, lambda run: reduced.add(outcomes.of(run.world)))
    yield "DPOR", reduced == every
    sampler = Sampler(world)
    policies: dict[str, Callable[[], Choose]] = {
        "uniform random": lambda: uniform(generator),
        "PCT": lambda: pct(generator, len(world.nodes), sampler.transition_count, PCT_DEPTHS[-1]),
    }
    for method, policy in policies.items():
        yield method, {outcomes.of(sampler.run(policy())[0]) for _ in range(ROUNDS)} == every
    if has_reader:
        reduction = ReaderReduction(group.processes[READER_INDEX], READER_INDEX, group.judge)
        arrivals = reduction.search(Trace(group.begin(Kernel.of(START), Progress())), [reduction.root()])
        read = {said_by(state.node) for state in arrivals if state.is_at_end}
        yield "reader reduction", read == {said_by(end.nodes[READER_INDEX]) for end in ends}


def has_every_outcome(case: TestCase, model: str) -> bool:
    """Say if a search of crashes beside a reader has the outcomes of every order with every crash, under A or D."""
    sessions = Sessions.of(case, fails=model == "D")
    try:
        found = ProductReduction(sessions, model, lambda kernel: ()).run().outcomes
        return found == {*map(_outcome_of(sessions), every_crash(sessions, model, lambda kernel: ()))} - {None}
    finally:
        sessions.close()


def reaches_every_state_early(case: TestCase) -> bool:
    """Say if a reader goes on from the earliest state of the writer beside which it can have done what it did."""
    group = case.process_group()
    try:
        reduction = ReaderReduction(group.processes[READER_INDEX], READER_INDEX, group.judge)
        trace = Trace(case.begin(group))
        return reduction.is_earliest(trace, reduction.search(trace, [reduction.root()]))
    finally:
        group.close()


def _outcome_of(sessions: Sessions) -> Callable[[World], tuple[Said, int, bool] | None]:
    def outcome(end: World) -> tuple[Said, int, bool] | None:
        if end.progress.violations:
            return None
        return said_by(end.nodes[READER_INDEX]), len(end.progress.committed), end.process_group is sessions.second

    return outcome
