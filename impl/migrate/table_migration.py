"""`_pm` for the parquet partitions of a table's committed version, each on its own: crash-safe and idempotent.

`_txn` and data.parquet are never written. To replace a `_pm`, there must be neither a writer nor a reader, because
a pinned version may still need the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from tornproof.impl.errors import BusyError, CorruptError, TornproofError
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Conversion, Converted, check_unchanged, convert_partition
from tornproof.impl.migrate.partition_publish import (
    has_unfinished,
    make_directories,
    publish_file,
    remove_unfinished,
    replaceable_kind,
    sync_name,
)
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration, rejected_table, rejection
from tornproof.impl.repair.kept import keep, kept_name, unfinished_files
from tornproof.impl.storage.interface import EntryKind, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import WRITER_LOCK_OFFSET_BYTES, WriterLock, take_writer_lock
from tornproof.impl.txn.transaction import TXN_FILE, Partition
from tornproof.impl.verify.verify import Progress

OUTPUT_SUFFIX = ".pm"


class TablePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The parquet partitions of a table's committed `version` that will be migrated."""

    table: Table
    version: int
    partitions: tuple[Partition, ...]
    native_count: int


def migrate_table(
    storage: Storage,
    path: str,
    *,
    mode: ConversionMode = ConversionMode.SERVER,
    dry_run: bool = False,
    out: str | None = None,
    only: str | None = None,
    progress: Progress = lambda _: None,
) -> Migration:
    """Give every parquet partition of the table at `path` a `_pm`, or `only` the one in the directory of that name.

    With `out` each is written to that directory as PARTITION.pm, and the table is not changed; with `dry_run` nothing
    is written. Raises BusyError if another writer holds the table, NotATableError, StorageError.
    """
    plan = plan_table(storage, path, only=only)
    if isinstance(plan, Migration):
        return plan
    converted = convert_table(plan, mode, keeps_sound=out is None, progress=progress)
    return publish_table(storage, plan, converted, dry_run=dry_run, out=out)


def plan_table(storage: Storage, path: str, *, only: str | None = None) -> TablePlan | Migration:
    """Return what there is to migrate, or a rejected table if its `_txn` or `_meta` is damaged or unsupported.

    Raises NotATableError, StorageError, BusyError.
    """
    try:
        table = open_table(storage, path)
        transaction = table.transaction()
        named = [(table.directory_of(partition), partition) for partition in transaction.partitions]
    except CorruptError as error:
        return rejected_table(path, error)
    meant = [partition for name, partition in named if only in (None, name)]
    if only is not None and not meant:
        reason = f"{TXN_FILE} names no partition {only}, so the end of its data.parquet is not known"
        return Migration(path=path, version=transaction.version, reason=reason)
    parquet = tuple(partition for partition in meant if partition.is_parquet)
    return TablePlan(
        table=table, version=transaction.version, partitions=parquet, native_count=len(meant) - len(parquet)
    )


def convert_table(
    plan: TablePlan, mode: ConversionMode, *, keeps_sound: bool, progress: Progress = lambda _: None
) -> Iterator[Conversion]:
    """Yield the result of each partition of a plan; each is converted when it is requested."""
    for partition in plan.partitions:
        progress(plan.table.directory_of(partition))
        yield convert_partition(plan.table, partition, mode, keeps_sound=keeps_sound)


def publish_table(
    storage: Storage, plan: TablePlan, converted: Iterable[Conversion], *, dry_run: bool, out: str | None
) -> Migration:
    """Publish the converted partitions of a plan, given in its order.

    Only this writes, so conversion needs no lock. Raises BusyError if another writer holds the table, StorageError.
    """
    with _Destination(storage, plan.table, plan.version, out, dry_run=dry_run).open() as destination:
        done = tuple(map(destination.put, plan.partitions, converted))
    return Migration(path=plan.table.path, version=plan.version, partitions=done, native_count=plan.native_count)


