"""`df.write.format("tornproof").mode("append").save(TABLE)`: all rows of a job become one commit, or none do.

Tasks write their rows into a folder of the job, which readers ignore; only `commit` opens the table's writer. Spark
creates the writer, commits and aborts in different processes, which share state only through that folder.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tornproof.impl.errors import NotATableError, ParquetLastError, RowsRejectedError, TornproofError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.indexed_columns import reject_indexed
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE, safe_read
from tornproof.impl.write.table_writer import TableWriter, open_writer, reject_if_served
from tornproof.pipeline.datasource.types import from_spark

WRITE_OPTIONS = frozenset({"path", "staging", "force", "allow_parquet_last"})
STAGING_PREFIX = "_staging-"
INTENT_FILE = "commit.json"


class CommitUnclearError(TornproofError):
    """A failed commit whose version may exist; the message says what is known."""


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """The rows staged by a task: its file in the job's folder, and the row count."""

    file: str
    row_count: int


class TornproofWriter(DataSourceArrowWriter):
    """Stages the rows of one job and commits them at once."""

    def __init__(
        self,
        path: str,
        schema: StructType,
        staging: str | None,
        overwrite: bool,
        *,
        force: bool = False,
        allow_parquet_last: bool = False,
    ) -> None:
        """Check that the table accepts such rows, and create the job's folder.

        Raises NotATableError, IndexedColumnError, ParquetLastError, RowsRejectedError for unknown columns and for a
        missing designated timestamp, and BusyError, without `force`, if a server on this machine has the table open.
        """
        if not force:
            reject_if_served(OperatingSystemStorage(), path)
        snapshot = open_snapshot(open_table(OperatingSystemStorage(), path))
        names = {column.id: column.name for column in snapshot.columns}
        if snapshot.table.metadata is None or snapshot.timestamp_id not in names:
            raise NotATableError(f"{path}: not a table to write to: it has no _meta with a designated timestamp")
        # `open_writer` would refuse the table, too, but only after the rows are computed.
        reject_indexed(snapshot.table)
        last_is_parquet = all(each.is_parquet for each in snapshot.transaction.partitions[-1:])
        advice = parquet_last_advice(snapshot.table, last_is_parquet)
        if advice is not None and not allow_parquet_last:
            raise ParquetLastError(f"{path}: not written to without the option allow_parquet_last: {advice}")
        unknown = [name for name in schema.names if name not in names.values()]
        if unknown:
            raise RowsRejectedError(f"there is no column {unknown[0]!r}; the table has {', '.join(names.values())}")
        if names[snapshot.timestamp_id] not in schema.names:
            raise RowsRejectedError(f"the rows lack {names[snapshot.timestamp_id]!r}, the designated timestamp")
        self._path = path
        self._schema = snapshot.schema
        self._overwrites = overwrite
        self._force = force
        self._allow_parquet_last = allow_parquet_last
        self._folder = Path(staging or path, STAGING_PREFIX + secrets.token_hex(8))
        self._folder.mkdir(parents=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of one attempt at a task, in the table's types; raises ValueRejectedError."""
        context = TaskContext.get()
        assert context is not None
        return self.stage(iterator, f"{context.partitionId():05d}-{context.taskAttemptId()}.arrow")

    def stage(self, batches: Iterator[pa.RecordBatch], file: str) -> StagedRows:
        """Write batches to a file of the job's folder; a failed attempt leaves only its own file."""
        row_count, sink = 0, None
        try:
            for batch in batches:
                rows = from_spark(batch, self._schema)
                sink = sink or pa.ipc.new_file(str(self._folder / file), rows.schema)
                sink.write_batch(rows)
                row_count += rows.num_rows
        finally:
            if sink is not None:
                sink.close()
        return StagedRows(file=file, row_count=row_count)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of successful tasks as one version, and remove the job's folder.

        Raises what the writer raises, and CommitUnclearError if the version may exist all the same.
        """
        staged = [message for message in messages if isinstance(message, StagedRows) and message.row_count]
        if staged or self._overwrites:
            with open_writer(
                OperatingSystemStorage(), self._path, force=self._force, allow_parquet_last=self._allow_parquet_last
            ) as writer:
                for message in staged:
                    with pa.memory_map(str(self._folder / message.file)) as file:
                        writer.write(pa.ipc.open_file(file).read_all())
                if self._overwrites:
                    for partition in writer.transaction.partitions:
                        writer.drop_partition(partition.timestamp)
                self._commit(writer)
        self._clear()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged rows, unless a commit was begun and the table has another version since.

        Spark also calls this after a commit that failed or whose process was killed. The table itself is never
        changed: its rows are committed. Raises CommitUnclearError if the job's rows may be in it.
        """
        before = self._intended_version()
        if before is not None and (now := self._version()) != before:
            raise CommitUnclearError(
                f"{self._path}: the table was at version {before} when this job began to commit, and is at {now} "
                f"now: its rows may be in the table; check before you run it again. They are kept in {self._folder}"
            )
        self._clear()

    def _commit(self, writer: TableWriter) -> None:
        before = writer.transaction.version
        (self._folder / INTENT_FILE).write_text(json.dumps({"version": before}))
        try:
            writer.commit()
        except TornproofError as error:
            if (now := self._version()) == before:
                raise
            raise CommitUnclearError(
                f"{self._path}: the commit failed after version {now} was in place: its rows are in the table, but a "
                f"power cut may still take them ({error})"
            ) from error

    def _intended_version(self) -> int | None:
        """Return the version before the commit, or None if no commit was begun."""
        try:
            return int(json.loads((self._folder / INTENT_FILE).read_text())["version"])
        except (FileNotFoundError, ValueError):
            # Written before the commit's first action, so a truncated file means that there was none.
            return None

    def _version(self) -> int:
        return safe_read(OperatingSystemStorage(), f"{self._path}/{TXN_FILE}").version

    def _clear(self) -> None:
        """Remove the job's folder; a task that is still running then fails to write."""
        gone = self._folder.with_name(f"{self._folder.name}.gone")
        with suppress(OSError):
            self._folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
