"""The report of a migration as a dataset: a row for each partition, and one for each table that was rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.cli.output import replacing
from tornproof.impl.errors import UsageError
from tornproof.impl.migrate.plan import Migration, Outcome

FILE = "migration.parquet"
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


def make_directory(directory: str) -> None:
    """Make the directory of a dataset and those above it; raises UsageError."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{directory}: cannot make the directory: {getattr(error, 'strerror', error)}") from error


def write_dataset(done: Sequence[Migration], directory: str) -> None:
    """Replace the rows in a directory by those of this run, atomically; raises UsageError."""
    rows = pa.Table.from_pylist([row for each in done for row in _rows(each)], schema=SCHEMA)
    with replacing(Path(directory, FILE)) as partial:
        pq.write_table(rows, partial)


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
