"""Writers and readers of a table: locks on bytes of `_pins`, which end with the process that took them.

A reader takes a shared lock on the byte whose offset is its version; the writer locks the last possible byte and,
before it removes a directory, also all bytes below the oldest version that it keeps (docs/writing.md). The locks belong
to the open file, which a forked process has, too: it cannot release them, and if the one before it is killed, they last
until the forked one has closed the file or ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.storage.interface import File, LockMode, OpenMode, Storage, StorageReason
from tornproof.impl.txn.transaction import TXN_FILE, Transaction, safe_read

PINS_FILE = "_pins"
WRITER_LOCK_OFFSET_BYTES = (1 << 63) - 1
PIN_ATTEMPTS_MAX = 100


class WriterLock(AbstractContextManager["WriterLock"]):
    """The lock of a table's only writer, until `release` or the end of the process."""

    def __init__(self, file: File) -> None:
        """Take ownership of an open `_pins` on which the writer's byte is locked."""
        self._file = file

    @property
    def is_inherited(self) -> bool:
        """Whether another process took it, from which this one was forked."""
        return self._file.is_inherited

    @contextmanager
    def exclude_pins(self, versions: range) -> Iterator[bool]:
        """Return whether no reader pins any of these versions; if so, none can inside the `with` block."""
        if not versions:
            yield True
            return
        span = {"offset_bytes": versions.start, "size_bytes": len(versions)}
        is_granted = self._file.try_lock(LockMode.EXCLUSIVE, **span)
        try:
            yield is_granted
        finally:
            self._file.unlock(**span)

    def release(self) -> None:
        """Release the lock, unless it is inherited; releasing twice is harmless."""
        self._file.close()

    def __exit__(self, *exception: object) -> None:
        """Release."""
        self.release()


class Pin(AbstractContextManager["Pin"]):
    """A version whose directories no writer removes until `release`, if `is_held`; never held in a server's table."""

    def __init__(self, transaction: Transaction, file: File | None) -> None:
        """Take ownership of an open `_pins` on which the version's byte is locked, or None."""
        self.transaction = transaction
        self._file = file

    @property
    def version(self) -> int:
        """The pinned version."""
        return self.transaction.version

    @property
    def is_held(self) -> bool:
        """Whether writers of this library respect the pin; if not, read the version again when a file is missing.

        In a forked process it is not known, because the pin ends when the process that took it releases it.
        """
        return self._file is not None and not self._file.is_inherited

    def release(self) -> None:
        """Release the pin, unless a process took it that this one was forked from; releasing twice is harmless."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __exit__(self, *exception: object) -> None:
        """Release."""
        self.release()


def take_writer_lock(storage: Storage, table_path: str) -> WriterLock:
    """Become the table's only writer; creates `_pins` if it is missing.

    Raises BusyError if there is another writer, StorageError (also if the platform or file system has no such locks).
    """
    file = storage.open_for_writing(f"{table_path}/{PINS_FILE}", OpenMode.EXISTING_OR_NEW)
    try:
        if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=WRITER_LOCK_OFFSET_BYTES, size_bytes=1):
            raise BusyError(f"{table_path}: another writer has the table open; try again when it is done")
    except BaseException:
        file.close()
        raise
    return WriterLock(file)


def has_writer(storage: Storage, table_path: str) -> bool:
    """Return whether a writer of this library has a table open, as far as this process can see; never writes."""
    file = _open_to_share(storage, table_path)
    if file is None:
        return False
    with file:
        return not file.try_lock(LockMode.SHARED, offset_bytes=WRITER_LOCK_OFFSET_BYTES, size_bytes=1)


def pin_committed(storage: Storage, table_path: str) -> Pin:
    """Pin the current committed version; never writes.

    The pin is not held in a table without `_pins`, where that file must not be read, and on a platform or a file system
    without such locks. Raises as `safe_read` does, and BusyError if new commits keep replacing the version before it is
    pinned.
    """
    txn_path = f"{table_path}/{TXN_FILE}"
    transaction = safe_read(storage, txn_path)
    file = _open_to_share(storage, table_path)
    if file is None:
        return Pin(transaction, None)
    try:
        return Pin(_lock_committed(storage, file, txn_path, transaction), file)
    except StorageError as error:
        file.close()
        if error.reason != StorageReason.NO_LOCKS:
            raise
        return Pin(transaction, None)
    except BaseException:
        file.close()
        raise


def _open_to_share(storage: Storage, table_path: str) -> File | None:
    """Return `_pins`, open for shared locks, or None where there is none or it must not be read."""
    try:
        return storage.open_for_reading(f"{table_path}/{PINS_FILE}")
    except StorageError as error:
        if error.reason not in (StorageReason.MISSING, StorageReason.NOT_PERMITTED):
            raise
        return None


def _lock_committed(storage: Storage, file: File, txn_path: str, transaction: Transaction) -> Transaction:
    """Lock the committed version, and return it as read under the lock.

    If a purge misses this lock, the locked version is already obsolete, which the second read detects. A denied lock
    means the same, unless the version stays: a recovery or a migration locks all of them against readers.
    """
    is_kept_out = False
    for _ in range(PIN_ATTEMPTS_MAX):
        span = {"offset_bytes": transaction.version, "size_bytes": 1}
        is_granted = file.try_lock(LockMode.SHARED, **span)
        seen = safe_read(storage, txn_path)
        if is_granted and seen.version == transaction.version:
            return seen
        if is_granted:
            file.unlock(**span)
        is_kept_out = not is_granted and seen.version == transaction.version
        transaction = seen
    if is_kept_out:
        raise BusyError(f"{txn_path}: a recovery or a migration keeps readers out; try again when it is done")
    raise BusyError(f"{txn_path}: {PIN_ATTEMPTS_MAX} versions in a row were gone before they were pinned; try again")
