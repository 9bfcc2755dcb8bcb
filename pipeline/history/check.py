"""The check of one huge history as a job on Spark, in NumPy on workers that read the events themselves.

Moving columns through the JVM costs more than checking them, so workers read the history from Parquet, slice by slice,
in three passes: the first finds what slices must know of each other, the second what readers saw first, the third
checks. Memory is bounded by the largest slice, the writer's events, one read of each version, and a few events of each
client in each slice.
"""

from __future__ import annotations

import resource
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.attempts import read_writing
from tornproof.harness.checkers.ordering import by_process
from tornproof.harness.checkers.recorded import EVENT_SCHEMA, Columns, MalformedHistoryError, read_columns
from tornproof.harness.checkers.sightings import merged, read_sightings, recorded_sightings
from tornproof.harness.checkers.slices import SCAN_SCHEMA, SHARED, ScatteredHistoryError, events_of, link, scan
from tornproof.harness.checkers.snapshot_isolation import (
    Judgement,
    Part,
    conclude,
    deaths,
    judge,
    judge_readers,
    judge_writer,
    read_steps,
    unknown,
)
from tornproof.harness.checkers.timeline import Timeline, timeline_of
from tornproof.pipeline.files import Location, location_of
from tornproof.pipeline.history.events import Slice, UnreadableEventsError, plan_slices, read_slice
from tornproof.pipeline.history.frame import events_frame, write_sorted
from tornproof.pipeline.spark.session import slot_count
from tornproof.pipeline.spark.tasks import merge_each, run_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLICE_EVENTS = 1_000_000
"""Row groups are combined up to this many events; a larger row group is a slice of its own."""
SLICES_A_TASK = 16
"""Some three seconds of work: each task costs its start, its copy of the timeline, and one table that others merge."""

