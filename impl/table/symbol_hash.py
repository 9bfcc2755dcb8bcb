"""Where the hash index of a dictionary has each symbol, so that a server finds its key.

It is the same kind of file as the index of a partition: keys are hashes here, and rows are positions in `.o`.
Source: QuestDB's public sources, checked on tables of 9.3.4 to 2026-07 (docs/format.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tornproof.impl.layout import symbol as layout
from tornproof.impl.table.symbol_index import Words

HASH_MASK = 0x0FFF_FFFF
HASH_FACTOR = 31
BUCKET_COUNT_MIN = 2
BLOCK_POSITION_COUNT = 2
"""The positions in one block of a new index."""


def positions_of(first_key: int, count: int) -> Words:
    """Return where `.o` has the offsets of `count` symbols."""
    start = layout.SymbolOffsetsHeader.layout.size_bytes
    return start + layout.SymbolOffset.layout.size_bytes * np.arange(first_key, first_key + count, dtype=np.int64)


def buckets_of(symbols: Sequence[str], capacity: int) -> Words:
    """Return the key in the hash index of each symbol, by the capacity in the header of `.o`.

    The hash is that of a Java string: the sum of its UTF-16 units, each times a power of 31, in 32 bits.
    """
    encoded = [symbol.encode("utf-16-le") for symbol in symbols]
    lengths = np.array([len(units) // 2 for units in encoded], np.int64)
    ends = np.cumsum(lengths)
    powers = np.full(max(lengths, default=0) + 1, HASH_FACTOR, np.uint32)
    powers[0] = 1
    exponents = np.repeat(ends, lengths) - 1 - np.arange(lengths.sum())
    terms = np.frombuffer(b"".join(encoded), "<u2") * np.cumprod(powers, dtype=np.uint32)[exponents]
    sums = np.concatenate((np.zeros(1, np.uint32), np.cumsum(terms, dtype=np.uint32)))
    hashes: Words = (sums[ends] - sums[ends - lengths]).astype(np.int64)
    return hashes & HASH_MASK & bucket_count(capacity) - 1


def bucket_count(capacity: int) -> int:
    """Return how many keys the hash index can have: half of the capacity, as a power of two."""
    return max(BUCKET_COUNT_MIN, 1 << (capacity // 2 - 1).bit_length())
