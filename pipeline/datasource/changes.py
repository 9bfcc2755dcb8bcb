"""The rows appended to a partition between two versions, and the proof that earlier rows did not change."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import CorruptError, ProblemError, TornproofError
from tornproof.impl.query.time_search import row_group_times
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import Partition
from tornproof.pipeline.datasource.plan import Piece, ReadRequest, explained, resolve_entry, wanted_columns


class NotAppendedError(TornproofError):
    """A commit changed rows that a stream has returned, so that the new rows are not known."""


class Mark(NamedTuple):
    """A partition at one version, as stored in an offset; `last` is its last time, None if not known."""

    name_txn: int
    token: int
    row_count: int
    last: int | None


def mark_of(snapshot: Snapshot, partition: Partition, known: Mark | None) -> Mark:
    """Return the mark of a partition, or `known` if its generation is the same; raises as `Snapshot.resolve`."""
    if known is not None and (known.name_txn, known.token) == (partition.name_txn, partition.token):
        return known
    metadata = snapshot.resolve(partition).metadata
    maximums = row_group_times(metadata.header, metadata.blocks).maximums
    last = int(maximums.max()) if len(maximums) else None
    return Mark(
        name_txn=partition.name_txn,
        token=partition.token,
        row_count=partition.row_count,
        last=None if last == np.iinfo(np.int64).max else last,
    )


def appended_rows(
    snapshot: Snapshot, request: ReadRequest, timestamp: int, before: Mark | None, after: Mark | None
) -> list[tuple[Piece, int]]:
    """Return the row groups, with their bytes, that contain the rows appended to a partition between two marks.

    They are read from the generation of `after` or, if that is gone, from the committed one, which must begin with the
    same rows. Raises NotAppendedError, and what `Snapshot.resolve` raises.
    """
    name = f"{request.path}: the partition that starts at {timestamp}"
    if after is None:
        raise NotAppendedError(f"{name} was dropped, and a stream has returned its rows")
    resolved = _generation(snapshot, request, timestamp, after)
    start = before.row_count if before is not None else 0
    for mark in (before, after):
        if mark is not None and not _begins_with(snapshot, resolved, mark):
            raise NotAppendedError(
                f"{name} was changed other than by appending: rows were inserted into its first {mark.row_count}, or "
                "removed from them; start a new stream, or set the option changes=skip to continue without such rows"
            )
    return _rows_between(resolved, request, start, after.row_count)


def _generation(snapshot: Snapshot, request: ReadRequest, timestamp: int, mark: Mark) -> ResolvedPartition:
    """Return the generation of a mark, or the committed one if that directory is gone."""
    committed = [each for each in snapshot.transaction.partitions if each.timestamp == timestamp and each.is_parquet]
    if not committed:
        raise NotAppendedError(f"{request.path}: the partition that starts at {timestamp} was dropped meanwhile")
    if (committed[0].name_txn, committed[0].token) != (mark.name_txn, mark.token):
        try:
            return _resolve(snapshot, timestamp, mark)
        except CorruptError:
            pass
    with explained(snapshot.table.files_of(committed[0]), request):
        return snapshot.resolve(committed[0])


def _begins_with(snapshot: Snapshot, resolved: ResolvedPartition, mark: Mark) -> bool:
    """Return whether a generation begins with the rows that the partition had at a mark."""
    partition = resolved.partition
    if (partition.name_txn, partition.token) == (mark.name_txn, mark.token):
        return True
    if partition.name_txn == mark.name_txn and _keeps_row_groups(snapshot, resolved, mark):
        return True
    metadata = snapshot.table.metadata
    has_keys = metadata is None or any(column.is_dedup_key for column in metadata.columns)
    return not has_keys and mark.last is not None and _splits_at(snapshot, resolved, mark.row_count, mark.last)


def _keeps_row_groups(snapshot: Snapshot, resolved: ResolvedPartition, mark: Mark) -> bool:
    """Return whether the row groups of a mark, in the same file, are still the first ones."""
    try:
        then = _resolve(snapshot, resolved.partition.timestamp, mark).metadata
    except ProblemError:
        return False
    offsets = then.generation.block_offsets
    return resolved.metadata.generation.block_offsets[: len(offsets)] == offsets


def _splits_at(snapshot: Snapshot, resolved: ResolvedPartition, row_count: int, last: int) -> bool:
    """Return whether exactly the first `row_count` rows are not later than `last`."""
    metadata = resolved.metadata
    if metadata.row_count < row_count:
        return False
    times, before = row_group_times(metadata.header, metadata.blocks), row_count
    with resolved.files.open_data() as handle:
        for block, low, high in zip(metadata.blocks, times.minimums, times.maximums, strict=True):
            inside = min(max(before, 0), block.num_rows)
            before -= block.num_rows
            if (inside == block.num_rows and high <= last) or (inside == 0 and low > last):
                continue
            designated = [column for column in snapshot.columns if column.id == snapshot.timestamp_id]
            parts = [arrays[0] for arrays in row_group_columns(resolved, block, handle, designated)]
            stamps = pa.chunked_array(parts).combine_chunks().view(pa.int64()).to_numpy()
            if not ((stamps <= last) == (np.arange(len(stamps)) < inside)).all():
                return False
    return True


def _rows_between(resolved: ResolvedPartition, request: ReadRequest, start: int, stop: int) -> list[tuple[Piece, int]]:
    found, first = [], 0
    wanted = wanted_columns(resolved, request)
    for ordinal, block in enumerate(resolved.metadata.blocks):
        rows = range(max(start - first, 0), min(stop - first, block.num_rows))
        first += block.num_rows
        if len(rows):
            piece = Piece(
                name=resolved.files.name,
                partition=resolved.partition,
                ordinals=(ordinal,),
                rows=None if len(rows) == block.num_rows else rows,
            )
            found.append((piece, sum(block.chunks[index].total_compressed for index in wanted)))
    return found


def _resolve(snapshot: Snapshot, timestamp: int, mark: Mark) -> ResolvedPartition:
    """Resolve a mark by an entry of `_txn` like the one at that version; its offset is no longer known."""
    partition = Partition(
        timestamp=timestamp,
        row_count=mark.row_count,
        name_txn=mark.name_txn,
        token=mark.token,
        flags=0,
        entry_offset_bytes=0,
        row_count_offset_bytes=0,
    )
    return resolve_entry(snapshot.table.files_of(partition), partition)
