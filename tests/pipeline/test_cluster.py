"""Every job where executors are processes of their own, in another directory, with no code but what is shipped."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cluster_jobs
import pyarrow.parquet as pq
import pytest
import quick_java
from command_line import ROOT
from driver_runs import SECONDS_MAX, run_driver
from history_cases import correct_history
from legacy_trees import write_legacy_tree
from pyspark.sql import SparkSession
from real_tables import CHAIN
from standalone_cluster import spark_script, standalone_cluster

from tornproof.harness.common.history import to_arrow
from tornproof.harness.explorers.recorded.explorer import explore_recorded
from tornproof.harness.parallel.tasks import explore_here
from tornproof.pipeline.spark.java import java_home

FRAME_COUNT = 50
ENTRY = ROOT / "src" / "tornproof" / "__main__.py"
"""What the documents tell to hand to spark-submit."""
NOISE = re.compile(r"WARN|INFO|java|scala|apache")


@pytest.fixture(scope="module")
def inputs(questdb_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_legacy_tree(questdb_data, folder / "tree", copies=1, days=2)
    pq.write_table(to_arrow(correct_history(7)).sort_by("time_ns"), folder / "events.parquet", row_group_size=20)
    frames = (
        {"ts": f"2024-01-0{1 + number % 3}T00:00:{number % 60:02}Z", "v": number} for number in range(FRAME_COUNT)
    )
    with gzip.open(folder / "frames.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(frame) + "\n" for frame in frames)
    return folder


def run_script(inputs: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run all jobs in a process of its own; Spark makes the directories of its executors below its installation."""
    return run_driver(cluster_jobs.__file__, folder, ROOT, inputs, folder, *arguments)


def said_by(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "stdout": done.stdout, "stderr": done.stderr}


@pytest.fixture(scope="module")
def on_cluster(needs_spark: None, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the script says."""
    document = said_by(run_script(inputs, tmp_path_factory.mktemp("cluster"), cluster_jobs.CLUSTER))
    yield document
    remove_work(document)


def remove_work(document: dict[str, Any]) -> None:
    work = spark_script("").parent.parent / "work"
    shutil.rmtree(work / document["application"], ignore_errors=True)
    with suppress(OSError):  # others may be at work there
        work.rmdir()


@pytest.fixture(scope="module")
def on_threads(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same jobs in the session of all tests."""
    done = cluster_jobs.do_jobs_on_tables(spark, inputs, tmp_path_factory.mktemp("threads"))
    return dict(json.loads(json.dumps(done)))


@pytest.fixture(scope="module")
def all_on_threads(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All jobs there, also those on runs."""
    done = cluster_jobs.do_jobs(spark, inputs, tmp_path_factory.mktemp("all"))
    return dict(json.loads(json.dumps(done)))


def test_code_of_executors_is_what_was_shipped(on_cluster: dict[str, Any]) -> None:
    seen = on_cluster["executors"]
    assert len({directory for _, directory, _, _ in seen}) == 2
    for process, directory, files, _ in seen:
        assert process != on_cluster["driver"]
        assert on_cluster["application"] in directory
        assert all("tornproof-code" in file for file in files)


@pytest.mark.parametrize("job", ["migration", "archive", "source", "scan", "power"])
def test_a_job_comes_to_the_same_as_on_threads(
    on_cluster: dict[str, Any], on_threads: dict[str, Any], job: str
) -> None:
    assert on_threads[job]
    assert on_cluster["jobs"][job] == on_threads[job]


def test_crash_states_are_found_on_spark_as_in_one_process(on_threads: dict[str, Any]) -> None:
    question = cluster_jobs.LOST_RENAME
    here = cluster_jobs.power_of(explore_here(explore_recorded(question), question))
    assert on_threads["power"] == json.loads(json.dumps(here))
    assert here[0] == "INVALID" and here[1] > 5 and here[-1]


def test_nothing_but_the_answer_is_printed(on_cluster: dict[str, Any]) -> None:
    assert on_cluster["stdout"].count("\n") == 1
    # The Python processes of a killed executor, which write where the driver does, may end with a trace of their own.
    assert [line for line in on_cluster["stderr"].splitlines() if NOISE.search(line)] == []


@pytest.fixture(scope="module")
def standalone(needs_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as master:
        yield master


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["{}", "active:{}"], ids=["our session", "an active session"])
def test_a_standalone_cluster_comes_to_the_same_though_executors_are_killed(
    standalone: str, inputs: Path, all_on_threads: dict[str, Any], tmp_path: Path, how: str
) -> None:
    said = said_by(run_script(inputs, tmp_path, how.format(standalone), "executor"))
    assert all("tornproof-code" in file for _, _, files, _ in said["executors"] for file in files)
    assert said["jobs"].pop("killed") == ["killed while campaigning", "killed while migrating"]
    assert said["jobs"] == all_on_threads


@pytest.mark.nightly
def test_a_driver_that_is_killed_and_started_again_comes_to_the_same(
    standalone: str, inputs: Path, all_on_threads: dict[str, Any], tmp_path: Path
) -> None:
    for _ in range(2):
        killed = run_script(inputs, tmp_path, standalone, "driver")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    said = said_by(run_script(inputs, tmp_path, standalone, "driver"))
    assert said["jobs"].pop("killed") == ["killed while campaigning", "killed while migrating"]
    # What the second driver has archived is not there twice.
    row_count, digests = said["jobs"].pop("archive")
    assert (row_count, digests) == (0, all_on_threads["archive"][1])
    assert said["jobs"] == {name: came for name, came in all_on_threads.items() if name != "archive"}


@pytest.mark.nightly
def test_a_session_of_somebody_else_gets_the_code_when_the_format_is_registered(
    needs_spark: None, questdb_data: Path, tmp_path: Path
) -> None:
    code = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
sys.path.insert(0, sys.argv[1])
from tornproof.pipeline.datasource.source import register
register(spark)
register(spark)
def look(batches):
    import pyarrow as pa
    import tornproof.impl
    for _ in batches:
        yield pa.record_batch({"file": [tornproof.impl.__file__]})
print(spark.sparkContext.applicationId, spark.range(1).mapInArrow(look, "file string").head().file)
print(spark.read.format("tornproof").load(sys.argv[2]).count())
spark.stop()
"""
    table = questdb_data / CHAIN
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = f'{quick_java.OPTIONS} "-Dspark.executor.extraJavaOptions={quick_java.OPTIONS}"'
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(table)],
        cwd=tmp_path,
        env={
            **environment,
            "JAVA_HOME": str(java_home()),
            "PYSPARK_PYTHON": sys.executable,
            quick_java.VARIABLE: options,
        },
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    application, file, count = done.stdout.split()
    remove_work({"application": application})
    assert "tornproof-code" in file and int(count) > 0


@pytest.mark.nightly
def test_spark_submit_runs_a_command_on_its_master(standalone: str, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        'format = 1\nname = "x"\n[[groups]]\nname = "g"\nscenarios = ["sync-fails"]\nseeds = { count = 2 }\n'
    )
    submit = [spark_script("spark-submit"), "--master", standalone, "--conf", "spark.ui.enabled=false", ENTRY]
    own = ["campaign", "--spec", tmp_path / "spec.toml", "--out", tmp_path / "out", "--json", tmp_path / "x.json"]
    done = subprocess.run(
        list(map(str, [*submit, *own])),
        env={**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "x.json").read_text())["verdict"] == "VALID"
    assert "x: VALID" in done.stdout
