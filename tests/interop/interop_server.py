"""A server in a process of its own: started, asked over HTTP, stopped or killed; it never outlives this process.

It listens on 127.0.0.1 only, and closes the files of a table soon after nobody uses it, so that the other writer can
have the table without a restart.
"""

import contextlib
import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from interop_release import MAIN_CLASS, Release

HOST = "127.0.0.1"
HEAP = "-Xmx1g"
JAVA_OPTIONS = (HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 60.0
DEATH_SECONDS_MAX = 10.0
PAUSE_SECONDS = 0.01
IDLE_MILLISECONDS = 50
LOG_LINES_SHOWN = 3
PR_SET_PDEATHSIG = 1
C_LIBRARY = ctypes.CDLL(None)
SETTINGS = {
    "http.min.enabled": "false",
    # This process may be suspended for long.
    "http.net.connection.timeout": str(24 * 3_600 * 1_000),
    "pg.enabled": "false",
    "line.tcp.enabled": "false",
    "telemetry.enabled": "false",
    "shared.worker.count": "2",
    "cairo.inactive.reader.ttl": str(IDLE_MILLISECONDS),
    "cairo.inactive.writer.ttl": str(IDLE_MILLISECONDS),
    "cairo.wal.inactive.writer.ttl": str(IDLE_MILLISECONDS),
    "cairo.idle.check.interval": str(IDLE_MILLISECONDS),
    # Small row groups, and no rewrite as long as an update in place is possible.
    "cairo.partition.encoder.parquet.row.group.size": "4",
    "cairo.partition.encoder.parquet.o3.rewrite.unused.ratio": "1.0",
    "cairo.partition.encoder.parquet.o3.rewrite.unused.max.bytes": str(2**63 - 1),
}


class ServerError(Exception):
    """A statement that the server rejects, a table that it suspends, or a server that is gone."""


class Server(AbstractContextManager["Server"]):
    """A server over a folder of its own; leaving the `with` block kills it."""

    def __init__(self, release: Release, folder: Path) -> None:
        """Prepare the folder; `start` starts the server."""
        self.release = release
        self.folder = folder
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: http.client.HTTPConnection | None = None

    @property
    def data(self) -> Path:
        """The folder with the tables."""
        return self.folder / "db"

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        """What all its processes printed."""
        return self.folder / "log.txt"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._port = _free_port()
        (self.folder / "conf").mkdir(parents=True, exist_ok=True)
        settings = {**SETTINGS, "http.bind.to": f"{HOST}:{self._port}"}
        (self.folder / "conf" / "server.conf").write_text("".join(f"{key}={settings[key]}\n" for key in settings))
        command = [self.release.java, *JAVA_OPTIONS, "-cp", self.release.classpath, MAIN_CLASS]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-d", str(self.folder), "-f", "n"],
                # A Java that dies leaves a report in its working directory.
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C goes to this process, which then ends the server in its own time.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        self._connection = http.client.HTTPConnection(HOST, self._port, timeout=ANSWER_SECONDS_MAX)
        _wait(self._answers, START_SECONDS_MAX, lambda: f"the server did not start: {self.last_words()}")

    def stop(self) -> None:
        """Let it shut down."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def execute(self, sql: str) -> list[list[Any]]:
        """Return the rows that a statement answers, none for one that changes something; raises ServerError."""
        assert self._connection is not None
        try:
            self._connection.request("GET", f"/exec?{urlencode({'query': sql})}")
            answer = json.loads(self._connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            if self._process is not None:
                # A process that dies closes its connections first.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(DEATH_SECONDS_MAX)
            raise ServerError(f"no answer to {sql!r}: {error!r}; {self.last_words()}") from error
        if "error" in answer:
            raise ServerError(f"{sql!r} is rejected: {answer['error']}")
        rows: list[list[Any]] = answer.get("dataset", [])
        return rows

    def settle(self, table: str) -> None:
        """Wait until the server has applied the write-ahead log of a table; raises ServerError if it suspends it."""

        def is_applied() -> bool:
            state = self.execute(
                f"SELECT suspended, writerTxn, sequencerTxn, errorMessage FROM wal_tables() WHERE name = '{table}'"
            )
            if state and state[0][0]:
                raise ServerError(f"{table} is suspended: {state[0][3]}; {self.last_words()}")
            return not state or state[0][1] == state[0][2]

        _wait(is_applied, ANSWER_SECONDS_MAX, lambda: f"{table}: its log is not applied; {self.last_words()}")

    def release_table(self, path: Path) -> None:
        """Wait until the server has no file of a table open; where that cannot be seen, it is restarted."""
        assert self._process is not None
        process = Path("/proc", str(self._process.pid))
        if not process.exists():
            self.restart()
            return
        prefix = f"{os.path.realpath(path)}/"
        _wait(
            lambda: not any(name.startswith(prefix) for name in _open_files(process)),
            ANSWER_SECONDS_MAX,
            lambda: f"the server keeps files of {path.name} open",
        )

    def last_words(self) -> str:
        """Return the last errors in the log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            errors = [line for line in lines if " E " in line or " C " in line or "Error" in line]
            return " / ".join((errors or lines)[-LOG_LINES_SHOWN:])
        return "there is no log"

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill."""
        self.kill()

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if self._connection is not None:
            self._connection.close()
        if process is not None:
            process.send_signal(by)
            try:
                process.wait(ANSWER_SECONDS_MAX)
            finally:
                process.kill()
                process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerError(f"the server ended while it started: {self.last_words()}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), ANSWER_SECONDS_MAX):
            return bool(self.execute("SELECT 1"))
        return False


def _wait(is_done: Callable[[], bool], seconds_max: float, why: Callable[[], str]) -> None:
    """Wait for another process; the limit only ends what hangs."""
    end = time.monotonic() + seconds_max
    while not is_done():
        if time.monotonic() > end:
            raise ServerError(why())
        time.sleep(PAUSE_SECONDS)


def _open_files(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            yield str(descriptor.readlink())
    for line in (process / "maps").read_text(errors="replace").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6:
            yield fields[5]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    """Let the kernel kill the server even if this process is killed."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
