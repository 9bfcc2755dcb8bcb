"""Rows become what Parquet stores, and decode to the same rows, with statistics in QuestDB's order."""

import decimal
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import golden_data
import pyarrow as pa
import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from parquet_files import chunk_of, exact, footer_of, plain_strings
from parquet_files import written as written_by_pyarrow
from real_tables import only, parquet_partitions, rows_of, snapshot_of
from type_values import NEVER_NULL, SYMBOLS, TYPES, array_type, arrow, decimal_type, text

from tornproof.impl.chunk.chunk import decode_chunk, pages_of
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.parquet.dictionaries import used_bounds
from tornproof.impl.parquet.fields import PageType
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.table.symbols import SymbolTable, read_table_symbols
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.stored_arrays import Computed, stored_array, stored_table

TABLES = tuple(
    f"{name}/table" for name in golden_data.TABLES if f"{name}/table/_meta" in golden_data.files_named("_meta")
)


def column_of(column_type: int, name: str = "x") -> Column:
    metadata = TableMetadata(
        columns=(TableColumn(id=0, name=name, type=column_type),), partition_by=PartitionBy.DAY, timestamp_id=-1
    )
    return new_header(metadata).columns[0]


@dataclass(frozen=True)
class Written:
    """A file that pyarrow made of stored arrays, with the bounds that `_pm` would have."""

    data: bytes
    footer: ParquetFooter
    columns: tuple[Column, ...]
    bounds: Mapping[str, tuple[bytes | None, bytes | None]]

    def chunk(self, location: int) -> tuple[bytes, Chunk]:
        (row_group,) = self.footer.row_groups
        chunk = chunk_of(row_group.chunks[location])
        name = self.columns[location].name
        if name in self.bounds:
            low, high = map(exact, self.bounds[name])
            chunk = replace(chunk, minimum=low, maximum=high)
        return self.data[chunk.byte_range_start : chunk.byte_range_end], chunk

    def decoded(self, location: int = 0) -> pa.Array:
        """Return the column, after its physical type, levels, counts and exact bounds were checked."""
        leaf, column = self.footer.leaves[location], self.columns[location]
        assert (leaf.physical_type, leaf.element.type_length or 0) == (column.physical_type, column.fixed_byte_len)
        assert (leaf.max_rep, leaf.max_def) == (0, column.max_def_level)
        content, chunk = self.chunk(location)
        return decode_chunk(content, column, chunk, file="data.parquet")


def write(
    rows: pa.Table, columns: tuple[Column, ...], symbols: Mapping[str, SymbolTable] | None = None, **options: Any
) -> Written:
    stored, bounds = stored_table(rows, columns, symbols or {})
    dictionaries = [field.name for field in stored.schema if pa.types.is_dictionary(field.type)]
    data = written_by_pyarrow(
        stored, store_schema=False, use_dictionary=dictionaries, row_group_size=1 << 24, **options
    )
    known = {name: bound or (None, None) for name, bound in bounds.items()}
    return Written(data, footer_of(data), columns, known | {name: used_bounds(stored[name]) for name in dictionaries})


def write_one(values: pa.Array, column: Column, **options: Any) -> Written:
    return write(pa.table({column.name: values}), (column,), {column.name: SYMBOLS}, **options)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_real_tables_survive_being_stored(questdb_data: Path, name: str) -> None:
    snapshot = snapshot_of(questdb_data / name)
    symbols = read_table_symbols(snapshot.table, snapshot.transaction)
    metadata = snapshot.table.metadata
    assert metadata is not None
    names = {column.id: column.name for column in metadata.columns}
    seen = 0
    for partition in parquet_partitions(snapshot):
        rows = rows_of(only(snapshot, partition))
        header = snapshot.resolve(partition).metadata.header
        columns = tuple(replace(column, name=names[column.id]) for column in header.columns)
        written = write(rows, columns, symbols)
        for location, column in enumerate(columns):
            assert text(written.decoded(location)) == text(rows[column.name])
            seen += len(rows)
    assert seen


