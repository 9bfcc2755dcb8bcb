"""A campaign of 2,000 seeds on Spark's local[2], compared with the same tasks in two plain processes.

Both import the code once for each worker, run the same tasks in the same order, and write the same files. Starting the
session is measured separately, because it happens once, however long a campaign is.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.results import tally
from tornproof.pipeline.campaign.spec import Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import Task, complete_task, plan_of
from tornproof.pipeline.files import location_of
from tornproof.pipeline.spark.session import spark_session

WORKERS = 2
SEED_COUNT = 2_000
SEEDS_A_TASK = 100
GOAL = 1.15
ROUNDS = 3
SPEC = Spec(
    format=1,
    name="benchmark",
    groups=(
        Group(
            name="ours",
            scenarios=("many-partitions-and-power-cut",),
            seeds=Seeds(count=SEED_COUNT),
            seeds_a_task=SEEDS_A_TASK,
        ),
    ),
)


def in_processes(out: Path) -> str:
    """Run all tasks in a pool, and return the result hash."""
    tasks = plan_of(SPEC)
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.starmap(_complete, [(task, out) for task in tasks], chunksize=1)
    return tally(None, SPEC, tasks, location_of(out)).result_hash()


def _complete(task: Task, out: Path) -> None:
    complete_task(task, location_of(out))


def main() -> int:
    spark_seconds: list[float] = []
    process_seconds: list[float] = []
    hashes: set[str] = set()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, spark_session(f"local[{WORKERS}]") as spark:
        started = time.perf_counter() - begin
        for number in range(ROUNDS):
            begin = time.perf_counter()
            hashes.add(run_campaign(spark, SPEC, Path(folder, f"spark-{number}")).result_hash)
            spark_seconds.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            hashes.add(in_processes(Path(folder, f"processes-{number}")))
            process_seconds.append(time.perf_counter() - begin)
    assert len(hashes) == 1, "both must give the same results"
    ours, peer = statistics.median(spark_seconds), statistics.median(process_seconds)
    run_count = sum(task.run_count for task in plan_of(SPEC))
    grid = Grid(title=f"{run_count:,} runs in {len(plan_of(SPEC))} tasks, the median of {ROUNDS} rounds")
    for title in ("what", "seconds", "of the processes' time"):
        grid.add_column(title, justify="left" if title == "what" else "right")
    grid.add_row(f"{WORKERS} plain processes", f"{peer:.1f}", "1.00")
    grid.add_row(f"Spark, local[{WORKERS}], goal {GOAL}", f"{ours:.1f}", f"{ours / peer:.2f}")
    grid.add_row("the same and the start of the session", f"{ours + started:.1f}", f"{(ours + started) / peer:.2f}")
    Console().print(grid)
    return 0 if ours / peer <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
