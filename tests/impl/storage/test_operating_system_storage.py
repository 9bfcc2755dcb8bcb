"""What the operating system's storage does with paths, files, mappings and locks.

What storages in memory do too is tested together with them (`test_memory_storage.py`, `test_disk_image.py`).
"""

import copy
import errno
import fcntl
import gc
import mmap
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy
import pytest
from command_line import TIMEOUT_SECONDS
from processes import descriptor_count, forked, holding, started

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE


@contextmanager
def at_most_seconds(duration_seconds: float) -> Iterator[None]:
    def give_up(*_: object) -> NoReturn:
        raise AssertionError(f"hung for {duration_seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, duration_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("mode", [OpenMode.EXISTING, OpenMode.EXISTING_OR_NEW])
def test_opening_for_writing_keeps_the_content(storage: OperatingSystemStorage, file: File, mode: OpenMode) -> None:
    with storage.open_for_writing("file", mode) as again:
        assert again.pread(100, 0) == bytes(range(100))
    assert Path("file").stat().st_mode & 0o600 == 0o600


def make_fifo() -> None:
    os.mkfifo("thing")


def make_socket() -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("thing")


def make_link_to_a_device() -> None:
    Path("thing").symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_link_to_a_device])
def test_what_is_no_regular_file_is_rejected_at_once_and_leaks_nothing(
    storage: OperatingSystemStorage, make: Callable[[], None]
) -> None:
    make()
    assert storage.kind("thing") is EntryKind.OTHER
    before_count = descriptor_count()
    with at_most_seconds(5), pytest.raises(StorageError, match=StorageReason.NOT_A_REGULAR_FILE):
        storage.open_for_reading("thing")
    with at_most_seconds(5), pytest.raises(StorageError):
        storage.open_for_writing("thing")
    assert descriptor_count() == before_count


def test_a_directory_is_rejected_as_a_file_and_leaks_nothing(storage: OperatingSystemStorage) -> None:
    storage.mkdir("directory")
    before_count = descriptor_count()
    for call in (storage.open_for_reading, storage.open_for_writing):
        with pytest.raises(StorageError, match=StorageReason.IS_A_DIRECTORY):
            call("directory")
    assert descriptor_count() == before_count


def test_links_are_followed_for_reading_and_rejected_for_writing(storage: OperatingSystemStorage, file: File) -> None:
    Path("link").symlink_to("file")
    with storage.open_for_reading("link") as reading:
        assert reading.size_bytes() == 100
    for mode in (OpenMode.EXISTING, OpenMode.EXISTING_OR_NEW):
        with pytest.raises(StorageError, match=StorageReason.LINK_NOT_FOLLOWED):
            storage.open_for_writing("link", mode)
    with pytest.raises(StorageError, match=StorageReason.ALREADY_THERE):
        storage.open_for_writing("link", OpenMode.NEW)


def test_a_circle_of_links_is_rejected_and_a_dangling_link_is_missing(storage: OperatingSystemStorage) -> None:
    Path("circle").symlink_to("circle")
    Path("dangling").symlink_to("nowhere")
    for call in (storage.open_for_reading, storage.listdir, storage.kind):
        with pytest.raises(StorageError, match=StorageReason.LINK_NOT_FOLLOWED):
            call("circle")
    assert storage.kind("dangling") is EntryKind.MISSING
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.open_for_reading("dangling")


def test_a_lock_is_waited_for_until_it_is_released(storage: OperatingSystemStorage, file: File) -> None:
    events: list[str] = []
    with storage.open_for_writing("file") as other:

        def wait() -> None:
            other.lock(EXCLUSIVE, offset_bytes=0, size_bytes=1)
            events.append("taken")

        file.lock(SHARED, offset_bytes=0, size_bytes=1)
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        # Whoever does not wait has taken it by now.
        waiting.join(timeout=0.05)
        events.append("released")
        file.unlock(offset_bytes=0, size_bytes=1)
        waiting.join(timeout=TIMEOUT_SECONDS)
        assert events == ["released", "taken"]


