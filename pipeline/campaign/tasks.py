"""A campaign's tasks: a few seconds of runs each, written as one file of results and one of events.

The files depend on the spec alone, so a task that is repeated, even concurrently, writes the same bytes. Each file is
renamed into place when it is durable, the results last: if they exist, the task is complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.history import SCHEMA, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.seeded import Cell, SeededRun, run_seeds
from tornproof.pipeline.campaign.spec import Spec, all_groups, cells_of
from tornproof.pipeline.whole_file import whole_file

RESULTS, EVENTS = "results", "events"
KEY = (
    pa.field("scenario", pa.string(), nullable=False),
    pa.field("preset", pa.string(), nullable=False),
    pa.field("fault", pa.string(), nullable=False),
    pa.field("seed", pa.int64(), nullable=False),
)
"""The key of a run; its group is the name of the directory, as in Hive."""
_OF_A_RUN = {
    **dict.fromkeys(("verdict", "property", "part", "kind", "sentence"), pa.string()),
    **dict.fromkeys(("step_count", "turn_count"), pa.int64()),
    **dict.fromkeys(("injected_fault", "model", "step", "disk"), pa.string()),
    "is_seen_kept": pa.bool_(),
    "reached": pa.list_(pa.string()),
    "moves": pa.string(),
    "event_count": pa.int64(),
    **dict.fromkeys(("events_digest", "error"), pa.string()),
}
RESULT_SCHEMA = pa.schema([*KEY, *(pa.field(name, of, nullable=False) for name, of in _OF_A_RUN.items())])
EVENT_SCHEMA = pa.schema([*KEY, *SCHEMA])
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Seeds from `first` up to `stop` on one cell of a group; `number` is its index in the plan."""

    number: int
    group: str
    cell: Cell
    campaign_seed: int
    first: int
    stop: int

    @property
    def run_count(self) -> int:
        """Number of runs."""
        return self.stop - self.first

    def path(self, out: Path, kind: str) -> Path:
        """Return the path of its results or events."""
        return out / kind / f"group={self.group}" / f"task-{self.number:07}.parquet"


def plan_of(spec: Spec) -> tuple[Task, ...]:
    """Return all tasks of a campaign."""
    ranges = (
        (group, cell, first)
        for group in all_groups(spec)
        for cell in cells_of(group)
        for first in range(group.seeds.first, group.seeds.first + group.seeds.count, group.seeds_a_task)
    )
    return tuple(
        Task(
            number=number,
            group=group.name,
            cell=cell,
            campaign_seed=spec.seed,
            first=first,
            stop=min(first + group.seeds_a_task, group.seeds.first + group.seeds.count),
        )
        for number, (group, cell, first) in enumerate(ranges)
    )


def complete_task(task: Task, out: Path) -> None:
    """Run a task, and write its files; raises OSError."""
    runs = run_seeds(task.cell, task.campaign_seed, range(task.first, task.stop))
    histories = [to_arrow(run.events) for run in runs]
    _write(events_table(task.cell, runs, histories), task.path(out, EVENTS))
    _write(results_table(task.cell, runs, histories), task.path(out, RESULTS))


def results_table(cell: Cell, runs: Sequence[SeededRun], histories: Sequence[pa.Table]) -> pa.Table:
    """Return the runs of a cell as rows of `RESULT_SCHEMA`."""
    columns: dict[str, list[object]] = {name: [value] * len(runs) for name, value in _key(cell)}
    columns["verdict"] = [Verdict(run.verdict).name for run in runs]
    columns["turn_count"] = [run.transition_count for run in runs]
    columns["injected_fault"] = [run.injected_fault for run in runs]
    columns["reached"] = [list(run.reached) for run in runs]
    columns["event_count"] = [len(run.events) for run in runs]
    columns["events_digest"] = [_digest(history) for history in histories]
    for name in RESULT_SCHEMA.names:
        if name not in columns:
            columns[name] = [getattr(run, name) for run in runs]
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in RESULT_SCHEMA}, RESULT_SCHEMA)


def events_table(cell: Cell, runs: Sequence[SeededRun], histories: Sequence[pa.Table]) -> pa.Table:
    """Return the events of runs of a cell as rows of `EVENT_SCHEMA`."""
    events = pa.concat_tables([SCHEMA.empty_table(), *histories])
    seeds = [run.seed for run in runs for _ in run.events]
    key = [pa.array([value] * len(events), pa.string()) for _, value in _key(cell)]
    return pa.Table.from_arrays([*key, pa.array(seeds, pa.int64()), *events.columns], schema=EVENT_SCHEMA)


def _key(cell: Cell) -> Iterator[tuple[str, str]]:
    return zip((field.name for field in KEY), cell.key, strict=False)


def _digest(history: pa.Table) -> str:
    return hashlib.blake2b(msgspec.json.encode(history.to_pylist()), digest_size=DIGEST_BYTES).hexdigest()


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        pq.write_table(table.combine_chunks(), file, compression="zstd")
