"""An executor's part of publishing: partitions, new ones or with late rows, built under temporary names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from tornproof.impl.chunk.row_group_encoder import EncodedRowGroup
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.table import open_table
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import conform, portions
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.readable_row_groups import readable_row_groups
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.ingest.commit import prepared_path
from tornproof.pipeline.ingest.spill import Run, SortedRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask:
    """A partition to build: its start, the runs with its rows, and its directory.

    The attempt is appended to `directory`; `thread_count` row groups are encoded in parallel.
    """

    timestamp: int
    runs: tuple[Run, ...]
    directory: str
    table_name: str
    metadata: TableMetadata
    timestamp_name: str
    options: WriterOptions
    thread_count: int


def build_partition(storage: Storage, task: BuildTask, attempt: str) -> PreparedPartition:
    """Build a partition in a directory of this attempt; raises RowsRejectedError, StorageError."""
    path = prepared_path(task.directory, attempt)
    with (
        SortedRuns(task.runs, task.timestamp_name) as runs,
        PartitionBuild(storage, path, task.metadata, task.options, table_name=task.table_name) as build,
        ThreadPoolExecutor(task.thread_count) as threads,
    ):
        waiting: deque[Future[list[EncodedRowGroup]]] = deque()

        def encoded(rows: pa.Table) -> list[EncodedRowGroup]:
            return list(readable_row_groups(rows, build.encoded))

        def append_first() -> None:
            for group in waiting.popleft().result():
                build.append(group)

        for rows in row_groups(runs, task.runs, task.options):
            waiting.append(threads.submit(encoded, rows))
            del rows
            if len(waiting) >= task.thread_count:
                append_first()
        while waiting:
            append_first()
        return build.finish(task.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """Late rows for an interval of a table that has partitions already; the attempt is appended to `directory`."""

    table_path: str
    runs: tuple[Run, ...]
    directory: str
    options: WriterOptions


def merge_partitions(storage: Storage, task: MergeTask, attempt: str) -> list[PreparedPartition]:
    """Write each partition of an interval that has late rows, with all its rows, in a directory of this attempt.

    Nobody else commits meanwhile, because the driver is the table's writer. Raises as `prepare_partition` does.
    """
    snapshot = open_snapshot(open_table(storage, task.table_path))
    metadata = snapshot.table.metadata
    assert metadata is not None, "the driver has opened the table for writing"
    (timestamp,) = (column.name for column in metadata.columns if column.id == metadata.timestamp_id)
    with SortedRuns(task.runs, timestamp) as runs:
        # Of several partitions only where a server has split one.
        rows = pa.concat_tables(runs.slices(sum(run.row_count for run in task.runs)))
        rows = conform(rows, snapshot.schema, timestamp, metadata.columns)
        late = portions(rows, timestamp, metadata, snapshot.transaction.partitions)
        return [
            prepare_partition(
                storage, snapshot, portion, prepared_path(f"{task.directory}-{number}", attempt), task.options
            )
            for number, portion in enumerate(late)
        ]


def row_groups(sorted_runs: SortedRuns, runs: Sequence[Run], options: WriterOptions) -> Iterator[pa.Table]:
    """Yield the rows of each row group, as large as the limit of bytes in memory allows."""
    size_bytes_max = options.row_group_size_bytes_max
    assert size_bytes_max is not None
    row_count = sum(run.row_count for run in runs)
    aimed = max(1, size_bytes_max * row_count // max(1, sum(run.size_bytes for run in runs)))
    for rows in sorted_runs.slices(min(aimed, options.row_group_row_count_max)):
        yield from _halves(rows, size_bytes_max)


def _halves(rows: pa.Table, size_bytes_max: int) -> Iterator[pa.Table]:
    if rows.nbytes <= size_bytes_max or rows.num_rows == 1:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _halves(rows.slice(0, middle), size_bytes_max)
    yield from _halves(rows.slice(middle), size_bytes_max)