REJECTED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Exceptions to the rules, as in `judge`."""

    excused: tuple[str, ...] = ()
    seen_survives: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the check of every slice needs of the others.

    `seen` are the sightings of all slices by time, `before` the earlier events of the clients of each slice.
    """

    timeline: Timeline
    seen: Columns
    deaths: pa.Table
    before: dict[int, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The judgement on one huge history, the number of slices, and the peak memory of a worker."""

    judgement: Judgement
    slice_count: int = 0
    worker_peak_bytes: int = 0


def check_files(
    spark: SparkSession,
    files: Sequence[Location | Path],
    *,
    terms: Terms | None = None,
    slice_events: int = SLICE_EVENTS,
    scratch: Location | Path | None = None,
) -> Checked:
    """Check the events of Parquet files, which all executors can read, as one history.

    Raises UnreadableEventsError if a file contains no events. If the events of a process are scattered over row groups
    they are sorted first, into files in a new directory in `scratch`; if those of a client still are, because two
    processes recorded it at the same time, slices cannot be checked and the verdict is UNKNOWN.
    """
    terms = terms or Terms()
    # Executors have another working directory.
    found = [location_of(file).absolute() for file in files]
    try:
        return check_slices(spark, found, terms=terms, slice_events=slice_events)
    except ScatteredHistoryError:
        pass
    with _directory_in(scratch) as directory:
        sorted_files = write_sorted(events_frame(spark, plan_slices(found, slice_events)[0]), directory)
        try:
            return check_slices(spark, sorted_files, terms=terms, slice_events=slice_events)
        except ScatteredHistoryError as error:
            event_count = plan_slices(sorted_files, slice_events)[1]
            return Checked(judgement=unknown(f"{error}, because several processes recorded it", event_count))


@contextmanager
def _directory_in(scratch: Location | Path | None) -> Iterator[Location]:
    """Yield a new directory, and remove it with its files."""
    if scratch is None or location_of(scratch).is_local:
        where = None if scratch is None else location_of(scratch).local
        with tempfile.TemporaryDirectory(prefix="tornproof-history-", dir=where) as name:
            yield Location(name).absolute()
        return
    directory = location_of(scratch) / f"tornproof-history-{uuid.uuid4().hex}"
    try:
        yield directory
    finally:
        directory.delete_directory()


def check_slices(spark: SparkSession, files: Sequence[Location], *, terms: Terms, slice_events: int) -> Checked:
    """Check the events of files in place; raises ScatteredHistoryError if they must be sorted first."""
    slices, event_count = plan_slices(files, slice_events)
    if not slices:
        return Checked(judgement=judge(EVENT_SCHEMA.empty_table()))
    slots = slot_count(spark)
    # Whole rounds, so that no slot is idle while the last task runs.
    rounds = max(2, -(-len(slices) // (SLICES_A_TASK * slots)))
    task_count = min(len(slices), rounds * slots)
    found = run_each(spark, len(slices), partial(_scan_slice, slices), task_count=task_count)
    scans = pa.concat_tables([SCAN_SCHEMA.empty_table(), *found])
    try:
        for rejection in scans.filter(pc.equal(scans.column("role"), REJECTED)).column("details").to_pylist():
            raise MalformedHistoryError(rejection)
        before, shared = link(scans), events_of(scans, SHARED)
        writing = read_writing(shared)
        timeline = timeline_of(writing)
    except MalformedHistoryError as error:
        return Checked(judgement=unknown(str(error), event_count), slice_count=len(slices))
    # Merged on the workers, because each slice may have a sighting of every version.
    sighting = partial(_sightings_of_slice, slices, timeline)
    sightings = merge_each(spark, len(slices), sighting, merged, task_count=task_count)
    assert sightings is not None
    seen = read_sightings(sightings, timeline)
    known = Known(timeline=timeline, seen=seen, deaths=deaths(shared), before=before)
    results = run_each(spark, len(slices), partial(_judge_slice, slices, known, terms), task_count=task_count)
    writer = judge_writer(writing, timeline, seen_survives=terms.seen_survives)
    reasons = [result.reason for result in results if result.reason]
    parts = [result.part for result in results if result.part is not None]
    judgement = unknown(reasons[0], event_count) if reasons else conclude([writer, *parts])
    peak = max((result.peak_bytes for result in results), default=0)
    return Checked(judgement=judgement, slice_count=len(slices), worker_peak_bytes=peak)


def _sightings_of_slice(slices: Sequence[Slice], timeline: Timeline, number: int) -> pa.Table:
    return recorded_sightings(read_columns(read_slice(slices[number])), timeline)


def _scan_slice(slices: Sequence[Slice], number: int) -> pa.Table:
    try:
        return scan(read_slice(slices[number]), number)
    except Exception as error:
        row = {"slice": number, "role": REJECTED, "details": reason_of(error)}
        return pa.Table.from_pylist([row], SCAN_SCHEMA)


def reason_of(error: Exception) -> str:
    """Return the reason for UNKNOWN after an exception of the checker, which bad events are no failure of."""
    is_of_events = isinstance(error, MalformedHistoryError | UnreadableEventsError)
    return str(error) if is_of_events else f"the checker failed: {type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What was found in a slice, or the reason why nothing was, and the peak memory of the worker."""

    part: Part | None
    reason: str
    peak_bytes: int


def _judge_slice(slices: Sequence[Slice], known: Known, terms: Terms, number: int) -> _Result:
    part, reason = None, ""
    try:
        part = judge_slice(read_slice(slices[number]), known, number, terms)
    except Exception as error:
        reason = reason_of(error)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _Result(part=part, reason=reason, peak_bytes=peak_bytes)


def judge_slice(own: pa.Table, known: Known, number: int, terms: Terms) -> Part:
    """Check the events of a slice; raises MalformedHistoryError."""
    before = [known.deaths, known.before[number]] if number in known.before else [known.deaths]
    columns = read_columns(own, known=pa.concat_tables(before))
    readings = read_steps(columns, by_process(columns))
    return judge_readers(
        columns, readings, known.timeline, known.seen, excused=terms.excused, seen_survives=terms.seen_survives
    )
