"""Everything that the implementation does to files, as protocols that every storage implements.

A path is a `str` of names joined by "/", used as given: an absolute path starts with "/", any other is relative to the
storage's working directory. A table's files are only accessed as f"{table}/{name}", so a reader needs only a table
path and a storage. Symbolic links are followed for reading, because QuestDB links partitions and tables; a file opened
for writing must not be a link.

Every call that fails raises a `StorageError` (a `FileMissingError` if nothing exists there), whose `reason` is a
`StorageReason` if one fits. Negative sizes or offsets are bugs of the caller, never bad input, and fail an assert.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum, StrEnum
from typing import Protocol, Self

import msgspec


class EntryKind(Enum):
    """What is at a path; `LINK` only where links are not followed."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"
    LINK = "symbolic link"


class OpenMode(Enum):
    """What must be at a path before it is opened for writing."""

    EXISTING = "existing"
    NEW = "new"
    EXISTING_OR_NEW = "existing or new"


class LockMode(Enum):
    """Shared locks are compatible with each other, an exclusive one with none."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class StorageReason(StrEnum):
    """Why a storage rejects a call, in words that complete the sentence "cannot open for reading: ..."."""

    MISSING = "it is not there"
    NOT_PERMITTED = "permission denied"
    IS_A_DIRECTORY = "it is a directory"
    NOT_A_DIRECTORY = "it or a part of its path is not a directory"
    NOT_A_REGULAR_FILE = "it is not a regular file"
    NAME_TOO_LONG = "its name is too long"
    NAME_UNUSABLE = "its path holds a null byte or a character that no file name can hold"
    LINK_NOT_FOLLOWED = "a symbolic link in its path leads in a circle or must not be followed"
    ALREADY_THERE = "it is already there"
    NOT_EMPTY = "it is not empty"
    NO_SPACE = "no space is left"
    READ_ONLY = "the file system is read-only"
    NOT_OPEN = "it is closed or was not opened for this"
    INPUT_OUTPUT = "input/output error"
    TOO_SHORT = "it is shorter than the mapping"
    NO_LOCKS = "this platform or file system has no locks that belong to an open file"
    INHERITED = "its locks belong to the process that this one was forked from"
    NO_FENCES = "nothing can be written here: this machine may reorder stores, and there is nothing that orders them"
    BIG_ENDIAN = "this machine is big-endian, and the format is not"


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of calls on a storage, its files and its mappings (the clock is not counted)."""

    step_count: int
    read_bytes: int
    written_bytes: int
    sync_count: int


