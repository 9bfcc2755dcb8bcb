"""Toys with a version and two words that must match, for explorers of schedules: a sound one and broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tornproof.harness.common.system import Target
from tornproof.impl.storage.interface import File, OpenMode, Storage

WORD_BYTES = 8
AREA_BYTES = 2 * WORD_BYTES
FILE_BYTES = WORD_BYTES + 2 * AREA_BYTES
MASK = (1 << 64) - 1


class Record(Target):
    """A version and two areas, one of them current: a commit writes the other, and readers read the version twice."""

    name = "record"

    def create(self, storage: Storage, path: str) -> None:
        """Write version 0 of zeros."""
        with storage.open_for_writing(path, OpenMode.NEW) as file:
            file.pwrite(bytes(FILE_BYTES), 0)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[RecordWriter]:
        """Open the file."""
        with storage.open_for_writing(path) as file:
            yield RecordWriter(self, file)

    def read(self, storage: Storage, path: str) -> tuple[int, int]:
        """Return the two words of a version that did not change meanwhile."""
        with storage.open_for_reading(path) as file:
            while True:
                version = load(file, 0)
                start = self.area_of(version)
                words = load(file, start), load(file, start + WORD_BYTES)
                if self.is_still(file, version):
                    return words

    def area_of(self, version: int) -> int:
        """Return the offset of a version's words."""
        return WORD_BYTES + version % 2 * AREA_BYTES

    def is_still(self, file: File, version: int) -> bool:
        """Read the version again."""
        return load(file, 0) == version

    def commit(self, file: File, operation: int) -> None:
        """Store a number and its complement, and then the version."""
        version = load(file, 0) + 1
        start = self.area_of(version)
        store(file, start, operation)
        store(file, start + WORD_BYTES, operation ^ MASK)
        store(file, 0, version)
        file.fdatasync()


class RecordWriter:
    """A writer that keeps nothing in memory."""

    def __init__(self, target: Record, file: File) -> None:
        """Commit to an open file."""
        self._target = target
        self._file = file

    def commit(self, operation: int) -> None:
        """Replace the words."""
        self._target.commit(self._file, operation)


class InPlace(Record):
    """Broken: all versions have the same area."""

    name = "in place"

    def area_of(self, version: int) -> int:
        """Return the offset of the only area."""
        return WORD_BYTES


class LooksOnce(Record):
    """Broken: does not read the version again, so that two commits during one read go unnoticed."""

    name = "looks once"

    def is_still(self, file: File, version: int) -> bool:
        """Trust the first read."""
        return True


def load(file: File, offset_bytes: int) -> int:
    """Read a word in one step."""
    return int.from_bytes(file.pread(WORD_BYTES, offset_bytes), "little")


def store(file: File, offset_bytes: int, value: int) -> None:
    """Write a word in one step."""
    file.pwrite(value.to_bytes(WORD_BYTES, "little"), offset_bytes)
