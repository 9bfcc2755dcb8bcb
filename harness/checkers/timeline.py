"""The writer's timeline: what could be read at which time, as arrays for every judge of readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from tornproof.harness.checkers.attempts import Attempt, Writing
from tornproof.harness.checkers.readings import NOWHERE
from tornproof.harness.checkers.recorded import Columns, Integers


@dataclass(frozen=True, kw_only=True)
class Tried:
    """All attempts in order, as arrays that are sent to workers; `discarded` is NOWHERE for a live one."""

    version: Integers
    digest: Integers
    start: Integers
    start_ns: Integers
    discarded: Integers

    def at(self, version: int) -> list[Attempt]:
        """Return the attempts at a version, in their order."""
        first, end = np.searchsorted(self._versions, version), np.searchsorted(self._versions, version, "right")
        return [self._attempt(index) for index in self._by_version[first:end].tolist()]

    @cached_property
    def writers(self) -> dict[int, int]:
        """The position at which the first attempt with each content started."""
        return dict(zip(self.digest[::-1].tolist(), self.start[::-1].tolist(), strict=True))

    @cached_property
    def _by_version(self) -> Integers:
        return np.argsort(self.version, kind="stable")

    @cached_property
    def _versions(self) -> Integers:
        return self.version[self._by_version]

    def _attempt(self, index: int) -> Attempt:
        discarded = int(self.discarded[index])
        return Attempt(
            version=int(self.version[index]),
            digest=int(self.digest[index]),
            start=int(self.start[index]),
            start_ns=int(self.start_ns[index]),
            discarded=None if discarded == NOWHERE else discarded,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The live attempts by version, and the acknowledgements and recoveries (`settled`) by time.

    `settled_newest` is the newest version up to each of them; `tried` are all attempts. Positions are indexes into
    `columns`, the writer's events, and digests are indexes into their `contents`.
    """

    columns: Columns
    live_version: Integers
    live_digest: Integers
    live_start_ns: Integers
    settled: Integers
    settled_ns: Integers
    settled_newest: Integers
    tried: Tried = field(repr=False)


def timeline_of(writing: Writing) -> Timeline:
    """Return the timeline of what a writer did."""
    columns = writing.columns
    live = [writing.live[version] for version in sorted(writing.live)]
    settled = _integers(position for position, _ in writing.settled)
    return Timeline(
        columns=columns,
        live_version=_integers(attempt.version for attempt in live),
        live_digest=_integers(attempt.digest for attempt in live),
        live_start_ns=_integers(attempt.start_ns for attempt in live),
        settled=settled,
        settled_ns=columns.time_ns[settled],
        settled_newest=np.maximum.accumulate(_integers(version for _, version in writing.settled)),
        tried=_tried(writing.attempts),
    )


def positions_among(ordered: Integers, versions: Integers, side: Literal["left", "right"]) -> Integers:
    """Return what `np.searchsorted` does, but search each version only once where the versions are dense."""
    if not len(versions):
        return np.zeros(0, dtype=np.intp)
    low, high = int(versions.min()), int(versions.max())
    if high - low >= len(versions):
        return np.searchsorted(ordered, versions, side)
    return np.asarray(np.searchsorted(ordered, low + np.arange(high - low + 1), side)[versions - low])


def _tried(attempts: list[Attempt]) -> Tried:
    return Tried(
        version=_integers(attempt.version for attempt in attempts),
        digest=_integers(attempt.digest for attempt in attempts),
        start=_integers(attempt.start for attempt in attempts),
        start_ns=_integers(attempt.start_ns for attempt in attempts),
        discarded=_integers(NOWHERE if attempt.discarded is None else attempt.discarded for attempt in attempts),
    )


def _integers(numbers: Iterable[int]) -> Integers:
    return np.fromiter(numbers, dtype=np.int64)
