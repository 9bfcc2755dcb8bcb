"""Work on numbered pieces in tasks of Spark, by the DataFrame API alone; what it returns comes back pickled.

What the work needs is in the function itself: Spark broadcasts a function that is large.
"""

from __future__ import annotations

import functools
import math
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from tornproof.harness.common.without_pandas import hide_pandas
from tornproof.pipeline.spark.progress import OnTasks, watched
from tornproof.pipeline.spark.session import WITHOUT_PANDAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Work: TypeAlias = Callable[[int], T]
Merge: TypeAlias = Callable[[T, T], T]
_RETURNED = "number long, result binary"


def run_each(
    spark: SparkSession,
    count: int,
    work: Work[T],
    *,
    task_count: int | None = None,
    on_tasks: OnTasks = lambda done, total: None,
) -> list[T]:
    """Return what `work` returns for each number below `count`, in their order; a task takes neighbours."""
    if count == 0:
        return []
    frame = _numbers(spark, count, task_count).mapInArrow(partial(_work_on, work), _RETURNED)
    rows = watched(spark, frame.collect, on_tasks)
    return [pickle.loads(row.result) for row in sorted(rows, key=lambda row: row.number)]


def fold_each(
    spark: SparkSession, count: int, work: Work[T], *, task_count: int, on_tasks: OnTasks = lambda done, total: None
) -> Iterator[T]:
    """Yield what `work` returns for each number below `count`, in their order, one at a time.

    Executors keep the results until the driver takes them, so that it never has all.
    """
    if count:
        yield from folded(_numbers(spark, count, task_count).mapInArrow(partial(_work_on, work), _RETURNED), on_tasks)


def folded(frame: DataFrame, on_tasks: OnTasks = lambda done, total: None) -> Iterator[Any]:
    """Yield the results, which tasks have pickled into a column `result`, one at a time in the order of tasks."""
    from pyspark import StorageLevel

    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        watched(kept.sparkSession, kept.count, on_tasks)
        for row in kept.toLocalIterator():
            yield pickle.loads(row.result)
    finally:
        kept.unpersist()


def merge_each(spark: SparkSession, count: int, work: Work[T], merge: Merge[T], *, task_count: int) -> T | None:
    """Return what `merge` makes of what `work` returns for each number, in any order; None for no number.

    Tasks merge what they have, and then some of them what is left, so that the driver merges the root of it.
    """
    if count == 0:
        return None
    # Work and its merge are one function: each function has Python processes of its own, which start and import.
    tasks = _numbers(spark, count, task_count).mapInArrow(partial(_work_and_merge, work, merge), _RETURNED)
    some = tasks.repartition(math.isqrt(task_count) + 1).mapInArrow(partial(_merge_some, merge), _RETURNED)
    rows = watched(spark, some.collect, lambda done, total: None)
    results: list[T] = [pickle.loads(row.result) for row in rows]
    return functools.reduce(merge, results)


def begin_task() -> None:
    """Keep pandas out of a worker of a session of ours, before Arrow converts its first array.

    Arrow would import it, which takes a worker longer than a slice of a history; no task of ours needs it.
    """
    if os.environ.get(WITHOUT_PANDAS) == "1" and "pandas" not in sys.modules:
        hide_pandas()


def _numbers(spark: SparkSession, count: int, task_count: int | None) -> DataFrame:
    return spark.range(0, count, 1, min(count, task_count or count))


def _work_on(work: Work[Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task()
    for number in _cells(batches, 0):
        yield _row(number, work(number))


def _work_and_merge(work: Work[Any], merge: Merge[Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task()
    yield from _merged(merge, (work(number) for number in _cells(batches, 0)))


def _merge_some(merge: Merge[Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task()
    yield from _merged(merge, (pickle.loads(result) for result in _cells(batches, 1)))


def _merged(merge: Merge[Any], results: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    first = next(results, None)
    if first is not None:
        yield _row(0, functools.reduce(merge, results, first))


def _cells(batches: Iterable[pa.RecordBatch], column: int) -> Iterator[Any]:
    for batch in batches:
        yield from batch.column(column).to_pylist()


def _row(number: int, result: object) -> pa.RecordBatch:
    from pyspark import cloudpickle

    # As Spark itself does, so that results may have classes that no module has.
    pickled: bytes = cloudpickle.dumps(result)  # type: ignore[no-untyped-call]
    content = pa.array([pickled], pa.binary())
    return pa.record_batch({"number": pa.array([number], pa.int64()), "result": content})
