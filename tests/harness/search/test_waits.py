"""Processes that wait for each other: their outcomes, deadlocks, limited waits, and such as only repeat themselves."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pytest
from depth import nightly
from explorations import explore_product
from state_search import enumerate_schedules, search_states
from toy_processes import CELLS, world_of

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.make import as_log, finding_or_moves
from tornproof.harness.counterexamples.moves import Moves
from tornproof.harness.explorers.power_cuts.explorer import explore_power
from tornproof.harness.explorers.random.random_cases import KILL, sessions_of
from tornproof.harness.explorers.random.random_run import Trace
from tornproof.harness.explorers.schedules import controls as schedule_controls
from tornproof.harness.explorers.schedules.controls import LETTER, LETTERS, control_case, failed_controls
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.search import contention
from tornproof.harness.search.contention import Contention, Depths
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.outcome import Outcome, Outcomes
from tornproof.harness.search.transitions import follow
from tornproof.harness.simulator.filesystem.accesses import Access
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.simulated_process import Body, Say, _ProcessStorage
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.toy import Toy
from tornproof.harness.systems.toy_locks import PAUSE_SECONDS, BusyLockFile, CrossedLocks, LockFile, OrderedLocks
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import EntryKind, LockMode, OpenMode, Storage

DAY, NIGHT = 20, 3_000
TIMES = 10
LOCK_FILE = "lock"


@dataclass(frozen=True)
class Step:
    """What a process does with a cell or file: read, write a value, wait for it, lock, make, or lock by a file."""

    kind: str
    cell: int
    value: int = 0


def process(steps: Sequence[Step]) -> Body:
    """Return a body that reports what it has read at its end, and then releases its locks."""

    def run(storage: Storage, say: Say) -> None:
        answers: list[object] = []
        has_lock_file = False
        with storage.open_for_writing(CELLS) as file:
            for step in steps:
                match step.kind:
                    case "read":
                        answers.append(file.pread(1, step.cell))
                    case "write":
                        file.pwrite(bytes([step.value]), step.cell)
                    case "await":
                        while file.pread(1, step.cell) != bytes([step.value]):
                            storage.sleep_seconds(PAUSE_SECONDS)
                    case "lock":
                        mode = LockMode.EXCLUSIVE if step.value else LockMode.SHARED
                        file.lock(mode, offset_bytes=step.cell, size_bytes=1)
                    case "lock file" if not has_lock_file:
                        make_lock_file(storage)
                        has_lock_file = True
                    case "make file":
                        storage.open_for_writing(f"file {step.cell}", OpenMode.EXISTING_OR_NEW).close()
                    case "await file":
                        while storage.kind(f"file {step.cell}") is EntryKind.MISSING:
                            storage.sleep_seconds(PAUSE_SECONDS)
            say("answered", tuple(answers))
        if has_lock_file:
            storage.unlink(LOCK_FILE)

    return run


def make_lock_file(storage: Storage) -> None:
    while True:
        try:
            storage.open_for_writing(LOCK_FILE, OpenMode.NEW).close()
        except StorageError:
            storage.sleep_seconds(PAUSE_SECONDS)
        else:
            return


KINDS = ("read", "write", "await", "lock", "lock file", "make file", "await file")
HELP = {"await": "write", "await file": "make file"}
"""What another process does so that a wait ends; locks are released anyway."""
STEP_COUNTS = ((3, 3), (2, 2), (2, 1, 1))


def drawn_bodies(seed: int) -> list[Body]:
    """Return processes of a few kinds of steps; what one waits for, another one mostly does at some time."""
    draw = random.Random(seed)
    kinds, cells = draw.sample(KINDS, 3), draw.randint(1, 2)

    def step() -> Step:
        return Step(draw.choice(kinds), draw.randrange(cells), draw.randrange(2))

    programs = [[step() for _ in range(count)] for count in draw.choice(STEP_COUNTS)]
    for number, steps in enumerate(programs):
        other = programs[number - 1]
        for waited in [each for each in steps if each.kind in HELP and draw.random() < 0.8]:
            other.insert(draw.randint(0, len(other)), replace(waited, kind=HELP[waited.kind]))
    return [process(steps) for steps in programs]


def outcomes_of(world: World) -> tuple[set[Outcome], set[Outcome]]:
    """Return the outcomes of DPOR, which must be done, and those of all reachable states."""
    outcomes, reduced, every = Outcomes(), set[Outcome](), set[Outcome]()
    waits_in_vain: list[bool] = []

    def on_end(end: World) -> None:
        waits_in_vain.extend(map(is_stuck, repeat(end), range(len(end.nodes))))
        finished = end.fork()
        assert not finished.finish()[1], "only time could help"
        every.add(outcomes.of(finished))

    counts = explore_all(world, lambda run: reduced.add(outcomes.of(run.world)))
    assert counts.is_done and search_states(world, on_end).is_done
    world.process_group.close()
    assert all(waits_in_vain)
    return reduced, every


def is_stuck(end: World, index: int) -> bool:
    """Say whether a process has ended, or that waits sees the same when it looks again."""
    again = end.fork()
    again.watches = {}
    while again.can_go_on(index):
        again.step(index)
    return again.nodes[index].is_waiting or end.nodes[index].call is None


class GaveUpError(Exception):
    pass


def outcomes_of_polling(world: World) -> set[Outcome]:
    """Return the outcomes in which all processes end, if sleeping is no call and a process gives up after two looks.

    Looking again has no effect on others, so more looks lead to no other outcome.
    """
    slept: set[object] = set()
    outcomes, found = Outcomes(), set[Outcome]()

    def sleep_once(self: Any, duration_seconds: float) -> None:
        if self in slept:
            raise GaveUpError
        slept.add(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ProcessStorage, "sleep_seconds", sleep_once)
        assert search_states(world, lambda end: found.add(outcomes.of(end))).is_done
        world.process_group.close()
    return ended(found)


def ended(outcomes: set[Outcome]) -> set[Outcome]:
    return {outcome for outcome in outcomes if not outcome.violations}


def disagrees(seed: int) -> bool:
    try:
        reduced, every = outcomes_of(world_of(drawn_bodies(seed)))
    except AssertionError:
        return True
    return reduced != every or ended(reduced) != outcomes_of_polling(world_of(drawn_bodies(seed)))


@pytest.mark.parametrize("seeds", [range(DAY), nightly(range(DAY, NIGHT))], ids=str)
def test_the_outcomes_of_processes_that_wait_are_those_of_all_their_states(seeds: range) -> None:
    assert [seed for seed in seeds if disagrees(seed)] == []


def nobody_is_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tornproof.harness.simulator.process.world.are_dependent", lambda some, others: False)


def every_call_is_made_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(contention, "_covers", lambda known, needs: True)


@pytest.mark.parametrize("blind", [nobody_is_woken, every_call_is_made_early])
def test_processes_that_wait_show_that_a_search_is_blind(
    blind: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind(monkeypatch)

    assert any(map(disagrees, range(DAY)))


@pytest.mark.parametrize("blind", [None, every_call_is_made_early])
def test_no_call_that_is_made_early_changes_what_somebody_waits_for(
    blind: Callable[[pytest.MonkeyPatch], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one did, what others do between that call and the one before it would be tried in one order only."""
    advance = Contention.advance
    early_count = 0
    woken: list[int] = []

    def advance_and_compare(self: Contention, world: World, index: int, known: Depths) -> tuple[Access, ...] | None:
        nonlocal early_count
        waiting = [other for other, node in enumerate(world.nodes) if node.is_waiting and not world.can_go_on(other)]
        depth = world.nodes[index].depth
        accessed = advance(self, world, index, known)
        if waiting:
            early_count += world.nodes[index].depth - depth
            woken.extend(other for other in waiting if world.can_go_on(other))
        return accessed

    monkeypatch.setattr(Contention, "advance", advance_and_compare)
    if blind:
        blind(monkeypatch)
    for seed in range(DAY):
        world = world_of(drawn_bodies(seed))
        explore_all(world, lambda run: None)
        world.process_group.close()

    assert early_count > DAY
    assert bool(woken) is (blind is not None)


