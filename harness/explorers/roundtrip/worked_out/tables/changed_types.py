"""What is read of a column whose type was changed after its partition was written, and what a commit leaves of it.

A server leaves the file as it is, in which the column has the id that it had at first.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import metadata_with_type, new_table
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.metadata_file import META_FILE, NAME_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table

PATH, TIME, COLUMN, FIRST_ID = "table", "ts", "v", 1
DAY = 86_400_000_000
UNREAD = "UnsupportedError"
LEAST_INT, MOST_INT = -(1 << 31), (1 << 31) - 1
TEXTS = ["a", None, "größe"]
CASES: tuple[tuple[str, str, Sequence[Any], Sequence[Any] | str], ...] = (
    ("STRING", "VARCHAR", TEXTS, TEXTS),
    ("VARCHAR", "STRING", TEXTS, TEXTS),
    ("LONG", "LONG", [1, None], [1, None]),
    ("INT", "LONG", [7, None, MOST_INT], [7, None, MOST_INT]),
    # The least INT is a server's null.
    ("INT", "LONG", [7, LEAST_INT], [7, None]),
    ("INT", "DOUBLE", [7, None, LEAST_INT], [7.0, None, None]),
    ("FLOAT", "DOUBLE", [0.5, None, -1.5], [0.5, None, -1.5]),
    ("LONG", "DOUBLE", [1, None], UNREAD),
    ("LONG", "INT", [1, 2], UNREAD),
    ("DOUBLE", "FLOAT", [0.5], UNREAD),
    ("INT", "VARCHAR", [1], UNREAD),
    ("VARCHAR", "INT", ["1"], UNREAD),
    ("VARCHAR", "LONG", [None], UNREAD),
    ("DATE", "TIMESTAMP", [1], UNREAD),
    ("TIMESTAMP", "TIMESTAMP_NS", [1], UNREAD),
)
"""The type before and after, the values that are stored, and those that are read."""


def changed_types() -> Iterator[Question]:
    """Yield columns whose type was changed once and twice, and what reader, condition, writer and verification say."""
    for (before, after, stored, expected), between in itertools.product(CASES, ((), ("BINARY",))):
        is_read = expected != UNREAD
        changes = (*between, after)
        nulls = [place for place, value in enumerate(expected) if value is None] if is_read else UNREAD
        grown = [*expected, None] if is_read else UNREAD
        # Nothing says which type is the later one, and the wider one has the values of both.
        of_both = [*stored, None] if (after, before) in {case[:2] for case in CASES if case[3] != UNREAD} else UNREAD
        for words, of, right in (
            ("what is read", _read, expected),
            ("which rows come where it is null", _null_rows, nulls),
            ("what a commit leaves, and under which ids,", _grown, (grown, [[0, FIRST_ID]]) if is_read else UNREAD),
            ("what a verification finds", _verified, [] if is_read else UNREAD),
            (
                "what is read without `_meta` after another day's commit",
                _read_without_meta,
                grown if is_read else of_both,
            ),
        ):
            name = f"{words} of {stored} once {before} became {' and then '.join(changes)}"
            yield ask("changed types", name, right, _asked, of, before, changes, stored)


def _asked(of: Any, before: str, changes: Sequence[str], stored: Sequence[Any]) -> Any:
    image = _table(before, tuple(stored))
    for change in changes:
        image = image.with_file(f"{PATH}/{META_FILE}", metadata_with_type(image, PATH, COLUMN, change))
    return outcome_of(lambda: of(MemoryStorage.of(image)))


@functools.cache
def _table(of: str, values: tuple[Any, ...]) -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {TIME: "TIMESTAMP", COLUMN: of})
    _commit(storage, values, FIRST_TIME)
    return storage.image()


def _commit(storage: MemoryStorage, values: Sequence[Any], time: int) -> None:
    with open_writer_of_copy(storage, PATH) as writer:
        times = range(time, time + len(values))
        columns = zip(([*times], [*values]), writer.schema.types, strict=True)
        writer.write(pa.table([pa.array(each, of) for each, of in columns], schema=writer.schema))
        writer.commit()


def _read(storage: MemoryStorage) -> list[Any]:
    return _values(_snapshot(storage))


def _null_rows(storage: MemoryStorage) -> list[int]:
    snapshot = _snapshot(storage)
    batches = snapshot.batches([TIME], where=snapshot.condition(f"{COLUMN} IS NULL"))
    return [time - FIRST_TIME for batch in batches for time in batch.column(0).cast(pa.int64()).to_pylist()]


def _grown(storage: MemoryStorage) -> tuple[list[Any], list[list[int]]]:
    """Return the values after a commit of one row more, and the ids in the metadata of each partition."""
    _commit(storage, [None], FIRST_TIME + 100)
    snapshot = _snapshot(storage)
    headers = [snapshot.resolve(partition).metadata.header for partition in snapshot.parquet_partitions()]
    return _values(snapshot), [[column.id for column in header.columns] for header in headers]


def _read_without_meta(storage: MemoryStorage) -> list[Any]:
    _commit(storage, [None], FIRST_TIME + DAY)
    image = storage.image()
    for name in (META_FILE, NAME_FILE, CV_FILE):
        image = image.without_file(f"{PATH}/{name}")
    return _values(_snapshot(MemoryStorage.of(image)))


def _verified(storage: MemoryStorage) -> list[str]:
    return [str(problem) for problem in verify_table(open_table(storage, PATH)).all_problems]


def _values(snapshot: Snapshot) -> list[Any]:
    return [value for batch in snapshot.batches([COLUMN]) for value in batch.column(0).to_pylist()]


def _snapshot(storage: MemoryStorage) -> Snapshot:
    return open_snapshot(open_table(storage, PATH))
