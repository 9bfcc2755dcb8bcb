"""Figures of bloom filters: the share of bits set, and the false positive rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tornproof.cli.inspection.report import Document
from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES, HEADER_MAX_BYTES, SALTS, WORD_BITS, decode_filter_header

READ_LIMIT_BYTES = 64 * 1024 * 1024
SLICE_BYTES = 1 << 20
BIT_COUNTS = np.array([value.bit_count() for value in range(256)], np.uint8)


@dataclass(slots=True)
class Budget:
    """How many bytes of filters one inspection may still read; further filters have no figures."""

    left_bytes: int = READ_LIMIT_BYTES

    def take(self, size_bytes: int | None) -> bool:
        """Return whether that many bytes may be read; False for an unknown size."""
        if size_bytes is None or not 0 < size_bytes <= self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True


def bitset_figures(bitset: bytes | memoryview | None) -> Document:
    """Return the share of set bits and the false positive rate; None if no bitset was read.

    A value passes if its block has the bit of each of the 8 words; hashes choose blocks and bits uniformly.
    """
    if not bitset or len(bitset) % BLOCK_BYTES:
        return {"fill": None, "false_positive_rate": None}
    set_count, passing = 0, 0.0
    for start in range(0, len(bitset), SLICE_BYTES):
        counts = BIT_COUNTS[np.frombuffer(bitset[start : start + SLICE_BYTES], np.uint8)]
        words = counts.reshape(-1, len(SALTS), WORD_BITS // 8).sum(axis=2)
        set_count += int(words.sum())
        passing += float((words / WORD_BITS).prod(axis=1).sum())
    return {
        "fill": round(set_count / (8 * len(bitset)), 6),
        "false_positive_rate": float(f"{passing / (len(bitset) // BLOCK_BYTES):.4g}"),
    }


def parquet_bloom_document(
    read: Callable[[int, int], bytes], offset_bytes: int, length_bytes: int | None, budget: Budget, *, file: str
) -> Document:
    """Return the document of a filter in a Parquet file, whose Thrift header precedes the bitset.

    `read(size_bytes, offset_bytes)` reads the file. Raises CorruptError for bytes that are not a filter.
    """
    document = {"offset_bytes": offset_bytes, "length_bytes": length_bytes}
    bitset_size_bytes, header_bytes = decode_filter_header(read(HEADER_MAX_BYTES, offset_bytes), file=file)
    if length_bytes is not None and header_bytes + bitset_size_bytes != length_bytes:
        raise CorruptError(
            file=file,
            field="bloom filter num_bytes",
            offset_bytes=offset_bytes,
            expected=f"a filter of {length_bytes} bytes, as the footer says",
            actual=f"{bitset_size_bytes} after a header of {header_bytes}",
        )
    bitset = None
    if budget.take(bitset_size_bytes):
        bitset = read(bitset_size_bytes, offset_bytes + header_bytes)
        if len(bitset) < bitset_size_bytes:
            raise CorruptError(
                file=file,
                field="bloom filter num_bytes",
                offset_bytes=offset_bytes,
                expected=f"at most {len(bitset)}, the bytes before the file ends",
                actual=bitset_size_bytes,
            )
    return {
        **document,
        "length_bytes": header_bytes + bitset_size_bytes,
        "bitset_size_bytes": bitset_size_bytes,
        **bitset_figures(bitset),
    }
