import itertools
from collections.abc import Iterator
from pathlib import Path

import golden_data
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from depth import sampled
from msgspec.structs import replace
from real_tables import image_of, only, parquet_partitions, rows_of, snapshot_of, table_image

from tornproof.harness.simulator.filesystem.trace import TracingStorage
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import txn
from tornproof.impl.pm.block import Chunk
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange, TimeTextError
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import RepeatedColumnError, Snapshot, UnknownColumnError, open_snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.types.arrow import is_nullable
from tornproof.impl.types.questdb import DESIGNATED, TypeTag

CHAIN = "tables/9.4.2/chain/table"
NANOSECOND = "tables/2026-07/nanosecond/table"
MIXED = "tables/9.4.2/nonwal/table"
ALL_NULL = "tables/9.4.2/allnull/table"
ADDED_TYPES = {tag: int(tag) for tag in TypeTag if tag is not TypeTag.ARRAY and not tag.name.startswith("DECIMAL")} | {
    "array of doubles": 27 | 10 << 8 | 1 << 14,
    "decimal": 33 | 70 << 8 | 8 << 18,
}


def traced(folder: Path) -> tuple[Snapshot, TracingStorage]:
    storage = TracingStorage(image_of(folder))
    return snapshot_of(folder, storage), storage


def touched(snapshot: Snapshot, storage: TracingStorage, chunk: Chunk) -> bool:
    """Whether any byte of the chunk was read, in the snapshot's only parquet partition."""
    (partition,) = parquet_partitions(snapshot)
    ranges = storage.ranges(f"{snapshot.table.files_of(partition).path}/data.parquet")
    return ranges.have_any(chunk.byte_range_start, chunk.byte_range_end)


def chunks(snapshot: Snapshot) -> Iterator[tuple[int, str, Chunk]]:
    """Row group, column name and chunk of the snapshot's only parquet partition."""
    (partition,) = parquet_partitions(snapshot)
    metadata = snapshot.resolve(partition).metadata
    for ordinal, block in enumerate(metadata.blocks):
        for column, chunk in zip(metadata.header.columns, block.chunks, strict=True):
            yield ordinal, column.name, chunk


