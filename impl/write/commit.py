"""The commit as data: ordered tuples of named actions, and the one function that executes them.

Everything is encoded before the first action, so an action only writes or syncs. A commit is acknowledged when
`execute` returns; after an error the files are left to the next writer's recovery (docs/writing.md#recovery).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

import msgspec

from tornproof.impl.errors import StorageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader_protocol import HARDENED_READER, ReaderProtocol
from tornproof.impl.storage.interface import EntryKind, File, Mapping, OpenMode, Storage
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.partition import PM_FILE, PartitionFiles
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.txn.write import StorePlan, WordStore
from tornproof.impl.write.new_symbols import DictionaryWrite

U32_BYTES = 4


class Action(enum.Enum):
    """One step of a commit; F1 to F6 are the barriers of docs/guarantees.md."""

    APPEND_SYMBOLS = "append symbols"
    SYNC_SYMBOLS = "sync symbols (F1)"
    WRITE_INDEX = "write the keys of a dictionary's index"
    SYNC_INDEX = "sync the keys of a dictionary's index (F1)"
    NAME_INDEX = "give the keys of a dictionary's index their name"
    MAKE_DIRECTORY = "make directory"
    NAME_DIRECTORY = "give a prepared directory its name"
    APPEND_DATA = "append data"
    SYNC_DATA = "sync data (F1)"
    APPEND_PM = "append pm"
    SYNC_PM = "sync pm (F2)"
    PATCH_HEADER = "patch header"
    SYNC_HEADER = "sync header (F3)"
    SYNC_DIRECTORY = "sync partition directory (F6)"
    SYNC_TABLE_DIRECTORY = "sync table directory (F6)"
    STORE_RECORD = "store record"
    SYNC_RECORD = "sync record (F4)"
    FENCE_BEFORE_VERSION = "fence before version"
    STORE_VERSION = "store version"
    SYNC_VERSION = "sync version (F5)"
    FENCE_AFTER_VERSION = "fence after version"


class RecoveryAction(enum.Enum):
    """One step of what a writer does first with the files of an earlier process (`recovery.py`), in this order.

    Directories go first, because the steps after it need space, which they may fill; neither the version that is seen
    nor one that a power cut may leave in its place names them.
    """

    REMOVE_UNCOMMITTED = "remove the directories of commits that never came about"
    REPUBLISH_PARTITIONS = "publish each committed generation again, as the newest"
    STORE_VERSION_AGAIN = "store the committed version again"
    TAKE_COLUMN_VERSION_BACK = "store the committed version of `_cv` where a killed commit has stored the next one"


class PartitionWrite(msgspec.Struct, frozen=True, kw_only=True):
    """All bytes that a commit writes into one partition's directory.

    `published_bytes` is the size that the header of `_pm` has afterwards; a new directory's `pm` is complete and
    already has it. If `prepared_path` names a directory with complete, durable files, or the new directory itself
    `is_written` and durable, there are no bytes to write.
    """

    directory_path: str
    is_new: bool
    data_offset_bytes: int
    data: bytes
    pm_offset_bytes: int
    pm: bytes
    published_bytes: int
    prepared_path: str | None = None
    is_written: bool = False


WRITTEN = (Action.SYNC_TABLE_DIRECTORY,)
ADOPTION = (Action.NAME_DIRECTORY, Action.SYNC_TABLE_DIRECTORY)
DICTIONARY = (
    Action.APPEND_SYMBOLS,
    Action.SYNC_SYMBOLS,
    Action.WRITE_INDEX,
    Action.SYNC_INDEX,
    Action.NAME_INDEX,
    Action.SYNC_TABLE_DIRECTORY,
)


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """The order of a commit's actions, and other differences between releases (docs/presets.md).

    `dictionary` is executed for each dictionary that gets new symbols, then `update` for each partition that grows in
    place, `rewrite` for each new directory, `adoption` for each prepared one, then `publish` for `_cv`, if it changes,
    and for `_txn`. `base` finds the generation that a commit continues, only once in a process that `remembers` its
    own; `token_of` computes before a write which size of data.parquet `_txn` will name; `undo` is called after a
    partition's failed write; `replaced`, with the new version, for directories that it no longer names.
    """

    update: tuple[Action, ...]
    rewrite: tuple[Action, ...]
    publish: tuple[Action, ...]
    recovery: tuple[RecoveryAction, ...]
    base: ReaderProtocol
    remembers: bool
    token_of: Callable[[Storage, PartitionWrite], int]
    undo: Callable[[Storage, PartitionWrite], None]
    replaced: Callable[[Storage, WriterLock, int, Iterable[PartitionFiles]], None]
    adoption: tuple[Action, ...] = ADOPTION
    dictionary: tuple[Action, ...] = DICTIONARY

    def actions(self, write: PartitionWrite) -> tuple[Action, ...]:
        """Return the actions for a partition's directory."""
        if write.prepared_path is not None:
            return self.adoption
        if write.is_written:
            return WRITTEN
        return self.rewrite if write.is_new else self.update


