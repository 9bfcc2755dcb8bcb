"""Spark's filters as predicates: true of exactly the rows that Spark finds them true of, or left to Spark."""

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from type_values import NANOSECONDS, decimal_type

from tornproof.impl.query.predicate import columns_of, matching
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag
from tornproof.pipeline.datasource.filters import predicate_of

X = ("x",)
NAN = math.nan
ONE = uuid.UUID(int=1)
NOON = datetime.datetime(1970, 1, 1, 12, tzinfo=datetime.UTC)
NOON_MICROSECONDS = 12 * 3_600_000_000
LONG256 = [bytes([0, 1, *[0] * 30]), bytes([1, *[0] * 31])]


def column_of(of: int) -> SnapshotColumn:
    return SnapshotColumn(id=0, name="x", type=of, physical_type=PhysicalType.BYTE_ARRAY)


def kept(of: int, values: list[Any], *filters: Filter) -> list[Any]:
    """Return the values that are left of a column, as it is stored."""
    column = column_of(of)
    predicate = predicate_of(filters, {"x": column})
    assert predicate is not None
    (asked,) = columns_of(predicate)
    mask = matching(predicate, {asked.id: pa.array(values, column.arrow_type)})
    return [value for value, is_kept in zip(values, mask.to_pylist(), strict=True) if is_kept]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (EqualTo(X, 2), [2]),
        (Not(EqualTo(X, 2)), [1, 3]),
        (LessThan(X, 2), [1]),
        (LessThanOrEqual(X, 2), [1, 2]),
        (GreaterThan(X, 2), [3]),
        (GreaterThanOrEqual(X, 2), [2, 3]),
        (In(X, (1, 3, 5)), [1, 3]),
        (Not(In(X, (1, 3))), [2]),
        (IsNull(X), [None]),
        (IsNotNull(X), [1, 2, 3]),
        (EqualNullSafe(X, 2), [2]),
        (EqualNullSafe(X, None), [None]),
        (Not(EqualNullSafe(X, 2)), [1, None, 3]),
    ],
    ids=str,
)
def test_filter_keeps_the_rows_that_sql_keeps(given: Filter, expected: list[Any]) -> None:
    assert kept(TypeTag.LONG, [1, 2, None, 3], given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (GreaterThan(X, 1.0), [2.0, "NaN"]),
        (GreaterThanOrEqual(X, 2.0), [2.0, "NaN"]),
        (LessThan(X, 2.0), [1.0]),
        (LessThanOrEqual(X, 2.0), [1.0, 2.0]),
        (EqualTo(X, 2.0), [2.0]),
        (Not(EqualTo(X, 2.0)), [1.0, "NaN"]),
        (GreaterThan(X, math.inf), ["NaN"]),
    ],
    ids=str,
)
def test_nan_lies_above_all_numbers_as_it_does_in_spark(given: Filter, expected: list[Any]) -> None:
    found = kept(TypeTag.DOUBLE, [1.0, 2.0, NAN, None], given)
    assert ["NaN" if value != value else value for value in found] == expected


def test_decimals_that_pyspark_rounds_are_left_to_spark() -> None:
    """A row with 38 digits was not found by its own value, of which 28 digits arrive."""
    of = decimal_type(TypeTag.DECIMAL128, 38, 10)
    value = Decimal("1234567890123456789012345678.9012345678")
    rounded = Decimal(12345678901234567890123456789012345678) * Decimal(10) ** -10
    assert rounded != value
    for given in (EqualTo(X, rounded), LessThan(X, rounded), In(X, (Decimal(1), rounded))):
        assert predicate_of([given], {"x": column_of(of)}) is None
    exact = Decimal("12345678901234567.8901234567")
    assert kept(of, [exact, value], LessThanOrEqual(X, exact)) == [exact]


def test_filters_are_all_demanded() -> None:
    assert kept(TypeTag.LONG, [1, 2, 3], GreaterThan(X, 1), LessThan(X, 3)) == [2]


@pytest.mark.parametrize(
    ("of", "values", "given", "expected"),
    [
        (TypeTag.BOOLEAN, [True, False], EqualTo(X, True), [True]),
        (TypeTag.CHAR, [65, 66], EqualTo(X, 66), [66]),
        (TypeTag.VARCHAR, ["a", "ab", "b", None], StringStartsWith(X, "a"), ["a", "ab"]),
        (TypeTag.VARCHAR, ["größe", "gz"], GreaterThan(X, "größe"), ["gz"]),
        (TypeTag.SYMBOL, ["a", "b"], In(X, ("b", "c")), ["b"]),
        (TypeTag.UUID, [bytes(16), ONE.bytes], EqualTo(X, str(ONE)), [ONE.bytes]),
        (TypeTag.UUID, [bytes(16), ONE.bytes], LessThan(X, str(ONE)), [bytes(16)]),
        (TypeTag.LONG256, LONG256, EqualTo(X, LONG256[0]), [LONG256[0]]),
        (TypeTag.BINARY, [b"a", b"b"], LessThan(X, bytearray(b"b")), [b"a"]),
        (TypeTag.TIMESTAMP, [0, NOON_MICROSECONDS], GreaterThanOrEqual(X, NOON), [NOON_MICROSECONDS]),
        (TypeTag.DATE, [0, 1], LessThan(X, NOON), [0, 1]),
        (TypeTag.DATE, [0, 1], GreaterThan(X, datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)), [1]),
        (NANOSECONDS, [5, 6], GreaterThan(X, 5), [6]),
        (
            decimal_type(TypeTag.DECIMAL64, 10, 2),
            [Decimal("1.20"), Decimal("1.21")],
            LessThan(X, Decimal("1.21")),
            [Decimal("1.20")],
        ),
    ],
    ids=str,
)
def test_literal_of_sparks_type_is_the_columns_value(
    of: int, values: list[Any], given: Filter, expected: list[Any]
) -> None:
    assert kept(of, values, given) == expected


@pytest.mark.parametrize(
    ("of", "given"),
    [
        (TypeTag.DOUBLE, EqualTo(X, NAN)),
        (TypeTag.DOUBLE, In(X, (1.0, NAN))),
        (TypeTag.FLOAT, GreaterThan(X, 0.1)),
        (TypeTag.LONG256, LessThan(X, LONG256[0])),
        (TypeTag.UUID, EqualTo(X, "no uuid")),
        (TypeTag.UUID, EqualTo(X, str(uuid.UUID(int=255)).upper())),
        (TypeTag.UUID, StringStartsWith(X, "0")),
        (TypeTag.LONG128, EqualTo(X, b"too short")),
        (TypeTag.VARCHAR, StringContains(X, "a")),
        (TypeTag.VARCHAR, StringStartsWith(X, "")),
        (TypeTag.VARCHAR, EqualTo(X, "\ud800")),
        (TypeTag.LONG, In(X, (1, None))),
        (TypeTag.LONG, EqualTo(X, None)),
        (TypeTag.LONG, EqualTo(("y",), 1)),
        (TypeTag.LONG, EqualTo(("x", "y"), 1)),
        (TypeTag.TIMESTAMP, EqualTo(X, datetime.datetime(1970, 1, 1))),
        (decimal_type(TypeTag.DECIMAL256, 76, 2), EqualTo(X, "1.00")),
        (TypeTag.LONG, Not(StringContains(X, "a"))),
    ],
    ids=str,
)
def test_what_cannot_be_said_exactly_is_left_to_spark(of: int, given: Filter) -> None:
    assert predicate_of([given], {"x": column_of(of)}) is None
