"""`tornproof inspect` on real files: exit codes, whole documents, and numbers that somebody else computed as well."""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import struct
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import WarmRunner
from depth import nightly
from golden_data import CHAIN, CopyOf
from inspecting import command, document_of
from rich.console import Console

from tornproof.cli.inspection import pm_scan
from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.pm_scan import whole_generations
from tornproof.cli.inspection.readable import IN_THE_TITLE, UNSET, is_one_value, label
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.errors import BusyError, StorageError, UnsupportedError, UsageError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import decode_metadata, walk
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals
from tornproof.impl.storage.operating_system import OperatingSystemStorage

CHAIN_PARTITION = f"{CHAIN}/2024-01-01.1"
CHAIN_TOKENS = [10642, 8524, 6530, 4503]
TYPES = "tables/9.4.2/types"
# Real files never change, and several tests look at all of them.
inspected = functools.cache(document_of)
INSPECTED_NAMES = ("_pm", "_txn", "_meta", "data.parquet", "expected.parquet")


def is_damaged(name: str) -> bool:
    """Which golden files are damaged by themselves, as their README tells."""
    folder, _, file = name.rpartition("/")
    if file == "_pm":
        return "pm-one-bit" in name or "pm-tail-zeros" in name
    if file == "_txn":
        return "txn-version-new-record-area-old" in name
    # Beside a `_pm`, data.parquet is read at that one's newest token; in one of the images the zeros miss its footer.
    return file == "data.parquet" and any(
        image in folder for image in ("data-tail-lost-length", "data-tail-zeros", "9.4.2/data-tail-first-512-b-zero")
    )


@pytest.mark.parametrize("one_of", [pytest.param(6, id="some"), nightly(1, id="all")])
@pytest.mark.parametrize("file_name", INSPECTED_NAMES)
def test_every_real_file_can_be_inspected_and_only_the_damaged_ones_have_problems(
    questdb_data: Path, file_name: str, one_of: int
) -> None:
    verdicts = {}
    for number, name in enumerate(golden_data.files_named(file_name)):
        if number % one_of and not is_damaged(name):
            continue
        path = questdb_data / name
        # A rewrite that was killed at its start leaves an empty `_pm` beside half a data.parquet.
        is_unfinished = (
            name.startswith("crashes/") and (path.parent / "_pm").exists() and not (path.parent / "_pm").stat().st_size
        )
        if not is_unfinished:
            verdicts[name] = bool(inspected(path)["problems"])
    assert verdicts
    assert verdicts == {name: is_damaged(name) for name in verdicts}


def test_what_a_killed_rewrite_leaves_is_named(questdb_data: Path) -> None:
    folder = questdb_data / "crashes/9.4.2/rewrite-3-06/table/2024-01-01.11"
    assert [problem["field"] for problem in document_of(folder / "_pm")["problems"]] == ["`_pm` header"]
    assert [problem["field"] for problem in document_of(folder / "data.parquet")["problems"]] == ["magic"]


def test_chain_table_shows_its_four_generations(questdb_data: Path) -> None:
    document = document_of(questdb_data / CHAIN_PARTITION / "_pm")
    generations = document["generations"]
    assert document["kind"] == "_pm"
    assert [generation["token"] for generation in generations] == CHAIN_TOKENS
    assert [generation["rows"] for generation in generations] == [23, 22, 21, 20]
    assert [generation["unused_bytes"] for generation in generations] == [5741, 4223, 2116, 0]
    assert [generation["end_bytes"] for generation in generations] == [2568, 2228, 1892, 1556]
    assert [generation["prev_parquet_meta_file_size"] for generation in generations] == [2228, 1892, 1556, 0]
    assert all(generation["checksum"]["ok"] for generation in generations)
    assert document["resolved"] == {"generation": 0, "token": 10642, "orphans": []}
    assert document["header"]["feature_flags"]["names"] == ["SORTING_IS_DTS_ASC"]
    assert document["sorting"] == [{"column": 0, "name": "ts", "descending": False}]
    assert [column["type"]["name"] for column in document["columns"]] == ["TIMESTAMP", "LONG", "SYMBOL", "VARCHAR"]


