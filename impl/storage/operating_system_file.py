"""Open files and mappings of the real operating system, whose errors are translated.

Python repeats calls that a signal interrupts (PEP 475).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import msgspec

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import File, LockMode, Mapping, StorageReason

# Some systems fail to transfer 2 GiB or more in one call instead of transferring less.
_CALL_BYTES_MAX = 1 << 30
_OFFSET_BYTES_END = 1 << 63
_CLOSED = -1
_REJECTIONS = {
    errno.ENOENT: StorageReason.MISSING,
    errno.EACCES: StorageReason.NOT_PERMITTED,
    errno.EPERM: StorageReason.NOT_PERMITTED,
    errno.EISDIR: StorageReason.IS_A_DIRECTORY,
    errno.ENOTDIR: StorageReason.NOT_A_DIRECTORY,
    errno.ENXIO: StorageReason.NOT_A_REGULAR_FILE,
    errno.ENODEV: StorageReason.NOT_A_REGULAR_FILE,
    errno.ENAMETOOLONG: StorageReason.NAME_TOO_LONG,
    errno.ELOOP: StorageReason.LINK_NOT_FOLLOWED,
    errno.EEXIST: StorageReason.ALREADY_THERE,
    errno.ENOTEMPTY: StorageReason.NOT_EMPTY,
    errno.ENOSPC: StorageReason.NO_SPACE,
    errno.EDQUOT: StorageReason.NO_SPACE,
    errno.EROFS: StorageReason.READ_ONLY,
    errno.EBADF: StorageReason.NOT_OPEN,
    errno.EIO: StorageReason.INPUT_OUTPUT,
}
LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""How a link fails that is no name of anything; a file that is removed meanwhile is not there, too."""
# Of a lock on Lustre without `flock`, on NFS whose lock service is not there, and on others.
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


def sync_to_disk(descriptor: int) -> None:
    """Sync a file or a directory; on macOS `fsync` leaves it in the cache of the disk, which `F_FULLFSYNC` empties."""
    if sys.platform == "darwin":
        with suppress(OSError):  # file systems that do not have it
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


class Tally(msgspec.Struct):
    """The mutable form of `Counters`, shared by a storage and everything opened through it."""

    step_count: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    sync_count: int = 0


class TranslateOsErrors:
    """A context manager that translates an `OSError` into a `StorageError` or `FileMissingError`.

    A class and not a generator, for speed: every read uses it.
    """

    __slots__ = ("_operation", "_path")

    def __init__(self, path: str, operation: str) -> None:
        """Remember the file and the operation for the message."""
        self._path = path
        self._operation = operation

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        """Translate an `OSError`; let everything else pass."""
        if isinstance(error, OSError):
            number = error.errno or errno.EIO
            raised = FileMissingError if number == errno.ENOENT else StorageError
            raise raised(self._path, self._operation, _REJECTIONS.get(number) or os.strerror(number)) from error


