"""Whether what a writer acknowledges is read where readers take little memory for a chunk, or for a row group.

Rows that are all the same take few bytes on disk, and many in memory; of narrow types most are levels and offsets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import array_of
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, all_replaced, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.writing.kills import WRITER, execute_and_spoil, reported
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.table import open_table

PROPERTY = "what a writer acknowledges is read"
PATH = "readable"
VALUES: dict[str, Any] = {
    "BOOLEAN": True,
    "BYTE": 1,
    "LONG": 1,
    "DOUBLE": 0.5,
    "VARCHAR": "text",
    "SYMBOL": "name",
    "UUID": b"u" * 16,
    "DOUBLE[]": [0.5, 1.5],
}
ROW_COUNT = 100
EXPANSION, ROW_GROUP = "tornproof.impl.chunk.expansion", "tornproof.impl.read.row_group"
CHUNKS, ROW_GROUPS = "a chunk", "a row group"
BOUNDS = {CHUNKS: f"{EXPANSION}:EXPANDED_MAX_BYTES", ROW_GROUPS: f"{ROW_GROUP}:BATCH_FLOOR_BYTES"}
BOUND_BYTES = (40, 800, 1_600, 4_000)
"""From what takes a few rows to what takes all; some are just as many as the numbers and their pages take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableCommit:
    """A commit of rows of a type where readers take so many bytes for a chunk, or a row group."""

    type: str
    kind: str
    bound_bytes: int

    @property
    def name(self) -> str:
        """It in words."""
        return f"rows of the type {self.type} where readers take {self.bound_bytes} bytes for {self.kind}"


@functools.cache
def readable_commits() -> tuple[ReadableCommit, ...]:
    """Return all commits, always in the same order."""
    return tuple(
        ReadableCommit(type=of, kind=kind, bound_bytes=bound)
        for of in VALUES
        for kind in BOUNDS
        for bound in BOUND_BYTES
    )


def problem_of(case: ReadableCommit) -> str | None:
    """Say what cannot be read after it was acknowledged; None if all can, or if it was refused."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "value": case.type})
    expansions = {f"{EXPANSION}:EXPANSION_MAX": 1, f"{ROW_GROUP}:EXPANSION_MAX": 1}
    with all_replaced({**expansions, BOUNDS[case.kind]: case.bound_bytes}):
        try:
            with open_writer_of_copy(storage, PATH) as writer:
                writer.write(_rows(writer.schema, case.type))
                writer.commit()
        except RowsRejectedError:
            return None if case.bound_bytes == BOUND_BYTES[0] else "the rows are refused"
        rows = pa.Table.from_batches(list(open_snapshot(open_table(storage, PATH)).batches()))
        if rows["value"].to_pylist() != _rows(rows.schema, case.type)["value"].to_pylist():
            return "other rows are read"
        return reported(storage, PATH)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that leave all rows in one row group, and refuse, lose or change some."""
    conform, row_groups = original_of(f"{WRITER}:conform"), "tornproof.impl.write.readable_row_groups"

    def with_others(*of: Any) -> pa.Table:
        made = conform(*of)
        return made.set_column(1, made.schema.field(1), pc.add(made.column(1), 1))

    controls: Controls = (
        ("row groups of any size", f"{row_groups}:_is_readable", lambda *_: True),
        ("chunks of any size", f"{row_groups}:_is_readable_chunk", lambda *_: True),
    )
    of_any_bound: Controls = (
        ("no row group is small enough", f"{row_groups}:_is_readable", lambda *_: False, "the rows are refused"),
        ("other values are stored", f"{WRITER}:conform", with_others, "other rows are read"),
        ("a row is left out", f"{WRITER}:conform", lambda *of: conform(*of)[1:], "other rows are read"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "verify reports"),
    )
    numbers = [each for each in readable_commits() if each.type == "LONG"]
    yield from not_noticed(controls, problem_of, numbers)
    yield from not_noticed(of_any_bound, problem_of, [each for each in numbers if each.bound_bytes == BOUND_BYTES[-1]])


def _rows(schema: pa.Schema, of: str) -> pa.Table:
    values = ([*range(FIRST_TIME, FIRST_TIME + ROW_COUNT)], [VALUES[of]] * ROW_COUNT)
    return pa.Table.from_arrays([array_of(*each) for each in zip(values, schema.types, strict=True)], schema=schema)
