"""What a table costs must grow with what it holds, and not with its square."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
import table_builder as tb
from real_tables import verified

from harness.disk.image import DiskImage
from impl.layout import txn
from impl.questdb_types import TypeTag

COUNT = 40_000
FEW = 8_000
HOUR = 3_600_000_000
# Squares of these counts take minutes.
SECONDS_MAX = 30
PARQUET = txn.PARQUET_FORMAT.put(txn.PARQUET_GENERATED.put(0, 1), 1)


def entries(count: int, flags: int, token: int) -> list[bytes]:
    return [
        txn.PartitionEntry(
            timestamp=tb.DAY_MICROSECONDS + index * HOUR, row_count_and_flags=flags, name_txn=index, token=token
        ).pack()
        for index in range(count)
    ]


@pytest.fixture
def watch() -> Iterator[None]:
    start = time.perf_counter()
    yield
    assert time.perf_counter() - start < SECONDS_MAX


@pytest.mark.usefixtures("watch")
@pytest.mark.parametrize(("has_meta", "count"), [(True, COUNT), (False, FEW)])
def test_many_native_partitions_are_verified_in_seconds(has_meta: bool, count: int, tmp_path: Path) -> None:
    files = {"_txn": tb.txn(rows=0, token=0, entries=entries(count, 0, -1))}
    if has_meta:
        files["_meta"] = tb.meta({"ts": TypeTag.TIMESTAMP})
    report = verified(tb.BuiltTable(files=files).write_to(tmp_path))
    assert (report.sound, report.counts.partitions) == (True, count)


@pytest.mark.usefixtures("watch")
def test_many_partitions_that_are_not_there_are_verified_in_seconds(tmp_path: Path) -> None:
    files = {
        "_txn": tb.txn(rows=0, token=1000, entries=entries(COUNT, PARQUET, 1000)),
        "_meta": tb.meta({"ts": TypeTag.TIMESTAMP}),
    }
    report = verified(tb.BuiltTable(files=files).write_to(tmp_path))
    assert len(report.all_problems) == report.counts.partitions == COUNT
    assert {problem.field for problem in report.all_problems} == {"file"}


@pytest.mark.usefixtures("watch")
def test_many_directories_of_an_image_are_listed_in_seconds() -> None:
    files = {
        "/table/_txn": tb.txn(rows=0, token=0, entries=entries(FEW, 0, -1)),
        "/table/_meta": tb.meta({"ts": TypeTag.TIMESTAMP}),
    }
    bare = DiskImage(files, frozenset({"/", ".", "/table"}))
    names = [partition.name for partition in verified("/table", bare).partitions]
    files |= {f"/table/{name}/{file}": b"" for name in names for file in ("data.parquet", "ts.d")}
    directories = {str(parent) for place in files for parent in PurePosixPath(place).parents}
    image = DiskImage(files, frozenset(directories | {"."}))
    assert verified("/table", image).sound
    last = f"/table/{names[-1]}/ts.d"
    (problem,) = verified("/table", image.without_file(last)).all_problems
    assert problem.field == f"PARQUET_FORMAT of {names[-1]}"
