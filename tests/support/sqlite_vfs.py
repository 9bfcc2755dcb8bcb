"""SQLite on a storage: an APSW VFS, a target that keeps records in two tables, and mistakes of such a VFS.

SQLite's own code runs, compiled into APSW. All that it asks of the system is a call of the storage, so a simulator
decides what each call does, in which order, and what a crash leaves of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import apsw

from tornproof.testing import (
    EntryKind,
    File,
    FileMissingError,
    LockMode,
    OpenMode,
    Storage,
    StorageError,
    StorageReason,
)

# What processes lock of a database file, which is never as long, by convention of SQLite.
PENDING_BYTE = 0x40000000
RESERVED_BYTE = PENDING_BYTE + 1
SHARED_BYTE, SHARED_SIZE_BYTES = PENDING_BYTE + 2, 510
SECTOR_BYTES = 4096
BUSY_TIMEOUT_MS = 2**31 - 1
NUMBERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a VFS does; one that leaves out anything of it is broken."""

    locks: bool = True
    syncs: bool = True
    syncs_created_name: bool = True
    syncs_removed_name: bool = True
    repeats_random_numbers: bool = True


class StorageVfs(apsw.VFS):
    """A VFS of one process. What SQLite takes from a clock or a random source follows from the calls before it."""

    def __init__(self, storage: Storage, habits: Habits) -> None:
        self.storage, self.habits = storage, habits
        self.name = f"storage-{next(NUMBERS)}"
        self._call_count = 0
        super().__init__(self.name, None)

    @contextmanager
    def call(self) -> Iterator[Storage]:
        """Translate what fails. Another process may have run meanwhile: the next random number is this one's again."""
        try:
            yield self.storage
        except StorageError as error:
            raise (apsw.FullError if error.reason is StorageReason.NO_SPACE else apsw.IOError)(str(error)) from error
        finally:
            self._call_count += 1
            if self.habits.repeats_random_numbers:
                apsw.set_default_vfs(self.name)
                apsw.randomness(0)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> StorageFile:  # type: ignore[override]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "temporary files are in memory"
        with self.call() as storage:
            is_new = storage.kind(path) is EntryKind.MISSING
            if is_new and not flags[0] & apsw.SQLITE_OPEN_CREATE:
                raise apsw.CantOpenError
            file = storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW)
        flags[1] = flags[0]
        return StorageFile(self, file, unsynced_directory=directory_of(path) if is_new else "")

    def xDelete(self, path: str, is_synced: bool) -> None:
        with self.call() as storage:
            try:
                storage.unlink(path)
            except FileMissingError as missing:
                error = apsw.IOError(str(missing))
                error.extendedresult = apsw.SQLITE_IOERR_DELETE_NOENT  # type: ignore[attr-defined]
                raise error from missing
            if is_synced and self.habits.syncs_removed_name:
                storage.sync_directory(directory_of(path))

    def xAccess(self, path: str, flags: int) -> bool:
        with self.call() as storage:
            return storage.kind(path) is EntryKind.FILE

    def xFullPathname(self, name: str) -> str:
        return name

    def xSleep(self, duration_us: int) -> int:
        with self.call() as storage:
            storage.sleep_seconds(duration_us / 1e6)
        return duration_us

    def xRandomness(self, size_bytes: int) -> bytes:
        return self._call_count.to_bytes(size_bytes, "little")

    def xCurrentTimeInt64(self) -> int:
        return 0

    def xGetLastError(self) -> tuple[int, str]:
        return 0, ""