@pytest.mark.parametrize("names", [["n", "ts"], ["v"], ["s", "n", "v", "ts"]])
def test_columns_come_in_the_order_asked_for(names: list[str], questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    everything = rows_of(snapshot)
    for batch in snapshot.batches(names):
        assert batch.schema.names == names
    selected = pa.Table.from_batches(snapshot.batches(names))
    assert selected.columns == [everything.column(name) for name in names]


def test_unknown_column_is_rejected_with_the_names_there_are(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    with pytest.raises(UnknownColumnError, match=r"no column 'V'; the table has ts, v, s, n"):
        next(snapshot.batches(["ts", "V"]))


def test_a_column_is_not_returned_twice(questdb_data: Path) -> None:
    with pytest.raises(RepeatedColumnError, match="column 'v' is named 2 times"):
        snapshot_of(questdb_data / CHAIN).selected(["v", "ts", "v"])


def test_times_may_be_none_but_not_the_wrong_way_round(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    none = snapshot.time_range("2024-01-01", "2024-01-01")
    assert none.start == none.end and list(snapshot.batches(times=none)) == []
    with pytest.raises(TimeTextError, match="end before they begin"):
        snapshot.time_range("2024-01-01T00:00:00.000001", "2024-01-01")


def test_time_range_of_a_table_without_designated_timestamp_is_rejected(questdb_data: Path) -> None:
    snapshot = replace(snapshot_of(questdb_data / CHAIN), timestamp_id=-1)
    with pytest.raises(UnknownColumnError, match="no designated timestamp"):
        next(snapshot.batches(times=TimeRange(start=0)))
    assert rows_of(snapshot).num_rows > 0


@pytest.mark.parametrize(
    "name", sampled(2, [CHAIN, NANOSECOND, "tables/9.4.2/oddcols/table", "tables/9.4.2/many/table"], seed=1)
)
def test_time_range_includes_its_start_and_excludes_its_end(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name)
    timestamp = next(column.name for column in snapshot.columns if column.id == snapshot.timestamp_id)
    everything = rows_of(snapshot)
    counts = everything.column(timestamp).cast(pa.int64())
    known = counts.to_pylist()
    bounds = [None, known[0] - 1, known[0], known[5], known[len(known) // 2], known[-1], known[-1] + 1]
    for start, end in itertools.product(bounds, bounds):
        times = TimeRange(start=start, end=end)
        wanted = [(start is None or count >= start) and (end is None or count < end) for count in known]
        assert rows_of(snapshot, times=times).equals(everything.filter(pa.array(wanted))), times


def test_time_range_filters_columns_that_leave_the_timestamp_out(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    everything = rows_of(snapshot)
    middle = everything.column("ts").cast(pa.int64()).to_pylist()[7]
    rows = rows_of(snapshot, ["n"], TimeRange(start=middle))
    assert rows.schema.names == ["n"]
    assert rows.column("n").equals(everything.column("n").slice(7))


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-(1 << 63), 0), ((1 << 63) - 1, None)])
def test_time_range_without_rows_yields_nothing(start: int, end: int | None, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    assert list(snapshot.batches(times=TimeRange(start=start, end=end))) == []


def test_nanosecond_range_distinguishes_instants_of_one_microsecond(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / NANOSECOND)
    counts = rows_of(snapshot, ["ts"]).column("ts").cast(pa.int64()).to_pylist()
    odd = next(count for count in counts if count % 1000)
    assert rows_of(snapshot, ["ts"], TimeRange(start=odd, end=odd + 1)).num_rows == 1
    assert rows_of(snapshot, ["ts"], TimeRange(start=odd // 1000 * 1000, end=odd)).num_rows == 0


def test_pages_of_row_groups_outside_of_the_range_are_not_read(questdb_data: Path) -> None:
    snapshot, storage = traced(questdb_data / CHAIN)
    counts = rows_of(snapshot_of(questdb_data / CHAIN), ["ts"]).column("ts").cast(pa.int64())
    rows = rows_of(snapshot, times=TimeRange(start=counts[9].as_py(), end=counts[10].as_py()))
    assert rows.num_rows == 1
    touched_groups = {ordinal for ordinal, _, chunk in chunks(snapshot) if touched(snapshot, storage, chunk)}
    all_groups = {ordinal for ordinal, _, _ in chunks(snapshot)}
    assert len(touched_groups) == 1
    assert len(all_groups) == 6


def test_row_group_that_starts_where_the_range_ends_is_not_read(questdb_data: Path) -> None:
    whole, _ = traced(questdb_data / CHAIN)
    starts = [chunk.minimum for _, name, chunk in chunks(whole) if name == "ts"]
    for ordinal, start in enumerate(starts):
        assert start is not None
        snapshot, storage = traced(questdb_data / CHAIN)
        rows_of(snapshot, times=TimeRange(end=int.from_bytes(start.value, "little")))
        touched_groups = {position for position, _, chunk in chunks(snapshot) if touched(snapshot, storage, chunk)}
        assert touched_groups == set(range(ordinal))


def test_every_page_is_read_without_a_range(questdb_data: Path) -> None:
    snapshot, storage = traced(questdb_data / CHAIN)
    rows_of(snapshot)
    assert all(touched(snapshot, storage, chunk) for _, _, chunk in chunks(snapshot))


def test_pages_of_columns_that_are_not_selected_are_not_read(questdb_data: Path) -> None:
    snapshot, storage = traced(questdb_data / CHAIN)
    rows_of(snapshot, ["s"])
    assert {name for _, name, chunk in chunks(snapshot) if touched(snapshot, storage, chunk)} == {"s"}


def test_chunks_of_nothing_but_nulls_are_not_read(questdb_data: Path) -> None:
    snapshot, storage = traced(questdb_data / ALL_NULL)
    rows = rows_of(snapshot)
    null_chunks = [chunk for *_, chunk in chunks(snapshot) if chunk.null_count == chunk.num_values]
    other_chunks = [chunk for *_, chunk in chunks(snapshot) if chunk.null_count != chunk.num_values]
    assert null_chunks
    assert not any(touched(snapshot, storage, chunk) for chunk in null_chunks)
    assert all(touched(snapshot, storage, chunk) for chunk in other_chunks)
    assert sum(column.null_count for column in rows.columns) == sum(
        chunk.null_count or 0 for *_, chunk in chunks(snapshot)
    )


@pytest.mark.parametrize("column_type", ADDED_TYPES.values(), ids=str)
def test_column_that_a_partition_predates_is_null_or_zero(column_type: int, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    added = SnapshotColumn(id=99, name="added", type=column_type, physical_type=6)
    rows = rows_of(replace(snapshot, columns=(*snapshot.columns, added)))
    rows.validate(full=True)
    column = rows.column("added")
    assert column.type == added.arrow_type
    if is_nullable(column_type):
        assert column.null_count == len(column) == 23
    else:
        assert rows.schema.field("added").nullable is False
        assert set(column.to_pylist()) <= {0}
        assert column.null_count == 0
    assert rows.drop_columns("added").equals(rows_of(snapshot))


def test_real_column_that_a_partition_predates_is_null(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/oddcols/table")
    older, newer = parquet_partitions(snapshot)
    named = [{column.id for column in snapshot.resolve(each).metadata.header.columns} for each in (older, newer)]
    assert (6 in named[0], 6 in named[1]) == (False, True)
    column = rows_of(only(snapshot, older), ["e"]).column("e")
    assert column.type == pa.int32()
    assert column.null_count == len(column) == older.row_count


def test_native_partitions_are_named_and_left_out(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / MIXED)
    assert snapshot.native_partitions == ("2025-01-02.0",)
    rows = rows_of(snapshot)
    assert rows.num_rows == 42
    assert pc.max(rows.column("ts")).as_py().day == 1
    assert only(snapshot, *parquet_partitions(snapshot)).native_partitions == ()


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_partition_whose_format_bit_was_lost_is_rejected_and_not_left_out(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    partition, *_ = parquet_partitions(snapshot)
    lost = replace(partition, flags=txn.PARQUET_FORMAT.put(partition.flags, 0))
    with pytest.raises(CorruptError, match=r"PARQUET_FORMAT of .*: expected 1"):
        rows_of(only(snapshot, lost))


def test_designated_timestamp_and_types_without_null_are_not_nullable(questdb_data: Path) -> None:
    schema = snapshot_of(questdb_data / "tables/9.4.2/types/table").schema
    assert [field.name for field in schema if not field.nullable] == ["ts", "b", "by", "sh", "ch"]


def test_column_of_another_type_than_the_partition_has_is_rejected(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    metadata = snapshot.table.metadata
    assert metadata is not None
    columns = [replace(column, type=TypeTag.DOUBLE) if column.name == "v" else column for column in metadata.columns]
    changed = replace(snapshot.table, metadata=replace(metadata, columns=tuple(columns)))
    # Columns that are not selected are checked too: a problem in one of them casts doubt on the others.
    for names in (None, ["ts", "n"]):
        with pytest.raises(CorruptError, match=r"TYPE of column 'v': expected 6, .*, found 10"):
            rows_of(open_snapshot(changed), names)
        assert rows_of(open_snapshot(snapshot.table), names).num_rows == 23


def test_row_group_above_the_limit_is_rejected_before_anything_is_made(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    monkeypatch.setattr("tornproof.impl.read.row_group.VALUE_COUNT_MAX", 3)
    added = SnapshotColumn(id=99, name="added", type=TypeTag.LONG, physical_type=6)
    with pytest.raises(UnsupportedError, match="NUM_ROWS"):
        rows_of(replace(snapshot, columns=(added,)))
    monkeypatch.setattr("tornproof.impl.read.row_group.VALUE_COUNT_MAX", 7)
    assert rows_of(replace(snapshot, columns=(added,)), times=ALL_TIMES).num_rows == 23


def test_designated_bit_of_a_partition_does_not_change_the_type_of_its_values(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    (partition,) = parquet_partitions(snapshot)
    stored = snapshot.resolve(partition).metadata.header.columns[0].type
    assert (DESIGNATED.get(stored), DESIGNATED.get(snapshot.columns[0].type)) == (1, 0)
    assert rows_of(snapshot, ["ts"]).schema.field("ts").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("where", [None, "v >= 0", "v < 3 AND v >= 1", "v < 0"])
def test_without_columns_there_are_as_many_rows(questdb_data: Path, where: str | None) -> None:
    """There were none."""
    snapshot, storage = traced(questdb_data / CHAIN)
    predicate = snapshot.condition(where)
    expected = sum(batch.num_rows for batch in snapshot.batches(["v"], where=predicate))
    counters = ReadCounters()
    batches = list(snapshot_of(questdb_data / CHAIN, storage).batches([], where=predicate, counters=counters))
    assert sum(batch.num_rows for batch in batches) == expected == counters.returned_row_count
    assert all(batch.num_columns == 0 for batch in batches)
    assert len(pa.Table.from_batches(batches, schema=pa.schema([]))) == expected


def test_counting_rows_reads_no_values(questdb_data: Path) -> None:
    snapshot, storage = traced(questdb_data / CHAIN)
    assert sum(batch.num_rows for batch in snapshot.batches([])) > 0
    assert not any(touched(snapshot, storage, chunk) for _, _, chunk in chunks(snapshot))


def test_damage_in_a_partition_without_the_times_is_no_obstacle(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, "tables/9.4.2/many/table")
    whole = snapshot_of(path, image)
    second, third = whole.transaction.partitions[1:3]
    damaged = image.with_file(f"{path}/{whole.table.directory_of(second)}/_pm", b"")
    snapshot = snapshot_of(path, damaged)
    for times in (TimeRange(end=second.timestamp), TimeRange(start=third.timestamp)):
        assert rows_of(snapshot, times=times) == rows_of(whole, times=times)
        assert rows_of(snapshot, times=times).num_rows
    for times in (TimeRange(end=second.timestamp + 1), TimeRange(start=third.timestamp - 1), TimeRange()):
        with pytest.raises(CorruptError):
            rows_of(snapshot, times=times)
