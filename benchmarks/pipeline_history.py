"""The check of one huge history: events a second of the judge on two slots of Spark, and of the SQL oracle.

Usage: python benchmarks/pipeline_history.py [EVENTS] [--by-time] [--no-sql] [--json FILE]. The events are those of many
readers and one writer with a few planted anomalies; they are ordered by process, or with --by-time by time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tornproof.harness.checkers.recorded import KINDS, RECORDED
from tornproof.harness.common.verdict import Verdict
from tornproof.pipeline.history.check import Checked, check_files
from tornproof.pipeline.history.groups import by_history
from tornproof.pipeline.history.job import ONLY, difference
from tornproof.pipeline.history.sql import ask_sql
from tornproof.pipeline.spark.session import spark_session

EVENTS = 50_000_000
GOAL_PER_SECOND = 3_000_000
READERS = 400
EVENTS_PER_COMMIT = 500
COMMIT_NS = 1_000_000
PINNED_EVERY = 16
KILLS = 10
ROW_GROUP_EVENTS = 1_000_000
FILE_EVENTS = 5_000_000
PLANTED = 5
"""So many readers once see content that was never written, and once a version before its commit started."""

KIND = {name: code for code, name in enumerate(KINDS)}
PLAIN = np.array([KIND["read_start"], KIND["read_end"]])
PINNED = np.array([KIND["read_start"], KIND["pin"], KIND["read_end"], KIND["unpin"]])
NONE = -1

Integers = npt.NDArray[np.int64]


class Generator:
    """Makes the events of each process independently, from its number."""

    def __init__(self, event_count: int) -> None:
        self.commit_count = max(KILLS, event_count // EVENTS_PER_COMMIT)
        own_count = (event_count - 2 * self.commit_count) // READERS
        self.read_count = own_count * PINNED_EVERY // (2 * PINNED_EVERY + 2)
        # Odd multiples of an odd number differ in all 64 bits, as digests do.
        numbers = ((2 * version + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for version in range(self.commit_count + 1))
        digests = [f"{number:016x}" for number in numbers]
        self.digests = pa.array([*digests, "never written"])
        self.names = pa.array(["writer", "supervisor", *(f"reader-{reader:04d}" for reader in range(READERS))])

    def tables(self) -> Iterator[pa.Table]:
        yield from self.writer()
        for reader in range(READERS):
            yield self.reader(reader)

    def writer(self) -> Iterator[pa.Table]:
        """Yield commits one after the other; in some the writer is killed, and finds its commit afterwards."""
        version = np.arange(1, self.commit_count + 1)
        is_killed = version % (self.commit_count // KILLS) == 0
        ends = np.where(is_killed, KIND["recovered"], KIND["commit_acknowledged"])
        kind = _interleaved(np.full(len(version), KIND["commit_start"]), ends)
        time_ns = _interleaved(version * COMMIT_NS, version * COMMIT_NS + COMMIT_NS // 2 + 1)
        versions = np.append(0, np.repeat(version, 2))
        yield self._table(0, np.append(KIND["recovered"], kind), np.append(0, time_ns), versions, versions, client=0)
        killed = version[is_killed]
        none = np.full(len(killed), NONE)
        kills = np.full(len(killed), KIND["killed"])
        yield self._table(1, kills, killed * COMMIT_NS + COMMIT_NS // 2, none, none, client=0)

    def reader(self, reader: int) -> pa.Table:
        """Return reads one after the other, of which some are pinned."""
        draw = np.random.default_rng(reader)
        step_ns = self.commit_count * COMMIT_NS // self.read_count
        start_ns = COMMIT_NS + np.arange(self.read_count) * step_ns + draw.integers(0, step_ns // 2, self.read_count)
        end_ns = start_ns + draw.integers(0, step_ns // 2, self.read_count)
        version = np.minimum(end_ns - COMMIT_NS // 4, self.commit_count * COMMIT_NS) // COMMIT_NS
        digest = version.copy()
        if reader % (READERS // PLANTED) == 0:
            digest[self.read_count // 2] = self.commit_count + 1
            version[self.read_count // 3] = digest[self.read_count // 3] = self.commit_count
        lengths = np.where(np.arange(self.read_count) % PINNED_EVERY == 0, len(PINNED), len(PLAIN))
        read = np.repeat(np.arange(self.read_count), lengths)
        index = np.arange(len(read)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        kind = np.where(lengths[read] == len(PINNED), PINNED[index], PLAIN[index % len(PLAIN)])
        is_end = kind == KIND["read_end"]
        return self._table(
            reader + 2,
            kind,
            np.where(index == 0, start_ns[read], end_ns[read]),
            np.where(is_end | (kind == KIND["pin"]), version[read], NONE),
            np.where(is_end, digest[read], NONE),
            client=reader + 2,
        )

    def _table(
        self, process: int, kind: Integers, time_ns: Integers, version: Integers, digest: Integers, *, client: int
    ) -> pa.Table:
        size = len(kind)
        columns = [
            pa.DictionaryArray.from_arrays(np.full(size, process, dtype=np.int32), self.names),
            pa.array(np.arange(size)),
            pa.DictionaryArray.from_arrays(np.full(size, client, dtype=np.int32), self.names),
            pa.DictionaryArray.from_arrays(kind.astype(np.int32), pa.array(KINDS)),
            pa.array(time_ns),
            pa.array(version, mask=version == NONE),
            pa.DictionaryArray.from_arrays(pa.array(digest.astype(np.int32), mask=digest == NONE), self.digests),
            pa.DictionaryArray.from_arrays(np.zeros(size, dtype=np.int32), pa.array([""])),
        ]
        return pa.Table.from_arrays(columns, schema=RECORDED)


def _interleaved(first: Integers, second: Integers) -> Integers:
    return np.stack([first, second], axis=1).ravel()


def write_events(directory: Path, event_count: int, *, by_time: bool) -> tuple[list[Path], int]:
    """Write the events, and return the files and the number of events."""
    tables = Generator(event_count).tables()
    if by_time:
        whole = pa.concat_tables(tables)
        tables = iter([whole.take(pa.array(np.argsort(whole.column("time_ns").to_numpy(), kind="stable")))])
    files: list[Path] = []
    held: list[pa.Table] = []
    total = 0
    for table in [*tables, None]:
        held += [table] if table is not None else []
        size = sum(map(len, held))
        if held and (table is None or size >= FILE_EVENTS):
            files.append(directory / f"{len(files):04d}.parquet")
            pq.write_table(pa.concat_tables(held), files[-1], row_group_size=ROW_GROUP_EVENTS, compression="zstd")
            held, total = [], total + size
    return files, total


def run(spark: SparkSession, files: list[Path], event_count: int, *, with_sql: bool) -> dict[str, Any]:
    """Judge twice, of which the first counts, although workers start and import then; then run the SQL oracle."""
    rates = []
    for _ in range(2):
        start = time.perf_counter()
        checked: Checked = check_files(spark, files)
        seconds = time.perf_counter() - start
        rates.append(event_count / seconds)
        print(f"judge: {event_count:,} events in {seconds:.1f} s, {event_count / seconds:,.0f} events/s", flush=True)
    judgement = checked.judgement
    print(f"goal {GOAL_PER_SECOND:,} events/s: {'met' if rates[0] >= GOAL_PER_SECOND else 'missed'}")
    print(f"{checked.slice_count} slices, peak of a worker {checked.worker_peak_bytes / 1e6:,.0f} MB")
    print(f"{judgement.verdict.name} {judgement.counts} {judgement.denominators} {judgement.reason}", flush=True)
    assert judgement.verdict is Verdict.INVALID
    document = {
        "events": event_count,
        "judge_seconds": seconds,
        "worker_peak_bytes": checked.worker_peak_bytes,
        "counts": judgement.counts,
    }
    if with_sql:
        start = time.perf_counter()
        answers = ask_sql(by_history(spark.read.parquet(*map(str, files)), ()))
        document["sql_seconds"] = seconds = time.perf_counter() - start
        print(f"SQL: {event_count:,} events in {seconds:.1f} s, {event_count / seconds:,.0f} events/s")
        disagreement = difference(judgement, answers.get(ONLY))
        document["agrees"] = not disagreement
        print(disagreement or "SQL agrees on verdict, anomalies and counts")
    return document


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=EVENTS)
    parser.add_argument("--by-time", action="store_true")
    parser.add_argument("--no-sql", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        files, event_count = write_events(Path(directory), options.events, by_time=options.by_time)
        print(f"{event_count:,} events in {sum(file.stat().st_size for file in files) / 1e6:,.0f} MB", flush=True)
        with spark_session("local[2]", name="benchmark") as spark:
            document = run(spark, files, event_count, with_sql=not options.no_sql)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if document.get("agrees", True) else 1


if __name__ == "__main__":
    sys.exit(main())
