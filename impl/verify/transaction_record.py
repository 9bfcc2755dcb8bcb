"""Whether the record in `_txn` agrees with itself and with the rows: the checksum of the lag, the first and last time.

Readers need neither. Source: QuestDB's public sources and the classes of 9.3.4, checked on tables of 9.3.4 to 2026-07.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tornproof.impl.errors import Problem
from tornproof.impl.layout.record import RecordPosition
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.query.time_search import row_group_times
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, TXN_FILE, Partition, Transaction
from tornproof.impl.txn.write import NO_LAG, lag_checksum


class PartitionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The first and the last time of a partition's rows, and the name of its directory."""

    name: str
    first: int
    last: int


def end_partitions(transaction: Transaction) -> tuple[Partition, ...]:
    """Return the partitions with the table's first and its last row, none if there are no partitions."""
    return transaction.partitions[:1] + transaction.partitions[-1:]


def parquet_times(resolved: ResolvedPartition) -> PartitionTimes | None:
    """Return the times by the statistics of the row groups, None unless all of them have some."""
    times = row_group_times(resolved.metadata.header, resolved.metadata.blocks)
    if I64_MIN in times.minimums or I64_MAX in times.maximums or not len(times.minimums):
        return None
    first, last = int(times.minimums.min()), int(times.maximums.max())
    return PartitionTimes(name=resolved.files.name, first=first, last=last)


def check_record(
    transaction: Transaction, metadata: TableMetadata | None, times: Mapping[int, PartitionTimes]
) -> Iterator[Problem]:
    """Yield what is wrong with the record; `times` are those of sound partitions, by their start in `_txn`."""
    if not has_right_lag_checksum(transaction.record, metadata):
        expected = f"{lag_checksum(transaction.record)}, of the lag fields, TXN and SEQ_TXN"
        yield _at(transaction).problem("lag_checksum", expected, transaction.record.lag_checksum)
    if metadata is None or metadata.timestamp_id >= 0:
        # Servers leave the first time of a table without intervals as it was when the table was new.
        has_first = metadata is None or metadata.partition_by is not PartitionBy.NONE
        yield from _check_times(transaction, times, has_first=has_first)


def has_right_lag_checksum(record: TransactionRecord, metadata: TableMetadata | None) -> bool:
    """Whether a server may have stored the checksum with the record."""
    return record.lag_checksum in _lag_checksums(record, has_wal=metadata is not None and metadata.has_wal)


def _lag_checksums(record: TransactionRecord, *, has_wal: bool) -> Iterator[int]:
    """Yield what servers store as the checksum."""
    yield lag_checksum(record)
    if record.lag_txn_count < 0:
        # Servers that store a whole record count without the sign, which says that the lag is unordered.
        yield lag_checksum(record.changed(lag_txn_count=-record.lag_txn_count))
    if any(getattr(record, name) != value for name, value in NO_LAG.items()):
        return
    if not record.transient_row_count and not record.fixed_row_count and not record.lag_txn_count:
        # TRUNCATE leaves the one of a new table.
        yield lag_checksum(record.changed(txn=0, seq_txn=0))
    if record.lag_txn_count in (0, -1):
        # A table that was restored from a checkpoint has none until its next commit.
        yield 0
    if record.lag_txn_count == -(record.lag_checksum < 0):
        # A server that takes the lag back, or changes whether there is a write-ahead log, counts without SEQ_TXN, and
        # stores the checksum as 8 bytes, so that its sign is in LAG_TXN_COUNT.
        yield lag_checksum(record.changed(lag_txn_count=0, seq_txn=0 if has_wal else record.seq_txn))


def _check_times(
    transaction: Transaction, times: Mapping[int, PartitionTimes], *, has_first: bool
) -> Iterator[Problem]:
    record = transaction.record
    for name, time, why in _known_times(transaction, times):
        found = getattr(record, name)
        if found != time and (has_first or name != "min_timestamp"):
            yield _at(transaction).problem(name, f"{time}, {why}", found)
    for last in transaction.partitions[-1:]:
        # Nothing else tells that a native partition has rows; if all of them are in the lag, it has none yet.
        has_none = not (last.is_parquet or last.row_count or record.lag_row_count)
        if has_none and record.max_timestamp >= last.timestamp:
            expected = "1 or more, because MAX_TIMESTAMP is in the last partition"
            yield _at(transaction).problem("transient_row_count", expected, 0)


def _known_times(transaction: Transaction, times: Mapping[int, PartitionTimes]) -> Iterator[tuple[str, int, str]]:
    """Yield the fields whose time is known, and why; rows in the lag do not count yet."""
    if transaction.partitions:
        first, last = (times.get(end.timestamp) for end in end_partitions(transaction))
        if first is not None:
            yield "min_timestamp", first.first, f"as in {first.name}"
        if last is not None:
            yield "max_timestamp", last.last, f"as in {last.name}"
    elif not transaction.record.transient_row_count:
        # A table without intervals may have rows without an entry.
        yield "min_timestamp", I64_MAX, "without rows"
        yield "max_timestamp", I64_MIN, "without rows"


def _at(transaction: Transaction) -> RecordPosition:
    return TransactionRecord.at(TXN_FILE, transaction.record_offset)
