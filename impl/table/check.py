"""Whether `_meta` and `_txn` agree with `_pm` about columns and times."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.impl.errors import Problem
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import bounds_of
from tornproof.impl.table.columns import column_key, column_positions
from tornproof.impl.table.metadata_file import META_FILE, TableMetadata
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.arrow import arrow_type
from tornproof.impl.types.questdb import DESIGNATED, TypeTag, tag_of


def check_against_table(resolved: ResolvedPartition, metadata: TableMetadata | None) -> Iterator[Problem]:
    """Yield where a partition's committed generation contradicts the table's columns or the partition's interval.

    `metadata` is None if there is no `_meta`; then only the times in `_txn` are compared.
    """
    if metadata is not None:
        yield from _check_columns(resolved, metadata)
    yield from _check_times(resolved, metadata)


def _check_columns(resolved: ResolvedPartition, metadata: TableMetadata) -> Iterator[Problem]:
    """Compare columns by writer index, not by name: a partition keeps the old name of a renamed column."""
    header, label = resolved.metadata.header, resolved.files.pm_label
    positions = column_positions(header)
    for wanted in metadata.columns:
        found = header.columns[positions[wanted.id]] if wanted.id in positions else None
        if found is not None and not is_same_type(found, wanted.type):
            expected = f"{found.type}, as in {label}"
            yield Problem(META_FILE, f"TYPE of column {wanted.name!r}", None, expected, str(wanted.type))
    dts = header.designated_timestamp
    if dts >= 0 and metadata.timestamp_id >= 0:
        key = column_key(dts, header.columns[dts])
        if key != metadata.timestamp_id:
            yield Problem(META_FILE, "TIMESTAMP_INDEX", None, f"{key}, as in {label}", str(metadata.timestamp_id))
    elif metadata.timestamp_id >= 0 and metadata.timestamp_id not in positions:
        # Any other column that a partition lacks is newer than its rows, and null in them.
        expected = f"a column of the ID {metadata.timestamp_id}, the designated timestamp in {META_FILE}"
        yield Problem(label, "COLUMN ID", None, expected, "none")


def is_same_type(column: Column, table_type: int) -> bool:
    """Whether a partition's column has the type in `_meta`."""
    if column.type < 0:
        return _arrow(column, table_type) == _arrow(column, column.type)
    # Only `_pm` marks the designated timestamp in the type.
    is_timestamp = tag_of(column.type) is TypeTag.TIMESTAMP
    return (DESIGNATED.put(column.type, 0) if is_timestamp else column.type) == table_type


def _arrow(column: Column, column_type: int) -> object:
    return arrow_type(column_type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)


def _check_times(resolved: ResolvedPartition, metadata: TableMetadata | None) -> Iterator[Problem]:
    """Check that all rows are in the partition's interval, which reveals another partition's files."""
    times = _times_of(resolved.metadata)
    if times is None:
        return
    partition, (low, high) = resolved.partition, times
    ends = [] if partition.next_timestamp is None else [partition.next_timestamp]
    if metadata is not None:
        end = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
        ends += [] if end is None else [end]
    if low < partition.timestamp or any(high >= end for end in ends):
        until = f", before {min(ends)}" if ends else ""
        expected = f"rows from {partition.timestamp} on{until}"
        actual = f"rows from {low} to {high} in {resolved.files.pm_label}"
        yield Problem(TXN_FILE, f"TIMESTAMP of {resolved.files.name}", partition.entry_offset_bytes, expected, actual)


def _times_of(metadata: Metadata) -> tuple[int, int] | None:
    dts = metadata.header.designated_timestamp
    if dts < 0:
        return None
    times: list[int] = []
    for block in metadata.blocks:
        bounds = bounds_of(metadata.header.columns[dts], block.chunks[dts])
        if isinstance(bounds, tuple):
            times += [bound for bound in bounds if isinstance(bound, int)]
    return (min(times), max(times)) if times else None
