"""The results of a campaign: while they arrive, and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.verdict import Finding, Verdict, worst
from tornproof.harness.explorers.random.random_run import injected_faults_of
from tornproof.harness.mutation.seeded import SeededRuns
from tornproof.impl.errors import StorageError
from tornproof.pipeline.campaign.result_files import ResultFile, reject, result_files
from tornproof.pipeline.campaign.spec import Spec, all_groups
from tornproof.pipeline.campaign.tally import CrashPoint, Seen, Signature, Tally, tally_of
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS, Plan, Task
from tornproof.pipeline.files import Location, sizes_of
from tornproof.pipeline.spark.session import slot_count
from tornproof.pipeline.spark.tasks import fold_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERRORS_SHOWN = 10
SOON = 500
"""With this many runs, a campaign must have injected every possible fault."""
PARTS_A_SLOT = 4
TASKS_A_PART_MIN = 64
"""Fewer tasks are summed up faster than Spark hands them out."""
_DETECTION = (*Signature._fields, "seed", "sentence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A run that violates a property, and its task."""

    signature: Signature
    task: Task
    seed: int
    sentence: str

    @property
    def where(self) -> str:
        """The run in words."""
        cell = self.task.cell
        fault = f", fault {cell.fault!r}" if cell.fault else ""
        return f"{cell.scenario.name}, {cell.preset}{fault}, seed {self.seed}"

    def finding(self) -> Finding:
        """Repeat the run, and return it as a shrunk finding for `tornproof replay`."""
        with SeededRuns(self.task.cell, self.task.campaign_seed) as runs:
            return runs.finding(self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole campaign, with its denominators; `result_hash` is that of all rows in the order of the plan.

    `coverage` counts runs by the step before which the fault was injected, and by the disk left then. `detections` are
    the first runs of each signature, without those of controls. `notes` say why a verdict is UNKNOWN.
    """

    verdict: Verdict
    result_hash: str
    run_count: int
    task_count: int
    group_counts: Mapping[str, Mapping[str, int]]
    injected_faults: Mapping[str, int]
    reached: Mapping[str, int]
    case_count: int
    step_count: int
    event_count: int
    coverage: Mapping[tuple[str, str], int]
    controls: Mapping[str, str]
    detections: tuple[Detection, ...]
    notes: tuple[str, ...]


class Arrivals:
    """The results of a plan that exist so far; each is reported once.

    What exists at the start is listed once. After that only the next results of each range are asked for, because
    Spark begins the tasks of a range one after the other, and the ranges in their order.
    """

    def __init__(self, plan: Plan, out: Location, *, range_count: int | None = None, ranges_at_a_time: int = 2) -> None:
        """Look for what is there; the missing tasks are divided into so many ranges, by default one for each."""
        self.run_count = 0
        self.known: set[Signature] = set()
        self._plan, self._out = plan, out
        self._there = [file for file in result_files(out) if self._is_planned(file)]
        is_missing = np.ones(len(plan), np.bool_)
        with_events = {file.number for file in result_files(out, EVENTS)}
        is_missing[[file.number for file in self._there if file.number in with_events]] = False
        self.missing = np.flatnonzero(is_missing).astype(np.int32)
        """The numbers of the tasks without results, or without events, which come first and may be removed alone."""
        self._range_count = min(len(self.missing), range_count or len(self.missing))
        self._ranges_at_a_time = ranges_at_a_time
        self._active: dict[int, range] = {}
        self._next_range = 0

    def new(self, controls: Collection[str]) -> Iterator[Detection]:
        """Read new results, and yield the first run of each new signature."""
        there, self._there = self._there, []
        for file in there:
            yield from self._arrived(self._plan[file.number], controls)
        while arrived := self._arrivals():
            for number in arrived:
                yield from self._arrived(self._plan[number], controls)

    def _arrivals(self) -> list[int]:
        """Return the tasks that have arrived of those that come next in the first ranges that are not done."""
        while len(self._active) < self._ranges_at_a_time and self._next_range < self._range_count:
            # As Spark divides numbers into partitions.
            ends = (len(self.missing) * edge // self._range_count for edge in (self._next_range, self._next_range + 1))
            self._active[self._next_range] = range(*ends)
            self._next_range += 1
        numbers = {index: int(self.missing[left[0]]) for index, left in self._active.items()}
        sizes = sizes_of([self._plan[number].path(self._out, RESULTS) for number in numbers.values()])
        arrived = [index for index, size in zip(numbers, sizes, strict=True) if size is not None]
        for index in arrived:
            self._active[index] = self._active[index][1:]
            if not self._active[index]:
                del self._active[index]
        return [numbers[index] for index in arrived]

    def _is_planned(self, file: ResultFile) -> bool:
        return file.number < len(self._plan) and self._plan[file.number].group == file.group

    def _arrived(self, task: Task, controls: Collection[str]) -> Iterator[Detection]:
        self.run_count += task.run_count
        if task.group in controls:
            return
        for row in _invalid_rows(ResultFile(task.number, task.group, task.path(self._out, RESULTS))):
            signature = Signature(*(row[name] for name in Signature._fields))
            if signature not in self.known:
                self.known.add(signature)
                yield Detection(signature=signature, task=task, seed=row["seed"], sentence=row["sentence"])


def _invalid_rows(file: ResultFile) -> list[dict[str, Any]]:
    """Return the rows of detections; of most files the footer says that there is none."""
    try:
        with file.location.open_for_reading(mapped=True) as source, pq.ParquetFile(source) as parquet:
            group = parquet.metadata.row_group(0)
            names = [group.column(index).path_in_schema for index in range(group.num_columns)]
            statistics = group.column(names.index("verdict")).statistics
            if statistics is not None and statistics.has_min_max and statistics.min > Verdict.INVALID.name:
                return []
            rows = parquet.read(columns=[*_DETECTION, "verdict"])
    except (OSError, pa.ArrowException, StorageError, ValueError, IndexError) as error:
        reject(file, str(error))
    found: list[dict[str, Any]] = rows.filter(pa.compute.equal(rows["verdict"], Verdict.INVALID.name)).to_pylist()
    return found


def control_names(spec: Spec) -> frozenset[str]:
    """Return the names of the control groups."""
    return frozenset(group.name for group in all_groups(spec) if group.control)


def tally(
    spark: SparkSession | None,
    spec: Spec,
    plan: Plan,
    out: Location,
    on_tasks: Callable[[int, int], None] = lambda done, total: None,
) -> Tally:
    """Return the sums of all results; on Spark, tasks sum up parts. Raises CampaignError for a wrong file."""
    controls = control_names(spec)
    if spark is None or len(plan) <= TASKS_A_PART_MIN:
        return _tally_of_part(plan, out, controls, (0, len(plan)), 0)
    count = min(PARTS_A_SLOT * slot_count(spark), -(-len(plan) // TASKS_A_PART_MIN))
    edges = tuple(len(plan) * edge // count for edge in range(count + 1))
    whole = Tally()
    work = partial(_tally_of_part, plan, out.absolute(), controls, edges)
    for part in fold_each(spark, count, work, task_count=count, on_tasks=on_tasks):
        whole.add(part)
    return whole


def _tally_of_part(plan: Plan, out: Location, controls: Collection[str], edges: tuple[int, ...], number: int) -> Tally:
    """Return the sums of the tasks between two edges."""
    first, stop = edges[number], edges[number + 1]
    files = (ResultFile(each, plan[each].group, plan[each].path(out, RESULTS)) for each in range(first, stop))
    return tally_of(files, controls.__contains__, _seen_before(plan, controls, first))


def _seen_before(plan: Plan, controls: Collection[str], stop: int) -> Seen:
    """Return the seeds of the tasks before one."""
    seen = Seen()
    for number, (group, cell) in enumerate(plan.parts):
        first, end = plan.bounds(number)
        if group.name not in controls and first < stop:
            seen.new_seeds(cell.key, range(group.seeds.first, plan[min(stop, end) - 1].stop))
    return seen


def summarise(spec: Spec, plan: Plan, sums: Tally) -> Summary:
    """Return the summary of a campaign's sums."""
    controls = control_names(spec)
    groups: dict[str, dict[str, int]] = {}
    for (group, verdict), count in sums.verdicts.items():
        groups.setdefault(group, {})[verdict] = count
    judged: dict[str, str] = {}
    for cell, runs in sums.cells.items():
        if cell.group in controls:
            name = f"{cell.group}: {cell.fault or cell.preset}"
            passed = runs.detected_count > 0 or judged.get(name) == "passed"
            judged[name] = "passed" if passed else "not convicted"
    ours = {name: counts for name, counts in groups.items() if name not in controls}
    run_count = sum(sum(counts.values()) for counts in ours.values())
    notes = [f"a positive control failed, {name}" for name, result in judged.items() if result != "passed"]
    unknown = sum(counts.get(Verdict.UNKNOWN.name, 0) for counts in groups.values())
    notes += [f"{unknown} runs did not complete: {'; '.join(sums.errors[:ERRORS_SHOWN])}"] if unknown else []
    possible = {
        fault for group, cell in plan.parts if group.name not in controls for fault in injected_faults_of(cell.scenario)
    }
    missing = sorted(possible - sums.reached.keys())
    notes += [f"never reached: {', '.join(missing)}"] if missing and run_count >= SOON else []
    verdicts = [Verdict[name] for counts in ours.values() for name in counts]
    return Summary(
        verdict=worst([*verdicts, *([Verdict.UNKNOWN] if notes else [])]),
        result_hash=sums.result_hash(),
        run_count=sums.run_count,
        task_count=len(plan),
        group_counts=groups,
        injected_faults=dict(sorted(sums.injected_faults.items())),
        reached=dict(sorted(sums.reached.items())),
        case_count=len({(cell.key, cell.watches_steps) for _, cell in plan.parts}),
        step_count=sums.step_count,
        event_count=sums.event_count,
        coverage=_coverage(sums.crash_points),
        controls=judged,
        detections=tuple(
            Detection(signature=signature, task=plan[found.task], seed=found.seed, sentence=found.sentence)
            for signature, found in sums.signatures.items()
        ),
        notes=tuple(notes),
    )


def _coverage(points: Mapping[CrashPoint, int]) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for point, count in points.items():
        key = point.step, " ".join(filter(None, (point.injected_fault, point.model, point.disk)))
        counts[key] = counts.get(key, 0) + count
    return dict(sorted(counts.items()))
