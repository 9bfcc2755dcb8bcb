"""A run as the moves of an explorer: what is written of a finding that is not shrunk, and how it is made again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.log import DecisionLog, Deviation, Fail, Kill, PowerCut, Switch, shortest
from tornproof.harness.counterexamples.replay_engine import ReplayEngine, choice_text
from tornproof.harness.counterexamples.run import Replayer, Signature
from tornproof.harness.search.crash_world import FAILED_SYNC, WRITER_INDEX
from tornproof.harness.simulator.filesystem.intercept import REPEATED, Call
from tornproof.harness.simulator.filesystem.step_bound import CALLS_MAX
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import C_4096, choice_of, model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.impl.storage.interface import StorageReason

Moves: TypeAlias = list[tuple[Any, ...]]
"""As `from_schedule` takes them."""
CRASHES = ("kill", "evict", "power")
PARTS = ("reader", "writer")
OF_SINGLE_STEPS = (Property.IMMUTABLE, Property.BARRIERS)
DIES, GOES_ON, EVICTED = "dies", "goes on", ", and its unwritten pages are evicted"
"""What a process does after a sync of it has failed, in the evidence of a power cut."""
THEN = "then"
"""The key of a sync that fails in the recovery after a kill, in the evidence of that; its sessions count from there."""


def moves_document(moves: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Return moves as JSON."""
    return [[*move[:2], json.loads(move[2].text())] if move[0] == "power" else list(move) for move in moves]


def moves_of(document: Iterable[Any]) -> Moves:
    """Return the moves; raises ValueError, TypeError for what are none."""
    moves: Moves = []
    for move in document:
        match move:
            case ["power", str(model), choice]:
                moves.append(("power", model_named(model).name, choice_of(json.dumps(choice))))
            case [int(), int()] if max(map(count_of, move)) <= CALLS_MAX:
                moves.append(tuple(move))
            case ["kill"] | ["fail"]:
                moves.append(tuple(move))
            case ["fail", index, str()] | ["step", index]:
                count_of(index)
                moves.append(tuple(move))
            case _:
                raise ValueError(f"not a move: {move!r}")
    return moves


def moves_before_cuts(evidence: Mapping[str, Any]) -> Moves:
    """Return the moves of a finding of power cuts up to the first one of its last session; raises ValueError."""
    origin, step = evidence.get("origin") or {}, count_of(evidence["step"])
    session = (WRITER_INDEX, step)
    if "cut_step" in origin:
        choice = choice_of(origin["choice"])
        return [(WRITER_INDEX, count_of(origin["cut_step"])), ("power", choice.model, choice), session]
    if "killed_step" in origin:
        then = {"step": step, "origin": origin.get(THEN)}
        return [(WRITER_INDEX, count_of(origin["killed_step"])), ("kill",), *moves_before_cuts(then)]
    if not origin:
        return [session]
    done = count_of(origin["failed_step"])
    moves: Moves = [(WRITER_INDEX, done), ("fail", origin["written"]) if "written" in origin else ("fail",)]
    if origin["session"] == 1:
        return [*moves, (WRITER_INDEX, count_of(step - done - 1))]
    if origin["process"].startswith(GOES_ON):
        moves.append(("finish",))
    return [*moves, ("evict",) if origin["process"].endswith(EVICTED) else ("kill",), session]


BOTH_SESSIONS = "both_sessions"
"""The key of the operations in the evidence of a run whose writer does in one session what the test case has in two."""


def watched(case: TestCase, violated: str) -> TestCase:
    """Return the test case with a reader, and without rules for single steps where none of these is violated.

    A wrong answer has to be shown by itself, without steps that break a rule before it.
    """
    case = case if case.readers else replace(case, readers=(Readers(),))
    return case if violated in OF_SINGLE_STEPS else replace(case, rules=NO_RULES)


def violation_in(case: TestCase, moves: Moves, violated: str) -> Violation | None:
    """Return how a run with these moves breaks a property; any property if `violated` is ""."""
    with remembered_decoding(), Replayer(case) as replayer:
        log = from_schedule(case, moves)
        parts = [Signature(violated, part) for part in PARTS] if violated else [None]
        for wanted in parts:
            for violation in replayer.play(log, wanted=wanted).violations:
                if wanted is None or wanted.fits(violation):
                    return violation
    return None


def replay_moves(case: TestCase, finding: Finding) -> Verdict:
    """Return INVALID if the moves of a finding break the same property again, VALID if they do not.

    Raises the errors in `UNUSABLE`.
    """
    moves = moves_of(finding.evidence.get("moves") or finding.evidence["schedule"])
    is_again = violation_in(watched(case, finding.property), moves, finding.property)
    return Verdict.VALID if is_again is None else Verdict.INVALID


def from_schedule(case: TestCase, moves: Iterable[Sequence[Any]]) -> DecisionLog:
    """Return the log of the run with these moves.

    A move is (index of a process, count of steps), ("step", index), ("fail", index, reason), or ("power", model,
    choice); or of the writer ("finish",), ("recover", count of the calls that repeat a recovery), ("fail",) of its next
    sync or ("fail", blocks that it wrote), ("kill",), and ("evict",), a kill after which the pages that are not on disk
    are dropped. Raises ValueError for impossible moves.
    """
    with Replayer(case) as replayer:
        singles = list(_single_moves(moves))
        recorder = _Recorder(replayer.engine(fails=any(move[0] == "fail" for move in singles)))
        last_crash = max((number for number, move in enumerate(singles) if move[0] in CRASHES), default=-1)
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
            case ["finish"]:
                while self._next_call() is not None:
                    self.write(("step", WRITER_INDEX), is_before_crash=True)
            case ["recover", count]:
                while count:
                    call = self._next_call()
                    count -= call is not None and call.kind in REPEATED
                    self.write(("step", WRITER_INDEX), is_before_crash=True)
            case ["evict"]:
                legal = legal_disks(engine.world.kernel, C_4096)
                self.write(("power", C_4096.name, legal.choice(next(iter(legal)))), is_before_crash=is_before_crash)
            case ["fail", list(written)]:
                self._switch_to(WRITER_INDEX, is_before_crash=is_before_crash)
                self._deviate(Fail(engine.next_step(), StorageReason(FAILED_SYNC.reason), shortest(written)))
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

    def _next_call(self) -> Call | None:
        return self._engine.world.nodes[WRITER_INDEX].call

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
