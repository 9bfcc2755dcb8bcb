"""A table's columns in a new partition, as release 9.4.2 writes them: the `_pm` header and the Thrift schema.

Sources: docs/format.md, and real files of that release, whose schema elements are reproduced byte for byte.
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.parquet.fields import (
    DECIMAL_TYPE,
    INTEGER_TYPE,
    LOGICAL_TYPE,
    SCHEMA_ELEMENT,
    TIME_TYPE,
    TIME_UNIT,
    ConvertedType,
    Repetition,
)
from tornproof.impl.parquet.records import make
from tornproof.impl.parquet.schema import SchemaElement
from tornproof.impl.parquet.thrift import Struct, encode
from tornproof.impl.pm.header import Column, FileHeader, encode_header
from tornproof.impl.table.metadata_file import META_FILE, TableColumn, TableMetadata
from tornproof.impl.types.arrow import is_double_array, is_nullable, valid_decimal_shape
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import DESIGNATED, NANOSECOND, TypeTag, tag_of

_DECIMAL_BYTES = {
    TypeTag.DECIMAL8: 1,
    TypeTag.DECIMAL16: 2,
    TypeTag.DECIMAL32: 4,
    TypeTag.DECIMAL64: 8,
    TypeTag.DECIMAL128: 16,
    TypeTag.DECIMAL256: 32,
}
FIXED_BYTE_LENS = {TypeTag.UUID: 16, TypeTag.LONG128: 16, TypeTag.LONG256: 32, **_DECIMAL_BYTES}
_STORED_AS = {
    PhysicalType.BOOLEAN: {TypeTag.BOOLEAN},
    PhysicalType.INT32: {TypeTag.BYTE, TypeTag.SHORT, TypeTag.CHAR, TypeTag.INT, TypeTag.IPV4}
    | {TypeTag.GEOBYTE, TypeTag.GEOSHORT, TypeTag.GEOINT},
    PhysicalType.INT64: {TypeTag.LONG, TypeTag.DATE, TypeTag.TIMESTAMP, TypeTag.GEOLONG},
    PhysicalType.FLOAT: {TypeTag.FLOAT},
    PhysicalType.DOUBLE: {TypeTag.DOUBLE},
    PhysicalType.BYTE_ARRAY: {TypeTag.STRING, TypeTag.SYMBOL, TypeTag.VARCHAR, TypeTag.BINARY, TypeTag.ARRAY},
    PhysicalType.FIXED_LEN_BYTE_ARRAY: set(FIXED_BYTE_LENS),
}
_PHYSICAL_TYPES = {tag: physical for physical, tags in _STORED_AS.items() for tag in tags}


class _Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """The annotations of a schema element, None where release 9.4.2 has none."""

    converted_type: int | None = None
    logical_type: Struct | None = None
    scale: int | None = None
    precision: int | None = None

    def without_positions(self) -> tuple[int | None, bytes | None, int | None, int | None]:
        """Return the annotations without their positions in a file, for comparison."""
        logical = None if self.logical_type is None else encode(self.logical_type)
        return self.converted_type, logical, self.scale, self.precision


def physical_form(column_type: int) -> tuple[PhysicalType, int] | None:
    """Return the physical type and the FIXED_BYTE_LEN with which QuestDB stores a type, None for impossible types."""
    tag = tag_of(column_type)
    if (
        tag is None
        or (tag in _DECIMAL_BYTES and valid_decimal_shape(column_type) is None)
        or (tag is TypeTag.ARRAY and not is_double_array(column_type))
    ):
        return None
    return _PHYSICAL_TYPES[tag], FIXED_BYTE_LENS.get(tag, 0)


def has_questdb_form(element: SchemaElement, column_type: int) -> bool:
    """Whether an element has the physical type and the annotations that every release of QuestDB gives a type."""
    said = _Annotation(
        converted_type=element.converted_type,
        logical_type=element.logical_type,
        scale=element.scale,
        precision=element.precision,
    )
    form = (element.physical_type, element.type_length or 0)
    return (
        form == physical_form(column_type) and said.without_positions() == _annotation(column_type).without_positions()
    )


def new_header(
    metadata: TableMetadata, *, bloom_ids: Collection[int] = (), blooms_external: bool = False
) -> FileHeader:
    """Return the header of a new partition with the table's current columns.

    `bloom_ids` are the ids, in the table, of the columns with bloom filters, which are in data.parquet if
    `blooms_external`. FLAGS have the repetition of the Thrift schema, as after a rewrite by 9.4.2 (docs/format.md).
    Raises UnsupportedError for a column of unknown type.
    """
    columns = tuple(_column(column, metadata.timestamp_id) for column in metadata.columns)
    indices = {column.id: index for index, column in enumerate(metadata.columns)}
    timestamp = indices[metadata.timestamp_id] if metadata.timestamp_id >= 0 else -1
    bloom_columns = tuple(index for index, column in enumerate(metadata.columns) if column.id in bloom_ids)
    flags = layout.SORTING_IS_DTS_ASC.put(0, int(timestamp >= 0))
    flags = layout.BLOOM_FILTERS.put(flags, int(bool(bloom_columns)))
    flags = layout.BLOOM_FILTERS_EXTERNAL.put(flags, int(bool(bloom_columns) and blooms_external))
    header = FileHeader(
        feature_flags=flags,
        designated_timestamp=timestamp,
        columns=columns,
        sorting_columns=(),
        bloom_columns=bloom_columns,
        squash_tracker=None,
        size_bytes=0,
    )
    return replace(header, size_bytes=len(encode_header(header, parquet_meta_file_size=0)))


def schema_elements(header: FileHeader, *, table_name: str) -> tuple[Struct, ...]:
    """Return the Thrift SchemaElements of the columns, after a root named after the table.

    Every column must have QuestDB's physical type, as those of `new_header` have.
    """
    root = make(SCHEMA_ELEMENT, name=table_name, num_children=len(header.columns))
    return (root, *(_element(column) for column in header.columns))


def _column(column: TableColumn, timestamp_id: int) -> Column:
    form = physical_form(column.type)
    if form is None:
        raise UnsupportedError(
            META_FILE, f"TYPE of column {column.name!r}", None, "a type with a known Parquet form", column.type
        )
    is_timestamp = column.id == timestamp_id
    column_type = DESIGNATED.put(column.type, 1) if is_timestamp else column.type
    is_optional = is_nullable(column_type)
    repetition = Repetition.OPTIONAL if is_optional else Repetition.REQUIRED
    flags = layout.FIELD_REPETITION.put(0, repetition)
    return Column(
        name=column.name,
        id=column.file_id,
        type=column_type,
        flags=layout.LOCAL_KEY_IS_GLOBAL.put(flags, int(tag_of(column.type) is TypeTag.SYMBOL)),
        fixed_byte_len=form[1],
        physical_type=int(form[0]),
        max_rep_level=0,
        max_def_level=int(is_optional),
    )


def _element(column: Column) -> Struct:
    assert (column.physical_type, column.fixed_byte_len) == physical_form(column.type), column
    annotation = _annotation(column.type)
    return make(
        SCHEMA_ELEMENT,
        type=column.physical_type,
        type_length=column.fixed_byte_len or None,
        repetition_type=Repetition.OPTIONAL if column.max_def_level else Repetition.REQUIRED,
        name=column.name,
        converted_type=annotation.converted_type,
        scale=annotation.scale,
        precision=annotation.precision,
        field_id=column.id,
        logical_type=annotation.logical_type,
    )


@functools.lru_cache(maxsize=1024)
def _annotation(column_type: int) -> _Annotation:
    if (shape := valid_decimal_shape(column_type)) is not None:
        decimal = make(DECIMAL_TYPE, scale=shape.scale, precision=shape.precision)
        return _Annotation(
            converted_type=ConvertedType.DECIMAL,
            logical_type=make(LOGICAL_TYPE, DECIMAL=decimal),
            scale=shape.scale,
            precision=shape.precision,
        )
    match tag_of(column_type):
        case TypeTag.TIMESTAMP if NANOSECOND.get(column_type):
            return _Annotation(logical_type=_timestamp("NANOS"))
        case TypeTag.TIMESTAMP:
            return _Annotation(converted_type=ConvertedType.TIMESTAMP_MICROS, logical_type=_timestamp("MICROS"))
        case TypeTag.DATE:
            return _Annotation(converted_type=ConvertedType.TIMESTAMP_MILLIS, logical_type=_timestamp("MILLIS"))
        case TypeTag.STRING | TypeTag.SYMBOL | TypeTag.VARCHAR:
            return _Annotation(converted_type=ConvertedType.UTF8, logical_type=make(LOGICAL_TYPE, STRING=Struct(())))
        case TypeTag.UUID:
            return _Annotation(logical_type=make(LOGICAL_TYPE, UUID=Struct(())))
        case TypeTag.CHAR:
            return _Annotation(converted_type=ConvertedType.UINT_16, logical_type=_integer(16, is_signed=False))
        case TypeTag.IPV4:
            return _Annotation(logical_type=_integer(32, is_signed=False))
        case TypeTag.BYTE | TypeTag.GEOBYTE:
            return _Annotation(converted_type=ConvertedType.INT_8, logical_type=_integer(8))
        case TypeTag.SHORT | TypeTag.GEOSHORT:
            return _Annotation(converted_type=ConvertedType.INT_16, logical_type=_integer(16))
        case TypeTag.GEOINT:
            return _Annotation(converted_type=ConvertedType.INT_32, logical_type=_integer(32))
        case TypeTag.GEOLONG:
            return _Annotation(converted_type=ConvertedType.INT_64, logical_type=_integer(64))
        case _:
            return _Annotation()


def _timestamp(unit: str) -> Struct:
    time = make(TIME_TYPE, is_adjusted_to_utc=True, unit=make(TIME_UNIT, **{unit: Struct(())}))
    return make(LOGICAL_TYPE, TIMESTAMP=time)


def _integer(bit_width: int, *, is_signed: bool = True) -> Struct:
    return make(LOGICAL_TYPE, INTEGER=make(INTEGER_TYPE, bit_width=bit_width, is_signed=is_signed))
