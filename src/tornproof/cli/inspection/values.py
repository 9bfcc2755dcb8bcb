"""Types and bounds of columns in words: QuestDB type codes, and statistics as values of the column's type."""

from __future__ import annotations

import datetime
import ipaddress
import math
import uuid
from decimal import Decimal
from typing import TypeAlias

from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import Bound, value_of
from tornproof.impl.types.questdb import (
    DECIMAL_DIGITS_MAX,
    GEOHASH_BITS,
    GEOHASH_PRECISION,
    NANOSECOND,
    TypeTag,
    decimal_shape,
    tag_of,
)

Shown: TypeAlias = str | int | float | bool | None
"""A value in JSON; None where only the bytes can be shown."""

EPOCH = datetime.datetime(1970, 1, 1)
TEXT_TAGS = frozenset({TypeTag.STRING, TypeTag.SYMBOL, TypeTag.VARCHAR})
DECIMAL_SCALE_LIMIT = 255
DECIMAL_LIMIT_BYTES = 32
U32_LIMIT = 1 << 32


def questdb_value(column: Column, raw: bytes) -> Shown:
    """Return a statistic of a `_pm` column as a value of its QuestDB type."""
    tag = tag_of(column.type)
    if tag in TEXT_TAGS:
        return text_of(raw)
    if tag is TypeTag.UUID and len(raw) == 16:
        return str(uuid.UUID(bytes=raw))
    if tag is TypeTag.LONG256 and len(raw) == 32:
        return f"0x{raw[::-1].lstrip(bytes(1)).hex() or '00'}"
    value = value_of(column, raw)
    if tag in DECIMAL_DIGITS_MAX:
        return _decimal_value(value, column.type)
    if isinstance(value, int):
        return _integer_value(tag, column.type, value)
    return number(value) if isinstance(value, float) else None


def _decimal_value(value: Bound | None, column_type: int) -> Shown:
    if isinstance(value, bytes):
        value = int.from_bytes(value, "big", signed=True) if len(value) <= DECIMAL_LIMIT_BYTES else None
    return decimal_of(value, decimal_shape(column_type).scale) if isinstance(value, int) else None


def _integer_value(tag: TypeTag | None, column_type: int, value: int) -> Shown:
    if tag is TypeTag.BOOLEAN:
        return bool(value)
    if tag is TypeTag.TIMESTAMP:
        return time_of(value, 1_000_000_000 if NANOSECOND.get(column_type) else 1_000_000)
    if tag is TypeTag.DATE:
        return time_of(value, 1_000)
    if tag is TypeTag.CHAR and value < U32_LIMIT:
        return text_of(value.to_bytes(4, "little"), "utf-32-le")
    if tag is TypeTag.IPV4 and value < U32_LIMIT:
        return str(ipaddress.IPv4Address(value))
    if tag in GEOHASH_BITS and value >= 0:
        return f"{value:0{GEOHASH_PRECISION.get(column_type)}b}"
    return value


def text_of(raw: bytes, encoding: str = "utf-8") -> str | None:
    """Return bytes as text, or None where they are none."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def time_of(value: int, units_in_second: int) -> str | int:
    """Return a time since 1970 in ISO form, or the number itself for years that the calendar does not have."""
    seconds, units = divmod(value, units_in_second)
    try:
        moment = EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return value
    digit_count = len(str(units_in_second)) - 1
    fraction = f".{units:0{digit_count}d}" if units else ""
    return f"{moment.isoformat()}{fraction}Z"


def decimal_of(unscaled: int, scale: int) -> str:
    """Return a decimal with all its digits; an impossible scale leaves the unscaled number."""
    if not 0 <= scale <= DECIMAL_SCALE_LIMIT:
        return str(unscaled)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


def number(value: float) -> float | str:
    """Return a float that JSON can hold, or the word for one that it cannot."""
    return value if math.isfinite(value) else str(value)
