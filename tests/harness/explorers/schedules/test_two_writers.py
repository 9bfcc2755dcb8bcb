"""Two writers of a table at once: one is kept out, none of their commits is lost, and what breaks that is found."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from depth import sampled

from tornproof.harness.check import make_table
from tornproof.harness.common.effort import DEFAULT, EFFORTS, Bounds
from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.actions import CHANGING, LOOKS
from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.explorers.schedules import writers
from tornproof.harness.explorers.schedules.controls import LETTERS, control_case
from tornproof.harness.explorers.schedules.points import POINTS_OF_A_PURGE
from tornproof.harness.explorers.schedules.writers import (
    BOTH_ACKNOWLEDGED,
    DIED_AT_WORK,
    FAILED_TO_OPEN,
    KEPT_OUT,
)
from tornproof.harness.explorers.schedules.writers_cause import Taken, _violated_if_waiting
from tornproof.harness.explorers.simulated_phases import simulate
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.replay import replay_finding
from tornproof.harness.search.dpor import explore_all
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import ONE_ORDER, Property, Violation
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.simulation import Setting, two_writers_of_table
from tornproof.harness.systems.toy_locks import StumblesOverOthers
from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.storage.interface import OpenMode, Storage
from tornproof.impl.txn.pins import PINS_FILE, WriterLock

IMAGE, _ = make_table()
PATH = "made"
SCHEDULES_OF_A_PLANT = 24
BOTH_COMMIT, OTHER_PURGES = "two writers", "a purge by another writer"


def settings(name: str) -> Sequence[Setting]:
    return [each for each in two_writers_of_table(IMAGE, PATH, HARDENED_PRESET) if f", {name}" in each.name]


def explored(name: str, schedules_max: int = 400) -> Phase:
    bounds = replace(Bounds.of(EFFORTS[DEFAULT]), schedules=schedules_max)
    return simulate(Explorer.SCHEDULES, settings(name), bounds=bounds)


def test_two_writers_of_a_sound_table_exclude_each_other() -> None:
    phase = explored(BOTH_COMMIT)
    assert (phase.verdict, phase.controls, phase.findings) == (Verdict.VALID, "passed", ())
    assert phase.complete and phase.counts["reduced schedules"] >= 4
    assert all(phase.reached[goal] for goal in (BOTH_ACKNOWLEDGED, KEPT_OUT, DIED_AT_WORK, FAILED_TO_OPEN))
    # After each call of the first writer it dies once.
    assert phase.reached[DIED_AT_WORK] < phase.counts["deaths"] < 400


def test_a_purge_by_another_writer_beside_a_pinned_reader_reaches_what_pins_decide() -> None:
    phase = explored(OTHER_PURGES)
    assert (phase.verdict, phase.findings) == (Verdict.VALID, ()) and phase.complete
    assert all(phase.reached[goal] for goal in POINTS_OF_A_PURGE)


def never_locked(_: Callable[..., WriterLock]) -> Callable[..., WriterLock]:
    def take(storage: Storage, path: str) -> WriterLock:
        return WriterLock(storage.open_for_writing(f"{path}/{PINS_FILE}", OpenMode.EXISTING_OR_NEW))

    return take


class FileLock(WriterLock):
    """Keeps others out by a file, which a killed writer leaves."""

    def __init__(self, storage: Storage, path: str) -> None:
        self.storage, self.path, self.is_over = storage, path, False
        self.lock = never_locked(WriterLock)(storage, path)
        super().__init__(self.lock._file)
        try:
            storage.open_for_writing(f"{path}/lock", OpenMode.NEW).close()
        except StorageError as error:
            self.lock.release()
            raise BusyError("there is a lock file") from error

    def release(self) -> None:
        self.lock.release()
        if not self.is_over:
            self.is_over = True
            self.storage.unlink(f"{self.path}/lock")


def left_behind(take: Callable[..., WriterLock]) -> Callable[..., WriterLock]:
    def both(storage: Storage, path: str) -> WriterLock:
        # The sound lock comes first, so that the second writer waits before it.
        take(storage, path).release()
        return FileLock(storage, path)

    return both


def released_early(stack: ExitStack) -> None:
    """Let a writer release its lock when it has planned its commit, and has yet to execute it."""
    locks: dict[int, WriterLock] = {}

    def remembered(take: Callable[..., WriterLock]) -> Callable[..., WriterLock]:
        def taken(storage: Storage, path: str) -> WriterLock:
            locks[id(storage)] = take(storage, path)
            return locks[id(storage)]

        return taken

    def unlocked(execute: Callable[..., None]) -> Callable[..., None]:
        def executed(protocol: Any, storage: Storage, *more: Any) -> None:
            locks[id(storage)].release()
            execute(protocol, storage, *more)

        return executed

    stack.enter_context(wrapped("tornproof.impl.write.table_writer:take_writer_lock", remembered))
    stack.enter_context(wrapped("tornproof.impl.write.table_writer:execute", unlocked))


def blind_to_pins(take: Callable[..., WriterLock]) -> Callable[..., Any]:
    class Blind(WriterLock):
        def exclude_pins(self, versions: range) -> Any:
            return nullcontext(True)

    return lambda storage, path: Blind(take(storage, path)._file)


def plant(name: str, stack: ExitStack) -> None:
    if name == "released early":
        released_early(stack)
        return
    if name not in WRAPS:
        stack.enter_context(file_named(name).patch.planted(lambda: None))
        return
    stack.enter_context(wrapped("tornproof.impl.write.table_writer:take_writer_lock", WRAPS[name]))


WRAPS = {"never locked": never_locked, "left behind": left_behind, "blind to pins": blind_to_pins}


@pytest.mark.parametrize(
    ("name", "planted", "violated", "cause"),
    sampled(
        3,
        [
            (BOTH_COMMIT, "never locked", {ONE_ORDER, Property.REJECTED}, "without a lock while writer 1 is at work"),
            (BOTH_COMMIT, "released early", {ONE_ORDER, Property.REJECTED}, "without a lock while writer 2 is at work"),
            (BOTH_COMMIT, "left behind", {Property.RECOVERY}, "the first writer dies before: close lock"),
            (OTHER_PURGES, "blind to pins", {Property.REJECTED}, "while reader 1 is at work: remove"),
            (OTHER_PURGES, "never locked", {ONE_ORDER, Property.REJECTED}, "without a lock while writer 2 is at work"),
            (BOTH_COMMIT, "a failed opening keeps the lock", {Property.RECOVERY}, "writer 1 keeps its lock"),
            (BOTH_COMMIT, "recovery before the lock", {ONE_ORDER, Property.REJECTED}, "at work: read version 6"),
            (BOTH_COMMIT, "writers share their lock", {ONE_ORDER, Property.REJECTED}, "with a lock while writer 2"),
        ],
    ),
)
def test_a_lock_that_does_not_keep_out_is_found_with_its_cause_and_replays(
    name: str, planted: str, violated: set[str], cause: str
) -> None:
    with ExitStack() as stack:
        plant(planted, stack)
        phase = explored(name, SCHEDULES_OF_A_PLANT)
        found: list[Finding] = [each for each in phase.findings if each.property in violated]
        assert found and phase.verdict is Verdict.INVALID
        assert cause in causes_of(found[0].evidence)[0]
        assert {replay_finding(found[0], IMAGE, PATH) for _ in range(3)} == {Verdict.INVALID}
    assert replay_finding(found[0], IMAGE, PATH) is not Verdict.INVALID


_left_by = writers._Explorer._left_by


def text_of_a_rejection(self: Any, kernel: Any) -> Any:
    left = _left_by(self, kernel)
    return getattr(left, "text", left)


@pytest.mark.parametrize(
    ("name", "blind"),
    sampled(
        2,
        [
            ("_Explorer.kill", lambda self, has_time: 0),
            ("_Explorer.without_first", lambda self, world, end: world),
            ("_Orders.broken", None),
            ("_Explorer._left_by", text_of_a_rejection),
        ],
    ),
)
def test_a_judge_of_two_writers_that_sees_less_fails_a_control(
    name: str, blind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blind is None:
        monkeypatch.setattr(writers._Orders, "_broken", lambda self, said, left: None)
    else:
        monkeypatch.setattr(f"tornproof.harness.explorers.schedules.writers.{name}", blind)
    assert writers.failed_controls()


@pytest.mark.parametrize("index", [0, 1])
def test_a_writer_that_ends_by_a_mistake_is_called_by_its_own_name(index: int) -> None:
    group, world = writers.Group(case=control_case(StumblesOverOthers(), LETTERS), writer_count=2).begin()
    while world.call(1 - index).kind is not CallKind.PWRITE:
        world.step(1 - index)
    world.run(index)
    group.close()
    named = {each.property: each.process for each in world.progress.violations}
    assert named[Property.DISORDERLY] == f"writer {1 + index}"


def test_waiting_helps_at_the_step_of_a_cause_and_at_no_later_one() -> None:
    (setting,) = settings(BOTH_COMMIT)
    with ExitStack() as stack:
        plant("recovery before the lock", stack)
        explorer = writers._Explorer(writers.Group(case=setting.case, writer_count=2))
        stack.callback(explorer.close)
        explore_all(explorer.world, explorer.end, schedules_max=SCHEDULES_OF_A_PLANT)
        finding = next(iter(explorer.found.values()))
        order = [index for index, count in finding.evidence["schedule"] for _ in range(count)]
        helping: list[tuple[int, Call]] = []
        others: list[tuple[int, Call]] = []
        for number, index in enumerate(order):
            world = explorer.world.fork()
            for step in order[:number]:
                world.step(step)
            call = world.call(index)
            if index == 1 and call.kind in CHANGING | LOOKS and world.nodes[0].depth > 0 and world.nodes[0].call:
                world.run(0)
                world.finish()
                violated = {each.property for each in explorer.judge(world)}
                (others if finding.property in violated else helping).append((number, call))
        # Behind these are steps under the lock, which keeps the other writer out.
        before = [(number, call) for number, call in helping if number < others[0][0]]
        _, call = before[-1]
        assert (call.kind, call.path) == (CallKind.PREAD, f"{PATH}/_txn")
        assert "read version 6 (_txn)" in causes_of(explorer.with_cause(finding).evidence)[0]


class Steps:
    """A world of processes that have so many steps each, which are kept in the order in which they are taken."""

    def __init__(self, *counts: int) -> None:
        self.left, self.taken = [*counts], ""

    @property
    def nodes(self) -> list[Any]:
        return [SimpleNamespace(goes_on=count > 0) for count in self.left]

    def fork(self) -> "Steps":
        return Steps(*self.left)

    def step(self, process: int) -> None:
        self.left[process] -= 1
        self.taken += str(process)

    def run(self, process: int) -> None:
        while self.left[process]:
            self.step(process)

    def finish(self) -> None:
        for process in range(len(self.left)):
            self.run(process)


def test_who_waits_for_another_one_leaves_the_order_of_all_others_as_it_was() -> None:
    order = [0, 1, 0, 2, 1, 2, 1]
    judged: list[str] = []

    def judge(world: Steps) -> list[Any]:
        judged.append(world.taken)
        return []

    taken = [Taken(process, "", True, False, ()) for process in order]
    explorer: Any = SimpleNamespace(world=Steps(2, 3, 2), judge=judge)
    assert _violated_if_waiting(explorer, taken, 1, 0) == set()
    assert judged == ["0012121"]


def test_what_two_readers_saw_must_fit_one_order_together() -> None:
    def said(*reads: tuple[str, tuple[frozenset[str], ...]]) -> writers._Said:
        return writers._Said(begun=(1, 1), acknowledged=(1, 1), reads=reads, violations=())

    def before(one: Any, *others: Any) -> Any:
        return (one,), others

    case = SimpleNamespace(oracle=frozenset)
    orders = writers._Orders(SimpleNamespace(sessions=[("a",), ("b",)], case=case))  # type: ignore[arg-type]  # no more is asked of it
    first, second, both = frozenset("a"), frozenset("b"), frozenset("ab")
    assert orders.broken(said(("reader 1", (first, both)), ("reader 2", (first,))), both) is None
    assert orders.broken(said(("reader 1", (second,)), ("reader 2", (both,))), both) is None
    contradicting = orders.broken(said(("reader 1", (first,)), ("reader 2", (second,))), both)
    assert contradicting is not None and contradicting.process == "readers"
    # What was acknowledged before a read must be in it.
    seen = said(("reader 1", (first,)), ("reader 2", (both, both)))
    assert orders.broken(seen._replace(before=before(("a",), (), ("b",))), both) is None
    stale = orders.broken(seen._replace(before=before(("b",), (), ())), both)
    assert stale is not None and (stale.property, stale.process) == (Property.STALE, "reader 1")


def test_of_several_processes_that_break_the_same_each_is_found() -> None:
    case = TestCase(target=StumblesOverOthers(), path="toy", operations=(b"one", b"t"), first_session=(0, 1))
    explorer = writers._Explorer(writers.Group(case=case, writer_count=2))
    try:
        broken = tuple(Violation(Property.DISORDERLY, f"writer {number}", "LookupError") for number in (1, 2))
        said = explorer._said(explorer.world)._replace(violations=broken)
        for violation in explorer._violated(said, explorer.world):
            explorer._find(violation, ((0, 1),))
    finally:
        explorer.close()
    assert explorer.found.keys() == {(Property.DISORDERLY, "writer 1"), (Property.DISORDERLY, "writer 2")}
