"""Explorations as tasks: the result is the same in whichever processes and order the tasks run.

An exploration is a generator. It yields tasks that can run in parallel, is sent what each of them returned, and returns
its phase at the end. What a task returns depends only on its arguments and the question.
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
from tornproof.harness.parallel.workers import ENDING_SIGNALS, Failed, Message, Pool, Task, Worker, size_bytes_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.impl.errors import TornproofError

INTERRUPTED_SECONDS = 1.0
"""How long tasks may take to return what they have after an interrupt."""
OUT_OF_TIME_SECONDS = 5.0
"""How long they may take at the time limit: one case of a large table takes seconds."""
POLL_SECONDS = 0.1
TURN_GROWTH = 3
"""A task of a later turn begins beside those of the turn before it that cost so many times as much."""
SHARED_MEMORY = Path(os.environ.get("TORNPROOF_SHARED_MEMORY") or "/dev/shm")
"""The parent directory of scratch files; a supervisor can set one that it removes."""
ROOM_BYTES = 1 << 30

Results: TypeAlias = list[Any]
"""What the tasks yielded together returned, in their order; None for one that was stopped or not begun."""
Exploration: TypeAlias = Generator[Sequence[Task], Results, Phase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an exploration is: the part of its known work that is done, from 0 to 1, and the cases tried."""

    name: str
    done_part: float
    cases: int


