"""Open files and mappings of the storage in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tornproof.harness.simulator.filesystem.locks import Session
from tornproof.harness.simulator.filesystem.memory_tree import Inode
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import File, LockMode, Mapping, StorageReason

# A write at a corrupt offset must fail as on a full disk, and not use up the memory of this process.
CAPACITY_BYTES = 1 << 30
OFFSET_BYTES_END = 1 << 63
"""Offsets of files are less, as in a signed 64-bit integer."""


class BusError(BaseException):
    """A mapping was accessed beyond the end of its file, which kills a real process, so it is not an `Exception`.

    A real machine is less strict: the rest of the last page can be accessed.
    """


class MemoryFile(File):
    """An open file of a storage in memory."""

    def __init__(self, path: str, inode: Inode, session: Session, *, is_writable: bool) -> None:
        """Open `inode`; `path` is for messages only."""
        self._path = path
        self._inode = inode
        self._session = session
        self._is_writable = is_writable
        self._is_open = True

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Copy the range."""
        assert size_bytes >= 0 and offset_bytes >= 0
        self._session.step("read", self._path, offset_bytes)
        self._check(self._is_open, "read")
        content = self._inode.read(size_bytes, offset_bytes)
        self._session.tally.read_bytes += len(content)
        return content

    def size_bytes(self) -> int:
        """Return the current size."""
        self._session.step("ask for the size", self._path)
        self._check(self._is_open, "ask for the size")
        return self._inode.size_bytes

    def pwrite(self, content: bytes | bytearray | memoryview, offset_bytes: int) -> None:
        """Write all at once."""
        written = bytes(content)
        assert 0 <= offset_bytes < OFFSET_BYTES_END - len(written)
        self._session.step("write", self._path, offset_bytes)
        if written:
            self._check(self._is_open and self._is_writable, "write")
            self._check(offset_bytes + len(written) <= CAPACITY_BYTES, "write", StorageReason.NO_SPACE)
            self._inode.write(written, offset_bytes)
            self._session.tally.written_bytes += len(written)

    def truncate(self, size_bytes: int) -> None:
        """Set the size."""
        assert 0 <= size_bytes < OFFSET_BYTES_END
        self._session.step("truncate", self._path)
        self._check(self._is_open and self._is_writable, "truncate")
        self._check(size_bytes <= CAPACITY_BYTES, "truncate", StorageReason.NO_SPACE)
        self._inode.resize(size_bytes)

    def map(self, size_bytes: int) -> Mapping:
        """Map the inode; the mapping outlives this open file and its name."""
        assert size_bytes > 0
        self._session.step("map", self._path)
        self._check(self._is_open, "map")
        self._check(size_bytes <= self._inode.size_bytes, "map", StorageReason.TOO_SHORT)
        return _MemoryMapping(self._inode, size_bytes, self._session, is_writable=self._is_writable)

    def fsync(self) -> None:
        """Count only."""
        self._session.sync("sync", self._path)
        self._check(self._is_open, "sync")

    def fdatasync(self) -> None:
        """Count only."""
        self.fsync()

    def try_lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> bool:
        """Lock the range in the table of the inode, which has the locks of all its open files."""
        start, stop = self._lock_range(offset_bytes, size_bytes)
        self._check(self._is_writable or mode is LockMode.SHARED, "lock")
        return self._inode.locks.try_lock(self, self._session, mode, start, stop)

    def lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> None:
        """Lock the range; nobody can release it meanwhile, so waiting for it would have no end."""
        if not self.try_lock(mode, offset_bytes=offset_bytes, size_bytes=size_bytes):
            raise EndlessError(f"it waits for the lock of {self._path}")

    def unlock(self, *, offset_bytes: int, size_bytes: int) -> None:
        """Unlock the range; locks of this file stay on both sides."""
        self._inode.locks.unlock(self, *self._lock_range(offset_bytes, size_bytes))

    def close(self) -> None:
        """Release all locks."""
        if self._is_open:
            self._session.step("close", self._path)
            self._is_open = False
            self._inode.locks.unlock(self, 0, OFFSET_BYTES_END)

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        self.close()

    def _check(self, is_granted: bool, operation: str, reason: StorageReason = StorageReason.NOT_OPEN) -> None:
        if not is_granted:
            raise StorageError(file=self._path, operation=operation, reason=reason)

    def _lock_range(self, offset_bytes: int, size_bytes: int) -> tuple[int, int]:
        assert size_bytes > 0 and offset_bytes >= 0 and offset_bytes + size_bytes <= OFFSET_BYTES_END
        self._session.step("lock", self._path, offset_bytes)
        self._check(self._is_open, "lock")
        return offset_bytes, offset_bytes + size_bytes


class _MemoryMapping(Mapping):
    def __init__(self, inode: Inode, size_bytes: int, session: Session, *, is_writable: bool) -> None:
        self._inode = inode
        self._size_bytes = size_bytes
        self._session = session
        self._is_writable = is_writable
        self._is_mapped = True
        self._lease_count = 0

    def load_u32(self, offset_bytes: int) -> int:
        return self._load(4, offset_bytes)

    def load_u64(self, offset_bytes: int) -> int:
        return self._load(8, offset_bytes)

    def store_u32(self, offset_bytes: int, value: int) -> None:
        self._store(4, offset_bytes, value)

    def store_u64(self, offset_bytes: int, value: int) -> None:
        self._store(8, offset_bytes, value)

    def _load(self, size_bytes: int, offset_bytes: int) -> int:
        assert offset_bytes % size_bytes == 0
        return int.from_bytes(self.read(size_bytes, offset_bytes), "little")

    def _store(self, size_bytes: int, offset_bytes: int, value: int) -> None:
        assert self._is_writable and offset_bytes % size_bytes == 0 and 0 <= value < 1 << size_bytes * 8
        self._access(size_bytes, offset_bytes)
        self._session.tally.written_bytes += size_bytes
        self._inode.write(value.to_bytes(size_bytes, "little"), offset_bytes)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        self._access(size_bytes, offset_bytes)
        self._session.tally.read_bytes += size_bytes
        return self._inode.read(size_bytes, offset_bytes)

    def _access(self, size_bytes: int, offset_bytes: int) -> None:
        if not self._is_mapped:
            raise ValueError("the mapping is released")
        assert size_bytes >= 0 and offset_bytes >= 0 and offset_bytes + size_bytes <= self._size_bytes
        self._session.step("use a mapping", offset_bytes=offset_bytes)
        self._check_end(offset_bytes + size_bytes)

    def _check_end(self, end_bytes: int) -> None:
        if end_bytes > self._inode.size_bytes:
            raise BusError(f"byte {end_bytes - 1} of a mapped file that ends at byte {self._inode.size_bytes}")

    @contextmanager
    def view(self, size_bytes: int, offset_bytes: int) -> Iterator[memoryview]:
        self._access(size_bytes, offset_bytes)
        self._session.tally.read_bytes += size_bytes
        lease = self._inode.lease(size_bytes, offset_bytes)
        self._lease_count += 1
        try:
            yield lease
            # Accesses through a view cannot be seen; if the file was truncated meanwhile, one is assumed.
            self._check_end(offset_bytes + size_bytes)
        finally:
            self._lease_count -= 1
            with suppress(BufferError):  # another view of it keeps the bytes, which is harmless here
                lease.release()

    def msync(self) -> None:
        self._session.sync("sync a mapping")

    def unmap(self) -> None:
        assert self._lease_count == 0
        self._session.step("unmap")
        self._is_mapped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.unmap()
