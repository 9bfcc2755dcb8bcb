"""The data source in a session: what users see of it, also beside a writer and with filters of several queries."""

import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from day_tables import new_table
from depth import nightly
from golden_data import TABLES
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource.metrics import read_metrics
from tornproof.pipeline.datasource.scan import scan
from tornproof.pipeline.datasource.source import pinned, register
from tornproof.pipeline.datasource.types import spark_arrow_schema, to_spark

STORAGE = OperatingSystemStorage()
GROUP_ROW_COUNT = 100
OPTIONS = WriterOptions(row_group_row_count_max=GROUP_ROW_COUNT, rewrite_unused_ratio=1.0)
COMMIT_SECONDS = 0.05
PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
SOME_TABLES = ("tables/9.4.2/types", "tables/2026-07/nanosecond")
"""What Python hands to Spark is compared for all tables without a session; these have all types between them."""


def rows_from(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"ts": pa.array(numbers * 1_000_000, pa.timestamp("us", tz="UTC")), "v": numbers})


def commit(path: Path, rows: pa.Table) -> None:
    with open_writer(STORAGE, str(path), options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows)
        writer.commit()


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG})
    commit(path, rows_from(0, 10 * GROUP_ROW_COUNT))
    return path


def loaded(session: SparkSession, path: Path, **options: str) -> DataFrame:
    return session.read.format("tornproof").options(**options).load(str(path))


@pytest.mark.parametrize("names", [SOME_TABLES, nightly(TABLES)], ids=["some", "all"])
def test_real_tables_reach_spark_as_our_reader_reads_them(
    session: SparkSession, questdb_data: Path, names: Sequence[str]
) -> None:
    for name in names:
        folder = questdb_data / name / "table"
        snapshot = open_snapshot(open_table(STORAGE, str(folder)))
        target = spark_arrow_schema(snapshot.schema)
        expected = pa.Table.from_batches([to_spark(each, target) for each in snapshot.batches()], schema=target)
        found = loaded(session, folder).toArrow()
        assert found.schema.equals(expected.schema), name
        assert found.equals(expected), name


@pytest.mark.nightly
def test_query_without_filters_after_one_with_filters_reads_everything(session: SparkSession, table: Path) -> None:
    frame = loaded(session, table)
    narrow = frame.where("v >= 250 and v < 260")
    assert narrow.count() == 10
    assert frame.count() == 10 * GROUP_ROW_COUNT
    assert narrow.union(frame.where("v = 999")).count() == 11


@pytest.fixture
def pushing(session: SparkSession) -> Iterator[SparkSession]:
    """A session that pushes filters down to sources in Python."""
    session.conf.set(PUSHDOWN_SETTING, "true")
    yield session
    session.conf.unset(PUSHDOWN_SETTING)


def test_times_that_python_does_not_have_may_be_asked_for(session: SparkSession, table: Path) -> None:
    """PySpark converted the literals of every query, also where no filter was pushed down, and failed."""
    frame = loaded(session, table)
    assert frame.where("ts <= timestamp'9999-12-31 23:59:59-05:00'").count() == 10 * GROUP_ROW_COUNT


def test_pushdown_that_the_session_does_not_allow_is_rejected_in_words(session: SparkSession, table: Path) -> None:
    with pytest.raises(AnalysisException, match=f"'{PUSHDOWN_SETTING}' is false. Set it to true"):
        loaded(session, table, pushdown="true").collect()


def test_pushed_filters_leave_row_groups_and_rows_out(pushing: SparkSession, table: Path, tmp_path: Path) -> None:
    frame = loaded(pushing, table, pushdown="true", metrics=str(tmp_path / "m"), splits="100")
    narrow = frame.where("ts >= timestamp'1970-01-01 00:04:10' and ts < timestamp'1970-01-01 00:05:10' and v <> 255")
    assert sorted(row.v for row in narrow.collect()) == [v for v in range(250, 310) if v != 255]
    found = read_metrics(str(tmp_path / "m"))[-1]
    assert (found["row_groups"], found["row_groups_read"], found["row_groups_left_out"]["time"]) == (10, 2, 8)
    assert found["returned_row_count"] == 59
    assert narrow.rdd.getNumPartitions() == 2


