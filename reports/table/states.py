"""The states of a partition's bytes for the committed version, and files as ranges of states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tornproof.reports.kit.byte_map import ByteRange, StateLook, by_label

IN_USE, UNUSED, ORPHAN, NEWER, DEAD = "in use", "unused", "orphan", "newer", "dead"
PADDING, UNEXPLAINED, MISSING, MIXED = "padding", "not explained", "missing", "mixed"
STATES = by_label(
    StateLook(IN_USE, "the committed version needs it", "durable", "solid"),
    StateLook(UNUSED, "only readers of an older version may still need it", "kept", "horizontal"),
    StateLook(ORPHAN, "of a generation that was never committed", "lost", "diagonal"),
    StateLook(NEWER, "a server added it after the table was verified", "written", "dots"),
    StateLook(DEAD, "nothing refers to it", "torn", "cross"),
    StateLook(PADDING, "aligns what follows", "paper", "empty"),
    StateLook(UNEXPLAINED, "what still decodes does not refer to it", "spare", "vertical"),
    StateLook(MISSING, "the file ends before it", "damaged", "counter"),
    StateLook(MIXED, "several of these, too small to draw", "spare", "dots"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The bytes [start, end) of a file; `owner` is the larger part that they belong to."""

    start: int
    end: int
    state: str
    label: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRanges:
    """The ranges of one file of a partition; `size_bytes` includes missing bytes."""

    name: str
    size_bytes: int
    ranges: tuple[Owned, ...]

    def bytes_in(self, state: str) -> int:
        """Return the number of bytes in a state."""
        return sum(each.end - each.start for each in self.ranges if each.state == state)

    def label_at(self, offset_bytes: int) -> str:
        """Return the label at an offset, or ""."""
        for each in self.ranges:
            if each.start <= offset_bytes < each.end:
                return f"{each.label} ({each.state})" if each.label else each.state
        return ""


def coarsened(ranges: Sequence[Owned], count_max: int) -> tuple[list[ByteRange], bool]:
    """Return at most `count_max` ranges, and whether labels were lost.

    If there are more, padding is merged with what it aligns, then adjacent ranges of the same owner, then of the same
    state, then any.
    """
    if len(ranges) <= count_max:
        return [ByteRange(start=each.start, end=each.end, state=each.state, label=each.label) for each in ranges], False
    merged = _runs(_without_padding(ranges), lambda each: (each.state, each.owner))
    if len(merged) > count_max:
        merged = _runs(merged, lambda each: each.state)
    if len(merged) > count_max:
        in_one = -(-len(merged) // count_max)
        merged = [_as_one(merged[start : start + in_one]) for start in range(0, len(merged), in_one)]
    return [ByteRange(start=each.start, end=each.end, state=each.state, label=each.owner) for each in merged], True


def _without_padding(ranges: Sequence[Owned]) -> list[Owned]:
    kept: list[Owned] = []
    start: int | None = None
    for each in ranges:
        if each.state == PADDING and each is not ranges[-1]:
            start = each.start if start is None else start
        else:
            kept.append(each if start is None else replace(each, start=start))
            start = None
    return kept


def _runs(ranges: Sequence[Owned], key: Callable[[Owned], object]) -> list[Owned]:
    return [_as_one(list(run)) for _, run in groupby(ranges, key=key)]


def _as_one(run: Sequence[Owned]) -> Owned:
    """Return adjacent ranges as one, labelled with the first and last owner."""
    states = list(dict.fromkeys(each.state for each in run))
    owners = list(dict.fromkeys(each.owner for each in run))
    if len(states) > 1:
        owner = f"{len(run)} ranges: {', '.join(states)}"
    else:
        owner = owners[0] if len(owners) == 1 else f"{owners[0]} … {owners[-1]}"
    return Owned(
        start=run[0].start,
        end=max(each.end for each in run),
        state=states[0] if len(states) == 1 else MIXED,
        label=owner,
        owner=owner,
    )
