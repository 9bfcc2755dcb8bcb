"""Offline recovery: a table's files are reduced to the committed version, so that every release can continue.

Each new `_pm` is verified together with its data.parquet before anything is written; each file is replaced or
truncated in one durable step after its old bytes were kept, so that an interrupted run can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum

import msgspec

from tornproof.impl.errors import BusyError, CorruptError, FileMissingError, Problem, StorageError, UnsupportedError
from tornproof.impl.repair.kept import (
    KEPT_DIRECTORY,
    UNFINISHED_SUFFIX,
    forget_files,
    keep,
    kept_files,
    kept_name,
    unfinished_files,
)
from tornproof.impl.repair.plan import CommittedFile, find_committed
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.table.column_versions import CV_FILE, is_ahead, read_column_versions, take_back
from tornproof.impl.table.indexed_columns import index_advice, reject_indexed
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, check_native, check_unmigrated
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import PINS_FILE, WRITER_LOCK_OFFSET_BYTES, take_writer_lock
from tornproof.impl.txn.transaction import Partition, Transaction
from tornproof.impl.verify.table_files import missing_versions
from tornproof.impl.verify.verify import Progress
from tornproof.impl.write.recovery import UNWRITABLE


class ActionKind(StrEnum):
    """What recovery does to one file."""

    REMOVE_UNFINISHED = "remove_unfinished"
    PUBLISH_COMMITTED = "publish_committed"
    REWRITE_COMMITTED = "rewrite_committed"
    CUT_DATA = "cut_data"
    TAKE_BACK_VERSION = "take_back_version"
    FORGET = "forget"


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One step; `file` and `kept_as` are paths below the table, the sizes are those of `file`."""

    kind: ActionKind
    file: str
    before_bytes: int
    after_bytes: int = 0
    kept_as: str | None = None


class RepairReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or with `is_dry_run` would be; `problems` cannot be repaired, and nothing was changed for them."""

    table: str
    version: int | None
    is_dry_run: bool
    actions: tuple[Action, ...] = ()
    problems: tuple[Problem, ...] = ()
    unreferenced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class PartitionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one partition needs; `pm` is the new content of `_pm` if an action changes it.

    With a `column_version` it is no partition that needs something, but `_cv`, which gets this version.
    """

    actions: tuple[Action, ...] = ()
    pm: bytes | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    column_version: int | None = None


def repair_table(
    storage: Storage, path: str, *, dry_run: bool = False, progress: Progress = lambda _: None
) -> RepairReport:
    """Recover the table at `path`, partition by partition; with `dry_run` only report how (docs/recover.md).

    An interrupted run is finished by the next one. Raises IndexedColumnError if a table with an index needs anything,
    BusyError if a writer or reader of this library holds the
    table, NotATableError, StorageError.
    """
    with ExitStack() as held:
        is_locked = _has_pins(storage, path, dry_run=dry_run)
        if is_locked:
            _lock(storage, path, held)
        try:
            table = open_table(storage, path)
            transaction = table.transaction()
            unreferenced = table.unreferenced_directories(transaction)
        except CorruptError as error:
            return RepairReport(table=path, version=None, is_dry_run=dry_run, problems=(error.problem,))
        plans = []
        for plan in _plans(table, transaction, progress):
            plans.append(PartitionPlan(actions=plan.actions, problems=plan.problems, notes=plan.notes))
            if not plan.actions:
                continue
            if plan.column_version is None:
                # A killed server has updated the index before `_txn`, so it fits the rows that recovery would remove.
                reject_indexed(table)
            if dry_run:
                continue
            if not is_locked:
                # Only now, because the lock creates `_pins`, which a table that needs nothing should not get.
                _lock(storage, path, held)
                is_locked = True
                _check_unchanged(table, transaction)
            for action in plan.actions:
                _execute(storage, path, action, plan)
    notes = tuple(note for plan in plans for note in plan.notes)
    advice = index_advice(table)
    refusal = f"recovery would be refused if there were anything to do: {advice}"
    return RepairReport(
        table=path,
        version=transaction.version,
        is_dry_run=dry_run,
        actions=tuple(action for plan in plans for action in plan.actions),
        problems=tuple(problem for plan in plans for problem in plan.problems),
        unreferenced=unreferenced,
        notes=notes if advice is None else (*notes, refusal),
    )


