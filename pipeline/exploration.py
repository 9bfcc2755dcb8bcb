"""An exploration on Spark: executors run its tasks, and it comes to the same as in processes of this machine.

The question is broadcast, so what is in it reaches the executors; programs that it names must be installed there.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from tornproof.harness.common.verdict import Phase, always
from tornproof.harness.parallel.tasks import Exploration, phase_of
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.pipeline.spark.progress import OnTasks, watched

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

_DONE = "task long, result binary"
_WORKERS: dict[str, Worker] = {}
"""The worker of the exploration that this process of an executor has run tasks of, with what it has made once."""


def explore_on_spark(
    spark: SparkSession,
    exploration: Exploration,
    question: Any,
    on_tasks: OnTasks = lambda done, total: None,
) -> Phase:
    """Run the tasks of an exploration on Spark, and return its phase; raises what Spark and the exploration raise."""
    sent, name = spark.sparkContext.broadcast(question), uuid4().hex
    try:
        return phase_of(exploration, lambda tasks: _run_tasks(spark, sent, name, on_tasks, tasks))
    finally:
        sent.unpersist()


def _run_tasks(
    spark: SparkSession, question: Broadcast[Any], name: str, on_tasks: OnTasks, tasks: Sequence[Task]
) -> list[Any]:
    """Return what the tasks return, in their order."""
    if not tasks:
        return []
    sent = spark.sparkContext.broadcast(tasks)
    try:
        indexes = spark.range(0, len(tasks), 1, len(tasks))
        done = watched(spark, indexes.mapInArrow(partial(_work_on, question, sent, name), _DONE).collect, on_tasks)
    finally:
        sent.unpersist()
    by_index = {row.task: pickle.loads(row.result) for row in done}
    return [by_index[index] for index in range(len(tasks))]


def _work_on(
    question: Broadcast[Any], sent: Broadcast[Sequence[Task]], name: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the tasks whose indexes come in batches, and yield what they return."""
    for batch in batches:
        for index in batch.column(0).to_pylist():
            with tempfile.TemporaryDirectory(prefix="tornproof-") as scratch:
                worker = _worker(question, name, Path(scratch))
                task = sent.value[index]
                result = pickle.dumps(task.run(worker, *task.arguments))
            yield pa.record_batch({"task": pa.array([index]), "result": pa.array([result], pa.binary())})


def _worker(question: Broadcast[Any], name: str, scratch: Path) -> Worker:
    if name not in _WORKERS:
        _WORKERS.clear()
        _WORKERS[name] = Worker(question=question.value, scratch=scratch, has_time=always)
    _WORKERS[name].scratch = scratch
    return _WORKERS[name]
