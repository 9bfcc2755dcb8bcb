"""Where pure work is done: at once, as the simulator needs it, or by threads beside the one that reads the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")
AHEAD_OF_EACH_THREAD = 2


class Start(Protocol):
    """Begins a piece of work and returns the function that waits for its result, or raises what it raised."""

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Begin it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How work is started, and how many pieces may be under way while others are fetched."""

    start: Start
    ahead_count: int


def _at_once(work: Callable[[], T]) -> Callable[[], T]:
    result = work()
    return lambda: result


AT_ONCE = Decoding(start=_at_once, ahead_count=0)


@contextmanager
def by_threads() -> Iterator[Decoding]:
    """Work in as many threads as this process may use cores; pyarrow and checksums run side by side in them."""
    thread_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(thread_count) as pool:

        def start(work: Callable[[], T]) -> Callable[[], T]:
            return pool.submit(work).result

        try:
            yield Decoding(start=start, ahead_count=AHEAD_OF_EACH_THREAD * thread_count)
        finally:
            pool.shutdown(cancel_futures=True)
