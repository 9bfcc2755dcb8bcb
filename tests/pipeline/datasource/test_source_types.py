"""Types: each value of a table reaches Spark's type as it is, and comes back as it was."""

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.datasource.types import (
    ValueRejectedError,
    from_spark,
    spark_arrow_schema,
    spark_schema,
    to_spark,
)

DAY = datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC)
SOME_UUID = uuid.UUID("11111111-2222-3333-4444-555555555555")
CASES: list[tuple[pa.DataType, Any, str, Any]] = [
    (pa.bool_(), True, "boolean", True),
    (pa.int8(), -128, "tinyint", -128),
    (pa.int16(), -5, "smallint", -5),
    (pa.uint16(), 65_535, "int", 65_535),
    (pa.int32(), -5, "int", -5),
    (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
    (pa.int64(), 2**63 - 1, "bigint", 2**63 - 1),
    (pa.float32(), 0.5, "float", 0.5),
    (pa.float64(), 0.1, "double", 0.1),
    (pa.string(), "größe", "string", "größe"),
    (pa.binary(), b"\0\xff", "binary", b"\0\xff"),
    (pa.binary(32), bytes(range(32)), "binary", bytes(range(32))),
    (pa.uuid(), SOME_UUID.bytes, "string", str(SOME_UUID)),
    (pa.timestamp("us", tz="UTC"), DAY, "timestamp", DAY),
    (pa.timestamp("ms", tz="UTC"), DAY, "timestamp", DAY),
    (pa.timestamp("ns", tz="UTC"), 1_706_659_200_000_000_001, "bigint", 1_706_659_200_000_000_001),
    (pa.decimal128(38, 4), Decimal("-12.3456"), "decimal(38,4)", Decimal("-12.3456")),
    (pa.decimal256(20, 2), Decimal("1.25"), "decimal(20,2)", Decimal("1.25")),
    (pa.decimal256(76, 2), Decimal(10**70), "string", f"{10**70}.00"),
    (list_type(1), [1.5, None], "array<double>", [1.5, None]),
    (list_type(3), [[[1.5], [2.5]]], "array<array<array<double>>>", [[[1.5], [2.5]]]),
]


def batch_of(of: pa.DataType, *values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, of)], ["x"])


@pytest.mark.parametrize(("of", "value", "name", "expected"), CASES, ids=[str(case[0]) for case in CASES])
def test_value_and_null_have_the_type_that_spark_expects_and_come_back(
    of: pa.DataType, value: object, name: str, expected: object
) -> None:
    rows = batch_of(of, value, None)
    seen = to_spark(rows, spark_arrow_schema(rows.schema))
    schema = spark_schema(rows.schema)
    assert schema.simpleString() == f"struct<x:{name}>"
    assert to_arrow_schema(schema, timezone="UTC").equals(seen.schema)
    assert seen.column(0).to_pylist() == [expected, None]
    assert from_spark(seen, rows.schema).equals(rows)


def test_texts_for_a_char_an_address_and_a_geohash_are_not_parsed_as_numbers() -> None:
    types = {"c": TypeTag.CHAR, "i": TypeTag.IPV4, "g": type_code("GEOHASH(2c)") or 0, "s": TypeTag.SHORT}
    columns = [SnapshotColumn(id=1, name=name, type=of, physical_type=-1) for name, of in types.items()]
    target = pa.schema([(column.name, column.arrow_type) for column in columns])
    texts = pa.record_batch({"c": ["7"], "i": ["10.0.0.1"], "g": ["12"], "s": ["12"]})
    found = from_spark(texts, target, columns)
    assert found.to_pylist() == [{"c": 55, "i": 0x0A000001, "g": 34, "s": 12}]
    # What is read can be written again.
    assert from_spark(to_spark(found, spark_arrow_schema(target)), target, columns).equals(found)
    with pytest.raises(ValueRejectedError, match="column 'g', row 0: expected a geohash of 10 bits"):
        from_spark(pa.record_batch({"g": ["123"]}), target, columns)


def test_uuids_of_a_slice_are_those_of_the_slice() -> None:
    rows = batch_of(pa.uuid(), None, SOME_UUID.bytes, bytes(16)).slice(1)
    seen = to_spark(rows, spark_arrow_schema(rows.schema))
    assert seen.column(0).to_pylist() == [str(SOME_UUID), str(uuid.UUID(int=0))]


def test_date_beyond_microseconds_is_rejected_by_name() -> None:
    rows = batch_of(pa.timestamp("ms", tz="UTC"), 2**62)
    with pytest.raises(ValueRejectedError, match="column 'x'"):
        to_spark(rows, spark_arrow_schema(rows.schema))


@pytest.mark.parametrize(
    ("given", "of"),
    [
        (pa.array(["11111111-2222"]), pa.uuid()),
        (pa.array(["no uuid at all"]), pa.uuid()),
        (pa.array(["1-1-1-1-1-1-1-1-222233334444555555555555"]), pa.uuid()),
        (pa.array(["11 11 11 11 22 22 33 33 44 44 55 55 55 55 55 55"]), pa.uuid()),
        (pa.array([f"{SOME_UUID}\n"]), pa.uuid()),
        (pa.array(["0xFF"]), pa.int8()),
        (pa.array([70_000], pa.int32()), pa.uint16()),
        (pa.array(["70"]), pa.uint16()),
        (pa.array(["7"]), pa.uint32()),
        (pa.array(["a" * 32]), pa.binary(32)),
        (pa.array([-1], pa.int64()), pa.uint32()),
        (pa.array([b"abc"]), pa.binary(32)),
        (pa.array([1], pa.timestamp("us", tz="UTC")), pa.timestamp("ms", tz="UTC")),
        (pa.array(["12,5"]), pa.decimal256(76, 2)),
        # Arrow's cast changes these without a word, and they were written so.
        (pa.array([1e300]), pa.float32()),
        (pa.array(["1e300"]), pa.float32()),
        (pa.array([1.239]), pa.decimal256(10, 2)),
        (pa.array([2], pa.int32()), pa.bool_()),
        (pa.array([0.5]), pa.bool_()),
    ],
    ids=str,
)
def test_value_that_the_table_cannot_hold_is_rejected_by_name(given: pa.Array, of: pa.DataType) -> None:
    with pytest.raises(ValueRejectedError, match="column 'x'"):
        from_spark(pa.RecordBatch.from_arrays([given], ["x"]), pa.schema([pa.field("x", of)]))
