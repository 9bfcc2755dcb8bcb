"""Tiny targets: a correct one, and broken ones that an explorer must detect before its other verdicts count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tornproof.harness.common.system import Target
from tornproof.impl.errors import CorruptError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, OpenMode, Storage

HEADER_BYTES = 8


class Toy(Target):
    """A file of letters that is replaced as a whole: write a new one, sync it, rename it, sync the directory."""

    name = "toy"

    def create(self, storage: Storage, path: str) -> None:
        """Make the directory and an empty state."""
        storage.mkdir(path)
        storage.open_for_writing(f"{path}/state", OpenMode.NEW).close()

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Remove what a killed writer left, and keep the name that it may not have synced."""
        if storage.kind(f"{path}/new") is EntryKind.FILE:
            self.recover(storage, path)
        self.sync_names(storage, path)
        yield ToyWriter(self, storage, path)

    def recover(self, storage: Storage, path: str) -> None:
        """Remove the file that never became the state."""
        storage.unlink(f"{path}/new")

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters."""
        with storage.open_for_reading(f"{path}/state") as file:
            return file.pread(file.size_bytes(), 0)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters."""
        content = self.read(storage, path) + operation
        self.write_anew(storage, f"{path}/new", content)
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)

    def sync_names(self, storage: Storage, path: str) -> None:
        """Sync the directory."""
        storage.sync_directory(path)

    def write_anew(self, storage: Storage, path: str, content: bytes) -> None:
        """Give a file this content and no other, and sync it."""
        with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(content, 0)
            self.sync(file)

    def sync(self, file: File) -> None:
        """Sync, and pass errors on."""
        file.fdatasync()


class ToyWriter:
    """A writer that keeps nothing in memory."""

    def __init__(self, target: Toy, storage: Storage, path: str) -> None:
        """Commit to the state at `path`."""
        self._target = target
        self._at = storage, path

    def commit(self, operation: bytes) -> None:
        """Add letters."""
        self._target.commit(*self._at, operation)


class HeaderFirst(Toy):
    """Broken: stores the new count of letters in a header before it writes them."""

    name = "header first"

    def create(self, storage: Storage, path: str) -> None:
        """Start with the header of no letters."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(bytes(HEADER_BYTES), 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return as many letters as the header says; raises CorruptError if there are fewer."""
        with storage.open_for_reading(f"{path}/state") as file:
            count = int.from_bytes(file.pread(HEADER_BYTES, 0), "little")
            content = file.pread(count, HEADER_BYTES)
        if len(content) != count:
            raise CorruptError(file="state", field="count", offset_bytes=0, expected=len(content), actual=count)
        return content

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Store the header through a mapping, then append."""
        count = len(self.read(storage, path))
        with storage.open_for_writing(f"{path}/state") as file, file.map(HEADER_BYTES) as mapping:
            mapping.store_u64(0, count + len(operation))
            file.pwrite(operation, HEADER_BYTES + count)


class AcknowledgesFirst(Toy):
    """Broken: acknowledges a commit that it writes only with the next one, or when it is closed."""

    name = "acknowledges first"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Write the last commit at the end."""
        writer = _LateWriter(self, storage, path)
        yield writer
        writer.commit(b"")


class _LateWriter(ToyWriter):
    _acknowledged = b""

    def commit(self, operation: bytes) -> None:
        if self._acknowledged:
            super().commit(self._acknowledged)
        self._acknowledged = operation


class SwallowsErrors(Toy):
    """Broken: goes on after a failed sync."""

    name = "swallows errors"

    def sync(self, file: File) -> None:
        """Sync, and ignore errors."""
        with suppress(StorageError):
            super().sync(file)


class SyncsAgain(Toy):
    """Broken: tries a failed sync again, which succeeds and brings nothing to the disk."""

    name = "syncs again"
    acknowledges_after_failed_sync = True

    def sync(self, file: File) -> None:
        """Sync, and sync again after an error."""
        try:
            super().sync(file)
        except StorageError:
            super().sync(file)


class RecoversInPlace(Toy):
    """Broken: its recovery rewrites the state in place, so that a kill inside it loses everything."""

    name = "recovers in place"

    def recover(self, storage: Storage, path: str) -> None:
        """Truncate the state, write it again, once more after an error, and only then remove the other file."""
        content = self.read(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            file.truncate(0)
            try:
                file.pwrite(content, 0)
            except StorageError:
                file.pwrite(content, 0)
                raise
        super().recover(storage, path)


class NeverDone(Toy):
    """Broken: every recovery changes the disk."""

    name = "never done"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Count the openings on disk."""
        with storage.open_for_writing(f"{path}/openings", OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(b".", file.size_bytes())
        with super().open_writer(storage, path) as writer:
            yield writer


class HidesAtItsEnd(Toy):
    """Broken: after a session without a commit no letters are seen until the next opening."""

    name = "hides at its end"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Put back what is hidden, and hide it at the end."""
        if storage.kind(f"{path}/hidden") is EntryKind.FILE:
            storage.rename(f"{path}/hidden", f"{path}/state")
        before = self.read(storage, path)
        with super().open_writer(storage, path) as writer:
            yield writer
        if self.read(storage, path) == before:
            storage.rename(f"{path}/state", f"{path}/hidden")
            storage.open_for_writing(f"{path}/state", OpenMode.NEW).close()


class NeverSyncs(Toy):
    """Broken: gives the new file its name before its letters are on disk."""

    name = "never syncs"

    def sync(self, file: File) -> None:
        """Do nothing."""


class NeverSyncsNames(Toy):
    """Broken: acknowledges a name that is not on disk."""

    name = "never syncs names"

    def sync_names(self, storage: Storage, path: str) -> None:
        """Do nothing."""
