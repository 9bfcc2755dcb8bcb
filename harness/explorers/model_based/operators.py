"""The rules of a stateful run about what operators do: files of their own, dry runs, migrations to another place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tornproof.harness.explorers.model_based.files import ViolationError, entry_of
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.harness.systems.answer import answer_of
from tornproof.impl.errors import BusyError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.partition_publish import make_directories
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.migrate.plan import Outcome
from tornproof.impl.migrate.table_migration import OUTPUT_SUFFIX, migrate_table
from tornproof.impl.repair.kept import KEPT_DIRECTORY
from tornproof.impl.repair.repair import forget_kept, repair_table
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.tables_below import tables_below
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table
from tornproof.model.table import Entry

ALONE = "alone.parquet"
ELSEWHERE = "volume/elsewhere"
"""A folder in which nothing is looked for."""
OWN_FILES = (
    *(f"{file}.copy" for file in (META_FILE, TXN_FILE, DATA_FILE, PM_FILE)),
    *(f"before-2024-01-01.1/{DATA_FILE}", f"2024-01-01.1.before/{PM_FILE}"),
)
"""Files of a user in a table's directory, and directories that no partition has."""
OWN_KEPT_FILES = (f"{PM_FILE}.analysed", f"{DATA_FILE}.from-40.gz", f"my-{PM_FILE}", f"{DATA_FILE}.from-here")
"""Files of a user among those that a recovery has kept of a partition."""


def put_own_files(world: World) -> None:
    """Put files into the table whose names are like ours; whatever is done, they stay as they are."""
    storage, path = world.files.storage, world.files.path
    names = [world.files.name_of(each.directory) for each in world.state.committed.entries]
    kept = (f"{KEPT_DIRECTORY}/{names[0]}/{name}" for name in OWN_KEPT_FILES)
    for name in (*OWN_FILES, *kept, f"{KEPT_DIRECTORY}/{PM_FILE}"):
        file = f"{path}/{name}"
        make_directories(storage, file.rpartition("/")[0])
        with storage.open_for_writing(file, OpenMode.EXISTING_OR_NEW) as handle:
            handle.pwrite(name.encode(), 0)
        world.own_files[file] = name.encode()
    world.reached["files of a user"] += 1


def forget(world: World) -> None:
    """Forget what recoveries kept; a user's files stay."""
    storage, kept = world.files.storage, f"{world.files.path}/{KEPT_DIRECTORY}"
    with orderly("forget"):
        planned = forget_kept(storage, world.files.path, dry_run=True)
        before = [*_files_below(storage, kept)]
        report = forget_kept(storage, world.files.path)
        after = [*_files_below(storage, kept)]
    if planned.actions != report.actions or len(before) - len(report.actions) != len(after):
        raise ViolationError(ALLOWED, f"forget: {report.actions} were forgotten, and {planned.actions} announced")
    left = [file for file in after if file not in world.own_files]
    if left:
        raise ViolationError(ALLOWED, f"forget: what recoveries kept is still there: {left}")
    world.check_own_files()
    world.reached["kept files forgotten"] += bool(report.actions)


def announce(world: World) -> None:
    """Ask what a recovery and a migration would do; nothing changes, and beside a reader none is begun."""
    storage, path = world.files.storage, world.files.path
    before = world.files.image().files
    with orderly("a dry run"):
        repair_table(storage, path, dry_run=True)
        migrate_table(storage, path, dry_run=True)
    with orderly("a recovery beside a reader", BusyError), pin_committed(storage, path):
        try:
            repair_table(storage, path)
        except BusyError:
            pass
        else:
            raise ViolationError(ALLOWED, "a recovery was done while a reader had the table open")
    if world.files.image().files != before:
        raise ViolationError(ALLOWED, "a dry run, or a recovery beside a reader, changed files")
    for partition in world.transaction.partitions:
        if partition.parquet_was_generated:
            for name in (PM_FILE, DATA_FILE):
                _lose(world, f"{world.files.name_of(entry_of(partition).directory)}/{name}")
            break
    if Path(path).is_dir() and Path(path) not in tables_below(Path(path).parent):
        raise ViolationError(ALLOWED, "the table is not found below the folder that it is in")
    world.reached["dry run"] += 1


