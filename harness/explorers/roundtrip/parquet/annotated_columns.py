"""Whether a migration takes columns with an annotation that their physical type may have, and rejects all others.

Which may have which is told a second time here, by
[LogicalTypes.md](https://github.com/apache/parquet-format/blob/master/LogicalTypes.md) of Parquet.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.model_based.other_footers import with_elements, with_footer
from tornproof.harness.explorers.roundtrip.forms import parquet_of
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import migrated
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import DECIMAL_TAGS
from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.thrift import Field, Kind, Struct, with_fields
from tornproof.impl.types.questdb import decimal_type

PROPERTY = "a migration takes a column if its annotation is legal for its type"
FILE = "annotated.parquet"
SCHEMA, CONVERTED, SCALE, PRECISION, LOGICAL = 2, 6, 7, 8, 10
"""Field ids of parquet.thrift: of the footer, and of an element of its schema."""
DECIMAL, LOGICAL_DECIMAL, TIME, TIMESTAMP, INTEGER = 5, 5, 7, 8, 10
FIXED_BYTES = (2, 5, 12, 16, 33)
TYPES: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
    **{f"FIXED({size})": pa.binary(size) for size in FIXED_BYTES},
}
TEXTS = {"BYTE_ARRAY"}
CONVERTED_OF: Mapping[str, tuple[int, set[str]]] = {
    "UTF8": (0, TEXTS),
    "ENUM": (4, TEXTS),
    "DATE": (6, {"INT32"}),
    "TIME_MILLIS": (7, {"INT32"}),
    "TIME_MICROS": (8, {"INT64"}),
    "TIMESTAMP_MILLIS": (9, {"INT64"}),
    "TIMESTAMP_MICROS": (10, {"INT64"}),
    **{f"{sign}_{8 << n}": (at + n, {"INT32"}) for sign, at in (("UINT", 11), ("INT", 15)) for n in range(3)},
    **{f"{sign}_64": (at, {"INT64"}) for sign, at in (("UINT", 14), ("INT", 18))},
    "JSON": (19, TEXTS),
    "BSON": (20, TEXTS),
    "INTERVAL": (21, {"FIXED(12)"}),
}
LOGICAL_OF: Mapping[str, tuple[int, set[str]]] = {
    "STRING": (1, TEXTS),
    "ENUM": (4, TEXTS),
    "DATE": (6, {"INT32"}),
    "JSON": (12, TEXTS),
    "BSON": (13, TEXTS),
    "UNKNOWN": (11, {"INT32"}),
    "UUID": (14, {"FIXED(16)"}),
    # The server's converter does not know it.
    "FLOAT16": (15, {*TYPES}),
}
DECIMAL_OF = re.compile(r"DECIMAL\((\d+), (\d+)\)")
BYTE, SHORT, DATE, VARCHAR, UUID = 2, 3, 7, 26, 19
COLUMN_TYPES: Mapping[str | tuple[str, str], int] = {
    **{"BOOLEAN": 1, "INT32": 5, "INT64": 6, "FLOAT": 9, "DOUBLE": 10, "BYTE_ARRAY": 18, "FIXED(16)": 24},
    **{("INT_8", "INT32"): BYTE, ("logical INT of 8 bits", "INT32"): BYTE},
    **{("INT_16", "INT32"): SHORT, ("logical INT of 16 bits", "INT32"): SHORT},
    **{("DATE", "INT32"): DATE, ("logical DATE", "INT32"): DATE},
    **{("logical TIMESTAMP in MILLIS", "INT64"): DATE, ("logical TIMESTAMP in MICROS", "INT64"): 8},
    ("logical TIMESTAMP in NANOS", "INT64"): 8 | 1 << 18,
    **{("UTF8", "BYTE_ARRAY"): VARCHAR, ("logical STRING", "BYTE_ARRAY"): VARCHAR},
    ("logical UUID", "FIXED(16)"): UUID,
}
"""The types of columns by their annotation and physical type, and by the latter alone."""
UNITS = ("MILLIS", "MICROS", "NANOS")
DIGITS = (-1, 0, 1, 4, 5, 9, 10, 11, 12, 18, 19, 28, 29, 38, 39, 78, 79)


@dataclass(frozen=True, slots=True)
class Annotated:
    """A column of a physical type with fields that annotate it, and whether they may."""

    annotation: str
    type: str
    fields: tuple[Field, ...]
    is_legal: bool

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.annotation} of {self.type}"


@functools.cache
def annotated_columns() -> tuple[Annotated, ...]:
    """Return each type with each annotation."""
    annotations = (*_converted(), *_logical(), *_decimals())
    return tuple(
        Annotated(name, of, fields, of in legal) for (name, fields, legal), of in itertools.product(annotations, TYPES)
    )


def problem_of(each: Annotated) -> str | None:
    """Say whether it is taken or rejected and should not be; None if it is as it should be."""
    content = with_footer(_file(each.type), lambda footer: annotated(footer, each.fields))
    try:
        metadata = migrated(content)
    except ProblemError as error:
        return f"it is rejected: {error}" if each.is_legal else None
    if not each.is_legal:
        return "it is taken"
    (column,), expected = metadata.header.columns, _type_of(each.annotation, each.type)
    return None if column.type == expected else f"it becomes a column of the type {column.type}, and not {expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a migration that takes everything, and of one that takes no texts."""
    controls: Controls = (
        ("every annotation is taken", "tornproof.impl.migrate.schema:check_converted", lambda *_: None),
        ("every logical type is taken", "tornproof.impl.migrate.schema:check_logical", lambda *_: None),
        ("no text is taken", "tornproof.impl.migrate.annotations:_CONVERTED_OF", {}, "it is rejected"),
        (
            "decimals have no scale",
            "tornproof.impl.migrate.inference:decimal_type",
            lambda precision, _: decimal_type(precision, 0),
            "it becomes a column of the type",
        ),
    )
    return not_noticed(controls, problem_of, annotated_columns())


