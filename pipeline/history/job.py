"""The check of a dataset of events: its histories, the verdict on each, and SQL as a second check if wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tornproof.harness.checkers.recorded import NAMES
from tornproof.harness.checkers.snapshot_isolation import Judgement, unknown
from tornproof.harness.common.verdict import Verdict, worst
from tornproof.pipeline.history.check import Terms, check_files
from tornproof.pipeline.history.events import UnreadableEventsError, event_files, events_metadata, key_columns
from tornproof.pipeline.history.groups import by_history, judge_histories
from tornproof.pipeline.history.sql import Answer, ask_sql
from tornproof.pipeline.spark.session import innermost_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONLY = "{}"
"""The name of the one history of a dataset without keys: no key, as a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Files of events below some paths, and the columns that distinguish their histories."""

    paths: tuple[Path, ...]
    files: tuple[Path, ...]
    keys: tuple[str, ...]
    event_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The judgement on each history, and differences from SQL."""

    judgements: dict[str, Judgement]
    disagreements: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all; UNKNOWN if the two checkers differ."""
        found = worst(judgement.verdict for judgement in self.judgements.values())
        return Verdict.UNKNOWN if self.disagreements else found

    @property
    def counts(self) -> dict[str, int]:
        """Number of anomalies of each kind."""
        return _sum(judgement.counts for judgement in self.judgements.values())

    @property
    def denominators(self) -> dict[str, int]:
        """How much was examined."""
        return _sum(judgement.denominators for judgement in self.judgements.values())


def open_dataset(paths: Sequence[Path], *, keys: Sequence[str] | None = None) -> Dataset:
    """Find the files of events below some paths; raises UnreadableEventsError.

    By default the keys are all columns that events do not have, and those in names of directories.
    """
    files = {file: events_metadata(file) for file in event_files(paths)}
    there = key_columns(files, paths)
    for key in keys or ():
        if key not in there:
            raise UnreadableEventsError(f"{paths[0]}: has no column {key} beside those of events")
    chosen = there if keys is None else keys
    event_count = sum(metadata.num_rows for metadata in files.values())
    return Dataset(paths=tuple(paths), files=tuple(files), keys=tuple(chosen), event_count=event_count)


def check_dataset(
    spark: SparkSession, dataset: Dataset, *, terms: Terms, with_sql: bool = False, scratch: Path | None = None
) -> Report:
    """Check each history of a dataset, and compare with SQL if wanted; a job that fails makes it UNKNOWN."""
    try:
        judgements = _judgements(spark, dataset, terms, scratch)
        answers = _answers(spark, dataset, terms) if with_sql else {}
    except Exception as error:
        reason = f"the job failed: {type(error).__name__}: {innermost_message(error)}"
        return Report(judgements={ONLY: unknown(reason, dataset.event_count)})
    differ = (difference(judgements, answers, name) for name in sorted({*judgements, *answers})) if with_sql else ()
    return Report(judgements=judgements, disagreements={name: said for name, said in differ if said})


def difference(judgements: dict[str, Judgement], answers: dict[str, Answer], name: str) -> tuple[str, str]:
    """Return the name of a history and how the checker and SQL differ on it, or ""."""
    judgement, answer = judgements.get(name), answers.get(name)
    if judgement is None or answer is None:
        return name, f"is not known to {'the checker' if judgement is None else 'SQL'}"
    for what, ours, theirs in (
        ("verdict", judgement.verdict.name, answer.verdict),
        ("anomalies", judgement.counts, answer.counts),
        ("counts", {key: judgement.denominators.get(key) for key in answer.denominators}, answer.denominators),
    ):
        if ours != theirs:
            return name, f"{what}: {ours} by the checker, {theirs} by SQL"
    return name, ""


def events_frame(spark: SparkSession, dataset: Dataset) -> DataFrame:
    """Return the events of a dataset with their keys."""
    frames = [spark.read.parquet(str(path)).select(*NAMES, *dataset.keys) for path in dataset.paths]
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _judgements(spark: SparkSession, dataset: Dataset, terms: Terms, scratch: Path | None) -> dict[str, Judgement]:
    if dataset.keys:
        return judge_histories(events_frame(spark, dataset), dataset.keys, terms=terms)
    return {ONLY: check_files(spark, dataset.files, terms=terms, scratch=scratch).judgement}


def _answers(spark: SparkSession, dataset: Dataset, terms: Terms) -> dict[str, Answer]:
    events = by_history(events_frame(spark, dataset), dataset.keys)
    return ask_sql(events, excused=terms.excused, seen_survives=terms.seen_survives)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
