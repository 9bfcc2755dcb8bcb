"""Locks belong to an open file: not to the process, not to the inode, and not to the disk."""

import errno
import fcntl
import sys
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import pytest
from processes import descriptor_count, forked, holding

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

pytestmark = pytest.mark.usefixtures("empty_directory")


SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE


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
