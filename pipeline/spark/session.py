"""Spark sessions with this project's settings, and its code on every executor.

Embedded by default, in `local[*]`; the same jobs run on any `--master` (docs/pipeline.md).
"""

from __future__ import annotations

import importlib.util
import logging
import marshal
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING

from tornproof.impl.errors import TornproofError
from tornproof.pipeline.spark.java import STDERR_FILE, PipelineUnavailableError, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
PACKAGES = ("model", "impl", "harness", "pipeline")
"""The packages that executors need; they get parsed scenarios and never a path into this checkout."""
KINDS = ("*.py", "*.toml", "*.java")
"""Modules, planted faults as files, and what a session compiles."""
# Of a compiled module that is valid whatever its source: a flag, and no hash of one.
COMPILED_HEAD = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5
MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.*|k8s://.+|yarn")
LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")
DRIVER_MEMORY = "4g"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    # Time until a Python worker of a cancelled task is killed; 2 s by default.
    "spark.python.task.killTimeout": "200ms",
    "spark.sql.session.timeZone": "UTC",
    # The default INT96 has no order and so no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Workers allocate large arrays repeatedly: memory returned to the system would be faulted in again page by page.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
SOCKET_NAME_BYTES, SOCKET_PATH_BYTES_MAX = 43, 103
"""The length of socket names that Spark creates among Java's temporary files, and the system's limit for paths."""
# Spark prints a message if the root level is not "warn", so the appender filters instead: errors are exceptions, too,
# without pages of Java stack traces.
QUIET_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.filter.fatal.type = ThresholdFilter
appender.stderr.filter.fatal.level = fatal
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
# PySpark logs every error that it raises, as JSON.
LOUD_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_RAISED_IN_PYTHON = re.compile(r"^(?:\w+\.)*(?:\w*(?:Error|Exception)): .*", re.MULTILINE)
_CLASS = re.compile(r"(?:\w+\.)+\w+: ")


class JobFailedError(TornproofError):
    """A job on Spark failed; the message is Spark's innermost one."""


@contextmanager
def spark_session(
    master: str | None = None, *, name: str = "tornproof", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session on `master`, or the active one, and stop it if it was created here.

    Raises PipelineUnavailableError if PySpark or Java is missing or the master cannot be reached, and JobFailedError
    for what PySpark raises inside the block.
    """
    demand_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if active := SparkSession.getActiveSession():
        with _one_sentence():
            yield active
        return
    chosen = master or DEFAULT_MASTER
    demand_master(chosen)
    with tempfile.TemporaryDirectory(prefix="tornproof-spark-") as directory:
        try:
            session = _start(chosen, name, dict(settings or {}), Path(directory))
        except (PySparkException, Py4JError, OSError) as error:
            raise PipelineUnavailableError(f"Spark does not start on {chosen}: {_why_no_start(error)}") from error
        try:
            with _one_sentence():
                yield session
        finally:
            session.stop()


def demand_master(master: str) -> None:
    """Raise PipelineUnavailableError for an invalid master, or one that does not listen.

    Spark itself takes a minute to find out the latter.
    """
    if not MASTER.fullmatch(master):
        raise PipelineUnavailableError(
            f"{master}: not a Spark master; valid are local[2], local[*], spark://HOST:PORT, k8s://URL and yarn"
        )
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            reason = error
    raise PipelineUnavailableError(f"{master}: nothing answers there: {reason}")


def innermost_message(error: Exception) -> str:
    """Return the innermost error, in one line, of a PySpark exception with Python and Java tracebacks."""
    text = str(error).partition("\n\tat ")[0]
    if raised := _RAISED_IN_PYTHON.findall(text):
        return str(raised[-1]).removeprefix(f"{TornproofError.__module__}.")
    lines = text.splitlines() or [""]
    said = next((line for line in lines if line.startswith(": ")), lines[0])
    return _CLASS.split(said)[-1]


def demand_spark() -> None:
    """Raise PipelineUnavailableError unless PySpark and a Java for it are installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineUnavailableError("this command runs on Spark: `pip install 'tornproof[spark]'`")
    java_home()


def is_local(master: str) -> bool:
    """Return whether driver and executors are on this machine."""
    return master.startswith("local")


def executor_core_count(spark: SparkSession) -> int:
    """Return how many cores the executor of a task has; where nobody says so, those of one task."""
    context = spark.sparkContext
    if found := LOCAL_CLUSTER.fullmatch(str(context.master)):
        return int(found[1])
    if is_local(str(context.master)):
        return int(context.defaultParallelism)
    settings = context.getConf()
    return int(settings.get("spark.executor.cores") or settings.get("spark.task.cpus") or 1)


def code_archive(directory: Path) -> Path:
    """Write the packages that executors import to one zip, and return its path.

    Every module is there compiled too, which each Python worker would else do again. An executor with another Python
    takes the source, because compiled code names its Python and not the time of its source.
    """
    path = directory / "tornproof-code.zip"
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        for file in (
            root / "__init__.py",
            *(file for name in PACKAGES for kind in KINDS for file in sorted((root / name).rglob(kind))),
        ):
            name = file.relative_to(root.parent)
            archive.write(file, name)
            if file.suffix != ".py":
                continue
            archive.writestr(str(name.with_suffix(".pyc")), _compiled(file, ".".join(name.with_suffix("").parts)))
    return path


def _compiled(file: Path, module: str) -> bytes:
    """Return the content of a compiled module, which for one that was imported before is at hand."""
    return COMPILED_HEAD + marshal.dumps(SourceFileLoader(module, str(file)).get_code(module))


@contextmanager
def _one_sentence() -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise JobFailedError(f"a job on Spark failed: {innermost_message(error)}") from error


def _why_no_start(error: Exception) -> str:
    """Return Java's last message if it ended before Spark started, else the error's own."""
    message = innermost_message(error)
    said = java_home() / STDERR_FILE
    if "JAVA_GATEWAY_EXITED" in message and said.exists():
        lines = said.read_text(errors="backslashreplace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), message)
    return message


def _start(master: str, name: str, settings: dict[str, str], directory: Path) -> SparkSession:
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for loud in LOUD_LOGGERS:
        PySparkLogger.getLogger(loud).disabled = True
    logging.getLogger().addFilter(_is_not_an_interrupt)
    log = directory / "log4j2.properties"
    log.write_text(QUIET_LOG)
    has_room_for_sockets = len(os.fsencode(java_home())) + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX
    chosen = {
        **SETTINGS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log}",
        # Over TCP each task waits some 20 ms for acknowledgements.
        "spark.python.unix.domain.socket.enabled": str(has_room_for_sockets).lower(),
    }
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**chosen, **settings}.items():
        builder = builder.config(key, value)
    with _launcher(), _own_interrupts():
        session = builder.getOrCreate()
    before = list(sys.path)
    session.sparkContext.addPyFile(str(code_archive(directory)))
    # addPyFile puts the archive before the packages that it was made from, but it is removed with the session.
    sys.path[:] = before
    return session


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which Spark replaces by one that calls Java first."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _launcher() -> Iterator[None]:
    """Make Spark start the launcher; processes started later find a Java of their own."""
    original = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java_home())
    try:
        yield
    finally:
        del os.environ["JAVA_HOME"]
        if original is not None:
            os.environ["JAVA_HOME"] = original


def _is_not_an_interrupt(record: logging.LogRecord) -> bool:
    """Return False for Py4J's log of an interrupt, which it raises as well."""
    return record.module != "java_gateway"
