"""Formats of users that are right in a way of their own are not accused, and the wrong twin of each still is."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tornproof.harness.common.effort import EFFORTS, Bounds
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.kills.explorer import explore_crashes
from tornproof.harness.explorers.own_system.machine import explore_executions
from tornproof.harness.explorers.own_system.replaying import NOT_REPLAYABLE, violation_of
from tornproof.harness.explorers.own_system.simulated import cases_of, explore_simulated
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.scenario import Explorer
from tornproof.testing import (
    PATH,
    EntryKind,
    FunctionTarget,
    OpenMode,
    Storage,
    StorageError,
    TargetError,
    rehearse,
    target,
)

OPERATIONS = ("a", "b")
SMALL = Bounds.of(EFFORTS["small"])
SIMULATED = (Explorer.POWER, Explorer.SCHEDULES, Explorer.PRODUCT)


class ExistsError(Exception):
    """Rejects a key that is there."""


def checked(key: str) -> bytes:
    """Return a record of a key of one letter."""
    return key.encode() + zlib.crc32(key.encode()).to_bytes(4, "little")


class KeyLog:
    """Appends keys, and rejects one that is there."""

    rejections = (ExistsError,)

    def __init__(self) -> None:
        self.name = type(self).__name__

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/log", OpenMode.NEW) as file:
            file.fsync()
        storage.sync_directory(path)

    def read(self, storage: Storage, path: str) -> tuple[str, ...]:
        return self.keys_in(content_of(storage, f"{path}/log"))

    def keys_in(self, content: bytes) -> tuple[str, ...]:
        keys = []
        for start in range(0, len(content), 5):
            key = content[start : start + 1].decode("latin-1")
            if content[start : start + 5] != checked(key):
                break
            keys.append(key)
        return tuple(keys)

    def recover(self, storage: Storage, path: str) -> None:
        keys = self.read(storage, path)
        with storage.open_for_writing(f"{path}/log") as file:
            file.truncate(5 * len(keys))
            file.pwrite(b"".join(map(checked, keys)), 0)
            file.fsync()

    def commit(self, storage: Storage, path: str, key: str) -> None:
        keys = self.read(storage, path)
        self.check(keys, key)
        self.append(storage, path, keys, key)

    def check(self, keys: Sequence[str], key: str) -> None:
        if key in keys:
            raise ExistsError(key)

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        with storage.open_for_writing(f"{path}/log") as file:
            file.pwrite(checked(key), 5 * len(keys))
            file.fsync()


def content_of(storage: Storage, path: str) -> bytes:
    with storage.open_for_reading(path) as file:
        return file.pread(file.size_bytes(), 0)


def put(storage: Storage, path: str, content: bytes) -> None:
    """Replace a file as a whole."""
    with storage.open_for_writing(f"{path}.new", OpenMode.EXISTING_OR_NEW) as file:
        file.truncate(0)
        file.pwrite(content, 0)
        file.fsync()
    storage.rename(f"{path}.new", path)
    storage.sync_directory(path.rpartition("/")[0])


def killed(of: FunctionTarget, operations: Sequence[str] = OPERATIONS) -> tuple[Verdict, set[str]]:
    phase = explore_crashes(of, operations, path=PATH)
    return phase.verdict, {finding.property for finding in phase.findings}


def executed(of: FunctionTarget) -> tuple[Verdict, set[str]]:
    phase = explore_executions(of, OPERATIONS, path=PATH, steps=12, examples=40, seed=1)
    return phase.verdict, {finding.property for finding in phase.findings}


def simulated(
    explorer: Explorer, of: FunctionTarget, *models: str, operations: Sequence[str] = OPERATIONS
) -> tuple[Verdict, set[str]]:
    cases = cases_of(explorer, of, operations, [Readers(read_count=2)])
    phase = explore_simulated(
        explorer, cases, bounds=SMALL, models=models if explorer is not Explorer.SCHEDULES else ()
    )
    return phase.verdict, {finding.property for finding in phase.findings}


# A repeated operation that is rejected


class IndexFirst(KeyLog):
    """Broken: a key that an index has is rejected, which after a crash has one that the log has not."""

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        with storage.open_for_writing(f"{path}/index", OpenMode.NEW) as file:
            file.fsync()
        storage.sync_directory(path)

    def commit(self, storage: Storage, path: str, key: str) -> None:
        index = content_of(storage, f"{path}/index")
        self.check(index.decode(), key)
        with storage.open_for_writing(f"{path}/index") as file:
            file.pwrite(key.encode(), len(index))
            file.fsync()
        self.append(storage, path, self.read(storage, path), key)


class RejectsAndWrites(KeyLog):
    """Broken: a key that it rejects is there twice."""

    def commit(self, storage: Storage, path: str, key: str) -> None:
        keys = self.read(storage, path)
        self.append(storage, path, keys, key)
        self.check(keys, key)


@pytest.mark.parametrize("explorer", SIMULATED)
def test_an_operation_that_is_rejected_the_second_time_is_no_finding(explorer: Explorer) -> None:
    assert simulated(explorer, target(KeyLog()), "B") == (Verdict.VALID, set())


@pytest.mark.parametrize("explorer", SIMULATED)
def test_one_that_is_rejected_and_there_all_the_same_is(explorer: Explorer) -> None:
    verdict, _ = simulated(explorer, target(RejectsAndWrites()), "B")
    assert verdict is Verdict.INVALID


def test_one_that_is_rejected_though_a_crash_took_the_first_is_a_finding() -> None:
    assert simulated(Explorer.POWER, target(IndexFirst()), "B") == (Verdict.INVALID, {Property.COMMIT})


class Merges(KeyLog):
    """Says in a file that it merges after the second key, which an opening after a crash takes back."""

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        if storage.kind(f"{path}/merging") is EntryKind.FILE:
            storage.unlink(f"{path}/merging")
        storage.sync_directory(path)

    def check(self, keys: Sequence[str], key: str) -> None:
        if key in keys:
            raise ExistsError(f"{key} is there")

    def commit(self, storage: Storage, path: str, key: str) -> None:
        if storage.kind(f"{path}/merging") is EntryKind.FILE:
            raise ExistsError("a merge is under way")
        super().commit(storage, path, key)
        if len(self.read(storage, path)) == 2:
            storage.open_for_writing(f"{path}/merging", OpenMode.NEW).close()
            storage.sync_directory(path)
            storage.unlink(f"{path}/merging")
            storage.sync_directory(path)


class MergesForEver(Merges):
    """Broken: no opening takes that back, and every commit is rejected from then on."""

    def recover(self, storage: Storage, path: str) -> None:
        KeyLog.recover(self, storage, path)
        storage.sync_directory(path)


def test_one_that_is_rejected_for_another_reason_than_where_nothing_fails_is_a_finding() -> None:
    assert simulated(Explorer.POWER, target(Merges()), "B") == (Verdict.VALID, set())
    assert killed(target(Merges()), (*OPERATIONS, "c")) == (Verdict.VALID, set())
    assert simulated(Explorer.POWER, target(MergesForEver()), "B") == (Verdict.INVALID, {Property.COMMIT})
    assert killed(target(MergesForEver()), (*OPERATIONS, "c")) == (Verdict.INVALID, {Property.COMMIT})


class Swaps(KeyLog):
    """Replaces a value only where it is the one that an operation expects."""

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        put(storage, f"{path}/value", b"0")

    def read(self, storage: Storage, path: str) -> tuple[str, ...]:
        return (content_of(storage, f"{path}/value").decode(),)

    def recover(self, storage: Storage, path: str) -> None:
        put(storage, f"{path}/value", content_of(storage, f"{path}/value"))

    def commit(self, storage: Storage, path: str, swap: str) -> None:
        if self.read(storage, path) != (swap[0],):
            raise ExistsError(swap)
        put(storage, f"{path}/value", swap[1].encode())


class SwapsAnyhow(Swaps):
    """Broken: an opening after a commit that a crash took forgets what to expect."""

    def recover(self, storage: Storage, path: str) -> None:
        if storage.kind(f"{path}/value.new") is EntryKind.FILE:
            storage.rename(f"{path}/value.new", f"{path}/torn")
        storage.sync_directory(path)

    def commit(self, storage: Storage, path: str, swap: str) -> None:
        if storage.kind(f"{path}/torn") is EntryKind.FILE:
            put(storage, f"{path}/value", swap[1].encode())
        else:
            super().commit(storage, path, swap)


@pytest.mark.parametrize("explorer", SIMULATED)
def test_an_operation_that_needs_one_that_a_crash_took_may_be_rejected(explorer: Explorer) -> None:
    assert simulated(explorer, target(Swaps()), "B", operations=("01", "12")) == (Verdict.VALID, set())


def test_one_that_is_done_without_it_is_a_finding() -> None:
    verdict, violated = simulated(Explorer.POWER, target(SwapsAnyhow()), "B", operations=("01", "12"))
    assert verdict is Verdict.INVALID and Property.WRONG_SNAPSHOT in violated


# Openings that write


class Epochs(KeyLog):
    """Counts its openings in a file, and only makes durable a key that is there."""

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        put(storage, f"{path}/epoch", b"0")

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        put(storage, f"{path}/epoch", b"%d" % (int(content_of(storage, f"{path}/epoch")) + 1))

    def commit(self, storage: Storage, path: str, key: str) -> None:
        keys = self.read(storage, path)
        if key not in keys:
            self.append(storage, path, keys, key)
        else:
            put(storage, f"{path}/log", content_of(storage, f"{path}/log"))


class TakesForDurable(Epochs):
    """Broken: takes a key that is there for done, also where the commit that wrote it was rejected."""

    def commit(self, storage: Storage, path: str, key: str) -> None:
        if key not in self.read(storage, path):
            super().commit(storage, path, key)


class RejectsByEpoch(Epochs):
    """Rejects a key that is there, and says in which epoch it does so."""

    def commit(self, storage: Storage, path: str, key: str) -> None:
        if key in self.read(storage, path):
            raise ExistsError(f"{key} is there in epoch {content_of(storage, f'{path}/epoch').decode()}")
        super().commit(storage, path, key)


class ForgetsInTheEnd(Epochs):
    """Broken: the eighth opening after a commit empties the log."""

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        if content_of(storage, f"{path}/epoch") == b"8":
            put(storage, f"{path}/log", b"")

    def commit(self, storage: Storage, path: str, key: str) -> None:
        put(storage, f"{path}/epoch", b"0")
        super().commit(storage, path, key)


class RedoesLate(Epochs):
    """Broken: a commit that was under way is done again not by the next opening, but by the one after it."""

    def recover(self, storage: Storage, path: str) -> None:
        super().recover(storage, path)
        if storage.kind(f"{path}/late") is EntryKind.FILE:
            super().commit(storage, path, content_of(storage, f"{path}/late").decode())
            storage.unlink(f"{path}/late")
        if storage.kind(f"{path}/intent") is EntryKind.FILE:
            storage.rename(f"{path}/intent", f"{path}/late")
        storage.sync_directory(path)

    def commit(self, storage: Storage, path: str, key: str) -> None:
        put(storage, f"{path}/intent", key.encode())
        super().commit(storage, path, key)
        storage.unlink(f"{path}/intent")
        storage.sync_directory(path)


def test_a_key_of_a_commit_that_was_rejected_is_not_durable_because_it_is_there() -> None:
    """Its sync had failed, and only the cache had it."""
    assert killed(target(TakesForDurable())) == (Verdict.INVALID, {Property.LOST})


def test_openings_that_write_are_no_finding_where_a_reader_sees_no_difference() -> None:
    assert killed(target(Epochs())) == (Verdict.VALID, set())
    assert simulated(Explorer.POWER, target(Epochs()), "B") == (Verdict.VALID, set())
    assert executed(target(Epochs())) == (Verdict.VALID, set())


def test_a_rejection_that_differs_only_in_a_number_is_the_same() -> None:
    assert simulated(Explorer.POWER, target(RejectsByEpoch()), "B") == (Verdict.VALID, set())


def test_a_late_opening_after_which_a_reader_sees_less_is_a_finding() -> None:
    """What the eighth one loses is the last that is looked for."""
    assert killed(target(ForgetsInTheEnd())) == (Verdict.INVALID, {Property.IDEMPOTENT})
    assert simulated(Explorer.POWER, target(ForgetsInTheEnd()), "B") == (Verdict.INVALID, {Property.IDEMPOTENT})


def test_a_second_opening_after_which_a_reader_sees_more_is() -> None:
    assert killed(target(RedoesLate())) == (Verdict.INVALID, {Property.IDEMPOTENT})
    assert simulated(Explorer.POWER, target(RedoesLate()), "B") == (Verdict.INVALID, {Property.IDEMPOTENT})
    steps = [{"do": "commit killed", "operation": {"index": 0}, "choices": [6, 0]}]
    steps += [{"do": "reopen", "choices": []}] * 2
    assert violation_of(target(RedoesLate()), PATH, steps[:2], OPERATIONS) is None
    violation = violation_of(target(RedoesLate()), PATH, steps, OPERATIONS)
    assert violation is not None and violation.violated is Property.WRONG_SNAPSHOT


# Syncs that fail


class SyncsAnotherFile(KeyLog):
    """Replaces the log as a whole, and answers a sync that fails by another new file."""

    tries = ("new 1", "new 2")

    def recover(self, storage: Storage, path: str) -> None:
        for name in self.tries:
            if storage.kind(f"{path}/{name}") is EntryKind.FILE:
                storage.unlink(f"{path}/{name}")
        storage.sync_directory(path)

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        for name in self.tries:
            with storage.open_for_writing(f"{path}/{name}", OpenMode.EXISTING_OR_NEW) as file:
                file.truncate(0)
                file.pwrite(b"".join(map(checked, (*keys, key))), 0)
                try:
                    file.fsync()
                except StorageError:
                    if name == self.tries[-1]:
                        raise
                    continue
            storage.rename(f"{path}/{name}", f"{path}/log")
            self.sync_names(storage, path)
            break

    def sync_names(self, storage: Storage, path: str) -> None:
        storage.sync_directory(path)


class SyncsAgain(SyncsAnotherFile):
    """Broken: answers a sync that fails by another one of the same file."""

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        with storage.open_for_writing(f"{path}/new 1", OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(b"".join(map(checked, (*keys, key))), 0)
            try:
                file.fsync()
            except StorageError:
                file.fsync()
        storage.rename(f"{path}/new 1", f"{path}/log")
        self.sync_names(storage, path)


class LosesNames(SyncsAnotherFile):
    """Broken: acknowledges a commit although the sync of its name failed."""

    def sync_names(self, storage: Storage, path: str) -> None:
        with suppress(StorageError):
            storage.sync_directory(path)


class HasACopy(KeyLog):
    """Keeps a copy of the log, as well as it can, which no reader reads."""

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        super().append(storage, path, keys, key)
        with (
            suppress(StorageError),
            storage.open_for_writing(f"{path}/copy", OpenMode.EXISTING_OR_NEW) as file,
        ):
            file.pwrite(checked(key), 5 * len(keys))
            file.fsync()


class ReadsTheCopy(HasACopy):
    """Broken: reads that copy."""

    def read(self, storage: Storage, path: str) -> tuple[str, ...]:
        has_copy = storage.kind(f"{path}/copy") is EntryKind.FILE
        return self.keys_in(content_of(storage, f"{path}/{'copy' if has_copy else 'log'}"))


class RemovesAgain(KeyLog):
    """Replaces the log, and until then has the old one in a file, whose name it makes and removes again if need be."""

    def read(self, storage: Storage, path: str) -> tuple[str, ...]:
        has_old = storage.kind(f"{path}/old") is EntryKind.FILE
        return self.keys_in(content_of(storage, f"{path}/{'old' if has_old else 'log'}"))

    def recover(self, storage: Storage, path: str) -> None:
        put(storage, f"{path}/log", b"".join(map(checked, self.read(storage, path))))
        if storage.kind(f"{path}/old") is EntryKind.FILE:
            storage.unlink(f"{path}/old")
        storage.sync_directory(path)

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        content = b"".join(map(checked, keys))
        put(storage, f"{path}/old", content)
        put(storage, f"{path}/log", content + checked(key))
        storage.unlink(f"{path}/old")
        try:
            storage.sync_directory(path)
        except StorageError:
            self.remove_again(storage, path, content + checked(key))

    def remove_again(self, storage: Storage, path: str, content: bytes) -> None:
        put(storage, f"{path}/old", content)
        storage.unlink(f"{path}/old")
        storage.sync_directory(path)


class SyncsTheRemovalAgain(RemovesAgain):
    """Broken: syncs the directory again, which does not bring the removal to the disk."""

    def remove_again(self, storage: Storage, path: str, content: bytes) -> None:
        storage.sync_directory(path)


class TrustsTheCopy(HasACopy):
    """Broken: reads the copy too, and empties the log once a commit after it takes the copy for durable."""

    def read(self, storage: Storage, path: str) -> tuple[str, ...]:
        copied = b""
        if storage.kind(f"{path}/copy") is EntryKind.FILE:
            copied = content_of(storage, f"{path}/copy")
        return tuple(sorted({*self.keys_in(copied), *self.keys_in(content_of(storage, f"{path}/log"))}))

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Any]:
        keys = self.read(storage, path)
        put(storage, f"{path}/copy", b"".join(map(checked, keys)))
        put(storage, f"{path}/log", b"")
        yield _Session(self, storage, path)

    def append(self, storage: Storage, path: str, keys: Sequence[str], key: str) -> None:
        with storage.open_for_writing(f"{path}/log") as file:
            file.truncate(0)
            file.pwrite(checked(key), 0)
            file.fsync()
        with suppress(StorageError), storage.open_for_writing(f"{path}/copy") as file:
            file.pwrite(checked(key), 5 * len(keys))
            file.fsync()


def judged_by_loss(format: KeyLog) -> FunctionTarget:
    return target(format, acknowledges_after_failed_sync=True)


def failing_call(of: FunctionTarget) -> set[str]:
    """Return what is violated when any call of a commit fails."""
    found = set()
    for number in range(60):
        try:
            violation = violation_of(
                of, PATH, [{"do": "commit failing", "operation": {"index": 0}, "choices": [number, 0]}], OPERATIONS
            )
        except NOT_REPLAYABLE:
            break
        found |= {violation.violated} if violation else set()
    return found


ACKNOWLEDGING = [SyncsAnotherFile(), HasACopy(), RemovesAgain()]


@pytest.mark.parametrize("format", [*ACKNOWLEDGING, TrustsTheCopy()], ids=lambda each: each.name)
def test_a_commit_one_of_whose_syncs_failed_may_not_be_acknowledged(format: KeyLog) -> None:
    assert killed(target(format)) == (Verdict.INVALID, {Property.SYNCED})
    assert failing_call(target(format)) == {Property.SYNCED}


@pytest.mark.parametrize("sound", ACKNOWLEDGING, ids=lambda each: each.name)
def test_one_of_a_format_that_is_judged_by_loss_may_where_nothing_of_it_is_lost(sound: KeyLog) -> None:
    assert killed(judged_by_loss(sound)) == (Verdict.VALID, set())
    assert failing_call(judged_by_loss(sound)) == set()


def test_a_format_may_say_itself_that_it_is_judged_by_loss() -> None:
    class Says(HasACopy):
        acknowledges_after_failed_sync = True

    assert killed(target(Says())) == (Verdict.VALID, set())
    assert killed(target(Says(), acknowledges_after_failed_sync=False))[0] is Verdict.INVALID


@pytest.mark.parametrize(
    "broken", [SyncsAgain(), LosesNames(), ReadsTheCopy(), SyncsTheRemovalAgain()], ids=lambda each: each.name
)
def test_one_that_is_lost_with_what_the_sync_was_to_write_may_not(broken: KeyLog) -> None:
    verdict, violated = killed(judged_by_loss(broken))
    assert verdict is Verdict.INVALID and Property.SYNCED in violated
    assert Property.SYNCED in failing_call(judged_by_loss(broken))


# State apart from the files


class RemembersItsEnd(KeyLog):
    """Broken: its object remembers where the log ends, for all sessions."""

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        self.end = 0

    def commit(self, storage: Storage, path: str, key: str) -> None:
        with storage.open_for_writing(f"{path}/log") as file:
            file.pwrite(checked(key), self.end)
            file.fsync()
        self.end += 5


class RemembersItsKeys(KeyLog):
    """Broken: its object remembers the keys, for all sessions; one that it has is taken for done."""

    def create(self, storage: Storage, path: str) -> None:
        super().create(storage, path)
        self.keys: list[str] = []

    def commit(self, storage: Storage, path: str, key: str) -> None:
        if key not in self.keys:
            self.keys.append(key)
        put(storage, f"{path}/log", b"".join(map(checked, self.keys)))


class RemembersInASession(KeyLog):
    """Each of its writers remembers where the log ends when it is opened."""

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Any]:
        writer = RemembersItsEnd()
        writer.end = 5 * len(self.read(storage, path))
        yield _Session(writer, storage, path)


class _Session:
    def __init__(self, log: KeyLog, storage: Storage, path: str) -> None:
        self.log, self.storage, self.path = log, storage, path

    def commit(self, key: str) -> None:
        self.log.commit(self.storage, self.path, key)


@pytest.mark.parametrize("operations", [OPERATIONS, OPERATIONS[:1]], ids=len)
def test_what_a_session_remembers_is_no_mistake_of_the_target(operations: Sequence[str]) -> None:
    for sound in (KeyLog(), RemembersInASession()):
        assert rehearse(sound, operations).seen[-1] == operations


@pytest.mark.parametrize(
    ("remembers", "operations"),
    [(RemembersItsEnd, OPERATIONS), (RemembersItsEnd, OPERATIONS[:1]), (RemembersItsKeys, OPERATIONS)],
)
def test_what_its_object_remembers_from_one_session_to_the_next_is(
    remembers: type[KeyLog], operations: Sequence[str]
) -> None:
    with pytest.raises(TargetError, match="not deterministic: it keeps state between sessions, apart from its files"):
        rehearse(remembers(), operations)
