"""The dictionary of a SYMBOL column leads to each symbol by its hash, or `verify` says where it does not."""

import struct
from collections.abc import Callable
from pathlib import Path

import golden_data
import pytest
from damage import flipped
from hypothesis import given, settings
from hypothesis import strategies as st
from real_tables import CHAIN, Seen, put, seen, table_image, verified

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.column_versions import CV_FILE, DICTIONARY
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.table.symbol_hash import BUCKET_COUNT_MIN, bucket_count, buckets_of
from tornproof.impl.table.symbol_keys import dictionaries_by_position
from tornproof.impl.table.symbols import SymbolTable, read_table_symbols
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag

REAL = (*golden_data.TABLES, *golden_data.INDEXED_TABLES)
SYMBOL_COUNT = 5
KEY_BYTES, HEADER_BYTES, BLOCK_BYTES = 32, 64, 32


def java_hash(text: str) -> int:
    """Return what `String.hashCode` does, character by character."""
    found = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le")):
        found = (31 * found + unit) & 0xFFFF_FFFF
    return found & 0x0FFF_FFFF


LAST_BUCKET = 100
FIRST_BUCKET = java_hash("s1") % 128
"""The key of the first symbol of the table, whose capacity is 256."""
FIRST_BLOCK = 32
"""Of that symbol; a server leaves the block before it unused."""


@given(st.lists(st.text()), st.integers(1, 1 << 20))
def test_buckets_are_those_of_a_server(symbols: list[str], capacity: int) -> None:
    count = BUCKET_COUNT_MIN
    while count < capacity // 2:
        count *= 2
    assert bucket_count(capacity) == count
    assert buckets_of(symbols, capacity).tolist() == [java_hash(symbol) % count for symbol in symbols]


@pytest.mark.parametrize("name", REAL)
def test_dictionaries_of_real_tables_are_sound(name: str, questdb_data: Path) -> None:
    path = questdb_data / name / "table"
    if not (path / "_meta").exists():
        pytest.skip("a history without _meta")
    table = open_table(OperatingSystemStorage(), str(path))
    report = verified(path)
    assert report.problems == ()
    read_table_symbols(table, table.transaction())


def after(questdb_data: Path, kind: str, change: Callable[[bytes], bytes]) -> Seen:
    path, image = table_image(questdb_data, CHAIN)
    position = f"{path}/s.{kind}"
    return seen(verified(path, image.with_file(position, change(image.files[position]))))


def test_a_symbol_that_the_index_does_not_lead_to_is_found(questdb_data: Path) -> None:
    entry = HEADER_BYTES + FIRST_BUCKET * KEY_BYTES
    assert after(questdb_data, "k", put(entry, bytes(KEY_BYTES))) == [
        ("s.k", f"VALUE_COUNT of key {FIRST_BUCKET}", entry)
    ]


@pytest.mark.parametrize(("position", "is_sound"), [(64, True), (72, False), (0, False), (68, False), (96, False)])
def test_a_position_must_be_that_of_a_symbol_with_the_hash(position: int, is_sound: bool, questdb_data: Path) -> None:
    found = after(questdb_data, "v", put(FIRST_BLOCK, struct.pack("<q", position)))
    assert found == ([] if is_sound else [("s.v", f"position of key {FIRST_BUCKET}", FIRST_BLOCK)])


def test_what_a_commit_that_was_not_completed_has_added_is_ignored(questdb_data: Path) -> None:
    # A second position in the chain of the first symbol, behind the last one or that of the last one.
    path, image = table_image(questdb_data, CHAIN)
    end = HEADER_BYTES + 8 * SYMBOL_COUNT
    entry = HEADER_BYTES + FIRST_BUCKET * KEY_BYTES
    content = put(entry, struct.pack("<q", 2))(put(entry + 24, struct.pack("<q", 2))(image.files[f"{path}/s.k"]))
    grown = image.with_file(f"{path}/s.k", content)
    for position, is_sound in ((end, True), (end - 8, False)):
        values = put(FIRST_BLOCK + 8, struct.pack("<q", position))(image.files[f"{path}/s.v"])
        assert verified(path, grown.with_file(f"{path}/s.v", values)).sound == is_sound


