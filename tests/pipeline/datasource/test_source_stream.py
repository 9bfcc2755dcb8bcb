"""Streaming read: what commits append arrives once, also after a restart, and other changes are not passed over."""

import itertools
import json
import math
import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from catalog_tables import schema_in_catalog
from day_tables import change_columns, new_table, rename_column
from depth import nightly
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from source_holds import let_go

from tornproof.impl.errors import CorruptError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource.changes import NotAppendedError
from tornproof.pipeline.datasource.offsets import NEWEST_COUNT, START, Offset
from tornproof.pipeline.datasource.options import OptionRejectedError, size_of
from tornproof.pipeline.datasource.source import TornproofSource, register
from tornproof.pipeline.datasource.stream import STEP_PARTITIONS_MAX, ColumnsChangedError, TornproofStreamReader

STORAGE = OperatingSystemStorage()
DAY_SECONDS = 86_400
HANGS_SECONDS = 600
OPTIONS = WriterOptions(row_group_row_count_max=10, rewrite_unused_ratio=1.0)


MADE: list[TornproofStreamReader] = []


@pytest.fixture(autouse=True)
def nothing_pinned() -> Iterator[None]:
    """Stop what Spark would stop at the end of a query, and let go of what a helper process would hold."""
    yield
    while MADE:
        MADE.pop().stop()
    let_go()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return new_table(tmp_path / "t", {"v": TypeTag.LONG})


def writer_on(path: Path) -> TableWriter:
    return open_writer(STORAGE, str(path), options=OPTIONS, allow_parquet_last=True)


def commit(path: Path, seconds: Sequence[int], *, first: int | None = None, rewrites: bool = False) -> None:
    """Commit rows at these seconds, numbered by them or from `first` on."""
    times = pa.array(np.array(seconds) * 1_000_000, pa.timestamp("us", tz="UTC"))
    numbers = seconds if first is None else range(first, first + len(seconds))
    with writer_on(path) as writer:
        writer.write(pa.table({"ts": times, "v": pa.array(numbers, pa.int64())}))
        if rewrites:
            writer.rewrite_partition(0)
        writer.commit()


def reader_of(path: Path, **options: str) -> TornproofStreamReader:
    given: Any = {"path": str(path), **options}
    source = TornproofSource(given)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, TornproofStreamReader)
    MADE.append(reader)
    return reader


def latest(reader: TornproofStreamReader, start: Offset) -> Offset:
    """Return the latest offset as a checkpoint gives it back."""
    found: Offset = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    return found


def between(path: Path, start: Offset, end: Offset, **options: str) -> list[int]:
    """Return what a reader that knows nothing but a checkpoint returns, in the order of the table."""
    reader = reader_of(path, **options)
    task = pickle.loads(pickle.dumps(reader))
    batches = [batch for partition in reader.partitions(start, end) for batch in task.read(partition)]
    reader.stop()
    return [value for batch in batches for value in batch.column("v").to_pylist()]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("poll_count", [100, nightly(5_000)])
def test_polls_of_a_table_where_nothing_is_committed_keep_nothing_open(table: Path, poll_count: int) -> None:
    commit(table, [1, 2])
    reader = reader_of(table)
    start = START
    offset = reader.latestOffset(start, ReadAllAvailable())
    open_count = open_files()
    for _ in range(poll_count):
        # Before the first batch is planned Spark asks again with the old offset, and after it with the new one.
        assert reader.latestOffset(start, ReadAllAvailable()) == offset
        assert reader.latestOffset(offset, ReadAllAvailable()) is offset
    assert open_files() == open_count
    commit(table, [3])
    later = reader.latestOffset(offset, ReadAllAvailable())
    assert later["version"] > offset["version"] and open_files() > open_count
    reader.commit(later)
    assert open_files() == open_count
    reader.stop()
    assert open_files() < open_count


def test_appended_rows_arrive_once_in_row_groups_gaps_and_new_partitions(table: Path) -> None:
    reader = reader_of(table)
    offset = reader.initialOffset()
    expected: list[int] = []
    for seconds in (range(25), range(25, 27), range(DAY_SECONDS, DAY_SECONDS + 30), [*range(27, 30), DAY_SECONDS + 40]):
        commit(table, list(seconds))
        end = latest(reader, offset)
        assert between(table, offset, end) == list(seconds)
        offset, expected = end, expected + list(seconds)
    assert sorted(between(table, reader.initialOffset(), offset)) == sorted(expected)
    reader.stop()


