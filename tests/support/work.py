"""How much work something is, in calls of functions and bytes: the same on a busy machine as on an idle one."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


class TooMuchWorkError(AssertionError):
    """The work was not done within its bound."""


@dataclass(slots=True)
class Work:
    """The calls that were made, of functions of Python and of C."""

    call_count: int = 0


@contextmanager
def counted_calls(call_count_max: int = 10**12) -> Iterator[Work]:
    """Count the calls of the block; TooMuchWorkError as soon as there are more than the bound."""
    work = Work()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            work.call_count += 1
            if work.call_count > call_count_max:
                sys.setprofile(None)
                raise TooMuchWorkError(f"more than {call_count_max} calls")

    sys.setprofile(note)
    try:
        yield work
    finally:
        sys.setprofile(None)
    if work.call_count > call_count_max:
        raise TooMuchWorkError(f"more than {call_count_max} calls, and the block went on")


def peak_bytes(action: Callable[[], object]) -> int:
    """Return how much memory `action` takes at most."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
