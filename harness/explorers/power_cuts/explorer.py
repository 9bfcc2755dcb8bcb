"""The power explorer: a crash after every step, recovery included, under every persistence model.

Under each model all legal disks of each crash point are tried, or a sample, and then the bound says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.controls import controls_of_run
from tornproof.harness.explorers.power_cuts.exploration import PHASE, Settings, Tally, finding_of
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.persistence.models import C_8, MODELS, N_512, A, Model, is_contained
from tornproof.harness.simulator.process.case import TestCase

COUNTED_MAX = 1 << 53
IN_ORDER = (A, N_512, *(model for model in MODELS if model not in (A, N_512, C_8)), C_8)
"""A model comes after the one that contains it, and models that can be explored completely before the sampled one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """The result of one model; the first session makes `call_count` calls and has `point_count` crash points."""

    model: Model
    call_count: int
    point_count: int
    distinct_count: int
    counts: dict[str, int]
    reached: Counter[str]
    bound: str
    is_complete: bool
    has_every_disk: bool
    """Whether one power cut, and one in the recovery, left no other disks; with `is_complete`, no second cut did."""
    is_cut: bool
    findings: tuple[Finding, ...]

    @property
    def has_finding(self) -> bool:
        """Whether it has one at least."""
        return bool(self.findings)


class Power:
    """Cuts the power of a test case's only writer; its caches serve all models. Close it after use."""

    def __init__(self, case: TestCase) -> None:
        """Explore nothing yet; raises NotExplorableError."""
        self._traces = Traces(case)
        self._judge = PowerJudge(case)

    def close(self) -> None:
        """End all greenlets."""
        self._judge.close()

    def explore(
        self,
        model: Model,
        settings: Settings,
        has_time: HasTime = always,
        on_point: OnProgress = lambda done, total: None,
    ) -> ModelResult:
        """Crash at every step of the first session under a model; raises NotExplorableError."""
        trace, target = self._traces.of(model), self._traces.case.target.name
        every = settings.every(len(trace.points))
        exploration = explore_model(
            self._judge,
            self._traces,
            model,
            settings,
            has_time=has_time,
            on_point=lambda done: on_point(done, len(trace.points[::every])),
        )
        tally = exploration.tally
        has_every_disk = _has_every_disk(tally, every)
        fault_free = (_fault_free(target, *violation[::2]) for violation in trace.violations)
        return ModelResult(
            model=model,
            call_count=trace.step_count,
            point_count=len(trace.points),
            distinct_count=len(tally.distinct),
            counts={f"{model}: {name}": count for name, count in _counts(tally).items()},
            reached=tally.reached,
            bound=_bound(model, tally, every),
            is_complete=has_every_disk and not tally.not_cut_again,
            has_every_disk=has_every_disk,
            is_cut=tally.is_out_of_time,
            findings=(*fault_free, *(finding_of(each, target) for each in exploration.found.values())),
        )


def explore_power(
    case: TestCase,
    *,
    models: Sequence[Model] = IN_ORDER,
    settings: Settings | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    points: Sequence[str] | None = None,
) -> Phase:
    """Cut the power of a test case's only writer at every step of its first session, and of recoveries after it.

    `points` are the coverage goals, by default those of a table's workload. Raises NotExplorableError.
    """
    power = Power(case)
    try:
        results = [power.explore(model, settings or Settings(), has_time, on_progress) for model in models]
    finally:
        power.close()
    goals = power_points.all_coverage_goals(models) if points is None else points
    return power_phase(case, results, controls_of_run(tuple(models)), goals)


def power_phase(
    case: TestCase, results: Sequence[ModelResult], failed: Sequence[str] | None, coverage_goals: Sequence[str] = ()
) -> Phase:
    """Combine the results of all models; `failed` are the controls that failed, None where none was tried."""
    first = results[0]
    reached: Counter[str] = Counter()
    counts: dict[str, int] = {"steps": first.call_count, "crash points": first.point_count}
    for result in results:
        reached.update(result.reached)
        counts |= result.counts
    # Each model reports the violations of the fault-free run.
    findings = list({finding.sentence: finding for result in results for finding in result.findings}.values())
    is_cut = any(result.is_cut for result in results)
    phase = Phase(
        name=PHASE,
        explored=sum(result.distinct_count for result in results),
        complete=not is_cut and all(result.is_complete for result in results),
        bound=f"{len(case.first_session)} commits with {first.call_count} calls, a crash at each of "
        f"{first.point_count} points from which it can leave different disks; "
        f"{'; '.join([*(result.bound for result in results), *_contained(results)])}; {STEP_BOUND}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts=counts,
        reached=dict(reached),
        findings=tuple(findings),
    )
    not_begun = [str(result.model) for result in results if not result.distinct_count]
    phase = phase.doubted(f"nothing was explored under {', '.join(not_begun)}" if not_begun else "")
    return phase.with_controls(failed).with_coverage_goals(coverage_goals)


def covers(result: ModelResult, model: Model) -> bool:
    """Return whether a model need not be explored any more: another one left all its disks, and all were right."""
    return is_contained(model, result.model) and result.has_every_disk and not result.findings


def _contained(results: Sequence[ModelResult]) -> Iterator[str]:
    """Yield which models were not explored because others cover them."""
    explored = [result.model for result in results]
    for result in results:
        others = [str(model) for model in MODELS if model not in explored and covers(result, model)]
        if others:
            yield f"{', '.join(others)} leave no other disks than {result.model}"


def _counts(tally: Tally) -> dict[str, int]:
    counts = {
        "crash points": tally.points,
        "legal disks": tally.legal,
        "disks tried": tally.tried,
        "distinct disks": len(tally.distinct) - tally.nested_distinct,
        "disks of crashes in recovery tried": tally.nested_tried,
        "further distinct disks of crashes in recovery": tally.nested_distinct,
        "disks with commits on top": tally.committed_on,
        "violations": tally.violations,
    }
    return {name: count for name, count in counts.items() if count < COUNTED_MAX}


def _has_every_disk(tally: Tally, every: int) -> bool:
    return tally.is_complete and not tally.is_out_of_time and every == 1


def _bound(model: Model, tally: Tally, every: int) -> str:
    if _has_every_disk(tally, every):
        disks = f"{len(tally.distinct)} distinct disks"
        if not tally.not_cut_again:
            return f"{model} complete: {disks}"
        again = f"{tally.cut_again} of {tally.cut_again + tally.not_cut_again}"
        return f"{model} complete for one cut: {disks}; the power is cut again after {again} that differ for it"
    legal = str(tally.legal) if tally.legal < COUNTED_MAX else f"about 2^{tally.legal.bit_length()}"
    first = f" at the first {tally.points} points" if tally.is_out_of_time else ""
    apart = "" if every == 1 else f", one in {every} of them" if first else f" at one in {every} of the points"
    at = first + apart
    return f"{model} a sample of {tally.tried} of {legal} disks{at}, {len(tally.distinct)} distinct"


def _fault_free(target: str, violated: str, sentence: str) -> Finding:
    return Finding(
        property=violated,
        phase=PHASE,
        sentence=f"Without any fault: {sentence}.",
        evidence={"target": target, "cuts": []},
    )
