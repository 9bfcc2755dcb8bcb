"""The index of a SYMBOL column finds the rows of each symbol, or `verify` says where it does not."""

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import golden_data
import pytest
from damage import each_flipped
from real_tables import put, rows_of, snapshot_of, table_image, verified, word
from rejections import rejection

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, Problem, UnsupportedError
from tornproof.impl.layout.index import IndexHeader, IndexKey
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table import symbol_index
from tornproof.impl.table.symbol_index import (
    HEADER_BYTES,
    KEY_BYTES,
    SymbolIndex,
    decode_symbol_index,
    key_position,
    read_symbol_index,
)

INDEXED = "indexed/9.4.2/indexed_nonwal/table"
PARTITION = "2024-05-01.1"
KEYS, VALUES = f"{PARTITION}/s.k", f"{PARTITION}/s.v"
BLOCK_ROWS = 256
BLOCK_BYTES = BLOCK_ROWS * 8 + 16
INDEX_COUNTS = {
    "indexed/9.4.2/indexed_nonwal": 3,
    "indexed/2026-07/indexed_wal": 3,
    "tables/9.4.2/nonwal": 2,
    "indexed/9.4.2/index_dropped": 0,
}
Change = Callable[[bytes], bytes]


def header(field: str) -> int:
    return IndexHeader.layout.offset_of(field)


def problem_with(questdb_data: Path, *changes: tuple[str, Change | None], table: str = INDEXED) -> Problem | None:
    """Return what is wrong with the indexed table once files were changed or, for None, removed."""
    path, image = table_image(questdb_data, table)
    for file, change in changes:
        position = f"{path}/{file}"
        image = (
            image.without_file(position) if change is None else image.with_file(position, change(image.files[position]))
        )
    report = verified(path, image)
    assert len(report.all_problems) < 2
    return next(iter(report.all_problems), None)


@pytest.mark.parametrize("table", INDEX_COUNTS)
def test_index_that_a_server_wrote_fits_its_rows(table: str, questdb_data: Path) -> None:
    report = verified(questdb_data / table / "table")
    assert report.sound
    assert report.counts.indexes == INDEX_COUNTS[table]
    assert not any("not compared" in note for note in report.notes)
    assert verified(questdb_data / table / "table", quick=True).counts.indexes == 0


@pytest.mark.parametrize("table", golden_data.INDEXED_TABLES)
def test_lookup_by_a_decoded_index_finds_the_rows_of_a_scan(table: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / table / "table")
    rows = rows_of(snapshot)["s"].to_pylist()
    start = 0
    for partition in snapshot.parquet_partitions():
        folder = f"{snapshot.table.path}/{snapshot.table.directory_of(partition)}"
        own = rows[start : start + partition.row_count]
        start += partition.row_count
        if not Path(f"{folder}/s.k").exists():
            continue
        index = read_symbol_index(OperatingSystemStorage(), f"{folder}/s.k", f"{folder}/s.v", directory="p")
        (piece,) = index.pieces()
        for key, symbol in enumerate(dict.fromkeys(rows), 1):
            expected = [row for row, value in enumerate(own) if value == symbol]
            assert piece.rows[piece.keys == key].tolist() == expected


