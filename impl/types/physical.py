"""How Parquet stores values: the physical types, by the numbers that Parquet and `_pm` have for them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class PhysicalType(IntEnum):
    """How values of a leaf are stored."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


PHYSICAL_WIDTH_BYTES: Mapping[int, int] = {
    PhysicalType.BOOLEAN: 1,
    PhysicalType.INT32: 4,
    PhysicalType.INT64: 8,
    PhysicalType.INT96: 12,
    PhysicalType.FLOAT: 4,
    PhysicalType.DOUBLE: 8,
}
"""Of one value as a bound or in memory; those of the others vary."""
