"""Hashes of symbols, and checksums that are put together."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.impl.storage import checksum
from tornproof.impl.table import symbol_hash

CHECKSUM = "tornproof.impl.storage.checksum"
SYMBOLS = ("", "a", "one", "two", "three", "Aa", "BB", "größe", "🌡", "a long symbol " * 9, "\uffff\uffff\uffff\uffff")
CAPACITIES = (1, 2, 3, 4, 5, 8, 100, 128, 256, 1 << 20)
CONTENTS = tuple(bytes(range(256)) * 3 + bytes(rest) for rest in range(9))
SMALL_HALF_BYTES = 3


def hashes() -> Iterator[Question]:
    """Yield where the hash index of a dictionary has symbols."""
    for capacity in CAPACITIES:
        bucket_count = next(1 << power for power in range(1, 32) if 1 << power >= capacity // 2)
        buckets = [_java_hash(symbol) % (1 << 28) % bucket_count for symbol in SYMBOLS]
        yield ask("buckets", f"the buckets of symbols in a dictionary for {capacity}", buckets, _buckets, capacity)
    yield Question(
        "positions", "the positions of symbols 5 to 7", lambda: symbol_hash.positions_of(5, 3).tolist(), [104, 112, 120]
    )


def _buckets(capacity: int) -> list[int]:
    return [*map(int, symbol_hash.buckets_of(SYMBOLS, capacity))]


def _java_hash(text: str) -> int:
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), "<u2").tolist():
        value = (31 * value + unit) % (1 << 32)
    return value


def checksums() -> Iterator[Question]:
    """Yield checksums, also of parts put together, beside those of another library."""
    for content in CONTENTS:
        yield ask(
            "checksums", f"the checksum of {len(content)} bytes in halves", zlib.crc32(content), _in_halves, content
        )


def _in_halves(content: bytes) -> int:
    with replaced(f"{CHECKSUM}:HALF_BYTES_MIN", SMALL_HALF_BYTES):
        return checksum.large_crc32(content)
