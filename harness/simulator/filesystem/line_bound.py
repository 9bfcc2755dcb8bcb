"""The bound on computation between two calls: a function that loops without any is ended, and its end says where.

A timer looks at what runs after each second of CPU time, and ends nothing by itself. Where it meets the same operation
twice, the lines of each function in it are counted from then on, until a call is made or the operation returns, so that
only the count decides.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, TypeAlias

from tornproof.harness.simulator.filesystem.step_bound import BYTES_OF_A_LINE, LINES_MAX, EndlessError

LOOK_SECONDS = 1.0
LINES_MAX_AGAIN = 50_000
"""The bound for a function that was ended before in this process, so that many runs of it take little time."""
LOOK_AGAIN_SECONDS = 0.05
"""How often such a function is looked for."""
LOOP_LINES = 10_000
"""So many of the last lines show where it loops."""
_SYSTEM = ("tornproof.harness.simulator.", "tornproof.impl.storage.operating_system")
"""Calls of these modules are calls to the operating system."""
_OURS = ("tornproof.harness.", "tornproof.model.", "hypothesis.")
"""What tests, and is not under test; the implementation is, wherever it is called from."""
_IMPLEMENTATION = "tornproof.impl."

_Tracer: TypeAlias = Callable[[FrameType, str, Any], Any]


@contextmanager
def bounded_computation(size_bytes: int = 0) -> Iterator[None]:
    """Raise EndlessError in functions that loop without a call, while the block runs, in the main thread.

    What works on a table of so many bytes may run more lines.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or isinstance(signal.getsignal(signal.SIGVTALRM), _Looker):
        yield
        return
    # Those that wait for the block are the context manager, and what calls us: nothing of it is under test.
    looker = _Looker(LINES_MAX + size_bytes // BYTES_OF_A_LINE, sys._getframe(2))
    before = signal.signal(signal.SIGVTALRM, looker)
    signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        looker.counting.end()


class _Looker:
    """The handler of the timer's signal."""

    def __init__(self, lines_max: int, caller: FrameType) -> None:
        self._ended: set[CodeType] = set()
        self._caller = caller
        self.counting = _Counting(self._ended, lines_max)
        self._seconds = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Count the lines of an operation that was at work at the look before, unless something is traced already."""
        if sys.gettrace() is not None:
            return
        found = list(_under_test(frame, self._caller))
        if self._ended and not any(each.f_code in self._ended for each in found):
            self._seconds += LOOK_AGAIN_SECONDS
            if self._seconds < LOOK_SECONDS:
                return
        self._seconds = 0.0
        if found and found[-1].f_trace is _was_met:
            self.counting.begin(found)
        elif found:
            # Nothing is traced by this: it stays with the frame as long as that lives.
            found[-1].f_trace = _was_met


class _Counting:
    """Counts lines from one look on, until nothing is left to count; then it can begin anew."""

    def __init__(self, ended: set[CodeType], lines_max: int) -> None:
        self._ended = ended
        self._lines_max = lines_max
        self._begun = 0
        self._is_system: dict[CodeType, bool] = {}
        self._outermost: FrameType | None = None

    def begin(self, frames: list[FrameType]) -> None:
        """Count the lines of these functions, the innermost first, and of all that they call."""
        self._begun += 1
        self._outermost = frames[-1]
        for frame in frames:
            frame.f_trace = self._counter(frame.f_code)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, argument: object) -> _Tracer | None:
        code = frame.f_code
        if code not in self._is_system:
            # This module is called by the timer, also while lines are counted.
            self._is_system[code] = _module(frame).startswith(_SYSTEM) and _module(frame) != __name__
        if self._is_system[code]:
            self.end()
            return None
        if frame.f_trace not in (None, _was_met):
            # A generator is called again for each of its values, and goes on counting.
            return frame.f_trace
        return None if _module(frame).startswith(_OURS) else self._counter(code)

    def _counter(self, code: CodeType) -> _Tracer:
        begun = count = first = last = 0
        lines_max = LINES_MAX_AGAIN if code in self._ended else self._lines_max

        def counted(frame: FrameType, event: str, argument: object) -> _Tracer:
            nonlocal begun, count, first, last
            if begun != self._begun:
                begun, count, first, last = self._begun, 0, sys.maxsize, 0
            if event == "line":
                count += 1
                if count > lines_max - LOOP_LINES:
                    first, last = min(first, frame.f_lineno), max(last, frame.f_lineno)
                    if count > lines_max:
                        self._convict(frame, first, last)
            elif event == "return" and frame is self._outermost and not code.co_flags & CO_GENERATOR:
                self.end()
            return counted

        return counted

    def _convict(self, frame: FrameType, first: int, last: int) -> None:
        self.end()
        self._ended.add(frame.f_code)
        signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
        lines = f"line {first}" if first == last else f"lines {first} to {last}"
        raise EndlessError(
            f"it computes without end and without a call in {frame.f_code.co_qualname}, {lines} of {_module(frame)}"
        )

    def end(self) -> None:
        """Count no more."""
        if self._outermost is not None:
            self._outermost = None
            sys.settrace(None)


def _was_met(frame: FrameType, event: str, argument: object) -> None:
    """Mark a frame."""


def _under_test(frame: FrameType | None, caller: FrameType) -> Iterator[FrameType]:
    """Yield what runs of the implementation, and of another system what was called last, the innermost first.

    What is beneath the `caller` of the block is a pool of processes, or what runs the tests.
    """
    has_begun = has_ended = False
    while frame is not None and frame is not caller:
        name = _module(frame)
        if name.startswith(_SYSTEM):
            return
        is_ours = name.startswith(_OURS)
        has_ended |= has_begun and is_ours
        has_begun |= not is_ours
        if name.startswith(_IMPLEMENTATION) or not (is_ours or has_ended):
            yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
