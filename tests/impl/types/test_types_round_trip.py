"""Values of every QuestDB type, written by our writer into a table: our reader and others return the same ones."""

import decimal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from depth import nightly, sampled
from golden_data import CHAIN
from hypothesis import given, settings
from hypothesis import strategies as st
from independent_readers import READERS, normalised, ours_and_content, without_decimal256
from msgspec.structs import replace
from real_tables import in_memory, parquet_partitions, resolved_partitions, rows_of, snapshot_of, verified
from type_values import (
    NANOSECONDS,
    NEVER_NULL,
    SHOWN,
    TYPES,
    array_type,
    arrow,
    decimal_of,
    decimal_type,
    decimals,
    geohash_type,
    nested,
    text,
)
from written_tables import IN_PLACE, PATH, new_table, rows, table_on, write

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.read.cold_read import read_cold
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.columns import is_all_null
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.write.table_writer import open_writer

REAL_TYPES = ("tables/9.4.2/types/table", "tables/2026-07/nanosecond/table")
CREATED = sorted(TYPES)
DECIMAL_TAGS = [
    (2, TypeTag.DECIMAL8),
    (4, TypeTag.DECIMAL16),
    (9, TypeTag.DECIMAL32),
    (18, TypeTag.DECIMAL64),
    (38, TypeTag.DECIMAL128),
    (76, TypeTag.DECIMAL256),
]
GEOHASH_TAGS = [(7, TypeTag.GEOBYTE), (15, TypeTag.GEOSHORT), (31, TypeTag.GEOINT), (60, TypeTag.GEOLONG)]
DIMENSIONS_MAX = 32

# What a server takes for null when it reads the value, and never writes as one.
SERVER_NULLS: dict[str, Any] = {
    "int": -(1 << 31),
    "long": -(1 << 63),
    "date": -(1 << 63),
    "timestamp": -(1 << 63),
    "nanoseconds": -(1 << 63),
    "float": float("nan"),
    "double": float("nan"),
    "ipv4": 0,
    "geobyte": -1,
    "geoshort": -1,
    "geoint": -1,
    "geolong": -1,
    "uuid": bytes(7) + b"\x80" + bytes(7) + b"\x80",
    "long256": (bytes(7) + b"\x80") * 4,
}


def table_of(columns: dict[str, int], *batches: dict[str, pa.Array]) -> MemoryStorage:
    """Return the disk of a table of these columns after one commit for each batch; all rows have one time."""
    storage, _ = new_table(*(NewColumn(name=name, type=int(kind)) for name, kind in columns.items()))
    write(storage, *(rows([0] * len(next(iter(batch.values()))), **batch) for batch in batches))
    return storage


def shown_table(names: Sequence[str]) -> tuple[MemoryStorage, dict[str, pa.Array]]:
    """Return a table with the smallest and largest that every reader can show, nulls where there are any."""
    values = {
        name: arrow([low, high, low if name in NEVER_NULL else None], TYPES[name][1])
        for name, (low, high) in SHOWN.items()
        if name in names
    }
    return table_of({name: TYPES[name][0] for name in values}, values), values


def assert_same(storage: Storage, *batches: dict[str, pa.Array]) -> None:
    """Assert that a sound table holds the batches, one after the other."""
    found = table_on(storage)
    for name in batches[0]:
        assert text(found[name]) == text(pa.chunked_array([batch[name] for batch in batches])), name


@pytest.mark.parametrize("name", sampled(12, CREATED))
@pytest.mark.parametrize("example_count", [3, nightly(12)])
def test_values_of_every_type_come_back_from_a_table(name: str, example_count: int) -> None:
    column_type, of, values = TYPES[name]

    @settings(max_examples=example_count)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        generated = st.lists(values if name in NEVER_NULL else st.none() | values, min_size=1, max_size=6)
        batches = [{"x": arrow(data.draw(generated), of)} for _ in range(2)]
        assert_same(table_of({"x": column_type}, *batches), *batches)

    check()


def test_symbols_that_a_real_table_knows_come_back_from_it(questdb_data: Path) -> None:
    position, storage = in_memory(questdb_data / CHAIN)
    before = rows_of(snapshot_of(position, storage))
    known = sorted(set(before["s"].to_pylist()) - {None})
    last = before["ts"].cast(pa.int64())[-1].as_py()
    added = pa.array([*reversed(known), None, *known])
    for _ in range(2):
        with open_writer(storage, position, options=IN_PLACE, allow_parquet_last=True) as writer:
            writer.write(pa.table({"ts": pa.array([last] * len(added)), "s": added}))
            writer.commit()
    assert verified(position, storage).sound
    found = rows_of(snapshot_of(position, storage))["s"].to_pylist()
    assert found == before["s"].to_pylist() + 2 * added.to_pylist()