class ReadableFile(Protocol):
    """A regular file opened for reading; leaving its `with` block closes it."""

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Return `size_bytes` bytes from `offset_bytes` on, or fewer if the file ends earlier.

        Never allocates more than the size of the file, so both numbers may come from unchecked bytes.
        """

    def size_bytes(self) -> int:
        """Return the current size, which may serve to reject a claimed size, never to extend it."""

    def close(self) -> None:
        """Close the file and release its locks; closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Mapping(Protocol):
    """The first bytes of a file as shared memory; leaving its `with` block unmaps it.

    Words are little-endian and aligned to their size. An unaligned word, or a range outside of the mapping, is a bug of
    the caller and fails an assert: on a real machine it may be a bus error.
    """

    def load_u32(self, offset_bytes: int) -> int:
        """Load 4 bytes in one access."""

    def load_u64(self, offset_bytes: int) -> int:
        """Load 8 bytes in one access."""

    def store_u32(self, offset_bytes: int, value: int) -> None:
        """Store 4 bytes in one access; the file must have been opened for writing."""

    def store_u64(self, offset_bytes: int, value: int) -> None:
        """Store 8 bytes in one access; the file must have been opened for writing."""

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        """Return a copy of a range, which is not one atomic access."""

    def view(self, size_bytes: int, offset_bytes: int) -> AbstractContextManager[memoryview]:
        """Lease a read-only view of a range without a copy, for published generations, which do not change.

        After the `with` block neither the view nor anything made from it may be used: using it does not crash the
        process, but the bytes may change.
        """

    def msync(self) -> None:
        """Make all earlier stores durable."""

    def unmap(self) -> None:
        """Release the memory, when no lease is active; unmapping twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.unmap()


class File(ReadableFile, Protocol):
    """A regular file that can also be mapped, locked and, if opened for writing, written."""

    @property
    def is_inherited(self) -> bool:
        """Whether it was opened by a process that this one was forked from, to which its locks belong."""
        return False

    def pwrite(self, content: bytes | bytearray | memoryview, offset_bytes: int) -> None:
        """Write all of `content`; other processes may see a part of it."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to a size, or extend it with zeros."""

    def map(self, size_bytes: int) -> Mapping:
        """Map the first `size_bytes` (at least one), also for stores if the file was opened for writing.

        Raises `StorageError` (`TOO_SHORT`) if the file is shorter. If another process truncates the file later, a load
        is a bus error, so tables with other writers are read with `pread`.
        """

    def fsync(self) -> None:
        """Make content and metadata durable."""

    def fdatasync(self) -> None:
        """Make content durable, and the size if it is needed to read that."""

    def try_lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> bool:
        """Take an advisory lock on a byte range; return at once whether it was granted.

        Locks belong to this open file, not to the process, and end with `close` or with the process. The range need not
        exist, and a lock replaces an overlapping own one. Exclusive locks need a file opened for writing. A forked
        process can neither take nor release locks of an inherited file, and `close` leaves them there.
        """

    def lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> None:
        """Take the same lock, and wait for it as long as it takes."""

    def unlock(self, *, offset_bytes: int, size_bytes: int) -> None:
        """Release whatever this open file has locked in a byte range."""


class ReadableStorage(Protocol):
    """What a reader needs: files, directories, an order of its reads, and a clock."""

    def open_for_reading(self, path: str) -> ReadableFile:
        """Open a regular file; anything else at `path` is rejected without waiting for it or reading it."""

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""

    def kind(self, path: str) -> EntryKind:
        """Return what is at `path`, symbolic links followed; below a file everything is missing."""

    def own_kind(self, path: str) -> EntryKind:
        """Return what is at `path` itself: a symbolic link is a `LINK`, wherever it leads."""

    def load_fence(self) -> None:
        """Order the loads after this call behind the loads before it."""

    def monotonic_seconds(self) -> float:
        """Return the time of a monotonic clock, of which only differences are meaningful."""

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Sleep for that long."""


class Storage(ReadableStorage, Protocol):
    """What a writer needs in addition: changes of files and directories, barriers, counters."""

    def open_for_reading(self, path: str) -> File:
        """Open a regular file that can be mapped and locked in shared mode, but not written."""

    def open_for_writing(self, path: str, mode: OpenMode = OpenMode.EXISTING) -> File:
        """Open a regular file for reading and writing; never truncates it, never follows a link as the last name."""

    def take_permissions(self, source_path: str, target_path: str) -> None:
        """Give a file the permissions of another one, and its group where the process may; simulated ones have none."""

    def mkdir(self, path: str) -> None:
        """Create a directory in an existing one."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def rename(self, source_path: str, target_path: str) -> None:
        """Rename an entry atomically; a file at the target is replaced."""

    def link(self, source_path: str, target_path: str) -> None:
        """Give a file a second name, which must not exist."""

    def unlink(self, path: str) -> None:
        """Remove the name of a file, or of a symbolic link itself; open files and mappings of it stay usable."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def store_fence(self) -> None:
        """Order the stores after this call behind the stores before it."""

    def mapped_by(self, path: str) -> tuple[str, ...]:
        """Return the other processes that have a file mapped, as far as this one can see; it is no step of a process.

        A server takes no lock, but maps the `_txn` of each table that it has open.
        """

    def counters(self) -> Counters:
        """Return the current counters."""
