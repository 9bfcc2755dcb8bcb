"""Spark's filters as predicates of the table: each translated exactly, including nulls and NaN, or not at all.

A filter that is not translated only costs time, because Spark checks all filters again. In Spark NaN equals itself and
is greater than all numbers; in `tornproof.impl.query.predicate` every comparison with it is false.
"""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from tornproof.impl.pm.statistics import Bound
from tornproof.impl.query import predicate as table
from tornproof.impl.query.comparison import Floats, Integers, compare, is_in, nearest_float, numbers_of
from tornproof.impl.query.predicate import LONG256_BYTES, Operator, Predicate, is_long256
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.pipeline.datasource.types import DECIMAL_DIGITS_MAX, UUID_BYTES

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)
MICROSECONDS_IN_MILLISECOND = 1_000
ROUNDED_DIGITS = 28
"""PySpark rounds longer decimals to so many digits when it passes them."""

_OPERATORS = {
    EqualTo: Operator.EQUAL,
    LessThan: Operator.LESS,
    LessThanOrEqual: Operator.LESS_OR_EQUAL,
    GreaterThan: Operator.GREATER,
    GreaterThanOrEqual: Operator.GREATER_OR_EQUAL,
}
_OPPOSITES = {Operator.GREATER: Operator.LESS_OR_EQUAL, Operator.GREATER_OR_EQUAL: Operator.LESS}


def predicate_of(filters: Iterable[Filter], columns: Mapping[str, SnapshotColumn]) -> Predicate | None:
    """Return the conjunction of the filters that can be translated, or None if there are none."""
    parts = [part for part in (_predicate(each, columns) for each in filters) if part is not None]
    return table.And(parts=tuple(parts)) if parts else None


def _predicate(of: Filter, columns: Mapping[str, SnapshotColumn]) -> Predicate | None:
    if isinstance(of, Not):
        part = _predicate(of.child, columns)
        return None if part is None else table.Not(part=part)
    column = columns.get(".".join(getattr(of, "attribute", ())))
    if column is None:
        return None
    match of:
        case IsNull():
            return table.IsNull(column=column)
        case IsNotNull():
            return table.Not(part=table.IsNull(column=column))
        case EqualNullSafe(value=None):
            return table.IsNull(column=column)
        case EqualNullSafe(value=value):
            equal = _comparison(column, Operator.EQUAL, value)
            is_there = table.Not(part=table.IsNull(column=column))
            return None if equal is None else table.And(parts=(is_there, equal))
        case In(value=literals):
            values = [_value(column, literal) for literal in literals]
            known = [value for value in values if value is not None]
            return is_in(column, known) if len(known) == len(values) else None
        case StringStartsWith(value=prefix) if pa.types.is_string(column.arrow_type):
            return _starts_with(column, prefix)
        case _ if type(of) in _OPERATORS:
            return _comparison(column, _OPERATORS[type(of)], getattr(of, "value", None))
        case _:
            return None


def _comparison(column: SnapshotColumn, operator: Operator, literal: Any) -> Predicate | None:
    value = _value(column, literal)
    if value is None or (is_long256(column) and operator is not Operator.EQUAL):
        # Spark orders LONG256 by its bytes, which are not in the order of its numbers.
        return None
    if isinstance(numbers_of(column), Floats) and operator in _OPPOSITES:
        return table.Not(part=compare(column, _OPPOSITES[operator], value))
    return compare(column, operator, value)


def _starts_with(column: SnapshotColumn, prefix: str) -> Predicate | None:
    low = _text(prefix)
    if not low:
        return None
    # UTF-8 has no byte 255, so the last byte can be incremented.
    high = low[:-1] + bytes([low[-1] + 1])
    return table.And(parts=(compare(column, Operator.GREATER_OR_EQUAL, low), compare(column, Operator.LESS, high)))


def _value(column: SnapshotColumn, literal: Any) -> Fraction | Bound | None:
    """Return a literal of Spark's type as a value of the column's predicates, or None if there is no exact one."""
    of = column.arrow_type
    match literal, numbers_of(column):
        case (bytes() | bytearray(), _):
            return _bytes(column, bytes(literal))
        case (str(), _):
            return _uuid(literal) if tag_of(column.type) is TypeTag.UUID else _text_of(column, literal)
        case (datetime.datetime(), Integers()) if pa.types.is_timestamp(of) and literal.tzinfo is not None:
            microseconds = (literal - EPOCH) // MICROSECOND
            if of.unit == "us":
                return microseconds
            return Fraction(microseconds, MICROSECONDS_IN_MILLISECOND) if of.unit == "ms" else None
        case (bool(), Integers()):
            return int(literal) if pa.types.is_boolean(of) else None
        case (Decimal(), Integers()):
            shape = valid_decimal_shape(column.type)
            is_decimal = shape is not None and shape.precision <= DECIMAL_DIGITS_MAX and literal.is_finite()
            is_exact = len(literal.as_tuple().digits) < ROUNDED_DIGITS
            return Fraction(literal) * 10**shape.scale if shape is not None and is_decimal and is_exact else None
        case (int(), Integers()):
            is_counted = pa.types.is_integer(of) or (pa.types.is_timestamp(of) and of.unit == "ns")
            return literal if is_counted else None
        case (float(), Floats()):
            return _float(column, literal)
        case _:
            return None


def _float(column: SnapshotColumn, literal: float) -> Fraction | float | None:
    if math.isinf(literal):
        return literal
    is_held = not math.isnan(literal) and nearest_float(column, Fraction(literal)) == literal
    return Fraction(literal) if is_held else None


def _bytes(column: SnapshotColumn, literal: bytes) -> Bound | None:
    if is_long256(column):
        return int.from_bytes(literal, "little") if len(literal) == LONG256_BYTES else None
    of = column.arrow_type
    if pa.types.is_fixed_size_binary(of):
        return literal if len(literal) == of.byte_width else None
    return literal if pa.types.is_binary(of) else None


def _text_of(column: SnapshotColumn, literal: str) -> bytes | None:
    return _text(literal) if pa.types.is_string(column.arrow_type) else None


def _text(literal: str) -> bytes | None:
    try:
        return literal.encode()
    except UnicodeEncodeError:
        return None


def _uuid(literal: str) -> bytes | None:
    """Return the bytes of a UUID that is spelled as Spark shows it; texts and bytes then have the same order."""
    try:
        value = uuid.UUID(literal)
    except ValueError:
        return None
    assert len(value.bytes) == UUID_BYTES
    return value.bytes if str(value) == literal else None
