"""A standalone cluster of Spark on this machine: a master, and two workers of one slot each."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import quick_java
from listening import HOST, await_port, free_port

from tornproof.pipeline.spark.java import java_home

WORKER_COUNT = 2


def spark_script(name: str) -> Path:
    """Return a script of the installed PySpark."""
    specification = importlib.util.find_spec("pyspark")
    assert specification is not None and specification.origin is not None
    return Path(specification.origin).parent / "bin" / name


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Yield the master of a cluster whose files are below a folder."""
    port, page = free_port(), free_port()
    master = f"spark://{HOST}:{port}"
    own = ["--host", HOST]
    commands = [["master.Master", *own, "--port", str(port), "--webui-port", str(page)]]
    for number in range(WORKER_COUNT):
        resources = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}")]
        commands.append(["worker.Worker", *own, *resources, "--webui-port", "0", master])
    with ExitStack() as running:
        for command in commands:
            await_port(port, running.enter_context(_running(command, folder)))
        yield master


@contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    script = [str(spark_script("spark-class")), f"org.apache.spark.deploy.{command[0]}", *command[1:]]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_DAEMON_JAVA_OPTS": quick_java.OPTIONS}
    with (
        (folder / "log.txt").open("ab") as log,
        subprocess.Popen(script, stdout=log, stderr=log, env=environment) as it,
    ):
        try:
            yield it
        finally:
            it.terminate()
            it.wait()
