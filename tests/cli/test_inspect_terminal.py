"""What `tornproof inspect` prints for people: it fits, it is cut with a count, and no file takes the terminal over."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inspecting import document_of
from rich.console import Console

from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.readable import IN_THE_TITLE, UNSET, is_one_value, label
from tornproof.cli.inspection.tree import Printer
from tornproof.impl.storage.operating_system import OperatingSystemStorage

CHAIN = "tables/9.4.2/chain/table"
CHAIN_PARTITION = f"{CHAIN}/2024-01-01.1"
TYPES = "tables/9.4.2/types"


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


KINDS = (
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


@pytest.mark.parametrize("name", KINDS)
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
