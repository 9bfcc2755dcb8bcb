"""The rows appended to a partition between two versions, and the proof that earlier rows did not change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.errors import CorruptError, ProblemError, TornproofError
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.chain import decode_chain
from tornproof.impl.query.time_search import row_group_times
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, raise_first
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.read.row_group import row_group_columns
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import Partition
from tornproof.pipeline.datasource.plan import Piece, ReadRequest, explained, read_pieces, wanted_columns


class NotAppendedError(TornproofError):
    """A commit changed rows that a stream has returned, so that the new rows are not known."""


class Mark(NamedTuple):
    """The first rows of a partition at one version, as stored in an offset; `last` is the time of their last one.

    They are all rows, unless a step ended before. `last` is None if it is not known.
    """

    name_txn: int
    token: int
    row_count: int
    last: int | None


def mark_of(snapshot: Snapshot, partition: Partition, known: Mark | None) -> Mark:
    """Return the mark of all its rows, `known` if that is the one; raises as `Snapshot.resolve`."""
    if known is not None and known[:3] == (partition.name_txn, partition.token, partition.row_count):
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


@dataclass(slots=True)
class Allowance:
    """What a step may still take, None if as much as there is; the first rows of a step are taken whatever it says."""

    commit_count: int | None = None
    size_bytes: int | None = None
    partition_count: int | None = None
    is_untouched: bool = True

    @property
    def is_limited(self) -> bool:
        """Whether it ends in the middle of a partition."""
        return self.commit_count is not None or self.size_bytes is not None

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be taken."""
        return not self.is_untouched and 0 in (self.commit_count, self.size_bytes, self.partition_count)

    def take(self, commit_count: int, size_bytes: int) -> None:
        """Subtract what is taken of a partition, down to nothing."""
        self.is_untouched = False
        if self.commit_count is not None:
            self.commit_count = max(0, self.commit_count - commit_count)
        if self.size_bytes is not None:
            self.size_bytes = max(0, self.size_bytes - size_bytes)
        if self.partition_count is not None:
            self.partition_count -= 1


def reached(
    snapshot: Snapshot,
    request: ReadRequest,
    partition: Partition,
    before: Mark | None,
    allowance: Allowance,
    *,
    skips_changes: bool,
) -> Mark | None:
    """Return the mark up to which a step takes a partition, `before` if none of it, and subtract what it takes.

    It ends behind a commit (a generation of the partition) or a row group, and not between rows of one time, so that
    later rewrites can be told from changes of earlier rows.
    """
    after, start = mark_of(snapshot, partition, before), before.row_count if before is not None else 0
    if after == before or not allowance.is_limited or after.row_count <= start:
        if after != before:
            allowance.take(0, 0)
        return after
    resolved = snapshot.resolve(partition)
    if before is not None and not _begins_with(snapshot, request, resolved, before, skips_changes=skips_changes):
        # Where such changes are skipped, all of them are, for the old rows are now at other positions.
        allowance.take(0, 0)
        return after
    stop = _stop(snapshot, request, resolved, start, after, allowance)
    if stop is None:
        allowance.partition_count = 0
        return before
    chosen, cost = stop
    allowance.take(*cost)
    return chosen


def _stop(
    snapshot: Snapshot, request: ReadRequest, resolved: ResolvedPartition, start: int, after: Mark, allowance: Allowance
) -> tuple[Mark, tuple[int, int]] | None:
    """Return how far a step reaches behind the first `start` rows, with its commits and bytes; None if nowhere."""
    blocks, wanted = resolved.metadata.blocks, wanted_columns(resolved, request)
    ends = np.cumsum([block.num_rows for block in blocks])
    sizes = np.cumsum([sum(block.chunks[index].total_compressed for index in wanted) for block in blocks])
    size_until = partial(np.interp, xp=[0, *ends], fp=[0, *sizes])
    commits = [after.row_count] if allowance.commit_count is None else _commit_ends(resolved, start)
    limits = (allowance.commit_count, allowance.size_bytes)
    found = None
    for end in sorted({*ends.tolist(), *commits}):
        if end <= start:
            continue
        cost = (bisect_left(commits, end) + 1, int(size_until(end) - size_until(start)))
        fits = all(limit is None or part <= limit for part, limit in zip(cost, limits, strict=True))
        if not fits and (found is not None or not allowance.is_untouched):
            break
        last, following = _times_around(snapshot, resolved, end) if end < after.row_count else (after.last, None)
        if following is None or last != following:
            found = after._replace(row_count=end, last=last), cost
            if not fits:
                break
    return found