def test_same_offsets_give_the_same_rows_after_later_commits_rewrites_and_purges(table: Path) -> None:
    reader = reader_of(table)
    commit(table, range(15))
    first = latest(reader, reader.initialOffset())
    commit(table, range(15, 32))
    second = latest(reader, first)
    reader.stop()
    commit(table, range(32, 40))
    assert between(table, first, second) == list(range(15, 32))
    commit(table, range(40, 45), rewrites=True)
    assert between(table, first, second) == list(range(15, 32))
    let_go()
    with writer_on(table) as writer:
        assert writer.purge() == ("1970-01-01.0",)
    assert between(table, first, second) == list(range(15, 32))
    assert between(table, second, latest(reader_of(table), second)) == list(range(32, 45))


def test_nothing_new_is_the_same_offset_and_no_rows(table: Path) -> None:
    commit(table, range(5))
    reader = reader_of(table)
    offset = latest(reader, reader.initialOffset())
    assert latest(reader, offset) == offset
    assert between(table, offset, offset) == []


def test_stream_may_start_behind_what_is_there(table: Path) -> None:
    commit(table, range(5))
    reader = reader_of(table, start="latest")
    start = reader.initialOffset()
    commit(table, range(5, 8))
    assert between(table, start, latest(reader, start)) == [5, 6, 7]


@pytest.mark.parametrize("rewrites", [False, True], ids=["merged", "rewritten"])
@pytest.mark.parametrize("seconds", [[3], [3, 30], [19]], ids=["earlier", "earlier_and_later", "last_time_again"])
def test_rows_put_among_those_that_were_returned_end_the_stream(
    table: Path, seconds: list[int], rewrites: bool
) -> None:
    reader = reader_of(table)
    commit(table, range(0, 20))
    offset = latest(reader, reader.initialOffset())
    commit(table, seconds, first=100, rewrites=rewrites)
    end = latest(reader, offset)
    if seconds == [19] and not rewrites:
        # Behind the last row group, so that the row groups before are the same.
        assert between(table, offset, end) == [100]
        return
    with pytest.raises(NotAppendedError, match="changed other than by appending: rows were inserted into its first 20"):
        between(table, offset, end)
    assert between(table, offset, end, changes="skip") == []
    commit(table, [50, 51])
    assert between(table, end, latest(reader, end), changes="skip") == [50, 51]


def test_row_that_is_merged_in_by_its_keys_ends_the_stream(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG}, keys=["ts"])
    reader = reader_of(table)
    commit(table, range(20))
    first = latest(reader, reader.initialOffset())
    commit(table, range(20, 25))
    second = latest(reader, first)
    assert between(table, first, second) == list(range(20, 25))
    commit(table, [5], first=100)
    with pytest.raises(NotAppendedError, match="replaced in them"):
        between(table, second, latest(reader, second))


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    return new_table(tmp_path / "keyed", {"v": TypeTag.LONG, "d": TypeTag.DOUBLE}, keys=["ts", "v"])


def put(path: Path, seconds: Sequence[int], *, first: int = 0, of: float = -math.nan) -> None:
    """Commit numbered rows with `of` in `d`, and write the first partition anew."""
    times = pa.array(np.array(seconds) * 1_000_000, pa.timestamp("us", tz="UTC"))
    with writer_on(path) as writer:
        writer.write(pa.table({"ts": times, "v": range(first, first + len(seconds)), "d": [of] * len(seconds)}))
        if writer.transaction.partitions:
            writer.rewrite_partition(0)
        writer.commit()


