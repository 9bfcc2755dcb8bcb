"""A table's directory: its `_meta`, its committed version, and the directories of its partitions."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import CorruptError, NotATableError, ProblemError, StorageError
from tornproof.impl.storage.interface import EntryKind, ReadableStorage
from tornproof.impl.table.metadata_file import (
    META_FILE,
    NAME_FILE,
    PartitionBy,
    TableMetadata,
    read_metadata_file,
    read_name_file,
)
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.partition_names import UNPARTITIONED_DIRECTORY, directory_names, looks_like_partition
from tornproof.impl.txn.transaction import (
    TXN_FILE,
    Partition,
    Transaction,
    check_directory,
    may_be_left_over,
    safe_read,
)

PAUSE_SECONDS = 0.02


def name_of_directory(path: str) -> str:
    """Return a table's name by its directory, to which servers append `~` and a number."""
    return path.rstrip("/").rpartition("/")[2].partition("~")[0]


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table that can be read; `metadata` is None if the directory has no `_meta`, as in commit histories."""

    storage: ReadableStorage
    path: str
    metadata: TableMetadata | None

    def name(self) -> str:
        """Return the table's name: that in `_name`, which it is renamed in, or of its directory if none can be read."""
        try:
            return read_name_file(self.storage, f"{self.path}/{NAME_FILE}")
        except (ProblemError, StorageError):
            return name_of_directory(self.path)

    def transaction(self) -> Transaction:
        """Return the current committed version; raises as `safe_read` does."""
        return self.without_left_over(safe_read(self.storage, f"{self.path}/{TXN_FILE}"))

    def without_left_over(self, transaction: Transaction) -> Transaction:
        """Return a version of a table without intervals and a last time as servers read it.

        They neither write nor read its entry, which has what an earlier record left there: all its rows are in the
        one native partition. Raises CorruptError if any other entry cannot be right.
        """
        if not may_be_left_over(transaction.record, len(transaction.partitions)):
            return transaction
        (entry,) = transaction.partitions
        if self.metadata is not None and self.metadata.partition_by is PartitionBy.NONE:
            partition = replace(entry, timestamp=0, flags=0, name_txn=-1, token=-1)
            return replace(transaction, partitions=(partition,) if partition.row_count else ())
        check_directory(entry, transaction.version)
        return transaction

    def is_of(self, transaction: Transaction) -> bool:
        """Whether `metadata` is that of the version, as far as both have one."""
        return self.metadata is None or self.metadata.version == transaction.metadata_version

    def directory_of(self, partition: Partition) -> str:
        """Return the name of the partition's directory, whether or not it exists.

        Raises CorruptError for a timestamp outside of the calendar.
        """
        names = tuple(name for names in self._candidates(partition) for name in names)
        if not names:
            expected = "a time between the years 1 and 9999"
            actual = partition.timestamp
            raise CorruptError(TXN_FILE, "TIMESTAMP of a partition", partition.entry_offset_bytes, expected, actual)
        if len(names) == 1:
            return names[0]
        present = (name for name in names if self.storage.kind(f"{self.path}/{name}") is EntryKind.DIRECTORY)
        return next(present, names[0])

    def files_of(self, partition: Partition) -> PartitionFiles:
        """Return the partition's files; raises as `directory_of` does."""
        name = self.directory_of(partition)
        return PartitionFiles(storage=self.storage, path=f"{self.path}/{name}", name=name)

    def unreferenced_directories(self, transaction: Transaction) -> tuple[str, ...]:
        """Return the partition directories, and links to some, that the committed version does not name, sorted."""
        referenced = {self.directory_of(partition) for partition in transaction.partitions}
        partition_by = None if self.metadata is None else self.metadata.partition_by
        if partition_by is PartitionBy.NONE:
            # A table without partitions has no entries in `_txn`, but its one directory is in use.
            referenced.add(UNPARTITIONED_DIRECTORY)
        return tuple(
            name
            for name in self.storage.listdir(self.path)
            if looks_like_partition(name, partition_by)
            and name not in referenced
            and self.storage.own_kind(f"{self.path}/{name}") in (EntryKind.DIRECTORY, EntryKind.LINK)
        )

    def _candidates(self, partition: Partition) -> list[tuple[str, ...]]:
        if self.metadata is not None:
            intervals, resolutions = [self.metadata.partition_by], [self.metadata.counts_nanoseconds]
        else:
            intervals, resolutions = list(PartitionBy), [False, True]
        return [
            directory_names(partition.timestamp, partition.name_txn, interval, nanoseconds=nanoseconds)
            for nanoseconds in resolutions
            for interval in intervals
        ]


def quoted(name: str) -> str:
    """Return the name of a table or column as SQL has it, which may be a keyword there, or have spaces."""
    return f'"{name}"'


def open_table(storage: ReadableStorage, path: str) -> Table:
    """Open the table in the directory `path`; reads `_meta` if it exists.

    Raises NotATableError, CorruptError for a damaged `_meta`, StorageError.
    """
    match storage.kind(path):
        case EntryKind.MISSING:
            raise NotATableError(f"{path}: not a table: there is nothing at this path")
        case EntryKind.DIRECTORY:
            pass
        case _:
            raise NotATableError(f"{path}: not a table: it is not a directory")
    if storage.kind(f"{path}/{TXN_FILE}") is EntryKind.MISSING:
        raise NotATableError(f"{path}: not a table: it holds no {TXN_FILE}")
    meta_path = f"{path}/{META_FILE}"
    metadata = None
    if storage.kind(meta_path) is not EntryKind.MISSING:
        metadata = read_metadata_file(storage, meta_path)
    return Table(storage=storage, path=path, metadata=metadata)


def agreeing(table: Table, transaction: Transaction) -> tuple[Table, Transaction]:
    """Return both, or later ones: a server that changes columns stores `_meta` first, and `_txn` after it.

    Two that still differ after a pause are of a server that was killed between, and are returned. Raises as
    `open_table` and `safe_read` do.
    """
    before: tuple[TableMetadata | None, int] | None = None
    while not table.is_of(transaction) and before != (table.metadata, transaction.version):
        before = table.metadata, transaction.version
        table.storage.sleep_seconds(PAUSE_SECONDS)
        table = open_table(table.storage, table.path)
        transaction = table.transaction()
    return table, transaction
