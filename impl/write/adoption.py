"""Prepared partitions: directories with complete files, written without the writer, which a commit renames."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.read.reader import raise_first
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.table.changed_types import is_changed
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.columns import column_positions, position_of
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition, read_chunk
from tornproof.impl.table.symbol_keys import dictionaries_by_position, dictionary_problem
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Partition, Transaction
from tornproof.impl.write.commit import PartitionWrite
from tornproof.impl.write.partition_change import PartitionChange
from tornproof.impl.write.partition_writer import load_state

WRITTEN_FLAGS = layout.PARQUET_FORMAT.put(layout.PARQUET_GENERATED.put(0, 1), 1)


class PreparedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A directory in the table's directory, with a durable data.parquet of `token` bytes and its `_pm`.

    `timestamp` is the start of the partition; no version names the directory yet. It has all rows of the partition that
    it `replaces`, if there is one.
    """

    directory_path: str
    timestamp: int
    row_count: int
    token: int
    replaces: Partition | None = None

    @property
    def new_row_count(self) -> int:
        """Number of rows that a commit adds with it."""
        return self.row_count - (self.replaces.row_count if self.replaces else 0)


def adopted(
    table: Table,
    transaction: Transaction,
    prepared: PreparedPartition,
    files: PartitionFiles,
    *,
    dropped: Collection[int] = (),
) -> PartitionChange:
    """Return the change that renames a prepared directory to the partition in `files`.

    The directory is checked like any partition: raises CorruptError and UnsupportedError, and RowsRejectedError if the
    table has another partition with that start than the one that it replaces, where those `dropped` do not count, and
    as `reject_values_of_old_columns` does.
    """
    kept = (each for each in transaction.partitions if each.timestamp not in dropped)
    there = next((each for each in kept if each.timestamp == prepared.timestamp), None)
    if there is not None and prepared.replaces is None:
        raise RowsRejectedError(f"{files.name}: there is already a partition that starts at {prepared.timestamp}")
    if prepared.replaces is not None and (there is None or there.identity != prepared.replaces.identity):
        raise RowsRejectedError(f"{files.name}: the partition has changed since rows were merged with its own")
    entry = Partition(
        timestamp=prepared.timestamp,
        row_count=prepared.row_count,
        name_txn=transaction.version,
        token=prepared.token,
        flags=WRITTEN_FLAGS,
        entry_offset_bytes=0,
        row_count_offset_bytes=0,
    )
    resolved = HARDENED_READER.resolve(replace(files, path=prepared.directory_path), entry)
    raise_first(HARDENED_READER.check(resolved))
    raise_first(check_against_table(resolved, table.metadata))
    reject_values_of_old_columns(resolved, table.metadata)
    state = load_state(resolved)
    write = PartitionWrite(
        directory_path=files.path,
        is_new=True,
        data_offset_bytes=prepared.token,
        data=b"",
        pm_offset_bytes=state.point.base_bytes,
        pm=b"",
        published_bytes=state.point.base_bytes,
        prepared_path=prepared.directory_path,
    )
    return PartitionChange(write=write, partition=replace(state, files=files))


def reject_values_of_old_columns(resolved: ResolvedPartition, metadata: TableMetadata | None) -> None:
    """Raise RowsRejectedError if a column was added again, or got another type, since a partition was encoded.

    Such a column has another id, under which the partition has no values, or values of the type before.
    """
    if metadata is None:
        return
    header = resolved.metadata.header
    names, positions = {column.name for column in header.columns}, column_positions(header)
    for column in metadata.columns:
        position = position_of(column, positions)
        is_old = column.name in names if position is None else is_changed(column, header.columns[position])
        if is_old:
            raise RowsRejectedError(
                f"{resolved.files.name}: column {column.name!r} was dropped and added again, or got another type, "
                "since these rows were encoded; write them again"
            )


def check_symbol_keys(change: PartitionChange, metadata: TableMetadata, symbols: Mapping[str, SymbolTable]) -> None:
    """Raise CorruptError unless an adopted partition has the keys that the table's symbols have after the commit.

    Its files were written without the writer, perhaps with the symbols of another table or of a commit that failed.
    """
    assert change.write.prepared_path is not None
    partition, files = change.partition, replace(change.partition.files, path=change.write.prepared_path)
    columns, label = partition.metadata.header.columns, files.data_label
    known = dictionaries_by_position(partition.metadata.header, metadata, symbols)
    with files.open_data() as handle:
        for block, (position, table) in itertools.product(partition.metadata.blocks, known.items()):
            chunk = block.chunks[position]
            content = read_chunk(handle, chunk, file=label)
            pages = pages_of(content, chunk, file=label)
            problem = dictionary_problem(content, pages, columns[position], chunk, table, file=label)
            if problem is not None:
                raise CorruptError.of(problem)
