"""The four phases of the simulator: schedules, memory, power cuts, and schedule × crash, each over its situations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from harness.disk.legal_files import Limits
from harness.disk.persistence import MODELS
from harness.explore import power_points, schedule_points
from harness.explore.memory import explore_memory
from harness.explore.memory_variants import CASES, MemoryCase
from harness.explore.power import IN_ORDER, explore_power
from harness.explore.power_exploration import Settings
from harness.explore.schedule_crash import PRODUCT_MODELS, explore_product
from harness.explore.schedules import explore_schedules
from harness.explore.situation import NotExplorableError, Situation
from harness.explore.stateful_memo import remembered_decoding
from harness.findings.as_log import as_log, with_situation
from harness.scenario import Explorer
from harness.simulation import Setting, explore_each, must_have_reached, signature_of
from harness.targets.table import TableTarget
from harness.verdict import Clock, Finding, OnProgress, Phase, nothing_explored, without_digits


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long a phase may take by which clock, where chance starts, and whom to tell how far it is.

    `known` are the kinds of findings that it has already.
    """

    clock: Clock
    seconds: float
    seed: int = 0
    on_progress: OnProgress = lambda done, total: None
    known: set[Any] = dataclasses.field(default_factory=set)


def simulate(explorer: Explorer, settings: Sequence[Setting], budget: Budget) -> Phase:
    """Run one explorer over all situations that name it."""
    chosen = [setting for setting in settings if explorer in setting.explorers]
    if not chosen:
        return nothing_explored(explorer, "none of the situations is one for this explorer")
    run = _RUNS[explorer]

    def one(setting: Setting, seconds: float) -> Phase:
        try:
            return run(setting, dataclasses.replace(budget, seconds=seconds))
        except NotExplorableError as error:
            return nothing_explored(explorer, str(error))

    with remembered_decoding():
        phase = explore_each(explorer, chosen, one, clock=budget.clock, seconds=budget.seconds)
    # A few situations by themselves need not come to every point.
    return must_have_reached(phase, _POINTS[explorer]) if len(chosen) > FEW_SITUATIONS else phase


FEW_SITUATIONS = 3
COMMITS_READ_BESIDE = 2
"""What the memory explorer reads beside: with one commit a missing final look cannot be told."""
SECONDS_OF_A_SAMPLE, SAMPLE_SCALE_MAX = 10.0, 64
"""A longer run draws larger samples of what is too much to try."""
FINDINGS_MAX = 6
"""Of one situation that are made small; there is one of each kind."""


def _schedules(setting: Setting, budget: Budget) -> Phase:
    phase = explore_schedules(
        setting.situation,
        clock=budget.clock,
        seconds=budget.seconds,
        seed=budget.seed,
        on_progress=budget.on_progress,
    )
    return _as_logs(phase, setting, budget)


def explore_words(
    situation: Situation,
    *,
    clock: Clock,
    seconds: float,
    cases: Sequence[MemoryCase] = CASES,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Explore a mapped reader beside the last commits of a situation's first life."""
    assert isinstance(situation.target, TableTarget), "only tables have a _txn"
    operations = [situation.operations[number] for number in situation.first_life]
    return explore_memory(
        situation.target,
        operations,
        start=situation.start,
        path=situation.path,
        clock=clock,
        seconds=seconds,
        # Earlier commits make room: what a later one stores is then only what it changes.
        settled_count=max(0, len(operations) - COMMITS_READ_BESIDE),
        cases=cases,
        on_progress=on_progress,
    )


def _memory(setting: Setting, budget: Budget) -> Phase:
    situation = setting.situation
    phase = explore_words(situation, clock=budget.clock, seconds=budget.seconds, on_progress=budget.on_progress)
    findings = (with_situation(situation, finding, scenario=setting.name) for finding in phase.findings)
    return dataclasses.replace(phase, findings=tuple(findings))


def _power(setting: Setting, budget: Budget) -> Phase:
    scale = min(max(1, int(budget.seconds / SECONDS_OF_A_SAMPLE)), SAMPLE_SCALE_MAX)
    limits = Limits(file_count=256 * scale, disk_count=1024 * scale, seed=budget.seed)
    phase = explore_power(
        setting.situation,
        settings=Settings(limits=limits),
        clock=budget.clock,
        seconds=budget.seconds,
        models=[model for model in IN_ORDER if not setting.models or model.name in setting.models],
        on_progress=budget.on_progress,
        points=(),
    )
    return _as_logs(phase, setting, budget)


def _product(setting: Setting, budget: Budget) -> Phase:
    return explore_product(
        setting.situation,
        setting.models or PRODUCT_MODELS,
        clock=budget.clock,
        seconds=budget.seconds,
        on_progress=budget.on_progress,
        scenario=setting.name,
        known=budget.known,
    )


def _as_logs(phase: Phase, setting: Setting, budget: Budget) -> Phase:
    """Return a phase whose findings are small decision logs, one of each kind that no earlier situation has shown."""
    new: list[Finding] = []
    for finding in phase.findings:
        # What happened stands behind the last colon, when and where before it.
        kind = finding.property, without_digits(finding.sentence.rpartition(": ")[2])
        if kind not in budget.known and len(new) < FINDINGS_MAX:
            budget.known.add(kind)
            new.append(finding)
    findings: dict[tuple[str, str], Finding] = {}
    for finding in new:
        log = as_log(setting.situation, finding, scenario=setting.name)
        findings.setdefault(signature_of(log), log)
    return dataclasses.replace(phase, findings=tuple(findings.values()))


_RUNS: dict[Explorer, Callable[[Setting, Budget], Phase]] = {
    Explorer.SCHEDULES: _schedules,
    Explorer.MEMORY: _memory,
    Explorer.POWER: _power,
    Explorer.PRODUCT: _product,
}
_POINTS: dict[Explorer, tuple[str, ...]] = {
    Explorer.SCHEDULES: schedule_points.POINTS,
    Explorer.MEMORY: (),
    Explorer.POWER: power_points.must_reach_all(MODELS),
    Explorer.PRODUCT: (),
}
