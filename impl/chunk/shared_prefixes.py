"""How many bytes the values of DELTA_BYTE_ARRAY pages share with their predecessors, without decoding them.

Such a page begins with the length of the prefix that each value shares, in the form of an INT32 page of
DELTA_BINARY_PACKED. So pyarrow can read the lengths as another column, ignoring the bytes behind them.
Source: Apache Parquet format, "Encodings", DELTA_BYTE_ARRAY.
"""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.impl.chunk.metadata import Leaf, chunk_metadata
from tornproof.impl.parquet.arrow_reader import open_reader
from tornproof.impl.parquet.fields import (
    DATA_PAGE_HEADER,
    DATA_PAGE_HEADER_V2,
    PAGE_HEADER,
    PageEncoding,
    PageType,
    ids_of,
)
from tornproof.impl.parquet.pages import HEADER_NAMES, PageInfo
from tornproof.impl.parquet.thrift import Field, Kind, Struct, decode, encode, value_of, with_fields
from tornproof.impl.pm.block import Chunk
from tornproof.impl.types.compute import compute
from tornproof.impl.types.physical import PhysicalType

PAGE_FIELDS = ids_of(PAGE_HEADER)
ENCODING_FIELDS = {
    PageType.DATA_V1: ids_of(DATA_PAGE_HEADER)["encoding"],
    PageType.DATA_V2: ids_of(DATA_PAGE_HEADER_V2)["encoding"],
}


def shared_byte_count(content: bytes, pages: Sequence[PageInfo], chunk: Chunk, *, is_optional: bool) -> int:
    """Return what the values of pages of a chunk, all DELTA_BYTE_ARRAY, share with their predecessors.

    `content` is the whole chunk. Raises pyarrow's errors, and ValueError for negative lengths.
    """
    lengths = b"".join(_as_lengths(content, chunk.byte_range_start, page) for page in pages)
    as_numbers = Leaf(physical_type=PhysicalType.INT32, is_optional=is_optional)
    metadata = chunk_metadata(as_numbers, chunk.codec, sum(page.value_count for page in pages), len(lengths))
    found = open_reader(lengths, metadata).read_column(0)
    if (compute("min", found).as_py() or 0) < 0:
        raise ValueError("a negative length")
    return compute("sum", found).as_py() or 0


def _as_lengths(content: bytes, start: int, page: PageInfo) -> bytes:
    """Return the page with a header for which it contains nothing but the lengths."""
    header, _ = decode(content, file="", start=page.header_offset_bytes - start)
    field_id = PAGE_FIELDS[HEADER_NAMES[page.kind]]
    inner = value_of(header, field_id)
    assert isinstance(inner, Struct)
    encoding = Field(ENCODING_FIELDS[page.kind], Kind.I32, PageEncoding.DELTA_BINARY_PACKED)
    changed = with_fields(header, Field(field_id, Kind.STRUCT, with_fields(inner, encoding)))
    return encode(changed) + content[page.body_offset_bytes - start : page.end_bytes - start]
