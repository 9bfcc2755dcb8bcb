"""The rows of a table after each commit, by brute force: one row after the other is put in its place.

Slow on purpose: nothing is sorted or planned, and no row group, file or byte occurs.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

SECONDS_IN_HOUR = 3_600
SECONDS_IN_DAY = 24 * SECONDS_IN_HOUR
EPOCH = datetime.date(1970, 1, 1)


class Row(NamedTuple):
    """The designated timestamp, the deduplication keys beside it (None in a table without any), and all values."""

    time: int
    keys: Hashable
    values: Any


Rows: TypeAlias = tuple[Row, ...]


class Interval(enum.Enum):
    """How long one partition is."""

    HOUR = enum.auto()
    DAY = enum.auto()
    WEEK = enum.auto()
    MONTH = enum.auto()
    YEAR = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit is asked for: partitions, by their starts, to drop and to rewrite; then rows, as written."""

    dropped: tuple[int, ...] = ()
    rewritten: tuple[int, ...] = ()
    rows: Rows = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A committed version of a table: its number, and the rows of each partition by the partition's start, ascending.

    `ticks` are the units of time in a second.
    """

    version: int
    partitions: tuple[tuple[int, Rows], ...]
    interval: Interval
    ticks: int


def after(content: Content, change: Change) -> Content:
    """Return what a commit leaves, nothing new if it is asked for nothing."""
    if change == Change():
        return content
    partitions = {start: rows for start, rows in content.partitions if start not in change.dropped}
    starts = tuple(partitions)
    for row in change.rows:
        start = partition_of(row.time, starts, content.interval, content.ticks)
        partitions[start] = with_row(partitions.get(start, ()), row)
    return replace(content, version=content.version + 1, partitions=tuple(sorted(partitions.items())))


def partition_of(time: int, starts: Iterable[int], interval: Interval, ticks: int) -> int:
    """Return the last partition of a time's interval that starts at or before it, else the start of the interval."""
    first = start_of(time, interval, ticks)
    return max((start for start in starts if first <= start <= time), default=first)


def start_of(time: int, interval: Interval, ticks: int) -> int:
    """Return the start of the interval that a time lies in."""
    seconds = time // ticks
    if interval is Interval.HOUR:
        return seconds // SECONDS_IN_HOUR * SECONDS_IN_HOUR * ticks
    day = EPOCH + datetime.timedelta(days=seconds // SECONDS_IN_DAY)
    match interval:
        case Interval.WEEK:
            day -= datetime.timedelta(days=day.weekday())
        case Interval.MONTH:
            day = day.replace(day=1)
        case Interval.YEAR:
            day = day.replace(month=1, day=1)
    return (day - EPOCH).days * SECONDS_IN_DAY * ticks


def with_row(rows: Rows, row: Row) -> Rows:
    """Return rows in the order of time after one more was written: in the place of all with its keys, else last.

    Other rows stay, also several with equal keys, which are older than the keys of the table.
    """
    equal = [place for place, other in enumerate(rows) if (other.time, other.keys) == (row.time, row.keys)]
    if row.keys is not None and equal:
        return tuple(row if place == equal[0] else other for place, other in enumerate(rows) if place not in equal[1:])
    place = sum(other.time <= row.time for other in rows)
    return (*rows[:place], row, *rows[place:])
