"""How the operating system's storage opens and rejects paths.

What storages in memory do too is tested together with them (`test_memory_storage.py`, `test_disk_image.py`).
"""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from command_line import TIMEOUT_SECONDS
from processes import descriptor_count, started

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
