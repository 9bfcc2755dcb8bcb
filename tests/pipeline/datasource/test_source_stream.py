"""Streaming read: what commits append arrives once, also after a restart, and other changes are not passed over."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from day_tables import new_table
from depth import nightly
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource.changes import NotAppendedError
from tornproof.pipeline.datasource.options import OptionRejectedError
from tornproof.pipeline.datasource.source import TornproofSource, register
from tornproof.pipeline.datasource.stream import TornproofStreamReader

STORAGE = OperatingSystemStorage()
DAY_SECONDS = 86_400
HANGS_SECONDS = 600
OPTIONS = WriterOptions(row_group_row_count_max=10, rewrite_unused_ratio=1.0)
Offset = dict[str, Any]


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
    start: Offset = {"version": -1, "partitions": {}}
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


def test_rewrite_of_a_table_with_keys_ends_the_stream_because_rows_may_be_replaced(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG}, keys=["ts"])
    reader = reader_of(table)
    commit(table, range(20))
    first = latest(reader, reader.initialOffset())
    commit(table, range(20, 25))
    second = latest(reader, first)
    assert between(table, first, second) == list(range(20, 25))
    commit(table, [5], first=100)
    with pytest.raises(NotAppendedError):
        between(table, second, latest(reader, second))


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


def let_go() -> None:
    from tornproof.pipeline.datasource import pins as source_pins

    for hold in source_pins._HOLDS:
        hold.pin.release()
    source_pins._HOLDS.clear()


def test_stream_that_ends_with_what_is_available_passes_over_later_commits(table: Path) -> None:
    commit(table, range(5))
    reader = reader_of(table)
    reader.prepareForTriggerAvailableNow()
    commit(table, range(5, 8))
    assert between(table, reader.initialOffset(), latest(reader, reader.initialOffset())) == list(range(5))


@pytest.mark.parametrize("options", [{"start": "now"}, {"changes": "ignore"}, {"from": "2024-01-01"}], ids=str)
def test_option_that_a_stream_does_not_have_is_rejected(table: Path, options: dict[str, str]) -> None:
    with pytest.raises(OptionRejectedError, match=next(iter(options))):
        reader_of(table, **options)


def run(session: SparkSession, table: Path, folder: Path) -> None:
    """Run a stream from its checkpoint until it has all that is committed.

    Spark gives the Python process of a stream ten seconds to start, which cannot be set: on a busy machine the query is
    started again, as its operator would.
    """
    try:
        _run(session, table, folder)
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise
        run(session, table, folder)


def _run(session: SparkSession, table: Path, folder: Path) -> None:
    query = (
        session.readStream.format("tornproof")
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
