"""A finding of what an explorer has seen: made small, explained, and with all that it takes to see it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.run import Player, Signature, from_schedule
from tornproof.harness.counterexamples.shrink import STEP_BUDGET, NotReproducedError, Shrunk, shrink
from tornproof.harness.counterexamples.situation_document import UnknownTargetError, situation_document, with_memory
from tornproof.harness.counterexamples.smaller import Case
from tornproof.harness.search.crash_world import READER_PLACE, WRITER_PLACE
from tornproof.harness.simulator.persistence.models import choice_of, model_named
from tornproof.harness.simulator.process.observer import Property, Violation
from tornproof.harness.simulator.process.situation import Readers, Situation
from tornproof.harness.simulator.process.world import NO_RULES

Moves = list[tuple[Any, ...]]
PARTS = ("reader", "writer")
OF_SINGLE_STEPS = (Property.IMMUTABLE, Property.BARRIERS)


def finding_of(
    situation: Situation,
    run: DecisionLog | Iterable[Sequence[Any]],
    violation: Violation,
    *,
    phase: str,
    scenario: str | None = None,
    step_budget: int = STEP_BUDGET,
) -> Finding:
    """Return the finding of a violation in a run, which is a log or the moves of a schedule (see `from_schedule`).

    Raises NotReproducedError where the run does not break the same property by the same part of the cast.
    """
    with remembered_decoding():
        situation = replace(situation, target=with_memory(situation.target))
        log = run if isinstance(run, DecisionLog) else from_schedule(situation, run)
        wanted = Signature.of(violation)
        shrunk = shrink(situation, log, wanted, step_budget=step_budget)
        return _finding(shrunk, Case(situation, log), wanted, phase, scenario)


def finding_or_moves(
    situation: Situation,
    moves: Iterable[Sequence[Any]],
    violation: Violation,
    *,
    phase: str,
    scenario: str | None = None,
) -> Finding:
    """Return the finding of a violation, or where no log shows the same once more, what was seen as it was seen."""
    moves = list(moves)
    try:
        return finding_of(situation, moves, violation, phase=phase, scenario=scenario)
    except NotReproducedError as error:
        return as_seen(moves, violation, phase=phase, note=str(error))


def as_seen(moves: Iterable[Sequence[Any]], violation: Violation, *, phase: str, note: str) -> Finding:
    """Return a finding that is not made small, and why."""
    evidence = {"moves": [list(map(str, move)) for move in moves], "note": note}
    return Finding(property=violation.property, phase=phase, sentence=_sentence(violation), evidence=evidence)


def _sentence(violation: Violation) -> str:
    return f"{violation.client}: {violation.property}, but: {violation.sentence}"


def _finding(shrunk: Shrunk, before: Case, wanted: Signature, phase: str, scenario: str | None) -> Finding:
    # What is written down is what this one case used.
    target = with_memory(shrunk.case.situation.target)
    case = replace(shrunk.case, situation=replace(shrunk.case.situation, target=target))
    with Player(case.situation) as player:
        violation = player.play(case.log, wanted=wanted).violation(wanted)
    assert violation is not None, "the shrinker returns what breaks the property"
    return Finding(
        property=wanted.property,
        phase=phase,
        sentence=_sentence(violation),
        evidence={
            "scenario": scenario,
            "situation": situation_document(case.situation),
            "log": case.log.document(),
            "part": wanted.part,
            "kind": wanted.kind,
            "explanation": explain(case, wanted),
            "shrunk": {
                "operations": [before.operation_count, case.operation_count],
                "decisions": [len(before.log.deviations), len(case.log.deviations)],
                "runs": shrunk.run_count,
                "is_smallest": shrunk.is_smallest,
            },
        },
    )


def as_log(situation: Situation, finding: Finding, *, scenario: str | None = None) -> Finding:
    """Return a finding of the schedules or power explorer as one of a decision log, made small.

    Where no log shows it, because only the explorer's own judge sees it, the finding stays, with the situation.
    """
    watched = situation if situation.readers else replace(situation, readers=(Readers(),))
    if finding.property not in OF_SINGLE_STEPS:
        # What a wrong answer takes is told without the steps that led to it being against a rule.
        watched = replace(watched, rules=NO_RULES)
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
    return replace(finding, evidence={**finding.evidence, "scenario": scenario, "situation": document})


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
