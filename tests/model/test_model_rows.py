"""The model's rows of a table: where a row goes, and what it replaces."""

import datetime
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition_names import interval_start
from tornproof.model.rows import Change, Content, Interval, Row, after, partition_of, start_of, with_row

HOUR = 3_600
EMPTY = Content(version=3, partitions=(), interval=Interval.HOUR, ticks=1)


def row(time: int, value: str, *, keys: object = None) -> Row:
    return Row(time, keys, value)


def values(content: Content | None) -> dict[int, list[str]]:
    assert content is not None
    return {start: [each.values for each in rows] for start, rows in content.partitions}


def committed(content: Content, *changes: Change) -> Content:
    for change in changes:
        following = after(content, change)
        assert following is not None
        content = following
    return content


def test_rows_out_of_order_are_sorted_into_their_partitions_and_later_ones_follow_those_of_the_same_time() -> None:
    first = Change(rows=(row(HOUR + 5, "b"), row(7, "a"), row(HOUR + 1, "c"), row(HOUR + 5, "d")))
    content = committed(EMPTY, first, Change(rows=(row(HOUR + 5, "e"), row(HOUR, "f"))))
    assert values(content) == {0: ["a"], HOUR: ["f", "c", "b", "d", "e"]}
    assert content.version == EMPTY.version + 2


def test_a_new_partition_stands_where_its_start_belongs() -> None:
    content = committed(EMPTY, Change(rows=(row(HOUR, "b"),)), Change(rows=(row(2 * HOUR, "c"), row(0, "a"))))
    assert [start for start, _ in content.partitions] == [0, HOUR, 2 * HOUR]


def test_the_last_row_of_a_key_takes_the_place_of_the_first_one_and_other_keys_and_times_stay() -> None:
    rows = (row(1, "a", keys=1), row(1, "b", keys=2), row(1, "c", keys=1), row(2, "d", keys=1), row(1, "e", keys=1))
    assert values(committed(EMPTY, Change(rows=rows))) == {0: ["e", "b", "d"]}
    assert values(committed(EMPTY, Change(rows=rows[:3]), Change(rows=rows[3:]))) == {0: ["e", "b", "d"]}


def test_a_dropped_partition_is_gone_before_rows_make_it_anew() -> None:
    content = committed(EMPTY, Change(rows=(row(1, "a"), row(HOUR, "b"))))
    assert values(committed(content, Change(dropped=(0,)))) == {HOUR: ["b"]}
    assert values(committed(content, Change(dropped=(0,), rows=(row(2, "c"),)))) == {0: ["c"], HOUR: ["b"]}
    split = replace(content, partitions=((0, (row(1, "a"),)), (100, (row(150, "d"),))))
    assert values(committed(split, Change(dropped=(100,), rows=(row(160, "e"),)))) == {0: ["a", "e"]}


def test_a_rewrite_is_a_version_with_the_same_rows_and_nothing_is_none() -> None:
    content = committed(EMPTY, Change(rows=(row(1, "a"),)))
    rewritten = committed(content, Change(rewritten=(0,)))
    assert (rewritten.version, rewritten.partitions) == (content.version + 1, content.partitions)
    assert after(content, Change()) is content


def test_a_row_goes_to_the_last_partition_of_its_interval_that_starts_before_it() -> None:
    starts = (0, 100, 200, HOUR + 50)
    assert [partition_of(time, starts, Interval.HOUR, 1) for time in (0, 99, 100, 250, HOUR - 1)] == [
        0,
        0,
        100,
        200,
        200,
    ]
    assert [partition_of(time, starts, Interval.HOUR, 1) for time in (HOUR, HOUR + 50)] == [HOUR, HOUR + 50]


def test_the_interval_of_a_time_before_the_epoch_starts_before_it_also_in_parts_of_a_second() -> None:
    ticks = 1_000_000
    assert [start_of(time, Interval.HOUR, ticks) for time in (-1, -HOUR * ticks, -HOUR * ticks - 1)] == [
        -HOUR * ticks,
        -HOUR * ticks,
        -2 * HOUR * ticks,
    ]


@pytest.mark.parametrize("keys", [1, ()], ids=["beside_the_time", "the_time_alone"])
def test_rows_of_one_key_stay_until_a_new_one_replaces_all_of_them(keys: object) -> None:
    old = (row(1, "a", keys=keys), row(1, "other", keys=7), row(1, "b", keys=keys))
    twice = Content(version=1, partitions=((0, old),), interval=Interval.HOUR, ticks=1)

    def following(new: Row) -> list[object]:
        return [each.values for each in after(twice, Change(rows=(new,))).partitions[0][1]]

    assert following(row(5, "c", keys=keys)) == ["a", "other", "b", "c"]
    assert following(row(1, "c", keys=keys)) == ["c", "other"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12))
def test_one_row_after_the_other_gives_what_sorting_all_at_once_gives(written: list[tuple[int, int]]) -> None:
    rows: tuple[Row, ...] = ()
    for number, (time, _) in enumerate(written):
        rows = with_row(rows, row(time, str(number)))
    assert [each.values for each in rows] == [str(n) for n in sorted(range(len(written)), key=lambda n: written[n][0])]
    upserted: tuple[Row, ...] = ()
    for number, (time, key) in enumerate(written):
        upserted = with_row(upserted, row(time, str(number), keys=key))
    last = {point: str(number) for number, point in enumerate(written)}
    assert [each.values for each in upserted] == [last[point] for point in sorted(last, key=lambda point: point[0])]


@pytest.mark.parametrize("interval", Interval)
@given(microseconds=st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1)))
def test_an_interval_starts_where_the_implementation_says_in_its_own_way(
    interval: Interval, microseconds: datetime.datetime
) -> None:
    time = (microseconds - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    expected = interval_start(time, PartitionBy[interval.name], nanoseconds=False)
    assert start_of(time, interval, 1_000_000) == expected
    assert start_of(time * 1_000 + 999, interval, 1_000_000_000) == (expected or 0) * 1_000