def test_of_the_generated_processes_some_wait_for_ever_in_some_orders_only() -> None:
    crossing = [process([Step("lock", cell, 1), Step("lock", 1 - cell, 1)]) for cell in (0, 1)]
    reduced, every = outcomes_of(world_of(crossing))

    assert reduced == every
    assert {frozenset(outcome.violations) for outcome in reduced} == {
        frozenset(),
        frozenset({(Property.ENDS, "process 0"), (Property.ENDS, "process 1")}),
    }


# Targets


@pytest.mark.parametrize("target", [OrderedLocks(), LockFile()], ids=lambda target: target.name)
def test_who_waits_for_a_lock_that_is_released_ends_in_every_order(target: Target) -> None:
    phase = explore_schedules(control_case(target, LETTERS), controls=())

    assert (phase.verdict, phase.complete, phase.findings) == (Verdict.VALID, True, ())
    assert STEP_BOUND in phase.bound and phase.counts["outcomes"] == 3
    assert 10 < phase.counts["reduced schedules"] < 100, "a wait is tried again only after a change"


def test_locks_in_opposite_orders_are_a_deadlock_that_replays_ten_times_of_ten() -> None:
    case = control_case(CrossedLocks(), LETTER)
    phase = explore_schedules(case, controls=())

    assert (phase.verdict, {finding.property for finding in phase.findings}) == (Verdict.INVALID, {Property.ENDS})
    assert {finding.sentence for finding in phase.findings} == {
        "writer does not end: deadlock, for reader 1 cannot go on either: it only repeats: lock toy/state, sleep",
        "reader 1 does not end: deadlock, for writer cannot go on either: it only repeats: lock toy/state, sleep",
    }
    replays_always(as_log(case, phase.findings[0]), TIMES)