@pytest.mark.parametrize("options", [{}, {"changes": "skip"}, {"maxBytesPerTrigger": "1"}], ids=str)
def test_rows_appended_to_a_table_with_keys_arrive_once_though_earlier_ones_are_written_anew(
    keyed: Path, options: dict[str, str]
) -> None:
    """The stream ended after a few commits, and one that skips changes lost rows that nobody had changed."""
    reader, offset, found = reader_of(keyed, **options), START, []
    for number in range(0, 60, 6):
        # The last time again, which only another key tells from a replacement.
        put(keyed, [max(0, number - 2), *range(number, number + 5)], first=number)
        for _ in range(3):
            end = json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))
            batches = [each for part in reader.partitions(offset, end) for each in reader.read(part)]
            found += [value for batch in batches for value in batch.column("v").to_pylist()]
            reader.commit(end)
            offset = end
    assert sorted(found) == list(range(60))


def test_row_that_is_replaced_by_its_keys_ends_the_stream_or_is_skipped_alone(keyed: Path) -> None:
    reader = reader_of(keyed)
    put(keyed, range(20))
    offset = latest(reader, START)
    put(keyed, [19, 20, 21], first=19, of=1.0)
    end = latest(reader, offset)
    with pytest.raises(NotAppendedError, match="inserted into its first 20, replaced in them, or removed from them"):
        between(keyed, offset, end)
    assert between(keyed, offset, end, changes="skip") == [20, 21]


def test_rows_of_a_table_with_keys_whose_earlier_files_are_gone_end_the_stream_or_are_not_skipped(keyed: Path) -> None:
    put(keyed, range(20))
    offset = latest(reader_of(keyed), START)
    MADE.pop().stop()
    let_go()
    put(keyed, [20, 21], first=20)
    with writer_on(keyed) as writer:
        writer.purge()
    assert len(list(keyed.glob("1970-01-01*"))) == 1
    end = latest(reader_of(keyed), offset)
    with pytest.raises(NotAppendedError, match="nobody can tell whether some of its first 20 rows were replaced"):
        between(keyed, offset, end)
    assert between(keyed, offset, end, changes="skip") == [20, 21]


def test_dropped_partition_ends_the_stream(table: Path) -> None:
    reader = reader_of(table)
    commit(table, [0, DAY_SECONDS])
    offset = latest(reader, reader.initialOffset())
    with writer_on(table) as writer:
        writer.drop_partition(0)
        writer.commit()
    end = latest(reader, offset)
    with pytest.raises(NotAppendedError, match="was dropped"):
        between(table, offset, end)
    assert between(table, offset, end, changes="skip") == []


@pytest.mark.parametrize("of", [TypeTag.LONG, TypeTag.DOUBLE], ids=["added again", "another type"])
def test_column_that_is_another_one_by_now_ends_the_stream_which_keeps_nothing_open(table: Path, of: int) -> None:
    """The acknowledged values of the new column arrived as null."""
    reader = reader_of(table, changes="skip")
    commit(table, [0, 1])
    offset = latest(reader, reader.initialOffset())
    assert reader.partitions(START, offset)
    reader.commit(offset)
    change_columns(table, drop="v", add=("v", of))
    commit(table, [2])
    open_count = open_files()
    for ask in (lambda: latest(reader, offset), lambda: reader.partitions(START, offset)):
        with pytest.raises(ColumnsChangedError, match="'v' was dropped, or got another type, since the stream began"):
            ask()
    assert open_files() == open_count
    assert between(table, offset, latest(reader_of(table), offset)) == [2]


def test_stream_goes_on_without_a_column_that_is_added_and_under_the_old_name_of_one(table: Path) -> None:
    reader = reader_of(table)
    commit(table, [0, 1])
    offset = latest(reader, reader.initialOffset())
    change_columns(table, add=("w", TypeTag.LONG))
    rename_column(table, "v", "u")
    with writer_on(table) as writer:
        writer.write(pa.table({"ts": pa.array([2_000_000], pa.timestamp("us", tz="UTC")), "u": [2], "w": [3]}))
        writer.commit()
    end = latest(reader, offset)
    batches = [batch for partition in reader.partitions(offset, end) for batch in reader.read(partition)]
    assert [{**row, "ts": None} for batch in batches for row in batch.to_pylist()] == [{"ts": None, "v": 2}]


