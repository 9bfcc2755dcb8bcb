"""Toys whose processes wait for each other's locks: sound ones, and ones that wait for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tornproof.harness.systems.toy import Toy, ToyWriter
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage, StorageReason

PAUSE_SECONDS = 0.01


class OrderedLocks(Toy):
    """A file of letters that is written in place, by a writer and readers that wait for the same two locks."""

    name = "ordered locks"
    writer_order = reader_order = (0, 1)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters while nobody else has a lock."""
        with storage.open_for_writing(f"{path}/state") as file:
            for offset_bytes in self.writer_order:
                file.lock(LockMode.EXCLUSIVE, offset_bytes=offset_bytes, size_bytes=1)
            for letter in operation:
                file.pwrite(bytes([letter]), file.size_bytes())

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters while nobody writes."""
        with storage.open_for_reading(f"{path}/state") as file:
            for offset_bytes in self.reader_order:
                file.lock(LockMode.SHARED, offset_bytes=offset_bytes, size_bytes=1)
            return file.pread(file.size_bytes(), 0)


class CrossedLocks(OrderedLocks):
    """Broken: a reader takes the locks in the opposite order, so that it and the writer can wait for each other."""

    name = "crossed locks"
    reader_order = (1, 0)


class UnlockedReaders(OrderedLocks):
    """Broken: writers lock, and readers do not."""

    name = "readers do not lock"
    reader_order = ()  # type: ignore[assignment]


class UnlocksEarly(OrderedLocks):
    """Broken beside another writer: it gives the locks back before it has written everything."""

    name = "unlocks early"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters, of which only the first one is written while nobody else has a lock."""
        super().commit(storage, path, operation[:1])
        with storage.open_for_writing(f"{path}/state") as file:
            for letter in operation[1:]:
                file.pwrite(bytes([letter]), file.size_bytes())


class RejectedAfterwards(OrderedLocks):
    """Broken beside another writer: what is committed between its look and its lock is rejected by all readers."""

    name = "rejected after two writers"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters, behind a mark if there are more than there were."""
        known = super().read(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            file.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=2)
            file.pwrite(b"!" * (file.size_bytes() != len(known)) + operation, file.size_bytes())

    def read(self, storage: Storage, path: str) -> bytes:
        """Reject letters with a mark."""
        letters = super().read(storage, path)
        if b"!" in letters:
            raise StorageError(file=path, operation="read", reason=StorageReason.NOT_PERMITTED)
        return letters


class StumblesOverOthers(OrderedLocks):
    """Broken beside others: a writer ends with a mistake of its own where somebody else has a lock."""

    name = "stumbles over others"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Expect that nobody has a lock."""
        with storage.open_for_writing(f"{path}/state") as file:
            if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
                raise LookupError("a mistake")
        super().commit(storage, path, operation)


class HandsOver(Toy):
    """Broken beside another writer: it leaves its letters to the one that has the lock, and does not wait for it."""

    name = "hands over"

    def create(self, storage: Storage, path: str) -> None:
        """Make the directory in which letters wait, too."""
        super().create(storage, path)
        storage.mkdir(f"{path}/waiting")

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Let letters wait, and add all that do so, unless another writer is at it."""
        storage.open_for_writing(f"{path}/waiting/{operation.decode()}", OpenMode.NEW).close()
        with storage.open_for_writing(f"{path}/state") as file:
            while storage.listdir(f"{path}/waiting"):
                if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
                    return
                for letters in storage.listdir(f"{path}/waiting"):
                    file.pwrite(letters.encode(), file.size_bytes())
                    storage.unlink(f"{path}/waiting/{letters}")
                file.unlock(offset_bytes=0, size_bytes=1)


class KeepsOut(OrderedLocks):
    """The same letters by writers that are rejected while another one has the lock."""

    name = "keeps others out"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters as the only writer, at once, so that a killed one leaves all or none of them."""
        with storage.open_for_writing(f"{path}/state") as file:
            if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=2):
                raise StorageError(file=path, operation="commit", reason=StorageReason.NOT_PERMITTED)
            self.add(storage, path, file, operation)

    def add(self, storage: Storage, path: str, file: File, operation: bytes) -> None:
        """Add letters."""
        file.pwrite(operation, file.size_bytes())


class LeavesItsLock(KeepsOut):
    """Broken where processes die: it has a lock file too, which a killed writer leaves."""

    name = "leaves its lock"

    def add(self, storage: Storage, path: str, file: File, operation: bytes) -> None:
        """Add letters while there is the lock file."""
        if not is_made(storage, f"{path}/lock"):
            raise StorageError(file=path, operation="commit", reason=StorageReason.NOT_PERMITTED)
        super().add(storage, path, file, operation)
        storage.unlink(f"{path}/lock")


