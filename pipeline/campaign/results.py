"""The results of a campaign, read from the files of its tasks: while they arrive, and as a whole."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.verdict import Finding, Verdict, worst
from tornproof.harness.explorers.random.random_run import injected_faults_of
from tornproof.harness.mutation.seeded import SeededRuns
from tornproof.pipeline.campaign.spec import CampaignError, Spec, all_groups
from tornproof.pipeline.campaign.tasks import DIGEST_BYTES, RESULT_SCHEMA, RESULTS, Task

ERRORS_SHOWN = 10
SOON = 500
"""With this many runs, a campaign must have injected every possible fault."""


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
    """The result files of a plan that exist so far; each is reported once."""

    def __init__(self, tasks: Sequence[Task], out: Path) -> None:
        """Start with no file seen."""
        self.run_count = 0
        self.known: set[Signature] = set()
        self._out = out
        self._waiting = {task.path(out, RESULTS): task for task in tasks}

    @property
    def missing(self) -> tuple[Task, ...]:
        """The tasks without results."""
        return tuple(self._waiting.values())

    def new(self, controls: Collection[str]) -> Iterator[Detection]:
        """Read new files, and yield the first run of each new signature."""
        for path in [path for path in _files(self._out) if path in self._waiting]:
            task = self._waiting.pop(path)
            self.run_count += task.run_count
            if task.group in controls:
                continue
            for detection in _detections(task, _read(path, [*Signature._fields, "seed", "sentence", "verdict"])):
                if detection.signature not in self.known:
                    self.known.add(detection.signature)
                    yield detection


def control_names(spec: Spec) -> frozenset[str]:
    """Return the names of the control groups."""
    return frozenset(group.name for group in all_groups(spec) if group.control)


def summarise(spec: Spec, tasks: Sequence[Task], out: Path) -> Summary:
    """Read all results in the order of the plan; raises CampaignError for a missing or damaged file."""
    controls = control_names(spec)
    tally = _Tally(controls)
    for task in tasks:
        tally.add(task, _read(task.path(out, RESULTS), RESULT_SCHEMA.names))
    judged = {
        f"{group}: {subject}": "passed" if count else "not convicted"
        for (group, subject), count in tally.detections.items()
        if group in controls
    }
    ours = {name: counts for name, counts in tally.groups.items() if name not in controls}
    notes = [f"a positive control failed, {name}" for name, result in judged.items() if result != "passed"]
    unknown = sum(counts[Verdict.UNKNOWN.name] for counts in tally.groups.values())
    notes += [f"{unknown} runs did not complete: {'; '.join(tally.errors)}"] if unknown else []
    possible = {
        injected_fault
        for task in tasks
        if task.group not in controls
        for injected_fault in injected_faults_of(task.cell.scenario)
    }
    missing = sorted(possible - tally.reached.keys())
    notes += [f"never reached: {', '.join(missing)}"] if missing and _total(ours) >= SOON else []
    verdicts = [Verdict[name] for counts in ours.values() for name, count in counts.items() if count]
    return Summary(
        verdict=worst([*verdicts, *([Verdict.UNKNOWN] if notes else [])]),
        result_hash=tally.hash.hexdigest(),
        run_count=_total(tally.groups),
        task_count=len(tasks),
        group_counts=tally.groups,
        injected_faults={
            injected_fault: tally.injected_faults[injected_fault] for injected_fault in sorted(tally.injected_faults)
        },
        reached=dict(sorted(tally.reached.items())),
        case_count=len({(task.cell.key, task.cell.watches_steps) for task in tasks}),
        step_count=tally.step_count,
        event_count=tally.event_count,
        coverage=dict(sorted(tally.coverage.items())),
        controls=judged,
        detections=tuple(tally.first.values()),
        notes=tuple(notes),
    )


@dataclass(slots=True)
class _Tally:
    """Running totals; the digest covers the rows one after the other.

    `reached` and `first` leave out the controls.
    """

    controls: Collection[str]
    hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=DIGEST_BYTES))
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    injected_faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    coverage: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[Signature, Detection] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    detections: Counter[tuple[str, str]] = field(default_factory=Counter)
    step_count: int = 0
    event_count: int = 0

    def add(self, task: Task, rows: pa.Table) -> None:
        """Add the rows of a task."""
        for row in rows.to_pylist():
            self.hash.update(msgspec.json.encode([task.group, row]))
            self.groups.setdefault(task.group, Counter())[row["verdict"]] += 1
            fault, model = row["injected_fault"], row["model"]
            self.injected_faults[f"{fault} ({model})" if model else fault] += 1
            self.reached.update(row["reached"] if task.group not in self.controls else ())
            self.coverage[row["step"], " ".join(filter(None, (fault, model, row["disk"])))] += 1
            self.step_count += row["step_count"]
            self.event_count += row["event_count"]
            if row["error"] and len(self.errors) < ERRORS_SHOWN:
                self.errors.append(f"{row['scenario']}, {row['preset']}, seed {row['seed']}: {row['error']}")
        subject = task.group, task.cell.fault or task.cell.preset
        self.detections[subject] += 0
        for detection in _detections(task, rows):
            self.detections[subject] += 1
            if task.group not in self.controls:
                self.first.setdefault(detection.signature, detection)


def _total(groups: Mapping[str, Mapping[str, int]]) -> int:
    return sum(sum(counts.values()) for counts in groups.values())


def _detections(task: Task, rows: pa.Table) -> Iterator[Detection]:
    for row in rows.to_pylist():
        if row["verdict"] == Verdict.INVALID.name:
            signature = Signature(*(row[name] for name in Signature._fields))
            yield Detection(signature=signature, task=task, seed=row["seed"], sentence=row["sentence"])


def _files(out: Path) -> list[Path]:
    return sorted((out / RESULTS).glob("group=*/task-*.parquet"))


def _read(path: Path, columns: Sequence[str]) -> pa.Table:
    try:
        return pq.ParquetFile(path).read(columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise CampaignError(f"{path}: not the results of a task: {error}") from error
