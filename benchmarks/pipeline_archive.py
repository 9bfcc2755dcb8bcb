"""The archive compared with plain Spark: gzipped JSON lines to Parquet, the same codec, level, sort and partitions.

Usage: python benchmarks/pipeline_archive.py [FRAMES] [--rounds N] [--keep DIR]. Each side runs in a process of its own
with a session on two slots, after a warm-up on one small file; starting the session is not measured. It prints the
seconds, their ratio (goal: ours at most 1.2 times the peer's), the sizes, the largest resident memory of each kind of
process, and the bytes that a read of one column of one row group needs (goal: less than 1 %).
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

FRAMES = 10_000_000
FILE_FRAMES = 250_000
DAYS = 8
WARM_FRAMES = 20_000
SIDES = ("tornproof", "Spark")
GOAL = 1.2
GOAL_SHARE = 0.01
MASTER = "local[2]"
DOUBLES = [f"sensor_{number}" for number in range(20)]
LONGS = [f"counter_{number}" for number in range(12)]
TEXTS = [f"state_{number}" for number in range(5)]
COLUMNS = ("ts", "device", "ok", *DOUBLES, *LONGS, *TEXTS)
POLL_SECONDS = 0.25


def frames(number: int, first: int, count: int, total: int) -> Iterator[bytes]:
    """Yield lines of frames, ordered by time to within a few seconds; the same for the same numbers."""
    random = np.random.default_rng(number)
    step_micros = DAYS * 86_400_000_000 // total
    micros = (np.arange(first, first + count) * step_micros + random.integers(0, 3_000_000, count)) % (
        DAYS * 86_400_000_000
    )
    times = np.datetime64("2024-01-01", "us") + micros.astype("m8[us]")
    columns: list[list[Any]] = [
        [f"{text}Z" for text in np.datetime_as_string(times).tolist()],
        [f"device-{device:03d}" for device in random.integers(0, 200, count).tolist()],
        (random.random(count) < 0.97).tolist(),
        *(np.round(20 + 5 * random.standard_normal(count), 3).tolist() for _ in DOUBLES),
        *(random.integers(0, 1_000_000, count).tolist() for _ in LONGS),
        *([f"state {state}" for state in random.integers(0, 20, count).tolist()] for _ in TEXTS),
    ]
    encoder = msgspec.json.Encoder()
    for row in zip(*columns, strict=True):
        yield encoder.encode(dict(zip(COLUMNS, row, strict=True))) + b"\n"


def write_file(work: tuple[str, int, int, int, int]) -> None:
    path, number, first, count, total = work
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.writelines(frames(number, first, count, total))


def generate(directory: Path, frame_count: int) -> None:
    directory.mkdir(parents=True)
    work = [
        (str(directory / f"{number:05d}.jsonl.gz"), number, first, min(FILE_FRAMES, frame_count - first), frame_count)
        for number, first in enumerate(range(0, frame_count, FILE_FRAMES))
    ]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(write_file, work, chunksize=1)


def run_side(side: str, source: Path, warm: Path, target: Path) -> dict[str, Any]:
    """Run one side in this process, and return its seconds and the memory of its processes."""
    from tornproof.pipeline.spark.session import spark_session

    with spark_session(MASTER) as spark:
        job = ours if side == "tornproof" else plain
        job(spark, warm, target / "warm")
        with Watch() as watch:
            start = time.perf_counter()
            job(spark, source, target / "table")
            seconds = time.perf_counter() - start
        return {"seconds": seconds, "peaks": watch.peaks}


def ours(spark: Any, source: Path, target: Path) -> None:
    from tornproof.pipeline.ingest.job import run_archive
    from tornproof.pipeline.ingest.settings import ArchiveSettings
    from tornproof.pipeline.ingest.source import find_sources

    report = run_archive(spark, find_sources([str(source)]), str(target), ArchiveSettings())
    assert not report.reject_counts, report.reject_counts


def plain(spark: Any, source: Path, target: Path) -> None:
    """Run the job as an engineer would write it, with the schema given, so that nothing is read twice."""
    types = dict.fromkeys(DOUBLES, "DOUBLE") | dict.fromkeys(LONGS, "BIGINT") | {"ts": "TIMESTAMP", "ok": "BOOLEAN"}
    schema = ", ".join(f"{name} {types.get(name, 'STRING')}" for name in COLUMNS)
    rows = spark.read.schema(schema).json(str(source)).selectExpr("*", "to_date(ts) AS day")
    writer = rows.repartition("day").sortWithinPartitions("day", "ts").write.partitionBy("day")
    writer.option("compression", "zstd").option("parquet.compression.codec.zstd.level", "3").parquet(str(target))


class Watch:
    """The largest resident memory of each process below this one while the block runs, in MB, by kind."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        for status in Path("/proc").glob("[0-9]*/clear_refs"):
            try:
                # "5" resets the high-water mark of one of our processes.
                status.write_text("5")
            except OSError:
                continue
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read_peaks()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._read_peaks()

    def _read_peaks(self) -> None:
        for pid in descendants():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            if "VmHWM" in fields:
                kind = "JVM" if fields["Name"].strip() == "java" else "Python worker"
                self.peaks[kind] = max(self.peaks.get(kind, 0), int(fields["VmHWM"].split()[0]) // 1024)


def descendants() -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    mine = {os.getpid()}
    found: list[int] = []
    while mine:
        mine = {pid for pid, parent in parents.items() if parent in mine}
        found += mine
    return found


def bytes_of_one_column(table_path: str) -> tuple[int, int]:
    """Return the bytes of data.parquet that reading one column of one row group needs, and all its bytes."""
    from tornproof.impl.query.time_search import TimeRange
    from tornproof.impl.read.counters import ReadCounters
    from tornproof.impl.read.reader import open_snapshot
    from tornproof.impl.storage.operating_system import OperatingSystemStorage
    from tornproof.impl.table.table import open_table

    snapshot = open_snapshot(open_table(OperatingSystemStorage(), table_path))
    partitions = snapshot.transaction.partitions
    partition = partitions[len(partitions) // 2]
    counters = ReadCounters()
    # The rows of the partition's first minute are in its first row group.
    times = TimeRange(start=partition.timestamp, end=partition.timestamp + 60_000_000)
    for _ in snapshot.batches([DOUBLES[7]], times, counters=counters):
        pass
    assert counters.kept_row_group_count == 1, counters
    return counters.read_bytes, counters.data_bytes


def size_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frames", nargs="?", type=int, default=FRAMES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="the directory where frames are made, and found again")
    parser.add_argument("--side", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side:
        side, *paths = asked.side
        print(json.dumps(run_side(side, *map(Path, paths))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.keep or Path(temporary)
        source, warm = folder / f"frames-{asked.frames}", folder / "warm"
        for directory, count in ((source, asked.frames), (warm, WARM_FRAMES)):
            if not directory.exists():
                generate(directory, count)
        print(f"{asked.frames} frames x {len(COLUMNS)} columns: {size_bytes(source) / 1e6:.0f} MB of gzip")
        results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for side in SIDES * asked.rounds:
            target = Path(temporary) / side
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            command = [sys.executable, __file__, "--side", side, source, warm, target]
            done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True)
            results[side].append(json.loads(done.stdout.splitlines()[-1]))
            seconds, peaks = results[side][-1]["seconds"], results[side][-1]["peaks"]
            print(f"{side}: {seconds:.1f} s, {size_bytes(target / 'table') / 1e6:.0f} MB, peak MB {peaks}", flush=True)
        mine, theirs = (statistics.median(each["seconds"] for each in results[side]) for side in SIDES)
        print(f"ours / plain Spark: {mine / theirs:.2f} of its time (goal: at most {GOAL})")
        read_bytes, data_bytes = bytes_of_one_column(str(Path(temporary) / "tornproof" / "table"))
        share = read_bytes / data_bytes
        print(
            f"one column of one row group: {read_bytes} of {data_bytes} bytes, {share:.3%} (goal: < {GOAL_SHARE:.0%})"
        )


if __name__ == "__main__":
    main()
