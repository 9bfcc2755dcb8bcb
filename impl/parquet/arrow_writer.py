"""What pyarrow writes for one row group, split into its parts and corrected.

Bounds can be replaced, because Arrow's order differs from QuestDB's for some types; dictionaries are stored as given.
Pages of nulls alone are as servers write them. Source: docs/writing.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

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
    PAGE_HEADER,
    PAGE_LOCATION,
    ROW_GROUP,
    STATISTICS,
    PageEncoding,
    PageType,
    ids_of,
)
from tornproof.impl.parquet.footer import TAIL_SIZE_BYTES, start_of
from tornproof.impl.parquet.pages import quick_read
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, decode, moved, value_of, with_fields, without

FOOTER = ids_of(FILE_META_DATA)
GROUP = ids_of(ROW_GROUP)
CHUNK = ids_of(COLUMN_CHUNK)
META = ids_of(COLUMN_META_DATA)
STATISTIC = ids_of(STATISTICS)
INDEX = ids_of(OFFSET_INDEX)
LOCATION = ids_of(PAGE_LOCATION)

ONE_PAGE_BYTES = 1 << 40
"""More than any page has, so that only its rows end it."""
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
    columns = []
    tree, written = _write(stored, options)
    for name, column in zip(stored.column_names, written, strict=True):
        column = _with_readable_nulls(column, stored.select([name]), options)
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


def _write(stored: pa.Table, options: EncodeOptions) -> tuple[Struct, list[WrittenColumn]]:
    """Return the row group that pyarrow writes, and its columns."""
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
    columns = value_of(tree, GROUP["columns"])
    assert isinstance(columns, Items)
    return tree, [_take_out(file, column) for column in columns.elements if isinstance(column, Struct)]


def _take_out(file: memoryview, tree: Struct) -> WrittenColumn:
    view = read(tree, COLUMN_CHUNK)
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


class _Page(msgspec.Struct, frozen=True):
    """A page of a chunk, header and body; it holds so many values, or is a dictionary if that is None."""

    content: bytes
    uncompressed_size_bytes: int
    value_count: int | None


def _with_readable_nulls(column: WrittenColumn, stored: pa.Table, options: EncodeOptions) -> WrittenColumn:
    """Return the column, which is the one of `stored`, with keys of no bits in pages of nulls alone.

    pyarrow gives them keys as wide as others and no run of them, which QuestDB 9.3.4 refuses; its own have no bits.
    """
    meta, (values,) = read(meta_of(column.tree), COLUMN_META_DATA), stored.columns
    # Rows are counted by values, and lists, which have others, have no dictionaries in QuestDB.
    if PageEncoding.RLE_DICTIONARY not in meta["encodings"] or not values.null_count or pa.types.is_list(values.type):
        return column
    page_of_nulls = functools.cache(lambda count: _page_of_nulls(stored.schema, count, options))
    before, after, first = [*_pages(column)], [], 0
    for page in before:
        count = page.value_count or 0
        is_empty = count > 0 and values.slice(first, count).null_count == count
        after.append(page_of_nulls(count) if is_empty else page)
        first += count
    return column if after == before else _with_pages(column, after)


def _page_of_nulls(schema: pa.Schema, count: int, options: EncodeOptions) -> _Page:
    """Return the page that pyarrow writes of so many nulls of the one column, beside an empty dictionary."""
    options = replace(options, page_size_bytes=ONE_PAGE_BYTES, page_row_count_max=count, sorting=())
    _, (column,) = _write(pa.table([pa.nulls(count, schema.types[0])], schema=schema), options)
    *_, page = _pages(column)
    return page


def _pages(column: WrittenColumn) -> Iterator[_Page]:
    """Yield the pages of a column that pyarrow has written."""
    chunk, position = b"".join(column.pages), 0
    while position < len(chunk):
        header = quick_read(chunk, position, PAGE_HEADER)
        assert header is not None, position
        values, body = header
        end = body + values["compressed_page_size"]
        yield _Page(
            chunk[position:end],
            body - position + values["uncompressed_page_size"],
            values.get("data_page_header", {}).get("num_values"),
        )
        position = end


def _with_pages(column: WrittenColumn, pages: list[_Page]) -> WrittenColumn:
    """Return the column with other pages of as many values."""
    offset_bytes = start_of(read(meta_of(column.tree), COLUMN_META_DATA))
    meta = with_fields(
        meta_of(column.tree),
        Field(META["total_compressed_size"], Kind.I64, sum(len(page.content) for page in pages)),
        Field(META["total_uncompressed_size"], Kind.I64, sum(page.uncompressed_size_bytes for page in pages)),
    )
    places = []
    for page in pages:
        if page.value_count is not None:
            size = Field(LOCATION["compressed_page_size"], Kind.I32, len(page.content))
            places.append((Field(LOCATION["offset"], Kind.I64, offset_bytes), size))
        offset_bytes += len(page.content)
    index, remaining = column.offset_index, iter(places)
    if index is not None:
        index = _with_locations(index, lambda location: with_fields(location, *next(remaining)))
    pieces = tuple(page.content for page in pages)
    return replace(column, tree=with_meta(column.tree, meta), pages=pieces, offset_index=index)


def moved_index(offset_index: Struct, delta_bytes: int) -> Struct:
    """Return an OffsetIndex for pages moved by `delta_bytes`."""
    return _with_locations(offset_index, lambda location: moved(location, (LOCATION["offset"],), delta_bytes))


def _with_locations(offset_index: Struct, change: Callable[[Struct], Struct]) -> Struct:
    """Return an OffsetIndex whose locations are changed, one after the other."""
    locations = value_of(offset_index, INDEX["page_locations"])
    assert isinstance(locations, Items)
    elements = tuple(change(location) for location in locations.elements if isinstance(location, Struct))
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
