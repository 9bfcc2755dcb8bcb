"""Results that a command comes to one after the other, kept in a temporary file, so that memory has one at a time."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class Spool(AbstractContextManager["Spool[T]"], Generic[T]):
    """Values in the order in which they were added, which can be gone through several times until it is closed."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        """Begin with some values."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (open until the spool is closed)
        self._count = 0
        self.extend(values)

    def append(self, value: T) -> None:
        """Add a value; nobody goes through the values meanwhile."""
        pickle.dump(value, self._file)
        self._count += 1

    def extend(self, values: Iterable[T]) -> None:
        """Add values."""
        for value in values:
            self.append(value)

    def __len__(self) -> int:
        """Return the number of values."""
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Yield all values, each a new object."""
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)

    def __exit__(self, *exception: object) -> None:
        """Remove the file."""
        self._file.close()