def _lose(world: World, file: str) -> None:
    """Verify and recover a table that has lost a file, which both must report, and put it back."""
    storage, path = world.files.storage, f"{world.files.path}/{file}"
    content = world.files.image().files[path]
    storage.unlink(path)
    with orderly(f"looking at a table without {file}"):
        is_reported = bool(verify_table(world.files.table()).all_problems)
        is_left = bool(repair_table(storage, world.files.path).problems)
    if storage.kind(path) is not EntryKind.MISSING or not (is_reported and is_left):
        words = f"verify reports it: {is_reported}, and recover: {is_left}"
        raise ViolationError(ALLOWED, f"{file} is missing; {words}")
    with storage.open_for_writing(path, OpenMode.NEW) as handle:
        handle.pwrite(content, 0)
        handle.fsync()
    storage.sync_directory(path.rpartition("/")[0])


def migrate_elsewhere(world: World) -> None:
    """Write the `_pm` of all partitions to another place: with them the table has the same rows."""
    storage, path = world.files.storage, world.files.path
    out = f"{path}/{ELSEWHERE}"
    written = _migrate(world, out, "", {Outcome.MIGRATED, Outcome.REPLACED, Outcome.ALREADY})
    _migrate(world, out, ", again", {Outcome.ALREADY})
    for file in written:
        _change_last_byte(storage, file)
    _migrate(world, out, ", over files of as many bytes", {Outcome.REPLACED})
    image = world.files.image()
    with orderly("reading the table with what was migrated to another place"):
        expected = answer_of(image, path)
        for entry, written_to in zip(world.state.committed.entries, written, strict=True):
            name = world.files.name_of(entry.directory)
            image = image.with_file(f"{path}/{name}/{PM_FILE}", image.files[written_to])
        found = answer_of(image, path)
    _migrate_alone(world, out, world.state.committed.entries[0], image.files[written[0]])
    if found != expected:
        raise ViolationError(ALLOWED, "what was migrated to another place shows other rows")
    world.reached["migrated to another place"] += 1


def _migrate_alone(world: World, out: str, entry: Entry, expected: bytes) -> None:
    """Migrate the committed data of a partition as a file of its own: its `_pm` is the same, and the file stays."""
    storage, file = world.files.storage, f"{out}/{ALONE}"
    image = world.files.image()
    content = image.files[f"{world.files.path}/{world.files.name_of(entry.directory)}/{DATA_FILE}"][: entry.token]
    with storage.open_for_writing(file, OpenMode.EXISTING_OR_NEW) as handle:
        handle.truncate(0)
        handle.pwrite(content, 0)
    if storage.kind(f"{file}{OUTPUT_SUFFIX}") is EntryKind.FILE:
        storage.unlink(f"{file}{OUTPUT_SUFFIX}")
    with orderly("migrating a file"):
        (first,), (again,) = (migrate_file(storage, file).partitions for _ in range(2))
    image = world.files.image()
    if first.outcome is not Outcome.MIGRATED or again.outcome is not Outcome.ALREADY or image.files[file] != content:
        raise ViolationError(ALLOWED, f"migrating a file: {first}, and again: {again}")
    if image.files[f"{file}{OUTPUT_SUFFIX}"] != expected:
        raise ViolationError(ALLOWED, "the `_pm` of a file is not that of a partition with the same data")


def _migrate(world: World, out: str, words: str, wanted: set[Outcome]) -> list[str]:
    """Return what is written; ViolationError for another outcome than those that are wanted."""
    storage = world.files.storage
    with orderly("migrate"):
        migration = migrate_table(storage, world.files.path, out=out)
    names = [world.files.name_of(each.directory) for each in world.state.committed.entries]
    written = [f"{out}/{name}{OUTPUT_SUFFIX}" for name in names]
    found = [each.written_to for each in migration.partitions if each.outcome in wanted]
    if found != written or any(storage.kind(file) is not EntryKind.FILE for file in written):
        raise ViolationError(ALLOWED, f"migrate to another place{words}: not all of {names} are there: {migration}")
    made = Path(out)
    world.check_synced(dict.fromkeys((made.parent, made, *map(Path, written))))
    return written


def _change_last_byte(storage: Storage, path: str) -> None:
    with storage.open_for_writing(path) as handle:
        last = handle.size_bytes() - 1
        handle.pwrite(bytes([handle.pread(1, last)[0] ^ 1]), last)


def _files_below(storage: Storage, path: str) -> Iterable[str]:
    if storage.own_kind(path) is EntryKind.DIRECTORY:
        for name in storage.listdir(path):
            yield from _files_below(storage, f"{path}/{name}")
    elif storage.own_kind(path) is not EntryKind.MISSING:
        yield path
