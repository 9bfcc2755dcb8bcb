"""Broken toys that are each wrong after one kind of loss or in one way alone: controls of what crashes inject."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile

from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.systems.toy import Toy, ToyWriter
from tornproof.impl.errors import BusyError, CorruptError, StorageError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage, StorageReason

WORD_BYTES = 8
SECTOR_BYTES = 512
BLOCK_BYTES = 4096


class TrustsUnit(Toy):
    """Broken where less than `unit_bytes` get to the disk at once: overwrites that many bytes that must match."""

    def __init__(self, name: str, unit_bytes: int) -> None:
        """Keep the count of letters in the first and in the last word."""
        self.name = name
        self._unit_bytes = unit_bytes

    def create(self, storage: Storage, path: str) -> None:
        """Start with two words of zero, in a block that has data."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(bytes(self._unit_bytes) + b".", 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return as many letters as were committed; raises CorruptError if the words differ."""
        with storage.open_for_reading(f"{path}/state") as file:
            content = file.pread(self._unit_bytes, 0)
        return b"x" * _matching(content[:WORD_BYTES], content[-WORD_BYTES:])

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Overwrite both words and all between them by one write."""
        word = _word(len(self.read(storage, path)) + len(operation))
        with storage.open_for_writing(f"{path}/state") as file:
            file.pwrite(word.ljust(self._unit_bytes - WORD_BYTES, b"\0") + word, 0)
            self.sync(file)


class TrustsOrder(Toy):
    """Broken where writes to one file get to the disk out of order: the header is written after the body."""

    name = "trusts the order of writes"

    def create(self, storage: Storage, path: str) -> None:
        """Start with a header and a body of no letters, in blocks of their own."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(bytes(WORD_BYTES).ljust(BLOCK_BYTES, b".") + bytes(WORD_BYTES) + b".", 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return as many letters as the header says; raises CorruptError if the body has fewer."""
        with storage.open_for_reading(f"{path}/state") as file:
            header, body = file.pread(WORD_BYTES, 0), file.pread(WORD_BYTES, BLOCK_BYTES)
        return b"x" * _matching(header, min(header, body, key=_number))

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Write the body, then the header, and sync them together."""
        word = _word(len(self.read(storage, path)) + len(operation))
        with storage.open_for_writing(f"{path}/state") as file:
            file.pwrite(word, BLOCK_BYTES)
            file.pwrite(word, 0)
            self.sync(file)


class AppendsOnce(Toy):
    """Broken where a kill can cut a write: appends to the state itself."""

    name = "appends in one write"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Write the letters behind the others; take back a part of them that was written before an error."""
        with storage.open_for_writing(f"{path}/state") as file:
            size_bytes = file.size_bytes()
            try:
                file.pwrite(operation, size_bytes)
            except StorageError:
                file.truncate(size_bytes)
                raise
            self.sync(file)


class KeepsUndo(Toy):
    """Broken where an unlink can be lost: the file from which it would undo a commit may come back after it."""

    name = "never syncs an unlink"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters before the commit that is under way, or all."""
        name = "undo" if storage.kind(f"{path}/undo") is EntryKind.FILE else "state"
        with storage.open_for_reading(f"{path}/{name}") as file:
            return file.pread(file.size_bytes(), 0)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Keep the old letters durably, overwrite them, and forget to make it durable that they are not needed."""
        content = self.read(storage, path)
        self.write_anew(storage, f"{path}/new", content)
        storage.rename(f"{path}/new", f"{path}/undo")
        storage.sync_directory(path)
        self.write_anew(storage, f"{path}/state", content + operation)
        storage.unlink(f"{path}/undo")

    def recover(self, storage: Storage, path: str) -> None:
        """Remove what never became the file to undo from."""
        super().recover(storage, path)
        storage.sync_directory(path)


