"""What `tornproof inspect` finds out beyond the fields: what is committed, how good filters are, where bytes lie."""

import io
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_data
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import nightly
from golden_data import CopyOf
from hypothesis import given
from hypothesis import strategies as st
from inspecting import document_of
from rich.console import Console

from tornproof.cli.inspection.bloom_document import Budget, bitset_figures
from tornproof.cli.inspection.byte_map import CELLS_IN_LINE, GLYPHS
from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.parquet.arrow_writer import FOOTER, GROUP, META, meta_of, with_meta
from tornproof.impl.parquet.bloom import bitset_size_bytes, build_bitset, probe
from tornproof.impl.parquet.footer import file_tail, read_footer_tail
from tornproof.impl.parquet.thrift import Items, Struct, decode, encode, struct_list, value_of, with_fields, without
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

BLOOM = "tables/9.4.2/bloom/table/2024-06-01.1"
CHAIN = "tables/9.4.2/chain/table/2024-01-01.1"
ORPHAN = "crashes/9.4.2/sync-1-03/table/2024-01-01.2"
POWER = "power-loss/9.4.2"


def printed(path: Path) -> str:
    output = io.StringIO()
    found = inspect_path(OperatingSystemStorage(), str(path), None)
    found.print(Printer(Console(file=output, width=100, highlight=False), show_all=False), hexadecimal=False)
    return output.getvalue()


def test_committed_generation_is_found_in_the_txn_and_what_stands_above_it_is_an_orphan(questdb_data: Path) -> None:
    for name in (f"{ORPHAN}/_pm", ORPHAN):
        document = document_of(questdb_data / name)
        pm = document if document["kind"] == "_pm" else document["pm"]
        txn = str(questdb_data / "crashes/9.4.2/sync-1-03/table/_txn")
        assert pm["committed"] == {"file": txn, "version": 21, "token": 66894, "generation": 1}
        assert pm["resolved"] == {"generation": 1, "token": 66894, "orphans": [0]}
    assert document["data"]["token"] == document_of(questdb_data / ORPHAN / "data.parquet")["token"] == 66894
    shown = printed(questdb_data / ORPHAN / "_pm").splitlines()
    assert [line.split()[:4] for line in shown if "86a1e726" in line or "c607b052" in line] == [
        ["orphan", "0", "70,413", "13,288"],
        ["→", "committed", "1", "66,894"],
    ]
    assert any(line.startswith("  resolved ") and line.rstrip().endswith(", orphans 0") for line in shown)


def test_token_that_is_asked_for_goes_before_the_committed_one(questdb_data: Path) -> None:
    document = document_of(questdb_data / ORPHAN / "_pm", "--at", 70413)
    assert (document["resolved"]["generation"], document["committed"]["generation"]) == (0, 1)


def test_committed_token_that_no_generation_has_is_said(questdb_data: Path) -> None:
    path = questdb_data / f"{POWER}/pm-header-old-txn-new/table/2024-01-01.1/_pm"
    document = document_of(path)
    assert (document["committed"]["token"], document["committed"]["generation"]) == (6667, None)
    assert document["resolved"]["generation"] == 0
    assert "token 6,667 generation –" in " ".join(printed(path).split())


@pytest.mark.parametrize("missing", ["_txn", "entry"])
def test_nothing_is_said_of_what_is_committed_where_nobody_knows(missing: str, copy_of: CopyOf) -> None:
    table = copy_of("crashes/9.4.2/sync-1-03/table")
    partition = table / "2024-01-01.2"
    if missing == "_txn":
        (table / "_txn").unlink()
    else:
        partition = partition.rename(table / "2024-01-01.3")
    document = document_of(partition / "_pm")
    assert document["committed"] is None
    assert document["resolved"] == {"generation": 0, "token": 70413, "orphans": []}


def test_filters_of_a_real_table_are_the_same_in_both_files_and_let_few_values_pass(questdb_data: Path) -> None:
    document = document_of(questdb_data / BLOOM)
    compared = 0
    for ours, theirs in zip(document["pm"]["row_groups"], document["data"]["row_groups"], strict=True):
        for chunk, parquet in zip(ours["chunks"], theirs["chunks"], strict=True):
            bloom = chunk["bloom"]
            if bloom is None:
                continue
            # The filter in the Parquet file is a copy, behind a header.
            assert {key: parquet["bloom"][key] for key in ("bitset_size_bytes", "fill", "false_positive_rate")} == {
                key: bloom[key] for key in ("bitset_size_bytes", "fill", "false_positive_rate")
            }
            assert parquet["bloom"]["length_bytes"] - bloom["bitset_size_bytes"] in (15, 16)
            assert bloom["file"] == "_pm" and 0.2 < bloom["fill"] < 0.6 and 0 < bloom["false_positive_rate"] < 0.015
            compared += 1
    assert compared > 30
    assert "39.9 %" in printed(questdb_data / BLOOM / "_pm") and "0.144 %" in printed(questdb_data / BLOOM / "_pm")


