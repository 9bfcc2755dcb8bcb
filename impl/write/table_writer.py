"""The only writer of a table: rows are staged, and `commit` makes them a version atomically.

How a commit writes files is in `commit.py`, how it changes each partition in `partition_change.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from tornproof.impl.arguments import demanding_types
from tornproof.impl.chunk.row_group_encoder import encode_row_group
from tornproof.impl.errors import (
    BusyError,
    NotATableError,
    ParquetLastError,
    RowsRejectedError,
    TornproofError,
    UsageError,
)
from tornproof.impl.layout.txn import PARQUET_FORMAT, READ_ONLY
from tornproof.impl.read.reader import open_snapshot, raise_first
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.indexed_columns import reject_indexed
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.table.partition_names import directory_names
from tornproof.impl.table.symbols import mark_null, symbol_columns
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.announced_version import AnnouncedVersion, announced_after
from tornproof.impl.txn.pins import WriterLock, take_writer_lock
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, TXN_FILE, Partition, Transaction
from tornproof.impl.txn.write import NextVersion, PartitionState, StorePlan, next_version, plan_store
from tornproof.impl.write.adoption import WRITTEN_FLAGS, PreparedPartition, adopted, check_symbol_keys
from tornproof.impl.write.column_tops import ColumnTops
from tornproof.impl.write.commit import HARDENED, Protocol, RecoveryAction, execute, extend_dictionaries
from tornproof.impl.write.incoming_rows import (
    ArrowStream,
    Portion,
    conform,
    in_time_order,
    portions,
    without_duplicates,
)
from tornproof.impl.write.new_symbols import Dictionaries
from tornproof.impl.write.partition_change import PartitionChange, RowGroupEncoder, WriterOptions, changer_of
from tornproof.impl.write.partition_writer import OpenPartition
from tornproof.impl.write.purge import purge
from tornproof.impl.write.recovery import recover_for_writing
from tornproof.impl.write.streamed_partition import remove_streamed

REMEMBERED_PARTITIONS_MAX = 64
"""Of so many partitions, those written last, a writer keeps the metadata for its next commit."""


class WriterDeadError(TornproofError):
    """A commit of this writer has failed, or another process opened it; a new writer recovers the table."""


class UncommittedError(UsageError):
    """A writer was closed with changes that were staged and not committed."""


def open_writer(
    storage: Storage,
    path: str,
    *,
    options: WriterOptions | None = None,
    protocol: Protocol = HARDENED,
    encode: RowGroupEncoder = encode_row_group,
    force: bool = False,
    allow_parquet_last: bool = False,
    ignore_indexes: bool = False,
) -> TableWriter:
    """Become the only writer of the table in the directory `path`, and recover the table.

    Without `allow_parquet_last`, commits to a table without write-ahead log raise ParquetLastError if the last
    partition would be in Parquet. `ignore_indexes` is for copies in which no server will look rows up.

    Raises IndexedColumnError for a table with an index; BusyError if there is another writer or, without `force`, if a
    server has the table open, as far as it can be seen; NotATableError without a table, a `_meta` or a designated
    timestamp; CorruptError if the committed version is damaged; UnsupportedError, StorageError.
    """
    table = open_table(storage, path)
    if table.metadata is None or table.metadata.timestamp_id < 0:
        raise NotATableError(f"{path}: not a table to write to: it has no _meta with a designated timestamp")
    if not ignore_indexes:
        reject_indexed(table)
    lock = take_writer_lock(storage, path)
    try:
        if not force:
            reject_if_served(storage, path)
        transaction = recover_for_writing(storage, table, protocol.recovery)
        return TableWriter(
            storage,
            table,
            lock,
            transaction,
            WriterOptions() if options is None else options,
            protocol,
            encode,
            allow_parquet_last=allow_parquet_last,
        )
    except BaseException:
        lock.release()
        raise


def reject_if_served(storage: Storage, path: str) -> None:
    """Raise BusyError if another process maps `_txn`, as a server does and no reader of this library."""
    processes = storage.mapped_by(f"{path}/{TXN_FILE}")
    if processes:
        raise BusyError(
            f"{path}: in use by {', '.join(processes)}; stop it first, because recovery removes directories that a "
            "server has not committed yet; `force` opens the table all the same"
        )


class TableWriter(AbstractContextManager["TableWriter"]):
    """Stages changes and commits them; not for use by several threads.

    Leaving its `with` block closes it. To close it is an error while changes are staged.
    """

    def __init__(
        self,
        storage: Storage,
        table: Table,
        lock: WriterLock,
        transaction: Transaction,
        options: WriterOptions,
        protocol: Protocol,
        encode: RowGroupEncoder,
        *,
        allow_parquet_last: bool,
    ) -> None:
        """Continue from a recovered version; `close` releases `lock`. Use `open_writer` instead."""
        assert table.metadata is not None
        self.table = table
        self.transaction = transaction
        self._storage = storage
        self._lock = lock
        self._protocol = protocol
        self._allow_parquet_last = allow_parquet_last
        self._metadata = table.metadata
        snapshot = open_snapshot(table, protocol.base)
        self._dictionaries = Dictionaries(table, transaction)
        self._column_tops = ColumnTops(table)
        # A method of this writer would keep a forgotten one alive.
        self._changer = changer_of(storage, snapshot, options, symbols_of=self._dictionaries.of, encode=encode)
        self._timestamp_name = self._changer.timestamp_name
        self._open: dict[int, OpenPartition] = {}
        self._with_orphans: set[int] = set()
        self._named = {table.directory_of(partition) for partition in transaction.partitions}
        self._is_dead = False
        self._commit_count = 0
        self._null_columns: set[str] = set()
        self.rollback()

    @property
    def schema(self) -> pa.Schema:
        """The table's columns as an Arrow schema, to which written rows are converted."""
        return self._changer.schema

    def write(self, rows: ArrowStream) -> None:
        """Stage rows of any times in any order, such as a `pyarrow.Table` or a data frame of Polars or pandas.

        Raises RowsRejectedError if the table cannot take them.
        """
        self._check_alive()
        self._staged.append(conform(rows, self.schema, self._timestamp_name, self._metadata.columns))

    @demanding_types(UsageError)
    def drop_partition(self, timestamp: int) -> None:
        """Stage the removal of the partition that starts at `timestamp`; rows staged with it create it anew."""
        self._check_alive()
        partition = self._partition_at(timestamp)
        if partition.timestamp in self._adopted:
            raise RowsRejectedError(f"{partition.timestamp}: a partition was adopted in its place; commit that first")
        self._dropped.add(partition.timestamp)

    @demanding_types(UsageError)
    def rewrite_partition(self, timestamp: int) -> None:
        """Stage a rewrite of the parquet partition that starts at `timestamp` into a new directory."""
        self._check_alive()
        partition = self._partition_at(timestamp)
        reject_unless_writable(self.table, partition)
        self._rewritten.add(partition.timestamp)

    @demanding_types(UsageError)
    def adopt(self, prepared: PreparedPartition) -> None:
        """Stage a partition whose files are complete in a prepared directory, which `commit` renames.

        Raises as `adopted` does; with other symbol keys than the table's, it is `commit` that raises CorruptError.
        """
        self._check_alive()
        files = self._new_files(prepared.timestamp)
        change = adopted(self.table, self.transaction, prepared, files, dropped=self._dropped)
        self._adopted[prepared.timestamp] = change

    def rollback(self) -> None:
        """Discard what is staged; none of it has been written, and prepared directories stay."""
        self._announced: AnnouncedVersion | None = None
        self._staged: list[pa.Table] = []
        self._adopted: dict[int, PartitionChange] = {}
        self._dropped: set[int] = set()
        self._rewritten: set[int] = set()

    @demanding_types(UsageError)
    def announce(self, identity: bytes) -> AnnouncedVersion:
        """Return the version that the next commit makes, by which it is recognized even if it is killed.

        No other commit may have this identity. Nothing is written: the caller keeps what is returned.
        """
        self._check_alive()
        self._announced = announced_after(self.transaction, identity)
        return self._announced

    @contextmanager
    def withdrawing(self, withdraw: Callable[[], None]) -> Iterator[None]:
        """Call `withdraw`, which removes what was kept of an announcement, if the block commits and is rejected.

        After a kill, or an error that leaves something of the commit behind, the next writer decides by what was kept.
        """
        before = self.transaction.version
        try:
            yield
        except BaseException:
            if not self._is_dead and self.transaction.version == before:
                withdraw()
            raise

    def commit(self) -> int:
        """Commit everything staged as the next version and return its number, which acknowledges it.

        If nothing is staged there is no new version. If rows or the last partition are rejected, or old rows cannot be
        read, neither the table nor the staged rows change. After a StorageError that leaves something of the commit
        behind, this writer cannot be used any more; `open_writer` recovers.
        """
        self._check_alive()
        self._dictionaries.extend(self._staged)
        self._changer.streamed.clear()
        try:
            changes = self._plan()
            if not changes and not self._dropped:
                self.rollback()
                return self.transaction.version
            states, new_symbols = self._states(changes), self._dictionaries.writes()
            column_tops = self._column_tops.plan(
                self.transaction,
                {timestamp: state.row_count for timestamp, state in states.items()},
                dropped=self._dropped,
                written=changes.keys(),
            )
            plan = self._store_plan(self._following(changes, states, has_column_tops=column_tops is not None))
        except BaseException:
            self._remove_streamed()
            raise
        self._is_dead = True
        # Before the commit, because the note does no harm without nulls, and nulls without it are not found.
        for column in self._with_first_nulls():
            mark_null(self._storage, self.table, self.transaction, column)
            self._null_columns.add(column.name)
        extend_dictionaries(self._protocol, self._storage, self.table.path, new_symbols)
        writes = [change.write for change in changes.values()]
        execute(self._protocol, self._storage, self.table.path, writes, plan, column_tops)
        self._commit_count += 1
        self._with_orphans.difference_update(changes)
        kept = {
            timestamp: partition
            for timestamp, partition in self._open.items()
            if timestamp not in self._dropped and timestamp not in changes
        }
        written = {timestamp: change.partition for timestamp, change in changes.items()}
        latest = list((kept | written).items())[-REMEMBERED_PARTITIONS_MAX:]
        self._open = dict(latest) if self._protocol.remembers else {}
        gone = self._dropped | {timestamp for timestamp, change in changes.items() if change.write.is_new}
        unnamed = [partition for partition in self.transaction.partitions if partition.timestamp in gone]
        self.transaction = self.table.transaction()
        self._dictionaries.commit(self.transaction)
        self._named.update(change.partition.files.name for change in changes.values())
        self._protocol.replaced(self._storage, self._lock, self.transaction.version, map(self.table.files_of, unnamed))
        self.rollback()
        # Only now, because a writer that cannot read its own version would commit the same rows again.
        self._is_dead = False
        return self.transaction.version

    def purge(self) -> tuple[str, ...]:
        """Remove the partition directories that neither the committed nor a pinned version names; return the names."""
        self._check_alive()
        removed = purge(self._storage, self.table, self.transaction, self._lock, self._named)
        self._named.difference_update(removed)
        return removed

    def close(self) -> None:
        """Release the lock; raises UncommittedError if changes are staged, unless another error is on its way.

        They are discarded. Closing twice is harmless; a forked process leaves them, and the lock, to the one before it.
        """
        self._close(is_failing=sys.exc_info()[0] is not None)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close; an error on its way is one of the `with` block."""
        self._close(is_failing=kind is not None)

    def _close(self, *, is_failing: bool) -> None:
        is_own = not self._lock.is_inherited
        is_forgotten = is_own and not is_failing and not self._is_dead and self._has_staged()
        self.rollback()
        self._is_dead = True
        self._lock.release()
        if is_forgotten:
            raise UncommittedError(
                f"{self.table.path}: the writer was left with staged changes, which are discarded; "
                "call commit() before, or rollback() to discard them on purpose"
            )

    def _has_staged(self) -> bool:
        return bool(any(map(len, self._staged)) or self._adopted or self._dropped or self._rewritten)

    def _plan(self) -> dict[int, PartitionChange]:
        """Return the changes of partitions by their timestamps, ascending."""
        remaining = {p.timestamp: p for p in self.transaction.partitions if p.timestamp not in self._dropped}
        staged = {portion.timestamp: portion for portion in self._portions(tuple(remaining.values()))}
        for timestamp in sorted(staged.keys() & self._adopted.keys()):
            raise RowsRejectedError(f"rows are staged for the partition at {timestamp}, which is prepared elsewhere")
        for change in self._adopted.values():
            # Only now, because rows that are staged beside it may add the symbols that it has.
            check_symbol_keys(change, self._metadata, self._dictionaries.all())
        return {
            key: self._adopted.get(key) or self._change(key, remaining.get(key), staged.get(key))
            for key in sorted(staged.keys() | self._adopted.keys() | (self._rewritten - self._dropped))
        }

    def _with_first_nulls(self) -> list[TableColumn]:
        """Return the symbol columns that get nulls, without those that this writer has seen to be marked."""
        return [
            column
            for column in symbol_columns(self.table)
            if column.name not in self._null_columns
            and (
                any(rows[column.name].null_count for rows in self._staged)
                or any(_has_null(change.partition, column) for change in self._adopted.values())
            )
        ]

    def _portions(self, partitions: tuple[Partition, ...]) -> Iterable[Portion]:
        if not self._staged:
            return ()
        rows = pa.concat_tables(self._staged)
        if self._changer.keys:
            rows = without_duplicates(rows, self._changer.keys)
        return portions(in_time_order(rows, self._timestamp_name), self._timestamp_name, self._metadata, partitions)

    def _change(self, timestamp: int, partition: Partition | None, portion: Portion | None) -> PartitionChange:
        files = self._new_files(timestamp)
        if partition is None:
            assert portion is not None
            return self._changer.create(portion, files)
        reject_unless_writable(self.table, partition)
        known = self._open_partition(partition)
        if portion is None or timestamp in self._rewritten or self._changer.must_rewrite(known, portion):
            return self._changer.rewrite(known, portion, files)
        if timestamp in self._with_orphans:
            raise RowsRejectedError(
                f"{known.files.name}: a killed commit left rows in it, which this writer could not put aside, because "
                "its files cannot be written to or are too large; open another writer, or use rewrite_partition"
            )
        return self._changer.grow(known, portion, files)

    def _states(self, changes: dict[int, PartitionChange]) -> dict[int, PartitionState]:
        """Return the partitions of the next version by their timestamps, ascending."""
        states = {p.timestamp: PartitionState.of(p) for p in self.transaction.partitions}
        for timestamp in self._dropped:
            del states[timestamp]
        for timestamp, change in changes.items():
            before = states.get(timestamp)
            states[timestamp] = PartitionState(
                timestamp=timestamp,
                row_count=change.partition.metadata.row_count,
                flags=(before.flags if before else 0) | WRITTEN_FLAGS,
                name_txn=self.transaction.version if change.write.is_new or before is None else before.name_txn,
                token=self._protocol.token_of(self._storage, change.write),
            )
        self._check_last(states)
        return dict(sorted(states.items()))

    def _following(
        self, changes: dict[int, PartitionChange], states: dict[int, PartitionState], *, has_column_tops: bool
    ) -> NextVersion:
        low, high = self._times(changes, list(states))
        return next_version(
            self.transaction,
            partitions=list(states.values()),
            min_timestamp=low,
            max_timestamp=high,
            symbol_counts=self._dictionaries.counts(),
            partition_table_version=self._announced.partition_table_version if self._announced else None,
            column_version=self.transaction.record.column_version + has_column_tops,
        )

    def _store_plan(self, following: NextVersion) -> StorePlan:
        with self._storage.open_for_reading(f"{self.table.path}/{TXN_FILE}") as handle:
            # The free area has the version before the committed one, written by this writer from its third commit on.
            is_durable, content = self._commit_count >= 2, handle.pread(handle.size_bytes(), 0)
            return plan_store(content, following, area_is_durable=is_durable)

    def _remove_streamed(self) -> None:
        """Remove what was written for a commit that does not come about; raises StorageError."""
        # What stays has the name of a later commit's directory, so only a new writer may continue, which removes it.
        self._is_dead = True
        for path in self._changer.streamed:
            remove_streamed(self._storage, path)
        self._is_dead = False

    def _check_last(self, states: Mapping[int, PartitionState]) -> None:
        """Raise ParquetLastError if servers would fail to insert into the table afterwards, and this is not allowed."""
        if self._allow_parquet_last:
            return
        is_parquet = bool(states) and bool(PARQUET_FORMAT.get(states[max(states)].flags))
        advice = parquet_last_advice(self.table, is_parquet)
        if advice is not None:
            raise ParquetLastError(f"{self.table.path}: not committed without allow_parquet_last: {advice}")

    def _times(self, changes: dict[int, PartitionChange], timestamps: list[int]) -> tuple[int, int]:
        """Return the table's first and last timestamp in the next version."""
        if not timestamps:
            return I64_MAX, I64_MIN
        record = self.transaction.record
        known = [p.timestamp for p in self.transaction.partitions]
        first, last = timestamps[0], timestamps[-1]
        low = self._bound(changes, first, 0) if first in changes or first != known[0] else record.min_timestamp
        high = self._bound(changes, last, 1) if last in changes or last != known[-1] else record.max_timestamp
        return low, high

    def _bound(self, changes: dict[int, PartitionChange], timestamp: int, side: int) -> int:
        if timestamp in changes:
            partition = changes[timestamp].partition
        else:
            entry = self._partition_at(timestamp)
            if not entry.is_parquet:
                raise RowsRejectedError(
                    f"{self.table.directory_of(entry)}: cannot drop its neighbour, because then this partition has the "
                    "table's first or last row, and its rows are not in Parquet"
                )
            partition = self._open_partition(entry)
        return max(span.high for span in partition.spans) if side else min(span.low for span in partition.spans)

    def _open_partition(self, partition: Partition) -> OpenPartition:
        if partition.timestamp not in self._open:
            resolved = self._protocol.base.resolve(self.table.files_of(partition), partition)
            raise_first(self._protocol.base.check(resolved))
            raise_first(check_against_table(resolved, self._metadata))
            if resolved.resolved.orphan_count and RecoveryAction.REPUBLISH_PARTITIONS in self._protocol.recovery:
                self._with_orphans.add(partition.timestamp)
            self._open[partition.timestamp] = self._changer.load(resolved)
        return self._open[partition.timestamp]

    def _partition_at(self, timestamp: int) -> Partition:
        for partition in self.transaction.partitions:
            if partition.timestamp == timestamp:
                return partition
        raise RowsRejectedError(f"{self.table.path}: no partition starts at {timestamp}")

    def _new_files(self, timestamp: int) -> PartitionFiles:
        metadata = self._metadata
        (name,) = directory_names(
            timestamp, self.transaction.version, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds
        )
        return PartitionFiles(storage=self._storage, path=f"{self.table.path}/{name}", name=name)

    def _check_alive(self) -> None:
        if self._lock.is_inherited:
            raise WriterDeadError(
                f"{self.table.path}: this writer belongs to the process that this one was forked from; "
                "open another one here when that is closed"
            )
        if self._is_dead:
            raise WriterDeadError(
                f"{self.table.path}: this writer is closed or its last commit failed; open another one"
            )


def _has_null(partition: OpenPartition, column: TableColumn) -> bool:
    """Return whether a partition that was prepared elsewhere has nulls in a column."""
    index = next(place for place, each in enumerate(partition.metadata.header.columns) if each.id in column.ids)
    return any(block.chunks[index].null_count for block in partition.metadata.blocks)


def reject_unless_writable(table: Table, partition: Partition) -> None:
    """Raise RowsRejectedError for a partition that only a server can write to."""
    name = table.directory_of(partition)
    if not partition.is_parquet:
        raise RowsRejectedError(f"{name}: its rows are not in Parquet; only the server writes to it")
    if READ_ONLY.get(partition.flags):
        raise RowsRejectedError(f"{name}: it is marked as read-only")
    if not table.files_of(partition).has_pm():
        raise RowsRejectedError(f"{name}: it has no _pm, because a release before 9.4.0 wrote it")
