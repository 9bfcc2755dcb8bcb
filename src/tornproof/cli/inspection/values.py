"""Statistics as values: of `_pm` by QuestDB types, of any Parquet file by its logical types."""

from __future__ import annotations

import datetime
import ipaddress
import math
import struct
import uuid
from decimal import Decimal
from typing import Any, TypeAlias

from tornproof.impl.parquet.fields import CONVERTED_NAMES, LOGICAL_TYPE, PageEncoding
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import SchemaElement, SchemaLeaf
from tornproof.impl.parquet.thrift import BrokenError
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import Bound, value_of
from tornproof.impl.types.physical import PHYSICAL_WIDTH_BYTES, PhysicalType
from tornproof.impl.types.questdb import (
    DECIMAL_DIGITS_MAX,
    GEOHASH_BITS,
    GEOHASH_PRECISION,
    NANOSECOND,
    TypeTag,
    decimal_shape,
    tag_of,
)

Shown: TypeAlias = str | int | float | bool | None
"""A value in JSON; None if only the bytes can be shown."""

EPOCH = datetime.datetime(1970, 1, 1)
TEXT_TAGS = frozenset({TypeTag.STRING, TypeTag.SYMBOL, TypeTag.VARCHAR})
DECIMAL_SCALE_LIMIT = 255
DECIMAL_LIMIT_BYTES = 32
U32_LIMIT = 1 << 32


def questdb_value(column: Column, raw: bytes) -> Shown:
    """Return a statistic of a `_pm` column as a value of its QuestDB type."""
    tag = tag_of(column.type)
    if tag in TEXT_TAGS:
        return text_of(raw)
    if tag is TypeTag.UUID and len(raw) == 16:
        return str(uuid.UUID(bytes=raw))
    if tag is TypeTag.LONG256 and len(raw) == 32:
        return f"0x{raw[::-1].lstrip(bytes(1)).hex() or '00'}"
    value = value_of(column, raw)
    if tag in DECIMAL_DIGITS_MAX:
        return _decimal_value(value, column.type)
    if isinstance(value, int):
        return _integer_value(tag, column.type, value)
    return number(value) if isinstance(value, float) else None


def _decimal_value(value: Bound | None, column_type: int) -> Shown:
    if isinstance(value, bytes):
        value = int.from_bytes(value, "big", signed=True) if len(value) <= DECIMAL_LIMIT_BYTES else None
    return decimal_of(value, decimal_shape(column_type).scale) if isinstance(value, int) else None


def _integer_value(tag: TypeTag | None, column_type: int, value: int) -> Shown:
    if tag is TypeTag.BOOLEAN:
        return bool(value)
    if tag is TypeTag.TIMESTAMP:
        return time_of(value, 1_000_000_000 if NANOSECOND.get(column_type) else 1_000_000)
    if tag is TypeTag.DATE:
        return time_of(value, 1_000)
    if tag is TypeTag.CHAR and value < U32_LIMIT:
        return text_of(value.to_bytes(4, "little"), "utf-32-le")
    if tag is TypeTag.IPV4 and value < U32_LIMIT:
        return str(ipaddress.IPv4Address(value))
    if tag in GEOHASH_BITS and value >= 0:
        return f"{value:0{GEOHASH_PRECISION.get(column_type)}b}"
    return value


def text_of(raw: bytes, encoding: str = "utf-8") -> str | None:
    """Return bytes as text, or None if they cannot be decoded."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


def time_of(value: int, units_in_second: int) -> str | int:
    """Return a time since 1970 in ISO form, or the number itself for years that Python does not support."""
    seconds, units = divmod(value, units_in_second)
    try:
        time = EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return value
    digit_count = len(str(units_in_second)) - 1
    fraction = f".{units:0{digit_count}d}" if units else ""
    return f"{time.isoformat()}{fraction}Z"


def decimal_of(unscaled: int, scale: int) -> str:
    """Return a decimal with all its digits; with an impossible scale, the unscaled number."""
    if not 0 <= scale <= DECIMAL_SCALE_LIMIT:
        return str(unscaled)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


def number(value: float) -> float | str:
    """Return a float, or text for one that JSON does not have."""
    return value if math.isfinite(value) else str(value)


LogicalType: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a logical type and its parameters."""

ENCODING_NAMES = {int(each): each.name for each in PageEncoding}
TEXT_NAMES = frozenset({"STRING", "ENUM", "JSON", "UTF8"})
UNITS_IN_SECOND = {"MILLIS": 1_000, "MICROS": 1_000_000, "NANOS": 1_000_000_000}


def logical_type(element: SchemaElement) -> LogicalType | None:
    """Return the logical type of an element, or else the one of its older converted type."""
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
    """Return a statistic as a value of its leaf's type, or None if only the bytes can be shown."""
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
