"""Whole runs of the archive on Spark: all rows once, also on reruns, retries and additions."""

import gzip
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from archive_lines import arguments_in, demand_archived, write_lines
from command_line import run_here
from pyspark.sql import SparkSession
from real_tables import rows_of, snapshot_of, verified

from tornproof.api.tables import create
from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.impl.errors import BusyError, NotATableError, StorageError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.pipeline.ingest import job as archive
from tornproof.pipeline.ingest.build import BuildTask, build_partition
from tornproof.pipeline.ingest.job import run_archive
from tornproof.pipeline.ingest.schema import SchemaRejectedError, read_schema_file
from tornproof.pipeline.ingest.settings import ArchiveReport, ArchiveSettings
from tornproof.pipeline.ingest.source import find_sources
from tornproof.pipeline.spark.session import JobFailedError, spark_session

HOUR = 3_600_000_000
START = 1_704_067_200_000_000
HOURLY = ArchiveSettings(partition_by=PartitionBy.HOUR)


def frames(numbers: range, step: int = 1) -> bytes:
    lines = [{"ts": START + number * step, "n": number, "gps": {"lat": number / 2}} for number in numbers]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture
def position(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(position: Path, name: str, content: bytes) -> None:
    (position / "in" / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def run(spark: SparkSession, position: Path, settings: ArchiveSettings = HOURLY) -> ArchiveReport:
    return run_archive(spark, find_sources([str(position / "in")]), str(position / "table"), settings)


def numbers_of(position: Path) -> list[int]:
    rows = rows_of(snapshot_of(position / "table"))
    assert rows["gps_lat"].to_pylist() == [number / 2 for number in rows["n"].to_pylist()]
    assert verified(position / "table").sound
    return list(map(int, rows["n"].to_pylist()))


def entries(position: Path) -> list[str]:
    return sorted(file.name for file in (position / "table" / "_archive").iterdir())


@pytest.mark.parametrize("late_bytes_max", [archive.LATE_BYTES_MAX, 0], ids=["in place", "merged by tasks"])
def test_all_rows_are_added_once_by_a_first_run_a_rerun_and_an_addition(
    spark: SparkSession, position: Path, monkeypatch: pytest.MonkeyPatch, late_bytes_max: int
) -> None:
    monkeypatch.setattr(archive, "LATE_BYTES_MAX", late_bytes_max)
    put(position, "a.jsonl.gz", frames(range(0, 300), HOUR // 100))
    put(position, "b.jsonl", frames(range(300, 400), HOUR // 100) + b"bad\n\n" + frames(range(400, 401), HOUR // 100))
    put(position, "twin.jsonl", frames(range(0, 300), HOUR // 100))
    first = run(spark, position)
    # Of two files with the same content one is taken: digests are of the bytes as they lie there, so these are two.
    assert (first.version, first.total("line_count"), first.total("row_count")) == (1, 703, 701)
    assert (first.reject_counts, first.total("blank_count")) == ({"not JSON": 1}, 1)
    assert first.new_partitions == tuple(f"2024-01-01T0{hour}" for hour in range(5))
    assert numbers_of(position) == sorted([*range(401), *range(300)])
    kept = [json.loads(line) for line in Path(first.rejects_path).read_text().splitlines()]
    assert [(each["file"], each["line"], each["reason"]) for each in kept] == [
        (str(position / "in" / "b.jsonl"), 101, "not JSON")
    ]
    again = run(spark, position)
    assert (again.version, again.total("line_count"), len(again.skipped)) == (1, 0, 3)
    put(position, "late.jsonl.gz", frames(range(50, 60), HOUR // 100) + frames(range(900, 903), HOUR // 100))
    put(position, "copy.jsonl", (position / "in" / "b.jsonl").read_bytes())
    added = run(spark, position)
    assert (added.version, added.total("row_count"), len(added.skipped)) == (2, 13, 4)
    assert (added.grown_partitions, added.new_partitions) == (("2024-01-01T00",), ("2024-01-01T09",))
    # A partition that grows in place keeps its directory, and one that a task merges gets another one.
    directories = sorted(file.name for file in (position / "table").glob("2024-01-01T00*"))
    assert directories == ["2024-01-01T00.0", *(["2024-01-01T00.1"] if late_bytes_max == 0 else [])]
    assert numbers_of(position) == sorted([*range(401), *range(300), *range(50, 60), *range(900, 903)])
    assert entries(position) == ["000000001.json", "000000002.json", "rejects-000000001.jsonl"]
    assert [file.name for file in (position / "table").iterdir() if "inprogress" in file.name] == []


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tasks run one after the other in this process, where nothing is asked of Spark itself."""

    def each_here(job: Any, what: str, work: Any, given: Any, *, groups: Any = None) -> list[Any]:
        return [work(each) for each in given]

    monkeypatch.setattr(archive._Job, "_on_executors", each_here)
    for name in ("slot_count", "executor_core_count"):
        monkeypatch.setattr(archive, name, lambda spark: 1)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_line_with_a_key_that_is_no_text_is_one_reject(without_spark: Any, position: Path, dry_run: bool) -> None:
    put(position, "a.jsonl", b'{"ts": 1704067200}\n{"ts": 1704067200, "a\\ud800": 1}\n')
    report = run(without_spark, position, ArchiveSettings(dry_run=dry_run))
    assert (report.total("row_count"), dict(report.reject_counts)) == (1, {"unknown key": 1})


@pytest.mark.parametrize("order", [(0, 1, 1), (1, 0, 1)])
def test_keys_that_no_line_has_shown_are_those_of_the_first_line_that_does(
    without_spark: Any, position: Path, order: tuple[int, ...]
) -> None:
    """A run recorded the names of all columns as their keys, also where it had seen none of their values."""
    create(position / "table", {"ts": "TIMESTAMP", "gps_lat": "DOUBLE"}, timestamp="ts")
    lines = [{"ts": 1704067200}, {"ts": 1704067200, "gps": {"lat": 1.5}}]
    settings = ArchiveSettings(allow_parquet_last=True)
    for number, which in enumerate(order):
        put(position, f"{number}.jsonl", json.dumps(lines[which]).encode() + b"\n" * (number + 1))
        report = run(without_spark, position, settings)
        assert (report.total("row_count"), report.reject_counts) == (1, {})


def test_a_schema_of_some_columns_leaves_the_known_keys_of_the_others(without_spark: Any, position: Path) -> None:
    """Their names were taken for their keys, in that run and in all runs after it."""
    (position / "s.toml").write_text('ts = "TIMESTAMP"\n')
    with_schema = ArchiveSettings(schema=read_schema_file(position / "s.toml", None))
    for number, settings in enumerate((HOURLY, with_schema, HOURLY)):
        put(position, f"{number}.jsonl", b'{"ts": 1704067200}\n' * 1_000 * number + frames(range(5)))
        report = run(without_spark, position, settings)
        assert (report.total("row_count"), report.reject_counts) == (1_000 * number + 5, {})


def test_a_schema_says_other_keys_than_earlier_runs(without_spark: Any, position: Path) -> None:
    put(position, "a.jsonl", frames(range(3)))
    run(without_spark, position)
    (position / "s.toml").write_text('ts = "TIMESTAMP"\ngps_lat = "DOUBLE"\n')
    with_schema = ArchiveSettings(schema=read_schema_file(position / "s.toml", None))
    for number, settings in enumerate((with_schema, HOURLY)):
        put(position, f"{number}.jsonl", b'{"ts": 1704067200, "gps_lat": 1.5}\n' * (number + 1))
        report = run(without_spark, position, settings)
        assert (report.total("row_count"), report.reject_counts) == (number + 1, {})


def bad(count: int) -> bytes:
    return b'{"ts": 1704067200}\n' + b"bad\n" * count


def reject_counts(folder: Path) -> dict[str, int]:
    return {file.name: len(file.read_text().splitlines()) for file in sorted(folder.iterdir())}


class Killed(InterceptedStorage):
    """The storage of a process that is killed before one of its changes: nothing changes from then on."""

    def __init__(self, is_last: Callable[[Call], bool]) -> None:
        super().__init__(OperatingSystemStorage())
        self._is_last = is_last
        self._is_killed = False

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.kind in STEPS:
            self._is_killed = self._is_killed or self._is_last(call)
            if self._is_killed:
                raise StorageError(file=call.path, operation=call.kind, reason="killed")
        return run()


def run_killed(is_last: Callable[[Call], bool], source: Path, table: Path, settings: ArchiveSettings = HOURLY) -> None:
    job = archive._Job(None, str(table), settings, lambda *_: None, Killed(is_last))  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="killed"):
        job.run([str(source)])


def renaming(pattern: str) -> Callable[[Call], bool]:
    return lambda call: call.kind is CallKind.RENAME and Path(call.path).match(pattern)


def test_a_run_that_was_killed_while_it_created_its_table_can_be_repeated(without_spark: Any, tmp_path: Path) -> None:
    """The directory without `_txn` was refused as no table, whenever the command was repeated."""
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(frames(range(10)))
    run_killed(renaming("_txn.new"), source, table)
    assert not (table / "_txn").exists()
    left = sorted(table.iterdir())
    dry_run = ArchiveSettings(dry_run=True)
    assert run_archive(without_spark, [str(source)], str(table), dry_run).total("row_count") == 10
    assert sorted(table.iterdir()) == left
    assert run_archive(without_spark, [str(source)], str(table), HOURLY).version == 1
    assert numbers_of(tmp_path) == list(range(10))


def test_an_empty_directory_becomes_a_table_and_one_with_other_files_is_refused_also_by_a_dry_run(
    without_spark: Any, tmp_path: Path
) -> None:
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(frames(range(10)))
    table.mkdir()
    (table / "notes.txt").touch()
    for settings in (HOURLY, ArchiveSettings(dry_run=True)):
        with pytest.raises(NotATableError, match="it holds no _txn"):
            run_archive(without_spark, [str(source)], str(table), settings)
    assert [file.name for file in table.iterdir()] == ["notes.txt"]
    (table / "notes.txt").unlink()
    assert run_archive(without_spark, [str(source)], str(table), HOURLY).version == 1


def test_a_run_without_new_files_decides_about_a_killed_one_before_another_writer_commits(
    without_spark: Any, tmp_path: Path
) -> None:
    """It left the entry pending, and after a commit of another writer nobody could add a run to the table any more."""
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(frames(range(10)))
    run_killed(renaming("000000001.pending"), source, table)
    left = entries(tmp_path)
    dry_run = ArchiveSettings(dry_run=True)
    assert run_archive(without_spark, [str(source)], str(table), dry_run).skipped == {str(source): str(source)}
    assert entries(tmp_path) == left == ["000000001.pending", "spool"]
    report = run_archive(without_spark, [str(source)], str(table), HOURLY)
    assert (report.version, report.skipped) == (1, {str(source): str(source)})
    assert entries(tmp_path) == ["000000001.json"]
    with open_writer(OperatingSystemStorage(), str(table), allow_parquet_last=True) as writer:
        writer.write(rows_of(snapshot_of(table)).slice(0, 1))
        assert writer.commit() == 2
    source.write_bytes(frames(range(10, 20)))
    assert run_archive(without_spark, [str(source)], str(table), HOURLY).version == 3


@pytest.mark.parametrize("left", ["_archive/spool", "_archive/000000002.inprogress", "2024-01-01T00.0a-7.inprogress"])
def test_a_run_without_new_files_removes_what_a_killed_one_left(without_spark: Any, tmp_path: Path, left: str) -> None:
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(frames(range(10)))
    run_archive(without_spark, [str(source)], str(table), HOURLY)
    there = sorted(table.rglob("*"))
    if left.startswith("_archive/0"):
        (table / left).touch()
    else:
        (table / left).mkdir()
    run_archive(without_spark, [str(source)], str(table), HOURLY)
    assert sorted(table.rglob("*")) == there


def test_a_run_without_new_files_takes_the_table_only_if_a_killed_one_left_something(
    without_spark: Any, tmp_path: Path
) -> None:
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(frames(range(10)))
    run_archive(without_spark, [str(source)], str(table), HOURLY)
    with open_writer(OperatingSystemStorage(), str(table), allow_parquet_last=True):
        assert run_archive(without_spark, [str(source)], str(table), HOURLY).version == 1
        (table / "_archive" / "spool").mkdir()
        with pytest.raises(BusyError):
            run_archive(without_spark, [str(source)], str(table), HOURLY)


def test_tasks_of_a_lost_run_that_go_on_beside_the_next_one_change_nothing(
    without_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files had the names of those of the next run, which committed their rows as those of its own sources."""
    table, lost, following = tmp_path / "table", tmp_path / "lost.jsonl", tmp_path / "following.jsonl"
    lost.write_bytes(frames(range(5)) + b"bad\n" * 3)
    following.write_bytes(frames(range(10, 20)) + b"bad\n")
    going_on: dict[str, list[Callable[[], object]]] = {}

    def each_beside(job: Any, what: str, work: Any, given: Any, *, groups: Any = None) -> list[Any]:
        made = [work(each) for each in given]
        if what in going_on:
            for task in going_on[what]:
                task()
            return made
        going_on[what] = [partial(work, each) for each in given]
        if what == "encoding partitions":
            raise KeyboardInterrupt
        return made

    monkeypatch.setattr(archive._Job, "_on_executors", each_beside)
    with pytest.raises(KeyboardInterrupt):
        run_archive(without_spark, [str(lost)], str(table), HOURLY)
    report = run_archive(without_spark, [str(following)], str(table), HOURLY)
    assert numbers_of(tmp_path) == list(range(10, 20))
    assert rejects_of(tmp_path) == {report.rejects_path: 1}
    assert [str(path) for path in table.rglob("*") if "inprogress" in path.name or path.name == "spool"] == []


def test_rejects_of_tables_of_one_name_are_all_kept_in_a_folder_of_both(without_spark: Any, tmp_path: Path) -> None:
    """Each of them replaced the file of the other, and those of a table that was there before it."""
    settings = ArchiveSettings(rejects_directory=str(tmp_path / "rejects"))
    for count, table in enumerate(("p/t", "q/t", "p/t", "q/t"), 1):
        (tmp_path / f"{count}.jsonl").write_bytes(bad(count))
        (tmp_path / table).parent.mkdir(exist_ok=True)
        if table == "q/t":
            shutil.rmtree(tmp_path / table, ignore_errors=True)
        report = run_archive(without_spark, [str(tmp_path / f"{count}.jsonl")], str(tmp_path / table), settings)
        assert len(Path(report.rejects_path).read_text().splitlines()) == count
    assert reject_counts(tmp_path / "rejects") == {f"t-rejects-00000000{count}.jsonl": count for count in range(1, 5)}


def test_rejects_of_a_run_that_was_killed_are_there_once_after_the_next_one(
    without_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ArchiveSettings(rejects_directory=str(tmp_path / "rejects"))
    sources = [str(tmp_path / f"{count}.jsonl") for count in (1, 2)]
    for source, count in zip(sources, (1, 2), strict=True):
        Path(source).write_bytes(bad(count))

    def killed(writer: TableWriter) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableWriter, "commit", killed)
        run_archive(without_spark, sources[:1], str(tmp_path / "t"), settings)
    (tmp_path / "other").mkdir()
    run_archive(without_spark, sources[1:], str(tmp_path / "other" / "t"), settings)
    report = run_archive(without_spark, sources, str(tmp_path / "t"), settings)
    assert report.rejects_path == str(tmp_path / "rejects" / "t-rejects-000000001.jsonl")
    assert reject_counts(tmp_path / "rejects") == {"t-rejects-000000001.jsonl": 3, "t-rejects-000000002.jsonl": 2}


def rejects_of(position: Path) -> dict[str, int]:
    """The lines of all files of rejects, also of unfinished ones."""
    files = [*(position / "table" / "_archive").glob("rejects-*"), *position.glob("to*/*")]
    return {str(file): len(file.read_bytes().splitlines()) for file in files}


@pytest.mark.parametrize("bad_count", [0, 2])
@pytest.mark.parametrize("folders", [(None, None), (None, "to"), ("to", None), ("to", "to"), ("to", "to another")])
@pytest.mark.parametrize("killed_before", ["2024-01-01.*-0.inprogress", "*rejects-000000001.jsonl.inprogress"])
def test_rejects_of_a_killed_run_do_not_become_those_of_the_next_one(
    without_spark: Any, tmp_path: Path, killed_before: str, folders: tuple[str | None, str | None], bad_count: int
) -> None:
    """They stayed under the number that the next run got, which had none, or had its own elsewhere."""
    first, second = (ArchiveSettings(rejects_directory=each and str(tmp_path / each)) for each in folders)
    source, table = tmp_path / "a.jsonl", tmp_path / "table"
    source.write_bytes(bad(3))
    run_killed(renaming(killed_before), source, table, first)
    source.write_bytes(bad(bad_count))
    report = run_archive(without_spark, [str(source)], str(table), second)
    assert rejects_of(tmp_path) == ({report.rejects_path: bad_count} if bad_count else {})
    has_place = bool(bad_count and folders[1])
    assert [name for name in entries(tmp_path) if name.endswith(".rejects")] == ["000000001.rejects"] * has_place


def test_rejects_of_a_killed_run_are_removed_however_often_the_next_ones_are_killed(
    without_spark: Any, tmp_path: Path
) -> None:
    position, kept = tmp_path / "now", tmp_path / "kept"
    position.mkdir()
    settings = ArchiveSettings(rejects_directory=str(position / "to"))
    source, table = position / "a.jsonl", position / "table"
    source.write_bytes(bad(3))
    run_killed(renaming("2024-01-01.*-0.inprogress"), source, table, settings)
    source.write_bytes(bad(0))
    position.rename(kept)
    for change in range(20):
        shutil.copytree(kept, position)
        later = iter(range(change))
        run_killed(lambda call, later=later: next(later, None) is None, source, table, settings)  # type: ignore[misc]
        run_archive(without_spark, [str(source)], str(table), settings)
        assert sum(rejects_of(position).values()) == 0
        shutil.rmtree(position)


def test_rejects_that_a_table_of_another_name_took_stay_where_they_are(without_spark: Any, tmp_path: Path) -> None:
    settings = ArchiveSettings(rejects_directory=str(tmp_path / "to"))
    source = tmp_path / "a.jsonl"
    source.write_bytes(bad(3))
    run_killed(renaming("2024-01-01.*-0.inprogress"), source, tmp_path / "original", settings)
    shutil.copytree(tmp_path / "original", tmp_path / "table")
    run_archive(without_spark, [str(source)], str(tmp_path / "original"), settings)
    source.write_bytes(bad(0))
    run_archive(without_spark, [str(source)], str(tmp_path / "table"), settings)
    assert entries(tmp_path) == ["000000001.json"]
    assert rejects_of(tmp_path) == {str(tmp_path / "to" / "original-rejects-000000001.jsonl"): 3}


def test_a_task_that_is_tried_again_adds_nothing_twice(
    spark: SparkSession, position: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(position, "a.jsonl", frames(range(200), HOUR // 100))

    def fails_once(storage: Any, token: str, task: BuildTask) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        done = build_partition(storage, task, f"{token}-{context.taskAttemptId()}")
        if context.attemptNumber() == 0:
            raise RuntimeError("lost after its work")
        return done

    monkeypatch.setattr(archive, "_build_one", fails_once)
    assert run(spark, position).version == 1
    assert numbers_of(position) == list(range(200))
    assert [file.name for file in (position / "table").iterdir() if "inprogress" in file.name] == []


def test_a_run_that_fails_leaves_the_table_as_it_was_and_the_next_one_adds_all(
    spark: SparkSession, position: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(position, "a.jsonl", frames(range(10), HOUR // 100))

    def fails(storage: Any, token: str, task: BuildTask) -> Any:
        raise RuntimeError("no more room")

    with monkeypatch.context() as patched:
        patched.setattr(archive, "_build_one", fails)
        with pytest.raises(JobFailedError, match="no more room"), spark_session():
            run(spark, position)
    assert snapshot_of(position / "table").transaction.version == 0
    assert entries(position) == []
    assert run(spark, position).total("row_count") == 10
    assert numbers_of(position) == list(range(10))


def test_a_dry_run_counts_and_changes_nothing(spark: SparkSession, position: Path) -> None:
    put(position, "a.jsonl", frames(range(10)) + b"bad\n")
    report = run(spark, position, ArchiveSettings(dry_run=True))
    assert (report.version, report.total("row_count"), report.reject_counts) == (None, 10, {"not JSON": 1})
    assert sorted(file.name for file in position.iterdir()) == ["in"]


def test_lines_that_contradict_the_table_are_rejects_and_a_contradicting_schema_is_rejected(
    spark: SparkSession, position: Path
) -> None:
    put(position, "a.jsonl", frames(range(10)))
    run(spark, position)
    put(position, "b.jsonl", b'{"ts": 1704067200, "n": 1.5}\n{"ts": 1704067200, "m": 1}\n{"ts": 1704067200, "n": 7}\n')
    report = run(spark, position)
    assert (report.total("row_count"), dict(report.reject_counts)) == (
        1,
        {"value of the wrong type": 1, "unknown key": 1},
    )
    put(position, "c.jsonl", frames(range(20, 21)))
    (position / "s.toml").write_text('ts = "TIMESTAMP"\nn = "DOUBLE"\n')
    with pytest.raises(SchemaRejectedError, match="the designated timestamp of the table is 'ts', not 'n'"):
        run(spark, position, ArchiveSettings(timestamp="n"))
    with pytest.raises(SchemaRejectedError, match="column 'n' of the schema is none of the table's of that type"):
        run(spark, position, ArchiveSettings(schema=read_schema_file(position / "s.toml", None)))


@pytest.mark.nightly
def test_a_file_of_nothing_but_bad_lines_is_remembered_without_a_version(spark: SparkSession, position: Path) -> None:
    put(position, "a.jsonl", frames(range(10)))
    run(spark, position)
    put(position, "b.jsonl", b"bad\n")
    report = run(spark, position)
    assert (report.version, report.total("row_count"), dict(report.reject_counts)) == (1, 0, {"not JSON": 1})
    again = run(spark, position)
    assert (again.version, sorted(again.skipped)) == (
        1,
        [str(position / "in" / name) for name in ("a.jsonl", "b.jsonl")],
    )


def test_the_command_prints_what_became_of_the_lines_and_ends_with_1_for_rejects(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_lines(tmp_path)
    demand_archived(run_here(*arguments_in(tmp_path)), tmp_path)
