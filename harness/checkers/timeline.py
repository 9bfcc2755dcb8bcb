"""The writer's timeline: what there was to read at which time, in arrays that every judge of readers is given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from harness.checkers.attempts import Attempt, Writing
from harness.checkers.recorded import Columns, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Versions that stayed, in order, and versions that were there to stay since some time, in order of time.

    `settled_newest` is the newest version up to each time. `attempts` are all attempts by version, `writers` the first
    one of each content. Positions are those in `columns`, which are the writer's.
    """

    columns: Columns
    digests: pa.Array
    live_version: Integers
    live_digest: Integers
    live_start_ns: Integers
    settled: Integers
    settled_ns: Integers
    settled_newest: Integers
    attempts: dict[int, list[Attempt]] = field(repr=False)
    writers: dict[int, int] = field(repr=False)


def timeline_of(writing: Writing) -> Timeline:
    """Return the timeline of what a writer did."""
    columns = writing.columns
    live = [writing.live[version] for version in sorted(writing.live)]
    settled = _integers(position for position, _ in writing.settled)
    attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
    writers: dict[int, int] = {}
    for attempt in writing.attempts:
        attempts[attempt.version].append(attempt)
        writers.setdefault(attempt.digest, attempt.start)
    return Timeline(
        columns=columns,
        digests=writing.digests,
        live_version=_integers(attempt.version for attempt in live),
        live_digest=_integers(attempt.digest for attempt in live),
        live_start_ns=_integers(attempt.start_ns for attempt in live),
        settled=settled,
        settled_ns=columns.time_ns[settled],
        settled_newest=np.maximum.accumulate(_integers(version for _, version in writing.settled)),
        attempts=dict(attempts),
        writers=writers,
    )


def _integers(numbers: Iterable[int]) -> Integers:
    return np.fromiter(numbers, dtype=np.int64)
