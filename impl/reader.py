"""Reading a committed snapshot of a table: its parquet partitions as Arrow record batches, row group by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from impl.arrow_types import is_nullable
from impl.errors import CorruptError, Problem, TornproofError, UnsupportedError
from impl.partition import PartitionFiles, ResolvedPartition, check_native
from impl.pm.block import Block
from impl.pm.statistics import BYTE_ARRAY, bounds_of
from impl.reader_protocol import HARDENED_READER, ReaderProtocol
from impl.row_group import SnapshotColumn, column_key, row_group_columns
from impl.storage import ReadableFile
from impl.table import Table
from impl.table_check import check_against_table
from impl.transaction import Partition, Transaction


class UnknownColumnError(TornproofError):
    """The caller asked for a column that the table does not have, or for a time range without a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """Rows with `start` <= designated timestamp < `end`, in the column's own unit; None = without bound."""

    start: int | None = None
    end: int | None = None


ALL_TIMES = TimeRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed version of a table, readable as long as its directories stay."""

    table: Table
    transaction: Transaction
    columns: tuple[SnapshotColumn, ...]
    timestamp_id: int
    reader: ReaderProtocol = HARDENED_READER

    @property
    def schema(self) -> pa.Schema:
        """Arrow names and types of the table's columns."""
        return self.schema_of(self.columns)

    @property
    def native_partitions(self) -> tuple[str, ...]:
        """Names of the partitions whose rows are not in Parquet, and are not read."""
        return tuple(
            self.table.directory_of(partition) for partition in self.transaction.partitions if not partition.is_parquet
        )

    def selected(self, names: list[str] | None) -> tuple[SnapshotColumn, ...]:
        """Return the columns of those names in the given order, or all; UnknownColumnError."""
        if names is None:
            return self.columns
        by_name = {column.name: column for column in self.columns}
        for name in names:
            if name not in by_name:
                raise UnknownColumnError(f"there is no column {name!r}; the table has {', '.join(by_name)}")
        return tuple(by_name[name] for name in names)

    def batches(self, names: list[str] | None = None, times: TimeRange = ALL_TIMES) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parquet partitions in partition and row-group order.

        Opens a partition when its turn comes. Raises CorruptError, UnsupportedError, StorageError, UnknownColumnError.
        """
        columns = self.selected(names)
        if times != ALL_TIMES and self.timestamp_id < 0:
            raise UnknownColumnError("the table has no designated timestamp to select a time range by")
        for partition in self.transaction.partitions:
            if partition.is_parquet:
                yield from self._partition_batches(partition, columns, times)
            else:
                raise_first(check_native(self.table.files_of(partition), partition))

    def resolve(self, partition: Partition) -> ResolvedPartition:
        """Find a parquet partition's committed generation and check it; raises at the first problem."""
        resolved = _resolve_migrated(self.reader, self.table.files_of(partition), partition)
        raise_first(self.reader.check(resolved))
        raise_first(check_against_table(resolved, self.table.metadata))
        return resolved

    def schema_of(self, columns: Iterable[SnapshotColumn]) -> pa.Schema:
        """Return Arrow names, types and nullability of some of the columns, in the given order."""
        return pa.schema(
            pa.field(
                column.name,
                column.arrow_type,
                nullable=is_nullable(column.type) and column.id != self.timestamp_id,
            )
            for column in columns
        )

    def _partition_batches(
        self, partition: Partition, columns: tuple[SnapshotColumn, ...], times: TimeRange
    ) -> Iterator[pa.RecordBatch]:
        resolved = self.resolve(partition)
        with resolved.files.open_data() as handle:
            for block in resolved.metadata.blocks:
                if not self._overlaps(resolved, block, times):
                    continue
                yield from self._block_batches(resolved, block, handle, columns, times)

    def _block_batches(
        self,
        resolved: ResolvedPartition,
        block: Block,
        handle: ReadableFile,
        columns: tuple[SnapshotColumn, ...],
        times: TimeRange,
    ) -> Iterator[pa.RecordBatch]:
        schema = self.schema_of(columns)
        if times != ALL_TIMES:
            columns = (*columns, next(column for column in self.columns if column.id == self.timestamp_id))
        for arrays in row_group_columns(resolved, self.reader.described(block), handle, columns):
            # The timestamp that rows are chosen by comes last, whether or not it was asked for.
            batch = pa.record_batch(arrays[: len(schema)], schema=schema)
            if times != ALL_TIMES:
                batch = batch.filter(_inside(arrays[-1], times))
            if batch.num_rows:
                yield batch

    def _overlaps(self, resolved: ResolvedPartition, block: Block, times: TimeRange) -> bool:
        dts = resolved.metadata.header.designated_timestamp
        if dts < 0:
            return True
        bounds = bounds_of(resolved.metadata.header.columns[dts], block.chunks[dts])
        if not isinstance(bounds, tuple) or not isinstance(bounds[0], int) or not isinstance(bounds[1], int):
            return True
        low, high = bounds[0], bounds[1]
        return (times.end is None or low < times.end) and (times.start is None or high >= times.start)


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise CorruptError for the first problem, if there is one."""
    for problem in problems:
        raise CorruptError.of(problem)


def open_snapshot(table: Table, reader: ReaderProtocol = HARDENED_READER) -> Snapshot:
    """Pin the committed version of now; nothing keeps its files from being removed later (design, section 4)."""
    return snapshot_of(table, table.transaction(), reader)


def snapshot_of(table: Table, transaction: Transaction, reader: ReaderProtocol = HARDENED_READER) -> Snapshot:
    """Return a version that was read before, such as a pinned one, as a snapshot."""
    if table.metadata is not None:
        timestamp_id = table.metadata.timestamp_id
        columns = tuple(
            SnapshotColumn(id=column.id, name=column.name, type=column.type, physical_type=BYTE_ARRAY)
            for column in table.metadata.columns
        )
    else:
        columns, timestamp_id = _columns_of_partitions(table, transaction, reader)
    return Snapshot(table=table, transaction=transaction, columns=columns, timestamp_id=timestamp_id, reader=reader)


def _resolve_migrated(reader: ReaderProtocol, files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Resolve, and say it in words where a release that did not know `_pm` wrote the partition."""
    if not partition.parquet_was_generated and not files.has_pm():
        raise UnsupportedError(
            file=files.pm_label,
            field="file",
            offset_bytes=None,
            expected="a metadata file",
            actual="none: the table was written by a release before 9.4.0 and was not migrated",
        )
    return reader.resolve(files, partition)


