"""Every observation must be the content of one attempt at its version; what is wrong with those that are not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from harness.checkers.attempts import Attempt, Writing
from harness.checkers.readings import Readings
from harness.checkers.recorded import NO_DIGEST, RECOVERED, Integers, Truths
from harness.checkers.timeline import Timeline

Positions = tuple[int, ...]
"""Of events that show an anomaly: `~position` is that of a writer's event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What was seen at which time, by a call that ran since some time; each is at the position of an event."""

    position: Integers
    version: Integers
    digest: Integers
    time_ns: Integers
    since_ns: Integers


def observed_by_readers(readings: Readings) -> Observations:
    """Return what the reads saw that succeeded."""
    columns = readings.columns
    start, end = readings.start[~readings.refused], readings.end[~readings.refused]
    return Observations(
        position=end,
        version=columns.version[end],
        digest=columns.digest[end],
        time_ns=columns.time_ns[end],
        since_ns=columns.time_ns[start],
    )


def observed_by_writer(writing: Writing) -> Observations:
    """Return the contents that recoveries found, but for the one that the history begins with."""
    columns = writing.columns
    told = np.flatnonzero((columns.kind == RECOVERED) & (columns.digest != NO_DIGEST))
    told = told[~np.isin(told, [attempt.start for attempt in writing.attempts[:1]])]
    time_ns = columns.time_ns[told]
    return Observations(
        position=~told, version=columns.version[told], digest=columns.digest[told], time_ns=time_ns, since_ns=time_ns
    )


def unexplained(seen: Observations, timeline: Timeline, *, seen_survives: bool) -> dict[str, list[Positions]]:
    """Return the observations without an explanation, by kind, each with the events that show it."""
    found: defaultdict[str, list[Positions]] = defaultdict(list)
    for index in np.flatnonzero(~_matches_live(seen, timeline)).tolist():
        at, time_ns = int(seen.position[index]), int(seen.time_ns[index])
        tried = timeline.tried.by_version.get(int(seen.version[index]), [])
        kind, witness = _complaint(timeline, int(seen.digest[index]), time_ns, tried)
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


def _matches_live(seen: Observations, timeline: Timeline) -> Truths:
    """Return which observations equal the attempt at their version that was not discarded and had started."""
    live = timeline.live_version
    if not len(live):
        return np.zeros(len(seen.position), dtype=np.bool_)
    is_dense = live[-1] - live[0] == len(live) - 1
    place = np.clip(seen.version - live[0] if is_dense else np.searchsorted(live, seen.version), 0, len(live) - 1)
    return np.asarray(
        (live[place] == seen.version)
        & (timeline.live_digest[place] == seen.digest)
        & (timeline.live_start_ns[place] <= seen.time_ns)
    )


def _complaint(timeline: Timeline, digest: int, time_ns: int, tried: list[Attempt]) -> tuple[str, int | None]:
    """Return what is wrong with an observation that no live attempt explains, and the event that contradicts it."""
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
    # The last recovery is the one that a read may have run before, where a power cut may lose what was seen.
    return ("seen_version_lost", recoveries[-1]) if recoveries else ("two_contents", discards[-1])
