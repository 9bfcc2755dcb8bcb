"""The rules of a stateful run about writer sessions: closing, opening, a stopped recovery, a second writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.explorers.model_based.files import PUBLISHED_SIZE_BYTES, Process, ViolationError, entry_of
from tornproof.harness.explorers.model_based.world import ALLOWED, ORDERLY, Staged, World, orderly
from tornproof.harness.simulator.filesystem.faulty import Fault
from tornproof.harness.simulator.filesystem.memory import Killed
from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.plan import Outcome as MigrationOutcome
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.repair.kept import kept_files
from tornproof.impl.repair.repair import ActionKind, repair_table
from tornproof.impl.storage.interface import OpenMode, ReadableStorage, Storage, StorageReason
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.write.table_writer import UncommittedError, WriterDeadError
from tornproof.model.table import Recover, step

UNCOMMITTED = b"bytes that no version names"
# About as many as there are.
RECOVERY_STEPS, REPAIR_STEPS, MIGRATION_STEPS = 16, 36, 16


def close(world: World) -> None:
    """Close the writer, usable or dead; a usable one says that it discards what was staged."""
    is_said = False
    with orderly("close"):
        try:
            world.open_writer.close()
        except UncommittedError:
            is_said = True
    if is_said != (bool(world.staged) and not world.is_dead):
        said = "it says that staged changes are discarded" if is_said else "it says nothing of staged changes"
        raise ViolationError(ORDERLY, f"close: {said}, and the model has {len(world.staged.rows)} staged rows")
    if left_open := world.process.left_open():
        raise ViolationError(ORDERLY, f"close: {left_open[0]} stays open")
    world.process.end()
    world.writer, world.is_dead = None, False
    world.staged = Staged()
    world.state = world.state._replace(open=False)


def reopen(world: World) -> None:
    """Open a writer, which recovers."""
    _open(world, None)


def reopen_killed(world: World, *, at: int) -> None:
    """Open a writer in a process that is killed in the recovery."""
    _open(world, Fault.kill(at % RECOVERY_STEPS))


def reopen_fails(world: World, *, at: int) -> None:
    """Open a writer while a call of the recovery fails."""
    _open(world, Fault(at=at % RECOVERY_STEPS, reason=StorageReason.INPUT_OUTPUT))


def repair(world: World, *, nth: int, count: int) -> None:
    """Recover as `tornproof recover` does, where bytes were left behind a partition's committed end."""
    _repair(world, nth, count, None)


def repair_killed(world: World, *, nth: int, count: int, at: int) -> None:
    """Recover so after a process that did was killed."""
    _repair(world, nth, count, Fault.kill(at % REPAIR_STEPS))


def repair_fails(world: World, *, nth: int, count: int, at: int) -> None:
    """Recover so after a call of an earlier one failed."""
    _repair(world, nth, count, Fault(at=at % REPAIR_STEPS, reason=StorageReason.INPUT_OUTPUT))


def migrate(world: World) -> None:
    """Migrate what releases without `_pm` left, with bytes of a killed commit behind each partition's committed end."""
    _migrate(world, None)


def migrate_killed(world: World, *, at: int) -> None:
    """Migrate so after a process that did was killed."""
    _migrate(world, Fault.kill(at % MIGRATION_STEPS))


def migrate_fails(world: World, *, at: int) -> None:
    """Migrate so after a call of an earlier migration failed."""
    _migrate(world, Fault(at=at % MIGRATION_STEPS, reason=StorageReason.INPUT_OUTPUT))


