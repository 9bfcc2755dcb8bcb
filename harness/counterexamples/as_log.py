"""Findings that explorers describe in their own terms, as decision logs where these show the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.make import finding_of
from tornproof.harness.counterexamples.run import Player, Signature, from_schedule
from tornproof.harness.counterexamples.shrink import NotReproducedError
from tornproof.harness.counterexamples.situation_document import situation_document
from tornproof.harness.counterexamples.target_document import UnknownTargetError
from tornproof.harness.search.crash_world import READER_PLACE, WRITER_PLACE
from tornproof.harness.simulator.persistence.models import choice_of, model_named
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.situation import Readers, Situation
from tornproof.harness.simulator.process.world import NO_RULES

Moves = list[tuple[Any, ...]]
PARTS = ("reader", "writer")
OF_SINGLE_STEPS = (Property.IMMUTABLE, Property.BARRIERS)


def as_log(situation: Situation, finding: Finding, *, scenario: str | None = None) -> Finding:
    """Return a finding of the schedules or power explorer as one of a decision log, made small.

    Where no log shows it, because only the explorer's own judge sees it, the finding stays, with the situation.
    """
    watched = situation if situation.readers else dataclasses.replace(situation, readers=(Readers(),))
    if finding.property not in OF_SINGLE_STEPS:
        # What a wrong answer takes is told without the steps that led to it being against a rule.
        watched = dataclasses.replace(watched, rules=NO_RULES)
    # The same property is best, however it is told.
    for violated in (finding.property, ""):
        for moves in _moves(watched, finding.evidence):
            try:
                violation = _violation(watched, moves, violated)
                if violation is not None:
                    return finding_of(watched, moves, violation, phase=finding.phase, scenario=scenario)
            except (NotReproducedError, UnknownTargetError, ValueError):
                # Another way of telling it may do.
                continue
    return with_situation(situation, finding, scenario=scenario)


def with_situation(situation: Situation, finding: Finding, *, scenario: str | None = None) -> Finding:
    """Return a finding whose file holds all that its explorer needs to see it again."""
    try:
        document = situation_document(situation)
    except (UnknownTargetError, TypeError):
        return finding
    return dataclasses.replace(finding, evidence={**finding.evidence, "scenario": scenario, "situation": document})


def _moves(situation: Situation, evidence: dict[str, Any]) -> Iterator[Moves]:
    if "schedule" in evidence:
        yield [tuple(turn) for turn in evidence["schedule"]]
    elif "cuts" in evidence and not evidence.get("origin"):
        moves: Moves = []
        for number, cut in enumerate(evidence["cuts"]):
            choice = choice_of(cut["choice"])
            step = cut["step"] if number else evidence["step"]
            model = model_named(choice.model)
            moves += [(WRITER_PLACE, step), ("power", choice.model, choice) if model.everything_dies else ("kill",)]
        # Without any cut nobody is disturbed, and there is no move.
        yield moves
        # A reader may come before the recovery: once it has its turn, it goes on to its end.
        yield [*moves, ("step", READER_PLACE)]


def _violation(situation: Situation, moves: Moves, violated: str) -> Violation | None:
    """Return how a run by these moves breaks a property, or any where that is ""."""
    with remembered_decoding(), Player(situation) as player:
        log = from_schedule(situation, moves)
        parts = [Signature(violated, part) for part in PARTS] if violated else [None]
        for wanted in parts:
            for violation in player.play(log, wanted=wanted).violations:
                if wanted is None or wanted.fits(violation):
                    return violation
    return None
