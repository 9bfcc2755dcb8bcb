"""A storage that records which bytes of which files were read."""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import Self

from tornproof.impl.storage.interface import EntryKind, ReadableFile, ReadableStorage


class TracingStorage:
    """A ReadableStorage over another one; `ranges` says what was read of a path so far."""

    def __init__(self, inner: ReadableStorage) -> None:
        """Start with nothing read."""
        self._inner = inner
        self._reads: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)

    def ranges(self, path: str) -> ReadRanges:
        """Return the bytes of a file that were read."""
        return ReadRanges(self._reads[path])

    def open_for_reading(self, path: str) -> ReadableFile:
        """Open a file whose reads are recorded."""
        return _TracedFile(self._inner.open_for_reading(path), self._reads[path])

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory."""
        return self._inner.listdir(path)

    def kind(self, path: str) -> EntryKind:
        """Return the kind of the entry at a path."""
        return self._inner.kind(path)

    def own_kind(self, path: str) -> EntryKind:
        """Return the kind of the entry itself."""
        return self._inner.own_kind(path)

    def load_fence(self) -> None:
        """Order the inner storage's loads."""
        self._inner.load_fence()

    def monotonic_seconds(self) -> float:
        """Return the inner storage's time."""
        return self._inner.monotonic_seconds()

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Let the inner storage's time pass."""
        self._inner.sleep_seconds(duration_seconds)


class ReadRanges:
    """A set of bytes, merged from [start, end) ranges."""

    def __init__(self, ranges: set[tuple[int, int]]) -> None:
        """Merge the ranges."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, offset_bytes: int) -> bool:
        """Return whether the byte was read."""
        index = bisect.bisect_right(self._starts, offset_bytes) - 1
        return index >= 0 and offset_bytes < self._ends[index]


class _TracedFile:
    def __init__(self, inner: ReadableFile, reads: set[tuple[int, int]]) -> None:
        self._inner = inner
        self._reads = reads

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        self._reads.add((offset_bytes, offset_bytes + size_bytes))
        return self._inner.pread(size_bytes, offset_bytes)

    def size_bytes(self) -> int:
        return self._inner.size_bytes()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
