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
from tornproof.harness.checkers.timeline import Timeline


def sightings(columns: Columns, timeline: Timeline) -> pa.Table:
    """Return the own reads that were the first of all own ones to see so new a version, before its acknowledgement."""
    end = np.flatnonzero(columns.of_kind(READ_END) & (columns.row < columns.own_count))
    end = end[is_of_live(observed_at(columns, end), timeline)]
    if len(timeline.settled):
        settled = np.searchsorted(timeline.settled_ns, columns.time_ns[end], side="right")
        is_newer = columns.version[end] > timeline.settled_newest[settled - 1]
        end = end[(settled == 0) | is_newer]
    return columns.recorded(_first_of_so_new_a_version(columns, end)).cast(EVENT_SCHEMA)


def merged(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return the sightings in two parts of a history."""
    columns = sightings_by_time(pa.concat_tables([one, other]))
    return columns.recorded(np.arange(len(columns))).cast(EVENT_SCHEMA)


def sightings_by_time(events: pa.Table) -> Columns:
    """Return sightings by the time at which their reads ended, each of a newer version than all before it."""
    columns = read_columns(events)
    return columns.taken(_first_of_so_new_a_version(columns, np.arange(len(columns))))


def _first_of_so_new_a_version(columns: Columns, positions: Integers) -> Integers:
    rows = columns.row[positions]
    order = np.lexsort((columns.sequence[rows], columns.process[rows], columns.time_ns[positions]))
    version = columns.version[positions[order]]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = version[1:] > np.maximum.accumulate(version)[:-1]
    return positions[order[is_first]]
