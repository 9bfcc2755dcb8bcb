"""A long-lived reader notices every change, and reports those that a reader relying on versions would have missed."""

from pathlib import Path

import golden_data
import pytest
from table_builder import zeroed

from tornproof.impl.errors import CorruptError, FileMissingError
from tornproof.impl.layout import txn as layout
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.txn.reader import Reload, TransactionReader
from tornproof.impl.txn.transaction import decode_transaction

DAY = 24 * 3600 * 1_000_000
PARQUET = layout.PARQUET_FORMAT.put(0, 1)
FIRST, SECOND, THIRD = (
    layout.PartitionEntry(
        timestamp=day * DAY, row_count_and_flags=PARQUET | 100 + day, name_txn=day - 1, token=1000 + day
    )
    for day in range(3)
)
RECORD = zeroed(
    layout.TransactionRecord, max_timestamp=3 * DAY, partition_table_version=5, column_version=5, truncate_version=5
)


def transaction_file(version: int, *entries: layout.PartitionEntry, record: layout.TransactionRecord = RECORD) -> bytes:
    """A `_txn` with one record at byte 64; the last entry's row count is in the record, as in QuestDB."""
    *counts, transient = (layout.ROW_COUNT.get(entry.row_count_and_flags) for entry in entries)
    size = len(entries) * layout.PartitionEntry.layout.size_bytes
    area = {"a_record_offset": 64, "a_partitions_size": size, "b_record_offset": 64, "b_partitions_size": size}
    base = zeroed(layout.BaseHeader, version=version, **area)
    record = record.changed(txn=version, transient_row_count=transient, fixed_row_count=sum(counts))
    table = b"".join(entry.pack() for entry in entries)
    return base.pack() + record.pack() + layout.PartitionTableSize(partitions_size=size).pack() + table


