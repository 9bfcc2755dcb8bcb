"""A row group encoded once, in a form that can be put at any place of any file.

What pyarrow writes does not depend on its place but for the offsets in the row group's Thrift struct and in the offset
indexes, whose varints grow with the place (parquet notes, section 2, method B).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from impl.footer_comparison import encodings_mask
from impl.layout.parquet import MAGIC
from impl.parquet.arrow_writer import (
    CHUNK,
    GROUP,
    META,
    NO_BOUNDS,
    Bounds,
    EncodeOptions,
    meta_of,
    moved_index,
    with_meta,
    write_row_group,
)
from impl.parquet.fields import COLUMN_CHUNK, COLUMN_META_DATA
from impl.parquet.footer import start_of
from impl.parquet.records import read
from impl.parquet.thrift import encode
from impl.parquet.tree import Field, Kind, Struct
from impl.parquet.tree_edit import moved, packed, struct_list, with_fields, without
from impl.pm.block import Chunk, Statistic

__all__ = ["NO_BOUNDS", "Bounds", "EncodeOptions", "EncodedRowGroup", "PlacedRowGroup", "encode_row_group"]

HOME_BYTES = len(MAGIC)
"""Where a row group stands until it is placed: behind the first bytes of a file, since an offset of 0 means "none"."""
DEFAULT_OPTIONS = EncodeOptions()
CHUNK_OFFSETS = (CHUNK["file_offset"], CHUNK["column_index_offset"])
PAGE_OFFSETS = (META["data_page_offset"], META["dictionary_page_offset"])
BLOOM_OFFSETS = (META["bloom_filter_offset"],)
META_OFFSETS = PAGE_OFFSETS + BLOOM_OFFSETS
COLUMN_INDEX_IDS = (CHUNK["column_index_offset"], CHUNK["column_index_length"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRowGroup:
    """A row group at a place: the bytes to write at `offset_bytes`, its encoded Thrift struct, its chunks for `_pm`."""

    offset_bytes: int
    row_count: int
    content: bytes
    thrift: bytes
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRowGroup:
    """A row group with all offsets as if it stood at `HOME_BYTES`.

    `content` are its pages, bloom filters and column indexes, which are the same at every place; the offset indexes
    follow them, one for each of `columns`. Lists and structs that hold no offset are packed.
    """

    row_count: int
    content: bytes
    row_group: Struct
    columns: tuple[Struct, ...]
    offset_indexes: tuple[Struct, ...]
    chunks: tuple[Chunk, ...]

    def place(self, offset_bytes: int) -> PlacedRowGroup:
        """Return the row group for `offset_bytes` of a file, at least `HOME_BYTES`."""
        assert offset_bytes >= HOME_BYTES, offset_bytes
        delta_bytes = offset_bytes - HOME_BYTES
        position = offset_bytes + len(self.content)
        parts, columns = [self.content], []
        for column, offset_index in zip(self.columns, self.offset_indexes, strict=True):
            part = encode(moved_index(offset_index, delta_bytes))
            meta = moved(meta_of(column), META_OFFSETS, delta_bytes)
            column = moved(with_meta(column, meta), CHUNK_OFFSETS, delta_bytes)
            columns.append(with_fields(column, *_reference("offset_index", position, len(part))))
            parts.append(part)
            position += len(part)
        row_group = moved(self.row_group, (GROUP["file_offset"],), delta_bytes)
        chunks = [replace(chunk, byte_range_start=chunk.byte_range_start + delta_bytes) for chunk in self.chunks]
        return PlacedRowGroup(
            offset_bytes=offset_bytes,
            row_count=self.row_count,
            content=b"".join(parts),
            thrift=encode(with_fields(row_group, struct_list(GROUP["columns"], columns))),
            chunks=tuple(chunks),
        )


def encode_row_group(
    stored: pa.Table, *, bounds: Bounds = NO_BOUNDS, options: EncodeOptions = DEFAULT_OPTIONS
) -> EncodedRowGroup:
    """Encode all rows of `stored`, at least one, as one row group; its arrays are as Parquet stores them.

    `bounds` replaces the minimum and maximum of a column in the Thrift statistics and in `_pm`, and None removes them;
    bounds longer than 1,024 bytes are left out of both. A column whose bounds are not those that pyarrow found has no
    column index, because that would say otherwise.
    """
    written = write_row_group(stored, bounds, options)
    position = HOME_BYTES
    parts: list[bytes | memoryview] = []
    trees, offset_indexes = [], []
    for column in written.columns:
        delta_bytes = position - start_of(read(meta_of(column.tree), COLUMN_META_DATA))
        trees.append(with_meta(column.tree, moved(meta_of(column.tree), PAGE_OFFSETS, delta_bytes)))
        offset_indexes.append(moved_index(column.offset_index, delta_bytes))
        parts += column.pages
        position += sum(map(len, column.pages))
    growth_bytes = position - written.blooms_offset_bytes
    parts.append(written.bloom_filters)
    position += len(written.bloom_filters)
    for place, column in enumerate(written.columns):
        tree = with_meta(trees[place], moved(meta_of(trees[place]), BLOOM_OFFSETS, growth_bytes))
        reference = _reference("column_index", position, len(column.column_index))
        trees[place] = with_fields(tree, *reference) if column.column_index else without(tree, *COLUMN_INDEX_IDS)
        parts.append(column.column_index)
        position += len(column.column_index)
    views = [read(tree, COLUMN_CHUNK)["meta_data"] for tree in trees]
    return EncodedRowGroup(
        row_count=stored.num_rows,
        content=b"".join(parts),
        row_group=_with_totals(written.tree, views),
        columns=tuple(with_meta(tree, packed(meta_of(tree))) for tree in trees),
        offset_indexes=tuple(offset_indexes),
        chunks=tuple(_chunk(view) for view in views),
    )


def _chunk(meta: Mapping[str, Any]) -> Chunk:
    statistics = meta.get("statistics", {})
    encodings = encodings_mask(tuple(meta["encodings"]))
    assert encodings is not None, meta["encodings"]
    # An empty value counts as absent in `_pm`.
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
    return with_fields(
        row_group,
        Field(GROUP["total_byte_size"], Kind.I64, sum(meta["total_uncompressed_size"] for meta in metas)),
        Field(GROUP["total_compressed_size"], Kind.I64, sum(meta["total_compressed_size"] for meta in metas)),
    )


def _reference(index: str, offset_bytes: int, length_bytes: int) -> tuple[Field, Field]:
    return (
        Field(CHUNK[f"{index}_offset"], Kind.I64, offset_bytes),
        Field(CHUNK[f"{index}_length"], Kind.I32, length_bytes),
    )
