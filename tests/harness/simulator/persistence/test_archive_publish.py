"""Runs of the archive under power cuts: every crash on every legal disk, reruns after it, and planted defects."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from depth import drawn, nightly
from planted_faults import protocol

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.power_cuts.examination import Stage
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.explorer import explore_power
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.points import NEW_STATE, OLD_STATE, SYNC_FAILED
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import C_8, C_512, CDIR, MODELS, N_512, A, B, D, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.table_readers import Seen, see
from tornproof.impl.errors import CorruptError, RowsRejectedError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.partition_names import looks_like_partition
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.commit import Action
from tornproof.impl.write.incoming_rows import conform, portions
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.ingest.commit import (
    ARCHIVE_DIRECTORY,
    DONE,
    INPROGRESS,
    PENDING,
    ArchiveTable,
    UnsettledRunError,
    ingested,
    open_archive,
    prepared_path,
)

pytestmark = pytest.mark.usefixtures("remembering")

PATH = "table"
HOUR = 3_600_000_000
COLUMNS = (NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG))
# Files this small would be rewritten at every commit, but growing in place is to be explored.
OPTIONS = WriterOptions(rewrite_unused_ratio=1.0)
FIRST = Settings(stops_at_first=True)
WITHOUT_SAMPLES = tuple(model for model in MODELS if model not in (C_8, N_512))
PUBLISH_FILE = "tornproof.pipeline.ingest.commit:publish_file"
BUILDERS: list[Callable[..., PartitionBuild]] = [PartitionBuild]
"""The last one builds partitions; others are planted defects."""

Plant: TypeAlias = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class File:
    """A source: what stands for its digest, and the times of its rows."""

    digest: str
    times: tuple[int, ...]


NIGHT = File("night", (5, 9, HOUR + 3))
LATE = File("late", (7, HOUR + 4, 2 * HOUR + 1))


@dataclass(frozen=True, slots=True)
class Archived:
    """What a reader finds: the rows, and the files that count as taken."""

    rows: Seen
    digests: tuple[str, ...]


class IncompleteError(TornproofError):
    """A file stands under its final name, and is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTarget(Target):
    """Tables that runs are added to; an operation is the one file of a run."""

    name: str = "archive"
    whole: frozenset[str] = frozenset()
    """Digests of all files of partitions as fault-free runs leave them."""
    is_merged: bool = False
    """Whether executors merge late rows, instead of the writer."""

    def create(self, storage: Storage, path: str) -> None:
        create_table(storage, path, COLUMNS, timestamp="ts", partition_by=PartitionBy.HOUR)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Runs]:
        with open_archive(storage, path, OPTIONS) as archive:
            yield Runs(storage, archive, is_merged=self.is_merged)

    def read(self, storage: Storage, path: str) -> Archived:
        for name in filter(looks_like_partition, storage.listdir(path)):
            for file in (DATA_FILE, PM_FILE):
                if self.whole and digest(storage, f"{path}/{name}/{file}") not in self.whole:
                    raise IncompleteError(f"{name}/{file}")
        taken = [each for entry in ingested(storage, path) for each in sorted(entry.digests)]
        return Archived(see(storage, path), tuple(taken))