class RecoversUnsynced(Toy):
    """Broken where the power can fail in a recovery: it replaces the state by a copy that is not synced."""

    name = "recovers without a sync"

    def recover(self, storage: Storage, path: str) -> None:
        """Give the copy the name of the state, and only then remove the other file."""
        content = self.read(storage, path)
        with storage.open_for_writing(f"{path}/copy", OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(content, 0)
        storage.rename(f"{path}/copy", f"{path}/state")
        super().recover(storage, path)


class AdoptsUnsynced(Toy):
    """Broken where the power fails in the session after a kill: takes over what the killed writer had not synced."""

    name = "adopts what is not synced"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters without the marks behind them."""
        return super().read(storage, path).partition(b".")[0]

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Mark the letters as whole, and then as about to be synced."""
        content = self.read(storage, path) + operation
        with storage.open_for_writing(f"{path}/new", OpenMode.EXISTING_OR_NEW) as file:
            file.truncate(0)
            file.pwrite(content + b".", 0)
            file.pwrite(b"!", len(content) + 1)
            self.sync(file)
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)

    def recover(self, storage: Storage, path: str) -> None:
        """Adopt a file that is whole and that nobody had begun to sync."""
        with storage.open_for_reading(f"{path}/new") as file:
            is_whole = file.pread(file.size_bytes(), 0).endswith(b".")
        if is_whole:
            storage.rename(f"{path}/new", f"{path}/state")
            self.sync_names(storage, path)
        else:
            super().recover(storage, path)


class CarelessAfterLoss(Toy):
    """Broken where a cache loses what it could not write, while the machine goes on: commits in place from then on."""

    name = "careless after a loss"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Give a file its name as soon as it is written, so that only a loss makes it empty."""
        content = self.read(storage, path) + operation
        is_careless = storage.kind(f"{path}/loss") is EntryKind.FILE
        with storage.open_for_writing(
            f"{path}/{'state' if is_careless else 'written'}", OpenMode.EXISTING_OR_NEW
        ) as file:
            file.truncate(0)
            file.pwrite(content, 0)
            if not is_careless:
                storage.rename(f"{path}/written", f"{path}/new")
            self.sync(file)
        if not is_careless:
            storage.rename(f"{path}/new", f"{path}/state")
            self.sync_names(storage, path)

    def recover(self, storage: Storage, path: str) -> None:
        """Remember a loss."""
        with storage.open_for_reading(f"{path}/new") as file:
            is_lost = not file.size_bytes()
        if is_lost:
            storage.open_for_writing(f"{path}/loss", OpenMode.EXISTING_OR_NEW).close()
        super().recover(storage, path)
        self.sync_names(storage, path)


class CleansUpInPlace(Toy):
    """Broken where a sync fails and the machine goes on: then it rewrites the state that others read."""

    def __init__(self, kind: CallKind = CallKind.FDATASYNC) -> None:
        """Sync in one way alone."""
        self.name = f"cleans up in place after a failed {kind}"
        self._kind = kind

    def sync(self, file: File) -> None:
        """Sync the data, all of the file, or its mapping."""
        if self._kind is CallKind.MSYNC:
            with file.map(file.size_bytes()) as mapping:
                mapping.msync()
        elif self._kind is CallKind.FSYNC:
            file.fsync()
        else:
            file.fdatasync()

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Write the old letters again where the new ones could not be synced."""
        try:
            super().commit(storage, path, operation)
        except StorageError:
            content = self.read(storage, path)
            with storage.open_for_writing(f"{path}/state") as file:
                file.truncate(0)
                file.pwrite(content, 0)
            raise


