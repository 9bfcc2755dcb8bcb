"""Migration on Spark: what one process does, byte for byte, with the work spread; and what a killed driver leaves."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import quick_java
from command_line import ROOT
from depth import nightly
from golden_data import content_of
from legacy_trees import LONG_TABLE, write_legacy_tree
from pyspark.sql import SparkSession

from tornproof.cli.commands import migrate as command
from tornproof.cli.commands.migrate import Job, Mode, migrate, waves
from tornproof.cli.migration_dataset import FILE, SCHEMA
from tornproof.cli.migration_sources import Source
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Converted
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration
from tornproof.impl.migrate.table_migration import TablePlan, convert_table, migrate_table, plan_table, publish_table
from tornproof.impl.storage.holders import OpenFiles
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import Table
from tornproof.impl.txn.pins import take_writer_lock
from tornproof.pipeline import migration
from tornproof.pipeline.files import location_of
from tornproof.pipeline.migration import convert_one, convert_tables
from tornproof.pipeline.spark.session import JobFailedError

MASTER = "local[2,3]"
LOOK_COUNT_MAX = 12_000


@pytest.fixture
def legacy_tree(questdb_data: Path, tmp_path: Path) -> Callable[..., Path]:
    """Function that writes the tree anew at the same place."""

    def write(copies: int = 1, days: int = 20) -> Path:
        tree = tmp_path / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        write_legacy_tree(questdb_data, tree, copies=copies, days=days)
        return tree

    return write


def run(path: Path, master: str | None, **options: Any) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """The command in this process, where a session is active: exit code, JSON and rows of the dataset."""
    # A report may lie in no table, and a path in the tree may be one.
    position = path.parents[len(path.parts) - path.parts.index("tree") - 1]
    folder = position / ("spread" if master else "alone")
    code = migrate(
        str(path),
        out=options.get("out"),
        dry_run=options.get("dry_run", False),
        mode=options.get("mode", Mode.SERVER),
        master=master,
        report=location_of(folder),
        json_target=str(position / "report.json"),
    )
    document = json.loads((position / "report.json").read_text())
    return code, document, rows_of(folder)


def rows_of(report: Path) -> list[dict[str, Any]]:
    table = pq.read_table(report / FILE)
    assert table.schema.equals(SCHEMA)
    return list(table.to_pylist())


def damage(tree: Path) -> None:
    """Make a table and a partition to be refused, and a `_pm` that is unsound, one that is sound, one unfinished."""
    (tree / "00/chain/_txn").write_bytes(b"short")
    days = sorted((tree / LONG_TABLE).glob("2024-*"))
    (days[2] / "data.parquet").write_bytes(b"short")
    (days[5] / "_pm").write_bytes(b"")
    (days[6] / "_pm.migrating").write_bytes(b"half")
    migrate_table(OperatingSystemStorage(), str(tree / "00/types"))


# The same as in one process


@pytest.mark.nightly
@pytest.mark.parametrize(("copies", "days", "count"), [(1, 4, 16), (2, 20, 44)], ids=["few", "many"])
def test_result_is_that_of_one_process(
    spark: SparkSession, legacy_tree: Callable[..., Path], questdb_data: Path, copies: int, days: int, count: int
) -> None:
    tree = legacy_tree(copies=copies, days=days)
    before = content_of(tree)
    alone = run(tree, None)
    expected = content_of(tree)
    tree = legacy_tree(copies=copies, days=days)
    assert content_of(tree) == before
    spread = run(tree, MASTER)
    assert content_of(tree) == expected != before
    assert spread == alone
    code, document, rows = spread
    assert (code, document["counts"]["migrated"]) == (0, count)
    assert len(rows) == count
    for file in (questdb_data / "legacy/9.3.4").glob("*/migrated/*.pm"):
        assert expected[f"{copies - 1:02}/{file.parents[1].name}/{file.stem}/_pm"] == file.read_bytes()
    again = run(tree, MASTER)
    assert again[1]["counts"]["already"] == count
    assert content_of(tree) == expected


@pytest.mark.nightly
@pytest.mark.parametrize("wave", [7, nightly(1024)])
def test_rejections_are_those_of_one_process_and_touch_no_other_table(
    spark: SparkSession, legacy_tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, wave: int
) -> None:
    monkeypatch.setattr(migration, "WAVE_PARTITIONS", wave)
    seen = []
    for master in (None, MASTER):
        damage(tree := legacy_tree())
        with take_writer_lock(OperatingSystemStorage(), str(tree / "00/many")):
            seen.append((*run(tree, master), content_of(tree)))
    assert seen[0] == seen[1]
    code, document, rows, _ = seen[1]
    counts = document["counts"]
    assert (code, counts["migrated"], counts["replaced"], counts["already"], counts["rejected"]) == (1, 18, 1, 1, 1)
    rejected = {row["table"].rpartition("/")[2]: row for row in rows if row["outcome"] == "rejected"}
    assert set(rejected) == {"chain", "many", LONG_TABLE}
    assert "another writer has the table open" in rejected["many"]["reason"]
    assert (rejected["chain"]["partition"], rejected["chain"]["problems"][0]["file"]) == (None, "_txn")
    assert rejected[LONG_TABLE]["partition"] == "2024-01-03.0"
    assert not list((tree / "00/many").glob("*/_pm"))


@pytest.mark.parametrize(
    "options", [nightly({"dry_run": True}), nightly({"out": "beside"}), {"mode": Mode.TOOL, "out": "beside"}]
)
def test_options_mean_what_they_mean_in_one_process(
    spark: SparkSession, legacy_tree: Callable[..., Path], options: dict[str, Any]
) -> None:
    seen = []
    tree = legacy_tree(days=3)
    before = content_of(tree)
    for master in (None, MASTER):
        beside = tree.parent / "beside"
        shutil.rmtree(beside, ignore_errors=True)
        given = options | ({"out": str(beside)} if "out" in options else {})
        seen.append((*run(tree, master, **given), content_of(beside)))
        assert content_of(tree) == before
    assert seen[0] == seen[1]
    assert len(seen[1][3]) == (15 if "out" in options else 0)
    assert seen[1][1]["counts"]["migrated"] == 15


def test_one_table_or_partition_is_taken_too(spark: SparkSession, legacy_tree: Callable[..., Path]) -> None:
    tree = legacy_tree(days=3)
    partition = tree / LONG_TABLE / "2024-01-02.0"
    assert run(partition, MASTER)[1]["counts"]["migrated"] == 1
    assert [path.parent for path in tree.rglob("_pm")] == [partition]
    assert run(tree / LONG_TABLE, MASTER)[1]["counts"] == {
        "sources": 1, "migrated": 2, "replaced": 0, "already": 1, "rejected": 0, "native": 0
    }  # fmt: skip


@pytest.mark.nightly
def test_report_is_a_dataset_for_spark(spark: SparkSession, legacy_tree: Callable[..., Path]) -> None:
    tree = legacy_tree(days=3)
    run(tree, MASTER)
    report = spark.read.parquet(str(tree.parent / "spread"))
    counts = {row["outcome"]: row["count"] for row in report.groupBy("outcome").count().collect()}
    assert counts == {"migrated": 15}
    ((pm_bytes,),) = report.selectExpr("sum(pm_bytes)").collect()
    assert pm_bytes == sum(path.stat().st_size for path in tree.rglob("_pm"))


# Who converts, and who writes


@pytest.mark.nightly
def test_partitions_of_one_table_are_spread_and_come_back_in_order(
    spark: SparkSession, legacy_tree: Callable[..., Path]
) -> None:
    plan = plan_table(OperatingSystemStorage(), str(legacy_tree(copies=0) / LONG_TABLE))
    assert isinstance(plan, TablePlan)
    reported: list[int] = []
    before = content_of(Path(plan.table.path))
    spread = list(convert_tables(spark, [plan], ConversionMode.SERVER, keeps_sound=True, progress=reported.append))
    here = list(convert_table(plan, ConversionMode.SERVER, keeps_sound=True))
    assert [each.content for each in spread if isinstance(each, Converted)] == [
        each.content for each in here if isinstance(each, Converted)
    ]
    assert [each.files.name for each in spread if isinstance(each, Converted)] == [
        f"2024-01-{day:02}.0" for day in range(1, 21)
    ]
    assert reported == sorted(reported) and reported[-1] == 20
    assert content_of(Path(plan.table.path)) == before


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks run one after the other in this process, where nothing is asked of Spark itself."""
    monkeypatch.setattr(command, "spark_session", lambda *_, **__: nullcontext())
    monkeypatch.setattr(migration, "slot_count", lambda spark: 1)
    monkeypatch.setattr(migration, "run_each", lambda spark, count, work, **_: list(map(work, range(count))))


