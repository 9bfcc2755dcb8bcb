"""What happened in a run as a diagram: three lanes (writer, readers, disk), and time that goes downwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from tornproof.reports.kit.json_fields import shortened
from tornproof.reports.kit.page import fill

LANES = ("writer", "readers")
HAPPENINGS = ("", "switch", "fail", "kill", "power")
ROWS_MAX = 400
CHARACTERS_MAX = 200_000
CALLS_MAX = 16
ENDS_MAX = 4
CALL_CHARACTERS_MAX = 200
END_CHARACTERS_MAX = 600
SPOKEN_CHARACTERS_MAX = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """What one client does in one operation before another one goes on, and what the disk holds after it.

    `happens` is one of `HAPPENINGS`: a switch begins the row of the client that goes on, all else ends its row.
    """

    lane: str
    client: str
    operation: str = ""
    does: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    disk: str = ""
    happens: str = ""
    is_decisive: bool = False


class Call(NamedTuple):
    """What a client does, around the file that it does it to; `file` may be empty."""

    before: str
    file: str
    after: str


class DiskPart(NamedTuple):
    """What is said of the disk, and the files of which it is said."""

    said: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A row as it is drawn: its number, and the row before it where that is of another client."""

    number: int
    row: LaneRow
    calls: Sequence[Call]
    ends: Sequence[str]
    disk: Sequence[DiskPart]
    spoken: str
    comes_from: LaneRow | None


def space_time(rows: Sequence[LaneRow]) -> Markup:
    """Return the diagram with the bar that plays it; of too many rows those around the decisive one."""
    start, end = window_of(rows)
    shown = rows[start:end]
    drawn = [
        _drawn(start + position + 1, row, shown[position - 1] if position else None)
        for position, row in enumerate(shown)
    ]
    return fill(
        "space_time.html.j2",
        rows=drawn,
        before_count=start,
        after_count=len(rows) - end,
    )


def window_of(rows: Sequence[LaneRow]) -> tuple[int, int]:
    """Return where the rows to show begin and end: `ROWS_MAX` around the decisive one, fewer where they say much."""
    decisive = next((position for position, row in enumerate(rows) if row.is_decisive), 0)
    start, end = _around(decisive, len(rows), ROWS_MAX)
    characters = sum(_characters(bounded(row)) for row in rows[start:end])
    if characters <= CHARACTERS_MAX:
        return start, end
    return _around(decisive, len(rows), max(1, (end - start) * CHARACTERS_MAX // characters))


def _around(position: int, count: int, count_max: int) -> tuple[int, int]:
    start = max(0, min(position - count_max // 2, count - count_max))
    return start, min(count, start + count_max)


def _characters(row: LaneRow) -> int:
    return sum(map(len, (*row.does, *row.ends, row.client, row.operation, row.disk)))


def bounded(row: LaneRow) -> LaneRow:
    """Return a row without what is too long of it, which it says."""
    left_out = len(row.does) - CALLS_MAX
    more = (f"and {left_out:,} more calls",) if left_out > 0 else ()
    return replace(
        row,
        client=shortened(row.client, CALL_CHARACTERS_MAX),
        operation=shortened(row.operation, CALL_CHARACTERS_MAX),
        does=(*(shortened(each, CALL_CHARACTERS_MAX) for each in row.does[:CALLS_MAX]), *more),
        ends=tuple(shortened(each, END_CHARACTERS_MAX) for each in row.ends[:ENDS_MAX]),
        disk=shortened(row.disk, END_CHARACTERS_MAX),
    )


def call_of(text: str) -> Call:
    """Return a text in three parts, the middle one being the first word that looks like a file of a table."""
    words = text.split(" ")
    position = next((at for at, word in enumerate(words) if "/" in word or word.startswith("_")), None)
    if position is None:
        return Call(text, "", "")
    return Call(" ".join(words[:position]), words[position], " ".join(words[position + 1 :]))


def _drawn(number: int, row: LaneRow, before: LaneRow | None) -> Drawn:
    row = bounded(row)
    doing = "; ".join([*row.does, *row.ends])
    spoken = f"{row.client}, {row.operation}" + (f": {doing}" if doing else "")
    return Drawn(
        number=number,
        row=row,
        calls=[call_of(each) for each in row.does],
        ends=row.ends,
        disk=_disk_parts(row.disk),
        spoken=shortened(f"Decisive step: {spoken}" if row.is_decisive else spoken, SPOKEN_CHARACTERS_MAX),
        comes_from=bounded(before) if before is not None and before.client != row.client else None,
    )


def _disk_parts(disk: str) -> list[DiskPart]:
    """Return the text of the disk's lane in parts, each with what it lists."""
    parts = []
    for text in disk.split("; ") if disk else ():
        said, _, files = text.partition(": ")
        parts.append(DiskPart(said, files.split(", ") if files else ()))
    return parts
