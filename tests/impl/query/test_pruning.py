"""Pruning on real tables and on our own: what it spares, and that the rows are the same without it."""

from pathlib import Path
from typing import Any

import duckdb
import golden_data
import pm_builder as pm
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import table_builder as tb
import type_values as tv
import written_tables as wt
from depth import nightly, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from real_tables import parquet_partitions, rows_of, snapshot_of, verified

from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.pm.block import Block
from tornproof.impl.query.predicate import Comparison, IsNull, Not, Operator, Predicate, columns_of, matching
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.query.pruning import Pruner, Reason, may_match
from tornproof.impl.query.time_search import ALL_TIMES, TimeRange
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.create import NewColumn
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import partition_change
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.stored_arrays import stored_table

NINE = "tables/9.4.2"
WIDE = f"{NINE}/wide"


def read(
    snapshot: Snapshot, where: str | Predicate, names: list[str] | None = None, times: TimeRange = ALL_TIMES
) -> tuple[pa.Table, ReadCounters]:
    """Return the rows that a condition is true of, and what they cost."""
    counters = ReadCounters()
    predicate = parse_predicate(where, snapshot.columns) if isinstance(where, str) else where
    schema = snapshot.schema_of(snapshot.selected(names))
    batches = list(snapshot.batches(names, times, predicate, counters))
    assert counters.kept_row_group_count + counters.pruned.total() == counters.row_group_count
    assert counters.returned_row_count == sum(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=schema), counters


def filtered(snapshot: Snapshot, where: str | Predicate) -> pa.Table:
    """Return the same rows from a read of everything."""
    predicate = parse_predicate(where, snapshot.columns) if isinstance(where, str) else where
    rows = rows_of(snapshot).combine_chunks()
    arrays = {column.id: rows[column.name].combine_chunks() for column in columns_of(predicate)}
    return rows.filter(matching(predicate, arrays))


def spared(counters: ReadCounters) -> dict[str, int]:
    return {reason.value: count for reason, count in counters.pruned.items() if count}


@pytest.mark.parametrize(
    ("name", "where", "rows", "left_out"),
    [
        ("bloom", "id = 7919", 1, {"statistics": 10}),
        # Of texts a minimum leaves out nothing.
        ("bloom", "n = 'name-13'", 1, {"bloom filter": 8}),
        ("bloom", "n IN ('name-13', 'nobody')", 1, {"bloom filter": 8}),
        ("bloom", "u = '00000000-0000-4000-8000-000000000005' AND id > 0", 1, {"statistics": 10}),
        ("bloom", "id IS NULL", 0, {"nulls": 11}),
        ("bloom", "ts < '2024-06-01T00:10'", 20, {"time": 10}),
        ("types", "u = '00000000-0000-4000-8000-000000000005'", 1, {"statistics": 3}),
        ("types", "l256 = '0x51'", 1, {"statistics": 2}),
        ("types", "l256 < '0x02'", 2, {}),
        ("types", "i IS NULL AND by < -100", 5, {"statistics": 3}),
        ("many", "v = 13", 1, {"statistics": 30}),
        ("chain", "ts = '2024-01-01T00:00:00Z'", 1, {"time": 5}),
        ("history", "v IN (1, 2)", 4, {"statistics": 29}),
    ],
)
def test_real_tables_are_read_in_part(
    name: str, where: str, rows: int, left_out: dict[str, int], questdb_data: Path
) -> None:
    snapshot = snapshot_of(questdb_data / NINE / name / "table")
    found, counters = read(snapshot, where)
    assert found.equals(filtered(snapshot, where))
    assert found.num_rows == rows
    assert spared(counters) == left_out


@pytest.mark.parametrize(
    ("name", "column_count_max"),
    [
        *sampled(1, [(name, 30) for name in golden_data.TABLES if name.startswith(NINE) and name != WIDE]),
        # Its four types of columns come again and again.
        (WIDE, 3),
        nightly(WIDE, 30),
    ],
)
def test_any_bound_of_any_real_column_selects_what_a_read_of_everything_does(
    name: str, column_count_max: int, questdb_data: Path
) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    for column in snapshot.columns[:column_count_max]:
        check_null_and_value(snapshot, column)