def test_offset_that_cannot_be_found_keeps_nothing_open(table: Path) -> None:
    commit(table, range(12))
    reader = reader_of(table)
    open_count = open_files()
    (table / "1970-01-01.0" / "_pm").unlink()
    with pytest.raises(CorruptError, match="_pm"):
        latest(reader, START)
    assert open_files() == open_count


def test_stream_keeps_the_files_of_an_offset_until_it_is_done_with(table: Path) -> None:
    reader = reader_of(table)
    commit(table, range(20))
    offset = latest(reader, reader.initialOffset())
    commit(table, range(20, 25), rewrites=True)
    end = latest(reader, offset)
    with writer_on(table) as writer:
        let_go()
        assert writer.purge() == ()
        reader.commit(end)
        assert writer.purge() == ("1970-01-01.0",)
    reader.stop()


def test_stream_that_ends_with_what_is_available_passes_over_later_commits(table: Path) -> None:
    commit(table, range(5))
    reader = reader_of(table)
    reader.prepareForTriggerAvailableNow()
    commit(table, range(5, 8))
    assert between(table, reader.initialOffset(), latest(reader, reader.initialOffset())) == list(range(5))


BOUNDED = ReadMaxFiles(STEP_PARTITIONS_MAX)
"""What Spark passes back of `getDefaultReadLimit`; the limits themselves are options."""


def steps(path: Path, start: Offset, **options: str) -> list[tuple[Offset, list[int]]]:
    """Return the offset and the rows of each step to the committed version, each by a reader from a checkpoint."""
    found: list[tuple[Offset, list[int]]] = []
    while True:
        reader = reader_of(path, **options)
        end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        reader.stop()
        if end == start:
            return found
        found.append((end, between(path, start, end, **options)))
        start = end


@pytest.mark.parametrize("commits_max", [1, 3, nightly(100)])
def test_step_ends_after_so_many_commits(table: Path, commits_max: int) -> None:
    # More than a row group, a part of one, and rows of several groups.
    sizes = [3, 25, 1, 1, 40, 2, 7]
    ends = np.cumsum([0, *sizes]).tolist()
    for first, end in itertools.pairwise(ends):
        commit(table, range(first, end))
    found = [rows for _, rows in steps(table, START, maxCommitsPerTrigger=str(commits_max))]
    assert found == [
        list(range(ends[number], ends[min(number + commits_max, len(sizes))]))
        for number in range(0, len(sizes), commits_max)
    ]


