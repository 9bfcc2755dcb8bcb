"""`df.write.format("tornproof").mode("append").save(TABLE)`, and `writeStream`: a job is one commit, or none.

Tasks encode partitions beside the table and leave other rows in a folder of the job; only `commit` opens the
writer. Spark creates it, commits and aborts in different processes, which share state only through these files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tornproof.impl.errors import BusyError, NotATableError, ParquetLastError, RowsRejectedError, TornproofError
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.indexed_columns import reject_indexed
from tornproof.impl.table.metadata_file import NamedColumn
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import has_writer
from tornproof.impl.txn.transaction import TXN_FILE, safe_read
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import timestamps_of
from tornproof.impl.write.table_writer import TableWriter, open_writer, reject_if_served
from tornproof.pipeline.datasource.ledger import Batch, Ledger, interval_of
from tornproof.pipeline.datasource.options import reject_columns
from tornproof.pipeline.datasource.prepared import prepare, renamed, rows_of
from tornproof.pipeline.datasource.staging import (
    forget_intent,
    intended_version,
    make_folder,
    new_folder,
    note_intent,
    remove_folder,
    sweep,
    this_driver,
)
from tornproof.pipeline.datasource.types import from_spark

WRITE_OPTIONS = frozenset({"path", "staging", "force", "allow_parquet_last", "query"})
BATCH_OPTIONS = WRITE_OPTIONS | {"batch"}
STREAM_WRITE_OPTIONS = WRITE_OPTIONS | {"checkpointLocation", "queryName"}


class CommitUnclearError(TornproofError):
    """A failed commit whose version may exist; the message says what is known."""


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """What a task has left: a file in the job's folder, partitions beside it, and how many rows both have.

    Of partitions that it has merged with those of the table, `new_rows` names files with what is new, by their starts.
    Rows in files have the names of `columns`.
    """

    file: str
    row_count: int
    prepared: tuple[PreparedPartition, ...] = ()
    new_rows: Mapping[int, str] = field(default_factory=dict)
    folder: str | None = None
    columns: Sequence[NamedColumn] = ()

    def path(self, file: str) -> Path:
        """Return the path of one of its files."""
        return Path(self.folder or "", file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table to write to, and how."""

    path: str
    staging: str | None = None
    overwrites: bool = False
    force: bool = False
    allow_parquet_last: bool = False

    def check(self, schema: StructType) -> Snapshot:
        """Return the committed version; raises what `TornproofWriter` does."""
        if not self.force:
            self._reject_if_served()
        snapshot = open_snapshot(open_table(OperatingSystemStorage(), self.path))
        names = {column.id: column.name for column in snapshot.columns}
        if snapshot.table.metadata is None or snapshot.timestamp_id not in names:
            raise NotATableError(f"{self.path}: not a table to write to: it has no _meta with a designated timestamp")
        # `open_writer` would refuse the table, too, but only after the rows are computed.
        reject_indexed(snapshot.table)
        last_is_parquet = all(each.is_parquet for each in snapshot.transaction.partitions[-1:])
        advice = parquet_last_advice(snapshot.table, last_is_parquet)
        if advice is not None and not self.allow_parquet_last:
            raise ParquetLastError(f"{self.path}: not written to without the option allow_parquet_last: {advice}")
        reject_columns(schema.names, tuple(names.values()), names[snapshot.timestamp_id])
        return snapshot

    def _reject_if_served(self) -> None:
        """Raise BusyError if a server has the table open; `open_writer` looks again."""
        storage = OperatingSystemStorage()
        try:
            reject_if_served(storage, self.path)
        except BusyError:
            # It may be a commit of another job, which maps `_txn` too, and may be over before its lock is looked at.
            if not has_writer(storage, self.path):
                reject_if_served(storage, self.path)

    def version(self) -> int:
        """Return the committed version."""
        return safe_read(OperatingSystemStorage(), f"{self.path}/{TXN_FILE}").version

    def open_writer(self) -> TableWriter:
        """Become the table's writer."""
        return open_writer(
            OperatingSystemStorage(), self.path, force=self.force, allow_parquet_last=self.allow_parquet_last
        )


