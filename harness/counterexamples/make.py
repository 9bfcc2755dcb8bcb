"""Makes the finding of a violation that an explorer saw: shrunk, explained, and with all that a replay needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.case_document import UnknownTargetError, case_document, with_memory
from tornproof.harness.counterexamples.explain import explain
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.moves import (
    BOTH_SESSIONS,
    Moves,
    from_schedule,
    moves_before_cuts,
    moves_document,
    moves_of,
    violation_in,
    watched,
)
from tornproof.harness.counterexamples.run import Replayer, Signature
from tornproof.harness.counterexamples.shrink import STEP_BUDGET, NotReproducedError, Shrunk, shrink
from tornproof.harness.counterexamples.smaller import Candidate
from tornproof.harness.counterexamples.words import title_of
from tornproof.harness.search.crash_world import READER_INDEX
from tornproof.harness.simulator.persistence.models import choice_of, model_named
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Violation


def finding_of(
    case: TestCase,
    run: DecisionLog | Iterable[Sequence[Any]],
    violation: Violation,
    *,
    phase: str,
    scenario: str | None = None,
    step_budget: int = STEP_BUDGET,
) -> Finding:
    """Return the finding of a violation in a run, which is a log or the moves of a schedule (see `from_schedule`).

    Raises NotReproducedError if the run does not break the same property in the same kind of process.
    """
    with remembered_decoding():
        case = replace(case, target=with_memory(case.target))
        log = run if isinstance(run, DecisionLog) else from_schedule(case, run)
        wanted = Signature.of(violation)
        shrunk = shrink(case, log, wanted, step_budget=step_budget)
        return _finding(shrunk, Candidate(case, log), wanted, phase, scenario)


def finding_or_moves(
    case: TestCase,
    moves: Iterable[Sequence[Any]],
    violation: Violation,
    *,
    phase: str,
    scenario: str | None = None,
) -> Finding:
    """Return the finding of a violation; if no log reproduces it, the moves as they were made."""
    moves = list(moves)
    try:
        return finding_of(case, moves, violation, phase=phase, scenario=scenario)
    except NotReproducedError as error:
        return as_seen(case, moves, violation, phase=phase, scenario=scenario, note=str(error))


def as_seen(
    case: TestCase,
    moves: Iterable[Sequence[Any]],
    violation: Violation,
    *,
    phase: str,
    scenario: str | None = None,
    note: str,
) -> Finding:
    """Return a finding that is not shrunk, with its test case, so that it can be replayed; `note` says why."""
    evidence = {"moves": moves_document(moves), "note": note}
    seen = Finding(property=violation.property, phase=phase, sentence=_sentence(violation), evidence=evidence)
    return with_case(case, seen, scenario=scenario)


def _sentence(violation: Violation) -> str:
    return title_of(violation.property, violation.process, violation.sentence)


def _finding(shrunk: Shrunk, before: Candidate, wanted: Signature, phase: str, scenario: str | None) -> Finding:
    # The document has only the row groups that this case used.
    target = with_memory(shrunk.candidate.case.target)
    candidate = replace(shrunk.candidate, case=replace(shrunk.candidate.case, target=target))
    with Replayer(candidate.case) as replayer:
        violation = replayer.play(candidate.log, wanted=wanted).violation(wanted)
    assert violation is not None, "the shrinker returns what breaks the property"
    return Finding(
        property=wanted.property,
        phase=phase,
        sentence=_sentence(violation),
        evidence={
            "scenario": scenario,
            "test_case": case_document(candidate.case),
            "log": candidate.log.document(),
            "part": wanted.part,
            "kind": wanted.kind,
            "explanation": explain(candidate, wanted),
            "shrunk": {
                "operations": [before.operation_count, candidate.operation_count],
                "decisions": [len(before.log.deviations), len(candidate.log.deviations)],
                "runs": shrunk.run_count,
                "is_smallest": shrunk.is_smallest,
            },
        },
    )


def as_log(case: TestCase, finding: Finding, *, scenario: str | None = None) -> Finding:
    """Return a finding of the schedules or power explorer as one with a decision log, shrunk.

    If no log reproduces it, because only the explorer's own judge sees it, the finding stays, with the test case.
    """
    case = _explored(case, finding)
    shown = watched(case, finding.property)
    # The same property is preferred; else any that this run breaks.
    for violated in (finding.property, ""):
        for moves in _moves(finding.evidence):
            try:
                violation = violation_in(shown, moves, violated)
                if violation is not None:
                    return finding_of(shown, moves, violation, phase=finding.phase, scenario=scenario)
            except (NotReproducedError, UnknownTargetError, ValueError):
                # Other moves may reproduce it.
                continue
    return with_case(case, finding, scenario=scenario)


def with_case(case: TestCase, finding: Finding, *, scenario: str | None = None) -> Finding:
    """Return a finding whose file holds all that its explorer needs to replay it."""
    case = _explored(case, finding)
    try:
        document = case_document(case)
    except (UnknownTargetError, TypeError):
        return finding
    return replace(finding, evidence={**finding.evidence, "scenario": scenario, "test_case": document})


def _explored(case: TestCase, finding: Finding) -> TestCase:
    """Return the test case that the finding is of: one in which a single session does what two do, or itself."""
    both = finding.evidence.get(BOTH_SESSIONS)
    return case if both is None else replace(case, first_session=tuple(both), second_session=())


def _moves(evidence: dict[str, Any]) -> Iterator[Moves]:
    if "schedule" in evidence:
        yield moves_of(evidence["schedule"])
    elif "cuts" in evidence:
        moves = moves_before_cuts(evidence) if "step" in evidence else []
        for number, cut in enumerate(evidence["cuts"]):
            choice = choice_of(cut["choice"])
            moves += [("recover", cut["step"])] * bool(number)
            moves.append(("power", choice.model, choice) if model_named(choice.model).everything_dies else ("kill",))
        # Without any cut the run is fault-free, and there is no move.
        yield moves
        # A reader may run before the recovery: once it is switched to, it runs to its end.
        yield [*moves, ("step", READER_INDEX)]