@pytest.mark.parametrize(
    ("file", "offset_bytes", "raw", "field", "expected", "actual"),
    [
        (KEYS, 0, b"\0", "SIGNATURE", "250", "0"),
        (KEYS, header("sequence"), word(8), "SEQUENCE_CHECK", "8, the sequence", "7"),
        (KEYS, header("value_mem_size"), word(1 << 40), "VALUE_MEM_SIZE", "0 to 8192, the size of", str(1 << 40)),
        (KEYS, header("value_mem_size"), word(4128), "VALUE_MEM_SIZE", "room for 3 blocks of 2064", "4128"),
        (KEYS, header("key_count"), b"\xff" * 4, "KEY_COUNT", "0 to 126, the keys", "-1"),
        (KEYS, header("key_count"), b"\x03\0\0\0", "KEY_COUNT", "more than 3, because of rows with symbol 's0'", "3"),
        (KEYS, header("block_value_count"), b"\0" * 4, "BLOCK_VALUE_COUNT", "1 or more", "0"),
        (KEYS, key_position(1, "value_count"), word(-1), "VALUE_COUNT of key 1", "0 to 774, the rows", "-1"),
        (KEYS, key_position(1, "value_count"), word(48), "COUNT_CHECK of key 1", "48, the number of rows", "49"),
        (KEYS, key_position(2, "first_value_block_offset"), word(8), "FIRST_VALUE_BLOCK_OFFSET of key 2", "2064", "8"),
        (KEYS, key_position(2, "last_value_block_offset"), word(0), "LAST_VALUE_BLOCK_OFFSET of key 2", "2064", "0"),
        (VALUES, 0, word(1), "row of key 1", "a row with symbol 's1'", "1, which has symbol 's2'"),
        (VALUES, 8, word(0), "row of key 1", "more than 0, the row before it", "0"),
        (VALUES, 0, word(-5), "row of key 1", "more than -1, the row before it", "-5"),
    ],
)
def test_changed_field_of_an_index_is_a_problem(
    questdb_data: Path, file: str, offset_bytes: int, raw: bytes, field: str, expected: str, actual: str
) -> None:
    problem = problem_with(questdb_data, (file, put(offset_bytes, raw)))
    assert problem is not None
    assert (problem.file, problem.field) == (file, field)
    assert expected in problem.expected
    assert problem.actual == actual
    assert problem.offset_bytes is not None
    assert 0 <= problem.offset_bytes - offset_bytes <= 28 or problem.offset_bytes == header("key_count")


def test_row_that_no_lookup_finds_is_a_problem(questdb_data: Path) -> None:
    fewer = [put(key_position(1, field), word(48)) for field in ("value_count", "count_check")]
    problem = problem_with(questdb_data, *((KEYS, change) for change in fewer))
    assert problem is not None
    assert str(problem) == f"{KEYS}: VALUE_COUNT of key 1 at byte 96: expected 49, the rows with symbol 's1', found 48"


def test_rows_behind_the_committed_ones_are_no_problem_but_one_that_took_the_place_of_another_is(
    questdb_data: Path,
) -> None:
    # The first key gets one more row, 145, than the 145 rows of the partition.
    more = [(KEYS, put(key_position(1, field), word(50))) for field in ("value_count", "count_check")]
    assert problem_with(questdb_data, *more, (VALUES, put(49 * 8, word(145)))) is None
    problem = problem_with(questdb_data, (VALUES, put(48 * 8, word(145))))
    assert problem is not None
    assert problem.field == "VALUE_COUNT of key 1"


def test_index_of_other_rows_is_a_problem(questdb_data: Path) -> None:
    other = questdb_data / INDEXED / "2024-05-02.2"
    changes = [(f"{PARTITION}/{name}", lambda _, name=name: (other / name).read_bytes()) for name in ("s.k", "s.v")]
    problem = problem_with(questdb_data, *changes)
    assert problem is not None
    assert problem.file == VALUES


@pytest.mark.parametrize("file", [KEYS, VALUES])
def test_missing_file_of_an_index_is_a_problem(questdb_data: Path, file: str) -> None:
    problem = problem_with(questdb_data, (KEYS, None), (VALUES, None))
    assert str(problem) == f"{KEYS}: file: expected the index that column 's' has by _meta, found none"
    problem = problem_with(questdb_data, (file, None))
    assert problem is not None
    assert (problem.file, problem.actual) == (file, "none")


def test_index_of_another_kind_is_named_as_not_compared(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, INDEXED)
    for file in (KEYS, VALUES):
        image = image.without_file(f"{path}/{file}").with_file(f"{path}/{PARTITION}/s.p{file[-1]}", b"?")
    report = verified(path, image)
    assert report.sound
    assert report.counts.indexes == 2
    assert report.notes == (f"{PARTITION}: the index of column 's' was not compared: its files are s.pk, s.pv",)


def test_index_is_named_as_not_compared_where_column_versions_cannot_be_read(questdb_data: Path) -> None:
    path, image = table_image(questdb_data, INDEXED)
    report = verified(path, image.with_file(f"{path}/_cv", b""))
    assert report.counts.indexes == 0
    assert sum("was not compared" in note for note in report.notes) == 2


def test_index_above_the_limit_is_named_as_not_compared(questdb_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_index, "INDEX_LIMIT_BYTES", 4096)
    report = verified(questdb_data / INDEXED)
    assert report.sound
    assert sum("was not compared" in note for note in report.notes) == 3


