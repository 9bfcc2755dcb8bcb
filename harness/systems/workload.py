"""What `check` commits: a small table to start from if none is given, and commits to a given one."""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.table import GROWING, TableTarget
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.partition_names import interval_end
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Partition

HOUR_MICROSECONDS = 3_600_000_000
FIRST_TIME = 1_704_067_200_000_000
"""2024-01-01, in microseconds."""
MADE_PATH = "made"


def made_image() -> DiskImage:
    """Return a table at MADE_PATH of two partitions that a few commits have grown, merged and rewritten."""
    storage = MemoryStorage()
    TableTarget().create(storage, MADE_PATH)
    table = open_table(storage, MADE_PATH)
    with open_writer_of_copy(storage, MADE_PATH, options=GROWING) as writer:
        for number, offsets in enumerate(((0, 10), (20, HOUR_MICROSECONDS), (5, 30), (HOUR_MICROSECONDS + 7,))):
            writer.write(rows_for(table, [FIRST_TIME + offset for offset in offsets], seed=10 * number))
            writer.commit()
        writer.rewrite_partition(FIRST_TIME)
        writer.commit()
        writer.write(rows_for(table, [FIRST_TIME + 40], seed=100))
        writer.commit()
        writer.purge()
    return storage.image()


def crash_operations(storage: ReadableStorage, path: str) -> tuple[TableOperation, ...]:
    """Return commits that append to a partition, merge into it and make a new one, rewrite it, and append again.

    Raises RowsRejectedError where the table at `path` has no partition that a writer may write to, and what reading it
    raises.
    """
    table = open_table(storage, path)
    partitions = table.transaction().partitions
    chosen = _writable(table, partitions)
    end = _end(table, chosen)
    fresh = _end(table, partitions[-1])
    times = [[end - 2, end - 1], [chosen.timestamp, fresh], [end - 1]]
    grown, merged, again = (
        TableOperation(rows=(rows_for(table, at, seed=1_000 * (1 + number)),)) for number, at in enumerate(times)
    )
    return grown, merged, TableOperation(rewritten=(chosen.timestamp,), purges=True), again


def _writable(table: Table, partitions: Sequence[Partition]) -> Partition:
    """Return the smallest partition that a writer may write to, as all of it is read after every kill."""
    writable = [
        partition
        for partition in partitions
        if partition.is_parquet and not layout.READ_ONLY.get(partition.flags) and table.files_of(partition).has_pm()
    ]
    if table.metadata is None or not writable:
        raise RowsRejectedError(f"{table.path}: it has no partition that rows can be written to")
    return min(writable, key=lambda partition: partition.row_count)


def _end(table: Table, partition: Partition) -> int:
    assert table.metadata is not None
    metadata = table.metadata
    end = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
    ends = [end for end in (end, partition.next_timestamp) if end is not None]
    if not ends:
        raise RowsRejectedError(f"{table.path}: its partitions have no end")
    return min(ends)