def test_permission_is_rejected_in_plain_words_and_what_is_permitted_is_read() -> None:
    Path.cwd().chmod(0o755)
    for name, mode in (("open", 0o444), ("closed", 0o000)):
        Path(name).write_bytes(b"content")
        Path(name).chmod(mode)
    child = started(
        "import os\n"
        "from tornproof.impl.errors import StorageError\n"
        "from tornproof.impl.storage.operating_system import OperatingSystemStorage\n"
        "if os.getuid() == 0:\n"  # permission bits do not bind root
        "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "storage = OperatingSystemStorage()\n"
        "print(storage.open_for_reading('open').pread(7, 0))\n"
        "for call, path in ((storage.open_for_reading, 'closed'), (storage.open_for_writing, 'open')):\n"
        "    try:\n"
        "        print(call(path))\n"
        "    except StorageError as error:\n"
        "        print(error)\n"
    )
    printed, _ = child.communicate(timeout=TIMEOUT_SECONDS)
    assert printed.splitlines() == [
        "b'content'",
        "closed: cannot open for reading: permission denied",
        "open: cannot open for writing: permission denied",
    ]


def test_descriptors_are_not_inherited_by_other_programs(storage: OperatingSystemStorage, file: File) -> None:
    def inherited_count() -> int:
        script = (
            "import os, sys\n"
            "def inode(descriptor):\n"
            "    try:\n"
            "        return os.fstat(descriptor).st_ino\n"
            "    except OSError:\n"
            "        return None\n"
            "print(sum(inode(descriptor) == os.stat('file').st_ino for descriptor in range(3, 256)))\n"
        )
        child = subprocess.run([sys.executable, "-c", script], close_fds=False, stdout=subprocess.PIPE, check=True)
        return int(child.stdout)

    with storage.open_for_reading("file"), file.map(10):
        assert inherited_count() == 0
    with Path("file").open("rb") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        assert inherited_count() == 1


def test_a_failure_after_the_open_leaks_nothing(
    storage: OperatingSystemStorage, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(errno.EIO, "")

    before_count = descriptor_count()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", fail)
        patched.setattr(os, "fsync", fail)
        for call in (lambda: storage.open_for_reading("file"), lambda: storage.sync_directory(".")):
            with pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
                call()
    assert descriptor_count() == before_count


def test_closing_gives_the_descriptor_back(storage: OperatingSystemStorage, file: File) -> None:
    before_count = descriptor_count()
    with storage.open_for_reading("file") as reading, reading.map(50) as mapping:
        assert descriptor_count() > before_count
    reading.close()
    assert descriptor_count() == before_count
    mapping.unmap()


def test_the_modules_import_and_sync_where_linux_calls_are_missing(file: File) -> None:
    child = started(
        "import fcntl, os, sys\n"
        "sys.platform = 'darwin'\n"
        "del os.fdatasync, fcntl.F_OFD_SETLK\n"
        "fcntl.F_FULLFSYNC = 51\n"
        "from tornproof.impl.storage.operating_system import OperatingSystemStorage\n"
        "file = OperatingSystemStorage().open_for_writing('file')\n"
        "file.fdatasync()\n"
        "print(file.pread(3, 0))\n"
    )
    printed, _ = child.communicate(timeout=TIMEOUT_SECONDS)
    assert printed == "b'\\x00\\x01\\x02'\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda storage, file: storage.open_for_reading("file"),
        lambda storage, file: storage.listdir("."),
        lambda storage, file: storage.kind("file"),
        lambda storage, file: storage.mkdir("directory"),
        lambda storage, file: storage.rename("file", "target"),
        lambda storage, file: storage.link("file", "target"),
        lambda storage, file: storage.unlink("file"),
        lambda storage, file: storage.load_fence(),
        lambda storage, file: storage.store_fence(),
        lambda storage, file: file.size_bytes(),
        lambda storage, file: file.truncate(5),
        lambda storage, file: file.try_lock(SHARED, offset_bytes=0, size_bytes=1),
        lambda storage, file: file.lock(SHARED, offset_bytes=0, size_bytes=1),
        lambda storage, file: file.unlock(offset_bytes=0, size_bytes=1),
        lambda storage, file: file.close(),
    ],
)
def test_every_call_is_one_step(
    storage: OperatingSystemStorage, file: File, call: Callable[[OperatingSystemStorage, File], object]
) -> None:
    before_count = storage.counters().step_count
    call(storage, file)
    assert storage.counters().step_count == before_count + 1


def test_a_rejected_call_is_a_step_too(storage: OperatingSystemStorage) -> None:
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.rmdir("nowhere")
    assert storage.counters().step_count == 1