class OpenFile(File):
    """A regular file, whose descriptor this object owns."""

    def __init__(self, path: str, descriptor: int, tally: Tally, *, is_writable: bool) -> None:
        """Take ownership of `descriptor`; `path` is only for messages."""
        self._path = path
        self._descriptor = descriptor
        self._tally = tally
        self._is_writable = is_writable
        self._was_locked = False
        self._process = os.getpid()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raise TypeError: a copy would close the same descriptor, which may be another file's by then."""
        raise TypeError(f"{self._path}: an open file, or what holds one, cannot be copied or sent to another process")

    @property
    def is_inherited(self) -> bool:
        """Compare the processes, because a forked one has a copy of this object."""
        return self._process != os.getpid()

    @property
    def _open_descriptor(self) -> int:
        """The descriptor, which must be open: -1 would make `mmap` map anonymous memory."""
        if self._descriptor == _CLOSED:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Read until everything is read or the file ends, however little each call returns."""
        assert size_bytes >= 0 and offset_bytes >= 0
        self._tally.step_count += 1
        parts = []
        with TranslateOsErrors(self._path, "read"):
            # os.pread allocates the requested size, so never request more than there is.
            end_bytes = min(offset_bytes + size_bytes, os.fstat(self._open_descriptor).st_size)
            while offset_bytes < end_bytes:
                part = os.pread(self._open_descriptor, min(end_bytes - offset_bytes, _CALL_BYTES_MAX), offset_bytes)
                if not part:  # another process truncated the file meanwhile
                    break
                parts.append(part)
                offset_bytes += len(part)
                self._tally.read_bytes += len(part)
        return b"".join(parts)

    def size_bytes(self) -> int:
        """Use the descriptor, not the path."""
        self._tally.step_count += 1
        with TranslateOsErrors(self._path, "ask for the size"):
            return os.fstat(self._open_descriptor).st_size

    def pwrite(self, content: bytes | bytearray | memoryview, offset_bytes: int) -> None:
        """Write until everything is written, however little each call writes."""
        remaining = memoryview(content).cast("B")
        assert 0 <= offset_bytes < _OFFSET_BYTES_END - len(remaining)
        self._tally.step_count += 1
        with TranslateOsErrors(self._path, "write"):
            while remaining:
                taken_bytes = os.pwrite(self._open_descriptor, remaining[:_CALL_BYTES_MAX], offset_bytes)
                if taken_bytes == 0:  # otherwise a call that writes nothing without an error would be repeated forever
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                remaining = remaining[taken_bytes:]
                offset_bytes += taken_bytes
                self._tally.written_bytes += taken_bytes

    def truncate(self, size_bytes: int) -> None:
        """Set the size in one call."""
        assert 0 <= size_bytes < _OFFSET_BYTES_END
        self._tally.step_count += 1
        with TranslateOsErrors(self._path, "truncate"):
            if not self._is_writable:  # clearer than the system's "invalid argument"
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            os.ftruncate(self._open_descriptor, size_bytes)

    def map(self, size_bytes: int) -> Mapping:
        """Map shared; the `mmap` module checks the size of the file."""
        assert size_bytes > 0
        self._tally.step_count += 1
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if self._is_writable else 0)
        with TranslateOsErrors(self._path, "map"):
            try:
                memory = mmap.mmap(self._open_descriptor, size_bytes, flags=mmap.MAP_SHARED, prot=protection)
            except (ValueError, OverflowError) as error:
                raise StorageError(self._path, "map", StorageReason.TOO_SHORT) from error
        return _MappedFile(self._path, memory, self._tally)

    def fsync(self) -> None:
        """Sync the descriptor."""
        self._tally.step_count += 1
        self._tally.sync_count += 1
        with TranslateOsErrors(self._path, "sync"):
            sync_to_disk(self._open_descriptor)

    def fdatasync(self) -> None:
        """Sync the content, and the size, where the system can sync them alone."""
        self._tally.step_count += 1
        self._tally.sync_count += 1
        with TranslateOsErrors(self._path, "sync"):
            if sys.platform == "linux":
                os.fdatasync(self._open_descriptor)
            else:
                sync_to_disk(self._open_descriptor)

    def try_lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> bool:
        """Lock the open file description; locks of the process would end when any file of the same inode is closed."""
        return self._take_lock(mode, offset_bytes, size_bytes, waits=False)

    def lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> None:
        """Wait in the system, which finds no deadlocks."""
        self._take_lock(mode, offset_bytes, size_bytes, waits=True)

    def unlock(self, *, offset_bytes: int, size_bytes: int) -> None:
        """Unlock the open file description."""
        assert size_bytes > 0
        self._tally.step_count += 1
        self._set_lock(fcntl.F_UNLCK, offset_bytes, size_bytes)

    def _take_lock(self, mode: LockMode, offset_bytes: int, size_bytes: int, *, waits: bool) -> bool:
        assert size_bytes > 0
        self._tally.step_count += 1
        lock_type = fcntl.F_RDLCK if mode is LockMode.SHARED else fcntl.F_WRLCK
        is_granted = self._set_lock(lock_type, offset_bytes, size_bytes, waits=waits)
        self._was_locked |= is_granted
        return is_granted

    def _set_lock(self, lock_type: int, offset_bytes: int, size_bytes: int, *, waits: bool = False) -> bool:
        assert offset_bytes >= 0 and offset_bytes + size_bytes <= _OFFSET_BYTES_END
        if sys.platform != "linux":
            raise StorageError(self._path, "lock", StorageReason.NO_LOCKS)
        if self.is_inherited:
            raise StorageError(self._path, "lock", StorageReason.INHERITED)
        # struct flock of 64-bit Linux: type, whence, start, length, and a process id that must be 0.
        request = struct.pack("hhqqi", lock_type, os.SEEK_SET, offset_bytes, size_bytes, 0)
        with TranslateOsErrors(self._path, "lock"):
            try:
                fcntl.fcntl(self._open_descriptor, fcntl.F_OFD_SETLKW if waits else fcntl.F_OFD_SETLK, request)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in _WITHOUT_LOCKS:
                    raise
                raise StorageError(self._path, "lock", StorageReason.NO_LOCKS) from error
        return True

    def close(self) -> None:
        """Unlock first, because a mapping keeps the open file description, and with it the locks."""
        if self._descriptor == _CLOSED:
            return
        self._tally.step_count += 1
        self._release()

    def _release(self) -> None:
        try:
            # A forked process shares the open file description, and would unlock it for the one before it.
            if self._was_locked and not self.is_inherited:
                self._set_lock(fcntl.F_UNLCK, 0, 0)  # a length of 0 means everything
        finally:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            with TranslateOsErrors(self._path, "close"):
                os.close(descriptor)

    def __del__(self) -> None:
        """Close a file that was forgotten with its lock, with a warning, as Python does for its own files."""
        if self._descriptor != _CLOSED and self._was_locked and not self.is_inherited:
            text = f"{self._path}: it was never closed, and held its lock until now; use a `with` block"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
            self._release()


class _MappedFile(Mapping):
    def __init__(self, path: str, memory: mmap.mmap, tally: Tally) -> None:
        self._path = path
        self._memory = memory
        self._tally = tally
        self._lease_count = 0
        self._bytes = memoryview(memory)
        # A cast view loads and stores a whole word in one access; struct.pack_into may access single bytes.
        self._words_u32 = self._bytes[: len(memory) & ~3].cast("I")
        self._words_u64 = self._bytes[: len(memory) & ~7].cast("Q")

    def load_u32(self, offset_bytes: int) -> int:
        assert offset_bytes >= 0 and offset_bytes % 4 == 0 and offset_bytes + 4 <= len(self._bytes)
        self._tally.step_count += 1
        self._tally.read_bytes += 4
        return self._words_u32[offset_bytes >> 2]

    def load_u64(self, offset_bytes: int) -> int:
        assert offset_bytes >= 0 and offset_bytes % 8 == 0 and offset_bytes + 8 <= len(self._bytes)
        self._tally.step_count += 1
        self._tally.read_bytes += 8
        return self._words_u64[offset_bytes >> 3]

    def store_u32(self, offset_bytes: int, value: int) -> None:
        assert offset_bytes >= 0 and offset_bytes % 4 == 0 and offset_bytes + 4 <= len(self._bytes)
        assert not self._bytes.readonly and 0 <= value < 1 << 32
        self._tally.step_count += 1
        self._tally.written_bytes += 4
        self._words_u32[offset_bytes >> 2] = value

    def store_u64(self, offset_bytes: int, value: int) -> None:
        assert offset_bytes >= 0 and offset_bytes % 8 == 0 and offset_bytes + 8 <= len(self._bytes)
        assert not self._bytes.readonly and 0 <= value < 1 << 64
        self._tally.step_count += 1
        self._tally.written_bytes += 8
        self._words_u64[offset_bytes >> 3] = value

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return bytes(self._range(size_bytes, offset_bytes))

    def _range(self, size_bytes: int, offset_bytes: int) -> memoryview:
        assert size_bytes >= 0 and offset_bytes >= 0 and offset_bytes + size_bytes <= len(self._bytes)
        self._tally.step_count += 1
        self._tally.read_bytes += size_bytes
        return self._bytes[offset_bytes : offset_bytes + size_bytes]

    @contextmanager
    def view(self, size_bytes: int, offset_bytes: int) -> Iterator[memoryview]:
        lease = self._range(size_bytes, offset_bytes).toreadonly()
        self._lease_count += 1
        try:
            yield lease
        finally:
            self._lease_count -= 1
            with suppress(BufferError):  # an object that still exports these bytes keeps them mapped
                lease.release()

    def msync(self) -> None:
        self._tally.step_count += 1
        self._tally.sync_count += 1
        with TranslateOsErrors(self._path, "sync the mapping"):
            self._memory.flush()

    def unmap(self) -> None:
        assert self._lease_count == 0
        self._tally.step_count += 1
        for view in (self._words_u64, self._words_u32, self._bytes):
            view.release()
        with suppress(BufferError):  # frames of an exception may hold arrays; the memory is freed with the last one
            self._memory.close()