def appended_rows(
    snapshot: Snapshot,
    request: ReadRequest,
    timestamp: int,
    before: Mark | None,
    after: Mark | None,
    *,
    skips_changes: bool,
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
        if mark is not None and not _begins_with(snapshot, request, resolved, mark, skips_changes=skips_changes):
            raise NotAppendedError(
                f"{name} {_change(snapshot, timestamp, mark)}; start a new stream, or set the option changes=skip to "
                "continue without such rows"
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


def _begins_with(
    snapshot: Snapshot, request: ReadRequest, resolved: ResolvedPartition, mark: Mark, *, skips_changes: bool
) -> bool:
    """Return whether a generation begins with the rows that the partition had at a mark.

    Where changes are skipped, some of them may have been replaced by their keys, because those behind them are new all
    the same.
    """
    partition, has_keys = resolved.partition, _has_keys(snapshot)
    is_same_file = partition.name_txn == mark.name_txn
    if is_same_file and partition.token == mark.token:
        return True
    then = _there_at(snapshot, partition.timestamp, mark) if is_same_file or has_keys else None
    kept = _kept_row_count(then, resolved) if then is not None and is_same_file else 0
    if kept >= mark.row_count:
        return True
    may_tell_by_time = skips_changes or not has_keys
    if may_tell_by_time and mark.last is not None and _splits_at(snapshot, resolved, mark.row_count, mark.last):
        return True
    return has_keys and then is not None and _have_equal_rows(request, then, resolved, range(kept, mark.row_count))


def _change(snapshot: Snapshot, timestamp: int, mark: Mark) -> str:
    """Return in words what was done to a partition that does not begin with the rows of a mark."""
    if _has_keys(snapshot) and _there_at(snapshot, timestamp, mark) is None:
        return (
            "was written anew in a table with deduplication keys, and its files of before are gone, so that nobody can "
            f"tell whether some of its first {mark.row_count} rows were replaced"
        )
    return (
        f"was changed other than by appending: rows were inserted into its first {mark.row_count}, replaced in them, "
        "or removed from them"
    )


def _has_keys(snapshot: Snapshot) -> bool:
    metadata = snapshot.table.metadata
    return metadata is None or bool(metadata.keys)


def _there_at(snapshot: Snapshot, timestamp: int, mark: Mark) -> ResolvedPartition | None:
    """Return the generation of a mark, or None if it cannot be read."""
    try:
        return _resolve(snapshot, timestamp, mark)
    except ProblemError:
        return None


def _kept_row_count(then: ResolvedPartition, now: ResolvedPartition) -> int:
    """Return how many rows are in the first row groups that two generations of one file have in common."""
    offsets = [each.metadata.generation.block_offsets for each in (then, now)]
    same = takewhile(lambda place: offsets[0][place] == offsets[1][place], range(min(map(len, offsets))))
    return sum(then.metadata.blocks[place].num_rows for place in same)


def _have_equal_rows(request: ReadRequest, then: ResolvedPartition, now: ResolvedPartition, rows: range) -> bool:
    """Return whether two generations have the same values in the columns of a stream, wherever their batches end."""
    one, other = (_bits(request, each, rows) for each in (then, now))
    left, right = next(one, None), next(other, None)
    while left is not None and right is not None:
        count = min(len(left), len(right))
        if not left.slice(0, count).equals(right.slice(0, count)):
            return False
        left = left.slice(count) if count < len(left) else next(one, None)
        right = right.slice(count) if count < len(right) else next(other, None)
    return left is right


def _bits(request: ReadRequest, resolved: ResolvedPartition, rows: range) -> Iterator[pa.RecordBatch]:
    """Yield rows of a generation with floats as integers, because NaN is not equal to itself."""
    pieces = [piece for piece, _ in _rows_between(resolved, request, rows.start, rows.stop)]
    for batch in read_pieces(OperatingSystemStorage(), request, pieces, ReadCounters()):
        arrays = [array.view(_integers_of(array.type)) for array in batch.columns]
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _integers_of(of: pa.DataType) -> pa.DataType:
    if pa.types.is_list(of):
        return pa.list_(_integers_of(of.value_type))
    return {pa.float64(): pa.int64(), pa.float32(): pa.int32()}.get(of, of)


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
            stamps = _stamps(snapshot, resolved, block, handle)
            if not ((stamps <= last) == (np.arange(len(stamps)) < inside)).all():
                return False
    return True


def _stamps(
    snapshot: Snapshot, resolved: ResolvedPartition, block: Block, handle: ReadableFile
) -> npt.NDArray[np.int64]:
    """Return the times of a row group's rows."""
    designated = [column for column in snapshot.columns if column.id == snapshot.timestamp_id]
    parts = [arrays[0] for arrays in row_group_columns(resolved, block, handle, designated)]
    return np.asarray(pa.chunked_array(parts).combine_chunks().view(pa.int64()).to_numpy(), np.int64)


def _times_around(snapshot: Snapshot, resolved: ResolvedPartition, end: int) -> tuple[int, int]:
    """Return the times of the last of the first `end` rows, and of the row behind it."""
    found, first = [], 0
    with resolved.files.open_data() as handle:
        for block in resolved.metadata.blocks:
            inside = [row - first for row in (end - 1, end) if 0 <= row - first < block.num_rows]
            if inside:
                found += _stamps(snapshot, resolved, block, handle)[inside].tolist()
            first += block.num_rows
    last, following = found
    return last, following


def _commit_ends(resolved: ResolvedPartition, start: int) -> list[int]:
    """Return how many rows there were after each commit to the file that added some to the first `start`."""
    content, file = resolved.published.content, resolved.files.pm_label
    counts = []
    for metadata in decode_chain(content, file=file, end_bytes=resolved.resolved.position.end_bytes):
        if metadata.row_count <= start:
            break
        counts.append(metadata.row_count)
    return sorted(set(counts))


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
    resolved = HARDENED_READER.resolve(snapshot.table.files_of(partition), partition)
    if resolved.metadata.row_count > mark.row_count:
        resolved = replace(resolved, partition=replace(partition, row_count=resolved.metadata.row_count))
    raise_first(HARDENED_READER.check(resolved))
    return resolved