def _repair(world: World, nth: int, count: int, fault: Fault | None) -> None:
    storage, entries = world.files.storage, [each for each in world.state.committed.entries if each.token >= 0]
    entry = entries[nth % len(entries)]
    file = f"{world.files.name_of(entry.directory)}/{DATA_FILE}"
    with storage.open_for_writing(f"{world.files.path}/{file}") as handle:
        # Other bytes each time, and as many: each of them has to be kept.
        handle.pwrite(bytes([1 + world.reached["table recovered"] % 9]) * 9 * count, handle.size_bytes())
        tail = handle.pread(handle.size_bytes() - entry.token, entry.token)
    if fault is None and count % 2 == 0:
        # A word that was lost: the file then says that it has no generation, until a recovery is through.
        with storage.open_for_writing(f"{world.files.path}/{world.files.name_of(entry.directory)}/{PM_FILE}") as handle:
            handle.pwrite(bytes(PUBLISHED_SIZE_BYTES), 0)
    if fault is not None:
        _stop(world, fault, "recover", repair_table)
    before = _contents(world)
    with orderly("recover"):
        report = repair_table(storage, world.files.path)
        again = repair_table(storage, world.files.path)
    if report.problems or again.actions:
        raise ViolationError(ALLOWED, f"recover left {report.problems}, and a second one did {again.actions}")
    kept = [each.kept_as for each in report.actions if each.file == file and each.kept_as]
    with orderly("reading what a recovery kept"):
        # What was cut off before a recovery was stopped is in none of its reports.
        kept = kept or [*kept_files(storage, world.files.path)[0]]
        is_kept = any(_content(storage, f"{world.files.path}/{each}") == tail for each in kept)
    if not is_kept or world.files.data_size_bytes(entry.directory) != entry.token:
        raise ViolationError(ALLOWED, f"recover did not cut {file} at {entry.token}, or did not keep what it cut off")
    for action in report.actions:
        start = action.after_bytes if action.kind is ActionKind.CUT_DATA else 0
        if action.kept_as and _content(storage, f"{world.files.path}/{action.kept_as}") != before[action.file][start:]:
            raise ViolationError(ALLOWED, f"recover kept other bytes of {action.file} than it changed")
    world.check_synced({Path(world.files.path, each.kept_as): None for each in report.actions if each.kept_as})
    world.resume("a recovery of the table")
    world.check_durable(world.state.entries, with_version=False)
    world.reached["table recovered"] += 1


def _migrate(world: World, fault: Fault | None) -> None:
    storage, path = world.files.storage, world.files.path
    names = [world.files.name_of(each.directory) for each in world.state.committed.entries]
    for name in names:
        storage.unlink(f"{path}/{name}/{PM_FILE}")
        with storage.open_for_writing(f"{path}/{name}/{DATA_FILE}") as handle:
            handle.pwrite(UNCOMMITTED, handle.size_bytes())
        storage.sync_directory(f"{path}/{name}")
    first = {MigrationOutcome.MIGRATED}
    if fault is not None:
        # One has a `_pm` of which nothing is left, which is kept.
        with storage.open_for_writing(f"{path}/{names[-1]}/{PM_FILE}", OpenMode.NEW) as handle:
            handle.pwrite(UNCOMMITTED, 0)
        _stop(world, fault, "migrate", migrate_table)
        first = {*first, MigrationOutcome.REPLACED, MigrationOutcome.ALREADY}
    for wanted in (first, {MigrationOutcome.ALREADY}):
        with orderly("migrate"):
            migration = migrate_table(storage, path)
        others = [each for each in migration.partitions if each.outcome not in wanted]
        if migration.reason or others or len(migration.partitions) != len(names):
            words = " or ".join(sorted(wanted))
            raise ViolationError(ALLOWED, f"migrate: not all of {names} are {words}: {migration.reason or others}")
        world.resume("a migration")
        world.check_durable(world.state.entries, with_version=False)
    world.check_sound("after a migration")
    world.reached["table migrated"] += 1


def _stop(world: World, fault: Fault, what: str, run: Callable[[Storage, str], object]) -> None:
    """Run something in a process that is killed or in which a call fails; each `_pm` that is there must be whole."""
    world.process = Process(world.files.storage)
    world.process.arm(fault)
    with suppress(StorageError, Killed), orderly(what, StorageError):
        run(world.process, world.files.path)
    world.reached[f"{what} stopped"] += bool(world.process.fired)
    world.process.end()
    for partition in world.transaction.partitions:
        files = world.files.files_of(entry_of(partition).directory)
        with orderly(f"reading {files.pm_label} after a stopped {what}"):
            if files.has_pm() and _content(files.storage, f"{files.path}/{PM_FILE}") != UNCOMMITTED:
                resolve_partition(files, partition)


