"""How many bytes the values of DELTA_BYTE_ARRAY pages share with the ones before them, without building any value.

Such a page begins with the length of what each value shares, in the form of an INT32 page of DELTA_BINARY_PACKED. So
pyarrow reads the lengths as those of another column, and bytes behind them are none of its business.
Source: Apache Parquet format, "Encodings", DELTA_BYTE_ARRAY.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from impl.chunk_metadata import Leaf, chunk_metadata
from impl.parquet.fields import PageType
from impl.parquet.pages import PageInfo
from impl.parquet.thrift import encode
from impl.parquet.tree import Field, Kind, Struct
from impl.pm.block import Chunk
from impl.pm.statistics import INT32

DELTA_BINARY_PACKED = 5
DATA_PAGE_HEADER, DATA_PAGE_HEADER_V2 = 5, 8


def shared_byte_count(content: bytes, pages: Sequence[PageInfo], chunk: Chunk, *, is_optional: bool) -> int:
    """Return what the values of pages of a chunk, all DELTA_BYTE_ARRAY, share with their predecessors.

    `content` is the whole chunk. Raises pyarrow's errors, and ValueError for lengths that are none.
    """
    start = chunk.byte_range_start
    lengths = b"".join(
        _header_of_lengths(page) + content[page.body_offset_bytes - start : page.end_bytes - start] for page in pages
    )
    as_numbers = Leaf(physical_type=INT32, is_optional=is_optional)
    metadata = chunk_metadata(as_numbers, chunk.codec, sum(page.value_count for page in pages), len(lengths))
    found = pq.ParquetFile(pa.BufferReader(lengths), metadata=metadata).read(use_threads=False).column(0)
    if (pc.min(found).as_py() or 0) < 0:
        raise ValueError("a negative length")
    return pc.sum(found).as_py() or 0


def _header_of_lengths(page: PageInfo) -> bytes:
    """Return the page's header as it would be if its lengths were all that it holds."""
    if page.kind is PageType.DATA_V2:
        numbers = (page.value_count, page.null_count, page.row_count, DELTA_BINARY_PACKED)
        levels = (page.definition_levels_length_bytes, page.repetition_levels_length_bytes)
        inner = [*_numbers(*numbers, *levels), Field(7, Kind.BOOL, page.is_compressed)]
        field = Field(DATA_PAGE_HEADER_V2, Kind.STRUCT, Struct(tuple(inner)))
    else:
        inner = _numbers(page.value_count, DELTA_BINARY_PACKED, *page.level_encodings)
        field = Field(DATA_PAGE_HEADER, Kind.STRUCT, Struct(tuple(inner)))
    sizes = _numbers(int(page.kind), page.uncompressed_size_bytes, page.compressed_size_bytes)
    return encode(Struct((*sizes, field)))


def _numbers(*values: int | None) -> list[Field]:
    return [Field(place, Kind.I32, value) for place, value in enumerate(values, start=1) if value is not None]
