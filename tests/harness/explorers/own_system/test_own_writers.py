"""Several writers of a format that is not ours: lost updates are found, locks are sound, and orders are right."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from depth import sampled
from manifest_log import Log

from tornproof.harness.common.verdict import Verdict, calls_at_most
from tornproof.harness.explorers.own_system.simulated import cases_of
from tornproof.harness.explorers.schedules import writers
from tornproof.harness.explorers.schedules.writers import (
    BOTH_ACKNOWLEDGED,
    ONE_ORDER,
    REJECTED,
    Group,
    explore_writers,
    failed_controls,
    replay_writers,
)
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.toy_locks import UnlockedReaders
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
            ("_Orders._has", lambda self, order, values: True),
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
