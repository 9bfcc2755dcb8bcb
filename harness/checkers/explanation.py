"""Every observation must be the content of one attempt at its version; what is wrong with those that are not."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from harness.checkers.attempts import Attempt, Writing
from harness.checkers.readings import Readings
from harness.checkers.recorded import NO_DIGEST, RECOVERED, Columns, Integers

Positions = tuple[int, ...]


def unexplained(
    columns: Columns, readings: Readings, writing: Writing, *, seen_survives: bool
) -> dict[str, list[Positions]]:
    """Return the observations without an explanation, by kind, each with the events that show it.

    Observations are reads that succeeded, and recoveries but the one that the history begins with.
    """
    position, start_ns = _observations(columns, readings, writing)
    matches = _matches_live(columns, position, writing)
    found: defaultdict[str, list[Positions]] = defaultdict(list)
    attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
    writers: dict[int, int] = {}
    if not matches.all():
        for attempt in writing.attempts:
            attempts[attempt.version].append(attempt)
            writers.setdefault(attempt.digest, attempt.start)
    for at, since_ns in zip(position[~matches].tolist(), start_ns[~matches].tolist(), strict=True):
        tried = attempts.get(int(columns.version[at]), [])
        kind, witness = _complaint(columns, at, tried, writers)
        if kind == "seen_version_lost" and not seen_survives and since_ns <= columns.time_ns[witness]:
            continue
        found[kind].append((at, witness))
    return dict(found)


def _observations(columns: Columns, readings: Readings, writing: Writing) -> tuple[Integers, Integers]:
    """Return the positions of observations and since when their calls ran."""
    told = np.flatnonzero((columns.kind == RECOVERED) & (columns.digest != NO_DIGEST))
    told = told[~np.isin(told, [attempt.start for attempt in writing.attempts[:1]])]
    read = ~readings.refused
    position = np.concatenate([readings.end[read], told])
    return position, columns.time_ns[np.concatenate([readings.start[read], told])]


def _matches_live(columns: Columns, position: Integers, writing: Writing) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which observations equal the attempt at their version that was not discarded and had started."""
    live = [writing.live[version] for version in sorted(writing.live)]
    if not live:
        return np.zeros(len(position), dtype=np.bool_)
    version = np.array([attempt.version for attempt in live])
    place = np.minimum(np.searchsorted(version, columns.version[position]), len(live) - 1)
    return np.asarray(
        (version[place] == columns.version[position])
        & (np.array([attempt.digest for attempt in live])[place] == columns.digest[position])
        & (np.array([attempt.start_ns for attempt in live])[place] <= columns.time_ns[position])
    )


def _complaint(columns: Columns, at: int, tried: list[Attempt], writers: dict[int, int]) -> tuple[str, int]:
    """Return what is wrong with an observation that no live attempt explains, and the event that contradicts it."""
    if not tried:
        return "unknown_version", at
    digest = int(columns.digest[at])
    same = [attempt for attempt in tried if attempt.digest == digest]
    if not same:
        other = writers.get(digest)
        return ("torn_content", tried[-1].start) if other is None else ("content_of_another_version", other)
    started = [attempt.discarded for attempt in same if attempt.start_ns <= columns.time_ns[at]]
    discards = [position for position in started if position is not None]
    if not discards:
        return "future_read", same[0].start
    recoveries = [position for position in discards if columns.kind[position] == RECOVERED]
    # The last recovery is the one that a read may have run before, where a power cut may lose what was seen.
    return ("seen_version_lost", recoveries[-1]) if recoveries else ("two_contents", discards[-1])
