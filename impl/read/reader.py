"""Reading a committed version of a table: its parquet partitions as Arrow record batches, by row groups."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa

from tornproof.impl.errors import (
    CorruptError,
    FileMissingError,
    FileVanishedError,
    Problem,
    ProblemError,
    TornproofError,
    UnsupportedError,
)
from tornproof.impl.pm.block import Block
from tornproof.impl.query.comparison import compare
from tornproof.impl.query.predicate import And, Operator, Predicate, columns_of
from tornproof.impl.query.pruning import Pruner
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange, TimeTextError, time_of_text
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding
from tornproof.impl.read.reader_protocol import HARDENED_READER, ReaderProtocol
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.read.row_selection import kept_ordinals, selected_rows
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.changed_types import type_in_both
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.columns import SnapshotColumn, column_key
from tornproof.impl.table.partition import PartitionFiles, ResolvedPartition, check_native
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.table.table import Table, agreeing
from tornproof.impl.txn.transaction import Partition, Transaction
from tornproof.impl.types.arrow import is_nullable

AHEAD_ROW_COUNT = 1 << 16
AHEAD_GROUP_COUNT_MAX = 8


class UnknownColumnError(TornproofError):
    """The caller named a column that the table does not have, or a time range without a designated timestamp."""


class RepeatedColumnError(TornproofError):
    """The caller named a column twice."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One committed version of a table, readable as long as its directories exist.

    Reading raises FileVanishedError once they are gone.
    """

    table: Table
    transaction: Transaction
    columns: tuple[SnapshotColumn, ...]
    timestamp_id: int
    reader: ReaderProtocol = HARDENED_READER

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as an Arrow schema."""
        return self.schema_of(self.columns)

    @property
    def native_partitions(self) -> tuple[str, ...]:
        """Names of the partitions whose rows are not in Parquet and not read."""
        return tuple(
            self.table.directory_of(partition) for partition in self.transaction.partitions if not partition.is_parquet
        )

    @property
    def native_row_count(self) -> int:
        """The rows of these partitions."""
        return sum(partition.row_count for partition in self.transaction.partitions if not partition.is_parquet)

    def selected(self, names: list[str] | None) -> tuple[SnapshotColumn, ...]:
        """Return the named columns in the given order, or all; raises UnknownColumnError, RepeatedColumnError."""
        if names is None:
            return self.columns
        for name, count in Counter(names).items():
            if count > 1:
                raise RepeatedColumnError(f"column {name!r} is named {count} times; it can be returned once")
        by_name = {column.name: column for column in self.columns}
        for name in names:
            if name not in by_name:
                raise UnknownColumnError(f"there is no column {name!r}; the table has {', '.join(by_name)}")
        return tuple(by_name[name] for name in names)

    def batches(
        self,
        names: list[str] | None = None,
        times: TimeRange = ALL_TIMES,
        where: Predicate | None = None,
        counters: ReadCounters | None = None,
        decoding: Decoding = SYNCHRONOUS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parquet partitions for which `where` is true, ordered by partition and row group.

        Without any of the columns, `names=[]`, batches only have as many rows.
        Opens each partition when it is needed; row groups that cannot have such a row are not read, so damage in them
        is not noticed, nor in partitions that have none of the times. Raises CorruptError, UnsupportedError,
        StorageError, and what `selected` raises.
        """
        columns = self.selected(names)
        predicate = self.predicate_of(times, where)
        counters = counters or ReadCounters()
        for partition in self.parquet_partitions():
            try:
                resolved = self.resolve(partition)
            except ProblemError:
                if self._has_times(partition, times):
                    raise
                continue
            yield from self._partition_batches(resolved, columns, predicate, counters, decoding)

    def parquet_partitions(self) -> Iterator[Partition]:
        """Yield the partitions that are read; raises CorruptError for one that is marked as native and is not."""
        for partition in self.transaction.partitions:
            if partition.is_parquet:
                yield partition
            else:
                raise_first(check_native(self.table.files_of(partition), partition))

    def _has_times(self, partition: Partition, times: TimeRange) -> bool:
        """Whether rows of the partition may be in the range."""
        metadata, end = self.table.metadata, partition.next_timestamp
        if end is None and metadata is not None:
            end = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
        begins_late = times.end is not None and partition.timestamp >= times.end
        ends_early = times.start is not None and end is not None and end <= times.start
        return not (begins_late or ends_early)

    def resolve(self, partition: Partition) -> ResolvedPartition:
        """Find a parquet partition's committed generation and check it; raises for the first problem.

        FileVanishedError if a later version has replaced the partition, and its files were removed.
        """
        with self._vanishing(partition):
            return self._resolve(partition)

    @contextmanager
    def _vanishing(self, partition: Partition) -> Iterator[None]:
        """Tell a file that was removed after its time from one that the current version lacks."""
        try:
            yield
        except CorruptError as error:
            if isinstance(error.__cause__, FileMissingError):
                identity = partition.timestamp, partition.name_txn
                if all((each.timestamp, each.name_txn) != identity for each in self.table.transaction().partitions):
                    raise FileVanishedError(error.problem.file) from error
            raise

    def _resolve(self, partition: Partition) -> ResolvedPartition:
        resolved = _resolve_migrated(self.reader, self.table.files_of(partition), partition)
        raise_first(self.reader.check(resolved))
        raise_first(check_against_table(resolved, self.table.metadata))
        return resolved

    def schema_of(self, columns: Iterable[SnapshotColumn]) -> pa.Schema:
        """Return the Arrow schema of some of the columns, in the given order."""
        return pa.schema(
            pa.field(
                column.name,
                column.arrow_type,
                nullable=is_nullable(column.type) and column.id != self.timestamp_id,
            )
            for column in columns
        )

    def time_of(self, text: str | None) -> int | None:
        """Return a time in the unit of the designated timestamp; raises UnknownColumnError, TimeTextError."""
        return None if text is None else time_of_text(text, self._designated_timestamp().arrow_type.unit)

    def time_range(self, start: str | None, end: str | None) -> TimeRange:
        """Return the times from `start`, inclusive, to `end`, exclusive; raises UnknownColumnError, TimeTextError."""
        times = TimeRange(start=self.time_of(start), end=self.time_of(end))
        if times.start is not None and times.end is not None and times.start > times.end:
            raise TimeTextError(f"the times from {start} to {end} end before they begin")
        return times

    def predicate_of(self, times: TimeRange, where: Predicate | None = None) -> Predicate | None:
        """Return both conditions as one predicate, or None for all rows; raises UnknownColumnError."""
        if times == ALL_TIMES:
            return where
        limits = ((Operator.GREATER_OR_EQUAL, times.start), (Operator.LESS, times.end))
        designated = self._designated_timestamp()
        parts = [compare(designated, operator, limit) for operator, limit in limits if limit is not None]
        return And(parts=tuple(parts if where is None else [*parts, where]))

    def condition(self, where: str | None) -> Predicate | None:
        """Return the predicate of a condition in SQL, or None without one; raises PredicateError."""
        if where is None:
            return None
        # Importing the parser takes longer than most reads.
        from tornproof.impl.query.predicate_text import parse_predicate

        return parse_predicate(where, self.columns)

    def _designated_timestamp(self) -> SnapshotColumn:
        for column in self.columns:
            if column.id == self.timestamp_id and pa.types.is_timestamp(column.arrow_type):
                return column
        raise UnknownColumnError("the table has no designated timestamp to select a time range by")

    def _partition_batches(
        self,
        resolved: ResolvedPartition,
        columns: tuple[SnapshotColumn, ...],
        predicate: Predicate | None,
        counters: ReadCounters,
        decoding: Decoding,
    ) -> Iterator[pa.RecordBatch]:
        counters.data_bytes += resolved.partition.token
        counters.row_group_count += len(resolved.metadata.blocks)
        if not columns and predicate is None:
            for block in resolved.metadata.blocks:
                counters.returned_row_count += block.num_rows
                yield _only_rows(block.num_rows)
            return
        # Without columns, one of the condition says how many rows match.
        shown = columns if predicate is None or columns else columns_of(predicate)[:1]
        schema, pruner = self.schema_of(shown), Pruner(resolved.metadata.header)
        under_way: deque[tuple[int, Iterator[list[pa.Array]]]] = deque()
        with self._vanishing(resolved.partition):
            data = counters.watched(resolved.files).open_data()
        with data as handle:
            for ordinal in kept_ordinals(resolved, handle, pruner, predicate, self.timestamp_id, counters):
                block = resolved.metadata.blocks[ordinal]
                counters.scanned_row_count += block.num_rows
                read = _BlockReader(self.reader, resolved, block, handle, pruner, counters, decoding)
                parts = read(shown) if predicate is None else selected_rows(read, shown, predicate)
                under_way.append((block.num_rows, parts))
                while under_way and _keeps_busy([row_count for row_count, _ in under_way][1:], decoding):
                    yield from _batches(under_way.popleft()[1], schema, counters, len(columns))
            while under_way:
                yield from _batches(under_way.popleft()[1], schema, counters, len(columns))


class _BlockReader(msgspec.Struct, frozen=True):
    """Decodes columns of one row group, and counts what is read."""

    protocol: ReaderProtocol
    resolved: ResolvedPartition
    block: Block
    handle: ReadableFile
    pruner: Pruner
    counters: ReadCounters
    decoding: Decoding

    def __call__(self, columns: Sequence[SnapshotColumn]) -> Iterator[list[pa.Array]]:
        by_id = {column.id: column for column in columns}
        self.counters.chunk_count += sum(self.pruner.is_stored(column, self.block) for column in by_id.values())
        described = self.protocol.described(self.block)
        return row_group_columns(self.resolved, described, self.handle, columns, self.decoding)


def _keeps_busy(row_counts_behind: Sequence[int], decoding: Decoding) -> bool:
    """Whether the row groups behind, some of which may be tiny, keep the decoding threads busy."""
    if not decoding.ahead_count or len(row_counts_behind) == AHEAD_GROUP_COUNT_MAX:
        return True
    return sum(row_counts_behind) >= AHEAD_ROW_COUNT


def _batches(
    parts: Iterable[list[pa.Array]], schema: pa.Schema, counters: ReadCounters, column_count: int
) -> Iterator[pa.RecordBatch]:
    for arrays in parts:
        batch = pa.record_batch(arrays, schema=schema).select(range(column_count))
        if batch.num_rows:
            counters.returned_row_count += batch.num_rows
            yield batch


def _only_rows(row_count: int) -> pa.RecordBatch:
    """Return a batch of so many rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), row_count, [None]))


