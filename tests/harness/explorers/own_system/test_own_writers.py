"""Several writers of a format that is not ours: lost updates are found, locks are sound, and orders are right."""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from broken_toys import FOUND, Ends
from depth import sampled
from manifest_log import Log
from waiting import WaitsInVain

from tornproof.harness.common.verdict import Finding, Verdict, calls_at_most
from tornproof.harness.counterexamples.words import FAILURES
from tornproof.harness.explorers.own_system.simulated import cases_of
from tornproof.harness.explorers.own_system.writers_execution import writers_execution
from tornproof.harness.explorers.schedules import writers
from tornproof.harness.explorers.schedules.writers import (
    BOTH_ACKNOWLEDGED,
    REJECTED,
    Group,
    explore_writers,
    failed_controls,
    replay_writers,
)
from tornproof.harness.search.every_order import every_end
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED, SEEN
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import ONE_ORDER, Judge, Progress, Property
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.toy import Toy
from tornproof.harness.systems.toy_locks import HandsOver, OrderedLocks, UnlockedReaders
from tornproof.testing import LockMode, OpenMode, Storage, StorageError, target

OPERATIONS = (b"one", b"twos")


class Locked(Log):
    """The same with a lock file that one writer at a time has."""

    waits = True

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        storage.open_for_writing(f"{path}/lock", OpenMode.NEW).close()

    def commit(self, storage: Storage, path: str, record: bytes) -> None:
        with storage.open_for_writing(f"{path}/lock") as lock:
            if self.waits:
                lock.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
            elif not lock.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
                raise ValueError("another writer is at work")
            super().commit(storage, path, record)

    def recover(self, storage: Storage, path: str) -> None:
        """What a killed writer left is overwritten by the next one."""

    def publish(self, storage: Storage, path: str, count: int, log: bytes) -> None:
        with suppress(StorageError):
            storage.unlink(f"{path}/new")
        super().publish(storage, path, count, log)


def group_of(log: Log, operations: tuple[bytes, ...] = OPERATIONS, *, writer_count: int = 2, reads: int = 1) -> Group:
    of = target(log)
    (case,) = cases_of(Explorer.SCHEDULES, of, operations, [Readers(read_count=reads)]).values()
    return Group(case=case, writer_count=writer_count)


def test_a_lost_update_of_two_writers_is_found_and_replays() -> None:
    group = group_of(Log())
    phase = explore_writers(group, schedules_max=2_000)
    assert phase.verdict is Verdict.INVALID
    found = {finding.property: finding for finding in phase.findings}
    assert found.keys() & {ONE_ORDER, Property.REJECTED}
    for finding in phase.findings:
        assert {replay_writers(group, finding) for _ in range(10)} == {Verdict.INVALID}
        assert replay_writers(group_of(Locked("locked")), finding) is not Verdict.INVALID


def test_of_many_turns_of_a_run_the_last_ones_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(Log())
    finding = explore_writers(group, schedules_max=2_000, controls=()).findings[0]
    story = writers_execution(group, finding)
    monkeypatch.setattr("tornproof.harness.explorers.own_system.writers_execution.TURNS_SHOWN_MAX", 1)
    assert writers_execution(group, finding) == [
        "writer 1 commits b'one'",
        "writer 2 commits b'twos'",
        f"  ({len(story) - 5} turns before)",
        *story[-3:],
    ]


def test_what_several_writers_leave_is_called_in_words() -> None:
    finding = next(each for each in explore_writers(group_of(Log()), schedules_max=2_000, controls=()).findings)
    assert finding.property in FAILURES and "violates: " not in finding.sentence


@pytest.mark.parametrize("waits", [True, False])
def test_writers_that_lock_each_other_out_are_sound(waits: bool) -> None:
    phase = explore_writers(group_of(Locked("locked", waits=waits)), schedules_max=2_000)
    assert (phase.verdict, phase.controls, phase.note, phase.findings) == (Verdict.VALID, "passed", "", ())
    assert phase.reached[BOTH_ACKNOWLEDGED] > 0 and (phase.reached[REJECTED] > 0) is not waits
    assert phase.complete and phase.explored > 5


