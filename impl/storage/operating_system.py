"""The storage of the real operating system: paths, directories and the clock (files: `operating_system_file`).

Locks need Linux, so a table can be written nowhere else; reading works on macOS too. Machines that are not
little-endian are rejected, and for writing those that cannot order their stores.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from msgspec import structs

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.fences import fence_of_this_machine
from tornproof.impl.storage.holders import mappers_of
from tornproof.impl.storage.interface import Counters, EntryKind, File, OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system_file import OpenFile, Tally, TranslateOsErrors, sync_to_disk

# A device or FIFO must neither block nor become the controlling terminal; child processes inherit no descriptor.
_OPEN_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MODE_FLAGS = {
    OpenMode.EXISTING: os.O_NOFOLLOW,
    OpenMode.NEW: os.O_CREAT | os.O_EXCL,
    OpenMode.EXISTING_OR_NEW: os.O_CREAT | os.O_NOFOLLOW,
}
_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.LINK}


class OperatingSystemStorage(Storage):
    """Files of this machine; paths are relative to the process's working directory."""

    def __init__(self) -> None:
        """Start with all counters at zero."""
        self._tally = Tally()

    @contextmanager
    def _step(self, path: str, operation: str) -> Iterator[None]:
        """Count a call on a path, and translate the system's errors."""
        self._tally.step_count += 1
        try:
            with TranslateOsErrors(path, operation):
                yield
        except ValueError as error:  # how Python rejects null bytes and lone surrogates before the system call
            raise StorageError(path, operation, StorageReason.NAME_UNUSABLE) from error

    def open_for_reading(self, path: str) -> File:
        """Open without blocking; anything but a regular file is closed again and rejected."""
        return self._open(path, "open for reading", os.O_RDONLY)

    def open_for_writing(self, path: str, mode: OpenMode = OpenMode.EXISTING) -> File:
        """Open without blocking; anything but a regular file is closed again and rejected."""
        return self._open(path, "open for writing", os.O_RDWR | _MODE_FLAGS[mode])

    def _open(self, path: str, operation: str, flags: int) -> File:
        if sys.byteorder != "little":
            raise StorageError(path, operation, StorageReason.BIG_ENDIAN)
        if flags & os.O_RDWR and fence_of_this_machine() is None:
            raise StorageError(path, operation, StorageReason.NO_FENCES)
        with self._step(path, operation):
            descriptor = os.open(path, flags | _OPEN_FLAGS, 0o666)
            try:
                file_mode = os.fstat(descriptor).st_mode
                if not stat.S_ISREG(file_mode):
                    reason = (
                        StorageReason.IS_A_DIRECTORY if stat.S_ISDIR(file_mode) else StorageReason.NOT_A_REGULAR_FILE
                    )
                    raise StorageError(path, operation, reason)
            except BaseException:
                os.close(descriptor)
                raise
        return OpenFile(path, descriptor, self._tally, is_writable=bool(flags & os.O_RDWR))

    def listdir(self, path: str) -> tuple[str, ...]:
        """Sort, because the system's order is arbitrary."""
        with self._step(path, "list"):
            return tuple(sorted(os.listdir(path)))  # noqa: PTH208  # pathlib would give another spelling

    def kind(self, path: str) -> EntryKind:
        """Use `stat`, without opening the entry."""
        return self._kind(path, os.stat)

    def own_kind(self, path: str) -> EntryKind:
        """Use `lstat`."""
        return self._kind(path, os.lstat)

    def _kind(self, path: str, look: Callable[[str], os.stat_result]) -> EntryKind:
        with self._step(path, "look at"):
            try:
                kind = stat.S_IFMT(look(path).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return EntryKind.MISSING
        return _KINDS.get(kind, EntryKind.OTHER)

    def take_permissions(self, source_path: str, target_path: str) -> None:
        """Change the group first, because that takes permissions away."""
        with self._step(target_path, "give the permissions of another file to"):
            known = os.stat(source_path)  # noqa: PTH116
            for owner in (known.st_uid, -1):
                with suppress(PermissionError):
                    os.chown(target_path, owner, known.st_gid)
                    break
            os.chmod(target_path, stat.S_IMODE(known.st_mode))  # noqa: PTH101

    def mkdir(self, path: str) -> None:
        """Create with permissions from the process's umask."""
        with self._step(path, "make directory"):
            os.mkdir(path)  # noqa: PTH102

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        with self._step(path, "remove directory"):
            os.rmdir(path)  # noqa: PTH106

    def rename(self, source_path: str, target_path: str) -> None:
        """Rename atomically."""
        with self._step(source_path, f"rename to {target_path}"):
            os.rename(source_path, target_path)  # noqa: PTH104

    def link(self, source_path: str, target_path: str) -> None:
        """Link the entry itself, even if it is a symbolic link."""
        with self._step(source_path, f"link as {target_path}"):
            os.link(source_path, target_path, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Remove the entry itself, even if it is a symbolic link."""
        with self._step(path, "unlink"):
            os.unlink(path)  # noqa: PTH108

    def sync_directory(self, path: str) -> None:
        """Sync a temporary descriptor of the directory."""
        self._tally.sync_count += 1
        with self._step(path, "sync directory"):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sync_to_disk(descriptor)
            finally:
                os.close(descriptor)

    def load_fence(self) -> None:
        """Order the loads; without a fence, only a table that nobody writes can be read safely."""
        self._fence()

    def store_fence(self) -> None:
        """Order the stores; no file could be opened for writing if there were no fence."""
        self._fence()

    def _fence(self) -> None:
        self._tally.step_count += 1
        fence = fence_of_this_machine()
        if fence is not None:
            with TranslateOsErrors("memory", "order loads and stores"):
                fence()

    def monotonic_seconds(self) -> float:
        """Return the system's monotonic clock."""
        return time.monotonic()

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Wait."""
        time.sleep(duration_seconds)

    def mapped_by(self, path: str) -> tuple[str, ...]:
        """Look into /proc; other systems show nothing."""
        return tuple(map(str, mappers_of(path)))

    def counters(self) -> Counters:
        """Return the counters of this object; other storage objects for the same files have their own."""
        return Counters(**structs.asdict(self._tally))
