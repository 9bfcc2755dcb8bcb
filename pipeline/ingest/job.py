"""Ingest of telemetry files into a time-partitioned table: executors read and encode, the driver commits once.

All machines need the same file system at the same paths: rows go from readers to encoders through sorted runs in the
table's `_archive`, and encoders write the files of partitions for the commit.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import StorageError
from tornproof.impl.storage.file_pieces import pieces_of
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table, is_left_over
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.partition_names import directory_names, interval_start
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.recovery import remove_directory
from tornproof.pipeline.files import Location, location_of
from tornproof.pipeline.ingest.build import BuildTask, MergeTask, build_partition, merge_partitions
from tornproof.pipeline.ingest.commit import (
    INPROGRESS,
    ArchiveTable,
    has_leftovers,
    ingested,
    open_archive,
    published_file,
    unseen,
)
from tornproof.pipeline.ingest.schema import (
    ArchiveSchema,
    Keys,
    SchemaRejectedError,
    infer_columns,
    infer_schema,
    schema_of_table,
)
from tornproof.pipeline.ingest.settings import ArchiveReport, ArchiveSettings
from tornproof.pipeline.ingest.source import digest_of, sample_frames, task_groups
from tornproof.pipeline.ingest.spill import Reading, Run, SortedRuns, SourceLines, by_partition
from tornproof.pipeline.spark.session import executor_core_count, slot_count
from tornproof.pipeline.spark.tasks import run_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Given = TypeVar("Given")
Made = TypeVar("Made")
OnStage: TypeAlias = Callable[[str, int, int], None]
"""Called with the current stage, the tasks done, and the tasks in total."""
COPY_ROWS = 1 << 20
LATE_BYTES_MAX = 64 << 20
"""Late rows in the driver's memory, as Arrow holds them; tasks merge the others."""
TOKEN_BYTES = 8
"""Of what tells a run from all others in the names of its temporary files."""


def run_archive(
    spark: SparkSession,
    paths: Sequence[str],
    table_path: str,
    settings: ArchiveSettings,
    *,
    on_stage: OnStage = lambda what, done, total: None,
) -> ArchiveReport:
    """Add the rows of files to a table, which is created if it does not exist; nothing is added twice.

    Raises SchemaRejectedError, SourceUnreadableError, UnsettledRunError, and what a table's writer raises; the table is
    unchanged then, or has a new version with all rows of this run.
    """
    # Executors have other working directories.
    return _Job(spark, str(Path(table_path).absolute()), settings, on_stage).run(paths)


