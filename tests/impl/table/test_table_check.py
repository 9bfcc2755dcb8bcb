"""`_meta` and `_txn` must mean the columns and times that `_pm` has: each rule accepts the good and names the bad."""

import functools
from collections.abc import Mapping
from pathlib import Path

import golden_data
import pm_builder as pm
import pyarrow as pa
import pytest
import table_builder as tb
from golden_data import MANY, CopyOf
from msgspec.structs import replace
from real_tables import CHAIN, parquet_partitions, put, rows_of, seen, snapshot_of, table_image, verified, word
from rejections import rejection

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import CorruptError, Problem
from tornproof.impl.layout import meta as meta_layout
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.types.questdb import DESIGNATED, NANOSECOND, TypeTag

DAY_MICROSECONDS = 86_400_000_000
BOTH = tb.build(
    {
        "v": (TypeTag.LONG, pa.array([1, 2, 3])),
        "s": (TypeTag.VARCHAR, pa.array(["a", "bb", "c"])),
        "t": (TypeTag.TIMESTAMP, pa.array([7, 8, 9], pa.timestamp("us"))),
    }
)
TYPES = {"ts": TypeTag.TIMESTAMP, "v": TypeTag.LONG, "s": TypeTag.VARCHAR, "t": TypeTag.TIMESTAMP}


def problems_of(table: tb.BuiltTable) -> list[Problem]:
    """What verifying finds, which must be the error of reading, and nothing if reading succeeds."""
    image = table.image()
    found = list(verified("/table", image).all_problems)
    if found:
        assert rejection(lambda: rows_of(snapshot_of("/table", image), ["v"])) == found[0]
    else:
        assert rows_of(snapshot_of("/table", image), ["v"]).num_rows == 3
    return found


def with_meta(types: Mapping[str, int], timestamp_index: int = 0) -> tb.BuiltTable:
    content = pm.set_field(tb.meta(types), meta_layout.MetaHeader, 0, "timestamp_index", timestamp_index)
    return BOTH.with_file("_meta", content)


def test_metadata_that_agrees_is_no_problem() -> None:
    assert problems_of(BOTH) == problems_of(with_meta(TYPES)) == []


def test_a_type_that_is_unknown_here_is_noted_and_one_with_a_flipped_sign_is_damage() -> None:
    """Such a column was hidden, and the next commit rewrote its partition without it."""
    report = verified("/table", with_meta({**TYPES, "new": 40}).image())
    assert (report.sound, report.notes) == (True, ("column 'new' has type 40, which is unknown here",))
    hidden = with_meta({**TYPES, "s": TypeTag.VARCHAR - (1 << 31)}).image()
    for call in (verified, snapshot_of):
        assert rejection(functools.partial(call, "/table", hidden)).field == "TYPE of column 2"


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("s", TypeTag.SYMBOL),
        ("s", TypeTag.STRING),
        ("v", TypeTag.DATE),
        ("v", TypeTag.DOUBLE),
        ("t", NANOSECOND.put(TypeTag.TIMESTAMP, 1)),
        ("t", TypeTag.LONG),
    ],
)
def test_a_column_of_another_type_is_a_problem_of_meta(name: str, type_: int) -> None:
    (problem,) = problems_of(with_meta({**TYPES, name: type_}))
    expected = f"{int(TYPES[name])}, as in {tb.PM}"
    assert problem == Problem(
        file="_meta", field=f"TYPE of column {name!r}", offset_bytes=None, expected=expected, actual=str(int(type_))
    )


def test_only_pm_marks_the_designated_timestamp_in_its_type() -> None:
    header = pm.header_of(BOTH.files[tb.PM])
    assert [DESIGNATED.get(column.type) for column in header.columns] == [1, 0, 0, 0]
    assert problems_of(with_meta(TYPES)) == []


def test_another_designated_timestamp_is_a_problem_of_meta() -> None:
    (problem,) = problems_of(with_meta(TYPES, timestamp_index=3))
    assert (problem.file, problem.field) == ("_meta", "TIMESTAMP_INDEX")
    assert (problem.expected, problem.actual) == (f"0, as in {tb.PM}", "3")


