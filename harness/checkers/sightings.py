"""The least version that a read may see, as far as other reads decide it.

The least allowed version of a read is the larger of two: the newest version that was acknowledged or recovered before
the read began, and the newest one that any read of the table saw that had ended before it began.

- Before means at a smaller `time_ns`. What happens at the same time overlaps, whatever the sequence numbers are.
- A read counts if it saw the content of the live attempt at its version, and not before the start of that attempt. Any
  other one is an anomaly, which shows nothing about the table, or saw what a power cut lost at an unknown time.
- Reads of a snapshot that was pinned before them may see less, but they count for others.

Versions that were acknowledged when a read of them ended are in `Timeline.settled_newest`, so sightings leave them out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tornproof.harness.checkers.explanation import is_of_live, observed_at
from tornproof.harness.checkers.recorded import (
    KINDS,
    NAMES,
    READ_END,
    TEXT,
    TEXTS,
    Columns,
    Integers,
    numbers_by_name,
    read_columns,
)
from tornproof.harness.checkers.timeline import Timeline, positions_among

NEVER = np.iinfo(np.int64).max


def sightings(columns: Columns, timeline: Timeline) -> Columns:
    """Return the own reads that were the first of all own ones to see so new a version, before its acknowledgement."""
    end = np.flatnonzero(columns.of_kind(READ_END) & (columns.row < columns.own_count))
    settled = positions_among(timeline.settled_newest, columns.version[end], "left")
    end = end[np.append(timeline.settled_ns, NEVER)[settled] > columns.time_ns[end]]
    end = end[is_of_live(observed_at(columns, end), timeline)]
    row = columns.row[end]
    first = _first_of_so_new_a_version(
        columns.time_ns[end], columns.process[row], columns.sequence[row], columns.version[end]
    )
    return columns.taken(end[first])


def recorded_sightings(columns: Columns, timeline: Timeline) -> pa.Table:
    """Return sightings as they were recorded, without what all have and what the timeline has."""
    own = sightings(columns, timeline)
    return _with_few_texts(own.recorded(np.arange(len(own))).drop_columns(["kind", "digest"]))


def merged(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return the recorded sightings of two parts of a history."""
    both = pa.concat_tables([one, other])
    process = numbers_by_name(both.column("process"))
    sequence, time_ns, version = (both.column(name).to_numpy() for name in ("sequence", "time_ns", "version"))
    return _with_few_texts(both.take(pa.array(_first_of_so_new_a_version(time_ns, process, sequence, version))))


def read_sightings(recorded: pa.Table, timeline: Timeline) -> Columns:
    """Return recorded sightings by the time at which their reads ended, each of a newer version than all before it."""
    live = np.searchsorted(timeline.live_version, recorded.column("version").to_numpy())
    digest = timeline.columns.contents.take(pa.array(timeline.live_digest[live]))
    whole = recorded.append_column("digest", digest)
    return read_columns(whole.append_column("kind", pa.repeat(KINDS[READ_END], len(whole))).select(NAMES))


def _with_few_texts(recorded: pa.Table) -> pa.Table:
    """Return events without the texts of the table that they were taken from."""
    columns = [
        column.cast(TEXT).dictionary_encode() if name in TEXTS else column
        for name, column in zip(recorded.column_names, recorded.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=recorded.column_names)


def _first_of_so_new_a_version(time_ns: Integers, process: Integers, sequence: Integers, version: Integers) -> Integers:
    """Return the positions of events that have a newer version than all before them, by their time."""
    order = np.lexsort((sequence, process, time_ns))
    ordered = version[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = ordered[1:] > np.maximum.accumulate(ordered)[:-1]
    return order[is_first]
