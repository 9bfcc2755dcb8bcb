"""Faults fire at the call that was named, once, and do what they say and nothing more."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from tornproof.harness.simulator.filesystem.faulty import FALLIBLE, GROWING, Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, OpenMode, Storage, StorageReason


@pytest.fixture
def memory() -> MemoryStorage:
    storage = MemoryStorage()
    storage.mkdir("table")
    with storage.open_for_writing("table/file", OpenMode.NEW) as file:
        file.pwrite(bytes(64), 0)
    return storage


def failing(
    kind: CallKind, at: int = 0, reason: StorageReason = StorageReason.INPUT_OUTPUT, written_bytes: int = 0
) -> Fault:
    return Fault(at=at, reason=reason, among=frozenset({kind}), written_bytes=written_bytes)


def test_without_faults_everything_happens(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory)
    storage.mkdir("table/directory")
    with storage.open_for_writing("table/file") as file:
        file.pwrite(b"content", 0)
        assert file.pread(7, 0) == b"content"
    assert storage.listdir("table") == ("directory", "file")
    assert not storage.fired


def test_a_fault_fires_at_the_named_call_of_its_kind_and_only_there(memory: MemoryStorage) -> None:
    fault = failing(CallKind.PWRITE, at=1)
    storage = FaultyStorage(memory, fault)
    with storage.open_for_writing("table/file") as file:
        file.pwrite(b"a", 0)
        with pytest.raises(StorageError, match=r"^table/file: cannot write: input/output error$"):
            file.pwrite(b"b", 1)
        file.pwrite(b"c", 2)
        assert file.pread(3, 0) == b"a\0c"
    assert storage.fired == {fault: 1}


def test_a_fault_whose_call_never_comes_has_not_fired(memory: MemoryStorage) -> None:
    fault = failing(CallKind.RENAME)
    storage = FaultyStorage(memory, fault)
    storage.unlink("table/file")
    assert storage.fired[fault] == 0


def test_faults_that_are_set_later_count_from_there(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory, failing(CallKind.MKDIR))
    fault = failing(CallKind.KIND, at=1)
    storage.arm(fault)
    storage.mkdir("table/directory")
    storage.kind("table")
    assert [call.kind for call in storage.calls] == [CallKind.MKDIR, CallKind.KIND]
    with pytest.raises(StorageError, match="cannot look at"):
        storage.kind("table")
    assert storage.fired[fault] == 1


@pytest.mark.parametrize("later", [(), (failing(CallKind.KIND),)], ids=["none", "another one"])
def test_faults_that_are_set_leave_none_of_those_before_whether_they_happened_or_not(
    memory: MemoryStorage, later: tuple[Fault, ...]
) -> None:
    """A fault behind the last call of a commit happened in a later operation of the same process."""
    storage = FaultyStorage(memory, failing(CallKind.UNLINK), failing(CallKind.UNLINK, at=1), failing(CallKind.MKDIR))
    with pytest.raises(StorageError):
        storage.unlink("table/file")
    storage.arm(*later)
    assert not storage.fired and not storage.calls
    storage.mkdir("table/directory")
    storage.unlink("table/file")
    assert not storage.fired


def test_a_short_write_leaves_the_bytes_that_went_through(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory, failing(CallKind.PWRITE, 0, StorageReason.NO_SPACE, written_bytes=3))
    with storage.open_for_writing("table/file") as file:
        with pytest.raises(StorageError, match=StorageReason.NO_SPACE):
            file.pwrite(b"content", 62)
        assert file.pread(9, 60) == b"\0\0con"


def test_a_failing_sync_is_not_counted_as_one(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory, failing(CallKind.FSYNC))
    before_count = storage.counters().sync_count
    with storage.open_for_writing("table/file") as file:
        with pytest.raises(StorageError):
            file.fsync()
        assert storage.counters().sync_count == before_count
        file.fsync()
    assert storage.counters().sync_count == before_count + 1


def call_each(storage: Storage, file: File) -> dict[CallKind, Callable[[], object]]:
    mapping = file.map(8)
    lease = mapping.view(1, 0)
    return {
        CallKind.OPEN_FOR_READING: lambda: storage.open_for_reading("table/file"),
        CallKind.OPEN_FOR_WRITING: lambda: storage.open_for_writing("table/file"),
        CallKind.LISTDIR: lambda: storage.listdir("table"),
        CallKind.KIND: lambda: storage.kind("table"),
        CallKind.MKDIR: lambda: storage.mkdir("table/a"),
        CallKind.RMDIR: lambda: storage.rmdir("table/a"),
        CallKind.LINK: lambda: storage.link("table/file", "table/b"),
        CallKind.RENAME: lambda: storage.rename("table/b", "table/c"),
        CallKind.UNLINK: lambda: storage.unlink("table/c"),
        CallKind.SYNC_DIRECTORY: lambda: storage.sync_directory("table"),
        CallKind.LOAD_FENCE: storage.load_fence,
        CallKind.STORE_FENCE: storage.store_fence,
        CallKind.CLOCK: storage.monotonic_seconds,
        CallKind.SLEEP: lambda: storage.sleep_seconds(1),
        CallKind.PREAD: lambda: file.pread(1, 0),
        CallKind.SIZE: file.size_bytes,
        CallKind.PWRITE: lambda: file.pwrite(b"xy", 0),
        CallKind.TRUNCATE: lambda: file.truncate(8),
        CallKind.MAP: lambda: file.map(8),
        CallKind.FSYNC: file.fsync,
        CallKind.FDATASYNC: file.fdatasync,
        CallKind.LOCK: lambda: file.try_lock(LockMode.SHARED, offset_bytes=0, size_bytes=1),
        CallKind.UNLOCK: lambda: file.unlock(offset_bytes=0, size_bytes=1),
        CallKind.LOAD: lambda: mapping.load_u64(0) + mapping.load_u32(0),
        CallKind.STORE: lambda: mapping.store_u64(0, 1),
        CallKind.READ_MAPPED: lambda: mapping.read(1, 0),
        CallKind.VIEW: lease.__enter__,
        CallKind.END_VIEW: lambda: lease.__exit__(None, None, None),
        CallKind.MSYNC: mapping.msync,
        CallKind.UNMAP: mapping.unmap,
        CallKind.CLOSE: file.close,
    }


@pytest.mark.parametrize("kind", CallKind)
def test_every_kind_of_call_can_fail_and_does_nothing_then(memory: MemoryStorage, kind: CallKind) -> None:
    storage = FaultyStorage(memory)
    calls = call_each(storage, storage.open_for_writing("table/file"))
    assert calls.keys() == set(CallKind)
    for earlier in list(calls)[: list(calls).index(kind)]:
        calls[earlier]()
    fault = failing(kind)
    storage.arm(fault)
    before = memory.digest(), memory.counters()
    with pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        calls[kind]()
    assert (memory.digest(), memory.counters()) == before
    assert storage.fired[fault] == 1


def test_a_killed_session_makes_no_further_call_however_it_tries(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory)
    calls = call_each(storage, storage.open_for_writing("table/file"))
    storage.arm(Fault.kill(0, written_bytes=1))
    with suppress(Killed):
        calls[CallKind.PWRITE]()
    digest = memory.digest()
    assert memory.image().files["table/file"][:2] == b"x\0"
    del calls[CallKind.END_VIEW]  # there is no view any more
    for call in calls.values():
        with pytest.raises(Killed):
            call()
    assert memory.digest() == digest


def test_a_kill_is_not_swallowed_by_an_implementation_that_catches_everything(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory, Fault.kill(1))

    def implementation() -> None:
        with storage.open_for_writing("table/file") as file:
            try:
                file.pwrite(b"x", 0)
            except Exception:
                storage.unlink("table/file")
            finally:
                file.fsync()

    with pytest.raises(Killed):
        implementation()
    assert memory.listdir("table") == ("file",)


def test_a_kill_after_some_steps_counts_steps_and_not_reads(memory: MemoryStorage) -> None:
    storage = FaultyStorage(memory, Fault.kill(2))
    storage.mkdir("table/one")
    for _ in range(5):
        storage.listdir("table")
    storage.mkdir("table/two")
    storage.kind("table")
    with pytest.raises(Killed):
        storage.mkdir("table/three")
    assert memory.listdir("table") == ("file", "one", "two")


def test_calls_that_cannot_report_an_error_are_not_among_the_fallible_ones() -> None:
    silent = {
        CallKind.LOAD_FENCE,
        CallKind.STORE_FENCE,
        CallKind.CLOCK,
        CallKind.SLEEP,
        CallKind.UNLOCK,
        CallKind.CLOSE,
        CallKind.LOAD,
        CallKind.STORE,
        CallKind.READ_MAPPED,
        CallKind.VIEW,
        CallKind.UNMAP,
    }
    assert set(CallKind) - FALLIBLE == silent
    assert GROWING < FALLIBLE
    assert {CallKind.PWRITE, CallKind.TRUNCATE, CallKind.OPEN_FOR_WRITING, CallKind.FDATASYNC} < GROWING
    assert not GROWING & {CallKind.UNLINK, CallKind.RMDIR, CallKind.PREAD}
