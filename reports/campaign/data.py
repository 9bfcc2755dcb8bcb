"""The sums of a campaign's results, as the pipeline hands them over, for its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tornproof.harness.common.campaign_sums import Cell, CellRuns
from tornproof.reports.campaign.discovery import Yield
from tornproof.reports.campaign.files import (
    SENTENCE_CHARACTERS_MAX,
    End,
    Group,
    Spec,
    read_end,
    read_spec,
    shown,
)
from tornproof.reports.kit.page import VERDICTS

STEP_CHARACTERS_MAX = 400
PROBLEM_CHARACTERS_MAX = 1_000
Key = TypeVar("Key")
Sums: TypeAlias = Mapping[str, Any]
"""A document of `directory_sums` of the pipeline."""


class CrashPoint(NamedTuple):
    """A step before which a fault was injected, and what was left then."""

    step: str
    injected_fault: str
    model: str
    disk: str


@dataclass(slots=True, kw_only=True)
class Signature:
    """INVALID runs with the same signature: the first of them, and their number."""

    stem: str
    property: str
    sentence: str
    cell: Cell
    seed: int
    run_count: int = 0


@dataclass(slots=True, kw_only=True)
class CampaignData:
    """A campaign's spec, its final result if it is complete, and totals of its results.

    Crash points, points reached, behaviours, outcomes and signatures are those of groups that are not controls. An
    outcome is a scenario with preset and fault, and the verdict with what was broken; a behaviour is an outcome with
    its crash and the points that the run reached.
    `group_starts` are the numbers of the runs, as behaviours count them, at which groups begin.
    """

    directory: Path
    spec: Spec
    end: End | None
    groups: dict[str, Group]
    task_counts: Counter[str]
    verdicts: Counter[tuple[str, str]]
    injected_faults: Counter[str]
    reached: Counter[str]
    crash_points: Counter[CrashPoint]
    cells: dict[Cell, CellRuns]
    signatures: dict[str, Signature]
    behaviours: list[Yield]
    outcomes: list[Yield]
    behaviours_max: int | None
    group_starts: list[int]
    missing_task_count: int
    problems: list[str]
    problem_count: int
    errors: list[str]
    step_count: int
    event_count: int

    @property
    def run_count(self) -> int:
        """Number of runs, including controls."""
        return sum(self.verdicts.values())

    @property
    def task_count(self) -> int:
        """Number of tasks with readable results."""
        return sum(self.task_counts.values())

    def verdict_counts(self, group: str) -> list[int]:
        """Return how many runs of a group came to each verdict, in the order of `VERDICTS`."""
        return [self.verdicts[group, verdict] for verdict in VERDICTS]

    @property
    def is_whole(self) -> bool:
        """Whether the campaign is complete, and all its results are still there."""
        if self.end is None or self.problem_count:
            return False
        return (self.end.run_count, self.end.task_count) == (self.run_count, self.task_count)


def read_campaign(directory: Path, sums: Sums) -> CampaignData:
    """Return what a campaign's directory says with the sums of its results; raises ResultError if it is not one."""
    spec, end = read_spec(directory), read_end(directory)
    task_counts = _named(sums["tasks"])
    groups = {group.name: group for group in spec.groups}
    # The groups with which every campaign begins are not in its spec.
    groups |= {name: Group(name=name, is_control=True) for name in task_counts if name not in groups}
    crash_points: Counter[CrashPoint] = Counter()
    for step, fault, model, disk, count in sums["crash_points"]:
        crash_points[CrashPoint(shown(step, STEP_CHARACTERS_MAX), *map(shown, (fault, model, disk)))] += count
    verdicts: Counter[tuple[str, str]] = Counter()
    for group, verdict, count in sums["verdicts"]:
        verdicts[shown(group), verdict] += count
    return CampaignData(
        directory=directory,
        spec=spec,
        end=end,
        groups=groups,
        task_counts=task_counts,
        verdicts=verdicts,
        injected_faults=_named(sums["injected_faults"]),
        reached=_named(sums["reached"]),
        crash_points=crash_points,
        cells=_cells(sums),
        signatures={each["stem"]: _signature(each) for each in sums["signatures"]},
        behaviours=[Yield(**point) for point in sums["behaviours"]],
        outcomes=[Yield(**point) for point in sums["outcomes"]],
        behaviours_max=sums["behaviours_max"],
        group_starts=sums["group_starts"],
        missing_task_count=sums["tasks_missing"] + (max(0, end.task_count - sums["tasks_until"]) if end else 0),
        problems=[shown(problem, PROBLEM_CHARACTERS_MAX) for problem in sums["problems"]],
        problem_count=sums["problem_count"],
        errors=[shown(error, SENTENCE_CHARACTERS_MAX) for error in sums["errors"]],
        step_count=sums["step_count"],
        event_count=sums["event_count"],
    )


def _named(counts: Mapping[str, int]) -> Counter[str]:
    named: Counter[str] = Counter()
    for name, count in counts.items():
        named[shown(name)] += count
    return named


def _cells(sums: Sums) -> dict[Cell, CellRuns]:
    return {
        Cell(*map(shown, each["cell"])): CellRuns(**{name: value for name, value in each.items() if name != "cell"})
        for each in sums["cells"]
    }


def _signature(found: Mapping[str, Any]) -> Signature:
    return Signature(
        stem=found["stem"],
        property=shown(found["property"]),
        sentence=shown(found["sentence"], SENTENCE_CHARACTERS_MAX),
        cell=Cell(*map(shown, found["cell"])),
        seed=found["seed"],
        run_count=found["run_count"],
    )


def totals(cells: Mapping[Cell, CellRuns], key: Callable[[Cell], Key]) -> dict[Key, CellRuns]:
    """Return the totals of the runs of cells by `key`, without first seeds."""
    sums: dict[Key, CellRuns] = {}
    for cell, runs in cells.items():
        sums.setdefault(key(cell), CellRuns()).add(replace(runs, first_seed=None, first_number=None))
    return sums
