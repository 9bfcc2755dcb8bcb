"""A map of a file's bytes: a bar to scale, a ribbon in which small ranges are visible, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

from markupsafe import Markup

from tornproof.reports.kit.page import fill

PATTERNS = ("solid", "diagonal", "counter", "dots", "cross", "vertical", "horizontal", "empty")
RANGES_MAX = 2_000
"""Further ranges of a file are dropped before any work is done."""
MARKS_MAX = 200
TABLE_ROWS_MAX = 400
SEGMENTS_MAX = 80
MERGED_ABOVE = 16
"""If there are more segments, adjacent ones that look alike are drawn as one."""
SEGMENT_REM_MIN = 4.5
REM_FOR_A_DOUBLING = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """The bytes [start, end) of a file, their state, and their field."""

    start: int
    end: int
    state: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A bracket under the bytes [start, end)."""

    start: int
    end: int
    label: str


class StateLook(NamedTuple):
    """How a state is shown: a word, its meaning, a CSS variable for its colour, and one of `PATTERNS`."""

    label: str
    meaning: str
    colour: str
    pattern: str


Looks: TypeAlias = Mapping[str, StateLook]


def by_label(*looks: StateLook) -> Looks:
    """Return looks by the labels of their states."""
    return {look.label: look for look in looks}


UNKNOWN_STATE = ""
UNKNOWN_LOOK = StateLook("not known", "the evidence says nothing", "paper", "empty")
FINDING_STATES = by_label(
    StateLook("durable", "would survive a power cut", "durable", "solid"),
    StateLook("written", "in the page cache, not synced", "written", "horizontal"),
    StateLook("kept", "not synced, but on the disk", "kept", "dots"),
    StateLook("lost", "not synced, and lost", "lost", "diagonal"),
    StateLook("torn", "partly old, partly new", "torn", "cross"),
    StateLook("damaged", "changed from outside", "damaged", "counter"),
    StateLook("no name", "the file's name is not on the disk", "spare", "vertical"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range, or adjacent ones that look alike, with the labels of all marks that cover it completely."""

    start: int
    end: int
    state: str
    label: str
    marks: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
        return self.end - self.start

    @property
    def width_rem(self) -> float:
        """Width in a ribbon: logarithmic, so that four bytes are visible beside thousands."""
        return round(SEGMENT_REM_MIN + REM_FOR_A_DOUBLING * self.size_bytes.bit_length(), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of the bar to scale: its share, and whether marks begin and end with it."""

    segment: Segment
    share: float
    opens: bool
    closes: bool


def byte_map(
    name: str,
    size_bytes: int,
    ranges: Sequence[ByteRange],
    *,
    marks: Sequence[Mark] = (),
    states: Looks = FINDING_STATES,
    coarse: bool = False,
    is_folded: bool = False,
) -> Markup:
    """Return the map of a file as HTML; overlaps and what is outside of the file are cut, and gaps are "not known"."""
    size_bytes = max(0, size_bytes)
    whole = list(_without_gaps(size_bytes, ranges[:RANGES_MAX]))
    segments = list(_marked(whole, marks[:MARKS_MAX]))
    shown = _merged(segments)
    return fill(
        "byte_map.html.j2",
        name=name,
        size_bytes=size_bytes,
        pieces=list(_pieces(shown[:SEGMENTS_MAX], size_bytes)),
        not_shown_count=max(0, len(shown) - SEGMENTS_MAX),
        rows=segments[:TABLE_ROWS_MAX],
        row_count=len(segments),
        left_out_count=max(0, len(ranges) - RANGES_MAX),
        coarse=coarse,
        is_folded=is_folded,
        has_marks=any(segment.marks for segment in segments),
        look=lambda state: look_of(state, states),
    )


def legend(states: Looks, used: Iterable[str]) -> Markup:
    """Return a legend of the used states, in the order of `states`."""
    wanted = set(used)
    looks = [look for state, look in states.items() if state in wanted]
    others = sorted(wanted - set(states))
    return fill("byte_map_legend.html.j2", looks=[*looks, *(look_of(state, states) for state in others)])


def look_of(state: str, states: Looks) -> StateLook:
    """Return how a state is shown; an unknown one is shown by its name."""
    if state in states:
        return states[state]
    if state == UNKNOWN_STATE:
        return UNKNOWN_LOOK
    return StateLook(state, "a state that this page does not know", "spare", "cross")


def _without_gaps(size_bytes: int, ranges: Sequence[ByteRange]) -> Iterator[ByteRange]:
    """Yield ranges that cover the file from its first byte to its last one, each byte once."""
    at = 0
    for each in sorted(ranges, key=lambda one: (one.start, one.end)):
        start, end = max(at, each.start), min(size_bytes, each.end)
        if start >= end:
            continue
        if at < start:
            yield ByteRange(start=at, end=start, state=UNKNOWN_STATE, label="")
        yield ByteRange(start=start, end=end, state=each.state, label=each.label)
        at = end
    if at < size_bytes:
        yield ByteRange(start=at, end=size_bytes, state=UNKNOWN_STATE, label="")


def _marked(ranges: Sequence[ByteRange], marks: Sequence[Mark]) -> Iterator[Segment]:
    """Yield the ranges, split where marks begin and end."""
    cuts = sorted({offset for mark in marks for offset in (mark.start, mark.end)})
    for each in ranges:
        offsets = [each.start, *(offset for offset in cuts if each.start < offset < each.end), each.end]
        for start, end in pairwise(offsets):
            labels = tuple(dict.fromkeys(mark.label for mark in marks if mark.start <= start and end <= mark.end))
            yield Segment(start=start, end=end, state=each.state, label=each.label, marks=labels)


def _merged(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments; if there are too many, adjacent ones that look alike are merged, the longest runs first."""
    runs = [list(run) for _, run in groupby(segments, key=lambda segment: (segment.state, segment.marks))]
    count = len(segments)
    merged: set[int] = set()
    for index in sorted(range(len(runs)), key=lambda index: -len(runs[index])):
        if count <= MERGED_ABOVE:
            break
        merged.add(index)
        count -= len(runs[index]) - 1
    return [segment for index, run in enumerate(runs) for segment in ([_as_one(run)] if index in merged else run)]


def _as_one(run: Sequence[Segment]) -> Segment:
    first, last = run[0], run[-1]
    label = first.label if len(run) == 1 else f"{first.label} … {last.label} ({len(run)} ranges)"
    return Segment(start=first.start, end=last.end, state=first.state, label=label, marks=first.marks)


def _pieces(segments: Sequence[Segment], size_bytes: int) -> Iterator[Piece]:
    """Yield the parts of the bar; a mark opens where the segment before has other marks."""
    for index, segment in enumerate(segments):
        before = segments[index - 1].marks if index else ()
        after = segments[index + 1].marks if index + 1 < len(segments) else ()
        yield Piece(
            segment=segment,
            share=round(1000 * segment.size_bytes / size_bytes, 3),
            opens=bool(segment.marks) and before != segment.marks,
            closes=bool(segment.marks) and after != segment.marks,
        )
