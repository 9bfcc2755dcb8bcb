"""Summing up a campaign's results on two slots of Spark: rows a second, and the memory of the driver by number of runs.

Results are synthetic: rows of 200 real runs again and again, with seeds of their own, in tasks of 20,000 runs; and once
in tasks of 200 runs, as a spec has by default, where opening files takes most of the time. Each size is a process of
its own, so that a peak is that of its size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.results import tally
from tornproof.pipeline.campaign.spec import Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import RESULTS, Task, complete_task, plan_of
from tornproof.pipeline.files import location_of
from tornproof.pipeline.spark.session import spark_session

SLOTS = 2
REAL_RUNS = 200
LARGE_TASK, SMALL_TASK = 20_000, 200
CASES = ((1_000, LARGE_TASK), (100_000, LARGE_TASK), (10_000_000, LARGE_TASK), (1_000_000, SMALL_TASK))
GOAL_PER_SECOND = 1_000_000
ROUNDS = 3
WRITE, MEASURE = "write", "measure"


def spec_of(run_count: int, seeds_a_task: int) -> Spec:
    group = Group(
        name="runs",
        scenarios=("append-and-power-cut",),
        presets=("specification",),
        seeds=Seeds(count=run_count),
        seeds_a_task=seeds_a_task,
    )
    return Spec(format=1, name="benchmark", groups=(group,))


def real_rows(folder: Path) -> pa.Table:
    """Return the results of some runs, a few of which violate a property."""
    task = plan_of(spec_of(REAL_RUNS, REAL_RUNS))[0]
    complete_task(task, location_of(folder))
    return pq.read_table(task.path(location_of(folder), RESULTS).local, partitioning=None)


def write_task(rows: pa.Table, task: Task, out: Path) -> None:
    position = rows.schema.get_field_index("seed")
    seeds = pa.array(np.arange(task.first, task.stop))
    chosen = rows.take(pa.array(np.arange(task.run_count) % len(rows)))
    path = task.path(location_of(out), RESULTS).local
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(chosen.set_column(position, rows.schema.field(position), seeds), path, compression="zstd")


def peak_bytes_of(process: int) -> int:
    """Return the peak memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def java_of(process: int) -> int:
    """Return the process id of the Java that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return next(int(child) for child in children if b"java" in Path(f"/proc/{child}/cmdline").read_bytes())


def write(folder: Path, run_count: int, seeds_a_task: int) -> None:
    """Write the results of a campaign, in a process of its own, so that its memory is not the driver's."""
    rows = pq.read_table(folder / "rows.parquet")
    for task in plan_of(spec_of(run_count, seeds_a_task)):
        write_task(rows, task, folder / f"{run_count}-{seeds_a_task}")


def measure(folder: Path, run_count: int, seeds_a_task: int) -> None:
    """Print what one size takes, as JSON."""
    spec = spec_of(run_count, seeds_a_task)
    plan, out = plan_of(spec), folder / f"{run_count}-{seeds_a_task}"
    seconds = []
    with spark_session(f"local[{SLOTS}]", settings={"spark.driver.memory": "1g", "spark.ui.enabled": "false"}) as spark:
        for _ in range(ROUNDS):
            start = time.perf_counter()
            sums = tally(spark, spec, plan, location_of(out))
            seconds.append(time.perf_counter() - start)
            assert sums.run_count == run_count
        process = os.getpid()
        peaks = {"python_bytes": peak_bytes_of(process), "java_bytes": peak_bytes_of(java_of(process))}
    print(json.dumps({"first_seconds": seconds[0], "seconds": min(seconds), "hash": sums.result_hash(), **peaks}))


def main() -> int:
    campaign_spec.__dict__["CONTROL_GROUPS"] = ()
    if len(sys.argv) > 1:
        step, folder, *size = sys.argv[1:]
        (write if step == WRITE else measure)(Path(folder), *map(int, size))
        return 0
    grid = Grid(title=f"The sums of a campaign on local[{SLOTS}], goal {GOAL_PER_SECOND:,} rows/s")
    for title in ("runs", "in tasks of", "rows/s, first", "rows/s, best", "driver's Python, MB", "Java, MB"):
        grid.add_column(title, justify="right")
    best = 0.0
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(real_rows(Path(folder, "real")), Path(folder, "rows.parquet"))
        for run_count, seeds_a_task in CASES:
            said = ""
            for step in (WRITE, MEASURE):
                command = [sys.executable, __file__, step, folder, str(run_count), str(seeds_a_task)]
                said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
            came = json.loads(said)
            rates = [run_count / came[name] for name in ("first_seconds", "seconds")]
            best = max(best, rates[1])
            sizes = [f"{came[name] / 1e6:,.0f}" for name in ("python_bytes", "java_bytes")]
            grid.add_row(f"{run_count:,}", f"{seeds_a_task:,}", *(f"{rate:,.0f}" for rate in rates), *sizes)
    Console(width=110).print(grid)
    return 0 if best >= GOAL_PER_SECOND else 1


if __name__ == "__main__":
    sys.exit(main())
