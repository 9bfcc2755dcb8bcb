"""A stream of Spark over a table with a commit every 50 ms: each row once, and descriptors and memory that stay flat.

    python benchmarks/pipeline_stream.py [SECONDS] [--plot FILE.svg]

A process commits rows and purges; a streaming query takes them a second at a time, and is stopped and started again
from its checkpoint in the middle. Descriptors and memory are those of Spark's Java and of all its Python processes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from large_table import STORAGE
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.pipeline.datasource.source import register
from tornproof.pipeline.spark.session import spark_session

SECONDS = 600
COMMIT_SECONDS = 0.05
COMMIT_ROWS = 20
PURGE_COMMITS = 200
# Of event time, so that a partition of an hour has 3,600 commits.
COMMIT_MICROSECONDS = 1_000_000
SAMPLE_SECONDS = 10
GROWTH_MAX = 1.15
DESCRIPTORS_A_START = 3
"""What Spark 4.3 leaves open in Java each time that it starts the Python process of a query (docs/source.md)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of Spark have open and in memory, after Java has collected its garbage.

    How many Python processes there are changes with Spark's load, so the largest of each kind counts.
    """

    seconds: float
    python_descriptors: int
    java_descriptors: int
    python_mib: float
    java_mib: float
    query_starts: int


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.write:
        write(asked.write)
    else:
        compare(asked.seconds, asked.plot)


def compare(seconds: float, plot: Path | None) -> None:
    with tempfile.TemporaryDirectory() as name, spark_session("local[1]", name="benchmark") as session:
        register(session)
        folder = Path(name)
        columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
        create_table(STORAGE, str(folder / "table"), columns, timestamp="ts", partition_by=PartitionBy.HOUR)
        writer = subprocess.Popen([sys.executable, __file__, "--write", str(folder / "table")], stdout=subprocess.PIPE)
        samples, begin = [], time.monotonic()
        query, query_starts = stream(session, folder), 1
        is_restarted = False
        while (elapsed := time.monotonic() - begin) < seconds:
            time.sleep(SAMPLE_SECONDS)
            java: Any = session._jvm
            java.System.gc()
            samples.append(sample(elapsed, query_starts))
            if (elapsed > seconds / 2 and not is_restarted) or not query.isActive:
                is_restarted |= query.isActive
                query.stop()
                query, query_starts = stream(session, folder), query_starts + 1
        writer.send_signal(signal.SIGTERM)
        if plot is not None:
            draw(samples, plot)
        said, _ = writer.communicate()
        commit_count = int(said)
        take_all(session, folder, query)
        rows = session.read.parquet(str(folder / "rows"))
        found = rows.agg(functions.count("v"), functions.countDistinct("v"), functions.max("v")).first()
        report(commit_count, list(found or ()), samples)


def stream(session: SparkSession, folder: Path) -> StreamingQuery:
    return (
        session.readStream.format("tornproof")
        .load(str(folder / "table"))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start(str(folder / "rows"))
    )


def take_all(session: SparkSession, folder: Path, query: StreamingQuery) -> None:
    """End the stream with all rows; Spark gives its Python process ten seconds to start, too few on a busy machine."""
    try:
        query.processAllAvailable()
        query.stop()
    except StreamingQueryException as error:
        if "failed to connect back" not in str(error):
            raise
        take_all(session, folder, stream(session, folder))


def report(commit_count: int, found: list[int], samples: list[Sample]) -> None:
    expected = commit_count * COMMIT_ROWS
    assert found == [expected, expected, expected - 1], (found, expected)
    print(f"a stream beside {commit_count:,} commits: each of {expected:,} rows once")
    # Without the start, and the second in which the query was started again.
    settled = samples[len(samples) // 5 :]
    first, last = settled[: len(settled) // 4], settled[-len(settled) // 4 :]
    grown = []
    for what in ("python_descriptors", "java_descriptors", "python_mib", "java_mib", "query_starts"):
        before, after = (float(np.median([getattr(each, what) for each in part])) for part in (first, last))
        print(f"{what}: {before:.0f} in the first quarter, {after:.0f} in the last one")
        if what == "java_descriptors":
            starts = np.median([each.query_starts for each in last]) - np.median([each.query_starts for each in first])
            after -= DESCRIPTORS_A_START * float(starts)
        if after > before * GROWTH_MAX and what != "query_starts":
            grown.append(what)
    if grown:
        sys.exit(f"{', '.join(grown)} grew")


def sample(seconds: float, query_starts: int) -> Sample:
    java = [process for process in descendants(os.getpid()) if command_of(process).startswith("java")]
    python = [process for process in descendants(*java) if command_of(process).startswith("python")]
    return Sample(
        seconds=seconds,
        python_descriptors=max(map(descriptors_of, python), default=0),
        java_descriptors=max(map(descriptors_of, java), default=0),
        python_mib=max(map(mebibytes_of, python), default=0),
        java_mib=max(map(mebibytes_of, java), default=0),
        query_starts=query_starts,
    )


def descendants(*parents: int) -> Iterator[int]:
    for parent in parents:
        with suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                children = [int(child) for child in Path(thread, "children").read_text().split()]
                yield from children
                yield from descendants(*children)


def command_of(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text()
    return ""


def descriptors_of(process: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())
    return 0


def mebibytes_of(process: int) -> float:
    """Return the memory of a process, with its share of what forked processes have in common."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0


def write(path: Path) -> None:
    """Commit until SIGTERM, then print how many commits there were."""
    is_over: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: is_over.append(1))
    count, begin = 0, time.monotonic()
    with open_writer(STORAGE, str(path), allow_parquet_last=True) as writer:
        while not is_over:
            numbers = np.arange(count * COMMIT_ROWS, (count + 1) * COMMIT_ROWS)
            times = count * COMMIT_MICROSECONDS + np.arange(COMMIT_ROWS)
            writer.write(pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "v": pa.array(numbers)}))
            writer.commit()
            count += 1
            if count % PURGE_COMMITS == 0:
                writer.purge()
            time.sleep(max(0.0, begin + count * COMMIT_SECONDS - time.monotonic()))
    print(count)


def draw(samples: list[Sample], path: Path) -> None:
    seconds = [each.seconds for each in samples]
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 4), layout="constrained")
    top.plot(seconds, [each.python_descriptors for each in samples], label="largest Python")
    top.plot(seconds, [each.java_descriptors for each in samples], label="Java")
    top.set(ylabel="open descriptors", ylim=(0, None))
    top.legend()
    settings: dict[str, Any] = {"ylabel": "MiB in memory", "ylim": (0, None), "xlabel": "seconds"}
    bottom.plot(seconds, [each.python_mib for each in samples], label="largest Python")
    bottom.plot(seconds, [each.java_mib for each in samples], label="Java")
    bottom.set(**settings)
    bottom.legend()
    figure.savefig(path, metadata={"Date": None})
    path.with_suffix(".json").write_text(json.dumps([asdict(each) for each in samples]))


if __name__ == "__main__":
    main()
