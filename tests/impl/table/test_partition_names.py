"""Partition directories are found under the names that QuestDB gives them."""

import datetime
from pathlib import Path

import golden_data
import pytest

from tornproof.impl.table.metadata_file import PartitionBy, decode_metadata_file
from tornproof.impl.table.partition_names import directory_names, interval_end, looks_like_partition
from tornproof.impl.txn.transaction import decode_transaction

TABLES = tuple(
    name.removesuffix("/_meta") for name in golden_data.files_named("_meta") if not name.startswith("power-loss/")
)
SNAPSHOTS = tuple(name.removesuffix("/_txn") for name in golden_data.files("tables/*/*/history/*/_txn"))


def microseconds(text: str) -> int:
    return (datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


def name_of(text: str, partition_by: PartitionBy, name_txn: int = -1) -> str:
    (name,) = directory_names(microseconds(text), name_txn, partition_by, nanoseconds=False)
    return name


def nanosecond_name_of(text: str, nanoseconds: int, partition_by: PartitionBy = PartitionBy.DAY) -> str:
    (name,) = directory_names(microseconds(text) * 1000 + nanoseconds, -1, partition_by, nanoseconds=True)
    return name


@pytest.mark.parametrize("table", TABLES)
def test_every_partition_of_a_real_table_is_found_under_its_name(questdb_data: Path, table: str) -> None:
    folder = questdb_data / table
    metadata = decode_metadata_file((folder / "_meta").read_bytes(), file="_meta")
    transaction = decode_transaction((folder / "_txn").read_bytes(), file="_txn")
    for partition in transaction.partitions:
        (name,) = directory_names(
            partition.timestamp,
            partition.name_txn,
            metadata.partition_by,
            nanoseconds=metadata.counts_nanoseconds,
        )
        assert (folder / name).is_dir()


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_every_parquet_partition_of_a_real_history_is_found_under_its_name(questdb_data: Path, snapshot: str) -> None:
    folder = questdb_data / snapshot
    for partition in decode_transaction((folder / "_txn").read_bytes(), file="_txn").partitions:
        (name,) = directory_names(partition.timestamp, partition.name_txn, PartitionBy.DAY, nanoseconds=False)
        assert (folder / name).is_dir() or not partition.is_parquet


@pytest.mark.parametrize("table", TABLES)
def test_directories_of_a_real_table_look_like_partitions_exactly_if_they_are(questdb_data: Path, table: str) -> None:
    for path in (questdb_data / table).iterdir():
        assert looks_like_partition(path.name) == (path.is_dir() and path.name[0] == "2")


@pytest.mark.parametrize(
    ("partition_by", "name"),
    [
        (PartitionBy.YEAR, "2024"),
        (PartitionBy.MONTH, "2024-01"),
        (PartitionBy.DAY, "2024-01-01"),
        (PartitionBy.WEEK, "2024-W01"),
        (PartitionBy.HOUR, "2024-01-01T00"),
        (PartitionBy.NONE, "default"),
    ],
)
def test_each_interval_has_its_own_form(partition_by: PartitionBy, name: str) -> None:
    assert name_of("2024-01-01T00:00:00", partition_by) == name
    assert name_of("2024-01-01T00:00:00", partition_by, 1) == f"{name}.1"
    assert name_of("2024-01-01T00:00:00", partition_by, 17) == f"{name}.17"
    assert looks_like_partition(name) and looks_like_partition(f"{name}.17")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2020-12-28T00:00:00", "2020-W53"),
        ("2021-01-04T00:00:00", "2021-W01"),
        ("2018-12-31T00:00:00", "2019-W01"),
        ("1969-12-29T00:00:00", "1970-W01"),
    ],
)
def test_a_week_belongs_to_the_year_of_its_thursday(text: str, name: str) -> None:
    assert name_of(text, PartitionBy.WEEK) == name


@pytest.mark.parametrize(
    ("text", "partition_by", "name"),
    [
        ("2024-01-02T00:00:00", PartitionBy.MONTH, "2024-01-02"),
        ("2024-02-01T00:00:00", PartitionBy.YEAR, "2024-02-01"),
        ("2024-01-01T07:00:00", PartitionBy.DAY, "2024-01-01T07"),
        ("2024-01-01T00:30:00", PartitionBy.DAY, "2024-01-01T003000"),
        ("2024-01-01T07:50:00", PartitionBy.DAY, "2024-01-01T075000"),
        ("2024-01-01T07:00:01", PartitionBy.HOUR, "2024-01-01T070001"),
        ("2024-01-01T07:50:00.000001", PartitionBy.DAY, "2024-01-01T075000-000001"),
        ("2024-01-01T00:00:00.999999", PartitionBy.DAY, "2024-01-01T000000-999999"),
        ("2024-01-03T00:00:00", PartitionBy.WEEK, "2024-W01-3"),
        ("2024-01-01T05:00:00", PartitionBy.WEEK, "2024-W01-1T05"),
        ("2021-01-03T23:59:59.000100", PartitionBy.WEEK, "2020-W53-7T235959-000100"),
    ],
)
def test_the_name_of_a_split_partition_has_as_much_of_its_time_as_is_not_zero(
    text: str, partition_by: PartitionBy, name: str
) -> None:
    assert name_of(text, partition_by) == name
    assert name_of(text, partition_by, 3) == f"{name}.3"
    assert looks_like_partition(name) and looks_like_partition(f"{name}.3")


