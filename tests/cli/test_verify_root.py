"""`tornproof verify ROOT`: every table below a directory, the worst first, and the exit code of the worst."""

import json
import mmap
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from command_line import WarmRunner, run_here, sentence_of
from depth import nightly
from golden_data import CHAIN, CUT_DATA, MANY, CopyOf
from real_tables import snapshot_of

from tornproof.api.roots import TABLES_OF_TASK
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

ORPHAN = "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9/table"
PENDING = 3


@pytest.fixture
def root(tmp_path: Path, questdb_data: Path) -> Path:
    """A server's data directory: two sound tables, one damaged, one that cannot be verified, and what is no table."""
    db = tmp_path / "db"
    for name in ("a~1", "b~2", "c~3", "d~4"):
        shutil.copytree(questdb_data / CHAIN, db / name)
    (db / "_tab_index.d").touch()
    (db / "empty").mkdir()
    pm = db / "c~3/2024-01-01.1/_pm"
    content = bytearray(pm.read_bytes())
    content[300] ^= 0xFF
    pm.write_bytes(content)
    (db / "d~4/_txn").write_bytes(b"")
    (db / "d~4/_meta").unlink()
    return db


def document_of(tornproof: WarmRunner, root: Path, *options: object) -> tuple[int, dict[str, Any]]:
    run = tornproof("verify", root, "--json", "-", *options)
    assert run.err == ""
    return run.code, json.loads(run.out)


def test_every_table_has_a_line_and_the_worst_comes_first(tornproof: WarmRunner, root: Path) -> None:
    run = tornproof("verify", root)
    *lines, last = run.out.splitlines()
    tables = [line.split()[0] for line in lines if "~" in line.split(" ")[0]]
    assert run.code == 1
    assert sorted(tables) == ["a~1", "b~2", "c~3", "d~4"] and tables[2:] == ["a~1", "b~2"]
    assert "the first: 2024-01-01.1/_pm: CHECKSUM" in run.out
    assert last.startswith(f"{root}: of 4 tables: ") and last.endswith("2 sound")


def test_the_document_counts_what_the_command_for_one_table_counts(tornproof: WarmRunner, root: Path) -> None:
    code, document = document_of(tornproof, root)
    assert (code, document["verdict"], document["table_count"]) == (1, "INVALID", 4)
    for table in document["tables"]:
        one = tornproof("verify", root / table["table"], "--json", "-")
        if one.code == 2:
            assert (table["verdict"], table["version"]) == ("UNKNOWN", None)
            assert table["sentence"] == sentence_of(one)
            continue
        expected = one.document
        assert (table["verdict"] == "VALID", table["sentence"]) == (expected["sound"], expected["verdict"])
        assert (table["version"], table["partition_count"]) == (expected["version"], len(expected["partitions"]))
        assert table["row_count"] == sum(each["rows"] for each in expected["partitions"])
        problems = expected["problems"] + [each for part in expected["partitions"] for each in part["problems"]]
        assert (table["problem_count"], table["problems"]) == (len(problems), problems[:20])


def test_many_tables_are_verified_by_processes_with_the_same_result(tornproof: WarmRunner, root: Path) -> None:
    alone = document_of(tornproof, root)[1]["tables"]
    for number in range(TABLES_OF_TASK):
        shutil.copytree(root / "a~1", root / f"many~{number:02}")
    code, document = document_of(tornproof, root, "--workers", 2)
    assert (code, document["table_count"], document["note"]) == (1, TABLES_OF_TASK + 4, "")
    assert [table for table in document["tables"] if not table["table"].startswith("many")] == alone
    assert sum(table["verdict"] == "VALID" for table in document["tables"]) == TABLES_OF_TASK + 2


def test_only_sound_tables_are_exit_0_and_one_that_cannot_be_verified_is_not(tornproof: WarmRunner, root: Path) -> None:
    shutil.rmtree(root / "c~3")
    shutil.move(root / "d~4", root.parent / "aside")
    code, document = document_of(tornproof, root, "--quick")
    assert (code, document["verdict"], document["sentence"]) == (0, "VALID", "of 2 tables: 2 sound")
    # A table that an older release wrote at a path below is found, too; links that lead in a circle are not followed.
    (root / "deep").mkdir()
    (root / "deep/circle").symlink_to(root)
    shutil.move(root / "b~2", root / "deep/b~2")
    code, document = document_of(tornproof, root)
    assert code == 0 and [table["table"] for table in document["tables"]] == ["a~1", "deep/b~2"]


