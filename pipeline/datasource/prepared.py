"""A task's part of a commit: new partitions encoded beside the table, which the commit only renames.

A task that has all rows of a partition encodes them. Rows of one that is there already, or with symbols that are not in
the dictionaries yet, are left to the commit, which also merges the parts of a partition that several tasks have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout.txn import PARQUET_FORMAT
from tornproof.impl.read.reader import Snapshot, open_snapshot, raise_first
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.table.symbols import SymbolTable, read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import Portion, conform, in_time_order, portions, without_duplicates
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.partition_change import row_group_parts
from tornproof.impl.write.readable_row_groups import readable_row_groups
from tornproof.impl.write.recovery import remove_directory
from tornproof.impl.write.writer_options import WriterOptions


def prepare(
    storage: Storage, table_path: str, rows: pa.Table, folder: str, *, overwrites: bool
) -> tuple[list[PreparedPartition], list[pa.Table]]:
    """Encode the partitions that a table does not have yet, beside `folder`; return them, and all other rows.

    Raises RowsRejectedError for rows that the table cannot take.
    """
    snapshot = open_snapshot(open_table(storage, table_path))
    metadata = snapshot.table.metadata
    assert metadata is not None, "the table was checked before"
    names = {column.id: column.name for column in metadata.columns}
    timestamp_name = names[metadata.timestamp_id]
    rows = conform(rows, snapshot.schema, timestamp_name)
    keys = [column.name for column in metadata.columns if column.is_dedup_key]
    if keys:
        rows = without_duplicates(rows, [timestamp_name, *(name for name in keys if name != timestamp_name)])
    there = () if overwrites else snapshot.transaction.partitions
    starts = {partition.timestamp for partition in there}
    symbols = dict(read_table_symbols(snapshot.table, snapshot.transaction))
    done, rest = [], []
    for portion in portions(in_time_order(rows, timestamp_name), timestamp_name, metadata, there):
        built = None
        if portion.timestamp not in starts and _has_symbols(symbols, portion.rows):
            built = _build(storage, snapshot, portion, folder, symbols)
        if built is None:
            rest.append(portion.rows)
        else:
            done.append(built)
    return done, rest


def rows_of(storage: Storage, snapshot: Snapshot, prepared: PreparedPartition) -> Iterator[pa.Table]:
    """Yield the rows of a prepared partition, for a commit that cannot adopt it."""
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
    with files.open_data() as handle:
        for block in resolved.metadata.blocks:
            for arrays in row_group_columns(resolved, block, handle, snapshot.columns):
                yield pa.Table.from_arrays(arrays, schema=snapshot.schema)


def _build(
    storage: Storage, snapshot: Snapshot, portion: Portion, folder: str, symbols: dict[str, SymbolTable]
) -> PreparedPartition | None:
    """Write a partition's directory, or return None if the commit has to find larger row groups for it."""
    metadata, options = snapshot.table.metadata, WriterOptions()
    assert metadata is not None
    (name,) = directory_names(portion.timestamp, -1, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
    path, table_name = f"{folder}.{name}", Path(snapshot.table.path).name
    try:
        with PartitionBuild(storage, path, metadata, options, table_name=table_name, symbols=symbols) as build:
            for part in row_group_parts([portion.rows], options):
                for group in readable_row_groups(part, build.encoded):
                    build.append(group)
            return build.finish(portion.timestamp)
    except RowsRejectedError:
        remove_directory(storage, path)
        return None


def _has_symbols(symbols: dict[str, SymbolTable], rows: pa.Table) -> bool:
    return not any(table.new_among(rows[name].unique().drop_null().to_pylist()) for name, table in symbols.items())