def test_an_executor_that_does_not_see_a_table_ends_the_job(
    without_spark: None, legacy_tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = legacy_tree(days=1)
    monkeypatch.setattr(migration, "convert_one", lambda *_: None)
    with pytest.raises(JobFailedError, match=f"^{tree}/00/chain: .* does not see the table; all need the same file"):
        run(tree, MASTER)
    assert list(tree.rglob("_pm")) == []


def test_a_table_that_is_removed_meanwhile_is_rejected_and_all_others_are_migrated(
    without_spark: None, legacy_tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the job for all tables, and there was no report."""
    tree = legacy_tree(days=2)

    def convert_after_removal(*given: Any) -> Any:
        shutil.rmtree(tree / LONG_TABLE, ignore_errors=True)
        return convert_one(*given)

    monkeypatch.setattr(migration, "convert_one", convert_after_removal)
    code, document, rows = run(tree, MASTER)
    assert (code, document["counts"]["migrated"], document["counts"]["rejected"]) == (1, 12, 2)
    reasons = [(row["partition"], row["reason"]) for row in rows if row["outcome"] == "rejected"]
    sentence = f"{tree / LONG_TABLE}: cannot convert: it was removed meanwhile"
    assert reasons == [("2024-01-01.0", sentence), ("2024-01-02.0", sentence)]


def test_a_table_that_an_executor_cannot_look_at_is_rejected(legacy_tree: Callable[..., Path]) -> None:
    plan = plan_table(OperatingSystemStorage(), str(legacy_tree(copies=0, days=1) / LONG_TABLE))
    assert isinstance(plan, TablePlan)
    loop = Path(f"{plan.table.path} loop")
    loop.symlink_to(loop)
    table = Table(storage=plan.table.storage, path=str(loop), metadata=plan.table.metadata)
    done = convert_one([(table, plan.partitions[0])], Path.cwd(), ConversionMode.SERVER, True, 0)
    assert isinstance(done, PartitionMigration)
    assert (done.outcome, "leads in a circle" in done.sentence) == (Outcome.REJECTED, True)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["", "damaged"])
def test_results_of_executors_have_the_paths_that_were_given(
    legacy_tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    """Relative paths became absolute, so that the report was another one than that of one process."""
    tree = legacy_tree(copies=0, days=1)
    monkeypatch.chdir(tree)
    plan = plan_table(OperatingSystemStorage(), LONG_TABLE)
    assert isinstance(plan, TablePlan)
    (partition,) = plan.partitions
    if is_damaged:
        shutil.rmtree(plan.table.files_of(partition).path)
    (here,) = convert_table(plan, ConversionMode.SERVER, keeps_sound=True)
    monkeypatch.chdir("/")
    assert convert_one([(plan.table, partition)], tree, ConversionMode.SERVER, True, 0) == here
    assert isinstance(here, Converted) is not is_damaged
    assert Path.cwd() == Path("/")
    assert convert_one([(plan.table, partition)], Path("/no directory"), ConversionMode.SERVER, True, 0) is None


@pytest.mark.parametrize("has_appeared", [False, True])
def test_a_pm_that_appeared_after_the_conversion_is_not_overwritten(
    legacy_tree: Callable[..., Path], has_appeared: bool
) -> None:
    storage, path = OperatingSystemStorage(), legacy_tree(copies=0, days=2) / LONG_TABLE
    plan = plan_table(storage, str(path))
    assert isinstance(plan, TablePlan)
    converted = list(convert_table(plan, ConversionMode.SERVER, keeps_sound=True))
    if has_appeared:
        (path / "2024-01-01.0" / "_pm").write_bytes(b"of somebody else")
    done: Migration = publish_table(storage, plan, converted, dry_run=False, out=None)
    first = Outcome.REJECTED if has_appeared else Outcome.MIGRATED
    assert [partition.outcome for partition in done.partitions] == [first, Outcome.MIGRATED]
    if has_appeared:
        assert "2024-01-01.0/_pm: another process created it meanwhile" in done.partitions[0].reason
        assert (path / "2024-01-01.0" / "_pm").read_bytes() == b"of somebody else"


# A driver of its own


def start(tree: Path, output: int = subprocess.PIPE, **variables: str) -> subprocess.Popen[str]:
    """The command as a driver of its own; what a killed one leaves goes below the test's folder."""
    temporary = tree.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "tornproof", "migrate", str(tree), "--master", "local[2]"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "TMPDIR": str(temporary),
            quick_java.VARIABLE: quick_java.OPTIONS,
        }
        | variables,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output == subprocess.PIPE else output,
        text=True,
    )


