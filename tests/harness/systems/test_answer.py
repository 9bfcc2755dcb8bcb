"""Two answers are equal only when every bit is."""

import math
import uuid
from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb

from tornproof.harness.systems.answer import bits, read_answer
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag

DOUBLES = pa.list_(pa.field("element", pa.float64()))


@pytest.mark.parametrize(
    ("of", "left", "right"),
    [
        pytest.param(pa.float64(), 0.0, -0.0, id="double"),
        pytest.param(pa.float32(), 0.0, -0.0, id="float"),
        pytest.param(DOUBLES, [1.0, 0.0], [1.0, -0.0], id="list"),
        pytest.param(pa.list_(DOUBLES), [[0.0]], [[-0.0]], id="list of lists"),
    ],
)
def test_the_two_zeros_differ(of: pa.DataType, left: Any, right: Any) -> None:
    assert bits(pa.array([left], of)) != bits(pa.array([right], of))
    assert bits(pa.array([left], of)) == bits(pa.array([left], of))


@pytest.mark.parametrize(
    ("of", "value"),
    [
        pytest.param(pa.float64(), math.nan, id="double"),
        pytest.param(pa.float32(), math.nan, id="float"),
        pytest.param(DOUBLES, [math.nan], id="list"),
        pytest.param(pa.list_(DOUBLES), [[], [math.nan]], id="list of lists"),
        pytest.param(pa.uuid(), uuid.UUID(int=7).bytes, id="uuid"),
        pytest.param(pa.string(), "ä", id="string"),
    ],
)
def test_every_value_equals_itself(of: pa.DataType, value: Any) -> None:
    left, right = (bits(pa.array([value, None], of)) for _ in range(2))
    assert left.equals(right)
    assert (left.null_count, len(left)) == (1, 2)


def test_a_slice_keeps_its_own_values() -> None:
    values = pa.array([[1.0], [2.0, math.nan], None], DOUBLES)
    assert bits(values.slice(1)) == bits(pa.array([[2.0, math.nan], None], DOUBLES))


def test_answers_hold_version_names_and_rows() -> None:
    one, same, other = (
        read_answer(open_snapshot(open_table(tb.build({"d": (TypeTag.DOUBLE, values)}).image(), "/table")))
        for values in (pa.array([math.nan, 1.0]), pa.array([math.nan, 1.0]), pa.array([math.nan, 1.5]))
    )
    assert one == same != other
    assert (one.version, one.names, one.rows.num_rows) == (tb.VERSION, (tb.DIRECTORY,), 2)


def test_an_answer_without_rows_has_columns() -> None:
    table = tb.build({"d": (TypeTag.DOUBLE, pa.array([1.0]))})
    empty = table.with_file("_txn", tb.txn(rows=0, token=0, entries=[]))
    answer = read_answer(open_snapshot(open_table(empty.image(), "/table")))
    assert (answer.names, answer.rows.column_names, answer.rows.num_rows) == ((), ["ts", "d"], 0)
