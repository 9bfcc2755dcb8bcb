"""Every job on Spark, small, and what came of it as JSON; as a script on a cluster of two executors of one slot each.

`python cluster_jobs.py CHECKOUT INPUTS FOLDER MASTER [VICTIM]`: the checkout is known to the driver alone. The session
is one of ours on MASTER, or with `active:MASTER` one that somebody else has made. VICTIM is killed twice, in a campaign
and in a migration: an executor, or the driver, which then is to be started again. Without one only jobs on tables run.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from tornproof.harness.common.verdict import Phase
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import RecordedQuestion, explore_recorded
from tornproof.harness.recording.steps import End, Start, Step, StepKind, Trace
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.table_migration import TablePlan, plan_table, publish_table
from tornproof.impl.storage.interface import EntryKind, OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.spec import Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import EVENTS, Task, complete_task
from tornproof.pipeline.datasource.scan import scan
from tornproof.pipeline.datasource.source import register
from tornproof.pipeline.exploration import explore_on_spark
from tornproof.pipeline.files import Location
from tornproof.pipeline.history.check import Terms
from tornproof.pipeline.history.job import check_dataset, open_dataset
from tornproof.pipeline.ingest.job import run_archive
from tornproof.pipeline.ingest.settings import ArchiveSettings
from tornproof.pipeline.migration import convert_tables
from tornproof.pipeline.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLUSTER = "local-cluster[2,1,1024]"
SPEC = Spec(
    format=1,
    name="cluster",
    groups=(
        Group(
            name="seeds",
            scenarios=("append-and-power-cut",),
            presets=("hardened",),
            seeds=Seeds(count=6),
            seeds_a_task=2,
        ),
    ),
)
LOST_RENAME = RecordedQuestion(
    trace=Trace(
        start=Start(format=1, tornproof="0", command=("it",), directories=(), files={"cur": b"old"}, links={}),
        steps=(
            Step(kind=StepKind.OPEN, call=1, name="openat", path="new", handle=1, mode=OpenMode.NEW),
            Step(kind=StepKind.WRITE, call=2, name="write", path="new", handle=1, content=b"new"),
            Step(kind=StepKind.RENAME, call=3, name="rename", path="new", target="cur"),
            Step(kind=StepKind.ACKNOWLEDGE, call=4, name="write", content=b"done"),
        ),
        end=End(exit_code=0, calls=4, steps=4),
    ),
    checker=Checker(
        command="sh -c 'test -s $0/cur && { grep -q new $0/cur || test ! -s $1; }' {dir} {acks}", seconds=60
    ),
    models=("A", "B", "Cdir"),
    states_max=99,
)
"""A program that syncs neither a file nor its new name, and a checker that knows what is lost."""
CONTROL = Group(name="controls-x", faults=("prev is always 0",), seeds=Seeds(count=4), control=True)
MARK = "an executor was killed"


def do_jobs(
    spark: SparkSession,
    inputs: Path,
    folder: Path,
    storage: OperatingSystemStorage | None = None,
    work: Callable[[Task, Location], None] = complete_task,
) -> dict[str, Any]:
    """Return what each job came to, which must not depend on where it runs; a migration's tables have this storage."""
    return {
        **do_jobs_on_tables(spark, inputs, folder, storage),
        **_do_jobs_on_runs(spark, inputs, folder, work),
    }


def do_jobs_on_tables(
    spark: SparkSession, inputs: Path, folder: Path, storage: OperatingSystemStorage | None = None
) -> dict[str, Any]:
    """Return what the jobs on tables came to, and a search for crash states."""
    if not (folder / "tree").exists():
        shutil.copytree(inputs / "tree", folder / "tree")
    archived = run_archive(spark, [str(inputs / "frames.jsonl.gz")], str(folder / "archived"), ArchiveSettings())
    return {
        "migration": migrate_tree(spark, folder / "tree", storage or OperatingSystemStorage()),
        "archive": [archived.total("row_count"), digests(folder / "archived", "data.parquet")],
        "source": read_rows(spark, str(folder / "archived")),
        "scan": scan_rows(spark, str(folder / "archived"), folder / "staging"),
        "power": power_of(explore_on_spark(spark, explore_recorded(LOST_RENAME), LOST_RENAME)),
    }


def _do_jobs_on_runs(
    spark: SparkSession, inputs: Path, folder: Path, work: Callable[[Task, Location], None]
) -> dict[str, Any]:
    # All controls of a real campaign take minutes.
    campaign_spec.__dict__["CONTROL_GROUPS"] = (CONTROL,)
    summary = run_campaign(spark, SPEC, folder / "campaign", work=work)
    dataset = open_dataset([folder / "campaign" / EVENTS])
    judged = check_dataset(spark, dataset, terms=Terms())
    with chdir(inputs):
        alone = check_dataset(spark, open_dataset([Path("events.parquet")]), terms=Terms())
    return {
        "campaign": summary.result_hash,
        "history": [str(judged.verdict), judged.counts, judged.denominators],
        "one history": [str(alone.verdict), alone.counts, alone.denominators],
    }


