"""The four phases of the simulator: schedules, memory, power cuts, and schedule × crash, each over its test cases."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from tornproof.harness.common.effort import DEFAULT, EFFORTS, Bounds
from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.signature import FindingSignature, signature_of
from tornproof.harness.common.system import TARGET_ERRORS, Target
from tornproof.harness.common.verdict import (
    Finding,
    HasTime,
    OnProgress,
    Phase,
    Verdict,
    always,
    nothing_explored,
    without_digits,
)
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.make import as_log, as_seen, finding_or_moves, with_case
from tornproof.harness.counterexamples.moves import replay_moves
from tornproof.harness.explorers.memory.explorer import explore_memory, replay_memory
from tornproof.harness.explorers.memory.variants import CASES, MemoryCase
from tornproof.harness.explorers.power_cuts import controls as power_controls
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.explorer import IN_ORDER, ModelResult, Power, covers, power_phase
from tornproof.harness.explorers.power_cuts.replay import replay_power
from tornproof.harness.explorers.schedules import controls as schedule_controls
from tornproof.harness.explorers.schedules import crash as schedule_crash
from tornproof.harness.explorers.schedules import points as schedule_points
from tornproof.harness.explorers.schedules import writers as schedule_writers
from tornproof.harness.explorers.schedules.explorer import explore_schedules
from tornproof.harness.parallel.tasks import Exploration, explore_here
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.persistence.legal_files import WIDE_LIMITS, Limits
from tornproof.harness.simulator.persistence.models import C_8, MODELS, Model, model_named
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.systems.scenario import Explorer, Style
from tornproof.harness.systems.simulation import Setting, merged
from tornproof.harness.systems.table import TableTarget

FEW_TEST_CASES = 4
ONE_WRITER, SEVERAL_WRITERS = "one writer", "several writers"
COMMITS_READ_BESIDE = 2
"""How many commits the memory explorer's reader runs with: one commit cannot show a missing check of the version."""
FINDINGS_MAX = 6
"""How many findings of one test case are shrunk, one of each kind; the others are kept as they were seen."""
TORN_DISKS_FEW = 64
"""All disks with sectors torn into words are tried at a crash point that has no more."""

NOT_SHRUNK = f"not shrunk, because at most {FINDINGS_MAX} of a test case are"
CUT = "the run ended before it was shrunk"
NOT_MADE_SMALL = "as it was seen, because making it small failed, which is a defect of tornproof"

Kind: TypeAlias = tuple[Any, ...]
"""What two violations of one kind have in common, before they are shrunk."""


class SimulatedQuestion(Protocol):
    """What the tasks of the simulator need to know."""

    @property
    def seed(self) -> int:
        """The seed of all random choices."""

    @property
    def bounds(self) -> Bounds:
        """How many cases are tried."""

    def settings(self) -> Sequence[Setting]:
        """Return the test cases."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GivenSettings:
    """Test cases that are already built."""

    given: tuple[Setting, ...]
    bounds: Bounds
    seed: int = 0

    def settings(self) -> Sequence[Setting]:
        """Return them."""
        return self.given


def simulate(
    explorer: Explorer,
    settings: Sequence[Setting],
    *,
    bounds: Bounds | None = None,
    seed: int = 0,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Run one explorer over all test cases that name it, in this process."""
    question = GivenSettings(given=tuple(settings), bounds=bounds or Bounds.of(EFFORTS[DEFAULT]), seed=seed)
    return explore_here(simulated(explorer, settings), question, has_time=has_time, on_progress=on_progress)


