"""Folders of results: what each file is taken for, and what becomes of files that are damaged or of somebody else."""

import os
from pathlib import Path
from typing import Any

import pytest
from finding_documents import finding_document
from run_documents import invalid_run, phase_document, run_document, verify_document, write, write_run

from tornproof.reports.folder import next_run_number, results_in, run_file
from tornproof.reports.kit.json_fields import ResultError

VALID_RUN = run_document(phase_document())


def test_each_kind_of_result_is_found_at_its_place(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    write(tmp_path / "tables/table-trades.json", {"format": 1, "verify": verify_document(), "inspections": {}})
    write(tmp_path / "campaign.json", {"format": 2, "name": "mine", "digest": "d", "spec": {}})
    folder = results_in(tmp_path)
    assert [run.key for run in folder.runs] == ["run-0001"]
    assert [(each.key, each.phase, each.scenario) for each in folder.findings] == [
        ("finding-product-1", "product", "reader-lives-through-a-kill")
    ]
    assert [table.table for table in folder.tables] == ["data/trades"]
    assert folder.is_campaign
    assert (folder.damaged, folder.foreign) == ([], [])


def test_documents_at_the_top_are_known_by_what_they_say(tmp_path: Path) -> None:
    write(tmp_path / "nightly.json", VALID_RUN)
    write(tmp_path / "trades.json", verify_document())
    write(tmp_path / "product-1.json", finding_document())
    write(tmp_path / "package.json", {"name": "something else"})
    write(tmp_path / "list.json", [1, 2])
    folder = results_in(tmp_path)
    assert [(run.name, run.key) for run in folder.runs] == [("nightly", "run-nightly")]
    assert len(folder.tables) == len(folder.findings) == 1
    assert folder.foreign == [str(tmp_path / "list.json"), str(tmp_path / "package.json")]


def test_findings_are_also_found_where_check_puts_them_by_itself(tmp_path: Path) -> None:
    write(tmp_path / "check.json", VALID_RUN)
    write(tmp_path / "tornproof-findings/product-1.json", finding_document())
    assert [finding.stem for finding in results_in(tmp_path).findings] == ["product-1"]


def test_runs_are_in_the_order_of_their_numbers_and_not_of_their_names(tmp_path: Path) -> None:
    for number in (9999, 10000, 3):
        write_run(tmp_path, number, VALID_RUN)
    folder = results_in(tmp_path)
    assert [run.name for run in folder.runs] == ["run 3", "run 9999", "run 10000"]
    assert next_run_number(tmp_path) == 10001
    assert run_file(7) == "runs/run-0007.json"


def test_the_first_run_of_a_folder_has_number_one(tmp_path: Path) -> None:
    assert next_run_number(tmp_path) == 1


def test_the_newest_run_of_each_table_and_preset_counts(tmp_path: Path) -> None:
    for number, target in enumerate(("a", "b", "a"), start=1):
        write_run(tmp_path, number, VALID_RUN | {"target": target})
    write_run(tmp_path, 4, VALID_RUN | {"target": "a", "preset": "questdb-9.4.2"})
    assert [run.name for run in results_in(tmp_path).newest_runs] == ["run 4", "run 3", "run 2"]


@pytest.mark.parametrize(
    ("verdict", "cut_by", "newest"),
    [("UNKNOWN", "interrupt", 1), ("INVALID", "interrupt", 2), ("UNKNOWN", "seconds", 2), ("UNKNOWN", None, 2)],
)
def test_a_run_that_somebody_interrupted_before_its_verdict_does_not_hide_the_one_before(
    tmp_path: Path, verdict: str, cut_by: str | None, newest: int
) -> None:
    write_run(tmp_path, 1, VALID_RUN)
    write_run(tmp_path, 2, run_document(phase_document(verdict=verdict), cut_by=cut_by))
    write_run(tmp_path, 3, run_document(phase_document(verdict="UNKNOWN"), cut_by="interrupt", target="alone"))
    assert {run.name for run in results_in(tmp_path).newest_runs} == {f"run {newest}", "run 3"}


def test_files_of_one_name_in_two_folders_have_pages_of_their_own(tmp_path: Path) -> None:
    for name in ("findings", "tornproof-findings"):
        write(tmp_path / name / "product-1.json", finding_document())
    assert [each.key for each in results_in(tmp_path).findings] == ["finding-product-1", "finding-product-1-2"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the document: expected JSON, found Expecting value"),
        (b"{", "the document: expected JSON"),
        (b"\xff\xfe\x00", "the document: expected JSON"),
        (b"[" * 100_000, "the document: expected JSON, found one that is nested too deeply"),
        (b"9" * 5_000, "the document: expected JSON"),
        (b"[]", "the document: expected an object, found a list of 0"),
        (b'{"format": 3, "phases": [], "findings": []}', "format: expected 1 or 2, found 3"),
        (b'{"format": 1, "target": 3}', "verdict: expected text, found nothing"),
    ],
)
def test_a_damaged_run_is_one_sentence_and_the_others_stay(tmp_path: Path, content: bytes, sentence: str) -> None:
    write_run(tmp_path, 1, VALID_RUN)
    path = tmp_path / "runs/run-0002.json"
    path.write_bytes(content)
    folder = results_in(tmp_path)
    assert [run.name for run in folder.runs] == ["run 1"]
    (error,) = folder.damaged
    assert str(error).startswith(f"{path}: {sentence}") and "\n" not in str(error)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 5}, "format: expected 1 or 2 or 3 or 4, found 5"),
        ({"sentence": 5}, "sentence: expected text, found the number 5"),
        ({"evidence": []}, "evidence: expected an object, found a list of 0"),
    ],
)
def test_a_damaged_finding_is_one_sentence(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    path = write(tmp_path / "findings/product-1.json", finding_document(**change))
    assert [str(error) for error in results_in(tmp_path).damaged] == [f"{path}: {sentence}"]


def test_a_table_without_a_name_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "tables/t.json", {"format": 1, "verify": {"format": 1}})
    assert [str(error) for error in results_in(tmp_path).damaged] == [
        f"{path}: verify.table: expected text, found nothing"
    ]


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    os.mkfifo(tmp_path / "runs/run-0001.json")
    assert [str(error) for error in results_in(tmp_path).damaged] == [
        f"{tmp_path}/runs/run-0001.json: the file: expected a file, found something else"
    ]


