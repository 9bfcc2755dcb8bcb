"""An implementation must not notice that its storage is in memory: one suite runs on real files and in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import InterceptedStorage
from tornproof.harness.simulator.filesystem.kernel import BusError
from tornproof.harness.simulator.filesystem.kernel_files import CAPACITY_BYTES
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import (
    Counters,
    EntryKind,
    File,
    LockMode,
    Mapping,
    OpenMode,
    Storage,
    StorageReason,
)
from tornproof.impl.storage.operating_system import OperatingSystemStorage

SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE
CONTENT = bytes(range(100))


@pytest.fixture(params=["operating system", "memory", "intercepted"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.chdir(tmp_path)
    if request.param == "operating system":
        return OperatingSystemStorage()
    return MemoryStorage() if request.param == "memory" else InterceptedStorage(MemoryStorage())


@pytest.fixture
def file(storage: Storage) -> Iterator[File]:
    with storage.open_for_writing("file", OpenMode.NEW) as opened:
        opened.pwrite(CONTENT, 0)
        yield opened


@pytest.fixture
def other(storage: Storage, file: File) -> Iterator[File]:
    with storage.open_for_writing("file") as opened:
        yield opened


# Names


def test_each_open_mode_accepts_what_it_names_and_rejects_the_other(storage: Storage) -> None:
    with pytest.raises(FileMissingError, match=r"^file: cannot open for writing: it is not there$"):
        storage.open_for_writing("file")
    storage.open_for_writing("file", OpenMode.NEW).close()
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.open_for_writing("file", OpenMode.NEW)
    storage.open_for_writing("other", OpenMode.EXISTING_OR_NEW).close()
    with storage.open_for_writing("file", OpenMode.EXISTING_OR_NEW) as file:
        file.pwrite(b"kept", 0)
    with storage.open_for_writing("file", OpenMode.EXISTING_OR_NEW) as file:
        assert file.pread(9, 0) == b"kept"
    assert storage.listdir(".") == ("file", "other")


def test_directories_are_made_listed_and_removed(storage: Storage) -> None:
    storage.mkdir("directory")
    assert storage.kind("directory") is EntryKind.DIRECTORY
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.mkdir("directory")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.mkdir("nowhere/directory")
    storage.open_for_writing("directory/file", OpenMode.NEW).close()
    assert storage.listdir("directory") == ("file",)
    with pytest.raises(StorageError, match=StorageReason.NOT_EMPTY):
        storage.rmdir("directory")
    for call in (storage.rmdir, storage.sync_directory):
        with pytest.raises(StorageError, match=StorageReason.NOT_A_DIRECTORY):
            call("directory/file")
    storage.sync_directory("directory")
    storage.unlink("directory/file")
    storage.rmdir("directory")
    assert storage.kind("directory") is EntryKind.MISSING
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.rmdir("directory")


def test_rename_moves_and_replaces_while_open_files_stay(storage: Storage, file: File) -> None:
    with storage.open_for_writing("target", OpenMode.NEW) as target:
        target.pwrite(b"old", 0)
        storage.rename("file", "target")
        assert storage.listdir(".") == ("target",)
        assert target.pread(3, 0) == b"old"
    with storage.open_for_reading("target") as moved:
        assert moved.size_bytes() == 100
        file.pwrite(b"moved", 0)
        assert moved.pread(5, 0) == b"moved"
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.rename("file", "elsewhere")
    with pytest.raises(FileMissingError, match=r"^target: cannot rename to nowhere/target: it is not there$"):
        storage.rename("target", "nowhere/target")


def test_a_renamed_directory_takes_what_is_in_it_along(storage: Storage) -> None:
    for path in ("one", "one/inner", "two"):
        storage.mkdir(path)
    storage.open_for_writing("one/inner/file", OpenMode.NEW).close()
    storage.rename("one", "two/moved")
    assert storage.listdir("two/moved/inner") == ("file",)
    assert storage.listdir("two/moved/inner/../..") == ("moved",)
    with pytest.raises(StorageError, match="Invalid argument"):
        storage.rename("two", "two/moved/inner/below-itself")


def test_link_gives_a_second_name_to_one_file_and_never_replaces(storage: Storage, file: File) -> None:
    storage.link("file", "second")
    file.pwrite(b"both", 0)
    storage.unlink("file")
    with storage.open_for_reading("second") as second:
        assert second.pread(4, 0) == b"both"
    storage.open_for_writing("file", OpenMode.NEW).close()
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.link("file", "second")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.link("third", "fourth")


def test_a_symbolic_link_leads_on_for_looking_and_is_itself_for_removing(storage: Storage, tmp_path: Path) -> None:
    volume = f"{tmp_path}/volume"
    memory = storage._inner if type(storage) is InterceptedStorage else storage
    if isinstance(memory, MemoryStorage):
        for parent in (*reversed(tmp_path.parents), tmp_path):
            if storage.kind(str(parent)) is EntryKind.MISSING:
                storage.mkdir(str(parent))
    storage.mkdir(volume)
    storage.open_for_writing(f"{volume}/file", OpenMode.NEW).close()
    storage.mkdir("table")
    for name, target in {"link": volume, "to a file": f"{volume}/file", "dangling": f"{tmp_path}/nowhere"}.items():
        if isinstance(memory, MemoryStorage):
            memory.link_symbolically(target, f"table/{name}")
        else:
            Path("table", name).symlink_to(target)
    looks = {name: storage.kind(f"table/{name}") for name in storage.listdir("table")}
    assert looks == {
        "link": EntryKind.DIRECTORY,
        "to a file": EntryKind.FILE,
        "dangling": EntryKind.MISSING,
    }
    assert {storage.own_kind(f"table/{name}") for name in looks} == {EntryKind.LINK}
    assert storage.own_kind("table/link/file") is EntryKind.FILE and storage.listdir("table/link") == ("file",)
    assert storage.own_kind("table/nothing") is EntryKind.MISSING and storage.own_kind("table") is EntryKind.DIRECTORY
    with pytest.raises(StorageError, match=StorageReason.LINK_NOT_FOLLOWED):
        storage.open_for_writing("table/to a file")
    with pytest.raises(StorageError, match=StorageReason.NOT_A_DIRECTORY):
        storage.rmdir("table/link")
    storage.rename("table/link", "table/moved")
    for name in storage.listdir("table"):
        storage.unlink(f"table/{name}")
    assert storage.listdir("table") == () and storage.listdir(volume) == ("file",)


def test_unlinked_files_stay_usable_while_they_are_open(storage: Storage, file: File) -> None:
    with file.map(100) as mapping:
        storage.unlink("file")
        file.close()
        mapping.store_u64(0, 42)
        assert mapping.load_u64(0) == 42
    assert storage.kind("file") is EntryKind.MISSING


def test_renaming_one_name_of_a_file_to_another_of_it_changes_nothing(storage: Storage, file: File) -> None:
    storage.link("file", "second")
    storage.rename("file", "second")
    assert storage.listdir(".") == ("file", "second")


# Bytes


def test_written_bytes_are_read_back_and_gaps_are_zeros(storage: Storage, file: File) -> None:
    file.pwrite(b"", 300)
    assert file.size_bytes() == 100
    file.pwrite(b"words", 110)
    file.pwrite(memoryview(b"01234567").cast("Q"), 8)
    file.truncate(112)
    file.truncate(114)
    with storage.open_for_reading("file") as reading:
        expected = bytes(range(8)) + b"01234567" + bytes(range(16, 100)) + bytes(10) + b"wo" + bytes(2)
        assert reading.pread(200, 0) == expected


def test_a_file_opened_for_reading_cannot_be_changed(storage: Storage, file: File) -> None:
    with storage.open_for_reading("file") as reading:
        with pytest.raises(StorageError, match=StorageReason.NOT_OPEN):
            reading.pwrite(b"x", 0)
        with pytest.raises(StorageError, match=StorageReason.NOT_OPEN):
            reading.truncate(1)
        with reading.map(8) as mapping, pytest.raises(AssertionError):
            mapping.store_u64(0, 1)
    assert file.pread(100, 0) == CONTENT


@pytest.mark.parametrize(
    "call",
    [
        lambda file: file.pread(1, 0),
        lambda file: file.pwrite(b"x", 0),
        lambda file: file.truncate(0),
        lambda file: file.size_bytes(),
    ],
)
def test_a_closed_file_is_rejected_and_closing_twice_is_harmless(file: File, call: Callable[[File], object]) -> None:
    file.close()
    file.close()
    with pytest.raises(StorageError, match=StorageReason.NOT_OPEN):
        call(file)


# Mappings


def test_mapped_stores_are_seen_by_pread_and_writes_by_loads(storage: Storage, file: File) -> None:
    with storage.open_for_reading("file") as reading, file.map(100) as mapping, reading.map(64) as seen:
        mapping.store_u64(8, 0x1122334455667788)
        mapping.store_u32(96, 0xFFFFFFFE)
        assert reading.pread(8, 8) == bytes.fromhex("8877665544332211")
        assert reading.pread(4, 96) == bytes.fromhex("feffffff")
        assert seen.load_u64(8) == 0x1122334455667788
        file.pwrite(bytes(range(8)), 16)
        assert mapping.load_u64(16) == 0x0706050403020100
        assert mapping.load_u32(20) == 0x07060504
        mapping.msync()
    assert file.pread(8, 8) == bytes.fromhex("8877665544332211")


def test_a_mapping_grows_with_its_file_as_far_as_it_reaches_and_no_further(file: File) -> None:
    with file.map(96) as mapping:
        file.pwrite(bytes(5000), 100)
        assert mapping.read(96, 0) == CONTENT[:96]
        for offset_bytes in (-8, 4, 92, 96):
            with pytest.raises(AssertionError):
                mapping.load_u64(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u64(offset_bytes, 0)
        for offset_bytes in (-4, 2, 96):
            with pytest.raises(AssertionError):
                mapping.load_u32(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u32(offset_bytes, 0)
        with pytest.raises(AssertionError):
            mapping.store_u32(0, 1 << 32)


@pytest.mark.parametrize("size_bytes", [101, 1 << 40, 1 << 70])
def test_a_mapping_longer_than_the_file_is_rejected(file: File, size_bytes: int) -> None:
    with pytest.raises(StorageError, match=StorageReason.TOO_SHORT):
        file.map(size_bytes)


def test_read_copies_and_view_does_not(file: File) -> None:
    with file.map(100) as mapping:
        copied = mapping.read(10, 90)
        with mapping.view(10, 90) as leased:
            file.pwrite(b"x", 90)
            assert leased.tobytes() == b"x" + bytes(range(91, 100))
            assert leased.readonly
        assert copied == bytes(range(90, 100))
        with pytest.raises(ValueError, match="released"):
            leased[0]


def test_a_view_sees_what_is_written_after_its_file_grew(file: File) -> None:
    with file.map(100) as mapping, mapping.view(10, 0) as leased:
        file.pwrite(b"end", 5000)
        file.pwrite(b"later", 5)
        mapping.store_u32(0, 0x64636261)
        assert leased.tobytes() == b"abcd\x04later"
        assert file.pread(10, 0) == leased.tobytes()


def test_what_was_made_from_a_view_crashes_nothing_later(file: File) -> None:
    with file.map(100) as mapping, mapping.view(10, 0) as leased:
        kept = numpy.frombuffer(leased, "u1")
    file.pwrite(b"grown", 100)
    assert bytes(kept) == CONTENT[:10]
    assert file.pread(10, 100) == b"grown"


def test_unmapping_under_a_lease_is_a_bug_and_unmapping_twice_is_harmless(file: File) -> None:
    mapping = file.map(100)
    with mapping.view(10, 0), pytest.raises(AssertionError):
        mapping.unmap()
    mapping.unmap()
    mapping.unmap()
    with pytest.raises(ValueError, match="released"):
        mapping.load_u64(0)


# Locks


def test_an_exclusive_lock_keeps_every_other_open_file_out_until_it_is_given_back(file: File, other: File) -> None:
    assert file.try_lock(EXCLUSIVE, offset_bytes=5, size_bytes=1)
    assert not other.try_lock(EXCLUSIVE, offset_bytes=5, size_bytes=1)
    assert not other.try_lock(SHARED, offset_bytes=0, size_bytes=6)
    assert other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=5)
    assert other.try_lock(EXCLUSIVE, offset_bytes=6, size_bytes=10)
    file.unlock(offset_bytes=5, size_bytes=1)
    assert other.try_lock(EXCLUSIVE, offset_bytes=5, size_bytes=1)


def test_a_lock_is_taken_at_once_where_nobody_has_one(file: File, other: File) -> None:
    file.lock(SHARED, offset_bytes=5, size_bytes=1)
    other.lock(SHARED, offset_bytes=5, size_bytes=1)
    assert not other.try_lock(EXCLUSIVE, offset_bytes=5, size_bytes=1)
    file.close()
    other.lock(EXCLUSIVE, offset_bytes=5, size_bytes=1)


def test_in_memory_nobody_can_release_a_lock_while_another_waits_for_it() -> None:
    storage = MemoryStorage()
    with storage.open_for_writing("file", OpenMode.NEW) as file, storage.open_for_writing("file") as other:
        file.lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
        with pytest.raises(EndlessError, match=r"^it waits for the lock of file$"):
            other.lock(SHARED, offset_bytes=0, size_bytes=1)


def test_shared_pins_are_independent_of_each_other(storage: Storage, file: File, other: File) -> None:
    with storage.open_for_reading("file") as reading:
        assert file.try_lock(SHARED, offset_bytes=7, size_bytes=1)
        assert reading.try_lock(SHARED, offset_bytes=7, size_bytes=1)
        assert not other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=100)
        file.unlock(offset_bytes=7, size_bytes=1)
        assert not other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=100)
        assert other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=7)
        reading.unlock(offset_bytes=7, size_bytes=1)
        assert other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=100)
        with pytest.raises(StorageError, match=StorageReason.NOT_OPEN):
            reading.try_lock(EXCLUSIVE, offset_bytes=200, size_bytes=1)


def test_a_lock_over_an_own_lock_replaces_it_and_unlocking_splits_it(file: File, other: File) -> None:
    assert file.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=10)
    assert file.try_lock(SHARED, offset_bytes=4, size_bytes=2)
    assert other.try_lock(SHARED, offset_bytes=4, size_bytes=2)
    assert not other.try_lock(SHARED, offset_bytes=3, size_bytes=1)
    assert not other.try_lock(SHARED, offset_bytes=6, size_bytes=1)
    file.unlock(offset_bytes=1, size_bytes=8)
    assert other.try_lock(EXCLUSIVE, offset_bytes=1, size_bytes=8)
    for kept in (0, 9):
        assert not other.try_lock(SHARED, offset_bytes=kept, size_bytes=1)


def test_a_lock_that_was_not_granted_leaves_the_own_one_as_it_was(file: File, other: File) -> None:
    for each in (file, other):
        assert each.try_lock(SHARED, offset_bytes=0, size_bytes=1)
    assert not file.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
    assert not other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
    other.unlock(offset_bytes=0, size_bytes=1)
    assert not other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)


def test_closing_a_file_ends_its_own_locks_only_even_while_it_is_mapped(
    storage: Storage, file: File, other: File
) -> None:
    assert file.try_lock(EXCLUSIVE, offset_bytes=3, size_bytes=2)
    storage.open_for_reading("file").close()
    with file.map(100):
        assert not other.try_lock(SHARED, offset_bytes=4, size_bytes=1)
        file.close()
        assert other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=100)


def test_locks_reach_the_last_byte_that_can_have_a_number_and_no_further(file: File, other: File) -> None:
    last_bytes = (1 << 63) - 1
    assert file.try_lock(EXCLUSIVE, offset_bytes=last_bytes, size_bytes=1)
    assert other.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=last_bytes)
    for offset_bytes, size_bytes in ((last_bytes, 2), (-1, 1), (0, 0)):
        with pytest.raises(AssertionError):
            file.try_lock(SHARED, offset_bytes=offset_bytes, size_bytes=size_bytes)
        with pytest.raises(AssertionError):
            file.unlock(offset_bytes=offset_bytes, size_bytes=size_bytes)


# Counters and the clock


def test_counters_count_calls_bytes_and_syncs(storage: Storage) -> None:
    storage.monotonic_seconds()
    storage.sleep_seconds(0.0)
    assert storage.counters() == Counters(step_count=0, read_bytes=0, written_bytes=0, sync_count=0)
    with storage.open_for_writing("file", OpenMode.NEW) as file:
        file.pwrite(bytes(64), 0)
        assert len(file.pread(100, 60)) == 4
        with file.map(64) as mapping:
            mapping.store_u64(0, 1)
            mapping.store_u32(8, 1)
            mapping.load_u64(0)
            mapping.load_u32(8)
            mapping.read(10, 0)
            with mapping.view(20, 0):
                pass
            mapping.msync()
        file.fsync()
        file.fdatasync()
    storage.sync_directory(".")
    storage.load_fence()
    storage.store_fence()
    assert storage.counters() == Counters(
        step_count=18, read_bytes=4 + 8 + 4 + 10 + 20, written_bytes=64 + 8 + 4, sync_count=4
    )


def test_the_clock_never_goes_back_and_moves_by_what_was_slept(storage: Storage) -> None:
    start_seconds = storage.monotonic_seconds()
    storage.sleep_seconds(0.01)
    assert storage.monotonic_seconds() >= start_seconds + 0.01


# What only a storage in memory does


@pytest.fixture
def memory() -> MemoryStorage:
    storage = MemoryStorage()
    storage.mkdir("table")
    with storage.open_for_writing("table/_txn", OpenMode.NEW) as file:
        file.pwrite(CONTENT, 0)
    return storage


def begin_lease(mapping: Mapping) -> None:
    with mapping.view(51, 0):
        pass


@pytest.mark.parametrize(
    "access",
    [
        begin_lease,
        lambda mapping: mapping.load_u64(48),
        lambda mapping: mapping.load_u32(48),
        lambda mapping: mapping.store_u64(48, 1),
        lambda mapping: mapping.store_u32(48, 1),
        lambda mapping: mapping.read(51, 0),
    ],
)
def test_an_access_of_a_mapping_beyond_the_end_of_its_file_is_a_bus_error(
    memory: MemoryStorage, access: Callable[[Mapping], object]
) -> None:
    with memory.open_for_writing("table/_txn") as file, file.map(100) as mapping:
        access(mapping)
        file.truncate(48)
        assert mapping.load_u64(40) == int.from_bytes(CONTENT[40:48], "little")
        with pytest.raises(BusError):
            access(mapping)
        assert file.size_bytes() == 48


def test_cutting_a_file_under_a_lease_is_a_bus_error_at_its_end(memory: MemoryStorage) -> None:
    with memory.open_for_writing("table/_txn") as file, file.map(100) as mapping:
        with mapping.view(48, 0):
            file.truncate(48)
        with pytest.raises(BusError), mapping.view(48, 0):
            file.truncate(47)


def test_a_disk_in_memory_is_full_before_a_corrupt_offset_fills_ours(memory: MemoryStorage) -> None:
    with memory.open_for_writing("table/_txn") as file:
        with pytest.raises(StorageError, match=StorageReason.NO_SPACE):
            file.pwrite(b"x", CAPACITY_BYTES)
        with pytest.raises(StorageError, match=StorageReason.NO_SPACE):
            file.truncate(CAPACITY_BYTES + 1)
        assert file.size_bytes() == 100


def test_a_killed_session_loses_its_locks_and_nothing_that_it_wrote(memory: MemoryStorage) -> None:
    session = memory.fork_process()
    mine, its = memory.open_for_writing("table/_txn"), session.open_for_writing("table/_txn")
    mapping = its.map(8)
    assert its.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
    its.pwrite(b"written", 0)
    assert not mine.try_lock(SHARED, offset_bytes=0, size_bytes=1)
    session.kill_process()
    assert mine.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
    assert mine.pread(7, 0) == b"written"
    calls_of_the_dead: tuple[Callable[[], object], ...] = (
        lambda: its.pread(1, 0),
        its.close,
        mapping.unmap,
        lambda: mapping.load_u32(0),
        session.store_fence,
        session.monotonic_seconds,
        lambda: session.kind("table"),
    )
    for call in calls_of_the_dead:
        with pytest.raises(Killed):
            call()


def test_sessions_share_the_disk_and_the_clock_but_not_the_counters(memory: MemoryStorage) -> None:
    before = memory.counters()
    session = memory.fork_process()
    session.mkdir("made")
    session.sleep_seconds(2.5)
    assert memory.monotonic_seconds() == 2.5
    assert memory.counters() == before
    assert session.counters().step_count == 1
    assert memory.kind("made") is EntryKind.DIRECTORY


def test_an_image_comes_back_as_the_same_disk_and_does_not_change_with_it(memory: MemoryStorage) -> None:
    memory.mkdir("table/empty")
    memory.mkdir("/absolute")
    memory.open_for_writing("/absolute/file", OpenMode.NEW).close()
    image = memory.image()
    assert dict(image.files) == {"table/_txn": CONTENT, "/absolute/file": b""}
    assert image.kind("table/empty") is EntryKind.DIRECTORY
    again = MemoryStorage.of(image)
    assert again.digest() == memory.digest()
    assert again.image().files["table/_txn"] is image.files["table/_txn"]
    with again.open_for_writing("table/_txn") as file:
        file.pwrite(b"x", 0)
    assert image.files["table/_txn"] == CONTENT
    assert again.digest() != memory.digest()


def test_names_of_one_file_stay_names_of_one_in_an_image_and_in_what_is_made_from_it(memory: MemoryStorage) -> None:
    """They became separate files, so that what was written by one name was not read by the other."""
    memory.link("table/_txn", "table/second")
    memory.mkdir("a")
    memory.link("table/_txn", "a/third")
    image = memory.image()
    assert image.links == (("a/third", "table/_txn", "table/second"),)
    again = MemoryStorage.of(image)
    assert again.digest() == memory.digest()
    with again.open_for_writing("table/second") as file:
        file.pwrite(b"x", 0)
    assert len({again.image().files[path] for path in image.links[0]}) == 1


def test_an_image_of_what_lies_above_the_working_directory_is_rejected() -> None:
    with pytest.raises(StorageError, match="above the working directory"):
        MemoryStorage.of(DiskImage().with_file("../table/_txn", b""))


def test_a_copy_goes_its_own_way_and_keeps_links_but_no_locks(memory: MemoryStorage) -> None:
    memory.link("table/_txn", "table/second")
    locked = memory.open_for_writing("table/_txn")
    assert locked.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
    copied = memory.copy()
    assert copied.digest() == memory.digest()
    with copied.open_for_writing("table/second") as file:
        assert file.try_lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
        file.pwrite(b"copy", 0)
    assert copied.image().files["table/_txn"][:4] == b"copy"
    assert memory.image().files["table/_txn"] == CONTENT
    locked.pwrite(b"original", 0)
    assert copied.image().files["table/_txn"][:4] == b"copy"


def test_a_digest_tells_names_bytes_links_and_directories_apart(memory: MemoryStorage) -> None:
    def linked(storage: MemoryStorage) -> None:
        storage.link("table/_txn", "table/second")

    def copied(storage: MemoryStorage) -> None:
        with storage.open_for_writing("table/second", OpenMode.NEW) as file:
            file.pwrite(CONTENT, 0)

    def longer(storage: MemoryStorage) -> None:
        with storage.open_for_writing("table/_txn") as file:
            file.truncate(101)

    changes: tuple[Callable[[MemoryStorage], None], ...] = (
        lambda storage: None,
        linked,
        copied,
        longer,
        lambda storage: storage.mkdir("table/second"),
        lambda storage: storage.open_for_writing("table/second", OpenMode.NEW).close(),
        lambda storage: storage.rename("table/_txn", "table/second"),
        lambda storage: storage.rename("table", "moved"),
    )
    digests = []
    for change in changes:
        storage = memory.copy()
        change(storage)
        digests.append(storage.digest())
    assert len(set(digests)) == len(changes)
    assert digests[0] == memory.digest()
