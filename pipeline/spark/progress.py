"""Watching a job: its action runs in another thread, while this one reports progress and handles Ctrl-C."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tornproof.pipeline.spark.session import demand_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
OnTasks: TypeAlias = Callable[[int, int], None]
"""Called with the tasks done, and the tasks in total, of the stages begun so far."""
POLL_SECONDS = 0.2
CANCEL_SECONDS = 10
_NUMBERS = itertools.count()


def watched(spark: SparkSession, action: Callable[[], T], on_tasks: OnTasks) -> T:
    """Return what an action on Spark returns, or raise what it raises; when interrupted, cancel its jobs first.

    Raises PipelineUnavailableError on Spark Connect: only the classic API says how many tasks are done.
    """
    from pyspark import InheritableThread

    demand_classic(spark)
    tag = f"tornproof-{next(_NUMBERS)}"
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            # `interruptTag` of the session has returned before the tasks of a query had ended.
            spark.sparkContext.addJobTag(tag)
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = InheritableThread(target=run, session=spark, daemon=True)
    thread.start()
    stages: set[int] = set()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            _report(spark, stages, on_tasks)
    except BaseException:
        spark.sparkContext.cancelJobsWithTag(tag)
        thread.join(CANCEL_SECONDS)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _report(spark: SparkSession, stages: set[int], on_tasks: OnTasks) -> None:
    """Report the counts of all stages seen so far, after adding the active ones."""
    tracker = spark.sparkContext.statusTracker()
    stages.update(tracker.getActiveStageIds())
    known = [stage for stage in map(tracker.getStageInfo, sorted(stages)) if stage is not None]
    if known:
        on_tasks(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))
