"""A finding of what an explorer has seen: made small, explained, and with all that it takes to see it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.run import Player, Signature, from_schedule
from tornproof.harness.counterexamples.shrink import STEP_BUDGET, NotReproducedError, Shrunk, shrink
from tornproof.harness.counterexamples.situation_document import situation_document
from tornproof.harness.counterexamples.smaller import Case
from tornproof.harness.counterexamples.target_document import with_memory
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.situation import Situation


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
