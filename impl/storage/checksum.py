"""CRC-32 (IEEE), as used in `_pm` and Parquet pages, by the fastest library that is installed.

All give the same values. ISA-L is about ten times as fast as zlib, which every Python has.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tornproof.impl.layout.record import Buffer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this platform
    from zlib import crc32

crc32_combine: Callable[[int, int, int], int] | None = getattr(sys.modules.get("isal.isal_zlib"), "crc32_combine", None)
"""Combines the checksums of two parts, given the length of the second; None if the library cannot."""

__all__ = ["crc32", "large_crc32"]

HALF_BYTES_MIN = 2 << 20
"""Fewer bytes take less time than starting another thread."""


def large_crc32(data: Buffer) -> int:
    """Return the CRC-32 of any number of bytes; halves of large inputs, and their page faults, run in parallel."""
    view = memoryview(data)
    half_bytes = len(view) // 2
    if crc32_combine is None or half_bytes < HALF_BYTES_MIN:
        return crc32(view)
    second = _helper().submit(crc32, view[half_bytes:])
    return crc32_combine(crc32(view[:half_bytes]), second.result(), len(view) - half_bytes)


@functools.cache
def _helper() -> ThreadPoolExecutor:
    """Return the helper thread, which is kept because starting one takes as long as a megabyte."""
    # Imported here: this takes longer than all checksums of a small table.
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1)


if hasattr(os, "register_at_fork"):
    # A forked process has the pool but not its thread.
    os.register_at_fork(after_in_child=_helper.cache_clear)