# Names and directories


def test_link_and_unlink_change_a_symbolic_link_and_not_its_target(storage: OperatingSystemStorage, file: File) -> None:
    Path("symbolic").symlink_to("file")
    storage.link("symbolic", "copy")
    assert Path("copy").is_symlink()
    storage.unlink("symbolic")
    assert storage.listdir(".") == ("copy", "file")


def test_unlink_removes_a_name_and_rejects_what_has_none(storage: OperatingSystemStorage, file: File) -> None:
    storage.unlink("file")
    assert file.pread(1, 99) == b"c"
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.unlink("file")
    storage.mkdir("directory")
    with pytest.raises(StorageError):
        storage.unlink("directory")
    assert storage.kind("directory") is EntryKind.DIRECTORY


def test_sync_directory_syncs_that_directory_and_rejects_files(
    storage: OperatingSystemStorage, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.mkdir("directory")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    before_count = descriptor_count()
    storage.sync_directory("directory")
    assert synced == [Path("directory").stat().st_ino]
    with pytest.raises(StorageError, match=StorageReason.NOT_A_DIRECTORY):
        storage.sync_directory("file")
    with pytest.raises(FileMissingError, match=StorageReason.MISSING):
        storage.sync_directory("nowhere")
    assert descriptor_count() == before_count


@pytest.mark.parametrize("path", ["null\0byte", "surrogate\ud800"])
def test_unusable_names_are_rejected_by_every_call(storage: OperatingSystemStorage, file: File, path: str) -> None:
    calls: tuple[Callable[[str], object], ...] = (
        storage.open_for_writing,
        storage.mkdir,
        storage.rmdir,
        storage.unlink,
        storage.sync_directory,
        lambda unusable: storage.rename("file", unusable),
        lambda unusable: storage.link(unusable, "file"),
    )
    for call in calls:
        with pytest.raises(StorageError, match=StorageReason.NAME_UNUSABLE):
            call(path)


# Open files


def test_written_bytes_are_read_back_and_gaps_are_zeros(storage: OperatingSystemStorage, file: File) -> None:
    file.pwrite(b"", 300)
    assert file.size_bytes() == 100
    file.pwrite(b"words", 110)
    file.pwrite(bytearray(b"z"), 0)
    with storage.open_for_reading("file") as reading:
        assert reading.pread(200, 0) == b"z" + bytes(range(1, 100)) + bytes(10) + b"words"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_open_file_cannot_be_copied_because_both_would_close_one_descriptor(
    copied: Callable[[File], object], file: File
) -> None:
    with pytest.raises(TypeError, match="file: an open file, or what holds one, cannot be copied"):
        copied(file)


def test_truncate_cuts_and_extends_with_zeros(file: File) -> None:
    file.truncate(3)
    file.truncate(6)
    assert file.pread(100, 0) == b"\x00\x01\x02\x00\x00\x00"


def test_short_counts_of_the_system_are_made_up_for(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_pread, whole_pwrite = os.pread, os.pwrite
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: whole_pread(fd, min(size, 7), offset))
    monkeypatch.setattr(os, "pwrite", lambda fd, content, offset: whole_pwrite(fd, bytes(content)[:3], offset))
    file.pwrite(memoryview(b"01234567" * 3).cast("Q"), 50)
    assert file.pread(100, 40) == bytes(range(40, 50)) + b"01234567" * 3 + bytes(range(74, 100))
    assert file.pread(10, 40) == bytes(range(40, 50))


def test_a_file_that_shrinks_during_a_read_gives_a_short_answer(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([bytes(10), b""])
    monkeypatch.setattr(os, "pread", lambda *_: next(answers))
    assert file.pread(100, 0) == bytes(10)


def test_a_disk_that_takes_no_bytes_is_an_error_and_not_a_loop(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([3, 0])
    monkeypatch.setattr(os, "pwrite", lambda *_: next(answers))
    with pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        file.pwrite(b"12345", 0)


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("pread", lambda file: file.pread(1, 0)),
        ("pwrite", lambda file: file.pwrite(b"x", 0)),
        ("ftruncate", lambda file: file.truncate(0)),
        ("fstat", lambda file: file.size_bytes()),
        ("fsync", lambda file: file.fsync()),
        ("fdatasync" if sys.platform == "linux" else "fsync", lambda file: file.fdatasync()),
    ],
)
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EIO, StorageReason.INPUT_OUTPUT),
        (errno.ENOSPC, StorageReason.NO_SPACE),
        (errno.EROFS, StorageReason.READ_ONLY),
        (errno.EFBIG, os.strerror(errno.EFBIG)),
    ],
)
def test_errors_of_the_system_arrive_in_plain_words(
    file: File, monkeypatch: pytest.MonkeyPatch, function: str, call: Callable[[File], object], number: int, reason: str
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail)
        with pytest.raises(StorageError, match=reason):
            call(file)


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.pread(1, 0),
        lambda file: file.pwrite(b"x", 0),
        lambda file: file.size_bytes(),
        lambda file: file.truncate(0),
        lambda file: file.map(1),
        lambda file: file.fsync(),
        lambda file: file.fdatasync(),
        lambda file: file.try_lock(LockMode.SHARED, offset_bytes=0, size_bytes=1),
        lambda file: file.unlock(offset_bytes=0, size_bytes=1),
    ],
)
def test_a_closed_file_rejects_every_call(use: Callable[[File], object], tmp_path: Path) -> None:
    storage = OperatingSystemStorage()
    file = storage.open_for_writing(f"{tmp_path}/file", OpenMode.NEW)
    file.close()
    with pytest.raises(StorageError) as caught:
        use(file)
    assert caught.value.reason == StorageReason.NOT_OPEN