def encoded_end(_: Storage, write: PartitionWrite) -> int:
    """Return the size that the encoder computed, ignoring bytes behind it."""
    return write.data_offset_bytes + len(write.data)


def leave_dead_bytes(_storage: Storage, _write: PartitionWrite) -> None:
    """Undo nothing, because there may be readers: the next writer's recovery appends behind it."""


def leave_to_purger(_storage: Storage, _lock: WriterLock, _version: int, _files: Iterable[PartitionFiles]) -> None:
    """Remove nothing: pinned readers may need it, which the purge checks."""


HARDENED = Protocol(
    update=(
        Action.APPEND_DATA,
        Action.SYNC_DATA,
        Action.APPEND_PM,
        Action.SYNC_PM,
        Action.PATCH_HEADER,
        Action.SYNC_HEADER,
    ),
    rewrite=(
        Action.MAKE_DIRECTORY,
        Action.APPEND_DATA,
        Action.SYNC_DATA,
        Action.APPEND_PM,
        Action.SYNC_PM,
        Action.SYNC_DIRECTORY,
        Action.SYNC_TABLE_DIRECTORY,
    ),
    publish=(
        Action.STORE_RECORD,
        Action.SYNC_RECORD,
        Action.FENCE_BEFORE_VERSION,
        Action.STORE_VERSION,
        Action.SYNC_VERSION,
        Action.FENCE_AFTER_VERSION,
    ),
    recovery=tuple(RecoveryAction),
    base=HARDENED_READER,
    remembers=True,
    token_of=encoded_end,
    undo=leave_dead_bytes,
    replaced=leave_to_purger,
)


def extend_dictionaries(
    protocol: Protocol, storage: Storage, table_path: str, writes: Sequence[DictionaryWrite]
) -> None:
    """Make the symbols of a commit durable, which no version counts yet; raises StorageError."""
    for write in writes:
        with ExitStack() as opened:
            run = _DictionaryRun(storage, table_path, write, opened)
            for action in protocol.dictionary:
                _DICTIONARY_ACTIONS[action](run)


def execute(
    protocol: Protocol,
    storage: Storage,
    table_path: str,
    writes: Sequence[PartitionWrite],
    plan: StorePlan,
    column_versions: StorePlan | None = None,
) -> None:
    """Execute a commit; raises StorageError, after which the writer must not continue (docs/writing.md)."""
    for write in writes:
        try:
            with ExitStack() as opened:
                run = _PartitionRun(storage, table_path, write, opened)
                for action in protocol.actions(write):
                    _PARTITION_ACTIONS[action](run)
        except StorageError:
            protocol.undo(storage, write)
            raise
    if column_versions is not None:
        # Before `_txn`, which says which of the two areas of `_cv` counts.
        _publish(protocol, storage, f"{table_path}/{CV_FILE}", column_versions)
    _publish(protocol, storage, f"{table_path}/{TXN_FILE}", plan)


def _publish(protocol: Protocol, storage: Storage, path: str, plan: StorePlan) -> None:
    with ExitStack() as opened:
        publication = _Publication(storage, path, plan, opened)
        publication.grow(is_synced=Action.SYNC_RECORD in protocol.publish)
        for action in protocol.publish:
            _PUBLISH_ACTIONS[action](publication)


def publish(pm: File, published_bytes: int, opened: ExitStack) -> Mapping:
    """Store the published size of a `_pm`, and return the mapping for making the store durable.

    One aligned store, because an eight-byte write can be interrupted in between, which would lose the whole chain.
    """
    field = layout.Header.layout.field("parquet_meta_file_size")
    mapping = opened.enter_context(pm.map(field.end_bytes))
    mapping.store_u64(field.offset_bytes, published_bytes)
    return mapping


class _DictionaryRun:
    """The actions on one dictionary."""

    def __init__(self, storage: Storage, table_path: str, write: DictionaryWrite, opened: ExitStack) -> None:
        self._storage = storage
        self._table_path = table_path
        self._write = write
        self._opened = opened
        self._files: dict[str, File] = {}

    def append_symbols(self) -> None:
        for part in self._write.parts:
            self._file(part.path).pwrite(part.content, part.offset_bytes)

    def sync_symbols(self) -> None:
        for path in dict.fromkeys(part.path for part in self._write.parts):
            self._file(path).fdatasync()

    def write_index(self) -> None:
        path = self._write.unnamed_index_path
        if self._storage.own_kind(path) is not EntryKind.MISSING:
            # Never written to: after a power cut some file systems have a renamed file under both names.
            self._storage.unlink(path)
        self._file(path, OpenMode.NEW).pwrite(self._write.index, 0)

    def sync_index(self) -> None:
        self._file(self._write.unnamed_index_path).fdatasync()

    def name_index(self) -> None:
        self._storage.rename(self._write.unnamed_index_path, self._write.index_path)

    def sync_table_directory(self) -> None:
        self._storage.sync_directory(self._table_path)

    def _file(self, path: str, mode: OpenMode = OpenMode.EXISTING) -> File:
        if path not in self._files:
            self._files[path] = self._opened.enter_context(self._storage.open_for_writing(path, mode))
        return self._files[path]