def forget_kept(storage: Storage, path: str, *, dry_run: bool = False) -> RepairReport:
    """Remove only what earlier recoveries of the table at `path` kept.

    Raises NotATableError, CorruptError for a damaged `_meta`, StorageError.
    """
    table = open_table(storage, path)
    ours, foreign = kept_files(storage, path)
    actions = [Action(kind=ActionKind.FORGET, file=file, before_bytes=_size_bytes(table, file)) for file in ours]
    if not dry_run and storage.own_kind(f"{path}/{KEPT_DIRECTORY}") is EntryKind.DIRECTORY:
        forget_files(storage, path, ours)
    notes = tuple(f"{name} is not from a recovery and stays" for name in foreign)
    return RepairReport(table=path, version=None, is_dry_run=dry_run, actions=tuple(actions), notes=notes)


def _plans(table: Table, transaction: Transaction, progress: Progress) -> Iterator[PartitionPlan]:
    """Yield what `_cv` needs, then what each partition needs, when what came before is done; raises StorageError."""
    yield _plan_column_versions(table, transaction.record.column_version)
    for partition in transaction.partitions:
        progress(table.directory_of(partition))
        yield plan_partition(table, partition)


def _plan_column_versions(table: Table, version: int) -> PartitionPlan:
    """Return what `_cv` needs to have the committed version, which can only be taken back by one."""
    path = f"{table.path}/{CV_FILE}"
    try:
        read_column_versions(table.storage, path, version=version)
    except FileMissingError:
        # A mere copy of commits has neither.
        return PartitionPlan(problems=() if table.metadata is None else (missing_versions(),))
    except CorruptError as error:
        return PartitionPlan(problems=(error.problem,))
    except UnsupportedError as error:
        return PartitionPlan(notes=(f"not looked at: {error}",))
    if not is_ahead(table.storage, path, version):
        return PartitionPlan()
    size_bytes = _size_bytes(table, CV_FILE)
    action = Action(kind=ActionKind.TAKE_BACK_VERSION, file=CV_FILE, before_bytes=size_bytes, after_bytes=size_bytes)
    return PartitionPlan(actions=(action,), column_version=version)


def plan_partition(table: Table, partition: Partition) -> PartitionPlan:
    """Return what reduces the partition's files to the committed version, without writing anything.

    A partition that cannot be repaired gets problems, and no action except removing unfinished files. Raises
    StorageError.
    """
    files = table.files_of(partition)
    if not partition.is_parquet:
        return PartitionPlan(problems=tuple(check_native(files, partition)))
    if not partition.parquet_was_generated and not files.has_pm():
        note = f"{files.name} has no {PM_FILE}: a release before 9.4.0 wrote it, and it is left as it is"
        return PartitionPlan(problems=tuple(check_unmigrated(files, partition)), notes=(note,))
    actions = [
        Action(kind=ActionKind.REMOVE_UNFINISHED, file=file, before_bytes=_size_bytes(table, file))
        for file in unfinished_files(table.storage, table.path, files.name)
    ]
    found = find_committed(files, partition, table.metadata)
    if not isinstance(found, CommittedFile):
        return PartitionPlan(actions=tuple(actions), problems=found)
    try:
        replacement, cut = _replacement(table, files, found), _cut(table, files, partition.token)
    except CorruptError as error:
        return PartitionPlan(actions=tuple(actions), problems=(error.problem,))
    if cut and table.storage.own_kind(f"{table.path}/{files.data_label}") is EntryKind.LINK:
        problem = Problem(files.data_label, "file", None, f"a file to cut at byte {partition.token}", "a symbolic link")
        return PartitionPlan(actions=tuple(actions), problems=(problem,))
    notes = [f"{files.pm_label} keeps its dead bytes: it has optional sections that are unknown here"]
    return PartitionPlan(
        actions=(*actions, *replacement, *cut),
        pm=found.content if replacement else None,
        notes=tuple(notes if found.keeps_dead_bytes else ()),
    )