def test_a_document_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.reports.kit.json_fields.DOCUMENT_BYTES_READ_MAX", 10)
    write_run(tmp_path, 1, VALID_RUN)
    assert "expected at most 10 bytes, found" in str(results_in(tmp_path).damaged[0])


def test_unfinished_files_and_earlier_reports_are_nobody_s_business(tmp_path: Path) -> None:
    write(tmp_path / "runs/.run-0001.json.7.partial", {})
    write(tmp_path / "findings/.product-1.json", {})
    write(tmp_path / "last.json", {"format": 1, "report": "report.html", "junit": "junit.xml"})
    folder = results_in(tmp_path)
    assert folder.is_empty and not folder.damaged and not folder.foreign


def test_the_result_of_a_campaign_without_its_directory_is_none_that_a_page_could_show(tmp_path: Path) -> None:
    summary = write(tmp_path / "summary.json", {"verdict": "VALID", "result_hash": "abc"})
    assert results_in(tmp_path).foreign == [str(summary)]
    write(tmp_path / "campaign.json", {"format": 2, "name": "mine", "digest": "d", "spec": {}})
    assert results_in(tmp_path).foreign == []


def test_what_is_no_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="expected a folder of results, found nothing of this name"):
        results_in(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(ResultError, match="expected a folder of results, found a file"):
        results_in(tmp_path / "file")
    (tmp_path / "runs").touch()
    with pytest.raises(ResultError, match="runs: the folder: expected a folder, found Not a directory"):
        results_in(tmp_path)


def test_tables_are_told_apart_by_their_whole_paths(tmp_path: Path) -> None:
    for number, path in enumerate(["/a/trades", "/b/trades", "/a/trades"]):
        write_run(tmp_path, number, {**VALID_RUN, "target": f"{number}", "path": path})
        write(tmp_path / f"{number}.json", verify_document(table=".", path=path))
    folder = results_in(tmp_path)
    assert [run.name for run in folder.newest_runs] == ["run 2", "run 1"]
    assert [Path(table.file).stem for table in folder.newest_tables] == ["2", "1"]


def test_documents_of_earlier_releases_are_told_apart_by_their_files_or_by_what_was_typed(tmp_path: Path) -> None:
    for number in range(2):
        write_run(tmp_path, number, VALID_RUN)
        verified = {"format": 1, "verify": verify_document(table="."), "inspections": {}}
        write(tmp_path / f"tables/table-{number}.json", verified)
        write(tmp_path / f"{number}.json", verify_document(table="."))
    folder = results_in(tmp_path)
    assert [run.name for run in folder.newest_runs] == ["run 1"]
    assert [Path(table.file).stem for table in folder.newest_tables] == ["1", "table-0", "table-1"]