class UndoesWhatWasSeen(Toy):
    """Broken: its recovery goes back to the letters before a commit that readers may have seen.

    Where that `is_brief`, it can only befall them between two calls.
    """

    def __init__(self, *, is_brief: bool = False) -> None:
        """Name it."""
        self.name = "undoes what was seen" + " between two calls" * is_brief
        self._is_brief = is_brief

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Keep the old letters until the commit is done."""
        content = self.read(storage, path)
        for name, letters in (("written", content + operation), ("new", content)):
            self.write_anew(storage, f"{path}/{name}", letters)
        self.sync_names(storage, path)
        storage.rename(f"{path}/written", f"{path}/state")
        if not self._is_brief:
            self.sync_names(storage, path)
        storage.unlink(f"{path}/new")
        self.sync_names(storage, path)

    def recover(self, storage: Storage, path: str) -> None:
        """Take the old letters."""
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)


class SyncsWhatItRenamed(Toy):
    """Broken where a sync of a file does not keep its name: syncs the renamed file in place of the directory."""

    def __init__(self, name: str, *, is_data_only: bool) -> None:
        """With `is_data_only`, sync so little that not even a journal has to be written."""
        self.name = name
        self._is_data_only = is_data_only

    def sync_names(self, storage: Storage, path: str) -> None:
        """Sync the state again, of which only the name is new."""
        with storage.open_for_writing(f"{path}/state") as file:
            if self._is_data_only:
                file.fdatasync()
            else:
                file.fsync()


class TrustsRename(Toy):
    """Broken where a rename can reach the disk by half: a file's name says which of two states is valid."""

    name = "trusts renames"

    def create(self, storage: Storage, path: str) -> None:
        """Start with the first state, which is empty."""
        storage.mkdir(path)
        for name in ("state0", "valid0"):
            storage.open_for_writing(f"{path}/{name}", OpenMode.NEW).close()

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters of the valid state; raises CorruptError if none or both are."""
        with storage.open_for_reading(f"{path}/state{self._valid(storage, path)}") as file:
            return file.pread(file.size_bytes(), 0)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Make the other state, and then valid."""
        valid = self._valid(storage, path)
        content = self.read(storage, path) + operation
        self.write_anew(storage, f"{path}/state{1 - valid}", content)
        self.sync_names(storage, path)
        storage.rename(f"{path}/valid{valid}", f"{path}/valid{1 - valid}")
        self.sync_names(storage, path)

    def _valid(self, storage: Storage, path: str) -> int:
        valid = [number for name in storage.listdir(path) for number in (0, 1) if name == f"valid{number}"]
        if len(valid) != 1:
            raise CorruptError(file="valid", field="name", offset_bytes=0, expected=1, actual=len(valid))
        return valid[0]


class TrustsZeros(Toy):
    """Broken where a new block can hold what a deleted file left: takes all that is not zero for letters."""

    name = "trusts zeros"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters at the beginnings of blocks, up to a block without."""
        with storage.open_for_reading(f"{path}/state") as file:
            content = file.pread(file.size_bytes(), 0)
        blocks = (content[start : start + BLOCK_BYTES].rstrip(b"\0") for start in range(0, len(content), BLOCK_BYTES))
        return b"".join(takewhile(bool, blocks))

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Write the letters to the first block without."""
        with storage.open_for_writing(f"{path}/state") as file:
            content = file.pread(file.size_bytes(), 0)
            block = 0
            while content[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES].rstrip(b"\0"):
                block += 1
            # All files end alike, so that an old size does not cut new letters.
            file.pwrite(operation.ljust(2 * WORD_BYTES, b"\0"), block * BLOCK_BYTES)
            self.sync(file)


