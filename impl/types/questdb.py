"""QuestDB's column type codes: a tag in the low byte, precision and flags above it (docs/format.md)."""

from __future__ import annotations

import enum
import functools
import math

import msgspec

from tornproof.impl.layout.bits import Bits, BitTable


class TypeTag(enum.IntEnum):
    """The low byte of a column type."""

    BOOLEAN = 1
    BYTE = 2
    SHORT = 3
    CHAR = 4
    INT = 5
    LONG = 6
    DATE = 7
    TIMESTAMP = 8
    FLOAT = 9
    DOUBLE = 10
    STRING = 11
    SYMBOL = 12
    LONG256 = 13
    GEOBYTE = 14
    GEOSHORT = 15
    GEOINT = 16
    GEOLONG = 17
    BINARY = 18
    UUID = 19
    LONG128 = 24
    IPV4 = 25
    VARCHAR = 26
    ARRAY = 27
    DECIMAL8 = 28
    DECIMAL16 = 29
    DECIMAL32 = 30
    DECIMAL64 = 31
    DECIMAL128 = 32
    DECIMAL256 = 33


COLUMN_TYPE = BitTable(
    "Column type",
    "QuestDB's public sources",
    32,
    (
        Bits("TAG", 0, 8, "the type; the bits above mean different things for different tags"),
        Bits("DESIGNATED", 17, 1, "designated timestamp (in `_pm` only)"),
        Bits("NANOSECOND", 18, 1, "a timestamp counts nanoseconds, else microseconds"),
    ),
)
TAG, DESIGNATED, NANOSECOND = COLUMN_TYPE.bits

ARRAY_TYPE = BitTable(
    "Array type",
    "QuestDB's public sources",
    32,
    (
        Bits("ARRAY_TAG", 0, 8, "27"),
        Bits("ELEMENT_TAG", 8, 6, "type of the elements"),
        Bits("DIMENSIONS_MINUS_1", 14, 5, "number of dimensions, less 1"),
    ),
)
_, ELEMENT_TAG, DIMENSIONS_MINUS_1 = ARRAY_TYPE.bits

DECIMAL_TYPE = BitTable(
    "Decimal type",
    "QuestDB's public sources",
    32,
    (
        Bits("DECIMAL_TAG", 0, 8, "28 to 33"),
        Bits("PRECISION", 8, 8, "digits"),
        Bits("SCALE", 18, 8, "digits after the point"),
    ),
)
_, PRECISION, SCALE = DECIMAL_TYPE.bits

GEOHASH_TYPE = BitTable(
    "Geohash type",
    "QuestDB's public sources",
    32,
    (
        Bits("GEOHASH_TAG", 0, 8, "14 to 17"),
        Bits("PRECISION_BITS", 8, 8, "bits of the geohash"),
        Bits("GEOHASH_FLAG", 16, 1, "always set on geohashes"),
    ),
)
_, GEOHASH_PRECISION, GEOHASH_FLAG = GEOHASH_TYPE.bits

GEOHASH_BITS = {
    TypeTag.GEOBYTE: range(1, 8),
    TypeTag.GEOSHORT: range(8, 16),
    TypeTag.GEOINT: range(16, 32),
    TypeTag.GEOLONG: range(32, 61),
}
"""The geohash types, and the largest number of bits of each."""
NEVER_NULL_TAGS = frozenset({TypeTag.BOOLEAN, TypeTag.BYTE, TypeTag.SHORT, TypeTag.CHAR})
"""Types whose rows without a value hold false or 0."""
_LEAST = bytes(7) + b"\x80"
NULL_VALUES: dict[TypeTag, int | float | bytes] = {
    TypeTag.INT: -(1 << 31),
    **dict.fromkeys((TypeTag.LONG, TypeTag.DATE, TypeTag.TIMESTAMP), -(1 << 63)),
    **dict.fromkeys((TypeTag.FLOAT, TypeTag.DOUBLE), math.nan),
    TypeTag.UUID: 2 * _LEAST[::-1],
    TypeTag.LONG128: 2 * _LEAST,
    TypeTag.LONG256: 4 * _LEAST,
    TypeTag.IPV4: 0,
    **dict.fromkeys(GEOHASH_BITS, -1),
}
"""What servers keep in place of null, in types of which it is a value too."""
DECIMAL_DIGITS_MAX = {
    TypeTag.DECIMAL8: 2,
    TypeTag.DECIMAL16: 4,
    TypeTag.DECIMAL32: 9,
    TypeTag.DECIMAL64: 18,
    TypeTag.DECIMAL128: 38,
    TypeTag.DECIMAL256: 76,
}
"""The decimal types, and the largest precision of each."""

TIMESTAMP_NS = NANOSECOND.put(TypeTag.TIMESTAMP, 1)
TYPES_BY_UNIT = {"MILLIS": int(TypeTag.DATE), "MICROS": int(TypeTag.TIMESTAMP), "NANOS": TIMESTAMP_NS}
"""The types of times by Parquet's names of their units."""
DIMENSIONS_MAX = 32


class DecimalShape(msgspec.Struct, frozen=True, kw_only=True):
    """The digits of a decimal, and how many of them are after the point."""

    precision: int
    scale: int


# Cached, as are other facts of a type, because several checks of each chunk ask for it.
@functools.lru_cache(maxsize=1024)
def tag_of(column_type: int) -> TypeTag | None:
    """Return the tag of a type code, or None for -1 and unknown tags."""
    return None if column_type < 0 else next((tag for tag in TypeTag if tag == TAG.get(column_type)), None)


def decimal_shape(column_type: int) -> DecimalShape:
    """Return precision and scale of a decimal's type code."""
    return DecimalShape(precision=PRECISION.get(column_type), scale=SCALE.get(column_type))


def decimal_type(precision: int, scale: int) -> int | None:
    """Return the type code of a decimal with the smallest sufficient tag, or None if there is none."""
    tag = next((tag for tag, digits_max in DECIMAL_DIGITS_MAX.items() if precision <= digits_max), None)
    if tag is None or not scale <= precision > 0:
        return None
    return SCALE.put(PRECISION.put(tag, precision), scale)


def double_array_type(dimensions: int) -> int:
    """Return the type code of an array of doubles."""
    return DIMENSIONS_MINUS_1.put(ELEMENT_TAG.put(TypeTag.ARRAY, TypeTag.DOUBLE), dimensions - 1)


def array_dimensions(column_type: int) -> int:
    """Return the number of dimensions of an array's type code."""
    return DIMENSIONS_MINUS_1.get(column_type) + 1
