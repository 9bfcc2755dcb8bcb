"""The sums of a campaign's results: of parts in tasks of Spark, or of all of them in one process.

This is the only place where results are summed: the summary of a campaign and its page are made of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tornproof.harness.common.campaign_sums import Cell, CellRuns
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.campaign.behaviours import Behaviours
from tornproof.pipeline.campaign.result_files import GROUP, Hashes, ResultFile, Results, read_results
from tornproof.pipeline.campaign.spec import CampaignError
from tornproof.pipeline.campaign.tasks import DIGEST_BYTES, KEY

NAMES_MAX = 10_000
"""The most names of a kind that are counted separately; a campaign has far fewer."""
PROBLEMS_MAX = 20
OTHERS = "others"
CELL = tuple(field.name for field in KEY[:3])
_OUTCOME = (*CELL, "verdict", "property", "part", "kind")
_CRASH = ("injected_fault", "model", "step", "disk")
Name = TypeVar("Name")


class Signature(NamedTuple):
    """Identifies the defect that a run shows: runs with the same signature count as one finding."""

    preset: str
    fault: str
    property: str
    part: str
    kind: str

    def digest(self) -> str:
        """Return a short hash, the same in every campaign."""
        return hashlib.blake2b(msgspec.json.encode(list(self)), digest_size=6).hexdigest()


class CrashPoint(NamedTuple):
    """Whether a run is one of a control, the step before which its fault was injected, and what was left then."""

    is_control: bool
    injected_fault: str
    model: str
    step: str
    disk: str


@dataclass(slots=True, kw_only=True)
class Detected:
    """The first run of a signature, with the number of its task, and how many there are."""

    task: int
    cell: Cell
    seed: int
    sentence: str
    run_count: int


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums of results in the order of the plan; `digests` has one of the rows of each task.

    Points reached, signatures, behaviours and outcomes are those of groups that are not controls. An outcome is a
    scenario with preset and fault, and the verdict with what was broken; a behaviour is an outcome with its crash and
    the points that the run reached. `group_starts` are the numbers of the runs at which groups begin.
    """

    task_counts: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    crash_points: Counter[CrashPoint] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    cells: dict[Cell, CellRuns] = field(default_factory=dict)
    signatures: dict[Signature, Detected] = field(default_factory=dict)
    behaviours: Behaviours = field(default_factory=Behaviours.none)
    outcomes: Behaviours = field(default_factory=Behaviours.none)
    group_starts: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0
    event_count: int = 0
    digests: bytes = b""

    @property
    def run_count(self) -> int:
        """Number of runs, including controls."""
        return self.verdicts.total()

    @property
    def step_count(self) -> int:
        """Number of steps of all runs."""
        return sum(runs.step_count for runs in self.cells.values())

    @property
    def injected_faults(self) -> Counter[str]:
        """Number of runs by the fault with its model."""
        counts: Counter[str] = Counter()
        for point, count in self.crash_points.items():
            counts[f"{point.injected_fault} ({point.model})" if point.model else point.injected_fault] += count
        return counts

    def result_hash(self) -> str:
        """Return the hash of all rows in the order of the plan."""
        return hashlib.blake2b(self.digests, digest_size=DIGEST_BYTES).hexdigest()

    def add(self, later: Self) -> None:
        """Add the results of the tasks after these."""
        self.task_counts.update(later.task_counts)
        self.verdicts.update(later.verdicts)
        others = CrashPoint(False, OTHERS, OTHERS, OTHERS, "")
        add_counts(self.crash_points, later.crash_points, lambda point: others._replace(is_control=point.is_control))
        add_counts(self.reached, later.reached, lambda _: OTHERS)
        for cell, runs in later.cells.items():
            self.cells.setdefault(cell, CellRuns()).add(runs)
        for signature, detected in later.signatures.items():
            if known := self.signatures.get(signature):
                known.run_count += detected.run_count
            elif len(self.signatures) < NAMES_MAX:
                self.signatures[signature] = detected
        for group, start in later.group_starts.items():
            self.group_starts.setdefault(group, self.behaviours.run_count + start)
        self.behaviours.add(later.behaviours)
        self.outcomes.add(later.outcomes)
        self.errors = [*self.errors, *later.errors][:PROBLEMS_MAX]
        self.problems = [*self.problems, *later.problems][:PROBLEMS_MAX]
        self.problem_count += later.problem_count
        self.event_count += later.event_count
        self.digests += later.digests


