"""The check of a dataset of events: its histories, the verdict on each, and SQL as a second check if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from tornproof.harness.checkers.snapshot_isolation import Judgement, unknown
from tornproof.harness.common.verdict import Verdict
from tornproof.impl.errors import UsageError
from tornproof.pipeline.files import Location, location_of
from tornproof.pipeline.history.check import SLICE_EVENTS, Terms, check_files
from tornproof.pipeline.history.events import (
    UnreadableEventsError,
    common_type,
    event_files,
    events_metadata,
    key_columns,
    plan_slices,
)
from tornproof.pipeline.history.frame import events_frame
from tornproof.pipeline.history.groups import (
    HISTORIES_SHOWN_MAX,
    HISTORY,
    JUDGEMENT_TYPES,
    Judged,
    by_history,
    is_taken,
    judged_frame,
    sum_up,
)
from tornproof.pipeline.history.sql import ANSWER, Answer, answer_of, answers_frame
from tornproof.pipeline.spark.session import innermost_message
from tornproof.pipeline.spark.tasks import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONLY = "{}"
"""The name of the one history of a dataset without keys: no key, as a JSON object."""
_DIFFERENCES = "history string, difference string, count long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Files of events below some paths, and the columns that distinguish their histories, with their types.

    `below` has by file the columns in the names of its directories.
    """

    paths: tuple[Location, ...]
    files: tuple[Location, ...]
    keys: Mapping[str, pa.DataType]
    below: Mapping[Location, Mapping[str, str | None]]
    event_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """On how many histories SQL differs from the checker, with how on the first, or why SQL has no answer."""

    disagreements: dict[str, str] = field(default_factory=dict)
    count: int = 0
    failure: str = ""

    @property
    def agrees(self) -> bool:
        """Whether SQL says the same of all histories."""
        return not self.count and not self.failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The sums of the judgements on all histories, and how SQL compares if it was asked."""

    judged: Judged
    sql: Comparison | None = None

    @property
    def judgements(self) -> dict[str, Judgement]:
        """The judgements on the worst histories, or on all if they are few."""
        return self.judged.shown

    @property
    def verdict(self) -> Verdict:
        """The verdict on all; UNKNOWN if SQL differs or has no answer."""
        return self.judged.verdict if self.sql is None or self.sql.agrees else Verdict.UNKNOWN

    @property
    def counts(self) -> dict[str, int]:
        """Number of anomalies of each kind."""
        return dict(self.judged.counts)

    @property
    def denominators(self) -> dict[str, int]:
        """How much was examined."""
        return dict(self.judged.denominators)


def open_dataset(paths: Sequence[Location | Path | str], *, keys: Sequence[str] | None = None) -> Dataset:
    """Find the files of events below some paths; raises UnreadableEventsError.

    By default the keys are all columns that events do not have, and those in names of directories.
    """
    found = [location_of(path).absolute() for path in paths]
    files = {file: events_metadata(file) for file in event_files(found)}
    there, below = key_columns(files, found)
    for key in keys or ():
        if key not in there:
            raise UnreadableEventsError(f"{paths[0]}: has no column {key} beside those of events")
    return Dataset(
        paths=tuple(map(location_of, paths)),
        files=tuple(files),
        keys={key: common_type(key, there[key]) for key in (there if keys is None else keys)},
        below=below,
        event_count=sum(metadata.num_rows for metadata in files.values()),
    )


def check_dataset(
    spark: SparkSession,
    dataset: Dataset,
    *,
    terms: Terms,
    with_sql: bool = False,
    scratch: Location | Path | None = None,
    out: Location | Path | None = None,
) -> Report:
    """Check each history of a dataset, and compare with SQL if wanted; a job that fails makes it UNKNOWN.

    Where only SQL fails, the sums of the checker stay.

    Tasks write the judgements on all histories to `out`; raises UsageError if there is something already.
    """
    target = None if out is None else location_of(out).absolute()
    if target is not None and is_taken(target):
        raise UsageError(f"{out}: is there already; judgements go to a new directory")
    try:
        return _report(spark, dataset, terms, with_sql, scratch, target)
    except Exception as error:
        return Report(judged=Judged.of([(ONLY, unknown(f"the job failed: {_cause_of(error)}", dataset.event_count))]))


def _cause_of(error: Exception) -> str:
    return f"{type(error).__name__}: {innermost_message(error)}"


def _report(
    spark: SparkSession,
    dataset: Dataset,
    terms: Terms,
    with_sql: bool,
    scratch: Location | Path | None,
    out: Location | None,
) -> Report:
    slices, _ = plan_slices(dataset.files, SLICE_EVENTS)
    events = events_frame(spark, slices, dataset.keys, dataset.below)
    if dataset.keys:
        judged = judged_frame(events, list(dataset.keys), terms=terms)
    else:
        judgement = check_files(spark, dataset.files, terms=terms, scratch=scratch).judgement
        judged = spark.createDataFrame([(ONLY, msgspec.json.encode(judgement))], JUDGEMENT_TYPES)
    if not with_sql:
        return Report(judged=sum_up(judged, out))
    judged = judged.cache()
    try:
        sums = sum_up(judged, out)
        return Report(judged=sums, sql=_compared(judged, by_history(events, list(dataset.keys)), terms))
    finally:
        judged.unpersist()


def _compared(judged: DataFrame, histories: DataFrame, terms: Terms) -> Comparison:
    """Return how SQL compares; it fails as a whole, whichever history makes it fail."""
    try:
        with answers_frame(histories, excused=terms.excused, seen_survives=terms.seen_survives) as answers:
            both = judged.join(answers, HISTORY, "full_outer").select(HISTORY, "judgement", ANSWER)
            rows = both.mapInArrow(_differing, _DIFFERENCES).collect()
    except Exception as error:
        return Comparison(failure=_cause_of(error))
    first = sorted((row.history, row.difference) for row in rows if row.history is not None)[:HISTORIES_SHOWN_MAX]
    return Comparison(disagreements=dict(first), count=sum(row["count"] for row in rows))


def _differing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the first histories of a task on which they differ, and the number of all."""
    begin_task()
    found: list[tuple[str, str]] = []
    count = 0
    for batch in batches:
        for history, judgement, answer in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            said = difference(
                None if judgement is None else msgspec.json.decode(judgement, type=Judgement),
                None if answer is None else answer_of(msgspec.json.decode(answer)),
            )
            if said:
                count += 1
                found += [(history, said)] if len(found) < HISTORIES_SHOWN_MAX else []
    rows = [{"history": history, "difference": said, "count": 0} for history, said in found]
    schema = pa.schema([("history", pa.string()), ("difference", pa.string()), ("count", pa.int64())])
    yield pa.RecordBatch.from_pylist([*rows, {"history": None, "difference": None, "count": count}], schema)


def difference(judgement: Judgement | None, answer: Answer | None) -> str:
    """Return how the checker and SQL differ on a history, or ""."""
    if judgement is None or answer is None:
        return f"is not known to {'the checker' if judgement is None else 'SQL'}"
    for what, ours, theirs in (
        ("verdict", judgement.verdict.name, answer.verdict),
        ("anomalies", judgement.counts, answer.counts),
        ("counts", {key: judgement.denominators.get(key) for key in answer.denominators}, answer.denominators),
    ):
        if ours != theirs:
            return f"{what}: {ours} by the checker, {theirs} by SQL"
    return ""
