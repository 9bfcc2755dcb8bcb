"""Small `_pm` files made with our encoder, and ways to change single fields of them; for tests of `_pm` alone."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from msgspec.structs import replace

from tornproof.impl.errors import Problem
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Record
from tornproof.impl.pm.block import Chunk, OutOfLineOrder, Statistic
from tornproof.impl.pm.chain import CHECKSUM_START, Metadata, checksum_of, decode_metadata, resolve, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import (
    FooterFacts,
    NewRowGroup,
    ReusedRowGroup,
    append_generation,
    append_point,
    encode_file,
    patch_header,
)
from tornproof.impl.pm.footer import FooterPosition, FooterSections, locate_footer
from tornproof.impl.pm.header import Column, FileHeader, decode_header, encode_header
from tornproof.impl.types.questdb import DESIGNATED, TypeTag

FILE = "_pm"
CHUNK_BYTES = 100
THRIFT_BYTES = 50
TOKEN = 10_000
OPTIONAL_COLUMN = layout.FIELD_REPETITION.put(0, 1)


def column(name: str, column_type: int = TypeTag.LONG, physical_type: int = 2, **changes: Any) -> Column:
    """Return an optional column without nesting, a LONG unless said otherwise."""
    plain = Column(
        name=name,
        id=0,
        type=column_type,
        flags=OPTIONAL_COLUMN,
        fixed_byte_len=0,
        physical_type=physical_type,
        max_rep_level=0,
        max_def_level=1,
    )
    return replace(plain, **changes)


TIMESTAMP = column("ts", DESIGNATED.put(TypeTag.TIMESTAMP, 1), flags=0, max_def_level=0)
VALUE = column("v", id=1)
UUID = column("u", TypeTag.UUID, 7, id=2, fixed_byte_len=16)


def header(
    *columns: Column,
    feature_flags: int | None = None,
    designated_timestamp: int = 0,
    sorting_columns: tuple[int, ...] = (),
    bloom_columns: tuple[int, ...] = (),
    squash_tracker: int | None = None,
    extra: bytes = b"",
) -> FileHeader:
    """Return a header; without `feature_flags` the flags follow from the rest, ascending by timestamp included."""
    if feature_flags is None:
        feature_flags = layout.BLOOM_FILTERS.put(0, int(bool(bloom_columns)))
        feature_flags = layout.SQUASH_TRACKER.put(feature_flags, int(squash_tracker is not None))
        implicit = designated_timestamp >= 0 and not sorting_columns
        feature_flags = layout.SORTING_IS_DTS_ASC.put(feature_flags, int(implicit))
    made = FileHeader(
        feature_flags=feature_flags,
        designated_timestamp=designated_timestamp,
        columns=columns or (TIMESTAMP, VALUE),
        sorting_columns=sorting_columns,
        bloom_columns=bloom_columns,
        squash_tracker=squash_tracker,
        size_bytes=0,
        extra=extra,
    )
    return replace(made, size_bytes=len(encode_header(made, parquet_meta_file_size=0)))


def statistic(value: int | bytes, *, size_bytes: int = 8) -> Statistic:
    """Return an exact statistic: an integer's little-endian bytes, or bytes as they are."""
    raw = value if isinstance(value, bytes) else value.to_bytes(size_bytes, "little", signed=True)
    return Statistic(value=raw, exact=True)


def chunk(start: int = 4, *, rows: int = 10, low: int | bytes | None = None, high: int | bytes | None = None) -> Chunk:
    """Return a chunk of `rows` plain values in CHUNK_BYTES bytes without nulls."""
    return Chunk(
        codec=0,
        encodings=1,
        num_values=rows,
        byte_range_start=start,
        total_compressed=CHUNK_BYTES,
        null_count=0,
        distinct_count=None,
        minimum=None if low is None else statistic(low),
        maximum=None if high is None else statistic(high),
    )


