"""The Thrift footer of data.parquet compared with `_pm`: two descriptions of the same row groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tornproof.impl.errors import Problem
from tornproof.impl.layout import pm as layout
from tornproof.impl.parquet.fields import LOGICAL_TYPE, Codec, PageEncoding, Repetition
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter, RowGroup, Statistics
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.pm.block import Block, Chunk
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, NANOSECOND, TAG, TYPES_BY_UNIT, decimal_shape, tag_of

ENCODING_MASKS = {int(PageEncoding[bits.name]): bits.mask for bits in layout.ENCODINGS.bits}
"""The bit of each Parquet encoding in `_pm`'s mask; encodings used only for levels have none."""
ENCODING_MASKS |= {PageEncoding.PLAIN_DICTIONARY: ENCODING_MASKS[PageEncoding.RLE_DICTIONARY]}
ENCODING_MASKS |= {PageEncoding.RLE: 0, PageEncoding.BIT_PACKED: 0}
_NO_STATISTICS = Statistics(**dict.fromkeys(Statistics.__struct_fields__))


def compare_footer(
    footer: ParquetFooter, metadata: Metadata, *, json_ids: Sequence[int | None] = (), file: str
) -> Iterator[Problem]:
    """Yield where the Thrift footer of data.parquet contradicts `_pm`; `file` is data.parquet.

    `json_ids` are the ids of columns in the footer's `questdb` JSON, by which servers know them if they are there.
    Not compared is what QuestDB's two generators of `_pm` write differently (docs/format.md): flags, unused bytes,
    blooms; and what no reader of `_pm` uses, such as `file_offset`, deprecated statistics, and exactness.
    """
    columns = metadata.header.columns

    def problem(field: str, offset_bytes: int, expected: object, actual: object) -> Problem:
        return Problem(file, field, offset_bytes, f"{expected}, as in _pm", str(actual))

    if len(footer.leaves) != len(columns):
        yield problem("schema", footer.offset_bytes, f"{len(columns)} columns", len(footer.leaves))
        return
    for index, (leaf, column) in enumerate(zip(footer.leaves, columns, strict=True)):
        for name, expected, actual in _compare_leaf(leaf, column):
            yield problem(f"schema leaf {index} {name}", leaf.element.offset_bytes, expected, actual)
    for index, (json_id, column) in enumerate(zip(json_ids, columns, strict=False)):
        if json_id not in (None, column.id):
            yield problem(f"questdb schema[{index}].id", footer.offset_bytes, column.id, json_id)
    if footer.num_rows != metadata.row_count:
        yield problem("num_rows", footer.offset_bytes, metadata.row_count, footer.num_rows)
    if len(footer.row_groups) != len(metadata.blocks):
        yield problem("row_groups", footer.offset_bytes, len(metadata.blocks), len(footer.row_groups))
        return
    for ordinal, (row_group, block) in enumerate(zip(footer.row_groups, metadata.blocks, strict=True)):
        for name, offset_bytes, expected, actual in _compare_row_group(row_group, block, metadata.header):
            yield problem(f"row_groups[{ordinal}].{name}", offset_bytes, expected, actual)


def _compare_leaf(leaf: SchemaLeaf, column: Column) -> Iterator[tuple[str, object, object]]:
    if leaf.top.name != column.name:
        yield "name", repr(column.name), repr(leaf.top.name)
    if leaf.physical_type != column.physical_type:
        yield "type", PhysicalType(column.physical_type).name, leaf.physical_type.name
    if (leaf.element.type_length or 0) != column.fixed_byte_len and column.fixed_byte_len:
        yield "type_length", column.fixed_byte_len, leaf.element.type_length
    if leaf.max_rep != column.max_rep_level:
        yield "maximum repetition level", column.max_rep_level, leaf.max_rep
    if leaf.max_def != column.max_def_level:
        yield "maximum definition level", column.max_def_level, leaf.max_def
    if leaf.top.field_id is not None and leaf.top.field_id != column.id:
        yield "field_id", column.id, leaf.top.field_id
    if leaf.repetition is Repetition.REPEATED and column.max_rep_level == 0:
        yield "repetition_type", "not repeated", leaf.repetition.name
    yield from _compare_annotation(leaf, column)


