"""The crash points of a campaign: a heat map of the writer's steps, and of what the crash left."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar

from tornproof.reports.campaign.data import CrashPoint
from tornproof.reports.campaign.files import shown

LEVEL_COUNT = 5
ROWS_MAX = 80
COLUMNS_MAX = 40
SYNC_FAILED = "sync failed"
WRITER = "writer"
_STEP = re.compile(r"(?P<client>[^@:]*)@(?P<operation>[^:]*): (?P<call>.+?)(?: (?P<file>\S+|\".*\"))? #\d+")
_ORDER_OF_OPERATIONS = {"open": 2, "close": 3, "end": 4}
_COMMIT = "commit"
_SYNC, _SYNC_OF_DIRECTORY = "sync ", "sync directory"
_DIGITS_MAX = 9


class Left(NamedTuple):
    """A column: the injected fault, the persistence model, and which of the legal disks was left."""

    injected_fault: str
    model: str
    disk: str


class Position(NamedTuple):
    """A row: a call of an operation on files of one name, in any directory and however often repeated."""

    operation: str
    call: str


_Key = TypeVar("_Key", Position, Left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A cell: its number of runs, and its level of colour, 0 without runs.

    If `can_be` is false, such a run is impossible.
    """

    run_count: int
    level: int
    can_be: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The counts of a row, in the order of the columns; `step_count` steps are combined in it."""

    position: Position
    step_count: int
    run_count: int
    counts: tuple[Count, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The rows by operation, counts of what is left out, and the range of runs of each level of colour."""

    columns: tuple[Left, ...]
    injected_faults: tuple[tuple[str, int], ...]
    models: tuple[tuple[str, int], ...]
    operations: tuple[tuple[str, tuple[Row, ...]], ...]
    levels: tuple[tuple[int, int], ...]
    run_count: int
    step_count: int
    cell_count: int
    empty_count: int
    left_out_row_count: int
    left_out_column_count: int
    left_out_run_count: int


def heat_map(points: Mapping[CrashPoint, int]) -> HeatMap | None:
    """Return the crash points as rows and columns, None if there are none.

    If there are too many rows or columns, those with the most runs are kept.
    """
    counts: Counter[tuple[Position, Left]] = Counter()
    steps: dict[Position, set[str]] = {}
    for point, run_count in points.items():
        position = _position(point.step)
        counts[position, Left(point.injected_fault, point.model, point.disk)] += run_count
        steps.setdefault(position, set()).add(point.step)
    if not counts:
        return None
    of_positions: Counter[Position] = Counter()
    of_columns: Counter[Left] = Counter()
    for (position, left), run_count in counts.items():
        of_positions[position] += run_count
        of_columns[left] += run_count
    columns = sorted(_largest(of_columns, COLUMNS_MAX))
    levels = levels_up_to(max(counts.values()))
    rows = [
        Row(
            position=position,
            step_count=len(steps[position]),
            run_count=of_positions[position],
            counts=tuple(_count(position, left, counts[position, left], levels) for left in columns),
        )
        for position in sorted(_largest(of_positions, ROWS_MAX), key=lambda each: _order(each, of_positions[each]))
    ]
    shown = [count for row in rows for count in row.counts if count.can_be]
    return HeatMap(
        columns=tuple(columns),
        injected_faults=_spans([left[:1] for left in columns]),
        models=_spans([left[:2] for left in columns]),
        operations=tuple((name, tuple(group)) for name, group in groupby(rows, key=lambda row: row.position.operation)),
        levels=levels,
        run_count=sum(points.values()),
        step_count=sum(map(len, steps.values())),
        cell_count=len(shown),
        empty_count=sum(count.run_count == 0 for count in shown),
        left_out_row_count=len(of_positions) - len(rows),
        left_out_column_count=len(of_columns) - len(columns),
        left_out_run_count=sum(points.values()) - sum(count.run_count for count in shown),
    )


def levels_up_to(run_count_max: int) -> tuple[tuple[int, int], ...]:
    """Return the range of runs of each level; levels grow by the same factor."""
    edges = [math.ceil((run_count_max + 1) ** (number / LEVEL_COUNT) - 1e-9) for number in range(LEVEL_COUNT)]
    starts = sorted({edge for edge in edges if edge <= run_count_max})
    return tuple(zip(starts, [*(start - 1 for start in starts[1:]), run_count_max], strict=True))


def _count(position: Position, left: Left, run_count: int, levels: Sequence[tuple[int, int]]) -> Count:
    # Syncs of directories never fail in campaigns.
    can_fail = position.call.startswith(_SYNC) and not position.call.startswith(_SYNC_OF_DIRECTORY)
    return Count(
        run_count=run_count,
        level=sum(run_count >= least for least, _ in levels),
        can_be=run_count > 0 or can_fail or left.injected_fault != SYNC_FAILED,
    )


def _largest(counts: Counter[_Key], count_max: int) -> list[_Key]:
    """Return the keys with the greatest counts; ties by name."""
    return sorted(counts, key=lambda key: (-counts[key], key))[:count_max]


def _position(step: str) -> Position:
    """Return the row of a step; a text that is not the name of a step is a row of its own."""
    match = _STEP.fullmatch(step)
    if match is None:
        client, _, operation = step.partition("@")
        return Position(shown(operation or client), "")
    client = "" if match["client"] == WRITER else f"{match['client']} "
    file = (match["file"] or "").strip('"').rpartition("/")[2]
    return Position(shown(client + match["operation"]), shown(f"{match['call']} {file}".rstrip()))


def _order(position: Position, run_count: int) -> tuple[int, str, int, int, str]:
    """Return a sort key: commits first, in order of execution, and of their calls those with the most runs."""
    name, _, number = position.operation.rpartition(" ")
    is_numbered = number.isdecimal() and len(number) < _DIGITS_MAX
    rank = _ORDER_OF_OPERATIONS.get(position.operation, 0 if name == _COMMIT else 1)
    return rank, name, int(number) if is_numbered else 0, -run_count, position.call


def _spans(values: Sequence[tuple[str, ...]]) -> tuple[tuple[str, int], ...]:
    """Return the last part of each value with the length of its run."""
    return tuple((value[-1], len(list(group))) for value, group in groupby(values))