class Follower:
    """A reader of a real file that changes between its reloads."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "_txn"
        self._reader = TransactionReader(OperatingSystemStorage(), str(self._path))

    def see(self, content: bytes) -> Reload:
        self._path.write_bytes(content)
        return self._reader.reload()


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def timestamps(reload: Reload) -> list[int]:
    return [partition.timestamp for partition in reload.unchanged]


@pytest.mark.parametrize("history", golden_data.HISTORIES)
def test_the_real_histories_announce_every_change(questdb_data: Path, follower: Follower, history: str) -> None:
    versions: list[int] = []
    entries: set[tuple[int, ...]] = set()
    for name in golden_data.files(f"{history}/*/_txn"):
        content = (questdb_data / name).read_bytes()
        reload = follower.see(content)
        assert reload.transaction == decode_transaction(content, file=name)
        assert reload.unannounced == ()
        now = {(p.timestamp, p.row_count, p.name_txn, p.token, p.flags): p for p in reload.transaction.partitions}
        assert reload.unchanged == tuple(partition for entry, partition in now.items() if entry in entries)
        versions.append(reload.transaction.version)
        entries = set(now)
    assert versions == sorted(set(versions)) and len(versions) > 3


@pytest.mark.parametrize("history", golden_data.HISTORIES)
def test_the_real_histories_have_commits_that_change_and_commits_that_keep_a_partition(
    questdb_data: Path, follower: Follower, history: str
) -> None:
    reloads = [follower.see((questdb_data / name).read_bytes()) for name in golden_data.files(f"{history}/*/_txn")]
    assert any(0 < len(reload.unchanged) < len(reload.transaction.partitions) for reload in reloads[1:])


def test_the_first_reload_reports_no_partition_as_unchanged_or_unannounced(follower: Follower) -> None:
    reload = follower.see(transaction_file(2, FIRST, SECOND))
    assert (reload.unchanged, reload.unannounced) == ((), ())


def test_a_reload_of_the_same_version_keeps_everything(follower: Follower) -> None:
    content = transaction_file(2, FIRST, SECOND)
    follower.see(content)
    assert timestamps(follower.see(content)) == [FIRST.timestamp, SECOND.timestamp]


@pytest.mark.parametrize(
    "changed",
    [
        FIRST.changed(token=FIRST.token + 1),
        FIRST.changed(row_count_and_flags=FIRST.row_count_and_flags ^ PARQUET),
        FIRST.changed(row_count_and_flags=layout.READ_ONLY.put(FIRST.row_count_and_flags, 1)),
        FIRST.changed(row_count_and_flags=layout.SQUASH_COUNT.put(FIRST.row_count_and_flags, 1)),
        FIRST.changed(row_count_and_flags=FIRST.row_count_and_flags + 1),
        FIRST.changed(name_txn=FIRST.name_txn + 1),
        FIRST.changed(timestamp=FIRST.timestamp + 1),
    ],
    ids=["token", "format", "read-only", "squash counter", "row count", "name", "timestamp"],
)
def test_an_older_partition_that_changes_without_announcement_is_named(
    follower: Follower, changed: layout.PartitionEntry
) -> None:
    follower.see(transaction_file(2, FIRST, SECOND, THIRD))
    reload = follower.see(transaction_file(3, changed, SECOND, THIRD))
    assert reload.unannounced == reload.transaction.partitions[:1]
    assert timestamps(reload) == [SECOND.timestamp, THIRD.timestamp]


@pytest.mark.parametrize(
    "announcing",
    [
        RECORD.changed(partition_table_version=6),
        RECORD.changed(column_version=6),
        RECORD.changed(truncate_version=6),
    ],
    ids=["partition table", "columns", "truncate"],
)
def test_the_same_change_is_not_reported_if_a_version_announces_it(
    follower: Follower, announcing: layout.TransactionRecord
) -> None:
    follower.see(transaction_file(2, FIRST, SECOND, THIRD))
    changed = FIRST.changed(token=FIRST.token + 1)
    reload = follower.see(transaction_file(3, changed, SECOND, THIRD, record=announcing))
    assert reload.unannounced == ()
    assert FIRST.timestamp not in timestamps(reload)


def test_a_version_that_announces_something_else_announces_no_partition(follower: Follower) -> None:
    follower.see(transaction_file(2, FIRST, SECOND))
    record = RECORD.changed(data_version=9, structure_version=9, seq_txn=9)
    reload = follower.see(transaction_file(3, FIRST.changed(token=FIRST.token + 1), SECOND, record=record))
    assert reload.unannounced == reload.transaction.partitions[:1]


def test_the_last_partition_grows_and_new_ones_come_without_announcement(follower: Follower) -> None:
    follower.see(transaction_file(2, FIRST, SECOND))
    grown = SECOND.changed(row_count_and_flags=SECOND.row_count_and_flags + 50)
    reload = follower.see(transaction_file(3, FIRST, grown))
    assert (timestamps(reload), reload.unannounced) == ([FIRST.timestamp], ())
    reload = follower.see(transaction_file(4, FIRST, grown, THIRD))
    assert (timestamps(reload), reload.unannounced) == ([FIRST.timestamp, SECOND.timestamp], ())


@pytest.mark.parametrize(
    "changed",
    [
        SECOND.changed(token=SECOND.token + 1),
        SECOND.changed(row_count_and_flags=SECOND.row_count_and_flags + 50, token=SECOND.token + 50),
        SECOND.changed(row_count_and_flags=layout.READ_ONLY.put(SECOND.row_count_and_flags, 1)),
        SECOND.changed(name_txn=SECOND.name_txn + 1),
        SECOND.changed(timestamp=SECOND.timestamp + 1),
    ],
    ids=["token", "rows and token", "flags", "name", "timestamp"],
)
def test_all_but_the_row_count_of_the_last_partition_is_announced_unless_a_new_one_follows(
    follower: Follower, changed: layout.PartitionEntry
) -> None:
    """A reader of the server went on with the old directory, and nothing said so."""
    follower.see(transaction_file(2, FIRST, SECOND))
    reload = follower.see(transaction_file(3, FIRST, changed))
    assert reload.unannounced == reload.transaction.partitions[1:]
    assert timestamps(reload) == [FIRST.timestamp]
    follower.see(transaction_file(4, FIRST, SECOND))
    assert follower.see(transaction_file(5, FIRST, changed, THIRD)).unannounced == ()


def test_a_partition_put_between_older_ones_without_announcement_is_named(follower: Follower) -> None:
    follower.see(transaction_file(2, FIRST, THIRD))
    follower.see(transaction_file(3, FIRST, THIRD, THIRD.changed(timestamp=9 * DAY)))
    reload = follower.see(transaction_file(4, FIRST, SECOND, THIRD, THIRD.changed(timestamp=9 * DAY)))
    assert [partition.timestamp for partition in reload.unannounced] == [SECOND.timestamp]


def test_older_partitions_that_vanish_without_announcement_are_named(follower: Follower) -> None:
    follower.see(transaction_file(2, FIRST, SECOND, THIRD))
    reload = follower.see(transaction_file(3, FIRST))
    assert [partition.timestamp for partition in reload.unannounced] == [SECOND.timestamp]
    assert timestamps(reload) == [FIRST.timestamp]


def test_after_truncate_nothing_is_kept_even_if_the_entries_come_back_the_same(follower: Follower) -> None:
    follower.see(transaction_file(2, FIRST, SECOND))
    reload = follower.see(transaction_file(3, FIRST, SECOND, record=RECORD.changed(truncate_version=6)))
    assert (reload.unchanged, reload.unannounced) == ((), ())


def test_a_failed_reload_has_no_effect(follower: Follower, tmp_path: Path) -> None:
    follower.see(transaction_file(2, FIRST, SECOND))
    with pytest.raises(CorruptError):
        follower.see(transaction_file(3, FIRST, SECOND)[:100])
    reload = follower.see(transaction_file(4, FIRST.changed(token=7), SECOND))
    assert reload.unannounced == reload.transaction.partitions[:1]
    assert timestamps(reload) == [SECOND.timestamp]


def test_a_file_that_is_not_there_is_missing_and_not_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        TransactionReader(OperatingSystemStorage(), str(tmp_path / "_txn")).reload()