def test_number_of_tasks_is_that_of_the_row_groups_where_it_is_asked_for(session: SparkSession, table: Path) -> None:
    assert loaded(session, table, splits="100").rdd.getNumPartitions() == 10
    assert loaded(session, table).rdd.getNumPartitions() == 1


def test_empty_table_has_a_schema_and_no_rows(session: SparkSession, tmp_path: Path) -> None:
    frame = loaded(session, new_table(tmp_path / "t", {"v": TypeTag.LONG}))
    assert (frame.columns, frame.count()) == (["ts", "v"], 0)


def test_errors_hold_one_clear_sentence(session: SparkSession, table: Path) -> None:
    with pytest.raises(AnalysisException, match="missing: not a table: there is nothing at this path"):
        loaded(session, table.parent / "missing")
    with pytest.raises(AnalysisException, match="there is no column 'q'; the table has ts, v"):
        loaded(session, table, columns="q")
    data = table / "1970-01-01.0" / DATA_FILE
    content = data.read_bytes()
    data.write_bytes(content[:4] + bytes(100) + content[104:])
    with pytest.raises(PythonException, match=r"CorruptError: 1970-01-01\.0/data\.parquet: .*expected .*, found "):
        loaded(session, table).collect()


def write_until(stop: Event, path: str) -> None:
    """Append, merge, rewrite and purge, a commit every 50 ms; all rows of a commit have its number in `v`."""
    for number in itertools.count(1):
        if stop.is_set():
            return
        begin = time.monotonic()
        with open_writer(OperatingSystemStorage(), path, options=OPTIONS, allow_parquet_last=True) as writer:
            numbers = np.full(GROUP_ROW_COUNT, number)
            seconds = (number // 4 if number % 4 else 0) * GROUP_ROW_COUNT + np.arange(GROUP_ROW_COUNT)
            times = pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC"))
            writer.write(pa.table({"ts": times, "v": numbers}))
            if number % 7 == 0:
                writer.rewrite_partition(0)
            writer.commit()
            if number % 14 == 0:
                writer.purge()
        time.sleep(max(0.0, COMMIT_SECONDS - (time.monotonic() - begin)))


@pytest.fixture
def busy_table(tmp_path: Path) -> Iterator[Path]:
    """A table with a process that commits to it; a version holds as many rows of each number up to its own."""
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG})
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writer = context.Process(target=write_until, args=(stop, str(path)), daemon=True)
    writer.start()
    yield path
    stop.set()
    writer.join()
    assert writer.exitcode == 0


@pytest.mark.nightly
@pytest.mark.parametrize("reader_count", [3, 10])
@pytest.mark.parametrize("by", ["source", "scan"])
def test_reads_beside_a_writer_see_one_committed_version_each(
    session: SparkSession, busy_table: Path, tmp_path: Path, reader_count: int, by: str
) -> None:
    def wait_for(version: int) -> None:
        while open_table(STORAGE, str(busy_table)).transaction().version < version:
            time.sleep(COMMIT_SECONDS)

    def read(number: int) -> tuple[int, int, int, int]:
        wait_for(5 + 4 * number)
        if by == "scan":
            with scan(session, str(busy_table)) as frame:
                count, total, numbers = summed(frame)
            return numbers, count, total, numbers
        folder = str(tmp_path / f"m{number}")
        # However many versions are committed and purged while Spark reads.
        with pinned(str(busy_table)) as pin:
            assert pin.is_held
            count, total, numbers = summed(loaded(session, busy_table, metrics=folder, splits="4"))
        return read_metrics(folder)[-1]["version"], count, total, numbers

    def summed(frame: DataFrame) -> tuple[int, int, int]:
        (row,) = frame.selectExpr("count(*)", "sum(v)", "count(distinct v)").collect()
        return row[0], row[1], row[2]

    with ThreadPoolExecutor(reader_count) as pool:
        seen = list(pool.map(read, range(reader_count)))
    wait_for(seen[0][0] + 1)
    seen.append(read(reader_count))
    for version, count, total, numbers in seen:
        expected = GROUP_ROW_COUNT * version
        assert (count, total, numbers) == (expected, expected * (version + 1) // 2, version)
    assert len({version for version, *_ in seen}) > 1
