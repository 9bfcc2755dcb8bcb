"""A row group in memory: what is read and what is generated, in which parts, and how much it may be."""

from contextlib import nullcontext
from pathlib import Path

import pm_builder as pm
import pyarrow as pa
import pytest
import table_builder as tb
from msgspec.structs import replace
from real_tables import CHAIN, in_memory, put, rows_of, snapshot_of
from rejections import rejection

from tornproof.harness.common.new_tables import metadata_with_type
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.trace import TracingStorage
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.pm.block import Chunk
from tornproof.impl.query.time_search import TimeRange
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.partition import read_chunk
from tornproof.impl.types.questdb import TypeTag

ARRAY_OF_DOUBLES = TypeTag.ARRAY | TypeTag.DOUBLE << 8
ADDED = SnapshotColumn(id=99, name="added", type=TypeTag.LONG, physical_type=6)
NEVER_NULL: dict[str, tuple[int, pa.DataType, list[int]]] = {
    "b": (TypeTag.BOOLEAN, pa.bool_(), [True, False]),
    "y": (TypeTag.BYTE, pa.int32(), [-128, 127]),
    "h": (TypeTag.SHORT, pa.int32(), [-32768, 32767]),
    "c": (TypeTag.CHAR, pa.int32(), [1, 65535]),
}


def opened(table: tb.BuiltTable) -> Snapshot:
    return snapshot_of("/table", table.image())


def test_chunks_of_nulls_read_as_false_and_zero_in_types_without_null() -> None:
    table = tb.build({name: (tag, pa.nulls(3, stored)) for name, (tag, stored, _) in NEVER_NULL.items()})
    rows = rows_of(opened(table))
    for name in NEVER_NULL:
        assert rows.column(name).to_pylist() == [0] * 3
        assert (rows.column(name).null_count, rows.schema.field(name).nullable) == (0, False)


def test_single_nulls_read_as_false_and_zero_in_types_without_null() -> None:
    table = tb.build(
        {
            name: (tag, pa.array([values[0], None, values[1]], stored))
            for name, (tag, stored, values) in NEVER_NULL.items()
        }
    )
    rows = rows_of(opened(table))
    for name, (_, _, values) in NEVER_NULL.items():
        assert rows.column(name).to_pylist() == [values[0], 0, values[1]]
        assert rows.column(name).null_count == 0


def test_nulls_of_other_types_stay_nulls() -> None:
    table = tb.build(
        {"i": (TypeTag.INT, pa.array([1, None, 3], pa.int32())), "n": (TypeTag.INT, pa.nulls(3, pa.int32()))}
    )
    rows = rows_of(opened(table))
    assert rows.column("i").to_pylist() == [1, None, 3]
    assert rows.column("n").to_pylist() == [None] * 3


def test_a_chunk_of_nulls_is_made_and_not_fetched_but_one_value_makes_it_fetched() -> None:
    table = tb.build({"n": (TypeTag.LONG, pa.nulls(3, pa.int64())), "v": (TypeTag.LONG, pa.array([None, 2, None]))})
    storage = TracingStorage(table.image())
    rows_of(snapshot_of("/table", storage))
    read = storage.ranges(f"/table/{tb.DATA}")
    chunks = pm.read(table.files[tb.PM], len(table.files[tb.DATA])).blocks[0].chunks
    fetched = [read.have_any(chunk.byte_range_start, chunk.byte_range_end) for chunk in chunks]
    assert fetched == [True, False, True]


def test_lists_of_nothing_but_nulls_keep_their_rows_and_lengths() -> None:
    values = pa.array([[None, None], [None]], pa.list_(pa.float64()))
    table = tb.build({"a": (ARRAY_OF_DOUBLES, values)})
    (chunk,) = pm.read(table.files[tb.PM], len(table.files[tb.DATA])).blocks[0].chunks[1:]
    assert (chunk.num_values, chunk.null_count) == (3, 3)
    assert rows_of(opened(table)).column("a").to_pylist() == [[None, None], [None]]


