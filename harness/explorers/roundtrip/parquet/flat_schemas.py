"""Whether footers of FlatBuffers say of columns what pyarrow reads from Thrift, at addresses that other readers accept.

Our own reader takes the Thrift footer from what is kept beside the tables, and reads numbers at any address.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import flatbuffers.table
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.model_based.other_footers import with_footer
from tornproof.harness.explorers.roundtrip.forms import opened, parquet_of
from tornproof.harness.explorers.roundtrip.parquet.annotated_columns import CONVERTED, CONVERTED_OF, annotated
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.parquet.thrift import Field, Kind, Struct

PROPERTY = "a footer of FlatBuffers says of columns what that of Thrift says, where readers of FlatBuffers look"
ZONES = {"": None, " of a zone": "UTC"}
TYPES: dict[str, pa.DataType] = {
    "truths": pa.bool_(),
    "bytes": pa.int8(),
    "unsigned shorts": pa.uint16(),
    "numbers": pa.int32(),
    "long numbers": pa.int64(),
    "unsigned long numbers": pa.uint64(),
    "reals": pa.float64(),
    "short reals": pa.float32(),
    "half reals": pa.float16(),
    "texts": pa.string(),
    "binaries": pa.binary(),
    "binaries of five bytes": pa.binary(5),
    "days": pa.date32(),
    "times of day": pa.time32("ms"),
    "fine times of day": pa.time64("ns"),
    **{
        f"times in {unit}{words}": pa.timestamp(unit, zone)
        for unit in ("ms", "us", "ns")
        for words, zone in ZONES.items()
    },
    "decimals": pa.decimal128(9, 2),
    "wide decimals": pa.decimal256(70, 20),
    "nulls": pa.null(),
    "identities": pa.uuid(),
}
OLDER = {"ms": "TIMESTAMP_MILLIS", "us": "TIMESTAMP_MICROS"}
"""The annotations that older writers add to times, also to those of no zone."""
PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
LOGICAL = (
    *("None", "String", "Map", "List", "Enum", "Decimal", "Date", "Time", "Timestamp", "Int"),
    *("Null", "JSON", "BSON", "UUID", "Float16", "Variant", "Geometry", "Geography"),
)
LOGICAL_TYPE, GEOMETRY, GEOGRAPHY = 10, 17, 18
"""The field of an element, and members of its union."""
ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
PLAIN = {"INT32": "numbers", "INT64": "long numbers", "BYTE_ARRAY": "binaries"}
"""Types without an annotation, by their physical type."""
UNITS = ("milliseconds", "microseconds", "nanoseconds")
FILE = "data.parquet"
ROW_COUNT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSchema:
    """A column of a type, which may be null or not, maybe with another annotation, and in an order that is stated.

    The order is by the column, descending or not, with nulls first or not.
    """

    of: str
    is_nullable: bool = True
    words: str = "no other annotation"
    annotation: tuple[Field, ...] = ()
    order: tuple[bool, bool] | None = None

    @property
    def name(self) -> str:
        """It in words."""
        order = "" if self.order is None else f", in the order {self.order}"
        return f"{self.of}, {'nullable' if self.is_nullable else 'required'}, {self.words}{order}"

    @property
    def kind(self) -> str:
        """The type."""
        return self.of

    def content(self) -> bytes:
        """Return a file that has the column, with nulls or without rows."""
        of = pa.schema([pa.field("a", TYPES[self.of], nullable=self.is_nullable)])
        rows = pa.table([pa.nulls(ROW_COUNT, of[0].type)], of) if self.is_nullable else of.empty_table()
        order = None if self.order is None else [pq.SortingColumn(0, *self.order)]
        return with_footer(parquet_of(rows, sorting_columns=order), lambda footer: annotated(footer, self.annotation))


@functools.cache
def flat_schemas() -> tuple[FlatSchema, ...]:
    """Return all columns, always in the same order."""
    return (
        *(
            FlatSchema(of=of, is_nullable=is_nullable)
            for of in TYPES
            for is_nullable in ((True,) if of == "nulls" else (True, False))
        ),
        *(
            FlatSchema(of=f"times in {unit}{zone}", words=f"{older} beside it", annotation=_converted(older))
            for unit, older in OLDER.items()
            for zone in ZONES
        ),
        *(
            FlatSchema(of=PLAIN[physical], words=f"{older} alone", annotation=_converted(older))
            for older, (_, legal) in CONVERTED_OF.items()
            for physical in sorted(legal & PLAIN.keys())
        ),
        *(FlatSchema(of="binaries", words=words, annotation=annotation) for words, annotation in _geospatial()),
        *(
            FlatSchema(of="numbers", order=(is_descending, has_nulls_first))
            for is_descending, has_nulls_first in itertools.product((False, True), repeat=2)
        ),
    )


def _converted(name: str) -> tuple[Field, ...]:
    return (Field(CONVERTED, Kind.I32, CONVERTED_OF[name][0]),)


def _geospatial() -> Iterator[tuple[str, tuple[Field, ...]]]:
    """Yield types of places, with and without a reference system and an algorithm of edges."""
    systems = ((), (Field(1, Kind.BINARY, b"OGC:CRS84"),))
    for system, algorithm in itertools.product(systems, (None, *range(len(ALGORITHMS)))):
        edges = () if algorithm is None else (Field(2, Kind.I32, algorithm),)
        fields = (Field(GEOGRAPHY, Kind.STRUCT, Struct((*system, *edges))),)
        yield f"edges {algorithm}, with {len(system)} systems", (Field(LOGICAL_TYPE, Kind.STRUCT, Struct(fields)),)
    for system in systems:
        fields = (Field(GEOMETRY, Kind.STRUCT, Struct(system)),)
        yield f"geometries with {len(system)} systems", (Field(LOGICAL_TYPE, Kind.STRUCT, Struct(fields)),)


def problem_of(case: FlatSchema) -> str | None:
    """Say what readers of FlatBuffers are told otherwise, or find elsewhere; None if nothing is."""
    content = case.content()
    flat = flatbuffer_of(opened(content).thrift(), file=FILE)
    widths = dict[int, int]()
    with patch.object(flatbuffers.table.Table, "Get", _noting(widths)):
        found = _told(schema.FileMetaData.GetRootAs(flat, 0))
        FlatFooter(flat, file=FILE).thrift()
        if case.is_nullable:
            FlatFooter(flat, file=FILE).chunk(0, 0)
    expected = _told_by_pyarrow(content)
    if found != expected:
        return f"{found} is said, and should be {expected}"
    crooked = [at for at, width in widths.items() if at % width]
    return f"a number of {widths[crooked[0]]} bytes is at byte {crooked[0]}" if crooked else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of footers without logical types, and of those whose numbers are crooked."""
    made = f"{__name__}:flatbuffer_of"
    controls: Controls = (
        (
            "no logical types",
            "tornproof.impl.extension.encode:logical_type",
            lambda *_: (0, 0),
            "is said, and should be",
        ),
        ("all is one byte further", made, partial(_crooked, original_of(made)), "bytes is at byte"),
    )
    return not_noticed(controls, problem_of, flat_schemas())


