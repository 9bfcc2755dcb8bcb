"""Runs one input after another under limits, and remembers what went wrong: who watches from outside reads it here.

A bug is any error but a TornproofError, more than a second of CPU time, or memory that grew by more than 300 MB.
"""

import mmap
import os
import re
import resource
import signal
import struct
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tornproof.impl.errors import TornproofError

CPU_SECONDS_MAX = 1.0
MEMORY_GROWTH_MAX_BYTES = 300_000_000
# Above what counts as a bug, and far below what would take the machine down.
ADDRESS_SPACE_ROOM_BYTES = 4 << 30
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
INPUT_MAX_BYTES = 1 << 20
STATE = struct.Struct("<QQdQ")
EXIT_MEMORY = 99
ROOT = Path(__file__).parents[2]
_PEAK = re.compile(rb"VmHWM:\s+(\d+) kB")
# Opened once, because it is read after every input.
_STATUS = os.open("/proc/self/status", os.O_RDONLY) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Bug:
    """What an input did: `kind` and `location` identify a bug, `report` is the traceback."""

    kind: str
    location: str
    report: str
    content: bytes

    @property
    def name(self) -> str:
        """The name of the file for the input; the same bug has the same name."""
        return f"{self.kind}-{self.location}"


@dataclass(frozen=True, slots=True)
class State:
    """How far a process got; `content` is the input that it was at last at."""

    input_count: int
    slowest_seconds: float
    peak_growth_bytes: int
    content: bytes


class Board:
    """A file in which a process keeps its state, so that it can be read once the process was killed."""

    def __init__(self, path: Path) -> None:
        """Make the file."""
        path.write_bytes(bytes(STATE.size + INPUT_MAX_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def put(self, content: bytes) -> None:
        """Note the input that comes now."""
        self._memory[STATE.size : STATE.size + len(content)] = content

    def count(self, length: int, input_count: int, slowest_seconds: float, peak_growth_bytes: int) -> None:
        """Note the rest; `length` is that of the input."""
        STATE.pack_into(self._memory, 0, length, input_count, slowest_seconds, peak_growth_bytes)

    @staticmethod
    def read(path: Path) -> State:
        """Return the contents of the file; nothing if a process died before creating it."""
        raw = path.read_bytes() if path.exists() else bytes(STATE.size)
        length, input_count, slowest_seconds, peak_growth_bytes = STATE.unpack_from(raw)
        return State(input_count, slowest_seconds, peak_growth_bytes, raw[STATE.size : STATE.size + length])


class Watch:
    """A target under limits; whoever calls it decides by the handler of SIGPROF what ends an input that hangs."""

    def __init__(
        self, target: Callable[[bytes], None], report: Callable[[Bug], None], board: Board | None = None
    ) -> None:
        """Watch a target; each bug is passed to `report`."""
        self._target = target
        self._report = report
        self._board = board
        self._start_bytes = peak_memory_bytes()
        self.input_count = 0
        self.slowest_seconds = 0.0
        self.peak_growth_bytes = 0

    def __call__(self, content: bytes) -> None:
        """Run the target on one input."""
        content = content[:INPUT_MAX_BYTES]
        if self._board is not None:
            self._board.put(content)
            self._note(len(content))
        begin_seconds = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
        try:
            self._target(content)
        except TornproofError:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._report(bug_of(error, content))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.input_count += 1
        self.slowest_seconds = max(self.slowest_seconds, time.process_time() - begin_seconds)
        was_spent = self.is_spent
        self.peak_growth_bytes = peak_memory_bytes() - self._start_bytes
        if self._board is not None:
            self._note(len(content))
        if self.is_spent and not was_spent:
            report = f"memory grew by {self.peak_growth_bytes // 1_000_000} MB"
            self._report(Bug("memory", _digest(content), report, content))

    @property
    def is_spent(self) -> bool:
        """Whether the peak of memory was a bug: the process cannot notice another one."""
        return self.peak_growth_bytes > MEMORY_GROWTH_MAX_BYTES

    def _note(self, length: int) -> None:
        assert self._board is not None
        self._board.count(length, self.input_count, self.slowest_seconds, self.peak_growth_bytes)


class TooSlowError(BaseException):
    """An input took its second of CPU time; not an Exception, so that no handler in between takes it for one."""


def raise_when_slow() -> None:
    """End an input that hangs in Python code by TooSlowError, whose traceback shows where."""

    def end(signal_number: int, frame: object) -> None:
        raise TooSlowError(f"more than {CPU_SECONDS_MAX:g} s of CPU time")

    signal.signal(signal.SIGPROF, end)


def limit_memory() -> None:
    """Keep the process from taking the machine's memory; a request beyond that raises MemoryError."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        used_bytes = int(statm.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + ADDRESS_SPACE_ROOM_BYTES, hard))


def peak_memory_bytes() -> int:
    """Return the most memory that this process has ever had resident."""
    # On Linux the peak in getrusage begins with that of the process that started this one.
    if _STATUS is not None and (found := _PEAK.search(os.pread(_STATUS, 4096, 0))):
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES


def bug_of(error: BaseException, content: bytes) -> Bug:
    """Return the bug for an error, located by the innermost frame that is not the fuzzer's."""
    kind = "hang" if isinstance(error, TooSlowError) else type(error).__name__
    report = "".join(traceback.format_exception(error))
    return Bug(kind, _location(error.__traceback__), report, content)


def hang(content: bytes) -> Bug:
    """Return the bug of a process that was killed for its CPU time, at an unknown location."""
    return Bug("hang", _digest(content), f"more than {CPU_SECONDS_MAX:g} s of CPU time", content)


def crash(content: bytes, code: int) -> Bug:
    """Return the bug of a process that died in another way."""
    return Bug("crash", _digest(content), f"the process ended with {code}", content)


def _location(trace: TracebackType | None) -> str:
    """Return the innermost frame of a traceback in the project, or else in a target; libraries are skipped."""
    frames = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(trace)]
    in_checkout = [
        (path, line)
        for path, line in frames
        if path.is_relative_to(ROOT) and "site-packages" not in path.parts and path != Path(__file__)
    ]
    in_project = [(path, line) for path, line in in_checkout if not path.is_relative_to(ROOT / "tests")]
    path, line = (in_project or in_checkout or [(Path("nowhere"), 0)])[-1]
    return f"{path.stem}_{line}"


def _digest(content: bytes) -> str:
    return f"{zlib.crc32(content):08x}"
