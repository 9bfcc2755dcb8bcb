"""Rows in a table's types as the arrays that Parquet stores, so that pages and statistics are as QuestDB's.

The inverse of the conversion in `chunk/chunk.py`. Source: docs/format.md; orders of statistics as in
`pm/statistics.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.pm.header import Column
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types.arrow import arrow_type, is_double_array, is_nullable, valid_decimal_shape
from tornproof.impl.types.questdb import TypeTag, array_dimensions, tag_of
from tornproof.impl.types.raw_arrays import raw_of

NO_SYMBOLS: Mapping[str, SymbolTable] = {}


class Computed(enum.Enum):
    """Marks bounds that pyarrow computes in QuestDB's order."""

    BY_PYARROW = "by pyarrow"


ReplacedBounds: TypeAlias = tuple[bytes, bytes] | None
"""The bytes of minimum and maximum, or None for no bounds."""


class StoredColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column as pyarrow is to write it, and its minimum and maximum if pyarrow's would differ."""

    array: pa.Array
    bounds: ReplacedBounds | Literal[Computed.BY_PYARROW] = Computed.BY_PYARROW


def stored_table(
    rows: pa.Table | pa.RecordBatch, columns: Sequence[Column], symbols: Mapping[str, SymbolTable] = NO_SYMBOLS
) -> tuple[pa.Table, dict[str, ReplacedBounds]]:
    """Return all columns in stored form, in file order and with the file's nullability, and the bounds to be replaced.

    `rows` has the columns in any order; `symbols` are the dictionaries by column name. Raises as `stored_array` does.
    """
    arrays, bounds = [], {}
    for column in columns:
        if rows.schema.get_field_index(column.name) < 0:
            raise RowsRejectedError.at(column.name, None, "a column of this name, once", "none or several")
        values = rows.column(column.name)
        values = one_array(values) if isinstance(values, pa.ChunkedArray) else values
        stored = stored_array(values, column, symbols=symbols.get(column.name))
        arrays.append(stored.array)
        if stored.bounds is not Computed.BY_PYARROW:
            bounds[column.name] = stored.bounds
    fields = [
        pa.field(column.name, array.type, nullable=column.max_def_level > 0)
        for column, array in zip(columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), bounds


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, which `combine_chunks` copies even if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def stored_array(values: pa.Array, column: Column, *, symbols: SymbolTable | None = None) -> StoredColumn:
    """Return values of the column's `arrow_type` in stored form.

    `symbols` is the dictionary of a symbol column. Raises RowsRejectedError, naming column and row, for values of other
    types, nulls in a column without null, unknown symbols and ragged lists; and for columns that are not stored as
    QuestDB stores its types.
    """
    _check(values, column)
    tag = tag_of(column.type)
    if tag is TypeTag.SYMBOL:
        return StoredColumn(array=_by_keys(values, column, symbols))
    if is_double_array(column.type):
        return StoredColumn(array=raw_of(values, array_dimensions(column.type), column=column.name), bounds=None)
    if valid_decimal_shape(column.type) is not None:
        return _decimals(values, column.fixed_byte_len)
    if isinstance(values, pa.ExtensionArray):
        return StoredColumn(array=values.storage)
    if pa.types.is_timestamp(values.type):
        return StoredColumn(array=values.view(pa.int64()))
    return StoredColumn(array=values)


def _check(values: pa.Array, column: Column) -> None:
    form = (column.physical_type, column.fixed_byte_len)
    if physical_form(column.type) != form or column.max_rep_level or column.max_def_level > 1:
        levels = f"levels {column.max_rep_level} and {column.max_def_level}"
        actual = f"physical type {form[0]} of {form[1]} bytes, {levels}"
        raise RowsRejectedError.at(column.name, None, "a column that is stored as QuestDB does", actual)
    wanted = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
    if not values.type.equals(wanted):
        raise RowsRejectedError.at(column.name, None, f"values of type {wanted}", values.type)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RowsRejectedError.at(column.name, None, f"sound values of type {wanted}", error) from error
    if values.null_count and not (column.max_def_level and is_nullable(column.type)):
        row = pc.index(values.is_null(), True).as_py()
        raise RowsRejectedError.at(column.name, row, "a value, because the column has no null", "null")


def symbol_keys(values: pa.Array, name: str, symbols: SymbolTable) -> pa.Array:
    """Return the table's keys of a column's values; raises RowsRejectedError for an unknown symbol."""
    keys = pc.index_in(values, value_set=pa.array(symbols.symbols, pa.string()))
    if keys.null_count > values.null_count:
        row = pc.index(pc.and_(keys.is_null(), values.is_valid()), True).as_py()
        symbols.key_of(values[row].as_py(), column=name, row=row)
    return keys


def _by_keys(values: pa.Array, column: Column, symbols: SymbolTable | None) -> pa.DictionaryArray:
    """Return the values with a dictionary of the table's symbols up to the largest key in use."""
    table = symbols or SymbolTable(())
    keys = symbol_keys(values, column.name, table)
    key_count = (pc.max(keys).as_py() if keys.null_count < len(keys) else -1) + 1
    return pa.DictionaryArray.from_arrays(keys, pa.array(table.symbols[:key_count], pa.string()))


def _decimals(values: pa.Array, size_bytes: int) -> StoredColumn:
    """Return decimals as big-endian two's complement of `size_bytes`, and their bounds."""
    validity = pa.py_buffer(np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    content = pa.py_buffer(_big_endian(values, size_bytes))
    array = pa.Array.from_buffers(pa.binary(size_bytes), len(values), [validity, content])
    extremes = pc.min_max(values)
    if not extremes["min"].is_valid:
        return StoredColumn(array=array)
    low, high = _big_endian(pa.array([extremes["min"], extremes["max"]], values.type), size_bytes)
    return StoredColumn(array=array, bounds=(low.tobytes(), high.tobytes()))


def _big_endian(values: pa.Array, size_bytes: int) -> npt.NDArray[np.uint8]:
    """Return a row of bytes for each decimal; the dropped bytes of Arrow's wider form only repeat the sign."""
    width_bytes = values.type.bit_width // 8
    content = values.buffers()[1] or b""
    little = np.frombuffer(content, np.uint8, len(values) * width_bytes, values.offset * width_bytes)
    return np.ascontiguousarray(little.reshape(-1, width_bytes)[:, :size_bytes][:, ::-1])
