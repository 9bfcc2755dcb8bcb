"""Many histories in one dataset, distinguished by key columns, each checked by itself in a job on Spark.

Tasks judge, write the judgements and sum them up; the driver gets the sums, and the worst judgements up to a limit.
"""

from __future__ import annotations

import heapq
import itertools
import pickle
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from typing import TYPE_CHECKING, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tornproof.harness.checkers.recorded import NAMES
from tornproof.harness.checkers.snapshot_isolation import Judgement, judge, unknown
from tornproof.harness.common.verdict import Verdict, worst
from tornproof.pipeline.files import Location
from tornproof.pipeline.history.check import Terms, reason_of
from tornproof.pipeline.spark.tasks import begin_task, folded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HISTORY = "history"
EVENTS_MAX = 8_000_000
"""A history among many is checked in the memory of one worker, some 250 bytes per event."""
TOO_LARGE = "has more than {:,} events: check it alone, without key columns"
HISTORIES_SHOWN_MAX = 1_000
"""So many histories are named, the worst first; all are counted, and written where they are asked for."""
UNFINISHED = "_unfinished"
"""The directory in a dataset of judgements that has its files until all are written; readers take it for hidden."""
PARTS = "part-*.parquet"
TIME_FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark cuts times to milliseconds by default, and different keys would be one history.

The difference to UTC is there because in autumn an hour of local time comes twice.
"""
JUDGEMENT_TYPES = "history string, judgement binary"
JUDGEMENT_SCHEMA = pa.schema(
    [
        (HISTORY, pa.string()),
        ("verdict", pa.string()),
        ("reason", pa.string()),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("denominators", pa.map_(pa.string(), pa.int64())),
        ("anomalies", pa.list_(pa.string())),
    ]
)
"""The dataset of judgements: a row for each history, its anomalies in words."""


@dataclass(slots=True, kw_only=True)
class Judged:
    """The sums of judgements, and the worst of them by history: INVALID, then UNKNOWN, each by name."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    denominators: Counter[str] = field(default_factory=Counter)
    shown: dict[str, Judgement] = field(default_factory=dict)

    @classmethod
    def of(cls, judgements: Iterable[tuple[str, Judgement]]) -> Self:
        """Return the sums of judgements."""
        found = cls()
        for history, judgement in judgements:
            found.verdicts[judgement.verdict] += 1
            found.counts.update(judgement.counts)
            found.denominators.update(judgement.denominators)
            found.shown[history] = judgement
            if len(found.shown) >= 2 * HISTORIES_SHOWN_MAX:
                found._keep_worst()
        found._keep_worst()
        return found

    def add(self, other: Self) -> Self:
        """Add the sums of other histories, and return all."""
        self.verdicts.update(other.verdicts)
        self.counts.update(other.counts)
        self.denominators.update(other.denominators)
        self.shown |= other.shown
        self._keep_worst()
        return self

    @property
    def verdict(self) -> Verdict:
        """The verdict on all."""
        return worst(self.verdicts)

    @property
    def history_count(self) -> int:
        """Number of histories."""
        return self.verdicts.total()

    def _keep_worst(self) -> None:
        kept = heapq.nsmallest(HISTORIES_SHOWN_MAX, self.shown, key=lambda name: (-self.shown[name].verdict, name))
        self.shown = {name: self.shown[name] for name in kept}


def judged_frame(
    frame: DataFrame, keys: Sequence[str], *, terms: Terms | None = None, events_max: int = EVENTS_MAX
) -> DataFrame:
    """Return the judgement on each history of a frame of events, by its keys as a JSON object."""
    judge_some = partial(_judge_sorted, terms or Terms(), events_max)
    judged = by_history(frame, keys).repartition(HISTORY).sortWithinPartitions(HISTORY)
    return judged.mapInArrow(judge_some, JUDGEMENT_TYPES)


def sum_up(judged: DataFrame, out: Location | None = None) -> Judged:
    """Return the sums of a frame of judgements, of which tasks write the files of a dataset to `out`."""
    found = Judged()
    with _written_whole(out) as written:
        for sums in folded(judged.mapInArrow(partial(_sum_some, written), "result binary")):
            found.add(sums)
    return found


def is_taken(out: Location) -> bool:
    """Return whether judgements cannot go to `out`: it is a file, or has files that are not those of a killed run."""
    if out.is_file():
        return True
    visible, is_unfinished = _files_of(out)
    return bool(visible) and not (is_unfinished and all(fnmatch(file.relative_to(out), PARTS) for file in visible))


