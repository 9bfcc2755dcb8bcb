"""`spark.readStream.format("tornproof").load(TABLE)`: the rows that commits append, each once.

A partition's rows are in time order, so appended rows are those after a row number. An offset has, for each partition,
a row count and the time of the last of these rows (`offsets.py`). That earlier rows are unchanged is proved in one of
three ways: the row groups of the offset are still the first ones; in a table without deduplication keys, exactly as
many rows as then are not later than the last time of then, so none was inserted; or, in one with keys, where such rows
may have been replaced, the files of then are there and begin with the same rows. A commit for which none holds is not
an append.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from tornproof.impl.errors import TornproofError
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.impl.txn.transaction import TXN_FILE, Transaction, safe_read
from tornproof.pipeline.datasource.changes import Allowance, NotAppendedError, appended_rows, reached
from tornproof.pipeline.datasource.offsets import (
    START,
    Marks,
    Offset,
    changed_between,
    marks_at,
    new_offset,
    partitions_of,
)
from tornproof.pipeline.datasource.options import OptionRejectedError, size_of, whole_number_of
from tornproof.pipeline.datasource.plan import ReadRequest, core_count, read_pieces, splits_of

COMMITS_OPTION, BYTES_OPTION = "maxCommitsPerTrigger", "maxBytesPerTrigger"
STREAM_OPTIONS = frozenset({"path", "columns", "start", "changes", COMMITS_OPTION, BYTES_OPTION})
CHOICES = {"start": ("beginning", "latest"), "changes": ("fail", "skip")}
STEP_PARTITIONS_MAX = 1_000
"""In how many partitions one step of a stream takes rows, so that its offset stays short."""
KNOWN_MAX = 4
"""Of so many offsets a reader remembers all marks: Spark asks from the last one or, before a batch, its predecessor."""


class ColumnsChangedError(TornproofError):
    """A column of a stream was dropped, or has another type, since the stream began."""


class TornproofStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds the rows appended between two offsets, and reads them."""

    def __init__(self, snapshot: Snapshot, columns: tuple[SnapshotColumn, ...], options: dict[str, str]) -> None:
        """Read the options; raises OptionRejectedError."""
        options = {name.lower(): text for name, text in options.items()}
        for option, choices in CHOICES.items():
            if options.get(option, choices[0]) not in choices:
                raise OptionRejectedError(f"option {option}: {options[option]!r} is none of {', '.join(choices)}")
        self._starts_latest = options.get("start") == "latest"
        self._skips_changes = options.get("changes") == "skip"
        self._commits_max = whole_number_of(options, COMMITS_OPTION)
        self._bytes_max = size_of(options, BYTES_OPTION)
        self._until: Pin | None = None
        self._pins: list[Pin] = []
        self._known: list[tuple[Offset, Marks]] = []
        self._request = ReadRequest.of(snapshot, columns)

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new stream: before the first row, or after the current last one."""
        return self._offset(START, Allowance()) if self._starts_latest else START

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a step: with it Spark takes several where there is more, and without all at once."""
        return ReadMaxFiles(STEP_PARTITIONS_MAX) if self._bytes_max is None else ReadMaxBytes(self._bytes_max)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset of the next step, or `start` if no partition has changed since.

        Spark's `Once` demands all that is available.
        """
        if isinstance(limit, ReadAllAvailable):
            return self._offset(start, Allowance())
        return self._offset(start, Allowance(self._commits_max, self._bytes_max, STEP_PARTITIONS_MAX))

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return the committed version, for the progress of the query."""
        return {"version": self._committed().version}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the stream at the currently committed version."""
        self._until = pin_committed(OperatingSystemStorage(), self._request.path)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Plan the rows between two offsets, which may come from a checkpoint.

        Raises NotAppendedError, ColumnsChangedError.
        """
        snapshot = self._snapshot_of(self._committed())
        row_groups = []
        for timestamp, before, after in changed_between(start, end):
            try:
                row_groups += appended_rows(
                    snapshot, self._request, timestamp, before, after, skips_changes=self._skips_changes
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
        if self._until is not None:
            self._until.release()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the pins, which belong to this process, and what only the driver needs."""
        return {**self.__dict__, "_pins": [], "_until": None, "_known": []}

    def _offset(self, start: Offset, allowance: Allowance) -> Offset:
        """Return the offset of the next step, whose version stays readable until a later one is processed."""
        pin = self._until or pin_committed(OperatingSystemStorage(), self._request.path)
        offset = start
        try:
            if not (start.get("is_whole") and start["version"] == pin.version):
                offset = self._following(start, self._snapshot_of(pin.transaction), allowance)
        finally:
            if offset is start:
                self._let_go(pin)
            else:
                self._keep(pin)
        return offset

    def _following(self, start: Offset, snapshot: Snapshot, allowance: Allowance) -> Offset:
        """Return the offset a step behind `start`, or `start` itself if no partition has changed since."""
        before = self._marks_at(start, snapshot)
        after = self._step(snapshot, before, allowance)
        if before == after:
            return start
        offset = new_offset(snapshot, start, before, after)
        self._known = [*self._known, (offset, after)][-KNOWN_MAX:]
        return offset

    def _committed(self) -> Transaction:
        return safe_read(OperatingSystemStorage(), f"{self._request.path}/{TXN_FILE}")

    def _snapshot_of(self, transaction: Transaction) -> Snapshot:
        """Return a version that was read before, unless a column of the stream is another one by now.

        A column that was dropped and added again, or has another type, has another id: rows with it would have no
        values for the stream. The columns are read after the version, so that they are not older than its rows.
        """
        snapshot = snapshot_of(open_table(OperatingSystemStorage(), self._request.path), transaction)
        there = {column.id: column.arrow_type for column in snapshot.columns}
        for column in self._request.columns:
            if there.get(column.id) != column.arrow_type:
                raise ColumnsChangedError(
                    f"{self._request.path}: column {column.name!r} was dropped, or got another type, since the stream "
                    "began; load the table and start the query again"
                )
        return snapshot

    def _step(self, snapshot: Snapshot, before: Marks, allowance: Allowance) -> Marks:
        """Return the marks after a step from those before, by time, until nothing more may be taken."""
        there, after = partitions_of(snapshot), dict(before)
        for timestamp in sorted(there.keys() | before.keys()):
            if allowance.is_spent:
                break
            mark = None
            if timestamp in there:
                mark = reached(
                    snapshot,
                    self._request,
                    there[timestamp],
                    before.get(timestamp),
                    allowance,
                    skips_changes=self._skips_changes,
                )
            if mark is not None:
                after[timestamp] = mark
            else:
                after.pop(timestamp, None)
        return after

    def _marks_at(self, offset: Offset, snapshot: Snapshot) -> Marks:
        for known, marks in self._known:
            if known == offset:
                return marks
        marks = marks_at(offset, snapshot, skips_changes=self._skips_changes)
        self._known.append((offset, marks))
        return marks

    def _keep(self, pin: Pin) -> None:
        """Keep a version, once however often Spark asks for its offset before it plans a batch."""
        if pin.version in [other.version for other in self._pins]:
            self._let_go(pin)
        elif pin is not self._until:
            self._pins.append(pin)

    def _let_go(self, pin: Pin) -> None:
        if pin is not self._until:
            pin.release()

    def _release(self, below_version: int | None) -> None:
        kept = [pin for pin in self._pins if below_version is not None and pin.version >= below_version]
        for pin in self._pins:
            if pin not in kept:
                pin.release()
        self._pins = kept
