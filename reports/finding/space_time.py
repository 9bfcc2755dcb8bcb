"""The diagram of a run: three lanes (writer, readers, disk), with time going down."""

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
    """What one client does in one operation before another client runs, and the disk after it.

    `actions` are the calls of `does` in words of the protocol; older findings have none. `happens` is one of
    `HAPPENINGS`: a switch begins the row of the next client, all else ends a row.
    """

    lane: str
    client: str
    operation: str = ""
    does: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    disk: str = ""
    happens: str = ""
    is_decisive: bool = False

    @property
    def told(self) -> tuple[str, ...]:
        """What is shown: the actions, else the calls."""
        return self.actions or self.does


class Call(NamedTuple):
    """A call as text before, of and after its file; `file` may be empty."""

    before: str
    file: str
    after: str


class DiskPart(NamedTuple):
    """A statement on the disk, and the files that it is about."""

    said: str
    files: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramRow:
    """A row of the diagram: its number, the calls themselves, and the row before it if that is of another client."""

    number: int
    row: LaneRow
    calls: Sequence[Call]
    raw: Sequence[str]
    ends: Sequence[str]
    disk: Sequence[DiskPart]
    spoken: str
    comes_from: LaneRow | None


def space_time(rows: Sequence[LaneRow]) -> Markup:
    """Return the diagram with its playback bar; of too many rows those around the decisive one."""
    start, end = window_of(rows)
    shown = rows[start:end]
    diagram_rows = [
        _diagram_row(start + index + 1, row, shown[index - 1] if index else None) for index, row in enumerate(shown)
    ]
    return fill(
        "space_time.html.j2",
        rows=diagram_rows,
        before_count=start,
        after_count=len(rows) - end,
    )


def window_of(rows: Sequence[LaneRow]) -> tuple[int, int]:
    """Return the range of rows to show: `ROWS_MAX` around the decisive one, fewer if they are long."""
    decisive = next((index for index, row in enumerate(rows) if row.is_decisive), 0)
    start, end = _around(decisive, len(rows), ROWS_MAX)
    characters = sum(_characters(bounded(row)) for row in rows[start:end])
    if characters <= CHARACTERS_MAX:
        return start, end
    return _around(decisive, len(rows), max(1, (end - start) * CHARACTERS_MAX // characters))


def _around(index: int, count: int, count_max: int) -> tuple[int, int]:
    start = max(0, min(index - count_max // 2, count - count_max))
    return start, min(count, start + count_max)


def _characters(row: LaneRow) -> int:
    return sum(map(len, (*row.does, *row.actions, *row.ends, row.client, row.operation, row.disk)))


def bounded(row: LaneRow) -> LaneRow:
    """Return a row with long texts and lists shortened."""
    return replace(
        row,
        client=shortened(row.client, CALL_CHARACTERS_MAX),
        operation=shortened(row.operation, CALL_CHARACTERS_MAX),
        does=_bounded(row.does),
        actions=_bounded(row.actions),
        ends=tuple(shortened(each, END_CHARACTERS_MAX) for each in row.ends[:ENDS_MAX]),
        disk=shortened(row.disk, END_CHARACTERS_MAX),
    )


def _bounded(calls: Sequence[str]) -> tuple[str, ...]:
    left_out = len(calls) - CALLS_MAX
    more = (f"and {left_out:,} more calls",) if left_out > 0 else ()
    return (*(shortened(each, CALL_CHARACTERS_MAX) for each in calls[:CALLS_MAX]), *more)


def call_of(text: str) -> Call:
    """Return a text in three parts, the middle one being the first word that looks like a file of a table."""
    words = text.split(" ")
    # The file that an action is about comes last, in brackets.
    if words[-1].startswith("(") and words[-1].endswith(")"):
        return Call(" ".join(words[:-1]), words[-1][1:-1], "")
    index = next((index for index, word in enumerate(words) if "/" in word or word.startswith("_")), None)
    if index is None:
        return Call(text, "", "")
    return Call(" ".join(words[:index]), words[index], " ".join(words[index + 1 :]))


def _diagram_row(number: int, row: LaneRow, before: LaneRow | None) -> DiagramRow:
    row = bounded(row)
    doing = "; ".join([*row.told, *row.ends])
    spoken = f"{row.client}, {row.operation}" + (f": {doing}" if doing else "")
    return DiagramRow(
        number=number,
        row=row,
        calls=[call_of(each) for each in row.told],
        raw=row.does if row.actions else (),
        ends=row.ends,
        disk=_disk_parts(row.disk),
        spoken=shortened(f"Decisive step: {spoken}" if row.is_decisive else spoken, SPOKEN_CHARACTERS_MAX),
        comes_from=bounded(before) if before is not None and before.client != row.client else None,
    )


def _disk_parts(disk: str) -> list[DiskPart]:
    """Return the text of the disk's lane in parts, each with its files."""
    parts = []
    for text in disk.split("; ") if disk else ():
        said, _, files = text.partition(": ")
        parts.append(DiskPart(said, files.split(", ") if files else ()))
    return parts
