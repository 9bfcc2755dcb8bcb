"""A campaign on Spark: executors run its tasks and write their results to a shared directory.

The directory is the state: a task is done when its results are there. So an interrupted campaign resumes, and progress
is what has arrived in the directory. On a cluster it must be on a file system that driver and executors share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pyarrow as pa

from tornproof.pipeline.campaign.results import Arrivals, Detection, Summary, control_names, summarise
from tornproof.pipeline.campaign.spec import CampaignError, Spec, digest_of
from tornproof.pipeline.campaign.tasks import EVENTS, RESULTS, Task, complete_task, plan_of
from tornproof.pipeline.spark.progress import watched
from tornproof.pipeline.spark.session import innermost_message
from tornproof.pipeline.whole_file import PARTIAL, whole_file

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

SPEC_FILE = "campaign.json"
FORMAT = 2
"""Of the directory: its spec, results and summary."""
OnProgress: TypeAlias = Callable[[int, int, int], None]
"""Called with the runs done, the runs in total, and the number of different findings so far."""
OnDetection: TypeAlias = Callable[[Detection], None]
Work: TypeAlias = Callable[[Task, Path], None]
_DONE = "task long, runs long"


def run_campaign(
    spark: SparkSession,
    spec: Spec,
    out: Path,
    *,
    on_progress: OnProgress = lambda done, total, found: None,
    on_detection: OnDetection = lambda detection: None,
    partition_count: int | None = None,
    work: Work = complete_task,
) -> Summary:
    """Run the missing tasks of a campaign, and return the summary of all; raises CampaignError.

    `on_detection` is called with the first run of each signature, without those of controls. Tasks are spread over
    `partition_count` partitions, by default one per task.
    """
    tasks = plan_of(spec)
    claim(spec, out)
    arrivals = Arrivals(tasks, out)
    controls = control_names(spec)
    total = sum(task.run_count for task in tasks)

    def report_progress(*_: int) -> None:
        for detection in arrivals.new(controls):
            on_detection(detection)
        on_progress(arrivals.run_count, total, len(arrivals.known))

    report_progress()
    if arrivals.missing:
        _clear_partials(out)
        _run_tasks(spark, arrivals.missing, out.absolute(), partition_count, work, report_progress)
        report_progress()
    return summarise(spec, tasks, out)


def claim(spec: Spec, out: Path) -> None:
    """Claim the directory for this campaign; raises CampaignError if it belongs to another one."""
    path, wanted = out / SPEC_FILE, {"format": FORMAT, "name": spec.name, "digest": digest_of(spec)}
    try:
        if not path.exists():
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                raise CampaignError(f"{out}: is not empty, and contains no campaign; choose another --out")
            with whole_file(path) as file:
                file.write(msgspec.json.encode({**wanted, "spec": spec}))
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise CampaignError(
            f"{error.filename or out}: cannot be the directory of a campaign: {error.strerror}"
        ) from error
    except ValueError as error:
        raise CampaignError(f"{path}: not the file of a campaign: {error}") from error
    if isinstance(found, dict) and found.get("format", FORMAT) != FORMAT:
        what = f"a campaign of format {found['format']}, and this release continues {FORMAT}"
        raise CampaignError(f"{out}: contains {what}; choose another --out")
    if not isinstance(found, dict) or found.get("digest") != wanted["digest"]:
        raise CampaignError(f"{out}: contains a campaign of another spec, or of other scenarios; choose another --out")


def _run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    out: Path,
    partition_count: int | None,
    work: Work,
    on_tasks: Callable[[int, int], None],
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    sent = spark.sparkContext.broadcast(tasks)
    run = partial(_work_on, sent, out, work)
    indices = spark.range(0, len(tasks), 1, partition_count or len(tasks))
    try:
        done = watched(spark, indices.mapInArrow(run, _DONE).collect, on_tasks)
    except (PySparkException, Py4JError) as error:
        raise CampaignError(f"a task of the campaign failed: {innermost_message(error)}") from error
    finally:
        sent.unpersist()
    lost = {task.number for task in tasks} - {row.task for row in done}
    assert not lost, f"Spark lost tasks {sorted(lost)}"


def _work_on(
    sent: Broadcast[Sequence[Task]], out: Path, work: Work, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the tasks whose indices come in batches, and yield which are done."""
    for batch in batches:
        for index in batch.column(0).to_pylist():
            task = sent.value[index]
            work(task, out)
            yield pa.record_batch({"task": pa.array([task.number]), "runs": pa.array([task.run_count])})


def _clear_partials(out: Path) -> None:
    """Remove partial files of killed workers; a worker that still runs loses its file, and its task runs again."""
    for kind in (RESULTS, EVENTS):
        for path in (out / kind).glob(f"group=*/.*{PARTIAL}"):
            path.unlink(missing_ok=True)