def replays_always(finding: Finding, times: int) -> None:
    """Replay a finding from what its file holds, and beside it the same decisions on a sound target."""
    assert finding.property == Property.ENDS and "log" in finding.evidence
    read_back = replace(finding, evidence=json.loads(json.dumps(finding.evidence)))
    for _ in range(times):
        replayed = replay_planted(read_back)
        assert (replayed.verdict, replayed.is_same, replayed.note) == (Verdict.INVALID, True, "")
    read_back.evidence["test_case"]["target"] = {"kind": "toy", "name": OrderedLocks.name}
    assert replay_planted(read_back).verdict is not Verdict.INVALID


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("target", "times"),
    [(LockFile(), TIMES), nightly(BusyLockFile(), 1)],
    ids=["sleeps", "is busy"],
)
def test_the_random_explorer_finds_that_a_lock_file_stays_when_its_writer_is_killed(target: Target, times: int) -> None:
    case = replace(control_case(target, LETTERS, reader_count=0), first_session=(0,), second_session=(1,))
    found: dict[str, tuple[Moves, Violation]] = {}
    with sessions_of(case) as sessions:
        for seed in range(40):
            trace = Trace(sessions, np.random.Generator(np.random.PCG64(seed)))
            trace.go(KILL)
            for violation in trace.world.progress.violations:
                found.setdefault(violation.property, (trace.moves, violation))

    moves, violation = found[Property.ENDS]
    assert violation.sentence.startswith("livelock: it only repeats: open for writing toy/lock")
    replays_always(finding_or_moves(case, moves, violation, phase="random"), times)


class OnlyWritersLock(LockFile):
    """Readers take no lock, so that they can see a part of a commit."""

    name = "only writers lock"

    def read(self, storage: Storage, path: str) -> bytes:
        return Toy.read(self, storage, path)


@pytest.mark.parametrize("explore", [lambda case: explore_product(case, ["A"]), nightly(explore_power)])
def test_crashes_beside_a_reader_and_power_cuts_find_the_lock_file_too(explore: Callable[[TestCase], Phase]) -> None:
    case = replace(control_case(OnlyWritersLock(), LETTERS), first_session=(0,), second_session=(1,))
    phase = explore(case)

    assert phase.verdict is Verdict.INVALID and Property.ENDS in {finding.property for finding in phase.findings}