def add_counts(counts: Counter[Name], later: Counter[Name], otherwise: Callable[[Name], Name]) -> None:
    """Add counts by name, and those of further names to `otherwise` where there are too many."""
    for name, count in later.items():
        counts[name if name in counts or len(counts) < NAMES_MAX else otherwise(name)] += count


@dataclass(slots=True)
class Seen:
    """Seeds of cells already counted: a cell in two groups has the same runs in both."""

    ranges: dict[tuple[str, ...], list[range]] = field(default_factory=dict)

    def new_seeds(self, cell: tuple[str, ...], seeds: range) -> npt.NDArray[np.bool_]:
        """Return which of the seeds were not passed before."""
        known = self.ranges.setdefault(cell, [])
        is_new = np.ones(len(seeds), np.bool_)
        for each in known:
            first, stop = max(each.start, seeds.start), min(each.stop, seeds.stop)
            is_new[max(0, first - seeds.start) : max(0, stop - seeds.start)] = False
        if known and known[-1].stop == seeds.start:
            known[-1] = range(known[-1].start, seeds.stop)
        else:
            known.append(seeds)
        return is_new


PART_TASKS, PART_ROWS = 512, 200_000
"""Digests of behaviours are kept of so many tasks or runs before they are sorted."""


def tally_of(
    files: Iterable[ResultFile], controls: Callable[[str], bool], seen: Seen, *, keeps_going: bool = False
) -> Tally:
    """Return the sums of the results of tasks, in their order; `controls` says whether a group is one.

    Raises CampaignError for a file that cannot be read, unless it `keeps_going`: then that is one of the problems.
    """
    whole = Tally()
    part = _Part(controls, seen)

    def on_error(error: CampaignError) -> None:
        if not keeps_going:
            raise error
        whole.problem_count += 1
        whole.problems += [str(error)] if len(whole.problems) < PROBLEMS_MAX else []

    for results in read_results(files, on_error):
        part.add(results)
        if part.task_count >= PART_TASKS or part.row_count >= PART_ROWS:
            whole.add(part.tally())
            part = _Part(controls, seen)
    whole.add(part.tally())
    return whole