def test_a_table_without_designated_timestamp_is_compared_by_its_columns_alone() -> None:
    assert problems_of(tb.without_time(with_meta(TYPES))) == []


def test_columns_that_a_partition_predates_or_lost_and_new_names_are_no_problem() -> None:
    assert problems_of(with_meta({**TYPES, "added": TypeTag.UUID})) == []
    assert problems_of(with_meta({"ts": TYPES["ts"], "v": TYPES["v"]})) == []
    assert problems_of(with_meta({"ts": TYPES["ts"], "v": TYPES["v"], "renamed": TYPES["s"]})) == []


def of_unknown_type(type_: int) -> tb.BuiltTable:
    """A table whose `_pm` has no QuestDB type for the column `v`, and whose `_meta` has."""
    position = pm.descriptor_offset(1)
    unknown = pm.seal(pm.set_field(BOTH.files[tb.PM], pm_layout.ColumnDescriptor, position, "type", -1))
    return with_meta({**TYPES, "v": type_}).with_file(tb.PM, unknown)


def test_a_column_of_unknown_type_must_be_stored_as_the_type_of_meta_is() -> None:
    assert problems_of(of_unknown_type(TypeTag.LONG)) == []
    (problem,) = problems_of(of_unknown_type(TypeTag.VARCHAR))
    assert (problem.field, problem.expected) == ("TYPE of column 'v'", f"-1, as in {tb.PM}")


