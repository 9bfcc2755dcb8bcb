"""Rows that are written to a table whose older ones have equal keys, because the table got its keys after them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.model.rows import Row, with_row

PATH = "table"
TYPES = {"ts": TypeTag.TIMESTAMP, "k": TypeTag.INT, "v": TypeTag.LONG}
POINTS = tuple(itertools.product((0, 1), (5, 6)))
"""Times behind the first one, and keys."""
ROW_COUNTS = {"row groups of one row": 1, "one row group": 100}
Points: TypeAlias = Sequence[tuple[int, int]]


def later_keys() -> Iterator[Question]:
    """Yield which rows there are of three old ones, some with equal keys, once one or two others are written."""
    repeated = [old for old in itertools.combinations_with_replacement(POINTS, 3) if len(set(old)) < len(old)]
    changes = [new for count in (1, 2) for new in itertools.combinations(POINTS, count)]
    for (groups, row_count), old, new in itertools.product(ROW_COUNTS.items(), repeated, changes):
        words = f"which rows there are of {old} in {groups} after {new}, written with keys"
        yield ask("later keys", words, expected_numbers(old, new), _written, old, new, row_count)


def _written(old: Points, new: Points, row_count: int) -> list[int]:
    """Return the numbers of rows in a table whose `_meta` is that of one with keys, once it has the old ones."""
    storage = with_keys(table_of_points(old, row_count))
    commit_points(storage, enumerate(new, len(old)), row_count)
    return numbers_in(storage)


def table_of_points(points: Points, row_count: int) -> MemoryStorage:
    """Return a table without keys that has these rows, each with its number, in row groups of so many."""
    storage = _new_table(has_keys=False)
    commit_points(storage, enumerate(points), row_count)
    return storage


def with_keys(storage: MemoryStorage) -> MemoryStorage:
    """Return a table of points with the `_meta` of one with keys."""
    before, name = storage.image(), f"{PATH}/{META_FILE}"
    files = {**before.files, name: _new_table(has_keys=True).image().files[name]}
    return MemoryStorage.of(DiskImage(files, before.directories))


def numbers_in(storage: MemoryStorage) -> list[int]:
    """Return the numbers of all rows in the order in which they are read."""
    batches = open_snapshot(open_table(storage, PATH)).batches()
    return [number for batch in batches for number in batch["v"].to_pylist()]


def expected_numbers(old: Points, new: Points, *, has_keys: bool = True) -> list[int]:
    """Return the numbers of rows by the model, which puts one row after the other in its place."""
    numbered = [Row(time, key if has_keys else None, number) for number, (time, key) in enumerate((*old, *new))]
    in_order = sorted(numbered[: len(old)], key=lambda row: row.time)
    return [row.values for row in functools.reduce(with_row, numbered[len(old) :], tuple(in_order))]


def _new_table(*, has_keys: bool) -> MemoryStorage:
    storage = MemoryStorage()
    columns = [NewColumn(name=name, type=of, is_dedup_key=has_keys and name != "v") for name, of in TYPES.items()]
    create_table(storage, PATH, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    return storage


def commit_points(storage: MemoryStorage, numbered: Iterable[tuple[int, tuple[int, int]]], row_count: int) -> None:
    """Commit rows of these numbers."""
    rows = [(FIRST_TIME + time, key, number) for number, (time, key) in numbered]
    with open_writer_of_copy(storage, PATH, options=WriterOptions(row_group_row_count_max=row_count)) as writer:
        values = zip(zip(*rows, strict=True), writer.schema, strict=True)
        columns = [pa.array(each, pa.int64()).cast(field.type) for each, field in values]
        writer.write(pa.Table.from_arrays(columns, schema=writer.schema))
        writer.commit()
