"""The logical type of a schema element as the union of the FlatBuffers schema."""

from __future__ import annotations

from typing import Any

import flatbuffers

from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.parquet.fields import LOGICAL_TYPE, TIME_UNIT, ConvertedType
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import SchemaElement
from tornproof.impl.parquet.thrift import BrokenError, Struct, value_of

NOTHING = schema.LogicalType.NONE, 0
KINDS = {
    "STRING": schema.LogicalType.StringType,
    "MAP": schema.LogicalType.MapType,
    "LIST": schema.LogicalType.ListType,
    "ENUM": schema.LogicalType.EnumType,
    "DECIMAL": schema.LogicalType.DecimalType,
    "DATE": schema.LogicalType.DateType,
    "TIME": schema.LogicalType.TimeType,
    "TIMESTAMP": schema.LogicalType.TimestampType,
    "INTEGER": schema.LogicalType.IntType,
    "UNKNOWN": schema.LogicalType.NullType,
    "JSON": schema.LogicalType.JsonType,
    "BSON": schema.LogicalType.BsonType,
    "UUID": schema.LogicalType.UUIDType,
    "FLOAT16": schema.LogicalType.Float16Type,
    "VARIANT": schema.LogicalType.VariantType,
    "GEOMETRY": schema.LogicalType.GeometryType,
    "GEOGRAPHY": schema.LogicalType.GeographyType,
}
OLDER = {
    ConvertedType.UTF8: "STRING",
    ConvertedType.MAP: "MAP",
    ConvertedType.LIST: "LIST",
    ConvertedType.ENUM: "ENUM",
    ConvertedType.DATE: "DATE",
    ConvertedType.JSON: "JSON",
    ConvertedType.BSON: "BSON",
}
OLDER_TIMES = {
    ConvertedType.TIME_MILLIS: ("TIME", "MILLIS"),
    ConvertedType.TIME_MICROS: ("TIME", "MICROS"),
    ConvertedType.TIMESTAMP_MILLIS: ("TIMESTAMP", "MILLIS"),
    ConvertedType.TIMESTAMP_MICROS: ("TIMESTAMP", "MICROS"),
}
OLDER_INTEGERS = {
    each: (int(each.name.rpartition("_")[2]), each.name.startswith("INT"))
    for each in ConvertedType
    if each.name.startswith(("INT_", "UINT_"))
}

UNITS = [member.name for member in TIME_UNIT.by_id.values()]
BIT_WIDTHS = (8, 16, 32, 64)


def logical_type(builder: flatbuffers.Builder, element: SchemaElement) -> tuple[int, int]:
    """Add an element's logical type, or what its older annotation means; return the union's kind and position."""
    found = _annotation(element)
    if found is None:
        return NOTHING
    name, options = found
    return KINDS[name], _options(builder, name, options)


def _annotation(element: SchemaElement) -> tuple[str, Any] | None:
    if element.logical_type is not None:
        try:
            members = read(element.logical_type, LOGICAL_TYPE)
        except BrokenError:
            return None
        return next(((name, value) for name, value in members.items() if _is_stated(name, value)), None)
    converted = element.converted_type
    if converted in OLDER:
        return OLDER[ConvertedType(converted)], None
    if converted in OLDER_TIMES:
        name, unit = OLDER_TIMES[ConvertedType(converted)]
        return name, {"is_adjusted_to_utc": True, "unit": {unit: None}}
    if converted in OLDER_INTEGERS:
        bit_width, is_signed = OLDER_INTEGERS[ConvertedType(converted)]
        return "INTEGER", {"bit_width": bit_width, "is_signed": is_signed}
    if converted == ConvertedType.DECIMAL:
        return "DECIMAL", {"scale": element.scale or 0, "precision": element.precision or 0}
    return None


def _is_stated(name: str, options: Any) -> bool:
    """Return whether the schema has the type, and its options."""
    if name in ("TIME", "TIMESTAMP"):
        return any(unit in options["unit"] for unit in UNITS)
    return name in KINDS and (name != "INTEGER" or options["bit_width"] in BIT_WIDTHS)


def _options(builder: flatbuffers.Builder, name: str, options: Any) -> int:
    if name == "DECIMAL":
        schema.DecimalOptionsStart(builder)
        schema.DecimalOptionsAddScale(builder, options["scale"])
        schema.DecimalOptionsAddPrecision(builder, options["precision"])
        return schema.DecimalOptionsEnd(builder)
    if name in ("TIME", "TIMESTAMP"):
        schema.TimeOptionsStart(builder)
        schema.TimeOptionsAddIsAdjustedToUtc(builder, options["is_adjusted_to_utc"])
        schema.TimeOptionsAddUnit(builder, next(UNITS.index(unit) for unit in UNITS if unit in options["unit"]))
        return schema.TimeOptionsEnd(builder)
    if name == "INTEGER":
        schema.IntOptionsStart(builder)
        schema.IntOptionsAddBitWidth(builder, options["bit_width"])
        schema.IntOptionsAddIsSigned(builder, options["is_signed"])
        return schema.IntOptionsEnd(builder)
    if name in ("GEOMETRY", "GEOGRAPHY"):
        return _geospatial(builder, name, options)
    if name == "VARIANT":
        schema.VariantTypeStart(builder)
        return schema.VariantTypeEnd(builder)
    schema.EmptyStart(builder)
    return schema.EmptyEnd(builder)


def _geospatial(builder: flatbuffers.Builder, name: str, options: Struct) -> int:
    """Add the options of a type whose fields are 1, the reference system, and 2, the algorithm of edges."""
    system, algorithm = value_of(options, 1), value_of(options, 2)
    text = builder.CreateString(system) if isinstance(system, bytes) else 0
    if name == "GEOMETRY":
        schema.GeometryTypeStart(builder)
        if text:
            schema.GeometryTypeAddCrs(builder, text)
        return schema.GeometryTypeEnd(builder)
    schema.GeographyTypeStart(builder)
    if text:
        schema.GeographyTypeAddCrs(builder, text)
    if isinstance(algorithm, int) and 0 <= algorithm <= schema.EdgeInterpolationAlgorithm.KARNEY:
        schema.GeographyTypeAddAlgorithm(builder, algorithm)
    return schema.GeographyTypeEnd(builder)