def row_group(
    of: FileHeader,
    ordinal: int = 0,
    *,
    rows: int = 10,
    blooms: tuple[bytes | None, ...] = (),
    order: OutOfLineOrder = OutOfLineOrder.STATISTICS_FIRST,
) -> NewRowGroup:
    """Return a sound row group whose chunks, statistics and timestamps follow those of the ordinal before."""
    start = 4 + ordinal * len(of.columns) * CHUNK_BYTES
    chunks = []
    for index, each in enumerate(of.columns):
        low: int | bytes = 1000 * ordinal
        high: int | bytes = 1000 * ordinal + 999
        if each.fixed_byte_len:
            low, high = bytes([index, ordinal]) * (each.fixed_byte_len // 2), b"\xff" * each.fixed_byte_len
        chunks.append(chunk(start + index * CHUNK_BYTES, rows=rows, low=low, high=high))
    return NewRowGroup(num_rows=rows, chunks=tuple(chunks), blooms=blooms, order=order)


def facts(token: int = TOKEN, *, flags: int = 0, sections: FooterSections | None = None) -> FooterFacts:
    """Return what a footer says for a data.parquet of `token` bytes."""
    return FooterFacts(
        parquet_footer_offset=token - 8 - THRIFT_BYTES,
        parquet_footer_length=THRIFT_BYTES,
        footer_feature_flags=flags,
        sections=sections or FooterSections(),
    )


def file(of: FileHeader | None = None, *row_groups: NewRowGroup, footer: FooterFacts | None = None) -> bytes:
    """Return a published `_pm` of one generation, by default with one row group."""
    of = of or header()
    return encode_file(of, row_groups or [row_group(of)], footer or facts())


def append(
    data: bytes,
    *row_groups: NewRowGroup | ReusedRowGroup,
    footer: FooterFacts,
    anchor: FooterPosition | None = None,
    reuse: bool = True,
) -> bytes:
    """Return `data` with one more published generation, which continues `anchor` (by default the newest one).

    With `reuse` the anchor's row groups stay and the given ones follow.
    """
    anchor = anchor or newest(data)
    old = decode_metadata(data, anchor, file=FILE)
    kept: Sequence[ReusedRowGroup] = [
        ReusedRowGroup(block_offset=offset, blooms=blooms)
        for offset, blooms in zip(old.generation.block_offsets, old.generation.blooms, strict=True)
    ]
    point = append_point(data, anchor, base_bytes=len(data))
    added = append_generation(old.header, point, [*(kept if reuse else ()), *row_groups], footer)
    return publish(data + added)


def publish(data: bytes) -> bytes:
    """Return `data` with its own size in the header."""
    return patch_header(len(data)) + data[CHECKSUM_START:]


def chain_of(*tokens: int, of: FileHeader | None = None) -> bytes:
    """Return a `_pm` with one generation a token, each with one more row group."""
    of = of or header()
    first = file(of, row_group(of), footer=facts(tokens[0]))
    numbered = enumerate(tokens[1:], start=1)
    return reduce(
        lambda data, each: append(data, row_group(of, each[0]), footer=facts(each[1])),
        numbered,
        first,
    )


def newest(data: bytes) -> FooterPosition:
    """Return the footer that ends where `data` ends."""
    return locate_footer(data, len(data), file=FILE)


def read(data: bytes, token: int = TOKEN) -> Metadata:
    """Resolve and decode."""
    return decode_metadata(data, resolve(data, token, file=FILE).position, file=FILE)


def problems(data: bytes, token: int = TOKEN) -> list[Problem]:
    """Resolve, decode and check."""
    return list(check_metadata(data, read(data, token), file=FILE))


def set_field(data: bytes, record: type[Record], offset_bytes: int, field: str, value: int) -> bytes:
    """Return `data` with one field of the record at `offset_bytes` set; the value is taken modulo the field's width."""
    spec = record.layout.field(field)
    start = offset_bytes + spec.offset_bytes
    raw = (value % (1 << 8 * spec.wire.size_bytes)).to_bytes(spec.wire.size_bytes, "little")
    return data[:start] + raw + data[start + spec.wire.size_bytes :]


def set_footer(data: bytes, field: str, value: int) -> bytes:
    """Return `data` with a field of the newest footer's fixed part set and the checksum repaired."""
    return seal(set_field(data, layout.Footer, newest(data).offset_bytes, field, value))


def set_header(data: bytes, field: str, value: int) -> bytes:
    """Return `data` with a field of the header's fixed part set and the checksums repaired."""
    return seal(set_field(data, layout.Header, 0, field, value))


def set_chunk(data: bytes, field: str, value: int, *, column: int = 0, row_group: int = 0) -> bytes:
    """Return `data` with a field of one column chunk of the newest generation set and the checksums repaired."""
    return seal(set_field(data, layout.ColumnChunk, chunk_offset(data, column, row_group), field, value))


def chunk_offset(data: bytes, column: int = 0, row_group: int = 0) -> int:
    """Return where a column chunk of the newest generation stands."""
    blocks = decode_metadata(data, newest(data), file=FILE).blocks
    first = blocks[row_group].offset_bytes + layout.RowGroupHeader.layout.size_bytes
    return first + column * layout.ColumnChunk.layout.size_bytes


def descriptor_offset(column: int) -> int:
    """Return where a column descriptor stands."""
    return layout.Header.layout.size_bytes + column * layout.ColumnDescriptor.layout.size_bytes


def seal(data: bytes) -> bytes:
    """Return `data` with the checksum of every generation that its chain still reaches repaired, oldest first."""
    for position in reversed(list(walk(data, file=FILE))):
        value = checksum_of(data, position)
        data = set_field(data, layout.Trailer, position.checksum_offset, "checksum", value)
    return data


def header_of(data: bytes) -> FileHeader:
    """Decode the header alone."""
    return decode_header(data, file=FILE)
