"""Every job where executors are processes of their own, in another directory, with no code but what is shipped."""

import gzip
import importlib.util
import json
import os
import re
import shutil
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
from history_cases import correct_history
from legacy_trees import write_legacy_tree
from pyspark.sql import SparkSession

from tornproof.harness.common.history import to_arrow
from tornproof.harness.explorers.recorded.explorer import explore_recorded
from tornproof.harness.parallel.tasks import explore_here

CLUSTER_SECONDS_MAX = 3600  # ends what hangs, and no busy machine
FRAME_COUNT = 50
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


@pytest.fixture(scope="module")
def on_cluster(needs_spark: None, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the script says; Spark makes the directories of its executors below its own installation."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    script = shutil.copy(cluster_jobs.__file__, folder)
    done = subprocess.run(
        [sys.executable, script, ROOT, inputs, folder],
        cwd=folder,
        env={
            **environment,
            "TMPDIR": str(folder),
            quick_java.VARIABLE: f'{quick_java.OPTIONS} "-Dspark.executor.extraJavaOptions={quick_java.OPTIONS}"',
        },
        capture_output=True,
        text=True,
        timeout=CLUSTER_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    yield {**document, "stdout": done.stdout, "stderr": done.stderr}
    specification = importlib.util.find_spec("pyspark")
    assert specification is not None and specification.origin is not None
    work = Path(specification.origin).parent / "work"
    shutil.rmtree(work / document["application"], ignore_errors=True)
    with suppress(OSError):  # others may be at work there
        work.rmdir()


@pytest.fixture(scope="module")
def on_threads(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same jobs in the session of all tests."""
    done = cluster_jobs.do_jobs(spark, inputs, tmp_path_factory.mktemp("threads"))
    return dict(json.loads(json.dumps(done)))


def test_code_of_executors_is_what_was_shipped(on_cluster: dict[str, Any]) -> None:
    seen = on_cluster["executors"]
    assert len({directory for _, directory, _, _ in seen}) == 2
    for process, directory, files, _ in seen:
        assert process != on_cluster["driver"]
        assert on_cluster["application"] in directory
        assert all("tornproof-code.zip" in file for file in files)


@pytest.mark.parametrize(
    "job", ["migration", "campaign", "history", "one history", "archive", "source", "scan", "power"]
)
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


def test_executors_were_killed_while_they_worked(on_cluster: dict[str, Any]) -> None:
    assert on_cluster["jobs"]["killed"] == ["killed while campaigning", "killed while migrating"]


def test_nothing_but_the_answer_is_printed(on_cluster: dict[str, Any]) -> None:
    assert on_cluster["stdout"].count("\n") == 1
    # The Python processes of a killed executor, which write where the driver does, may end with a trace of their own.
    assert [line for line in on_cluster["stderr"].splitlines() if NOISE.search(line)] == []
