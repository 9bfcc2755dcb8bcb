"""Runs a decision log on a test case, and converts the schedule of an explorer into a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Switch
from tornproof.harness.counterexamples.replay_engine import Change, Observer, ReplayEngine, ReplayProcesses
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, kind_of
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Violation

NOBODY = Observer()


class Signature(NamedTuple):
    """What makes two violations the same: the property, the kind of process that broke it, and what was seen.

    `part` is "writer" or "reader"; `kind` is what was seen, without numbers, and "" stands for any.
    """

    property: str
    part: str
    kind: str = ""

    @classmethod
    def of(cls, violation: Violation) -> Self:
        """Return the signature of a violation."""
        return cls(violation.property, kind_of(violation.process), _without_numbers(violation.sentence))

    def fits(self, violation: Violation) -> bool:
        """Say whether a violation has this signature."""
        other = Signature.of(violation)
        return self == (other if self.kind else other._replace(kind=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run, and which decisions of its log did (not) apply; `step_count` calls were answered."""

    violations: tuple[Violation, ...]
    trace_hash: str
    applied: tuple[Deviation, ...]
    dropped: tuple[Deviation, ...]
    step_count: int

    def violation(self, wanted: Signature) -> Violation | None:
        """Return the first violation with a signature."""
        return next(filter(wanted.fits, self.violations), None)


class Replayer:
    """Runs logs on one test case, whose nodes all runs share. To be closed after use."""

    def __init__(self, case: TestCase) -> None:
        """Wait for logs."""
        self.case = case
        self._processes: dict[bool, ReplayProcesses] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all greenlets."""
        for processes in self._processes.values():
            processes.sessions.close()

    def engine(
        self, *, fails: bool, observer: Observer = NOBODY, adapts: bool = False, change: Change | None = None
    ) -> ReplayEngine:
        """Return the start of a run, in which calls may fail or not."""
        if fails not in self._processes:
            sessions = Sessions.of(self.case, fails=fails)
            self._processes[fails] = ReplayProcesses(sessions=sessions, names=StepNames(self.case.path))
        return ReplayEngine(self._processes[fails], observer, adapts=adapts, change=change)

    def play(
        self,
        log: DecisionLog,
        *,
        wanted: Signature | None = None,
        observer: Observer = NOBODY,
        adapts: bool = False,
        change: Change | None = None,
    ) -> RunResult:
        """Run a log to its end, or to the first violation with the wanted signature, or to any if none is wanted.

        With `adapts`, a power cut leaves what is nearest to its choice, which may be that of a larger case. A `change`
        is made to what the processes do.
        """
        fails = any(isinstance(each, Fail) for each in log.deviations)
        engine = self.engine(fails=fails, observer=observer, adapts=adapts, change=change)
        queue = _Queue(log)
        while not _is_over(engine.world.progress.violations, wanted):
            step = engine.next_step()
            deviation = queue.due(step)
            if deviation is not None:
                if queue.is_of_use(engine, deviation):
                    queue.note(engine.deviate(deviation))
            elif (following := engine.following) is None:
                break
            elif following == engine.current:
                engine.advance()
            else:
                engine.current = following
        applied, dropped = queue.outcome()
        return RunResult(
            violations=engine.world.progress.violations,
            trace_hash=engine.trace_hash,
            applied=applied,
            dropped=dropped,
            step_count=engine.step_count,
        )


def run_log(case: TestCase, log: DecisionLog, *, wanted: Signature | None = None) -> RunResult:
    """Run a log once."""
    with Replayer(case) as replayer:
        return replayer.play(log, wanted=wanted)


def _is_over(violations: Sequence[Violation], wanted: Signature | None) -> bool:
    if wanted is None:
        return bool(violations)
    return any(map(wanted.fits, violations))


def _without_numbers(sentence: str) -> str:
    """Leave out what a smaller case may change: numbers, digests, and the content that was found instead."""
    return re.sub(r"\b[0-9a-f]*\d[0-9a-fTx.]*\b", "#", sentence.partition(": expected ")[0])


class _Queue:
    """The decisions of a log that are still to come; each is taken once."""

    def __init__(self, log: DecisionLog) -> None:
        self._log = log
        self._pending: dict[Step, list[int]] = {}
        for number, deviation in enumerate(log.deviations):
            self._pending.setdefault(deviation.at, []).append(number)
        self._applied: dict[int, Deviation] = {}
        self._taken = -1

    def due(self, step: Step) -> Deviation | None:
        numbers = self._pending.get(step)
        if not numbers:
            return None
        self._taken = numbers.pop(0)
        return self._log.deviations[self._taken]

    def is_of_use(self, engine: ReplayEngine, deviation: Deviation) -> bool:
        """Say whether the process that is switched to has a call left, or a decision at its end."""
        if not isinstance(deviation, Switch):
            return True
        index = engine.index_of(deviation.to)
        return index is not None and (
            engine.world.nodes[index].call is not None or bool(self._pending.get(Step(deviation.to, END)))
        )

    def note(self, applied: Deviation | None) -> None:
        if applied is not None:
            self._applied[self._taken] = applied

    def outcome(self) -> tuple[tuple[Deviation, ...], tuple[Deviation, ...]]:
        dropped = tuple(each for number, each in enumerate(self._log.deviations) if number not in self._applied)
        return tuple(self._applied[number] for number in sorted(self._applied)), dropped
