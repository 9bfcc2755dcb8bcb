"""The report of a migration as a dataset: a row for each partition, and one for each table that was rejected."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.cli.output import make_folder, replacing
from tornproof.impl.migrate.plan import Migration, Outcome
from tornproof.pipeline.files import Location

FILE = "migration.parquet"
ROW_GROUP_ROWS = 100_000
PROBLEM = pa.struct(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("field", pa.string(), nullable=False),
        pa.field("offset_bytes", pa.int64()),
        pa.field("expected", pa.string(), nullable=False),
        pa.field("actual", pa.string(), nullable=False),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("token", pa.int64()),
        pa.field("pm_bytes", pa.int64(), nullable=False),
        pa.field("written_to", pa.string()),
        pa.field("kept_as", pa.string()),
        pa.field("problems", pa.list_(PROBLEM), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


def make_directory(directory: Location) -> None:
    """Make the directory of a dataset and those above it, if it is local; raises UsageError."""
    if directory.is_local:
        make_folder(directory.local)


def write_dataset(done: Iterable[Migration], directory: Location) -> None:
    """Replace the rows in a directory by those of this run, atomically; raises UsageError, StorageError."""
    target, rows = directory / FILE, (row for each in done for row in _rows(each))
    opened = replacing(target.local) if target.is_local else target.whole_file()
    with opened as file, pq.ParquetWriter(file, SCHEMA) as writer:
        while some := list(itertools.islice(rows, ROW_GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(some, schema=SCHEMA))


def _rows(migration: Migration) -> Iterator[dict[str, Any]]:
    if migration.problems or migration.reason:
        yield {
            "table": migration.path,
            "partition": None,
            "outcome": str(Outcome.REJECTED),
            "token": None,
            "pm_bytes": 0,
            "written_to": None,
            "kept_as": None,
            "problems": [msgspec.to_builtins(problem) for problem in migration.problems],
            "reason": migration.reason,
        }
    for partition in migration.partitions:
        row = msgspec.to_builtins(partition)
        yield {"table": migration.path, "partition": row.pop("name"), **row}
