"""The bound on the calls of one process in one run: one that waits for ever is ended, and its end says what it repeats.

Computation without any call is bounded too, by `line_bound.py`.
"""

from __future__ import annotations

from collections import deque

from tornproof.harness.simulator.filesystem.intercept import Call, without_numbers

CALLS_MAX = 100_000
"""How many calls a process may make in one run."""
REPEATED_CALLS_MAX = 10_000
"""How many of them, in a row, may repeat the ones before."""
LINES_MAX = 1_000_000
"""How many lines a function may run without a call of its process, on a small table."""
BYTES_OF_A_LINE = 4
"""For so many bytes of a table it may run one more; a symbol, of whose file each is read in a loop, takes more."""
STEP_BOUND = (
    f"at most {CALLS_MAX:,} calls of each process, {REPEATED_CALLS_MAX:,} if it only repeats itself, {LINES_MAX:,} "
    "lines of a function between two"
)
CLOCK_TICK_SECONDS = 0.01
"""How long a process takes to look at the clock, so that one that waits for a time without sleeping ends."""
IDLE_SECONDS = 3_600.0
"""How long it sleeps in addition when only time can help, so that a wait with a time limit ends soon."""
LIVELOCK = "livelock: "
_LATEST_COUNT = 256
_REPETITIONS_MIN = 4


class EndlessError(BaseException):
    """A process does not end; not an `Exception`, so that no implementation can catch it and go on."""


class CallCount:
    """Counts the calls of one process, and those that have only repeated the ones before."""

    __slots__ = ("_count", "_cycle_length", "_end", "_latest", "_repeated_count")

    def __init__(self) -> None:
        """Start with no call."""
        self._count = self._repeated_count = self._cycle_length = 0
        self._end = ""
        self._latest: deque[Call] = deque(maxlen=_LATEST_COUNT)

    @property
    def is_repeating(self) -> bool:
        """Whether the latest calls have only repeated the ones before."""
        return self._repeated_count > 0

    def add(self, call: Call) -> None:
        """Count a call; raises EndlessError for one too many, and for all that the process then does to clean up."""
        self._count += 1
        self._latest.append(call)
        if self._cycle_length and without_numbers(call) != without_numbers(self._latest[-1 - self._cycle_length]):
            # A crash at what it does now leaves something new.
            self._repeated_count = self._cycle_length = 0
        if self._count % _LATEST_COUNT == 0:
            self._check()
        if self._end:
            raise EndlessError(self._end)

    def lasting_seconds(self, duration_seconds: float) -> float:
        """Return how long it takes to sleep for that long: longer when only time can help."""
        return duration_seconds + IDLE_SECONDS * self.is_repeating

    def _check(self) -> None:
        latest = list(map(without_numbers, self._latest))
        lengths = range(1, len(latest) // _REPETITIONS_MIN + 1)
        self._cycle_length = next((length for length in lengths if latest[length:] == latest[:-length]), 0)
        self._repeated_count = self._repeated_count + _LATEST_COUNT if self._cycle_length else 0
        if self._repeated_count >= REPEATED_CALLS_MAX:
            self._end = self._end or f"{LIVELOCK}it only repeats: {self._in_words(self._cycle_length)}"
        elif self._count >= CALLS_MAX:
            self._end = self._end or f"it goes on after {CALLS_MAX:,} calls, now: {self._in_words(1)}"

    def _in_words(self, count: int) -> str:
        """Name the latest calls, from the smallest of them on, wherever a cycle of them was met."""
        words = [f"{call.kind} {call.path}".strip() for call in list(self._latest)[-count:]]
        return ", ".join(min(words[start:] + words[:start] for start in range(count)))