def simulated(explorer: Explorer, settings: Sequence[Setting]) -> Exploration:
    """Explore the parts of all test cases in parallel, then shrink the findings."""
    chosen = [setting for setting in settings if explorer in setting.explorers]
    if not chosen:
        return nothing_explored(explorer, "none of the test cases is for this explorer")
    strategy = _STRATEGIES[explorer]
    parts = [(setting, part) for setting in chosen for part in strategy.parts(setting)]
    names = tuple(dict.fromkeys(part for _, part in parts))
    failed, *results = yield [
        Task(run=_controls, arguments=(explorer, names), cost=0.1, begins_first=True),
        *(Task(run=_explore, arguments=(explorer, setting.name, part), cost=setting.size) for setting, part in parts),
    ]
    phases: list[tuple[Setting, Phase]] = []
    found: list[tuple[Setting, Any]] = []
    findings: list[tuple[Setting, Finding]] = []
    others: list[tuple[Setting, Finding]] = []
    known: set[Kind] = set()
    for setting in chosen:
        own = [result for (each, _), result in zip(parts, results, strict=True) if each is setting]
        phase = _phase(strategy, setting, own, failed)
        if phase is not None:
            phases.append((setting, phase))
            every = strategy.found(_done(own))
            new = [*_new(every, known)]
            found += [(setting, each) for each in new[:FINDINGS_MAX]]
            findings += [(setting, strategy.unshrunk(setting, each, NOT_SHRUNK)) for each in new[FINDINGS_MAX:]]
            others += [(setting, each) for _, each in every if isinstance(each, Finding) and each not in new]
    shrunk = yield [
        Task(run=_shrink, arguments=(explorer, setting.name, each), for_finding=True) for setting, each in found
    ]
    findings[:0] = [
        (setting, finding or strategy.unshrunk(setting, each, CUT))
        for (setting, each), finding in zip(found, shrunk, strict=True)
    ]
    findings += [
        (setting, strategy.unshrunk(setting, each, NOT_SHRUNK)) for setting, each in _of_other_causes(others, findings)
    ]
    return _merged(explorer, chosen, phases, findings)


def _phase(strategy: _Strategy, setting: Setting, results: Sequence[Any], failed: Sequence[str] | None) -> Phase | None:
    """Return the phase of one test case, or None where nothing of it was begun."""
    done = _done(results)
    rejected = [result for result in results if isinstance(result, _Rejected)]
    if rejected:
        return nothing_explored(setting.name, rejected[0].reason)
    if not done:
        return None
    phase = strategy.phase(setting, done, failed)
    return phase if len(done) == len(results) else dataclasses.replace(phase, complete=False)


def _done(results: Sequence[Any]) -> list[Any]:
    return [result for result in results if result is not None and not isinstance(result, _Rejected)]


def _new(found: Sequence[tuple[Kind, Any]], known: set[Kind]) -> Iterator[Any]:
    """Yield the first violation of each kind that no earlier test case has shown."""
    for kind, each in found:
        if kind not in known:
            known.add(kind)
            yield each


def _of_other_causes(
    others: Sequence[tuple[Setting, Finding]], findings: Sequence[tuple[Setting, Finding]]
) -> Iterator[tuple[Setting, Finding]]:
    """Yield the findings that look like others of their test case and are not explained by the causes of any."""
    known = [(setting, signature_of(finding).causes) for setting, finding in findings]
    for setting, other in others:
        causes = signature_of(other).causes
        if causes and not any(of is setting and explained and explained <= causes for of, explained in known):
            known.append((setting, causes))
            yield setting, other


def _merged(
    explorer: Explorer,
    chosen: Sequence[Setting],
    phases: Sequence[tuple[Setting, Phase]],
    findings: Sequence[tuple[Setting, Finding]],
) -> Phase:
    parts = []
    for setting, phase in phases:
        own: dict[FindingSignature, Finding] = {}
        for of, finding in findings:
            signature = signature_of(finding)
            if of is setting and not any(known.covers(signature) for known in own):
                own[signature] = finding
        left = sum(finding.evidence.get("note") == NOT_SHRUNK for finding in own.values())
        bound = f"{phase.bound}; {left} of {len(own)} findings are {NOT_SHRUNK}" if left else phase.bound
        phase = dataclasses.replace(phase, findings=tuple(own.values()), bound=bound)
        goals = [point for point in setting.coverage_goals if point in _POINTS[explorer]]
        parts.append((setting.name, phase.with_coverage_goals(goals)))
    begun = {name for name, _ in parts}
    whole = merged(explorer, parts, [setting.name for setting in chosen if setting.name not in begun])
    # A few test cases alone need not reach every coverage goal.
    return whole.with_coverage_goals(_POINTS[explorer]) if len(chosen) > FEW_TEST_CASES else whole


