"""One session for all jobs, with this project's settings, and its code on every executor.

It is the one that is already active, as in a notebook, or that of `spark-submit`, or one that is started here: embedded
by default, in `local[*]`, or on any `--master` (docs/pipeline.md).
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
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
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
YARN = "yarn"
MASTER = re.compile(rf"local(\[.+\])?|local-cluster\[.+\]|spark://.*|k8s://.+|{YARN}")
LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*\d+\s*\]")
CONNECT = "pyspark.sql.connect."
REMOTE_VARIABLE = "SPARK_REMOTE"
SUBMITTED_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` sets it for the Python that it starts."""
PYTHON_SETTING, PYTHON_VARIABLE = "spark.pyspark.python", "PYSPARK_PYTHON"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
WITHOUT_PANDAS = "TORNPROOF_WITHOUT_PANDAS"
"""The variable of workers that says that nothing but jobs of ours runs in them."""
SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Several drivers on one machine each have a page, at 4040 and the ports after it.
    "spark.port.maxRetries": "100",
    # Time until a Python worker of a cancelled task is killed; 2 s by default.
    "spark.python.task.killTimeout": "200ms",
    "spark.sql.session.timeZone": "UTC",
    # The default INT96 has no order and so no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    f"spark.executorEnv.{WITHOUT_PANDAS}": "1",
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
# The line after the calls of a traceback, whatever the exception is called, or one that is called like an exception.
_RAISED_IN_PYTHON = re.compile(
    r'(?:^  File ".*\n(?:  .*\n)*((?:\w+\.)*\w+(?:: .*)?)|^((?:\w+\.)*\w*(?:Error|Exception): .*))$', re.MULTILINE
)
_CLASS = re.compile(r"(?:\w+\.)+\w+: ")
_CAUSE = re.compile(r"^ +\d+\. (.+)$", re.MULTILINE)
"""One of several errors that Spark numbers below a sentence which ends at a colon."""


NEEDS_CLASSIC = (
    "this job needs the classic API of Spark, which tells how far its tasks are and cancels them; "
    "take --master, or a session without Spark Connect"
)


class JobFailedError(TornproofError):
    """A job on Spark failed; the message is Spark's innermost one."""


