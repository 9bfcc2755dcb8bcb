"""What a table costs must grow with what it holds, and not with its square."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
import table_builder as tb
from depth import nightly
from real_tables import verified
from work import counted_calls

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout import txn
from tornproof.impl.types.questdb import TypeTag

HOUR = 3_600_000_000
PARQUET = txn.PARQUET_FORMAT.put(txn.PARQUET_GENERATED.put(0, 1), 1)
# Squares of the large counts take minutes, also where they are no calls.
COUNTS = pytest.mark.parametrize("count", [500, nightly(20_000)])


def entries(count: int, flags: int, token: int) -> list[bytes]:
    return [
        txn.PartitionEntry(
            timestamp=tb.DAY_MICROSECONDS + index * HOUR, row_count_and_flags=flags, name_txn=0, token=token
        ).pack()
        for index in range(count)
    ]


def demand_linear(count: int, verify_so_many: Callable[[int], object]) -> None:
    """Twice as many may take little more than twice as many calls."""
    # For the imports; with one partition it would have the last time, and no row.
    verify_so_many(2)
    calls = []
    for each in (count, 2 * count):
        with counted_calls() as work:
            verify_so_many(each)
        calls.append(work.call_count)
    assert 0 < calls[1] < 2.1 * calls[0]


@COUNTS
@pytest.mark.parametrize("has_meta", [True, False])
def test_the_work_of_verifying_grows_with_the_count_of_native_partitions(
    has_meta: bool, count: int, tmp_path: Path
) -> None:
    def verify_so_many(count: int) -> None:
        files = {"_txn": tb.txn(rows=0, token=0, entries=entries(count, 0, -1))}
        if has_meta:
            files |= tb.beside({"ts": TypeTag.TIMESTAMP})
        report = verified(tb.BuiltTable(files=files).write_to(tmp_path / str(count)))
        assert (len(report.all_problems), report.counts.partitions) == (count if has_meta else 0, count)

    demand_linear(count, verify_so_many)


@COUNTS
def test_the_work_of_verifying_grows_with_the_count_of_partitions_that_are_not_there(
    count: int, tmp_path: Path
) -> None:
    def verify_so_many(count: int) -> None:
        files = {
            "_txn": tb.txn(rows=0, token=1000, entries=entries(count, PARQUET, 1000)),
            **tb.beside({"ts": TypeTag.TIMESTAMP}),
        }
        report = verified(tb.BuiltTable(files=files).write_to(tmp_path / str(count)))
        assert len(report.all_problems) == report.counts.partitions == count
        assert {problem.field for problem in report.all_problems} == {"file"}

    demand_linear(count, verify_so_many)


@COUNTS
def test_the_work_of_listing_an_image_grows_with_the_count_of_its_directories(count: int) -> None:
    def verify_so_many(count: int) -> None:
        image, names = image_of(count)
        assert verified("/table", image).sound
        last = f"/table/{names[-1]}/ts.d"
        (problem,) = verified("/table", image.without_file(last)).all_problems
        assert problem.field == f"PARQUET_FORMAT of {names[-1]}"

    demand_linear(count, verify_so_many)


def image_of(count: int) -> tuple[DiskImage, list[str]]:
    files = {
        "/table/_txn": tb.txn(rows=0, token=0, entries=entries(count, 0, -1)),
        **{f"/table/{name}": content for name, content in tb.beside({"ts": TypeTag.TIMESTAMP}).items()},
    }
    bare = DiskImage(files, frozenset({"/", ".", "/table"}))
    names = [partition.name for partition in verified("/table", bare).partitions]
    files |= {f"/table/{name}/{file}": b"" for name in names for file in ("data.parquet", "ts.d")}
    directories = {str(parent) for position in files for parent in PurePosixPath(position).parents}
    return DiskImage(files, frozenset(directories | {"."})), names
