"""A file as a map of its bytes: a bar to scale, a ribbon in which small ranges can be read, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

from markupsafe import Markup

from tornproof.reports.kit.page import fill

PATTERNS = ("solid", "diagonal", "counter", "dots", "cross", "vertical", "horizontal", "empty")
RANGES_MAX = 2_000
"""More ranges than that of one file nobody looks at; they are cut before anything is worked out."""
MARKS_MAX = 200
TABLE_ROWS_MAX = 400
SEGMENTS_MAX = 80
MERGED_ABOVE = 16
"""So many segments can be taken in; of more, neighbours that look alike are drawn as one."""
SEGMENT_REM_MIN = 4.5
REM_FOR_A_DOUBLING = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """The bytes [start, end) of a file: in which state they are, and which field they hold."""

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
    """How a state is shown: a word, what that means, a variable of CSS for its colour, and one of `PATTERNS`."""

    label: str
    meaning: str
    colour: str
    pattern: str


Looks: TypeAlias = Mapping[str, StateLook]


def by_label(*looks: StateLook) -> Looks:
    """Return looks by the words of the states that they are of."""
    return {look.label: look for look in looks}


UNKNOWN_STATE = ""
UNKNOWN_LOOK = StateLook("not known", "the evidence says nothing", "paper", "empty")
FINDING_STATES = by_label(
    StateLook("durable", "would survive a power cut", "durable", "solid"),
    StateLook("written", "in the page cache, not waited for", "written", "horizontal"),
    StateLook("kept", "was not waited for, but got to the disk", "kept", "dots"),
    StateLook("lost", "was not waited for and is gone", "lost", "diagonal"),
    StateLook("torn", "a part of both", "torn", "cross"),
    StateLook("damaged", "changed by somebody else", "damaged", "counter"),
    StateLook("no name", "the file's name is not on the disk", "spare", "vertical"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range, or neighbours that look alike, with the labels of all the marks that cover all of it."""

    start: int
    end: int
    state: str
    label: str
    marks: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self.end - self.start

    @property
    def width_rem(self) -> float:
        """How wide it is in a ribbon: it grows with each doubling, so that four bytes stand beside thousands."""
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
) -> Markup:
    """Return the map of a file as HTML; what lies outside of the file or twice is cut, and gaps are "not known"."""
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
        has_marks=any(segment.marks for segment in segments),
        look=lambda state: look_of(state, states),
    )


def legend(states: Looks, used: Iterable[str]) -> Markup:
    """Return what the colours and patterns of the states that are used mean, in the order of `states`."""
    wanted = set(used)
    looks = [look for state, look in states.items() if state in wanted]
    others = sorted(wanted - set(states))
    return fill("byte_map_legend.html.j2", looks=[*looks, *(look_of(state, states) for state in others)])


def look_of(state: str, states: Looks) -> StateLook:
    """Return how a state is shown; one that nobody has planned for is shown by its own word."""
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
    """Yield the ranges, cut where marks begin and end."""
    cuts = sorted({position for mark in marks for position in (mark.start, mark.end)})
    for each in ranges:
        positions = [each.start, *(position for position in cuts if each.start < position < each.end), each.end]
        for start, end in pairwise(positions):
            labels = tuple(dict.fromkeys(mark.label for mark in marks if mark.start <= start and end <= mark.end))
            yield Segment(start=start, end=end, state=each.state, label=each.label, marks=labels)


def _merged(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments, and where they are too many, neighbours that look alike as one, the longest runs first."""
    runs = [list(run) for _, run in groupby(segments, key=lambda segment: (segment.state, segment.marks))]
    count = len(segments)
    merged: set[int] = set()
    for position in sorted(range(len(runs)), key=lambda position: -len(runs[position])):
        if count <= MERGED_ABOVE:
            break
        merged.add(position)
        count -= len(runs[position]) - 1
    return [segment for position, run in enumerate(runs) for segment in ([_as_one(run)] if position in merged else run)]


def _as_one(run: Sequence[Segment]) -> Segment:
    first, last = run[0], run[-1]
    label = first.label if len(run) == 1 else f"{first.label} … {last.label} ({len(run)} ranges)"
    return Segment(start=first.start, end=last.end, state=first.state, label=label, marks=first.marks)


def _pieces(segments: Sequence[Segment], size_bytes: int) -> Iterator[Piece]:
    """Yield the parts of the bar; a mark is open where the segment before it has another one."""
    for position, segment in enumerate(segments):
        before = segments[position - 1].marks if position else ()
        after = segments[position + 1].marks if position + 1 < len(segments) else ()
        yield Piece(
            segment=segment,
            share=round(1000 * segment.size_bytes / size_bytes, 3),
            opens=bool(segment.marks) and before != segment.marks,
            closes=bool(segment.marks) and after != segment.marks,
        )
