"""Compares what commits of a target leave without any fault with what the model has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.model.rows import Content, Rows

SHOWN_MAX = 3


class ModelCheck:
    """The model's content after any sequence of `operations`, named by their numbers, from the start on."""

    def __init__(self, target: Target, operations: Sequence[Any], start: ReadableStorage, path: str) -> None:
        """Take the content of the start as it is; raises what reading it raises."""
        self._operations = operations
        self._path = path
        self._specification = target.specification(start, path)
        self._contents: dict[tuple[int, ...], Content | None] = {}
        if self._specification is not None:
            self._contents[()] = self._specification.content(start, path)

    def difference(self, committed: tuple[int, ...], files: ReadableStorage) -> str:
        """Say how files differ from what these commits must leave; "" where they do not, or no model says it.

        Raises what reading the files raises.
        """
        if self._specification is None:
            return ""
        expected = self._content(committed)
        return "" if expected is None else difference(expected, self._specification.content(files, self._path))

    def _content(self, committed: tuple[int, ...]) -> Content | None:
        assert self._specification is not None
        if committed not in self._contents:
            before = self._content(committed[:-1])
            operation = self._operations[committed[-1]]
            self._contents[committed] = None if before is None else self._specification.after(before, operation)
        return self._contents[committed]


def difference(expected: Content, found: Content) -> str:
    """Say in words what was found instead, "" if nothing else; the words before ": expected" name no values."""
    if found.version != expected.version:
        return f"the number of the version is wrong: expected {expected.version}, found {found.version}"
    right, there = dict(expected.partitions), dict(found.partitions)
    if list(there) != list(right):
        return f"the partitions are wrong: expected those that start at {list(right)}, found {list(there)}"
    for start, rows in right.items():
        if there[start] != rows:
            return f"the rows of a partition are wrong: expected {_difference_of_rows(start, rows, there[start])}"
    return ""


def _difference_of_rows(start: int, expected: Rows, found: Rows) -> str:
    counts = f"{len(expected)} rows in the partition that starts at {start}, found {len(found)}"
    missing, added = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    words = [
        f"{word} {[row.values for row in list(rows.elements())[:SHOWN_MAX]]}"
        for word, rows in (("missing are", missing), ("too many are", added))
        if rows
    ]
    return f"{counts}; {'; '.join(words) or 'they are the same in another order'}"
