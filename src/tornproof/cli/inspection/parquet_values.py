"""Schema leaves and statistics of any Parquet file in words, by its own logical types."""

from __future__ import annotations

import datetime
import struct
import uuid
from typing import Any, TypeAlias

from tornproof.cli.inspection.values import DECIMAL_LIMIT_BYTES, EPOCH, Shown, decimal_of, number, text_of, time_of
from tornproof.impl.parquet.fields import CONVERTED_NAMES, LOGICAL_TYPE, PageEncoding
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import SchemaElement, SchemaLeaf
from tornproof.impl.parquet.thrift import BrokenError
from tornproof.impl.types.physical import PHYSICAL_WIDTH_BYTES, PhysicalType

LogicalType: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a logical type and its parameters."""

ENCODING_NAMES = {int(each): each.name for each in PageEncoding}
TEXT_NAMES = frozenset({"STRING", "ENUM", "JSON", "UTF8"})
UNITS_IN_SECOND = {"MILLIS": 1_000, "MICROS": 1_000_000, "NANOS": 1_000_000_000}


def logical_type(element: SchemaElement) -> LogicalType | None:
    """Return the logical type of an element, made from the older converted type where there is no other."""
    if element.logical_type is not None:
        try:
            values = read(element.logical_type, LOGICAL_TYPE)
        except BrokenError:
            return None
        names = [name for name in values if name != "offset_bytes"]
        return (names[-1], _parameters(values[names[-1]])) if names else None
    converted = element.converted_type
    if converted not in CONVERTED_NAMES:
        return None
    return _from_converted(CONVERTED_NAMES[converted], element)


def _parameters(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    parameters = {name: parameter for name, parameter in value.items() if name != "offset_bytes"}
    if isinstance(parameters.get("unit"), dict):
        parameters["unit"] = next((unit for unit in parameters["unit"] if unit in UNITS_IN_SECOND), None)
    return parameters


def _from_converted(name: str, element: SchemaElement) -> LogicalType:
    if name == "DECIMAL":
        return name, {"scale": element.scale or 0, "precision": element.precision or 0}
    kind, _, detail = name.partition("_")
    if kind == "TIMESTAMP":
        return kind, {"is_adjusted_to_utc": True, "unit": detail}
    if kind in ("INT", "UINT"):
        return "INTEGER", {"bit_width": int(detail), "is_signed": kind == "INT"}
    return name, {}


def logical_type_text(element: SchemaElement) -> str | None:
    """Return a logical type with its parameters: `TIMESTAMP(MICROS, UTC)`, `DECIMAL(9,3)`, `INTEGER(16, unsigned)`."""
    name, parameters = logical_type(element) or (None, {})
    if name in ("TIMESTAMP", "TIME"):
        return f"{name}({parameters.get('unit')}, {'UTC' if parameters.get('is_adjusted_to_utc') else 'local'})"
    if name == "DECIMAL":
        return f"{name}({parameters.get('precision')},{parameters.get('scale')})"
    if name == "INTEGER":
        return f"{name}({parameters.get('bit_width')}, {'signed' if parameters.get('is_signed') else 'unsigned'})"
    return name


def parquet_value(leaf: SchemaLeaf, logical: LogicalType | None, raw: bytes) -> Shown:
    """Return a statistic as a value of its leaf's type, or None where only the bytes can be shown."""
    name, parameters = logical or ("", {})
    if name == "DECIMAL":
        return _decimal(leaf.physical_type, raw, parameters.get("scale", 0))
    if name in TEXT_NAMES:
        return text_of(raw)
    if name == "UUID" and len(raw) == 16:
        return str(uuid.UUID(bytes=raw))
    is_number = leaf.physical_type is not PhysicalType.INT96
    if not is_number or len(raw) != PHYSICAL_WIDTH_BYTES.get(leaf.physical_type):
        return None
    if leaf.physical_type == PhysicalType.FLOAT:
        return number(float(struct.unpack("<f", raw)[0]))
    if leaf.physical_type == PhysicalType.DOUBLE:
        return number(float(struct.unpack("<d", raw)[0]))
    if leaf.physical_type == PhysicalType.BOOLEAN:
        return raw != b"\0"
    return _integer(name, parameters, raw)


def _integer(name: str, parameters: dict[str, Any], raw: bytes) -> Shown:
    value = int.from_bytes(raw, "little", signed=parameters.get("is_signed", True))
    if name == "TIMESTAMP" and parameters.get("unit") in UNITS_IN_SECOND:
        return time_of(value, UNITS_IN_SECOND[parameters["unit"]])
    if name == "DATE":
        try:
            return (EPOCH + datetime.timedelta(days=value)).date().isoformat()
        except OverflowError:
            return value
    return value


def _decimal(physical_type: PhysicalType, raw: bytes, scale: int) -> Shown:
    if not 0 < len(raw) <= DECIMAL_LIMIT_BYTES:
        return None
    is_integer = physical_type in (PhysicalType.INT32, PhysicalType.INT64)
    return decimal_of(int.from_bytes(raw, "little" if is_integer else "big", signed=True), scale)
