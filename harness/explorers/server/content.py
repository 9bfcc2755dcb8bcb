"""What writers insert, and what every version of a table holds for each of them.

A commit is one INSERT statement of one writer. Each row names its writer and the version that its commit makes, so a
reader can tell from any snapshot which version of each writer it has seen, and whether all of it.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xxhash

from tornproof.impl.errors import counted

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
FIRST_HOUR_US = 1_704_067_200 * SECOND_US
"""2024-01-01T00:00:00Z"""
HOURS = 6
"""The partitions of a table, all of which are there from the beginning; the last one is never converted to Parquet."""
SLOTS = 24
"""The times in an hour that rows of commits out of order have: few, so that they replace rows with the same keys."""
SLOT_US = HOUR_US // 2 // SLOTS
"""Commits out of order have the first half of each hour, and those in order the second half of the last one."""
ROWS_MAX = 8
LETTERS = "aß🌡"
TEXT_LETTERS_MAX = 24
SYMBOLS = 9
NULL_CHANCE = 0.2

Row: TypeAlias = tuple[Any, ...]
"""Values in the order of `COLUMNS`, as a server's JSON has them."""
Rows: TypeAlias = tuple[Row, ...]

COLUMNS = {
    "ts": "TIMESTAMP",
    "writer": "INT",
    "version": "LONG",
    "place": "INT",
    "s": "SYMBOL",
    "v": "VARCHAR",
    "d": "DOUBLE",
}
TIME, WRITER, VERSION = 0, 1, 2
SELECTED = ", ".join(("ts::long", *list(COLUMNS)[1:]))


class Order(enum.StrEnum):
    """Where the rows of a commit are."""

    APPENDED = "after the writer's older rows, in the last partition"
    ONE_PARTITION = "out of order, in one partition"
    MANY_PARTITIONS = "out of order, in several partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of table, and who waits until commits that are in its write-ahead log can be seen."""

    name: str
    what: str
    has_log: bool
    dedups: bool = False
    reader_waits: bool = False

    @property
    def clause(self) -> str:
        """The end of the statement that creates such a table."""
        keys = " DEDUP UPSERT KEYS(ts, writer)" if self.dedups else ""
        return f"TIMESTAMP(ts) PARTITION BY HOUR {'WAL' if self.has_log else 'BYPASS WAL'}{keys}"


FORMS = (
    Form(name="wal", what="a write-ahead log", has_log=True),
    Form(name="dedup", what="a write-ahead log and deduplication", has_log=True, dedups=True, reader_waits=True),
    Form(name="direct", what="no write-ahead log", has_log=False),
)


def create_sql(table: str, form: Form) -> str:
    """Return the statement that creates a table, which fails if there is one of that name."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    return f"CREATE TABLE {table} ({columns}) {form.clause}"


def insert_sql(table: str, rows: Sequence[Row]) -> str:
    """Return the one statement of a commit."""
    return f"INSERT INTO {table} VALUES " + ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)


def first_rows(writer: int) -> Rows:
    """Return the rows of a writer's version 0: one in each partition."""
    return tuple((FIRST_HOUR_US + hour * HOUR_US, writer, 0, hour, None, None, None) for hour in range(HOURS))


def made_rows(seeds: Sequence[int], *, writer: int, version: int, statement: int) -> Rows:
    """Return the rows of a writer's statement, which differ from those of its other ones; no two have the same time."""
    draw = np.random.default_rng([*seeds, writer, statement])
    count = int(draw.integers(1, ROWS_MAX, endpoint=True))
    order = list(Order)[int(draw.integers(len(Order)))]
    return tuple(
        (time_us, writer, version, place, *_values(draw, statement))
        for place, time_us in enumerate(_times(draw, order, count, statement))
    )


def hours_of(rows: Sequence[Row]) -> set[int]:
    """Return the partitions that rows belong to."""
    return {(row[TIME] - FIRST_HOUR_US) // HOUR_US for row in rows}


def after(old: Rows, new: Rows, form: Form) -> Rows:
    """Return the rows of a writer after a commit."""
    if not form.dedups:
        return old + new
    return tuple({row[TIME]: row for row in (*old, *new)}.values())


def digest_of(rows: Sequence[Row]) -> str:
    """Return a digest of rows, whatever order they are in."""
    return xxhash.xxh3_64_hexdigest(repr(sorted(map(repr, rows))).encode())


def difference(expected: Sequence[Row], found: Sequence[Row], written: Collection[Row]) -> str:
    """Return in words which rows of which versions are missing, and which should not be there.

    Those that were never `written` differ from those that a later commit, or none, should have left.
    """
    wanted, had = Counter(expected), Counter(found)
    extra = had - wanted
    parts = [
        *_counts(wanted - had, "missing"),
        *_counts({row: extra[row] for row in extra if row in wanted}, "there once more"),
        *_counts({row: extra[row] for row in extra if row not in wanted and row in written}, "there although replaced"),
        *_counts({row: extra[row] for row in extra if row not in written}, "that nobody wrote"),
    ]
    return "; ".join(parts)


def _counts(rows: Mapping[Row, int], what: str) -> Iterator[str]:
    by_version: Counter[int] = Counter()
    for row, count in rows.items():
        by_version[row[VERSION]] += count
    for version in sorted(by_version):
        yield f"{counted(by_version[version], 'row')} of version {version} {what}"


def _times(draw: np.random.Generator, order: Order, count: int, statement: int) -> list[int]:
    if order is Order.APPENDED:
        begin_us = FIRST_HOUR_US + (HOURS - 1) * HOUR_US + HOUR_US // 2 + statement * SECOND_US
        return [begin_us + place for place in range(count)]
    first, hours = (int(draw.integers(HOURS)), 1) if order is Order.ONE_PARTITION else (0, HOURS)
    slots = draw.choice(hours * SLOTS, size=count, replace=False) + first * SLOTS
    return [FIRST_HOUR_US + slot // SLOTS * HOUR_US + slot % SLOTS * SLOT_US for slot in slots.tolist()]


def _values(draw: np.random.Generator, statement: int) -> Iterator[Any]:
    """Yield a symbol, a text and a number, each of which may be null."""
    letters = draw.integers(len(LETTERS), size=draw.integers(TEXT_LETTERS_MAX))
    text = "".join(LETTERS[letter] for letter in letters)
    values = (f"s{int(draw.integers(SYMBOLS))}", f"{statement} {text}", int(draw.integers(1 << 20)) / 8)
    for value in values:
        yield None if draw.random() < NULL_CHANCE else value


def _literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else repr(value)
