"""Commits of rows of a time and a value, by processes that may be killed at a call."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.explorers.model_based.files import Process
from tornproof.harness.simulator.filesystem.faulty import Fault
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import B
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import OpenMode, ReadableStorage, Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import NAME_FILE, PartitionBy
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.write import StorePlan
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.commit import PartitionWrite, Protocol, execute
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

CALLS = STEPS - {CallKind.STORE}
"""Where stores are cut off is asked elsewhere: they are most of a commit's steps."""
CALL_COUNT_MAX = 1 << 8
WRITER = "tornproof.impl.write.table_writer"
DEFAULT = WriterOptions()

Rows: TypeAlias = Sequence[tuple[int, Any]]


def table_of_rows(
    path: str, rows: Rows, *, of: TypeTag = TypeTag.LONG, has_keys: bool = False, options: WriterOptions = DEFAULT
) -> DiskImage:
    """Return a new table of a time and a value, which both may be its keys, with these rows."""
    storage = MemoryStorage()
    columns = [
        NewColumn(name=name, type=tag, is_dedup_key=has_keys) for name, tag in (("ts", TypeTag.TIMESTAMP), ("v", of))
    ]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    commit(storage, path, rows, options=options)
    return storage.image()


def commit(storage: MemoryStorage, path: str, rows: Rows, *, options: WriterOptions = DEFAULT) -> None:
    """Commit rows in a process that goes on."""
    with open_writer_of_copy(storage, path, options=options) as writer:
        writer.write(table_of(rows, writer.schema))
        writer.commit()


def is_killed(storage: MemoryStorage, path: str, rows: Rows, at: int, *, options: WriterOptions = DEFAULT) -> bool:
    """Commit rows in a process that dies at a call, and return whether there are so many."""
    process = Process(storage)
    writer = open_writer_of_copy(process, path, options=options)
    writer.write(table_of(rows, writer.schema))
    process.arm(Fault(at=at, reason=None, among=CALLS))
    try:
        writer.commit()
    except Killed:
        return True
    finally:
        process.arm()
        process.end()
    return False


def left_by_last_kill(image: DiskImage, path: str, rows: Rows, *, options: WriterOptions = DEFAULT) -> DiskImage:
    """Return what the last kill leaves after which the commit is not there, or the table if there is no such kill."""

    def is_late(at: int) -> bool:
        storage = MemoryStorage.of(image)
        return not is_killed(storage, path, rows, at, options=options) or _version_of(storage, path) != _version_of(
            image, path
        )

    storage = MemoryStorage.of(image)
    late = bisect.bisect_left(range(CALL_COUNT_MAX), True, key=is_late)
    if late:
        is_killed(storage, path, rows, late - 1, options=options)
    return storage.image()


class UnnamedError(RowsRejectedError):
    """A refusal that does not say of what."""

    def __init__(self, *_: object) -> None:
        super().__init__("refused")


class Littering(TableWriter):
    """A writer that leaves a file when it refuses rows."""

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Stage rows."""
        try:
            super().write(rows)
        except RowsRejectedError:
            with self._storage.open_for_writing(f"{self.table.path}/left", OpenMode.EXISTING_OR_NEW):
                raise


def spoil(storage: Storage, path: str) -> None:
    """Empty the file with the table's name, which no reader of rows looks at, and `verify` does."""
    with storage.open_for_writing(f"{path}/{NAME_FILE}") as file:
        file.truncate(0)


def execute_and_spoil(
    protocol: Protocol, storage: Storage, path: str, writes: Sequence[PartitionWrite], *plans: StorePlan
) -> None:
    """Execute a commit as a writer that loses the table's name."""
    execute(protocol, storage, path, writes, *plans)
    spoil(storage, path)


def row_count_in(storage: Storage, path: str) -> int:
    """Return how many rows a reader finds in a table of any columns."""
    return sum(batch.num_rows for batch in open_snapshot(open_table(storage, path)).batches())


def reported(storage: Storage, path: str) -> str | None:
    """Say what a verification reports of a table; None if nothing."""
    problems = verify_table(open_table(storage, path)).all_problems
    return f"verify reports {problems[0]}" if problems else None


def rows_in(storage: MemoryStorage, path: str) -> list[tuple[int, Any]]:
    """Return all rows of a table."""
    return [
        row
        for batch in open_snapshot(open_table(storage, path)).batches()
        for row in zip(batch.column(0).cast(pa.int64()).to_pylist(), batch.column(1).to_pylist(), strict=True)
    ]


def disks_of_power_cuts(kernel: Kernel, calls: Sequence[Call]) -> Iterator[tuple[int, Call, DiskImage]]:
    """Make calls, and yield after which each disk may be left that was not yielded before.

    On such a disk each file is what it was at one time.
    """
    seen = set[object]()
    for number, call in enumerate(calls, start=1):
        if call.kind is not CallKind.CLOCK:
            apply(kernel, 0, call)
        for picked in legal_disks(kernel, B) if call.kind in STEPS else ():
            identity = picked.disk.identity()
            if identity not in seen:
                seen.add(identity)
                yield number, call, picked.disk.kernel().image()


def _version_of(storage: ReadableStorage, path: str) -> int:
    return open_table(storage, path).transaction().version


def table_of(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Return rows in the types of a table of two columns."""
    times, values = zip(*rows, strict=True)
    arrays = pa.array(times, pa.int64()).cast(schema.field(0).type), pa.array(values, schema.field(1).type)
    return pa.Table.from_arrays(arrays, schema=schema)