@contextmanager
def spark_session(
    master: str | None = None, *, name: str = "tornproof", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield the active session, or a new one on `master`, which is stopped at the end; both have this code.

    `settings` come before the project's own; of an active session they are set for the time of the block. Raises
    PipelineUnavailableError if PySpark or Java is missing, the master cannot be reached or the session is one of Spark
    Connect, and JobFailedError for what PySpark raises inside the block.
    """
    demand_spark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if active := active_session():
        with _one_sentence(), _settings_of(active, settings or {}):
            ship_code(active)
            yield active
        return
    is_submitted = SUBMITTED_VARIABLE in os.environ
    if is_submitted and master is not None:
        raise PipelineUnavailableError("--master is an option of spark-submit where that runs the command")
    chosen = None if is_submitted else master or DEFAULT_MASTER
    if chosen is not None:
        demand_master(chosen)
    with tempfile.TemporaryDirectory(prefix="tornproof-spark-") as directory:
        try:
            session = _start(chosen, name, dict(settings or {}), Path(directory))
        except (PySparkException, Py4JError, OSError) as error:
            where = chosen or "what spark-submit names"
            raise PipelineUnavailableError(f"Spark does not start on {where}: {_why_no_start(error)}") from error
        try:
            with _one_sentence():
                yield session
        finally:
            code = _SHIPPED.pop(str(session.sparkContext.applicationId))
            session.stop()
            code.cleanup()


def active_session() -> SparkSession | None:
    """Return the session of this thread or process, if there is one; raises PipelineUnavailableError for Connect."""
    from pyspark.sql import SparkSession

    if os.environ.get(REMOTE_VARIABLE):
        raise PipelineUnavailableError(f"{REMOTE_VARIABLE} is set: {NEEDS_CLASSIC}")
    active = SparkSession.getActiveSession()
    if active is not None:
        demand_classic(active)
    return active


def demand_classic(spark: SparkSession) -> None:
    """Raise PipelineUnavailableError for a session of Spark Connect."""
    if type(spark).__module__.startswith(CONNECT):
        raise PipelineUnavailableError(f"the session is one of Spark Connect: {NEEDS_CLASSIC}")


def ship_code(spark: SparkSession) -> None:
    """Put the code of executors into a session, once; a session of Spark Connect takes it as an artifact."""
    is_connect = type(spark).__module__.startswith(CONNECT)
    key = str(getattr(spark, "session_id", "")) if is_connect else str(spark.sparkContext.applicationId)
    if key in _SHIPPED:
        return
    # Executors fetch it when they need it, as long as this process is there.
    directory = tempfile.TemporaryDirectory(prefix="tornproof-code-", ignore_cleanup_errors=True)
    path = str(code_archive(Path(directory.name)))
    if is_connect:
        spark.addArtifacts(path, pyfile=True)
    else:
        before = list(sys.path)
        spark.sparkContext.addPyFile(path)
        # That puts the archive before the packages that it was made from.
        sys.path[:] = before
    _SHIPPED[key] = directory


_SHIPPED: dict[str, tempfile.TemporaryDirectory[str]] = {}


def demand_master(master: str) -> None:
    """Raise PipelineUnavailableError for an invalid master, or one that does not listen.

    Spark itself takes a minute to find out the latter.
    """
    if master.startswith("sc://"):
        raise PipelineUnavailableError(f"{master}: {NEEDS_CLASSIC}")
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
    if raised := [found[1] or found[2] for found in _RAISED_IN_PYTHON.finditer(text)]:
        return raised[-1].removeprefix(f"{TornproofError.__module__}.")
    lines = text.splitlines() or [""]
    said = next((line for line in lines if line.startswith(": ")), lines[0])
    causes = dict.fromkeys(_CAUSE.findall(text) if said.rstrip().endswith(":") else ())
    return "; ".join(_CLASS.split(each)[-1] for each in causes or [said])


def demand_spark() -> None:
    """Raise PipelineUnavailableError unless there is PySpark, and a Java, which `spark-submit` has started already."""
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineUnavailableError("this command runs on Spark: `pip install 'tornproof[spark]'`")
    if SUBMITTED_VARIABLE not in os.environ:
        java_home()


def is_local(master: str) -> bool:
    """Return whether driver and executors are on this machine."""
    return master.startswith("local")


def slot_count(spark: SparkSession) -> int:
    """Return how many tasks run at a time; no DataFrame says that."""
    return int(spark.sparkContext.defaultParallelism)


def executor_core_count(spark: SparkSession) -> int:
    """Return how many cores the executor of a task has; where nobody says so, those of one task."""
    context = spark.sparkContext
    if found := LOCAL_CLUSTER.fullmatch(str(context.master)):
        return int(found[1])
    if is_local(str(context.master)):
        return slot_count(spark)
    settings = context.getConf()
    return int(settings.get("spark.executor.cores") or settings.get("spark.task.cpus") or 1)


def code_archive(directory: Path) -> Path:
    """Write the packages that executors import to one zip, and return its path.

    Every module is there compiled too, which each Python worker would else do again. An executor with another Python
    takes the source, because compiled code names its Python and not the time of its source.
    """
    # A session rejects a second file of a name, as another process may have given it.
    path = directory / f"tornproof-code-{uuid.uuid4().hex[:8]}.zip"
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
    if "JAVA_GATEWAY_EXITED" in message and (said := java_home() / STDERR_FILE).exists():
        lines = said.read_text(errors="backslashreplace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), message)
    return message


@contextmanager
def _settings_of(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of an active session, and set them back; one that a session has from its start is an error."""
    from pyspark.errors import PySparkException

    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, former in before.items():
            with suppress(PySparkException):
                if former is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, former)


def _start(master: str | None, name: str, settings: dict[str, str], directory: Path) -> SparkSession:
    """Return a new session, on what `spark-submit` says where no master is given."""
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    os.environ[PYTHON_VARIABLE] = settings.get(PYTHON_SETTING) or os.environ.get(PYTHON_VARIABLE) or sys.executable
    for loud in LOUD_LOGGERS:
        PySparkLogger.getLogger(loud).disabled = True
    logging.getLogger().addFilter(_is_not_an_interrupt)
    builder = SparkSession.builder.appName(name)
    if master is None:
        chosen = {**SETTINGS, **_submitted_settings()}
    else:
        builder = builder.master(master)
        chosen = {**SETTINGS, **_embedded_settings(master, directory)}
        if JAVA_OPTIONS in settings:
            settings[JAVA_OPTIONS] = f"{chosen[JAVA_OPTIONS]} {settings[JAVA_OPTIONS]}"
    for key, value in {**chosen, **settings}.items():
        builder = builder.config(key, value)
    with nullcontext() if master is None else _launcher(), _own_interrupts():
        session = builder.getOrCreate()
    ship_code(session)
    return session


def _submitted_settings() -> dict[str, str]:
    """Return what the options and files of `spark-submit` say."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _embedded_settings(master: str, directory: Path) -> dict[str, str]:
    """Return the settings of a driver whose Java is started here."""
    log = directory / "log4j2.properties"
    log.write_text(QUIET_LOG)
    # The temporary directory of an executor on YARN is that of its container, longer than the name of a socket may be.
    has_room = master != YARN and len(os.fsencode(java_home())) + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX
    chosen = {
        JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log}",
        # Over TCP each task waits some 20 ms for acknowledgements.
        "spark.python.unix.domain.socket.enabled": str(has_room).lower(),
    }
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return chosen


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