def _replacement(table: Table, files: PartitionFiles, found: CommittedFile) -> tuple[Action, ...]:
    with files.open_pm() as handle:
        size_bytes = handle.size_bytes()
        if size_bytes == len(found.content) and handle.pread(size_bytes, 0) == found.content:
            return ()
    kept_as = kept_name(table.storage, table.path, files.pm_label, 0)
    kind = ActionKind.REWRITE_COMMITTED if found.is_rewritten else ActionKind.PUBLISH_COMMITTED
    after_bytes = len(found.content)
    return (Action(kind=kind, file=files.pm_label, before_bytes=size_bytes, after_bytes=after_bytes, kept_as=kept_as),)


def _cut(table: Table, files: PartitionFiles, token: int) -> tuple[Action, ...]:
    with files.open_data() as handle:
        size_bytes = handle.size_bytes()
    if size_bytes <= token:
        return ()
    file = files.data_label
    kept_as = kept_name(table.storage, table.path, file, token)
    return (Action(kind=ActionKind.CUT_DATA, file=file, before_bytes=size_bytes, after_bytes=token, kept_as=kept_as),)


def _execute(storage: Storage, path: str, action: Action, plan: PartitionPlan) -> None:
    target = f"{path}/{action.file}"
    if plan.column_version is not None:
        take_back(storage, target, plan.column_version)
        return
    if action.kind is ActionKind.REMOVE_UNFINISHED:
        storage.unlink(target)
        return
    assert action.kept_as is not None
    if action.kind is ActionKind.CUT_DATA:
        keep(storage, path, action.file, action.after_bytes, action.kept_as)
        with storage.open_for_writing(target) as file:
            file.truncate(action.after_bytes)
            file.fsync()
        return
    assert plan.pm is not None
    keep(storage, path, action.file, 0, action.kept_as)
    with storage.open_for_writing(target + UNFINISHED_SUFFIX, OpenMode.NEW) as file:
        storage.take_permissions(target, target + UNFINISHED_SUFFIX)
        file.pwrite(plan.pm, 0)
        file.fsync()
    storage.rename(target + UNFINISHED_SUFFIX, target)
    storage.sync_directory(target.rpartition("/")[0])


def _has_pins(storage: Storage, path: str, *, dry_run: bool) -> bool:
    """Return whether there is a file to be locked; for a dry run, one that this process may lock others out with."""
    file = f"{path}/{PINS_FILE}"
    if storage.kind(file) is EntryKind.MISSING:
        return False
    if dry_run:
        try:
            storage.open_for_writing(file).close()
        except StorageError as error:
            return error.reason not in UNWRITABLE
    return True


def _lock(storage: Storage, path: str, held: ExitStack) -> None:
    """Lock out other writers, and readers that pin, until `held` is closed."""
    lock = held.enter_context(take_writer_lock(storage, path))
    if not held.enter_context(lock.exclude_pins(range(WRITER_LOCK_OFFSET_BYTES))):
        raise BusyError(f"{path}: a reader has the table open; try again when it is done")


def _check_unchanged(table: Table, transaction: Transaction) -> None:
    if table.transaction() != transaction:
        raise BusyError(f"{table.path}: another writer changed the table meanwhile; try again when it is done")


def _size_bytes(table: Table, file: str) -> int:
    if table.storage.own_kind(f"{table.path}/{file}") is EntryKind.LINK:
        return 0
    with table.storage.open_for_reading(f"{table.path}/{file}") as handle:
        return handle.size_bytes()
