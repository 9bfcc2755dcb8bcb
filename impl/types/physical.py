"""How Parquet stores values: the physical types, by the numbers that Parquet and `_pm` have for them."""

from __future__ import annotations

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
