"""A campaign on Spark: executors run its tasks and write their results to a shared directory.

The directory is the state: a task is done when its results are there. So an interrupted campaign resumes, and progress
is what has arrived in the directory: one on a file system or an object store that driver and executors share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.pipeline.campaign.results import Arrivals, Detection, Summary, control_names, summarise, tally
from tornproof.pipeline.campaign.spec import CampaignError, Spec, digest_of
from tornproof.pipeline.campaign.tally import Tally
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS, Plan, Task, complete_task, plan_of
from tornproof.pipeline.files import Location, location_of
from tornproof.pipeline.spark.progress import watched
from tornproof.pipeline.spark.session import innermost_message, slot_count
from tornproof.pipeline.spark.tasks import begin_task
from tornproof.pipeline.whole_file import is_partial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
SPEC_FILE = "campaign.json"
FORMAT = 2
"""Of the directory: its spec, results and summary."""
OnProgress: TypeAlias = Callable[[int, int, int], None]
"""Called with the runs done, the runs in total, and the number of different findings so far."""
OnDetection: TypeAlias = Callable[[Detection], None]
Work: TypeAlias = Callable[[Task, Location], None]
_DONE = "tasks long"


def run_campaign(
    spark: SparkSession | None,
    spec: Spec,
    out: Location | Path | str,
    *,
    on_progress: OnProgress = lambda done, total, found: None,
    on_detection: OnDetection = lambda detection: None,
    on_sums: Callable[[Tally], None] = lambda sums: None,
    partition_count: int | None = None,
    work: Work = complete_task,
) -> Summary:
    """Run the missing tasks of a campaign, and return the summary of all; raises CampaignError, StorageError.

    `on_detection` is called with the first run of each signature, without those of controls, and `on_sums` with what
    the summary is made of. Tasks are spread over `partition_count` partitions, by default one per task. A campaign that
    is complete needs no Spark.
    """
    directory, plan = location_of(out), plan_of(spec)
    claim(spec, directory)
    slots = 1 if spark is None else slot_count(spark)
    # Twice as many as run, because a poll may come late.
    arrivals = Arrivals(plan, directory, range_count=partition_count, ranges_at_a_time=2 * slots)
    controls = control_names(spec)

    def report_progress(*_: int) -> None:
        for detection in arrivals.new(controls):
            on_detection(detection)
        on_progress(arrivals.run_count, plan.run_count, len(arrivals.known))

    report_progress()
    if len(arrivals.missing):
        assert spark is not None
        _clear_partials(directory)
        run = partial(_work_on, plan, arrivals.missing, directory.absolute(), work)
        count = len(arrivals.missing)
        _run_tasks(spark, run, count, min(count, partition_count or count), report_progress)
        report_progress()
    sums = _in_words("summing up the results", lambda: tally(spark, spec, plan, directory))
    on_sums(sums)
    return summarise(spec, plan, sums)


def claim(spec: Spec, out: Location | Path | str) -> None:
    """Claim the directory for this campaign; raises CampaignError if it belongs to another one, and StorageError."""
    directory = location_of(out)
    path, wanted = directory / SPEC_FILE, {"format": FORMAT, "name": spec.name, "digest": digest_of(spec)}
    if not path.exists():
        if directory.is_file():
            raise CampaignError(f"{directory}: cannot be the directory of a campaign: it is a file")
        # An object store has no empty directory, and says here whether the bucket is there.
        found = directory.files_below() if directory.exists() or not directory.is_local else []
        if any(not is_partial(file.name, SPEC_FILE) for file, _ in found):
            raise CampaignError(f"{directory}: is not empty, and contains no campaign; choose another --out")
        path.write_bytes(msgspec.json.encode({**wanted, "spec": spec}))
    try:
        claimed = msgspec.json.decode(path.read_bytes())
    except ValueError as error:
        raise CampaignError(f"{path}: not the file of a campaign: {error}") from error
    if isinstance(claimed, dict) and claimed.get("format", FORMAT) != FORMAT:
        what = f"a campaign of format {claimed['format']}, and this release continues {FORMAT}"
        raise CampaignError(f"{directory}: contains {what}; choose another --out")
    if not isinstance(claimed, dict) or claimed.get("digest") != wanted["digest"]:
        raise CampaignError(
            f"{directory}: contains a campaign of another spec, or of other scenarios; choose another --out"
        )


def _run_tasks(
    spark: SparkSession,
    run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    count: int,
    partition_count: int,
    on_tasks: Callable[[int, int], None],
) -> None:
    done = spark.range(0, count, 1, partition_count).mapInArrow(run, _DONE).groupBy().sum("tasks")
    found = _in_words("a task of the campaign", lambda: watched(spark, done.collect, on_tasks))
    assert found[0][0] == count, f"Spark lost {count - found[0][0]} tasks"


def _in_words(what: str, action: Callable[[], T]) -> T:
    """Return what an action returns; raises CampaignError for what Spark raises."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return action()
    except (PySparkException, Py4JError) as error:
        raise CampaignError(f"{what} failed: {innermost_message(error)}") from error


def _work_on(
    plan: Plan,
    missing: npt.NDArray[np.int32],
    out: Location,
    work: Work,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Run the missing tasks whose indices come in batches, and yield how many are done."""
    begin_task()
    for batch in batches:
        for index in batch.column(0).to_pylist():
            work(plan[int(missing[index])], out)
        yield pa.record_batch({"tasks": pa.array([len(batch)], pa.int64())})


def _clear_partials(out: Location) -> None:
    """Remove partial files of killed workers; a worker that still runs loses its file, and writes it again."""
    for directory in (out / RESULTS, out / EVENTS):
        if not out.is_object_store and directory.exists():
            for file, _ in directory.files_below():
                if is_partial(file.name):
                    file.delete_file()
