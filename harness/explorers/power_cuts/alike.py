"""Disks that are alike for all that happened on one of them: what was read there is equal on the others.

Processes are deterministic, so on a disk that is alike they do the same, and crashes leave the same to be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.persistence.legal_disks import Disk

Range: TypeAlias = tuple[str, int, int]
"""Bytes of a file: path, start, stop."""
_MOVES = frozenset({CallKind.RENAME, CallKind.LINK})
_READS = frozenset({CallKind.PREAD, CallKind.READ_MAPPED, CallKind.LOAD, CallKind.VIEW})
_WRITES = frozenset({CallKind.PWRITE, CallKind.STORE, CallKind.TRUNCATE})


class Needs(NamedTuple):
    """What decides on a disk with certain names: ranges of bytes, and which units of the written files have data.

    A crash may leave stale bytes where data is written to a unit that had none.
    """

    ranges: tuple[Range, ...]
    written: tuple[str, ...]

    def of(self, disk: Disk, unit_bytes: int) -> tuple[object, ...]:
        """Return what decides of a disk."""
        files = disk.files()
        return (
            *map(len, disk.contents),
            *(files[path][start:stop] for path, start, stop in self.ranges if path in files),
            *(
                any(files[path][start : start + unit_bytes])
                for path in self.written
                if path in files
                for start in range(0, len(files[path]), unit_bytes)
            ),
        )


class Alike:
    """Disks with the same names, each with what decides on it."""

    def __init__(self, unit_bytes: int) -> None:
        """Know none."""
        self._unit_bytes = unit_bytes
        self._known: defaultdict[Needs, set[tuple[object, ...]]] = defaultdict(set)

    def has(self, disk: Disk) -> bool:
        """Say whether a disk is alike one of them."""
        return any(needs.of(disk, self._unit_bytes) in known for needs, known in self._known.items())

    def add(self, disk: Disk, needs: Needs) -> None:
        """Add a disk."""
        self._known[needs].add(needs.of(disk, self._unit_bytes))


def needs_of(disk: Disk, calls: Iterable[Call], repeated: Iterable[Call], read: Iterable[Range]) -> Needs:
    """Return what decides on a disk: a session made these calls on it, then recoveries `repeated` some and others read.

    Ranges are found by path, so where a name was moved all bytes of all files count.
    """
    made = list(calls)
    if any(call.kind in _MOVES for call in (*made, *repeated)):
        ranges: Iterable[Range] = ((path, 0, len(content)) for path, content in disk.files().items())
    else:
        own = (
            (call.path, call.offset_bytes, call.offset_bytes + call.size_bytes) for call in made if call.kind in _READS
        )
        ranges = _merged([*own, *read])
    return Needs(tuple(ranges), tuple(sorted({call.path for call in made if call.kind in _WRITES})))


def _merged(ranges: Iterable[Range]) -> Iterable[Range]:
    """Join ranges of a file that touch."""
    path, start, stop = "", 0, 0
    for other, first, last in sorted(ranges):
        if other == path and first <= stop:
            stop = max(stop, last)
            continue
        if start < stop:
            yield path, start, stop
        path, start, stop = other, first, last
    if start < stop:
        yield path, start, stop