@dataclass(slots=True)
class _Job:
    spark: SparkSession
    path: str
    settings: ArchiveSettings
    on_stage: OnStage
    storage: Storage = field(default_factory=OperatingSystemStorage)
    token: str = field(default_factory=partial(secrets.token_hex, TOKEN_BYTES))

    def run(self, paths: Sequence[str]) -> ArchiveReport:
        table = self._existing_table()
        if table and not self.settings.dry_run and has_leftovers(self.storage, self.path):
            # At once, even if no file is new: after a commit of another writer nobody could decide about a pending run.
            with self._opened():
                pass
        digests = self._on_executors("hashing files", digest_of, [*map(location_of, paths)], groups=task_groups(paths))
        found = dict(zip(paths, digests, strict=True))
        new, skipped = unseen(found, ingested(self.storage, self.path) if table else ())
        if not new:
            version = table.transaction().version if table else None
            return ArchiveReport(schema=None, sources=(), skipped=skipped, version=version)
        schema = self._schema(list(new), table)
        if self.settings.dry_run:
            sources = self._read(new, schema, table, None)
            return ArchiveReport(schema=schema, sources=sources, skipped=skipped, version=None)
        if table is None:
            columns = [NewColumn(name=column.name, type=column.type) for column in schema.columns]
            by = self.settings.partition_by
            create_table(self.storage, self.path, columns, timestamp=schema.timestamp, partition_by=by)
        with self._opened() as archive:
            # Another run may have been committed in between.
            new, skipped = unseen(found, archive.entries)
            try:
                return self._add(archive, new, skipped, schema)
            finally:
                self._clear(archive)

    def _existing_table(self) -> Table | None:
        """Return the table, or None if it is still to be created; raises NotATableError for a foreign directory."""
        # What a killed run left while it created the table is no table yet, and `create_table` takes it.
        is_new = self.storage.kind(self.path) is EntryKind.MISSING or is_left_over(self.storage, self.path)
        return None if is_new else open_table(self.storage, self.path)

    def _opened(self) -> AbstractContextManager[ArchiveTable]:
        return open_archive(
            self.storage,
            self.path,
            self.settings.options,
            force=self.settings.force,
            allow_parquet_last=self.settings.allow_parquet_last,
        )

    def _add(
        self, archive: ArchiveTable, new: Mapping[str, str], skipped: Mapping[str, str], schema: ArchiveSchema
    ) -> ArchiveReport:
        if not new:
            return ArchiveReport(schema=None, sources=(), skipped=skipped, version=archive.transaction.version)
        self.storage.mkdir(archive.spool_path)
        sources = self._read(new, schema, archive.table, archive.spool_path)
        runs = by_partition(sources)
        metadata = archive.table.metadata
        assert metadata is not None
        by = metadata.partition_by
        starts = {interval_start(each.timestamp, by, nanoseconds=False) for each in archive.transaction.partitions}
        fresh = {start: group for start, group in runs.items() if start not in starts}
        grown = {start: group for start, group in runs.items() if start in starts}
        in_place = grown_in_place(grown)
        prepared = self._build(metadata, schema, fresh)
        prepared += self._merge(metadata, {start: group for start, group in grown.items() if start not in in_place})
        rejects_path = self._keep_rejects(sources, archive)
        entry = archive.publish(
            sources=[_document(each) for each in sources],
            keys={column.name: column.keys for column in schema.columns if not column.assumed},
            prepared=prepared,
            rows=self._rows(in_place, schema),
        )
        return ArchiveReport(
            schema=schema,
            sources=sources,
            skipped=skipped,
            version=entry.version,
            new_partitions=tuple(_name(start, by) for start in fresh),
            grown_partitions=tuple(_name(start, by) for start in grown),
            rejects_path=rejects_path,
        )

    def _schema(self, paths: Sequence[str], table: Table | None) -> ArchiveSchema:
        """Return the columns: given, or inferred from a sample; those of the table if it exists."""
        given = self.settings.schema
        sample = sample_frames(paths, self.settings.sample_lines)
        if table is None:
            return given or infer_schema(sample, self.settings.timestamp)
        if table.metadata is None:
            raise SchemaRejectedError(f"{self.path}: the table has no _meta, so its columns are not known")
        recorded: dict[str, Keys] = {}
        for entry in ingested(self.storage, self.path):
            recorded |= {name: tuple(keys) for name, keys in entry.keys.items()}
        told = {column.name: column.keys for column in (given.columns if given else infer_columns(sample))}
        known = recorded | told if given else told | recorded
        schema = schema_of_table(table.metadata, known, self.settings.timestamp)
        types = {column.name: column.type for column in schema.columns}
        for column in given.columns if given else ():
            if types.get(column.name) != column.type:
                raise SchemaRejectedError(f"column {column.name!r} of the schema is none of the table's of that type")
        return schema

    def _read(
        self, new: Mapping[str, str], schema: ArchiveSchema, table: Table | None, directory: str | None
    ) -> tuple[SourceLines, ...]:
        metadata = table.metadata if table else None
        by = metadata.partition_by if metadata else self.settings.partition_by
        reading = Reading(schema=schema, partition_by=by, directory=directory)
        work = [(location_of(path), digest, f"{number:06d}") for number, (path, digest) in enumerate(new.items())]
        read = partial(_read_one, reading, self.token)
        return tuple(self._on_executors("reading files", read, work, groups=task_groups(list(new))))

    def _build(
        self, metadata: TableMetadata, schema: ArchiveSchema, fresh: Mapping[int, Sequence[Run]]
    ) -> list[PreparedPartition]:
        slots = slot_count(self.spark)
        # All threads of a task run in one worker, on the cores that its executor has.
        thread_count = max(1, min(slots // max(1, len(fresh)), executor_core_count(self.spark)))
        tasks = [
            BuildTask(
                timestamp=start,
                runs=tuple(runs),
                directory=f"{self.path}/{_name(start, metadata.partition_by)}",
                table_name=self._table_name,
                metadata=metadata,
                timestamp_name=schema.timestamp,
                options=self.settings.options,
                thread_count=thread_count,
            )
            for start, runs in fresh.items()
        ]
        return self._on_executors("encoding partitions", partial(_build_one, self.storage, self.token), tasks)

    def _merge(self, metadata: TableMetadata, grown: Mapping[int, Sequence[Run]]) -> list[PreparedPartition]:
        tasks = [
            MergeTask(
                table_path=self.path,
                runs=tuple(runs),
                directory=f"{self.path}/{_name(start, metadata.partition_by)}",
                options=self.settings.options,
            )
            for start, runs in grown.items()
        ]
        merged = self._on_executors("merging late rows", partial(_merge_some, self.storage, self.token), tasks)
        return list(itertools.chain.from_iterable(merged))

    def _rows(self, grown: Mapping[int, Sequence[Run]], schema: ArchiveSchema) -> Iterator[pa.Table]:
        for runs in grown.values():
            with SortedRuns(runs, schema.timestamp) as rows:
                # Copied, because the rows must outlive the mapping until the commit.
                yield from map(_copied, rows.slices(COPY_ROWS))

    def _keep_rejects(self, sources: Sequence[SourceLines], archive: ArchiveTable) -> str:
        """Write the rejects of all sources into one file, before the commit."""
        paths = [each.rejects_path for each in sources if each.rejects_path]
        if not paths:
            return ""
        asked = self.settings.rejects_directory
        target = archive.rejects_path(None if asked is None else str(Path(asked).absolute()))
        directory, _, name = target.rpartition("/")
        with published_file(self.storage, directory, name, "") as file:
            end = 0
            for path in paths:
                with self.storage.open_for_reading(path) as source:
                    for _, piece in pieces_of(source):
                        file.pwrite(piece, end)
                        end += len(piece)
        return target

    def _clear(self, archive: ArchiveTable) -> None:
        """Remove temporary files of this run; the next run removes those that remain."""
        with suppress(StorageError):
            if self.storage.kind(archive.spool_path) is EntryKind.DIRECTORY:
                remove_directory(self.storage, archive.spool_path)
            for name in self.storage.listdir(self.path):
                if name.endswith(INPROGRESS):
                    remove_directory(self.storage, f"{self.path}/{name}")

    def _on_executors(
        self,
        what: str,
        work: Callable[[Given], Made],
        given: Sequence[Given],
        *,
        groups: Sequence[Sequence[int]] | None = None,
    ) -> list[Made]:
        """Return the result for each item, in order; a task handles one item, or a group of indices in `groups`."""
        if not given:
            return []
        indices = groups or [[index] for index in range(len(given))]
        grouped = [[given[index] for index in group] for group in indices]
        self.on_stage(what, 0, len(grouped))
        on_tasks = partial(self.on_stage, what)
        results = run_each(self.spark, len(grouped), partial(_each, work, grouped), on_tasks=on_tasks)
        return list(itertools.chain.from_iterable(results))

    @property
    def _table_name(self) -> str:
        return self.path.rpartition("/")[2]


def grown_in_place(grown: Mapping[int, Sequence[Run]]) -> dict[int, Sequence[Run]]:
    """Return the late rows with which the commit makes partitions grow in place, which must fit in its memory.

    These are the fewest of each, because a task that merges writes all rows of a partition anew.
    """
    by_size = sorted(grown.items(), key=lambda each: (sum(run.size_bytes for run in each[1]), each[0]))
    ends = itertools.accumulate(sum(run.size_bytes for run in runs) for _, runs in by_size)
    small = [each for each, end in zip(by_size, ends, strict=True) if end <= LATE_BYTES_MAX]
    return dict(sorted(small))


def _name(start: int, by: PartitionBy) -> str:
    (name,) = directory_names(start, -1, by, nanoseconds=False)
    return name


def _document(source: SourceLines) -> dict[str, Any]:
    return {
        "file": source.path,
        "digest": source.digest,
        "lines": source.line_count,
        "rows": source.row_count,
        "blank": source.blank_count,
        "rejects": dict(source.reject_counts),
    }


def _each(work: Callable[[Given], Made], groups: Sequence[Sequence[Given]], number: int) -> list[Made]:
    return [work(each) for each in groups[number]]


def _attempt(token: str) -> str:
    """Return what no other attempt at a task is called, also of another run.

    Spark numbers attempts from 0 in each run, and a task may outlive the driver of its own.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return f"{token}-{0 if context is None else context.taskAttemptId()}"


def _read_one(reading: Reading, token: str, work: tuple[Location, str, str]) -> SourceLines:
    path, digest, number = work
    return reading.read(path, digest, f"{number}.{_attempt(token)}")


def _build_one(storage: Storage, token: str, task: BuildTask) -> PreparedPartition:
    return build_partition(storage, task, _attempt(token))


def _merge_some(storage: Storage, token: str, task: MergeTask) -> list[PreparedPartition]:
    return merge_partitions(storage, task, _attempt(token))


def _copied(rows: pa.Table) -> pa.Table:
    return rows.take(np.arange(rows.num_rows))