def check_null_and_value(snapshot: Snapshot, column: SnapshotColumn) -> None:
    rows = rows_of(snapshot, [column.name])
    values = rows[column.name].combine_chunks()
    null = IsNull(column=column)
    asked: list[Predicate] = [null]
    for value in terms_of(column, values.drop_null()):
        asked += [Comparison(column=column, operator=operator, value=value) for operator in Operator]
    for predicate in asked:
        for each in (predicate, Not(part=predicate)):
            wanted = rows.filter(matching(each, {column.id: values}))
            assert read(snapshot, each, [column.name])[0].equals(wanted)


def terms_of(column: SnapshotColumn, values: pa.Array) -> list[Any]:
    """Return a value from the middle of an array in the terms of predicates, for types that have one at hand."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    middle = values.take(pa.array([len(values) // 2] if len(values) else [])).to_pylist()
    if pa.types.is_decimal(values.type) or pa.types.is_list(values.type) or column.type == TypeTag.LONG256:
        return []
    middle = [int(value) if isinstance(value, bool) else value for value in middle]
    return [value.encode() if isinstance(value, str) else value for value in middle]


@pytest.mark.parametrize("name", golden_data.HISTORY_STEPS[::7])
def test_every_step_of_a_history_is_pruned_soundly(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name)
    for where in ("v > 5 AND v < 20", "ts > '2024-01-01T01:00' OR v = 3", "NOT (v <= 12)"):
        found, _ = read(snapshot, where)
        assert found.equals(filtered(snapshot, where))


SQL_COLUMNS = {
    "b": (TypeTag.BYTE, st.integers(-128, 127)),
    "i": (TypeTag.INT, st.none() | st.integers(-20, 20)),
    "l": (TypeTag.LONG, st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    "d": (TypeTag.DOUBLE, st.none() | st.floats(-2, 2) | st.sampled_from([0.0, -0.0])),
    "t": (TypeTag.STRING, st.none() | st.text("ab\xe9\U0001f600", max_size=3)),
    "x": (TypeTag.VARCHAR, st.none() | st.text("ab", max_size=2)),
    "e": (tv.decimal_type(TypeTag.DECIMAL64, 18, 2), st.none() | tv.decimals(4, 2)),
    "f": (TypeTag.BOOLEAN, st.booleans()),
}


def sql_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else format(value, "f" if value != 0 else "")


@st.composite
def sql_conditions(draw: st.DrawFn, rows: dict[str, list[Any]]) -> str:
    """A condition that means the same to every SQL engine."""

    def leaf() -> str:
        name = draw(st.sampled_from(sorted(rows)))
        values = [value for value in rows[name] if value is not None] or [draw(SQL_COLUMNS[name][1].filter(bool))]
        pick = st.sampled_from(values).map(sql_text)
        match draw(st.integers(0, 4)):
            case 0:
                return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
            case 1:
                return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({draw(pick)}, {draw(pick)})"
            case 2:
                return f"{name} BETWEEN {draw(pick)} AND {draw(pick)}"
            case _:
                return f"{name} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(pick)}"

    parts = [leaf() for _ in range(draw(st.integers(1, 3)))]
    text = draw(st.sampled_from([" AND ", " OR "])).join(parts)
    return f"NOT ({text})" if draw(st.booleans()) else text


@pytest.mark.parametrize("example_count", [6, nightly(60)])
def test_written_rows_are_selected_as_duckdb_selects_them(example_count: int) -> None:
    settings(max_examples=example_count)(given(st.data())(select_as_duckdb_does))()


def select_as_duckdb_does(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    rows = {
        name: data.draw(st.lists(values, min_size=count, max_size=count)) for name, (_, values) in SQL_COLUMNS.items()
    }
    storage, table = wt.new_table(*(NewColumn(name=name, type=each[0]) for name, each in SQL_COLUMNS.items()))
    options = WriterOptions(row_group_row_count_max=3, rewrite_unused_ratio=1.0)
    # The columns of the table's own come along, so they need other names.
    made = {name: pa.array(values, table_type(table, name)) for name, values in rows.items()}
    wt.write(storage, wt.rows(list(range(count)), **made), options=options)
    snapshot = snapshot_of(wt.PATH, storage)
    everything = rows_of(snapshot).select(["v", *SQL_COLUMNS])
    with duckdb.connect() as connection:
        connection.register("rows", everything)
        for _ in range(6):
            where = data.draw(sql_conditions(rows))
            found, counters = read(snapshot, where, ["v"])
            wanted = connection.execute(f"SELECT v FROM rows WHERE {where} ORDER BY v").fetchall()
            assert found["v"].to_pylist() == [row[0] for row in wanted], where
            assert counters.row_group_count == -(-count // 3)


def table_type(table: Any, name: str) -> pa.DataType:
    types = {column.name: column.type for column in table.metadata.columns}
    return SnapshotColumn(id=0, name=name, type=types[name], physical_type=0).arrow_type


def test_columns_that_a_partition_predates_are_null_or_zero(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / NINE / "chain/table")
    added = tuple(
        SnapshotColumn(id=100 + position, name=name, type=tag, physical_type=1)
        for position, (name, tag) in enumerate({"added": TypeTag.INT, "zero": TypeTag.SHORT}.items())
    )
    snapshot = replace(snapshot, columns=snapshot.columns + added, table=replace(snapshot.table, metadata=None))
    whole = rows_of(snapshot, ["v"]).num_rows
    for where, count, reasons in (
        ("added = 5", 0, {"nulls": 6}),
        ("added IS NOT NULL", 0, {"nulls": 6}),
        ("added IS NULL", whole, {}),
        ("NOT added = 5", 0, {"nulls": 6}),
        ("zero = 0", whole, {}),
        ("zero != 0", 0, {"statistics": 6}),
        ("zero > 0", 0, {"statistics": 6}),
        ("zero IS NULL", 0, {"nulls": 6}),
        ("zero IN (0, 7) AND added IS NULL", whole, {}),
    ):
        found, counters = read(snapshot, where, ["v", "zero"])
        assert (found.num_rows, spared(counters)) == (count, reasons), where


def test_row_group_without_rows_matches_nothing() -> None:
    header, column = pm.header(pm.column("v"), designated_timestamp=-1, feature_flags=0), LONG
    for null_count in (0, None):
        empty = block_of(rows=0, null_count=null_count)
        for predicate in (IsNull(column=column), Not(part=IsNull(column=column)), above(0), Not(part=above(0))):
            assert not may_match(predicate, header, empty, bitset_of=lambda _: None)


LONG = SnapshotColumn(id=0, name="v", type=TypeTag.LONG, physical_type=2)


def above(value: int) -> Comparison:
    return Comparison(column=LONG, operator=Operator.GREATER, value=value)


def block_of(*, rows: int = 10, null_count: int | None = 0) -> Block:
    chunk = replace(pm.chunk(rows=rows, low=3, high=7), null_count=null_count)
    return Block(offset_bytes=0, end_bytes=0, num_rows=rows, chunks=(chunk,))


def test_chunk_that_counts_other_values_than_rows_proves_nothing() -> None:
    header = pm.header(pm.column("v"), designated_timestamp=-1, feature_flags=0)
    sound = block_of()
    other = replace(sound, chunks=(replace(sound.chunks[0], num_values=11),))
    assert not may_match(above(7), header, sound, bitset_of=lambda _: None)
    assert may_match(above(7), header, other, bitset_of=lambda _: None)


def test_nested_arrays_prove_nothing() -> None:
    nested = pm.column("v", tv.array_type(1), 5, max_rep_level=1, max_def_level=3)
    column = SnapshotColumn(id=0, name="v", type=tv.array_type(1), physical_type=5)
    header = pm.header(nested, designated_timestamp=-1, feature_flags=0)
    for null_count in (0, 10, None):
        for predicate in (IsNull(column=column), Not(part=IsNull(column=column))):
            assert may_match(predicate, header, block_of(null_count=null_count), bitset_of=lambda _: None)


def test_bloom_filter_is_asked_for_only_when_nothing_else_proves_it() -> None:
    header = pm.header(pm.column("v"), designated_timestamp=-1, bloom_columns=(0,))
    asked: list[int] = []

    def bitset_of(position: int) -> bytes:
        asked.append(position)
        return bytes(32)

    pruner = Pruner(header)
    equal = {value: replace(above(value), operator=Operator.EQUAL) for value in (5, 50)}
    assert pruner.why_pruned(equal[50], block_of(), bitset_of=bitset_of) is Reason.STATISTICS
    assert asked == []
    assert pruner.why_pruned(equal[5], block_of(), bitset_of=bitset_of) is Reason.BLOOM_FILTER
    assert asked == [0]
    assert pruner.why_pruned(Not(part=equal[5]), block_of(), bitset_of=bitset_of) is None


def test_other_columns_are_decoded_only_where_a_row_matches(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / NINE / "bloom/table")
    nothing, counters = read(snapshot, "k = 64 AND NOT k = 64")
    assert (nothing.num_rows, counters.kept_row_group_count, counters.chunk_count) == (0, 10, 10)
    some, counters = read(snapshot, "id = 7919", ["s"])
    assert (some["s"].to_pylist(), counters.chunk_count) == (["s1"], 2)
    whole, counters = read(snapshot, "k > 0", ["s", "k"])
    assert (whole.num_rows, counters.chunk_count) == (filtered(snapshot, "k > 0").num_rows, 22)
    assert whole.schema.names == ["s", "k"]


def test_counters_have_the_bytes_of_the_data_file(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / NINE / "bloom/table")
    (partition,) = parquet_partitions(snapshot)
    metadata = snapshot.resolve(partition).metadata
    _, counters = read(snapshot, "id = 7919", ["id"])
    assert counters.read_bytes == metadata.blocks[0].chunks[1].total_compressed
    assert counters.data_bytes == metadata.token == partition.token
    everything = ReadCounters()
    list(snapshot.batches(counters=everything))
    assert everything.read_bytes == sum(chunk.total_compressed for block in metadata.blocks for chunk in block.chunks)
    assert everything.scanned_row_count == everything.returned_row_count == metadata.row_count


def test_times_and_condition_are_both_demanded(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / NINE / "bloom/table")
    stamps = rows_of(snapshot)["ts"].cast(pa.int64())
    start, end = stamps[70].as_py(), stamps[200].as_py()
    found, counters = read(snapshot, "k < 10", times=TimeRange(start=start, end=end))
    wanted = filtered(snapshot, "k < 10")
    inside = wanted["ts"].cast(pa.int64())
    assert found.equals(wanted.filter(pc.and_(pc.greater_equal(inside, start), pc.less(inside, end))))
    assert 0 < found.num_rows < wanted.num_rows
    assert counters.pruned[Reason.TIME] == 8


def test_damage_is_not_noticed_in_what_is_not_read_but_in_what_is() -> None:
    built = tb.build({"v": (TypeTag.LONG, pa.array(range(100)))}, row_group_size=10)
    storage = built.image("/t")
    metadata = (snapshot := snapshot_of("/t", storage)).resolve(parquet_partitions(snapshot)[0]).metadata
    start = metadata.blocks[4].chunks[1].byte_range_start
    data = built.files[tb.DATA]
    damaged = built.with_file(tb.DATA, data[:start] + b"\xff" * 8 + data[start + 8 :]).image("/t")
    assert read(snapshot_of("/t", damaged), "v = 55")[0]["v"].to_pylist() == [55]
    with pytest.raises(CorruptError):
        read(snapshot_of("/t", damaged), "v = 45")


def test_nan_is_a_value_that_nothing_is_true_of_but_inequality() -> None:
    values = pa.array([1.0, float("nan"), None, -0.0, 0.0, float("inf")])
    built = tb.build({"d": (TypeTag.DOUBLE, values)})
    snapshot = snapshot_of("/t", built.image("/t"))
    for where, positions in (
        ("d = 1", [0]),
        ("d != 1", [1, 3, 4, 5]),
        ("NOT d < 2", [1, 5]),
        ("d > -1", [0, 3, 4, 5]),
        ("d = 0", [3, 4]),
        ("d = -0.0", [3, 4]),
        ("d IN (-0.0, 7)", [3, 4]),
        ("d NOT IN (0, 1)", [1, 5]),
        ("d IS NULL", [2]),
        ("d < 1e400", [0, 3, 4]),
        ("d = 'Infinity'", [5]),
        ("d > 1e400", [5]),
    ):
        found, _ = read(snapshot, where, ["ts"])
        assert found["ts"].equals(rows_of(snapshot)["ts"].take(positions)), where


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("maximum", [bytes(8), b"\xff" * 9])
def test_rows_above_a_maximum_of_binary_are_found_and_their_table_is_sound(
    maximum: bytes, has_checksums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers cut the maximum of a BINARY to 8 or 9 bytes, and none above eight 0xFF bytes has so few."""

    def with_maximum(*given: Any) -> Any:
        table, bounds = stored_table(*given)
        return table, bounds | {"b": (b"a" * 9, maximum)}

    monkeypatch.setattr(partition_change, "stored_table", with_maximum)
    values = [b"a" * 12, b"\xff" * 9 + b"z"]
    storage, _ = wt.new_table(NewColumn(name="b", type=TypeTag.BINARY))
    options = WriterOptions(encoding=EncodeOptions(page_checksums=has_checksums))
    wt.write(storage, wt.rows([0, 1], b=values), options=options)
    snapshot = snapshot_of(wt.PATH, storage)
    for where, count in ((f"b = x'{values[1].hex()}'", 1), ("b > x'ff'", 1), ("b = x'60'", 0)):
        assert read(snapshot, where)[0].num_rows == count
    assert verified(wt.PATH, storage).sound


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize(
    ("tag", "values", "bounds", "asked"),
    [
        # Texts were compared up to the end of the shorter one, of pages of one row each.
        (TypeTag.VARCHAR, ["ETH", "ETHW"], (b"ETH", b"ETH"), "c = 'ETHW'"),
        (TypeTag.SYMBOL, ["ETHW", "ETH"], (b"ETHW", b"ETHW"), "c < 'ETHW'"),
        (TypeTag.STRING, ["ETH", "ETHW"], (b"ETH", b"ETH"), "c != 'ETH'"),
        # 1.0.0.1 and 200.0.0.1 were compared as signed numbers.
        (TypeTag.IPV4, [0x01000001, 0xC8000001], (b"\1\0\0\xc8", b"\1\0\0\1"), "c = '200.0.0.1'"),
        (TypeTag.IPV4, [0x01000001, 0xC8000001], (b"\1\0\0\xc8", b"\1\0\0\1"), "c < '100.0.0.0'"),
    ],
)
def test_rows_beyond_the_bounds_that_earlier_servers_made_of_pages_are_found_and_a_note_says_so(
    tag: TypeTag,
    values: list[Any],
    bounds: tuple[bytes, bytes],
    asked: str,
    has_checksums: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Conditions lost these rows, and the partition was called damaged, or was refused."""

    def with_bounds(*given: Any) -> Any:
        table, others = stored_table(*given)
        return table, others | {"c": bounds}

    monkeypatch.setattr(partition_change, "stored_table", with_bounds)
    storage, _ = wt.new_table(NewColumn(name="c", type=tag))
    options = WriterOptions(encoding=EncodeOptions(page_checksums=has_checksums, page_row_count_max=1))
    column = pa.array(values, pa.uint32()) if tag is TypeTag.IPV4 else values
    wt.write(storage, wt.rows([0, 1], c=column), options=options)
    found, _ = read(snapshot_of(wt.PATH, storage), asked)
    assert found.num_rows == 1
    report = verified(wt.PATH, storage)
    assert report.sound
    # Bounds of plain texts in pages with checksums are compared with nothing.
    is_compared = not has_checksums or tag in (TypeTag.IPV4, TypeTag.SYMBOL)
    assert ["column 'c' has bounds that leave out values" in note for note in report.notes] == [True] * is_compared
