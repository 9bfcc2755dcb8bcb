"""The check of one huge history as a job on Spark, in NumPy on workers that read the events themselves.

Moving columns through the JVM costs more than checking them, so workers read the history from Parquet, slice by slice,
in three passes: the first finds what slices must know of each other, the second what readers saw first, the third
checks. Memory is bounded by the largest slice, the writer's events, one read of each version, and a few events of each
client in each slice.
"""

from __future__ import annotations

import functools
import resource
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.checkers.attempts import read_writing
from tornproof.harness.checkers.ordering import by_process
from tornproof.harness.checkers.recorded import EVENT_SCHEMA, NAMES, Columns, MalformedHistoryError, read_columns
from tornproof.harness.checkers.sightings import merged, read_sightings, recorded_sightings
from tornproof.harness.checkers.slices import SCAN_SCHEMA, SHARED, ScatteredHistoryError, events_of, link, scan
from tornproof.harness.checkers.snapshot_isolation import (
    Judgement,
    Part,
    conclude,
    deaths,
    judge_readers,
    judge_writer,
    read_steps,
    unknown,
)
from tornproof.harness.checkers.timeline import Timeline, timeline_of
from tornproof.pipeline.history.events import Slice, event_files, plan_slices, read_slice

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast
    from pyspark.sql import DataFrame, SparkSession

SLICE_EVENTS = 1_000_000
"""Row groups are combined up to this many events; a larger row group is a slice of its own."""
SLICES_A_TASK = 4
"""Between two tasks a worker is idle for some 50 ms, a fifth of the time of a slice."""

Work: TypeAlias = Callable[[int], pa.Table]
RESULT_SCHEMA = pa.schema([("slice", pa.int64()), ("part", pa.binary()), ("reason", pa.string()), ("peak", pa.int64())])
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
    files: Sequence[Path],
    *,
    terms: Terms | None = None,
    slice_events: int = SLICE_EVENTS,
    scratch: Path | None = None,
) -> Checked:
    """Check the events of Parquet files, which all executors can read, as one history.

    Raises UnreadableEventsError if a file contains no events. If the events of a process are scattered over row groups
    they are sorted first, into files in a new directory in `scratch`; if those of a client still are, because two
    processes recorded it at the same time, slices cannot be checked and the verdict is UNKNOWN.
    """
    terms = terms or Terms()
    # Executors have another working directory.
    files = [file.absolute() for file in files]
    try:
        return check_slices(spark, files, terms=terms, slice_events=slice_events)
    except ScatteredHistoryError:
        pass
    with tempfile.TemporaryDirectory(prefix="tornproof-history-", dir=scratch) as directory:
        events = spark.read.parquet(*map(str, files))
        sorted_files = write_sorted(events, Path(directory))
        try:
            return check_slices(spark, sorted_files, terms=terms, slice_events=slice_events)
        except ScatteredHistoryError as error:
            event_count = plan_slices(sorted_files, slice_events)[1]
            return Checked(judgement=unknown(f"{error}, because several processes recorded it", event_count))


def write_sorted(events: DataFrame, directory: Path) -> list[Path]:
    """Write events sorted by process and sequence as Parquet files, and return these."""
    events.select(*NAMES).sort("process", "sequence").write.parquet(str(directory), mode="overwrite")
    return event_files([directory])


