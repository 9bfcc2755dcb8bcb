"""`spark.readStream.format("tornproof").load(TABLE)`: the rows that commits append, each once.

A partition's rows are in time order, so appended rows are those after a row number. An offset is a version with, for
each partition, its row count and its last time. That earlier rows are unchanged is proved in one of two ways: the row
groups of the offset are still the first ones; or, in a table without deduplication keys, exactly as many rows as then
are not later than the last time of then, so none was inserted. A commit for which neither holds is not an append.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, open_snapshot, snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.pipeline.datasource.changes import Mark, NotAppendedError, appended_rows, mark_of
from tornproof.pipeline.datasource.options import OptionRejectedError
from tornproof.pipeline.datasource.plan import ReadRequest, core_count, read_pieces, splits_of

STREAM_OPTIONS = frozenset({"path", "columns", "start", "changes"})
CHOICES = {"start": ("beginning", "latest"), "changes": ("fail", "skip")}
Offset = dict[str, Any]


class TornproofStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the rows appended between two offsets, and reads them."""

    def __init__(self, snapshot: Snapshot, columns: tuple[SnapshotColumn, ...], options: dict[str, str]) -> None:
        """Read the options; raises OptionRejectedError."""
        for option, choices in CHOICES.items():
            if options.get(option, choices[0]) not in choices:
                raise OptionRejectedError(f"option {option}: {options[option]!r} is none of {', '.join(choices)}")
        self._starts_latest = options.get("start") == "latest"
        self._skips_changes = options.get("changes") == "skip"
        self._until: Offset | None = None
        self._pins: list[Pin] = []
        self._request = ReadRequest.of(snapshot, columns)

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new stream: before the first row, or after the current last one."""
        start: Offset = {"version": -1, "partitions": {}}
        return self._offset(start) if self._starts_latest else start

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset of the committed version, or `start` if no partition has changed since."""
        return self._until or self._offset(start)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream at the currently committed version."""
        self._until = self._offset({"version": -1, "partitions": {}})

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Plan the rows between two offsets, which may come from a checkpoint; raises NotAppendedError."""
        snapshot = open_snapshot(open_table(OperatingSystemStorage(), self._request.path))
        before, after = _marks(start), _marks(end)
        row_groups = []
        for timestamp in sorted(before.keys() | after.keys()):
            if before.get(timestamp) == after.get(timestamp):
                continue
            try:
                row_groups += appended_rows(
                    snapshot, self._request, timestamp, before.get(timestamp), after.get(timestamp)
                )
            except NotAppendedError:
                if not self._skips_changes:
                    raise
        splits = splits_of(row_groups, core_count())
        return [InputPartition((snapshot.transaction.version, pieces)) for pieces in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        version, pieces = partition.value
        request = replace(self._request, version=version)
        yield from read_pieces(OperatingSystemStorage(), request, pieces, ReadCounters())

    def commit(self, end: Offset) -> None:
        """Release versions before a processed offset."""
        self._release(end["version"])

    def stop(self) -> None:
        """Release all versions."""
        self._release(None)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the pins, which belong to this process."""
        return {**self.__dict__, "_pins": [], "_until": None}

    def _offset(self, start: Offset) -> Offset:
        """Return the offset of the committed version, which stays readable until a later one is processed."""
        storage, known = OperatingSystemStorage(), _marks(start)
        table = open_table(storage, self._request.path)
        pin = pin_committed(storage, table.path)
        snapshot = snapshot_of(table, pin.transaction)
        found = {
            partition.timestamp: mark_of(snapshot, partition, known.get(partition.timestamp))
            for partition in pin.transaction.partitions
            if partition.is_parquet
        }
        if found == known:
            pin.release()
            return start
        self._keep(pin)
        stored = {str(timestamp): list(mark) for timestamp, mark in found.items()}
        return {"version": pin.version, "partitions": stored}

    def _keep(self, pin: Pin) -> None:
        """Keep a version, once however often Spark asks for its offset before it plans a batch."""
        if pin.version in [other.version for other in self._pins]:
            pin.release()
        else:
            self._pins.append(pin)

    def _release(self, below_version: int | None) -> None:
        kept = [pin for pin in self._pins if below_version is not None and pin.version >= below_version]
        for pin in self._pins:
            if pin not in kept:
                pin.release()
        self._pins = kept


def _marks(offset: Offset) -> dict[int, Mark]:
    return {int(timestamp): Mark(*stored) for timestamp, stored in offset["partitions"].items()}
