"""QuestDB's column types as Arrow types: those with which pyarrow reads the server's own Parquet exports."""

from __future__ import annotations

import functools

import pyarrow as pa

from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import (
    DECIMAL_DIGITS_MAX,
    DESIGNATED,
    ELEMENT_TAG,
    NANOSECOND,
    NEVER_NULL_TAGS,
    DecimalShape,
    TypeTag,
    array_dimensions,
    decimal_shape,
    tag_of,
)

_FIXED_TYPES = {
    TypeTag.BOOLEAN: pa.bool_(),
    TypeTag.BYTE: pa.int8(),
    TypeTag.SHORT: pa.int16(),
    TypeTag.CHAR: pa.uint16(),
    TypeTag.INT: pa.int32(),
    TypeTag.LONG: pa.int64(),
    TypeTag.DATE: pa.timestamp("ms", tz="UTC"),
    TypeTag.FLOAT: pa.float32(),
    TypeTag.DOUBLE: pa.float64(),
    TypeTag.STRING: pa.string(),
    TypeTag.SYMBOL: pa.string(),
    TypeTag.VARCHAR: pa.string(),
    TypeTag.BINARY: pa.binary(),
    TypeTag.LONG256: pa.binary(32),
    TypeTag.LONG128: pa.binary(16),
    TypeTag.UUID: pa.uuid(),
    TypeTag.IPV4: pa.uint32(),
    TypeTag.GEOBYTE: pa.int8(),
    TypeTag.GEOSHORT: pa.int16(),
    TypeTag.GEOINT: pa.int32(),
    TypeTag.GEOLONG: pa.int64(),
}
_PLAIN_TYPES: dict[int, pa.DataType] = {
    PhysicalType.BOOLEAN: pa.bool_(),
    PhysicalType.INT32: pa.int32(),
    PhysicalType.INT64: pa.int64(),
    PhysicalType.INT96: pa.timestamp("ns"),
    PhysicalType.FLOAT: pa.float32(),
    PhysicalType.DOUBLE: pa.float64(),
    PhysicalType.BYTE_ARRAY: pa.binary(),
}


@functools.lru_cache(maxsize=1024)
def arrow_type(column_type: int, *, physical_type: int, fixed_byte_len: int = 0) -> pa.DataType:
    """Return the Arrow type of a column.

    Unknown types (-1, other tags, arrays of anything but doubles, impossible decimals) get the plain type of their
    physical type. Source: docs/format.md, and exports of the releases.
    """
    tag = tag_of(column_type)
    if tag is TypeTag.TIMESTAMP:
        return pa.timestamp("ns" if NANOSECOND.get(column_type) else "us", tz="UTC")
    if is_double_array(column_type):
        return list_type(array_dimensions(column_type))
    if (shape := valid_decimal_shape(column_type)) is not None:
        make = pa.decimal256 if tag is TypeTag.DECIMAL256 else pa.decimal128
        return make(shape.precision, shape.scale)
    if tag in _FIXED_TYPES:
        return _FIXED_TYPES[tag]
    return plain_type(physical_type, fixed_byte_len)


def plain_type(physical_type: int, fixed_byte_len: int) -> pa.DataType:
    """Return the Arrow type of a physical type without annotation; `null` for unknown ones."""
    if physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return pa.binary(max(fixed_byte_len, 0))
    return _PLAIN_TYPES.get(physical_type, pa.null())


def list_type(dimensions: int) -> pa.DataType:
    """Return the type of an array of doubles, in which only the outermost list and the elements can be null."""
    nested = pa.list_(pa.field("element", pa.float64()))
    for _ in range(dimensions - 1):
        nested = pa.list_(pa.field("list", nested, nullable=False))
    return nested


@functools.lru_cache(maxsize=1024)
def is_double_array(column_type: int) -> bool:
    """Whether the type is an array of doubles, the only one that QuestDB writes."""
    return tag_of(column_type) is TypeTag.ARRAY and ELEMENT_TAG.get(column_type) == TypeTag.DOUBLE


@functools.lru_cache(maxsize=1024)
def valid_decimal_shape(column_type: int) -> DecimalShape | None:
    """Return precision and scale, or None for other types and for a precision that does not fit the decimal's tag."""
    tag = tag_of(column_type)
    if tag is None or tag not in DECIMAL_DIGITS_MAX:
        return None
    shape = decimal_shape(column_type)
    possible = 1 <= shape.precision <= DECIMAL_DIGITS_MAX[tag] and shape.scale <= shape.precision
    return shape if possible else None


@functools.lru_cache(maxsize=1024)
def is_nullable(column_type: int) -> bool:
    """Whether the column can hold nulls: the designated timestamp and four types of QuestDB never do."""
    tag = tag_of(column_type)
    return not (tag in NEVER_NULL_TAGS or (tag is TypeTag.TIMESTAMP and DESIGNATED.get(column_type)))


def missing_value(column_type: int, *, physical_type: int, fixed_byte_len: int = 0) -> pa.Scalar:
    """Return the value of rows in a column that is newer than the partition: null, or false and 0 for types without."""
    result = arrow_type(column_type, physical_type=physical_type, fixed_byte_len=fixed_byte_len)
    if tag_of(column_type) not in NEVER_NULL_TAGS:
        return pa.scalar(None, type=result)
    return pa.scalar(False if result == pa.bool_() else 0, type=result)