def _crooked(flat_of: Callable[..., bytes], thrift: Struct, *, file: str) -> bytes:
    flat = flat_of(thrift, file=file)
    # All positions are said from where they are said, but for that of the root.
    return (int.from_bytes(flat[:4], "little") + 1).to_bytes(4, "little") + b"\0" + flat[4:]


def _noting(widths: dict[int, int]) -> Callable[..., Any]:
    read = flatbuffers.table.Table.Get

    def noted(table: flatbuffers.table.Table, flags: Any, at: int) -> Any:
        widths[at] = max(widths.get(at, 1), flags.bytewidth)
        return read(table, flags, at)

    return noted


def _told(root: Any) -> dict[str, Any]:
    element = root.Schema(1)
    group = root.RowGroups(0) if root.RowGroupsLength() else None
    orders = [group.SortingColumns(each) for each in range(group.SortingColumnsLength())] if group else []
    logical = LOGICAL[element.LogicalTypeType()]
    options: dict[str, Any] = {}
    union = element.LogicalType()
    if logical in ("Time", "Timestamp"):
        found = _as(schema.TimeOptions, union)
        options = {"isAdjustedToUTC": bool(found.IsAdjustedToUtc()), "timeUnit": UNITS[found.Unit()]}
    elif logical == "Int":
        found = _as(schema.IntOptions, union)
        options = {"bitWidth": found.BitWidth(), "isSigned": bool(found.IsSigned())}
    elif logical == "Decimal":
        found = _as(schema.DecimalOptions, union)
        options = {"precision": found.Precision(), "scale": found.Scale()}
    elif logical in ("Geometry", "Geography"):
        found = _as(schema.GeometryType if logical == "Geometry" else schema.GeographyType, union)
        options = {"crs": found.Crs().decode()} if found.Crs() else {}
        if logical == "Geography" and found.Algorithm():
            options["algorithm"] = ALGORITHMS[found.Algorithm()]
    return {
        "orders": [(each.ColumnIdx(), bool(each.Descending()), bool(each.NullsFirst())) for each in orders],
        "name": element.Name(),
        "type": None if element.Type() is None else PHYSICAL[element.Type()],
        "length": element.TypeLength() or 0,
        "is_nullable": None if element.RepetitionType() is None else element.RepetitionType() == 1,
        "logical": {"Type": logical, **options},
    }


def _as(of: Any, union: Any) -> Any:
    found = of()
    found.Init(union.Bytes, union.Pos)
    return found


def _told_by_pyarrow(content: bytes) -> dict[str, Any]:
    file = pq.ParquetFile(io.BytesIO(content))
    column = file.schema.column(0)
    logical = json.loads(column.logical_type.to_json())
    orders = file.metadata.row_group(0).sorting_columns if file.metadata.num_row_groups else ()
    return {
        "orders": [(each.column_index, each.descending, each.nulls_first) for each in orders],
        "name": b"a",
        "type": column.physical_type,
        "length": column.length,
        "is_nullable": column.max_definition_level == 1,
        "logical": {name: value for name, value in logical.items() if "converted_type" not in name},
    }