class Runs:
    """One process that adds runs, with the executors' part of them."""

    def __init__(self, storage: Storage, archive: ArchiveTable, *, is_merged: bool) -> None:
        self._storage = storage
        self._archive = archive
        self._is_merged = is_merged

    def commit(self, operation: File) -> None:
        archive = self._archive
        if any(operation.digest in entry.digests for entry in archive.entries):
            return
        assert archive.table.metadata is not None
        there = {partition.timestamp for partition in archive.transaction.partitions}
        prepared, rows = [], []
        for start, group in itertools.groupby(operation.times, key=lambda time: time // HOUR * HOUR):
            content = rows_at(list(group))
            if start in there and self._is_merged:
                prepared.append(self._merged(start, content))
                continue
            if start in there:
                rows.append(content)
                continue
            file_path = prepared_path(f"{archive.table.path}/hour-{start // HOUR}", "0")
            with BUILDERS[-1](self._storage, file_path, archive.table.metadata, OPTIONS, table_name=PATH) as build:
                build.append(build.encoded(content))
                prepared.append(build.finish(start))
        archive.publish(sources=[{"digest": operation.digest}], keys={}, prepared=prepared, rows=rows)

    def _merged(self, start: int, content: pa.Table) -> PreparedPartition:
        """Return a partition that an executor has merged late rows with."""
        table = self._archive.table
        snapshot = open_snapshot(table)
        assert table.metadata is not None
        rows = conform(content, snapshot.schema, "ts")
        (portion,) = portions(rows, "ts", table.metadata, snapshot.transaction.partitions)
        file_path = prepared_path(f"{table.path}/hour-{start // HOUR}", "0")
        return prepare_partition(self._storage, snapshot, portion, file_path, OPTIONS)


def rows_at(times: list[int]) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "v": pa.array(range(len(times)), pa.int64())})


def digest(storage: Storage, path: str) -> str:
    """Return what tells a file from others; what is not there is no incomplete file."""
    if storage.kind(path) is not EntryKind.FILE:
        return "none"
    with storage.open_for_reading(path) as file:
        return hashlib.sha256(file.pread(file.size_bytes(), 0)).hexdigest()


def after(*files: File) -> MemoryStorage:
    storage = MemoryStorage()
    target = ArchiveTarget()
    target.create(storage, PATH)
    for file in files:
        with target.open_writer(storage, PATH) as writer:
            writer.commit(file)
    return storage


def case(*before: File, run: File = NIGHT, is_merged: bool = False) -> TestCase:
    """Return a run after others, and the same one again after a crash of it.

    A first run makes new partitions alone, so that all files under final names must be those of an undisturbed one.
    """
    start = DiskImage.of_files(dict(after(*before).image().files))
    whole: frozenset[str] = frozenset()
    if not before:
        done = after(run)
        whole = frozenset({"none", *(hashlib.sha256(content).hexdigest() for content in done.image().files.values())})
    return TestCase(
        target=ArchiveTarget(whole=whole, is_merged=is_merged),
        path=PATH,
        operations=(run,),
        first_session=(0,),
        second_session=(0,),
        start=start,
    )


def phase_of(explored: TestCase, *models: Model, settings: Settings | None = None) -> Phase:
    points = (OLD_STATE, NEW_STATE) if any(not model.fails_syncs for model in models) else (SYNC_FAILED,)
    return explore_power(explored, models=models, settings=settings, points=points)


@pytest.mark.parametrize(
    ("before", "run", "is_merged", "models"),
    [
        nightly((), NIGHT, False, WITHOUT_SAMPLES, id="new partitions"),
        pytest.param((NIGHT,), LATE, False, (B, CDIR), id="late rows beside a new partition"),
        nightly((NIGHT,), LATE, True, (B, CDIR), id="late rows that executors merge"),
        nightly((NIGHT,), LATE, False, (*WITHOUT_SAMPLES, C_8), id="late rows, all models"),
        nightly((NIGHT,), LATE, True, (*WITHOUT_SAMPLES, C_8), id="late rows that executors merge, all models"),
        nightly((), NIGHT, False, (*WITHOUT_SAMPLES, C_8), id="new partitions, all models"),
    ],
)
def test_every_crash_leaves_the_run_whole_or_undone_and_the_next_one_ends_the_same(
    before: tuple[File, ...], run: File, is_merged: bool, models: tuple[Model, ...]
) -> None:
    phase = phase_of(case(*before, run=run, is_merged=is_merged), *models)
    assert (phase.verdict, phase.findings, phase.note) == (Verdict.VALID, (), "")
    assert phase.controls == "passed"
    assert all(f"{model} complete" in phase.bound for model in models if model in (A, B))