def test_nanoseconds_make_names_longer_only_where_they_are_not_zero() -> None:
    assert nanosecond_name_of("2024-01-01T00:00:00", 0) == "2024-01-01"
    assert nanosecond_name_of("2024-01-01T00:00:00", 1) == "2024-01-01T000000-000000001"
    assert nanosecond_name_of("2024-01-01T07:50:00.000001", 0) == "2024-01-01T075000-000001000"
    assert nanosecond_name_of("2024-01-01T07:00:00", 0) == "2024-01-01T07"
    assert nanosecond_name_of("2024-01-03T00:00:00", 5, PartitionBy.WEEK) == "2024-W01-3T000000-000000005"
    assert looks_like_partition("2024-01-01T000000-000000001.4")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "0999-01-01T00:00:00"])
def test_early_years_have_four_digits_on_every_platform(text: str) -> None:
    assert name_of(text, PartitionBy.YEAR) == text[:4]
    assert name_of(text, PartitionBy.HOUR) == text[:13]


def test_years_up_to_9999_have_names_and_the_microsecond_after_has_none() -> None:
    last = microseconds("9999-12-31T23:59:59.999999")
    assert directory_names(last, -1, PartitionBy.DAY, nanoseconds=False) == ("9999-12-31T235959-999999",)
    assert directory_names(last + 1, -1, PartitionBy.DAY, nanoseconds=False) == ()


@pytest.mark.parametrize("timestamp", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize("partition_by", [by for by in PartitionBy if by is not PartitionBy.NONE])
def test_impossible_times_have_no_name(timestamp: int, partition_by: PartitionBy) -> None:
    assert directory_names(timestamp, -1, partition_by, nanoseconds=False) == ()
    assert len(directory_names(timestamp, -1, partition_by, nanoseconds=True)) == 1


@pytest.mark.parametrize("timestamp", [-(2**63), 0, 2**63 - 1])
def test_a_table_without_intervals_has_one_name_for_any_time(timestamp: int) -> None:
    assert directory_names(timestamp, 4, PartitionBy.NONE, nanoseconds=False) == ("default.4",)
    assert directory_names(timestamp, -1, PartitionBy.NONE, nanoseconds=False) == ("default",)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "wal1",
        "txn_seq",
        "sym.k",
        "_meta",
        "default.",
        "default.x",
        "defaults",
        "202",
        "20240",
        "2024-1",
        "2024-01-01.",
        "2024-01-01.-1",
        "2024-01-01.1.2",
        "2024-01-01.detached",
        "2024-01-01.attachable",
        "2024-01-01T0",
        "2024-01-01T07500",
        "2024-01-01T075000-",
        "2024-01-01T075000-00001",
        "2024-01-01T075000-0000001",
        "2024-W1",
        "2024-W01-",
        "2024-W01-33",
        "2024-01T05",
        "2024-01-01 ",
        "2024-01-01\n",
        "٢٠٢٤-01-01",
    ],
)
def test_other_names_do_not_look_like_partitions(name: str) -> None:
    assert not looks_like_partition(name)


@pytest.mark.parametrize(
    ("text", "partition_by", "end"),
    [
        ("2024-01-01T05:00:00", PartitionBy.HOUR, "2024-01-01T06:00:00"),
        ("2024-01-01T23:59:59.999999", PartitionBy.HOUR, "2024-01-02T00:00:00"),
        ("2024-01-01T00:00:00", PartitionBy.DAY, "2024-01-02T00:00:00"),
        ("2024-02-28T07:50:00.000001", PartitionBy.DAY, "2024-02-29T00:00:00"),
        ("2024-01-01T00:00:00", PartitionBy.WEEK, "2024-01-08T00:00:00"),
        ("2024-01-07T23:59:59", PartitionBy.WEEK, "2024-01-08T00:00:00"),
        ("2021-01-03T00:00:00", PartitionBy.WEEK, "2021-01-04T00:00:00"),
        ("2024-02-01T00:00:00", PartitionBy.MONTH, "2024-03-01T00:00:00"),
        ("2023-02-28T00:00:00", PartitionBy.MONTH, "2023-03-01T00:00:00"),
        ("2024-12-31T23:00:00", PartitionBy.MONTH, "2025-01-01T00:00:00"),
        ("2024-01-31T00:00:00", PartitionBy.MONTH, "2024-02-01T00:00:00"),
        ("2024-01-01T00:00:00", PartitionBy.YEAR, "2025-01-01T00:00:00"),
        ("2024-02-29T05:00:00", PartitionBy.YEAR, "2025-01-01T00:00:00"),
        ("1969-12-31T23:59:59", PartitionBy.DAY, "1970-01-01T00:00:00"),
    ],
)
def test_an_interval_ends_where_the_next_one_begins_wherever_in_it_a_partition_was_split_off(
    text: str, partition_by: PartitionBy, end: str
) -> None:
    assert interval_end(microseconds(text), partition_by, nanoseconds=False) == microseconds(end)
    split_off = microseconds(text) * 1000 + 999
    assert interval_end(split_off, partition_by, nanoseconds=True) == microseconds(end) * 1000


@pytest.mark.parametrize("by", [by for by in PartitionBy if by is not PartitionBy.NONE])
def test_the_last_interval_of_the_calendar_ends_before_the_year_10000(by: PartitionBy) -> None:
    end = microseconds("9999-12-31T23:59:59") + 1_000_000
    assert interval_end(microseconds("9999-12-31T23:30:00"), by, nanoseconds=False) == end


def test_a_table_without_intervals_and_a_time_that_no_calendar_has_end_nowhere() -> None:
    assert interval_end(0, PartitionBy.NONE, nanoseconds=False) is None
    for partition_by in PartitionBy:
        assert interval_end(2**63 - 1, partition_by, nanoseconds=False) is None
        assert interval_end(-(2**63), partition_by, nanoseconds=False) is None
    assert interval_end(microseconds("9998-12-31T00:00:00"), PartitionBy.YEAR, nanoseconds=False) is not None
