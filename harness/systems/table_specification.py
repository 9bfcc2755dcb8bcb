"""What the model (`tornproof.model.rows`) says of a table: its content, and what an operation makes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.common.system import Specification
from tornproof.harness.systems.plain_rows import RowShape, plain_rows
from tornproof.harness.systems.table_operation import TableOperation
from tornproof.impl.read.reader import Snapshot, snapshot_of
from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.table import open_table
from tornproof.model.rows import Change, Content, Interval, Row, Rows, after, partition_of

MICROSECONDS, NANOSECONDS = 1_000_000, 1_000_000_000
"""In a second."""
PLAIN_ROW_COUNT_MAX = 100_000
"""Plain rows take some hundred bytes each; commits to a table write to its smallest partition."""
DIGEST_BYTES = 16


class Whole(NamedTuple):
    """The rows of a partition that is too large to keep them, so no rows are added to it."""

    digest: bytes
    row_count: int


@dataclass(slots=True)
class TableSpecification(Specification):
    """The model of one table; the rows of a partition that did not change are made plain once."""

    shape: RowShape
    reader: ReaderProtocol
    _known: dict[bytes, Rows] = field(default_factory=dict)

    def content(self, files: ReadableStorage, path: str) -> Content:
        """Return the content of the committed version; partitions that are not in Parquet have no rows."""
        snapshot = _snapshot(files, path, self.reader)
        metadata = snapshot.table.metadata
        assert metadata is not None
        return Content(
            version=snapshot.transaction.version,
            partitions=tuple(self._partitions(snapshot)),
            interval=interval_of(metadata),
            ticks=ticks_of(metadata),
        )

    def after(self, before: Content, operation: TableOperation) -> Content | None:
        """Return what a commit must leave; None for rows in other columns or types, or of a partition taken whole."""
        if operation.abandons:
            return before
        if any(rows.schema.types != self.shape.schema.types for rows in operation.rows):
            return None
        rows = tuple(row for rows in operation.rows for row in self._rows(rows))
        whole = {start for start, known in before.partitions if any(isinstance(row.values, Whole) for row in known)}
        starts = [start for start, _ in before.partitions if start not in operation.dropped]
        if any(partition_of(row.time, starts, before.interval, before.ticks) in whole for row in rows):
            return None
        return after(before, Change(dropped=operation.dropped, rewritten=operation.rewritten, rows=rows))

    def _rows(self, rows: pa.Table) -> Iterator[Row]:
        for values in plain_rows(rows):
            yield Row(self.shape.time_of(values), self.shape.keys_of(values), values)

    def _partitions(self, snapshot: Snapshot) -> Iterator[tuple[int, Rows]]:
        for partition in snapshot.transaction.partitions:
            if not partition.is_parquet:
                yield partition.timestamp, ()
                continue
            alone = replace(snapshot, transaction=replace(snapshot.transaction, partitions=(partition,)))
            rows = pa.Table.from_batches(alone.batches(), schema=self.shape.schema).combine_chunks()
            digest = hashlib.blake2b(arrow_bytes(rows), digest_size=DIGEST_BYTES).digest()
            if digest not in self._known:
                is_small = len(rows) <= PLAIN_ROW_COUNT_MAX
                self._known[digest] = tuple(self._rows(rows)) if is_small else (_whole(rows),)
            yield partition.timestamp, self._known[digest]


def _whole(rows: pa.Table) -> Row:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for batch in rows.to_batches(PLAIN_ROW_COUNT_MAX):
        for values in plain_rows(batch):
            digest.update(repr(values).encode())
    return Row(0, None, Whole(digest.digest(), len(rows)))


def specification_of(files: ReadableStorage, path: str, reader: ReaderProtocol) -> TableSpecification | None:
    """Return the model of a table; None for one that no rows can be written to."""
    snapshot = _snapshot(files, path, reader)
    metadata = snapshot.table.metadata
    if metadata is None or snapshot.timestamp_id < 0 or metadata.partition_by is PartitionBy.NONE:
        return None
    return TableSpecification(RowShape.of(snapshot), reader)


def _snapshot(files: ReadableStorage, path: str, reader: ReaderProtocol) -> Snapshot:
    table = open_table(files, path)
    return snapshot_of(table, table.transaction(), reader)


def interval_of(metadata: TableMetadata) -> Interval:
    """Return the interval of a table's partitions; raises KeyError for a table without partitions."""
    return Interval[metadata.partition_by.name]


def ticks_of(metadata: TableMetadata) -> int:
    """Return how many units of the designated timestamp a second has."""
    return NANOSECONDS if metadata.counts_nanoseconds else MICROSECONDS
