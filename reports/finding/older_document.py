"""The explanation of a finding as releases wrote it before there were pages: lanes as texts, and no story."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tornproof.reports.finding.space_time import LaneRow
from tornproof.reports.kit.byte_map import RANGES_MAX, ByteRange
from tornproof.reports.kit.json_fields import Fields, what_is

ROWS_READ_MAX = 20_000
LANE_COUNT = 3
"""Each row is the text of the writer's lane, the readers' one and the disk's."""
_ROW = re.compile(r"(?P<client>[^,:]+)(?:, (?P<operation>[^:]*))?(?:: (?P<doing>.*))?", re.DOTALL)
_ENDS = re.compile(r"(?:^|; )(?=acknowledged|fails |sees |is refused |finds |KILLED|POWER IS CUT)")
_HAPPENS = {"KILLED": "kill", "POWER IS CUT": "power"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFile:
    """The ranges of one file of which a power cut could take something, and where the last of them ends."""

    file: str
    end: int
    ranges: Sequence[ByteRange]


def old_rows(fields: Fields) -> list[LaneRow]:
    """Return the rows, the one decisive in which the decision of the cause takes effect; raises ResultError."""
    rows = [_row(fields, place, each) for place, each in enumerate(fields.items("lanes")[:ROWS_READ_MAX])]
    decision = fields.inner("cause").text("decision", "") if "cause" in fields else ""
    place = next((at for at, row in enumerate(rows) if decision.startswith(f"{row.client}@{row.operation}:")), None)
    _, arrow, client = decision.rpartition(" -> ")
    if arrow and place is not None:
        # A switch takes effect in the row of the client that goes on.
        place = next((at for at in range(place + 1, len(rows)) if rows[at].client == client), None)
    if place is None:
        return rows
    happens = "switch" if arrow else rows[place].happens
    return [*rows[:place], replace(rows[place], is_decisive=True, happens=happens), *rows[place + 1 :]]


def old_files(fields: Fields) -> list[OldFile]:
    """Return what became of bytes that were not durable at a power cut, by file; raises ResultError."""
    by_file: dict[str, list[ByteRange]] = {}
    for each in fields.inners("bytes", RANGES_MAX):
        label = ", ".join(each.texts("fields"))
        found = ByteRange(start=each.number("start"), end=each.number("end"), state=each.text("state"), label=label)
        by_file.setdefault(each.text("file"), []).append(found)
    return [OldFile(file=file, end=max(each.end for each in ranges), ranges=ranges) for file, ranges in by_file.items()]


def old_story(fields: Fields, violated: str) -> list[str]:
    """Return what the document says of the cause, as sentences; raises ResultError."""
    story = [f"Broken: {violated} ({fields.text('clause', violated)})."]
    story += [f"Then {decision}." for decision in fields.texts("decisions")]
    if "cause" in fields:
        cause = fields.inner("cause")
        done, not_yet = cause.text("done", "") or "nothing", cause.text("not_yet", "") or "nothing more"
        story.append(f"Because {cause.text('client', 'the client')} had done '{done}' and not yet '{not_yet}'.")
    if "client" in fields:
        story.append(f"However, {fields.text('client')} then has: {fields.text('seen', '')}")
    if "neighbour" in fields:
        nearest = fields.inner("neighbour")
        story.append(
            f"Nearest run that passes: the same, but {nearest.text('change', '')}: {nearest.text('decision', '')}."
        )
    return story


def _row(fields: Fields, place: int, texts: object) -> LaneRow:
    """Return one row of texts taken apart."""
    if not isinstance(texts, list) or len(texts) != LANE_COUNT or not all(isinstance(each, str) for each in texts):
        fields.refuse(f"lanes[{place}]", f"{LANE_COUNT} texts", what_is(texts))
    writer, readers, disk = texts
    match = _ROW.fullmatch(writer or readers)
    if match is None:
        return LaneRow(lane="writer" if writer else "readers", client=writer or readers, disk=disk)
    does, *ends = _ENDS.split(match["doing"] or "")
    happens = next((kind for word, kind in _HAPPENS.items() if any(end.startswith(word) for end in ends)), "")
    return LaneRow(
        lane="writer" if writer else "readers",
        client=match["client"],
        operation=match["operation"] or "",
        does=tuple(each for each in does.split("; ") if each),
        ends=tuple(ends),
        disk=disk,
        happens=happens,
    )
