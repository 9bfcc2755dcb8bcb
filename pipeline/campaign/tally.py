"""The sums of a campaign's results: of parts in tasks of Spark, or of all of them in one process.

This is the only place where results are summed: the summary of a campaign and its page are made of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.campaign.behaviours import Behaviours
from tornproof.pipeline.campaign.result_files import RESULT_NAMES, ResultFile, read_results
from tornproof.pipeline.campaign.spec import CampaignError
from tornproof.pipeline.campaign.tasks import DIGEST_BYTES, KEY, RESULT_SCHEMA

NAMES_MAX = 10_000
"""The most names of a kind that are counted separately; a campaign has far fewer."""
PROBLEMS_MAX = 20
OTHERS = "others"
CELL = tuple(field.name for field in KEY[:3])
_OUTCOME = (*CELL, "verdict", "property", "part", "kind")
_CRASH = ("injected_fault", "model", "step", "disk")
_SEPARATOR = "\x1f"
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


class Cell(NamedTuple):
    """What seeds of a group are run on."""

    group: str
    scenario: str
    preset: str
    fault: str


class CrashPoint(NamedTuple):
    """Whether a run is one of a control, the step before which its fault was injected, and what was left then."""

    is_control: bool
    injected_fault: str
    model: str
    step: str
    disk: str


@dataclass(slots=True, kw_only=True)
class CellRuns:
    """The runs of a cell; `first_number` is the number, from 1, of the first one that is INVALID."""

    run_count: int = 0
    detected_count: int = 0
    first_seed: int | None = None
    first_number: int | None = None
    step_count: int = 0
    step_count_max: int = 0

    def add(self, later: Self) -> None:
        """Add the runs after these."""
        if self.first_seed is None and later.first_number is not None:
            self.first_seed, self.first_number = later.first_seed, self.run_count + later.first_number
        self.run_count += later.run_count
        self.detected_count += later.detected_count
        self.step_count += later.step_count
        self.step_count_max = max(self.step_count_max, later.step_count_max)


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

    def new_seeds(self, cell: tuple[str, ...], seeds: range) -> np.ndarray[Any, np.dtype[np.bool_]]:
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
    part = _Part()
    for file in files:
        try:
            rows = read_results(file)
        except CampaignError as error:
            if not keeps_going:
                raise
            whole.problem_count += 1
            whole.problems += [str(error)] if len(whole.problems) < PROBLEMS_MAX else []
            continue
        part.add(file, rows, is_control=controls(file.group), seen=seen)
        if part.task_count == PART_TASKS or part.row_count >= PART_ROWS:
            whole.add(part.tally())
            part = _Part()
    whole.add(part.tally())
    return whole


@dataclass(slots=True)
class _Part:
    """The sums of a few tasks, with the digests of each run's outcome and behaviour."""

    sums: Tally = field(default_factory=Tally)
    task_count: int = 0
    row_count: int = 0
    _outcomes: list[np.ndarray[Any, Any]] = field(default_factory=list)
    _behaviours: list[np.ndarray[Any, Any]] = field(default_factory=list)
    _is_odd: list[np.ndarray[Any, Any]] = field(default_factory=list)
    _counted_count: int = 0

    def add(self, file: ResultFile, rows: pa.Table, *, is_control: bool, seen: Seen) -> None:
        """Add the results of a task, which has one cell, and seeds that follow each other."""
        sums, group = self.sums, file.group
        cell = Cell(group, *(rows.column(name)[0].as_py() for name in CELL))
        self.task_count += 1
        self.row_count += len(rows)
        sums.task_counts[group] += 1
        verdicts = Counter(dict(_counts(rows, ("verdict",))))
        for (verdict,), count in verdicts.items():
            sums.verdicts[group, verdict] += count
        for values, count in _counts(rows, _CRASH):
            sums.crash_points[CrashPoint(is_control, *values)] += count
        sums.event_count += pc.sum(rows.column("event_count")).as_py()
        sums.digests += _digest_of_rows(group, rows)
        invalid = rows.filter(pc.equal(rows.column("verdict"), Verdict.INVALID.name))
        sums.cells.setdefault(cell, CellRuns()).add(_cell_runs(rows, invalid))
        if len(sums.errors) < PROBLEMS_MAX:
            wrong = rows.filter(pc.not_equal(rows.column("error"), "")).slice(0, PROBLEMS_MAX)
            errors = zip(wrong.column("seed").to_pylist(), wrong.column("error").to_pylist(), strict=True)
            sums.errors += [f"{cell.scenario}, {cell.preset}, seed {seed}: {error}" for seed, error in errors]
        if is_control:
            return
        for point in pc.value_counts(_flat(rows.column("reached"))).to_pylist():
            sums.reached[point["values"]] += point["counts"]
        self._add_signatures(file, cell, invalid)
        self._add_behaviours(group, rows, seen)

    def _add_signatures(self, file: ResultFile, cell: Cell, invalid: pa.Table) -> None:
        for values, count in _counts(invalid, Signature._fields) if len(invalid) else ():
            signature = Signature(*values)
            if known := self.sums.signatures.get(signature):
                known.run_count += count
                continue
            is_one = pc.and_(*(pc.equal(invalid.column(name), getattr(signature, name)) for name in ("part", "kind")))
            is_one = pc.and_(is_one, pc.equal(invalid.column("property"), signature.property))
            first = invalid.select(["seed", "sentence"]).filter(is_one).slice(0, 1).to_pylist()[0]
            self.sums.signatures[signature] = Detected(task=file.number, cell=cell, run_count=count, **first)

    def _add_behaviours(self, group: str, rows: pa.Table, seen: Seen) -> None:
        first = rows.column("seed")[0].as_py()
        seeds = range(first, first + len(rows))
        is_new = seen.new_seeds(tuple(rows.column(name)[0].as_py() for name in CELL), seeds)
        self.sums.group_starts.setdefault(group, self._counted_count)
        self._counted_count += int(is_new.sum())
        outcome = [rows.column(name) for name in _OUTCOME]
        crash = [rows.column(name) for name in _CRASH]
        reached = pc.binary_join(rows.column("reached"), _SEPARATOR)
        self._outcomes.append(_digests_of(outcome)[is_new])
        self._behaviours.append(_digests_of([*outcome, *crash, reached])[is_new])
        # Whether a seed is odd is independent of its random choices.
        self._is_odd.append((np.arange(len(seeds)) + first % 2)[is_new] % 2 == 1)

    def tally(self) -> Tally:
        """Return the sums."""
        if self._is_odd:
            is_odd = np.concatenate(self._is_odd)
            self.sums.outcomes = Behaviours.of(np.concatenate(self._outcomes), is_odd)
            self.sums.behaviours = Behaviours.of(np.concatenate(self._behaviours), is_odd)
        return self.sums


