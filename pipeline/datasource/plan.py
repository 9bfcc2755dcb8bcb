"""Plans the read of one committed version as pieces of work, and reads each piece as Arrow batches for Spark.

The planner decides by `_pm` which row groups are read; a task resolves them by the same token, so it sees neither later
commits nor uncommitted data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tornproof.impl.errors import ProblemError, StorageError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.block import Block
from tornproof.impl.query.predicate import And, Predicate, columns_of
from tornproof.impl.query.pruning import Pruner
from tornproof.impl.query.time_search import TimeRange, implied_range
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, raise_first
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.read.row_selection import kept_ordinals, selected_rows
from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage, Storage
from tornproof.impl.table.columns import SnapshotColumn, column_positions, position_of
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, ResolvedPartition
from tornproof.impl.table.partition_names import interval_end, interval_start
from tornproof.impl.txn.transaction import TXN_FILE, Partition, safe_read
from tornproof.pipeline.datasource.pins import held
from tornproof.pipeline.datasource.types import spark_arrow_schema, to_spark

SPLIT_BYTES_MAX = 128 << 20
SPLIT_BYTES_MIN = 2 << 20
SPLITS_A_CORE = 3
BATCH_ROW_COUNT_MAX = 1 << 17


class SnapshotGoneError(TornproofError):
    """The files of a version were removed before they were read; load the table again to read the current version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Row groups of one partition, or with `rows` a range of rows of one row group."""

    name: str
    partition: Partition
    ordinals: tuple[int, ...]
    rows: range | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What every task of a query knows: the table, the version, the columns to return, and which rows."""

    path: str
    version: int
    columns: tuple[SnapshotColumn, ...]
    schema: pa.Schema
    predicate: Predicate | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, columns: tuple[SnapshotColumn, ...]) -> ReadRequest:
        """Return the request for all rows of a snapshot."""
        return cls(
            path=snapshot.table.path,
            version=snapshot.transaction.version,
            columns=columns,
            schema=snapshot.schema_of(columns),
        )

    def where(self, predicate: Predicate | None) -> ReadRequest:
        """Return the request restricted to rows for which a predicate, if there is one, is true."""
        parts = tuple(part for part in (self.predicate, predicate) if part is not None)
        return replace(self, predicate=And(parts=parts)) if parts else self


@dataclass(slots=True)
class Plan:
    """The row groups to read, and counts of what is skipped."""

    # With the bytes of the wanted columns.
    row_groups: list[tuple[Piece, int]] = field(default_factory=list)
    counters: ReadCounters = field(default_factory=ReadCounters)
    partition_count: int = 0
    partitions_left_out: int = 0


def plan_read(snapshot: Snapshot, request: ReadRequest) -> Plan:
    """Find the row groups of a snapshot that may contain requested rows.

    Partitions whose interval is outside of the requested times are not opened. Raises as `Snapshot.resolve`, and
    SnapshotGoneError if a later version has replaced files that are gone.
    """
    plan = Plan()
    times = TimeRange() if request.predicate is None else implied_range(request.predicate, snapshot.timestamp_id)
    for partition in snapshot.parquet_partitions():
        files = snapshot.table.files_of(partition)
        plan.partition_count += 1
        if _lies_outside(snapshot, partition, times):
            plan.partitions_left_out += 1
            continue
        with explained(files, request):
            _plan_partition(plan, snapshot.resolve(partition), request, snapshot.timestamp_id)
    return plan


