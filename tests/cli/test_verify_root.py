"""`tornproof verify ROOT`: every table below a directory, the worst first, and the exit code of the worst."""

import json
import mmap
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from command_line import WarmRunner, sentence_of
from depth import nightly
from real_tables import snapshot_of

from tornproof.api.roots import TABLES_OF_TASK

CHAIN = "tables/9.4.2/chain/table"
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
