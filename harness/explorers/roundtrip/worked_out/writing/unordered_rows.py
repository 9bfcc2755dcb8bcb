"""Rows that are written to a partition of another program, whose older ones are in no order of their times."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.forms import parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question
from tornproof.harness.explorers.roundtrip.worked_out.writing.later_keys import (
    PATH,
    Points,
    commit_points,
    expected_numbers,
    numbers_in,
    table_of_points,
    with_keys,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.convert import convert
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import verify_table

KEY, TIMES, ROW_COUNTS = 5, (0, 1, 1, 2), (1, 2)
NEW = (((1, KEY),), ((0, KEY), (3, KEY + 1)))
SORTED_BY = {"without an order": (), "sorted by time and number": (0, 2)}
"""What a file says of each of its row groups, but not of all together."""


def unordered_rows() -> Iterator[Question]:
    """Yield which rows there are of four old ones in each order, in row groups that overlap or not, and new ones."""
    for times, row_count, new in itertools.product(sorted(set(itertools.permutations(TIMES))), ROW_COUNTS, NEW):
        groups = [times[start : start + row_count] for start in range(0, len(times), row_count)]
        old = tuple((time, KEY) for time in times)
        for (order, sorted_by), has_keys in itertools.product(SORTED_BY.items(), (False, True)):
            if not sorted_by or all(group == tuple(sorted(group)) for group in groups):
                keys = "with keys" if has_keys else "without keys"
                words = f"which rows there are of the times {groups}, {order}, after {new}, written {keys}"
                found = functools.partial(_written, old, new, row_count, sorted_by, has_keys=has_keys)
                yield Question("unordered rows", words, found, (expected_numbers(old, new, has_keys=has_keys), True))


def _written(
    old: Points, new: Points, row_count: int, sorted_by: tuple[int, ...], *, has_keys: bool
) -> tuple[list[int], bool]:
    """Return the numbers of rows once the new ones are committed, and whether the table is sound."""
    storage = of_another_program(old, row_count, sorted_by)
    storage = with_keys(storage) if has_keys else storage
    commit_points(storage, enumerate(new, len(old)), row_count)
    return numbers_in(storage), verify_table(open_table(storage, PATH)).sound


@functools.cache
def _in_order() -> DiskImage:
    """Return a table with rows of the same times, which this writer has written."""
    return table_of_points([(time, KEY) for time in TIMES], len(TIMES)).image()


def of_another_program(
    points: Points, row_count: int, sorted_by: tuple[int, ...], *, has_checksums: bool = False
) -> MemoryStorage:
    """Return a table of points whose only partition is a file of pyarrow, with metadata that a migration makes."""
    table = open_table(_in_order(), PATH)
    partition = the_only(table.transaction().partitions)
    directory, content = (
        f"{PATH}/{table.directory_of(partition)}",
        _file_of(points, row_count, sorted_by, has_checksums),
    )
    files = dict(_in_order().files)
    version = bytearray(files[f"{PATH}/{TXN_FILE}"])
    struct.pack_into("<q", version, partition.token_offset_bytes, len(content))
    files |= {
        f"{PATH}/{TXN_FILE}": bytes(version),
        f"{directory}/{DATA_FILE}": content,
        f"{directory}/{PM_FILE}": convert(reader_of(content), size_bytes=len(content), file=DATA_FILE),
    }
    return MemoryStorage.of(DiskImage(files, _in_order().directories))


def _file_of(points: Points, row_count: int, sorted_by: tuple[int, ...], has_checksums: bool) -> bytes:
    """Return a Parquet file of points in the given order, with the ids of the table's columns."""
    columns: tuple[tuple[str, pa.DataType, list[Any]], ...] = (
        ("ts", pa.timestamp("us", "UTC"), [FIRST_TIME + time for time, _ in points]),
        ("k", pa.int32(), [key for _, key in points]),
        ("v", pa.int64(), list(range(len(points)))),
    )
    fields = [
        pa.field(name, of, nullable=name != "ts", metadata={"PARQUET:field_id": str(number)})
        for number, (name, of, _) in enumerate(columns)
    ]
    rows = pa.table([pa.array(values, of) for _, of, values in columns], schema=pa.schema(fields))
    order = [pq.SortingColumn(number) for number in sorted_by] or None
    return parquet_of(rows, row_group_size=row_count, sorting_columns=order, write_page_checksum=has_checksums)