def test_every_type_of_the_format_is_stored_here() -> None:
    assert {column_type & 0xFF for column_type, _, _ in TYPES.values()} == set(TypeTag)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("example_count", [5, nightly(100)])
def test_values_of_every_type_survive_being_stored(name: str, example_count: int) -> None:
    column_type, of, values = TYPES[name]

    @settings(max_examples=example_count)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        made = data.draw(st.lists(values if name in NEVER_NULL else st.none() | values, min_size=1, max_size=8))
        start = data.draw(st.integers(0, len(made) - 1))
        # A slice, because its buffers do not begin where its values do.
        rows = arrow(made, of).slice(start)
        assert text(write_one(rows, column_of(column_type)).decoded()) == text(rows)
        stored = [
            stored_array(given, column_of(column_type), symbols=SYMBOLS) for given in (rows, arrow(made[start:], of))
        ]
        assert text(stored[0].array) == text(stored[1].array)
        assert stored[0].bounds == stored[1].bounds

    check()


@pytest.mark.parametrize("name", TYPES)
def test_no_rows_are_stored_as_no_rows(name: str) -> None:
    column_type, of, _ = TYPES[name]
    stored = stored_array(arrow([], of), column_of(column_type), symbols=SYMBOLS)
    stored.array.validate(full=True)
    assert len(stored.array) == 0


@pytest.mark.parametrize(
    ("name", "values", "low", "high"),
    [
        ("char", [1, 0xFFFF], b"\x01\0\0\0", b"\xff\xff\0\0"),
        ("ipv4", [1, 0xFFFFFFFF], b"\x01\0\0\0", b"\xff\xff\xff\xff"),
        ("byte", [-1, 1], b"\xff\xff\xff\xff", b"\x01\0\0\0"),
        ("decimal16", [decimal.Decimal("-0.0001"), decimal.Decimal("0.0002")], b"\xff\xff", b"\x00\x02"),
        ("uuid", [b"\xff" * 16, b"\x01" * 16], b"\x01" * 16, b"\xff" * 16),
        ("long256", [b"\x01" + b"\xff" * 31, b"\xff" + b"\0" * 31], b"\x01" + b"\xff" * 31, b"\xff" + b"\0" * 31),
        ("symbol", ["last", "zebra", "apple"], b"apple", b"zebra"),
        # As many different values, null among them, as the dictionary has entries.
        ("symbol", ["never used", None, "never used", ""], None, b"never used"),
        ("symbol", [None], None, None),
        ("array", [[1.0], [2.0]], None, None),
    ],
)
def test_bounds_are_in_the_order_of_the_type(
    name: str, values: list[Any], low: bytes | None, high: bytes | None
) -> None:
    column_type, of, _ = TYPES[name]
    _, chunk = write_one(arrow(values, of), column_of(column_type)).chunk(0)
    found = [bound and bound.value for bound in (chunk.minimum, chunk.maximum)]
    assert found == [low, high]


@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"array", "array of 3 dimensions"}))
def test_only_what_pyarrow_orders_otherwise_has_bounds_of_its_own(name: str) -> None:
    column_type, of, _ = TYPES[name]
    sample = {"uuid": b"u" * 16, "long128": b"l" * 16, "long256": b"l" * 32, "symbol": "last"}
    value = sample.get(name, arrow([1], of)[0].as_py() if pa.types.is_integer(of) else None)
    values = pa.array([decimal.Decimal(1).scaleb(-of.scale)], of) if pa.types.is_decimal(of) else arrow([value], of)
    if name == "boolean":
        values = pa.array([True])
    stored = stored_array(values, column_of(column_type), symbols=SYMBOLS)
    assert (stored.bounds is Computed.BY_PYARROW) is not pa.types.is_decimal(of)


