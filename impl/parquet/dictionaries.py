"""Dictionary columns that must be stored exactly as given: SYMBOLs, whose dictionary is the table's own.

QuestDB stores an empty string for every key that a row group does not use (docs/format.md), so dictionaries contain
equal values. pyarrow does not dictionary-encode those, so it is given distinct placeholders for unused keys, and the
dictionary page that it writes is replaced.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.impl.parquet.fields import PAGE_HEADER, Codec, ids_of
from tornproof.impl.parquet.thrift import Field, Kind, decode, encode, value_of, with_fields
from tornproof.impl.storage.checksum import crc32

HEADER = ids_of(PAGE_HEADER)
# No UTF-8 text begins with this byte, so a placeholder never equals a value.
STAND_IN_START = b"\xff"


class DictionaryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A dictionary page with its header; how many bytes longer it is than the replaced one, stored and uncompressed."""

    content: bytes
    growth_bytes: int
    uncompressed_growth_bytes: int


class Dictionary(msgspec.Struct, frozen=True, kw_only=True):
    """The dictionary of a column, and for each key whether any row uses it."""

    values: pa.Array
    indices: pa.Array
    is_used: pa.Array

    @property
    def has_equal_values(self) -> bool:
        """Whether two keys have the same value."""
        return len(self.values.unique()) < len(self.values)

    def stand_ins(self) -> pa.DictionaryArray:
        """Return the column with distinct placeholders for all keys that no row uses."""
        numbers = pa.array(np.arange(len(self.values))).cast(pa.string()).cast(pa.binary())
        others = pc.binary_join_element_wise(pa.scalar(STAND_IN_START), numbers, pa.scalar(b""))
        values = pc.if_else(self.is_used, self.values.cast(pa.binary()), others)
        return pa.DictionaryArray.from_arrays(self.indices, values)

    def bounds(self) -> tuple[bytes | None, bytes | None]:
        """Return the smallest and the largest value that rows use; pyarrow's may be unused ones."""
        used = pc.min_max(self.values.filter(self.is_used).cast(pa.binary()))
        return used["min"].as_py(), used["max"].as_py()

    def page(self, replaced: bytes, codec: Codec, level: int | None) -> DictionaryPage:
        """Return a page of the values that replaces `replaced`, a page of as many placeholders."""
        values = self.values.cast(pa.binary()).to_pylist()
        plain = b"".join(len(value).to_bytes(4, "little") + value for value in values)
        body = plain
        if codec is not Codec.UNCOMPRESSED:
            body = pa.Codec(codec.name.lower(), compression_level=level).compress(plain, asbytes=True)
        crc = crc32(body)
        old_header, old_header_length = decode(replaced, file="dictionary page")
        old_plain_length = value_of(old_header, HEADER["uncompressed_page_size"])
        assert isinstance(old_plain_length, int)
        fields = [
            Field(HEADER["uncompressed_page_size"], Kind.I32, len(plain)),
            Field(HEADER["compressed_page_size"], Kind.I32, len(body)),
            # A signed field.
            Field(HEADER["crc"], Kind.I32, crc - (crc >> 31 << 32)),
        ]
        header = encode(with_fields(old_header, *fields))
        return DictionaryPage(
            content=header + body,
            growth_bytes=len(header) + len(body) - len(replaced),
            uncompressed_growth_bytes=len(header) + len(plain) - old_header_length - old_plain_length,
        )


def dictionary_of(column: pa.ChunkedArray) -> Dictionary:
    """Return the dictionary of a text column, which all of its pieces share."""
    values = column.chunk(0).dictionary
    assert pa.types.is_string(values.type) and values.null_count == 0, "a dictionary holds text"
    assert all(piece.dictionary.equals(values) for piece in column.chunks), "one dictionary for a row group"
    indices = pa.chunked_array([piece.indices for piece in column.chunks]).combine_chunks()
    is_used = np.zeros(len(values), dtype=bool)
    is_used[indices.drop_null().to_numpy(zero_copy_only=False)] = True
    return Dictionary(values=values, indices=indices, is_used=pa.array(is_used))
