"""Finding row groups by the designated timestamp: by bisection if they are in its order, else one by one."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt

from tornproof.impl.errors import TornproofError
from tornproof.impl.pm.block import Block
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.pm.statistics import bounds_of
from tornproof.impl.query.predicate import And, Comparison, IsIn, Operator, Or, Predicate
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.texts import UNITS_PER_SECOND, instant_of


class TimeTextError(TornproofError):
    """A text that is not a time, or times that end before they begin."""


def time_of_text(text: str, unit: str) -> int:
    """Return a time of the years 1 to 9999 in the given unit, UTC unless it has an offset; raises TimeTextError.

    One between two units is the later of them: the same rows are before it, and the same ones are not.
    """
    try:
        return math.ceil(instant_of(text.strip(), UNITS_PER_SECOND[unit]))
    except ValueError as error:
        raise TimeTextError(f"{text!r} is no time; write 2024-01-31 or 2024-01-31T12:30:00.5") from error


INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max

Times = npt.NDArray[np.int64]


class TimeRange(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with `start` <= designated timestamp < `end`, in the column's unit; None means unbounded."""

    start: int | None = None
    end: int | None = None

    def both(self, other: TimeRange) -> TimeRange:
        """Return the intersection with another range."""
        starts = [start for start in (self.start, other.start) if start is not None]
        ends = [end for end in (self.end, other.end) if end is not None]
        return TimeRange(start=max(starts, default=None), end=min(ends, default=None))


ALL_TIMES = TimeRange()


@dataclass(frozen=True, slots=True)
class RowGroupTimes:
    """The smallest and the largest timestamp of each row group; extreme values if they are unknown."""

    minimums: Times
    maximums: Times
    in_order: bool = field(init=False)
    """Whether neither minimums nor maximums ever descend, so that bisection works."""

    def __post_init__(self) -> None:
        in_order = all(bool((times[:-1] <= times[1:]).all()) for times in (self.minimums, self.maximums))
        object.__setattr__(self, "in_order", in_order)

    def between(self, times: TimeRange) -> npt.NDArray[np.intp]:
        """Return, ascending, the row groups that may have a row in a range of times."""
        if self.in_order:
            first = 0 if times.start is None else _search(self.maximums, times.start)
            stop = len(self.minimums) if times.end is None else _search(self.minimums, times.end)
            return np.arange(first, max(first, stop))
        may_match = np.ones(len(self.minimums), bool)
        # Python integers of any size can be compared with those of an array.
        if times.start is not None:
            may_match &= self.maximums >= times.start
        if times.end is not None:
            may_match &= self.minimums < times.end
        return np.flatnonzero(may_match)


def row_group_times(header: FileHeader, blocks: Sequence[Block]) -> RowGroupTimes:
    """Return the times in the statistics of the designated timestamp."""
    dts = header.designated_timestamp
    if dts < 0 or header.columns[dts].physical_type != PhysicalType.INT64:
        return RowGroupTimes(np.full(len(blocks), INT64_MIN), np.full(len(blocks), INT64_MAX))
    column = header.columns[dts]
    bounds = [_known(bounds_of(column, block.chunks[dts])) for block in blocks]
    return RowGroupTimes(
        np.array([low for low, _ in bounds], np.int64), np.array([high for _, high in bounds], np.int64)
    )


def implied_range(predicate: Predicate, timestamp_id: int) -> TimeRange:
    """Return a range of times that contains all rows for which a predicate is true; it need not be the narrowest."""
    match predicate:
        case Comparison(column=column, operator=operator, value=int(value)) if column.id == timestamp_id:
            return _range_of(operator, value)
        case IsIn(column=column, values=values) if column.id == timestamp_id and values:
            return _hull([_range_of(Operator.EQUAL, value) for value in values if isinstance(value, int)])
        case And(parts=parts):
            return functools.reduce(TimeRange.both, (implied_range(part, timestamp_id) for part in parts))
        case Or(parts=parts):
            return _hull([implied_range(part, timestamp_id) for part in parts])
        case _:
            return ALL_TIMES


def _range_of(operator: Operator, value: int) -> TimeRange:
    match operator:
        case Operator.EQUAL:
            return TimeRange(start=value, end=value + 1)
        case Operator.LESS:
            return TimeRange(end=value)
        case Operator.LESS_OR_EQUAL:
            return TimeRange(end=value + 1)
        case Operator.GREATER:
            return TimeRange(start=value + 1)
        case Operator.GREATER_OR_EQUAL:
            return TimeRange(start=value)


def _hull(ranges: Sequence[TimeRange]) -> TimeRange:
    """Return the narrowest range that contains all of the ranges."""
    starts = [each.start for each in ranges]
    ends = [each.end for each in ranges]
    return TimeRange(
        start=None if None in starts else min(start for start in starts if start is not None),
        end=None if None in ends else max(end for end in ends if end is not None),
    )


def _known(bounds: object) -> tuple[int, int]:
    """Return bounds as `bounds_of` finds them, or extreme values if they are absent, broken or out of order."""
    match bounds:
        case (int(low), int(high)) if low <= high:
            return low, high
        case _:
            return INT64_MIN, INT64_MAX


def _search(ascending: Times, time: int) -> int:
    """Return how many of the times are before `time`, which may be any integer."""
    if time > INT64_MAX:
        return len(ascending)
    return int(np.searchsorted(ascending, max(time, INT64_MIN), "left"))
