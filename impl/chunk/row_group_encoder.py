"""A row group encoded once, in a form that can be placed at any offset of any file.

Of what pyarrow writes, only the offsets in the row group's Thrift struct and in the offset indexes depend on the
position in the file; their varints grow with it (docs/writing.md).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.chunk.duplicate_pages import KINDS, as_stored_numbers, encode_pages
from tornproof.impl.chunk.duplicates import NewChunk, with_duplicate
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.arrow_writer import (
    CHUNK,
    GROUP,
    META,
    NO_BOUNDS,
    Bounds,
    WrittenRowGroup,
    meta_of,
    moved_index,
    with_meta,
    write_row_group,
)
from tornproof.impl.parquet.bloom_filter import encode_filter_header
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import COLUMN_CHUNK, COLUMN_META_DATA, SORTING_COLUMN
from tornproof.impl.parquet.footer import SortingColumn, start_of
from tornproof.impl.parquet.records import make, read
from tornproof.impl.parquet.thrift import Field, Kind, Struct, encode, moved, packed, struct_list, with_fields, without
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.types.physical import PhysicalType

__all__ = [
    "NO_BOUNDS",
    "Bounds",
    "ColumnOptions",
    "EncodeOptions",
    "EncodedRowGroup",
    "Encoding",
    "PlacedRowGroup",
    "encode_row_group",
]

HOME_BYTES = len(MAGIC)
"""The provisional offset of a row group: behind the magic bytes, because an offset of 0 means "none"."""
DEFAULT_OPTIONS = EncodeOptions()
NO_BITSETS: Mapping[int, bytes] = MappingProxyType({})
CHUNK_OFFSETS = (CHUNK["file_offset"], CHUNK["column_index_offset"])
PAGE_OFFSETS = (META["data_page_offset"], META["dictionary_page_offset"])
BLOOM_OFFSETS = (META["bloom_filter_offset"],)
META_OFFSETS = PAGE_OFFSETS + BLOOM_OFFSETS
COLUMN_INDEX_IDS = (CHUNK["column_index_offset"], CHUNK["column_index_length"])


class PlacedRowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A row group at its final offset: the bytes to write there, its encoded Thrift struct, its chunks for `_pm`.

    `bitset_offsets` has the offsets of the bloom filters' bitsets, by column.
    """

    offset_bytes: int
    row_count: int
    content: bytes
    thrift: bytes
    chunks: tuple[Chunk, ...]
    bitset_offsets: Mapping[int, int]


class EncodedRowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A row group with all offsets as if it started at `HOME_BYTES`.

    `content` holds its pages, bloom filters and column indexes, which are the same at every offset; the offset indexes,
    if there are any, follow, one for each of `columns`. Lists and structs without offsets are kept encoded. `bitsets`
    are the bloom filters' bitsets by column; `bitset_offsets` covers those in `content`. `duplicates` are the columns
    that are in a new encoding too, with the position of that.
    """

    row_count: int
    content: bytes
    row_group: Struct
    columns: tuple[Struct, ...]
    offset_indexes: tuple[Struct, ...]
    chunks: tuple[Chunk, ...]
    bitsets: Mapping[int, bytes] = msgspec.field(default_factory=dict)
    bitset_offsets: Mapping[int, int] = msgspec.field(default_factory=dict)
    duplicates: Mapping[int, tuple[int, NewChunk]] = msgspec.field(default_factory=dict)

    def place(self, offset_bytes: int, *, sorting: Sequence[SortingColumn] = ()) -> PlacedRowGroup:
        """Return the row group for `offset_bytes`, at least `HOME_BYTES`, with `sorting` as its sorting columns."""
        assert offset_bytes >= HOME_BYTES, offset_bytes
        delta_bytes = offset_bytes - HOME_BYTES
        position = offset_bytes + len(self.content)
        parts, columns = [self.content], []
        for index, (column, offset_index) in enumerate(itertools.zip_longest(self.columns, self.offset_indexes)):
            meta = moved(meta_of(column), META_OFFSETS, delta_bytes)
            if index in self.duplicates:
                start, new = self.duplicates[index]
                meta = with_duplicate(meta, new, start + delta_bytes)
            column = moved(with_meta(column, meta), CHUNK_OFFSETS, delta_bytes)
            if offset_index is not None:
                part = encode(moved_index(offset_index, delta_bytes))
                column = with_fields(column, *_reference("offset_index", position, len(part)))
                parts.append(part)
                position += len(part)
            columns.append(column)
        row_group = moved(self.row_group, (GROUP["file_offset"],), delta_bytes)
        if sorting:
            row_group = with_fields(row_group, _sorting_field(tuple(sorting)))
        chunks = [replace(chunk, byte_range_start=chunk.byte_range_start + delta_bytes) for chunk in self.chunks]
        return PlacedRowGroup(
            offset_bytes=offset_bytes,
            row_count=self.row_count,
            content=b"".join(parts),
            thrift=encode(with_fields(row_group, struct_list(GROUP["columns"], columns))),
            chunks=tuple(chunks),
            bitset_offsets={index: offset + delta_bytes for index, offset in self.bitset_offsets.items()},
        )


def encode_row_group(
    stored: pa.Table,
    *,
    bounds: Bounds = NO_BOUNDS,
    options: EncodeOptions = DEFAULT_OPTIONS,
    bitsets: Mapping[int, bytes] = NO_BITSETS,
) -> EncodedRowGroup:
    """Encode all rows of `stored`, at least one, as one row group; its arrays are in the form that Parquet stores.

    `bounds` replaces the minimum and maximum of a column in the Thrift statistics and in `_pm`, and None removes them;
    bounds longer than 4,096 bytes are left out of both. A column whose bounds differ from pyarrow's has no column
    index, which would contradict them. `bitsets` are bloom filters by column, each to write behind that column's pages.
    """
    written = write_row_group(stored, bounds, options)
    position = HOME_BYTES
    parts: list[bytes | memoryview] = []
    duplicates: dict[int, tuple[int, NewChunk]] = {}
    for index, new, content in _new_chunks(stored, written) if options.duplicates else ():
        duplicates[index] = position, new
        parts.append(content)
        position += len(content)
    trees = [column.tree for column in written.columns]
    offset_indexes: dict[int, Struct] = {}
    bitset_offsets = {}
    # What other readers read of the duplicated columns is behind the rest, so that the rest is close together.
    for index in sorted(range(len(trees)), key=lambda index: index in duplicates):
        column = written.columns[index]
        delta_bytes = position - start_of(read(meta_of(column.tree), COLUMN_META_DATA))
        trees[index] = with_meta(column.tree, moved(meta_of(column.tree), PAGE_OFFSETS, delta_bytes))
        if column.offset_index is not None:
            offset_indexes[index] = moved_index(column.offset_index, delta_bytes)
        parts += column.pages
        position += sum(map(len, column.pages))
        if index in bitsets:
            # A server that copies a row group copies no byte behind the last column's pages and filter.
            bloom_filter = encode_filter_header(len(bitsets[index])) + bitsets[index]
            trees[index] = _with_filter(trees[index], position, len(bloom_filter))
            parts.append(bloom_filter)
            position += len(bloom_filter)
            bitset_offsets[index] = position - len(bitsets[index])
    for index, column in enumerate(written.columns):
        reference = _reference("column_index", position, len(column.column_index))
        tree = trees[index]
        trees[index] = with_fields(tree, *reference) if column.column_index else without(tree, *COLUMN_INDEX_IDS)
        parts.append(column.column_index)
        position += len(column.column_index)
    views = [read(tree, COLUMN_CHUNK)["meta_data"] for tree in trees]
    return EncodedRowGroup(
        row_count=stored.num_rows,
        content=b"".join(parts),
        row_group=_with_totals(written.tree, views),
        columns=tuple(with_meta(tree, packed(meta_of(tree))) for tree in trees),
        offset_indexes=tuple(offset_indexes[index] for index in sorted(offset_indexes)),
        chunks=tuple(_chunk(view) for view in views),
        bitsets=dict(bitsets),
        bitset_offsets=bitset_offsets,
        duplicates=duplicates,
    )


def _new_chunks(stored: pa.Table, written: WrittenRowGroup) -> Iterator[tuple[int, NewChunk, bytes]]:
    """Yield the columns of numbers in their new encoding, by index."""
    for index, column in enumerate(written.columns):
        meta = read(meta_of(column.tree), COLUMN_META_DATA)
        physical_type, field = PhysicalType(meta["type"]), stored.schema.field(index)
        values = as_stored_numbers(stored.column(index), physical_type)
        if values is not None:
            content = encode_pages(values, physical_type, is_optional=field.nullable)
            yield index, NewChunk.of(content, KINDS[physical_type].encoding), content


def _with_filter(tree: Struct, offset_bytes: int, length_bytes: int) -> Struct:
    offset = Field(META["bloom_filter_offset"], Kind.I64, offset_bytes)
    length = Field(META["bloom_filter_length"], Kind.I32, length_bytes)
    return with_meta(tree, with_fields(meta_of(tree), offset, length))


@functools.cache
def _sorting_field(sorting: tuple[SortingColumn, ...]) -> Field:
    entries = [
        make(
            SORTING_COLUMN,
            column_index=entry.column_index,
            descending=entry.descending,
            nulls_first=entry.nulls_first,
        )
        for entry in sorting
    ]
    return struct_list(GROUP["sorting_columns"], entries)


def _chunk(meta: Mapping[str, Any]) -> Chunk:
    statistics = meta.get("statistics", {})
    encodings = encodings_mask(tuple(meta["encodings"]))
    assert encodings is not None, meta["encodings"]
    # `_pm` cannot represent an empty value, which counts as absent.
    minimum, maximum = (
        Statistic(value=value, exact=True) if value else None
        for value in (statistics.get("min_value"), statistics.get("max_value"))
    )
    return Chunk(
        codec=meta["codec"],
        encodings=encodings,
        num_values=meta["num_values"],
        byte_range_start=start_of(meta),
        total_compressed=meta["total_compressed_size"],
        null_count=statistics.get("null_count"),
        distinct_count=None,
        minimum=minimum,
        maximum=maximum,
    )


def _with_totals(row_group: Struct, metas: Sequence[Mapping[str, Any]]) -> Struct:
    # What is duplicated begins before: that is for nobody who goes by the row group's pages.
    return with_fields(
        row_group,
        Field(GROUP["file_offset"], Kind.I64, min(map(start_of, metas))),
        Field(GROUP["total_byte_size"], Kind.I64, sum(meta["total_uncompressed_size"] for meta in metas)),
        Field(GROUP["total_compressed_size"], Kind.I64, sum(meta["total_compressed_size"] for meta in metas)),
    )


def _reference(index: str, offset_bytes: int, length_bytes: int) -> tuple[Field, Field]:
    return (
        Field(CHUNK[f"{index}_offset"], Kind.I64, offset_bytes),
        Field(CHUNK[f"{index}_length"], Kind.I32, length_bytes),
    )
