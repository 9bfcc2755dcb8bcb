"""A run as the moves of an explorer: what is written of a finding that is not shrunk, and how it is made again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.run import Replayer, Signature, from_schedule
from tornproof.harness.simulator.filesystem.step_bound import CALLS_MAX
from tornproof.harness.simulator.persistence.models import choice_of, model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.world import NO_RULES

Moves: TypeAlias = list[tuple[Any, ...]]
"""As `from_schedule` takes them."""
PARTS = ("reader", "writer")
OF_SINGLE_STEPS = (Property.IMMUTABLE, Property.BARRIERS)


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
            case [int(), int(count)] if count <= CALLS_MAX:
                moves.append(tuple(move))
            case ["kill"] | ["fail"] | ["fail", int(), str()] | ["step", int()]:
                moves.append(tuple(move))
            case _:
                raise ValueError(f"not a move: {move!r}")
    return moves


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


def holds_moves(finding: Finding) -> bool:
    """Say whether a finding is one of moves; those of several writers, which no log has, and of campaigns are not."""
    evidence = finding.evidence
    return "test_case" in evidence and bool({"moves", "schedule"} & evidence.keys()) and "writers" not in evidence


def replay_moves(finding: Finding, target: Target | None = None, operations: Sequence[Any] = ()) -> Verdict:
    """Return INVALID if the moves of a finding break the same property again, VALID if they do not.

    A target and operations that the finding cannot hold are handed in. Raises the errors in `UNUSABLE`.
    """
    evidence = finding.evidence
    case = watched(case_of(evidence["test_case"], target, operations), finding.property)
    moves = moves_of(evidence.get("moves") or evidence["schedule"])
    return Verdict.VALID if violation_in(case, moves, finding.property) is None else Verdict.INVALID
