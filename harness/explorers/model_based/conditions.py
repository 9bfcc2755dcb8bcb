"""Conditions, as text in SQL's syntax for the implementation and as a function of plain values for the model."""

from __future__ import annotations

import ipaddress
import operator
import uuid
from collections.abc import Callable
from dataclasses import dataclass
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
FORMS = 4
_NUMBERS = {TypeTag.BYTE, TypeTag.SHORT, TypeTag.INT, TypeTag.LONG, *DECIMAL_DIGITS_MAX}
_FRACTIONS = {TypeTag.FLOAT, TypeTag.DOUBLE}
_TEXTS = {TypeTag.STRING, TypeTag.VARCHAR, TypeTag.SYMBOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, and whether it is true of a row."""

    text: str
    truth: Callable[[Values], Truth]


def condition_of(shape: RowShape, row: Values, *, column: int, symbol: str, form: int) -> Condition:
    """Return a condition on a column and the value of a row in it, alone, negated, or joined with the next column's."""
    first = _comparison(shape, row, column, symbol)
    if form == 0:
        return first
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


def _comparison(shape: RowShape, row: Values, column: int, symbol: str) -> Condition:
    """Compare with a literal; where the type has none, ask for nulls."""
    name, column_type, value = shape.schema.names[column], shape.types[column], row[column]
    if value is None:
        return Condition(text=f'"{name}" IS NULL', truth=lambda values: values[column] is None)
    literal = _literal(column_type, value)
    if literal is None:
        return Condition(text=f'"{name}" IS NOT NULL', truth=lambda values: values[column] is not None)
    compares, wanted = OPERATORS[symbol], _comparable(column_type, value)

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


def _literal(column_type: int, value: Any) -> str | None:
    tag = tag_of(column_type)
    if tag in _NUMBERS:
        return f"{value:f}" if tag in DECIMAL_DIGITS_MAX else str(value)
    if tag in _FRACTIONS:
        return {"inf": "'Infinity'", "-inf": "'-Infinity'"}.get(value, str(value))
    if tag in _TEXTS:
        escaped = str(value).replace("'", "''")
        return f"'{escaped}'"
    if tag in GEOHASH_BITS:
        return f"'{value:0{GEOHASH_PRECISION.get(column_type)}b}'"
    match tag:
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