class LockFile(Toy):
    """Writers and readers wait while there is a lock file; broken where processes die: a killed one leaves it."""

    name = "lock file"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters in place."""
        with self.locked(storage, path), storage.open_for_writing(f"{path}/state") as file:
            for letter in operation:
                file.pwrite(bytes([letter]), file.size_bytes())

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters."""
        with self.locked(storage, path), storage.open_for_reading(f"{path}/state") as file:
            return file.pread(file.size_bytes(), 0)

    @contextmanager
    def locked(self, storage: Storage, path: str) -> Iterator[None]:
        """Make the lock file, and remove it at the end."""
        while not is_made(storage, f"{path}/lock"):
            self.wait(storage)
        try:
            yield
        finally:
            storage.unlink(f"{path}/lock")

    def wait(self, storage: Storage) -> None:
        """Sleep."""
        storage.sleep_seconds(PAUSE_SECONDS)


class BusyLockFile(LockFile):
    """The same without any sleep."""

    name = "busy lock file"

    def wait(self, storage: Storage) -> None:
        """Try again at once."""


class Undo(Toy):
    """Letters that are overwritten while there is a copy, which whoever finds it puts back, alone: as in SQLite."""

    name = "undo"
    reader_mode = LockMode.EXCLUSIVE

    def create(self, storage: Storage, path: str) -> None:
        """Make a file to lock in addition."""
        super().create(storage, path)
        storage.open_for_writing(f"{path}/lock", OpenMode.NEW).close()

    def read(self, storage: Storage, path: str) -> bytes:
        """Put the copy back if there is one, and return all letters."""
        with storage.open_for_writing(f"{path}/lock") as lock:
            lock.lock(self.reader_mode, offset_bytes=0, size_bytes=1)
            return self._undone(storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Keep a copy durably, overwrite the letters, and remove the copy durably."""
        with storage.open_for_writing(f"{path}/lock") as lock:
            lock.lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
            letters = self._undone(storage, path)
            self.write_anew(storage, f"{path}/new", letters)
            storage.rename(f"{path}/new", f"{path}/undo")
            storage.sync_directory(path)
            self.write_anew(storage, f"{path}/state", letters + operation)
            self._remove_copy(storage, path)

    def _undone(self, storage: Storage, path: str) -> bytes:
        if storage.kind(f"{path}/undo") is EntryKind.FILE:
            with storage.open_for_reading(f"{path}/undo") as file:
                letters = file.pread(file.size_bytes(), 0)
            self.put_back(storage, path, letters)
        return super().read(storage, path)

    def put_back(self, storage: Storage, path: str, letters: bytes) -> None:
        """Overwrite the letters durably by those of the copy, and remove the copy durably."""
        self.write_anew(storage, f"{path}/state", letters)
        self._remove_copy(storage, path)

    def _remove_copy(self, storage: Storage, path: str) -> None:
        storage.unlink(f"{path}/undo")
        storage.sync_directory(path)


class UndoesTogether(Undo):
    """Broken where a reader is beside a recovery: both put the copy back at once."""

    name = "undoes beside others"
    reader_mode = LockMode.SHARED


class UndoesEarly(Undo):
    """Broken where a reader dies while it puts the copy back, which is removed before."""

    name = "removes the copy first"

    def put_back(self, storage: Storage, path: str, letters: bytes) -> None:
        """Remove the copy durably, and then overwrite the letters."""
        self._remove_copy(storage, path)
        self.write_anew(storage, f"{path}/state", letters)


class DropsUndo(Undo):
    """Broken where a writer comes before every reader: its recovery removes the copy, and puts nothing back."""

    name = "drops the copy"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Remove the copy durably."""
        if storage.kind(f"{path}/undo") is EntryKind.FILE:
            self._remove_copy(storage, path)
        with super().open_writer(storage, path) as writer:
            yield writer


class UndoesInVain(Undo):
    """Broken where a sync fails in an opening: it removes the copy, although what was put back may not be on disk."""

    name = "removes the copy all the same"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Put the copy back."""
        self._undone(storage, path)
        with super().open_writer(storage, path) as writer:
            yield writer

    def put_back(self, storage: Storage, path: str, letters: bytes) -> None:
        """Overwrite the letters by those of the copy, and remove the copy durably."""
        with storage.open_for_writing(f"{path}/state") as file:
            file.truncate(0)
            file.pwrite(letters, 0)
            with suppress(StorageError):
                self.sync(file)
        self._remove_copy(storage, path)


class UndoesUnchecked(Undo):
    """Broken where a sync fails in a recovery, and only there: what it was to write takes their place."""

    name = "takes a failed recovery for done"

    def put_back(self, storage: Storage, path: str, letters: bytes) -> None:
        """Rename a file with the letters of the copy over them, and remove the copy durably."""
        with suppress(StorageError):
            self.write_anew(storage, f"{path}/again", letters)
        storage.rename(f"{path}/again", f"{path}/state")
        storage.sync_directory(path)
        self._remove_copy(storage, path)


class UndoesUnsynced(Undo):
    """Broken where the power fails: neither the copy nor the letters are synced."""

    name = "undo without a sync"

    def sync(self, file: File) -> None:
        """Sync nothing."""


def is_made(storage: Storage, path: str) -> bool:
    """Make a lock file unless there is one; return whether it was made."""
    try:
        storage.open_for_writing(path, OpenMode.NEW).close()
    except StorageError as error:
        if error.reason != StorageReason.ALREADY_THERE:
            raise
        return False
    return True
