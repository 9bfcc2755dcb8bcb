"""A standalone cluster of Spark on this machine: a master, and two workers of one slot each."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import quick_java

from tornproof.pipeline.spark.java import java_home

HOST = "127.0.0.1"
WORKER_COUNT = 2
START_SECONDS_MAX = 300


def spark_script(name: str) -> Path:
    """Return a script of the installed PySpark."""
    specification = importlib.util.find_spec("pyspark")
    assert specification is not None and specification.origin is not None
    return Path(specification.origin).parent / "bin" / name


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Yield the master of a cluster whose files are below a folder."""
    port, page = _free_port(), _free_port()
    master = f"spark://{HOST}:{port}"
    own = ["--host", HOST]
    commands = [["master.Master", *own, "--port", str(port), "--webui-port", str(page)]]
    for number in range(WORKER_COUNT):
        resources = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
        commands.append(["worker.Worker", *own, *resources, "--webui-port", "0", master])
    with ExitStack() as running:
        for command in commands:
            running.enter_context(_running(command, folder))
            _await_port(port)
        yield master


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[None]:
    script = [str(spark_script("spark-class")), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_DAEMON_JAVA_OPTS": quick_java.OPTIONS}
    with (
        (folder / "log.txt").open("ab") as log,
        subprocess.Popen(script, stdout=log, stderr=log, env=environment) as it,
    ):
        try:
            yield
        finally:
            it.terminate()
            it.wait()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as free:
        return int(free.getsockname()[1])


def _await_port(port: int) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection((HOST, port)).close()
            return
        except OSError:
            assert time.monotonic() < end, "the master does not listen"
            time.sleep(0.2)