def test_an_entry_that_is_renamed_by_halves_is_lost_or_counts_twice() -> None:
    """A known limit (docs/archive.md): the entry of a committed run can lose both names, or keep both."""
    traces, judge = Traces(case()), PowerJudge(case())
    (point,) = (
        point
        for point in traces.of(N_512).points
        if point.before is not None and point.before.path.endswith(PENDING) and point.before.kind is CallKind.RENAME
    )
    digests = set()
    for picked in legal_disks(point.kernel, N_512):
        verdict, facts = judge.judge(picked.disk, point.bounds)
        seen = facts.seen[Stage.READ]
        assert isinstance(seen, Archived)
        digests.add((seen.digests, verdict.violated))
    judge.close()
    assert digests == {(("night",), ""), ((), Property.WRONG_SNAPSHOT), (("night", "night"), Property.WRONG_SNAPSHOT)}


class Without(InterceptedStorage):
    """A storage in which calls of one kind do nothing."""

    def __init__(self, inner: Storage, left_out: CallKind) -> None:
        super().__init__(inner)
        self._left_out = left_out

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        return None if call.kind is self._left_out else run()  # type: ignore[return-value]


def build_without(left_out: CallKind) -> Plant:
    def make(storage: Storage, *arguments: Any, **rest: Any) -> PartitionBuild:
        return PartitionBuild(Without(storage, left_out), *arguments, **rest)

    @contextmanager
    def planted() -> Iterator[None]:
        BUILDERS.append(make)
        yield
        BUILDERS.pop()

    return planted


def entry_without(left_out: CallKind) -> Plant:
    return partial(
        wrapped, PUBLISH_FILE, lambda publish: lambda storage, *rest: publish(Without(storage, left_out), *rest)
    )


def done_at_once(publish: Callable[..., None]) -> Callable[..., None]:
    """Give the entry its last name before the commit, and again after it."""

    def published(storage: Storage, directory: str, name: str, suffix: str, content: bytes) -> None:
        publish(storage, directory, name, DONE, content)
        publish(storage, directory, name, suffix, content)

    return published


FAULTS: dict[str, tuple[Plant, set[Model]]] = {
    "partitions get their names before their data is synced": (
        build_without(CallKind.FSYNC),
        {B, C_512, CDIR, D},
    ),
    "the names inside of a partition's directory are not synced": (build_without(CallKind.SYNC_DIRECTORY), {CDIR}),
    "the names of new partitions are not synced": (
        partial(protocol, adoption=(Action.NAME_DIRECTORY,)),
        {B, C_512, CDIR, D},
    ),
    "the entry gets its name before it is synced": (entry_without(CallKind.FSYNC), {B, C_512, CDIR, D}),
    "the entry's name is not synced": (entry_without(CallKind.SYNC_DIRECTORY), {CDIR}),
    "a run counts as done before its commit": (partial(wrapped, PUBLISH_FILE, done_at_once), {A, B, C_512, CDIR, D}),
    "an unfinished run counts for nothing": (
        partial(wrapped, "tornproof.pipeline.ingest.commit:_is_committed", lambda _: lambda *arguments: False),
        {A, B, C_512, CDIR, D},
    ),
    "an unfinished run counts as done": (
        partial(wrapped, "tornproof.pipeline.ingest.commit:_is_committed", lambda _: lambda *arguments: True),
        {A, B, C_512, CDIR, D},
    ),
}


def shown(value: str | tuple[Model, ...]) -> str:
    return value if isinstance(value, str) else " ".join(model.name for model in value)


