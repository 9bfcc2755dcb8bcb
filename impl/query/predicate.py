"""Conditions on a table's rows, evaluated on Arrow arrays in SQL's three-valued logic.

Values have the representation of the statistics (`pm/statistics.py`), so that both can be compared: integers, also
for decimals (their unscaled digits), times, CHAR, IPv4, geohashes and LONG256; float; bytes for text (UTF-8), binary
and UUID. They are values that the column can hold, which `comparison.py` ensures.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from tornproof.impl.pm.statistics import Bound
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.compute import compute
from tornproof.impl.types.questdb import TypeTag, tag_of

LONG256_BYTES = 32


class Operator(enum.StrEnum):
    """How a column is compared with a value; "not equal" is the negation of "equal"."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """`column operator value`; unknown if the column is null, false if it is NaN."""

    column: SnapshotColumn
    operator: Operator
    value: Bound


class IsIn(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the column has one of the values; unknown if it is null, even if there are no values."""

    column: SnapshotColumn
    values: frozenset[Bound]


class IsNull(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the column is null; never unknown."""

    column: SnapshotColumn


class And(msgspec.Struct, frozen=True, kw_only=True):
    """Whether all parts, at least one, are true."""

    parts: tuple[Predicate, ...]


class Or(msgspec.Struct, frozen=True, kw_only=True):
    """Whether any of the parts, at least one, is true."""

    parts: tuple[Predicate, ...]


class Not(msgspec.Struct, frozen=True, kw_only=True):
    """The negation; unknown stays unknown."""

    part: Predicate


Predicate: TypeAlias = Comparison | IsIn | IsNull | And | Or | Not

_KERNELS = {
    Operator.EQUAL: "equal",
    Operator.LESS: "less",
    Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater",
    Operator.GREATER_OR_EQUAL: "greater_equal",
}


def columns_of(predicate: Predicate) -> tuple[SnapshotColumn, ...]:
    """Return the columns that a predicate uses, each once, in the order in which it names them."""
    return tuple({column.id: column for column in _columns(predicate)}.values())


def truth(predicate: Predicate, arrays: Mapping[int, pa.Array]) -> pa.BooleanArray:
    """Return for each row whether the predicate is true, null if unknown.

    `arrays` has the predicate's columns by their ids, in their `arrow_type` and of equal length.
    """
    match predicate:
        case Comparison(column=column, operator=operator, value=value):
            comparable = _comparable(arrays[column.id], column)
            return compute(_KERNELS[operator], comparable, _scalar(value, comparable.type))
        case IsIn(column=column, values=values):
            return _is_in(_comparable(arrays[column.id], column), values)
        case IsNull(column=column):
            return arrays[column.id].is_null()
        case And(parts=parts):
            return functools.reduce(functools.partial(compute, "and_kleene"), (truth(part, arrays) for part in parts))
        case Or(parts=parts):
            return functools.reduce(functools.partial(compute, "or_kleene"), (truth(part, arrays) for part in parts))
        case Not(part=part):
            return compute("invert", truth(part, arrays))


def matching(predicate: Predicate, arrays: Mapping[int, pa.Array]) -> pa.BooleanArray:
    """Return for each row whether the predicate is true, false if unknown."""
    return truth(predicate, arrays).fill_null(False)


def is_long256(column: SnapshotColumn) -> bool:
    """Whether the column's values are 256-bit numbers, whose stored bytes are not in numeric order."""
    return tag_of(column.type) is TypeTag.LONG256


def _columns(predicate: Predicate) -> Iterator[SnapshotColumn]:
    match predicate:
        case Comparison(column=column) | IsIn(column=column) | IsNull(column=column):
            yield column
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from _columns(part)
        case Not(part=part):
            yield from _columns(part)


def _comparable(array: pa.Array, column: SnapshotColumn) -> pa.Array:
    """Return an array whose order is that of the column's values."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_long256(column):
        return _reversed_bytes(array)
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64())
    if pa.types.is_boolean(array.type):
        return array.cast(pa.uint8())
    return array.cast(pa.binary()) if pa.types.is_string(array.type) else array


def _reversed_bytes(array: pa.Array) -> pa.Array:
    """Return little-endian numbers as big-endian ones."""
    width = array.type.byte_width
    little = np.frombuffer(array.buffers()[1] or b"", np.uint8, len(array) * width, array.offset * width)
    big = pa.py_buffer(np.ascontiguousarray(little.reshape(-1, width)[:, ::-1]))
    return compute("if_else", array.is_valid(), pa.Array.from_buffers(array.type, len(array), [None, big]), None)


def _is_in(comparable: pa.Array, values: frozenset[Bound]) -> pa.BooleanArray:
    if pa.types.is_floating(comparable.type):
        # Arrow distinguishes -0.0 from 0.0 here.
        filled = comparable.fill_null(0.0).to_numpy()
        found = pa.array(np.isin(filled, np.array(sorted(values), filled.dtype)))
    else:
        wanted = pa.array([_python(value, comparable.type) for value in values], comparable.type)
        # Few conditions have a list, and this import takes as long as reading a small table.
        import pyarrow.compute as pc

        found = pc.is_in(comparable, value_set=wanted)
    return compute("if_else", comparable.is_valid(), found, None)


def _scalar(value: Bound, of: pa.DataType) -> pa.Scalar:
    return pa.scalar(_python(value, of), of)


def _python(value: Bound, of: pa.DataType) -> Any:
    """Return a value as pyarrow accepts it for a type."""
    if pa.types.is_decimal(of):
        assert isinstance(value, int)
        # From a string of digits, because decimal arithmetic rounds to 28 of them.
        return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -of.scale))
    if pa.types.is_fixed_size_binary(of) and isinstance(value, int):
        return value.to_bytes(LONG256_BYTES, "big")
    return value