@dataclass(slots=True)
class _Part:
    """The sums of a few tasks, with the hashes of each run's outcome and behaviour."""

    controls: Callable[[str], bool]
    seen: Seen
    sums: Tally = field(default_factory=Tally)
    task_count: int = 0
    row_count: int = 0
    _outcomes: list[Hashes] = field(default_factory=list)
    _behaviours: list[Hashes] = field(default_factory=list)
    _is_odd: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    _counted_count: int = 0

    def add(self, results: Results) -> None:
        """Add the results of tasks."""
        sums = self.sums
        cells = [Cell(file.group, *(results.text(name, rows.start) for name in CELL)) for file, rows in results.tasks()]
        self.task_count += len(cells)
        self.row_count += results.row_count
        sums.task_counts.update(cell.group for cell in cells)
        for (group, verdict), _, count in results.groups((GROUP, "verdict")):
            sums.verdicts[group, verdict] += count
        for (group, *values), _, count in results.groups((GROUP, *_CRASH)):
            sums.crash_points[CrashPoint(self.controls(group), *values)] += count
        sums.event_count += int(results.numbers["event_count"].sum())
        sums.digests += b"".join(results.digests())
        for cell, runs in zip(cells, _runs_of_cells(results), strict=True):
            sums.cells.setdefault(cell, CellRuns()).add(runs)
        errors = {value for value in results.texts["error"].values if value}
        for row in results.rows_with("error", errors)[: PROBLEMS_MAX - len(sums.errors)].tolist() if errors else ():
            scenario, preset, error = (results.text(name, row) for name in ("scenario", "preset", "error"))
            sums.errors.append(f"{scenario}, {preset}, seed {results.seeds[row]}: {error}")
        ours = {group for group in results.texts[GROUP].values if not self.controls(group)}
        if ours:
            is_ours = np.zeros(results.row_count, np.bool_)
            is_ours[results.rows_with(GROUP, ours)] = True
            sums.reached.update(dict(results.reached.counts(np.repeat(is_ours, results.reached_counts))))
            self._add_signatures(results, is_ours)
            self._add_behaviours(results, cells, is_ours)

    def _add_signatures(self, results: Results, is_ours: npt.NDArray[np.bool_]) -> None:
        invalid = results.rows_with("verdict", {Verdict.INVALID.name})
        for values, row, count in results.groups(Signature._fields, invalid[is_ours[invalid]]):
            signature = Signature(*values)
            if known := self.sums.signatures.get(signature):
                known.run_count += count
                continue
            file = results.file_of(row)
            self.sums.signatures[signature] = Detected(
                task=file.number,
                cell=Cell(file.group, *(results.text(name, row) for name in CELL)),
                seed=int(results.seeds[row]),
                sentence=results.text("sentence", row),
                run_count=count,
            )

    def _add_behaviours(self, results: Results, cells: Sequence[Cell], is_ours: npt.NDArray[np.bool_]) -> None:
        is_new = is_ours.copy()
        for cell, (_, rows) in zip(cells, results.tasks(), strict=True):
            if is_ours[rows.start]:
                seeds = range(int(results.seeds[rows.start]), int(results.seeds[rows.stop - 1]) + 1)
                is_new[rows] = self.seen.new_seeds(cell[1:], seeds)
                self.sums.group_starts.setdefault(cell.group, self._counted_count)
                self._counted_count += int(is_new[rows].sum())
        outcomes = results.mixed(_OUTCOME)
        # The points that a run reached are a set, so the sum of their hashes tells sets apart.
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(results.reached.hashes(), dtype=np.uint64)])
        reached = sums[results.reached_edges[1:]] - sums[results.reached_edges[:-1]]
        behaviours = outcomes + results.mixed(_CRASH, len(_OUTCOME)) + reached
        self._outcomes.append(outcomes[is_new])
        self._behaviours.append(behaviours[is_new])
        # Whether a seed is odd is independent of its random choices.
        self._is_odd.append(results.seeds[is_new] % 2 == 1)

    def tally(self) -> Tally:
        """Return the sums."""
        if self._is_odd:
            is_odd = np.concatenate(self._is_odd)
            self.sums.outcomes = Behaviours.of(np.concatenate(self._outcomes), is_odd)
            self.sums.behaviours = Behaviours.of(np.concatenate(self._behaviours), is_odd)
        return self.sums


def _runs_of_cells(results: Results) -> Iterator[CellRuns]:
    """Yield the runs of each task."""
    steps, firsts = results.numbers["step_count"], results.edges[:-1]
    invalid = results.rows_with("verdict", {Verdict.INVALID.name})
    places = np.searchsorted(invalid, results.edges).tolist()
    sums, largest = (reduce.reduceat(steps, firsts).tolist() for reduce in (np.add, np.maximum))
    for number, (_, rows) in enumerate(results.tasks()):
        begin, end = places[number : number + 2]
        runs = CellRuns(
            run_count=rows.stop - rows.start,
            detected_count=end - begin,
            step_count=sums[number],
            step_count_max=largest[number],
        )
        if begin < end:
            row = int(invalid[begin])
            runs.first_seed, runs.first_number = int(results.seeds[row]), row - rows.start + 1
        yield runs
