"""The matching rows of a row group: the predicate's columns are decoded first, others only if a row matches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from tornproof.impl.pm.bloom_position import bitset_of
from tornproof.impl.query.predicate import Predicate, columns_of, matching
from tornproof.impl.query.pruning import Pruner, Reason
from tornproof.impl.query.time_search import implied_range, row_group_times
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition import ResolvedPartition

Arrays: TypeAlias = list[pa.Array]
ReadColumns: TypeAlias = Callable[[Sequence[SnapshotColumn]], Iterator[Arrays]]
"""Decodes columns of the row group; yields arrays with all rows, in one part or several."""


def selected_rows(read: ReadColumns, columns: Sequence[SnapshotColumn], predicate: Predicate) -> Iterator[Arrays]:
    """Yield non-empty arrays in the order of `columns` with the rows for which the predicate is true.

    If there are several parts, each is as large as allowed, so they are decoded again instead of being kept.
    """
    asked = columns_of(predicate)
    kept: Arrays = []
    masks = []
    for arrays in read(asked):
        masks.append(matching(predicate, _by_id(asked, arrays)))
        kept = arrays if len(masks) == 1 else []
    mask = pa.chunked_array(masks, pa.bool_()).combine_chunks()
    if not mask.true_count:
        return
    known = _by_id(asked, kept)
    rest = list({column.id: column for column in columns if column.id not in known}.values())
    start = 0
    for arrays in read(rest) if rest else [[]]:
        count = len(arrays[0]) if arrays else len(mask)
        here = mask.slice(start, count)
        part = {key: array.slice(start, count) for key, array in known.items()} | _by_id(rest, arrays)
        if here.true_count:
            yield [_chosen(part[column.id], here) for column in columns]
        start += count


def _by_id(columns: Sequence[SnapshotColumn], arrays: Arrays) -> dict[int, pa.Array]:
    """Return the arrays by the ids of their columns; empty if there are no arrays."""
    return {column.id: array for column, array in zip(columns, arrays, strict=bool(arrays))}


def _chosen(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    return array if mask.true_count == len(mask) else array.filter(mask)


def kept_ordinals(
    resolved: ResolvedPartition,
    handle: ReadableFile,
    pruner: Pruner,
    predicate: Predicate | None,
    timestamp_id: int,
    counters: ReadCounters,
) -> Iterator[int]:
    """Yield, ascending, the row groups that may have a matching row, and count the others.

    `handle` is the open data.parquet, which may contain bloom filters. Raises CorruptError for an invalid one.
    """
    metadata, label = resolved.metadata, resolved.files.pm_label
    if predicate is None:
        yield from range(len(metadata.blocks))
        return
    times = row_group_times(metadata.header, metadata.blocks)
    ordinals = times.between(implied_range(predicate, timestamp_id))
    counters.pruned[Reason.TIME] += len(metadata.blocks) - len(ordinals)
    for ordinal in map(int, ordinals):
        find = functools.partial(
            bitset_of, resolved.published.content, metadata, ordinal, read_data=handle.pread, file=label
        )
        reason = pruner.why_pruned(predicate, metadata.blocks[ordinal], bitset_of=find)
        if reason is None:
            yield ordinal
        else:
            counters.pruned[reason] += 1
