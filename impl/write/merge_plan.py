"""Where new rows are merged into the row groups of a partition: arithmetic on sorted timestamps (docs/format.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Timestamps: TypeAlias = npt.NDArray[np.int64]


class Span(NamedTuple):
    """The smallest and the largest timestamp of a row group."""

    low: int
    high: int


class Run(msgspec.Struct):
    """Row groups whose rows may have to be sorted with each other, and their smallest and largest timestamp."""

    span: Span
    ordinals: list[int]


class Keep(msgspec.Struct, frozen=True):
    """The row groups, or runs, [first, end) stay unchanged."""

    first: int
    end: int


class Merge(msgspec.Struct, frozen=True):
    """The row groups, or runs, [first, last] and the new rows [start, end) become new row groups."""

    first: int
    last: int
    start: int
    end: int


class Insert(msgspec.Struct, frozen=True):
    """The new rows [start, end) become row groups of their own."""

    start: int
    end: int


Step: TypeAlias = Keep | Merge | Insert


def runs_of(spans: Sequence[Span]) -> list[Run]:
    """Return row groups that overlap in time together, in time order; in a file that is in time order each is alone.

    Rows of different runs that have the same time are in the order of the file.
    """
    runs: list[Run] = []
    for ordinal in sorted(range(len(spans)), key=lambda ordinal: (spans[ordinal].low, ordinal)):
        span, run = spans[ordinal], runs[-1] if runs else None
        if run is None or span.low > run.span.high or (span.low == run.span.high and ordinal > max(run.ordinals)):
            runs.append(Run(span, [ordinal]))
        else:
            run.span = Span(run.span.low, max(run.span.high, span.high))
            run.ordinals.append(ordinal)
    return runs


def plan_merge(spans: Sequence[Span], timestamps: Timestamps, *, has_keys: bool) -> tuple[Step, ...]:
    """Return, in file order, what happens to every row group and every new row.

    `spans` ascend and may share a bound; `timestamps` ascend. New rows come after old ones of the same time. With keys,
    a row is merged with all row groups that contain its time, at once.
    """
    # The cost of a commit must hardly grow with the file, so there is only arithmetic for each row group.
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    starts = np.searchsorted(timestamps, bounds[:, 0], "left").tolist()
    ends = np.searchsorted(timestamps, bounds[:, 1], "right" if has_keys else "left").tolist()
    steps: list[Step] = []
    position = 0
    for ordinal, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if start > position:
            steps.append(Insert(position, start))
            position = start
        previous = steps[-1] if steps else None
        if has_keys and isinstance(previous, Merge) and start < previous.end:
            # A row of the previous merge has the same time as the start of this row group.
            steps[-1] = Merge(previous.first, ordinal, previous.start, end)
        elif end > position:
            steps.append(Merge(ordinal, ordinal, position, end))
        elif isinstance(previous, Keep):
            steps[-1] = Keep(previous.first, ordinal + 1)
        else:
            steps.append(Keep(ordinal, ordinal + 1))
        position = end
    if position < len(timestamps):
        steps.append(Insert(position, len(timestamps)))
    return tuple(steps)