@contextmanager
def _written_whole(out: Location | None) -> Iterator[Location | None]:
    """Yield a directory of which the files become those of `out`, which is not taken, when the block ends."""
    if out is None:
        yield None
        return
    for file in _files_of(out)[0]:
        # A run was killed while it moved them.
        file.delete_file()
    written = out / UNFINISHED / uuid.uuid4().hex
    yield written
    for file, _ in written.files_below():
        if fnmatch(file.name, PARTS):
            file.move_to(out / file.name)
    (out / UNFINISHED).delete_directory()


def _files_of(out: Location) -> tuple[list[Location], bool]:
    """Return the files below a directory, if it is there, without those of unfinished runs, and if there are some."""
    files = [file for file, _ in out.files_below()] if out.exists() else []
    visible = [file for file in files if not file.is_below(out / UNFINISHED)]
    return visible, len(visible) < len(files)


def _sum_some(out: Location | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    begin_task()
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    judgements = ((history, msgspec.json.decode(content, type=Judgement)) for history, content in rows)
    if out is None:
        sums = Judged.of(judgements)
    else:
        context = TaskContext.get()
        assert context is not None
        # Another attempt at this task has the same histories, and writes the same file.
        with (out / PARTS.replace("*", f"{context.partitionId():07}")).whole_file() as target:
            sums = Judged.of(_written(judgements, pq.ParquetWriter(target, JUDGEMENT_SCHEMA, compression="zstd")))
    yield pa.record_batch({"result": pa.array([pickle.dumps(sums)], pa.binary())})


def _written(judgements: Iterable[tuple[str, Judgement]], writer: pq.ParquetWriter) -> Iterator[tuple[str, Judgement]]:
    """Yield judgements after writing them, as many at a time as are named at most."""
    judgements = iter(judgements)
    with writer:
        while some := list(itertools.islice(judgements, HISTORIES_SHOWN_MAX)):
            rows = [
                {
                    HISTORY: history,
                    "verdict": judgement.verdict.name,
                    "reason": judgement.reason,
                    "counts": list(judgement.counts.items()),
                    "denominators": list(judgement.denominators.items()),
                    "anomalies": [anomaly.sentence for anomaly in judgement.anomalies],
                }
                for history, judgement in some
            ]
            writer.write_table(pa.Table.from_pylist(rows, JUDGEMENT_SCHEMA))
            yield from some


def by_history(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return events with one column `history` instead of the keys."""
    from pyspark.sql import functions

    # Spark takes names that differ in case alone for one, and none with a backtick, so that columns get numbers.
    numbers = {name: str(number) for number, name in enumerate(frame.columns)}
    history = name_by({key: numbers[key] for key in keys}).alias(HISTORY)
    events = (functions.col(f"`{numbers[name]}`").alias(name) for name in NAMES)
    return frame.toDF(*numbers.values()).select(history, *events)


def name_by(columns: Mapping[str, str]) -> Column:
    """Return the name of a history by its keys, each in a column, which differs if they do."""
    from pyspark.sql import functions

    keys = [functions.col(f"`{column}`").alias(key) for key, column in columns.items()]
    return functions.to_json(functions.struct(*keys), TIME_FORMATS)


def _judge_sorted(terms: Terms, events_max: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check consecutive histories, each of which may span several batches."""
    begin_task()
    for history, events, count in histories_of(batches, events_max):
        judgement = unknown(TOO_LARGE.format(events_max), count) if events is None else judge_one(events, terms)
        yield pa.record_batch({"history": [history], "judgement": [msgspec.json.encode(judgement)]})


def judge_one(events: pa.Table, terms: Terms) -> Judgement:
    """Check a history; an exception of the checker makes it UNKNOWN, and does not end the job."""
    try:
        return judge(events, excused=terms.excused, seen_survives=terms.seen_survives)
    except Exception as error:
        return unknown(reason_of(error), len(events))


def histories_of(batches: Iterable[pa.RecordBatch], events_max: int) -> Iterator[tuple[str, pa.Table | None, int]]:
    """Yield each history with its events, or None if there are too many, and their number."""
    current: str | None = None
    held: list[pa.RecordBatch] = []
    count = 0
    for run in _runs(batches):
        history = run.column(0)[0].as_py()
        if history != current:
            if current is not None:
                yield current, _table(held), count
            current, held, count = history, [], 0
        count += len(run)
        held.append(run)
        if count > events_max:
            held.clear()
    if current is not None:
        yield current, _table(held), count


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches, split where another history begins."""
    for batch in batches:
        start = 0
        for end in pc.run_end_encode(batch.column(0)).run_ends.to_pylist():
            yield batch.slice(start, end - start)
            start = end


def _table(held: list[pa.RecordBatch]) -> pa.Table | None:
    return pa.Table.from_batches(held).select(NAMES) if held else None