def test_decimals_without_a_value_have_no_bounds() -> None:
    column = column_of(TYPES["decimal8"][0])
    written = write_one(pa.array([None, None], pa.decimal128(2, 1)), column)
    _, chunk = written.chunk(0)
    assert (chunk.minimum, chunk.maximum, chunk.null_count) == (None, None, 2)


def runs(body: bytes, bit_width: int, count: int) -> list[int]:
    """Decode Parquet's hybrid of runs and bit-packed groups, whose headers here take one byte."""
    numbers: list[int] = []
    position = 0
    while len(numbers) < count:
        header, position = body[position], position + 1
        assert header < 0x80
        if header & 1:
            size_bytes = (header >> 1) * bit_width
            packed = int.from_bytes(body[position : position + size_bytes], "little")
            numbers += [packed >> location * bit_width & (1 << bit_width) - 1 for location in range((header >> 1) * 8)]
        else:
            size_bytes = -(-bit_width // 8)
            numbers += [int.from_bytes(body[position : position + size_bytes], "little")] * (header >> 1)
        position += size_bytes
    return numbers[:count]


@pytest.mark.parametrize(
    ("values", "entry_count", "keys"),
    [
        (["apple", None, "zebra", "größe", "apple"], 5, [3, 0, 4, 3]),
        (["zebra"], 1, [0]),
        ([None, None], 0, []),
        (["last", "last"], 6, [5, 5]),
        (["", None], 2, [1]),
    ],
)
def test_pages_of_symbols_hold_the_tables_own_dictionary_and_keys(
    values: list[str | None], entry_count: int, keys: list[int]
) -> None:
    written = write_one(pa.array(values, pa.string()), column_of(TypeTag.SYMBOL), compression="none")
    content, chunk = written.chunk(0)
    dictionary, data = pages_of(content, chunk, file="data.parquet")
    assert (dictionary.kind, dictionary.value_count) == (PageType.DICTIONARY, entry_count)
    bodies = [
        written.data[page.body_offset_bytes : page.body_offset_bytes + page.compressed_size_bytes]
        for page in (dictionary, data)
    ]
    assert plain_strings(bodies[0]) == list(SYMBOLS.symbols[:entry_count])
    (levels_bytes,) = struct.unpack_from("<I", bodies[1])
    levels = runs(bodies[1][4 : 4 + levels_bytes], 1, len(values))
    assert levels == [int(value is not None) for value in values]
    rest = bodies[1][4 + levels_bytes :]
    assert runs(rest[1:], rest[0], len(keys)) == keys


def test_symbols_stay_in_a_dictionary_however_large_it_is() -> None:
    symbols = SymbolTable(tuple(f"{key:0200d}" for key in range(8_000)))
    rows = pa.array([symbols.symbols[-1], symbols.symbols[0]] * 2_000)
    written = write(pa.table({"x": rows}), (column_of(TypeTag.SYMBOL),), {"x": symbols}, compression="zstd")
    content, chunk = written.chunk(0)
    pages = pages_of(content, chunk, file="data.parquet")
    assert {page.encoding for page in pages[1:]} == {8}
    assert written.decoded().equals(rows)


REJECTED: dict[str, tuple[str, pa.Array, int | None, str]] = {
    "another type": ("long", pa.array([1], pa.int32()), None, "values of type int64"),
    "another unit": ("timestamp", pa.array([1], pa.timestamp("ms", "UTC")), None, r"timestamp\[us, tz=UTC\]"),
    "another zone": ("timestamp", pa.array([1], pa.timestamp("us")), None, r"timestamp\[us, tz=UTC\]"),
    "large text": ("varchar", pa.array(["a"], pa.large_string()), None, "values of type string"),
    "another scale": ("decimal8", pa.array([decimal.Decimal(1)], pa.decimal128(2, 0)), None, r"decimal128\(2, 1\)"),
    "too many digits": (
        "decimal8",
        pa.Array.from_buffers(pa.decimal128(2, 1), 1, [None, pa.py_buffer((1000).to_bytes(16, "little"))]),
        None,
        "sound values",
    ),
    "text that is no UTF-8": ("varchar", pa.array([b"\xff"]).view(pa.string()), None, "sound values"),
    "null of a boolean": ("boolean", pa.array([True, None]), 1, "found null"),
    "null of a char": ("char", pa.array([None], pa.uint16()), 0, "found null"),
    "new symbol": ("symbol", pa.array(["last", None, "fresh", "newer"]), 2, "the new symbol 'fresh'"),
    "ragged array": ("array of 3 dimensions", pa.array([None, [[[]], [[], []]]], list_type(3)), 1, "one of 2"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_values_that_do_not_fit_are_rejected_by_column_and_row(name: str) -> None:
    of, values, row, message = REJECTED[name]
    with pytest.raises(RowsRejectedError, match=message) as caught:
        stored_array(values, column_of(TYPES[of][0]), symbols=SYMBOLS)
    assert str(caught.value).startswith("column 'x':" if row is None else f"column 'x', row {row}:")


def test_null_is_rejected_where_the_file_has_no_level_for_it_or_the_type_no_null() -> None:
    values = pa.array([1, None])
    optional = column_of(TypeTag.LONG)
    assert stored_array(values, optional).array.null_count == 1
    with pytest.raises(RowsRejectedError, match="row 1: expected a value"):
        stored_array(values, replace(optional, max_def_level=0))
    # Later releases store these types as optional, and still know no null of them.
    with pytest.raises(RowsRejectedError, match="row 1: expected a value"):
        stored_array(pa.array([True, None]), replace(column_of(TypeTag.BOOLEAN), max_def_level=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"max_rep_level": 1},
        {"max_rep_level": 1, "max_def_level": 3},
        {"max_def_level": 2},
        {"physical_type": 1},
        {"fixed_byte_len": 8},
        {"type": -1},
        {"type": 200},
        {"type": decimal_type(TypeTag.DECIMAL8, 3, 0)},
    ],
)
def test_columns_that_are_stored_in_another_way_are_rejected(changes: dict[str, Any]) -> None:
    column = column_of(TypeTag.DATE)
    values = pa.array([1], pa.timestamp("ms", "UTC"))
    assert stored_array(values, column).array.to_pylist() == [1]
    with pytest.raises(RowsRejectedError, match="stored as QuestDB does"):
        stored_array(values, replace(column, **changes))


def test_columns_come_in_file_order_with_the_files_nullability() -> None:
    columns = (column_of(TypeTag.LONG, "b"), column_of(TypeTag.BYTE, "a"), column_of(array_type(1), "c"))
    rows = pa.table({"c": arrow([None, [1.0]], list_type(1)), "a": pa.array([1, 2], pa.int8()), "b": [None, 7]})
    for given_rows in (rows, rows.to_batches()[0]):
        stored, bounds = stored_table(given_rows, columns)
        assert [(field.name, field.nullable) for field in stored.schema] == [("b", True), ("a", False), ("c", True)]
        assert bounds == {"c": None}


def test_rows_without_a_column_or_with_two_of_a_name_are_rejected() -> None:
    columns = (column_of(TypeTag.LONG, "b"),)
    for rows in (pa.table({"a": [1]}), pa.table([pa.array([1]), pa.array([1])], names=["b", "b"])):
        with pytest.raises(RowsRejectedError, match="column 'b': expected a column of this name"):
            stored_table(rows, columns)


def test_values_in_several_chunks_are_stored_as_one() -> None:
    values = pa.chunked_array([pa.array(["last"]), pa.array(["apple"])])
    written = write(pa.table({"x": values}), (column_of(TypeTag.SYMBOL),), {"x": SYMBOLS})
    assert written.decoded().to_pylist() == ["last", "apple"]
