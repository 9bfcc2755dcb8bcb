"""What a finding's page shows, read from its document, which somebody may have edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tornproof.reports.finding.space_time import HAPPENINGS, LANES, LaneRow
from tornproof.reports.kit.byte_map import RANGES_MAX, ByteRange
from tornproof.reports.kit.json_fields import Fields, what_is

FILES_MAX = 24
ROWS_READ_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBytes:
    """A file at the crash, or else in the moment in which the property breaks, and what the one that broke it read."""

    file: str
    size_bytes: int
    ranges: Sequence[ByteRange]
    read: Sequence[tuple[int, int]] = ()
    coarse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The decision that does the harm, and the steps of its client between which it stands; each may be empty."""

    decision: str
    client: str
    done: str
    not_yet: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The nearest run that passes."""

    decision: str
    change: str
    rows: Sequence[LaneRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a run of the simulator breaks a property."""

    client: str
    seen: str
    clause: str
    step_count: int | None
    decisions: Sequence[str]
    story: Sequence[str]
    rows: Sequence[LaneRow]
    files: Sequence[FileBytes]
    files_left_out: int
    cause: Cause | None
    neighbour: Neighbour | None


def explanation_of(evidence: Fields) -> Explanation | None:
    """Return the explanation of a finding of the simulator, None for any other finding; raises ResultError."""
    if "explanation" not in evidence:
        return None
    fields = evidence.inner("explanation")
    cause = _cause(fields.inner("cause")) if "cause" in fields else None
    neighbour = _neighbour(fields.inner("neighbour")) if "neighbour" in fields else None
    return Explanation(
        client=fields.text("client", ""),
        seen=fields.text("seen", ""),
        clause=fields.text("clause", ""),
        step_count=fields.number("steps") if "steps" in fields else None,
        decisions=fields.texts("decisions"),
        story=fields.texts("story"),
        rows=_rows(fields),
        files=[_file(each) for each in fields.inners("files", FILES_MAX)],
        files_left_out=max(0, len(fields.items("files")) - FILES_MAX),
        cause=cause,
        neighbour=neighbour,
    )


def _cause(fields: Fields) -> Cause:
    return Cause(
        decision=fields.text("decision", ""),
        client=fields.text("client", ""),
        done=fields.text("done", ""),
        not_yet=fields.text("not_yet", ""),
    )


def _neighbour(fields: Fields) -> Neighbour:
    return Neighbour(decision=fields.text("decision", ""), change=fields.text("change", ""), rows=_rows(fields))


def _rows(fields: Fields) -> list[LaneRow]:
    return [_row(each) for each in fields.inners("lanes", ROWS_READ_MAX)]


def _row(fields: Fields) -> LaneRow:
    return LaneRow(
        lane=_one_of(fields, "lane", LANES),
        client=fields.text("client"),
        operation=fields.text("operation", ""),
        does=tuple(fields.texts("does")),
        ends=tuple(fields.texts("ends")),
        disk=fields.text("disk", ""),
        happens=_one_of(fields, "happens", HAPPENINGS) if "happens" in fields else "",
        is_decisive=fields.flag("is_decisive", False),
    )


def _file(fields: Fields) -> FileBytes:
    return FileBytes(
        file=fields.text("file"),
        size_bytes=fields.number("size_bytes"),
        ranges=[_range(each) for each in fields.inners("ranges", RANGES_MAX)],
        read=[(each.number("start"), each.number("end")) for each in fields.inners("read", RANGES_MAX)],
        coarse=fields.flag("coarse", False),
    )


def _range(fields: Fields) -> ByteRange:
    return ByteRange(
        start=fields.number("start"),
        end=fields.number("end"),
        state=fields.text("state"),
        label=fields.text("field", ""),
    )


def _one_of(fields: Fields, name: str, values: Sequence[str]) -> str:
    value = fields.text(name)
    if value not in values:
        expected = " or ".join(repr(each) for each in values)
        fields.refuse(name, expected, what_is(value))
    return value
