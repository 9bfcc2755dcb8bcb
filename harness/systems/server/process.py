"""A server in a process of its own: started, asked over HTTP, stopped or killed; it never outlives this process.

It listens on 127.0.0.1 only, and closes the files of a table soon after nobody uses it, so that the other writer can
have the table without a restart.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from tornproof.harness.systems.server.client import (
    ANSWER_SECONDS_MAX,
    Address,
    Client,
    NoAnswerError,
    ServerError,
    wait,
)
from tornproof.harness.systems.server.release import MAIN_CLASS, Release

HOST = "127.0.0.1"
HEAP = "-Xmx1g"
JAVA_OPTIONS = (HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_SECONDS_MAX = 120.0
DEATH_SECONDS_MAX = 10.0
IDLE_MILLISECONDS = 50
LOG_LINES_SHOWN = 3
LINE_CHARACTERS_MAX = 300
CRASH = "#  SIG"
"""How Java begins the line that names the signal of which it dies."""
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


class Server(AbstractContextManager["Server"]):
    """A server over a folder of its own; leaving the `with` block kills it."""

    is_ours = True

    def __init__(self, release: Release, folder: Path) -> None:
        """Prepare the folder; `start` starts the server."""
        self.release = release
        self.folder = folder
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    @property
    def data(self) -> Path:
        """The folder with the tables."""
        return self.folder / "db"

    @property
    def address(self) -> Address:
        """Where it listens since its last start."""
        return Address(host=HOST, port=self._port)

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
        self._client = Client(self.address)
        wait(self._answers, START_SECONDS_MAX, lambda: f"the server did not start: {self.last_words()}")

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
        assert self._client is not None
        try:
            return self._client.execute(sql)
        except NoAnswerError as error:
            raise self._explained(error) from error

    def settle(self, table: str) -> None:
        """Wait until the server has applied the write-ahead log of a table; raises ServerError if it suspends it."""
        assert self._client is not None
        try:
            self._client.wait_until_applied(table)
        except ServerError as error:
            raise self._explained(error) from error

    def release_table(self, path: Path) -> None:
        """Wait until the server has no file of a table open; where that cannot be seen, it is restarted."""
        assert self._process is not None
        process = Path("/proc", str(self._process.pid))
        if not process.exists():
            self.restart()
            return
        prefix = f"{os.path.realpath(path)}/"
        wait(
            lambda: not any(name.startswith(prefix) for name in _open_files(process)),
            ANSWER_SECONDS_MAX,
            lambda: f"the server keeps files of {path.name} open",
        )

    def has_died(self) -> bool:
        """Whether its process has ended; one that dies closes its connections first."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(DEATH_SECONDS_MAX)
        return not self.is_alive

    def last_words(self) -> str:
        """Return the last errors in the log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            errors = [line for line in lines if " E " in line or " C " in line or "Error" in line]
            crashes = [line for line in lines if line.startswith(CRASH)]
            return " / ".join(line[:LINE_CHARACTERS_MAX] for line in (crashes or errors or lines)[-LOG_LINES_SHOWN:])
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
        if self._client is not None:
            self._client.close()
        if process is not None:
            process.send_signal(by)
            try:
                process.wait(ANSWER_SECONDS_MAX)
            finally:
                process.kill()
                process.wait()

    def _explained(self, error: ServerError) -> ServerError:
        """Return an error with what the log says."""
        if isinstance(error, NoAnswerError):
            self.has_died()
        return ServerError(f"{error}; {self.last_words()}")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise ServerError(f"the server ended while it started: {self.last_words()}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), ANSWER_SECONDS_MAX):
            return bool(self.execute("SELECT 1"))
        return False


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
