"""Which bytes of a disk a run has read or written, so that reading them again tells nothing new."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel

_END = 1 << 63


class Read(NamedTuple):
    """The first read of a range of a file of the disk, or with `stop` 0 of its size; `file_index` counts its files."""

    file_index: int
    start: int
    stop: int

    def of(self, contents: tuple[bytes, ...]) -> bytes | int:
        """Return what it reads."""
        content = contents[self.file_index]
        return content[self.start : self.stop] if self.stop else len(content)


class Known:
    """What one run knows of the files of the disk; `file_indices` gives the index of each by its number."""

    def __init__(self, file_indices: dict[int, int], kernel: Kernel) -> None:
        """Know nothing."""
        self.reads: list[Read] = []
        self._file_indices = file_indices
        self._kernel = kernel
        self._sizes = [len(kernel.files[number].content) for number in file_indices]
        self._is_sized = [False] * len(file_indices)
        # Of each file's known ranges, which do not touch, in order.
        self._starts: list[list[int]] = [[] for _ in file_indices]
        self._stops: list[list[int]] = [[] for _ in file_indices]

    def read(self, call: Call, session: int) -> None:
        """Note a read of the range of a call."""
        file_index = self._index_of(call, session)
        if file_index is not None:
            self._read(file_index, call.offset_bytes, call.offset_bytes + call.size_bytes)

    def read_whole(self, file: int) -> None:
        """Note a read of all of a file, by its number."""
        file_index = self._file_indices.get(file)
        if file_index is not None:
            self._size(file_index)
            self._read(file_index, 0, _END)

    def size(self, call: Call, session: int) -> None:
        """Note a read of a file's size."""
        file_index = self._index_of(call, session)
        if file_index is not None:
            self._size(file_index)

    def write(self, call: Call, session: int, *, is_compared: bool) -> bool:
        """Note a write, and return whether it changes nothing; with `is_compared` it reads the old bytes."""
        file = self._kernel.file_of(session, call)
        if file is None:
            return True
        file_index, is_truncation = self._file_indices.get(file), call.kind is CallKind.TRUNCATE
        start = call.size_bytes if is_truncation else call.offset_bytes
        stop = _END if is_truncation else start + len(call.content)
        if file_index is not None:
            # Whether it makes the file longer depends on the size.
            self._size(file_index)
            if is_compared:
                # What is cut off may be written again as it was.
                self._read(file_index, start, stop)
            self._add(file_index, start, stop)
        content = self._kernel.files[file].content
        return len(content) == call.size_bytes if is_truncation else content[start:stop] == call.content

    def _index_of(self, call: Call, session: int) -> int | None:
        file = self._kernel.file_of(session, call)
        return None if file is None else self._file_indices.get(file)

    def _size(self, file_index: int) -> None:
        if not self._is_sized[file_index]:
            self._is_sized[file_index] = True
            self.reads.append(Read(file_index, 0, 0))
            self._add(file_index, self._sizes[file_index], _END)

    def _read(self, file_index: int, first: int, stop: int) -> None:
        start, starts, stops = first, self._starts[file_index], self._stops[file_index]
        for number in range(bisect_right(stops, start), bisect_left(starts, stop)):
            if start < starts[number]:
                self.reads.append(Read(file_index, start, starts[number]))
            start = stops[number]
        if start < stop:
            self.reads.append(Read(file_index, start, stop))
        self._add(file_index, first, stop)

    def _add(self, file_index: int, start: int, stop: int) -> None:
        """Merge a range with those that it touches."""
        if start >= stop:
            return
        starts, stops = self._starts[file_index], self._stops[file_index]
        first, end = bisect_left(stops, start), bisect_right(starts, stop)
        if first < end:
            start, stop = min(start, starts[first]), max(stop, stops[end - 1])
        starts[first:end] = [start]
        stops[first:end] = [stop]
