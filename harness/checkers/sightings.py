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
from tornproof.harness.checkers.recorded import EVENT_SCHEMA, READ_END, Columns, Integers, read_columns
from tornproof.harness.checkers.timeline import Timeline, positions_among

NEVER = np.iinfo(np.int64).max


def sightings(columns: Columns, timeline: Timeline) -> Columns:
    """Return the own reads that were the first of all own ones to see so new a version, before its acknowledgement."""
    end = np.flatnonzero(columns.of_kind(READ_END) & (columns.row < columns.own_count))
    settled = positions_among(timeline.settled_newest, columns.version[end], "left")
    end = end[np.append(timeline.settled_ns, NEVER)[settled] > columns.time_ns[end]]
    end = end[is_of_live(observed_at(columns, end), timeline)]
    return columns.taken(_first_of_so_new_a_version(columns, end))


def recorded_sightings(columns: Columns, timeline: Timeline) -> pa.Table:
    """Return sightings as they were recorded, without the table that they are from."""
    return _recorded(sightings(columns, timeline))


def merged(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return the recorded sightings of two parts of a history."""
    return _recorded(read_sightings(pa.concat_tables([one, other])))


def read_sightings(recorded: pa.Table) -> Columns:
    """Return recorded sightings by the time at which their reads ended, each of a newer version than all before it."""
    columns = read_columns(recorded)
    return columns.taken(_first_of_so_new_a_version(columns, np.arange(len(columns))))


def _recorded(sightings: Columns) -> pa.Table:
    return sightings.recorded(np.arange(len(sightings))).cast(EVENT_SCHEMA)


def _first_of_so_new_a_version(columns: Columns, positions: Integers) -> Integers:
    rows = columns.row[positions]
    order = np.lexsort((columns.sequence[rows], columns.process[rows], columns.time_ns[positions]))
    version = columns.version[positions[order]]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = version[1:] > np.maximum.accumulate(version)[:-1]
    return positions[order[is_first]]
