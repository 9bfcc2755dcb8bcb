"""A campaign on YARN: its driver here or on the cluster, results on HDFS, and driver or executor killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from command_line import ROOT
from driver_runs import SECONDS_MAX
from hadoop_cluster import HadoopCluster, java_home
from pyspark.sql import SparkSession
from standalone_cluster import spark_script

from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.spec import load_spec
from tornproof.pipeline.campaign.tasks import RESULTS
from tornproof.pipeline.files import Location, location_of

pytestmark = pytest.mark.nightly
ENTRY = ROOT / "src" / "tornproof" / "__main__.py"
DRIVER, EXECUTOR = "deploy.yarn.ApplicationMaster ", "executor.YarnCoarseGrainedExecutorBackend"
RESULTS_BEFORE_KILL = 2
POLL_SECONDS = 0.1
SPEC = """
format = 1
name = "small"
[[groups]]
name = "g"
scenarios = ["append-and-power-cut"]
seeds = { count = 60 }
seeds_a_task = 4
"""
SETTINGS = {
    "spark.yarn.jars": f"local:{spark_script('').parent}/jars/*",
    "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
    "spark.yarn.am.waitTime": "60s",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.executor.instances": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def out(hadoop: HadoopCluster, tmp_path: Path) -> Location:
    return location_of(f"{hadoop.url}/{tmp_path.name}/out")


def started(command: list[str | Path], hadoop: HadoopCluster, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **hadoop.environment, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=environment)


def options(settings: dict[str, str]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


def in_cluster_mode(spec: Path, out: Location) -> list[str | Path]:
    mode = ["--master", "yarn", "--deploy-mode", "cluster", *options(SETTINGS)]
    return [spark_script("spark-submit"), *mode, ENTRY, "campaign", "--spec", spec, "--out", str(out)]


def kill(pattern: str) -> None:
    """Kill the processes of a kind, as a machine that is lost would end them."""
    found = subprocess.run(["pgrep", "-f", f"^[^ ]*java .*{pattern}"], capture_output=True, text=True, check=True)
    for process in found.stdout.split():
        os.kill(int(process), signal.SIGKILL)


def end_of(run: subprocess.Popen[bytes], folder: Path) -> str:
    assert run.wait(SECONDS_MAX) == 0, (folder / "log.txt").read_text()[-4000:]
    return (folder / "log.txt").read_text()


def hash_of(out: Location) -> object:
    return msgspec.json.decode((out / "summary.json").read_bytes())["result_hash"]


@pytest.fixture
def expected(spark: SparkSession, spec: Path, tmp_path: Path) -> str:
    return run_campaign(spark, load_spec(spec), tmp_path / "here").result_hash


def test_a_driver_of_this_machine_has_its_tasks_done_by_yarn(
    hadoop: HadoopCluster, spec: Path, out: Location, expected: str, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    own = ["--spec", str(spec), "--out", str(out), "--json", str(answer), "--master", "yarn", *options(SETTINGS)]
    end_of(started([sys.executable, "-m", "tornproof", "campaign", *own], hadoop, tmp_path), tmp_path)
    assert json.loads(answer.read_text())["result_hash"] == hash_of(out) == expected


@pytest.mark.parametrize("killed", [None, DRIVER, EXECUTOR], ids=["nothing", "driver", "executor"])
def test_a_driver_of_the_cluster_comes_to_the_same_whatever_is_killed(
    hadoop: HadoopCluster, spec: Path, out: Location, expected: str, tmp_path: Path, killed: str | None
) -> None:
    run = started(in_cluster_mode(spec, out), hadoop, tmp_path)
    if killed is not None:
        while run.poll() is None and len((out / RESULTS).files_below()) < RESULTS_BEFORE_KILL:
            time.sleep(POLL_SECONDS)
        kill(killed)
    said = end_of(run, tmp_path)
    assert hash_of(out) == expected
    application = re.search(r"application_\d+_\d+", said)
    assert application is not None
    # The first container of each attempt at an application is its driver's.
    drivers = hadoop.configuration.parent.rglob(f"{application[0]}/container_*_000001/stdout")
    assert len(list(drivers)) == (2 if killed == DRIVER else 1)
