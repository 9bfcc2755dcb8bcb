"""CRC-32 (IEEE), as `_pm` and the pages of Parquet have it: the quickest of the libraries that compute it.

All of them give the same values. ISA-L is some ten times as fast as zlib, which every Python has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from impl.layout.record import Buffer

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this platform
    from zlib import crc32

crc32_combine: Callable[[int, int, int], int] | None = getattr(sys.modules.get("isal.isal_zlib"), "crc32_combine", None)
"""Returns the checksum of two parts from theirs and the length of the second, where the library can."""

__all__ = ["crc32", "large_crc32"]

HALF_BYTES_MIN = 8 << 20
"""Fewer are summed sooner than a thread is begun."""


def large_crc32(data: Buffer) -> int:
    """Return the CRC-32 of any number of bytes; halves of many are summed side by side, as are their page faults."""
    view = memoryview(data)
    half_bytes = len(view) // 2
    if crc32_combine is None or half_bytes < HALF_BYTES_MIN:
        return crc32(view)
    first, second = view[:half_bytes], view[half_bytes:]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(crc32, second)
        return crc32_combine(crc32(first), other.result(), len(second))