def splits_of(
    row_groups: Sequence[tuple[Piece, int]], cores: int, split_count: int | None = None
) -> list[tuple[Piece, ...]]:
    """Distribute the row groups, in order, over tasks of about equal size: few for each core, none too small."""
    total_bytes = sum(size for _, size in row_groups)
    if split_count is None:
        wanted = min(SPLITS_A_CORE * cores, total_bytes // SPLIT_BYTES_MIN)
        split_count = max(wanted, -(-total_bytes // SPLIT_BYTES_MAX), 1)
    shares: dict[int, list[Piece]] = {}
    before_bytes = 0
    for number, (piece, size_bytes) in enumerate(row_groups):
        # The middle of its bytes, or its number if there are none, as a part of the whole.
        part, whole = (2 * before_bytes + size_bytes, 2 * total_bytes) if total_bytes else (number, len(row_groups))
        shares.setdefault(min(part * split_count // whole, split_count - 1), []).append(piece)
        before_bytes += size_bytes
    return [tuple(_joined(share)) for share in shares.values()]


def core_count() -> int:
    """Return how many cores this process may use; on macOS all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_pieces(
    storage: Storage, request: ReadRequest, pieces: Sequence[Piece], counters: ReadCounters
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in Spark's types; raises as `Snapshot.batches`, SnapshotGoneError, ValueRejectedError."""
    with held(storage, request.path, request.version):
        for piece in pieces:
            files = PartitionFiles(storage=storage, path=f"{request.path}/{piece.name}", name=piece.name)
            with explained(files, request):
                yield from _read_piece(files, request, piece, counters)


def resolve_entry(files: PartitionFiles, partition: Partition) -> ResolvedPartition:
    """Resolve the generation of an entry and check it; raises at the first problem."""
    resolved = HARDENED_READER.resolve(files, partition)
    raise_first(HARDENED_READER.check(resolved))
    return resolved


@contextmanager
def explained(files: PartitionFiles, request: ReadRequest) -> Iterator[None]:
    """Raise SnapshotGoneError instead of other errors if files were removed because a later version replaced them."""
    try:
        yield
    except (ProblemError, StorageError) as error:
        storage, current = files.storage, _current_version(files.storage, request.path)
        is_there = all(storage.kind(f"{files.path}/{name}") is EntryKind.FILE for name in (PM_FILE, DATA_FILE))
        if is_there or current in (None, request.version):
            raise
        raise SnapshotGoneError(
            f"{request.path}: version {request.version} can no longer be read, because {files.name} has been "
            f"removed, at version {current} now; load the table again, and keep its files with "
            "tornproof.pipeline.datasource.source.pinned"
        ) from error


def _current_version(storage: ReadableStorage, path: str) -> int | None:
    try:
        return safe_read(storage, f"{path}/{TXN_FILE}").version
    except TornproofError:
        return None


def _lies_outside(snapshot: Snapshot, partition: Partition, times: TimeRange) -> bool:
    """Return whether the partition's interval, and so each of its rows, is outside of the range."""
    metadata = snapshot.table.metadata
    if metadata is None:
        return False
    by, nanoseconds = metadata.partition_by, metadata.counts_nanoseconds
    end = interval_end(partition.timestamp, by, nanoseconds=nanoseconds)
    start = interval_start(partition.timestamp, by, nanoseconds=nanoseconds)
    if start is None or end is None:
        return False
    return (times.start is not None and times.start >= end) or (times.end is not None and times.end <= start)


def _plan_partition(plan: Plan, resolved: ResolvedPartition, request: ReadRequest, timestamp_id: int) -> None:
    metadata, counters = resolved.metadata, plan.counters
    counters.row_group_count += len(metadata.blocks)
    counters.data_bytes += resolved.partition.token
    wanted = wanted_columns(resolved, request)
    with counters.watched(resolved.files).open_data() as handle:
        pruner = Pruner(metadata.header)
        for ordinal in kept_ordinals(resolved, handle, pruner, request.predicate, timestamp_id, counters):
            piece = Piece(name=resolved.files.name, partition=resolved.partition, ordinals=(ordinal,))
            chunks = metadata.blocks[ordinal].chunks
            plan.row_groups.append((piece, sum(chunks[index].total_compressed for index in wanted)))


def wanted_columns(resolved: ResolvedPartition, request: ReadRequest) -> list[int]:
    """Return the indices of a partition's columns that are returned or in the predicate."""
    asked = columns_of(request.predicate) if request.predicate is not None else ()
    positions = column_positions(resolved.metadata.header)
    wanted = {position_of(column, positions) for column in (*request.columns, *asked)}
    return sorted(position for position in wanted if position is not None)


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Merge adjacent pieces of one partition, so that its `_pm` is resolved once per task."""
    last: Piece | None = None
    for piece in pieces:
        if last is not None and last.name == piece.name and last.rows is None and piece.rows is None:
            last = Piece(name=last.name, partition=last.partition, ordinals=(*last.ordinals, *piece.ordinals))
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _read_piece(
    files: PartitionFiles, request: ReadRequest, piece: Piece, counters: ReadCounters
) -> Iterator[pa.RecordBatch]:
    resolved = resolve_entry(files, piece.partition)
    counters.data_bytes += piece.partition.token
    target = spark_arrow_schema(request.schema)
    with counters.watched(files).open_data() as handle:
        for ordinal in piece.ordinals:
            block = resolved.metadata.blocks[ordinal]
            left = piece.rows
            counters.row_group_count += 1
            counters.scanned_row_count += block.num_rows
            for arrays in _arrays(resolved, block, handle, request):
                batch = pa.RecordBatch.from_arrays(arrays, schema=request.schema)
                if left is not None:
                    batch, left = _cut(batch, left)
                counters.returned_row_count += batch.num_rows
                for start in range(0, batch.num_rows, BATCH_ROW_COUNT_MAX):
                    yield to_spark(batch.slice(start, BATCH_ROW_COUNT_MAX), target)


def _arrays(
    resolved: ResolvedPartition, block: Block, handle: ReadableFile, request: ReadRequest
) -> Iterator[list[pa.Array]]:
    def read(columns: Sequence[SnapshotColumn]) -> Iterator[list[pa.Array]]:
        return row_group_columns(resolved, block, handle, columns)

    if request.predicate is None:
        return read(request.columns)
    return selected_rows(read, request.columns, request.predicate)


def _cut(batch: pa.RecordBatch, rows: range) -> tuple[pa.RecordBatch, range]:
    """Return the rows of a batch within a range counted from its first row, and the rest of the range."""
    start, stop = min(rows.start, batch.num_rows), min(rows.stop, batch.num_rows)
    rest = range(max(0, rows.start - batch.num_rows), max(0, rows.stop - batch.num_rows))
    return batch.slice(start, stop - start), rest
