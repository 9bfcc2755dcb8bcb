"""What the converter reads of a footer: the tables of `parquet/fields.py` reduced to what it knows and keeps.

QuestDB's converter is generated from an older parquet.thrift, so newer fields and members of unions are unknown to it.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tornproof.impl.parquet.records import INTEGER_KINDS, Form, Table, UnionTable


class ShapeMember(NamedTuple):
    """One member of a struct; `slot` is its index in the record, -1 for one that is only skipped."""

    name: str
    slot: int
    required_bit: int
    is_integer: bool
    form: Form


class Shape(NamedTuple):
    """A struct: its members by id, and the record of those that are kept."""

    name: str
    is_union: bool
    members: dict[int, ShapeMember]
    required: int
    record: Any
    width: int


class Union(NamedTuple):
    """The member that a union has: its name, and its record, None for one without content."""

    name: str
    value: Any


class SchemaElement(NamedTuple):
    """One element of the schema, None where a field is absent."""

    type: int | None
    type_length: int | None
    repetition_type: int | None
    name: str
    num_children: int | None
    converted_type: int | None
    scale: int | None
    precision: int | None
    field_id: int | None
    logical_type: Union | None


class DecimalType(NamedTuple):
    """Digits of a decimal."""

    scale: int
    precision: int


class TimeType(NamedTuple):
    """The unit of a time or timestamp."""

    unit: Union


class IntType(NamedTuple):
    """Width and sign of an integer."""

    bit_width: int
    is_signed: bool


class Statistics(NamedTuple):
    """The statistics that the converter uses, None where absent."""

    null_count: int | None
    distinct_count: int | None
    max_value: bytes | None
    min_value: bytes | None


class ColumnMetaData(NamedTuple):
    """What the converter uses of a chunk, None where an optional field is absent."""

    encodings: tuple[int, ...]
    codec: int
    num_values: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    statistics: Statistics | None
    bloom_filter_offset: int | None
    bloom_filter_length: int | None


class ColumnChunk(NamedTuple):
    """A chunk; missing metadata is rejected later than a missing required field."""

    file_path: str | None
    meta_data: ColumnMetaData | None


class SortingColumn(NamedTuple):
    """One sorting column of a row group; the index is not checked."""

    column_index: int
    descending: bool


class RowGroup(NamedTuple):
    """One row group; its chunks have not been compared with the schema."""

    columns: tuple[ColumnChunk, ...]
    total_byte_size: int
    num_rows: int
    sorting_columns: tuple[SortingColumn, ...] | None


class KeyValue(NamedTuple):
    """One key-value."""

    key: str
    value: str | None


class FileMetaData(NamedTuple):
    """The footer."""

    schema: tuple[SchemaElement, ...]
    num_rows: int
    row_groups: tuple[RowGroup, ...]
    key_value_metadata: tuple[KeyValue, ...] | None


class BloomFilterHeader(NamedTuple):
    """The header before a bitset."""

    num_bytes: int


class Nothing(NamedTuple):
    """A struct whose content is not kept."""


_RECORDS: dict[str, Any] = {
    record.__name__: record
    for record in (
        SchemaElement,
        DecimalType,
        TimeType,
        IntType,
        Statistics,
        ColumnMetaData,
        ColumnChunk,
        SortingColumn,
        RowGroup,
        KeyValue,
        FileMetaData,
        BloomFilterHeader,
    )
}
# Ids of parquet.thrift that the converter does not know.
_UNKNOWN = {
    "LogicalType": frozenset({15, 16, 17, 18, 19}),
    "ColumnOrder": frozenset({2, 3}),
    "SchemaElement": frozenset({11}),
    "Statistics": frozenset({7, 8, 9}),
    "ColumnMetaData": frozenset({16, 17}),
}
# Its absence is rejected only after the whole footer has been read.
_NOT_REQUIRED = {("ColumnChunk", "meta_data")}
NO_MEMBERS = Shape("empty struct", False, {}, 0, Nothing, 0)


@functools.cache
def shape_of(table: Table | None) -> Shape:
    """Return how to read the struct of a table; without a table no member is known."""
    if table is None:
        return NO_MEMBERS
    record = _RECORDS.get(table.name, Nothing)
    kept: tuple[str, ...] = record._fields
    members: dict[int, ShapeMember] = {}
    for number, member in table.by_id.items():
        if number in _UNKNOWN.get(table.name, ()):
            continue
        is_required = member.required and (table.name, member.name) not in _NOT_REQUIRED
        slot = kept.index(member.name) if member.name in kept else -1
        bit = 1 << number if is_required else 0
        members[number] = ShapeMember(member.name, slot, bit, member.form.kind in INTEGER_KINDS, member.form)
    required = sum(each.required_bit for each in members.values())
    return Shape(table.name, isinstance(table, UnionTable), members, required, record, len(kept))
