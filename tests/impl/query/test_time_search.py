from typing import Any

import numpy as np
import pm_builder as pm
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pruning_cases import predicate_of

from tornproof.impl.pm.block import Block
from tornproof.impl.query.time_search import (
    ALL_TIMES,
    INT64_MAX,
    INT64_MIN,
    RowGroupTimes,
    TimeRange,
    TimeTextError,
    implied_range,
    row_group_times,
    time_of_text,
)
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.questdb import TypeTag

TS = SnapshotColumn(id=0, name="ts", type=TypeTag.TIMESTAMP, physical_type=2)
OTHER = SnapshotColumn(id=1, name="v", type=TypeTag.LONG, physical_type=2)
TIMES = st.integers(-5, 25) | st.sampled_from([None, INT64_MIN, INT64_MAX, -(10**30), 10**30])


def times_of(*bounds: tuple[int, int]) -> RowGroupTimes:
    low, high = zip(*bounds, strict=True) if bounds else ((), ())
    return RowGroupTimes(np.array(low, np.int64), np.array(high, np.int64))


def by_hand(bounds: list[tuple[int, int]], times: TimeRange) -> list[int]:
    return [
        position
        for position, (low, high) in enumerate(bounds)
        if (times.start is None or high >= times.start) and (times.end is None or low < times.end)
    ]


@st.composite
def row_groups(draw: st.DrawFn, *, in_order: bool) -> list[tuple[int, int]]:
    if in_order:
        edges = sorted(draw(st.lists(st.integers(0, 20), max_size=12)))
        return list(zip(edges[::2], edges[1::2], strict=False))
    pairs = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (min(pair), max(pair)))
    return draw(st.lists(pairs | st.just((INT64_MIN, INT64_MAX)), max_size=6))


@given(row_groups(in_order=True) | row_groups(in_order=False), TIMES, TIMES)
@example([(0, 5), (5, 5), (5, 9)], 5, 6)
@example([(0, 5), (5, 9)], 9, 5)
def test_row_groups_of_a_range_are_those_that_overlap_it(
    bounds: list[tuple[int, int]], start: int | None, end: int | None
) -> None:
    found = times_of(*bounds).between(TimeRange(start=start, end=end))
    wanted = by_hand(bounds, TimeRange(start=start, end=end))
    if start is not None and end is not None and start >= end:
        # No row lies in such a range, so any row groups will do.
        assert set(found.tolist()) <= set(range(len(bounds)))
    else:
        assert found.tolist() == wanted


def test_bisection_is_only_used_where_nothing_descends() -> None:
    assert times_of((0, 1), (1, 1), (1, 3)).in_order
    assert times_of().in_order
    assert not times_of((0, 9), (1, 3)).in_order
    assert not times_of((5, 6), (1, 7)).in_order


def test_times_come_from_the_statistics_of_the_designated_timestamp() -> None:
    header = pm.header()
    blocks = [block_of(3, 7), block_of(None, 7), block_of(8, 4), block_of(5, 9)]
    found = row_group_times(header, blocks)
    assert found.minimums.tolist() == [3, INT64_MIN, INT64_MIN, 5]
    assert found.maximums.tolist() == [7, INT64_MAX, INT64_MAX, 9]
    nothing = row_group_times(pm.header(designated_timestamp=-1), blocks)
    assert nothing.between(TimeRange(start=100, end=200)).tolist() == [0, 1, 2, 3]


def block_of(low: int | None, high: int | None) -> Block:
    chunks = (pm.chunk(low=low, high=high), pm.chunk(low=0, high=0))
    return Block(offset_bytes=0, end_bytes=0, num_rows=10, chunks=chunks)


def ts(sign: str, value: int) -> tuple[Any, ...]:
    return ("compare", TS, sign, value)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ts("=", 5), TimeRange(start=5, end=6)),
        (ts("<", 5), TimeRange(end=5)),
        (ts("<=", 5), TimeRange(end=6)),
        (ts(">", 5), TimeRange(start=6)),
        (ts(">=", 5), TimeRange(start=5)),
        (("in", TS, [7, 3]), TimeRange(start=3, end=8)),
        (("and", [ts(">", 5), ts("<", 9), ts(">", 1)]), TimeRange(start=6, end=9)),
        (("or", [ts("=", 5), ("and", [ts(">", 7), ts("<", 9)])]), TimeRange(start=5, end=9)),
        (("or", [ts("<", 5), ts(">", 9)]), ALL_TIMES),
        (("and", [ts(">", 5), ("compare", OTHER, "<", 3)]), TimeRange(start=6)),
        (("or", [ts(">", 5), ("compare", OTHER, "<", 3)]), ALL_TIMES),
        (("not", ts(">", 5)), ALL_TIMES),
        (("null", TS), ALL_TIMES),
    ],
)
def test_condition_implies_a_range_of_times(condition: tuple[Any, ...], expected: TimeRange) -> None:
    assert implied_range(predicate_of(condition), 0) == expected


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("9999-12-31", 253_402_214_400 * 10**9),
        ("0001-01-01T00:00:00.5", -62_135_596_799_500_000_000),
        ("1970", 0),
        ("1970-01-01Z", 0),
        (" 1970-01-01 02:00+02:00 ", 0),
        ("1970-01-01T00:00:00.0000000001Z", 1),
    ],
)
def test_a_time_may_be_of_any_year_and_has_the_forms_of_one_in_a_condition(text: str, time: int) -> None:
    """Those that 64 bits of nanoseconds cannot hold were called no times."""
    assert time_of_text(text, "ns") == time


@pytest.mark.parametrize("text", ["", "now", "2024-13-01", "99999-01-01", "2024-01-01ZZ", "\udcff"])
def test_what_is_no_time_is_rejected_in_words(text: str) -> None:
    with pytest.raises(TimeTextError, match="is no time; write 2024-01-31 or"):
        time_of_text(text, "us")
