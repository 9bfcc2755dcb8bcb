"""Comparisons of a column with any number, as predicates with values that the column can hold.

A number that the column cannot hold is neither wrapped nor rejected: the comparison is then the same for all values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import msgspec
import numpy as np
import pyarrow as pa

from tornproof.impl.pm.statistics import Bound
from tornproof.impl.query.predicate import LONG256_BYTES, Comparison, IsIn, Not, Operator, Predicate, is_long256
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import is_double_array, valid_decimal_shape

FLOAT_BITS, FLOAT_EXPONENT_MIN = 24, -149
FLOAT_MAX = float(np.finfo(np.float32).max)
DOUBLE_MAX = float(np.finfo(np.float64).max)


class Integers(msgspec.Struct, frozen=True, kw_only=True):
    """The integers that a column can hold."""

    low: int
    high: int


class Floats(msgspec.Struct, frozen=True, kw_only=True):
    """The largest finite float that a column can hold."""

    largest: float


def numbers_of(column: SnapshotColumn) -> Integers | Floats | None:
    """Return the numbers that represent the column's values in predicates; None for bytes and for arrays."""
    of = column.arrow_type
    if is_double_array(column.type):
        return None
    if is_long256(column):
        return Integers(low=0, high=(1 << 8 * LONG256_BYTES) - 1)
    if (shape := valid_decimal_shape(column.type)) is not None:
        return Integers(low=1 - 10**shape.precision, high=10**shape.precision - 1)
    if pa.types.is_boolean(of):
        return Integers(low=0, high=1)
    if pa.types.is_floating(of):
        return Floats(largest=FLOAT_MAX if _is_narrow(column) else DOUBLE_MAX)
    if pa.types.is_unsigned_integer(of):
        return Integers(low=0, high=(1 << of.bit_width) - 1)
    if pa.types.is_integer(of) or pa.types.is_timestamp(of):
        return Integers(low=-(1 << of.bit_width - 1), high=(1 << of.bit_width - 1) - 1)
    return None


def compare(column: SnapshotColumn, operator: Operator, value: Fraction | Bound) -> Predicate:
    """Return `column operator value`; floats take the nearest float for a finite value."""
    match numbers_of(column), value:
        case Integers() as integers, int() | Fraction():
            return _with_integer(column, operator, value, integers)
        case Floats() as floats, int() | Fraction():
            return _with_float(column, operator, Fraction(value), floats)
        case _, float() | bytes():
            return Comparison(column=column, operator=operator, value=value)
        case other:
            raise AssertionError(other)


def is_in(column: SnapshotColumn, values: Iterable[Fraction | Bound]) -> Predicate:
    """Return `column IN (values)`; values that the column cannot hold are left out."""
    equalities = (compare(column, Operator.EQUAL, value) for value in values)
    return IsIn(column=column, values=frozenset(each.value for each in equalities if isinstance(each, Comparison)))


def nearest_float(column: SnapshotColumn, value: Fraction) -> float | None:
    """Return the column's float that is nearest to a number, or None if that is out of its range."""
    try:
        nearest = float(value)
        if not _is_narrow(column):
            return nearest
        # From the number itself, because the nearest double may be in the midst of two floats.
        exponent = max(math.frexp(nearest)[1] - FLOAT_BITS, FLOAT_EXPONENT_MIN)
        narrow = math.ldexp(round(value / Fraction(2) ** exponent), exponent)
    except OverflowError:
        return None
    return narrow if abs(narrow) <= FLOAT_MAX else None


def never(column: SnapshotColumn) -> Predicate:
    """Return a predicate that is true for no value, and unknown for null."""
    return IsIn(column=column, values=frozenset())


def always(column: SnapshotColumn) -> Predicate:
    """Return a predicate that is true for every value, and unknown for null."""
    return Not(part=never(column))


def _is_narrow(column: SnapshotColumn) -> bool:
    return bool(pa.types.is_float32(column.arrow_type))


def _with_integer(column: SnapshotColumn, operator: Operator, value: int | Fraction, of: Integers) -> Predicate:
    match operator:
        case Operator.EQUAL:
            if value != math.floor(value) or not of.low <= value <= of.high:
                return never(column)
            return Comparison(column=column, operator=operator, value=int(value))
        case Operator.LESS | Operator.LESS_OR_EQUAL:
            largest = math.ceil(value) - 1 if operator is Operator.LESS else math.floor(value)
            if largest < of.low:
                return never(column)
            if largest >= of.high:
                return always(column)
            return Comparison(column=column, operator=Operator.LESS_OR_EQUAL, value=largest)
        case Operator.GREATER | Operator.GREATER_OR_EQUAL:
            smallest = math.floor(value) + 1 if operator is Operator.GREATER else math.ceil(value)
            if smallest > of.high:
                return never(column)
            if smallest <= of.low:
                return always(column)
            return Comparison(column=column, operator=Operator.GREATER_OR_EQUAL, value=smallest)


def _with_float(column: SnapshotColumn, operator: Operator, value: Fraction, of: Floats) -> Predicate:
    nearest = nearest_float(column, value)
    if nearest is not None:
        return Comparison(column=column, operator=operator, value=nearest)
    if operator is Operator.EQUAL:
        return never(column)
    # Only an infinity is beyond, and NaN on neither side.
    is_less = operator in (Operator.LESS, Operator.LESS_OR_EQUAL)
    if value > 0:
        beyond = Operator.LESS_OR_EQUAL if is_less else Operator.GREATER
        return Comparison(column=column, operator=beyond, value=of.largest)
    beyond = Operator.LESS if is_less else Operator.GREATER_OR_EQUAL
    return Comparison(column=column, operator=beyond, value=-of.largest)
