"""Which bytes of a disk a run has looked at or written, so that what it does next does not depend on them again."""

from __future__ import annotations

from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel

_END = 1 << 63


class Read(NamedTuple):
    """A range of a file of the disk that somebody looks at for the first time, or with `stop` 0 its size."""

    position: int
    start: int
    stop: int

    def of(self, contents: tuple[bytes, ...]) -> bytes | int:
        """Return what is there."""
        content = contents[self.position]
        return content[self.start : self.stop] if self.stop else len(content)


class Known:
    """What one run knows of the files that were there when it began; `places` are theirs by number."""

    def __init__(self, positions: dict[int, int], kernel: Kernel) -> None:
        """Know nothing."""
        self.reads: list[Read] = []
        self._positions = positions
        self._kernel = kernel
        self._sizes = [len(kernel.files[number].content) for number in positions]
        self._is_sized = [False] * len(positions)
        self._ranges: list[list[tuple[int, int]]] = [[] for _ in positions]

    def read(self, call: Call, session: int) -> None:
        """Look at the range of a call."""
        position = self._position(call, session)
        if position is not None:
            self._read(position, call.offset_bytes, call.offset_bytes + call.size_bytes)

    def size(self, call: Call, session: int) -> None:
        """Look at a file's size."""
        position = self._position(call, session)
        if position is not None:
            self._size(position)

    def write(self, call: Call, session: int, *, is_compared: bool) -> bool:
        """Overwrite, and say whether that changes nothing; with `is_compared` the old bytes are looked at for that."""
        file = self._kernel.file_of(session, call)
        if file is None:
            return True
        position, start = self._positions.get(file), call.offset_bytes
        stop = start + len(call.content)
        is_truncation = call.kind is CallKind.TRUNCATE
        if position is not None:
            # Whether it makes the file longer depends on the size.
            self._size(position)
            if is_compared and not is_truncation:
                self._read(position, start, stop)
            self._add(position, *((call.size_bytes, _END) if is_truncation else (start, stop)))
        content = self._kernel.files[file].content
        return len(content) == call.size_bytes if is_truncation else content[start:stop] == call.content

    def _position(self, call: Call, session: int) -> int | None:
        file = self._kernel.file_of(session, call)
        return None if file is None else self._positions.get(file)

    def _size(self, position: int) -> None:
        if not self._is_sized[position]:
            self._is_sized[position] = True
            self.reads.append(Read(position, 0, 0))
            self._add(position, self._sizes[position], _END)

    def _read(self, position: int, first: int, stop: int) -> None:
        start = first
        for known_start, known_stop in self._ranges[position]:
            if known_stop <= start:
                continue
            if known_start >= stop:
                break
            if start < known_start:
                self.reads.append(Read(position, start, known_start))
            start = known_stop
        if start < stop:
            self.reads.append(Read(position, start, stop))
        self._add(position, first, stop)

    def _add(self, position: int, start: int, stop: int) -> None:
        """Join a range with those that it touches; they stay in order."""
        if start >= stop:
            return
        apart = []
        for other in self._ranges[position]:
            if other[1] < start or stop < other[0]:
                apart.append(other)
            else:
                start, stop = min(start, other[0]), max(stop, other[1])
        self._ranges[position] = sorted([*apart, (start, stop)])
