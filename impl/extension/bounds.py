"""Minima and maxima of column chunks as the integers, prefixes and suffixes of a FlatBuffers footer.

Source: the schema's own comment, parquet3.fbs. What does not fit is shortened to a limit, as the schema wants it.
"""

from __future__ import annotations

from typing import NamedTuple

from tornproof.impl.types.physical import PhysicalType

SUFFIX_SIZE_MAX_BYTES = 16
LOW_BITS = 64
LOW_MASK = (1 << LOW_BITS) - 1
FIXED_SIZES_BYTES = {
    PhysicalType.INT32: 4,
    PhysicalType.FLOAT: 4,
    PhysicalType.INT64: 8,
    PhysicalType.DOUBLE: 8,
    PhysicalType.INT96: 12,
}
OF_BYTES = (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY)


class Bound(NamedTuple):
    """The bytes of a minimum or maximum, and whether it is known to be a value of the chunk."""

    value: bytes
    is_exact: bool


class PackedBound(NamedTuple):
    """A bound in the fields of the schema; `length` is its size, or that of its suffix, negative if it is not exact."""

    lo4: int
    lo8: int
    hi8: int
    length: int


class PackedBounds(NamedTuple):
    """Both bounds, None where absent, and what both begin with."""

    low: PackedBound | None
    high: PackedBound | None
    prefix: bytes


NO_BOUNDS = PackedBounds(None, None, b"")


def packed_bounds(physical_type: int, low: Bound | None, high: Bound | None) -> PackedBounds:
    """Return the bounds in the schema's fields; a bound that they cannot state is left out."""
    if physical_type in OF_BYTES:
        prefix = _common_prefix(low.value, high.value) if low and high else b""
        below = low and _shortened(Bound(low.value[len(prefix) :], low.is_exact), is_high=False)
        above = high and _shortened(Bound(high.value[len(prefix) :], high.is_exact), is_high=True)
        return PackedBounds(below and _suffix(below), above and _suffix(above), prefix)
    size_bytes = FIXED_SIZES_BYTES.get(PhysicalType(physical_type))
    return PackedBounds(_fixed(low, size_bytes), _fixed(high, size_bytes), b"")


def _common_prefix(first: bytes, second: bytes) -> bytes:
    differing = (index for index, (left, right) in enumerate(zip(first, second, strict=False)) if left != right)
    return first[: next(differing, min(len(first), len(second)))]


def _fixed(bound: Bound | None, size_bytes: int | None) -> PackedBound | None:
    if bound is None or len(bound.value) != size_bytes:
        return None
    lo4, lo8 = bound.value[: size_bytes % 8], bound.value[size_bytes % 8 :]
    length = size_bytes if bound.is_exact else -size_bytes
    return PackedBound(int.from_bytes(lo4, "little"), int.from_bytes(lo8, "little"), 0, length)


def _shortened(bound: Bound, *, is_high: bool) -> Bound | None:
    """Return a bound of at most 16 bytes, or None if there is none above it."""
    if len(bound.value) <= SUFFIX_SIZE_MAX_BYTES:
        # A length of 0 has no sign, and would make a limit a value.
        return bound if bound.value or bound.is_exact else None
    number = int.from_bytes(bound.value[:SUFFIX_SIZE_MAX_BYTES], "big") + is_high
    if number >> 8 * SUFFIX_SIZE_MAX_BYTES:
        return None
    return Bound(number.to_bytes(SUFFIX_SIZE_MAX_BYTES, "big"), False)


def _suffix(bound: Bound) -> PackedBound:
    number, size_bytes = int.from_bytes(bound.value, "big"), len(bound.value)
    return PackedBound(0, number & LOW_MASK, number >> LOW_BITS, size_bytes if bound.is_exact else -size_bytes)


def unpacked_bound(physical_type: int, packed: PackedBound, prefix: bytes) -> Bound | None:
    """Return a bound from the schema's fields; None if they are none of such a column."""
    size_bytes = abs(packed.length)
    if physical_type in OF_BYTES:
        number = packed.hi8 << LOW_BITS | packed.lo8
        if size_bytes > SUFFIX_SIZE_MAX_BYTES or number >> 8 * size_bytes:
            return None
        return Bound(prefix + number.to_bytes(size_bytes, "big"), packed.length >= 0)
    if size_bytes != FIXED_SIZES_BYTES.get(PhysicalType(physical_type)):
        return None
    value = packed.lo4.to_bytes(4, "little")[: size_bytes % 8] + packed.lo8.to_bytes(8, "little")[: size_bytes // 8 * 8]
    return Bound(value, packed.length > 0)