def power_of(phase: Phase) -> list[Any]:
    """Return what a phase of a recorded program says."""
    findings = [[finding.sentence, finding.evidence] for finding in phase.findings]
    return [phase.verdict.name, phase.explored, phase.bound, phase.counts, phase.controls, findings]


def migrate_tree(spark: SparkSession, tree: Path, storage: OperatingSystemStorage) -> dict[str, str]:
    """Migrate every table below; the tables reach executors with this storage."""
    own = OperatingSystemStorage()
    with chdir(tree):
        found = [plan_table(own, str(path.parent)) for path in sorted(Path().rglob("_txn"))]
        plans = [plan for plan in found if isinstance(plan, TablePlan)]
        shipped = [replace(plan, table=replace(plan.table, storage=storage)) for plan in plans]
        converted = convert_tables(spark, shipped, ConversionMode.SERVER, keeps_sound=True)
        for plan in plans:
            assert publish_table(own, plan, converted, dry_run=False, out=None).is_complete
    return digests(tree, "_pm")


def read_rows(spark: SparkSession, table: str) -> list[list[Any]]:
    """Read a table through the data source."""
    register(spark)
    return sums_of(spark.read.format("tornproof").load(table))


def scan_rows(spark: SparkSession, table: str, staging: Path) -> list[list[Any]]:
    """Read a table through Spark's own reader."""
    staging.mkdir(exist_ok=True)
    with scan(spark, table, staging=str(staging)) as frame:
        return sums_of(frame)


def sums_of(frame: DataFrame) -> list[list[Any]]:
    """Return what tells the rows of `archived` apart from others."""
    rows = frame.selectExpr("count(*)", "sum(v)", "min(ts)", "max(ts)")
    return [[str(value) for value in row] for row in rows.collect()]


def digests(folder: Path, name: str) -> dict[str, str]:
    """Return a digest of every file of that name below."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob(name))
    }


def executors_of(spark: SparkSession) -> list[list[Any]]:
    """Return process, working directory and place of the code, as two tasks at a time see them."""

    def look(_: Iterable[int]) -> Iterable[list[Any]]:
        import time

        import tornproof.pipeline.migration
        from tornproof import impl

        time.sleep(0.5)
        yield [
            os.getppid(),
            str(Path.cwd()),
            [module.__file__ for module in (impl, tornproof.pipeline.migration)],
            sys.path,
        ]

    return spark.sparkContext.parallelize(range(4), 4).mapPartitions(look).collect()


def do_jobs_with_a_kill(spark: SparkSession, inputs: Path, folder: Path, victim: str) -> dict[str, Any]:
    """Run all jobs; in two of them an executor or the driver is killed once, in the middle of a task."""
    driver = os.getpid()

    def kill(mark: Path) -> None:
        if not mark.exists():
            mark.write_text(MARK)
            # A worker is forked by a daemon, which the executor's Java has started.
            java = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(driver if victim == "driver" else java, signal.SIGKILL)

    class DeadlyStorage(OperatingSystemStorage):
        def kind(self, path: str) -> EntryKind:
            if "types" in path:
                kill(folder / "killed while migrating")
            return super().kind(path)

    def deadly_task(task: Task, out: Location) -> None:
        if task.number == 2:
            kill(folder / "killed while campaigning")
        complete_task(task, out)

    folder.mkdir(exist_ok=True)
    return {
        **do_jobs(spark, inputs, folder, DeadlyStorage(), deadly_task),
        "killed": sorted(path.name for path in folder.glob("killed*")),
    }


@contextmanager
def session_on(master: str) -> Iterator[SparkSession]:
    """Yield a session of ours, or the one that was there before."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.ui.enabled": "false"}
    theirs = master.removeprefix("active:")
    if theirs == master:
        with spark_session(master, settings=settings) as spark:
            yield spark
        return
    from pyspark.sql import SparkSession as Session

    builder = Session.builder.master(theirs)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    with spark_session() as ours:
        assert ours is spark
        yield ours
    assert spark.range(1).count() == 1, "it has ended with the block"
    spark.stop()


def main(inputs: Path, folder: Path, master: str, victim: str | None = None) -> None:
    """Print one JSON document."""
    with session_on(master) as spark:
        application, jobs = spark.sparkContext.applicationId, folder / "jobs"
        do = functools.partial(do_jobs_with_a_kill, victim=victim) if victim else do_jobs_on_tables
        done = {"executors": executors_of(spark), "jobs": do(spark, inputs, jobs)}
    print(json.dumps({"driver": os.getpid(), "application": application, **done}))


if __name__ == "__main__":
    main(Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
