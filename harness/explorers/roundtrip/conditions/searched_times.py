"""Which row groups may have some times, and which times a condition leaves, worked out one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import (
    FIRST_ID,
    INT64,
    INT96,
    Condition,
    leaves,
    truth_of,
)
from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of, column_of, header_of
from tornproof.impl.pm.block import Block, Chunk, Statistic
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.query.predicate import And, Comparison, IsIn, IsNull, Not, Operator, Or, Predicate
from tornproof.impl.query.time_search import TimeRange, TimeTextError, implied_range, row_group_times, time_of_text
from tornproof.impl.table.columns import SnapshotColumn

LONG, TIMESTAMP = 6, 8
FIRST, LAST = -(1 << 63), (1 << 63) - 1
FEW_TIMES = range(-2, 13)
"""Times of rows; what comes before the first, or after the last of them, could go on without end."""
SECONDS = 1_709_164_800
"""From 1970 to the 29th of February 2024."""
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
TEXTS: Mapping[str, Mapping[str, int | None]] = {
    "2024-02-29": {"ms": 0, "us": 0, "ns": 0},
    "2024-02-29T00:00:01Z": {"ms": 10**3, "us": 10**6, "ns": 10**9},
    " 2024-02-29 12:30 ": {unit: 45_000 * each for unit, each in UNITS.items()},
    "2024-02-29T00:00:00.5": {unit: each // 2 for unit, each in UNITS.items()},
    "2024-02-29T00:00:00.000007Z": {"ms": 1, "us": 7, "ns": 7000},
    "2024-02-29T01:30:00.0000000001+01:30": dict.fromkeys(UNITS, 1),
    "2300-01-01": {unit: 8_704_627_200 * each for unit, each in UNITS.items()},
    "1600-01-01T00:00:00.5": {unit: -(13_385_260_799 * each + each // 2) for unit, each in UNITS.items()},
    "2024-03Z": dict.fromkeys(UNITS),
    "2024-02-30": dict.fromkeys(UNITS),
    "yesterday": dict.fromkeys(UNITS),
    "": dict.fromkeys(UNITS),
}
"""Times as they are written, and how many units they are after that day began; None if they cannot be."""

Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The bounds of the designated timestamp of each row group; its position is -1 if the partition has none."""

    bounds: tuple[Bounds, ...]
    physical: int = INT64
    position: int = 0
    kind: str = "times of row groups"

    @property
    def name(self) -> str:
        """It in words."""
        return f"row groups with times {self.bounds}, stored as {self.physical} in column {self.position}"

    def problem(self) -> str | None:
        """Say of which times other row groups are found than have them."""
        known = [self._known(*each) for each in self.bounds]
        found = row_group_times(self._header, [_block(self.position, *each) for each in self.bounds])
        if [*zip(found.minimums.tolist(), found.maximums.tolist(), strict=True)] != known:
            return f"their times are {found}"
        pairs = [*itertools.pairwise(known)]
        if found.in_order is not all(each[0] <= later[0] and each[1] <= later[1] for each, later in pairs):
            return f"they are {'' if found.in_order else 'not '}in order"
        ends = (None, -(10**30), FIRST, 0, 1, 2, 3, LAST, LAST + 1, 10**30)
        for start, end in itertools.product(ends, repeat=2):
            between = found.between(TimeRange(start=start, end=end)).tolist()
            wanted = [
                number
                for number, (low, high) in enumerate(known)
                if (start is None or high >= start) and (end is None or low < end)
            ]
            is_empty = start is not None and end is not None and start >= end
            if between != wanted and not (is_empty and {*between} <= {*range(len(known))}):
                return f"{between} have times from {start} to {end}, and should be {wanted}"
        return None

    def _known(self, low: int | None, high: int | None) -> tuple[int, int]:
        is_known = self.position >= 0 and self.physical == INT64
        return (low, high) if is_known and low is not None and high is not None and low <= high else (FIRST, LAST)

    @property
    def _header(self) -> FileHeader:
        columns = tuple(column_of(TIMESTAMP, self.physical, name="ts", id=number) for number in range(2))
        return header_of(columns, designated_timestamp=self.position)


def _block(position: int, low: int | None, high: int | None) -> Block:
    """Return a row group whose times are in this column."""
    of_times, other = (_chunk(low, high), _chunk(5, 5))
    return Block(offset_bytes=0, end_bytes=0, num_rows=1, chunks=(other, of_times) if position else (of_times, other))


