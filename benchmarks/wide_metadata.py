"""Opening and pruning the metadata of wide files, and reading one cold chunk, compared with pyarrow's Thrift footer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from measure import Row, compare

from tornproof.impl.migrate.convert import convert
from tornproof.impl.pm.view import MetadataView, VerifiedGenerations, open_view
from tornproof.impl.read.cold_read import read_cold
from tornproof.impl.storage.operating_system import OperatingSystemStorage

SIZES = ((1_000, 10, 30.0), (10_000, 10, 300.0), (10_000, 40, 600.0))
"""Columns, row groups (as many chunks as a reader takes, at last), and how many times as fast it should be."""
CHECKED_GOAL = 100.0
COLD_GOAL = 100.0
GROUP_ROW_COUNT = 10
T = TypeVar("T")
STORAGE = OperatingSystemStorage()


def metadata_rows(folder: Path) -> Iterator[Row]:
    for column_count, row_group_count, goal in SIZES:
        data = folder / f"{column_count}x{row_group_count}.parquet"
        pm = data.with_suffix(".pm")
        write_wide(data, column_count, row_group_count)
        with STORAGE.open_for_reading(str(data)) as handle:
            token = handle.size_bytes()
            pm.write_bytes(convert(handle.pread, size_bytes=token, file=data.name))
        yield from _rows(data, pm, token, f"{column_count:,} columns x {row_group_count} row groups", goal)
        data.unlink()
        pm.unlink()


def write_wide(path: Path, column_count: int, row_group_count: int) -> None:
    """Write doubles after one timestamp column, all with statistics."""
    names = [f"c{index:05d}" for index in range(1, column_count)]
    schema = pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False), *((name, pa.float64()) for name in names)])
    values = pa.array([float(row) for row in range(GROUP_ROW_COUNT)])
    sorting = [pq.SortingColumn(0)]
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="lz4", sorting_columns=sorting) as writer:
        for start in range(0, row_group_count * GROUP_ROW_COUNT, GROUP_ROW_COUNT):
            times = pa.array(range(start, start + GROUP_ROW_COUNT), schema.field(0).type)
            writer.write_table(pa.Table.from_arrays([times, *[values] * len(names)], schema=schema))


def _rows(data: Path, pm: Path, token: int, shape: str, goal: float) -> Iterator[Row]:
    verified = VerifiedGenerations()
    times = (GROUP_ROW_COUNT * 3, GROUP_ROW_COUNT * 5)

    def prune(known: VerifiedGenerations) -> list[int]:
        return _with_view(pm, token, known, lambda view: view.row_groups_between(*times))

    def cold() -> pa.Array:
        def read(view: MetadataView) -> pa.Array:
            index = view.find_column("c00007")
            assert index is not None
            with STORAGE.open_for_reading(str(data)) as handle:
                return read_cold(
                    handle, view.column(index), view.chunk(4, index), row_count=GROUP_ROW_COUNT, file=data.name
                )

        return _with_view(pm, token, verified, read)

    assert prune(verified) == [3, 4]
    assert cold().equals(pq.ParquetFile(data).read_row_group(4, columns=["c00007"]).column(0).chunk(0))
    peer = "pyarrow read_metadata"
    yield compare(
        f"open _pm and prune by time: {shape}", lambda: prune(verified), peer, lambda: pq.read_metadata(data), goal=goal
    )
    yield compare(
        f"the same with the CRC of all of it: {shape}",
        lambda: prune(VerifiedGenerations()),
        peer,
        lambda: pq.read_metadata(data),
        goal=CHECKED_GOAL if goal == SIZES[-1][2] else None,
    )
    if goal != SIZES[0][2]:
        yield compare(
            f"one cold chunk: {shape}",
            cold,
            "pyarrow read_row_group",
            lambda: pq.ParquetFile(data).read_row_group(4, columns=["c00007"]),
            goal=COLD_GOAL,
        )


def _with_view(pm: Path, token: int, verified: VerifiedGenerations, use: Callable[[MetadataView], T]) -> T:
    """Open the file again, as a process does that reads it again."""
    with STORAGE.open_for_reading(str(pm)) as handle:
        size_bytes = int.from_bytes(handle.pread(8, 0), "little")
        with handle.map(size_bytes) as mapping, mapping.view(size_bytes, 0) as content:
            return use(open_view(content, token, file=pm.name, verified=verified))
