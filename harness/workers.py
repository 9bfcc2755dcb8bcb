"""Processes that do tasks: made once, given one task after the other, stopped when asked, never left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from harness.verdict import HasTime, OnProgress
from impl.errors import TornproofError

TELL_SECONDS = 0.1
FAILURE_TEXT_MAX = 2_000
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `run` with a `Worker` and the arguments; `cost` is its part of the work, to begin the longest first."""

    run: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    cost: float = 1.0


@dataclass(slots=True, kw_only=True)
class Worker:
    """What a task finds in its process: the question that all tasks are about, and a folder for its files."""

    question: Any
    scratch: Path
    has_time: HasTime
    tell: OnProgress = lambda done, total: None
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
    place: int
    cases: int = 0
    cases_all: int | None = None
    is_over: bool = False
    result: Any = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0


READY = Message(name="", place=-1)
"""What a process says first."""


class Process:
    """One process of a pool as its parent sees it."""

    def __init__(self, question: Any, scratch: Path) -> None:
        """Start it; a signal to the terminal's processes does not reach it, not even while it starts."""
        context: Any = multiprocessing.get_context(_start_method())
        self.connection, theirs = context.Pipe()
        # Nothing is ever sent through it: it ends when we do, however that comes.
        lifeline, self._lifeline = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(theirs, lifeline, question, scratch), daemon=False)
        with _signals_blocked():
            self._process.start()
        theirs.close()
        lifeline.close()
        self.at: Message | None = None
        self.is_ready = False

    def begin(self, name: str, place: int, task: Task) -> Message:
        """Give it a task."""
        self.at = Message(name=name, place=place)
        with suppress(BrokenPipeError):
            # A process that has just died is noticed when it is listened to.
            self.connection.send((self.at, task))
        return self.at

    def receive(self) -> Message | None:
        """Return what it says next of its task, whose end its death is; None when it has only become ready."""
        assert self.at is not None
        try:
            message: Message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            died = f"a process died of {self._process.exitcode} while it explored, which nothing in a table may do"
            message = replace(self.at, is_over=True, result=Failed(died))
        if message == READY:
            self.is_ready = True
            return None
        if message.is_over:
            self.at = None
        return message

    @property
    def has_died(self) -> bool:
        """Whether it can be given no more tasks."""
        return not self._process.is_alive()

    def stop(self) -> None:
        """Ask for what it has."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        # Before it has a group of its own it has started nothing.
        self._process.kill()
        self._process.join()
        self.connection.close()
        self._lifeline.close()

    @property
    def _pid(self) -> int:
        pid = self._process.pid
        assert isinstance(pid, int)
        return pid


class Pool:
    """So many processes; leaving the `with` block ends them."""

    def __init__(self, question: Any, scratch: Path, workers: int) -> None:
        """Start processes for a question, with folders below `scratch`."""
        self._question = question
        self._scratch = scratch
        self._workers = workers
        self._started_count = 0
        self._processes: list[Process] = []

    def __enter__(self) -> Pool:
        """Return the pool; its processes start when there are tasks."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave no process behind."""
        self.close()

    @property
    def is_ready(self) -> bool:
        """Whether one of them has begun its work."""
        return any(process.is_ready for process in self._processes)

    def idle(self) -> Iterator[Process]:
        """Yield processes that have no task, while there may be one for each of them."""
        for place in range(self._workers):
            if place == len(self._processes):
                self._processes.append(self._start())
            elif self._processes[place].at is None and self._processes[place].has_died:
                self._processes[place].kill()
                self._processes[place] = self._start()
            if self._processes[place].at is None:
                yield self._processes[place]

    def messages(self, seconds: float) -> Iterator[Message]:
        """Yield what the processes say, after waiting for it for at most so long."""
        at_work = {process.connection: process for process in self._processes if process.at is not None}
        for connection in wait(list(at_work), seconds):
            message = at_work[connection].receive()
            if message is not None:
                yield message

    def stop(self) -> None:
        """Ask all for what they have."""
        for process in self._processes:
            process.stop()

    def close(self) -> None:
        """End all of them."""
        while self._processes:
            self._processes[-1].kill()
            self._processes.pop()

    def _start(self) -> Process:
        folder = self._scratch / f"worker-{self._started_count}"
        folder.mkdir()
        self._started_count += 1
        return Process(self._question, folder)


def _start_method() -> str:
    """Return a way to start processes that does not copy this one, with its threads, and imports only once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    multiprocessing.set_forkserver_preload(["harness.check"])
    return "forkserver"


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Let what is started meanwhile begin deaf to Ctrl-C; what comes for us comes when the block ends."""
    # Started within the block, it would lift it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, lifeline: Connection, question: Any, scratch: Path) -> None:
    """Do tasks until the other end of the pipe is closed."""
    is_stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    os.setpgid(0, 0)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
    tempfile.tempdir = str(scratch)
    worker = Worker(question=question, scratch=scratch, has_time=lambda: not is_stopped)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(READY)
        while True:
            at, task = connection.recv()
            connection.send(_done(worker, at, task, connection))


def _end_with(lifeline: Connection) -> None:
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os.killpg(0, signal.SIGKILL)


def _done(worker: Worker, at: Message, task: Task, connection: Connection) -> Message:
    told_at, cpu_at = time.monotonic(), _cpu_seconds()
    begin, cases = told_at, 0

    def tell(done: int, total: int | None = None) -> None:
        nonlocal told_at, cases
        cases = done
        if (now := time.monotonic()) - told_at > TELL_SECONDS:
            told_at = now
            connection.send(replace(at, cases=done, cases_all=total))

    worker.tell = tell
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