def check_slices(spark: SparkSession, files: Sequence[Path], *, terms: Terms, slice_events: int) -> Checked:
    """Check the events of files in place; raises ScatteredHistoryError if they must be sorted first."""
    slices, event_count = plan_slices(files, slice_events)
    scans = _run(spark, len(slices), functools.partial(_scan_slice, slices), SCAN_SCHEMA)
    try:
        for rejection in scans.filter(pc.equal(scans.column("role"), REJECTED)).column("details").to_pylist():
            raise MalformedHistoryError(rejection)
        before, shared = link(scans), events_of(scans, SHARED)
        writing = read_writing(shared)
        timeline = timeline_of(writing)
    except MalformedHistoryError as error:
        return Checked(judgement=unknown(str(error), event_count), slice_count=len(slices))
    seen = read_sightings(_all_sightings(spark, slices, timeline))
    broadcast = spark.sparkContext.broadcast(Known(timeline=timeline, seen=seen, deaths=deaths(shared), before=before))
    try:
        work = functools.partial(_judge_slice, slices, broadcast, terms)
        results = _run(spark, len(slices), work, RESULT_SCHEMA).to_pylist()
    finally:
        broadcast.unpersist()
    writer = judge_writer(writing, timeline, seen_survives=terms.seen_survives)
    reasons = sorted((result["slice"], result["reason"]) for result in results if result["reason"])
    parts = [msgspec.json.decode(result["part"], type=Part) for result in results if result["part"]]
    judgement = unknown(reasons[0][1], event_count) if reasons else conclude([writer, *parts])
    peak = max((result["peak"] for result in results), default=0)
    return Checked(judgement=judgement, slice_count=len(slices), worker_peak_bytes=peak)


def _all_sightings(spark: SparkSession, slices: Sequence[Slice], timeline: Timeline) -> pa.Table:
    """Return the sightings of all slices, merged on the workers: each slice may have one of every version."""
    if not slices:
        return EVENT_SCHEMA.empty_table()
    broadcast = spark.sparkContext.broadcast(timeline)
    try:
        work = functools.partial(_sightings_of_slice, slices, broadcast)
        return _numbers(spark, len(slices)).map(work).treeReduce(merged)
    finally:
        broadcast.unpersist()


def _sightings_of_slice(slices: Sequence[Slice], broadcast: Broadcast[Timeline], number: int) -> pa.Table:
    return recorded_sightings(read_columns(read_slice(slices[number])), broadcast.value)


def _run(spark: SparkSession, count: int, work: Work, schema: pa.Schema) -> pa.Table:
    """Return the concatenated results of `work` for each number below `count`."""
    if count == 0:
        return schema.empty_table()
    return pa.concat_tables(_numbers(spark, count).map(work).collect())


def _numbers(spark: SparkSession, count: int) -> RDD[int]:
    """Return the numbers below `count`, in tasks."""
    slots = spark.sparkContext.defaultParallelism
    return spark.sparkContext.parallelize(range(count), max(-(-count // SLICES_A_TASK), min(count, 2 * slots)))


def _scan_slice(slices: Sequence[Slice], number: int) -> pa.Table:
    try:
        return scan(read_slice(slices[number]), number)
    except Exception as error:
        row = {"slice": number, "role": REJECTED, "details": reason_of(error)}
        return pa.Table.from_pylist([row], SCAN_SCHEMA)


def reason_of(error: Exception) -> str:
    """Return the reason for UNKNOWN after an exception of the checker."""
    is_malformed = isinstance(error, MalformedHistoryError)
    return str(error) if is_malformed else f"the checker failed: {type(error).__name__}: {error}"


def _judge_slice(slices: Sequence[Slice], broadcast: Broadcast[Known], terms: Terms, number: int) -> pa.Table:
    part, reason = b"", ""
    try:
        part = msgspec.json.encode(judge_slice(read_slice(slices[number]), broadcast.value, number, terms))
    except Exception as error:
        reason = reason_of(error)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pa.table([[number], [part], [reason], [peak]], schema=RESULT_SCHEMA)


def judge_slice(own: pa.Table, known: Known, number: int, terms: Terms) -> Part:
    """Check the events of a slice; raises MalformedHistoryError."""
    before = [known.deaths, known.before[number]] if number in known.before else [known.deaths]
    columns = read_columns(own, known=pa.concat_tables(before))
    readings = read_steps(columns, by_process(columns))
    return judge_readers(
        columns, readings, known.timeline, known.seen, excused=terms.excused, seen_survives=terms.seen_survives
    )
