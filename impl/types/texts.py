"""Texts as numbers of CHAR, IPv4, GEOHASH and time columns, whose digits are not those of the number itself."""

from __future__ import annotations

import datetime
import functools
import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NamedTuple

import pyarrow as pa

from tornproof.impl.types.names import GEOHASH_DIGIT_BITS
from tornproof.impl.types.questdb import GEOHASH_BITS, GEOHASH_PRECISION, tag_of

GEOHASH_DIGITS: Final = "0123456789bcdefghjkmnpqrstuvwxyz"
CODE_UNIT_MAX: Final = 0xFFFF
INSTANT: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:Z|[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?)?"
    r"(?:Z|([+-](?:[01]\d|2[0-3])):?([0-5]\d))?)?)?)?",
    re.ASCII,
)
UNITS_PER_SECOND: Final = {"ms": 10**3, "us": 10**6, "ns": 10**9}


class NumberText(NamedTuple):
    """What a column takes, in words, and the number of a text; `number_of` raises ValueError for other texts."""

    expected: str
    number_of: Callable[[str], int]


def number_text(of: pa.DataType, column_type: int | None) -> NumberText | None:
    """Return how texts are numbers of a column, or None where they are not, or are written in digits as numbers are.

    Without `column_type` nobody knows whether integers are geohashes.
    """
    if column_type is not None and tag_of(column_type) in GEOHASH_BITS:
        size_bits = GEOHASH_PRECISION.get(column_type)
        count, rest = divmod(size_bits, GEOHASH_DIGIT_BITS)
        words = f"{count} digits of base 32" if not rest else "a number, because base 32 has 5 bits a digit"
        return NumberText(f"a geohash of {size_bits} bits: {words}", functools.partial(geohash_of, size_bits))
    return {pa.uint16(): _CHAR, pa.uint32(): _ADDRESS}.get(of)


def code_unit_of(text: str) -> int:
    """Return the number of a text that is one UTF-16 code unit; raises ValueError for others."""
    if len(text) != 1 or ord(text) > CODE_UNIT_MAX:
        raise ValueError(text)
    return ord(text)


def address_of(text: str) -> int:
    """Return the number of an IPv4 address such as 10.0.0.1; raises ValueError for other texts."""
    return int(ipaddress.IPv4Address(text))


def geohash_of(size_bits: int, text: str) -> int:
    """Return the geohash of digits of base 32 that have exactly so many bits; raises ValueError for other texts."""
    if len(text) * GEOHASH_DIGIT_BITS != size_bits:
        raise ValueError(text)
    value = 0
    for digit in text:
        value = value << GEOHASH_DIGIT_BITS | GEOHASH_DIGITS.index(digit)
    return value


def instant_of(text: str, units_per_second: int) -> Fraction:
    """Return a time as a count since 1970, in UTC unless it has an offset; raises ValueError for other texts."""
    found = INSTANT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day = (int(group or 1) for group in found.groups()[:3])
    hour, minute, second = (int(group or 0) for group in found.groups()[3:6])
    whole = datetime.datetime(year, month, day, hour, minute, second) - datetime.datetime(1970, 1, 1)
    seconds = whole.days * 86_400 + whole.seconds
    if found[8]:
        seconds -= int(found[8]) * 3600 + int(f"{found[8][0]}{found[9]}") * 60
    return (seconds + Fraction(f"0.{found[7] or 0}")) * units_per_second


def _code_unit_or_null(text: str) -> int:
    # The null of servers.
    return code_unit_of(text) if text else 0


_CHAR = NumberText("a text of one UTF-16 unit", _code_unit_or_null)
_ADDRESS = NumberText("an address such as 10.0.0.1", address_of)