class GoesBack(UnlockedReaders):
    """Takes back what it has written, for a moment."""

    name = "goes back"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        with storage.open_for_writing(f"{path}/state") as file:
            file.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
            size = file.size_bytes()
            file.pwrite(operation, size)
            file.truncate(size)
            file.pwrite(operation, size)


def test_a_reader_that_sees_commits_and_then_fewer_of_them_is_found() -> None:
    once, twice = (
        TestCase(target=GoesBack(), path="toy", operations=(b"a", b"b"), first_session=(0, 1), readers=(readers,))
        for readers in (Readers(read_count=1), Readers(read_count=2))
    )
    phase = explore_writers(Group(case=once, writer_count=2), schedules_max=2_000, controls=())
    assert phase.verdict is Verdict.VALID, "each of the two states is what some commits leave"
    phase = explore_writers(Group(case=twice, writer_count=2), schedules_max=2_000, controls=())
    assert [finding.property for finding in phase.findings] == [ONE_ORDER]


class Remembers(OrderedLocks):
    """Broken: its reader looks once, and then says the same for ever."""

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        yield cache(lambda: self.read(storage, path))


def letters_of(toy: Toy, *, read_count: int, style: str = "fresh") -> Group:
    readers = (Readers(read_count=read_count, style=style),)
    case = TestCase(target=toy, path="toy", operations=(b"a", b"b"), first_session=(0, 1), readers=readers)
    return Group(case=case, writer_count=2)


@pytest.mark.parametrize(("toy", "read_count"), [(HandsOver(), 1), (Remembers(), 2)])
def test_a_read_that_lacks_what_was_acknowledged_before_it_is_found_beside_two_writers_and_replays(
    toy: Toy, read_count: int
) -> None:
    """Whatever the first commits of some order leave was right at any time, however much was acknowledged by then."""
    group = letters_of(toy, read_count=read_count)
    phase = explore_writers(group, schedules_max=400, controls=())
    assert [finding.property for finding in phase.findings] == [Property.STALE]
    (finding,) = phase.findings
    assert re.search("was seen, although (1 commit was|2 commits were) acknowledged before", finding.sentence)
    assert {replay_writers(group, finding) for _ in range(10)} == {Verdict.INVALID}
    assert replay_writers(letters_of(OrderedLocks(), read_count=read_count), finding) is not Verdict.INVALID


@pytest.mark.parametrize(
    "changed",
    [
        {"schedule": [[0, -1]]},
        {"schedule": [[0, 1.5]]},
        {"schedule": [[0, True]]},
        {"schedule": [[-1, 1]]},
        {"schedule": [[0, 10**30]]},
        {"end": "it stops"},
    ],
    ids=str,
)
def test_a_finding_of_several_writers_with_other_numbers_or_another_end_cannot_be_replayed(
    changed: dict[str, Any],
) -> None:
    group = letters_of(OrderedLocks(), read_count=1)
    evidence = {"schedule": [[0, 1]], "end": "", **changed}
    finding = Finding(property=Property.STALE, phase="schedules", sentence="s", evidence=evidence)
    assert replay_writers(group, finding) is Verdict.UNKNOWN


def test_a_commit_that_is_acknowledged_when_only_time_can_help_is_not_before_the_reads_that_ended() -> None:
    class Waits(WaitsInVain, OrderedLocks): ...

    phase = explore_writers(letters_of(Waits(), read_count=2), schedules_max=400, controls=())
    assert (phase.verdict, phase.findings) == (Verdict.VALID, ())