class StorageFile:
    """A file of SQLite, with the locks that its own VFS for Unix takes."""

    def __init__(self, vfs: StorageVfs, file: File, *, unsynced_directory: str) -> None:
        self._vfs, self._file, self._unsynced_directory = vfs, file, unsynced_directory
        self._level = apsw.SQLITE_LOCK_NONE

    def xRead(self, size_bytes: int, offset_bytes: int) -> bytes:
        with self._vfs.call():
            return self._file.pread(size_bytes, offset_bytes)

    def xWrite(self, content: bytes, offset_bytes: int) -> None:
        with self._vfs.call():
            self._file.pwrite(content, offset_bytes)

    def xTruncate(self, size_bytes: int) -> None:
        with self._vfs.call():
            self._file.truncate(size_bytes)

    def xSync(self, flags: int) -> None:
        with self._vfs.call() as storage:
            if self._vfs.habits.syncs:
                self._file.fdatasync()
            if self._unsynced_directory and self._vfs.habits.syncs_created_name:
                storage.sync_directory(self._unsynced_directory)
                self._unsynced_directory = ""

    def xFileSize(self) -> int:
        with self._vfs.call():
            return self._file.size_bytes()

    def xClose(self) -> None:
        with self._vfs.call():
            self._file.close()

    def xLock(self, level: int) -> None:
        with self._vfs.call():
            if self._vfs.habits.locks and level > self._level and not self._is_locked(level):
                raise apsw.BusyError

    def _is_locked(self, level: int) -> bool:
        if level == apsw.SQLITE_LOCK_SHARED:
            if not self._is_granted(LockMode.SHARED, PENDING_BYTE):
                return False
            is_granted = self._is_granted(LockMode.SHARED, SHARED_BYTE, SHARED_SIZE_BYTES)
            self._file.unlock(offset_bytes=PENDING_BYTE, size_bytes=1)
        elif level == apsw.SQLITE_LOCK_RESERVED:
            is_granted = self._is_granted(LockMode.EXCLUSIVE, RESERVED_BYTE)
        else:
            if self._level < apsw.SQLITE_LOCK_PENDING and not self._is_granted(LockMode.EXCLUSIVE, PENDING_BYTE):
                return False
            # Kept while readers go on, so that no new ones come.
            self._level = apsw.SQLITE_LOCK_PENDING
            is_granted = self._is_granted(LockMode.EXCLUSIVE, SHARED_BYTE, SHARED_SIZE_BYTES)
        if is_granted:
            self._level = level
        return is_granted

    def xUnlock(self, level: int) -> None:
        if level >= self._level:
            return
        with self._vfs.call():
            if level == apsw.SQLITE_LOCK_SHARED:
                self._is_granted(LockMode.SHARED, SHARED_BYTE, SHARED_SIZE_BYTES)
                self._file.unlock(offset_bytes=PENDING_BYTE, size_bytes=2)
            else:
                self._file.unlock(offset_bytes=PENDING_BYTE, size_bytes=2 + SHARED_SIZE_BYTES)
            self._level = level

    def xCheckReservedLock(self) -> bool:
        with self._vfs.call():
            if not self._vfs.habits.locks or self._level >= apsw.SQLITE_LOCK_RESERVED:
                return self._level >= apsw.SQLITE_LOCK_RESERVED
            # Shared, because two that ask at once must not take each other for a writer.
            is_granted = self._is_granted(LockMode.SHARED, RESERVED_BYTE)
            if is_granted:
                self._file.unlock(offset_bytes=RESERVED_BYTE, size_bytes=1)
            return not is_granted

    def _is_granted(self, mode: LockMode, offset_bytes: int, size_bytes: int = 1) -> bool:
        return self._file.try_lock(mode, offset_bytes=offset_bytes, size_bytes=size_bytes)

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]


class Records:
    """A database whose commits put a record into two tables; its readers see both tables in one transaction."""

    rejections = (apsw.Error,)

    def __init__(
        self, name: str = "sqlite", *, synchronous: str = "extra", syncs_first: bool = True, **habits: bool
    ) -> None:
        self.name = name
        self._synchronous = synchronous
        self._syncs_first = syncs_first
        self._habits = Habits(**habits)

    @contextmanager
    def connected(self, storage: Storage, path: str) -> Iterator[apsw.Connection]:
        vfs = StorageVfs(storage, self._habits)
        try:
            connection = apsw.Connection(f"{path}/db", vfs=vfs.name)
            try:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                connection.transaction_mode = "IMMEDIATE"
                connection.execute(f"PRAGMA temp_store = memory; PRAGMA synchronous = {self._synchronous}")
                yield connection
            finally:
                connection.close(True)
        finally:
            vfs.unregister()

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        with self.connected(storage, path) as connection:
            # Small pages are written one by one, and a file of few of them has few states.
            connection.execute("PRAGMA page_size = 512; CREATE TABLE one (record); CREATE TABLE two (record)")

    def read(self, storage: Storage, path: str) -> Hashable:
        with self.connected(storage, path) as connection:
            return tuple(connection.execute("SELECT 1, record FROM one UNION ALL SELECT 2, record FROM two"))

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[RecordsWriter]:
        with self.connected(storage, path) as connection:
            if self._syncs_first:
                # The writer before may have been killed between the removal of its journal and the sync of that.
                storage.sync_directory(path)
            yield RecordsWriter(connection)


class RecordsWriter:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def commit(self, record: Any) -> None:
        with self._connection:
            for table in ("one", "two"):
                self._connection.execute(f"INSERT INTO {table} VALUES (?)", (record,))