OnProgress: TypeAlias = Callable[[Progress], None]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The result of a run: its phases in the requested order, and what ended it before its bound, if anything."""

    phases: list[Phase] = field(default_factory=list)
    is_out_of_time: bool = False
    is_ended_by_finding: bool = False
    first_finding_cpu_seconds: float | None = None
    """The CPU time of all tasks that ended before there was a first finding, with that of the task that has it."""
    interrupted_by: signal.Signals | None = None

    @property
    def cut_by(self) -> str | None:
        """What ended it before its bound: an interrupt, the time, the first finding, or nothing."""
        if self.interrupted_by:
            return "interrupt"
        return "seconds" if self.is_out_of_time else "finding" if self.is_ended_by_finding else None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the phases."""
        return worst(phase.verdict for phase in self.phases)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all phases."""
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
    """Run the tasks of one exploration one after the other in this process; raises what they raise."""
    with _scratch() as scratch, bounded_computation(size_bytes_of(question)):
        worker = Worker(question=question, scratch=scratch, has_time=has_time, report_progress=on_progress)
        return phase_of(exploration, lambda tasks: [task.run(worker, *task.arguments) for task in tasks])


def phase_of(exploration: Exploration, run: Callable[[Sequence[Task]], Results]) -> Phase:
    """Return the phase of an exploration whose tasks `run` runs; raises what both raise."""
    results: Results | None = None
    while True:
        try:
            tasks = next(exploration) if results is None else exploration.send(results)
        except StopIteration as end:
            phase: Phase = end.value
            return phase
        results = run(tasks)


def explore(
    explorations: Mapping[str, Exploration],
    question: Any,
    *,
    workers: int,
    seconds: float | None = None,
    first_finding_lengths: Mapping[str, float] | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> Outcome:
    """Run the tasks of all explorations in `workers` processes, until `seconds` have passed or an interrupt.

    With `first_finding_lengths` it ends with the first finding, and after it only what makes that smaller runs. Then
    explorations are side by side, so that one of twice the length is half as far as another one, the cheapest tasks
    first, those of a late turn later, and positive controls last. An exploration that is stopped ends with the phase of
    what was done. The first signal that would end this process is in the outcome instead. No process and no file is
    left behind.
    """
    run = _Run(explorations, seconds, on_progress, first_finding_lengths)
    with interrupts_kept(run.outcome), _scratch() as scratch, Pool(question, scratch, workers) as pool:
        run.to_the_end(pool)
        if run.open_:
            run.cut(pool)
    run.outcome.phases = [going.phase for going in run.all if going.phase is not None]
    return run.outcome


@contextmanager
def interrupts_kept(outcome: Outcome) -> Iterator[None]:
    """Record a signal instead of raising an exception, which could come at any point."""

    def note(number: int, frame: object) -> None:
        outcome.interrupted_by = outcome.interrupted_by or signal.Signals(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a new folder, in shared memory if there is room, because a sync costs nothing there."""
    with tempfile.TemporaryDirectory(prefix="tornproof-", dir=shared_memory(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def shared_memory() -> Path | None:
    """Return the directory of shared memory if files can be made there and it has room, else None."""
    is_writable = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return SHARED_MEMORY if is_writable and shutil.disk_usage(SHARED_MEMORY).free > ROOM_BYTES else None


@dataclass(slots=True, kw_only=True)
class _Going:
    """A running exploration; `waiting` are the indexes of tasks that have not begun, the longest last."""

    name: str
    exploration: Exploration
    results: Results | None = None
    tasks: Sequence[Task] = ()
    waiting: list[int] = field(default_factory=list)
    running: dict[int, Message] = field(default_factory=dict)
    phase: Phase | None = None
    cases: int = 0
    cost_all: float = 0.0
    cost_begun: float = 0.0
    cost_done: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    first_finding_length: float | None = None
    is_ending: bool = False
    """Whether only what makes a finding smaller begins."""

    def go_on(self) -> None:
        """Start the exploration, or send it the results, until it has yielded tasks or returned its phase."""
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
                last_first = reversed(range(len(tasks)))
                self.waiting = sorted(last_first, key=lambda index: self._rank(tasks[index]))
                if self.is_ending:
                    self.end()

    def end(self) -> None:
        """Begin nothing more but what makes a finding smaller."""
        self.is_ending = True
        self.waiting = [index for index in self.waiting if self.tasks[index].for_finding]

    def _rank(self, task: Task) -> tuple[bool, float]:
        """Return the order of the tasks, in which the greatest begins first."""
        if self.first_finding_length is not None:
            return not task.begins_first, -task.cost * TURN_GROWTH**task.turn
        # A long task that begins last would leave the other processes idle.
        return task.begins_first, task.cost

    def begin(self) -> int:
        """Return the next task."""
        index = self.waiting.pop()
        self.cost_begun += self.tasks[index].cost
        return index

    @property
    def next_end(self) -> float:
        """Where the next task ends, on the scale of the lengths."""
        cost = self.cost_begun + self.tasks[self.waiting[-1]].cost
        return cost / self.cost_all * (self.first_finding_length or 1.0) if cost else 0.0

    def receive(self, message: Message) -> None:
        """Record how far a task is, or what it returned."""
        if not message.is_over:
            self.running[message.index] = message
            return
        del self.running[message.index]
        self.cases += message.cases
        self.cost_done += self.tasks[message.index].cost
        self.seconds += message.seconds
        self.cpu_seconds += message.cpu_seconds
        assert self.results is not None
        if isinstance(message.result, Failed):
            self.failures.append(message.result.reason)
        else:
            self.results[message.index] = message.result

    def progress(self) -> Progress:
        parts = (
            self.tasks[index].cost * min(1.0, at.cases / at.cases_all)
            for index, at in self.running.items()
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
    def __init__(
        self,
        explorations: Mapping[str, Exploration],
        seconds: float | None,
        on_progress: OnProgress,
        first_finding_lengths: Mapping[str, float] | None,
    ) -> None:
        self.outcome = Outcome()
        self._fails_fast = first_finding_lengths is not None
        lengths = first_finding_lengths or {}
        self.all = [
            _Going(name=name, exploration=exploration, first_finding_length=lengths.get(name))
            for name, exploration in explorations.items()
        ]
        self._by_name = {going.name: going for going in self.all}
        self._seconds = seconds
        self._on_progress = on_progress

    @property
    def open_(self) -> list[_Going]:
        return [going for going in self.all if going.phase is None]

    def to_the_end(self, pool: Pool) -> None:
        """Assign tasks until all are done, or the time is over."""
        end = None
        for going in self.all:
            going.go_on()
        while self.open_ and self.outcome.interrupted_by is None:
            self._assign(pool)
            if self._seconds is not None and end is None and pool.is_ready:
                # The time that processes take to start is not counted.
                end = time.monotonic() + self._seconds
            left = POLL_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                self.outcome.is_out_of_time = True
                return
            heard = self._listen(pool, min(left, POLL_SECONDS))
            for going in self.open_ if self._ends(pool) else heard:
                if not going.running and not going.waiting:
                    going.go_on()
                self._on_progress(going.progress())

    def _ends(self, pool: Pool) -> bool:
        """Whether the first finding has just ended the run: then stop what runs, and begin no more."""
        is_first = self.outcome.first_finding_cpu_seconds is not None and not self.outcome.is_ended_by_finding
        if not is_first or not self._fails_fast:
            return False
        self.outcome.is_ended_by_finding = True
        pool.stop()
        for going in self.open_:
            going.end()
        return True

    def cut(self, pool: Pool) -> None:
        """Ask running tasks for what they have, and let every exploration end with that."""
        for going in self.open_:
            going.waiting.clear()
        pool.stop()
        begin = time.monotonic()
        while any(going.running for going in self.open_):
            seconds_max = OUT_OF_TIME_SECONDS if self.outcome.interrupted_by is None else INTERRUPTED_SECONDS
            if (left := begin + seconds_max - time.monotonic()) <= 0:
                break
            self._listen(pool, min(left, POLL_SECONDS))
        pool.close()
        for going in self.open_:
            while going.phase is None:
                going.go_on()
                going.waiting.clear()

    def _assign(self, pool: Pool) -> None:
        for process in pool.idle():
            going = self._next()
            if going is None:
                return
            index = going.begin()
            going.running[index] = process.begin(going.name, index, going.tasks[index])

    def _next(self) -> _Going | None:
        """Return the exploration with waiting tasks that has had the least CPU time, or falls behind if it fails fast.

        With the least a time limit leaves results of each, and no exploration has its long tasks at the end. What is
        found first may not depend on how fast they are, so that there the costs count.
        """
        ready = [going for going in self.open_ if going.waiting]
        if self._fails_fast:
            return min(ready, key=lambda going: going.next_end, default=None)
        return min(ready, key=lambda going: going.cpu_seconds + len(going.running), default=None)

    def _listen(self, pool: Pool, seconds: float) -> list[_Going]:
        heard = []
        for message in pool.messages(seconds):
            going = self._by_name[message.name]
            going.receive(message)
            heard.append(going)
            if message.has_finding and self.outcome.first_finding_cpu_seconds is None:
                self.outcome.first_finding_cpu_seconds = sum(each.cpu_seconds for each in self.all)
        return heard