class _PartitionRun:
    """The actions on one partition's directory; files are opened when they are first needed."""

    def __init__(self, storage: Storage, table_path: str, write: PartitionWrite, opened: ExitStack) -> None:
        self._storage = storage
        self._table_path = table_path
        self._write = write
        self._opened = opened
        self._files: dict[str, File] = {}
        self._header: Mapping | None = None

    def make_directory(self) -> None:
        self._storage.mkdir(self._write.directory_path)

    def name_directory(self) -> None:
        assert self._write.prepared_path is not None
        self._storage.rename(self._write.prepared_path, self._write.directory_path)

    def append_data(self) -> None:
        self._file(DATA_FILE).pwrite(self._write.data, self._write.data_offset_bytes)

    def sync_data(self) -> None:
        self._file(DATA_FILE).fdatasync()

    def append_pm(self) -> None:
        self._file(PM_FILE).pwrite(self._write.pm, self._write.pm_offset_bytes)

    def sync_pm(self) -> None:
        self._file(PM_FILE).fdatasync()

    def patch_header(self) -> None:
        self._header = publish(self._file(PM_FILE), self._write.published_bytes, self._opened)

    def sync_header(self) -> None:
        assert self._header is not None, "the header is patched before it is synced"
        self._header.msync()

    def sync_directory(self) -> None:
        self._storage.sync_directory(self._write.directory_path)

    def sync_table_directory(self) -> None:
        self._storage.sync_directory(self._table_path)

    def _file(self, name: str) -> File:
        if name not in self._files:
            mode = OpenMode.NEW if self._write.is_new else OpenMode.EXISTING
            path = f"{self._write.directory_path}/{name}"
            self._files[name] = self._opened.enter_context(self._storage.open_for_writing(path, mode))
        return self._files[name]


class _Publication:
    """The actions on `_txn` or `_cv`, which have two areas."""

    def __init__(self, storage: Storage, path: str, plan: StorePlan, opened: ExitStack) -> None:
        self._storage = storage
        self._plan = plan
        self._opened = opened
        self._file = opened.enter_context(storage.open_for_writing(path))

    def grow(self, *, is_synced: bool) -> None:
        size_bytes = self._file.size_bytes()
        if size_bytes < self._plan.file_size_bytes:
            # Zeros, not a hole: where the disk is full, a store into a hole ends the process, and a write is refused.
            self._file.pwrite(bytes(self._plan.file_size_bytes - size_bytes), size_bytes)
            if is_synced:
                # msync does not guarantee that the new size is durable.
                self._file.fsync()
        self._mapping = self._opened.enter_context(self._file.map(self._plan.file_size_bytes))

    def store_record(self) -> None:
        for store in self._plan.record_stores:
            self._store(store)

    def store_version(self) -> None:
        self._store(self._plan.version_store)

    def fence(self) -> None:
        self._storage.store_fence()

    def sync(self) -> None:
        self._mapping.msync()

    def _store(self, store: WordStore) -> None:
        if store.size_bytes == U32_BYTES:
            self._mapping.store_u32(store.offset_bytes, store.value)
        else:
            self._mapping.store_u64(store.offset_bytes, store.value)


_DICTIONARY_ACTIONS: dict[Action, Callable[[_DictionaryRun], None]] = {
    Action.APPEND_SYMBOLS: _DictionaryRun.append_symbols,
    Action.SYNC_SYMBOLS: _DictionaryRun.sync_symbols,
    Action.WRITE_INDEX: _DictionaryRun.write_index,
    Action.SYNC_INDEX: _DictionaryRun.sync_index,
    Action.NAME_INDEX: _DictionaryRun.name_index,
    Action.SYNC_TABLE_DIRECTORY: _DictionaryRun.sync_table_directory,
}
_PARTITION_ACTIONS: dict[Action, Callable[[_PartitionRun], None]] = {
    Action.MAKE_DIRECTORY: _PartitionRun.make_directory,
    Action.NAME_DIRECTORY: _PartitionRun.name_directory,
    Action.APPEND_DATA: _PartitionRun.append_data,
    Action.SYNC_DATA: _PartitionRun.sync_data,
    Action.APPEND_PM: _PartitionRun.append_pm,
    Action.SYNC_PM: _PartitionRun.sync_pm,
    Action.PATCH_HEADER: _PartitionRun.patch_header,
    Action.SYNC_HEADER: _PartitionRun.sync_header,
    Action.SYNC_DIRECTORY: _PartitionRun.sync_directory,
    Action.SYNC_TABLE_DIRECTORY: _PartitionRun.sync_table_directory,
}
_PUBLISH_ACTIONS: dict[Action, Callable[[_Publication], None]] = {
    Action.STORE_RECORD: _Publication.store_record,
    Action.SYNC_RECORD: _Publication.sync,
    Action.FENCE_BEFORE_VERSION: _Publication.fence,
    Action.STORE_VERSION: _Publication.store_version,
    Action.SYNC_VERSION: _Publication.sync,
    Action.FENCE_AFTER_VERSION: _Publication.fence,
}
