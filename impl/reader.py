"""Reading a committed snapshot of a table: its parquet partitions as Arrow record batches, one for each row group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from impl.arrow_types import arrow_type, is_nullable, missing_value
from impl.chunk import VALUE_COUNT_MAX, decode_chunk
from impl.errors import CorruptError, Problem, TornproofError, UnsupportedError
from impl.metadata_file import META_FILE
from impl.partition import (
    PartitionFiles,
    ResolvedPartition,
    check_native,
    check_partition,
    read_chunk,
    resolve_partition,
)
from impl.pm.block import Block
from impl.pm.header import Column
from impl.pm.statistics import BYTE_ARRAY, bounds_of
from impl.storage import ReadableFile
from impl.table import Table
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
class SnapshotColumn:
    """A column as the table has it; `physical_type` matters only where the QuestDB type says nothing."""

    id: int
    name: str
    type: int
    physical_type: int
    fixed_byte_len: int = 0

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that its values are returned in."""
        return arrow_type(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed version of a table, readable as long as its directories stay."""

    table: Table
    transaction: Transaction
    columns: tuple[SnapshotColumn, ...]
    timestamp_id: int

    @property
    def schema(self) -> pa.Schema:
        """Arrow names and types of the table's columns."""
        return pa.schema([self._field(column) for column in self.columns])

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
                raise_first(check_native(self.files_of(partition), partition))

    def resolve(self, partition: Partition) -> ResolvedPartition:
        """Find a parquet partition's committed generation and check it; raises at the first problem."""
        resolved = _resolve_migrated(self.files_of(partition), partition)
        raise_first(check_partition(resolved))
        return resolved

    def files_of(self, partition: Partition) -> PartitionFiles:
        """Return where the partition's files lie."""
        name = self.table.directory_of(partition)
        return PartitionFiles(storage=self.table.storage, path=f"{self.table.path}/{name}", name=name)

    def _field(self, column: SnapshotColumn) -> pa.Field:
        nullable = is_nullable(column.type) and column.id != self.timestamp_id
        return pa.field(column.name, column.arrow_type, nullable=nullable)

    def _partition_batches(
        self, partition: Partition, columns: tuple[SnapshotColumn, ...], times: TimeRange
    ) -> Iterator[pa.RecordBatch]:
        resolved = self.resolve(partition)
        with resolved.files.open_data() as handle:
            for block in resolved.metadata.blocks:
                if not self._overlaps(resolved, block, times):
                    continue
                batch = self._batch(resolved, block, handle, columns, times)
                if batch.num_rows:
                    yield batch

    def _batch(
        self,
        resolved: ResolvedPartition,
        block: Block,
        handle: ReadableFile,
        columns: tuple[SnapshotColumn, ...],
        times: TimeRange,
    ) -> pa.RecordBatch:
        header = resolved.metadata.header
        places = {column_key(place, column): place for place, column in enumerate(header.columns)}

        def values(column: SnapshotColumn) -> pa.Array:
            place = places.get(column.id)
            if place is None:
                return pa.repeat(missing_value(column.type, physical_type=column.physical_type), block.num_rows)
            array = read_column(resolved, block, place, handle)
            if array.type != column.arrow_type:
                raise _type_mismatch(column, header.columns[place], resolved)
            return array

        if block.num_rows > VALUE_COUNT_MAX:
            raise UnsupportedError(
                file=resolved.files.pm_label,
                field="NUM_ROWS",
                offset_bytes=block.offset_bytes,
                expected=f"at most {VALUE_COUNT_MAX} rows in a row group",
                actual=block.num_rows,
            )

        schema = pa.schema([self._field(column) for column in columns])
        batch = pa.record_batch([values(column) for column in columns], schema=schema)
        if times == ALL_TIMES:
            return batch
        timestamp = next(column for column in self.columns if column.id == self.timestamp_id)
        return batch.filter(_inside(values(timestamp), times))

    def _overlaps(self, resolved: ResolvedPartition, block: Block, times: TimeRange) -> bool:
        dts = resolved.metadata.header.designated_timestamp
        if dts < 0 or times == ALL_TIMES:
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


def open_snapshot(table: Table) -> Snapshot:
    """Pin the committed version of now; nothing keeps its files from being removed later (design, section 4)."""
    transaction = table.transaction()
    if table.metadata is not None:
        timestamp_id = table.metadata.timestamp_id
        columns = tuple(
            SnapshotColumn(id=column.id, name=column.name, type=column.type, physical_type=BYTE_ARRAY)
            for column in table.metadata.columns
        )
    else:
        columns, timestamp_id = _columns_of_partitions(table, transaction)
    return Snapshot(table=table, transaction=transaction, columns=columns, timestamp_id=timestamp_id)


def read_column(resolved: ResolvedPartition, block: Block, place: int, handle: ReadableFile) -> pa.Array:
    """Read one column chunk as an Arrow array; the pages of an all-null chunk are not fetched."""
    column, chunk = resolved.metadata.header.columns[place], block.chunks[place]
    label = resolved.files.data_label
    if column.max_rep_level == 0 and 0 < chunk.num_values == chunk.null_count:
        of_type = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
        return pa.nulls(chunk.num_values, of_type)
    return decode_chunk(read_chunk(handle, chunk, file=label), column, chunk, file=label)


def column_key(position: int, column: Column) -> int:
    """Return what tells a partition's columns apart: the writer index, or a negative number where there is none."""
    return column.id if column.id >= 0 else -2 - position


def _resolve_migrated(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Resolve, and say it in words where a release that did not know `_pm` wrote the partition."""
    if not partition.parquet_was_generated and not files.has_pm():
        raise UnsupportedError(
            file=files.pm_label,
            field="file",
            offset_bytes=None,
            expected="a metadata file",
            actual="none: the table was written by a release before 9.4.0 and was not migrated",
        )
    return resolve_partition(files, partition)


def _columns_of_partitions(table: Table, transaction: Transaction) -> tuple[tuple[SnapshotColumn, ...], int]:
    """Return the columns that the partitions' own `_pm` name: all there is to go by without `_meta`."""
    columns: dict[int, SnapshotColumn] = {}
    timestamp_id = -1
    for partition in transaction.partitions:
        if not partition.is_parquet:
            continue
        name = table.directory_of(partition)
        files = PartitionFiles(storage=table.storage, path=f"{table.path}/{name}", name=name)
        header = _resolve_migrated(files, partition).metadata.header
        for position, column in enumerate(header.columns):
            key = column_key(position, column)
            columns[key] = SnapshotColumn(
                id=key,
                name=column.name,
                type=column.type,
                physical_type=column.physical_type,
                fixed_byte_len=column.fixed_byte_len,
            )
        if header.designated_timestamp >= 0:
            dts = header.designated_timestamp
            timestamp_id = column_key(dts, header.columns[dts])
    return tuple(columns.values()), timestamp_id


def _type_mismatch(wanted: SnapshotColumn, column: Column, resolved: ResolvedPartition) -> CorruptError:
    return CorruptError(
        file=META_FILE,
        field=f"TYPE of column {wanted.name!r}",
        offset_bytes=None,
        expected=f"{column.type}, as in {resolved.files.pm_label}",
        actual=wanted.type,
    )


def _inside(timestamps: pa.Array, times: TimeRange) -> pa.Array:
    values = timestamps.cast(pa.int64())
    mask = pa.repeat(pa.scalar(True), len(values))
    if times.start is not None:
        mask = pc.and_(mask, pc.greater_equal(values, times.start))
    if times.end is not None:
        mask = pc.and_(mask, pc.less(values, times.end))
    return mask
