"""Toys with a model: controls of what the model alone can tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tornproof.harness.common.system import Specification
from tornproof.harness.systems.toy import Toy
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.model.rows import Change, Content, Interval, Row, after


class Letters(Specification):
    """The letters of a state as rows of one partition, at the times 0, 1, 2 and so on; a toy counts no versions."""

    def content(self, files: ReadableStorage, path: str) -> Content:
        """Return the letters of the state."""
        with files.open_for_reading(f"{path}/state") as file:
            rows = tuple(_rows(0, file.pread(file.size_bytes(), 0)))
        return Content(version=0, partitions=((0, rows),), interval=Interval.YEAR, ticks=1)

    def after(self, before: Content, operation: bytes) -> Content:
        """Return the letters with those of a commit behind them."""
        ((_, rows),) = before.partitions
        content = after(before, Change(rows=tuple(_rows(len(rows), operation))))
        assert content is not None, "letters have no keys"
        return replace(content, version=0)


def _rows(start: int, letters: bytes) -> Iterator[Row]:
    return (Row(time, None, letter) for time, letter in enumerate(letters, start=start))


class Specified(Toy):
    """Sound, as the model of its letters says."""

    name = "specified"

    def specification(self, files: ReadableStorage, path: str) -> Letters:
        """Return the model of the letters."""
        return Letters()


class LosesALetter(Specified):
    """Broken: writes all letters of a commit but the last, so that all readers agree on what is wrong.

    With `only`, this befalls one operation alone.
    """

    def __init__(self, only: bytes | None = None) -> None:
        """Name what is lost."""
        self.name = "loses a letter" if only is None else f"loses a letter of {only.decode()!r}"
        self._only = only

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add the letters but the last."""
        super().commit(storage, path, operation[:-1] if self._only in (None, operation) else operation)