@pytest.mark.parametrize("limit", [{"attempts": 500}, {"seconds": 30.0}], ids=["attempts", "seconds"])
def test_a_wait_with_a_limit_ends_by_it_when_nobody_else_can_go_on(limit: dict[str, Any]) -> None:
    ends = set()

    def on_end(run: Run) -> None:
        assert not run.world.progress.violations
        ends.add(tuple(mark.value for mark in run.world.nodes[0].marks))

    counts = explore_all(world_of([partial(waits, **limit), leaves_a_lock_file]), on_end)
    assert ends == {("locked",), ("busy",)}
    assert not counts.is_done and counts.late, "what a process does after it gave up was tried in one order only"


def waits(storage: Storage, say: Say, *, attempts: int = 1 << 30, seconds: float = 1e9) -> None:
    end_seconds = storage.monotonic_seconds() + seconds
    for _ in range(attempts):
        if storage.kind(LOCK_FILE) is EntryKind.MISSING:
            say("answered", "locked")
            return
        if storage.monotonic_seconds() > end_seconds:
            break
        storage.sleep_seconds(PAUSE_SECONDS)
    say("answered", "busy")


def leaves_a_lock_file(storage: Storage, say: Say) -> None:
    storage.open_for_writing(LOCK_FILE, OpenMode.NEW).close()


def test_who_tries_again_without_sleeping_is_bounded_and_the_search_is_not_complete() -> None:
    late: list[World] = []
    case = control_case(BusyLockFile(), LETTER)
    process_group = case.process_group()
    counts = explore_all(case.begin(process_group), lambda run: late.append(run.world))
    process_group.close()
    assert not counts.is_done and counts.late, "it may spin for longer than is tried"
    assert not any(world.progress.violations for world in late), "others released the lock after all"


@pytest.mark.parametrize("is_written", [True, False])
def test_who_only_looks_in_a_loop_is_not_ended_while_another_can_go_on(is_written: bool) -> None:
    def looks(storage: Storage, say: Say) -> None:
        with storage.open_for_reading(CELLS) as file:
            while file.pread(1, 0) == bytes(1):
                pass

    def writes(storage: Storage, say: Say) -> None:
        with storage.open_for_writing(CELLS) as file:
            file.pwrite(b"x", 1)
            if is_written:
                file.pwrite(b"x", 0)

    violated: set[tuple[str, ...]] = set()
    counts = explore_all(
        world_of([looks, writes]),
        lambda run: violated.add(tuple(each.property for each in run.world.progress.violations)),
    )
    assert violated == {() if is_written else (Property.ENDS,)}
    assert not counts.is_done


def test_the_schedule_of_a_deadlock_leads_there_again_and_nobody_is_left() -> None:
    case = control_case(CrossedLocks(), LETTER)
    process_group = case.process_group()
    world = case.begin(process_group)
    checked = []

    def on_end(run: Run) -> None:
        again = follow(world, run.schedule(None))
        assert again.nodes == run.world.nodes and again.following(0) is None
        checked.append(bool(again.progress.violations))

    explore_all(world, on_end)
    assert set(checked) == {False, True}
    assert enumerate_schedules(world, lambda end: None) >= len(checked)
    process_group.close()


def test_a_blind_explorer_fails_the_control_of_deadlocks(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = World._break
    monkeypatch.setattr(
        World, "_break", lambda world, violated, *rest: violated == Property.ENDS or broken(world, violated, *rest)
    )
    deadlocks = tuple(each for each in schedule_controls.BROKEN if isinstance(each[0].target, CrossedLocks))
    monkeypatch.setattr(schedule_controls, "BROKEN", deadlocks)
    failed_controls.cache_clear()
    failed = failed_controls(0)
    failed_controls.cache_clear()

    assert {each.partition(" did not detect ")[2] for each in failed} == {
        f"the broken toy {CrossedLocks.name!r}: {Property.ENDS}"
    }
    assert len(failed) == 3, "DPOR and both kinds of random schedules"