@pytest.mark.parametrize(("position", "token"), list(enumerate(CHAIN_TOKENS)))
def test_each_token_picks_its_generation_and_its_footer(questdb_data: Path, position: int, token: int) -> None:
    pm = document_of(questdb_data / CHAIN_PARTITION / "_pm", "--at", token)
    data = document_of(questdb_data / CHAIN_PARTITION / "data.parquet", "--at", token)
    assert pm["resolved"] == {"generation": position, "token": token, "orphans": list(range(position))}
    assert [group["rows"] for group in pm["row_groups"]] == [group["rows"] for group in data["row_groups"]]
    assert data["num_rows"] == pm["generations"][position]["rows"]
    assert data["partition"]["generation"] == position
    assert data["partition"]["bytes_after_token"] == CHAIN_TOKENS[0] - token


def test_token_that_no_generation_has_is_a_problem(questdb_data: Path) -> None:
    document = document_of(questdb_data / CHAIN_PARTITION / "_pm", "--at", 8525)
    assert [(problem["field"], problem["actual"]) for problem in document["problems"]] == [("token", "8525")]
    assert document["resolved"] is None


def test_partition_directory_shows_both_files_at_one_token(questdb_data: Path) -> None:
    document = document_of(questdb_data / CHAIN_PARTITION, "--at", CHAIN_TOKENS[2])
    assert (document["kind"], document["pm"]["kind"], document["data"]["kind"]) == ("partition", "_pm", "parquet")
    assert document["pm"]["resolved"]["token"] == document["data"]["token"] == CHAIN_TOKENS[2]


def test_partition_whose_files_contradict_each_other_is_damaged(copy_of: CopyOf) -> None:
    partition = copy_of(CHAIN_PARTITION)
    footer = document_of(partition / "data.parquet")["footer_offset_bytes"]
    content = (partition / "data.parquet").read_bytes()
    (partition / "data.parquet").write_bytes(content[:footer] + content[footer:].replace(b"n9", b"n8"))
    assert any(problem["expected"].endswith("as in _pm") for problem in document_of(partition)["problems"])


@pytest.mark.parametrize("one_of", [pytest.param(6, id="some"), nightly(1, id="all")])
def test_byte_map_covers_every_file_and_counts_dead_bytes_as_the_reader_does(questdb_data: Path, one_of: int) -> None:
    looked_at_count = 0
    for name in golden_data.files_named("_pm")[::one_of]:
        content = (questdb_data / name).read_bytes()
        document = inspected(questdb_data / name)
        ranges = document["byte_map"]
        starts = [entry["start_bytes"] for entry in ranges]
        assert [0, *(entry["end_bytes"] for entry in ranges)] == [*starts, len(content)], name
        if content and not document["problems"]:
            published = content[: document["header"]["parquet_meta_file_size"]]
            chain = [decode_metadata(published, location, file=name) for location in walk(published, file=name)]
            intervals = reached_intervals(published, chain, file=name)
            assert document["dead_bytes"] == dead_byte_count(published, len(content), intervals, file=name), name
            looked_at_count += 1
    assert looked_at_count > 150 // one_of


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("after-restart/2026-07/sync-2-02/table/2024-01-01.2/_pm", 44134),
        ("power-loss/2026-07/pm-header-old-txn-new/table/2024-01-01.1/_pm", 7586),
    ],
)
def test_whole_generation_outside_of_the_chain_is_found_with_its_token(
    questdb_data: Path, name: str, token: int
) -> None:
    document = document_of(questdb_data / name)
    assert token not in [generation["token"] for generation in document["generations"]]
    assert [entry["token"] for entry in document["byte_map"] if entry["what"] == "dead"] == [token]


def test_generations_are_found_under_a_header_that_names_none(questdb_data: Path) -> None:
    name = "power-loss/2026-07/pm-tail-zeros-header-new-txn-old/table/2024-01-01.1/_pm"
    document = document_of(questdb_data / name)
    assert document["generations"] == []
    assert 5637 in [entry["token"] for entry in document["byte_map"] if entry["what"] == "not explained"]


