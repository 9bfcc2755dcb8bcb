"""The processes of a run as their parent sees them: started by spawning, killed, waited for, never left behind."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import multiprocess  # type: ignore[import-untyped]

from harness.explore.process_messages import FINISH, READY, Failure, Life, Patch
from harness.explore.process_reader import Style, run_reader
from harness.explore.process_start import Start
from harness.explore.process_writer import CLIENT, run_writer

HISTORY_SUFFIX = ".history"
WAIT_SECONDS = 1.0
START_SECONDS, FINISH_SECONDS = 120.0, 60.0
"""How long a process may take to start and recover, and to end when it is told to, before the run gives up."""
WAITING_WRITERS = 3


class NoAnswerError(Exception):
    """A process did not do in time what it was told to."""


class Member:
    """One process; `name` is what its events are recorded under, `client` whom they happen to."""

    def __init__(self, name: str, client: str, process: Any, connection: Any, history: Path) -> None:
        """Watch a process that has just been started; `connection` is our end of its pipe."""
        self.name = name
        self.client = client
        self.history = history
        self.failure: Failure | None = None
        self._process = process
        self._connection = connection
        self._heard: set[str] = set()
        self._exit_code: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more; what it said before is then taken in, and its descriptors are given back."""
        if self._exit_code is None and not self._process.is_alive():
            self.listen()
            self._exit_code = self._process.exitcode
            self._process.close()
            self._connection.close()
            if self._exit_code not in (0, -signal.SIGKILL) and self.failure is None:
                self.failure = Failure(text=f"{self.name} ended with exit code {self._exit_code}", is_refusal=False)
        return self._exit_code is not None

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it, ours or its own."""
        return self.has_ended and self._exit_code == -signal.SIGKILL

    def listen(self) -> None:
        """Take in all that it has said; it keeps a failure."""
        if self._exit_code is not None:
            return
        with suppress(EOFError, OSError):
            while self._connection.poll():
                message = self._connection.recv()
                if isinstance(message, Failure):
                    self.failure = message
                else:
                    self._heard.add(message)

    def say(self, message: Any) -> None:
        """Send a message; a process that is dead does not hear it."""
        with suppress(OSError):
            self._connection.send(message)

    def wait_for(self, message: str) -> bool:
        """Wait until it says something; False when it ended without. Raises NoAnswerError."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.listen()
            if message in self._heard:
                return True
            if self.has_ended:
                return message in self._heard
            self._connection.poll(WAIT_SECONDS)
        raise NoAnswerError(f"{self.name} was not {message} within {START_SECONDS:g} s")

    def wait_for_end(self, seconds: float) -> bool:
        """Wait for its end, and say whether it came."""
        if not self.has_ended:
            self._process.join(seconds)
        return self.has_ended

    def kill(self) -> None:
        """End it by SIGKILL and wait until it is gone, with its locks."""
        if not self.has_ended:
            self._process.kill()
            self._process.join()
            assert self.has_ended


class Crew:
    """All processes of a run; leaving the `with` block kills those that still live."""

    def __init__(self, start: Start, histories: Path, patches: Sequence[Patch]) -> None:
        """Let every process keep its events below the directory `histories`."""
        self._start = start
        self._directory = histories
        self._patches = tuple(patches)
        self._spawn = multiprocess.get_context("spawn")
        self._members: list[Member] = []
        self._waiting: deque[Member] = deque()
        self._life_counts: Counter[str] = Counter()

    def __enter__(self) -> Crew:
        """Return the crew itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Let nobody outlive the run."""
        self.kill_all()

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
            if not member.has_ended:
                member.listen()
        return [member.failure for member in self._members if member.failure is not None]

    def prepare_writers(self, most: int) -> None:
        """Start writers ahead of their turns, because a process takes longer to start than to live."""
        while len(self._waiting) < min(WAITING_WRITERS, most):
            self._waiting.append(self._start_member(CLIENT, run_writer))

    def next_writer(self, life: Life) -> Member:
        """Let a writer begin its life; raises NoAnswerError."""
        self.prepare_writers(1)
        member = self._waiting.popleft()
        if member.wait_for(READY):
            member.say(life)
        return member

    def dismiss_writers(self) -> None:
        """Kill the writers whose turn will not come."""
        while self._waiting:
            self._waiting.popleft().kill()

    def start_reader(self, client: str, style: Style) -> Member:
        """Start a reader's next life."""
        return self._start_member(client, run_reader, client, style)

    def finish(self, members: Sequence[Member]) -> None:
        """Tell processes to end what they are doing, and wait for that; raises NoAnswerError."""
        for member in members:
            member.say(FINISH)
        for member in members:
            if not member.wait_for_end(FINISH_SECONDS):
                raise NoAnswerError(f"{member.name} did not finish within {FINISH_SECONDS:g} s")

    def _start_member(self, client: str, run: Callable[..., None], *more: object) -> Member:
        life = self._life_counts[client]
        self._life_counts[client] += 1
        name = f"{client}.{life}"
        history = self._directory / f"{name}{HISTORY_SUFFIX}"
        ours, theirs = self._spawn.Pipe()
        arguments = (theirs, self._start, self._patches, name, history, *more)
        process = self._spawn.Process(target=run, args=arguments, name=name, daemon=True)
        process.start()
        theirs.close()
        member = Member(name, client, process, ours, history)
        self._members.append(member)
        return member
