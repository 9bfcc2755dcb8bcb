"""Comparisons: two pieces of work run alternately, their medians, and a goal for the ratio."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

ROUNDS = 9
ROUND_SECONDS = 0.01

Work: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison: the median of each side's rounds, in milliseconds, and how many times as fast ours is."""

    what: str
    peer: str
    ours_ms: float
    peer_ms: float
    rounds: int
    goal: float | None = None

    @property
    def times_as_fast(self) -> float:
        return self.peer_ms / self.ours_ms

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.times_as_fast >= self.goal


def compare(
    what: str,
    ours: Work,
    peer_name: str,
    peer: Work,
    *,
    goal: float | None = None,
    rounds: int = ROUNDS,
    round_seconds: float = ROUND_SECONDS,
) -> Row:
    """Run both alternately, once to warm up and then `rounds` times.

    A round repeats the work until it lasts at least `round_seconds`. As in `timeit`, garbage is not collected during a
    round, so that garbage of other comparisons does not count.
    """
    times: dict[Work, list[float]] = {ours: [], peer: []}
    repetitions = {work: max(1, int(round_seconds / _seconds(work, 1))) for work in (ours, peer)}
    for work in itertools.chain.from_iterable([(ours, peer)] * rounds):
        times[work].append(_seconds(work, repetitions[work]))
    return Row(
        what=what,
        peer=peer_name,
        ours_ms=statistics.median(times[ours]) * 1e3,
        peer_ms=statistics.median(times[peer]) * 1e3,
        rounds=rounds,
        goal=goal,
    )


def _seconds(work: Work, repetitions: int) -> float:
    """Return the average seconds of one repetition."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(repetitions):
            work()
        return (time.perf_counter() - start) / repetitions
    finally:
        gc.enable()
