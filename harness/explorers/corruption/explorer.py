"""The damage explorer: damages the files of a table in many ways, and classifies what a reader makes of each."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import cut_short
from tornproof.harness.explorers.corruption.catalogue import damages_of, is_sampled, listed
from tornproof.harness.explorers.corruption.controls import (
    failed_controls,
    failed_controls_of_crafted,
    failed_controls_of_injectors,
    failed_controls_of_kinds,
    failed_controls_of_parts,
    failed_controls_of_reads,
    failed_controls_of_served,
    failed_controls_of_values,
)
from tornproof.harness.explorers.corruption.judge import Judge
from tornproof.harness.explorers.corruption.pairs import choose_pairs, pair_tasks
from tornproof.harness.explorers.corruption.plan import AGAIN, BITS_IN_BYTE, CRAFTED, LISTED_KINDS, Kind, Task, split
from tornproof.harness.explorers.corruption.report import PHASE, Plan, Run, phase_of
from tornproof.harness.explorers.corruption.tally import Tally
from tornproof.harness.parallel import workers
from tornproof.harness.parallel.tasks import Exploration
from tornproof.harness.parallel.workers import Worker
from tornproof.impl.layout.parquet import DATA_FILE

TASK_SIZE = 256
"""How many damages of the smallest weight are a task of a worker."""
RECHECKS_MAX = 100
KINDS_PART = 16
"""For all kinds but flips and lengths together, the maximum of damages is divided by this."""
WRITTEN_COST_MAX = 500
"""For what a writer could have made, which is listed one by one."""
WEIGHT_BYTES = 4096
"""Judging a damage takes about as long as decoding the metadata of its file: so many bytes count as one damage."""
CONTROLS_COST = 4 * TASK_SIZE
"""They take about as long as a few tasks of a small table."""


def plan(judge: Judge, damages_max: int | None = None) -> list[Task]:
    """Return all damage to try, in order, without the pairs; of more than `damages_max` an even sample."""
    kinds = plan_kinds(judge)
    # Of those that are judged again only a few are listed; of those that a writer makes, few more for most tables.
    thinned = {
        group: iter(_within(judge, [task for task in kinds if _group(task.kind) is group], cost_max))
        for group, cost_max in (
            (_Group.FEW, None),
            (_Group.SERVED, damages_max and damages_max // KINDS_PART),
            (_Group.WRITTEN, damages_max and max(WRITTEN_COST_MAX, damages_max // KINDS_PART)),
            (_Group.MANY, damages_max and damages_max // KINDS_PART),
        )
    }
    return [*plan_bits_and_lengths(judge, damages_max), *(next(thinned[_group(task.kind)]) for task in kinds)]


class _Group(enum.Enum):
    """Kinds that are thinned together."""

    FEW = enum.auto()
    SERVED = enum.auto()
    WRITTEN = enum.auto()
    MANY = enum.auto()


def _group(kind: Kind) -> _Group:
    if kind in AGAIN:
        return _Group.SERVED if kind is Kind.SERVED else _Group.FEW
    return _Group.WRITTEN if kind in CRAFTED or kind is Kind.FILTER_BIT else _Group.MANY


def plan_bits_and_lengths(judge: Judge, damages_max: int | None = None) -> list[Task]:
    """Return all flips and cuts to try, those of `_txn` and `_pm` first.

    Where they are more than `damages_max`, only every n-th bit and length, n odd, of data.parquet; also of `_txn` and
    `_pm` where these alone are more than half of it.
    """
    metadata: list[Task] = []
    data: list[Task] = []
    for file in judge.regions:
        stops = {Kind.FLIP: judge.size_bytes(file) * BITS_IN_BYTE, Kind.CUT: judge.size_bytes(file)}
        tasks = [Task(file=file, kind=kind, start=0, stop=stop) for kind, stop in stops.items()]
        (data if file.endswith(DATA_FILE) else metadata).extend(tasks)
    if damages_max is None:
        return [*metadata, *data]
    metadata = _within(judge, metadata, max(damages_max // 2, damages_max - _cost(judge, data)))
    return [*metadata, *_within(judge, data, damages_max - _cost(judge, metadata))]


def plan_kinds(judge: Judge) -> list[Task]:
    """Return all other damage to try, kind by kind, without the pairs."""
    tasks = []
    for kind in LISTED_KINDS:
        for file in judge.files(kind):
            count = len(listed(judge, kind, file))
            if count:
                tasks.append(Task(file=file, kind=kind, start=0, stop=count))
    return tasks


def _within(judge: Judge, tasks: list[Task], cost_max: int | None) -> list[Task]:
    """Return the tasks, or where they cost too much, tasks that try every n-th of their damages.

    n is odd, so that flips go through all eight bits of a byte.
    """
    cost = _cost(judge, tasks)
    if cost_max is None or cost <= cost_max:
        return tasks
    step = -(-cost // max(1, cost_max)) | 1
    return [replace(task, step=step) for task in tasks]


def _cost(judge: Judge, tasks: Iterable[Task]) -> int:
    return sum(task.size * _weight(judge.of(task.kind), task.file) for task in tasks)


def _weight(judge: Judge, file: str) -> int:
    directory, _, name = file.partition("/")
    size_bytes = judge.size_bytes(file)
    if name == DATA_FILE:
        size_bytes = judge.partitions[directory].metadata.generation.position.fixed.parquet_footer_length
    return max(1, size_bytes // WEIGHT_BYTES)


def damage_exploration(damages_max: int | None, pairs_max: int) -> Exploration:
    """Plan, try what is planned piece by piece, and then pairs of the flips that were not rejected."""
    (planned,) = yield [workers.Task(run=_plan_in_worker, arguments=(damages_max,), cost=0)]
    if planned is None:
        return cut_short(PHASE)
    run = Run(plan=planned)
    controls = workers.Task(run=_try_controls, cost=CONTROLS_COST, begins_first=True)
    pieces = _pieces(planned)
    run.failed_controls, *results = yield [controls, *_tasks(pieces, planned.weights)]
    run.add(pieces, results)
    if not run.left:
        run.pairs = choose_pairs(run.tally.different, run.tally.harmless, pairs_max)
        pairs = list(pair_tasks(run.pairs.pairs, TASK_SIZE))
        run.add(pairs, (yield _tasks(pairs, planned.weights)))
    return phase_of(run)


def _tasks(pieces: Sequence[Task], weights: dict[str, int]) -> list[workers.Task]:
    return [
        workers.Task(run=_judge_in_worker, arguments=(piece,), cost=TASK_SIZE + piece.size * weights[piece.file])
        for piece in pieces
    ]


def _pieces(plan: Plan) -> list[Task]:
    """Cut tasks into pieces of about the same cost; in some of them one damage is judged a second time."""
    pieces = [piece for task in plan.tasks for piece in split(task, -(-TASK_SIZE // plan.weights[task.file]))]
    every = -(-len(pieces) // RECHECKS_MAX)
    return [replace(piece, is_rechecked=number % every == 0) for number, piece in enumerate(pieces)]


def judge_task(judge: Judge, task: Task) -> Tally:
    """Judge all damages of a task, and if it `is_rechecked`, the middle one a second time by the whole table."""
    tally = Tally()
    rechecked_number = task.size // 2 if task.is_rechecked else None
    damages = damages_of(judge, task)
    judge = judge.of(task.kind)
    judge.reached.clear()
    for number, damage in enumerate(damages):
        tally.tried_by_kind[task.kind] += 1
        try:
            outcome, field_name = judge.judge(damage)
            if number == rechecked_number:
                tally.rechecked_count += 1
                again = judge.judge_whole(damage)
                if again is not outcome:
                    tally.disagreements.append(f"{damage}: {outcome.value} by its part, {again.value} by the whole")
        except Exception as error:
            # An exception of the checker itself makes the phase UNKNOWN, with the damage in its note.
            tally.disagreements.append(f"{damage}: {type(error).__name__}: {error}")
            continue
        tally.count(damage, field_name, outcome, judge.reason)
    tally.reached.update(judge.reached)
    return tally


def _judge_of(worker: Worker) -> Judge:
    return Judge(worker.question.image, worker.question.path)


def _plan_in_worker(worker: Worker, damages_max: int | None) -> Plan:
    judge = worker.once(_judge_of)
    tasks = plan(judge, damages_max)
    return Plan(
        tasks=tuple(tasks),
        sizes={file: judge.size_bytes(file) for file in judge.regions},
        # Growing a table may rename its directories.
        weights={
            file: _weight(each, file)
            for each in (judge.of_every_type, judge.of_server, judge.grown, judge)
            if each
            for file in each.damaged_files
        },
        sampled=frozenset(
            (task.kind, task.file)
            for task in tasks
            if task.step > 1 or (task.kind in LISTED_KINDS and is_sampled(judge, task.kind, task.file))
        ),
        has_partitions=bool(judge.partitions),
        older_count=len(judge.grown.older) if judge.grown is not None else None,
        no_past=judge.no_past,
    )


def _try_controls(worker: Worker) -> list[str]:
    judge = worker.once(_judge_of)
    if not judge.partitions:
        return []
    return [
        *failed_controls(judge),
        *failed_controls_of_parts(judge),
        *failed_controls_of_kinds(judge),
        *failed_controls_of_crafted(judge),
        *failed_controls_of_reads(judge),
        *failed_controls_of_values(judge),
        *failed_controls_of_served(judge),
        *failed_controls_of_injectors(),
        *_unplanned(judge),
    ]


def _unplanned(judge: Judge) -> Iterator[str]:
    """Yield in words the files of which a plan without a limit leaves bits or lengths out."""
    planned = Counter[tuple[str, Kind]]()
    for task in plan_bits_and_lengths(judge):
        planned[task.file, task.kind] += task.size
    for file, content in judge.contents.items():
        if (planned[file, Kind.FLIP], planned[file, Kind.CUT]) != (len(content) * BITS_IN_BYTE, len(content)):
            yield f"not every bit and length of {file} is planned"


def _judge_in_worker(worker: Worker, task: Task) -> Tally | None:
    if not worker.has_time():
        return None
    # Damage elsewhere leaves most pages and footers of data.parquet as they are.
    with nullcontext() if task.file.endswith(DATA_FILE) else remembered_decoding():
        tally = judge_task(worker.once(_judge_of), task)
    worker.report_progress(tally.tried, task.size)
    return tally
