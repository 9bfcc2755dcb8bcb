"""The schedule × crash explorer: one test case under each crash model, with its controls and its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.counterexamples.make import as_seen, finding_or_moves
from tornproof.harness.counterexamples.run import Signature
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.search.product_reduction import (
    IN_COMMIT,
    KEPT,
    LIVED_THROUGH,
    READER_AT_WORK,
    SEEN_EARLY,
    Moves,
    ProductReduction,
    ReductionCounts,
)
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import A, Model, model_named
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.systems.toy import HeaderFirst, Toy

PHASE = "product"
PRODUCT_MODELS = ("A", "D", "B", "C-512", "Cdir")
COVERAGE_GOALS = (IN_COMMIT, KEPT)
COVERAGE_GOALS_OF_KILLS = (*COVERAGE_GOALS, SEEN_EARLY, READER_AT_WORK, LIVED_THROUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """What was explored under one model; `found` has one violation of each kind, with the moves that lead to it."""

    model: str
    counts: dict[str, int]
    reached: Counter[str]
    is_complete: bool
    is_cut: bool
    found: dict[Signature, tuple[Violation, Moves]]


def explore_product(
    case: TestCase,
    models: Sequence[str] = PRODUCT_MODELS,
    *,
    states_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    scenario: str | None = None,
) -> Phase:
    """Explore the crashes of a writer concurrent with one reader that changes nothing.

    A model is complete when every crash point, every legal disk and every schedule of the reader was explored. At most
    `states_max` reader states are explored under each model; beyond that, the crashes are a sample. Raises
    NotExplorableError.
    """
    results = [explore_under(case, model, states_max, has_time, on_progress) for model in models]
    found = {signature: each for result in results for signature, each in result.found.items()}
    findings = [finding_of_product(case, each, scenario) for each in found.values()]
    return product_phase(results, failed_controls(), findings)


def explore_under(
    case: TestCase,
    name: str,
    states_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> ModelResult:
    """Explore under one model; raises NotExplorableError."""
    is_cut = False

    def goes_on(states: int) -> bool:
        nonlocal is_cut
        on_progress(states, states_max)
        is_cut = is_cut or not has_time()
        return not is_cut and (states_max is None or states < states_max)

    counts, is_sampled = _search(case, model_named(name), goes_on)
    found: dict[Signature, tuple[Violation, Moves]] = {}
    for violation, moves in counts.found:
        found.setdefault(Signature.of(violation), (violation, moves))
    return ModelResult(
        model=name,
        counts={
            "schedule x crash states": counts.states,
            "crash points": counts.crash_points,
            "distinct worlds after a crash": counts.traces,
        },
        reached=counts.reached,
        is_complete=counts.is_complete and not is_sampled,
        is_cut=is_cut,
        found=found,
    )


def finding_of_product(case: TestCase, found: tuple[Violation, Moves], scenario: str | None) -> Finding:
    """Return the shrunk finding of a violation."""
    violation, moves = found
    return finding_or_moves(case, moves, violation, phase=PHASE, scenario=scenario)


def unshrunk(found: tuple[Violation, Moves]) -> Finding:
    """Return the finding of a violation that there was no time to shrink."""
    violation, moves = found
    return as_seen(moves, violation, phase=PHASE, note="the run ended before it was shrunk")


def _search(case: TestCase, model: Model, goes_on: Callable[[int], bool]) -> tuple[ReductionCounts, bool]:
    """Return the counts of a search, and whether only some legal disks of a crash point were tried."""
    is_sampled = False

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        nonlocal is_sampled
        legal = legal_disks(kernel, model)
        is_sampled = is_sampled or not legal.is_complete
        for picked in legal:
            yield picked.disk.kernel(), legal.choice(picked)

    sessions = Sessions.of(case, fails=model.fails_syncs)
    try:
        return ProductReduction(sessions, model.name, disks, goes_on).run(), is_sampled
    finally:
        sessions.close()


def product_phase(results: Sequence[ModelResult], failed: Sequence[str] | None, findings: Sequence[Finding]) -> Phase:
    """Combine the results of all models; `failed` are the controls that failed, None where none was tried."""
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
        reached.update(result.reached)
    complete = [result.model for result in results if result.is_complete]
    sampled = [result.model for result in results if not result.is_complete]
    has_kills = any(not model_named(result.model).everything_dies for result in results)
    goals = COVERAGE_GOALS_OF_KILLS if has_kills else COVERAGE_GOALS
    is_found = any(result.found for result in results)
    phase = Phase(
        name=PHASE,
        explored=counts["schedule x crash states"],
        complete=bool(results) and not sampled,
        bound="every crash point x every schedule of 1 reader (a range within a page is one step), complete under "
        + (", ".join(complete) or "no model")
        + (f"; a sample of the crashes under {', '.join(sampled)}" if sampled else ""),
        verdict=Verdict.INVALID if is_found else Verdict.VALID,
        counts=dict(counts),
        reached=dict(reached),
        findings=tuple(findings),
    )
    return phase.with_controls(failed).with_coverage_goals(goals)


def failed_controls() -> list[str]:
    """Explore toys under A; describe the broken one if it was not detected, and the sound one if it was rejected."""
    failures = []
    for toy, is_broken in ((Toy(), False), (HeaderFirst(), True)):
        case = control_case(toy)
        counts, _ = _search(case, A, lambda states: True)
        if bool(counts.found) is not is_broken:
            failed = (
                f"broken toy {toy.name!r} was not detected" if is_broken else f"sound toy {toy.name!r} was rejected"
            )
            failures.append(f"the {failed}")
    return failures


def control_case(toy: Toy) -> TestCase:
    """Return a test case of two commits of a toy, a third after a crash, and a reader."""
    return TestCase(
        target=toy,
        path="toy",
        operations=(b"one", b"t", b"three"),
        first_session=(0, 1),
        second_session=(2,),
        readers=(Readers(read_count=2),),
    )
