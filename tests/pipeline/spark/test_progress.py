"""Watching a job on Spark: its result or its error, counts while it runs, and an end to it when it is interrupted."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from depth import nightly
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tornproof.pipeline.spark.progress import watched
from tornproof.pipeline.spark.tasks import begin_task

STILL_SECONDS = 0.6
BEAT_COUNT = 600


def ignore(done: int, count: int) -> None:
    pass


def test_value_is_that_of_the_action(spark: SparkSession) -> None:
    assert watched(spark, lambda: spark.range(7).count(), ignore) == 7


def test_exception_is_that_of_the_action(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError):
        watched(spark, lambda: 1 // 0, ignore)


def test_exception_of_a_worker_has_its_message(spark: SparkSession) -> None:
    def fail(number: int) -> int:
        raise ValueError(f"number {number} is wrong")

    with pytest.raises(PythonException, match="number 0 is wrong"):
        watched(spark, lambda: spark.sparkContext.parallelize([0], 1).map(fail).collect(), ignore)


@pytest.mark.nightly
def test_counts_are_those_of_all_stages_so_far(spark: SparkSession) -> None:
    def slow(pair: tuple[int, int]) -> tuple[int, int]:
        time.sleep(0.3)
        return pair

    reported: list[tuple[int, int]] = []
    pairs = [(number % 2, number) for number in range(4)]
    tasks = spark.sparkContext.parallelize(pairs, 4).map(slow).reduceByKey(max, 3).map(slow)
    watched(spark, tasks.collect, lambda *counts: reported.append(counts))
    assert reported == sorted(reported)
    assert reported[-1] == (7, 7)
    assert any(done < count for done, count in reported)


@pytest.mark.parametrize("kind", ["rdd", nightly("query")])
def test_interrupt_ends_the_job(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    def beat(name: str) -> None:
        for count in range(BEAT_COUNT):
            Path(name).write_text(str(count))
            time.sleep(0.1)

    def beat_in_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()  # as every function that runs in workers of the session of all tests
        for batch in batches:
            beat(batch.column(0)[0].as_py())
            yield batch

    file = tmp_path / "beats"

    def interrupt_when_it_runs(done: int, count: int) -> None:
        if file.exists():
            raise KeyboardInterrupt

    rows = spark.createDataFrame([(str(file),)], "name string")
    actions: dict[str, Callable[[], object]] = {
        "rdd": spark.sparkContext.parallelize([str(file)], 1).map(beat).collect,
        "query": rows.mapInArrow(beat_in_arrow, "name string").collect,
    }
    with pytest.raises(KeyboardInterrupt):
        watched(spark, actions[kind], interrupt_when_it_runs)
    demand_still(file)
    assert spark.sparkContext.statusTracker().getActiveStageIds() == []


def demand_still(file: Path) -> None:
    """What the worker writes changes no more, long before the worker would have ended by itself."""
    last, now = "", file.read_text()
    while now != last:
        time.sleep(STILL_SECONDS)
        last, now = now, file.read_text()
    assert int(now or 0) < BEAT_COUNT - 1
