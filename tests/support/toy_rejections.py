"""Sound toys whose writers stay open after a commit that they rejected, or whose commits cannot fail."""

from collections.abc import Iterator
from contextlib import contextmanager

from tornproof.harness.systems.toy import Toy, ToyWriter
from tornproof.harness.systems.toy_losses import BlockWriter, GoesOnBehindLoss
from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.storage.interface import Mapping, OpenMode, Storage

WORD_BYTES = 8


class KeepsRejected(Toy):
    """A commit that is rejected is there with the next one, which is one of the two that it may do."""

    name = "keeps what it rejected"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with super().open_writer(storage, path):
            yield _KeepingWriter(self, storage, path, self.read(storage, path))


class _KeepingWriter(ToyWriter):
    def __init__(self, target: KeepsRejected, storage: Storage, path: str, letters: bytes) -> None:
        super().__init__(target, storage, path)
        self._toy, self._storage, self._path = target, storage, path
        self._letters = letters

    def commit(self, operation: bytes) -> None:
        self._letters += operation
        self._toy.write_anew(self._storage, f"{self._path}/new", self._letters)
        self._storage.rename(f"{self._path}/new", f"{self._path}/state")
        self._toy.sync_names(self._storage, self._path)


class WritesBlockAgain(GoesOnBehindLoss):
    """The next letters are written over those of the rejected commit."""

    name = "writes a lost block again"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[BlockWriter]:
        with super().open_writer(storage, path) as writer:
            yield _OverwritingWriter(self, storage, path, writer.block_count)


class _OverwritingWriter(BlockWriter):
    def commit(self, operation: bytes) -> None:
        block_count = self.block_count
        try:
            super().commit(operation)
        except StorageError:
            self.block_count = block_count
            raise


class CountsInMemory(Toy):
    """Letters are counted by stores to a mapping that stays open, so that no call of a commit can fail."""

    name = "counts in memory"

    def create(self, storage: Storage, path: str) -> None:
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(bytes(2 * WORD_BYTES), 0)

    def read(self, storage: Storage, path: str) -> bytes:
        return b"x" * int.from_bytes(super().read(storage, path)[:WORD_BYTES], "little")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator["CountingWriter"]:  # type: ignore[override]
        with storage.open_for_writing(f"{path}/state") as file, file.map(2 * WORD_BYTES) as mapping:
            yield CountingWriter(mapping)


class CountingWriter:
    """A writer that only stores."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def commit(self, operation: bytes) -> None:
        self._mapping.store_u64(WORD_BYTES, len(operation))
        self._mapping.store_u64(0, self._mapping.load_u64(0) + len(operation))


class Refuses(Toy):
    """A writer rejects every commit after one that it has rejected, before it calls anything."""

    name, rejections = "refuses", (StorageError, BusyError)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        with super().open_writer(storage, path):
            yield _RefusingWriter(self, storage, path)


class _RefusingWriter(ToyWriter):
    _has_failed = False

    def commit(self, operation: bytes) -> None:
        if self._has_failed:
            raise BusyError("it has rejected a commit")
        self._has_failed = True
        super().commit(operation)
        self._has_failed = False
