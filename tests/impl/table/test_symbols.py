"""A symbol's key is its index in the dictionary in the table's files; damaged files are rejected with a message."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import golden_data
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from parquet_files import plain_strings
from real_tables import parquet_partitions, rows_of, snapshot_of
from rejections import rejection

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.errors import CorruptError, FileMissingError, ProblemError, RowsRejectedError, UnsupportedError
from tornproof.impl.limits import SYMBOL_CHARACTERS_LIMIT_BYTES, SYMBOL_COUNT_LIMIT
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.column_versions import (
    DEFAULT_PARTITION,
    ColumnVersions,
    decode_column_versions,
    read_column_versions,
)
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.partition import read_chunk
from tornproof.impl.table.symbols import (
    SymbolTable,
    decode_offsets,
    read_symbols,
    read_table_symbols,
)
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag, tag_of

FILES = golden_data.files_named("_meta")
TABLES = tuple(
    name
    for table in (*golden_data.TABLES, *golden_data.LEGACY_TABLES)
    if f"{(name := f'{table}/table')}/_meta" in FILES
    and any(file.startswith(f"{name}/") and file.endswith(".o") for file in golden_data.files(f"{name}/*"))
)
CHAIN, ODD_COLUMNS = "tables/9.4.2/chain/table", "tables/9.4.2/oddcols/table"
CHAIN_SYMBOLS = ("s1", "s2", "s0", "a", "d")
HEADER_BYTES = 64


@pytest.mark.parametrize("name", TABLES)
def test_symbols_of_real_tables_are_those_of_their_rows_and_of_their_dictionary_pages(
    questdb_data: Path, name: str
) -> None:
    snapshot = snapshot_of(questdb_data / name)
    (found,) = read_table_symbols(snapshot.table, snapshot.transaction).items()
    column_name, table = found
    assert table.symbols
    if name.startswith("legacy"):
        # Their partitions have no `_pm` to be read by.
        assert len(set(table.symbols)) == len(table.symbols)
        return
    used = set(rows_of(snapshot, [column_name])[column_name].to_pylist()) - {None}
    assert used
    assert [table.key_of(symbol) for symbol in table.symbols] == list(range(len(table.symbols)))
    assert used <= set(table.symbols)
    for partition in parquet_partitions(snapshot):
        resolved = snapshot.resolve(partition)
        (position,) = (
            position
            for position, column in enumerate(resolved.metadata.header.columns)
            if tag_of(column.type) is TypeTag.SYMBOL
        )
        with resolved.files.open_data() as handle:
            for block in resolved.metadata.blocks:
                chunk = block.chunks[position]
                content = read_chunk(handle, chunk, file="data.parquet")
                page = pages_of(content, chunk, file="data.parquet")[0]
                start = page.body_offset_bytes - chunk.byte_range_start
                body = content[start : start + page.compressed_size_bytes]
                if chunk.codec:
                    body = pa.decompress(body, page.uncompressed_size_bytes, "lz4_raw", asbytes=True)
                # The server leaves keys empty that the row group does not use.
                assert all(symbol in ("", table.symbols[key]) for key, symbol in enumerate(plain_strings(body)))


def offsets_file(offsets: Sequence[int]) -> bytes:
    return bytes(HEADER_BYTES) + struct.pack(f"<{len(offsets)}q", *offsets)


def files_of(symbols: Sequence[str]) -> tuple[bytes, bytes]:
    """Return `.o` and `.c`, with left-overs of another commit behind what counts."""
    offsets, characters = [0], b""
    for symbol in symbols:
        units = symbol.encode("utf-16-le")
        characters += struct.pack("<i", len(units) // 2) + units
        offsets.append(len(characters))
    return offsets_file(offsets) + b"\xff" * 16, characters + b"\xff" * 16


def image_of(offsets: bytes, characters: bytes, suffix: str = "") -> DiskImage:
    return DiskImage().with_file(f"/table/s.o{suffix}", offsets).with_file(f"/table/s.c{suffix}", characters)


def read(image: DiskImage, count: int, name_txn: int = -1) -> tuple[str, ...]:
    return read_symbols(image, "/table", "s", count=count, name_txn=name_txn).symbols


@given(st.lists(st.text(), unique=True, max_size=6), st.data())
def test_as_many_symbols_are_read_as_are_committed(symbols: list[str], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(symbols)))
    assert read(image_of(*files_of(symbols)), count) == tuple(symbols[:count])


def test_files_of_a_renamed_column_end_in_its_transaction() -> None:
    image = image_of(*files_of(["new"]), ".7").with_file("/table/s.o", b"").with_file("/table/s.c", b"")
    assert read(image, 1, name_txn=7) == ("new",)
    with pytest.raises(CorruptError, match=r"s\.o: size"):
        read(image, 1)
    with pytest.raises(FileMissingError):
        read(image, 1, name_txn=8)


def test_no_symbols_need_no_files() -> None:
    assert read(DiskImage(), 0) == ()


GOOD = ("ab", "", "c")


def with_offsets(*offsets: int) -> tuple[bytes, bytes]:
    return offsets_file(offsets), files_of(GOOD)[1]


def with_characters(change: Callable[[bytearray], object]) -> tuple[bytes, bytes]:
    offsets, characters = files_of(GOOD)
    changed = bytearray(characters)
    change(changed)
    return offsets, bytes(changed)


def put(position: int, raw: bytes) -> Callable[[bytearray], object]:
    def change(content: bytearray) -> None:
        content[position : position + len(raw)] = raw

    return change


BAD: dict[str, tuple[tuple[bytes, bytes], str, int | None]] = {
    "offsets cut": ((files_of(GOOD)[0][: HEADER_BYTES + 31], files_of(GOOD)[1]), "size", None),
    "first offset": (with_offsets(4, 8, 12, 18), "offset 0", 64),
    "first offset below 0": (with_offsets(-1, 8, 12, 18), "offset 0", 64),
    "offset that goes back": (with_offsets(0, 8, 7, 18), "offset 2", 80),
    "symbol without room": (with_offsets(0, 8, 11, 18), "offset 2", 80),
    "characters cut": ((files_of(GOOD)[0], files_of(GOOD)[1][:17]), "length of symbol 2", 12),
    "characters missing": ((files_of(GOOD)[0], files_of(GOOD)[1][:13]), "Symbol length", 12),
    "another length": (with_characters(put(0, b"\x01")), "length of symbol 0", 0),
    "negative length": (with_characters(put(8, b"\xff\xff\xff\xff")), "length of symbol 1", 8),
    "odd number of bytes": (with_offsets(0, 8, 13, 18), "length of symbol 1", 8),
    "lone surrogate": (with_characters(put(4, b"\x00\xd8")), "symbol 0", 4),
    "symbol that occurs twice": (files_of(("c", "", "c")), "symbol 2", 10),
}


def test_sound_files_are_what_the_damaged_ones_are_made_of() -> None:
    assert read(image_of(*files_of(GOOD)), 3) == GOOD
    assert read(image_of(*with_offsets(0, 8, 12, 18)), 3) == GOOD


@pytest.mark.parametrize("name", BAD)
def test_damaged_dictionary_is_rejected_at_its_offset(name: str) -> None:
    files, field, offset_bytes = BAD[name]
    problem = rejection(lambda: read(image_of(*files), 3))
    assert (problem.field, problem.offset_bytes) == (field, offset_bytes)


@given(st.binary(max_size=120), st.binary(max_size=40), st.integers(-2, 9))
def test_any_bytes_give_symbols_or_a_reason(offsets: bytes, characters: bytes, count: int) -> None:
    try:
        found = read(image_of(bytes(HEADER_BYTES - 8) + offsets, characters), count)
    except ProblemError:
        return
    assert len(found) == count


def test_counts_and_sizes_that_would_cost_memory_are_rejected_before_anything_is_read() -> None:
    with pytest.raises(CorruptError, match="COUNT of symbols of column 's'"):
        read(DiskImage(), -1)
    with pytest.raises(FileMissingError):
        read(DiskImage(), SYMBOL_COUNT_LIMIT)
    with pytest.raises(UnsupportedError, match="COUNT of symbols of column 's'"):
        read(image_of(bytes(HEADER_BYTES + 8 * (SYMBOL_COUNT_LIMIT + 2)), b""), SYMBOL_COUNT_LIMIT + 1)
    too_many_bytes = SYMBOL_CHARACTERS_LIMIT_BYTES + 1
    with pytest.raises(UnsupportedError, match="offset 1"):
        read(image_of(offsets_file([0, too_many_bytes]), bytes(too_many_bytes)), 1)
    assert decode_offsets(offsets_file([0, too_many_bytes]), 1, file="s.o")[-1] == too_many_bytes


def test_number_beyond_a_limit_is_damage_where_the_files_have_no_room_for_it() -> None:
    """A flipped bit in a number of symbols left all dictionaries and indexes of a table unchecked, with exit code 0."""
    image = image_of(*files_of(GOOD))
    problem = rejection(lambda: read(image, 3 | 1 << 30))
    assert (problem.file, problem.field) == ("s.o", "size")
    problem = rejection(lambda: read(image_of(*with_offsets(0, 8, 12, 18 | 1 << 40)), 3))
    assert (problem.file, problem.field) == ("s.c", "size")
    problem = rejection(lambda: read(image_of(*with_offsets(0, 8, 12 | 1 << 40, 18)), 3))
    assert (problem.file, problem.field) == ("s.o", "offset 3")


def test_column_name_that_leads_out_of_the_table_is_rejected() -> None:
    with pytest.raises(CorruptError, match="name of a column"):
        read_symbols(DiskImage(), "/table", "../other/s", count=0)


def test_new_symbol_is_rejected_by_column_and_row() -> None:
    table = SymbolTable(("a", "b"))
    assert table.key_of("b") == 1
    with pytest.raises(RowsRejectedError, match=r"column 's', row 3: expected one of the 2 symbols .* 'fresh'"):
        table.key_of("fresh", column="s", row=3)


def test_counts_in_txn_must_be_those_of_the_symbol_columns(questdb_data: Path) -> None:
    table = open_table(OperatingSystemStorage(), str(questdb_data / CHAIN))
    transaction = table.transaction()
    assert read_table_symbols(table, transaction)["s"].symbols == CHAIN_SYMBOLS
    (count,) = transaction.symbol_counts
    for counts in ((), (count, count)):
        with pytest.raises(CorruptError, match="SYMBOL_COLUMN_COUNT"):
            read_table_symbols(table, replace(transaction, symbol_counts=counts))
    fewer = replace(transaction, symbol_counts=(count.changed(count=3),))
    assert read_table_symbols(table, fewer)["s"].symbols == CHAIN_SYMBOLS[:3]


def test_counts_are_in_writer_order_whatever_the_tables_order(questdb_data: Path) -> None:
    table = open_table(OperatingSystemStorage(), str(questdb_data / CHAIN))
    assert table.metadata is not None
    # The type of "late" was changed, so it has the position of an older column.
    columns = [TableColumn(id=index, name=name, type=TypeTag.SYMBOL) for index, name in ((5, "late"), (2, "early"))]
    files = {"_cv": bytes(4096)}
    for name, symbols in (("early", ["a"]), ("late", ["b", "c"])):
        files[f"{name}.o"], files[f"{name}.c"] = files_of(symbols)
    image = DiskImage.of_files({f"/table/{name}": content for name, content in files.items()})
    changed = replace(table, storage=image, path="/table", metadata=replace(table.metadata, columns=tuple(columns)))
    transaction = table.transaction()
    counts = tuple(transaction.symbol_counts[0].changed(count=count) for count in (1, 2))
    found = read_table_symbols(changed, replace(transaction, symbol_counts=counts))
    assert found == {"early": SymbolTable(("a",)), "late": SymbolTable(("b", "c"))}


def test_tables_without_symbols_need_no_files(questdb_data: Path) -> None:
    table = open_table(OperatingSystemStorage(), str(questdb_data / "tables/9.4.2/rewrite/table"))
    transaction = table.transaction()
    assert read_table_symbols(replace(table, path="/nowhere"), transaction) == {}
    assert read_table_symbols(replace(table, metadata=None), transaction) == {}


def test_symbols_of_a_column_that_was_renamed_come_from_its_renamed_files(questdb_data: Path) -> None:
    folder = questdb_data / CHAIN
    names = ("_meta", "_txn", "_cv", "s.o", "s.c")
    files = {name: (folder / name).read_bytes() for name in names}
    # Version 0 selects area A; one entry gives column 2 files of transaction 9.
    entry = struct.pack("<4q", -(1 << 63), 2, 9, 0)
    files["_cv"] = struct.pack("<5q", 0, 40, 32, 0, 0) + entry
    renamed = {{"s.o": "s.o.9", "s.c": "s.c.9"}.get(name, name): content for name, content in files.items()}
    image = DiskImage.of_files({f"/table/{name}": content for name, content in renamed.items()})
    table = open_table(image, "/table")
    assert read_table_symbols(table, table.transaction())["s"].symbols == CHAIN_SYMBOLS


def table_names(versions: ColumnVersions) -> dict[int, int]:
    return {column: entry.name_txn for (start, column), entry in versions.entries.items() if start == DEFAULT_PARTITION}


def test_real_names_of_columns_are_those_of_the_native_files(questdb_data: Path) -> None:
    folder = questdb_data / ODD_COLUMNS
    found = read_column_versions(OperatingSystemStorage(), str(folder / "_cv"), version=5)
    # a1 was renamed, d and e were added: their files in the native partition are a1.d.7, d.d.2 and e.d.6.
    assert table_names(found) == {0: 7, 5: 2, 6: 6}
    assert {"a1.d.7", "d.d.2", "e.d.6", "s.d"} <= {path.name for path in (folder / "2025-04-03").iterdir()}


def test_column_versions_may_be_one_commit_ahead_of_the_table(questdb_data: Path) -> None:
    content = (questdb_data / ODD_COLUMNS / "_cv").read_bytes()
    assert table_names(decode_column_versions(content, version=4, file="_cv")) == {0: 7, 5: 2, 6: 6}
    for version in (3, 6):
        with pytest.raises(CorruptError, match="VERSION"):
            decode_column_versions(content, version=version, file="_cv")


def test_only_the_area_of_the_version_is_read_and_it_must_lie_in_the_file() -> None:
    entries = struct.pack("<8q", -(1 << 63), 1, 5, 0, 1_000, 2, 6, 0)
    good = struct.pack("<5q", 4, 40, 64, 0, -1) + entries
    assert table_names(decode_column_versions(good, version=4, file="_cv")) == {1: 5}
    for offset, size in ((40, 65), (41, 64), (-8, 64), (40, -32), (1 << 62, 1 << 62)):
        with pytest.raises(CorruptError, match="A_SIZE"):
            decode_column_versions(struct.pack("<5q", 4, offset, size, 0, 0) + entries, version=4, file="_cv")
    with pytest.raises(CorruptError):
        decode_column_versions(good[:39], version=4, file="_cv")
