"""Worker processes: each is started once, runs one task after the other, and is never left behind."""

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

from tornproof.harness.common.unexpected import unexpected
from tornproof.harness.common.verdict import HasTime, OnProgress
from tornproof.harness.parallel.fork_server import ForkServer, kill_group
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.impl.errors import TornproofError

REPORT_PROGRESS_SECONDS = 0.1
FAILURE_TEXT_MAX = 2_000
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `run` with a `Worker` and the arguments; tasks with the largest `cost` begin first.

    Beside those that it plans, a plan costs nothing.

    A positive control `begins_first` of all, because without it no other result counts than a finding. What makes a
    finding smaller is `for_finding`: it also runs in a run that ends with its first finding. There tasks of a later
    `turn` begin later.
    """

    run: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    cost: float = 1.0
    begins_first: bool = False
    for_finding: bool = False
    turn: int = 0


@dataclass(slots=True, kw_only=True)
class Worker:
    """What a task gets in its process: the question that all tasks are about, and a folder for its files."""

    question: Any
    scratch: Path
    has_time: HasTime
    report_progress: OnProgress = lambda done, total: None
    _made: dict[Callable[[Worker], Any], Any] = field(default_factory=dict)

    def once(self, make: Callable[[Worker], Made]) -> Made:
        """Return what `make` returns for this worker, called once in a process."""
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
    """How far a task of an exploration is or, when it is over, its result and the time that it took."""

    name: str
    index: int
    cases: int = 0
    cases_all: int | None = None
    is_over: bool = False
    result: Any = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def has_finding(self) -> bool:
        """Whether its result, or one of several, says that it has one."""
        results = self.result if isinstance(self.result, (list, tuple)) else [self.result]
        return any(getattr(each, "has_finding", False) for each in results)


class Process:
    """The parent's handle of one process of a pool."""

    def __init__(self, server: ForkServer, question: Any, scratch: Path) -> None:
        """Start it; raises EOFError or OSError if the server has ended."""
        self._server = server
        self._process, self.connection = server.start(_serve, question, scratch)
        self.at: Message | None = None
        self.exit_code: int | None = None

    def begin(self, name: str, index: int, task: Task) -> Message:
        """Give it a task."""
        self.at = Message(name=name, index=index)
        with suppress(OSError):
            # `receive` notices a process that has just died.
            self.connection.send((self.at, task))
        return self.at

    def receive(self) -> Message:
        """Return its next message; if it has died, its task has failed."""
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
        """Ask it to return what it has."""
        if self.exit_code is None:
            os.kill(self._process, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and all processes that it has started."""
        if self.exit_code is not None:
            return
        kill_group(self._process)
        self.connection.close()
        self.exit_code = self._server.exit_code(self._process)


class Pool:
    """Up to `workers` processes; leaving the `with` block ends them."""

    def __init__(self, question: Any, scratch: Path, workers: int) -> None:
        """Start the server; processes, with folders below `scratch`, start when there are tasks."""
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
        """Yield the processes without a task, then new ones up to the number of workers."""
        if not self.is_ready:
            return
        self._processes = [process for process in self._processes if process.exit_code is None]
        yield from (process for process in self._processes if process.at is None)
        while len(self._processes) < self._workers:
            self._processes.append(self._start())
            yield self._processes[-1]

    def messages(self, seconds: float) -> Iterator[Message]:
        """Yield the next messages of the processes, after waiting at most that long."""
        if not self._processes:
            self._server.is_ready(seconds)
        at_work = {process.connection: process for process in self._processes if process.at is not None}
        for connection in wait(list(at_work), seconds) if at_work else ():
            yield at_work[connection].receive()

    def stop(self) -> None:
        """Ask all to return what they have."""
        for process in self._processes:
            process.stop()

    def close(self) -> None:
        """Kill all processes and the server."""
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
    """Run tasks until the other end of the pipe is closed."""
    is_stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    # The server blocks it, and so do the processes that it forks.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    tempfile.tempdir = str(scratch)
    worker = Worker(question=question, scratch=scratch, has_time=lambda: not is_stopped)
    with suppress(EOFError, OSError), bounded_computation(size_bytes_of(question)):
        while True:
            at, task = connection.recv()
            connection.send(_done(worker, at, task, connection))


def size_bytes_of(question: Any) -> int:
    """Return the size of the table that a question is about, 0 if it is about none."""
    image = getattr(question, "image", None)
    return image.size_bytes if isinstance(image, DiskImage) else 0


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
    except EndlessError as error:
        result = Failed(f"what was explored does not end: {error}")
    except Exception as error:
        # An exception in a checker is no result, and must not lose what other tasks find.
        where = "".join(traceback.format_exception(error)[-2:])[-FAILURE_TEXT_MAX:]
        result = Failed(f"{unexpected(error)} ({where})")
    return replace(
        at,
        cases=cases,
        is_over=True,
        result=result,
        seconds=time.monotonic() - begin,
        cpu_seconds=_cpu_seconds() - cpu_at,
    )


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
