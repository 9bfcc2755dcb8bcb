"""The names of QuestDB's column types in SQL."""

from __future__ import annotations

import re

from tornproof.impl.types.questdb import (
    DECIMAL_DIGITS_MAX,
    DIMENSIONS_MAX,
    ELEMENT_TAG,
    GEOHASH_BITS,
    GEOHASH_FLAG,
    GEOHASH_PRECISION,
    NANOSECOND,
    TIMESTAMP_NS,
    TypeTag,
    array_dimensions,
    decimal_shape,
    decimal_type,
    double_array_type,
    tag_of,
)

GEOHASH_DIGIT_BITS = 5
_WITH_SIZES = {*GEOHASH_BITS, *DECIMAL_DIGITS_MAX, TypeTag.ARRAY}
_CODES = {tag.name: int(tag) for tag in TypeTag if tag not in _WITH_SIZES}
_CODES["TIMESTAMP_NS"] = TIMESTAMP_NS
_ARRAY = re.compile(rf"DOUBLE((\[\]){{1,{DIMENSIONS_MAX}}})")
_GEOHASH = re.compile(r"GEOHASH\(\s*(\d{1,2})\s*([CB])\s*\)")
_DECIMAL = re.compile(r"DECIMAL\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def type_name(column_type: int) -> str:
    """Return the name of a type code, or `?` for -1 and unknown codes."""
    tag = tag_of(column_type)
    if tag is None:
        return "?"
    if tag in DECIMAL_DIGITS_MAX:
        shape = decimal_shape(column_type)
        return f"DECIMAL({shape.precision},{shape.scale})"
    if tag in GEOHASH_BITS:
        return f"GEOHASH({GEOHASH_PRECISION.get(column_type)}b)"
    if tag is TypeTag.ARRAY:
        element = tag_of(ELEMENT_TAG.get(column_type))
        return f"{element.name if element else '?'}" + "[]" * array_dimensions(column_type)
    if tag is TypeTag.TIMESTAMP and NANOSECOND.get(column_type):
        return "TIMESTAMP_NS"
    return "IPv4" if tag is TypeTag.IPV4 else tag.name


def type_code(name: str) -> int | None:
    """Return the code of a type by its name, in upper or lower case, or None for an unknown name.

    Geohashes are named by digits or bits (`GEOHASH(8c)`, `GEOHASH(40b)`), arrays by their dimensions (`DOUBLE[][]`).
    """
    text = name.strip().upper()
    if match := _ARRAY.fullmatch(text):
        return double_array_type(len(match[1]) // 2)
    if match := _GEOHASH.fullmatch(text):
        size_bits = int(match[1]) * (GEOHASH_DIGIT_BITS if match[2] == "C" else 1)
        tag = next((tag for tag, sizes_bits in GEOHASH_BITS.items() if size_bits in sizes_bits), None)
        return None if tag is None else GEOHASH_FLAG.put(GEOHASH_PRECISION.put(int(tag), size_bits), 1)
    if match := _DECIMAL.fullmatch(text):
        return decimal_type(int(match[1]), int(match[2]))
    return _CODES.get(text)
