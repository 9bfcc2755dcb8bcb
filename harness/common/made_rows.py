"""Generated rows for any table: values of every type that depend only on their numbers."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import Table
from tornproof.impl.types.arrow import is_double_array, is_nullable, valid_decimal_shape
from tornproof.impl.types.questdb import GEOHASH_BITS, GEOHASH_PRECISION, TypeTag, array_dimensions, tag_of

NULL_EVERY = 5
EXACT = decimal.Context(prec=decimal.MAX_PREC)
SPREAD = 2_654_435_761
"""An odd number by which neighbours are multiplied far apart modulo any power of two."""


def rows_for(table: Table, timestamps: Sequence[int], *, seed: int, is_ascii: bool = True) -> pa.Table:
    """Return one row for each timestamp, in the order given, with all columns of the table.

    Row i has the values of the number `seed` + i. Symbols are ones that the table has, or new ones if it has none, and
    every column that can hold nulls has some. With `is_ascii` texts are ASCII. Raises RowsRejectedError for an unknown
    type, as in a damaged `_meta`.
    """
    assert table.metadata is not None
    symbols = read_table_symbols(table, table.transaction())
    schema = open_snapshot(table).schema
    arrays = []
    for index, column in enumerate(table.metadata.columns):
        field = schema.field(index)
        if column.id == table.metadata.timestamp_id:
            arrays.append(pa.array(np.array(timestamps, np.int64)).cast(field.type))
            continue
        known = symbols[column.name].symbols if column.name in symbols else ()
        make = value_maker(column.type, known, is_ascii=is_ascii)
        if make is None:
            raise RowsRejectedError.at(column.name, None, expected="a type that is known", actual=column.type)
        every = NULL_EVERY + index % 3 if is_nullable(column.type) else None
        numbers = range(seed, seed + len(timestamps))
        values = [None if every and number % every == 0 else make(number) for number in numbers]
        arrays.append(array_of(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def array_of(values: list[Any], of: pa.DataType) -> pa.Array:
    """Return values as an array of a column's type; timestamps are given as integers, dates too."""
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, pa.array(values, of.storage_type))
    if pa.types.is_timestamp(of):
        return pa.array(values, pa.int64()).cast(of)
    return pa.array(values, of)


def value_maker(column_type: int, symbols: Sequence[str] = (), *, is_ascii: bool) -> Callable[[int], Any] | None:
    """Return a function from numbers to values of a type, which are never null; None for an unknown type."""
    tag = tag_of(column_type)
    shape = valid_decimal_shape(column_type)
    if shape is not None:
        digits, scale = shape.precision, shape.scale
        # Rows have small numbers, of which wide decimals would all be near the least.
        return lambda number: decimal.Decimal(_signed(number * SPREAD, 10**digits)).scaleb(-scale, EXACT)
    if is_double_array(column_type):
        return lambda number: _nested(number, array_dimensions(column_type))
    if tag is TypeTag.SYMBOL:
        return lambda number: symbols[number % len(symbols)] if symbols else f"symbol {number}"
    if tag in GEOHASH_BITS:
        return lambda number: _mixed(number) % (1 << GEOHASH_PRECISION.get(column_type))
    if tag in (TypeTag.STRING, TypeTag.VARCHAR):
        return lambda number: _text(number, is_ascii)
    return None if tag is None else _MAKERS.get(tag)


def extreme_values(column_type: int) -> tuple[Any, ...]:
    """Return the least and the greatest values of a type that are not null, and those of no length; maybe none."""
    tag, shape = tag_of(column_type), valid_decimal_shape(column_type)
    if shape is not None:
        largest = decimal.Decimal(10**shape.precision - 1).scaleb(-shape.scale, EXACT)
        return largest.copy_negate(), largest
    if is_double_array(column_type):
        dimensions = array_dimensions(column_type)
        return [], _nested_in([None, -0.0, float("inf")], dimensions), _nested_in([], dimensions)
    if tag in GEOHASH_BITS:
        return 0, (1 << GEOHASH_PRECISION.get(column_type)) - 1
    return () if tag is None else _EXTREMES.get(tag, ())


def _nested_in(values: list[Any], dimensions: int) -> list[Any]:
    return values if dimensions == 1 else [_nested_in(values, dimensions - 1)]


def _mixed(number: int) -> int:
    """Return 256 bits that differ widely for neighbouring numbers; the highest do only for large numbers."""
    bits = 0
    for _ in range(8):
        number = number * SPREAD + 12_345 & 0xFFFF_FFFF_FFFF
        bits = bits << 32 | number >> 16
    return bits


def _signed(number: int, bound: int) -> int:
    """Return an integer strictly between -bound and bound."""
    return _mixed(number) % (2 * bound - 1) - bound + 1


def _text(number: int, is_ascii: bool) -> str:
    word = f"value {number} " * (number % 4)
    return word if is_ascii else f"{word}größe {number} 🌡"


def _nested(number: int, dimensions: int) -> Any:
    """Return nested lists of doubles, all of one length in each dimension."""
    if dimensions == 0:
        return number / 4
    return [_nested(number + 3 * index, dimensions - 1) for index in range(1 + number % 3)]


_MAKERS: dict[TypeTag, Callable[[int], Any]] = {
    TypeTag.BOOLEAN: lambda number: number % 3 == 0,
    TypeTag.BYTE: lambda number: _signed(number, 1 << 7),
    TypeTag.SHORT: lambda number: _signed(number, 1 << 15),
    TypeTag.CHAR: lambda number: _mixed(number) % 0xD800,
    TypeTag.INT: lambda number: _signed(number, 1 << 31),
    TypeTag.LONG: lambda number: _signed(number, 1 << 63),
    TypeTag.DATE: lambda number: _signed(number, 1 << 40),
    TypeTag.TIMESTAMP: lambda number: _signed(number, 1 << 55),
    TypeTag.FLOAT: lambda number: _signed(number, 1 << 20) / 64,
    TypeTag.DOUBLE: lambda number: _signed(number, 1 << 60) / 3,
    TypeTag.BINARY: lambda number: number.to_bytes(4, "big") * (number % 4),
    TypeTag.UUID: lambda number: (_mixed(number) % (1 << 128)).to_bytes(16, "big"),
    TypeTag.LONG128: lambda number: (_mixed(number) % (1 << 128)).to_bytes(16, "little"),
    TypeTag.LONG256: lambda number: _mixed(number * SPREAD).to_bytes(32, "little"),
    TypeTag.IPV4: lambda number: _mixed(number) % 0xFFFF_FFFF + 1,
}

# The least INT and LONG are their nulls, and 0 is that of IPV4.
_EXTREMES: dict[TypeTag, tuple[Any, ...]] = {
    TypeTag.BYTE: (-(1 << 7), (1 << 7) - 1),
    TypeTag.SHORT: (-(1 << 15), (1 << 15) - 1),
    TypeTag.CHAR: (0, (1 << 16) - 1),
    TypeTag.INT: (1 - (1 << 31), (1 << 31) - 1),
    TypeTag.LONG: (1 - (1 << 63), (1 << 63) - 1),
    TypeTag.STRING: ("", "\0"),
    TypeTag.VARCHAR: ("", "\0"),
    TypeTag.BINARY: (b"", b"\0"),
    TypeTag.UUID: (bytes(16), b"\xff" * 16),
    TypeTag.LONG128: (bytes(16), b"\xff" * 16),
    TypeTag.LONG256: (bytes(32), b"\xff" * 32),
    TypeTag.IPV4: (1, 0xFFFF_FFFF),
}
