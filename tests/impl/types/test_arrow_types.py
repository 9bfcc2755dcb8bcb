"""Arrow types of QuestDB's columns are those of the servers' own exports."""

import json
from pathlib import Path
from typing import Any

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from type_values import array_type, decimal_type

from tornproof.impl.pm.chain import decode_metadata, walk
from tornproof.impl.pm.header import Column
from tornproof.impl.types.arrow import arrow_type, is_nullable, missing_value
from tornproof.impl.types.questdb import TypeTag

EXPORTED = [name for name in golden_data.TABLES if f"{name}/expected.parquet" in golden_data.files("tables/*/*/*")]
BYTE_ARRAY = 6


def columns_of(pm: Path) -> tuple[Column, ...]:
    data = pm.read_bytes()
    return decode_metadata(data, next(walk(data, file="_pm")), file="_pm").header.columns


def type_of(column_type: int, physical_type: int = BYTE_ARRAY, fixed_byte_len: int = 0) -> pa.DataType:
    return arrow_type(column_type, physical_type=physical_type, fixed_byte_len=fixed_byte_len)


@pytest.mark.parametrize("name", EXPORTED)
def test_types_and_nullability_are_those_of_the_export(questdb_data: Path, name: str) -> None:
    exported = pq.read_schema(questdb_data / name / "expected.parquet")
    partitions = list((questdb_data / name / "table").glob("*/_pm"))
    assert partitions
    for pm in partitions:
        for column in columns_of(pm):
            field = exported.field(column.name)
            found = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
            # Equality of list types passes over the names of inner fields; their text does not.
            assert (found, str(found)) == (field.type, str(field.type))
            assert is_nullable(column.type) is field.nullable


@pytest.mark.parametrize(
    ("column_type", "expected"),
    [
        (TypeTag.LONG128, pa.binary(16)),
        (TypeTag.TIMESTAMP, pa.timestamp("us", tz="UTC")),
        (TypeTag.TIMESTAMP | 1 << 18, pa.timestamp("ns", tz="UTC")),
        (0x4021C, pa.decimal128(2, 1)),
        (decimal_type(TypeTag.DECIMAL256, 39, 0), pa.decimal256(39, 0)),
    ],
)
def test_types_that_no_export_holds_follow_the_same_rules(column_type: int, expected: pa.DataType) -> None:
    assert type_of(column_type) == expected


def test_three_dimensions_are_lists_in_lists_in_lists() -> None:
    array_of_doubles = array_type(3)
    assert str(type_of(array_of_doubles)) == "list<list: list<list: list<element: double> not null> not null>"


@pytest.mark.parametrize(
    "column_type",
    [
        -1,
        99,
        TypeTag.ARRAY | TypeTag.LONG << 8,
        decimal_type(TypeTag.DECIMAL8, 3, 0),
        decimal_type(TypeTag.DECIMAL16, 0, 0),
        decimal_type(TypeTag.DECIMAL256, 77, 0),
        decimal_type(TypeTag.DECIMAL32, 9, 10),
    ],
)
def test_what_is_not_known_gets_the_plain_type_of_its_bytes(column_type: int) -> None:
    plain = [type_of(column_type, physical_type, 5) for physical_type in range(9)]
    assert plain == [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.timestamp("ns"),
        pa.float32(),
        pa.float64(),
        pa.binary(),
        pa.binary(5),
        pa.null(),
    ]


@pytest.mark.parametrize(
    ("tag", "value"), [(TypeTag.BOOLEAN, False), (TypeTag.BYTE, 0), (TypeTag.SHORT, 0), (TypeTag.CHAR, 0)]
)
def test_columns_without_nulls_have_a_value_for_rows_that_predate_them(tag: TypeTag, value: Any) -> None:
    scalar = missing_value(tag, physical_type=1)
    assert (scalar.as_py(), scalar.type) == (value, type_of(tag))


@pytest.mark.parametrize("tag", sorted(set(TypeTag) - {TypeTag.BOOLEAN, TypeTag.BYTE, TypeTag.SHORT, TypeTag.CHAR}))
def test_all_other_columns_are_null_in_rows_that_predate_them(tag: TypeTag) -> None:
    scalar = missing_value(tag, physical_type=BYTE_ARRAY)
    assert not scalar.is_valid
    assert scalar.type == type_of(tag)


def test_server_answers_the_same_where_a_partition_predates_a_column(questdb_data: Path) -> None:
    table = questdb_data / "tables/9.4.2/oddcols"
    expected = json.loads((table / "expected.json").read_text())
    names = [column["name"] for column in expected["columns"]]
    older, newer = (columns_of(table / "table" / name / "_pm") for name in ("2025-04-01.4", "2025-04-02.8"))
    (added,) = [column for column in newer if column.id not in {known.id for known in older}]
    rows = [row for row in expected["rows"] if row[names.index("ts")].startswith("2025-04-01")]
    missing = missing_value(added.type, physical_type=added.physical_type).as_py()
    assert [row[names.index(added.name)] for row in rows] == [missing] * 30
