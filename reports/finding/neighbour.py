"""A run that violates a property beside the nearest run that passes, and their differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from markupsafe import Markup

from tornproof.reports.finding.space_time import ROWS_MAX, Call, LaneRow, bounded, call_of
from tornproof.reports.kit.page import fill

ROWS_BEFORE = 1
ROWS_AFTER = 10
NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A row of one of the runs; each call and each end has a flag whether only this run has it."""

    row: LaneRow
    calls: Sequence[tuple[Call, bool]]
    ends: Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A row of each run; one of them may be missing."""

    number: int
    broken: Side | None
    passing: Side | None
    is_first: bool


def side_by_side(broken: Sequence[LaneRow], passing: Sequence[LaneRow], change: str) -> Markup:
    """Return both runs side by side, from just before the first difference."""
    pairs = list(_paired([bounded(row) for row in broken[:ROWS_MAX]], [bounded(row) for row in passing[:ROWS_MAX]]))
    first = next((index for index, (left, right) in enumerate(pairs) if not _is_same(left, right)), None)
    if first is None:
        return fill("neighbour.html.j2", pairs=[], same_count=0, left_out_count=0, change=change, differs="")
    start, end = max(0, first - ROWS_BEFORE), first + ROWS_AFTER
    return fill(
        "neighbour.html.j2",
        pairs=[
            _pair(index + 1, *pair, is_first=index == first) for index, pair in enumerate(pairs[:end]) if index >= start
        ],
        same_count=first,
        left_out_count=max(0, len(pairs) - end),
        change=change,
        differs=_differs(*pairs[first]),
    )


def _paired(broken: Sequence[LaneRow], passing: Sequence[LaneRow]) -> Iterator[tuple[LaneRow | None, LaneRow | None]]:
    """Yield rows of the same client in the same operation as pairs, and rows of only one run alone."""
    left_keys, right_keys = ([(row.client, row.operation) for row in rows] for rows in (broken, passing))
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    for kind, left, left_end, right, right_end in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(broken[left:left_end], passing[right:right_end], strict=True)
        else:
            yield from ((row, None) for row in broken[left:left_end])
            yield from ((None, row) for row in passing[right:right_end])


def _is_same(left: LaneRow | None, right: LaneRow | None) -> bool:
    return left is not None and right is not None and (left.told, left.ends) == (right.told, right.ends)


def _pair(number: int, broken: LaneRow | None, passing: LaneRow | None, *, is_first: bool) -> Pair:
    return Pair(number=number, broken=_side(broken, passing), passing=_side(passing, broken), is_first=is_first)


def _side(mine: LaneRow | None, other: LaneRow | None) -> Side | None:
    if mine is None:
        return None
    does, ends = (other.told, other.ends) if other is not None else ((), ())
    calls = [(call_of(text), is_own) for text, is_own in _own(mine.told, does)]
    return Side(row=mine, calls=calls, ends=list(_own(mine.ends, ends)))


def _own(mine: Sequence[str], others: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each of my texts, and whether the other run does not have it there."""
    matcher = SequenceMatcher(None, mine, others, autojunk=False)
    for kind, start, end, _, _ in matcher.get_opcodes():
        yield from ((text, kind != "equal") for text in mine[start:end])


def _differs(broken: LaneRow | None, passing: LaneRow | None) -> str:
    """Return in one sentence what differs in a pair of rows."""
    row = broken or passing
    assert row is not None, "a pair has a row"
    where = f"{row.client}, {row.operation}" if row.operation else row.client
    if passing is None:
        return f"only the violating run has {where}."
    if broken is None:
        return f"only the run that passes has {where}."
    only_broken = _named([*_only(broken.told, passing.told), *_only(broken.ends, passing.ends)])
    only_passing = _named([*_only(passing.told, broken.told), *_only(passing.ends, broken.ends)])
    parts = [f"in {where}"]
    if only_broken:
        parts.append(f"only the violating run has “{only_broken}”")
    if only_passing:
        parts.append(f"only the run that passes has “{only_passing}”")
    return ", ".join(parts) + "."


def _only(mine: Sequence[str], others: Sequence[str]) -> list[str]:
    return [text for text, is_own in _own(mine, others) if is_own]


def _named(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - NAMED_MAX} more" if len(texts) > NAMED_MAX else ""
    return "; ".join(texts[:NAMED_MAX]) + more