def _compare_annotation(leaf: SchemaLeaf, column: Column) -> Iterator[tuple[str, object, object]]:
    """Yield by which unit or scale other programs read other times or numbers; they may also know none."""
    tree = leaf.element.logical_type
    logical = {} if tree is None else read(tree, LOGICAL_TYPE)
    unit = next((each for each in logical.get("TIMESTAMP", {}).get("unit", {}) if each in TYPES_BY_UNIT), None)
    known = {of: name for name, of in TYPES_BY_UNIT.items()}.get(column.type & (TAG.mask | NANOSECOND.mask))
    if unit is not None and known is not None and unit != known:
        yield "unit", known, unit
    scale = logical.get("DECIMAL", {}).get("scale")
    if tag_of(column.type) in DECIMAL_DIGITS_MAX and scale is not None and scale != decimal_shape(column.type).scale:
        yield "scale", decimal_shape(column.type).scale, scale


def _compare_row_group(
    row_group: RowGroup, block: Block, header: FileHeader
) -> Iterator[tuple[str, int, object, object]]:
    if row_group.num_rows != block.num_rows:
        yield "num_rows", row_group.offset_bytes, block.num_rows, row_group.num_rows
    for index, (found, chunk) in enumerate(zip(row_group.chunks, block.chunks, strict=True)):
        compared = itertools.chain(
            _compare_chunk(found, chunk, header.columns[index]),
            _compare_statistics(found.statistics or _NO_STATISTICS, chunk, index == header.designated_timestamp),
        )
        for name, expected, actual in compared:
            yield f"columns[{index}].{name}", found.offset_bytes, expected, actual


def _compare_chunk(found: ColumnChunk, chunk: Chunk, column: Column) -> Iterator[tuple[str, object, object]]:
    # Names in path_in_schema are not compared: they do not change when a column is renamed.
    if found.physical_type != column.physical_type:
        yield "type", PhysicalType(column.physical_type).name, found.physical_type
    start = found.dictionary_page_offset or found.data_page_offset
    if start != chunk.byte_range_start:
        yield "first page offset", chunk.byte_range_start, start
    elif chunk.total_compressed and chunk.num_values and not start <= found.data_page_offset < chunk.byte_range_end:
        yield "data_page_offset", f"{start} to {chunk.byte_range_end - 1}", found.data_page_offset
    if found.total_compressed_size != chunk.total_compressed:
        yield "total_compressed_size", chunk.total_compressed, found.total_compressed_size
    if found.num_values != chunk.num_values:
        yield "num_values", chunk.num_values, found.num_values
    if found.codec != chunk.codec:
        yield "codec", Codec(chunk.codec).name, found.codec.name
    mask = encodings_mask(found.encodings)
    if mask != chunk.encodings:
        yield "encodings", f"{chunk.encodings:#04x}", "unknown" if mask is None else f"{mask:#04x}"


def _compare_statistics(
    statistics: Statistics, chunk: Chunk, is_designated: bool
) -> Iterator[tuple[str, object, object]]:
    if statistics.null_count != chunk.null_count:
        yield "null_count", chunk.null_count, statistics.null_count
    bounds = (("min_value", statistics.min_value, chunk.minimum), ("max_value", statistics.max_value, chunk.maximum))
    if is_designated and not all(value for _, value, _ in bounds):
        # The converter then takes both bounds from the pages (docs/migration.md).
        return
    for name, value, known in bounds:
        # `_pm` cannot represent an empty value, which counts as absent.
        if (value or None) != (known.value if known else None):
            yield name, known.value.hex() if known else "none", value.hex() if value else "none"


def encodings_mask(encodings: tuple[int, ...]) -> int | None:
    """Return `_pm`'s bit mask for a list of Parquet encodings, or None if one is unknown."""
    mask = 0
    for encoding in encodings:
        if encoding not in ENCODING_MASKS:
            return None
        mask |= ENCODING_MASKS[encoding]
    return mask