class _StagingWriter:
    """Stages the rows of one job, and commits them at once."""

    def __init__(self, target: Target, schema: StructType) -> None:
        self._target = target
        snapshot = target.check(schema)
        self._schema, self._columns = snapshot.schema, snapshot.columns
        parent = target.staging or target.path
        sweep(Path(parent), target.path, target.version)
        self._folder = new_folder(parent)
        self._owner = this_driver()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage the rows of one attempt at a task, in the table's types; raises ValueRejectedError."""
        context = TaskContext.get()
        assert context is not None
        return self.stage(iterator, f"{context.partitionId():05d}-{context.taskAttemptId()}.arrow")

    def stage(self, batches: Iterator[pa.RecordBatch], file: str) -> StagedRows:
        """Write batches to a file of the job's folder, or encode them; a failed attempt leaves only its own files."""
        path = self._folder / file
        row_count = self._write(path, (from_spark(batch, self._schema, self._columns) for batch in batches))
        if row_count and self._target.staging is None:
            return self._encoded(path, row_count)
        return self._in_file(path, row_count)

    def _in_file(self, path: Path, row_count: int) -> StagedRows:
        return StagedRows(file=path.name, row_count=row_count, folder=str(self._folder), columns=self._columns)

    def _write(self, path: Path, batches: Iterator[pa.RecordBatch]) -> int:
        row_count, sink = 0, None
        try:
            for rows in batches:
                sink = sink or pa.ipc.new_file(str(path), rows.schema)
                sink.write_batch(rows)
                row_count += rows.num_rows
        finally:
            if sink is not None:
                sink.close()
        return row_count

    def _encoded(self, path: Path, row_count: int) -> StagedRows:
        """Encode the partitions of the rows of a file, and leave a file with the other rows."""
        folder, rest_path = f"{self._folder}.{path.stem}", path.with_suffix(".rest.arrow")
        new_rows = {}
        with pa.memory_map(str(path)) as source:
            rows = pa.ipc.open_file(source).read_all()
            try:
                encoded = prepare(
                    OperatingSystemStorage(),
                    self._target.path,
                    rows,
                    self._columns,
                    folder,
                    overwrites=self._target.overwrites,
                )
            except RowsRejectedError:
                # The commit says what is wrong with the rows of all tasks together.
                return self._in_file(path, row_count)
            self._write(rest_path, (batch for part in encoded.rest for batch in part.to_batches()))
            for partition, new in encoded.done:
                if partition.replaces is not None:
                    new_path = path.with_suffix(f".{partition.timestamp}.arrow")
                    self._write(new_path, iter(new.to_batches()))
                    new_rows[partition.timestamp] = new_path.name
        path.unlink()
        return StagedRows(
            file=rest_path.name if encoded.rest else "",
            row_count=row_count,
            prepared=tuple(partition for partition, _ in encoded.done),
            new_rows=new_rows,
            folder=str(self._folder),
            columns=encoded.columns,
        )

    def _land(self, messages: Sequence[WriterCommitMessage | None], batch: Batch | None) -> None:
        """Commit the rows of successful tasks as one version, unless their batch is there, and remove what is staged.

        Raises what the writer raises, UnsettledBatchError, and CommitUnclearError if the version may exist anyway.
        """
        staged = [message for message in messages if isinstance(message, StagedRows) and message.row_count]
        if staged or self._target.overwrites:
            with self._target.open_writer() as writer:
                ledger = Ledger(writer.table)
                ledger.settle(writer.transaction)
                if batch is None or not ledger.has(batch):
                    _fill(writer, staged, overwrites=self._target.overwrites)
                    self._commit(writer, ledger, batch)
        self._clear(messages)

    def _commit(self, writer: TableWriter, ledger: Ledger, batch: Batch | None) -> None:
        before = writer.transaction.version
        if batch is None:
            note_intent(self._folder, self._target.path, before)
            withdraw = partial(forget_intent, self._folder)
        else:
            ledger.announce(batch, writer.announce(json.dumps(batch.document).encode()))
            withdraw = partial(ledger.withdraw, batch)
        try:
            with writer.withdrawing(withdraw):
                writer.commit()
        except TornproofError as error:
            if (now := self._target.version()) == before:
                raise
            again = "; write the batch again, which adds nothing twice" if batch is not None else ""
            raise CommitUnclearError(
                f"{self._target.path}: the commit failed after version {now} was in place: its rows are in the table, "
                f"but a power cut may still take them ({error}){again}"
            ) from error
        if batch is not None:
            ledger.confirm(batch)

    def _clear(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks of a job have left."""
        folders = {message.folder for message in messages if isinstance(message, StagedRows) and message.folder}
        for folder in {str(self._folder), *folders}:
            remove_folder(Path(folder))


class TornproofWriter(_StagingWriter, DataSourceArrowWriter):
    """Writes the rows of one job.

    Raises NotATableError, IndexedColumnError, ParquetLastError, RowsRejectedError for unknown columns and for a missing
    designated timestamp, and BusyError, without `force`, if a server on this machine has the table open.
    """

    def __init__(self, target: Target, schema: StructType, batch: Batch | None = None) -> None:
        """Check that the table accepts such rows, and create the job's folder."""
        super().__init__(target, schema)
        self._batch = batch
        self._is_there = batch is not None and Ledger(open_table(OperatingSystemStorage(), target.path)).has(batch)
        make_folder(self._folder, self._owner)

    def stage(self, batches: Iterator[pa.RecordBatch], file: str) -> StagedRows:
        """Stage rows, none if the batch is in the table."""
        return StagedRows(file="", row_count=0) if self._is_there else super().stage(batches, file)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of successful tasks as one version, and remove the job's folder."""
        if self._is_there:
            self._clear(messages)
        else:
            self._land(messages, self._batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged rows, unless a commit was begun and the table has another version since.

        Spark also calls this after a commit that failed or whose process was killed. The table itself is never
        changed: its rows are committed. Raises CommitUnclearError if the job's rows may be in it.
        """
        before = intended_version(self._folder)
        if before is not None and (now := self._target.version()) != before:
            raise CommitUnclearError(
                f"{self._target.path}: the table was at version {before} when this job began to commit, and is at "
                f"{now} now: its rows may be in the table; check before you run it again. They are kept in "
                f"{self._folder}"
            )
        self._clear(messages)


class TornproofStreamWriter(_StagingWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a query, each once."""

    def __init__(self, target: Target, schema: StructType, query: str, checkpoint: str | None = None) -> None:
        """Check that the table accepts such rows; raises what `TornproofWriter` does."""
        super().__init__(target, schema)
        self._query = query
        self._checkpoint = checkpoint

    def stage(self, batches: Iterator[pa.RecordBatch], file: str) -> StagedRows:
        """Stage rows in the folder, which the batch before has removed."""
        make_folder(self._folder, self._owner)
        return super().stage(batches, file)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch, unless it is in the table; raises OtherCheckpointError."""
        self._land(messages, Batch(query=self._query, number=batchId, checkpoint=self._checkpoint))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged rows of a batch; Spark writes it again."""
        self._clear(messages)


def _fill(writer: TableWriter, staged: Sequence[StagedRows], *, overwrites: bool) -> None:
    """Stage in a table's writer what tasks have left."""
    storage, table = OperatingSystemStorage(), writer.table
    snapshot = open_snapshot(table)
    there = {partition.timestamp: partition.identity for partition in writer.transaction.partitions}
    if overwrites:
        for start in there:
            writer.drop_partition(start)
        there = {}
    # Rows for a partition that is prepared elsewhere, too, are joined with it.
    wanted = Counter(each.timestamp for message in staged for each in message.prepared)
    left = [_read(message, message.file, table) if message.file else None for message in staged]
    loose = {interval for rows in left if rows is not None for interval in _intervals_of(table, rows)}
    # In the order of the tasks, because of rows with equal keys the last one written wins.
    for message, rows in zip(staged, left, strict=True):
        if rows is not None:
            writer.write(rows)
        for each in message.prepared:
            interval, _ = interval_of(table, each.timestamp)
            before = each.replaces.identity if each.replaces else None
            if wanted[each.timestamp] == 1 and interval not in loose and there.get(each.timestamp) == before:
                writer.adopt(each)
            elif before is not None:
                writer.write(_read(message, message.new_rows[each.timestamp], table))
            else:
                for encoded in rows_of(storage, snapshot, each):
                    writer.write(encoded)


def _read(message: StagedRows, file: str, table: Table) -> pa.Table:
    """Return the rows of a file under the names that their columns have now; raises as `renamed` does."""
    assert table.metadata is not None
    with pa.memory_map(str(message.path(file))) as source:
        return renamed(pa.ipc.open_file(source).read_all(), message.columns, table.metadata)


def _intervals_of(table: Table, rows: pa.Table) -> set[int]:
    """Return the intervals that rows lie in."""
    assert table.metadata is not None
    (name,) = (column.name for column in table.metadata.columns if column.id == table.metadata.timestamp_id)
    # A row without a time lies in none, and is rejected when it is written.
    times, found = np.sort(timestamps_of(rows.select([name]).drop_null(), name)), set()
    while len(times):
        interval, end = interval_of(table, int(times[0]))
        found.add(interval)
        times = times[max(1, int(np.searchsorted(times, end))) :]
    return found
