"""Totals of a campaign's results, read task by task in the order of the plan."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tornproof.reports.campaign.discovery import Behaviours
from tornproof.reports.campaign.files import (
    CELL,
    REACHED,
    SENTENCE_CHARACTERS_MAX,
    End,
    Group,
    Spec,
    TaskFile,
    read_end,
    read_spec,
    read_task,
    shown,
    task_files,
)
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import VERDICTS

NAMES_MAX = 10_000
"""The most names of a kind that are counted separately; a campaign has far fewer."""
PROBLEMS_MAX = 20
STEP_CHARACTERS_MAX = 400
OTHERS = "others"
Key = TypeVar("Key")
_SEPARATOR = "\x1f"
_OUTCOME = ("scenario", "preset", "fault", "verdict", "property", "part", "kind")
_CRASH = ("injected_fault", "model", "step", "disk")


class Cell(NamedTuple):
    """What seeds of a group are run on."""

    group: str
    scenario: str
    preset: str
    fault: str

    @property
    def subject(self) -> str:
        """The fault or preset that a control must detect."""
        return self.fault or self.preset


class CrashPoint(NamedTuple):
    """A step before which a fault was injected, and what was left then."""

    step: str
    injected_fault: str
    model: str
    disk: str


@dataclass(slots=True)
class CellRuns:
    """The runs of a cell; `first_number` is the number, from 1, of the first one that is INVALID."""

    run_count: int = 0
    detected_count: int = 0
    first_seed: int | None = None
    first_number: int | None = None
    step_count: int = 0
    step_count_max: int = 0

    @property
    def steps_a_run(self) -> float:
        """Mean steps per run."""
        return self.step_count / self.run_count


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
    groups: dict[str, Group] = field(default_factory=dict)
    task_counts: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    injected_faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    crash_points: Counter[CrashPoint] = field(default_factory=Counter)
    cells: dict[Cell, CellRuns] = field(default_factory=dict)
    signatures: dict[str, Signature] = field(default_factory=dict)
    behaviours: Behaviours = field(default_factory=Behaviours)
    outcomes: Behaviours = field(default_factory=Behaviours)
    group_starts: list[int] = field(default_factory=list)
    missing_task_count: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    errors: list[str] = field(default_factory=list)
    step_count: int = 0
    event_count: int = 0

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


def read_campaign(directory: Path) -> CampaignData:
    """Read a campaign's directory; raises ResultError if it is not one.

    Unreadable results are listed as problems, and the others are counted.
    """
    data = CampaignData(directory=directory, spec=read_spec(directory), end=read_end(directory))
    data.groups = {group.name: group for group in data.spec.groups}
    seen = _Seen()
    next_number = 0
    for file in task_files(directory):
        data.missing_task_count += max(0, file.number - next_number)
        next_number = max(next_number, file.number + 1)
        try:
            columns = read_task(file)
        except ResultError as error:
            data.problem_count += 1
            data.problems += [str(error)] if len(data.problems) < PROBLEMS_MAX else []
        else:
            _add(data, file, columns, seen)
    if data.end is not None:
        data.missing_task_count += max(0, data.end.task_count - next_number)
    return data


def totals(cells: Mapping[Cell, CellRuns], key: Callable[[Cell], Key]) -> dict[Key, CellRuns]:
    """Return the totals of the runs of cells by `key`, without first seeds."""
    sums: dict[Key, CellRuns] = {}
    for cell, runs in cells.items():
        total = sums.setdefault(key(cell), CellRuns())
        total.run_count += runs.run_count
        total.detected_count += runs.detected_count
        total.step_count += runs.step_count
        total.step_count_max = max(total.step_count_max, runs.step_count_max)
    return sums


def _add(data: CampaignData, file: TaskFile, columns: dict[str, list[Any]], seen: _Seen) -> None:
    name = shown(file.group)
    # The groups with which every campaign begins are not in its spec.
    group = data.groups.setdefault(name, Group(name=name, is_control=True))
    cell = Cell(name, *(shown(columns[key][0]) for key in CELL))
    is_first = data.task_counts[name] == 0
    data.task_counts[name] += 1
    data.verdicts.update((name, verdict) for verdict in columns["verdict"])
    data.step_count += sum(columns["step_count"])
    data.event_count += sum(columns["event_count"])
    for injected_fault, model in zip(columns["injected_fault"], columns["model"], strict=True):
        _count(data.injected_faults, shown(f"{injected_fault} ({model})" if model else injected_fault), OTHERS)
    for seed, error in zip(columns["seed"], columns["error"], strict=True):
        if error and len(data.errors) < PROBLEMS_MAX:
            message = shown(error, SENTENCE_CHARACTERS_MAX)
            data.errors.append(f"{cell.scenario}, {cell.preset}, seed {seed}: {message}")
    _add_to_cell(data.cells.setdefault(cell, CellRuns()), columns)
    if group.is_control:
        return
    if is_first:
        data.group_starts.append(data.behaviours.run_count)
    _add_coverage(data, columns)
    _add_signatures(data, cell, columns)
    _add_behaviours(data, columns, seen)


def _add_to_cell(runs: CellRuns, columns: dict[str, list[Any]]) -> None:
    verdicts = columns["verdict"]
    if runs.first_seed is None and "INVALID" in verdicts:
        index = verdicts.index("INVALID")
        runs.first_seed, runs.first_number = columns["seed"][index], runs.run_count + index + 1
    runs.run_count += len(verdicts)
    runs.detected_count += verdicts.count("INVALID")
    runs.step_count += sum(columns["step_count"])
    runs.step_count_max = max(runs.step_count_max, *columns["step_count"])


def _add_coverage(data: CampaignData, columns: dict[str, list[Any]]) -> None:
    others = CrashPoint(OTHERS, OTHERS, "", "")
    for step, injected_fault, model, disk in zip(
        *(columns[key] for key in ("step", "injected_fault", "model", "disk")), strict=True
    ):
        # Runs without a model are fault-free.
        if model:
            point = CrashPoint(shown(step, STEP_CHARACTERS_MAX), shown(injected_fault), shown(model), shown(disk))
            _count(data.crash_points, point, others)
    for points in columns[REACHED]:
        for point in points:
            _count(data.reached, shown(point), OTHERS)


def _add_signatures(data: CampaignData, cell: Cell, columns: dict[str, list[Any]]) -> None:
    for index, verdict in enumerate(columns["verdict"]):
        if verdict != "INVALID":
            continue
        named = [columns[key][index] for key in ("preset", "fault", "property", "part", "kind")]
        stem = _stem(named)
        if stem not in data.signatures:
            if len(data.signatures) >= NAMES_MAX:
                continue
            data.signatures[stem] = Signature(
                stem=stem,
                property=shown(columns["property"][index]),
                sentence=shown(columns["sentence"][index], SENTENCE_CHARACTERS_MAX),
                cell=cell,
                seed=columns["seed"][index],
            )
        data.signatures[stem].run_count += 1


def _add_behaviours(data: CampaignData, columns: dict[str, list[Any]], seen: _Seen) -> None:
    seeds = columns["seed"]
    new_seeds = seen.new_seeds(tuple(columns[key][0] for key in CELL), range(seeds[0], seeds[-1] + 1))
    outcomes = zip(*(columns[key] for key in _OUTCOME), strict=True)
    crashes = zip(*(columns[key] for key in _CRASH), strict=True)
    for seed, outcome, crash, reached in zip(seeds, outcomes, crashes, columns[REACHED], strict=True):
        if seed in new_seeds:
            # Whether a seed is odd is independent of its random choices.
            is_held_out = seed % 2 == 1
            data.outcomes.add(_digest(outcome), is_held_out=is_held_out)
            data.behaviours.add(_digest((*outcome, *crash, *reached)), is_held_out=is_held_out)


def _digest(texts: Sequence[str]) -> bytes:
    return hashlib.blake2b(_SEPARATOR.join(texts).encode(), digest_size=8).digest()


@dataclass(slots=True)
class _Seen:
    """Seeds of cells already counted: a cell in two groups has the same runs in both."""

    ranges: dict[tuple[str, ...], list[range]] = field(default_factory=dict)

    def new_seeds(self, cell: tuple[str, ...], seeds: range) -> frozenset[int]:
        """Return the seeds that were not passed before."""
        known = self.ranges.setdefault(cell, [])
        new_seeds = frozenset(seed for seed in seeds if not any(seed in each for each in known))
        if known and known[-1].stop == seeds.start:
            known[-1] = range(known[-1].start, seeds.stop)
        else:
            known.append(seeds)
        return new_seeds


def _stem(named: list[str]) -> str:
    """Return the stem of the file to which the campaign writes the finding of a signature."""
    text = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    return f"campaign-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def _count(counts: Counter[Any], name: Any, otherwise: Any) -> None:
    """Count a name, or `otherwise` if there are too many."""
    counts[name if name in counts or len(counts) < NAMES_MAX else otherwise] += 1
