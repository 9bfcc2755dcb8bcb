"""Reads a finding's document, which may have been edited, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tornproof.reports.finding.space_time import HAPPENINGS, LANES, LaneRow
from tornproof.reports.kit.byte_map import RANGES_MAX, ByteRange
from tornproof.reports.kit.json_fields import Fields, what_is

FILES_MAX = 24
CHANGES_MAX = 10
ROWS_READ_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBytes:
    """A file at the crash, or at the violation if there is no crash, and the ranges that the violating client read."""

    file: str
    size_bytes: int
    ranges: Sequence[ByteRange]
    read: Sequence[tuple[int, int]] = ()
    coarse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The decisive decision, and the steps of its client before and after it; each may be empty."""

    decision: str = ""
    client: str = ""
    done: str = ""
    not_yet: str = ""
    done_action: str = ""
    not_yet_action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevention:
    """What is wrong first, the changes of the run that make it pass, and how many were tried and were enough."""

    cause: str = ""
    tried: int = 0
    enough: int = 0
    changes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The nearest run that passes, and what the client then gets."""

    decision: str = ""
    change: str = ""
    sees: str = ""
    rows: Sequence[LaneRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a run of the simulator violates a property."""

    client: str = ""
    seen: str = ""
    broken: str = ""
    clause: str = ""
    step_count: int | None
    decisions: tuple[str, ...]
    narrative: tuple[str, ...]
    rows: Sequence[LaneRow]
    files: Sequence[FileBytes]
    files_left_out: int
    cause: Cause | None
    passes_when: Prevention
    neighbour: Neighbour | None


def explanation_of(evidence: Fields) -> Explanation | None:
    """Return the explanation of a finding of the simulator, None for any other finding; raises ResultError."""
    if "explanation" not in evidence:
        return None
    fields = evidence.inner("explanation")
    neighbour = fields.inner("neighbour") if "neighbour" in fields else None
    return fields.record(
        Explanation,
        step_count=fields.optional("steps"),
        narrative=tuple(fields.texts("narrative")),
        rows=_rows(fields),
        files=[_file(each) for each in fields.inners("files", FILES_MAX)],
        files_left_out=max(0, len(fields.items("files")) - FILES_MAX),
        cause=fields.inner("cause").record(Cause) if "cause" in fields else None,
        passes_when=_prevention(fields.inner("passes_when")) if "passes_when" in fields else Prevention(),
        neighbour=None if neighbour is None else neighbour.record(Neighbour, rows=_rows(neighbour)),
    )


def prevention_of_program(evidence: Fields) -> Prevention:
    """Return the cause of a finding of the state machine, an empty one for other findings; raises ResultError."""
    if "why" not in evidence:
        return Prevention()
    why = evidence.inner("why")
    return replace(_prevention(why.inner("passes_when")), cause=why.text("cause"))


def _prevention(fields: Fields) -> Prevention:
    changes = [each.text("text") for each in fields.inners("changes", CHANGES_MAX)]
    return fields.record(Prevention, changes=changes)


def _rows(fields: Fields) -> list[LaneRow]:
    return [_row(each) for each in fields.inners("lanes", ROWS_READ_MAX)]


def _row(fields: Fields) -> LaneRow:
    row = fields.record(LaneRow)
    for name, value, values in (("lane", row.lane, LANES), ("happens", row.happens, HAPPENINGS)):
        if value not in values:
            fields.reject(name, " or ".join(map(repr, values)), what_is(value))
    return row


def _file(fields: Fields) -> FileBytes:
    return fields.record(
        FileBytes,
        ranges=[each.record(ByteRange, label=_label(each)) for each in fields.inners("ranges", RANGES_MAX)],
        read=[(each.number("start"), each.number("end")) for each in fields.inners("read", RANGES_MAX)],
    )


def _label(fields: Fields) -> str:
    """Return the field of a range, with its values before and after where they are known."""
    return f"{fields.text('field', '')} {fields.text('value', '')}".strip()
