"""An exploration on Spark: executors run its tasks, and it comes to the same as in processes of this machine.

What is in the question reaches the executors; programs that it names must be installed there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tornproof.harness.common.verdict import Phase, always
from tornproof.harness.parallel.tasks import Exploration, phase_of
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.pipeline.spark.progress import OnTasks
from tornproof.pipeline.spark.tasks import run_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKERS: dict[str, Worker] = {}
"""The worker of the exploration that this process of an executor has run tasks of, with what it has made once."""


def explore_on_spark(
    spark: SparkSession,
    exploration: Exploration,
    question: Any,
    on_tasks: OnTasks = lambda done, total: None,
) -> Phase:
    """Run the tasks of an exploration on Spark, and return its phase; raises what Spark and the exploration raise."""
    name = uuid4().hex

    def run_tasks(tasks: Sequence[Task]) -> list[Any]:
        return run_each(spark, len(tasks), partial(_run_task, question, name, tasks), on_tasks=on_tasks)

    return phase_of(exploration, run_tasks)


def _run_task(question: Any, name: str, tasks: Sequence[Task], number: int) -> Any:
    task = tasks[number]
    with tempfile.TemporaryDirectory(prefix="tornproof-") as scratch:
        if name not in _WORKERS:
            _WORKERS.clear()
            _WORKERS[name] = Worker(question=question, scratch=Path(scratch), has_time=always)
        _WORKERS[name].scratch = Path(scratch)
        return task.run(_WORKERS[name], *task.arguments)