# Mappings


def test_words_at_both_ends_of_a_mapping_are_in_reach_and_no_further(file: File) -> None:
    with file.map(100) as mapping:
        assert mapping.load_u64(88) == int.from_bytes(bytes(range(88, 96)), "little")
        assert mapping.load_u32(96) == int.from_bytes(bytes(range(96, 100)), "little")
        for offset_bytes in (-8, 96, 100, 104):
            with pytest.raises(AssertionError):
                mapping.load_u64(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u64(offset_bytes, 0)
        for offset_bytes in (-4, 100):
            with pytest.raises(AssertionError):
                mapping.load_u32(offset_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u32(offset_bytes, 0)
    assert file.pread(100, 0) == bytes(range(100))
    with file.map(24) as mapping:
        assert mapping.load_u64(16) == int.from_bytes(bytes(range(16, 24)), "little")


@pytest.mark.parametrize("misalignment_bytes", range(1, 8))
def test_unaligned_words_are_rejected(file: File, misalignment_bytes: int) -> None:
    with file.map(100) as mapping:
        with pytest.raises(AssertionError):
            mapping.load_u64(16 + misalignment_bytes)
        with pytest.raises(AssertionError):
            mapping.store_u64(16 + misalignment_bytes, 0)
        if misalignment_bytes % 4:
            with pytest.raises(AssertionError):
                mapping.load_u32(16 + misalignment_bytes)
            with pytest.raises(AssertionError):
                mapping.store_u32(16 + misalignment_bytes, 0)
    assert file.pread(100, 0) == bytes(range(100))


def test_words_hold_their_largest_value_and_reject_larger_ones(file: File) -> None:
    with file.map(16) as mapping:
        mapping.store_u64(0, (1 << 64) - 1)
        mapping.store_u32(8, (1 << 32) - 1)
        assert (mapping.load_u64(0), mapping.load_u32(8)) == ((1 << 64) - 1, (1 << 32) - 1)
        for value in (-1, 1 << 64):
            with pytest.raises(AssertionError):
                mapping.store_u64(0, value)
        for value in (-1, 1 << 32):
            with pytest.raises(AssertionError):
                mapping.store_u32(8, value)


@pytest.mark.parametrize(("size_bytes", "offset_bytes"), [(11, 90), (1, 100), (-1, 0), (1, -1)])
def test_ranges_outside_of_a_mapping_are_rejected(file: File, size_bytes: int, offset_bytes: int) -> None:
    with file.map(100) as mapping:
        with pytest.raises(AssertionError):
            mapping.read(size_bytes, offset_bytes)
        with pytest.raises(AssertionError), mapping.view(size_bytes, offset_bytes):
            pass


@pytest.mark.parametrize("keep", [lambda view: numpy.frombuffer(view, "u1"), pickle.PickleBuffer])
def test_bytes_that_an_error_carries_out_of_a_lease_hide_no_error_and_crash_nothing(
    file: File, keep: Callable[[memoryview], object]
) -> None:
    with pytest.raises(FileMissingError, match="on purpose"), file.map(100) as mapping, mapping.view(10, 0) as leased:
        kept = keep(leased)
        raise FileMissingError(file="inner", operation="test", reason="on purpose")
    assert bytes(memoryview(kept)) == bytes(range(10))  # type: ignore[arg-type]


def test_the_memory_goes_with_the_last_array_of_it(file: File) -> None:
    before_count = descriptor_count()
    with file.map(100) as mapping, mapping.view(10, 0) as leased:
        kept = numpy.frombuffer(leased, "u1")
    assert descriptor_count() == before_count + 1
    del kept, leased, mapping
    gc.collect()
    assert descriptor_count() == before_count


def test_a_failing_msync_arrives_in_plain_words(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingMap(mmap.mmap):
        def flush(self, *_: object) -> NoReturn:
            raise OSError("an error that carries no number")

    monkeypatch.setattr(mmap, "mmap", FailingMap)
    with file.map(100) as mapping, pytest.raises(StorageError, match=StorageReason.INPUT_OUTPUT):
        mapping.msync()


# Locks belong to an open file: not to the process, not to the inode, and not to the disk


@pytest.fixture
def other(storage: OperatingSystemStorage, file: File) -> Iterator[File]:
    with storage.open_for_writing("file") as opened:
        yield opened


def test_the_lock_of_a_killed_process_goes_with_it(file: File) -> None:
    script = (
        "from tornproof.impl.storage.operating_system import OperatingSystemStorage\n"
        "from tornproof.impl.storage.interface import LockMode\n"
        "file = OperatingSystemStorage().open_for_writing('file')\n"
        "assert file.try_lock(LockMode.EXCLUSIVE, offset_bytes=9, size_bytes=1)"
    )
    with holding(script):
        assert not file.try_lock(SHARED, offset_bytes=9, size_bytes=1)
        assert file.try_lock(SHARED, offset_bytes=8, size_bytes=1)
    assert file.try_lock(EXCLUSIVE, offset_bytes=9, size_bytes=1)


@pytest.mark.parametrize("mode", LockMode)
def test_a_forked_process_neither_ends_nor_takes_locks_of_the_one_before_it(
    storage: OperatingSystemStorage, other: File, mode: LockMode
) -> None:
    """It closed a file, or ended, and the lock of its parent was gone."""
    opened, span = [storage.open_for_writing("file")], {"offset_bytes": 3, "size_bytes": 1}
    assert opened[0].try_lock(mode, **span)
    for name, modes in (("try_lock", [mode]), ("lock", [mode]), ("unlock", [])):
        answer = forked(partial(getattr(opened[0], name), *modes, **span))
        assert answer == f"StorageError: file: cannot lock: {StorageReason.INHERITED}"
    assert forked(opened[0].close) == forked(opened.clear) == "None"
    assert not other.try_lock(EXCLUSIVE, **span)
    opened[0].close()
    assert other.try_lock(EXCLUSIVE, **span)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        *((number, StorageReason.NO_LOCKS) for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)),
        (errno.EIO, StorageReason.INPUT_OUTPUT),
    ],
)
def test_a_lock_that_the_file_system_cannot_give_is_an_error_and_not_a_busy_lock(
    file: File, monkeypatch: pytest.MonkeyPatch, number: int, reason: StorageReason
) -> None:
    """NFS, Lustre and others without locks each gave another reason, which no reader took for the lack of locks."""

    def fail(*_: object) -> NoReturn:
        raise OSError(number, "")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    for lock in (file.try_lock, file.lock):
        with pytest.raises(StorageError) as caught:
            lock(SHARED, offset_bytes=0, size_bytes=1)
        assert caught.value.reason == reason


def test_other_platforms_reject_locks_in_plain_words_and_still_close(
    storage: OperatingSystemStorage, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_count = descriptor_count()
    reading = storage.open_for_reading("file")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "platform", "darwin")
        with pytest.raises(StorageError, match=StorageReason.NO_LOCKS):
            reading.try_lock(SHARED, offset_bytes=0, size_bytes=1)
        reading.close()
    assert descriptor_count() == before_count