def test_bounds_are_values_that_the_server_shows(questdb_data: Path) -> None:
    expected = json.loads((questdb_data / TYPES / "expected.json").read_text())
    names = [column["name"] for column in expected["columns"]]
    rows = [row for row in expected["rows"] if row[0] < "2024-05-02"]
    document = document_of(questdb_data / TYPES / "table/2024-05-01.2/_pm")
    compared = set()
    for group in document["row_groups"]:
        for chunk in group["chunks"]:
            # Base 32 and cut bytes are other spellings of the same.
            if chunk["name"] in ("gl", "bi") or chunk["min"] is None:
                continue
            values = {_plain(row[names.index(chunk["name"])]) for row in rows}
            assert {_plain(chunk["min"]["value"]), _plain(chunk["max"]["value"])} <= values, chunk
            compared.add(chunk["name"])
    assert compared == set(names) - {"gl", "bi", "arr", "arr2"}


def _plain(value: object) -> object:
    """Times without the zeros at the end of their fraction."""
    if isinstance(value, str) and value.endswith("Z") and "." in value:
        return value[:-1].rstrip("0").rstrip(".") + "Z"
    return value


@pytest.mark.parametrize("one_of", [pytest.param(6, id="some"), nightly(1, id="all")])
@pytest.mark.parametrize("file_name", ["data.parquet", "expected.parquet"])
def test_parquet_documents_agree_with_pyarrow(questdb_data: Path, file_name: str, one_of: int) -> None:
    names = [name for name in golden_data.files_named(file_name) if name.startswith(("tables/", "legacy/"))]
    assert names
    for name in names[::one_of]:
        document, metadata = inspected(questdb_data / name), pq.read_metadata(questdb_data / name)
        assert (document["num_rows"], document["created_by"]) == (metadata.num_rows, metadata.created_by)
        assert [".".join(leaf["path"]) for leaf in document["schema"]] == [
            metadata.schema.column(index).path for index in range(metadata.num_columns)
        ]
        for group, row_group in enumerate(document["row_groups"]):
            assert row_group["rows"] == metadata.row_group(group).num_rows
            for index, chunk in enumerate(row_group["chunks"]):
                column = metadata.row_group(group).column(index)
                assert chunk["total_compressed"] == column.total_compressed_size
                assert chunk["data_page_offset"] == column.data_page_offset
                pages = (column.dictionary_page_offset, column.data_page_offset)
                assert chunk["byte_range_start"] == min(page for page in pages if page is not None)
                assert chunk["num_values"] == column.num_values
                assert (chunk["bloom"] is None) or chunk["bloom"]["offset_bytes"] > 0
                if column.statistics is not None and column.statistics.has_null_count:
                    assert chunk["null_count"] == column.statistics.null_count


def test_plain_parquet_file_shows_logical_types_and_bounds(tmp_path: Path) -> None:
    table = pa.table(
        {
            "t": pa.array([0, 1_500_000], pa.timestamp("us", "UTC")),
            "d": pa.array([Decimal("-1.25"), Decimal("3.50")], pa.decimal128(9, 2)),
            "u": pa.array([1, 2**16 - 1], pa.uint16()),
            "s": pa.array(["a", None], pa.string()),
            "f": pa.array([float("-inf"), 2.5], pa.float64()),
            "day": pa.array([0, 19723], pa.date32()),
        }
    )
    path = tmp_path / "any name"
    pq.write_table(table, path, write_page_index=True)
    document = document_of(path)
    chunks = document["row_groups"][0]["chunks"]
    assert [leaf["logical_type"] for leaf in document["schema"]] == [
        "TIMESTAMP(MICROS, UTC)",
        "DECIMAL(9,2)",
        "INTEGER(16, unsigned)",
        "STRING",
        None,
        "DATE",
    ]
    assert [chunk["min"]["value"] for chunk in chunks] == [
        "1970-01-01T00:00:00Z",
        "-1.25",
        1,
        "a",
        "-inf",
        "1970-01-01",
    ]
    assert [chunk["max"]["value"] for chunk in chunks] == [
        *("1970-01-01T00:00:01.500000Z", "3.50", 65535, "a", 2.5, "2024-01-01")
    ]
    assert [chunk["null_count"] for chunk in chunks] == [0, 0, 0, 1, 0, 0]
    assert all(chunk["offset_index"]["length_bytes"] > 0 for chunk in chunks)
    assert "partition" not in document