def models_of_each() -> list[Any]:
    """Return the model that shows all defects for some of them, and for some that others show, those that tell.

    Sets of models that show a defect differ in A, B and Cdir where they differ at all.
    """
    first = {frozenset(expected): name for name, (_, expected) in reversed(FAULTS.items())}
    by_day, told_by_day = drawn(1, list(FAULTS)), drawn(2, list(first.values()))
    return [
        case
        for name, (_, expected) in FAULTS.items()
        for case in (
            (name, (CDIR,)) if name in by_day else nightly(name, (CDIR,)),
            (name, (A, B)) if name in told_by_day else nightly(name, (A, B)),
            nightly(name, (C_512, D)),
        )
    ]


@pytest.mark.parametrize(("name", "models"), models_of_each(), ids=shown)
def test_a_planted_defect_is_found_in_the_models_that_can_show_it_and_in_no_other(
    name: str, models: tuple[Model, ...]
) -> None:
    plant, expected = FAULTS[name]
    sound = case()
    sound.oracle((0, 0))
    detected = set()
    for model in models:
        with plant():
            phase = phase_of(case().expecting(sound), model, settings=FIRST)
        detected |= {model} if phase.findings else set()
    assert detected == expected.intersection(models)


def test_a_run_that_others_have_overtaken_is_not_guessed_at() -> None:
    storage = after(NIGHT)
    directory = f"{PATH}/{ARCHIVE_DIRECTORY}"
    name = next(name for name in storage.listdir(directory) if name.endswith(DONE))
    storage.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(DONE)}{PENDING}")
    assert [entry.version for entry in ingested(storage, PATH)] == [1]
    with open_writer(storage, PATH, options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows_at([11]))
        writer.commit()
    with pytest.raises(UnsettledRunError, match=r"made version 1, and the table has version 2 now; rename the file"):
        ingested(storage, PATH)


class KilledError(Exception):
    """Ends a process before the first action of its commit, or after the last one."""


@contextmanager
def killed(*, before: bool) -> Iterator[None]:
    whole = TableWriter.commit

    def commit(writer: TableWriter) -> int:
        if not before:
            whole(writer)
        writer.rollback()
        # A process that is killed does nothing more.
        writer.close()
        raise KilledError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(TableWriter, "commit", commit)
        yield


def run_late(storage: Storage, times: Sequence[int]) -> None:
    with open_archive(storage, PATH, OPTIONS) as archive:
        archive.publish(sources=[{"digest": "late"}], keys={}, prepared=[], rows=[rows_at(list(times))])


def test_a_run_that_is_rejected_leaves_nothing_that_a_later_run_cannot_decide() -> None:
    """Its entry stayed pending, and after a commit of another writer nobody could add a run to the table any more."""
    storage = after(NIGHT)
    with pytest.raises(RowsRejectedError, match="in no partition"):
        run_late(storage, (-1,))
    assert storage.listdir(f"{PATH}/{ARCHIVE_DIRECTORY}") == (f"000000001{DONE}",)
    with open_writer(storage, PATH, options=OPTIONS, allow_parquet_last=True) as writer:
        for time in (6, 8):
            writer.write(rows_at([time]))
            writer.commit()
    run_late(storage, (7,))
    assert [sorted(entry.digests) for entry in ingested(storage, PATH)] == [["night"], ["late"]]


@pytest.mark.parametrize("times", [(6, 8), (6, 9)], ids=["equal rows", "other rows"])
def test_a_killed_run_does_not_count_because_another_writer_added_as_many_rows(times: tuple[int, ...]) -> None:
    """Such a run was skipped, and its rows were lost: only the row counts of intervals were compared."""
    storage = after(NIGHT)
    with killed(before=True):
        run_late(storage, (6, 8))
    with open_writer(storage, PATH, options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows_at(list(times)))
        assert writer.commit() == 2
    assert [sorted(entry.digests) for entry in ingested(storage, PATH)] == [["night"]]
    run_late(storage, (6, 8))
    assert [sorted(entry.digests) for entry in ingested(storage, PATH)] == [["night"], ["late"]]


