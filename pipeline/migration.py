"""Migration of many tables: executors convert every `_pm`, and only the driver writes.

So the writer's lock of a table, the checks right before publication and crash safety are the same as in one process,
a task that is retried has nothing to undo, and an executor that outlives a killed driver writes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, chdir, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Conversion, convert_partition
from tornproof.impl.migrate.plan import rejection
from tornproof.impl.migrate.table_migration import TablePlan
from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.pipeline.spark.session import JobFailedError, slot_count
from tornproof.pipeline.spark.tasks import run_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work: TypeAlias = tuple[Table, Partition]
WAVE_PARTITIONS = 1024
"""Partitions per Spark job; their `_pm` are in the driver's memory until they are written."""
TASKS_PER_SLOT = 8
"""Tasks of a wave per core: partitions take unequal time, and each task has an overhead of some 10 ms."""


def convert_tables(
    spark: SparkSession,
    plans: Iterable[TablePlan],
    mode: ConversionMode,
    *,
    keeps_sound: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Conversion]:
    """Yield the conversion of each partition of the plans, in order; a job converts a wave of them.

    `progress` is called with the number converted so far. Raises what PySpark raises when a job fails, and
    JobFailedError if an executor does not see a table that is there.
    """
    work = _work_of(plans)
    converted_count = 0
    while wave := list(itertools.islice(work, WAVE_PARTITIONS)):
        convert = partial(convert_one, wave, Path.cwd(), mode, keeps_sound)
        on_tasks = partial(_report, progress, converted_count, len(wave))
        task_count = slot_count(spark) * TASKS_PER_SLOT
        # Without a name, the `_pm` of this wave are gone before the next one has its own.
        yield from map(_settled, wave, run_each(spark, len(wave), convert, task_count=task_count, on_tasks=on_tasks))
        converted_count += len(wave)
        progress(converted_count)


def convert_one(
    wave: Sequence[Work], directory: Path, mode: ConversionMode, keeps_sound: bool, number: int
) -> Conversion | None:
    """Return the conversion of a partition, as a process in that directory makes it, None if it does not see the table.

    Nothing is raised then: whoever removes one table must not end the job for all.
    """
    table, partition = wave[number]
    with ExitStack() as stack:
        # Paths stay as they were given, because they are in results and in errors.
        with suppress(OSError):
            stack.enter_context(chdir(directory))
        return convert_partition(table, partition, mode, keeps_sound=keeps_sound) if _sees(table) else None


def _settled(work: Work, conversion: Conversion | None) -> Conversion:
    """Return the conversion of a partition, or the rejection of one whose table the driver does not see either."""
    if conversion is not None:
        return conversion
    table, partition = work
    if _sees(table):
        raise JobFailedError(
            f"{Path(table.path).absolute()}: cannot convert on an executor: it does not see the table; all need the "
            "same file system at the same path"
        )
    gone = FileMissingError(file=table.path, operation="convert", reason="it was removed meanwhile")
    return rejection(table.directory_of(partition), partition.token, gone)


def _sees(table: Table) -> bool:
    """Return whether this process sees a table; of one that it cannot look at, the conversion says why."""
    with suppress(StorageError):
        return table.storage.kind(f"{table.path}/{TXN_FILE}") is EntryKind.FILE
    return True


def _work_of(plans: Iterable[TablePlan]) -> Iterator[Work]:
    for plan in plans:
        for partition in plan.partitions:
            yield plan.table, partition


def _report(progress: Callable[[int], None], before: int, wave_count: int, done_tasks: int, task_count: int) -> None:
    progress(before + wave_count * done_tasks // max(1, task_count))
