"""The rows of a stateful run: identities by content, rows to write, and the rows that a commit must result in.

What they result in is the model's (`tornproof.model.rows`), which shares no code with the implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from tornproof.harness.systems.plain_rows import RowShape, Values, plain_rows
from tornproof.impl.types.questdb import TypeTag
from tornproof.model.rows import Row, with_row

FIRST_VALUE = 1_000_000  # above what a small table's own rows are likely to hold
_WHOLE = {TypeTag.INT, TypeTag.LONG}
_SMALL = {TypeTag.BYTE, TypeTag.SHORT}
_FRACTIONS = {TypeTag.FLOAT, TypeTag.DOUBLE}
_TEXTS = {TypeTag.STRING, TypeTag.VARCHAR}
_KEY_TAGS = _WHOLE | _SMALL | _FRACTIONS | _TEXTS | {TypeTag.SYMBOL}


class Point(NamedTuple):
    """Time and key of a new row; the key is the values of its key columns, or a number that they are made from."""

    timestamp: int
    key: tuple[Any, ...] | int


@dataclass(slots=True)
class Rows:
    """All rows of a run; a row's identity is the number of its content, so equal rows have one identity."""

    shape: RowShape
    contents: list[Values] = field(default_factory=list)
    _identities: dict[Values, int] = field(default_factory=dict)
    _made_count: int = 0

    @property
    def can_repeat_keys(self) -> bool:
        """Whether rows with the keys of other rows can be made."""
        return self.shape.has_keys and all(self.shape.tags[index] in _KEY_TAGS for index in self.shape.keys)

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
        """Return new rows, each with a value that no other row has, and their identities."""
        arrays = [self._column(index, points) for index in range(len(self.shape.schema))]
        self._made_count += len(points)
        rows = pa.Table.from_arrays(arrays, schema=self.shape.schema)
        return rows, self.identify(rows)

    def merged(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
        """Return a partition's rows after `new` ones, in the order of writing, were added to `old` ones."""
        rows = tuple(map(self._row, old))
        for identity in new:
            rows = with_row(rows, self._row(identity))
        return tuple(row.values for row in rows)

    def has_duplicates(self, rows: Sequence[int]) -> bool:
        """Whether rows of a table with keys repeat one."""
        return self.shape.has_keys and len(set(map(self.key, rows))) < len(rows)

    def _row(self, identity: int) -> Row:
        content = self.contents[identity]
        return Row(self.shape.time_of(content), self.shape.keys_of(content), identity)

    def _identity(self, content: Values) -> int:
        known = self._identities.setdefault(content, len(self.contents))
        if known == len(self.contents):
            self.contents.append(content)
        return known

    def _column(self, index: int, points: Sequence[Point]) -> pa.Array:
        column = self.shape.schema.field(index)
        if index == self.shape.timestamp:
            return pa.array([point.timestamp for point in points], pa.int64()).cast(column.type)
        tag = self.shape.tags[index]
        if index in self.shape.keys and tag in _KEY_TAGS:
            nth = self.shape.keys.index(index)
            numbers = [point.key if isinstance(point.key, int) else point.key[nth] for point in points]
            values = [
                self._value(index, tag, value) if isinstance(point.key, int) else _restored(tag, value)
                for point, value in zip(points, numbers, strict=True)
            ]
        else:
            values = [self._value(index, tag, FIRST_VALUE + self._made_count + nth) for nth in range(len(points))]
        if values[0] is None and column.nullable:
            return _nulls(column.type, len(points))
        missing = False if column.type == pa.bool_() else 0
        return pa.array([missing if value is None else value for value in values], column.type)

    def _value(self, index: int, tag: TypeTag | None, number: int) -> Any:
        if tag in _WHOLE:
            return number
        if tag in _SMALL:
            return number % 100
        if tag in _FRACTIONS:
            return float(number)
        if tag in _TEXTS:
            return f"row {number}"
        if tag is TypeTag.SYMBOL:
            # New ones now and then, because each makes the dictionary larger.
            known = sorted({content[index] for content in self.contents if content[index] is not None})
            return [*known, f"row {number}"][number % (len(known) + 1)]
        return None


def _restored(tag: TypeTag | None, value: Any) -> Any:
    return float(value) if tag in _FRACTIONS and value is not None else value


def _nulls(of: pa.DataType, count: int) -> pa.Array:
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, pa.nulls(count, of.storage_type))
    return pa.nulls(count, of)