@pytest.mark.parametrize(("form", "header"), [("plain", b"\x08\xff\xff\x01"), ("zigzag", b"\x08\xfe\xff\x03")])
def test_extension_is_reported_in_either_form(tmp_path: Path, form: str, header: bytes) -> None:
    path = tmp_path / "extended.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    plain = path.read_bytes()
    assert document_of(path)["extensions"] == []
    (length,) = struct.unpack("<I", plain[-8:-4])
    extension = bytes(range(40))
    footer = plain[-8 - length : -9] + header + bytes([len(extension)]) + extension + b"\0"
    path.write_bytes(plain[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    (found,) = document_of(path)["extensions"]
    assert (found["struct"], found["form"], found["length_bytes"]) == ("FileMetaData", form, 40)
    assert found["uuid"] == extension[-16:].hex()
    assert path.read_bytes()[found["offset_bytes"] :].startswith(header)


def test_txn_shows_both_areas_and_names_partitions_by_the_meta_beside_it(questdb_data: Path) -> None:
    document = document_of(questdb_data / CHAIN / "_txn")
    areas = {area["name"]: area for area in document["areas"]}
    assert (document["base_header"]["version"], document["live_area"]) == (5, "B")
    assert [areas[name]["live"] for name in "AB"] == [False, True]
    assert [areas[name]["record"]["txn"] for name in "AB"] == [4, 5]
    assert [areas[name]["partitions"][0]["token"] for name in "AB"] == [8524, 10642]
    parquet, native = areas["B"]["partitions"]
    assert (parquet["directory"], parquet["rows"], parquet["format"]) == ("2024-01-01.1", 23, "parquet")
    assert (native["directory"], native["rows"], native["format"]) == ("2024-01-02", 5, "native")
    assert parquet["flags"]["names"] == ["PARQUET_GENERATED", "PARQUET_FORMAT"]
    assert areas["B"]["symbol_counts"] == [{"count": 5, "transient_count": 5}]


def test_txn_whose_live_record_is_an_old_one_is_shown_all_the_same(questdb_data: Path) -> None:
    name = "power-loss/2026-07/txn-version-new-record-area-old/table/_txn"
    document = document_of(questdb_data / name)
    live = next(area for area in document["areas"] if area["live"])
    other = next(area for area in document["areas"] if not area["live"])
    assert [problem["field"] for problem in document["problems"]] == ["TXN"]
    assert (live["record"]["txn"], live["partitions"][0]["token"]) == (2, 3699)
    assert (other["error"], other["record"]["txn"]) == (None, 3)


def test_meta_shows_columns_as_the_server_types_them(questdb_data: Path) -> None:
    document = document_of(questdb_data / TYPES / "table/_meta")
    expected = json.loads((questdb_data / TYPES / "expected.json").read_text())["columns"]
    shown = {column["name"]: column["type"]["name"] for column in document["columns"]}
    assert document["partition_by"] == "DAY"
    assert document["timestamp"] == {"id": 0, "name": "ts", "unit": "us"}
    assert list(shown) == [column["name"] for column in expected]
    spelled_otherwise = {"gl": "GEOHASH(50b)", "arr": "DOUBLE[]", "arr2": "DOUBLE[][]"}
    assert shown == {column["name"]: column["type"] for column in expected} | spelled_otherwise


def test_command_writes_one_sentence_for_damage_and_nothing_for_a_sound_file(
    tornproof: WarmRunner, questdb_data: Path
) -> None:
    sound = tornproof("inspect", questdb_data / CHAIN / "_txn")
    damaged = command(questdb_data / "power-loss/2026-07/txn-version-new-record-area-old/table/_txn", "--json", "-")
    assert (sound.code, sound.err) == (0, "")
    assert (damaged.returncode, damaged.stderr.count("\n")) == (1, 1)
    assert json.loads(damaged.stdout)["problems"]


# Damaged, hostile and wrong files


KINDS = {
    "_pm": f"{CHAIN_PARTITION}/_pm",
    "_txn": f"{CHAIN}/_txn",
    "_meta": f"{CHAIN}/_meta",
    "data.parquet": f"{CHAIN_PARTITION}/data.parquet",
}
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
# Beside the ends of what is in front of each file.
EDGES = (1, 31, 32, 63, 64, 79, 80)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size_count", [50, nightly(150)])
def test_truncated_file_is_shown_as_far_as_it_goes(
    questdb_data: Path, tmp_path: Path, kind: str, size_count: int
) -> None:
    content = (questdb_data / KINDS[kind]).read_bytes()
    path = tmp_path / kind
    # What ends a `_txn` or `_meta` is unused, and data.parquet is whole at each size that was ever committed.
    sound_from = {"_pm": len(content), "_txn": 272, "_meta": 294, "data.parquet": len(content)}[kind]
    for size_bytes in {*range(0, len(content), max(1, len(content) // size_count)), *CHAIN_TOKENS, *EDGES}:
        if size_bytes < len(content):
            path.write_bytes(content[:size_bytes])
            problems = document_of(path)["problems"]
            is_sound = size_bytes >= sound_from or (kind == "data.parquet" and size_bytes in CHAIN_TOKENS)
            assert is_sound == (not problems), (size_bytes, problems)


# Every field of four bytes or more is met, and one of three smaller ones.
@pytest.mark.parametrize("step", [3, nightly(1)])
def test_flipped_byte_of_a_pm_is_a_problem(questdb_data: Path, tmp_path: Path, step: int) -> None:
    names = golden_data.files_named("_pm")
    sound = [(questdb_data / name).read_bytes() for name in names if name.startswith("tables/")]
    content = min(sound, key=len)
    path = tmp_path / "_pm"
    for position in range(0, len(content), step):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
        assert document_of(path)["problems"], position


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size_bytes", [0, 7, 12, 100, 5000])
@pytest.mark.parametrize("step", [1, 7, 0])
def test_garbage_under_a_known_name_is_damage(tmp_path: Path, kind: str, size_bytes: int, step: int) -> None:
    path = tmp_path / kind
    path.write_bytes(bytes((index * step * index + 255) % 256 for index in range(size_bytes)))
    assert document_of(path)["problems"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parquet_meta_file_size", 0),
        ("parquet_meta_file_size", U64_MAX),
        ("feature_flags", U64_MAX),
        ("designated_timestamp", -(2**31)),
        ("sorting_column_count", U32_MAX),
        ("column_count", U32_MAX),
        ("reserved", 1),
    ],
)
def test_impossible_header_is_shown_with_what_is_wrong(copy_of: CopyOf, field: str, value: int) -> None:
    path = copy_of(KINDS["_pm"])
    spec = layout.Header.layout.field(field)
    changed = bytearray(path.read_bytes())
    struct.pack_into(f"<{spec.wire.struct_code}", changed, spec.offset_bytes, value)
    path.write_bytes(changed)
    document = document_of(path)
    assert spec.format_name in {problem["field"] for problem in document["problems"]}
    shown = document["header"][field]
    assert (shown["value"] if isinstance(shown, dict) else shown) == value


@pytest.mark.parametrize("field", ["parquet_footer_length", "row_group_count", "prev_parquet_meta_file_size"])
def test_impossible_footer_under_a_good_checksum_is_shown(copy_of: CopyOf, field: str) -> None:
    path = copy_of(KINDS["_pm"])
    newest = document_of(path)["generations"][0]
    spec = layout.Footer.layout.field(field)
    changed = bytearray(path.read_bytes())
    location = newest["footer_offset_bytes"] + spec.offset_bytes
    changed[location : location + spec.wire.size_bytes] = b"\xff" * spec.wire.size_bytes
    checksum_offset = newest["end_bytes"] - layout.Trailer.layout.size_bytes
    struct.pack_into("<I", changed, checksum_offset, zlib.crc32(changed[8:checksum_offset]))
    path.write_bytes(changed)
    document = document_of(path)
    if field == "parquet_footer_length":
        # Nothing in `_pm` contradicts a larger token.
        assert document["resolved"]["token"] == newest["parquet_footer_offset"] + U32_MAX + 8
    else:
        assert [problem["field"] for problem in document["problems"]] == [spec.format_name]
    assert document["generations"][0]["checksum"]["ok"]


def test_partition_outside_of_the_calendar_has_no_directory(copy_of: CopyOf) -> None:
    """It ended in a traceback, as a defect of this program."""
    path = copy_of(CHAIN) / "_txn"
    live = next(area for area in document_of(path)["areas"] if area["live"])
    first, *others = live["partitions"]
    changed = bytearray(path.read_bytes())
    struct.pack_into("<q", changed, first["entry_offset_bytes"], -(1 << 63))
    path.write_bytes(changed)
    shown = next(area for area in document_of(path)["areas"] if area["live"])["partitions"]
    assert shown == [{**first, "timestamp": -(1 << 63), "time": -(1 << 63), "directory": None}, *others]


def test_blocks_that_overlap_are_not_decoded_over_and_over(copy_of: CopyOf) -> None:
    path = copy_of(KINDS["_pm"])
    newest = document_of(path)["generations"][0]
    changed = bytearray(path.read_bytes())
    entries = newest["footer_offset_bytes"] + layout.Footer.layout.size_bytes
    for ordinal in range(newest["row_group_count"]):
        struct.pack_into("<I", changed, entries + ordinal * 4, 21 + ordinal)
    path.write_bytes(changed)
    document = document_of(path)
    assert "BLOCK_OFFSET" in {problem["field"] for problem in document["problems"]}
    assert document["row_groups"] == []


def test_scan_finds_exactly_the_generations_of_sound_files(questdb_data: Path) -> None:
    for name in golden_data.files("tables/*/*/table/*/_pm"):
        content = (questdb_data / name).read_bytes()
        found = [location.end_bytes for location in whole_generations(content, file=name)]
        assert found == sorted(location.end_bytes for location in walk(content, file=name)), name


@pytest.mark.parametrize("shift_bytes", range(8))
def test_scan_finds_a_generation_at_any_alignment(questdb_data: Path, shift_bytes: int) -> None:
    content = (questdb_data / KINDS["_pm"]).read_bytes()
    newest = next(walk(content, file="_pm"))
    shifted = content + bytes(shift_bytes) + content[newest.offset_bytes : newest.checksum_offset]
    shifted += struct.pack("<II", zlib.crc32(shifted[8:]), newest.trailer.footer_length)
    assert [location.end_bytes for location in whole_generations(shifted, file="_pm")][-1] == len(shifted)


def test_scan_finds_nothing_in_words_that_only_look_like_lengths() -> None:
    assert whole_generations(b"\x2c\0\0\0" * 5000, file="_pm") == []


def test_scan_finds_generations_on_both_sides_of_every_window(
    questdb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (questdb_data / KINDS["_pm"]).read_bytes()
    for window_bytes in range(64, 400, 4):
        monkeypatch.setattr(pm_scan, "WINDOW_BYTES", window_bytes)
        assert [location.token for location in whole_generations(content, file="_pm")] == sorted(CHAIN_TOKENS)


@pytest.mark.parametrize("size_bytes", [1, 7, 8, 1000])
def test_bytes_behind_the_published_end_are_dead(copy_of: CopyOf, size_bytes: int) -> None:
    path = copy_of(KINDS["_pm"])
    path.write_bytes(path.read_bytes() + bytes(size_bytes))
    document = document_of(path)
    assert (document["problems"], document["dead_bytes"]) == ([], size_bytes)


@pytest.mark.parametrize(
    ("name", "size_bytes", "tail"),
    [
        ("_pm", (64 << 20) + 1, b""),
        ("_txn", (64 << 20) + 1, b""),
        ("_meta", (16 << 20) + 1, b""),
        ("data.parquet", 300 << 20, struct.pack("<I", (256 << 20) + 1) + b"PAR1"),
    ],
)
def test_too_large_a_file_is_rejected_before_it_is_read(
    tmp_path: Path, name: str, size_bytes: int, tail: bytes
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(size_bytes)
        file.seek(size_bytes - len(tail))
        file.write(tail)
    storage = OperatingSystemStorage()
    with pytest.raises(UnsupportedError):
        inspect_path(storage, str(path), None)
    assert storage.counters().read_bytes < 100


class HurriedStorage(OperatingSystemStorage):
    """A storage whose clock runs ahead, so that nobody waits for a spin to end."""

    now_seconds = 0.0

    def monotonic_seconds(self) -> float:
        self.now_seconds += 0.1
        return self.now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        self.now_seconds += duration_seconds


def test_txn_that_never_stands_still_is_given_up(copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy_of(KINDS["_txn"])
    pread, versions = os.pread, itertools.count()

    def changing(descriptor: int, size_bytes: int, offset_bytes: int) -> bytes:
        return struct.pack("<q", next(versions)) + pread(descriptor, size_bytes, offset_bytes)[8:]

    monkeypatch.setattr(os, "pread", changing)
    with pytest.raises(BusyError):
        inspect_path(HurriedStorage(), str(path), None)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        (CHAIN, UsageError, "tornproof verify"),
        (f"{CHAIN}/2024-01-02", UsageError, "neither a parquet partition nor a table"),
        (f"{CHAIN}/_cv", UsageError, "neither name nor bytes"),
        (f"{CHAIN}/missing/_pm", StorageError, "it is not there"),
        (f"{CHAIN}/_txn/_pm", StorageError, "not"),
        ("", UsageError, "neither a parquet partition nor a table"),
    ],
)
def test_what_cannot_be_inspected_is_rejected(
    questdb_data: Path, name: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        inspect_path(OperatingSystemStorage(), str(questdb_data / name), None)


@pytest.mark.parametrize("name", ["_txn", "_meta"])
def test_token_is_rejected_where_there_are_no_footers(questdb_data: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--at"):
        inspect_path(OperatingSystemStorage(), str(questdb_data / CHAIN / name), 1)


def test_rejections_are_one_sentence_and_exit_code_2(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "_pm")
    for arguments in (
        (questdb_data / CHAIN,),
        (tmp_path / "_pm",),
        (tmp_path / "missing",),
        (tmp_path / os.fsdecode(b"\xff_pm"),),
        (questdb_data / KINDS["_pm"], "--at", "-1"),
    ):
        run = tornproof("inspect", *arguments)
        assert (run.code, run.out, run.err.count("\n")) == (2, "", 1), run.err
        assert "Traceback" not in run.err


def test_damage_is_one_sentence_and_exit_code_1(tornproof: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "_pm").write_bytes(b"")
    for arguments in (("--json", "-"), ("--hex", "--all")):
        run = tornproof("inspect", tmp_path / "_pm", *arguments)
        assert (run.code, run.err.count("\n")) == (1, 1), run.err
        assert "1 problem" in run.err


# What is printed for people


def printed(
    path: Path, *, at: int | None = None, show_all: bool = False, hexadecimal: bool = False, width: int = 80
) -> str:
    """What a terminal shows."""
    output = io.StringIO()
    found = inspect_path(OperatingSystemStorage(), str(path), at)
    printer = Printer(Console(file=output, width=width, highlight=False), show_all=show_all)
    found.print(printer, hexadecimal=hexadecimal)
    return output.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_width_of_the_terminal_is_never_exceeded(width: int, questdb_data: Path) -> None:
    for name in (f"{CHAIN_PARTITION}/_pm", f"{TYPES}/table/2024-05-01.2", f"{TYPES}/table/_meta", f"{CHAIN}/_txn"):
        path = questdb_data / name
        lines = printed(path, hexadecimal=True, width=width).replace(str(path), "").splitlines()
        assert max(map(len, lines)) <= width, name


@pytest.mark.nightly
def test_long_lists_are_cut_with_a_count_and_shown_whole_on_demand(questdb_data: Path) -> None:
    path = questdb_data / next(name for name in golden_data.files("tables/9.4.2/wide/table/*/_pm"))
    names = [column["name"] for column in document_of(path)["columns"]]
    assert len(names) > 40
    assert f"… and {len(names) - 40} columns more: --all shows them" in printed(path)
    assert names[-1] not in printed(path).split()
    whole = printed(path, show_all=True)
    assert names[-1] in whole.split()
    assert "--all" not in whole


SHOWN = (
    f"{CHAIN_PARTITION}/_pm",
    f"{CHAIN_PARTITION}/data.parquet",
    f"{CHAIN}/_txn",
    f"{TYPES}/table/_meta",
    "tables/9.4.2/bloom/table/2024-06-01.1/_pm",
)
ELSEWHERE = {"start_bytes", "end_bytes"}
"""In the map these have other names."""


def fields_of(value: Any) -> Iterator[str]:
    """The keys under which a document says anything; of what people read as one value, the whole."""
    for entry in value if isinstance(value, list) else [value]:
        for key, inner in entry.items():
            if not is_one_value(inner):
                yield from fields_of(inner)
            elif inner not in (None, [], *UNSET) and not (isinstance(inner, dict) and inner.get("names") == []):
                yield key


@pytest.mark.parametrize("name", SHOWN)
def test_every_field_that_says_anything_has_its_title_in_the_whole_text(name: str, questdb_data: Path) -> None:
    """Titles of columns are folded, so each word is looked for."""
    document = inspect_path(OperatingSystemStorage(), str(questdb_data / name), None).document
    shown = set(printed(questdb_data / name, show_all=True, width=400).replace(",", " ").split())
    below = {key: value for key, value in document.items() if key not in IN_THE_TITLE}
    titles = {key: label(key) for key in set(fields_of(below)) - ELSEWHERE}
    assert {title for title in titles.values() if not set(title.split()) <= shown} == set()
    assert len(titles) > 15


def test_table_that_is_too_wide_goes_on_below_with_the_names_of_its_rows(questdb_data: Path) -> None:
    lines = printed(questdb_data / CHAIN_PARTITION / "_pm").splitlines()
    titles = [line.split() for line in lines if line.startswith("group name")]
    assert titles == [
        ["group", "name", "codec", "encodings", "from", "size", "nulls"],
        ["group", "name", "min", "max"],
    ]
    first = next(position for position, line in enumerate(lines) if line.startswith("group name min"))
    assert lines[first + 1].split() == ["0", "ts", "=2024-01-01T00:00:00Z", "=2024-01-01T03:00:00Z"]
    wide = printed(questdb_data / CHAIN_PARTITION / "_pm", width=120).splitlines()
    assert sum(line.startswith("group name") for line in wide) == 1


def test_value_that_is_wider_than_the_terminal_goes_on_in_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "described.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"k": "€" * 300}), path)
    assert [printed(path, show_all=True, width=width).count("€") for width in (60, 80, 220)] == [300] * 3
    assert printed(path).count("€") == 119


def test_areas_of_a_txn_stand_side_by_side(questdb_data: Path) -> None:
    lines = [" ".join(line.split()) for line in printed(questdb_data / CHAIN / "_txn").splitlines()]
    assert {"area A B", "txn 4 5", "fixed row count 22 23"} <= set(lines)


def test_hex_shows_each_field_at_its_place(questdb_data: Path) -> None:
    shown = printed(questdb_data / CHAIN_PARTITION / "_pm", hexadecimal=True)
    assert "08 0a 00 00 00 00 00 00 PARQUET_META_FILE_SIZE 2568" in " ".join(shown.split())
    assert "PARQUET_META_FILE_SIZE" not in printed(questdb_data / CHAIN_PARTITION / "_pm")


def test_name_in_a_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.parquet"
    pq.write_table(pa.table({"\x1b[31mred\n": ["\x1b[2J"]}), path)
    shown = printed(path)
    assert "\x1b" not in shown
    assert "\\x1b[31mred\\n" in shown


def test_orphans_are_marked_above_the_token_that_is_asked_for(questdb_data: Path) -> None:
    shown = printed(questdb_data / CHAIN_PARTITION / "_pm", at=8524).splitlines()
    assert [line.split()[:3] for line in shown if "28941128" in line or "0cd48450" in line] == [
        ["orphan", "0", "10,642"],
        ["→", "1", "8,524"],
    ]


def test_bad_checksum_and_every_problem_are_printed(questdb_data: Path) -> None:
    name = "power-loss/2026-07/pm-one-bit-flipped-in-a-committed-block/table/2024-01-01.1/_pm"
    shown = printed(questdb_data / name)
    assert "6f362a3c BAD, is 791095de" in " ".join(shown.split())
    assert "CHECKSUM at byte 1740: expected 0x791095de" in shown
