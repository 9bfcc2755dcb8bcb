"""Runs a decision log on a situation, and makes one of a schedule that an explorer has gone through."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.replay_engine import Observer, ReplayEngine, ReplayProcesses, written
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, kind_of
from tornproof.harness.search.crash_world import FAILED_SYNC, WRITER_PLACE, Sessions
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.impl.storage.interface import StorageReason

NOBODY = Observer()


class Signature(NamedTuple):
    """What makes two violations the same one: the property, which part of the cast broke it, and what was seen.

    `kind` is what was seen without its numbers; an empty one is any.
    """

    property: str
    part: str
    kind: str = ""

    @classmethod
    def of(cls, violation: Violation) -> Self:
        """Return that of a violation."""
        return cls(violation.property, kind_of(violation.process), _without_numbers(violation.sentence))

    def fits(self, violation: Violation) -> bool:
        """Say whether a violation is such a one."""
        other = Signature.of(violation)
        return self == (other if self.kind else other._replace(kind=""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run came to, and which decisions of its log did (not) apply; `step_count` calls were answered."""

    violations: tuple[Violation, ...]
    trace_hash: str
    applied: tuple[Deviation, ...]
    dropped: tuple[Deviation, ...]
    step_count: int

    def violation(self, wanted: Signature) -> Violation | None:
        """Return the first violation with a signature."""
        return next(filter(wanted.fits, self.violations), None)


class Replayer:
    """Runs logs on one situation, whose clients learn once for all of them. Close it after use."""

    def __init__(self, case: TestCase) -> None:
        """Wait for logs."""
        self.case = case
        self._troupes: dict[bool, ReplayProcesses] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all greenlets."""
        for processes in self._troupes.values():
            processes.sessions.close()

    def engine(self, *, fails: bool, observer: Observer = NOBODY, adapts: bool = False) -> ReplayEngine:
        """Return the start of a run, in which calls may fail or not."""
        if fails not in self._troupes:
            sessions = Sessions.of(self.case, fails=fails)
            self._troupes[fails] = ReplayProcesses(sessions=sessions, names=StepNames(self.case.path))
        return ReplayEngine(self._troupes[fails], observer, adapts=adapts)

    def play(
        self,
        log: DecisionLog,
        *,
        wanted: Signature | None = None,
        observer: Observer = NOBODY,
        adapts: bool = False,
    ) -> RunResult:
        """Run a log up to the first violation that is wanted, or without a wish to the first one, or to the end.

        With `adapts`, a power cut of a larger case leaves what is nearest to its choice.
        """
        fails = any(isinstance(each, Fail) for each in log.deviations)
        engine = self.engine(fails=fails, observer=observer, adapts=adapts)
        queue = _Queue(log)
        while not _is_over(engine.world.progress.violations, wanted):
            step = engine.next_step()
            deviation = queue.due(step)
            if deviation is not None:
                if queue.is_of_use(engine, deviation):
                    queue.note(engine.deviate(deviation))
            elif step.operation != END:
                engine.advance()
            elif (following := engine.following) is not None:
                engine.current = following
            else:
                break
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
    """Leave out what a smaller case may change: numbers and digests, and what stood in a file where it should not."""
    return re.sub(r"\b[0-9a-f]*\d[0-9a-fTx.]*\b", "#", sentence.partition(": expected ")[0])


class _Queue:
    """The decisions of a log that are still to come, each of which is taken once."""

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
        """Say whether a client that is switched to has a call left, or a decision at its end."""
        if not isinstance(deviation, Switch):
            return True
        position = engine.position_of(deviation.to)
        return position is not None and (
            engine.world.nodes[position].call is not None or bool(self._pending.get(Step(deviation.to, END)))
        )

    def note(self, applied: Deviation | None) -> None:
        if applied is not None:
            self._applied[self._taken] = applied

    def outcome(self) -> tuple[tuple[Deviation, ...], tuple[Deviation, ...]]:
        numbered = enumerate(self._log.deviations)
        dropped = tuple(each for number, each in numbered if number not in self._applied)
        return tuple(self._applied[number] for number in sorted(self._applied)), dropped


def from_schedule(case: TestCase, moves: Iterable[Sequence[Any]]) -> DecisionLog:
    """Return the log of a run that went by these moves.

    A move is (place, count of steps), ("step", place), ("kill",) of the writer, ("fail",) of the writer's next call or
    ("fail", place, reason), or ("power", model, choice). Raises ValueError for moves that nobody can make.
    """
    with Replayer(case) as replayer:
        atoms = list(_atoms(moves))
        recorder = _Recorder(replayer.engine(fails=any(atom[0] == "fail" for atom in atoms)))
        last_crash = max((number for number, atom in enumerate(atoms) if atom[0] in ("kill", "power")), default=-1)
        for number, atom in enumerate(atoms):
            recorder.write(atom, is_before_crash=number < last_crash)
        return DecisionLog(tuple(recorder.deviations))


def _atoms(moves: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    for move in moves:
        if isinstance(move[0], int):
            yield from [("step", move[0])] * move[1]
        else:
            yield move


class _Recorder:
    """Goes through a schedule and writes down what the policy would not do."""

    def __init__(self, engine: ReplayEngine) -> None:
        self._engine = engine
        self.deviations: list[Deviation] = []

    def write(self, atom: Sequence[Any], *, is_before_crash: bool) -> None:
        engine = self._engine
        match atom:
            case ["step", position]:
                if engine.world.nodes[position].call is None:
                    raise ValueError(f"{engine.process(position)} has no step left")
                self._transition_to(position, is_before_crash=is_before_crash)
                engine.advance()
            case ["kill"]:
                self._transition_to(WRITER_PLACE, is_before_crash=False)
                self._deviate(Kill(engine.next_step()))
            case ["fail", *rest]:
                position, reason = rest or (WRITER_PLACE, FAILED_SYNC.reason)
                self._transition_to(position, is_before_crash=is_before_crash)
                self._deviate(Fail(engine.next_step(), StorageReason(reason)))
            case ["power", model, choice]:
                # All die, but only the writer's steps say what there was to lose.
                self._transition_to(WRITER_PLACE, is_before_crash=False)
                self._deviate(PowerCut(engine.next_step(), str(model), written(choice)))
            case _:
                raise ValueError(f"no move: {atom!r}")

    def _transition_to(self, position: int, *, is_before_crash: bool) -> None:
        """Switch where the policy goes on with somebody else.

        At the end of a client the turn is written down even so where a crash is to come, because that may be keyed by
        the same end.
        """
        engine = self._engine
        has_ended = engine.world.nodes[engine.current].call is None
        if position != engine.current and (engine.following != position or (has_ended and is_before_crash)):
            self.deviations.append(Switch(engine.next_step(), engine.process(position)))
        engine.current = position

    def _deviate(self, deviation: Deviation) -> None:
        self.deviations.append(deviation)
        assert self._engine.deviate(deviation), f"{deviation} does not apply where it was made"
