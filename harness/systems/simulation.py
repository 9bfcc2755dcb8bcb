"""The simulator in a check: the test cases of each of its explorers, and their results merged into one phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tornproof.harness.common.remembered_codecs import remembered_encoder
from tornproof.harness.common.signature import FindingSignature, signature_of
from tornproof.harness.common.verdict import NO_CONTROLS, PASSED, Finding, Phase, Verdict, cut_short, worst
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.releases import HARDENED_PRESET, PRESETS
from tornproof.harness.systems.scenario import Explorer, Scenario, ScenarioError, Style, load_scenario, scenario_names
from tornproof.harness.systems.scenario_case import PATH, case_of
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.harness.systems.table_rules import TableRules
from tornproof.harness.systems.workload import crash_operations

HARDENED = HARDENED_PRESET.name
TABLE_SCENARIO = "the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A named test case, its explorers, persistence models and coverage goals.

    With several `writers` the operations of its first session are dealt to them in turn.
    """

    name: str
    case: TestCase
    explorers: frozenset[Explorer]
    models: tuple[str, ...] = ()
    coverage_goals: tuple[str, ...] = ()
    writers: int = 1

    @property
    def size(self) -> int:
        """The number of pairs of a commit and a read."""
        case = self.case
        reads = sum(group.count * group.read_count for group in case.readers)
        return len(case.first_session) * max(1, reads)


def settings_of(names: Sequence[str], preset: Preset | None) -> list[Setting]:
    """Return the scenarios of these names, or all, under a preset or else each under its own; raises ScenarioError."""
    settings = [setting_of(load_scenario(name), preset) for name in names or scenario_names()]
    # The small ones first, so that a short run completes many.
    return sorted(settings, key=lambda setting: (setting.size, setting.name))


def setting_of(scenario: Scenario, preset: Preset | None) -> Setting:
    """Return a scenario under a preset, or under its own; raises ScenarioError."""
    if preset is None:
        preset = PRESETS.get(scenario.preset)
    if preset is None:
        raise ScenarioError(f"scenarios/{scenario.name}.toml: preset: there is no {scenario.preset!r}")
    target = TableTarget.of(preset, encode=remembered_encoder(preset.encode))
    return Setting(
        name=scenario.name,
        case=case_of(scenario, target, _rules(PATH, preset)),
        explorers=frozenset(scenario.explorers),
        models=scenario.models,
        coverage_goals=scenario.must_reach,
    )


def case_under(scenario: Scenario, preset: Preset) -> TestCase:
    """Return the test case of a scenario under a preset."""
    return setting_of(scenario, preset).case


def settings_of_table(image: DiskImage, path: str, preset: Preset) -> list[Setting]:
    """Return test cases of commits to a table of an image; raises RowsRejectedError if no rows can be added to it."""
    target = TableTarget.of(preset, encode=remembered_encoder(preset.encode))
    grown, merged, again, last = crash_operations(image, path)
    two_commits = TestCase(
        target=target,
        path=path,
        operations=(grown, merged, last),
        first_session=(0, 1),
        second_session=(2,),
        readers=(Readers(),),
        start=image,
        rules=_rules(path, preset),
    )
    one_commit = replace(two_commits, first_session=(0,))
    rewrites = replace(two_commits, operations=(again,) * 4, first_session=(0, 1, 2, 3), second_session=(), readers=())
    purge = replace(
        two_commits, operations=(again,), first_session=(0,), second_session=(), readers=(Readers(style=Style.PINNED),)
    )
    by_name = {
        f"{TABLE_SCENARIO}, two commits": (two_commits, {Explorer.SCHEDULES, Explorer.POWER}),
        f"{TABLE_SCENARIO}, one commit": (one_commit, {Explorer.PRODUCT}),
        f"{TABLE_SCENARIO}, rewrites": (rewrites, {Explorer.MEMORY}),
        f"{TABLE_SCENARIO}, a purge beside a pinned reader": (purge, {Explorer.SCHEDULES}),
    }
    return [
        Setting(name=name, case=case, explorers=frozenset(explorers)) for name, (case, explorers) in by_name.items()
    ]


def two_writers_of_table(image: DiskImage, path: str, preset: Preset) -> list[Setting]:
    """Return test cases of two writers at once; raises RowsRejectedError if no rows can be added to the table."""
    target = TableTarget.of(preset, encode=remembered_encoder(preset.encode))
    _, merged, again, last = crash_operations(image, path)
    # The first writer makes a directory, which the recovery of the second one would remove.
    both = TestCase(target=target, path=path, operations=(merged, last), first_session=(0, 1), start=image)
    rewrite, purge = replace(again, purges=False), TableOperation(purges=True)
    other_purges = replace(both, operations=(rewrite, purge), readers=(Readers(style=Style.PINNED),))
    by_name = {"two writers": both, "a purge by another writer beside a pinned reader": other_purges}
    return [
        Setting(name=f"{TABLE_SCENARIO}, {name}", case=case, explorers=frozenset({Explorer.SCHEDULES}), writers=2)
        for name, case in by_name.items()
    ]


def _rules(path: str, preset: Preset) -> TraceRules:
    """Return the rules for single steps; other releases promise no barriers."""
    return TableRules(path, promises_barriers=preset.name == HARDENED)


def merged(name: str, parts: Sequence[tuple[str, Phase]], without_result: Sequence[str] = ()) -> Phase:
    """Merge the phases of several test cases; of findings with one cause the first is kept.

    UNKNOWN where a test case has no result, because nothing is known of it.
    """
    if not parts and without_result:
        return cut_short(name)
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    controls: list[str] = []
    findings: dict[FindingSignature, Finding] = {}
    for _, phase in parts:
        counts.update(phase.counts)
        reached.update(phase.reached)
        controls += [] if phase.controls in (PASSED, NO_CONTROLS, *controls) else [phase.controls]
        for finding in phase.findings:
            findings.setdefault(signature_of(finding), finding)
    cut = [case for case, phase in parts if not phase.complete]
    explored = sum(phase.explored for _, phase in parts)
    notes = [f"{case}: {phase.note}" for case, phase in parts if phase.note]
    if not explored:
        notes.append("nothing was explored")
    phase = Phase(
        name=name,
        explored=explored,
        complete=bool(parts) and not cut and not without_result,
        bound=_bound(parts, cut, without_result),
        verdict=worst([*(phase.verdict for _, phase in parts), Verdict.VALID if explored else Verdict.UNKNOWN]),
        counts=dict(counts),
        reached=dict(reached),
        controls="; ".join(controls) or PASSED,
        note="; ".join(notes),
        findings=tuple(findings.values()),
        test_cases={
            case: {"explored": phase.explored, "complete": phase.complete, "bound": phase.bound}
            for case, phase in parts
        },
    )
    count = len(parts) + len(without_result)
    return phase.doubted(
        f"the run was cut before {len(without_result)} of {count} test cases had a result" if without_result else ""
    )


def _bound(parts: Sequence[tuple[str, Phase]], cut: Sequence[str], without_result: Sequence[str]) -> str:
    if len(parts) == 1 and not without_result:
        return parts[0][1].bound
    bounds = [
        f"{len(parts) - len(cut)} of {len(parts) + len(without_result)} test cases complete, as --json says of each"
    ]
    bounds += [f"sampled or cut: {', '.join(cut)}"] if cut else []
    bounds += [f"without a result: {', '.join(without_result)}"] if without_result else []
    return "; ".join(bounds)