@pytest.mark.parametrize("limit", ["1", "2k", "1g"])
def test_step_ends_before_it_reads_more_bytes_than_it_may_or_after_one_row_group(table: Path, limit: str) -> None:
    commit(table, [*range(100), *range(DAY_SECONDS, DAY_SECONDS + 45)])
    found = [rows for _, rows in steps(table, START, maxBytesPerTrigger=limit)]
    assert list(itertools.chain(*found)) == [*range(100), *range(DAY_SECONDS, DAY_SECONDS + 45)]
    snapshot = open_snapshot(open_table(STORAGE, str(table)))
    sizes = [
        sum(chunk.total_compressed for chunk in block.chunks)
        for partition in snapshot.parquet_partitions()
        for block in snapshot.resolve(partition).metadata.blocks
    ]
    assert len(sizes) == 15
    # By brute force: so many row groups as fit, or one.
    allowed, counts = size_of({"maxbytespertrigger": limit}, "maxBytesPerTrigger") or 0, [0]
    left = allowed
    for size in sizes:
        if counts[-1] and size > left:
            counts.append(0)
            left = allowed
        counts[-1] += 1
        left = max(0, left - size)
    assert [-(-len(rows) // 10) for rows in found] == counts


def test_step_does_not_end_between_rows_of_one_time_so_that_a_rewrite_is_still_told_from_an_insertion(
    table: Path,
) -> None:
    commit(table, [1] * 10 + [2] * 25 + [3] * 5, first=0)
    (first, rows), *_ = steps(table, START, maxBytesPerTrigger="1")
    assert rows == list(range(10))
    ((_, following), *_) = steps(table, first, maxBytesPerTrigger="1")
    assert following == list(range(10, 40))
    commit(table, [4], first=40, rewrites=True)
    with writer_on(table) as writer:
        writer.purge()
    assert [rows for _, rows in steps(table, first)] == [list(range(10, 41))]


def test_rows_put_behind_the_end_of_a_step_are_part_of_the_next_one(table: Path) -> None:
    commit(table, range(0, 60, 2), first=0)
    ((first, rows), *_) = steps(table, START, maxBytesPerTrigger="1")
    assert rows == list(range(10))
    commit(table, [31, 33], first=100)
    assert sorted(itertools.chain(*(rows for _, rows in steps(table, first)))) == [*range(10, 30), 100, 101]
    commit(table, [3], first=200)
    with pytest.raises(NotAppendedError, match="inserted into its first 10"):
        between(table, first, latest(reader_of(table), first))


@pytest.mark.parametrize("seed", [0, *map(nightly, range(1, 5))])
def test_any_steps_between_any_commits_return_each_row_once(tmp_path: Path, seed: int) -> None:
    draw, table = random.Random(seed), new_table(tmp_path / "t", {"v": TypeTag.LONG})
    ends, count, offset = dict.fromkeys(range(4), 0), 0, START
    found: list[int] = []
    limits = [{"maxCommitsPerTrigger": "1"}, {"maxBytesPerTrigger": "2000"}, {"maxBytesPerTrigger": "1"}, {}]
    for _ in range(30):
        day = draw.randrange(4)
        added = draw.randrange(1, 35)
        commit(table, [day * DAY_SECONDS + (ends[day] + row) // 3 for row in range(added)], first=count)
        if draw.random() < 0.2:
            with writer_on(table) as writer:
                writer.rewrite_partition(draw.choice(list(writer.transaction.partitions)).timestamp)
                writer.commit()
                writer.purge()
        # Later rows have later times, or the rewrite could not be told from an insertion.
        ends[day] += (added // 3 + 1) * 3
        count += added
        for end, rows in steps(table, offset, **draw.choice(limits))[: draw.randrange(3)]:
            offset, found = end, found + rows
    found += [row for _, rows in steps(table, offset) for row in rows]
    assert sorted(found) == list(range(count))


def test_partition_that_changed_is_skipped_as_a_whole_by_short_steps_too(table: Path) -> None:
    commit(table, range(100, 130))
    ((start, _),) = steps(table, START)
    commit(table, range(60, 85))
    short = {"maxBytesPerTrigger": "1", "changes": "skip"}
    ((end, rows),) = steps(table, start, **short)
    assert rows == []
    commit(table, range(130, 145))
    assert [row for _, rows in steps(table, end, **short) for row in rows] == list(range(130, 145))


def with_days(table: Path, day_count: int) -> None:
    commit(table, [day * DAY_SECONDS for day in range(day_count)])


def test_offset_names_the_newest_partitions_and_those_that_changed(table: Path) -> None:
    with_days(table, 100)
    reader = reader_of(table)
    first = reader.latestOffset(START, BOUNDED)
    assert len(first["marks"]) == 100
    commit(table, [20 * DAY_SECONDS + 1, 99 * DAY_SECONDS + 1])
    second = latest(reader, first)
    assert list(second["before"]) == [str(day * DAY_SECONDS * 1_000_000) for day in (20, 99)]
    assert len(second["marks"]) == NEWEST_COUNT + 1
    assert len(json.dumps(second)) < 5_000
    assert between(table, first, second) == [20 * DAY_SECONDS + 1, 99 * DAY_SECONDS + 1]
    commit(table, [5 * DAY_SECONDS + 1])
    third = latest(reader, second)
    assert between(table, second, third) == [5 * DAY_SECONDS + 1]
    with pytest.raises(NotAppendedError, match="the offset of version 3 does not follow 1"):
        between(table, first, third)
    reader.stop()
    commit(table, [101 * DAY_SECONDS])
    fourth = latest(reader_of(table), third)
    assert between(table, third, fourth) == [101 * DAY_SECONDS]


@pytest.mark.nightly
@pytest.mark.parametrize("day", [5, 20.5], ids=["grown", "new"])
def test_old_partition_that_changed_while_no_stream_ran_ends_it(table: Path, day: float) -> None:
    commit(table, [number * DAY_SECONDS for number in range(100) if number != 20])
    start = latest(reader_of(table), START)
    commit(table, [99 * DAY_SECONDS + 1])
    offset = latest(reader_of(table), start)
    commit(table, [int(day * DAY_SECONDS) + 1])
    with pytest.raises(NotAppendedError, match="some were changed, added or dropped while the stream did not run"):
        latest(reader_of(table), offset)
    end = latest(reader_of(table, changes="skip"), offset)
    commit(table, [99 * DAY_SECONDS + 2])
    assert between(table, end, latest(reader_of(table, changes="skip"), end)) == [99 * DAY_SECONDS + 2]


def test_offset_of_the_release_before_is_followed(table: Path) -> None:
    commit(table, range(12))
    marks = latest(reader_of(table), START)["marks"]
    offset = {"version": 1, "partitions": marks}
    commit(table, range(12, 14))
    end = latest(reader_of(table), offset)
    assert between(table, offset, end) == [12, 13]
    assert between(table, {"version": -1, "partitions": {}}, offset) == list(range(12))


@pytest.mark.parametrize(
    "option", [{"where": "v >= 5"}, {"from": "2024-01-01"}, {"version": "1"}, {"splits": "1"}], ids=str
)
def test_option_of_a_table_in_the_catalog_that_a_stream_does_not_have_is_rejected(
    table: Path, option: dict[str, str]
) -> None:
    """The stream left such options out without a word, and returned all rows."""
    commit(table, range(10))
    given = {"start": "latest", "allow_parquet_last": "true", "maxCommitsPerTrigger": "1"}
    reader = TornproofSource({}).streamReader(schema_in_catalog(table, **given))
    assert isinstance(reader, TornproofStreamReader)
    MADE.append(reader)
    assert reader.initialOffset()["version"] == 1
    schema = schema_in_catalog(table, **given, **option)
    with pytest.raises(OptionRejectedError, match=f"there is no option '{next(iter(option))}' for streaming"):
        TornproofSource({}).streamReader(schema)


@pytest.mark.parametrize(
    "options", [{"start": "now"}, {"changes": "ignore"}, {"from": "2024-01-01"}, {"maxCommitsPerTrigger": "0"}], ids=str
)
def test_option_that_a_stream_does_not_have_is_rejected(table: Path, options: dict[str, str]) -> None:
    with pytest.raises(OptionRejectedError, match=next(iter(options))):
        reader_of(table, **options)


def run(session: SparkSession, table: Path, folder: Path, **options: str) -> None:
    """Run a stream from its checkpoint until it has all that is committed.

    Spark gives the Python process of a stream ten seconds to start, which cannot be set: on a busy machine the query is
    started again, as its operator would.
    """
    try:
        _run(session, table, folder, options)
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise
        run(session, table, folder, **options)


def _run(session: SparkSession, table: Path, folder: Path, options: dict[str, str]) -> None:
    query = (
        session.readStream.format("tornproof")
        .options(**options)
        .load(str(table))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(HANGS_SECONDS)


@pytest.mark.parametrize("run_count", [2, nightly(3)])
def test_stream_goes_on_from_its_checkpoint_without_a_row_twice_or_lost(
    spark: SparkSession, table: Path, tmp_path: Path, run_count: int
) -> None:
    register(spark)
    for number, seconds in enumerate((range(25), range(25, 40), range(40, 45))[:run_count]):
        commit(table, list(seconds), rewrites=number == 1)
        run(spark, table, tmp_path)
        found = spark.read.parquet(str(tmp_path / "rows")).collect()
        assert sorted(row.v for row in found) == list(range(seconds.stop))
    commit(table, [3], first=100)
    with pytest.raises(StreamingQueryException, match="changed other than by appending"):
        run(spark, table, tmp_path)


@pytest.mark.nightly
def test_spark_takes_so_many_commits_in_each_batch(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    register(spark)
    for first in range(0, 25, 5):
        commit(table, range(first, first + 5))
    run(spark, table, tmp_path, maxCommitsPerTrigger="2")
    offsets = tmp_path / "checkpoint" / "offsets"
    assert sorted(path.name for path in offsets.glob("[0-9]*")) == ["0", "1", "2"]
    assert sorted(row.v for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == list(range(25))
