"""The books of a run: rows, versions and digests that depend on nothing of the implementation."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pyarrow as pa
import pytest

from tornproof.harness.explorers.processes.counters import (
    ROW_COUNT_MAX,
    Change,
    Counters,
    Form,
    Operation,
    Target,
    digest_of_rows,
    digest_of_table,
    new_rows,
    plan_operation,
)
from tornproof.harness.explorers.processes.writer import operation_of, settled

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
                pa.field("byte", pa.int8(), nullable=False),
            ]
        ),
        timestamp="time",
        number="number",
        texts=("words",),
        targets=tuple(Target(start=position * HOUR, length=HOUR, is_kept=is_kept) for position in range(targets)),
    )


EMPTY = Counters(version=7, contents={})
TWO_ROWS = Operation(attempt=5, rows=((1, 2),))


def times_of(rows: pa.Table) -> list[int]:
    return [int(value) for value in rows["time"].cast(pa.int64()).to_pylist()]


def test_rows_are_what_their_attempt_makes_them() -> None:
    (rows,) = new_rows(EMPTY, TWO_ROWS, form()).values()
    first = 5 * ROW_COUNT_MAX
    assert rows.schema == form().schema
    assert rows["number"].to_pylist() == [first, first + 1]
    assert rows["half"].to_pylist() == [first / 2, first / 2 + 0.5]
    assert rows["words"].to_pylist() == [f"row {first}", f"row {first + 1}"]
    assert rows["id"].null_count == 2 and rows["byte"].to_pylist() == [0, 0]
    assert all(HOUR + HOUR // 2 <= moment < 2 * HOUR for moment in times_of(rows))


def test_rows_in_order_are_newer_than_all_before_and_others_fall_between() -> None:
    counters = EMPTY
    for attempt in range(20):
        counters = counters.after(Operation(attempt=attempt, rows=((0, 30),), is_ordered=attempt % 2 == 0), form())
    rows = counters.contents[0].rows
    assert rows is not None and rows.num_rows == 600
    times = times_of(rows)
    assert times == sorted(set(times)) and times[0] >= 0 and times[-1] < HOUR
    (ordered,) = new_rows(counters, Operation(attempt=20, rows=((0, 30),)), form()).values()
    (others,) = new_rows(counters, Operation(attempt=20, rows=((0, 30),), is_ordered=False), form()).values()
    assert min(times_of(ordered)) > times[-1]
    assert times[0] < sorted(times_of(others))[15] < times[-1]


def test_no_row_takes_the_time_of_another_one() -> None:
    counters = EMPTY.after(TWO_ROWS, form())
    (rows,) = new_rows(counters, TWO_ROWS, form()).values()
    assert rows.num_rows == 0
    (again,) = new_rows(counters, replace(TWO_ROWS, drops=(1,)), form()).values()
    assert again.num_rows == 2


def test_a_version_is_told_from_every_other_attempt_at_it() -> None:
    counters = [
        EMPTY.after(TWO_ROWS, form()),
        EMPTY.after(replace(TWO_ROWS, attempt=6), form()),
        EMPTY.after(replace(TWO_ROWS, rows=((2, 2),)), form()),
        EMPTY.after(replace(TWO_ROWS, rows=((1, 3),)), form()),
    ]
    assert len({counters.digest for counters in counters}) == 4
    assert {counters.version for counters in counters} == {8}


def test_a_rewrite_changes_no_content_and_a_drop_takes_it_away() -> None:
    counters = EMPTY.after(Operation(attempt=1, rows=((0, 3), (1, 2))), form())
    rewritten = counters.after(Operation(attempt=2, rewrites=(0,)), form())
    dropped = counters.after(Operation(attempt=2, drops=(0,)), form())
    assert rewritten.digest == counters.digest != dropped.digest
    assert sorted(dropped.contents) == [HOUR]


def test_a_digest_sees_every_value_and_its_place_but_not_the_chunks() -> None:
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
def test_a_digest_sees_values_of_every_type(values: pa.Array) -> None:
    digests = {digest_of_rows(pa.table({"a": values.take(order)})) for order in ([0, 1, 2], [1, 0, 2], [0, 2, 1])}
    assert len(digests) == 3


def test_a_digest_of_a_version_sees_where_partitions_start_and_their_order() -> None:
    parts = [(0, b"a"), (1, b"b")]
    digests = {digest_of_table(each) for each in (parts, parts[::-1], parts[:1], [(0, b"a"), (2, b"b")])}
    assert len(digests) == 4


def test_a_plan_uses_every_kind_of_change_and_only_what_is_there() -> None:
    counters, seen = EMPTY, set()
    for attempt in range(600):
        operation = plan_operation(counters, form(), seed=3, attempt=attempt)
        assert operation == plan_operation(counters, form(), seed=3, attempt=attempt)
        present = {position for position, target in enumerate(form().targets) if target.start in counters.contents}
        assert present.issuperset(operation.drops) and (present - set(operation.drops)).issuperset(operation.rewrites)
        assert operation.rows or operation.drops or operation.rewrites
        kinds = (len(operation.rows), bool(operation.rewrites), bool(operation.drops), operation.is_ordered)
        seen.add(kinds)
        counters = counters.after(operation, form())
        assert all(
            content.rows is not None and content.rows.num_rows <= 1_100 for content in counters.contents.values()
        )
    for number, values in enumerate(({0, 1, 2, 3}, {False, True}, {False, True}, {False, True})):
        assert {kinds[number] for kinds in seen} == values


def test_a_plan_is_the_change_that_is_wanted_where_something_is_there() -> None:
    filled = EMPTY.after(Operation(attempt=0, rows=((0, 3), (2, 3))), form())
    for attempt in range(1, 50):
        grown = plan_operation(filled, form(), seed=3, attempt=attempt, change=Change.GROW)
        ((position, row_count),) = grown.rows
        assert position in (0, 2) and row_count > 0 and grown.is_ordered and not grown.rewrites + grown.drops
        rewritten = plan_operation(filled, form(), seed=3, attempt=attempt, change=Change.REWRITE)
        assert rewritten == replace(grown, rewrites=(position,))
        for change in Change:
            assert plan_operation(EMPTY, form(), seed=3, attempt=attempt, change=change).rows


def test_a_plan_never_drops_what_is_to_be_kept() -> None:
    kept = form(is_kept=True, targets=1)
    counters = EMPTY
    for attempt in range(200):
        operation = plan_operation(counters, kept, seed=3, attempt=attempt)
        assert operation.drops == ()
        counters = counters.after(operation, kept)


def test_what_was_tried_may_be_there_or_not_but_nothing_else() -> None:
    counters = EMPTY.after(TWO_ROWS, form())
    assert settled(EMPTY, TWO_ROWS, 7, form()) is EMPTY
    found = settled(EMPTY, TWO_ROWS, 8, form())
    assert found is not None and found.digest == counters.digest
    assert settled(EMPTY, None, 8, form()) is None
    assert settled(EMPTY, TWO_ROWS, 6, form()) is settled(EMPTY, TWO_ROWS, 9, form()) is None


def test_operations_come_back_from_the_details_of_a_commit() -> None:
    operation = Operation(attempt=3, rows=((0, 1), (2, 5)), rewrites=(1,), drops=(0,), is_ordered=False)
    details = json.dumps({"operation": asdict(operation), "purged": 0})
    assert operation_of(details) == operation
