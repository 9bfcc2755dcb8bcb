"""Literals of a condition as exact values of the column that they are compared with, or an error in one sentence."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from tornproof.impl.errors import TornproofError
from tornproof.impl.pm.statistics import Bound
from tornproof.impl.query.comparison import Floats, Integers, numbers_of
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import GEOHASH_BITS, GEOHASH_PRECISION, TypeTag, tag_of
from tornproof.impl.types.texts import UNITS_PER_SECOND, address_of, code_unit_of, geohash_of, instant_of

# Text in single quotes, names in double quotes, no backslashes, as in QuestDB.
DIALECT: Final = "postgres"
SHOWN_CHARACTERS_MAX: Final = 40
NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+))?", re.ASCII)
NUMBER_CHARACTERS_MAX: Final = 1000
# Beyond these exponents, all numbers of so many characters compare alike with every column.
EXPONENT_MAX: Final = 2 * NUMBER_CHARACTERS_MAX


class PredicateError(TornproofError):
    """A condition that cannot be parsed, or that is invalid for the columns that it names."""


def value_of_literal(column: SnapshotColumn, literal: Any) -> Fraction | Bound:
    """Return a literal as a value of `tornproof.impl.query.predicate`, without rounding.

    `literal` is the parser's node of a number, with or without a minus, of a text, of hex digits, or of true or false.
    Raises PredicateError, which names column, type and literal, if they are not comparable.
    """
    try:
        return _value(column, literal)
    except ValueError as error:
        # The SQL name of the type, or Arrow's if it is not a QuestDB type.
        of = str(column.arrow_type) if tag_of(column.type) is None else type_name(column.type)
        raise PredicateError(
            f"column {column.name!r} of type {of} cannot be compared with {_shown(literal)}; {_advice(column)}"
        ) from error


def _value(column: SnapshotColumn, literal: Any) -> Fraction | Bound:
    """Return the value; raises ValueError if there is none."""
    is_boolean = pa.types.is_boolean(column.arrow_type)
    numbers = None if is_boolean else numbers_of(column)
    match literal:
        case exp.Boolean() if is_boolean:
            return int(literal.this)
        case exp.HexString() if isinstance(numbers, Integers):
            return _integer_of_hex(column, literal.name)
        case exp.HexString():
            return _bytes_of_hex(column, literal.name)
        case exp.Literal(is_string=True):
            return _value_of_text(column, literal.name, numbers)
        case exp.Neg() if numbers is not None:
            return _number(column, f"-{literal.this.name}")
        case exp.Literal() if numbers is not None:
            return _number(column, literal.name)
    raise ValueError(literal)


def _value_of_text(column: SnapshotColumn, text: str, numbers: Integers | Floats | None) -> Fraction | Bound:
    of, tag = column.arrow_type, tag_of(column.type)
    match tag:
        case TypeTag.CHAR:
            return code_unit_of(text)
        case TypeTag.IPV4:
            return address_of(text)
        case TypeTag.UUID:
            return uuid.UUID(text).bytes
        case TypeTag.LONG256:
            return _integer_of_hex(column, text)
    if tag in GEOHASH_BITS:
        return _geohash(GEOHASH_PRECISION.get(column.type), text)
    if pa.types.is_timestamp(of):
        return instant_of(text, UNITS_PER_SECOND[of.unit])
    if pa.types.is_string(of):
        return text.encode()
    if isinstance(numbers, Floats) and text.lower() in ("infinity", "-infinity"):
        return float(text)
    if numbers is None:
        raise ValueError(text)
    return _number(column, text)


def _number(column: SnapshotColumn, text: str) -> Fraction:
    found = NUMBER.fullmatch(text) if len(text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(text)
    exponent = max(-EXPONENT_MAX, min(EXPONENT_MAX, int(found[2] or 0)))
    shape = valid_decimal_shape(column.type)
    return Fraction(Decimal(found[1])) * Fraction(10) ** (exponent + (shape.scale if shape is not None else 0))


def _integer_of_hex(column: SnapshotColumn, text: str) -> int:
    digits = text.removeprefix("0x")
    if not re.fullmatch("[0-9a-fA-F]{1,1000}", digits) or valid_decimal_shape(column.type) is not None:
        raise ValueError(text)
    return int(digits, 16)


def _bytes_of_hex(column: SnapshotColumn, text: str) -> bytes:
    of, value = _stored_type(column), bytes.fromhex(text)
    if not pa.types.is_binary(of) and not (pa.types.is_fixed_size_binary(of) and len(value) == of.byte_width):
        raise ValueError(text)
    return value


def _geohash(bit_count: int, text: str) -> int:
    if len(text) == bit_count and set(text) <= set("01"):
        return int(text, 2)
    return geohash_of(bit_count, text)


def _stored_type(column: SnapshotColumn) -> pa.DataType:
    of = column.arrow_type
    return of.storage_type if isinstance(of, pa.BaseExtensionType) else of


def _shown(literal: Any) -> str:
    """Return a literal as it would be written, truncated if it is long."""
    text = str(literal.sql(dialect=DIALECT))
    text = text.lower() if isinstance(literal, exp.Boolean) else text
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."


def _advice(column: SnapshotColumn) -> str:
    tag, of = tag_of(column.type), _stored_type(column)
    if tag in GEOHASH_BITS:
        return f"write a text of {GEOHASH_PRECISION.get(column.type)} bits, or of base 32 digits if 5 divides that"
    if tag in _ADVICE:
        return _ADVICE[tag]
    if pa.types.is_boolean(of):
        return "write true or false"
    if pa.types.is_timestamp(of):
        return "write a time such as '2024-01-31T12:30:00.5Z'"
    if pa.types.is_string(of):
        return "write a text in single quotes"
    if numbers_of(column) is not None:
        return "write a number"
    if pa.types.is_fixed_size_binary(of):
        return f"write {of.byte_width} bytes as x'...'"
    return "write bytes as x'...'" if pa.types.is_binary(of) else "only IS NULL can be asked of it"


_ADVICE = {
    TypeTag.CHAR: "write one character in single quotes",
    TypeTag.IPV4: "write an address such as '10.0.0.1'",
    TypeTag.UUID: "write it such as '11111111-2222-3333-4444-555555555555'",
    TypeTag.LONG256: "write it such as '0x1f'",
}