def descendants(process: int) -> dict[int, bytes]:
    """The processes below one, with their command lines, as far as they live long enough to be asked."""
    found: dict[int, bytes] = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found |= descendants(child)
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes()
    return found


def converting(tree: Path) -> Callable[[int], bool]:
    return lambda driver: any(b"pyspark.daemon" in command for command in descendants(driver).values())


def published(tree: Path, count: int) -> Callable[[int], bool]:
    positions = [path.with_name("_pm") for path in tree.rglob("data.parquet")]
    return lambda _: sum(position.exists() for position in positions) >= count


def kill_when(is_time: Callable[[int], bool], tree: Path) -> None:
    """Kill a driver with SIGKILL, and wait until what it had started has noticed."""
    with start(tree) as driver:
        while driver.poll() is None and not is_time(driver.pid):
            time.sleep(0.002)
        below = descendants(driver.pid)
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
        assert below
        wait_until_gone(list(below))


def wait_until_gone(processes: list[int]) -> None:
    for _ in range(LOOK_COUNT_MAX):
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return
        time.sleep(0.05)
    raise AssertionError("somebody outlives the driver")


def demand_whole(tree: Path, before: dict[str, bytes], after: dict[str, bytes]) -> int:
    """Every `_pm` is missing or whole and nothing else has changed; returns how many there are."""
    now = content_of(tree)
    made = {name: content for name, content in now.items() if name.endswith("/_pm")}
    assert made.items() <= after.items()
    rest = {name: content for name, content in now.items() if not name.endswith(("/_pm", "_pins", "/_pm.migrating"))}
    assert rest == before
    return len(made)