def _cell_runs(rows: pa.Table, invalid: pa.Table) -> CellRuns:
    steps = rows.column("step_count")
    runs = CellRuns(run_count=len(rows), detected_count=len(invalid), step_count=pc.sum(steps).as_py())
    runs.step_count_max = pc.max(steps).as_py()
    if len(invalid):
        runs.first_seed = invalid.column("seed")[0].as_py()
        runs.first_number = runs.first_seed - rows.column("seed")[0].as_py() + 1
    return runs


def _counts(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield the values of some columns that come together, in the order of their first rows, and how many rows."""
    counted = pa.TableGroupBy(rows.select(list(names)), list(names), use_threads=False).aggregate([([], "count_all")])
    columns = [counted.column(name).to_pylist() for name in (*names, "count_all")]
    for *values, count in zip(*columns, strict=True):
        yield tuple(values), count


def _digests_of(columns: Sequence[pa.ChunkedArray]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return a digest of the texts of each row."""
    joined = pc.binary_join_element_wise(*columns, _SEPARATOR).combine_chunks().dictionary_encode()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0)
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in joined.dictionary.to_pylist()]
    of_texts = np.frombuffer(b"".join(digests), np.uint64)
    found: np.ndarray[Any, np.dtype[np.uint64]] = of_texts[np.asarray(joined.indices)]
    return found


def _digest_of_rows(group: str, rows: pa.Table) -> bytes:
    """Return a digest of rows: of each column the lengths of its values, if they differ, and the values."""
    digest = hashlib.blake2b(msgspec.json.encode([group, len(rows)]), digest_size=DIGEST_BYTES)
    for name in RESULT_NAMES:
        digest.update(name.encode())
        for content in _contents(rows.column(name)):
            digest.update(content)
    return digest.digest()


def _contents(column: pa.ChunkedArray) -> Iterator[bytes]:
    array = column.combine_chunks()
    if pa.types.is_list(array.type):
        yield pc.list_value_length(array).to_numpy(zero_copy_only=False).astype("<i4").tobytes()
        yield from _contents(pa.chunked_array([array.flatten()]))
    elif pa.types.is_string(array.type):
        yield pc.binary_length(array).to_numpy(zero_copy_only=False).astype("<i4").tobytes()
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        if len(array) and array.buffers()[2] is not None:
            yield array.buffers()[2][int(offsets[0]) : int(offsets[-1])].to_pybytes()
    else:
        yield array.cast(pa.int64()).to_numpy(zero_copy_only=False).astype("<i8").tobytes()


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().flatten()


assert {*RESULT_NAMES} == {*RESULT_SCHEMA.names}
