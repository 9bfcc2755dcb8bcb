"""What pyarrow writes for one row group, split into its parts and corrected.

Bounds can be replaced, because Arrow's order differs from QuestDB's for some types; dictionaries are stored as given.
Source: docs/writing.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from tornproof.impl.layout.parquet import ParquetTail
from tornproof.impl.parquet.dictionaries import used_bounds
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import (
    COLUMN_CHUNK,
    COLUMN_META_DATA,
    FILE_META_DATA,
    OFFSET_INDEX,
    PAGE_ENCODING_STATS,
    PAGE_LOCATION,
    ROW_GROUP,
    STATISTICS,
    PageEncoding,
    PageType,
    ids_of,
)
from tornproof.impl.parquet.footer import TAIL_SIZE_BYTES, start_of
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, decode, moved, value_of, with_fields, without

FOOTER = ids_of(FILE_META_DATA)
GROUP = ids_of(ROW_GROUP)
CHUNK = ids_of(COLUMN_CHUNK)
META = ids_of(COLUMN_META_DATA)
STATISTIC = ids_of(STATISTICS)
INDEX = ids_of(OFFSET_INDEX)
LOCATION = ids_of(PAGE_LOCATION)

BOUND_LIMIT_BYTES = 4096
"""Longer bounds are left out, as pyarrow does; `_pm` cannot hold more than 65,535 bytes (docs/format.md)."""
BOUND_IDS = [STATISTIC[name] for name in ("min_value", "max_value", "min", "max")]
BOUND_IDS += [STATISTIC[name] for name in ("is_min_value_exact", "is_max_value_exact")]
LABEL = "row group in memory"

Bounds: TypeAlias = Mapping[str, tuple[bytes, bytes] | None]
NO_BOUNDS: Bounds = MappingProxyType({})


class WrittenColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column: its ColumnChunk, with the offsets of the file in memory, and the parts at these offsets.

    `pages` begin where the chunk starts; the column index may be empty, and there may be no offset index.
    """

    tree: Struct
    pages: tuple[bytes | memoryview, ...]
    column_index: bytes | memoryview
    offset_index: Struct | None


class WrittenRowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A RowGroup struct and its columns."""

    tree: Struct
    columns: tuple[WrittenColumn, ...]


def write_row_group(stored: pa.Table, bounds: Bounds, options: EncodeOptions) -> WrittenRowGroup:
    """Write all rows of `stored` as one row group of a file in memory and split it into its parts."""
    assert stored.num_rows > 0 and set(bounds) <= set(stored.column_names), bounds
    file, tree = _write(stored, options)
    views = read(tree, ROW_GROUP)["columns"]
    trees = value_of(tree, GROUP["columns"])
    assert isinstance(trees, Items)
    columns = []
    for element, view in zip(trees.elements, views, strict=True):
        assert isinstance(element, Struct)
        column, name = _take_out(file, element, view), view["meta_data"]["path_in_schema"][0]
        wanted = _found_bounds(column)
        if pa.types.is_dictionary(stored.schema.field(name).type):
            _check_has_keys(column, name)
            wanted = used_bounds(stored.column(name))
        if name in bounds:
            wanted = bounds[name] or (None, None)
        if not options.has_statistics(name):
            wanted = (None, None)
        columns.append(_with_bounds(column, *wanted))
    return WrittenRowGroup(tree=tree, columns=tuple(columns))


def meta_of(tree: Struct) -> Struct:
    """Return the ColumnMetaData of a ColumnChunk."""
    meta = value_of(tree, CHUNK["meta_data"])
    assert isinstance(meta, Struct)
    return meta


def with_meta(tree: Struct, meta: Struct) -> Struct:
    """Return a ColumnChunk with another ColumnMetaData."""
    return with_fields(tree, Field(CHUNK["meta_data"], Kind.STRUCT, meta))


def _write(stored: pa.Table, options: EncodeOptions) -> tuple[memoryview, Struct]:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, stored.schema, **options.of_pyarrow(stored.schema)) as writer:
        writer.write_table(stored, row_group_size=stored.num_rows)
    file = memoryview(sink.getvalue())
    tail = ParquetTail.unpack(file, len(file) - TAIL_SIZE_BYTES, file=LABEL)
    footer, _ = decode(bytes(file[-TAIL_SIZE_BYTES - tail.footer_length : -TAIL_SIZE_BYTES]), file=LABEL)
    row_groups = value_of(footer, FOOTER["row_groups"])
    assert isinstance(row_groups, Items)
    (tree,) = row_groups.elements
    assert isinstance(tree, Struct)
    return file, tree


def _take_out(file: memoryview, tree: Struct, view: Mapping[str, Any]) -> WrittenColumn:
    start, length = start_of(view["meta_data"]), view["meta_data"]["total_compressed_size"]
    index_at, index_length = view.get("column_index_offset", 0), view.get("column_index_length", 0)
    offsets_at, offsets_length = view.get("offset_index_offset", 0), view.get("offset_index_length", 0)
    raw_index = bytes(file[offsets_at : offsets_at + offsets_length])
    return WrittenColumn(
        tree=tree,
        pages=(file[start : start + length],),
        column_index=file[index_at : index_at + index_length],
        offset_index=decode(raw_index, file=LABEL)[0] if raw_index else None,
    )


def _check_has_keys(column: WrittenColumn, name: str) -> None:
    uses = [
        read(use, PAGE_ENCODING_STATS)
        for use in read(meta_of(column.tree), COLUMN_META_DATA)["encoding_stats"].elements
    ]
    keys = PageEncoding.RLE_DICTIONARY
    others = [use for use in uses if use["page_type"] != PageType.DICTIONARY and use["encoding"] != keys]
    assert not others, f"{name} must be dictionary-encoded"


def moved_index(offset_index: Struct, delta_bytes: int) -> Struct:
    """Return an OffsetIndex for pages moved by `delta_bytes`."""
    locations = value_of(offset_index, INDEX["page_locations"])
    assert isinstance(locations, Items)
    elements = tuple(
        moved(location, (LOCATION["offset"],), delta_bytes)
        for location in locations.elements
        if isinstance(location, Struct)
    )
    field = Field(INDEX["page_locations"], Kind.LIST, locations._replace(elements=elements))
    return with_fields(offset_index, field)


def _found_bounds(column: WrittenColumn) -> tuple[bytes | None, bytes | None]:
    statistics = read(meta_of(column.tree), COLUMN_META_DATA).get("statistics", {})
    return statistics.get("min_value"), statistics.get("max_value")


def _with_bounds(column: WrittenColumn, minimum: bytes | None, maximum: bytes | None) -> WrittenColumn:
    """Return the column with these bounds; if they change, its column index, which repeats the old ones, is dropped."""
    minimum, maximum = (
        bound if bound is None or len(bound) <= BOUND_LIMIT_BYTES else None for bound in (minimum, maximum)
    )
    if (minimum, maximum) == _found_bounds(column):
        return column
    statistics = value_of(meta_of(column.tree), META["statistics"]) or Struct(())
    assert isinstance(statistics, Struct)
    statistics = without(statistics, *BOUND_IDS)
    for name, bound in (("max_value", maximum), ("min_value", minimum)):
        if bound is not None:
            is_exact = Field(STATISTIC[f"is_{name}_exact"], Kind.BOOL, True)
            statistics = with_fields(statistics, Field(STATISTIC[name], Kind.BINARY, bound), is_exact)
    meta = with_fields(meta_of(column.tree), Field(META["statistics"], Kind.STRUCT, statistics))
    return replace(column, tree=with_meta(column.tree, meta), column_index=b"")
