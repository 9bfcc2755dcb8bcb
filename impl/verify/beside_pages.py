"""What the Thrift footer of data.parquet names beside the pages of a chunk: its bloom filter and its page indexes.

Reading tables here does without them, but other readers of the file skip row groups and pages by them.
"""

from __future__ import annotations

import msgspec

from tornproof.impl import limits
from tornproof.impl.chunk.page_index import StoredIndex
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES, HEADER_MAX_BYTES, SIZE_MAX_BYTES, decode_filter_header
from tornproof.impl.parquet.footer import ColumnChunk
from tornproof.impl.pm.bloom_position import ReadData

FREE_BYTES_MIN = 64 << 20
"""Chunks may share a filter, so in a small file all parts may be longer than the file."""


class FileParts(msgspec.Struct, kw_only=True):
    """Reads filters and indexes of a data.parquet of `size_bytes`; all together are not much longer than that."""

    read: ReadData
    file: str
    size_bytes: int
    taken_bytes: int = 0

    def bitset_of(self, chunk: ColumnChunk, owner: str) -> bytes | None:
        """Return the bloom filter of a chunk, None if there is none; raises CorruptError, UnsupportedError."""
        offset_bytes = chunk.bloom_filter_offset
        if not offset_bytes:
            return None
        what = f"bloom filter of {owner}"
        head = self._part(what, offset_bytes, min(HEADER_MAX_BYTES, self.size_bytes - offset_bytes), HEADER_MAX_BYTES)
        size_bytes, start = decode_filter_header(head, file=self.file, offset_bytes=offset_bytes)
        if size_bytes % BLOCK_BYTES or not size_bytes:
            raise CorruptError(self.file, what, offset_bytes, f"a multiple of {BLOCK_BYTES} bytes", size_bytes)
        if chunk.bloom_filter_length not in (None, start + size_bytes):
            expected = f"{start + size_bytes} bytes, as its header says"
            raise CorruptError(self.file, what, offset_bytes, expected, chunk.bloom_filter_length)
        return self._part(what, offset_bytes + start, size_bytes, SIZE_MAX_BYTES)

    def offset_index_of(self, chunk: ColumnChunk, owner: str) -> StoredIndex | None:
        """Return the offset index of a chunk, None if there is none; raises CorruptError, UnsupportedError."""
        return self._index("offset index", chunk.offset_index_offset, chunk.offset_index_length, owner)

    def column_index_of(self, chunk: ColumnChunk, owner: str) -> StoredIndex | None:
        """Return the column index of a chunk, None if there is none; raises CorruptError, UnsupportedError."""
        return self._index("column index", chunk.column_index_offset, chunk.column_index_length, owner)

    def _index(self, name: str, offset_bytes: int | None, length_bytes: int | None, owner: str) -> StoredIndex | None:
        if not offset_bytes:
            return None
        content = self._part(f"{name} of {owner}", offset_bytes, length_bytes or 0, limits.CHUNK_LIMIT_BYTES)
        return StoredIndex(content=content, offset_bytes=offset_bytes, file=self.file, owner=owner)

    def _part(self, what: str, offset_bytes: int, length_bytes: int, limit_bytes: int) -> bytes:
        room_bytes = self.size_bytes - offset_bytes
        if not 0 < length_bytes <= room_bytes:
            expected = f"a part that ends by byte {self.size_bytes}"
            raise CorruptError(self.file, what, offset_bytes, expected, f"{length_bytes} bytes")
        self.taken_bytes += length_bytes
        if length_bytes > limit_bytes or self.taken_bytes > max(FREE_BYTES_MIN, self.size_bytes):
            expected = f"at most {limit_bytes} bytes, and not more in all parts than in the file"
            raise UnsupportedError(self.file, what, offset_bytes, expected, length_bytes)
        content = self.read(length_bytes, offset_bytes)
        if len(content) < length_bytes:
            raise CorruptError(self.file, what, offset_bytes, f"{length_bytes} bytes", len(content))
        return content
