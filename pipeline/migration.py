"""Migration of many tables: executors make every `_pm`, and the driver alone writes.

So the writer's lock of a table, the checks right before a publication and its crash safety are those of a run in one
process, nothing that a task does needs to be undone when it is tried again, and an executor that outlives a killed
driver has nothing to write.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tornproof.impl.errors import StorageError
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Conversion, convert_partition
from tornproof.impl.migrate.table_migration import TablePlan
from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.pipeline.spark.progress import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work: TypeAlias = tuple[Table, Partition]
WAVE_PARTITIONS = 1024
"""Their `_pm` are in the driver's memory at one time, as far as they are not written yet."""
TASKS_PER_SLOT = 8
"""In a wave: partitions take unequal time, and each task costs some 10 ms beside its own work."""


def convert_tables(
    spark: SparkSession,
    plans: Sequence[TablePlan],
    mode: ConversionMode,
    *,
    keeps_sound: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Conversion]:
    """Yield what becomes of each partition of the plans, in their order; a job converts a wave of them.

    `progress` is told how many are converted. Raises what PySpark raises when a job fails.
    """
    work = _work_of(plans)
    slots = spark.sparkContext.defaultParallelism
    converted_count = 0
    while wave := list(itertools.islice(work, WAVE_PARTITIONS)):
        tasks = spark.sparkContext.parallelize(wave, min(len(wave), slots * TASKS_PER_SLOT))
        conversions = tasks.mapPartitions(partial(convert_all, mode=mode, keeps_sound=keeps_sound))
        reported = partial(_tell, progress, converted_count, len(wave))
        yield from watched(spark, conversions.collect, reported)
        converted_count += len(wave)
        progress(converted_count)


def convert_all(work: Iterator[Work], *, mode: ConversionMode, keeps_sound: bool) -> Iterator[Conversion]:
    """Yield what becomes of each partition; raises StorageError where this machine does not see its table."""
    for table, partition in work:
        if table.storage.kind(f"{table.path}/{TXN_FILE}") is not EntryKind.FILE:
            raise StorageError(
                file=table.path,
                operation="convert on an executor",
                reason="it does not see the table; all need the same file system at the same path",
            )
        yield convert_partition(table, partition, mode, keeps_sound=keeps_sound)


def _work_of(plans: Sequence[TablePlan]) -> Iterator[Work]:
    for plan in plans:
        # Executors have another working directory.
        table = replace(plan.table, path=str(Path(plan.table.path).absolute()))
        for partition in plan.partitions:
            yield table, partition


def _tell(progress: Callable[[int], None], before: int, wave_count: int, done_tasks: int, task_count: int) -> None:
    progress(before + wave_count * done_tasks // max(1, task_count))
