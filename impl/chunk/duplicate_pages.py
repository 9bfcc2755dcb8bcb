"""A column chunk in the new encodings: pages of ALP or PFOR, uncompressed, each with a checksum.

They are ordinary pages of Parquet, so a chunk can stand in a file alone, for readers that know its encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.impl.chunk.chunk import VALUE_COUNT_MAX
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension.alp import decode_alp, encode_alp
from tornproof.impl.extension.columnar import Array
from tornproof.impl.extension.pfor import decode_pfor, encode_pfor
from tornproof.impl.parquet.fields import DATA_PAGE_HEADER, PAGE_HEADER, Codec, PageEncoding, PageType
from tornproof.impl.parquet.pages import PageInfo, walk_pages
from tornproof.impl.parquet.records import make
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.parquet.thrift import encode, put_varint
from tornproof.impl.storage.checksum import crc32
from tornproof.impl.types.physical import PhysicalType

PAGE_ROW_COUNT = 1 << 17
"""The rows of a page: a megabyte of doubles."""
LENGTH_BYTES = 4
BYTE_BITS = 8
Bits = npt.NDArray[np.bool_]


class Kind(NamedTuple):
    """How the values of a physical type are encoded, and their types in NumPy and Arrow."""

    encoding: PageEncoding
    value: str
    arrow: pa.DataType
    encode: Callable[[Array], bytes]
    decode: Callable[..., Array]


KINDS = {
    PhysicalType.DOUBLE: Kind(PageEncoding.ALP, "<f8", pa.float64(), encode_alp, decode_alp),
    PhysicalType.FLOAT: Kind(PageEncoding.ALP, "<f4", pa.float32(), encode_alp, decode_alp),
    PhysicalType.INT64: Kind(PageEncoding.PFOR, "<i8", pa.int64(), encode_pfor, decode_pfor),
    PhysicalType.INT32: Kind(PageEncoding.PFOR, "<i4", pa.int32(), encode_pfor, decode_pfor),
}
NEW_ENCODINGS = frozenset(kind.encoding for kind in KINDS.values())


def is_encodable(leaf: SchemaLeaf) -> bool:
    """Return whether a column can be in a new encoding: numbers of 32 or 64 bits, not in lists."""
    return leaf.physical_type in KINDS and leaf.max_rep == 0 and leaf.max_def <= 1


def as_stored_numbers(column: pa.ChunkedArray, physical_type: PhysicalType) -> pa.Array | None:
    """Return a column as the numbers that Parquet stores; None for columns of another kind."""
    kind, found = KINDS.get(physical_type), column.type
    if kind is None or pa.types.is_nested(found) or pa.types.is_decimal(found):
        return None
    values = pa.concat_arrays([pa.array([], found), *column.chunks])
    is_as_wide = found.byte_width == kind.arrow.byte_width
    return values.view(kind.arrow) if is_as_wide else values.cast(kind.arrow)


def encode_pages(values: pa.Array, physical_type: PhysicalType, *, is_optional: bool) -> bytes:
    """Return values as stored, of the physical type, as the pages of a chunk, after reading them again."""
    kind = KINDS[physical_type]
    parts = []
    for start in range(0, len(values), PAGE_ROW_COUNT):
        part = values.slice(start, PAGE_ROW_COUNT)
        body = (_levels(part) if is_optional else b"") + kind.encode(part.drop_null().to_numpy().astype(kind.value))
        parts += [_header(body, len(part), kind.encoding), body]
    content = b"".join(parts)
    again = decode_pages(
        content, physical_type, len(values), is_optional=is_optional, file="a chunk in memory", offset_bytes=0
    )
    assert is_same(again, values, physical_type), "every value comes back to the bit"
    return content


def decode_pages(
    content: bytes,
    physical_type: PhysicalType,
    value_count: int,
    *,
    is_optional: bool,
    file: str,
    offset_bytes: int,
) -> pa.Array:
    """Return the values of a chunk at a position of a file; raises CorruptError, UnsupportedError."""
    kind = KINDS[physical_type]
    if value_count > VALUE_COUNT_MAX:
        raise UnsupportedError(file, "num_values", offset_bytes, f"at most {VALUE_COUNT_MAX}", value_count)
    pages = walk_pages(content, file=file, offset_bytes=offset_bytes, codec=Codec.UNCOMPRESSED, value_count=value_count)
    view = memoryview(content)
    parts = [_decode_page(view, page, kind, is_optional, file, offset_bytes) for page in pages]
    return pa.concat_arrays([pa.array([], kind.arrow), *parts])


def _header(body: bytes, count: int, encoding: PageEncoding) -> bytes:
    levels = PageEncoding.RLE
    inner = make(
        DATA_PAGE_HEADER,
        num_values=count,
        encoding=encoding,
        definition_level_encoding=levels,
        repetition_level_encoding=levels,
    )
    signed_crc = int.from_bytes(crc32(body).to_bytes(4, "little"), "little", signed=True)
    header = make(
        PAGE_HEADER,
        type=PageType.DATA_V1,
        uncompressed_page_size=len(body),
        compressed_page_size=len(body),
        crc=signed_crc,
        data_page_header=inner,
    )
    return encode(header)


def _levels(values: pa.Array) -> bytes:
    """Return the definition levels of optional values: one run of single bits, or of the same level."""
    count, run = len(values), bytearray()
    if values.null_count in (0, count):
        put_varint(run, count << 1, 1)
        run.append(values.null_count == 0)
    else:
        put_varint(run, -(-count // BYTE_BITS) << 1 | 1, 1)
        run += np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    return len(run).to_bytes(LENGTH_BYTES, "little") + bytes(run)


def _decode_page(
    content: memoryview, page: PageInfo, kind: Kind, is_optional: bool, file: str, offset_bytes: int
) -> pa.Array:
    at = page.body_offset_bytes
    if page.kind is not PageType.DATA_V1 or page.encoding != kind.encoding:
        actual = f"{page.kind.name} with encoding {page.encoding}"
        expected = f"pages of version 1 with encoding {kind.encoding.name}"
        raise UnsupportedError(file, "page", page.header_offset_bytes, expected, actual)
    body = content[at - offset_bytes : page.end_bytes - offset_bytes]
    if not is_optional:
        return pa.array(kind.decode(body, page.value_count, kind.value, file=file, at=at))
    is_valid, levels_length = _decode_levels(body, page.value_count, file, at)
    found = kind.decode(
        body[levels_length:], int(np.count_nonzero(is_valid)), kind.value, file=file, at=at + levels_length
    )
    values = np.zeros(page.value_count, kind.value)
    values[is_valid] = found
    return pa.array(values, mask=~is_valid)


def _decode_levels(body: memoryview, count: int, file: str, at: int) -> tuple[Bits, int]:
    """Return which of `count` values are not null, and the length of the levels that say so."""
    end = LENGTH_BYTES + int.from_bytes(body[:LENGTH_BYTES], "little")
    if not LENGTH_BYTES <= end <= len(body):
        raise CorruptError(file, "definition levels", at, f"at most {len(body)} bytes", end)
    parts = list(_runs(body[LENGTH_BYTES:end], count, file, at))
    is_valid = np.concatenate(parts) if parts else np.zeros(0, np.bool_)
    if len(is_valid) != count:
        raise CorruptError(file, "definition levels", at, f"{count} levels", len(is_valid))
    return is_valid, end


def _runs(levels: memoryview, count: int, file: str, at: int) -> Iterator[Bits]:
    """Yield runs of levels of one bit, at most `count` of them together."""
    position = 0
    while position < len(levels) and count > 0:
        header = shift = 0
        for byte in levels[position : position + 5]:
            position += 1
            header |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if header & 1:
            size = min(header >> 1, -(-count // BYTE_BITS))
            run = np.unpackbits(np.frombuffer(levels[position : position + size], np.uint8), bitorder="little")[:count]
            position += header >> 1
        else:
            if bytes(levels[position : position + 1]) not in (b"\0", b"\1"):
                raise CorruptError(file, "definition levels", at, "a level of 0 or 1", bytes(levels[position:][:1]))
            run = np.full(min(header >> 1, count), levels[position])
            position += 1
        yield run.astype(np.bool_)
        count -= len(run)


def is_same(first: pa.Array, second: pa.Array, physical_type: PhysicalType) -> bool:
    """Return whether two arrays have the same values to the bit, and the same nulls."""
    kind = KINDS[physical_type]
    bits = [values.drop_null().to_numpy().astype(kind.value).tobytes() for values in (first, second)]
    return bits[0] == bits[1] and bool(first.is_valid().equals(second.is_valid()))
