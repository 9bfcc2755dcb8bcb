"""The physical types of Parquet, by the numbers that Parquet and `_pm` use."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class PhysicalType(IntEnum):
    """How a leaf's values are stored."""

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
"""The bytes of one value as a bound or in memory; other types have variable width."""
