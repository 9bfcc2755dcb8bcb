"""A task's part of a commit: partitions encoded beside the table, which the commit only renames.

A task encodes the rows of a new partition, and merges those of one that is there already with its own if they are many.
Few rows, and those with symbols that are not in the dictionaries yet, are left to the commit, which also merges the
parts of a partition that several tasks have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.errors import FileVanishedError, ProblemError, RowsRejectedError
from tornproof.impl.layout.txn import PARQUET_FORMAT
from tornproof.impl.read.reader import Snapshot, open_snapshot, raise_first
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.metadata_file import NamedColumn, TableMetadata
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.table.symbols import SymbolTable, read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.write.adoption import PreparedPartition, reject_values_of_old_columns
from tornproof.impl.write.incoming_rows import Portion, conform, in_time_order, portions, without_duplicates
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.writer_options import WriterOptions

MERGED_BYTES_MIN = 1 << 20
MERGED_PARTS = 4
"""A partition of up to so many times the bytes of its new rows is written anew; a larger one grows in place."""


class Encoded(NamedTuple):
    """The partitions that a task has written, with the new rows of each, and the rows that it leaves to the commit.

    All rows have `columns`.
    """

    done: list[tuple[PreparedPartition, pa.Table]]
    rest: list[pa.Table]
    columns: Sequence[NamedColumn]


def renamed(rows: pa.Table, columns: Iterable[NamedColumn], metadata: TableMetadata) -> pa.Table:
    """Return rows of these columns under the names that the columns have in `_meta` by now.

    Raises RowsRejectedError if a column was dropped: one that has its name is another one.
    """
    ids, names = {column.name: column.id for column in columns}, metadata.names_by_id
    for name in rows.column_names:
        if ids[name] not in names:
            raise RowsRejectedError(
                f"column {name!r} was dropped, or dropped and added again, since the job began; run it again"
            )
    return rows.rename_columns([names[ids[name]] for name in rows.column_names])


def prepare(
    storage: Storage, table_path: str, rows: pa.Table, columns: Iterable[NamedColumn], folder: str, *, overwrites: bool
) -> Encoded:
    """Write the partitions of rows of these columns beside `folder`, as far as a task can.

    Raises RowsRejectedError for rows that the table cannot take.
    """
    snapshot = open_snapshot(open_table(storage, table_path))
    metadata = snapshot.table.metadata
    assert metadata is not None, "the table was checked before"
    names = {column.id: column.name for column in metadata.columns}
    timestamp_name = names[metadata.timestamp_id]
    rows = conform(renamed(rows, columns, metadata), snapshot.schema, timestamp_name, metadata.columns)
    if metadata.keys:
        rows = without_duplicates(rows, metadata.keys)
    symbols = dict(read_table_symbols(snapshot.table, snapshot.transaction))
    if overwrites:
        snapshot = replace(snapshot, transaction=replace(snapshot.transaction, partitions=()))
    there = {partition.timestamp: partition for partition in snapshot.transaction.partitions}
    encoded = Encoded([], [], metadata.columns)
    for portion in portions(in_time_order(rows, timestamp_name), timestamp_name, metadata, tuple(there.values())):
        built = None
        if _is_for_task(portion.rows, there.get(portion.timestamp)) and _has_symbols(symbols, portion.rows):
            built = _build(storage, snapshot, portion, folder, symbols)
        if built is None:
            encoded.rest.append(portion.rows)
        else:
            encoded.done.append((built, portion.rows))
    return encoded


def _is_for_task(rows: pa.Table, before: Partition | None) -> bool:
    if before is None:
        return True
    return bool(rows.nbytes >= MERGED_BYTES_MIN and rows.nbytes * MERGED_PARTS >= before.token)


def rows_of(storage: Storage, snapshot: Snapshot, prepared: PreparedPartition) -> Iterator[pa.Table]:
    """Yield the rows of a prepared partition, for a commit that cannot adopt it; raises as `adopted` does."""
    files = PartitionFiles(
        storage=storage, path=prepared.directory_path, name=prepared.directory_path.rpartition("/")[2]
    )
    entry = Partition(
        timestamp=prepared.timestamp,
        row_count=prepared.row_count,
        name_txn=-1,
        token=prepared.token,
        flags=PARQUET_FORMAT.put(0, 1),
        entry_offset_bytes=0,
        row_count_offset_bytes=0,
    )
    resolved = HARDENED_READER.resolve(files, entry)
    raise_first(HARDENED_READER.check(resolved))
    reject_values_of_old_columns(resolved, snapshot.table.metadata)
    with files.open_data() as handle:
        for block in resolved.metadata.blocks:
            for arrays in row_group_columns(resolved, block, handle, snapshot.columns):
                yield pa.Table.from_arrays(arrays, schema=snapshot.schema)


def _build(
    storage: Storage, snapshot: Snapshot, portion: Portion, folder: str, symbols: dict[str, SymbolTable]
) -> PreparedPartition | None:
    """Write a partition's directory, or return None if the commit has to say what is wrong with it."""
    metadata = snapshot.table.metadata
    assert metadata is not None
    (name,) = directory_names(portion.timestamp, -1, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
    try:
        return prepare_partition(storage, snapshot, portion, f"{folder}.{name}", WriterOptions(), symbols)
    except (RowsRejectedError, ProblemError, FileVanishedError):
        # Rows that do not fit, or files that are damaged or of a version that is gone.
        return None


def _has_symbols(symbols: dict[str, SymbolTable], rows: pa.Table) -> bool:
    return not any(table.new_among(rows[name].unique().drop_null().to_pylist()) for name, table in symbols.items())
