"""Bloom filters of data.parquet, read to be inlined into `_pm` as the server does (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Callable

from tornproof.impl.migrate.footer_reader import StructReader
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import ColumnMetaData
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES
from tornproof.impl.parquet.fields import BLOOM_FILTER_HEADER

HEADER_FIRST_BYTES = 256
HEADER_MAX_BYTES = 1 << 20
# Chunks may share a filter, and each gets a copy.
TOTAL_MAX_BYTES = 64 << 20


class BloomFilters:
    """Reads the filters of one file of `physical_size_bytes`, of which only a prefix may be converted."""

    def __init__(self, read: Callable[[int, int], bytes], physical_size_bytes: int) -> None:
        self.read = read
        self.physical_size_bytes = physical_size_bytes
        self.free_bytes = max(TOTAL_MAX_BYTES, physical_size_bytes)

    def bitset_of(self, meta: ColumnMetaData) -> bytes | None:
        """Return the bitset of a chunk, or None; raises RejectionError for one that cannot be read."""
        offset_bytes, length_bytes = meta.bloom_filter_offset, meta.bloom_filter_length
        if offset_bytes is None or offset_bytes <= 0 or length_bytes is None or length_bytes <= 0:
            return None
        size_bytes, start_bytes = self._header(offset_bytes)
        if size_bytes < 0:
            raise self._rejection("a number of bytes", size_bytes, offset_bytes)
        if size_bytes < BLOCK_BYTES or size_bytes % BLOCK_BYTES:
            return None
        self.free_bytes -= size_bytes
        if self.free_bytes < 0:
            raise self._rejection("filters that are no longer than their file", "more bytes", offset_bytes)
        bitset = self._read(size_bytes, start_bytes)
        if len(bitset) < size_bytes:
            expected = f"{size_bytes} bytes of bitset from byte {start_bytes}"
            raise self._rejection(expected, len(bitset), offset_bytes)
        return bitset

    def _header(self, offset_bytes: int) -> tuple[int, int]:
        """Return the length and the offset of the bitset."""
        length = HEADER_FIRST_BYTES
        while True:
            content = self._read(length, offset_bytes)
            # Both modes reject unknown kinds of filters, because the meaning of their bits is unknown.
            reader = StructReader(content, offset_bytes, as_questdb=True)
            try:
                header = reader.read(BLOOM_FILTER_HEADER)
            except RejectionError as rejection:
                if len(content) == length < HEADER_MAX_BYTES:
                    length *= 16
                    continue
                raise self._rejection(rejection.expected, rejection.actual, offset_bytes) from None
            return int(header.num_bytes), offset_bytes + reader.position

    def _read(self, length: int, offset_bytes: int) -> bytes:
        room = min(length, self.physical_size_bytes - offset_bytes)
        return self.read(room, offset_bytes) if room > 0 else b""

    def _rejection(self, expected: object, actual: object, offset_bytes: int) -> RejectionError:
        return RejectionError(Cause.BLOOM, expected, actual, offset_bytes, step="bloom filter")
