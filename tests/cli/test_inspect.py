"""`tornproof inspect` on real files: exit codes, whole documents, and numbers that somebody else computed as well."""

import functools
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import WarmRunner
from depth import nightly
from inspecting import command, document_of

from tornproof.impl.pm.chain import decode_metadata, walk
from tornproof.impl.pm.extent import dead_byte_count, reached_intervals

CHAIN = "tables/9.4.2/chain/table"
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


def test_partition_whose_files_contradict_each_other_is_damaged(copy_of: Callable[[str], Path]) -> None:
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
