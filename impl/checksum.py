"""CRC-32 (IEEE), as `_pm` and the pages of Parquet have it: the quickest of the libraries that compute it.

All of them give the same values. ISA-L is some ten times as fast as zlib, which every Python has.
"""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this platform
    from zlib import crc32

__all__ = ["crc32"]
