"""Explorations cut into tasks: whoever does them, in whatever order, the same question gets the same answer.

An exploration is a generator. It yields the tasks that can be done side by side, is sent what each of them returned,
and ends by returning its phase. What a task returns follows from its arguments and the question alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from tornproof.harness.common.verdict import Finding, HasTime, Phase, Verdict, always, nothing_explored, worst
from tornproof.harness.common.verdict import OnProgress as OnCases
from tornproof.harness.parallel.workers import ENDING_SIGNALS, Failed, Message, Pool, Task, Worker
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import TornproofError

STOP_SECONDS = 1.0
"""How long tasks may take to return what they have, when somebody interrupts or the ceiling is reached."""
POLL_SECONDS = 0.1
SHARED_MEMORY = Path(os.environ.get("TORNPROOF_SHARED_MEMORY", "/dev/shm"))
"""A run under a guard has a folder there that the guard removes."""
ROOM_BYTES = 1 << 30

Results: TypeAlias = list[Any]
"""What each task of a wave returned, in the order of the tasks; None for one that was stopped or not begun."""
Exploration: TypeAlias = Generator[Sequence[Task], Results, Phase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an exploration is: the part of its work that is done, as far as that is known, and the cases tried."""

    name: str
    done_part: float
    cases: int


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of a run: its phases in the order that was asked for, and what cut it before its bound, if anything."""

    phases: list[Phase] = field(default_factory=list)
    is_out_of_time: bool = False
    interrupted_by: signal.Signals | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the phases."""
        return worst(phase.verdict for phase in self.phases)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What all phases found."""
        return tuple(finding for phase in self.phases for finding in phase.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuestion:
    """The table that every task of an exploration is about."""

    image: DiskImage
    path: str


def explore_here(
    exploration: Exploration,
    question: Any,
    *,
    has_time: HasTime = always,
    on_progress: OnCases = lambda done, total: None,
) -> Phase:
    """Do the tasks of one exploration one after the other in this process; raises what they raise."""
    results: Results | None = None
    with _scratch() as scratch:
        worker = Worker(question=question, scratch=scratch, has_time=has_time, report_progress=on_progress)
        while True:
            try:
                tasks = next(exploration) if results is None else exploration.send(results)
            except StopIteration as end:
                phase: Phase = end.value
                return phase
            results = [task.run(worker, *task.arguments) for task in tasks]


def explore(
    explorations: Mapping[str, Exploration],
    question: Any,
    *,
    workers: int,
    seconds: float | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> Outcome:
    """Do the tasks of all explorations in so many processes; after `seconds`, or an interrupt, no more of them.

    An exploration that is cut ends with the phase of what was done. The first signal that would end this process is
    kept until then and told by the outcome. No process and no file is left behind.
    """
    run = _Run(explorations, seconds, on_progress)
    with _interrupts_kept(run.outcome), _scratch() as scratch, Pool(question, scratch, workers) as pool:
        run.to_the_end(pool)
        if run.open_:
            run.cut(pool)
    run.outcome.phases = [going.phase for going in run.all if going.phase is not None]
    return run.outcome


@contextmanager
def _interrupts_kept(outcome: Outcome) -> Iterator[None]:
    """Note a signal instead of raising an exception, which could come in the middle of anything."""

    def note(number: int, frame: object) -> None:
        outcome.interrupted_by = outcome.interrupted_by or signal.Signals(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a new folder, in shared memory where there is room: a sync costs nothing there."""
    has_room = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES
    with tempfile.TemporaryDirectory(
        prefix="tornproof-", dir=SHARED_MEMORY if has_room else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@dataclass(slots=True, kw_only=True)
class _Going:
    """One exploration under way; `waiting` are the tasks of its wave that nobody does yet, the longest last."""

    name: str
    exploration: Exploration
    results: Results | None = None
    tasks: Sequence[Task] = ()
    waiting: list[int] = field(default_factory=list)
    running: dict[int, Message] = field(default_factory=dict)
    phase: Phase | None = None
    cases: int = 0
    cost_all: float = 0.0
    cost_done: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def go_on(self) -> None:
        """Let the exploration begin, or have the results of its wave, until there are tasks or there is a phase."""
        while self.phase is None and not self.waiting:
            try:
                tasks = next(self.exploration) if self.results is None else self.exploration.send(self.results)
            except StopIteration as end:
                self.phase = self._with_all(end.value)
            except TornproofError as error:
                self.phase = self._with_all(nothing_explored(self.name, str(error)))
            else:
                self.tasks, self.results = tasks, [None] * len(tasks)
                self.cost_all += sum(task.cost for task in tasks)
                # A long task that begins last would leave the other processes idle.
                last_first = reversed(range(len(tasks)))
                self.waiting = sorted(
                    last_first, key=lambda position: (tasks[position].begins_first, tasks[position].cost)
                )

    def hear(self, message: Message) -> None:
        """Take in how far a task is, or what it returned."""
        if not message.is_over:
            self.running[message.position] = message
            return
        del self.running[message.position]
        self.cases += message.cases
        self.cost_done += self.tasks[message.position].cost
        self.seconds += message.seconds
        self.cpu_seconds += message.cpu_seconds
        assert self.results is not None
        if isinstance(message.result, Failed):
            self.failures.append(message.result.reason)
        else:
            self.results[message.position] = message.result

    def progress(self) -> Progress:
        parts = (
            self.tasks[position].cost * min(1.0, at.cases / at.cases_all)
            for position, at in self.running.items()
            if at.cases_all
        )
        return Progress(
            name=self.name,
            done_part=1.0 if self.phase else (self.cost_done + sum(parts)) / self.cost_all if self.cost_all else 0.0,
            cases=self.phase.explored if self.phase else self.cases + sum(at.cases for at in self.running.values()),
        )

    def _with_all(self, phase: Phase) -> Phase:
        return replace(phase, seconds=self.seconds, cpu_seconds=self.cpu_seconds).doubted(*sorted(self.failures))


class _Run:
    def __init__(self, explorations: Mapping[str, Exploration], seconds: float | None, on_progress: OnProgress) -> None:
        self.outcome = Outcome()
        self.all = [_Going(name=name, exploration=exploration) for name, exploration in explorations.items()]
        self._by_name = {going.name: going for going in self.all}
        self._seconds = seconds
        self._on_progress = on_progress

    @property
    def open_(self) -> list[_Going]:
        return [going for going in self.all if going.phase is None]

    def to_the_end(self, pool: Pool) -> None:
        """Hand out tasks until all is done, or the time is over."""
        end = None
        for going in self.all:
            going.go_on()
        while self.open_ and self.outcome.interrupted_by is None:
            self._hand_out(pool)
            if self._seconds is not None and end is None and pool.is_ready:
                # How long processes take to start is no time for exploring.
                end = time.monotonic() + self._seconds
            left = POLL_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                self.outcome.is_out_of_time = True
                return
            for going in self._listen(pool, min(left, POLL_SECONDS)):
                if not going.running and not going.waiting:
                    going.go_on()
                self._on_progress(going.progress())

    def cut(self, pool: Pool) -> None:
        """Ask the tasks at work for what they have, and let every exploration end with that."""
        for going in self.open_:
            going.waiting.clear()
        pool.stop()
        end = time.monotonic() + STOP_SECONDS
        while any(going.running for going in self.open_) and (left := end - time.monotonic()) > 0:
            self._listen(pool, min(left, POLL_SECONDS))
        pool.close()
        for going in self.open_:
            while going.phase is None:
                going.go_on()
                going.waiting.clear()

    def _hand_out(self, pool: Pool) -> None:
        for process in pool.idle():
            going = self._next()
            if going is None:
                return
            position = going.waiting.pop()
            going.running[position] = process.begin(going.name, position, going.tasks[position])

    def _next(self) -> _Going | None:
        """Return whose task is next: that of whom the least was done for.

        So a ceiling leaves something of each, and none keeps its long tasks for the end.
        """
        ready = [going for going in self.open_ if going.waiting]
        return min(ready, key=lambda going: going.cpu_seconds + len(going.running), default=None)

    def _listen(self, pool: Pool, seconds: float) -> list[_Going]:
        heard = []
        for message in pool.messages(seconds):
            going = self._by_name[message.name]
            going.hear(message)
            heard.append(going)
        return heard
