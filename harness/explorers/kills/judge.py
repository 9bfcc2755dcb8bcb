"""The properties of a disk after a kill or a failed call, and the fault-free run to compare it with."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tornproof.harness.common import behaviour
from tornproof.harness.common.model_check import ModelCheck
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import shown
from tornproof.harness.explorers.kills.plan import Failing, Failure, Kill, Origin, failures
from tornproof.harness.explorers.kills.sessions import Session, Violation, orderly
from tornproof.harness.search.failed_sync import LOST, LOST_BY_OPENING, LOST_EARLIER, disk_after_failed_sync
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call
from tornproof.harness.simulator.filesystem.kernel import Rejected
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.written import crash_points, replay_prefix
from tornproof.harness.simulator.process.observer import RECOVERIES_MAX, Property
from tornproof.impl.storage.interface import Storage
from tornproof.model.trace import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The fault-free run: its steps, at which of them each commit started and was acknowledged, and what was read.

    `observations` starts with the one before the first commit.
    """

    start: MemoryStorage
    steps: tuple[Call, ...]
    started: tuple[int, ...]
    acknowledged: tuple[int, ...]
    observations: tuple[Hashable, ...]

    def bounds(self, step_count: int, cut_bytes: int) -> tuple[int, int]:
        """Return how many commits were acknowledged, and how many started, at a kill after these steps."""
        low = sum(step_count >= index for index in self.acknowledged)
        high = sum(step_count > index or (cut_bytes > 0 and step_count == index) for index in self.started)
        return low, max(low, high)

    def position(self, origin: Origin) -> dict[str, Any]:
        """Return the position of an origin in the run: commits acknowledged and started, and the next step."""
        if origin.failure is not None:
            return {"acknowledged": origin.failure.operation, "started": origin.failure.operation + 1}
        first = origin.kills[0]
        low, high = self.bounds(first.step_count, first.cut_bytes)
        following = self.steps[first.step_count : first.step_count + 1]
        step = {"step_kind": following[0].kind.value, "path": following[0].path} if following else {}
        return {"acknowledged": low, "started": high, **step}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A disk that was judged: the observation's index, the disk before recovery, and recovery's steps."""

    index: int
    before: MemoryStorage
    steps: Sequence[Call]


class Judge:
    """Judges disks of one target after one sequence of operations; raises `Violation`."""

    def __init__(
        self,
        target: Target,
        operations: Sequence[Any],
        *,
        start: DiskImage | None,
        path: str,
        expected: Sequence[Hashable] | None = None,
    ) -> None:
        """Run the operations without faults; what is read then is correct, unless `expected` is given."""
        self._target = target
        self._operations = operations
        self._path = path
        self._ends: dict[tuple[bytes, int], Violation | None] = {}
        self._seen: dict[bytes, Hashable] = {}
        self._twice: dict[int, Judge | None] = {}
        self.trace = self._fault_free(start, expected)

    def _fault_free(self, start: DiskImage | None, expected: Sequence[Hashable] | None) -> Trace:
        started, acknowledged = [], []
        with self._orderly(Property.FAULT_FREE, "the fault-free run"):
            storage = (MemoryStorage() if start is None else MemoryStorage.of(start)).bounded()
            if start is None:
                self._target.create(storage, self._path)
            check = ModelCheck(self._target, self._operations, storage.image(), self._path)
            observations = [self._read(storage.copy())]
            with self._session(storage) as session:
                for operation in self._operations:
                    started.append(len(session.steps))
                    session.writer.commit(operation)
                    observations.append(self._read(storage.copy()))
                    acknowledged.append(len(session.steps))
                    difference = check.difference(tuple(range(len(started))), storage.image())
                    if difference:
                        raise Violation(Property.CONTENT, f"after {len(started)} commits {difference}")
            last = self._read(storage)
        if last != observations[-1]:
            raise Violation(Property.FAULT_FREE, "closing the writer changed what a reader sees")
        for number, (seen, right) in enumerate(zip(observations, expected or observations, strict=True)):
            if seen != right:
                raise Violation(
                    Property.FAULT_FREE,
                    f"after {number} commits a reader sees {shown(seen)} instead of {shown(right)}",
                )
        return Trace(
            start=session.start,
            steps=tuple(session.steps),
            started=tuple(started),
            acknowledged=tuple(acknowledged),
            observations=tuple(observations),
        )

    def examine(self, storage: MemoryStorage, low: int, high: int, seen: int = 0) -> Recovered:
        """Read, recover, read again and go on, on a disk after `low` commits were acknowledged and `high` started.

        `seen` of them were read before an earlier recovery. Uses the disk up.
        """
        unread, before = storage.copy(), storage.digest()
        index = self._observe(storage, low, high, seen)
        if storage.digest() != before:
            # A reader that repairs hides what a recovery does that comes first.
            self._recover(unread, low, high, (max(seen, low),))
        session = self._recover(storage, low, high, (max(seen, low), index))
        return Recovered(index=index, before=session.start, steps=session.steps)

    def _recover(self, storage: MemoryStorage, low: int, high: int, reads: Sequence[int]) -> Session:
        """Recover a disk of which these versions were read one after the other, read and go on."""
        with self._orderly(Property.RECOVERY, "opening the writer"), self._session(storage) as session:
            pass
        recovered = self._observe(storage, low, high, reads[-1])
        impossible = behaviour.impossible_after(
            Kind.STOPPED, acknowledged=low, begun=high, reads=reads, recovered=recovered
        )
        if impossible:
            raise Violation(Property.BEHAVIOUR, impossible)
        self._go_on(storage, recovered)
        return session

    @cached_property
    def _openings(self) -> list[tuple[int, int, list[Call]]]:
        """The calls of openings after kills, which differ in them, in what is seen before, or in what they change.

        Each with the number of steps before its kill, and of the commits that were acknowledged.
        """
        distinct: dict[object, tuple[int, int, list[Call]]] = {}
        trace = self.trace
        for storage, step_count, _ in crash_points(trace.start, trace.steps, lambda step: ()):
            bounds = trace.bounds(step_count, 0)
            # What an opening violates here is a finding of its own.
            with suppress(Violation):
                opened = storage.copy()
                calls = self.calls_of_opening(opened)
                with self._orderly(Property.REJECTED, "reading"):
                    seen = self._seen_on(storage.copy())
                # What a failed sync loses depends on whether what was written was there before.
                old, new = storage.image().files, opened.image().files
                changed = frozenset(path for path in {*old, *new} if old.get(path) != new.get(path))
                key = bounds, seen, changed, tuple((call.kind, call.path) for call in calls)
                distinct.setdefault(key, (step_count, bounds[0], calls))
        return list(distinct.values())

    def opening_failures(self, failing: Failing) -> Iterator[Origin]:
        """Yield every kill after which a call of the opening fails that is to be tried."""
        for step_count, low, calls in self._openings:
            for failure in failing.of(failures(low, calls)):
                yield Origin((Kill.of(self.trace.steps, step_count, 0),), opening=failure)

    def calls_of_opening(self, storage: MemoryStorage) -> list[Call]:
        """Return all calls that an opening makes; uses the disk up."""
        with self._orderly(Property.RECOVERY, "opening the writer"), self._session(storage) as session:
            return list(session.calls)

    def fail_opening(self, storage: MemoryStorage, low: int, high: int, failure: Failure) -> None:
        """Let a call of an opening fail on a disk of which a reader sees some commit, and examine what that leaves.

        A writer that opens all the same commits the next operation.
        """
        before, calls = storage.copy(), list[Call]()
        ends: list[tuple[Sequence[Any], int, int]] = [((), low, high)]
        seen = self._observe(storage.copy(), low, high, 0)
        with (
            self._orderly(None, "an opening with a failing call"),
            suppress(*self._target.rejections),
            Session(self._target, self._path, storage, failure.fault) as session,
        ):
            calls += session.calls
            seen = self._observe(storage.copy(), low, high, seen)
            for operation in self._operations[seen : seen + 1]:
                high = max(high, seen + 1)
                session.writer.commit(operation)
                low = seen = seen + 1
                ends.append(((operation,), low, high))
        self.examine(storage.copy(), low, high, seen)
        # Without calls it was not opened.
        if calls and failure.call.kind in BARRIERS:
            for end in ends:
                self._lose_opening(before, failure, calls, *end)

    def _lose_opening(
        self,
        storage: MemoryStorage,
        failure: Failure,
        calls: Sequence[Call],
        committed: Sequence[Any],
        low: int,
        high: int,
    ) -> None:
        """Check that no commit is missing when what a failed sync of the opening was to write is."""
        try:
            self.examine(self._without_lost(storage, failure, calls, committed, in_opening=True), low, high)
        except Violation as violation:
            raise Violation(violation.violated, f"{LOST_BY_OPENING}, {violation.reason}") from violation

    def calls_of_commit(self, storage: MemoryStorage, operation: int) -> list[Call]:
        """Return all calls that a freshly opened writer makes for one operation; uses the disk up."""
        with self._orderly(Property.COMMIT, "a commit after a kill"), self._session(storage) as session:
            session.arm()
            session.writer.commit(self._operations[operation])
            return list(session.calls)

    def failures(self) -> Iterator[Failure]:
        """Yield every way in which a call of a commit may fail, commit by commit."""
        trace = self.trace
        for operation, step_count in enumerate(trace.started):
            # A commit that fails here fails after the kill before it too, which is a finding of its own.
            with suppress(Violation):
                calls = self.calls_of_commit(replay_prefix(trace.start, trace.steps, step_count), operation)
                yield from failures(operation, calls)

    def fail(self, storage: MemoryStorage, failure: Failure) -> tuple[MemoryStorage, int, int] | None:
        """Let a call of a commit fail, and return the disk after it and its bounds, or None if the call is never made.

        The process survives the failure: readers and another writer must get in although it is there, whatever locks
        it has kept. Uses the disk up.
        """
        before = storage.copy()
        session: Session | None = None
        is_acknowledged = False
        with self._orderly(None, "a commit with a failing call"), suppress(*self._target.rejections):
            session = self._session(storage)
            with session:
                session.arm(failure.fault)
                session.writer.commit(self._operations[failure.operation])
                is_acknowledged = True
        if session is None or not session.has_failed:
            return None
        if is_acknowledged and failure.call.kind in BARRIERS:
            self._lose_commit(before, failure, session.calls)
        left, low, high = storage.copy(), failure.operation + is_acknowledged, failure.operation + 1
        if storage.is_locked:
            self._observe(storage, low, high, 0)
        with self._orderly(Property.RECOVERY, "opening another writer after the failed one"), self._session(storage):
            pass
        return left, low, high

    def _lose_commit(self, storage: MemoryStorage, failure: Failure, calls: Sequence[Call]) -> None:
        """Check that nothing is missing of a commit that was acknowledged when what its failed sync was to write is."""
        if not self._target.acknowledges_after_failed_sync:
            raise Violation(Property.SYNCED, "the commit was acknowledged")
        count = failure.operation + 1
        try:
            operations = self._operations[failure.operation : count]
            self.examine(self._without_lost(storage, failure, calls, operations), count, count)
        except Violation as violation:
            raise Violation(Property.SYNCED, f"{LOST}, {violation.reason}") from violation

    def _without_lost(
        self,
        storage: MemoryStorage,
        failure: Failure,
        calls: Sequence[Call],
        operations: Sequence[Any],
        *,
        in_opening: bool = False,
    ) -> MemoryStorage:
        """Let the sync among these calls fail again, and return the disk without what it was to write."""
        number = sum(call.kind in BARRIERS for call in calls[: failure.fault.at])
        answer = Rejected(str(failure.fault.reason))
        disk = disk_after_failed_sync(
            self._target, self._path, storage.image(), operations, number, answer, in_opening=in_opening
        )
        return MemoryStorage.of(disk).bounded()

    def commit_again(self, storage: MemoryStorage, failure: Failure) -> None:
        """Let a call of a commit fail, give the commit to the same writer again, and examine what it acknowledges.

        One that cannot go on rejects that, too. Uses the disk up.
        """
        left: MemoryStorage | None = None
        before = storage.copy()
        operation = self._operations[failure.operation]
        doing = "the writer that rejected the commit, when it is given it again,"
        with self._orderly(None, doing), suppress(*self._target.rejections), self._session(storage) as session:
            session.arm(failure.fault)
            try:
                session.writer.commit(operation)
            except self._target.rejections:
                session.writer.commit(operation)
                left = storage.copy()
        if left is None:
            return
        try:
            self._examine_twice(left, failure.operation)
            if failure.call.kind in BARRIERS:
                self._lose_rejected(before, failure, session.calls)
        except Violation as violation:
            raise Violation(violation.violated, f"{doing} acknowledges it, and {violation.reason}") from violation

    def _lose_rejected(self, storage: MemoryStorage, failure: Failure, calls: Sequence[Call]) -> None:
        """Check that nothing is missing when what the failed sync of the commit that was rejected was to write is."""
        twice = (self._operations[failure.operation],) * 2
        try:
            self._examine_twice(self._without_lost(storage, failure, calls, twice), failure.operation)
        except Violation as violation:
            raise Violation(violation.violated, f"{LOST_EARLIER}, {violation.reason}") from violation

    def _examine_twice(self, storage: MemoryStorage, operation: int) -> None:
        """Examine a disk on which an operation was rejected, then acknowledged: it is there once, or twice."""
        count = operation + 1
        with self._orderly(Property.REJECTED, "reading"):
            seen = self._seen_on(storage.copy())
        twice = None if seen == self.trace.observations[count] else self._judge_of_twice(operation)
        if twice is not None and seen == twice.trace.observations[count + 1]:
            twice.examine(storage, count + 1, count + 1)
        else:
            self.examine(storage, count, count)

    def _judge_of_twice(self, operation: int) -> Judge | None:
        """Return the judge of the same operations with one of them done twice, None where that cannot be."""
        if operation not in self._twice:
            operations = (*self._operations[: operation + 1], *self._operations[operation:])
            self._twice[operation] = None
            with suppress(Violation):
                start = self.trace.start.image()
                self._twice[operation] = Judge(self._target, operations, start=start, path=self._path)
        return self._twice[operation]

    def _go_on(self, storage: MemoryStorage, index: int) -> None:
        """Open a second time, do the remaining operations and compare the end; cached for each recovered state."""
        key = storage.digest(), index
        if key not in self._ends:
            self._ends[key] = None
            try:
                self._reach_the_end(storage, index)
            except Violation as violation:
                self._ends[key] = violation
        known = self._ends[key]
        if known is not None:
            raise Violation(known.violated, known.reason)

    def _reach_the_end(self, storage: MemoryStorage, index: int) -> None:
        recovered = storage.copy()
        with (
            self._orderly(Property.COMMIT, "going on after recovery"),
            self._target.open_writer(storage, self._path) as writer,
        ):
            self._compare(recovered, storage)
            for operation in self._operations[index:]:
                writer.commit(operation)
        with self._orderly(Property.COMMIT, "reading after going on"):
            seen = self._read(storage)
        if seen != self.trace.observations[-1]:
            raise Violation(
                Property.COMMIT,
                f"after the remaining {len(self._operations) - index} operations a reader sees {shown(seen)} "
                f"instead of {shown(self.trace.observations[-1])}",
            )

    def _compare(self, recovered: MemoryStorage, again: MemoryStorage) -> None:
        """Compare a disk after two recoveries with the one after the first of them, and after others that change it."""
        if again.digest() == recovered.digest():
            return
        if not self._target.only_reads_count:
            raise Violation(Property.IDEMPOTENT, "opening the writer a second time changed the files again")
        before, again, digests = self._seen_on(recovered), again.copy(), {recovered.digest()}
        for number in range(2, RECOVERIES_MAX + 1):
            if number > 2:
                with self._orderly(Property.RECOVERY, "opening the writer again"), self._session(again):
                    pass
            if again.digest() in digests:
                return
            digests.add(again.digest())
            after = self._seen_on(again.copy())
            if after != before:
                doing = f"opening the writer {'a second time' if number == 2 else f'{number} times'} changed"
                raise Violation(
                    Property.IDEMPOTENT, f"{doing} what a reader sees: {shown(before)}, then {shown(after)}"
                )

    def _observe(self, storage: MemoryStorage, low: int, high: int, seen_before: int) -> int:
        """Return the number of commits in what a reader sees, the largest that fits."""
        with self._orderly(Property.REJECTED, "reading"):
            seen = self._seen_on(storage)
        fitting = [number for number, right in enumerate(self.trace.observations) if right == seen]
        if not fitting:
            raise Violation(Property.WRONG_SNAPSHOT, f"a reader sees {shown(seen)}, which no commit left")
        allowed = [number for number in fitting if low <= number <= high]
        if not allowed and fitting[-1] < low:
            raise Violation(Property.LOST, f"a reader sees commit {fitting[-1]}, though {low} was acknowledged")
        if not allowed:
            raise Violation(
                Property.WRONG_SNAPSHOT, f"a reader sees commit {fitting[0]}, though only {high} had started"
            )
        if allowed[-1] < seen_before:
            raise Violation(Property.SEEN_LOST, f"a reader saw commit {seen_before} before it, and {allowed[-1]} after")
        return allowed[-1]

    def _seen_on(self, storage: MemoryStorage) -> Hashable:
        """Return what a reader sees, which was seen before if it read a disk with the same files and changed nothing.

        A lock that somebody left may keep it from reading.
        """
        digest = storage.digest()
        if digest in self._seen and not storage.is_locked:
            return self._seen[digest]
        seen = self._read(storage.fork_process())
        if storage.digest() == digest:
            self._seen[digest] = seen
        return seen

    def _read(self, storage: Storage) -> Hashable:
        return self._target.read(storage, self._path)

    def _session(self, storage: MemoryStorage) -> Session:
        return Session(self._target, self._path, storage)

    def _orderly(self, rejected: str | None, doing: str) -> AbstractContextManager[None]:
        return orderly(self._target, rejected, doing)