@pytest.mark.parametrize("position", BloomPosition)
def test_filters_of_our_own_are_found_wherever_they_are_put(position: BloomPosition, tmp_path: Path) -> None:
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    options = WriterOptions(blooms=BloomOptions(columns={"v": 0.05}, position=position))
    with open_writer(storage, path, options=options, allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": [0] * 500, "v": range(500)}))
        writer.commit()
    (partition,) = (entry for entry in Path(path).iterdir() if entry.is_dir())
    document = document_of(partition)
    assert document["problems"] == []
    blooms = [document[kind]["row_groups"][0]["chunks"][1]["bloom"] for kind in ("pm", "data")]
    assert blooms[0]["file"] == ("data.parquet" if position is BloomPosition.EXTERNAL else "_pm")
    assert (blooms[1] is None) == (position is BloomPosition.INLINED)
    for bloom in filter(None, blooms):
        assert bloom["bitset_size_bytes"] == 512 and 0 < bloom["false_positive_rate"] < 0.05
    if position is BloomPosition.EXTERNAL:
        (partition / "data.parquet").unlink()
        bloom = document_of(partition / "_pm")["row_groups"][0]["chunks"][1]["bloom"]
        assert (bloom["fill"], bloom["false_positive_rate"]) == (None, None)


@given(st.integers(1, 3000), st.sampled_from([0.3, 0.1, 0.01]), st.integers(0, 1 << 32))
def test_computed_rate_is_the_share_of_other_values_that_pass(count: int, asked: float, seed: int) -> None:
    """Measured with 20,000 hashes, so within a fifth and what chance adds where few pass."""
    numbers = np.random.Generator(np.random.PCG64(seed)).integers(0, 1 << 64, count + 20_000, np.uint64)
    bitset = build_bitset(numbers[:count], bitset_size_bytes(count, asked))
    figures = bitset_figures(bitset)
    measured = float(probe(bitset, numbers[count:]).mean())
    assert figures["false_positive_rate"] == pytest.approx(measured, rel=0.2, abs=0.002)
    assert figures["fill"] == round(sum(byte.bit_count() for byte in bitset) / (8 * len(bitset)), 6)


@pytest.mark.parametrize(("bitset", "rate"), [(bytes(64), 0), (b"\xff" * 32, 1), (b"\xff" * 32 + bytes(32), 0.5)])
def test_empty_and_full_filters_let_nothing_and_everything_pass(bitset: bytes, rate: float) -> None:
    assert bitset_figures(bitset) == {"fill": rate, "false_positive_rate": rate}


@pytest.mark.parametrize("bitset", [None, b"", b"\xff" * 31])
def test_what_is_no_filter_has_no_figures(bitset: bytes | None) -> None:
    assert bitset_figures(bitset) == {"fill": None, "false_positive_rate": None}


def test_filters_beyond_the_budget_are_not_read() -> None:
    budget = Budget(left_bytes=100)
    assert [budget.take(size) for size in (None, 0, -1, 101, 60, 41, 40, 1)] == [
        *(False, False, False, False, True, False, True, False)
    ]


def plain_file(path: Path) -> pa.Table:
    """Write a file with filters, page indexes and two row groups, and return its rows."""
    rows = pa.table({"a": pa.array(range(1000)), "b": [f"n{number}" for number in range(1000)]})
    options = {name: {"ndv": 500, "fpp": 0.01} for name in rows.column_names}
    pq.write_table(rows, path, row_group_size=500, write_page_index=True, bloom_filter_options=options)
    return rows


def test_plain_parquet_file_has_filters_and_a_map_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    plain_file(path)
    document = document_of(path)
    assert document["problems"] == []
    counts = Counter(entry["what"] for entry in document["byte_map"])
    each = {"column chunk": 4, "bloom filter": 4, "column index": 4, "offset index": 4}
    assert counts == {"magic": 1, **each, "footer": 1, "footer length and magic": 1}
    assert document["dead_bytes"] == 0
    for group in document["row_groups"]:
        for chunk in group["chunks"]:
            assert chunk["bloom"]["bitset_size_bytes"] == 1024
            assert chunk["bloom"]["false_positive_rate"] < 0.01
    assert "4 bloom filters" in printed(path) and "L bloom filter" in printed(path)


def without_bloom_lengths(content: bytes) -> bytes:
    """Return a Parquet file whose footer says where filters start, and no more, as older writers' do."""
    start, length = read_footer_tail(content[-8:], file="plain", token=len(content))
    footer, _ = decode(content[start : start + length], file="plain")

    def structs(parent: Struct, number: int) -> list[Struct]:
        value = value_of(parent, number)
        assert isinstance(value, Items)
        return [element for element in value.elements if isinstance(element, Struct)]

    groups = []
    for group in structs(footer, FOOTER["row_groups"]):
        columns = structs(group, GROUP["columns"])
        bare = [with_meta(column, without(meta_of(column), META["bloom_filter_length"])) for column in columns]
        groups.append(with_fields(group, struct_list(GROUP["columns"], bare)))
    return content[:start] + file_tail(encode(with_fields(footer, struct_list(FOOTER["row_groups"], groups))))


def test_filter_whose_length_the_footer_leaves_out_tells_it_itself(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    plain_file(path)
    before = document_of(path)
    path.write_bytes(without_bloom_lengths(path.read_bytes()))
    assert pq.read_metadata(path).row_group(0).column(0).bloom_filter_length is None
    after = document_of(path)
    for old, new in zip(before["row_groups"], after["row_groups"], strict=True):
        assert [chunk["bloom"] for chunk in old["chunks"]] == [chunk["bloom"] for chunk in new["chunks"]]
    # In the map they must not look like unused bytes.
    assert after["dead_bytes"] == 0
    assert Counter(entry["what"] for entry in after["byte_map"])["bloom filter"] == 4


def test_damaged_filter_of_a_plain_file_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    plain_file(path)
    position = document_of(path)["row_groups"][0]["chunks"][0]["bloom"]["offset_bytes"]
    content = path.read_bytes()
    path.write_bytes(content[:position] + b"\xff" * 4 + content[position + 4 :])
    document = document_of(path)
    assert len(document["problems"]) == 1
    chunks = document["row_groups"][0]["chunks"]
    assert [chunk["bloom"]["fill"] is None for chunk in chunks] == [True, False]


@pytest.mark.parametrize("one_of", [pytest.param(6, id="some"), nightly(1, id="all")])
def test_map_of_every_real_data_file_covers_it_and_reaches_what_pm_reaches(questdb_data: Path, one_of: int) -> None:
    looked_at_count = 0
    for name in golden_data.files_named("data.parquet")[::one_of]:
        if "/history/" in name:
            continue
        document = document_of(questdb_data / name)
        ranges = document["byte_map"]
        if not ranges:
            assert document["problems"]
            continue
        starts = [entry["start_bytes"] for entry in ranges]
        assert [0, *(entry["end_bytes"] for entry in ranges)] == [*starts, document["size_bytes"]], name
        live = sum(
            entry["end_bytes"] - entry["start_bytes"]
            for entry in ranges
            if entry["what"] == "column chunk" and entry["generation"] is None
        )
        assert live == sum(chunk["total_compressed"] for group in document["row_groups"] for chunk in group["chunks"])
        looked_at_count += 1
    assert looked_at_count > 100 // one_of


def test_first_generation_of_a_real_file_leaves_nothing_unused(questdb_data: Path) -> None:
    """What later generations wrote stands behind it."""
    document = document_of(questdb_data / CHAIN / "data.parquet", "--at", 4503)
    before = [entry for entry in document["byte_map"] if entry["end_bytes"] <= 4503]
    assert {entry["what"] for entry in before} == {
        *("magic", "column chunk", "column metadata copy", "column index", "offset index", "footer"),
        "footer length and magic",
    }
    assert {entry["what"] for entry in document["byte_map"]} - {entry["what"] for entry in before} == {
        "after the token"
    }
    assert document["dead_bytes"] == 0


def test_dead_bytes_of_a_real_file_are_those_that_pm_counts_and_copies_of_column_metadata(questdb_data: Path) -> None:
    document = document_of(questdb_data / CHAIN)
    unused = document["pm"]["generations"][0]["unused_bytes"]
    copies = [
        entry["end_bytes"] - entry["start_bytes"]
        for entry in document["data"]["byte_map"]
        if entry["what"] == "column metadata copy" and entry["generation"] is not None
    ]
    # The server counts a dropped row group up to its last chunk's end: of the copies, the last one is left out.
    assert 0 < document["data"]["dead_bytes"] - unused < sum(copies)


def drawing(ranges: list[tuple[int, int, str]], size_bytes: int) -> list[str]:
    output = io.StringIO()
    Printer(Console(file=output, width=100, highlight=False), show_all=False).drawing(ranges, size_bytes)
    return output.getvalue().splitlines()


def test_drawing_has_a_character_for_so_many_bytes_and_counts_them_all() -> None:
    lines = drawing([(0, 40, "header"), (40, 1000, "block"), (1000, 1024, "dead")], 1024)
    assert [line.split()[-1] for line in lines[:8]] == ["H" * 20 + "B" * 44, *["B" * 64] * 6, "B" * 52 + "x" * 12]
    assert lines[8].strip() == "one character is 2 bytes, shown as the most frequent kind"
    assert [line.split() for line in lines[10:]] == [
        *(["H", "header", "40", "3.9", "%"], ["B", "block", "960", "93.8", "%"], ["x", "dead", "24", "2.3", "%"])
    ]


def test_drawing_has_each_byte_once_where_ranges_overlap() -> None:
    lines = drawing([(0, 30, "header"), (10, 64, "block"), (20, 40, "dead")], 64)
    assert lines[0].split()[-1] == "H" * 30 + "B" * 34
    assert [line.split()[:3] for line in lines[3:]] == [["H", "header", "30"], ["B", "block", "34"]]


@given(st.integers(1, 5000))
def test_drawing_of_any_size_fits_into_eight_lines(size_bytes: int) -> None:
    lines = drawing([(0, size_bytes, "block")], size_bytes)
    drawn = [line.split()[-1] for line in lines if line.endswith("B")]
    assert len(drawn) <= 8 and {len(line) for line in drawn[:-1]} <= {CELLS_IN_LINE}


def test_every_kind_of_bytes_has_an_ink(questdb_data: Path) -> None:
    kinds: set[Any] = set()
    for name in (*golden_data.files_named("_pm"), *golden_data.files_named("data.parquet")):
        if name.startswith(("tables/9.4.2/", "power-loss/2026-07/")) and "/history/" not in name:
            kinds |= {entry["what"] for entry in document_of(questdb_data / name)["byte_map"]}
    assert kinds <= set(GLYPHS) and len(kinds) > 15


# The document docs/inspect.md


DOCS = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text(encoding="utf-8")
CHAIN_TABLE = "tables/9.4.2/chain/table"
FILES = {
    "_pm": f"{CHAIN_TABLE}/2024-01-01.1/_pm",
    "_txn": f"{CHAIN_TABLE}/_txn",
    "_meta": f"{CHAIN_TABLE}/_meta",
    "parquet": f"{CHAIN_TABLE}/2024-01-01.1/data.parquet",
}
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)]
DESCRIBED = set(re.findall(r"`([a-z0-9_]+)`", DOCS))


