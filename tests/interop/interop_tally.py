"""What was tried, and how it ended: for each operation and each direction."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Direction(StrEnum):
    """Who changed a table, and what the other one then did with it."""

    VERIFIED = "server → verify"
    READ = "server → read"
    MIGRATED = "server → migrate"
    CONTINUED = "server → our next commit"
    QUERIED = "ours → queries of the server"
    SERVER_CONTINUED = "ours → its next commit"
    READ_AGAIN = "ours → its next commit → read"


class DifferenceError(AssertionError):
    """One of the two does not find the rows of the model, or cannot go on."""


@dataclass(slots=True)
class Tally:
    """Counts by operation and direction; `rejected` counts the reasons for which an operation was not done."""

    done: Counter[tuple[str, Direction]] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, operations: Iterable[str], direction: Direction) -> None:
        """Count that it went well for these operations."""
        self.done.update((operation, direction) for operation in operations)


def demand_equal(what: str, expected: list[Any], found: list[Any]) -> None:
    """Raise DifferenceError, naming the first row that differs."""
    if expected == found:
        return
    pairs = zip(expected, found, strict=False)
    place = next((index for index, (left, right) in enumerate(pairs) if left != right), min(len(expected), len(found)))
    wanted, had = (repr(rows[place]) if place < len(rows) else "no row" for rows in (expected, found))
    raise DifferenceError(
        f"{what}: expected {len(expected)} rows, found {len(found)}; row {place}: expected {wanted}, found {had}"
    )
