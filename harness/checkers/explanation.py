"""Finds observations that are not the content of an attempt at their version, and what is wrong with them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.attempts import Attempt, Writing
from tornproof.harness.checkers.readings import Readings
from tornproof.harness.checkers.recorded import NO_DIGEST, OTHER_DIGEST, RECOVERED, Columns, Integers, Truths
from tornproof.harness.checkers.timeline import Timeline, positions_among

Positions = tuple[int, ...]
"""The positions of the events that show an anomaly; a writer's event at `position` is `~position`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What was seen: the event, version and content, its time, and the time at which the read began."""

    position: Integers
    version: Integers
    digest: Integers
    contents: pa.Array
    time_ns: Integers
    since_ns: Integers


def observed_by_readers(readings: Readings) -> Observations:
    """Return what successful reads saw."""
    columns = readings.columns
    start, end = readings.start[~readings.rejected], readings.end[~readings.rejected]
    return replace(observed_at(columns, end), since_ns=columns.time_ns[start])


def observed_by_writer(writing: Writing) -> Observations:
    """Return the contents that recoveries found, without the one that begins the history."""
    columns = writing.columns
    found = np.flatnonzero((columns.kind == RECOVERED) & (columns.digest != NO_DIGEST))
    found = found[~np.isin(found, [attempt.start for attempt in writing.attempts[:1]])]
    return replace(observed_at(columns, found), position=~found)


def observed_at(columns: Columns, positions: Integers) -> Observations:
    """Return what events saw, each at its own time."""
    time_ns = columns.time_ns[positions]
    return Observations(
        position=positions,
        version=columns.version[positions],
        digest=columns.digest[positions],
        contents=columns.contents,
        time_ns=time_ns,
        since_ns=time_ns,
    )


def unexplained(seen: Observations, timeline: Timeline, *, seen_survives: bool) -> dict[str, list[Positions]]:
    """Return the observations that no attempt explains, by kind of anomaly, each with the events that show it."""
    found: defaultdict[str, list[Positions]] = defaultdict(list)
    for index, digest in _without_live(seen, timeline):
        at, time_ns = int(seen.position[index]), int(seen.time_ns[index])
        tried = timeline.tried.at(int(seen.version[index]))
        kind, witness = _complaint(timeline, digest, time_ns, tried)
        if witness is None:
            found[kind].append((at,))
            continue
        if (
            kind == "seen_version_lost"
            and not seen_survives
            and seen.since_ns[index] <= timeline.columns.time_ns[witness]
        ):
            continue
        found[kind].append((at, ~witness))
    return dict(found)


def is_of_live(seen: Observations, timeline: Timeline) -> Truths:
    """Return which observations are the content of the live attempt at their version, and not before its start."""
    is_live = np.ones(len(seen.position), dtype=np.bool_)
    is_live[[index for index, _ in _without_live(seen, timeline)]] = False
    return is_live


def _without_live(seen: Observations, timeline: Timeline) -> list[tuple[int, int]]:
    """Return the observations that differ from the live attempt at their version, or came before its start.

    With each comes the number of its content in the timeline.
    """
    expected = _expected(seen, timeline)
    some = np.flatnonzero(~_has_text(seen, expected, timeline.columns.contents))
    if not len(some):
        return []
    contents = seen.contents.take(pa.array(seen.digest[some]))
    digest = np.asarray(pc.fill_null(pc.index_in(contents, value_set=timeline.columns.contents), OTHER_DIGEST))
    differs = digest != expected[some]
    return list(zip(some[differs].tolist(), digest[differs].tolist(), strict=True))


def _expected(seen: Observations, timeline: Timeline) -> Integers:
    """Return for each observation the content of the live attempt at its version, or NO_DIGEST."""
    live = timeline.live_version
    if not len(live):
        return np.full(len(seen.position), NO_DIGEST)
    index = np.minimum(positions_among(live, seen.version, "left"), len(live) - 1)
    is_there = (live[index] == seen.version) & (timeline.live_start_ns[index] <= seen.time_ns)
    return np.where(is_there, timeline.live_digest[index], NO_DIGEST)


def _has_text(seen: Observations, expected: Integers, contents: pa.Array) -> Truths:
    """Return which observations surely have their expected content.

    A text that was seen is almost always expected to be the same content, so each text is compared with one content
    only: that takes a fifth of the time of looking up all of them.
    """
    if not len(contents):
        return np.zeros(len(expected), dtype=np.bool_)
    partner = np.full(len(seen.contents), NO_DIGEST)
    partner[seen.digest] = expected
    texts = contents.take(pa.array(np.maximum(partner, 0)))
    is_same = np.asarray(pc.equal(seen.contents, texts)) & (partner != NO_DIGEST)
    return np.asarray(is_same[seen.digest] & (partner[seen.digest] == expected))


def _complaint(timeline: Timeline, digest: int, time_ns: int, tried: list[Attempt]) -> tuple[str, int | None]:
    """Return the kind of an observation that no live attempt explains, and the event that contradicts it."""
    if not tried:
        return "unknown_version", None
    same = [attempt for attempt in tried if attempt.digest == digest]
    if not same:
        other = timeline.tried.writers.get(digest)
        return ("torn_content", tried[-1].start) if other is None else ("content_of_another_version", other)
    started = [attempt.discarded for attempt in same if attempt.start_ns <= time_ns]
    discards = [position for position in started if position is not None]
    if not discards:
        return "future_read", same[0].start
    recoveries = [position for position in discards if timeline.columns.kind[position] == RECOVERED]
    # The last recovery decides whether the read began before a power cut, which may lose what was seen.
    return ("seen_version_lost", recoveries[-1]) if recoveries else ("two_contents", discards[-1])