def raise_first(problems: Iterator[Problem]) -> None:
    """Raise CorruptError for the first problem, if any."""
    for problem in problems:
        raise CorruptError.of(problem)


def open_snapshot(table: Table, reader: ReaderProtocol = HARDENED_READER) -> Snapshot:
    """Return the current committed version, which keeps its files only as long as a pin does (`pin_committed`)."""
    return snapshot_of(*agreeing(table, table.transaction()), reader)


def snapshot_of(table: Table, transaction: Transaction, reader: ReaderProtocol = HARDENED_READER) -> Snapshot:
    """Return a snapshot of a version that was read before, such as a pinned one."""
    transaction = table.without_left_over(transaction)
    if table.metadata is not None:
        timestamp_id = table.metadata.timestamp_id
        columns = tuple(map(SnapshotColumn.of_table, table.metadata.columns))
    else:
        columns, timestamp_id = _columns_of_partitions(table, transaction, reader)
    return Snapshot(table=table, transaction=transaction, columns=columns, timestamp_id=timestamp_id, reader=reader)


def _resolve_migrated(reader: ReaderProtocol, files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Resolve; if a release before `_pm` wrote the partition, the error says so."""
    if not partition.parquet_was_generated and not files.has_pm():
        expected = "a metadata file"
        actual = "none: the table was written by a release before 9.4.0 and was not migrated"
        raise UnsupportedError(files.pm_label, "file", None, expected, actual)
    return reader.resolve(files, partition)


def _columns_of_partitions(
    table: Table, transaction: Transaction, reader: ReaderProtocol
) -> tuple[tuple[SnapshotColumn, ...], int]:
    """Return the columns in the partitions' `_pm`, for tables without `_meta`."""
    columns: dict[int, SnapshotColumn] = {}
    timestamp_id = -1
    for partition in transaction.partitions:
        if not partition.is_parquet:
            continue
        files = table.files_of(partition)
        header = _resolve_migrated(reader, files, partition).metadata.header
        for index, column in enumerate(header.columns):
            key = column_key(index, column)
            found = SnapshotColumn.of(key, column)
            columns[key] = type_in_both(columns.get(key, found), found, file=files.pm_label)
        if header.designated_timestamp >= 0:
            column = header.columns[header.designated_timestamp]
            key = column_key(header.designated_timestamp, column)
            if timestamp_id not in (-1, key):
                expected = f"{columns[timestamp_id].name!r}, as in other partitions"
                raise CorruptError(files.pm_label, "DESIGNATED_TIMESTAMP", None, expected, repr(column.name))
            timestamp_id = key
        if len({column.name for column in columns.values()}) < len(columns):
            expected = "a name of its own for each column"
            raise CorruptError(files.pm_label, "NAME_STRINGS", None, expected, "one name for two columns")
    return tuple(columns.values()), timestamp_id
