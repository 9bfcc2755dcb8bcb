"""The offsets of a stream: what changed since the offset before, and enough to notice later changes.

An offset that named every partition would be long. It names those that changed since the offset before, which is all
that a replay needs, and the newest ones, to which rows are appended. Of the older ones it has a digest: a reader that
starts from a checkpoint takes their marks from the table, if they are still the same. While it runs it knows them all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tornproof.impl.read.reader import Snapshot
from tornproof.impl.txn.transaction import Partition
from tornproof.pipeline.datasource.changes import Mark, NotAppendedError, mark_of

NEWEST_COUNT = 32
"""How many of the newest partitions an offset names."""
Offset = dict[str, Any]
Marks = Mapping[int, Mark]
START: Offset = {"version": -1, "since": -1, "before": {}, "marks": {}, "older": None, "is_whole": False}
"""Before the first row."""


def partitions_of(snapshot: Snapshot) -> dict[int, Partition]:
    """Return the parquet partitions of a version by their starts."""
    return {each.timestamp: each for each in snapshot.transaction.partitions if each.is_parquet}


def new_offset(snapshot: Snapshot, start: Offset, before: Marks, after: Marks) -> Offset:
    """Return the offset with the marks `after` in a snapshot, which follows `start` with those before."""
    there = partitions_of(snapshot)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    newest = sorted(after)[-NEWEST_COUNT:]
    behind = {key for key in there.keys() | after.keys() if not _is_at_end(there.get(key), after.get(key))}
    named = {*newest, *changed, *(key for key in behind if newest and key < newest[0])}
    older = [_entry(key, after[key]) for key in sorted(after.keys() - named)]
    return {
        "version": snapshot.transaction.version,
        "since": start["version"],
        "before": {str(key): _listed(before.get(key)) for key in sorted(changed)},
        "marks": {str(key): _listed(after.get(key)) for key in sorted(named)},
        "older": {"before": newest[0], "count": len(older), "digest": _digest(older)} if older else None,
        "is_whole": not behind,
    }


def marks_at(offset: Offset, snapshot: Snapshot, *, skips_changes: bool) -> dict[int, Mark]:
    """Return the mark of each partition at an offset from a checkpoint.

    Raises NotAppendedError if older partitions are no longer those of the offset, unless changes are skipped.
    """
    marks = _named(offset)
    known = {key: mark for key, mark in marks.items() if mark is not None}
    older = offset.get("older")
    if older is None:
        return known
    there = [each for key, each in partitions_of(snapshot).items() if key < older["before"] and key not in marks]
    found = [(each.timestamp, each.name_txn, each.token, each.row_count) for each in there]
    if not skips_changes and (len(found) != older["count"] or _digest(found) != older["digest"]):
        raise NotAppendedError(
            f"{snapshot.table.path}: of the {older['count']} partitions before the one that starts at "
            f"{older['before']} some were changed, added or dropped while the stream did not run; start a new stream, "
            "or set the option changes=skip to continue without what changed in them"
        )
    return known | {each.timestamp: mark_of(snapshot, each, None) for each in there}


def changed_between(start: Offset, end: Offset) -> Iterator[tuple[int, Mark | None, Mark | None]]:
    """Yield the partitions that changed between an offset and a following one, with both marks, by time.

    Raises NotAppendedError if it is not the following one, and neither names all partitions.
    """
    before, after = _named(start), _named(end)
    if start.get("older") or end.get("older"):
        if end["since"] != start["version"]:
            raise NotAppendedError(f"the offset of version {end['version']} does not follow {start['version']}")
        before = {int(key): _mark(stored) for key, stored in end["before"].items()}
        after = {key: after[key] for key in before}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield key, before.get(key), after.get(key)


def _named(offset: Offset) -> dict[int, Mark | None]:
    """Return the marks that an offset names; those of the first releases had all of them, as `partitions`."""
    stored = offset["partitions"] if "partitions" in offset else offset["marks"]
    return {int(key): _mark(mark) for key, mark in stored.items()}


def _mark(stored: list[Any] | None) -> Mark | None:
    return None if stored is None else Mark(*stored)


def _listed(mark: Mark | None) -> list[Any] | None:
    return None if mark is None else list(mark)


def _is_at_end(partition: Partition | None, mark: Mark | None) -> bool:
    if partition is None or mark is None:
        return partition is None and mark is None
    return mark[:3] == (partition.name_txn, partition.token, partition.row_count)


def _entry(key: int, mark: Mark) -> tuple[int, int, int, int]:
    return key, mark.name_txn, mark.token, mark.row_count


def _digest(entries: Iterable[tuple[int, int, int, int]]) -> str:
    return hashlib.blake2b(json.dumps(sorted(entries)).encode(), digest_size=16).hexdigest()
