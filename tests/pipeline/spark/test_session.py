"""A session: the project's settings, its code in a zip, and a sentence for whatever goes wrong."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tornproof.pipeline.spark import session
from tornproof.pipeline.spark.java import PipelineUnavailableError, java_home
from tornproof.pipeline.spark.progress import watched
from tornproof.pipeline.spark.session import (
    COMPILED_HEAD,
    PACKAGES,
    JobFailedError,
    active_session,
    code_archive,
    demand_master,
    demand_spark,
    executor_core_count,
    innermost_message,
    is_local,
    ship_code,
    spark_session,
)
from tornproof.pipeline.spark.tasks import run_each

ROOT = Path(__file__).parents[3]
JAVA_TRACE = """\
An error occurred while calling o66.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 2.0 (TID 4): org.apache.spark.SparkException: Python worker exited unexpectedly
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1136)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
"""
SEVERAL_CAUSES = """\
An error occurred while calling o801.collectToPython.
: org.apache.spark.SparkException: [STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple failures (3) in stage \
materialization:\x20
  1. SparkArithmeticException: [ARITHMETIC_OVERFLOW] overflow
== SQL (line 37, position 29) ==
               greatest(1, (max(time_ns) - min(time_ns)) DIV count(*)) AS width_ns

  2. SparkArithmeticException: [ARITHMETIC_OVERFLOW] overflow
  3. SparkException: Job aborted: org.apache.spark.SparkException: Python worker exited unexpectedly
 SQLSTATE: XX000
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.multiFailures(QueryExecutionErrors.scala:2043)
"""
PYTHON_TRACE = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 4327, in invoke_udf
    run_process()
tornproof.impl.errors.StorageError: a/b: cannot open: it is not there
"""


def test_executors_on_yarn_have_no_sockets_with_names(tmp_path: Path, needs_spark: None) -> None:
    setting = "spark.python.unix.domain.socket.enabled"
    assert {master: session._embedded_settings(master, tmp_path)[setting] for master in ("yarn", "spark://x:1")} == {
        "yarn": "false",
        "spark://x:1": "true",
    }


def test_settings_are_those_of_the_project(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"


def test_driver_keeps_its_own_code_and_java(spark: SparkSession) -> None:
    assert not os.environ.get("JAVA_HOME", "").startswith(str(java_home()))
    assert [entry for entry in sys.path if "tornproof-code" in entry] == []


def test_active_session_is_used_again_and_stays(spark: SparkSession) -> None:
    with spark_session("local[7]") as session:
        assert session is spark
    assert spark.range(3).count() == 3


def test_error_of_a_worker_becomes_a_sentence(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(number: int) -> int:
        from tornproof.impl.errors import NotATableError

        raise NotATableError(f"{number}: not a table")

    def die(number: int) -> int:
        os._exit(number)

    with (
        pytest.raises(JobFailedError, match=r"^a job on Spark failed: NotATableError: 7: not a table$"),
        spark_session(),
    ):
        spark.sparkContext.parallelize([7], 1).map(fail).collect()
    with pytest.raises(JobFailedError, match=r"^a job on Spark failed: Python worker exited"), spark_session():
        spark.sparkContext.parallelize([7], 1).map(die).collect()
    with pytest.raises(JobFailedError, match="`nothing` cannot be resolved"), spark_session():
        spark.sql("SELECT nothing")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (JAVA_TRACE, "Python worker exited unexpectedly"),
        (
            SEVERAL_CAUSES,
            "SparkArithmeticException: [ARITHMETIC_OVERFLOW] overflow; Python worker exited unexpectedly",
        ),
        (PYTHON_TRACE, "StorageError: a/b: cannot open: it is not there"),
        *(
            (PYTHON_TRACE.replace(PYTHON_TRACE.splitlines()[-1], f"{raised}\nand a second line: of it"), raised)
            for raised in ("pyarrow.lib.ArrowInvalid: not in range", "zlib.error: Error -3", "AssertionError")
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:a.\n\nJVM stacktrace:",
            "[PATH_NOT_FOUND] Path does not exist: file:a.",
        ),
        ("", ""),
    ],
)
def test_innermost_message_has_no_trace(text: str, sentence: str) -> None:
    assert innermost_message(Exception(text)) == sentence


def test_archive_holds_every_module_that_executors_run_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive(tmp_path)) as archive:
        names = archive.namelist()
        content = archive.read("tornproof/impl/storage/interface.py")
    assert content == (ROOT / "impl" / "storage" / "interface.py").read_bytes()
    sources = {name for name in names if name.endswith(".py")}
    assert {name.split("/")[1] for name in sources} == {"__init__.py", *PACKAGES}
    faults = {f"tornproof/{path.relative_to(ROOT)}" for path in ROOT.glob("harness/faults/*/*.toml")}
    java = {name for name in names if name.endswith(".java")}
    assert {*names} == sources | {f"{name}c" for name in sources} | faults | java and faults and len(java) == 1
    assert len(sources) == 1 + sum(1 for name in PACKAGES for _ in (ROOT / name).rglob("*.py"))
    assert len(names) == 2 * len(sources) + len(faults) + len(java)


@pytest.mark.parametrize("head", [COMPILED_HEAD, bytes(16)], ids=["this Python", "another one"])
def test_archive_is_imported_compiled_by_this_python_and_from_its_source_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(session, "COMPILED_HEAD", head)
    importer = zipimport.zipimporter(str(code_archive(tmp_path)))
    importer = zipimport.zipimporter(f"{importer.archive}/tornproof/impl")
    assert importer.get_filename("errors").endswith("errors.pyc" if head == COMPILED_HEAD else "errors.py")
    code = importer.get_code("errors")
    assert code is not None and "CorruptError" in code.co_names