@pytest.mark.parametrize("end", FOUND)
def test_a_reader_that_exits_beside_two_writers_is_a_finding_and_replays(end: type[BaseException]) -> None:
    """It ended the test, and the finding was lost."""
    group = letters_of(Ends(end), read_count=1)
    phase = explore_writers(group, schedules_max=200, controls=())
    found = [each for each in phase.findings if each.property == Property.DISORDERLY]
    for finding in found:
        assert f"{end.__name__}: the count is wrong" in finding.sentence
        assert replay_writers(group, finding) is Verdict.INVALID
    assert found


def test_an_interrupt_ends_the_exploration_of_two_writers() -> None:
    with pytest.raises(KeyboardInterrupt):
        explore_writers(letters_of(Ends(KeyboardInterrupt), read_count=1), schedules_max=200, controls=())


class Drawn(Toy):
    """Random steps: a commit stages its letter or publishes it, its own or all that are staged, or takes it back."""

    def __init__(self, generator: random.Random) -> None:
        self.name = "drawn"
        steps = ["stage", "publish", "publish", "publish all", "take back"]
        self.steps = {letter: generator.sample(steps, 2) for letter in b"ab"}
        self.looks = [generator.random() < 0.7 for _ in range(2)]

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/letters", OpenMode.NEW) as file:
            file.pwrite(b"....", 0)

    def read(self, storage: Storage, path: str) -> bytes:
        return storage.open_for_reading(f"{path}/letters").pread(2, 0)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Any]:
        file = storage.open_for_writing(f"{path}/letters")
        committed = b""

        def take(step: str, letter: bytes) -> None:
            match step:
                case "stage":
                    file.pwrite(letter, 2 + b"ab".index(letter))
                case "publish":
                    file.pwrite(letter, b"ab".index(letter))
                case "publish all":
                    for staged in file.pread(2, 2).replace(b".", b""):
                        take("publish", bytes([staged]))
                case "take back":
                    file.pwrite(b".", b"ab".index(letter))

        def commit(operation: bytes) -> None:
            nonlocal committed
            committed = operation
            for step in self.steps[operation[0]]:
                take(step, operation)

        yield SimpleNamespace(commit=commit)
        take("publish", committed)

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        looks, seen = iter(self.looks), [b".."]

        def read() -> bytes:
            # By a fresh reader it is judged what commits leave.
            if style == "fresh" or next(looks):
                seen.append(self.read(storage, path))
            return seen[-1]

        yield read


class Logs(Judge):
    """Notes in one sequence who acknowledges which commit, and who begins a read."""

    def observe(self, progress: Progress, process: str, node: Node) -> Progress:
        acknowledged = [(process, int(str(mark.value))) for mark in node.marks if mark.kind == ACKNOWLEDGED]
        return progress._replace(observations=(*progress.observations, *acknowledged))

    def begin_read(self, progress: Progress, process: str) -> Progress:
        return progress._replace(observations=(*progress.observations, (process, -1)))


def judged(end: World) -> str:
    """Return what is wrong with an end of two commits and one reader: no order of the two allows what was seen."""
    seen = [mark.value for node in path_to(end.nodes[2]) for mark in node.marks if mark.kind == SEEN]
    numbers = [number for _, number in end.progress.observations]
    begun = [at for at, number in enumerate(numbers) if number < 0]
    before = [set(numbers[:at]) - {-1} for at in begun]

    def allows(order: tuple[int, ...], required: Sequence[set[int]]) -> bool:
        return any(
            all(
                left_by(order[:count]) == value and least <= set(order[:count])
                for count, value, least in zip(counts, seen, required, strict=True)
            )
            for counts in itertools.combinations_with_replacement(range(3), len(seen))
        )

    def left_by(commits: tuple[int, ...]) -> bytes:
        return bytes(letter if number in commits else ord(".") for number, letter in enumerate(b"ab"))

    orders = list(itertools.permutations((0, 1)))
    is_left = end.kernel.image().files["toy/letters"].startswith(b"ab")
    if not is_left or not any(allows(order, [set()] * len(seen)) for order in orders):
        return ONE_ORDER
    return "" if any(allows(order, before) for order in orders) else Property.STALE