@dataclasses.dataclass(frozen=True, slots=True)
class _Rejected:
    """A test case that cannot be explored, and why."""

    reason: str


def _settings(worker: Worker) -> dict[str, Setting]:
    question: SimulatedQuestion = worker.question
    return {setting.name: setting for setting in question.settings()}


def _controls(worker: Worker, explorer: Explorer, parts: Sequence[str]) -> Sequence[str]:
    return _STRATEGIES[explorer].controls(parts, worker.question.seed)


def _explore(worker: Worker, explorer: Explorer, name: str, part: str) -> Any:
    try:
        with remembered_decoding():
            return _STRATEGIES[explorer].explore(worker.once(_settings)[name], part, worker)
    except NotExplorableError as error:
        return _Rejected(str(error))


def _shrink(worker: Worker, explorer: Explorer, name: str, found: Any) -> Finding:
    strategy, setting = _STRATEGIES[explorer], worker.once(_settings)[name]
    try:
        return strategy.shrink(setting, found)
    except (*TARGET_ERRORS, EndlessError) as error:
        # Whatever goes wrong while a finding is made small, the finding itself is not lost.
        return strategy.unshrunk(setting, found, f"{NOT_MADE_SMALL}: {type(error).__name__}: {error}")


class _Strategy(ABC):
    """How an explorer explores a test case: in parts, which are combined into one phase."""

    def controls(self, parts: Sequence[str], seed: int) -> Sequence[str]:
        """Describe the positive controls that failed."""
        return ()

    def parts(self, setting: Setting) -> Sequence[str]:
        """Return the names of the parts, which can be explored in parallel."""
        return ("",)

    @abstractmethod
    def explore(self, setting: Setting, part: str, worker: Worker) -> Any:
        """Explore a part; raises NotExplorableError."""

    def phase(self, setting: Setting, results: Sequence[Any], failed: Sequence[str] | None) -> Phase:
        """Combine the results of the parts; `failed` are the controls that failed, None where none was tried."""
        phase: Phase = results[0]
        return phase.with_controls(failed)

    def found(self, results: Sequence[Any]) -> list[tuple[Kind, Any]]:
        """Return each violation with its kind; in a sentence the last colon separates when from what happened."""
        return [
            ((each.property, without_digits(each.sentence.rpartition(": ")[2])), each)
            for result in results
            for each in result.findings
        ]

    def shrink(self, setting: Setting, found: Any) -> Finding:
        """Return the shrunk finding of a violation, which can be replayed."""
        return as_log(setting.case, found, scenario=setting.name)

    def unshrunk(self, setting: Setting, found: Any, note: str) -> Finding:
        """Return the finding of a violation as it was found; `note` says why it is not shrunk."""
        noted = dataclasses.replace(found, evidence={**found.evidence, "note": note})
        return with_case(setting.case, noted, scenario=setting.name)


