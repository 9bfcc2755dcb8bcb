"""The schedule × crash explorer: a Phase over one situation, model by model, with its controls and its bound."""

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
MUST_REACH = (IN_COMMIT, KEPT)
MUST_REACH_LIVING = (*MUST_REACH, SEEN_EARLY, READER_AT_WORK, LIVED_THROUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """What was gone through under one model; `found` has one violation of each kind, with the moves to it."""

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
    """Explore the crashes of a writer beside one reader that changes nothing.

    Complete for a model when every crash point, every legal disk and every schedule of the reader was gone through; of
    more than `states_max` states of the reader under a model, the crashes are a sample. Raises NotExplorableError.
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
    """Return a violation as a finding, made small."""
    violation, moves = found
    return finding_or_moves(case, moves, violation, phase=PHASE, scenario=scenario)


def unshrunk(found: tuple[Violation, Moves]) -> Finding:
    """Return a violation as it was seen, where there is no time to make it small."""
    violation, moves = found
    return as_seen(moves, violation, phase=PHASE, note="the run was cut before it was made small")


def _search(case: TestCase, model: Model, goes_on: Callable[[int], bool]) -> tuple[ReductionCounts, bool]:
    """Return what a search came to, and whether not every legal disk of a crash point was tried."""
    sampled = []

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        legal = legal_disks(kernel, model)
        if not legal.is_complete:
            sampled.append(legal)
        for picked in legal:
            yield picked.disk.kernel(), legal.choice(picked)

    sessions = Sessions.of(case, fails=model.fails_syncs)
    try:
        return ProductReduction(sessions, model.name, disks, goes_on).run(), bool(sampled)
    finally:
        sessions.close()


def product_phase(results: Sequence[ModelResult], failed: Sequence[str] | None, findings: Sequence[Finding]) -> Phase:
    """Put together what each model has shown; `failed` are the controls that failed, None where none was tried."""
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for result in results:
        counts.update(result.counts)
        reached.update(result.reached)
    complete = [result.model for result in results if result.is_complete]
    sampled = [result.model for result in results if not result.is_complete]
    living = any(not model_named(result.model).everything_dies for result in results)
    missing = [name for name in (MUST_REACH_LIVING if living else MUST_REACH) if not reached[name]]
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
    return phase.with_controls(failed).doubted(
        f"never reached: {', '.join(missing)}" if missing and not sampled and not is_found else ""
    )


def failed_controls() -> list[str]:
    """Explore toys under A, and return in words which broken one was not convicted, and if the sound one was."""
    failures = []
    for toy, is_broken in ((Toy(), False), (HeaderFirst(), True)):
        case = control_case(toy)
        counts, _ = _search(case, A, lambda states: True)
        if bool(counts.found) is not is_broken:
            failures.append(f"the toy {toy.name!r} was {'not ' if is_broken else ''}convicted")
    return failures


def control_case(toy: Toy) -> TestCase:
    """Return two commits of a toy, a third after a crash, and a reader."""
    return TestCase(
        target=toy,
        path="toy",
        operations=(b"one", b"t", b"three"),
        first_session=(0, 1),
        second_session=(2,),
        readers=(Readers(read_count=2),),
    )
