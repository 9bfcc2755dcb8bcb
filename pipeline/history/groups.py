"""Many histories in one dataset, distinguished by key columns, each checked by itself in a job on Spark."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.recorded import NAMES
from tornproof.harness.checkers.snapshot_isolation import Judgement, judge, unknown
from tornproof.pipeline.history.check import Terms, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HISTORY = "history"
EVENTS_MAX = 8_000_000
"""A history among many is checked in the memory of one worker, some 250 bytes per event."""
TOO_LARGE = "has more than {:,} events: check it alone, without key columns"
JUDGEMENT_TYPES = "history string, judgement binary"


def judge_histories(
    frame: DataFrame, keys: Sequence[str], *, terms: Terms | None = None, events_max: int = EVENTS_MAX
) -> dict[str, Judgement]:
    """Return the judgement on each history of a frame of events, by its keys as a JSON object, in their order."""
    judge_some = functools.partial(_judge_sorted, terms or Terms(), events_max)
    judged = by_history(frame, keys).repartition(HISTORY).sortWithinPartitions(HISTORY)
    rows = judged.mapInArrow(judge_some, JUDGEMENT_TYPES).toArrow()
    found = zip(rows.column(HISTORY).to_pylist(), rows.column("judgement").to_pylist(), strict=True)
    return {history: msgspec.json.decode(content, type=Judgement) for history, content in sorted(found)}


def by_history(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return events with one column `history` instead of the keys."""
    from pyspark.sql import functions

    history = functions.to_json(functions.struct(*[functions.col(f"`{key}`") for key in keys]))
    return frame.select(history.alias(HISTORY), *NAMES)


def _judge_sorted(terms: Terms, events_max: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check consecutive histories, each of which may span several batches."""
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