@pytest.mark.parametrize("other", ["tables/9.4.2/types/table", "tables/9.4.2/wide/table"])
def test_meta_of_another_table_is_a_problem(other: str, questdb_data: Path) -> None:
    path, image = table_image(questdb_data)
    found = seen(verified(path, image.with_file(f"{path}/_meta", (questdb_data / other / "_meta").read_bytes())))
    assert found
    assert {(file, field.split(" ")[0]) for file, field, _ in found} <= {
        ("_meta", "TYPE"),
        ("_meta", "TIMESTAMP_INDEX"),
    }


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_every_real_table_agrees_with_itself(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    for partition in parquet_partitions(snapshot):
        assert list(check_against_table(snapshot.resolve(partition), snapshot.table.metadata)) == []


def test_exchanged_partition_directories_are_a_problem_of_their_times(copy_of: CopyOf) -> None:
    table = copy_of(MANY)
    assert verified(table).sound
    first, second = table / "2024-10-01T01.1", table / "2024-10-01T02.2"
    first.rename(table / "other")
    second.rename(first)
    (table / "other").rename(second)
    entries = {partition.timestamp: partition for partition in snapshot_of(table).transaction.partitions}
    found = verified(table).all_problems
    assert [(problem.file, problem.field) for problem in found] == [
        ("_txn", f"TIMESTAMP of {name.name}") for name in (first, second)
    ]
    assert [problem.offset_bytes for problem in found] == [
        entries[timestamp].entry_offset_bytes for timestamp in sorted(entries)[1:3]
    ]
    with pytest.raises(CorruptError, match=r"TIMESTAMP of 2024-10-01T01\.1"):
        rows_of(snapshot_of(table))


def a_day_early(questdb_data: Path) -> tuple[str, DiskImage]:
    """The chain table with its parquet partition one day early, under the name that this day has."""
    path, image = table_image(questdb_data)
    (partition,) = parquet_partitions(snapshot_of(path, image))
    for file in ("_pm", "data.parquet"):
        content = image.files[f"{path}/2024-01-01.1/{file}"]
        image = image.without_file(f"{path}/2024-01-01.1/{file}").with_file(f"{path}/2023-12-31.1/{file}", content)
    early = put(partition.entry_offset_bytes, word(partition.timestamp - DAY_MICROSECONDS))
    return path, image.with_file(f"{path}/_txn", early(image.files[f"{path}/_txn"]))


def test_a_partition_one_day_early_is_a_problem_although_its_directory_was_renamed_too(questdb_data: Path) -> None:
    path, image = a_day_early(questdb_data)
    (problem,) = verified(path, image).all_problems
    assert (problem.file, problem.field) == ("_txn", "TIMESTAMP of 2023-12-31.1")
    assert problem.actual.endswith("in 2023-12-31.1/_pm")


def test_without_meta_only_the_neighbour_ends_a_partition(questdb_data: Path) -> None:
    path, bare = a_day_early(questdb_data)
    # With a server's other files, a table without `_meta` has lost it.
    for file in ("_meta", "_cv", "_name"):
        bare = bare.without_file(f"{path}/{file}")
    assert verified(path, bare).sound
    (partition,) = parquet_partitions(snapshot_of(path, bare))
    next_entry = partition.entry_offset_bytes + txn_layout.PartitionEntry.layout.size_bytes
    # The next partition is changed to start within the rows.
    content = put(next_entry, word(partition.timestamp + DAY_MICROSECONDS + 1))(bare.files[f"{path}/_txn"])
    (problem,) = verified(path, bare.with_file(f"{path}/_txn", content)).all_problems
    assert problem.field == "TIMESTAMP of 2023-12-31.1"


@pytest.fixture
def resolved(questdb_data: Path) -> ResolvedPartition:
    snapshot = snapshot_of(questdb_data / CHAIN)
    (partition,) = parquet_partitions(snapshot)
    return snapshot.resolve(partition)


def times_of(resolved: ResolvedPartition) -> tuple[int, int]:
    column = resolved.metadata.header.designated_timestamp
    bounds = [
        (int.from_bytes(chunk.minimum.value, "little"), int.from_bytes(chunk.maximum.value, "little"))
        for chunk in (block.chunks[column] for block in resolved.metadata.blocks)
        if chunk.minimum and chunk.maximum
    ]
    assert len(bounds) == len(resolved.metadata.blocks)
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def is_inside(resolved: ResolvedPartition, timestamp: int, next_timestamp: int | None, interval: PartitionBy) -> bool:
    metadata = snapshot_of(resolved.files.path.rpartition("/")[0]).table.metadata
    assert metadata is not None
    moved = replace(resolved, partition=replace(resolved.partition, timestamp=timestamp, next_timestamp=next_timestamp))
    found = list(check_against_table(moved, replace(metadata, partition_by=interval)))
    assert all(problem.field == "TIMESTAMP of 2024-01-01.1" for problem in found)
    return not found


def test_rows_lie_between_a_partition_and_the_next_to_the_microsecond(resolved: ResolvedPartition) -> None:
    low, high = times_of(resolved)
    for timestamp, next_timestamp, inside in (
        (low, high + 1, True),
        (low + 1, high + 1, False),
        (low, high, False),
        (low, None, True),
        (low - DAY_MICROSECONDS, None, True),
        (low + 1, None, False),
    ):
        assert is_inside(resolved, timestamp, next_timestamp, PartitionBy.NONE) is inside


def test_rows_lie_inside_of_the_interval_that_the_partition_starts_in(resolved: ResolvedPartition) -> None:
    start = tb.DAY_MICROSECONDS
    low, high = times_of(resolved)
    assert start <= low < high < start + DAY_MICROSECONDS
    # The year 2024 began on a Monday, so one microsecond before it every other interval was another one too.
    for interval in (PartitionBy.HOUR, PartitionBy.DAY, PartitionBy.MONTH, PartitionBy.YEAR, PartitionBy.WEEK):
        assert not is_inside(resolved, start - 1, None, interval)
    for interval in (PartitionBy.DAY, PartitionBy.MONTH, PartitionBy.YEAR, PartitionBy.WEEK, PartitionBy.NONE):
        assert is_inside(resolved, start, None, interval)
    assert is_inside(resolved, start, None, PartitionBy.HOUR) == (high < start + 3_600_000_000)
