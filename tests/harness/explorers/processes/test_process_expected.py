"""Expected versions of a run: rows, versions and digests that do not depend on the implementation."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tornproof.harness.explorers.processes.expected import (
    ROW_COUNT_MAX,
    Change,
    ExpectedVersion,
    Form,
    Operation,
    Target,
    digest_of_rows,
    digest_of_table,
    new_rows,
    plan_operation,
)
from tornproof.harness.explorers.processes.start import NEW_COLUMNS, prepare_table, rows_by_partition
from tornproof.harness.explorers.processes.writer import expected_at, operation_of
from tornproof.impl.types.questdb import TypeTag

HOUR = 3_600_000_000


def form(*, is_kept: bool = False, targets: int = 3) -> Form:
    return Form(
        schema=pa.schema(
            [
                pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
                pa.field("number", pa.int64()),
                pa.field("half", pa.float64()),
                pa.field("words", pa.string()),
                pa.field("id", pa.uuid()),
                pa.field("symbol", pa.string()),
            ]
        ),
        types=(TypeTag.TIMESTAMP, TypeTag.LONG, TypeTag.DOUBLE, TypeTag.VARCHAR, TypeTag.UUID, TypeTag.SYMBOL),
        timestamp="time",
        number="number",
        targets=tuple(Target(start=index * HOUR, length=HOUR, is_kept=is_kept) for index in range(targets)),
    )


EMPTY = ExpectedVersion(version=7, contents={})
TWO_ROWS = Operation(attempt=5, rows=((1, 2),))


def times_of(rows: pa.Table) -> list[int]:
    return [int(value) for value in rows["time"].cast(pa.int64()).to_pylist()]


def test_rows_follow_from_their_attempt() -> None:
    (rows,) = new_rows(EMPTY, TWO_ROWS, form()).values()
    first = 5 * ROW_COUNT_MAX
    assert rows.schema == form().schema
    assert rows["number"].to_pylist() == [first, first + 1]
    for name in ("half", "words", "id"):
        assert rows[name].null_count == 0 and len({*rows[name].to_pylist()}) == 2
    assert rows["symbol"].null_count == 2
    assert all(HOUR + HOUR // 2 <= time < 2 * HOUR for time in times_of(rows))


def test_rows_of_the_table_that_is_made_have_other_values_in_each_column(tmp_path: Path) -> None:
    start = prepare_table(None, "table", tmp_path)
    (rows,) = new_rows(start.expected, Operation(attempt=1, rows=((0, 9),)), start.form).values()
    assert [len({*column.to_pylist()}) for column in rows.columns] == [9] * len(NEW_COLUMNS)


def test_ordered_rows_are_newer_than_all_earlier_ones_and_others_are_between() -> None:
    expected = EMPTY
    for attempt in range(20):
        expected = expected.after(Operation(attempt=attempt, rows=((0, 30),), is_ordered=attempt % 2 == 0), form())
    rows = expected.contents[0].rows
    assert rows is not None and rows.num_rows == 600
    times = times_of(rows)
    assert times == sorted(set(times)) and times[0] >= 0 and times[-1] < HOUR
    (ordered,) = new_rows(expected, Operation(attempt=20, rows=((0, 30),)), form()).values()
    (others,) = new_rows(expected, Operation(attempt=20, rows=((0, 30),), is_ordered=False), form()).values()
    assert min(times_of(ordered)) > times[-1]
    assert times[0] < sorted(times_of(others))[15] < times[-1]


def test_no_row_has_the_time_of_another_one() -> None:
    expected = EMPTY.after(TWO_ROWS, form())
    (rows,) = new_rows(expected, TWO_ROWS, form()).values()
    assert rows.num_rows == 0
    (again,) = new_rows(expected, replace(TWO_ROWS, drops=(1,)), form()).values()
    assert again.num_rows == 2


def test_a_version_differs_from_every_other_attempt_at_it() -> None:
    versions = [
        EMPTY.after(TWO_ROWS, form()),
        EMPTY.after(replace(TWO_ROWS, attempt=6), form()),
        EMPTY.after(replace(TWO_ROWS, rows=((2, 2),)), form()),
        EMPTY.after(replace(TWO_ROWS, rows=((1, 3),)), form()),
    ]
    assert len({each.digest for each in versions}) == 4
    assert {each.version for each in versions} == {8}


def test_a_rewrite_changes_no_content_and_a_drop_removes_it() -> None:
    expected = EMPTY.after(Operation(attempt=1, rows=((0, 3), (1, 2))), form())
    rewritten = expected.after(Operation(attempt=2, rewrites=(0,)), form())
    dropped = expected.after(Operation(attempt=2, drops=(0,)), form())
    assert rewritten.digest == expected.digest != dropped.digest
    assert sorted(dropped.contents) == [HOUR]


def test_a_digest_depends_on_every_value_and_its_position_but_not_on_chunks() -> None:
    rows = pa.table({"a": [1, 2, None, 0], "b": ["x", None, "", "y"], "c": [1.5, None, 0.0, 2.0]})
    chunked = pa.concat_tables([rows.slice(0, 1), rows.slice(1, 3)])
    others = [
        rows.take([1, 0, 2, 3]),
        rows.slice(0, 3),
        rows.set_column(0, "a", [[1, 2, 0, 0]]),
        rows.set_column(1, "b", [["x", "", "", "y"]]),
        rows.set_column(2, "c", [[1.5, None, 0.0, 2.5]]),
    ]
    assert digest_of_rows(chunked) == digest_of_rows(rows)
    assert len({digest_of_rows(table) for table in (rows, *others)}) == 6


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None]),
        pa.array([[1.0, None], [], None]),
        pa.array([b"ab", b"", None], pa.binary()),
        pa.array([1, 2, None], pa.timestamp("ns", tz="UTC")),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16, None], pa.binary(16))),
    ],
    ids=lambda values: str(values.type),
)
def test_a_digest_depends_on_values_of_every_type(values: pa.Array) -> None:
    digests = {digest_of_rows(pa.table({"a": values.take(order)})) for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1])}
    assert len(digests) == 3


def test_a_digest_of_a_version_depends_on_the_starts_and_the_order_of_partitions() -> None:
    parts = [(0, b"a"), (1, b"b")]
    digests = {digest_of_table(each) for each in (parts, parts[::-1], parts[:1], [(0, b"a"), (2, b"b")])}
    assert len(digests) == 4


def test_a_plan_uses_every_kind_of_change_and_only_what_is_there() -> None:
    expected, seen = EMPTY, set()
    for attempt in range(600):
        operation = plan_operation(expected, form(), seed=3, attempt=attempt)
        assert operation == plan_operation(expected, form(), seed=3, attempt=attempt)
        present = {index for index, target in enumerate(form().targets) if target.start in expected.contents}
        assert present.issuperset(operation.drops) and (present - set(operation.drops)).issuperset(operation.rewrites)
        assert operation.rows or operation.drops or operation.rewrites
        kinds = (len(operation.rows), bool(operation.rewrites), bool(operation.drops), operation.is_ordered)
        seen.add(kinds)
        expected = expected.after(operation, form())
        assert all(
            content.rows is not None and content.rows.num_rows <= 1_100 for content in expected.contents.values()
        )
    for number, values in enumerate(({0, 1, 2, 3}, {False, True}, {False, True}, {False, True})):
        assert {kinds[number] for kinds in seen} == values


def test_a_plan_is_the_change_that_is_asked_for_where_there_are_partitions() -> None:
    filled = EMPTY.after(Operation(attempt=0, rows=((0, 3), (2, 3))), form())
    for attempt in range(1, 50):
        grown = plan_operation(filled, form(), seed=3, attempt=attempt, change=Change.GROW)
        ((index, row_count),) = grown.rows
        assert index in (0, 2) and row_count > 0 and grown.is_ordered and not grown.rewrites + grown.drops
        rewritten = plan_operation(filled, form(), seed=3, attempt=attempt, change=Change.REWRITE)
        assert rewritten == replace(grown, rewrites=(index,))
        for change in Change:
            assert plan_operation(EMPTY, form(), seed=3, attempt=attempt, change=change).rows


def test_a_plan_never_drops_what_is_to_be_kept() -> None:
    kept = form(is_kept=True, targets=1)
    expected = EMPTY
    for attempt in range(200):
        operation = plan_operation(expected, kept, seed=3, attempt=attempt)
        assert operation.drops == ()
        expected = expected.after(operation, kept)


def test_what_was_tried_may_be_there_or_not_but_nothing_else() -> None:
    expected = EMPTY.after(TWO_ROWS, form())
    assert expected_at(EMPTY, TWO_ROWS, 7, form()) is EMPTY
    found = expected_at(EMPTY, TWO_ROWS, 8, form())
    assert found is not None and found.digest == expected.digest
    assert expected_at(EMPTY, None, 8, form()) is None
    assert expected_at(EMPTY, TWO_ROWS, 6, form()) is expected_at(EMPTY, TWO_ROWS, 9, form()) is None


def test_operations_come_back_from_the_details_of_a_commit() -> None:
    operation = Operation(attempt=3, rows=((0, 1), (2, 5)), rewrites=(1,), drops=(0,), is_ordered=False)
    details = json.dumps({"operation": asdict(operation), "purged": 0})
    assert operation_of(details) == operation


def test_rows_of_a_snapshot_are_those_of_its_parquet_partitions_wherever_native_ones_are() -> None:
    batch = pa.record_batch({"number": [0, 1, 2, 3, 4]})
    partitions = [
        SimpleNamespace(timestamp=timestamp, is_parquet=is_parquet, row_count=row_count)
        for timestamp, is_parquet, row_count in ((0, False, 4), (1, True, 2), (2, False, 1), (3, True, 3))
    ]
    transaction = SimpleNamespace(partitions=partitions)
    snapshot: Any = SimpleNamespace(batches=lambda: iter([batch]), schema=batch.schema, transaction=transaction)
    found = {timestamp: rows["number"].to_pylist() for timestamp, rows in rows_by_partition(snapshot)}
    assert found == {1: [0, 1], 3: [2, 3, 4]}
