"""Annotations of leaves, and which are legal for which physical type (docs/migration.md)."""

from __future__ import annotations

import math
from typing import NamedTuple

from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import DecimalType, IntType, SchemaElement, TimeType, Union
from tornproof.impl.parquet.fields import CONVERTED_NAMES
from tornproof.impl.parquet.schema import DIGITS_MAX
from tornproof.impl.types.physical import PhysicalType

DOUBLE_MAX_BITS = 1023
GROUP_LOGICAL_TYPES = frozenset({"LIST", "MAP"})
GROUP_CONVERTED_TYPES = frozenset({"LIST", "MAP", "MAP_KEY_VALUE"})
_CONVERTED_OF = {
    PhysicalType.BYTE_ARRAY: {"UTF8", "ENUM", "JSON", "BSON"},
    PhysicalType.INT32: {"DATE", "TIME_MILLIS", "INT_8", "INT_16", "INT_32", "UINT_8", "UINT_16", "UINT_32"},
    PhysicalType.INT64: {"TIME_MICROS", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "INT_64", "UINT_64"},
}
_LOGICAL_OF = {
    PhysicalType.BYTE_ARRAY: {"STRING", "ENUM", "JSON", "BSON"},
    PhysicalType.INT32: {"DATE", "UNKNOWN"},
    PhysicalType.INT64: {"TIMESTAMP"},
}


class Annotation(NamedTuple):
    """The annotation of a leaf: its name in parquet.thrift, digits of a decimal, unit of a time, kind of integer."""

    name: str
    decimal: DecimalType | None = None
    unit: str | None = None
    integer: str | None = None


def converted_name(element: SchemaElement) -> str | None:
    """Return the name of an element's converted type, None if it is absent or unknown."""
    number = element.converted_type
    return None if number is None else CONVERTED_NAMES.get(number)


def converted_of(element: SchemaElement) -> Annotation | None:
    """Return the annotation of a leaf's converted type; raises RejectionError."""
    if element.converted_type is None:
        return None
    if (element.precision is None) != (element.scale is None):
        raise RejectionError(Cause.SCHEMA, "precision and scale both or neither", "one of them")
    name = converted_name(element)
    if name is None or name in GROUP_CONVERTED_TYPES:
        raise RejectionError(Cause.SCHEMA, "a converted type of leaves", name or element.converted_type)
    if name != "DECIMAL":
        return Annotation(name)
    if element.precision is None or element.scale is None:
        raise RejectionError(Cause.SCHEMA, "precision and scale of a decimal", "none")
    return Annotation(name, decimal=_digits(DecimalType(scale=element.scale, precision=element.precision)))


def logical_of(union: Union | None) -> Annotation | None:
    """Return the annotation of a leaf's logical type; raises RejectionError."""
    if union is None:
        return None
    if union.name in GROUP_LOGICAL_TYPES:
        raise RejectionError(Cause.SCHEMA, "a logical type of leaves", union.name)
    value = union.value
    if isinstance(value, DecimalType):
        return Annotation(union.name, decimal=_digits(value))
    if isinstance(value, TimeType):
        return Annotation(union.name, unit=value.unit.name)
    if isinstance(value, IntType):
        sign = "INT" if value.is_signed else "UINT"
        # The converter takes integers of other widths for unannotated ones.
        return Annotation(
            union.name, integer=f"{sign}_{value.bit_width}" if value.bit_width in (8, 16, 32, 64) else "INT_32"
        )
    return Annotation(union.name)


def _digits(decimal: DecimalType) -> DecimalType:
    if decimal.precision < 0 or decimal.scale < 0:
        raise RejectionError(Cause.NEGATIVE, "a precision and a scale of 0 or more", tuple(decimal))
    return decimal


def physical_of(number: int, length: int | None) -> tuple[PhysicalType, int]:
    """Return the physical type of a leaf, and the length of its values if it is fixed; raises RejectionError."""
    try:
        physical_type = PhysicalType(number)
    except ValueError:
        raise RejectionError(Cause.SCHEMA, "a type from 0 to 7", number, step="type") from None
    if physical_type is not PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return physical_type, 0
    if length is None:
        raise RejectionError(Cause.SCHEMA, "a type_length for values of fixed length", "none")
    if length < 0:
        raise RejectionError(Cause.NEGATIVE, "a length of 0 or more", length, step="type_length")
    return physical_type, length


def check_converted(converted: Annotation | None, physical_type: PhysicalType, fixed_byte_len: int) -> None:
    """Reject a converted type that is illegal for the physical type; raises RejectionError."""
    if converted is None:
        return
    if converted.decimal is not None:
        _check_decimal(converted.decimal, physical_type, fixed_byte_len)
    elif converted.name == "INTERVAL":
        _expect(fixed_byte_len == 12, converted.name, physical_type)
    else:
        _expect(converted.name in _CONVERTED_OF.get(physical_type, ()), converted.name, physical_type)


def check_logical(logical: Annotation | None, physical_type: PhysicalType, fixed_byte_len: int) -> None:
    """Reject a logical type that is illegal for the physical type; raises RejectionError."""
    if logical is None:
        return
    if logical.decimal is not None:
        _check_decimal(logical.decimal, physical_type, fixed_byte_len)
    elif logical.name == "UUID":
        _expect(fixed_byte_len == 16, logical.name, physical_type)
    elif logical.name == "TIME":
        wanted = PhysicalType.INT32 if logical.unit == "MILLIS" else PhysicalType.INT64
        _expect(physical_type is wanted, f"TIME in {logical.unit}", physical_type)
    elif logical.integer is not None:
        wanted = PhysicalType.INT64 if logical.integer.endswith("64") else PhysicalType.INT32
        _expect(physical_type is wanted, logical.integer, physical_type)
    else:
        _expect(logical.name in _LOGICAL_OF.get(physical_type, ()), logical.name, physical_type)


def _expect(is_legal: bool, annotation: str, physical_type: PhysicalType) -> None:
    if not is_legal:
        raise RejectionError(Cause.SCHEMA, f"a type that {annotation} can annotate", physical_type.name, step="type")


def _check_decimal(decimal: DecimalType, physical_type: PhysicalType, fixed_byte_len: int) -> None:
    if decimal.precision < 1 or decimal.scale > decimal.precision:
        raise RejectionError(Cause.SCHEMA, "a precision of 1 or more, and no greater scale", tuple(decimal))
    if physical_type is PhysicalType.BYTE_ARRAY:
        return
    if physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
        digits_max = _digits_in(fixed_byte_len)
    else:
        _expect(physical_type in DIGITS_MAX, "DECIMAL", physical_type)
        digits_max = DIGITS_MAX[physical_type]
    if decimal.precision > digits_max:
        raise RejectionError(Cause.SCHEMA, f"a precision of at most {digits_max:.0f}", decimal.precision)


def _digits_in(length: int) -> float:
    """Return how many digits fit into `length` bytes, in double arithmetic like the converter's."""
    bits = 8 * length - 1
    if bits > DOUBLE_MAX_BITS:
        return math.inf
    return math.floor(math.log10(2.0**bits - 1)) if length else 0
