"""Runs a decision log on a situation, and makes one of a schedule that an explorer has gone through."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch
from tornproof.harness.counterexamples.stage import Stage, Troupe, Watcher, written
from tornproof.harness.counterexamples.step_names import END, Step, StepNames, kind_of
from tornproof.harness.search.crash_world import FAILED_SYNC, WRITER_PLACE, Lives
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.situation import Situation
from tornproof.impl.storage.interface import Refusal

NOBODY = Watcher()


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
        return cls(violation.property, kind_of(violation.client), _without_numbers(violation.sentence))

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


class Player:
    """Runs logs on one situation, whose clients learn once for all of them. Close it after use."""

    def __init__(self, situation: Situation) -> None:
        """Wait for logs."""
        self.situation = situation
        self._troupes: dict[bool, Troupe] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End all greenlets."""
        for troupe in self._troupes.values():
            troupe.lives.close()

    def stage(self, *, fails: bool, watcher: Watcher = NOBODY, adapts: bool = False) -> Stage:
        """Return the start of a run, in which calls may fail or not."""
        if fails not in self._troupes:
            lives = Lives.of(self.situation, fails=fails)
            self._troupes[fails] = Troupe(lives=lives, names=StepNames(self.situation.path))
        return Stage(self._troupes[fails], watcher, adapts=adapts)

    def play(
        self,
        log: DecisionLog,
        *,
        wanted: Signature | None = None,
        watcher: Watcher = NOBODY,
        adapts: bool = False,
    ) -> RunResult:
        """Run a log up to the first violation that is wanted, or without a wish to the first one, or to the end.

        With `adapts`, a power cut of a larger case leaves what is nearest to its choice.
        """
        fails = any(isinstance(each, Fail) for each in log.deviations)
        stage = self.stage(fails=fails, watcher=watcher, adapts=adapts)
        queue = _Queue(log)
        while not _is_over(stage.world.progress.violations, wanted):
            step = stage.next_step()
            deviation = queue.due(step)
            if deviation is not None:
                if queue.is_of_use(stage, deviation):
                    queue.note(stage.deviate(deviation))
            elif step.operation != END:
                stage.advance()
            elif (following := stage.following) is not None:
                stage.current = following
            else:
                break
        applied, dropped = queue.outcome()
        return RunResult(
            violations=stage.world.progress.violations,
            trace_hash=stage.trace_hash,
            applied=applied,
            dropped=dropped,
            step_count=stage.step_count,
        )


def run_log(situation: Situation, log: DecisionLog, *, wanted: Signature | None = None) -> RunResult:
    """Run a log once."""
    with Player(situation) as player:
        return player.play(log, wanted=wanted)


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

    def is_of_use(self, stage: Stage, deviation: Deviation) -> bool:
        """Say whether a client that is switched to has a call left, or a decision at its end."""
        if not isinstance(deviation, Switch):
            return True
        place = stage.place_of(deviation.to)
        return place is not None and (
            stage.world.nodes[place].call is not None or bool(self._pending.get(Step(deviation.to, END)))
        )

    def note(self, applied: Deviation | None) -> None:
        if applied is not None:
            self._applied[self._taken] = applied

    def outcome(self) -> tuple[tuple[Deviation, ...], tuple[Deviation, ...]]:
        numbered = enumerate(self._log.deviations)
        dropped = tuple(each for number, each in numbered if number not in self._applied)
        return tuple(self._applied[number] for number in sorted(self._applied)), dropped


def from_schedule(situation: Situation, moves: Iterable[Sequence[Any]]) -> DecisionLog:
    """Return the log of a run that went by these moves.

    A move is (place, count of steps), ("step", place), ("kill",) of the writer, ("fail",) of the writer's next call or
    ("fail", place, reason), or ("power", model, choice). Raises ValueError for moves that nobody can make.
    """
    with Player(situation) as player:
        atoms = list(_atoms(moves))
        scribe = _Scribe(player.stage(fails=any(atom[0] == "fail" for atom in atoms)))
        last_crash = max((number for number, atom in enumerate(atoms) if atom[0] in ("kill", "power")), default=-1)
        for number, atom in enumerate(atoms):
            scribe.write(atom, is_before_crash=number < last_crash)
        return DecisionLog(tuple(scribe.deviations))


def _atoms(moves: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    for move in moves:
        if isinstance(move[0], int):
            yield from [("step", move[0])] * move[1]
        else:
            yield move


class _Scribe:
    """Goes through a schedule and writes down what the policy would not do."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.deviations: list[Deviation] = []

    def write(self, atom: Sequence[Any], *, is_before_crash: bool) -> None:
        stage = self._stage
        match atom:
            case ["step", place]:
                if stage.world.nodes[place].call is None:
                    raise ValueError(f"{stage.client(place)} has no step left")
                self._turn_to(place, is_before_crash=is_before_crash)
                stage.advance()
            case ["kill"]:
                self._turn_to(WRITER_PLACE, is_before_crash=False)
                self._deviate(Kill(stage.next_step()))
            case ["fail", *rest]:
                place, reason = rest or (WRITER_PLACE, FAILED_SYNC.reason)
                self._turn_to(place, is_before_crash=is_before_crash)
                self._deviate(Fail(stage.next_step(), Refusal(reason)))
            case ["power", model, choice]:
                # All die, but only the writer's steps say what there was to lose.
                self._turn_to(WRITER_PLACE, is_before_crash=False)
                self._deviate(PowerCut(stage.next_step(), str(model), written(choice)))
            case _:
                raise ValueError(f"no move: {atom!r}")

    def _turn_to(self, place: int, *, is_before_crash: bool) -> None:
        """Switch where the policy goes on with somebody else.

        At the end of a client the turn is written down even so where a crash is to come, because that may be keyed by
        the same end.
        """
        stage = self._stage
        has_ended = stage.world.nodes[stage.current].call is None
        if place != stage.current and (stage.following != place or (has_ended and is_before_crash)):
            self.deviations.append(Switch(stage.next_step(), stage.client(place)))
        stage.current = place

    def _deviate(self, deviation: Deviation) -> None:
        self.deviations.append(deviation)
        assert self._stage.deviate(deviation), f"{deviation} does not apply where it was made"
