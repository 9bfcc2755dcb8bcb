"""The rows of a stateful run: identities by content, rows to write, and the rows that a commit must result in.

What they result in is the model's (`tornproof.model.rows`), which shares no code with the implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from tornproof.harness.common.made_rows import NULL_EVERY, array_of, extreme_values, value_maker
from tornproof.harness.systems.plain_rows import RowShape, Values, plain_rows
from tornproof.impl.types.arrow import is_nullable
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, TypeTag, decimal_shape
from tornproof.model.rows import Row, with_row

FIRST_VALUE = 1_000_000
SPECIAL_EVERY = 4
SPECIAL_FRACTIONS = (0.0, -0.0, float("inf"), float("-inf"), float("nan"))
OUTSIDE_BASIC_PLANE = "\N{ROCKET}"
MILLISECONDS_PER_DAY = 86_400_000
WITHOUT_NULL = frozenset({TypeTag.BOOLEAN, TypeTag.SHORT})
"""Types without a null, of which other writers may store one for false and 0."""


class Making(StrEnum):
    """What the values of some new rows have in common."""

    NULLS = "nulls"
    """Whatever can be null is."""
    DAYS = "days"
    """Dates are those of whole days, which other writers count in days."""
    KNOWN_SYMBOLS = "known symbols"
    """No symbol is new."""


class Point(NamedTuple):
    """Time and key of a new row; the key is the values of its key columns, or a number that they are made of."""

    timestamp: int
    key: tuple[Any, ...] | int


@dataclass(slots=True)
class Rows:
    """All rows of a run; a row's identity is the number of its content, so equal rows have one identity."""

    shape: RowShape
    contents: list[Values] = field(default_factory=list)
    _identities: dict[Values, int] = field(default_factory=dict)
    _made_count: int = 0
    _text_size_bytes: int = 0
    _making: Making | None = None

    def copy(self) -> Rows:
        """Return an independent copy."""
        return Rows(self.shape, list(self.contents), dict(self._identities), self._made_count)

    def identify(self, rows: pa.Table | pa.RecordBatch) -> tuple[int, ...]:
        """Return the rows' identities, in order."""
        return tuple(map(self._identity, plain_rows(rows)))

    def timestamp(self, identity: int) -> int:
        """Return the designated timestamp of a row."""
        return self.shape.time_of(self.contents[identity])

    def key(self, identity: int) -> Values:
        """Return the deduplication key of a row: time and key columns."""
        content = self.contents[identity]
        return (self.shape.time_of(content), *(content[index] for index in self.shape.keys))

    def make(self, points: Sequence[Point]) -> tuple[pa.Table, tuple[int, ...]]:
        """Return new rows, with values that hardly any other row has and nulls among them, and their identities."""
        arrays = [self._column(index, points) for index in range(len(self.shape.schema))]
        self._made_count += len(points)
        # Users slice tables too: what is before the rows must not matter.
        rows = pa.Table.from_arrays(arrays, schema=self.shape.schema).slice(1)
        return rows, self.identify(rows)

    @contextmanager
    def alike(self, making: Making | None = None, *, text_size_bytes: int = 0) -> Iterator[None]:
        """Let rows that are made while the block runs have something in common, or texts of so many bytes."""
        self._making, self._text_size_bytes = making, text_size_bytes
        try:
            yield
        finally:
            self._making, self._text_size_bytes = None, 0

    def merged(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
        """Return a partition's rows after `new` ones, in the order of writing, were added to `old` ones."""
        rows = tuple(map(self._row, old))
        for identity in new:
            rows = with_row(rows, self._row(identity))
        return tuple(row.values for row in rows)

    def _row(self, identity: int) -> Row:
        content = self.contents[identity]
        return Row(self.shape.time_of(content), self.shape.keys_of(content), identity)

    def _identity(self, content: Values) -> int:
        known = self._identities.setdefault(content, len(self.contents))
        if known == len(self.contents):
            self.contents.append(content)
        return known

    def _column(self, index: int, points: Sequence[Point]) -> pa.Array:
        """Return the values of a column, with one more in front of them."""
        column = self.shape.schema.field(index)
        if index == self.shape.timestamp:
            times = [point.timestamp for point in points]
            return array_of([*times[:1], *times], column.type)
        if index in self.shape.keys:
            nth = self.shape.keys.index(index)
            values = [
                self._value(index, point.key) if isinstance(point.key, int) else self._restored(index, point.key[nth])
                for point in points
            ]
        else:
            values = [self._value(index, FIRST_VALUE + self._made_count + nth) for nth in range(len(points))]
        return array_of([*values[:1], *values], column.type)

    def _value(self, index: int, number: int) -> Any:
        tag = self.shape.tag_of(index)
        is_null = self._making is Making.NULLS or number % (NULL_EVERY + index % 3) == 0
        if is_null and not self._text_size_bytes and is_nullable(self.shape.types[index]):
            return None
        if tag in (TypeTag.FLOAT, TypeTag.DOUBLE) and number % SPECIAL_EVERY == 0:
            return SPECIAL_FRACTIONS[number // SPECIAL_EVERY % len(SPECIAL_FRACTIONS)]
        if tag in DECIMAL_DIGITS_MAX and number % SPECIAL_EVERY == 1:
            # Others need all bytes of their column.
            return Decimal(number % 10).scaleb(-decimal_shape(self.shape.types[index]).scale)
        extremes = extreme_values(self.shape.types[index])
        if number % SPECIAL_EVERY == 2 and extremes and not self._text_size_bytes:
            return extremes[number // SPECIAL_EVERY % len(extremes)]
        if tag is TypeTag.SYMBOL:
            # New ones now and then, because each makes the dictionary larger.
            known = sorted({content[index] for content in self.contents if content[index] is not None})
            # Some have characters that a server counts twice.
            new = [f"row {number}{OUTSIDE_BASIC_PLANE * (number % 2)}"] * (self._making is not Making.KNOWN_SYMBOLS)
            choices: list[Any] = [*known, *new] or [None]
            return choices[number % len(choices)]
        if self._text_size_bytes and tag in (TypeTag.STRING, TypeTag.VARCHAR):
            return f"{number} ".ljust(self._text_size_bytes, "x")
        make = value_maker(self.shape.types[index], is_ascii=number % 2 == 0)
        value: Any = None if make is None else make(number)
        is_day = tag is TypeTag.DATE and self._making is Making.DAYS and value is not None
        return value // MILLISECONDS_PER_DAY * MILLISECONDS_PER_DAY if is_day else value

    def _restored(self, index: int, value: Any) -> Any:
        is_fraction = self.shape.tag_of(index) in (TypeTag.FLOAT, TypeTag.DOUBLE)
        return float(value) if is_fraction and value is not None else value
