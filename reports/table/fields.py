"""What `verify --json` says of a table, read with care: anybody may have edited the file."""

from __future__ import annotations

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
    """One thing that is wrong with one file; `number` is how the page calls it."""

    number: int
    file: str
    field: str
    offset_bytes: int | None
    expected: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What was verified of one partition; sizes are bytes."""

    name: str
    format: str
    rows: int
    token: int
    generations: int
    orphans: int
    unused_bytes: int
    dead_bytes: int
    problems: tuple[Problem, ...]

    @property
    def is_resolved(self) -> bool:
        """Whether the committed generation was found, so that its numbers are known."""
        return self.generations > 0 or not self.problems

    @property
    def is_native(self) -> bool:
        """Whether it has none of the files that are looked into."""
        return self.format == NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a release makes of the files."""

    preset: str
    readable: bool
    writable: bool
    reason: str
    hazards: tuple[str, ...]

    @property
    def goes_on(self) -> bool:
        """Whether it can read the table and write to it."""
        return self.readable and self.writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The verdict on a table, with the counts of what was looked at; partitions stand in the order of time."""

    table: str
    version: int | None
    problems: tuple[Problem, ...]
    unreferenced: tuple[str, ...]
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    partitions: tuple[Partition, ...]
    outlook: Outlook | None

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


def shown_text(text: str) -> str:
    """Return text of any origin as a page can hold it."""
    return printable(text, TEXT_CHARACTERS_MAX)


def whole_number(fields: Fields, name: str, default: int | None = None) -> int:
    """Return a field that is a number of 64 bits; raises ResultError for others."""
    value = fields.number(name, default)
    if not -NUMBER_LIMIT < value < NUMBER_LIMIT:
        fields.refuse(name, "a number of 64 bits", "a larger one")
    return value


def place_of(fields: Fields, name: str) -> int | None:
    """Return a number of 64 bits, or None where there is none."""
    return whole_number(fields, name) if name in fields else None


def read_verified(document: Any, *, file: str, place: str = "") -> Verified:
    """Return what the document of `verify` says; raises ResultError for another document."""
    fields = Fields(document, file=file, place=place)
    fields.demand_format(FORMAT)
    numbered = _Numbered()
    counts = fields.inner("counts")
    verified = Verified(
        table=shown_text(fields.text("table")),
        version=place_of(fields, "version"),
        problems=numbered.problems(fields),
        unreferenced=tuple(map(shown_text, fields.texts("unreferenced"))),
        notes=tuple(map(shown_text, fields.texts("notes"))),
        counts={name: whole_number(counts, name) for name in COUNTS},
        partitions=tuple(_partition(each, numbered) for each in fields.inners("partitions")),
        outlook=_outlook(fields.inner("as")) if "as" in fields else None,
    )
    problem_count = len(verified.all_problems)
    if fields.flag("sound") == bool(problem_count):
        expected = f"{str(not problem_count).lower()}, because {problem_count} problems are listed"
        fields.refuse("sound", expected, str(fields.flag("sound")).lower())
    return verified


class _Numbered:
    """Problems numbered in the order in which they are read."""

    def __init__(self) -> None:
        self.count = 0

    def problems(self, fields: Fields) -> tuple[Problem, ...]:
        """Return the problems of a table or partition."""
        found = []
        for each in fields.inners("problems"):
            self.count += 1
            found.append(read_problem(each, self.count))
        return tuple(found)


def read_problem(fields: Fields, number: int) -> Problem:
    """Return one problem; raises ResultError."""
    return Problem(
        number=number,
        file=shown_text(fields.text("file")),
        field=shown_text(fields.text("field")),
        offset_bytes=place_of(fields, "offset_bytes"),
        expected=shown_text(fields.text("expected")),
        actual=shown_text(fields.text("actual")),
    )


def _partition(fields: Fields, numbered: _Numbered) -> Partition:
    return Partition(
        name=shown_text(fields.text("name")),
        format=shown_text(fields.text("format")),
        rows=whole_number(fields, "rows"),
        token=whole_number(fields, "token"),
        generations=whole_number(fields, "generations"),
        orphans=whole_number(fields, "orphans"),
        unused_bytes=whole_number(fields, "unused_bytes"),
        dead_bytes=whole_number(fields, "dead_bytes"),
        problems=numbered.problems(fields),
    )


def _outlook(fields: Fields) -> Outlook:
    return Outlook(
        preset=shown_text(fields.text("preset")),
        readable=fields.flag("readable"),
        writable=fields.flag("writable"),
        reason=shown_text(fields.text("reason")),
        hazards=tuple(map(shown_text, fields.texts("hazards"))),
    )