@pytest.mark.nightly
@pytest.mark.parametrize("days", [10, 60])
def test_a_killed_driver_leaves_whole_files_and_a_second_run_finishes(
    spark: SparkSession, legacy_tree: Callable[..., Path], days: int
) -> None:
    before = content_of(tree := legacy_tree(days=days))
    run(tree, None)
    after = content_of(tree)
    tree = legacy_tree(days=days)
    kill_when(published(tree, days // 2), tree)
    assert days // 2 <= demand_whole(tree, before, after) <= days + 12
    code, document, _ = run(tree, MASTER)
    assert (code, document["counts"]["rejected"]) == (0, 0)
    assert content_of(tree) == after


@pytest.mark.nightly
def test_a_terminal_shows_progress_and_report_alone_also_with_the_java_of_the_wheel(
    needs_spark: None, legacy_tree: Callable[..., Path], tmp_path: Path
) -> None:
    tree = legacy_tree(copies=0, days=3)
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for tool in folder.iterdir() if folder.is_dir() else ():
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    own, terminal = os.openpty()
    with start(tree, terminal, JAVA_HOME="", PATH=str(tools), TERM="xterm", COLUMNS="300") as driver:
        os.close(terminal)
        shown = b"".join(iter(partial(read_terminal, own), b"")).decode()
        assert driver.wait() == 0, shown
    os.close(own)
    lines = {re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in re.split(r"[\r\n]+", shown)} - {""}
    drawn = {line for line in lines if re.match(r"(\W )?(starting Spark|converting) .* \d+:\d\d:\d\d$", line)}
    assert drawn
    report = {re.sub("  +", "  ", line.removeprefix(str(tree))) for line in lines - drawn}
    assert {re.sub(r"\d+  \d+  -$", "sizes", line) for line in report} == {
        "partition  outcome  ends at  bytes of _pm  old bytes in  why",
        "2024-01-01.0  migrated  sizes",
        "2024-01-02.0  migrated  sizes",
        "2024-01-03.0  migrated  sizes",
        ": 3 migrated",
        "looked at 1 table or file, 3 parquet partitions; 0 native partitions without _pm",
    }


def read_terminal(terminal: int) -> bytes:
    with suppress(OSError):
        # Linux says so when nobody has the other end any more.
        return os.read(terminal, 65536)
    return b""


@pytest.mark.nightly
def test_500_partitions_survive_five_kills_of_the_driver(
    needs_spark: None, legacy_tree: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def write() -> Path:
        return legacy_tree(copies=25, days=200)

    before = content_of(tree := write())
    assert sum(name.endswith("data.parquet") for name in before) == 500
    run(tree, None)
    after = content_of(tree)
    draw = random.Random(7)
    for count in (None, *sorted(draw.sample(range(1, 500), 4))):
        tree = write()
        kill_when(converting(tree) if count is None else published(tree, count), tree)
        left = demand_whole(tree, before, after)
        with start(tree) as second:
            out, _ = second.communicate()
        assert second.returncode == 0, out
        assert content_of(tree) == after
        with capsys.disabled():
            print(f"killed at {'the conversion' if count is None else count}: {left} of 500 were there, then all")


def test_a_wave_of_tables_without_parquet_partitions_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WAVE_PARTITIONS", 2)
    monkeypatch.setattr(Job, "plan", lambda job, source, opened: Migration(path=source.path, native_count=1))
    job, sources = Job(out=None, dry_run=True, mode=Mode.SERVER), [Source(path=name) for name in "abcde"]
    assert [[source.path for source, _ in wave] for wave in waves(job, sources, OpenFiles())] == [
        ["a", "b"], ["c", "d"], ["e"]
    ]  # fmt: skip