def publish_output(storage: Storage, path: str, content: bytes, *, dry_run: bool) -> Outcome:
    """Write a file outside of tables, unless it exists with this content; raises StorageError."""
    kind = storage.kind(path)
    if kind is EntryKind.FILE and _holds(storage, path, content):
        return Outcome.ALREADY
    replaceable_kind(storage, path)
    if not dry_run:
        make_directories(storage, path.rpartition("/")[0])
        publish_file(storage, path, content)
    return Outcome.MIGRATED if kind is EntryKind.MISSING else Outcome.REPLACED


class _Destination:
    """Where results are written: into the table, under a lock that is taken when it is first needed, or elsewhere."""

    def __init__(self, storage: Storage, table: Table, version: int, out: str | None, *, dry_run: bool) -> None:
        self._storage = storage
        self._table = table
        self._version = version
        self._out = out
        self._is_dry_run = dry_run
        self._changes_table = out is None and not dry_run
        self._held = ExitStack()
        self._lock: WriterLock | None = None

    @contextmanager
    def open(self) -> Iterator[_Destination]:
        with self._held:
            yield self

    def put(self, partition: Partition, converted: Conversion) -> PartitionMigration:
        """Publish one partition's `_pm`; raises BusyError if another writer holds the table."""
        # If there is nothing to do, no `_pins` is created in the table.
        if self._changes_table and (isinstance(converted, Converted) or self._left(partition)):
            self._lock_table()
        try:
            if isinstance(converted, PartitionMigration):
                self._republish(partition, converted)
                return converted
            return self._put(converted)
        except TornproofError as error:
            return rejection(self._table.directory_of(partition), partition.token, error)

    def _put(self, converted: Converted) -> PartitionMigration:
        files, table = converted.files, self._table
        outcome, kept_as = Outcome.MIGRATED, None
        if not self._is_dry_run:
            check_unchanged(table, converted, self._version)
        if self._out is not None:
            target = f"{self._out}/{files.name}{OUTPUT_SUFFIX}"
            outcome = publish_output(self._storage, target, converted.content, dry_run=self._is_dry_run)
        else:
            target = f"{files.path}/{PM_FILE}"
            replaceable_kind(self._storage, target)
            if converted.old_problems:
                outcome = Outcome.REPLACED
                kept_as = kept_name(self._storage, table.path, files.pm_label, 0)
            if self._changes_table:
                self._publish(converted, target, kept_as)
        return PartitionMigration(
            name=files.name,
            outcome=outcome,
            token=converted.partition.token,
            written_to=target,
            pm_bytes=len(converted.content),
            kept_as=kept_as,
            problems=converted.old_problems,
        )

    def _publish(self, converted: Converted, target: str, kept_as: str | None) -> None:
        if kept_as is None:
            publish_file(self._storage, target, converted.content, is_new=True)
            return
        assert self._lock is not None
        with self._lock.exclude_pins(range(WRITER_LOCK_OFFSET_BYTES)) as is_granted:
            if not is_granted:
                raise BusyError(f"{converted.files.pm_label}: a reader has the table open; try again when it is done")
            for file in unfinished_files(self._storage, self._table.path, converted.files.name):
                self._storage.unlink(f"{self._table.path}/{file}")
            keep(self._storage, self._table.path, converted.files.pm_label, 0, kept_as)
            publish_file(self._storage, target, converted.content)

    def _republish(self, partition: Partition, done: PartitionMigration) -> None:
        """Finish what an interrupted run began, for a partition that needs nothing else."""
        if not self._changes_table:
            return
        target = f"{self._table.files_of(partition).path}/{PM_FILE}"
        remove_unfinished(self._storage, target)
        if done.outcome is Outcome.ALREADY:
            sync_name(self._storage, target)

    def _left(self, partition: Partition) -> bool:
        return has_unfinished(self._storage, f"{self._table.files_of(partition).path}/{PM_FILE}")

    def _lock_table(self) -> None:
        if self._lock is None:
            self._lock = self._held.enter_context(take_writer_lock(self._storage, self._table.path))


def _holds(storage: Storage, path: str, content: bytes) -> bool:
    with storage.open_for_reading(path) as handle:
        return handle.size_bytes() == len(content) and handle.pread(len(content), 0) == content
