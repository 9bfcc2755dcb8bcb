"""The row groups of a partition that must be read: those that its `_pm` and bloom filters do not rule out."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tornproof.impl.pm.bloom_place import bitset_of
from tornproof.impl.query.predicate import Predicate
from tornproof.impl.query.pruning import Pruner, Reason
from tornproof.impl.query.time_search import implied_range, row_group_times
from tornproof.impl.read.account import ReadAccount
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.partition import ResolvedPartition


def kept_ordinals(
    resolved: ResolvedPartition,
    handle: ReadableFile,
    pruner: Pruner,
    predicate: Predicate | None,
    timestamp_id: int,
    account: ReadAccount,
) -> Iterator[int]:
    """Yield, ascending, the row groups that may hold a row that the predicate is true of, and account for the others.

    `handle` is the open data.parquet, where bloom filters may lie. Raises CorruptError for what is no bloom filter.
    """
    metadata, label = resolved.metadata, resolved.files.pm_label
    if predicate is None:
        yield from range(len(metadata.blocks))
        return
    times = row_group_times(metadata.header, metadata.blocks)
    ordinals = times.between(implied_range(predicate, timestamp_id))
    account.pruned[Reason.TIME] += len(metadata.blocks) - len(ordinals)
    for ordinal in map(int, ordinals):
        find = functools.partial(
            bitset_of, resolved.published.content, metadata, ordinal, read_data=handle.pread, file=label
        )
        reason = pruner.why_pruned(predicate, metadata.blocks[ordinal], bitset_of=find)
        if reason is None:
            yield ordinal
        else:
            account.pruned[reason] += 1
