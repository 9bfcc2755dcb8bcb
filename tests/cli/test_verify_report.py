"""`tornproof verify --report`: what it leaves in a folder of results, also of damaged and of moving tables."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import WarmRunner, run_here, sentence_of
from golden_data import CopyOf

from tornproof.api.steady import verify_until_stable
from tornproof.cli.table_result import (
    INSPECTED_MAX,
    RANGES_MAX,
    bounded,
    chosen,
    inspections_of,
    safe_name,
    write_table_result,
)
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.verify.verify import TableReport

CHAIN = "tables/9.4.2/chain/table"
MANY = "tables/9.4.2/many/table"
CUT_DATA = "power-loss/9.4.2/data-tail-lost-length/table"
OLDER, NEWER = (f"tables/9.4.2/history/history/{step}" for step in ("01", "02"))


def documents_in(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted((folder / "tables").iterdir())]


def report_of(table: Path) -> TableReport:
    return verify_until_stable(OperatingSystemStorage(), str(table), quick=False)


def test_the_report_is_written_beside_the_usual_answer(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    run = tornproof("verify", questdb_data / CHAIN, "--report", folder, "--json", tmp_path / "plain.json")
    assert (run.code, run.err) == (0, "")
    assert "version 5: sound" in run.out
    page = (folder / "report.html").read_text()
    assert (
        "Version 5 is sound in its 1 parquet partition; 1 native partition (5 rows)" in page and "→ committed" in page
    )
    (document,) = documents_in(folder)
    assert document.keys() == {"format", "verify", "inspections", "left_out"}
    assert document["verify"] == json.loads((tmp_path / "plain.json").read_text())
    assert document["inspections"]["2024-01-01.1"]["pm"]["committed"]["version"] == document["verify"]["version"]


def test_a_damaged_table_keeps_its_exit_code_and_what_can_be_inspected(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    run = tornproof("verify", questdb_data / CUT_DATA, "--report", tmp_path)
    assert (run.code, run.err) == (1, "")
    (document,) = documents_in(tmp_path)
    inspection = document["inspections"]["2024-01-01.1"]
    assert len(inspection["pm"]["generations"]) == 3 and inspection["pm"]["byte_map"]
    assert inspection["data"]["problems"][0]["field"] == "size"
    assert "Version 4 is damaged: 2 problems." in (tmp_path / "report.html").read_text()


def test_the_same_table_replaces_its_result_and_a_namesake_does_not(tmp_path: Path) -> None:
    for number, table in enumerate(("/db/a/trades", "/db/b/trades", "/db/a/trades")):
        write_table_result(tmp_path, table, {"number": number})
    assert sorted(document["number"] for document in documents_in(tmp_path)) == [1, 2]


def test_a_folder_that_cannot_be_made_is_exit_2_before_anything_else(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    run = tornproof("verify", questdb_data / CHAIN, "--report", tmp_path / "file")
    assert (run.code, run.out) == (2, "")
    assert "file" in sentence_of(run)


def test_only_the_most_telling_partitions_are_inspected(questdb_data: Path) -> None:
    report = report_of(questdb_data / MANY)
    names = [partition.name for partition in chosen(report.partitions)]
    assert len(names) == INSPECTED_MAX
    # Those with unused bytes, most of them first; then the newest, but no native ones.
    assert names[:4] == ["2024-10-01T02.2", "2024-10-01T01.1", "2024-10-01T04.4", "2024-10-01T11.11"]
    found = inspections_of(OperatingSystemStorage(), str(questdb_data / MANY), report)
    assert (list(found.documents), found.left_out) == (names, 2)


def test_a_partition_is_inspected_at_the_version_that_was_verified(questdb_data: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    shutil.copytree(questdb_data / OLDER, table)
    report = report_of(table)
    shutil.copytree(questdb_data / NEWER, table, dirs_exist_ok=True)
    found = inspections_of(OperatingSystemStorage(), str(table), report).documents
    tokens = {partition.name: partition.token for partition in report.partitions if partition.format == "parquet"}
    assert {name: document["pm"]["resolved"]["token"] for name, document in found.items()} == tokens
    assert {document["pm"]["committed"]["version"] for document in found.values()} != {report.version}


def test_a_partition_that_went_away_meanwhile_is_named_with_the_reason(
    copy_of: CopyOf,
) -> None:
    table = copy_of(CHAIN)
    report = report_of(table)
    shutil.rmtree(table / "2024-01-01.1")
    inspection = inspections_of(OperatingSystemStorage(), str(table), report).documents["2024-01-01.1"]
    assert inspection["pm"] is inspection["data"] is None
    assert "2024-01-01.1" in inspection["error"]


def test_a_huge_inspection_is_cut_and_a_small_one_keeps_its_ranges(questdb_data: Path) -> None:
    report = report_of(questdb_data / CHAIN)
    small = inspections_of(OperatingSystemStorage(), str(questdb_data / CHAIN), report).documents["2024-01-01.1"]
    assert not small["cut"]
    assert small["data"]["byte_map"][-1]["end_bytes"] == small["data"]["size_bytes"]
    entry = small["pm"]["byte_map"][0]
    ranges = [
        entry | {"start_bytes": start, "end_bytes": start + 1, "generation": start % 2}
        for start in range(9 * RANGES_MAX)
    ]
    huge = bounded({**small, "pm": small["pm"] | {"byte_map": ranges}})
    assert huge["cut"]
    assert len(huge["pm"]["byte_map"]) == RANGES_MAX
    assert huge["pm"]["byte_map"][-1]["end_bytes"] == 9 * RANGES_MAX


def test_a_hostile_table_name_becomes_a_plain_file_name() -> None:
    name = safe_name("/db/../x/<script> ../\u202e*?/trades~1\n")
    assert name.startswith("trades_1_-") or name.startswith("trades~1_-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-")
    assert safe_name("/a/trades") != safe_name("/b/trades")
    assert safe_name("/a/trades") == safe_name("/a/../a/trades/")


def test_a_table_in_which_the_report_would_be_stays_as_it_was(tornproof: WarmRunner, copy_of: CopyOf) -> None:
    table = copy_of(CHAIN)
    before = sorted(table.rglob("*"))
    run = tornproof("verify", table, "--report", table / "rep")
    assert run.code == 2 and "which gets no output" in sentence_of(run)
    assert sorted(table.rglob("*")) == before


def test_a_result_is_saved_before_standard_output_can_end(
    questdb_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*arguments: object, **others: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("tornproof.cli.commands.verify.print_report", end)
    with pytest.raises(BrokenPipeError):
        run_here("verify", questdb_data / CHAIN, "--report", tmp_path)
    assert list((tmp_path / "tables").iterdir()) and (tmp_path / "report.html").is_file()


@pytest.mark.parametrize("command", [("verify", "."), ("check", ".", "--only", "verify")], ids=" ".join)
def test_tables_that_are_named_alike_stay_apart(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A damaged table was lost where the same command was run in two tables, and the report said VALID."""
    for table, code in ((copy_of(CUT_DATA), 1), (copy_of(CHAIN), 0)):
        assert tornproof(*command, "--report", tmp_path / "report", folder=table).code == code
    assert tornproof("report", tmp_path / "report").code == 1
