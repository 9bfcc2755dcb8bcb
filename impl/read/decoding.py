"""Where decoding runs: synchronously, as the simulator needs it, or in threads beside the one that reads files."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
AHEAD_OF_EACH_THREAD = 2
AHEAD_BYTES_MAX = 32 << 20
SMALL_BYTES = 16 << 10
"""Work on less takes about as long as handing it to a thread; it is done when its result is due."""
# Once glibc's malloc has freed a block of this size, it keeps smaller freed blocks instead of requesting zeroed pages
# from the system each time; other allocators do not suffer. Its limit is 32 MiB, the block's header included.
LARGEST_KEPT_BYTES = (32 << 20) - (8 << 10)


class Start(Protocol):
    """Starts a piece of work; returns the function that waits for its result, or raises what it raised."""

    def __call__(self, work: Callable[[], T], /) -> Callable[[], T]:
        """Start the work."""


class Decoding(msgspec.Struct, frozen=True, kw_only=True):
    """How work is started, and how many pieces may be in progress while others are fetched."""

    start: Start
    ahead_count: int


class InOrder(msgspec.Struct, Generic[T]):
    """Results in the order in which work was started, with limited pieces and bytes of input in progress."""

    decoding: Decoding
    _under_way: deque[tuple[int, Callable[[], T]]] = msgspec.field(default_factory=deque)
    _input_bytes: int = 0

    def begin(self, work: Callable[[], T], input_bytes: int) -> None:
        """Start a piece of work that holds `input_bytes`."""
        result = work if self.decoding.ahead_count and input_bytes < SMALL_BYTES else self.decoding.start(work)
        self._under_way.append((input_bytes, result))
        self._input_bytes += input_bytes

    def due(self) -> Iterator[T]:
        """Yield results, waiting for them, until another piece may be started."""
        while len(self._under_way) > self.decoding.ahead_count or self._input_bytes > AHEAD_BYTES_MAX:
            yield self._next()

    def rest(self) -> Iterator[T]:
        """Yield all other results."""
        while self._under_way:
            yield self._next()

    def _next(self) -> T:
        input_bytes, result = self._under_way.popleft()
        self._input_bytes -= input_bytes
        return result()


def _synchronous(work: Callable[[], T]) -> Callable[[], T]:
    result = work()
    return lambda: result


SYNCHRONOUS = Decoding(start=_synchronous, ahead_count=0)


@contextmanager
def by_threads() -> Iterator[Decoding]:
    """Work in as many threads as this process may use cores; pyarrow and checksums run in parallel in them.

    When the `with` block ends, started work has finished, and other work is cancelled.
    """
    futures: set[Future[Any]] = set()

    def start(work: Callable[[], T]) -> Callable[[], T]:
        future = _pool().submit(work)
        futures.add(future)
        future.add_done_callback(futures.discard)
        return future.result

    try:
        yield Decoding(start=start, ahead_count=AHEAD_OF_EACH_THREAD * _thread_count())
    finally:
        for future in [future for future in tuple(futures) if not future.cancel()]:
            future.exception()


def _thread_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Return this process's threads, which are kept because memory cached by the allocator is per thread."""
    # Imported here: a small table is read without threads, sooner than this is imported.
    from concurrent.futures import ThreadPoolExecutor

    bytes(LARGEST_KEPT_BYTES)
    return ThreadPoolExecutor(_thread_count(), thread_name_prefix="decoding")


if hasattr(os, "register_at_fork"):
    # A forked process has the pool but none of its threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)
