"""The processes of a run, managed by their parent: it starts, kills and ends them, and receives their messages."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tornproof.harness.common.verdict import HasTime
from tornproof.harness.explorers.processes.messages import Failure, Patch, Session
from tornproof.harness.explorers.processes.reader import Style, run_reader
from tornproof.harness.explorers.processes.start import Start
from tornproof.harness.explorers.processes.writer import CLIENT, run_writer
from tornproof.harness.parallel.fork_server import ForkServer

HISTORY_SUFFIX = ".history"
POLL_SECONDS = 0.05
HANG_SECONDS = 600.0
"""How long the run waits for an answer before it gives up; no machine is so slow."""
UNKNOWN_EXIT_CODE = 255
MODULES = (run_writer.__module__, run_reader.__module__)
"""Imported by the server that processes are forked from."""


class NoAnswerError(Exception):
    """A process did not answer in time."""


class OutOfTimeError(Exception):
    """The time limit of the run was reached."""


class Member:
    """One process; `name` is the process and `client` the client in its events."""

    def __init__(
        self, name: str, client: str, process: int, connection: Any, history: Path, server: ForkServer
    ) -> None:
        """Take a process that has just been started; `connection` is our end of its pipe."""
        self.name = name
        self.client = client
        self.history = history
        self.failure: Failure | None = None
        self.process = process
        self._connection = connection
        self._server = server
        self._messages: deque[Any] = deque()
        self._exit_code: int | None = None
        self._is_killed_by_us = False

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, and released all locks; its messages are then received."""
        self.listen()
        return self._exit_code is not None

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it."""
        return self.has_ended and self._exit_code == -signal.SIGKILL

    def listen(self, timeout_seconds: float = 0.0) -> None:
        """Receive all its messages, after waiting for the first; a failure is kept apart."""
        while self._exit_code is None:
            try:
                if not self._connection.poll(timeout_seconds):
                    return
                message = self._connection.recv()
            except (EOFError, OSError):
                self._end(self._server.exit_code(self.process))
                return
            timeout_seconds = 0.0
            if isinstance(message, Failure):
                self.failure = message
            else:
                self._messages.append(message)

    def has_message(self, timeout_seconds: float) -> bool:
        """Return whether a message or its end is there, after waiting at most so long."""
        if not self._messages:
            self.listen(timeout_seconds)
        return bool(self._messages) or self._exit_code is not None

    def next_message(self) -> Any:
        """Return its next message, or None."""
        return self._messages.popleft() if self._messages else None

    def send(self, message: Any) -> None:
        """Send a message; one to a process that has ended is lost."""
        with suppress(OSError):
            self._connection.send(message)

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it is gone and its locks are released."""
        if not self.has_ended:
            self._is_killed_by_us = True
            os.kill(self.process, signal.SIGKILL)
        while not self.has_ended:
            self.listen(POLL_SECONDS)

    def _end(self, exit_code: int | None) -> None:
        """Note its end, and a failure unless we caused it; a kill by others is no finding."""
        self._exit_code = UNKNOWN_EXIT_CODE if exit_code is None else exit_code
        self._connection.close()
        if self.failure is None and exit_code != 0 and not (self._is_killed_by_us and exit_code == -signal.SIGKILL):
            text = f"{self.name} ended with exit code {self._exit_code}"
            self.failure = Failure(text=text, is_finding=exit_code not in (None, -signal.SIGKILL))


class Workers:
    """All processes of a run; leaving the `with` block kills those that still run."""

    def __init__(self, start: Start, histories: Path, patches: Sequence[Patch], has_time: HasTime) -> None:
        """Let every process record its events below the directory `histories`."""
        self._start = start
        self._directory = histories
        self._patches = tuple(patches)
        self._has_time = has_time
        self._server = ForkServer(*MODULES)
        self._members: list[Member] = []
        self._session_counts: Counter[str] = Counter()

    def __enter__(self) -> Workers:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill all processes that still run."""
        self._server.close()

    def kill_all(self) -> None:
        """Kill all processes that still run, and wait for their ends."""
        for member in self._members:
            member.kill()

    def histories(self) -> list[Path]:
        """Return the files of events."""
        return sorted(self._directory.glob(f"*{HISTORY_SUFFIX}"))

    def failures(self) -> list[Failure]:
        """Return the failures of processes."""
        for member in self._members:
            member.listen()
        return [member.failure for member in self._members if member.failure is not None]

    def start_writer(self, session: Session) -> Member:
        """Start the next writer; raises NoAnswerError, OutOfTimeError."""
        return self._start_member(CLIENT, run_writer, session)

    def start_reader(self, client: str, style: Style) -> Member:
        """Start the next process of a reader; raises as `start_writer`."""
        return self._start_member(client, run_reader, client, style)

    def receive(self, member: Member) -> Any:
        """Wait for the next message of a process; None when it has ended. Raises NoAnswerError, OutOfTimeError."""
        self._wait(member.has_message, f"{member.name} did not answer")
        return member.next_message()

    def send_to_all(self, members: Iterable[Member], message: Any) -> None:
        """Send a message to processes, and wait until each has answered or ended; raises as `receive`."""
        receivers = list(members)
        for member in receivers:
            member.send(message)
        for member in receivers:
            self.receive(member)

    def wait_for_ends(self, members: Iterable[Member]) -> None:
        """Wait until processes have ended; raises as `receive`."""
        for member in members:
            while self.receive(member) is not None:
                pass

    def _start_member(self, client: str, run: Callable[..., None], *more: object) -> Member:
        session = self._session_counts[client]
        self._session_counts[client] += 1
        name = f"{client}.{session}"
        history = self._directory / f"{name}{HISTORY_SUFFIX}"
        try:
            self._wait(self._server.is_ready, "no process could be started")
            process, connection = self._server.start(run, self._start, self._patches, name, history, *more)
        except (EOFError, OSError) as error:
            raise NoAnswerError(f"{name} could not be started: {error!r}") from error
        member = Member(name, client, process, connection, history, self._server)
        self._members.append(member)
        return member

    def _wait(self, is_done: Callable[[float], bool], otherwise: str) -> None:
        """Wait until `is_done` is true; it is called with the seconds that it may wait."""
        begin = time.monotonic()
        while True:
            if not self._has_time():
                raise OutOfTimeError
            if is_done(POLL_SECONDS):
                return
            if time.monotonic() - begin > HANG_SECONDS:
                raise NoAnswerError(f"{otherwise} within {HANG_SECONDS:g} s")
