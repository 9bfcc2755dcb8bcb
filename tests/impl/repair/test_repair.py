import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import golden_data
import pm_builder as pm
import pyarrow as pa
import pytest
import table_builder as tb
from depth import nightly, sampled
from golden_data import CopyOf
from msgspec.structs import replace
from real_tables import CHAIN, files_below, image_of, in_memory, put, rows_of, seen, snapshot_of, verified, word
from written_tables import with_column_versions

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import BusyError, NotATableError, StorageError, TornproofError
from tornproof.impl.pm.encode import AppendPoint, NewRowGroup, append_generation
from tornproof.impl.pm.footer import FooterSections
from tornproof.impl.repair.repair import Action, ActionKind, RepairReport, forget_kept, repair_table
from tornproof.impl.storage.interface import EntryKind, File, OpenMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.txn.pins import PINS_FILE, pin_committed, take_writer_lock
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import PartitionReport, verify_partition

RESTORABLE = ("pm-header-old-txn-new", "pm-tail-zeros-header-new-txn-old")
UNREPAIRABLE = (
    *(name for name in golden_data.POWER_LOSSES if "/data-tail-" in name),
    *(name for name in golden_data.POWER_LOSSES if "/pm-o" in name or "/txn-" in name),
    "power-loss/9.4.2/one-byte-flipped-inside-a-data-page",
)
REPAIRABLE = (
    *golden_data.CRASHES,
    *golden_data.AFTER_RESTARTS,
    *(name for name in golden_data.POWER_LOSSES if name not in UNREPAIRABLE),
)
# What is as it should be already: no orphan, nothing past the token, no jump.
PLAIN = (
    *(name for name in golden_data.CRASHES if "/rewrite-" in name),
    "power-loss/9.4.2/control-nothing-lost",
    "power-loss/2026-07/control-nothing-lost",
    "power-loss/2026-07/one-byte-flipped-inside-a-data-page",
)
ORPHANED = "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9"
JUMPING = "after-restart/2026-07/sync-2-02"
SOUND = tb.SMALL


def opened(questdb_data: Path, name: str) -> tuple[str, MemoryStorage]:
    """The table of a real image, in memory."""
    return in_memory(questdb_data / name / "table")


def positions(report: RepairReport) -> list[tuple[str, str]]:
    return [(each.file, each.field) for each in report.problems]


def parquet_partitions(path: str, storage: MemoryStorage) -> list[tuple[str, Partition]]:
    """Directory and entry of each parquet partition of the committed version."""
    snapshot = snapshot_of(path, storage)
    return [(snapshot.table.directory_of(each), each) for each in snapshot.transaction.partitions if each.is_parquet]


def rows(path: str, storage: MemoryStorage) -> pa.Table | None:
    """The rows, or None where they cannot be read."""
    with suppress(TornproofError):
        return rows_of(snapshot_of(path, storage))
    return None


def kinds(report: RepairReport) -> list[ActionKind]:
    return [action.kind for action in report.actions]


def demand_plain(path: str, storage: MemoryStorage) -> None:
    """The files contain only the committed version, by our verdict and by fixed offsets."""
    report = verified(path, storage, whole=False)
    assert report.sound
    assert [(each.orphans, each.dead_bytes) for each in report.partitions] == [(0, 0)] * len(report.partitions)
    files = files_below(path, storage)
    for name, partition in parquet_partitions(path, storage):
        content = files[f"{name}/_pm"]
        (published,) = struct.unpack_from("<Q", content)
        (footer_length,) = struct.unpack_from("<I", content, len(content) - 4)
        offset, length = struct.unpack_from("<QI", content, len(content) - 4 - footer_length)
        assert published == len(content)
        assert offset + length + 8 == partition.token == len(files[f"{name}/data.parquet"])


def test_every_image_is_repairable_or_not() -> None:
    assert len(golden_data.CRASHES) == 25
    assert len(golden_data.AFTER_RESTARTS) == 4
    assert len(golden_data.POWER_LOSSES) == 22
    assert len(UNREPAIRABLE) == 13
    assert len(set(REPAIRABLE)) == len(REPAIRABLE) == 25 + 4 + 22 - 13