def test_every_type_is_written_into_a_new_table() -> None:
    assert {tag_of(TYPES[name][0]) for name in CREATED} == set(TypeTag)
    assert {*SHOWN, "symbol"} == set(CREATED)


def test_extremes_of_every_type_come_back() -> None:
    storage, values = shown_table(sorted(SHOWN))
    assert_same(storage, values)


@pytest.mark.parametrize("name", sorted(set(CREATED) - NEVER_NULL))
def test_column_of_nulls_comes_back_and_needs_no_page(name: str) -> None:
    column_type, of, _ = TYPES[name]
    storage = table_of({"x": column_type}, {"x": arrow([None] * 3, of)})
    assert_same(storage, {"x": arrow([None] * 3, of)})
    metadata = resolved_partitions(PATH, storage)[0].metadata
    assert is_all_null(metadata.header.columns[3], metadata.blocks[0].chunks[3])


@pytest.mark.parametrize("name", sorted(NEVER_NULL))
def test_null_of_a_type_that_has_none_is_rejected(name: str) -> None:
    column_type, of, _ = TYPES[name]
    with pytest.raises(RowsRejectedError, match="row 1: expected a value"):
        table_of({"x": column_type}, {"x": pa.array([1, None], pa.int8()).cast(of)})


@pytest.mark.parametrize("name", SERVER_NULLS)
def test_value_that_a_server_takes_for_null_stays_a_value_beside_a_null(name: str) -> None:
    column_type, of, _ = TYPES[name]
    values = {"x": arrow([SERVER_NULLS[name], None], of)}
    storage = table_of({"x": column_type}, values)
    assert_same(storage, values)
    assert resolved_partitions(PATH, storage)[0].metadata.blocks[0].chunks[3].null_count == 1


@pytest.mark.parametrize("name", REAL_TYPES)
def test_no_real_table_holds_a_value_that_a_server_takes_for_null(name: str, questdb_data: Path) -> None:
    """So nulls are definition levels and nothing else, for every type that has them."""
    snapshot = snapshot_of(questdb_data / name)
    found = rows_of(snapshot)
    types = {TYPES[kind][0] & 0xFF: kind for kind in SERVER_NULLS}
    compared = 0
    for column in snapshot.columns:
        kind = types.get(column.type & 0xFF)
        if kind is not None:
            null = text(arrow([SERVER_NULLS[kind]], column.arrow_type))
            values = found[column.name].combine_chunks()
            assert not any(text(values.slice(row, 1)) == null for row in range(len(values))), column.name
            compared += 1
    assert compared


def test_every_precision_of_a_geohash_comes_back() -> None:
    columns, values = {}, {}
    for bits in range(1, 61):
        tag = next(tag for most, tag in GEOHASH_TAGS if bits <= most)
        of = {TypeTag.GEOBYTE: pa.int8(), TypeTag.GEOSHORT: pa.int16(), TypeTag.GEOINT: pa.int32()}.get(tag, pa.int64())
        columns[f"g{bits}"] = geohash_type(tag, bits)
        values[f"g{bits}"] = pa.array([0, (1 << bits) - 1, None, 1], of)
    assert_same(table_of(columns, values), values)


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_every_precision_of_a_decimal_comes_back(share: float) -> None:
    """Also those that a server would store in fewer bytes; `share` of the digits are after the point."""
    columns, values = {}, {}
    for precision in range(1, 77):
        scale, most = int(precision * share), 10**precision - 1
        for digits, tag in DECIMAL_TAGS:
            if precision > digits:
                continue
            make = pa.decimal256 if tag is TypeTag.DECIMAL256 else pa.decimal128
            name = f"{tag.name}_{precision}"
            columns[name] = decimal_type(tag, precision, scale)
            numbers = [decimal_of(number, scale) for number in (-most, most, 0, -1, 1)]
            values[name] = pa.array([*numbers, None], make(precision, scale))
    assert len(columns) == sum(digits for digits, _ in DECIMAL_TAGS)
    assert_same(table_of(columns, values), values)


@pytest.mark.parametrize("tag", [TypeTag.DECIMAL128, TypeTag.DECIMAL256])
def test_stored_number_of_more_digits_than_its_type_has_is_corrupt(tag: TypeTag) -> None:
    make = pa.decimal256 if tag is TypeTag.DECIMAL256 else pa.decimal128
    storage = table_of({"x": decimal_type(tag, 6, 0)}, {"x": pa.array([decimal_of(99_999, 0)], make(6, 0))})
    (resolved,) = resolved_partitions(PATH, storage)
    column, chunk = resolved.metadata.header.columns[3], resolved.metadata.blocks[0].chunks[3]
    with resolved.files.open_data() as handle:
        for digits, is_sound in ((6, True), (5, True), (4, False)):
            as_narrow = replace(column, type=decimal_type(tag, digits, 0))
            if is_sound:
                found = read_cold(handle, as_narrow, chunk, row_count=1, file="data.parquet")
                assert (found.type, found.to_pylist()) == (make(digits, 0), [decimal.Decimal(99_999)])
            else:
                with pytest.raises(CorruptError, match="column 'x'"):
                    read_cold(handle, as_narrow, chunk, row_count=1, file="data.parquet")


