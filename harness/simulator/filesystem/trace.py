"""A storage that records which bytes of which files were read."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage


class TracingStorage(InterceptedStorage):
    """The files of an image; `ranges` says what was read of a path so far."""

    def __init__(self, image: DiskImage) -> None:
        """Start with nothing read."""
        super().__init__(MemoryStorage.of(image))
        self._reads: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    def ranges(self, path: str) -> ReadRanges:
        """Return the bytes of a file that were read."""
        return ReadRanges(self._reads[path])

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Record what is read."""
        if call.kind is CallKind.PREAD:
            self._reads[call.path].add((call.offset_bytes, call.offset_bytes + call.size_bytes))
        return run()


class ReadRanges:
    """A set of bytes, merged from [start, end) ranges."""

    def __init__(self, ranges: set[tuple[int, int]]) -> None:
        """Merge the ranges."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)

    def have_any(self, start: int, end: int) -> bool:
        """Return whether any byte of a range that is not empty was read."""
        index = bisect.bisect_left(self._starts, end) - 1
        return index >= 0 and start < self._ends[index]
