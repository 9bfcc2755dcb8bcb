"""Processes that do tasks: made once, given one task after the other, stopped when asked, never left behind."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from multiprocess.connection import Connection, wait  # type: ignore[import-untyped]

from tornproof.harness.common.verdict import HasTime, OnProgress
from tornproof.harness.parallel.fork_server import ForkServer
from tornproof.impl.errors import TornproofError

REPORT_PROGRESS_SECONDS = 0.1
FAILURE_TEXT_MAX = 2_000
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `run` with a `Worker` and the arguments; `cost` is its part of the work, to begin the longest first.

    A positive control `begins_first`: without it nothing counts.
    """

    run: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    cost: float = 1.0
    begins_first: bool = False


@dataclass(slots=True, kw_only=True)
class Worker:
    """What a task finds in its process: the question that all tasks are about, and a folder for its files."""

    question: Any
    scratch: Path
    has_time: HasTime
    report_progress: OnProgress = lambda done, total: None
    _made: dict[Callable[[Worker], Any], Any] = field(default_factory=dict)

    def once(self, make: Callable[[Worker], Made]) -> Made:
        """Return what `make` makes of this worker, made once in a process."""
        if make not in self._made:
            self._made[make] = make(self)
        made: Made = self._made[make]
        return made


@dataclass(frozen=True, slots=True)
class Failed:
    """A task ended by an exception."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """How far the task at a place of an exploration is, or, when it is over, what it returned and what it took."""

    name: str
    position: int
    cases: int = 0
    cases_all: int | None = None
    is_over: bool = False
    result: Any = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Process:
    """One process of a pool as its parent sees it."""

    def __init__(self, server: ForkServer, question: Any, scratch: Path) -> None:
        """Start it; raises EOFError or OSError when the server has ended."""
        self._server = server
        self._process, self.connection = server.start(_serve, question, scratch)
        self.at: Message | None = None
        self.exit_code: int | None = None

    def begin(self, name: str, position: int, task: Task) -> Message:
        """Give it a task."""
        self.at = Message(name=name, position=position)
        with suppress(OSError):
            # A process that has just died is noticed when it is listened to.
            self.connection.send((self.at, task))
        return self.at

    def receive(self) -> Message:
        """Return what it says next; its death is the end of its task."""
        assert self.at is not None
        try:
            message: Message = self.connection.recv()
        except (EOFError, OSError):
            self.kill()
            died = f"a process died of {self.exit_code} while it explored, which nothing in a table may do"
            message = replace(self.at, is_over=True, result=Failed(died))
        if message.is_over:
            self.at = None
        return message

    def stop(self) -> None:
        """Ask for what it has."""
        if self.exit_code is None:
            os.kill(self._process, signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all that it has started."""
        if self.exit_code is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)
        with suppress(ProcessLookupError):
            # Before it has a group of its own it has started nothing.
            os.kill(self._process, signal.SIGKILL)
        self.connection.close()
        self.exit_code = self._server.exit_code(self._process)


class Pool:
    """So many processes; leaving the `with` block ends them."""

    def __init__(self, question: Any, scratch: Path, workers: int) -> None:
        """Answer a question in processes with folders below `scratch`, which start when there are tasks."""
        self._question = question
        self._scratch = scratch
        self._workers = workers
        self._started_count = 0
        self._processes: list[Process] = []
        self._server = ForkServer("tornproof.harness.check")

    def __enter__(self) -> Pool:
        """Return the pool."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave no process behind."""
        self.close()

    @property
    def is_ready(self) -> bool:
        """Whether processes can be started."""
        return self._server.is_ready(0)

    def idle(self) -> Iterator[Process]:
        """Yield processes that have no task, while there may be one for each of them."""
        if not self.is_ready:
            return
        self._processes = [process for process in self._processes if process.exit_code is None]
        yield from (process for process in self._processes if process.at is None)
        while len(self._processes) < self._workers:
            self._processes.append(self._start())
            yield self._processes[-1]

    def messages(self, seconds: float) -> Iterator[Message]:
        """Yield what the processes say, after waiting for it for at most so long."""
        if not self._processes:
            self._server.is_ready(seconds)
        at_work = {process.connection: process for process in self._processes if process.at is not None}
        for connection in wait(list(at_work), seconds) if at_work else ():
            yield at_work[connection].receive()

    def stop(self) -> None:
        """Ask all for what they have."""
        for process in self._processes:
            process.stop()

    def close(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
        self._processes.clear()
        self._server.close()

    def _start(self) -> Process:
        folder = self._scratch / f"worker-{self._started_count}"
        folder.mkdir()
        self._started_count += 1
        return Process(self._server, self._question, folder)


def _serve(connection: Connection, question: Any, scratch: Path) -> None:
    """Do tasks until the other end of the pipe is closed."""
    is_stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    # The server is deaf to it, and so are those that it forks.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    tempfile.tempdir = str(scratch)
    worker = Worker(question=question, scratch=scratch, has_time=lambda: not is_stopped)
    with suppress(EOFError, OSError):
        while True:
            at, task = connection.recv()
            connection.send(_done(worker, at, task, connection))


def _done(worker: Worker, at: Message, task: Task, connection: Connection) -> Message:
    reported_at, cpu_at = time.monotonic(), _cpu_seconds()
    begin, cases = reported_at, 0

    def report_progress(done: int, total: int | None = None) -> None:
        nonlocal reported_at, cases
        cases = done
        if (now := time.monotonic()) - reported_at > REPORT_PROGRESS_SECONDS:
            reported_at = now
            connection.send(replace(at, cases=done, cases_all=total))

    worker.report_progress = report_progress
    try:
        result = task.run(worker, *task.arguments)
    except TornproofError as error:
        result = Failed(str(error))
    except Exception as error:
        # A checker's own exception is no answer; it must not cost what the others find.
        where = "".join(traceback.format_exception(error)[-2:])[-FAILURE_TEXT_MAX:]
        result = Failed(f"this is a defect of tornproof, not an answer: {type(error).__name__}: {error} ({where})")
    return replace(
        at,
        cases=cases,
        is_over=True,
        result=result,
        seconds=time.monotonic() - begin,
        cpu_seconds=_cpu_seconds() - cpu_at,
    )


def _cpu_seconds() -> float:
    """Return what this process and those that it waited for have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
