"""The columns of a table, and what tells the columns of a partition apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.types.arrow import arrow_type, is_nullable, missing_value

VARIABLE_WIDTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotColumn:
    """A column as the table has it; `physical_type` matters only where the QuestDB type says nothing."""

    id: int
    name: str
    type: int
    physical_type: int
    fixed_byte_len: int = 0

    @classmethod
    def of(cls, key: int, column: Column) -> Self:
        """Return a partition's column as that of a table which knows no more of it; `key` becomes its id."""
        return cls(
            id=key,
            name=column.name,
            type=column.type,
            physical_type=column.physical_type,
            fixed_byte_len=column.fixed_byte_len,
        )

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that its values are returned in."""
        return arrow_type(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)

    def constant(self, row_count: int) -> pa.Array:
        """Return the values of rows that hold nothing in this column: nulls, or false and 0 where there are none."""
        return pa.repeat(self.missing, row_count).cast(self.arrow_type)

    def without_nulls(self, values: pa.Array) -> pa.Array:
        """Return values with false and 0 for nulls where the type has none.

        Later releases write these types as optional, but the server knows no nulls of them.
        """
        return values if is_nullable(self.type) or not values.null_count else values.fill_null(self.missing)

    @property
    def width_bytes(self) -> int:
        """The bytes of a value in memory; a guess that is never too high where they differ."""
        of = self.arrow_type
        if pa.types.is_fixed_size_binary(of):
            # Arrow counts its bits in 32 of them. Even of values without bytes a bit each says whether they are null.
            return max(1, int(of.byte_width))
        try:
            return -(-int(of.bit_width) // 8)
        except ValueError:
            return VARIABLE_WIDTH_BYTES

    @property
    def missing(self) -> pa.Scalar:
        """What a row that holds nothing has: null, or false and 0 where there are none."""
        return missing_value(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)


def column_key(position: int, column: Column) -> int:
    """Return what tells a partition's columns apart: the writer index, or a negative number where there is none."""
    return column.id if column.id >= 0 else -2 - position


def column_positions(header: FileHeader) -> dict[int, int]:
    """Return where a partition has its columns, by what tells them apart."""
    return {column_key(location, column): location for location, column in enumerate(header.columns)}


def is_all_null(column: Column, chunk: Chunk) -> bool:
    """Whether `_pm` already says all there is to know of the chunk; of nested lists it does not tell the rows."""
    return column.max_rep_level == 0 and 0 < chunk.num_values == chunk.null_count
