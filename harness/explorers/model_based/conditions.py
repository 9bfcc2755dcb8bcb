"""Conditions on one column, as text for the implementation and as a function of plain values for the model."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, TypeTag

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}
_NUMBERS = {TypeTag.BYTE, TypeTag.SHORT, TypeTag.INT, TypeTag.LONG, *DECIMAL_DIGITS_MAX}
_FRACTIONS = {TypeTag.FLOAT, TypeTag.DOUBLE}
_TEXTS = {TypeTag.STRING, TypeTag.VARCHAR, TypeTag.SYMBOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition in SQL's syntax, and whether it is true for a value of the column."""

    text: str
    is_true: Callable[[Any], bool]


def condition_on(name: str, tag: TypeTag | None, value: Any, symbol: str) -> Condition:
    """Return a comparison with a value of the column; where there is none for its type, whether there is a value."""
    literal = None if value is None else _literal(tag, value)
    if value is None:
        return Condition(text=f'"{name}" IS NULL', is_true=lambda other: other is None)
    if literal is None:
        return Condition(text=f'"{name}" IS NOT NULL', is_true=lambda other: other is not None)
    compares, convert = OPERATORS[symbol], float if tag in _FRACTIONS else _unchanged
    wanted = convert(value)
    return Condition(
        text=f'"{name}" {symbol} {literal}',
        is_true=lambda other: other is not None and compares(convert(other), wanted),
    )


def _unchanged(value: Any) -> Any:
    return value


def _literal(tag: TypeTag | None, value: Any) -> str | None:
    if tag in _NUMBERS:
        return f"{value:f}" if tag in DECIMAL_DIGITS_MAX else str(value)
    if tag in _FRACTIONS:
        # Plain values of floats are their texts.
        return {"inf": "'Infinity'", "-inf": "'-Infinity'"}.get(value, str(value))
    if tag in _TEXTS:
        escaped = str(value).replace("'", "''")
        return f"'{escaped}'"
    if tag is TypeTag.BINARY:
        return f"x'{value.hex()}'" if value else None
    return f"'{uuid.UUID(bytes=value)}'" if tag is TypeTag.UUID else None