class _Schedules(_Strategy):
    def parts(self, setting: Setting) -> Sequence[str]:
        return (ONE_WRITER if setting.writers == 1 else SEVERAL_WRITERS,)

    def controls(self, parts: Sequence[str], seed: int) -> Sequence[str]:
        failed = schedule_controls.failed_controls(seed) if ONE_WRITER in parts else ()
        return (*failed, *(schedule_writers.controls_of_run() if SEVERAL_WRITERS in parts else ()))

    def explore(self, setting: Setting, part: str, worker: Worker) -> Phase:
        question: SimulatedQuestion = worker.question
        if part == SEVERAL_WRITERS:
            group = schedule_writers.Group(case=setting.case, writer_count=setting.writers)
            schedules_max = question.bounds.schedules
            return schedule_writers.explore_writers(
                group, schedules_max=schedules_max, ends=True, has_time=worker.has_time, controls=()
            )
        return explore_schedules(
            setting.case,
            schedules_max=question.bounds.schedules,
            seed=question.seed,
            has_time=worker.has_time,
            on_progress=worker.report_progress,
            controls=(),
        )

    def shrink(self, setting: Setting, found: Any) -> Finding:
        # A log has one writer.
        several = setting.writers > 1
        return with_case(setting.case, found, scenario=setting.name) if several else super().shrink(setting, found)


class _Memory(_Strategy):
    """Its controls depend on the test case, and are part of exploring it."""

    def explore(self, setting: Setting, part: str, worker: Worker) -> Phase:
        return explore_words(setting.case, has_time=worker.has_time, on_progress=worker.report_progress)

    def phase(self, setting: Setting, results: Sequence[Any], failed: Sequence[str] | None) -> Phase:
        phase: Phase = results[0]
        return phase

    def shrink(self, setting: Setting, found: Any) -> Finding:
        return with_case(setting.case, found, scenario=setting.name)


class _Power(_Strategy):
    """All models are one part, because what is found out of disks under one of them serves the others.

    A model is left out where another one that leaves all its disks was explored completely and nothing was found.
    """

    def controls(self, parts: Sequence[str], seed: int) -> Sequence[str]:
        names = " ".join(parts).split()
        return power_controls.controls_of_run(tuple(model for model in IN_ORDER if model.name in names))

    def parts(self, setting: Setting) -> Sequence[str]:
        return (" ".join(model.name for model in IN_ORDER if not setting.models or model.name in setting.models),)

    def explore(self, setting: Setting, part: str, worker: Worker) -> list[ModelResult]:
        question: SimulatedQuestion = worker.question
        models = [model_named(name) for name in part.split()]
        results: list[ModelResult] = []
        power = Power(setting.case)
        try:
            for model in models:
                if any(covers(result, model) for result in results):
                    continue
                before = sum(result.point_count for result in results)
                settings = settings_under(model, question.bounds, question.seed)

                def report_progress(done: int, total: int | None, before: int = before) -> None:
                    worker.report_progress(before + done, None if total is None else total * len(models))

                results.append(power.explore(model, settings, worker.has_time, report_progress))
        finally:
            power.close()
        return results

    def phase(self, setting: Setting, results: Sequence[list[ModelResult]], failed: Sequence[str] | None) -> Phase:
        return power_phase(setting.case, results[0], failed)

    def found(self, results: Sequence[list[ModelResult]]) -> list[tuple[Kind, Any]]:
        # Of one kind the violation is shown that needs the least: the model of the most file systems, one cut.
        found = super().found(sorted((result for part in results for result in part), key=_mildness))
        return sorted(found, key=lambda each: bool(each[1].evidence.get("origin")))


class _Product(_Strategy):
    """One part for each model."""

    def controls(self, parts: Sequence[str], seed: int) -> Sequence[str]:
        return schedule_crash.controls_of_run(tuple(parts))

    def parts(self, setting: Setting) -> Sequence[str]:
        return setting.models or schedule_crash.PRODUCT_MODELS

    def explore(self, setting: Setting, part: str, worker: Worker) -> schedule_crash.ModelResult:
        states_max = worker.question.bounds.states
        return schedule_crash.explore_under(setting.case, part, states_max, worker.has_time, worker.report_progress)

    def phase(self, setting: Setting, results: Sequence[Any], failed: Sequence[str] | None) -> Phase:
        return schedule_crash.product_phase(results, failed, ())

    def found(self, results: Sequence[Any]) -> list[tuple[Kind, Any]]:
        return [(tuple(signature), each) for result in results for signature, each in result.found.items()]

    def shrink(self, setting: Setting, found: Any) -> Finding:
        violation, moves = found
        phase, scenario = schedule_crash.PHASE, setting.name
        return finding_or_moves(setting.case, moves, violation, phase=phase, scenario=scenario)

    def unshrunk(self, setting: Setting, found: Any, note: str) -> Finding:
        violation, moves = found
        phase, scenario = schedule_crash.PHASE, setting.name
        return as_seen(setting.case, moves, violation, phase=phase, scenario=scenario, note=note)