@pytest.mark.parametrize("names", [["x"], ["ts", "x"], ["x", "ts"]])
def test_lists_of_fewer_rows_than_their_row_group_are_damage(names: list[str]) -> None:
    """Alone, they were returned as they are, and beside other columns pyarrow raised a ValueError."""
    snapshot = opened(tb.with_lists_of_fewer_rows(ARRAY_OF_DOUBLES))
    problem = rejection(lambda: rows_of(snapshot, names), CorruptError)
    assert (problem.field, problem.actual) == ("rows of column 'x'", "3")


@pytest.mark.parametrize(
    ("physical_type", "fixed_byte_len", "expected"),
    [(7, 16, pa.binary(16)), (6, 0, pa.binary()), (2, 0, pa.int64()), (99, 0, pa.null())],
)
def test_columns_of_no_known_type_are_null_in_the_type_of_their_storage(
    physical_type: int, fixed_byte_len: int, expected: pa.DataType
) -> None:
    column = SnapshotColumn(id=1, name="x", type=-1, physical_type=physical_type, fixed_byte_len=fixed_byte_len)
    assert column.constant(3).equals(pa.nulls(3, expected))


def test_a_chunk_of_nulls_of_no_known_type_and_fixed_width_is_read() -> None:
    table = tb.build({"x": (-1, pa.nulls(3, pa.binary(16)))}, has_meta=False)
    assert rows_of(opened(table)).column("x").combine_chunks().equals(pa.nulls(3, pa.binary(16)))


@pytest.mark.parametrize(
    ("slice_bytes", "largest"),
    [(1, 1), (8, 1), (15, 1), (16, 2), (24, 3), (1 << 20, 5)],
)
def test_rows_come_in_parts_where_constants_would_take_too_much(
    slice_bytes: int, largest: int, questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = snapshot_of(questdb_data / CHAIN)
    snapshot = replace(snapshot, columns=(*snapshot.columns, ADDED))
    whole = rows_of(snapshot)
    middle = whole.column("ts").cast(pa.int64())[9].as_py()
    monkeypatch.setattr("tornproof.impl.read.row_group.CONSTANT_SLICE_BYTES", slice_bytes)
    assert max(batch.num_rows for batch in snapshot.batches()) == largest
    assert rows_of(snapshot).equals(whole)
    assert rows_of(snapshot, ["n", "added"], TimeRange(start=middle)).equals(whole.select(["n", "added"]).slice(9))


def test_without_constants_a_row_group_is_one_batch(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.read.row_group.CONSTANT_SLICE_BYTES", 1 << 10)
    snapshot = snapshot_of(questdb_data / CHAIN)
    assert len(list(snapshot.batches())) == 6


def held_together(values: pa.Array, type_: int, bound_bytes: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr("tornproof.impl.read.row_group.BATCH_FLOOR_BYTES", bound_bytes)
    monkeypatch.setattr("tornproof.impl.read.row_group.EXPANSION_MAX", 0)
    snapshot = opened(tb.build({"v": (type_, values)}))
    try:
        return bool(rows_of(snapshot).num_rows == len(values))
    except UnsupportedError as error:
        assert (error.problem.file, error.problem.field) == (tb.PM, "NUM_ROWS")
        assert f"columns of at most {bound_bytes} bytes" in error.problem.expected
        return False


@pytest.mark.parametrize(
    ("values", "type_", "needed_bytes"),
    [
        # 3 timestamps of 8 bytes, then the column: values and their bits for nulls, or values and offsets.
        (pa.array([1, None, 3]), TypeTag.LONG, 24 + 24 + 1),
        (pa.array(["a" * 100, "b" * 100, "c" * 100]), TypeTag.VARCHAR, 24 + 3 * (100 + 4)),
    ],
)
def test_columns_of_a_row_group_are_held_up_to_a_bound(
    values: pa.Array, type_: int, needed_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert held_together(values, type_, needed_bytes, monkeypatch)
    assert not held_together(values, type_, needed_bytes - 1, monkeypatch)


def test_the_bound_grows_with_the_bytes_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    table = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, 3]))})
    chunks = pm.read(table.files[tb.PM], len(table.files[tb.DATA])).blocks[0].chunks
    stored_bytes = sum(chunk.total_compressed for chunk in chunks)
    assert stored_bytes >= 48
    monkeypatch.setattr("tornproof.impl.read.row_group.BATCH_FLOOR_BYTES", 0)
    monkeypatch.setattr("tornproof.impl.read.row_group.EXPANSION_MAX", 1)
    assert rows_of(opened(table)).num_rows == 3
    monkeypatch.setattr("tornproof.impl.read.row_group.EXPANSION_MAX", 0)
    with pytest.raises(UnsupportedError):
        rows_of(opened(table))


