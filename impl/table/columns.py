"""The columns of a table, and how columns of its partitions are identified."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Self

import pyarrow as pa

from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.table.metadata_file import NamedColumn
from tornproof.impl.types.arrow import arrow_type, is_nullable, missing_value
from tornproof.impl.types.physical import PhysicalType

VARIABLE_WIDTH_BYTES = 8


class SnapshotColumn(NamedColumn, frozen=True, kw_only=True):
    """A column of a table; `physical_type` matters only if the QuestDB type is unknown."""

    physical_type: int
    fixed_byte_len: int = 0

    @classmethod
    def of_table(cls, column: NamedColumn) -> Self:
        """Return a column in `_meta`, whose types are all known."""
        return cls(
            id=column.id,
            name=column.name,
            type=column.type,
            former_ids=column.former_ids,
            physical_type=PhysicalType.BYTE_ARRAY,
        )

    @classmethod
    def of(cls, key: int, column: Column) -> Self:
        """Return a partition's column as a table column with the id `key`."""
        return cls(
            id=key,
            name=column.name,
            type=column.type,
            physical_type=column.physical_type,
            fixed_byte_len=column.fixed_byte_len,
        )

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of its values."""
        return arrow_type(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)

    def constant(self, row_count: int) -> pa.Array:
        """Return the values of rows without this column: nulls, or false and 0 for types without null."""
        return pa.repeat(self.missing, row_count).cast(self.arrow_type)

    def without_nulls(self, values: pa.Array) -> pa.Array:
        """Return values with nulls replaced by false and 0 if the type has no null.

        Later releases write these types as optional, but the server has no nulls for them.
        """
        return values if not values.null_count or is_nullable(self.type) else values.fill_null(self.missing)

    @property
    def width_bytes(self) -> int:
        """The bytes of a value in memory; a lower bound for types of variable width."""
        return _width_bytes(self.arrow_type)

    @property
    def missing(self) -> pa.Scalar:
        """The value of a row without this column: null, or false and 0 for types without null."""
        return missing_value(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)


@functools.lru_cache(maxsize=1024)
def _width_bytes(of: pa.DataType) -> int:
    if pa.types.is_fixed_size_binary(of):
        # Arrow's bit widths have 32 bits. Even values without bytes have a validity bit each.
        return max(1, int(of.byte_width))
    try:
        return -(-int(of.bit_width) // 8)
    except ValueError:
        return VARIABLE_WIDTH_BYTES


def column_key(index: int, column: Column) -> int:
    """Return the key of a partition's column: its writer index, or a negative number if it has none."""
    return column.id if column.id >= 0 else -2 - index


def column_positions(header: FileHeader) -> dict[int, int]:
    """Return the indices of a partition's columns by their keys."""
    return {column_key(index, column): index for index, column in enumerate(header.columns)}


def position_of(column: NamedColumn, positions: Mapping[int, int]) -> int | None:
    """Return the index of a table's column in a partition, under whichever of its ids, the newest first, or None."""
    return next((positions[key] for key in column.ids if key in positions), None)


def is_all_null(column: Column, chunk: Chunk) -> bool:
    """Whether `_pm` shows that all values are null; for nested lists it does not say how many rows there are."""
    return column.max_rep_level == 0 and 0 < chunk.num_values == chunk.null_count