def found_and_judged(seed: int) -> tuple[set[str], set[str]]:
    """Return what the explorer finds in a random format, and what is wrong with an end of any order of all calls."""
    group = letters_of(Drawn(random.Random(seed)), read_count=2, style="living")
    phase = explore_writers(group, schedules_max=100_000, controls=())
    assert phase.complete
    for finding in phase.findings:
        assert replay_writers(group, finding) is Verdict.INVALID
    processes, _ = group.begin()
    try:
        every = replace(processes, judge=Logs(lambda operations: None)).begin(group.case.kernel(), Progress())
        return {finding.property for finding in phase.findings}, set(map(judged, every_end(every))) - {""}
    finally:
        processes.close()


@pytest.mark.parametrize("seed", sampled(4, range(60)))
def test_a_random_format_of_two_writers_is_judged_as_in_every_order_of_all_calls(seed: int) -> None:
    found, wrong = found_and_judged(seed)
    assert found == wrong


def test_some_random_formats_are_sound_some_stale_and_some_in_no_order() -> None:
    assert [found_and_judged(seed)[1] for seed in (1, 2, 3)] == [set(), {Property.STALE}, {Property.STALE, ONE_ORDER}]


def test_a_search_that_is_cut_says_so_and_one_that_reached_less_than_it_must_is_no_verdict() -> None:
    cut = explore_writers(group_of(Locked("locked")), schedules_max=2_000, has_time=calls_at_most(3))
    assert not cut.complete and "the first " in cut.bound


def test_orders_are_all_interleavings_of_what_was_acknowledged_and_of_what_may_follow() -> None:
    orders = writers._Orders(group_of(Log(), (b"a", b"b", b"c", b"d")))
    for begun, acknowledged in (((2, 2), (2, 2)), ((2, 1), (1, 1)), ((2, 2), (0, 1)), ((0, 1), (0, 0))):
        said = writers._Said(begun, acknowledged, (), ())
        expected = set()
        for chosen in itertools.product(range(3), repeat=2):
            if all(low <= count <= high for low, count, high in zip(acknowledged, chosen, begun, strict=True)):
                own = [(0, 2)[: chosen[0]], (1, 3)[: chosen[1]]]
                for order in itertools.permutations(own[0] + own[1]):
                    if all(tuple(each for each in order if each in session) == session for session in own):
                        expected.add(order)
        found = list(orders._all(said))
        assert set(found) == expected and len(found) == len(expected)


@pytest.mark.parametrize(
    ("name", "blind"), [("_Orders._stale", lambda *_: None), ("LateReads.of", lambda *_: iter(()))]
)
def test_a_judge_that_does_not_ask_what_was_acknowledged_fails_a_control(
    name: str, blind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "CONTROLS", [each for each in writers.CONTROLS if Property.STALE in each])
    monkeypatch.setattr(writers, "SOUND", ())
    assert failed_controls() == []
    with blinded(monkeypatch, f"tornproof.harness.explorers.schedules.writers.{name}", blind):
        assert failed_controls()


@contextmanager
def blinded(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(name, value)
        yield


@pytest.mark.parametrize(
    ("name", "blind"),
    sampled(
        2,
        [
            ("_Orders._has", lambda *_: True),
            ("_Orders._afterwards", lambda self, order: None),
            ("_Explorer._left_by", lambda self, kernel: self._orders._after((0, 1))),
            ("Group.sessions", property(lambda self: [self.case.first_session])),
        ],
    ),
)
def test_a_blinded_judge_or_a_second_writer_that_is_missing_fails_a_control(
    name: str, blind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failed_controls() == []
    with blinded(monkeypatch, f"tornproof.harness.explorers.schedules.writers.{name}", blind):
        assert failed_controls()