@pytest.mark.parametrize("name", sampled(4, REPAIRABLE, seed=2))
def test_recovery_leaves_the_committed_version_and_nothing_else(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    before, readable = files_below(path, storage), rows(path, storage)
    report = repair_table(storage, path)
    assert (report.problems, report.notes) == ((), ())
    assert bool(report.actions) == (name not in PLAIN)
    demand_plain(path, storage)
    assert (readable is None) == name.endswith(RESTORABLE)
    if readable is not None:
        assert rows(path, storage) == readable
    after = files_below(path, storage)
    taken = {action.file: action for action in report.actions}
    for file, content in before.items():
        if file not in taken:
            assert after[file] == content
        elif file.endswith("/_pm"):
            assert after[str(taken[file].kept_as)] == content
        else:
            assert after[file] + after[str(taken[file].kept_as)] == content
        if file in taken:
            assert (taken[file].before_bytes, taken[file].after_bytes) == (len(content), len(after[file]))
    assert after.keys() == before.keys() | {action.kept_as for action in report.actions}


@pytest.mark.parametrize("name", sampled(3, REPAIRABLE))
def test_the_operating_system_does_the_same(copy_of: CopyOf, name: str) -> None:
    folder = copy_of(f"{name}/table")
    _, storage = in_memory(folder)
    assert repair_table(OperatingSystemStorage(), str(folder)) == repair_table(storage, str(folder))
    assert image_of(folder).files == storage.image().files
    assert verified(folder, whole=False).sound


@pytest.mark.parametrize("name", sampled(3, REPAIRABLE, seed=1))
def test_a_dry_run_reports_what_a_run_does_and_a_second_run_does_nothing(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    untouched = storage.digest()
    plan = repair_table(storage, path, dry_run=True)
    assert storage.digest() == untouched
    report = repair_table(storage, path)
    assert plan == replace(report, is_dry_run=True)
    repaired = storage.digest()
    assert (repaired == untouched) == (name in PLAIN)
    assert repair_table(storage, path) == replace(report, actions=())
    assert storage.digest() == repaired


@pytest.mark.parametrize("release", ["9.4.2", "2026-07"])
def test_lost_headers_get_the_rows_of_their_version_back(questdb_data: Path, release: str) -> None:
    for name, reference, count in (
        ("pm-header-old-txn-new", "control-nothing-lost", 22),
        ("pm-tail-zeros-header-new-txn-old", "orphan-header-tail-new-data-new-txn-old-kill-9", 21),
    ):
        path, storage = opened(questdb_data, f"power-loss/{release}/{name}")
        assert rows(path, storage) is None
        repair_table(storage, path)
        expected = rows(*opened(questdb_data, f"power-loss/{release}/{reference}"))
        assert expected is not None and expected.num_rows == count
        assert rows(path, storage) == expected


@pytest.mark.parametrize("name", UNREPAIRABLE)
def test_what_cannot_be_repaired_is_reported_as_verify_does_and_left_alone(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    untouched = storage.digest()
    report = repair_table(storage, path)
    assert report.actions == ()
    assert report.problems == verified(path, storage, whole=False).all_problems != ()
    assert storage.digest() == untouched


@pytest.mark.parametrize("name", [*golden_data.TABLES, *golden_data.LEGACY_TABLES])
def test_nothing_is_done_to_a_table_after_a_clean_shutdown(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    untouched = storage.digest()
    report = repair_table(storage, path)
    assert (report.actions, report.problems) == ((), ())
    assert bool(report.notes) == (name.startswith("legacy/") or name == "tables/9.4.2/nonwal")
    assert storage.digest() == untouched


def test_an_image_with_a_torn_page_beside_its_orphan_is_left_alone(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    position = f"{path}/2024-01-01.1/data.parquet"
    image = storage.image()
    damaged = MemoryStorage.of(image.with_file(position, put(4, b"\xff")(image.files[position])))
    report = repair_table(damaged, path)
    assert report.actions == ()
    assert seen(verified(path, damaged, whole=False)) == [
        (each.file, each.field, each.offset_bytes) for each in report.problems
    ]
    assert report.problems
    assert damaged.image().files == {**image.files, position: put(4, b"\xff")(image.files[position])}


def test_chains_that_jump_orphans_are_written_anew_and_others_only_cut(questdb_data: Path) -> None:
    for name in golden_data.AFTER_RESTARTS:
        path, storage = opened(questdb_data, name)
        assert kinds(repair_table(storage, path)) == [ActionKind.REWRITE_COMMITTED]
        assert verified(path, storage, whole=False).partitions[0].generations == 1
    path, storage = opened(questdb_data, ORPHANED)
    assert kinds(repair_table(storage, path)) == [ActionKind.PUBLISH_COMMITTED, ActionKind.CUT_DATA]
    assert verified(path, storage, whole=False).partitions[0].generations == 2


# Interruptions


class InterruptionError(Exception):
    """The machine stops."""


class WatchedStorage(InterceptedStorage):
    """Records every change, and stops before the one whose turn it is, or halfway through writing."""

    def __init__(self, image: DiskImage, stop_at: int | None = None) -> None:
        self.memory = MemoryStorage.of(image)
        super().__init__(self.memory)
        self.changes: list[tuple[str, ...]] = []
        self.stop_at = stop_at

    def change(self, *what: str) -> None:
        if len(self.changes) == self.stop_at:
            raise InterruptionError
        self.changes.append(what)

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.kind in STEPS and not (call.kind is CallKind.OPEN_FOR_WRITING and call.mode is OpenMode.EXISTING):
            self.change(*filter(None, (call.kind, call.path, call.target_path)))
        return run()

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        half = len(call.content) // 2
        self.change("write", call.path)
        file.pwrite(call.content[:half], call.offset_bytes)
        self.change("write on", call.path)
        file.pwrite(call.content[half:], call.offset_bytes + half)


def stopped_at(image: DiskImage, step: int, run: Callable[[WatchedStorage], object]) -> WatchedStorage:
    """The disk after a run that was stopped before its n-th change, if it came that far."""
    storage = WatchedStorage(image, stop_at=step)
    with suppress(InterruptionError):
        run(storage)
        storage.stop_at = None
    return storage


def interruptions(image: DiskImage, run: Callable[[WatchedStorage], object]) -> Iterator[MemoryStorage]:
    """Every disk that a stopped run leaves, the first change being number 0; the last is that of a run to the end."""
    step = 0
    while True:
        storage = stopped_at(image, step, run)
        yield MemoryStorage.of(storage.memory.image())
        if storage.stop_at is None:
            return
        step += 1


REPAIRED = sorted(set(REPAIRABLE) - set(PLAIN))
# One image of each run of a server and of each power loss; the others are repaired by the same steps.
INTERRUPTED = set(
    {name.rpartition("-")[0] if "/sync-" in name else name.rpartition("/")[2]: name for name in REPAIRED}.values()
)


@pytest.mark.parametrize(
    "name",
    [*sampled(1, sorted(INTERRUPTED)), *map(nightly, sorted({*REPAIRED} - INTERRUPTED))],
)
def test_a_run_that_was_interrupted_anywhere_is_finished_by_the_next(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    image = storage.image()
    done = kinds(repair_table(storage, path))
    count = 0
    for stopped in interruptions(image, lambda watched: repair_table(watched, path)):
        repair_table(stopped, path)
        assert stopped.digest() == storage.digest()
        count += 1
    # `_pins` and two directories come first; truncating takes 10 changes, and replacing 14.
    assert count == 3 + sum(10 if kind is ActionKind.CUT_DATA else 14 for kind in done) + 1


@pytest.mark.parametrize("name", sampled(1, [ORPHANED, JUMPING]))
def test_an_interrupted_run_leaves_a_table_that_reads_as_before(questdb_data: Path, name: str) -> None:
    path, storage = opened(questdb_data, name)
    expected = rows(path, storage)
    assert expected is not None
    for stopped in interruptions(storage.image(), lambda watched: repair_table(watched, path)):
        assert verified(path, stopped, whole=False).sound
        assert rows(path, stopped) == expected


def test_old_bytes_are_durable_before_anything_is_replaced_or_truncated(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    watched = stopped_at(storage.image(), -1, lambda each: repair_table(each, path))
    day, kept = f"{path}/2024-01-01.1", f"{path}/_recovered/2024-01-01.1"
    (cut,) = (each for each in watched.memory.image().files if each.startswith(f"{kept}/data.parquet.from-"))
    directories = [("sync directory", kept), ("sync directory", f"{path}/_recovered"), ("sync directory", path)]

    def written(file: str) -> list[tuple[str, ...]]:
        new = f"{file}.recovering"
        return [("open for writing", new), ("write", new), ("write on", new), ("sync", new), ("rename", new, file)]

    assert watched.changes == [
        ("open for writing", f"{path}/_pins"),
        ("make directory", f"{path}/_recovered"),
        ("make directory", kept),
        *written(f"{kept}/_pm"),
        *directories,
        *written(f"{day}/_pm"),
        ("sync directory", day),
        *written(cut),
        *directories,
        ("truncate", f"{day}/data.parquet"),
        ("sync", f"{day}/data.parquet"),
    ]


def test_a_copy_that_is_there_already_is_made_durable_again(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, JUMPING)
    whole = stopped_at(storage.image(), -1, lambda each: repair_table(each, path)).changes
    kept = whole.index(("sync directory", f"{path}/_recovered/2024-01-01.2"))
    stopped = stopped_at(storage.image(), kept, lambda each: repair_table(each, path))
    again = stopped_at(stopped.memory.image(), -1, lambda each: repair_table(each, path)).changes
    assert again == [whole[0], *whole[kept:]]


def test_what_an_interrupted_run_left_is_removed_and_named(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, CHAIN.removesuffix("/table"))
    untouched = storage.image()
    left = ("2024-01-01.1/_pm.recovering", "_recovered/2024-01-01.1/data.parquet.from-7.2.recovering")
    image = untouched
    for file in left:
        image = image.with_file(f"{path}/{file}", b"half")
    storage = MemoryStorage.of(image.with_file(f"{path}/_recovered/2024-01-01.1/mine.recovering", b""))
    report = repair_table(storage, path)
    assert report.actions == tuple(
        Action(kind=ActionKind.REMOVE_UNFINISHED, file=file, before_bytes=4) for file in left
    )
    assert files_below(path, storage).keys() == {
        *files_below(path, MemoryStorage.of(untouched)),
        "_recovered/2024-01-01.1/mine.recovering",
    }


def test_a_replaced_file_and_what_is_kept_have_the_permissions_of_the_old_one(copy_of: CopyOf) -> None:
    path = copy_of("crashes/9.4.2/sync-1-06/table")
    for file in path.glob("*/*"):
        file.chmod(0o640 if file.name == "_pm" else 0o600)
    before = {file.name: file.stat().st_ino for file in path.glob("*/_pm")}
    report = repair_table(OperatingSystemStorage(), str(path))
    replaced = [path / each.file for each in report.actions if each.kind is not ActionKind.CUT_DATA]
    kept = {each.file.rpartition("/")[2]: path / str(each.kept_as) for each in report.actions}
    assert [file.stat().st_mode & 0o777 for file in replaced] == [0o640]
    assert replaced[0].stat().st_ino not in before.values()
    assert {name: file.stat().st_mode & 0o777 for name, file in kept.items()} == {"_pm": 0o640, "data.parquet": 0o600}


def test_a_link_that_would_have_to_be_cut_is_a_problem_and_nothing_is_done(copy_of: CopyOf) -> None:
    path = copy_of("crashes/9.4.2/sync-1-06/table")
    (data,) = (
        path / each.file for each in repair_table(OperatingSystemStorage(), str(path), dry_run=True).actions[-1:]
    )
    data.rename(path.parent / "elsewhere")
    data.symlink_to(path.parent / "elsewhere")
    before = {file: file.read_bytes() for file in path.glob("*/*")}
    reports = [repair_table(OperatingSystemStorage(), str(path), dry_run=dry_run) for dry_run in (True, False)]
    assert [each.problems[0].actual for each in reports] == ["a symbolic link"] * 2
    assert [each.actions for each in reports] == [(), ()]
    assert {file: file.read_bytes() for file in path.glob("*/*")} == before


@pytest.mark.parametrize("name", ["_recovered", "_recovered/2024-01-01.2"])
@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_in_the_way_of_kept_bytes_is_a_problem_of_the_plan_and_nothing_is_done(
    copy_of: CopyOf, name: str, is_link: bool
) -> None:
    """The plan promised what the run could not do, because there was a file where it had to make a directory."""
    path = copy_of("crashes/9.4.2/sync-1-06/table")
    (path / name).parent.mkdir(exist_ok=True)
    if is_link:
        (path / name).symlink_to(path / "nowhere")
    else:
        (path / name).write_bytes(b"")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    reports = [repair_table(OperatingSystemStorage(), str(path), dry_run=dry_run) for dry_run in (True, False)]
    for report in reports:
        assert (report.actions, positions(report)) == ((), [(name, "file")])
        assert report.problems[0].actual == ("a symbolic link to none" if is_link else "a file")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_full_disk_is_not_left_full_of_half_a_copy(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)

    class Full(WatchedStorage):
        def change(self, *what: str) -> None:
            if what[0] == "write on":
                raise StorageError(file=what[1], operation="write", reason=StorageReason.NO_SPACE)

    full = Full(storage.image())
    with pytest.raises(StorageError, match="no space is left"):
        repair_table(full, path)
    assert files_below(path, full.memory) == files_below(path, storage)


# What is kept


def test_kept_bytes_of_another_run_are_never_overwritten(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, JUMPING)
    kept = f"{path}/_recovered/2024-01-01.2/_pm"
    old = storage.image().files[f"{path}/2024-01-01.2/_pm"]
    for others, name in (
        ([], "_pm"),
        ([b"x"], "_pm.1"),
        ([b""], "_pm.1"),
        ([old[:-1]], "_pm.1"),
        ([b"x", old[:-1] + b"y"], "_pm.2"),
        ([b"x", old], "_pm.1"),
    ):
        image = storage.image()
        for number, content in enumerate(others):
            image = image.with_file(kept + (f".{number}" if number else ""), content)
        again = MemoryStorage.of(image)
        (action,) = repair_table(again, path).actions
        assert action.kept_as == f"_recovered/2024-01-01.2/{name}"
        after = files_below(path, again)
        assert after[action.kept_as] == old
        assert all(after[file[len(path) + 1 :]] == content for file, content in image.files.items() if kept in file)


def test_verify_and_the_reader_do_not_see_what_is_kept(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    repair_table(storage, path)
    assert "_recovered/2024-01-01.1/_pm" in files_below(path, storage)
    assert verified(path, storage, whole=False).unreferenced == ()
    assert repair_table(storage, path).unreferenced == ()


def test_unreferenced_directories_are_named_and_stay(questdb_data: Path) -> None:
    for name in golden_data.CRASHES:
        path, storage = opened(questdb_data, name)
        unreferenced = repair_table(storage, path).unreferenced
        assert bool(unreferenced) == ("rewrite" in name)
        assert set(unreferenced) <= set(storage.listdir(path))


def test_forgetting_removes_what_recovery_kept_and_nothing_else(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    report = repair_table(storage, path)
    kept = storage.image()
    plan = forget_kept(storage, path, dry_run=True)
    assert storage.digest() == MemoryStorage.of(kept).digest()
    done = forget_kept(storage, path)
    assert plan == replace(done, is_dry_run=True)
    assert {action.file for action in done.actions} == {action.kept_as for action in report.actions}
    assert [action.before_bytes for action in done.actions] == [
        len(kept.files[f"{path}/{action.file}"]) for action in done.actions
    ]
    assert "_recovered" not in storage.listdir(path)
    demand_plain(path, storage)
    assert forget_kept(storage, path).actions == ()


def test_forgetting_leaves_foreign_files_and_names_them(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    repair_table(storage, path)
    foreign = ("_recovered/2024-01-01.1/notes.txt", "_recovered/_pm", "_recovered/elsewhere/_pm")
    image = storage.image()
    for file in foreign:
        image = image.with_file(f"{path}/{file}", b"mine")
    image = image.with_file(f"{path}/_recovered/2024-01-02.3/_pm.1", b"ours")
    storage = MemoryStorage.of(image)
    report = forget_kept(storage, path)
    assert len(report.actions) == 3
    assert len(report.notes) == 3
    assert "_recovered/elsewhere is not from a recovery and stays" in report.notes
    left = {file for file in files_below(path, storage) if file.startswith("_recovered/")}
    assert left == set(foreign)
    assert storage.listdir(f"{path}/_recovered") == ("2024-01-01.1", "_pm", "elsewhere")


def test_what_links_in_place_of_kept_files_lead_to_is_never_removed(questdb_data: Path) -> None:
    """`recover --forget` removed the files of another directory to which `_recovered` was a link."""
    path, storage = opened(questdb_data, ORPHANED)
    other = "/other/2024-01-01.1"
    for directory in ("/other", other):
        storage.mkdir(directory)
    with storage.open_for_writing(f"{other}/_pm", OpenMode.NEW) as file:
        file.pwrite(b"precious", 0)
    storage.link_symbolically("/other", f"{path}/_recovered")
    report = forget_kept(storage, path)
    assert (report.actions, report.notes) == ((), ("_recovered is not from a recovery and stays",))
    storage.unlink(f"{path}/_recovered")
    for directory in ("_recovered", "_recovered/2024-01-01.1"):
        storage.mkdir(f"{path}/{directory}")
    storage.link_symbolically(f"{other}/_pm", f"{path}/_recovered/2024-01-01.1/_pm")
    assert forget_kept(storage, path).actions == ()
    assert storage.kind(f"{other}/_pm") is EntryKind.FILE


@pytest.mark.parametrize("target", ["/nowhere", "/other"])
def test_a_link_in_place_of_an_unfinished_file_is_removed_and_not_followed(target: str, questdb_data: Path) -> None:
    """A dangling link with the name of an unfinished `_pm` made every recovery fail for ever."""
    path, storage = opened(questdb_data, ORPHANED)
    with storage.open_for_writing("/other", OpenMode.NEW) as file:
        file.pwrite(b"precious", 0)
    storage.link_symbolically(target, f"{path}/2024-01-01.1/_pm.recovering")
    report = repair_table(storage, path)
    assert report.actions[0].kind is ActionKind.REMOVE_UNFINISHED
    assert not report.problems
    assert repair_table(storage, path).actions == ()
    assert storage.kind("/other") is EntryKind.FILE


def test_forgetting_that_was_interrupted_anywhere_is_finished_by_the_next(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    repair_table(storage, path)
    image = storage.image()
    forget_kept(storage, path)
    count = 0
    for stopped in interruptions(image, lambda watched: forget_kept(watched, path)):
        forget_kept(stopped, path)
        assert stopped.digest() == storage.digest()
        count += 1
    assert count == 6
    whole = stopped_at(image, -1, lambda watched: forget_kept(watched, path)).changes
    assert [what[0] for what in whole] == ["unlink", "unlink", "remove directory", "remove directory", "sync directory"]
    assert whole[-1] == ("sync directory", path)


# Who holds the table


def test_a_writer_or_a_pinning_reader_keeps_recovery_out(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    storage.open_for_writing(f"{path}/{PINS_FILE}", OpenMode.NEW).close()
    untouched, other = storage.digest(), storage.fork_process()
    for hold in (lambda: take_writer_lock(other, path), lambda: pin_committed(other, path)):
        with hold():
            for dry_run in (False, True):
                with pytest.raises(BusyError, match="has the table open; try again"):
                    repair_table(storage, path, dry_run=dry_run)
            assert storage.digest() == untouched
    assert repair_table(storage, path).actions
    take_writer_lock(other, path).release()


@pytest.mark.parametrize("reason", [StorageReason.READ_ONLY, StorageReason.NOT_PERMITTED])
def test_a_dry_run_takes_no_lock_where_nothing_can_be_written(questdb_data: Path, reason: StorageReason) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    storage.open_for_writing(f"{path}/{PINS_FILE}", OpenMode.NEW).close()

    class ReadOnly(InterceptedStorage):
        def intercept(self, call: Call, run: Run[Answer]) -> Answer:
            if call.kind in STEPS:
                raise StorageError(call.path, call.kind, reason)
            return run()

    assert repair_table(ReadOnly(storage), path, dry_run=True).actions
    with pytest.raises(StorageError, match=str(reason)):
        repair_table(ReadOnly(storage), path)


def test_recovery_keeps_writers_and_readers_out_while_it_works(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    rejected = 0

    class Curious(WatchedStorage):
        def change(self, *what: str) -> None:
            nonlocal rejected
            if what[0] == "truncate":
                for hold in (take_writer_lock, pin_committed):
                    with pytest.raises(BusyError):
                        hold(self.memory.fork_process(), path)
                    rejected += 1

    repair_table(Curious(storage.image()), path)
    assert rejected == 2


def test_a_version_that_moved_before_the_lock_was_taken_stops_recovery(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)

    class Overtaken(WatchedStorage):
        def change(self, *what: str) -> None:
            if what[1].endswith(PINS_FILE):
                newer = image_of(questdb_data / "power-loss/9.4.2/control-nothing-lost/table")
                with self.memory.open_for_writing(f"{path}/_txn") as txn:
                    (content,) = (each for name, each in newer.files.items() if name.endswith("/_txn"))
                    txn.pwrite(content, 0)
            super().change(*what)

    overtaken = Overtaken(storage.image())
    with pytest.raises(BusyError, match="another writer changed the table"):
        repair_table(overtaken, path)
    assert overtaken.changes == [("open for writing", f"{path}/{PINS_FILE}")]


def test_a_table_that_is_none_is_rejected(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    storage.unlink(f"{path}/_txn")
    for run in (repair_table, forget_kept):
        with pytest.raises(NotATableError, match="holds no _txn"):
            run(storage, path)


def test_the_generation_that_describes_data_parquet_wins_over_another_of_its_token() -> None:
    """An orphan can end at the committed size by chance; only the Thrift footer distinguishes the two."""
    good = SOUND.files[tb.PM]
    token = len(SOUND.files[tb.DATA])
    read, position = pm.read(good, token), pm.newest(good)
    bad = pm.set_chunk(good, "null_count", 2, column=1)
    point = AppendPoint(base_bytes=len(bad), prev=0, checksum=pm.newest(bad).trailer.checksum, since_checksum=bad[-8:])
    group = NewRowGroup(num_rows=3, chunks=read.blocks[0].chunks)
    footer = pm.facts(token)
    footer = replace(
        footer,
        parquet_footer_offset=position.fixed.parquet_footer_offset,
        parquet_footer_length=position.fixed.parquet_footer_length,
    )
    both = bad + append_generation(read.header, point, [group], footer)
    image = SOUND.with_file(tb.PM, both).image()
    assert not verified("/table", image, whole=False).sound
    storage = MemoryStorage.of(image)
    assert kinds(repair_table(storage, "/table")) == [ActionKind.REWRITE_COMMITTED]
    demand_plain("/table", storage)
    assert storage.image().files[f"/table/{tb.PM}"] == good
    alone = MemoryStorage.of(SOUND.with_file(tb.PM, bad).image())
    problems = repair_table(alone, "/table").problems
    assert problems == verified("/table", alone, whole=False).all_problems != ()
    # Of two that contradict data.parquet, what is wrong with the published one is reported.
    worse = NewRowGroup(num_rows=3, chunks=tuple(replace(each, null_count=3) for each in group.chunks))
    both = bad + append_generation(read.header, point, [worse], footer)
    two = MemoryStorage.of(SOUND.with_file(tb.PM, put(0, bad[:8])(both)).image())
    assert repair_table(two, "/table").problems == problems


def test_a_damaged_generation_is_verified_once(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, storage = opened(questdb_data, "power-loss/9.4.2/one-byte-flipped-inside-a-data-page")
    calls = []

    def counting(files: PartitionFiles, partition: Partition, **rest: Any) -> PartitionReport:
        calls.append(files.name)
        return verify_partition(files, partition, **rest)

    monkeypatch.setattr("tornproof.impl.repair.plan.verify_partition", counting)
    assert len(repair_table(storage, path).problems) == 1
    assert calls == ["2024-01-01.1"]


def test_dead_bytes_that_cannot_go_are_named() -> None:
    good, token = SOUND.files[tb.PM], len(SOUND.files[tb.DATA])
    fixed = pm.newest(good).fixed
    footer = replace(
        pm.facts(token, flags=1 << 3, sections=FooterSections(unknown=b"?")),
        parquet_footer_offset=fixed.parquet_footer_offset,
        parquet_footer_length=fixed.parquet_footer_length,
    )
    data = pm.append(good + b"dead dead", footer=footer, anchor=pm.newest(good))
    storage = MemoryStorage.of(SOUND.with_file(tb.PM, data).image())
    report = repair_table(storage, "/table")
    assert (report.actions, report.problems) == ((), ())
    assert report.notes == (f"{tb.PM} keeps its dead bytes: it has optional sections that are unknown here",)


def test_a_generation_that_contradicts_the_table_is_left_alone() -> None:
    longer = SOUND.with_file(tb.DATA, SOUND.files[tb.DATA] + b"dead")
    assert kinds(repair_table(MemoryStorage.of(longer.image()), "/table")) == [ActionKind.CUT_DATA]
    other = longer.with_file("_meta", tb.meta({"ts": TypeTag.TIMESTAMP, "v": TypeTag.DOUBLE}))
    report = repair_table(MemoryStorage.of(other.image()), "/table")
    assert positions(report) == [("_meta", "TYPE of column 'v'")]
    assert report.actions == ()


def test_a_partition_whose_format_flag_is_lost_is_a_problem(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, ORPHANED)
    (_, partition), *_ = parquet_partitions(path, storage)
    offset = partition.flags_offset_bytes + 7
    image = storage.image()
    txn = image.files[f"{path}/_txn"]
    flags = bytes([txn[offset] & ~(1 << 5)])
    report = repair_table(MemoryStorage.of(image.with_file(f"{path}/_txn", put(offset, flags)(txn))), path)
    assert positions(report) == [("_txn", "PARQUET_FORMAT of 2024-01-01.1")]
    assert report.actions == ()


def test_a_damaged_partition_from_before_pm_is_a_problem(questdb_data: Path) -> None:
    path, storage = opened(questdb_data, "legacy/9.3.4/chain")
    (name, partition), *_ = parquet_partitions(path, storage)
    with storage.open_for_writing(f"{path}/{name}/data.parquet") as data:
        data.truncate(partition.token - 1)
    assert positions(repair_table(storage, path)) == [(f"{name}/data.parquet", "size")]


def test_a_footer_length_that_leaves_the_file_is_a_problem() -> None:
    data = SOUND.files[tb.DATA]
    for length in (len(data) - 8, len(data), 2**32 - 1):
        tail = put(len(data) - 8, struct.pack("<I", length))(data)
        damaged = SOUND.with_file(tb.DATA, tail).with_file(tb.PM, put(0, bytes(8))(SOUND.files[tb.PM]))
        report = repair_table(MemoryStorage.of(damaged.image()), "/table")
        assert positions(report) == [(tb.PM, "PARQUET_META_FILE_SIZE")]
        assert report.actions == ()


def test_a_partition_without_its_files_is_a_problem(questdb_data: Path) -> None:
    for file in ("_pm", "data.parquet"):
        path, storage = opened(questdb_data, ORPHANED)
        storage.unlink(f"{path}/2024-01-01.1/{file}")
        untouched = storage.digest()
        report = repair_table(storage, path)
        assert positions(report) == [(f"2024-01-01.1/{file}", "file")]
        assert storage.digest() == untouched


def test_sizes_that_make_no_sense_are_problems(questdb_data: Path) -> None:
    for token in (-(2**63), -1, 0, 7, 8, 9, 2**31, 2**62, 2**63 - 1):
        table = SOUND.with_file("_txn", tb.txn(rows=3, token=token))
        report = repair_table(MemoryStorage.of(table.image()), "/table")
        assert (report.actions, len(report.problems)) == ((), 1)


def test_the_version_of_columns_that_a_killed_commit_has_stored_is_taken_back() -> None:
    """Servers wait for the version that `_txn` names, so that nobody can read the table there."""
    image = with_column_versions(MemoryStorage.of(SOUND.image()), [(0, 1, 7, 0)], version=5, path="/table").image()
    cv = image.files["/table/_cv"]
    storage = MemoryStorage.of(image.with_file("/table/_cv", put(0, word(6))(cv)))
    action = Action(kind=ActionKind.TAKE_BACK_VERSION, file="_cv", before_bytes=len(cv), after_bytes=len(cv))
    assert repair_table(storage, "/table", dry_run=True).actions == (action,)
    assert repair_table(storage, "/table").actions == (action,)
    assert storage.image().files["/table/_cv"] == cv
    assert repair_table(storage, "/table").actions == ()


def test_missing_versions_of_columns_are_the_problem_that_verify_reports() -> None:
    """Recovery said that there was nothing to do of a table that no server opens."""
    sound = MemoryStorage()
    new_table_of_rows(sound, "/table", {"ts": "TIMESTAMP"}, [0])
    image = sound.image().without_file("/table/_cv")
    (reported,) = verified("/table", MemoryStorage.of(image)).problems
    assert (reported.file, reported.actual) == ("_cv", "none")
    for dry_run in (True, False):
        assert repair_table(MemoryStorage.of(image), "/table", dry_run=dry_run).problems == (reported,)
    # A mere copy of commits has no columns either.
    assert repair_table(MemoryStorage.of(image.without_file("/table/_meta")), "/table").problems == ()


@pytest.mark.parametrize("version", [4, 7, 105])
def test_another_version_of_columns_is_the_problem_that_verify_reports(version: int) -> None:
    """Recovery said that there was nothing to do, and servers waited for the committed version until they gave up."""
    image = with_column_versions(MemoryStorage.of(SOUND.image()), [(0, 1, 7, 0)], version=5, path="/table").image()
    storage = MemoryStorage.of(image.with_file("/table/_cv", put(0, word(version))(image.files["/table/_cv"])))
    before = storage.image()
    (reported,) = verified("/table", storage).problems
    assert (reported.field, reported.actual) == ("VERSION", str(version))
    for dry_run in (True, False):
        report = repair_table(storage, "/table", dry_run=dry_run)
        assert (report.actions, report.problems) == ((), (reported,))
    assert storage.image().files == before.files