def _mildness(result: ModelResult) -> tuple[bool, int]:
    return result.model is C_8, MODELS.index(result.model)


def settings_under(model: Model, bounds: Bounds, seed: int) -> Settings:
    """Return how many crash points are tried, and disks of each; C-8 mostly has too many disks to try all."""
    few_count = TORN_DISKS_FEW // bounds.case_weight
    torn = Limits(file_count=bounds.torn_disks, disk_count=bounds.torn_disks, few_count=few_count)
    limits = torn if model is C_8 else WIDE_LIMITS.divided(bounds.case_weight)
    return Settings(
        limits=dataclasses.replace(limits, seed=seed),
        points_max=bounds.crash_points,
        disks_max=bounds.disks if bounds.case_weight > 1 else None,
        second_cuts_max=bounds.second_cuts,
    )


def explore_words(
    case: TestCase,
    *,
    cases: Sequence[MemoryCase] = CASES,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Explore a reader of `_txn` during the last commits of a test case's first session."""
    assert isinstance(case.target, TableTarget), "only tables have a _txn"
    operations = [case.operations[number] for number in case.first_session]
    return explore_memory(
        case.target,
        operations,
        start=case.start,
        path=case.path,
        # Earlier commits allocate the areas, so that a later one stores only what it changes.
        settled_count=max(0, len(operations) - COMMITS_READ_BESIDE),
        cases=cases,
        has_time=has_time,
        on_progress=on_progress,
    )


def replay_case(finding: Finding, target: Target | None = None, operations: Sequence[Any] = ()) -> Verdict:
    """Replay what an explorer found on a test case and no log says: loads of words, several writers, power cuts, moves.

    A target and operations that the finding cannot hold are handed in. Raises the errors in `UNUSABLE`.
    """
    evidence = finding.evidence
    case = case_of(evidence["test_case"], target, operations)
    if "loads" in evidence:
        assert isinstance(case.target, TableTarget), case.target
        committed = tuple(case.operations[number] for number in case.first_session)
        return replay_memory(case.target, committed, finding, start=case.start, path=case.path)
    if "writers" in evidence:
        writer_count = count_of(evidence["writers"])
        if not 1 < writer_count <= len(case.first_session):
            raise ValueError(f"no number of writers of {len(case.first_session)} commits: {writer_count}")
        group = schedule_writers.Group(case=case, writer_count=writer_count)
        return schedule_writers.replay_writers(group, finding)
    return replay_power(case, finding) if "cuts" in evidence else replay_moves(case, finding)


_STRATEGIES: dict[Explorer, _Strategy] = {
    Explorer.SCHEDULES: _Schedules(),
    Explorer.MEMORY: _Memory(),
    Explorer.POWER: _Power(),
    Explorer.PRODUCT: _Product(),
}
_POINTS: dict[Explorer, tuple[str, ...]] = {
    Explorer.SCHEDULES: schedule_points.POINTS,
    Explorer.MEMORY: (),
    Explorer.POWER: power_points.all_coverage_goals(MODELS),
    Explorer.PRODUCT: (),
}


def goals_of_table(setting: Setting) -> tuple[str, ...]:
    """Return what commits to any table reach that follow the hardened protocol."""
    if any(readers.style == Style.PINNED for readers in setting.case.readers):
        return schedule_points.POINTS_OF_A_PURGE
    if setting.writers > 1:
        return ()
    return (*schedule_points.POINTS_OF_A_TABLE, *_POINTS[Explorer.POWER])
