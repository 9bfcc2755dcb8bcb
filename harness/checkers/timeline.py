"""The writer's timeline: what there was to read at which time, in arrays that every judge of readers is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from harness.checkers.attempts import Attempt, Writing
from harness.checkers.recorded import Columns, Integers

NEVER = -1
"""The position of an event that there is not."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """All attempts in their order as arrays, which are sent to workers; `discarded` is NEVER where nothing did it."""

    version: Integers
    digest: Integers
    start: Integers
    start_ns: Integers
    discarded: Integers

    @cached_property
    def by_version(self) -> dict[int, list[Attempt]]:
        """The attempts at each version; made where something is to be explained."""
        found: defaultdict[int, list[Attempt]] = defaultdict(list)
        columns = (self.version, self.digest, self.start, self.start_ns, self.discarded)
        for version, digest, start, start_ns, discarded in zip(*(each.tolist() for each in columns), strict=True):
            attempt = Attempt(version=version, digest=digest, start=start, start_ns=start_ns)
            attempt.discarded = None if discarded == NEVER else discarded
            found[version].append(attempt)
        return dict(found)

    @cached_property
    def writers(self) -> dict[int, int]:
        """Where the first attempt with each content started."""
        return dict(zip(self.digest[::-1].tolist(), self.start[::-1].tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Versions that stayed, in order, and versions that were there to stay since some time, in order of time.

    `settled_newest` is the newest version up to each time; `tried` are all attempts. Positions are those in `columns`,
    which are the writer's.
    """

    columns: Columns
    digests: pa.Array
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
        digests=writing.digests,
        live_version=_integers(attempt.version for attempt in live),
        live_digest=_integers(attempt.digest for attempt in live),
        live_start_ns=_integers(attempt.start_ns for attempt in live),
        settled=settled,
        settled_ns=columns.time_ns[settled],
        settled_newest=np.maximum.accumulate(_integers(version for _, version in writing.settled)),
        tried=_tried(writing.attempts),
    )


def _tried(attempts: list[Attempt]) -> Tried:
    return Tried(
        version=_integers(attempt.version for attempt in attempts),
        digest=_integers(attempt.digest for attempt in attempts),
        start=_integers(attempt.start for attempt in attempts),
        start_ns=_integers(attempt.start_ns for attempt in attempts),
        discarded=_integers(NEVER if attempt.discarded is None else attempt.discarded for attempt in attempts),
    )


def _integers(numbers: Iterable[int]) -> Integers:
    return np.fromiter(numbers, dtype=np.int64)
