"""Runs a decision log on a test case, and converts the schedule of an explorer into a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.replay_engine import Change, Observer, ReplayEngine, ReplayProcesses, choice_text
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, kind_of
from tornproof.harness.search.crash_world import FAILED_SYNC, WRITER_INDEX, Sessions
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.impl.storage.interface import StorageReason

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


def from_schedule(case: TestCase, moves: Iterable[Sequence[Any]]) -> DecisionLog:
    """Return the log of the run with these moves.

    A move is (index of a process, count of steps), ("step", index), ("kill",) of the writer, ("fail",) of the writer's
    next call or ("fail", index, reason), or ("power", model, choice). Raises ValueError for impossible moves.
    """
    with Replayer(case) as replayer:
        singles = list(_single_moves(moves))
        recorder = _Recorder(replayer.engine(fails=any(move[0] == "fail" for move in singles)))
        last_crash = max((number for number, move in enumerate(singles) if move[0] in ("kill", "power")), default=-1)
        for number, move in enumerate(singles):
            recorder.write(move, is_before_crash=number < last_crash)
        return DecisionLog(tuple(recorder.deviations))


def _single_moves(moves: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    for move in moves:
        if isinstance(move[0], int):
            yield from [("step", move[0])] * move[1]
        else:
            yield move


class _Recorder:
    """Goes through a schedule and records what the policy would not do."""

    def __init__(self, engine: ReplayEngine) -> None:
        self._engine = engine
        self.deviations: list[Deviation] = []

    def write(self, move: Sequence[Any], *, is_before_crash: bool) -> None:
        engine = self._engine
        match move:
            case ["step", index]:
                if engine.world.nodes[index].call is None:
                    raise ValueError(f"{engine.name_of(index)} has no step left")
                self._switch_to(index, is_before_crash=is_before_crash)
                engine.advance()
            case ["kill"]:
                self._switch_to(WRITER_INDEX, is_before_crash=False)
                self._deviate(Kill(engine.next_step()))
            case ["fail", *rest]:
                index, reason = rest or (WRITER_INDEX, FAILED_SYNC.reason)
                self._switch_to(index, is_before_crash=is_before_crash)
                self._deviate(Fail(engine.next_step(), StorageReason(reason)))
            case ["power", model, choice]:
                # All processes die, but only the writer's steps say what there was to lose.
                self._switch_to(WRITER_INDEX, is_before_crash=False)
                self._deviate(PowerCut(engine.next_step(), str(model), choice_text(choice)))
            case _:
                raise ValueError(f"no move: {move!r}")

    def _switch_to(self, index: int, *, is_before_crash: bool) -> None:
        """Let a process run, and record a switch where the policy would let another one run.

        At the end of a process the switch is recorded in any case before a crash, which may be keyed by the same end.
        """
        engine = self._engine
        has_ended = engine.world.nodes[engine.current].call is None
        if index != engine.current and (engine.following != index or (has_ended and is_before_crash)):
            self.deviations.append(Switch(engine.next_step(), engine.name_of(index)))
        engine.current = index

    def _deviate(self, deviation: Deviation) -> None:
        self.deviations.append(deviation)
        if not self._engine.deviate(deviation):
            raise ValueError(f"{deviation} does not apply where it was made")