@pytest.mark.parametrize(
    ("name", "shown"), [("two\nlines", r"two\nlines"), ("x\udcffy", r"x\udcffy"), ("\x1b[1m", r"\x1b[1m")]
)
def test_each_table_has_a_line_whatever_its_name_is(tornproof: WarmRunner, root: Path, name: str, shown: str) -> None:
    """A name with a line break had two lines, and others steered the terminal."""
    (root / "a~1").rename(root / name)
    lines = tornproof("verify", root, "--quick").out.splitlines()
    assert sum(line.startswith(f"{shown} ") for line in lines) == 1
    tables = document_of(tornproof, root, "--quick")[1]["tables"]
    assert sum(table["table"] in (name, shown) for table in tables) == 1


def test_transactions_of_the_log_that_no_version_contains_are_counted(tornproof: WarmRunner, root: Path) -> None:
    sequence = snapshot_of(root / "a~1").transaction.record.seq_txn
    for name, last in (("a~1", sequence + PENDING), ("b~2", sequence)):
        (root / name / "txn_seq").mkdir()
        (root / name / "txn_seq/_txnlog").write_bytes(struct.pack("<iq", 0, last) + bytes(64))
    tables = {table["table"]: table for table in document_of(tornproof, root)[1]["tables"]}
    assert [tables[name]["pending_transactions"] for name in ("a~1", "b~2", "c~3")] == [PENDING, 0, None]
    for name, notes in (("a~1", [f"not applied yet: {PENDING} transactions of its write-ahead log"]), ("b~2", [])):
        assert tornproof("verify", root / name, "--json", "-").document["notes"] == notes
    (root / "a~1/txn_seq/_txnlog").write_bytes(b"short")
    tables = {table["table"]: table for table in document_of(tornproof, root)[1]["tables"]}
    assert tables["a~1"]["pending_transactions"] is None and tables["a~1"]["verdict"] == "VALID"


@pytest.mark.parametrize("option", [("--as", "questdb-9.4.3"), ("--report", "out")])
def test_what_is_for_one_table_is_rejected(tornproof: WarmRunner, root: Path, option: tuple[str, str]) -> None:
    run = tornproof("verify", root, *option)
    assert run.code == 2 and "are for one table, and this is a directory of tables" in sentence_of(run)


def test_a_directory_without_tables_is_no_table(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("verify", tmp_path)
    assert run.code == 2 and "not a table" in sentence_of(run)


def _kind(table: dict[str, Any]) -> str:
    return next(kind for kind in ("problems", "rejected", "actions", "nothing_to_do") if table.get(kind))


@pytest.mark.parametrize("many", [0, nightly(TABLES_OF_TASK)])
def test_recover_says_of_every_table_what_it_would_do_and_changes_nothing(
    tornproof: WarmRunner, root: Path, questdb_data: Path, many: int
) -> None:
    shutil.copytree(questdb_data / ORPHAN, root / "e~5")
    for number in range(many):
        shutil.copytree(root / "a~1", root / f"many~{number:02}")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with (root / "b~2/_txn").open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        run = tornproof("recover", root, "--dry-run", "--json", "-")
        rejected = sentence_of(tornproof("recover", root / "b~2", "--dry-run"))
    tables = {Path(table["table"]).name: table for table in run.document["tables"]}
    assert tables.pop("b~2") == {"table": str(root / "b~2"), "rejected": rejected}
    assert sum(name.startswith("many") for name in tables) == many
    for name, table in tables.items():
        if name.startswith("many"):
            assert table == {"table": str(root / name), "nothing_to_do": True}
            continue
        one = tornproof("recover", root / name, "--dry-run", "--json", "-").document
        needless = {"table": one["table"], "nothing_to_do": True}
        assert table == (one if one["actions"] or one["problems"] else needless)
    assert tables["a~1"].get("nothing_to_do") and tables["e~5"]["actions"] and tables["d~4"]["problems"]
    kinds = ["problems", "problems", "rejected", "actions", "nothing_to_do", *["nothing_to_do"] * many]
    assert [*map(_kind, run.document["tables"])] == kinds
    said = {name: run.document[name] for name in ("verdict", "note", "table_count")}
    assert said == {"verdict": "INVALID", "note": "", "table_count": 5 + many} and run.code == 1
    lines = tornproof("recover", root, "--dry-run").out.splitlines()
    assert run.document["sentence"].startswith(f"of {5 + many} tables: ")
    assert lines[-1].startswith(f"{root}: of {5 + many} tables: ")
    for options in ((), ("--forget",), ("--forget", "--dry-run")):
        refused = tornproof("recover", root, *options)
        assert refused.code == 2 and "a directory of tables; name one of them" in sentence_of(refused)
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


# Reports


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
