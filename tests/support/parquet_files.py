"""Parquet files that pyarrow writes, their footers, and what `_pm` would say of their columns and chunks."""

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter, decode_footer, read_footer_tail
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column

FILE = "data.parquet"


def written(table: pa.Table, **options: Any) -> bytes:
    """Return a Parquet file that pyarrow wrote, which gets the options."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def footer_bytes(content: bytes, file: str = FILE) -> tuple[bytes, int]:
    """Return the footer at the end of a file, and its offset."""
    offset_bytes, length_bytes = read_footer_tail(content[-8:], file=file, token=len(content))
    return content[offset_bytes : offset_bytes + length_bytes], offset_bytes


def footer_of(content: bytes, *, tolerant: bool = False) -> ParquetFooter:
    """Return the decoded footer at the end of a file."""
    footer, offset_bytes = footer_bytes(content)
    return decode_footer(footer, file=FILE, offset_bytes=offset_bytes, tolerant=tolerant)


def column_of(leaf: SchemaLeaf, column_type: int, **changes: Any) -> Column:
    """Return the column that `_pm` has of a leaf."""
    values: dict[str, Any] = {
        "name": leaf.path[0],
        "id": 0,
        "flags": 0,
        "fixed_byte_len": leaf.element.type_length or 0,
        "physical_type": leaf.physical_type,
        "max_rep_level": leaf.max_rep,
        "max_def_level": leaf.max_def,
    }
    return Column(type=column_type, **(values | changes))


def start_of(chunk: ColumnChunk) -> int:
    """Return the offset of a chunk's first page."""
    return min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)


def exact(value: bytes | None) -> Statistic | None:
    """Return what `_pm` has of an exact bound; it has no empty ones."""
    return Statistic(value=value, exact=True) if value else None


def chunk_of(found: ColumnChunk, *, encodings: int = 0) -> Chunk:
    """Return what `_pm` says of a chunk."""
    null_count, low, high = None, None, None
    if (known := found.statistics) is not None:
        null_count, low, high = known.null_count, known.min_value, known.max_value
    return Chunk(
        codec=found.codec,
        encodings=encodings,
        num_values=found.num_values,
        byte_range_start=start_of(found),
        total_compressed=found.total_compressed_size,
        null_count=null_count,
        distinct_count=None,
        minimum=exact(low),
        maximum=exact(high),
    )


def plain_strings(body: bytes) -> list[str]:
    """Return the texts on a page of encoding PLAIN."""
    strings, position = [], 0
    while position < len(body):
        (length,) = struct.unpack_from("<I", body, position)
        strings.append(body[position + 4 : position + 4 + length].decode())
        position += 4 + length
    return strings
