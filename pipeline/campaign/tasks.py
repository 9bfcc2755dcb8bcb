"""A campaign's tasks: a few seconds of runs each, written as one file of results and one of events.

The files depend on the spec alone, so a task that is repeated, even concurrently, writes the same bytes. Each file
appears as a whole, the results last: if they exist, the task is complete.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.history import SCHEMA, to_arrow
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.seeded import Cell, SeededRun, run_seeds
from tornproof.impl.errors import FileMissingError
from tornproof.pipeline.campaign.spec import Group, Spec, all_groups, cells_of
from tornproof.pipeline.files import Location

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

    def path(self, out: Location, kind: str) -> Location:
        """Return the location of its results or events."""
        return out / kind / f"group={self.group}" / f"task-{self.number:07}.parquet"


class Plan(Sequence[Task]):
    """All tasks of a campaign, which are made when they are asked for: their number may be large."""

    def __init__(self, spec: Spec) -> None:
        """Divide the seeds of each cell of each group into tasks."""
        self._seed = spec.seed
        self._parts: list[tuple[Group, Cell]] = [
            (group, cell) for group in all_groups(spec) for cell in cells_of(group)
        ]
        counts = (-(-group.seeds.count // group.seeds_a_task) for group, _ in self._parts)
        self._starts = list(itertools.accumulate(counts, initial=0))

    @property
    def parts(self) -> Sequence[tuple[Group, Cell]]:
        """The cells of each group, in the order of their tasks."""
        return self._parts

    def bounds(self, part: int) -> tuple[int, int]:
        """Return the number of the first task of a part, and the one after its last."""
        return self._starts[part], self._starts[part + 1]

    @property
    def run_count(self) -> int:
        """Number of runs."""
        return sum(group.seeds.count for group, _ in self._parts)

    def __len__(self) -> int:
        """Return the number of tasks."""
        return self._starts[-1]

    @overload
    def __getitem__(self, number: int) -> Task: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Task, ...]: ...

    def __getitem__(self, number: int | slice) -> Task | tuple[Task, ...]:
        """Return the task of a number, or several."""
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(len(self))))
        index = range(len(self))[number]
        part = bisect.bisect_right(self._starts, index) - 1
        group, cell = self._parts[part]
        first = group.seeds.first + (index - self._starts[part]) * group.seeds_a_task
        return Task(
            number=index,
            group=group.name,
            cell=cell,
            campaign_seed=self._seed,
            first=first,
            stop=min(first + group.seeds_a_task, group.seeds.first + group.seeds.count),
        )


def plan_of(spec: Spec) -> Plan:
    """Return all tasks of a campaign."""
    return Plan(spec)


def complete_task(task: Task, out: Location) -> None:
    """Run a task, and write its files; raises StorageError."""
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


def _write(table: pa.Table, location: Location) -> None:
    """Write a file, once more if its temporary one is removed meanwhile; raises StorageError."""
    try:
        _write_once(table, location)
    except FileMissingError:
        # Another campaign in the directory, which begins or ends, takes it for that of a killed worker.
        _write_once(table, location)


def _write_once(table: pa.Table, location: Location) -> None:
    with location.whole_file() as file:
        pq.write_table(table.combine_chunks(), file, compression="zstd")