def test_without_meta_one_name_for_two_columns_is_rejected() -> None:
    table = tb.build(
        {"v": (TypeTag.LONG, pa.array([1, 2, 3])), "w": (TypeTag.LONG, pa.array([4, 5, 6]))}, has_meta=False
    )
    assert rows_of(opened(table)).column_names == ["ts", "v", "w"]
    content = table.files[tb.PM]
    descriptor = pm_layout.ColumnDescriptor.unpack(content, pm.descriptor_offset(2), file=pm.FILE)
    again = pm.seal(put(descriptor.name_offset, b"v")(content))
    problem = rejection(lambda: opened(table.with_file(tb.PM, again)))
    assert (problem.file, problem.field, problem.actual) == (tb.PM, "NAME_STRINGS", "one name for two columns")


@pytest.mark.parametrize(("bound_bytes", "is_fetched"), [(47, False), (49, True)])
def test_a_chunk_of_known_width_is_rejected_before_it_is_fetched(
    bound_bytes: int, is_fetched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tornproof.impl.read.row_group.BATCH_FLOOR_BYTES", bound_bytes)
    monkeypatch.setattr("tornproof.impl.read.row_group.EXPANSION_MAX", 0)
    table = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, 3]))})
    storage = TracingStorage(table.image())
    with nullcontext() if is_fetched else pytest.raises(UnsupportedError):
        rows_of(snapshot_of("/table", storage))
    chunks = pm.read(table.files[tb.PM], len(table.files[tb.DATA])).blocks[0].chunks
    read = storage.ranges(f"/table/{tb.DATA}")
    fetched = [read.have_any(chunk.byte_range_start, chunk.byte_range_end) for chunk in chunks]
    assert sorted(fetched) == [is_fetched, True]


def test_what_takes_longest_to_decode_is_fetched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pa.array(["a", "b", "c"], pa.string())
    table = tb.build({"small": (TypeTag.BOOLEAN, pa.array([True, False, True])), "text": (TypeTag.VARCHAR, texts)})
    fetched = []

    def watched(handle: ReadableFile, chunk: Chunk, *, file: str) -> bytes:
        fetched.append(chunk)
        return read_chunk(handle, chunk, file=file)

    monkeypatch.setattr("tornproof.impl.read.row_group.read_chunk", watched)
    rows_of(opened(table))
    timestamp, small, text = pm.read(table.files[tb.PM], len(table.files[tb.DATA])).blocks[0].chunks
    assert small.total_compressed < timestamp.total_compressed
    assert fetched == [text, timestamp, small]


def test_symbols_of_a_server_read_as_the_texts_that_their_column_became(questdb_data: Path) -> None:
    """The server leaves the file as it is; the column passed for a new one, and all its values for null."""
    path, storage = in_memory(questdb_data / CHAIN)
    before = rows_of(snapshot_of(path, storage), ["s"])
    changed = storage.image().with_file(f"{path}/_meta", metadata_with_type(storage, path, "s", "VARCHAR"))
    found = rows_of(snapshot_of(path, MemoryStorage.of(changed)), ["s"])
    assert found.equals(before) and before["s"].null_count < len(before)
