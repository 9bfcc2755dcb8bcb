"""How open files of the operating system read, write and fail."""

import copy
import errno
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, OpenMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


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
