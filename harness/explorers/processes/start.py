"""The start of a run of processes: a table in a real directory, new or copied from an image, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tornproof.harness.explorers.processes.expected import (
    SLOT_COUNT,
    Content,
    ExpectedVersion,
    Form,
    Target,
    digest_of_rows,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout import txn as layout
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.partition_names import interval_end, interval_start
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.types.questdb import TypeTag, tag_of

NEW_COLUMNS = (
    NewColumn(name="time", type=TypeTag.TIMESTAMP),
    NewColumn(name="number", type=TypeTag.LONG),
    NewColumn(name="half", type=TypeTag.DOUBLE),
    NewColumn(name="words", type=TypeTag.VARCHAR),
)
NEW_TARGET_COUNT = 4
GIVEN_TARGET_COUNT = 3
GIVEN_ROW_COUNT_MAX = 10_000
SHORTEST_LENGTH = 2 * SLOT_COUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A prepared table, how rows are made for it, and what its first version holds."""

    table_path: str
    form: Form
    expected: ExpectedVersion


def prepare_table(image: DiskImage | None, path: str, directory: Path) -> Start:
    """Write the table at `path` of an image below `directory`, or make an empty one there, and read its version.

    Raises what opening and reading a table raise, and RowsRejectedError where no rows can be added.
    """
    storage = OperatingSystemStorage()
    table_path = directory / path.rstrip("/").rpartition("/")[2]
    if image is None:
        table = create_table(storage, str(table_path), NEW_COLUMNS, timestamp="time", partition_by=PartitionBy.HOUR)
    else:
        _write_tree(image, path, table_path)
        table = open_table(storage, str(table_path))
    snapshot = open_snapshot(table)
    form = _form(table, snapshot)
    return Start(table_path=str(table_path), form=form, expected=read_version(snapshot, form))


def rows_by_partition(snapshot: Snapshot) -> Iterator[tuple[int, pa.Table]]:
    """Yield start and rows of each parquet partition; raises what `Snapshot.batches` raises."""
    rows = pa.Table.from_batches(snapshot.batches(), schema=snapshot.schema)
    row_index = 0
    for partition in snapshot.transaction.partitions:
        if partition.is_parquet:
            yield partition.timestamp, rows.slice(row_index, partition.row_count)
            row_index += partition.row_count


def read_version(snapshot: Snapshot, form: Form) -> ExpectedVersion:
    """Return what a version holds, as the reader reads it."""
    starts = {target.start for target in form.targets}
    return ExpectedVersion(
        version=snapshot.transaction.version,
        contents={
            start: Content.of(rows) if start in starts else Content(digest=digest_of_rows(rows))
            for start, rows in rows_by_partition(snapshot)
        },
    )


def _write_tree(image: DiskImage, path: str, table_path: Path) -> None:
    for name, content in image.files.items():
        if name.startswith(f"{path}/"):
            target = table_path / name[len(path) + 1 :]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _form(table: Table, snapshot: Snapshot) -> Form:
    metadata = table.metadata
    if metadata is None or metadata.timestamp_id < 0:
        raise RowsRejectedError(f"{table.path}: it has no _meta with a designated timestamp")
    targets = (
        *islice(_given_targets(table, snapshot, metadata), GIVEN_TARGET_COUNT),
        *_new_targets(snapshot, metadata),
    )
    if not targets:
        raise RowsRejectedError(f"{table.path}: it has no partition that rows can be added to, and can have no new one")
    timestamp = next(column.name for column in metadata.columns if column.id == metadata.timestamp_id)
    longs = [column.name for column in metadata.columns if tag_of(column.type) is TypeTag.LONG]
    return Form(
        schema=snapshot.schema,
        types=tuple(column.type for column in metadata.columns),
        timestamp=timestamp,
        number=longs[0] if longs else None,
        targets=targets,
    )


def _given_targets(table: Table, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Target]:
    """Yield the last small partitions that a writer may write to."""
    for partition in reversed(snapshot.transaction.partitions):
        length = _length(partition, metadata)
        is_open = partition.is_parquet and not layout.READ_ONLY.get(partition.flags)
        is_small = partition.row_count <= GIVEN_ROW_COUNT_MAX
        if is_open and is_small and length >= SHORTEST_LENGTH and table.files_of(partition).has_pm():
            yield Target(start=partition.timestamp, length=length, is_kept=True)


def _length(partition: Partition, metadata: TableMetadata) -> int:
    end = interval_end(partition.timestamp, metadata.partition_by, nanoseconds=metadata.counts_nanoseconds)
    ends = [end for end in (end, partition.next_timestamp) if end is not None]
    return min(ends) - partition.timestamp if ends else 0


def _new_targets(snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Target]:
    """Yield new partitions after the last one; in a table with native partitions a writer may not drop them."""
    nanoseconds, partition_by = metadata.counts_nanoseconds, metadata.partition_by
    partitions = snapshot.transaction.partitions
    is_kept = any(not partition.is_parquet for partition in partitions)
    if partitions:
        start = interval_end(partitions[-1].timestamp, partition_by, nanoseconds=nanoseconds)
    else:
        start = interval_start(FIRST_TIME * (1000 if nanoseconds else 1), partition_by, nanoseconds=nanoseconds)
    for _ in range(NEW_TARGET_COUNT):
        end = None if start is None else interval_end(start, partition_by, nanoseconds=nanoseconds)
        if start is None or end is None:
            return
        yield Target(start=start, length=end - start, is_kept=is_kept)
        start = end
