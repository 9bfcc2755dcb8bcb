"""Reads the JSON result of `verify`, which may have been edited."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tornproof.reports.kit.json_fields import Fields, printable

FORMAT = 1
TEXT_CHARACTERS_MAX = 300
NUMBER_LIMIT = 1 << 64
NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of one file; `number` is its number on the page."""

    number: int
    file: str
    field: str
    offset_bytes: int | None
    expected: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The result for one partition; sizes are bytes."""

    name: str
    format: str
    rows: int
    token: int
    generations: int
    orphans: int
    unused_bytes: int
    dead_bytes: int
    problems: tuple[Problem, ...]
    looked_at: str = "nothing"

    @property
    def is_resolved(self) -> bool:
        """Whether the committed generation was found, so that the numbers are known."""
        return self.generations > 0 or not self.problems

    @property
    def is_native(self) -> bool:
        """Whether it is native, without any of the inspected files."""
        return self.format == NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """The compatibility of a release with the files."""

    preset: str
    readable: bool
    writable: bool
    reason: str
    hazards: tuple[str, ...]

    @property
    def can_continue(self) -> bool:
        """Whether it can read the table and write to it."""
        return self.readable and self.writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The verdict on a table, with counts of what was examined; partitions are in time order."""

    table: str
    version: int | None
    problems: tuple[Problem, ...]
    unreferenced: tuple[str, ...]
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    partitions: tuple[Partition, ...]
    compatibility: Compatibility | None
    verdict: str = "sound"

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """Every problem, those of the table first."""
        return self.problems + tuple(problem for partition in self.partitions for problem in partition.problems)


COUNTS = (
    "partitions",
    "generations",
    "thrift_footers",
    "row_groups",
    "rows",
    "chunks",
    "decoded_chunks",
    "pages_bytes",
)


class TableFields(Fields):
    """Fields with texts for a page, and numbers of 64 bits."""

    def shown(self, text: str) -> str:
        """Return text of any origin, shortened."""
        return shown_text(super().shown(text))

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a number of 64 bits; raises ResultError for others."""
        value = super().number(name, default)
        if not -NUMBER_LIMIT < value < NUMBER_LIMIT:
            self.reject(name, "a number of 64 bits", "a larger one")
        return value


def shown_text(text: str) -> str:
    """Return text of any origin for a page."""
    return printable(text, TEXT_CHARACTERS_MAX)


def read_verified(document: Any, *, file: str, path: str = "") -> Verified:
    """Read the document of `verify`; raises ResultError for another document."""
    fields = TableFields(document, file=file, path=path)
    fields.demand_format(FORMAT)
    numbers = itertools.count(1)

    def problems(of: TableFields) -> tuple[Problem, ...]:
        """Return the problems of the table or a partition, numbered in the order in which they are read."""
        return tuple(each.record(Problem, number=next(numbers)) for each in of.inners("problems"))

    counts = fields.inner("counts")
    verified = fields.record(
        Verified,
        problems=problems(fields),
        counts={name: counts.number(name) for name in COUNTS},
        partitions=tuple(each.record(Partition, problems=problems(each)) for each in fields.inners("partitions")),
        compatibility=fields.inner("as").record(Compatibility) if "as" in fields else None,
    )
    problem_count = len(verified.all_problems)
    if fields.flag("sound") == bool(problem_count):
        expected = f"{str(not problem_count).lower()}, because {problem_count} problems are listed"
        fields.reject("sound", expected, str(fields.flag("sound")).lower())
    return verified