def _columns_of_partitions(
    table: Table, transaction: Transaction, reader: ReaderProtocol
) -> tuple[tuple[SnapshotColumn, ...], int]:
    """Return the columns that the partitions' own `_pm` name: all there is to go by without `_meta`."""
    columns: dict[int, SnapshotColumn] = {}
    timestamp_id = -1
    for partition in transaction.partitions:
        if not partition.is_parquet:
            continue
        files = table.files_of(partition)
        header = _resolve_migrated(reader, files, partition).metadata.header
        for position, column in enumerate(header.columns):
            key = column_key(position, column)
            found = SnapshotColumn(
                id=key,
                name=column.name,
                type=column.type,
                physical_type=column.physical_type,
                fixed_byte_len=column.fixed_byte_len,
            )
            if columns.setdefault(key, found).arrow_type != found.arrow_type:
                raise _disagreement(files, f"TYPE of column {column.name!r}", columns[key].type, column.type)
            columns[key] = found
        if header.designated_timestamp >= 0:
            dts = header.designated_timestamp
            timestamp_id = column_key(dts, header.columns[dts])
        if len({column.name for column in columns.values()}) < len(columns):
            raise _disagreement(files, "NAME_STRINGS", "a name of its own for each column", "one name for two columns")
    return tuple(columns.values()), timestamp_id


def _disagreement(files: PartitionFiles, field: str, expected: object, actual: object) -> CorruptError:
    return CorruptError(file=files.pm_label, field=field, offset_bytes=None, expected=expected, actual=actual)


def _inside(timestamps: pa.Array, times: TimeRange) -> pa.Array:
    values = timestamps.cast(pa.int64())
    mask = pa.repeat(pa.scalar(True), len(values))
    if times.start is not None:
        mask = pc.and_(mask, pc.greater_equal(values, times.start))
    if times.end is not None:
        mask = pc.and_(mask, pc.less(values, times.end))
    return mask
