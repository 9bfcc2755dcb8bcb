"""Bytes as text: compressed, and unpacked again no further than there is room for."""

from __future__ import annotations

import base64
import zlib

UNPACKED_LIMIT_BYTES = 64 << 20


def packed(content: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(zlib.compress(content)).decode()


def unpacked(text: str, limit_bytes: int = UNPACKED_LIMIT_BYTES) -> bytes:
    """Return the bytes again; raises ValueError, TypeError and zlib.error for other text, or too many of them."""
    inflater = zlib.decompressobj()
    content = inflater.decompress(base64.b64decode(text), limit_bytes)
    if inflater.unconsumed_tail:
        raise ValueError(f"more than {limit_bytes} bytes")
    return content
