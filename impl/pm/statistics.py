"""Statistics of a column chunk as values that compare in the order of the column's type."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable

from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.types.physical import PHYSICAL_WIDTH_BYTES, PhysicalType
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, NEVER_NULL_TAGS, TypeTag, tag_of

Bound = int | float | bytes
MILLISECONDS_PER_DAY = 86_400_000

_UNCOUNTED_TAGS = frozenset({TypeTag.SYMBOL, TypeTag.BINARY, TypeTag.UUID, TypeTag.LONG256})
UNSIGNED_TAGS = frozenset({TypeTag.CHAR, TypeTag.IPV4})
ADDRESS_SIGN = 1 << 31
"""Addresses from here on are negative as signed numbers."""
ABOVE_TEXTS = b"\xff"
"""No text has this byte, so that one with it is above all texts that begin with what is before it."""
# Unsigned integers of other writers get these types and are read as signed (docs/migration.md).
_TAGS_OF_UNSIGNED = frozenset({TypeTag.INT, TypeTag.LONG})


def bounds_of(column: Column, chunk: Chunk) -> tuple[Bound, Bound] | str | None:
    """Return minimum and maximum as comparable values, None unless both are known, or what is wrong with them.

    Integers and decimals become int, floats float, everything else stays bytes, which compare unsigned
    bytewise (docs/format.md: UUID and LONG256 in the order as stored).
    """
    minimum, maximum = chunk.minimum, maximum_of(column, chunk)
    if minimum is None or maximum is None:
        return None
    low, high = value_of(column, minimum.value), value_of(column, maximum.value)
    if low is None or high is None:
        return f"{len(minimum.value)} and {len(maximum.value)} bytes"
    return low, high


def has_known_maximum(column: Column) -> bool:
    """Whether a maximum is above all values, which servers of many releases get wrong for BINARY (docs/format.md)."""
    return tag_of(column.type) is not TypeTag.BINARY


def maximum_of(column: Column, chunk: Chunk) -> Statistic | None:
    """Return the maximum of a chunk, None unless it is known to be above all values."""
    return chunk.maximum if has_known_maximum(column) else None


def may_be_undercounted(column: Column) -> bool:
    """Whether some servers leave rows that are older than such a column out of its null count (docs/format.md)."""
    return tag_of(column.type) in _UNCOUNTED_TAGS


def older_row_count(column: Column, chunk: Chunk) -> int:
    """Return how many first rows of a chunk hold false or 0 because they are older than a column that has no nulls.

    Servers count them as nulls, although the column is required, and leave them out of bounds and bloom filters.
    """
    return chunk.null_count or 0 if column.max_def_level == 0 and tag_of(column.type) in NEVER_NULL_TAGS else 0


def proven_bounds(column: Column, chunk: Chunk) -> tuple[Bound | None, Bound | None]:
    """Return a lower and an upper bound of the column's values, each None if unknown.

    Unlike `bounds_of` these may be used for pruning: they are in the unit of the values that are read, and only given
    if the order is known (docs/format.md). Bounds ignore NaN, so it may be among the values. They also hold where an
    earlier server made them of those of several pages, which `_pm` does not count.
    """
    low, high = _stated_bounds(column, chunk)
    if column.physical_type == PhysicalType.BYTE_ARRAY:
        # Texts may be below the minimum, and above the maximum are at most those that begin with it.
        return None, high + ABOVE_TEXTS if isinstance(high, bytes) else None
    if tag_of(column.type) is TypeTag.IPV4:
        # As signed numbers an address that is not negative is the least one only if none is negative.
        low = low if isinstance(low, int) and low < ADDRESS_SIGN else None
        high = high if isinstance(high, int) and high >= ADDRESS_SIGN else None
    return low, high


def _stated_bounds(column: Column, chunk: Chunk) -> tuple[Bound | None, Bound | None]:
    """Return the bounds that a chunk states, each None if it is unknown or of an unknown order."""
    low, high = (
        None if statistic is None else _readable(column, statistic.value)
        for statistic in (chunk.minimum, maximum_of(column, chunk))
    )
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return None, None
    if low is not None and high is not None:
        return (low, high) if in_order(column, low, high) else (None, None)
    if tag_of(column.type) in _TAGS_OF_UNSIGNED:
        # If both bounds are in order as signed numbers, they are valid for unsigned ones too; a single one need not be.
        low = low if isinstance(low, int) and low < 0 else None
        high = high if isinstance(high, int) and high >= 0 else None
    return low, high


def in_order(column: Column, low: Bound, high: Bound) -> bool:
    """Whether a minimum is not above its maximum.

    Always true for types without a known order: INT96, and values of fixed length without a QuestDB type, such as
    16-bit floats.
    """
    is_unknown = column.physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY and tag_of(column.type) is None
    if column.physical_type == PhysicalType.INT96 or is_unknown:
        return True
    if isinstance(low, bytes) or isinstance(high, bytes):
        return isinstance(low, bytes) and isinstance(high, bytes) and low <= high
    return not low > high  # also true for NaN


def are_unsigned(column: Column, low: Bound, high: Bound) -> bool:
    """Whether bounds can be those of unsigned integers, to which the converter gives the types INT and LONG too.

    No table has them, so only columns without a writer index can be unsigned.
    """
    if column.id >= 0 or not isinstance(low, int) or not isinstance(high, int):
        return False
    return tag_of(column.type) in _TAGS_OF_UNSIGNED and high < 0 <= low


def are_signed(column: Column, low: Bound, high: Bound) -> bool:
    """Whether bounds are out of order, and in order if addresses are signed, as earlier servers compared them."""
    if tag_of(column.type) is not TypeTag.IPV4 or not isinstance(low, int) or not isinstance(high, int):
        return False
    return high < ADDRESS_SIGN <= low


def are_signed_addresses(column: Column, chunk: Chunk) -> bool:
    """Whether the bounds of a chunk are such ones."""
    bounds = bounds_of(column, chunk) if tag_of(column.type) is TypeTag.IPV4 else None
    return isinstance(bounds, tuple) and are_signed(column, *bounds)


def value_of(column: Column, raw: bytes) -> Bound | None:
    """Return one statistic as a comparable value, or None if its length does not fit the physical type."""
    decode = _decoder(column.type, column.physical_type, column.fixed_byte_len, len(raw))
    return None if decode is None else decode(raw)


@functools.lru_cache(maxsize=1024)
def _decoder(column_type: int, physical: int, fixed_byte_len: int, size_bytes: int) -> Callable[[bytes], Bound] | None:
    """Return what decodes a statistic of so many bytes; a file has two for each column of each row group."""
    width = fixed_byte_len if physical == PhysicalType.FIXED_LEN_BYTE_ARRAY else PHYSICAL_WIDTH_BYTES.get(physical)
    if physical == PhysicalType.INT96 and size_bytes == PHYSICAL_WIDTH_BYTES[PhysicalType.INT64]:
        # Nanoseconds that the converter took from the pages (docs/migration.md).
        return _little_endian
    if width is not None and size_bytes != width:
        return None
    tag = tag_of(column_type)
    if physical in (PhysicalType.FIXED_LEN_BYTE_ARRAY, PhysicalType.BYTE_ARRAY) and tag in DECIMAL_DIGITS_MAX:
        return _big_endian
    if physical in (PhysicalType.BOOLEAN, PhysicalType.INT32, PhysicalType.INT64):
        return _unsigned if tag in UNSIGNED_TAGS else _little_endian
    if physical == PhysicalType.FLOAT:
        return _float
    return _double if physical == PhysicalType.DOUBLE else bytes


def _little_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _unsigned(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _big_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _float(raw: bytes) -> float:
    return float(struct.unpack("<f", raw)[0])


def _double(raw: bytes) -> float:
    return float(struct.unpack("<d", raw)[0])


def _readable(column: Column, raw: bytes) -> Bound | None:
    """Return one statistic in the representation of the values that are read, or None if it is not usable for them."""
    tag, physical = tag_of(column.type), column.physical_type
    value = value_of(column, raw)
    if tag is None or tag is TypeTag.ARRAY or physical == PhysicalType.INT96 or value is None:
        return None
    if tag in DECIMAL_DIGITS_MAX and physical == PhysicalType.BYTE_ARRAY:
        return None
    if physical == PhysicalType.BOOLEAN and value not in (0, 1):
        return None
    if tag is TypeTag.DATE and physical == PhysicalType.INT32 and isinstance(value, int):
        return value * MILLISECONDS_PER_DAY
    return value