def _chunk(low: int | None, high: int | None) -> Chunk:
    minimum, maximum = (
        None if each is None else Statistic(each.to_bytes(8, "little", signed=True), True) for each in (low, high)
    )
    return chunk_of(1, minimum, maximum, null_count=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """A condition on a number, which is column 0, and on the designated timestamp, which is column 1."""

    condition: Condition
    kind: str = "times of conditions"

    @property
    def name(self) -> str:
        """It in words."""
        return f"the condition {self.condition} on times"

    @property
    def is_narrow(self) -> bool:
        """Whether the range is the narrowest: each part says where one range begins, ends, or both."""
        signs = [sign for sign in self.condition if sign in ("and", "or", "not")]
        parts = [*leaves(self.condition)]
        is_plain = all(part[0] != "in" and part[:2] != ("null", 1) for part, _ in parts)
        return not signs or (len(parts) == 2 and is_plain)

    def problem(self) -> str | None:
        """Say which time of a row is beyond the range of times, or that it is too wide."""
        found = implied_range(_predicate(self.condition), FIRST_ID + 1)
        times = [
            time
            for number, time in itertools.product((None, 0, 5), FEW_TIMES)
            if truth_of(self.condition, (number, time)) is True
        ]
        beyond = [each for each in times if not _is_within(each, found)]
        if beyond:
            return f"it is true of {beyond}, and its range is {found}"
        if times and self.is_narrow:
            low = None if min(times) == FEW_TIMES[0] else min(times)
            high = None if max(times) == FEW_TIMES[-1] else max(times) + 1
            if (found.start, found.end) != (low, high):
                return f"its range is {found}, and should be from {low} to {high}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """Two ranges of times."""

    first: tuple[int | None, int | None]
    second: tuple[int | None, int | None]
    kind: str = "two ranges of times"

    @property
    def name(self) -> str:
        """It in words."""
        return f"the times in both {self.first} and {self.second}"

    def problem(self) -> str | None:
        """Say which time is in both, or is not, and should not be."""
        one, other = (TimeRange(start=start, end=end) for start, end in (self.first, self.second))
        found = one.both(other)
        for time in range(-1, 5):
            is_in_both = _is_within(time, one) and _is_within(time, other)
            if _is_within(time, found) is not is_in_both:
                return f"{time} should {'' if is_in_both else 'not '}be one of them, in {found}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A time in words, and what it is in a unit; None if it cannot be."""

    text: str
    unit: str
    expected: int | None
    kind: str = "times in words"

    @property
    def name(self) -> str:
        """It in words."""
        return f"the time {self.text!r} in {self.unit}"

    def problem(self) -> str | None:
        """Say what it is instead."""
        try:
            found = time_of_text(self.text, self.unit)
        except TimeTextError as error:
            return None if self.expected is None else f"it is rejected: {error}"
        return None if found == self.expected else f"it is {found}, and should be {self.expected}"


def searched_times() -> Iterator[Times | Implied | Both | Written]:
    """Yield all questions about times."""
    several: list[Bounds] = [(0, 0), (0, 2), (1, 2), (2, 2), (None, None)]
    for count in range(4):
        yield from (Times(bounds=each) for each in itertools.product(several, repeat=count))
    odd: list[Bounds] = [(None, 1), (1, None), (2, 1), (FIRST, 0), (LAST, LAST), (FIRST, FIRST), (0, LAST)]
    yield from (Times(bounds=each) for each in itertools.product((*odd, (1, 1)), repeat=2))
    for physical, position in ((INT64, 1), (INT64, -1), (INT96, 0)):
        yield Times(bounds=((0, 0), (1, 2)), physical=physical, position=position)
    yield from (Implied(condition=each) for each in _conditions())
    ranges = [(start, end) for start in (None, 0, 1, 3) for end in (None, 1, 2, 3)]
    yield from (Both(first=each, second=other) for each, other in itertools.product(ranges, repeat=2))
    for text, times in TEXTS.items():
        for unit, more in times.items():
            expected = None if more is None else SECONDS * UNITS[unit] + more
            yield Written(text=text, unit=unit, expected=expected)


def _conditions() -> Iterator[Condition]:
    signs = ("=", "<", "<=", ">", ">=")
    alone: list[Condition] = [(sign, 1, value) for sign in signs for value in (3, 7)]
    others: list[Condition] = [(sign, 0, 5) for sign in signs]
    lists: list[Condition] = [("in", 1, each) for each in ((), (3,), (7, 2), (2, 3, 9))]
    nulls: list[Condition] = [("null", 0), ("null", 1), ("in", 0, (5, 0))]
    yield from (*alone, *others, *lists, *nulls)
    for first, second in itertools.product((*alone, *lists, *others[:2], *nulls), repeat=2):
        yield ("and", first, second)
        yield ("or", first, second)
    for condition in (*alone, *lists):
        yield ("not", condition)
        yield ("or", ("and", condition, others[0]), alone[0], lists[-1])
        yield ("and", ("or", condition, nulls[0]), ("or", alone[1], condition), alone[-1])


def _predicate(condition: Condition) -> Predicate:
    """Return a condition with its numbers and signs as they are, which are replaced where it is read from a text."""
    sign, *rest = condition
    if sign in ("and", "or"):
        parts = tuple(map(_predicate, rest))
        return And(parts=parts) if sign == "and" else Or(parts=parts)
    if sign == "not":
        return Not(part=_predicate(rest[0]))
    number: int = rest[0]
    column = SnapshotColumn(
        id=FIRST_ID + number, name="ts" if number else "n", type=TIMESTAMP if number else LONG, physical_type=INT64
    )
    if sign == "null":
        return IsNull(column=column)
    if sign == "in":
        return IsIn(column=column, values=frozenset(rest[1]))
    return Comparison(column=column, operator=Operator(sign), value=rest[1])


def _is_within(time: int, of: TimeRange) -> bool:
    return (of.start is None or of.start <= time) and (of.end is None or time < of.end)