def _type_of(annotation: str, of: str) -> int:
    """Return the type of a column with an annotation, by default that of its physical type; -1 if there is none."""
    decimal = DECIMAL_OF.search(annotation)
    if decimal is not None:
        digits, scale = int(decimal[1]), int(decimal[2])
        tag = next((tag for tag, most in DECIMAL_TAGS.items() if digits <= most), None)
        return -1 if tag is None else tag | digits << 8 | scale << 18
    return COLUMN_TYPES.get((annotation, of), COLUMN_TYPES.get(of, -1))


def _converted() -> Iterator[tuple[str, tuple[Field, ...], set[str]]]:
    for name, (number, legal) in CONVERTED_OF.items():
        yield name, (Field(CONVERTED, Kind.I32, number),), legal


def _logical() -> Iterator[tuple[str, tuple[Field, ...], set[str]]]:
    for name, (member, legal) in LOGICAL_OF.items():
        yield f"logical {name}", _union(member), legal
    for number, unit in enumerate(UNITS, 1):
        parts = (Field(1, Kind.BOOL, True), Field(2, Kind.STRUCT, Struct((Field(number, Kind.STRUCT, Struct(())),))))
        yield f"logical TIME in {unit}", _union(TIME, *parts), {"INT32" if unit == "MILLIS" else "INT64"}
        yield f"logical TIMESTAMP in {unit}", _union(TIMESTAMP, *parts), {"INT64"}
    for bits, is_signed in itertools.product((8, 16, 32, 64), (True, False)):
        parts = (Field(1, Kind.BYTE, bits), Field(2, Kind.BOOL, is_signed))
        words = f"logical {'' if is_signed else 'U'}INT of {bits} bits"
        yield words, _union(INTEGER, *parts), {"INT64" if bits == 64 else "INT32"}


def _decimals() -> Iterator[tuple[str, tuple[Field, ...], set[str]]]:
    digits_max: dict[str, float] = {"INT32": 9, "INT64": 18, "BYTE_ARRAY": float("inf")}
    # As many digits as all numbers of so many bytes have that fit with a sign.
    digits_max |= {f"FIXED({size})": len(str((1 << 8 * size - 1) - 1)) - 1 for size in FIXED_BYTES}
    for precision, scale in itertools.product(DIGITS, (0, 1, 4)):
        is_legal = precision >= 1 and scale <= precision
        legal = {of for of, digits in digits_max.items() if is_legal and precision <= digits}
        numbers = Field(1, Kind.I32, scale), Field(2, Kind.I32, precision)
        old = Field(CONVERTED, Kind.I32, DECIMAL), Field(SCALE, Kind.I32, scale), Field(PRECISION, Kind.I32, precision)
        yield f"DECIMAL({precision}, {scale})", old, legal
        yield f"logical DECIMAL({precision}, {scale})", _union(LOGICAL_DECIMAL, *numbers), legal


def _union(member: int, *fields: Field) -> tuple[Field, ...]:
    return (Field(LOGICAL, Kind.STRUCT, Struct((Field(member, Kind.STRUCT, Struct(fields)),))),)


def annotated(footer: Struct, fields: tuple[Field, ...]) -> Struct:
    """Return a footer whose only column has these fields, too."""
    return with_elements(footer, SCHEMA, lambda elements: (elements[0], with_fields(elements[1], *fields)))


@functools.cache
def _file(of: str) -> bytes:
    return parquet_of(pa.table({"a": pa.nulls(2, TYPES[of])}))