@pytest.mark.parametrize(
    ("kind", "offset_bytes", "field"),
    [("o", 0, "SYMBOL_CAPACITY"), ("k", 0, "SIGNATURE"), ("k", 17, "BLOCK_VALUE_COUNT")],
)
def test_settings_that_no_dictionary_can_have_are_found(
    kind: str, offset_bytes: int, field: str, questdb_data: Path
) -> None:
    found = after(questdb_data, kind, put(offset_bytes, bytes(4)))
    assert found == [(f"s.{kind}", field, offset_bytes)]


def test_a_header_that_is_cut_is_named_by_its_file_where_there_are_no_symbols_yet() -> None:
    """`verify` called the file by its whole path, and all others by their names in the table."""
    storage = MemoryStorage()
    columns = [NewColumn(name="time", type=TypeTag.TIMESTAMP), NewColumn(name="s", type=TypeTag.SYMBOL)]
    create_table(storage, "table", columns, timestamp="time", partition_by=PartitionBy.DAY)
    report = verified("table", storage.image().with_file("table/s.o", bytes(63)))
    assert seen(report) == [("s.o", "Symbol offsets header", 0)]


def test_another_capacity_leads_elsewhere(questdb_data: Path) -> None:
    assert after(questdb_data, "o", put(0, struct.pack("<i", 2))) != []


def test_a_dictionary_that_a_server_made_anew_is_read_by_its_own_name_alone(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, CHAIN)
    entry = struct.pack("<4q", DICTIONARY, 2, 7, -1)
    versions = image.files[f"{path}/{CV_FILE}"]
    column = open_table(image, path).metadata
    assert column is not None and column.columns[2].name == "s", column
    (version,) = struct.unpack_from("<q", versions)
    start = 4096
    header = struct.pack("<5q", version, start, len(entry), start, len(entry))
    image = image.with_file(f"{path}/{CV_FILE}", header.ljust(start, b"\0") + entry)
    expected = "expected the file that the dictionary of column 's' has by _cv, found s"
    found = [str(each) for each in verified(path, image).all_problems]
    assert found == [f"s.{kind}.7: file: {expected}.{kind}" for kind in "ockv"]
    for kind in "ockv":
        content = image.files[f"{path}/s.{kind}"]
        image = image.without_file(f"{path}/s.{kind}").with_file(f"{path}/s.{kind}.7", content)
    report = verified(path, image)
    assert (report.sound, report.notes) == (True, ())
    (symbols,) = read_table_symbols(open_table(image, path), open_table(image, path).transaction()).values()
    assert len(symbols.symbols) == SYMBOL_COUNT


def test_any_bytes_of_an_index_are_judged_without_an_error(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, CHAIN)

    @settings(max_examples=100)
    @given(st.sampled_from("kv"), st.data())
    def check(kind: str, data: st.DataObject) -> None:
        content = image.files[f"{path}/s.{kind}"]
        used = HEADER_BYTES + (LAST_BUCKET + 1) * KEY_BYTES if kind == "k" else 6 * BLOCK_BYTES
        changed = flipped(content, data.draw(st.integers(0, 8 * used - 1)))
        verified(path, image.with_file(f"{path}/s.{kind}", changed))

    check()


def test_keys_of_a_column_that_became_a_symbol_are_looked_up_in_its_dictionary() -> None:
    """New files have such a column under the id that it had before."""
    symbol = TableColumn(id=2, name="s", type=TypeTag.SYMBOL, former_ids=(1,))
    columns = (TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP), symbol)
    metadata = TableMetadata(columns=columns, partition_by=PartitionBy.DAY, timestamp_id=0)
    header, symbols = new_header(metadata), SymbolTable(symbols=("a",))
    assert [column.id for column in header.columns] == [0, 1]
    assert dictionaries_by_position(header, metadata, {"s": symbols}) == {1: symbols}