def test_flipped_bits_of_an_index_are_problems_unless_they_are_unused_and_never_other_errors(
    questdb_data: Path,
) -> None:
    folder = questdb_data / INDEXED / PARTITION
    keys, values = (folder / "s.k").read_bytes(), (folder / "s.v").read_bytes()
    whole = seen_rows(decoded(keys, values))
    silent = set()
    for position, flipped in enumerate(each_flipped(keys[: HEADER_BYTES + 4 * KEY_BYTES])):
        try:
            same = seen_rows(decoded(flipped + keys[len(flipped) :], values)) == whole
        except CorruptError:
            continue
        if same:
            silent.add(position // 8)
    # Unused bytes and MAX_VALUE; where blocks of a key without rows are; a smaller KEY_COUNT is seen by its rows.
    unused = {
        *range(25, 29),
        *range(37, 64),
        *range(header("key_count"), 29),
        *range(HEADER_BYTES + 8, HEADER_BYTES + 24),
    }
    assert silent <= unused | set(range(header("value_mem_size"), header("value_mem_size") + 8))


def decoded(keys: bytes, values: bytes) -> SymbolIndex:
    return decode_symbol_index(keys, values, keys_file="s.k", file="s.v")


def seen_rows(index: SymbolIndex) -> list[tuple[int, int]]:
    return [pair for piece in index.pieces() for pair in zip(piece.keys.tolist(), piece.rows.tolist(), strict=True)]


def made_index(rows_of_keys: list[list[int]], block_rows: int = 2) -> tuple[bytes, bytes]:
    """Return `.k` and `.v` with blocks of a few rows, allocated in the order of the rows as a server does."""
    entries = [[len(rows), 0, 0, len(rows)] for rows in rows_of_keys]
    block_bytes = block_rows * 8 + 16
    values = bytearray()
    chains: dict[int, list[int]] = {}
    for row, key in sorted((row, key) for key, rows in enumerate(rows_of_keys) for row in rows):
        chain, position = chains.setdefault(key, []), rows_of_keys[key].index(row) % block_rows
        if not position:
            if chain:
                struct.pack_into("<q", values, chain[-1] + block_bytes - 8, len(values))
            chain.append(len(values))
            values += bytes(block_bytes)
            struct.pack_into("<q", values, chain[-1] + block_bytes - 16, chain[-2] if len(chain) > 1 else 0)
        struct.pack_into("<q", values, chain[-1] + position * 8, row)
        entries[key][1:3] = [chain[0], chain[-1]]
    head = IndexHeader(
        signature=0xFA,
        sequence=1,
        value_mem_size=len(values),
        block_value_count=block_rows,
        key_count=len(entries),
        unused=bytes(4),
        sequence_check=1,
        max_value=0,
        unused_end=bytes(19),
    ).pack()
    return head + b"".join(struct.pack("<4q", *entry) for entry in entries), bytes(values)


def test_chains_of_several_blocks_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[], [0, 2, 4, 5, 9], [1, 3], [6, 7, 8]]
    expected = [(key, row) for key, own in enumerate(rows) for row in own]
    assert seen_rows(decoded(*made_index(rows))) == expected
    monkeypatch.setattr(symbol_index, "PIECE_ROWS", 1)
    assert seen_rows(decoded(*made_index(rows))) == expected


def test_chain_that_turns_back_or_leaves_the_file_is_rejected() -> None:
    keys, values = made_index([[], [0, 1, 2, 3, 4, 5]])
    for next_block, link in ((64, "previous"), (96, "next"), (-32, "next")):
        problem = rejection(partial(decoded, keys, put(24, word(next_block))(values)))
        assert (problem.file, problem.field) == ("s.v", f"{link} block of key 1")


def test_claims_of_many_rows_take_no_memory() -> None:
    keys, values = made_index([[], [0, 1]])
    entry = HEADER_BYTES + KEY_BYTES
    for count in (1 << 62, 1 << 40, 5):
        claim = put(entry + IndexKey.layout.offset_of("count_check"), word(count))(put(entry, word(count))(keys))
        assert rejection(partial(decoded, claim, values)).file == "s.k"


def test_files_above_the_limit_are_not_read() -> None:
    storage = MemoryStorage()
    storage.mkdir("p")
    for name in ("p/s.k", "p/s.v"):
        with storage.open_for_writing(name, OpenMode.NEW) as file:
            file.truncate(symbol_index.INDEX_LIMIT_BYTES + 1)
    with pytest.raises(UnsupportedError, match=r"s\.k"):
        read_symbol_index(storage, "p/s.k", "p/s.v", directory="p")