@pytest.mark.parametrize("times", [(6, 8), ()], ids=["rows", "rejects alone"])
def test_a_run_that_is_killed_after_its_commit_counts_once(times: tuple[int, ...]) -> None:
    storage = after(NIGHT)
    with killed(before=False):
        run_late(storage, times)
    with open_archive(storage, PATH, OPTIONS) as archive:
        assert [sorted(entry.digests) for entry in archive.entries] == [["night"], ["late"]]
        assert archive.transaction.version == 1 + bool(times)


def test_a_pending_entry_of_an_earlier_release_is_read_unless_a_version_may_be_its_own() -> None:
    storage = after(NIGHT)
    path = f"{PATH}/{ARCHIVE_DIRECTORY}/000000002{PENDING}"
    sources = [{"digest": "late"}]
    for version, counted in ((2, ["night"]), (1, None)):
        entry = {"format": 1, "number": 2, "version": version, "rows_after": "0", "keys": {}, "sources": sources}
        with storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW) as file:
            file.pwrite(json.dumps(entry).encode(), 0)
        if counted is None:
            with pytest.raises(UnsettledRunError, match="made version 1, and the table has version 1 now"):
                ingested(storage, PATH)
        else:
            assert [each for entry in ingested(storage, PATH) for each in entry.digests] == counted
    storage.rename(path, path.removesuffix(PENDING) + DONE)
    assert [each for entry in ingested(storage, PATH) for each in entry.digests] == ["night", "late"]


def test_a_version_that_another_writer_made_does_not_make_an_unfinished_run_count() -> None:
    storage = after(NIGHT)
    directory = f"{PATH}/{ARCHIVE_DIRECTORY}"
    with pytest.raises(RowsRejectedError), open_archive(storage, PATH, OPTIONS) as archive:
        archive.publish(sources=[{"digest": "late"}], keys={}, prepared=[], rows=[rows_at([6]), pa.table({"x": [1]})])
    content = storage.image().files[f"{directory}/000000001{DONE}"]
    changed = content.replace(b'"number": 1', b'"number": 2').replace(b'"version": 1', b'"version": 2')
    with storage.open_for_writing(f"{directory}/000000002{PENDING}", OpenMode.NEW) as file:
        file.pwrite(changed, 0)
    with open_writer(storage, PATH, options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows_at([11, 12]))
        assert writer.commit() == 2
    with open_archive(storage, PATH, OPTIONS) as archive:
        assert [entry.number for entry in archive.entries] == [1]
    assert storage.listdir(directory) == (f"000000001{DONE}",)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 3, "number": 1}', b"\xff"])
def test_an_entry_that_is_none_is_rejected_in_words(content: bytes) -> None:
    storage = after(NIGHT)
    with storage.open_for_writing(f"{PATH}/{ARCHIVE_DIRECTORY}/000000001{DONE}") as file:
        file.truncate(0)
        file.pwrite(content, 0)
    with pytest.raises(CorruptError, match="expected the entry of a run of a format up to 2"):
        ingested(storage, PATH)


def test_unfinished_files_of_a_killed_run_are_gone_after_the_next_one_opens() -> None:
    storage = after(NIGHT)
    storage.mkdir(f"{PATH}/2024-01-01.7{INPROGRESS}")
    storage.mkdir(f"{PATH}/{ARCHIVE_DIRECTORY}/spool")
    for file in (f"2024-01-01.7{INPROGRESS}/{DATA_FILE}", f"{ARCHIVE_DIRECTORY}/000000002{INPROGRESS}"):
        storage.open_for_writing(f"{PATH}/{file}", OpenMode.NEW).close()
    with open_archive(storage, PATH, OPTIONS):
        pass
    assert storage.listdir(f"{PATH}/{ARCHIVE_DIRECTORY}") == (f"000000001{DONE}",)
    assert not [name for name in storage.listdir(PATH) if name.endswith(INPROGRESS)]
