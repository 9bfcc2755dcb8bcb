"""Many partitions and many tables: the time for each must not grow with their number."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from measure import Row, compare

import tornproof
from tornproof.api.roots import verify_root
from tornproof.api.steady import verify_until_stable
from tornproof.impl.storage.operating_system import OperatingSystemStorage

PARTITION_COUNTS = (10, 100, 1_000, 10_000)
ROWS_OF_PARTITION = 4
TABLE_COUNT = 10_000
LINEAR = 0.8
"""A little more time for each is the cache of the processor."""
DAY_MICROSECONDS = 86_400_000_000
ROUNDS = 3


def many_rows(folder: Path) -> Iterator[Row]:
    """Compare the verification of a table with one of a tenth of its partitions, and of many tables with each alone."""
    tables = {count: _table(folder / f"table_{count}", count) for count in PARTITION_COUNTS}
    for fewer, count in pairwise(PARTITION_COUNTS):
        yield compare(
            f"verify a table of {count:,} partitions of {ROWS_OF_PARTITION} rows",
            partial(_verify, tables[count]),
            f"ten times one of {fewer:,}",
            partial(_verify, *[tables[fewer]] * 10),
            goal=LINEAR,
            rounds=ROUNDS,
            round_seconds=0,
        )
    root = folder / "root"
    root.mkdir()
    for number in range(TABLE_COUNT):
        # The same bytes: only names take room.
        shutil.copytree(tables[10], root / f"table~{number}", copy_function=os.link)
    yield compare(
        f"verify {TABLE_COUNT:,} tables of 10 partitions below one directory",
        lambda: verify_root(str(root), quick=False, workers=os.cpu_count() or 1),
        "each alone, in one process",
        partial(_verify, *root.iterdir()),
        rounds=1,
        round_seconds=0,
    )


def _table(path: Path, partition_count: int) -> Path:
    times = [day * DAY_MICROSECONDS + row for day in range(partition_count) for row in range(ROWS_OF_PARTITION)]
    table = tornproof.create(path, {"ts": "TIMESTAMP", "v": "LONG"}, timestamp="ts")
    with table.writer(allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": pa.array(times, pa.timestamp("us")), "v": range(len(times))}))
        writer.commit()
    return path


def _verify(*paths: Path) -> None:
    for path in paths:
        assert verify_until_stable(OperatingSystemStorage(), str(path), quick=False).sound
