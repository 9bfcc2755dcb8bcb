"""The processes of a run as their parent sees them: started, listened to, killed, waited for, never left behind."""

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
"""How long a process may be silent where it owes an answer, before the run gives up; no machine is so slow."""
UNKNOWN_EXIT_CODE = 255
MODULES = (run_writer.__module__, run_reader.__module__)
"""What the server that processes are forked from imports."""


class NoAnswerError(Exception):
    """A process did not do in time what it was told to."""


class OutOfTimeError(Exception):
    """There is no time left to wait."""


class Member:
    """One process; `name` is what its events are recorded under, `client` whom they happen to."""

    def __init__(
        self, name: str, client: str, process: int, connection: Any, history: Path, server: ForkServer
    ) -> None:
        """Watch a process that has just been started; `connection` is our end of its pipe."""
        self.name = name
        self.client = client
        self.history = history
        self.failure: Failure | None = None
        self.process = process
        self._connection = connection
        self._server = server
        self._said: deque[Any] = deque()
        self._exit_code: int | None = None
        self._is_to_die = False

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more, and holds nothing; what it said before is then taken in."""
        self.listen()
        return self._exit_code is not None

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it."""
        return self.has_ended and self._exit_code == -signal.SIGKILL

    def listen(self, timeout_seconds: float = 0.0) -> None:
        """Take in all that it has said, after waiting for the first of it; it keeps a failure."""
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
                self._said.append(message)

    def has_spoken(self, timeout_seconds: float) -> bool:
        """Return whether a message or its end is there, after waiting for that at most so long."""
        if not self._said:
            self.listen(timeout_seconds)
        return bool(self._said) or self._exit_code is not None

    def next_message(self) -> Any:
        """Return what it has said next, or None."""
        return self._said.popleft() if self._said else None

    def say(self, message: Any) -> None:
        """Send a message; a process that is dead does not hear it."""
        with suppress(OSError):
            self._connection.send(message)

    def kill(self) -> None:
        """End it by SIGKILL and wait until it is gone, with its locks."""
        if not self.has_ended:
            self._is_to_die = True
            os.kill(self.process, signal.SIGKILL)
        while not self.has_ended:
            self.listen(POLL_SECONDS)

    def _end(self, exit_code: int | None) -> None:
        """Note its end, and a failure unless we know the reason; what others did to it is no finding."""
        self._exit_code = UNKNOWN_EXIT_CODE if exit_code is None else exit_code
        self._connection.close()
        if self.failure is None and exit_code != 0 and not (self._is_to_die and exit_code == -signal.SIGKILL):
            text = f"{self.name} ended with exit code {self._exit_code}"
            self.failure = Failure(text=text, is_rejection=exit_code in (None, -signal.SIGKILL))


class Workers:
    """All processes of a run; leaving the `with` block kills those that still live."""

    def __init__(self, start: Start, histories: Path, patches: Sequence[Patch], has_time: HasTime) -> None:
        """Let every process keep its events below the directory `histories`."""
        self._start = start
        self._directory = histories
        self._patches = tuple(patches)
        self._has_time = has_time
        self._server = ForkServer(*MODULES)
        self._members: list[Member] = []
        self._session_counts: Counter[str] = Counter()

    def __enter__(self) -> Workers:
        """Return the crew itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Let nobody outlive the run."""
        self._server.close()

    def kill_all(self) -> None:
        """Kill who still lives, and wait for the ends."""
        for member in self._members:
            member.kill()

    def histories(self) -> list[Path]:
        """Return the files of events that there are."""
        return sorted(self._directory.glob(f"*{HISTORY_SUFFIX}"))

    def failures(self) -> list[Failure]:
        """Return what ended processes by themselves."""
        for member in self._members:
            member.listen()
        return [member.failure for member in self._members if member.failure is not None]

    def start_writer(self, session: Session) -> Member:
        """Start the next writer; raises NoAnswerError, OutOfTimeError."""
        return self._start_member(CLIENT, run_writer, session)

    def start_reader(self, client: str, style: Style) -> Member:
        """Start a reader's next life; raises as `start_writer`."""
        return self._start_member(client, run_reader, client, style)

    def hear(self, member: Member) -> Any:
        """Wait for what a process says next; None when it has ended. Raises NoAnswerError, OutOfTimeError."""
        self._wait(member.has_spoken, f"{member.name} did not answer")
        return member.next_message()

    def report_progress_all(self, members: Iterable[Member], message: Any) -> None:
        """Tell processes something, and wait until each has answered or ended; raises as `hear`."""
        reported = list(members)
        for member in reported:
            member.say(message)
        for member in reported:
            self.hear(member)

    def wait_for_ends(self, members: Iterable[Member]) -> None:
        """Wait until processes have ended; raises as `hear`."""
        for member in members:
            while self.hear(member) is not None:
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
        """Wait until something is so; it is asked with the seconds that it may take to answer."""
        begin = time.monotonic()
        while True:
            if not self._has_time():
                raise OutOfTimeError
            if is_done(POLL_SECONDS):
                return
            if time.monotonic() - begin > HANG_SECONDS:
                raise NoAnswerError(f"{otherwise} within {HANG_SECONDS:g} s")