@settings(max_examples=20)
@given(st.data(), st.integers(1, 76))
def test_decimals_of_any_precision_and_scale_come_back(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    tag = data.draw(st.sampled_from([tag for digits, tag in DECIMAL_TAGS if digits >= precision]))
    make = pa.decimal256 if tag is TypeTag.DECIMAL256 else pa.decimal128
    generated = data.draw(st.lists(st.none() | decimals(precision, scale), min_size=1, max_size=6))
    values = {"x": pa.array(generated, make(precision, scale))}
    assert_same(table_of({"x": decimal_type(tag, precision, scale)}, values), values)


@pytest.mark.parametrize("dimensions", range(1, DIMENSIONS_MAX + 1))
def test_arrays_of_every_dimension_come_back(dimensions: int) -> None:
    one: Any = -1.5
    for _ in range(dimensions):
        one = [one]
    values = {"x": pa.array([one, None, [], one], list_type(dimensions))}
    assert_same(table_of({"x": array_type(dimensions)}, values), values)


@settings(max_examples=15)
@given(st.data(), st.integers(1, 4))
def test_arrays_of_any_shape_come_back(data: st.DataObject, dimensions: int) -> None:
    generated = data.draw(st.lists(st.none() | nested(dimensions), min_size=1, max_size=6))
    values = {"x": pa.array(generated, list_type(dimensions))}
    assert_same(table_of({"x": array_type(dimensions)}, values), values)


@pytest.mark.parametrize("ragged", [[[1.0], [1.0, 2.0]], [[], [1.0]], [[1.0], None]])
def test_ragged_array_is_rejected_and_leaves_no_row(ragged: list[Any]) -> None:
    storage, _ = new_table(NewColumn(name="x", type=array_type(2)))
    with pytest.raises(RowsRejectedError, match="row 1: expected"):
        write(storage, rows([0, 0], x=pa.array([[[1.0]], ragged], pa.list_(pa.list_(pa.float64())))))
    assert table_on(storage).num_rows == 0


def test_null_element_of_an_array_comes_back_as_nan() -> None:
    storage = table_of({"x": array_type(1)}, {"x": pa.array([[1.0, None]], list_type(1))})
    assert_same(storage, {"x": pa.array([[1.0, float("nan")]], list_type(1))})


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_other_readers_see_the_same_values(read: Callable[[bytes, Path], pa.Table], tmp_path: Path) -> None:
    storage, _ = shown_table(sorted(SHOWN))
    snapshot = snapshot_of(PATH, storage)
    (partition,) = parquet_partitions(snapshot)
    ours, content = ours_and_content(snapshot, partition)
    theirs, mine = normalised(read(content, tmp_path), ours)
    assert ours.num_rows == 3 and len(ours.schema) == 3 + len(SHOWN)
    for name in ours.schema.names:
        assert text(theirs[name]) == text(mine[name]), name


def test_decimals_of_76_digits_are_the_same_to_pyarrow_with_and_without_their_type(tmp_path: Path) -> None:
    storage, values = shown_table(["decimal256"])
    snapshot = snapshot_of(PATH, storage)
    _, content = ours_and_content(snapshot, *parquet_partitions(snapshot))
    typed = READERS["pyarrow"](content, tmp_path)["decimal256"]
    assert text(typed) == text(values["decimal256"])
    most = 10**76 - 1
    raw = READERS["pyarrow"](without_decimal256(content), tmp_path)["decimal256"].to_pylist()
    assert raw == [(-most).to_bytes(32, "big", signed=True), most.to_bytes(32, "big"), None]


def test_nanoseconds_can_be_the_designated_timestamp() -> None:
    storage = MemoryStorage()
    storage.mkdir("/db")
    columns = [NewColumn(name="ts", type=NANOSECONDS)]
    create_table(storage, PATH, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    times = pa.array([0, 1, 86_400_000_000_001, (1 << 63) - 1]).cast(pa.timestamp("ns", "UTC"))
    write(storage, pa.table({"ts": times}))
    assert text(table_on(storage)["ts"]) == text(times)
    assert len(snapshot_of(PATH, storage).transaction.partitions) == 3
