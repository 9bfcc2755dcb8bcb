"""Literals of a condition as values of the column that they are compared with: exact, or refused in one sentence."""

from __future__ import annotations

import datetime
import enum
import ipaddress
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, NoReturn, TypeVar

import pyarrow as pa

from tornproof.impl.errors import TornproofError
from tornproof.impl.pm.statistics import Bound
from tornproof.impl.query.comparison import Floats, Integers, numbers_of
from tornproof.impl.query.predicate import is_long256
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import GEOHASH_BITS, GEOHASH_PRECISION, TypeTag, tag_of

NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+))?", re.ASCII)
NUMBER_CHARACTERS_MAX: Final = 1000
# Beyond these, no number of so many characters differs from any other to a column.
EXPONENT_MAX: Final = 2 * NUMBER_CHARACTERS_MAX
INSTANT: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?)?(?:Z|([+-]\d\d):?(\d\d))?)?)?)?",
    re.ASCII,
)
GEOHASH_DIGITS: Final = "0123456789bcdefghjkmnpqrstuvwxyz"
GEOHASH_DIGIT_BITS: Final = 5
UNITS_PER_SECOND: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}
CODE_UNIT_MAX: Final = 0xFFFF

Parsed = TypeVar("Parsed")


class PredicateError(TornproofError):
    """A condition that cannot be understood, or that makes no sense for the columns that it names."""


class LiteralKind(enum.Enum):
    """How a literal is written."""

    NUMBER = enum.auto()
    TEXT = enum.auto()
    HEX = enum.auto()
    BOOLEAN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A literal: digits with their sign, the characters between the quotes, hex digits, or `true` and `false`."""

    kind: LiteralKind
    text: str

    def __str__(self) -> str:
        """The literal as it would be written, cut where it is long."""
        shown = self.text if len(self.text) <= 40 else f"{self.text[:40]}..."
        match self.kind:
            case LiteralKind.TEXT:
                return f"'{shown}'"
            case LiteralKind.HEX:
                return f"x'{shown}'"
            case _:
                return shown


def value_of_literal(column: SnapshotColumn, literal: Literal) -> Fraction | Bound:
    """Return a literal in the terms of `tornproof.impl.query.predicate`, as precise and as large as it is written.

    Raises PredicateError, which names column, type and literal, where the literal is of another kind than the column.
    """
    tag, of, text = tag_of(column.type), column.arrow_type, literal.text
    numbers = numbers_of(column)
    match literal.kind:
        case LiteralKind.BOOLEAN:
            return int(text == "true") if pa.types.is_boolean(of) else _refuse(column, literal)
        case LiteralKind.HEX if isinstance(numbers, Integers) and not pa.types.is_boolean(of):
            return _integer_of_hex(column, literal)
        case LiteralKind.HEX:
            return _bytes_of_hex(column, literal)
        case LiteralKind.NUMBER:
            is_number = numbers is not None and not pa.types.is_boolean(of)
            return _number(column, literal) if is_number else _refuse(column, literal)
        case LiteralKind.TEXT:
            pass
    if tag is TypeTag.CHAR:
        return ord(text) if len(text) == 1 and ord(text) <= CODE_UNIT_MAX else _refuse(column, literal)
    if tag is TypeTag.IPV4:
        return _parsed(column, literal, lambda: int(ipaddress.IPv4Address(text)))
    if tag is TypeTag.UUID:
        return _parsed(column, literal, lambda: uuid.UUID(text).bytes)
    if tag in GEOHASH_BITS:
        return _geohash(column, literal)
    if is_long256(column):
        return _integer_of_hex(column, literal)
    if pa.types.is_timestamp(of):
        return _parsed(column, literal, lambda: _instant(text, UNITS_PER_SECOND[of.unit]))
    if pa.types.is_string(of):
        return _parsed(column, literal, text.encode)
    if isinstance(numbers, Floats) and text.lower() in ("infinity", "-infinity"):
        return math.copysign(math.inf, -1 if text.startswith("-") else 1)
    if numbers is not None and not pa.types.is_boolean(of):
        return _number(column, literal)
    return _refuse(column, literal)


def _type_name(column: SnapshotColumn) -> str:
    """Return the name that SQL has for a column's type, or Arrow's where it is no type of QuestDB's."""
    return str(column.arrow_type) if tag_of(column.type) is None else type_name(column.type)


def _number(column: SnapshotColumn, literal: Literal) -> Fraction:
    found = NUMBER.fullmatch(literal.text) if len(literal.text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        _refuse(column, literal)
    exponent = max(-EXPONENT_MAX, min(EXPONENT_MAX, int(found[2] or 0)))
    shape = valid_decimal_shape(column.type)
    return Fraction(Decimal(found[1])) * Fraction(10) ** (exponent + (shape.scale if shape is not None else 0))


def _integer_of_hex(column: SnapshotColumn, literal: Literal) -> int:
    digits = literal.text.removeprefix("0x")
    if not re.fullmatch("[0-9a-fA-F]{1,1000}", digits) or valid_decimal_shape(column.type) is not None:
        _refuse(column, literal)
    return int(digits, 16)


def _bytes_of_hex(column: SnapshotColumn, literal: Literal) -> bytes:
    of = column.arrow_type
    of = of.storage_type if isinstance(of, pa.BaseExtensionType) else of
    is_bytes = pa.types.is_binary(of) or pa.types.is_fixed_size_binary(of)
    value = _parsed(column, literal, lambda: bytes.fromhex(literal.text)) if is_bytes else _refuse(column, literal)
    if pa.types.is_fixed_size_binary(of) and len(value) != of.byte_width:
        _refuse(column, literal)
    return value


def _geohash(column: SnapshotColumn, literal: Literal) -> int:
    bit_count, text = GEOHASH_PRECISION.get(column.type), literal.text
    if len(text) == bit_count and set(text) <= set("01"):
        return int(text, 2)
    if len(text) * GEOHASH_DIGIT_BITS != bit_count or not set(text) <= set(GEOHASH_DIGITS):
        _refuse(column, literal)
    value = 0
    for digit in text:
        value = value << GEOHASH_DIGIT_BITS | GEOHASH_DIGITS.index(digit)
    return value


def _instant(text: str, units_per_second: int) -> Fraction:
    """Return a time as a count since 1970, in UTC unless it says another offset; ValueError where it is none."""
    found = INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(group or 0) for group in found.groups()[:6])
    whole = datetime.datetime(year, month or 1, day or 1, hour, minute, second) - datetime.datetime(1970, 1, 1)
    seconds = whole.days * 86_400 + whole.seconds
    if found[8]:
        seconds -= int(found[8]) * 3600 + int(f"{found[8][0]}{found[9]}") * 60
    return (seconds + Fraction(f"0.{found[7] or 0}")) * units_per_second


def _parsed(column: SnapshotColumn, literal: Literal, parse: Callable[[], Parsed]) -> Parsed:
    try:
        return parse()
    except ValueError:
        _refuse(column, literal)


def _refuse(column: SnapshotColumn, literal: Literal) -> NoReturn:
    raise PredicateError(
        f"column {column.name!r} of type {_type_name(column)} cannot be compared with {literal}; {_advice(column)}"
    )


def _advice(column: SnapshotColumn) -> str:
    tag, of = tag_of(column.type), column.arrow_type
    of = of.storage_type if isinstance(of, pa.BaseExtensionType) else of
    numbers = numbers_of(column)
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
    if numbers is not None:
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