def is_part(example: Any, document: Any) -> bool:
    """Whether the document says all that the example says; lists may go on."""
    if isinstance(example, dict):
        return all(key in document and is_part(value, document[key]) for key, value in example.items())
    if isinstance(example, list):
        return len(example) <= len(document) and all(map(is_part, example, document))
    return bool(example == document)


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from keys_of(element)


def test_there_is_an_example_of_every_kind_of_file() -> None:
    assert [example["kind"] for example in EXAMPLES] == list(FILES)


@pytest.mark.parametrize("example", EXAMPLES, ids=list(FILES))
def test_examples_are_what_the_command_says(questdb_data: Path, example: dict[str, Any]) -> None:
    at = ("--at", 8524) if example["kind"] == "_pm" else ()
    assert is_part(example, document_of(questdb_data / FILES[example["kind"]], *at))


def test_printed_example_is_what_the_command_prints(questdb_data: Path) -> None:
    example = re.search(r"    \$ tornproof inspect \S+ --at 8524\n    …\n((?:    .*\n)+)", DOCS)
    assert example is not None
    output = io.StringIO()
    printer = Printer(Console(file=output, width=80, highlight=False), show_all=False)
    inspect_path(OperatingSystemStorage(), str(questdb_data / FILES["_pm"]), 8524).print(printer, hexadecimal=False)
    shown = "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())
    assert textwrap.dedent(example[1]) in shown


@pytest.mark.parametrize(
    "name",
    [
        *FILES.values(),
        f"{CHAIN_TABLE}/2024-01-01.1",
        "power-loss/2026-07/pm-one-bit-flipped-in-a-committed-block/table/2024-01-01.1/_pm",
        "tables/9.4.2/bloom/table/2024-06-01.1/_pm",
        "vectors/footer-two-cols-stats-bloom-2-rg.parquet",
        "vectors/footer-ext-seed-form-08ffff01-utf8.parquet",
        "vectors/backfill-sort2.parquet",
    ],
)
def test_every_field_is_described(questdb_data: Path, name: str) -> None:
    assert set(keys_of(document_of(questdb_data / name))) - DESCRIBED == set()


def test_fields_that_are_not_described_would_be_noticed() -> None:
    assert set(keys_of([{"kind": [{"nonsense": 1}]}])) - DESCRIBED == {"nonsense"}
    assert not is_part({"a": [1, 2]}, {"a": [1]})
    assert not is_part({"a": 1}, {"b": 1})
