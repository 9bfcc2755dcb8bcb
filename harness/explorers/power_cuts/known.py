"""Which bytes of a disk a run has looked at or written, so that what it does next does not depend on them again."""

from __future__ import annotations

from typing import NamedTuple

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel

_END = 1 << 63


class Read(NamedTuple):
    """A range of a file of the disk that somebody looks at for the first time, or with `stop` 0 its size."""

    place: int
    start: int
    stop: int

    def of(self, contents: tuple[bytes, ...]) -> bytes | int:
        """Return what is there."""
        content = contents[self.place]
        return content[self.start : self.stop] if self.stop else len(content)


class Known:
    """What one run knows of the files that were there when it began; `places` are theirs by number."""

    def __init__(self, places: dict[int, int], kernel: Kernel) -> None:
        """Know nothing."""
        self.reads: list[Read] = []
        self._places = places
        self._kernel = kernel
        self._sizes = [len(kernel.files[number].content) for number in places]
        self._is_sized = [False] * len(places)
        self._ranges: list[list[tuple[int, int]]] = [[] for _ in places]

    def read(self, call: Call, life: int) -> None:
        """Look at the range of a call."""
        place = self._place(call, life)
        if place is not None:
            self._read(place, call.offset_bytes, call.offset_bytes + call.size_bytes)

    def size(self, call: Call, life: int) -> None:
        """Look at a file's size."""
        place = self._place(call, life)
        if place is not None:
            self._size(place)

    def write(self, call: Call, life: int, *, is_compared: bool) -> bool:
        """Overwrite, and say whether that changes nothing; with `is_compared` the old bytes are looked at for that."""
        file = self._kernel.file_of(life, call)
        if file is None:
            return True
        place, start = self._places.get(file), call.offset_bytes
        stop = start + len(call.content)
        is_truncation = call.kind is CallKind.TRUNCATE
        if place is not None:
            # Whether it makes the file longer depends on the size.
            self._size(place)
            if is_compared and not is_truncation:
                self._read(place, start, stop)
            self._add(place, *((call.size_bytes, _END) if is_truncation else (start, stop)))
        content = self._kernel.files[file].content
        return len(content) == call.size_bytes if is_truncation else content[start:stop] == call.content

    def _place(self, call: Call, life: int) -> int | None:
        file = self._kernel.file_of(life, call)
        return None if file is None else self._places.get(file)

    def _size(self, place: int) -> None:
        if not self._is_sized[place]:
            self._is_sized[place] = True
            self.reads.append(Read(place, 0, 0))
            self._add(place, self._sizes[place], _END)

    def _read(self, place: int, first: int, stop: int) -> None:
        start = first
        for known_start, known_stop in self._ranges[place]:
            if known_stop <= start:
                continue
            if known_start >= stop:
                break
            if start < known_start:
                self.reads.append(Read(place, start, known_start))
            start = known_stop
        if start < stop:
            self.reads.append(Read(place, start, stop))
        self._add(place, first, stop)

    def _add(self, place: int, start: int, stop: int) -> None:
        """Join a range with those that it touches; they stay in order."""
        if start >= stop:
            return
        apart = []
        for other in self._ranges[place]:
            if other[1] < start or stop < other[0]:
                apart.append(other)
            else:
                start, stop = min(start, other[0]), max(stop, other[1])
        self._ranges[place] = sorted([*apart, (start, stop)])
