"""A target of the user's own in the simulator: readers beside its writer, power cuts, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tornproof.harness.common.effort import Bounds
from tornproof.harness.common.system import OWN_PATH, Target
from tornproof.harness.common.verdict import Finding, HasTime, Phase, Verdict, always
from tornproof.harness.counterexamples.replay import UNUSABLE, is_simulated, replay_log
from tornproof.harness.counterexamples.words import cause_lines
from tornproof.harness.explorers.power_cuts.points import OLD_STATE
from tornproof.harness.explorers.schedules.points import AFTER_COMMIT, BEFORE_COMMIT
from tornproof.harness.explorers.simulated_phases import replay_case, simulate
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.systems.scenario import Explorer
from tornproof.harness.systems.simulation import Setting

COVERAGE_GOALS = {
    Explorer.POWER: (OLD_STATE,),
    Explorer.SCHEDULES: (BEFORE_COMMIT, AFTER_COMMIT),
    # Those of the product are part of it.
    Explorer.PRODUCT: (),
}


def cases_of(
    explorer: Explorer, target: Target, operations: Sequence[Any], readers: Sequence[Readers]
) -> dict[str, TestCase]:
    """Return test cases by name, whose writer commits all operations, and the last one again after a crash.

    Readers of all styles run beside each other, but in the product, which has one reader.
    """
    count = len(operations)
    alone = TestCase(
        target=target,
        path=OWN_PATH,
        operations=tuple(operations),
        first_session=tuple(range(count)),
        second_session=(count - 1,),
        goes_on=True,
    )
    if explorer is not Explorer.PRODUCT:
        return {target.name: replace(alone, readers=tuple(readers) if explorer is Explorer.SCHEDULES else ())}
    return {f"{target.name}, {each.style} reader": replace(alone, readers=(each,)) for each in readers}


def explore_simulated(
    explorer: Explorer,
    cases: Mapping[str, TestCase],
    *,
    models: Sequence[str] = (),
    bounds: Bounds,
    seed: int = 0,
    has_time: HasTime = always,
) -> Phase:
    """Run one explorer of the simulator on test cases, under these models of persistence or all of its own."""
    settings = [
        Setting(
            name=name,
            case=case,
            explorers=frozenset({explorer}),
            models=tuple(models),
            coverage_goals=COVERAGE_GOALS[explorer],
        )
        for name, case in cases.items()
    ]
    phase = simulate(explorer, settings, bounds=bounds, seed=seed, has_time=has_time)
    # A file of a finding says whose it is, also where it holds no test case.
    target = {"target": next(iter(cases.values())).target.name}
    findings = (replace(finding, evidence=target | finding.evidence) for finding in phase.findings)
    return replace(phase, findings=tuple(findings))


def replay_simulated(target: Target, operations: Sequence[Any], finding: Finding) -> Verdict:
    """Return INVALID when the finding's run violates the same property again, VALID when it violates none.

    UNKNOWN when it cannot be replayed: the target takes other steps now, or has other operations.
    """
    try:
        if is_simulated(finding.evidence):
            return replay_log(finding, target, operations).verdict
        return replay_case(finding, target, operations)
    except UNUSABLE:
        return Verdict.UNKNOWN


def simulated_execution(finding: Finding) -> list[str]:
    """Return the run of a finding, line by line, or its cause where only its explorer knows one."""
    explanation: Mapping[str, Any] = finding.evidence.get("explanation", {})
    return list(explanation.get("narrative", ())) or cause_lines(finding.evidence)