class KeepsRedo(Toy):
    """A state and the last letters apart from it, which the next commit adds to the state before it replaces them.

    With `is_lazy` broken where the power fails twice: what its recovery adds to the state is not synced.
    """

    def __init__(self, name: str, *, is_lazy: bool) -> None:
        """Begin the file of the last letters with the number of those before it."""
        self.name = name
        self._is_lazy = is_lazy

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Add the last letters to the state."""
        with super().open_writer(storage, path) as writer:
            self._add_last(storage, path, is_synced=not self._is_lazy)
            yield writer

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters; raises CorruptError if some before the last ones are missing."""
        state = super().read(storage, path)
        count, last = self._last(storage, path)
        if count > len(state):
            raise CorruptError(file="last", field="count", offset_bytes=0, expected=len(state), actual=count)
        return state[:count] + last if last else state

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add the last letters to the state, unless they are there, and replace them."""
        self._add_last(storage, path, is_synced=True)
        count = len(super().read(storage, path))
        self.write_anew(storage, f"{path}/new", _word(count) + operation)
        storage.rename(f"{path}/new", f"{path}/last")
        self.sync_names(storage, path)

    def _add_last(self, storage: Storage, path: str, *, is_synced: bool) -> None:
        count, last = self._last(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            if file.pread(len(last), count) != last:
                file.pwrite(last, count)
                if is_synced:
                    self.sync(file)

    def _last(self, storage: Storage, path: str) -> tuple[int, bytes]:
        if storage.kind(f"{path}/last") is not EntryKind.FILE:
            return 0, b""
        with storage.open_for_reading(f"{path}/last") as file:
            content = file.pread(file.size_bytes(), 0)
        return _number(content[:WORD_BYTES]), content[WORD_BYTES:]


class LeavesRecord(Toy):
    """Two records with checksums, one of them current: a commit stores the number of the current one, then the record.

    Where the power fails between, the record before it is the current one. Broken where a cut leaves a whole record of
    a commit that is not there, and a second cut the number of the next one: nobody clears the record.
    """

    name = "leaves a record"

    def create(self, storage: Storage, path: str) -> None:
        """Store number 0, a record without letters, and none."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(bytes(SECTOR_BYTES) + _record(0, b"") + b".", 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters of the current record; raises CorruptError if there is none."""
        with storage.open_for_reading(f"{path}/state") as file:
            return self.current(file)[1]

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Store the number, then the record, and sync them together, because the checksum tells if one is missing."""
        with storage.open_for_writing(f"{path}/state") as file:
            number, letters = self.current(file)
            self.store_number(file, number + 1)
            self.store_record(file, number + 1, letters + operation)
            self.sync(file)

    def store_number(self, file: File, number: int) -> None:
        """Store which record is the current one."""
        file.pwrite(_word(number), 0)

    def store_record(self, file: File, number: int, letters: bytes) -> None:
        """Store a record in place of the one before the last."""
        file.pwrite(_record(number, letters), self.offset_of(number))

    def offset_of(self, number: int) -> int:
        """Return where a record is, in bytes."""
        return SECTOR_BYTES * (1 + number % 2)

    def current(self, file: File) -> tuple[int, bytes]:
        """Return the number and the letters of the current record."""
        number = _number(file.pread(WORD_BYTES, 0))
        for each in (number, number - 1):
            record = file.pread(SECTOR_BYTES, self.offset_of(each))
            letters = record[2 * WORD_BYTES :].rstrip(b"\0")
            if record == _record(each, letters):
                return each, letters
        raise CorruptError(file="state", field="record", offset_bytes=0, expected=number, actual="none")


class TrustsFailedSync(TrustsOrder):
    """Broken where a sync that fails writes some blocks: it then forgets the old letters, as if nothing was written."""

    name = "trusts a failed sync"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Undo what was under way."""
        with super().open_writer(storage, path) as writer:
            if storage.kind(f"{path}/undo") is EntryKind.FILE:
                with storage.open_for_writing(f"{path}/state") as file:
                    self._overwrite(file, self.read(storage, path))
                self._forget(storage, path)
            yield writer

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters before the commit that is under way, or all."""
        if storage.kind(f"{path}/undo") is EntryKind.FILE:
            with storage.open_for_reading(f"{path}/undo") as file:
                return file.pread(file.size_bytes(), 0)
        return super().read(storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Keep the old letters durably, overwrite both blocks, and forget the old letters, after an error too."""
        content = self.read(storage, path)
        self.write_anew(storage, f"{path}/new", content)
        storage.rename(f"{path}/new", f"{path}/undo")
        self.sync_names(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            try:
                self._overwrite(file, content + b"x" * len(operation))
            finally:
                self._forget(storage, path)

    def _overwrite(self, file: File, content: bytes) -> None:
        for start in (BLOCK_BYTES, 0):
            file.pwrite(_word(len(content)), start)
        self.sync(file)

    def _forget(self, storage: Storage, path: str) -> None:
        storage.unlink(f"{path}/undo")
        self.sync_names(storage, path)


class SyncsLate(Toy):
    """Broken where the power fails right after an acknowledgement: the next commit, or the end, syncs the name."""

    name = "syncs late"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Sync the last name at the end."""
        with super().open_writer(storage, path) as writer:
            yield writer
            self.sync_names(storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Sync the name of the letters before, replace them, and look at what is there."""
        self.sync_names(storage, path)
        self.write_anew(storage, f"{path}/new", self.read(storage, path) + operation)
        storage.rename(f"{path}/new", f"{path}/state")
        storage.kind(f"{path}/state")


class UndoesLate(Toy):
    """Broken where a process dies right after a certain operation, which a recovery undoes until the end."""

    def __init__(self, operation: bytes) -> None:
        """Undo this operation alone."""
        self.name = f"undoes {operation.decode()!r}"
        self._operation = operation

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Forget the old letters at the end."""
        with super().open_writer(storage, path) as writer:
            yield writer
            self._forget(storage, path)

    def recover(self, storage: Storage, path: str) -> None:
        """Take the old letters."""
        storage.rename(f"{path}/new", f"{path}/state")

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Keep the old letters, replace them, and forget them except after the operation."""
        content = self.read(storage, path)
        for name, letters in (("written", content + operation), ("copy", content)):
            self.write_anew(storage, f"{path}/{name}", letters)
        storage.rename(f"{path}/copy", f"{path}/new")
        storage.rename(f"{path}/written", f"{path}/state")
        if operation != self._operation:
            self._forget(storage, path)

    def _forget(self, storage: Storage, path: str) -> None:
        if storage.kind(f"{path}/new") is EntryKind.FILE:
            storage.unlink(f"{path}/new")


class TakesPartForWhole(Toy):
    """Broken where a write fails after a part of it: takes the part for all."""

    name = "takes a part for the whole"

    def write_anew(self, storage: Storage, path: str, content: bytes) -> None:
        """Write, and go on after an error if there is something."""
        try:
            super().write_anew(storage, path, content)
        except StorageError:
            with storage.open_for_reading(path) as file:
                if not file.size_bytes():
                    raise


class IgnoresLaterWrites(Toy):
    """Broken where a write fails that is not the first one to its file."""

    name = "ignores a failing second write"

    def write_anew(self, storage: Storage, path: str, content: bytes) -> None:
        """Write the last letter by itself."""
        super().write_anew(storage, path, content[:-1])
        with storage.open_for_writing(path) as file:
            with suppress(StorageError):
                file.pwrite(content[-1:], len(content) - 1)
            self.sync(file)


class IgnoresNoSpace(Toy):
    """Broken where there is no space for a name."""

    name = "ignores that there is no space"

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Replace the letters."""
        self.write_anew(storage, f"{path}/new", self.read(storage, path) + operation)
        try:
            storage.rename(f"{path}/new", f"{path}/state")
        except StorageError as error:
            if error.reason != StorageReason.NO_SPACE:
                raise
        self.sync_names(storage, path)


class LeavesLock(Toy):
    """Broken where a commit fails and the process goes on: nobody else can open a writer beside it."""

    name = "leaves its lock"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Hold a lock, which no error releases."""
        file = storage.open_for_writing(f"{path}/state")
        if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
            raise BusyError("another writer is there")
        with super().open_writer(storage, path) as writer:
            yield writer
        file.close()


class GivesIn(Toy):
    """Broken where a writer goes on after a commit that it rejected: acknowledges the next ones without doing them."""

    name = "gives in"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Remember a rejection as long as the writer is open."""
        with super().open_writer(storage, path):
            yield _TiredWriter(self, storage, path)


class _TiredWriter(ToyWriter):
    _has_rejected = False

    def commit(self, operation: bytes) -> None:
        if self._has_rejected:
            return
        try:
            super().commit(operation)
        except StorageError:
            self._has_rejected = True
            raise


class GoesOnBehindLoss(Toy):
    """Broken where a failed sync loses a block and the writer goes on: it writes the next letters behind that block."""

    name = "goes on behind a loss"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return the letters of all blocks up to the first one that has none."""
        return b"".join(block.rstrip(b"\0") for block in self.blocks(storage, path))

    def blocks(self, storage: Storage, path: str) -> list[bytes]:
        """Return the blocks that have letters."""
        content = super().read(storage, path)
        blocks = (content[start : start + BLOCK_BYTES] for start in range(0, len(content), BLOCK_BYTES))
        return list(takewhile(lambda block: block[0], blocks))

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[BlockWriter]:
        """Make durable what is there, which a writer that died may not have done."""
        blocks = self.blocks(storage, path)
        with storage.open_for_writing(f"{path}/state") as file:
            for number, block in enumerate(blocks):
                file.pwrite(block, number * BLOCK_BYTES)
            self.sync(file)
        yield BlockWriter(self, storage, path, len(blocks))


class BlockWriter(ToyWriter):
    """A writer of letters behind so many blocks."""

    def __init__(self, target: Toy, storage: Storage, path: str, block_count: int) -> None:
        """Begin behind the blocks that have letters."""
        super().__init__(target, storage, path)
        self._toy, self._storage, self._path = target, storage, path
        self.block_count = block_count

    def commit(self, operation: bytes) -> None:
        """Write a block, and go on behind it even if it is lost."""
        with self._storage.open_for_writing(f"{self._path}/state") as file:
            file.pwrite(operation.ljust(WORD_BYTES, b"\0"), self.block_count * BLOCK_BYTES)
            self.block_count += 1
            self._toy.sync(file)


class TakesUnreadForEmpty(Toy):
    """Broken where a call of an opening fails: takes letters that it cannot read for none."""

    name = "takes what is unread for empty"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Read the letters once, and add to them from then on."""
        with super().open_writer(storage, path):
            try:
                letters = self.read(storage, path)
            except StorageError:
                letters = b""
            yield _RememberingWriter(self, storage, path, letters)

    def add(self, storage: Storage, path: str, letters: bytes) -> None:
        """Replace the letters."""
        self.write_anew(storage, f"{path}/new", letters)
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)


class _RememberingWriter(ToyWriter):
    def __init__(self, target: TakesUnreadForEmpty, storage: Storage, path: str, letters: bytes) -> None:
        super().__init__(target, storage, path)
        self._replace = partial(target.add, storage, path)
        self._letters = letters

    def commit(self, operation: bytes) -> None:
        self._replace(self._letters + operation)
        self._letters += operation


class RecoversWrongly(Toy):
    """Broken: does something to the toy in the given folder when it recovers."""

    def __init__(self, name: str, wrong: Callable[[Storage, str], None]) -> None:
        """Do nothing else."""
        self.name = name
        self._wrong = wrong

    def recover(self, storage: Storage, path: str) -> None:
        """Remove the other file after the mistake."""
        self._wrong(storage, path)
        super().recover(storage, path)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Commit unless the mistake was to forbid it."""
        if storage.kind(f"{path}/closed") is EntryKind.FILE:
            raise CorruptError(file="closed", field="file", offset_bytes=0, expected=0, actual=1)
        super().commit(storage, path, operation)


def _empty(storage: Storage, path: str) -> None:
    with storage.open_for_writing(f"{path}/state") as file:
        file.truncate(0)


def _remove(storage: Storage, path: str) -> None:
    storage.unlink(f"{path}/state")


def _forbid(storage: Storage, path: str) -> None:
    storage.open_for_writing(f"{path}/closed", OpenMode.EXISTING_OR_NEW).close()


def _reject(storage: Storage, path: str) -> None:
    raise CorruptError(file="new", field="file", offset_bytes=0, expected=0, actual=1)


def _break(storage: Storage, path: str) -> None:
    raise LookupError("a mistake")


def _wait(storage: Storage, path: str) -> None:
    while storage.kind(f"{path}/new") is EntryKind.FILE:
        storage.sleep_seconds(1)


TRUSTS_BLOCKS = TrustsUnit("trusts blocks", 1024)
TRUSTS_SECTORS = TrustsUnit("trusts sectors", 16)
SYNCS_RENAMED = SyncsWhatItRenamed("syncs what it renamed", is_data_only=False)
SYNCS_RENAMED_DATA = SyncsWhatItRenamed("syncs the data of what it renamed", is_data_only=True)
KEEPS_REDO = KeepsRedo("keeps the last letters apart", is_lazy=False)
RECOVERS_LAZILY = KeepsRedo("recovers lazily", is_lazy=True)
FORGETS = RecoversWrongly("forgets in recovery", _empty)
LOSES_STATE = RecoversWrongly("loses its state in recovery", _remove)
FORBIDS_COMMITS = RecoversWrongly("forbids commits after recovery", _forbid)
REJECTS_RECOVERY = RecoversWrongly("rejects recovery", _reject)
BREAKS_IN_RECOVERY = RecoversWrongly("breaks in recovery", _break)
WAITS_IN_RECOVERY = RecoversWrongly("waits in recovery", _wait)


def _word(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "little")


def _record(number: int, letters: bytes) -> bytes:
    """Return a sector: checksum, number, letters."""
    body = _word(number & (1 << 63) - 1) + letters
    return (_word(zlib.crc32(body)) + body).ljust(SECTOR_BYTES, b"\0")


def _number(word: bytes) -> int:
    return int.from_bytes(word, "little")


def _matching(first: bytes, second: bytes) -> int:
    """Return the number in both words; raises CorruptError if they differ."""
    if first != second:
        raise CorruptError(file="state", field="count", offset_bytes=0, expected=_number(first), actual=_number(second))
    return _number(first)
