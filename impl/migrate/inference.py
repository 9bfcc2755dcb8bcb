"""QuestDB column types from a Parquet schema, for files without the `questdb` JSON (docs/migration.md)."""

from __future__ import annotations

from tornproof.impl.migrate.annotations import Annotation
from tornproof.impl.migrate.schema import Leaf
from tornproof.impl.migrate.shapes import DecimalType
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import (
    DIMENSIONS_MAX,
    TIMESTAMP_NS,
    TYPES_BY_UNIT,
    TypeTag,
    decimal_type,
    double_array_type,
)

UNKNOWN_TYPE = -1
_NOTHING = Annotation("")


def infer_type(leaf: Leaf) -> int:
    """Return the column type of a leaf, -1 where QuestDB has none."""
    logical, converted = leaf.logical or _NOTHING, leaf.converted or _NOTHING
    decimal = logical.decimal or converted.decimal
    match leaf.physical_type:
        case PhysicalType.BOOLEAN:
            return TypeTag.BOOLEAN
        case PhysicalType.INT32:
            return _of_int32(logical, converted, decimal)
        case PhysicalType.INT64:
            if logical.name == "TIMESTAMP" and logical.unit is not None:
                return TYPES_BY_UNIT[logical.unit]
            return _decimal(decimal) if decimal else TypeTag.LONG
        case PhysicalType.INT96:
            return TIMESTAMP_NS
        case PhysicalType.FLOAT:
            return TypeTag.FLOAT
        case PhysicalType.DOUBLE:
            is_array = 1 <= leaf.list_dimensions <= DIMENSIONS_MAX
            return double_array_type(leaf.list_dimensions) if is_array else TypeTag.DOUBLE
        case PhysicalType.BYTE_ARRAY:
            if decimal:
                return _decimal(decimal)
            return TypeTag.VARCHAR if logical.name == "STRING" or converted.name == "UTF8" else TypeTag.BINARY
        case PhysicalType.FIXED_LEN_BYTE_ARRAY:
            if decimal:
                return _decimal(decimal)
            by_length = {16: TypeTag.UUID if logical.name == "UUID" else TypeTag.LONG128, 32: TypeTag.LONG256}
            return by_length.get(leaf.fixed_byte_len, UNKNOWN_TYPE)


def _of_int32(logical: Annotation, converted: Annotation, decimal: DecimalType | None) -> int:
    if logical.integer == "INT_32":
        return TypeTag.INT
    if decimal:
        return _decimal(decimal)
    if logical.integer == "INT_16" or converted.name == "INT_16":
        return TypeTag.SHORT
    if logical.integer == "INT_8" or converted.name == "INT_8":
        return TypeTag.BYTE
    return TypeTag.DATE if "DATE" in (logical.name, converted.name) else TypeTag.INT


def _decimal(decimal: DecimalType) -> int:
    column_type = decimal_type(decimal.precision & 0xFF, decimal.scale & 0xFF)
    return UNKNOWN_TYPE if column_type is None else column_type