def test_settings_hold_for_the_time_of_a_job_in_an_active_session(spark: SparkSession) -> None:
    key = "spark.sql.shuffle.partitions"
    with spark_session(settings={key: "7", "spark.sql.session.timeZone": "Europe/Berlin"}) as session:
        assert session.conf.get(key) == "7"
    assert (spark.conf.get(key), spark.conf.get("spark.sql.session.timeZone")) == ("2", "UTC")
    with (
        pytest.raises(JobFailedError, match=r"spark\.driver\.memory"),
        spark_session(settings={"spark.driver.memory": "1g"}),
    ):
        pytest.fail("a driver that runs has its memory")


class ConnectSession:
    """As far as jobs look at a session of Spark Connect, which is not installed."""

    __module__ = "pyspark.sql.connect.session"
    session_id = "some-session"

    def __init__(self) -> None:
        self.artifacts: list[tuple[str, bool]] = []

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802
        with zipfile.ZipFile(path) as archive:
            assert "tornproof/impl/errors.py" in archive.namelist()
        self.artifacts.append((path, pyfile))


def test_spark_connect_is_rejected_in_words_and_gets_the_code_as_an_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: Any = ConnectSession()
    with pytest.raises(PipelineUnavailableError, match=r"^the session is one of Spark Connect: this job needs the cl"):
        watched(connected, lambda: 1, lambda done, total: None)
    with pytest.raises(PipelineUnavailableError, match=r"^sc://host: this job needs the classic API of Spark"):
        demand_master("sc://host")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(PipelineUnavailableError, match="SPARK_REMOTE is set"):
        active_session()
    for _ in range(2):
        ship_code(connected)
    assert [pyfile for _, pyfile in connected.artifacts] == [True]
    session._SHIPPED.pop(connected.session_id).cleanup()


def test_a_master_is_an_option_of_spark_submit_where_that_runs_the_command(
    needs_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "active_session", lambda: None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(PipelineUnavailableError, match="--master is an option of spark-submit"), spark_session("local"):
        pytest.fail("it has started")


def test_workers_of_a_session_of_ours_do_without_pandas(spark: SparkSession) -> None:
    def look(number: int) -> tuple[bool, list[int]]:
        import numpy as np
        import pyarrow as pa

        numbers = np.asarray(pa.array([number, 7])).tolist()
        return "pandas" in sys.modules, numbers

    assert run_each(spark, 2, look) == [(False, [0, 7]), (False, [1, 7])]


def test_only_the_session_and_its_progress_use_what_no_dataframe_has() -> None:
    rooms = [ROOT / "pipeline" / name for name in ("campaign", "history", "ingest", "spark")]
    files = [*(file for room in rooms for file in room.rglob("*.py")), *(ROOT / "pipeline").glob("*.py")]
    users = {file.name for file in files if re.search(r"sparkContext|parallelize|\.rdd\b|RDD", file.read_text())}
    assert len(files) > 20 and users == {"session.py", "progress.py"}


# Which masters there are


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:1"]
)
def test_masters_of_spark_are_taken(master: str) -> None:
    demand_master(master)
    assert is_local(master) == master.startswith("local")


@pytest.mark.parametrize("master", ["", "nonsense", "local[", "local[]", "local 2", "http://host:1", "yarn-client"])
def test_what_is_no_master_is_rejected(master: str) -> None:
    with pytest.raises(PipelineUnavailableError, match=r"not a Spark master; valid are local\[2\]"):
        demand_master(master)


def test_a_master_that_listens_is_found_among_several(listening_port: int) -> None:
    demand_master(f"spark://127.0.0.1:1,127.0.0.1:{listening_port}")


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://host", "spark://127.0.0.1:99999", "spark://"])
def test_a_master_that_does_not_listen_is_rejected_at_once(master: str) -> None:
    with pytest.raises(PipelineUnavailableError, match="nothing answers there"):
        demand_master(master)


def test_a_java_that_ends_before_spark_begins_is_quoted(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    says = "echo 'openjdk version \"17.0.1\"' >&2; [ \"$1\" = -version ] && exit; echo 'no room for a heap' >&2; exit 1"
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(0o755)
    code = "from tornproof.pipeline.spark.session import spark_session\nwith spark_session('local[1]'): pass"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    reason = "Spark does not start on local[1]: no room for a heap"
    assert last == f"tornproof.pipeline.spark.java.PipelineUnavailableError: {reason}"


def test_behind_spark_submit_no_java_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs already, and what its JAVA_HOME names may be a script that says no version."""

    def is_asked() -> Path:
        raise PipelineUnavailableError("no Java")

    monkeypatch.setattr(session, "java_home", is_asked)
    with pytest.raises(PipelineUnavailableError, match="no Java"):
        demand_spark()
    monkeypatch.setenv(session.SUBMITTED_VARIABLE, "7")
    demand_spark()


def test_without_pyspark_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PipelineUnavailableError, match=r"pip install 'tornproof\[spark\]'"):
        demand_spark()


@pytest.mark.parametrize(
    ("master", "settings", "core_count"),
    [
        ("local[6]", {}, 12),
        ("local-cluster[2, 3, 1024]", {}, 3),
        ("spark://host:7077", {"spark.executor.cores": "4", "spark.task.cpus": "2"}, 4),
        ("yarn", {"spark.task.cpus": "2"}, 2),
        ("k8s://host", {}, 1),
    ],
)
def test_a_task_has_the_cores_of_its_executor(master: str, settings: dict[str, str], core_count: int) -> None:
    context = SimpleNamespace(master=master, defaultParallelism=12, getConf=lambda: settings)
    spark: Any = SimpleNamespace(sparkContext=context)
    assert executor_core_count(spark) == core_count
