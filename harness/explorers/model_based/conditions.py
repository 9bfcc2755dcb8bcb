"""Conditions, as text in SQL's syntax for the implementation and as a function of plain values for the model."""

from __future__ import annotations

import ipaddress
import math
import operator
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from tornproof.harness.systems.plain_rows import RowShape, Values
from tornproof.impl.types.questdb import (
    DECIMAL_DIGITS_MAX,
    GEOHASH_BITS,
    GEOHASH_PRECISION,
    NANOSECOND,
    TypeTag,
    tag_of,
)

Truth: TypeAlias = bool | None
"""None is SQL's unknown: the result of a comparison with null."""
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
SIGNS = OPERATORS | {">": operator.gt, "!=": operator.ne}
FORMS = 9
"""A comparison alone, negated, in a conjunction, in a disjunction; what is in a list of two values or is not; another
literal; and what is between the values of two rows, or is not."""
_BETWEEN, _NOT_BETWEEN = FORMS - 2, FORMS - 1
BEYOND_FLOATS = 1e39
"""More than the largest FLOAT."""
QUOTE = "'"
_INTEGERS = {TypeTag.BYTE, TypeTag.SHORT, TypeTag.INT, TypeTag.LONG}
_NUMBERS = {*_INTEGERS, *DECIMAL_DIGITS_MAX}
_FRACTIONS = {TypeTag.FLOAT, TypeTag.DOUBLE}
_TEXTS = {TypeTag.STRING, TypeTag.VARCHAR, TypeTag.SYMBOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, and whether it is true of a row."""

    text: str
    truth: Callable[[Values], Truth]


def condition_of(shape: RowShape, row: Values, other: Values, *, column: int, symbol: str, form: int) -> Condition:
    """Return a condition of one of the FORMS on a column and the value of a row in it, and on the next column's.

    Or on what two rows have in the column.
    """
    if form in (_BETWEEN, _NOT_BETWEEN):
        return _between(shape, row, other, column, is_negated=form == _NOT_BETWEEN)
    if form in (4, 5):
        return _in_list(shape, row, other, column, is_negated=form == 5)
    first = _comparison(shape, row, column, symbol, is_other=form == 6)
    if form in (0, 6):
        return first
    if form == 1 and symbol == "=":
        # Also true of a NaN, which is neither less nor greater.
        return _comparison(shape, row, column, "!=")
    if form == 1:
        return Condition(text=f"NOT {first.text}", truth=lambda values: _negated(first.truth(values)))
    second = _comparison(shape, row, (column + 1) % len(shape.types), "=")
    if form == 2:
        return Condition(
            text=f"NOT ({first.text} AND {second.text})",
            truth=lambda values: _negated(_all_of(first.truth(values), second.truth(values))),
        )
    return Condition(
        text=f"{first.text} OR NOT {second.text}",
        truth=lambda values: _negated(_all_of(_negated(first.truth(values)), second.truth(values))),
    )


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _all_of(first: Truth, second: Truth) -> Truth:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def _between(shape: RowShape, row: Values, other: Values, column: int, *, is_negated: bool) -> Condition:
    """Ask for what is from the value of one row to that of another one, or before and behind both."""
    signs = ("<", ">") if is_negated else (">=", "<=")
    first, second = (_comparison(shape, each, column, sign) for each, sign in zip((row, other), signs, strict=True))

    def truth(values: Values) -> Truth:
        low, high = first.truth(values), second.truth(values)
        return _negated(_all_of(_negated(low), _negated(high))) if is_negated else _all_of(low, high)

    return Condition(text=f"{first.text} {'OR' if is_negated else 'AND'} {second.text}", truth=truth)


def _in_list(shape: RowShape, row: Values, other: Values, column: int, *, is_negated: bool) -> Condition:
    """Ask whether a value is one of those of two rows, in which null never is, nor is it not."""
    name, column_type = shape.schema.names[column], shape.types[column]
    values = [each[column] for each in (row, other) if each[column] is not None]
    literals = {value: literal for value in values if (literal := _literal(column_type, value)) is not None}
    if not literals:
        return _comparison(shape, row, column, "=")
    wanted = [_comparable(column_type, value) for value in literals]

    def truth(values: Values) -> Truth:
        found = values[column]
        is_in = None if found is None else _comparable(column_type, found) in wanted
        return _negated(is_in) if is_negated else is_in

    return Condition(text=f'"{name}" {"NOT " * is_negated}IN ({", ".join(literals.values())})', truth=truth)


def _comparison(shape: RowShape, row: Values, column: int, symbol: str, *, is_other: bool = False) -> Condition:
    """Compare with a literal, or with another way to write it or a value beside it; without any, ask for nulls."""
    name, column_type, value = shape.schema.names[column], shape.types[column], row[column]
    if value is None:
        return Condition(text=f'"{name}" IS NULL', truth=lambda values: values[column] is None)
    literal = _literal(column_type, value)
    if literal is None:
        return Condition(text=f'"{name}" IS NOT NULL', truth=lambda values: values[column] is not None)
    compares, wanted = SIGNS[symbol], _comparable(column_type, value)
    if is_other and tag_of(column_type) in _INTEGERS:
        literal = f"{value}.5"
        wanted = value + Fraction(1 if value >= 0 else -1, 2)
    elif is_other and tag_of(column_type) in DECIMAL_DIGITS_MAX:
        # One digit more than the column has.
        literal += "5" if "." in literal else ".5"
        wanted = Decimal(literal)
    elif is_other and tag_of(column_type) in _FRACTIONS:
        wanted = math.copysign(BEYOND_FLOATS, wanted)
        literal = str(wanted)
    elif is_other and tag_of(column_type) is TypeTag.TIMESTAMP:
        literal = _in_another_zone(column_type, value)
        if value % 2:
            literal, wanted = literal.replace("-03:30", "5-03:30"), value + Fraction(1, 2)
    elif is_other and tag_of(column_type) is TypeTag.DATE:
        # Of a finer unit.
        literal, wanted = f"{literal.removesuffix(QUOTE)}5{QUOTE}", value + Fraction(1, 2)

    def truth(values: Values) -> Truth:
        other = values[column]
        return None if other is None else compares(_comparable(column_type, other), wanted)

    return Condition(text=f'"{name}" {symbol} {literal}', truth=truth)


def _comparable(column_type: int, value: Any) -> Any:
    tag = tag_of(column_type)
    if tag in _FRACTIONS:
        # Plain values of floats are their texts.
        return float(value)
    if tag in _TEXTS:
        return value.encode()
    return int.from_bytes(value, "little") if tag is TypeTag.LONG256 else value


def _in_another_zone(column_type: int, value: int) -> str:
    """Return a time as a clock shows it that is three and a half hours behind."""
    behind = np.datetime64(value, "ns" if NANOSECOND.get(column_type) else "us") - np.timedelta64(210, "m")
    return f"'{behind}-03:30'"


def _literal(column_type: int, value: Any) -> str | None:
    tag = tag_of(column_type)
    if tag in _NUMBERS:
        return f"{value:f}" if tag in DECIMAL_DIGITS_MAX else str(value)
    if tag in _FRACTIONS:
        # Nothing equals NaN, so no literal is needed for it.
        return {"inf": "'Infinity'", "-inf": "'-Infinity'", "nan": None}.get(value, str(value))
    if tag in _TEXTS:
        escaped = str(value).replace("'", "''")
        return f"'{escaped}'"
    if tag in GEOHASH_BITS:
        return f"'{value:0{GEOHASH_PRECISION.get(column_type)}b}'"
    match tag:
        case TypeTag.BOOLEAN:
            return str(value).upper()
        case TypeTag.CHAR:
            return f"'{chr(value)}'" if chr(value).isalnum() else str(value)
        case TypeTag.DATE:
            return f"'{np.datetime64(value, 'ms')}'"
        case TypeTag.BINARY if value:
            return f"x'{value.hex()}'"
        case TypeTag.UUID:
            return f"'{uuid.UUID(bytes=value)}'"
        case TypeTag.IPV4:
            return f"'{ipaddress.IPv4Address(value)}'"
        case TypeTag.LONG256:
            return f"'{int.from_bytes(value, 'little'):#x}'"
        case TypeTag.TIMESTAMP:
            return f"'{np.datetime64(value, 'ns' if NANOSECOND.get(column_type) else 'us')}'"
    return None