def _contents(world: World) -> dict[str, bytes]:
    """Return all files of the committed partitions, by path below the table's directory."""
    names = (world.files.name_of(each.directory) for each in world.state.committed.entries if each.token >= 0)
    files = (f"{name}/{file}" for name in names for file in (DATA_FILE, PM_FILE))
    return {file: _content(world.files.storage, f"{world.files.path}/{file}") for file in files}


def _content(storage: ReadableStorage, path: str) -> bytes:
    with storage.open_for_reading(path) as handle:
        return handle.pread(handle.size_bytes(), 0)


def stretch(world: World, *, token_bytes: int) -> None:
    """Let the newest data.parquet have a hole before its footer, and its committed end at `token_bytes`.

    The end is where years of appends would have brought it.
    """
    partition = world.transaction.partitions[-1]
    name = entry_of(partition).directory
    files, path = world.files.files_of(name), world.files.path
    metadata = resolve_partition(files, partition).metadata
    fixed = metadata.generation.position.fixed
    moved_bytes = token_bytes - partition.token
    if moved_bytes <= 0:
        return
    with world.files.storage.open_for_writing(f"{files.path}/{DATA_FILE}") as data:
        footer = data.pread(partition.token - fixed.parquet_footer_offset, fixed.parquet_footer_offset)
        data.truncate(fixed.parquet_footer_offset)
        data.pwrite(footer, fixed.parquet_footer_offset + moved_bytes)
    blooms = metadata.generation.blooms or [()] * len(metadata.blocks)
    groups = [
        NewRowGroup(num_rows=block.num_rows, chunks=block.chunks, blooms=references)
        for block, references in zip(metadata.blocks, blooms, strict=True)
    ]
    facts = structs.replace(
        FooterFacts.of(metadata.generation), parquet_footer_offset=fixed.parquet_footer_offset + moved_bytes
    )
    with world.files.storage.open_for_writing(f"{files.path}/{PM_FILE}") as pm:
        pm.truncate(0)
        pm.pwrite(encode_file(metadata.header, groups, facts), 0)
    with world.files.storage.open_for_writing(f"{path}/{TXN_FILE}") as txn:
        txn.pwrite(token_bytes.to_bytes(8, "little"), partition.token_offset_bytes)
    world.files.holes[name] = range(fixed.parquet_footer_offset, fixed.parquet_footer_offset + moved_bytes)
    world.expect_token(name, token_bytes)
    world.durable = None
    world.resume("a hole before the footer")
    world.follow_anew()


def open_second(world: World) -> None:
    """Try to open a second writer beside one that is open, usable or dead."""
    with orderly("opening a second writer"):
        try:
            open_writer_of_copy(world.files.storage, world.files.path).close()
        except BusyError:
            return
    raise ViolationError(ALLOWED, "a second writer was opened")


def use_dead(world: World) -> None:
    """Use a writer whose commit failed."""
    writer = world.open_writer
    calls: Sequence[Callable[[], object]] = (
        writer.commit,
        writer.purge,
        lambda: writer.write(world.rows.shape.schema.empty_table()),
    )
    for call in calls:
        with orderly("using a dead writer"):
            try:
                call()
            except WriterDeadError:
                continue
            raise ViolationError(ALLOWED, "a writer whose commit failed can still be used")


def _open(world: World, fault: Fault | None) -> None:
    world.process = Process(world.files.storage)
    world.process.arm(*([fault] if fault else []))
    is_crash = False
    try:
        with orderly("open_writer", StorageError):
            # Nobody else knows these files, and looking for others would take most of the time.
            world.writer = open_writer_of_copy(
                world.process, world.files.path, options=world.options, encode=world.encode, force=True
            )
    except (StorageError, Killed) as error:
        if not world.process.fired:
            raise ViolationError(ORDERLY, f"open_writer: {type(error).__name__}: {error}") from error
        is_crash = True
        world.process.end()
        world.reached["recovery stopped"] += 1
    world.process.arm()
    orphaned = [entry.directory for entry in world.state.orphaned]
    uncommitted = [name for name in world.state.unnamed if name[1] >= world.state.committed.number]
    outcomes = step(world.state, Recover(crash=is_crash))
    world.accept(outcomes, orphaned, "a recovery")
    if not is_crash:
        world.opened_at = world.state.committed.number
        world.reached["orphan restated"] += bool(orphaned)
        world.reached["directory of a stopped commit removed"] += bool(uncommitted)
