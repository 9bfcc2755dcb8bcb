"""`tornproof report` and `check --report` as their users meet them: files, exit codes, replay lines that work."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb
from command_line import TIMEOUT_SECONDS, WarmRunner, environment, sentence_of
from golden_data import CUT_DATA, CopyOf
from junitparser import Failure, JUnitXml
from run_documents import invalid_run, phase_document, run_document, verify_document, write, write_run

from tornproof.cli.app import COMMANDS, app
from tornproof.impl.errors import UsageError
from tornproof.impl.types.questdb import TypeTag

TABLE = tb.build({"v": (TypeTag.LONG, pa.array([1, 2]))})
READING = ("--only", "verify", "--workers", "1")


def replay_lines(xml: Path) -> list[str]:
    failures = [each for suite in JUnitXml.fromfile(str(xml)) for case in suite for each in case.result]
    texts = [failure.text for failure in failures if isinstance(failure, Failure)]
    return [line.partition("replay: ")[2] for text in texts for line in text.splitlines() if "replay: " in line]


def test_check_puts_each_result_into_the_folder_and_makes_the_report(tornproof: WarmRunner, tmp_path: Path) -> None:
    TABLE.write_to(tmp_path / "table")
    for number in (1, 2):
        run = tornproof("check", "table", *READING, "--report", "out/nightly", folder=tmp_path)
        assert (run.code, run.err) == (0, "")
        assert run.out.startswith("sound and hardened: 0 findings in ")
        assert run.out.endswith("\nreport: out/nightly/report.html (for CI: out/nightly/junit.xml)\n")
        assert (tmp_path / f"out/nightly/runs/run-{number:04}.json").is_file()
    folder = tmp_path / "out/nightly"
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "report.html", "runs"]
    html = (folder / "report.html").read_text()
    assert 'id="run-0002"' in html and 'id="run-0001"' in html
    assert JUnitXml.fromfile(str(folder / "junit.xml")).failures == 0


def test_findings_are_in_the_report_and_their_lines_run_where_the_user_stands(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path
) -> None:
    table = copy_of(CUT_DATA)
    run = tornproof("check", table, *READING, "--report", "a report", "--json", "-", folder=tmp_path)
    assert (run.code, run.err) == (1, "")
    (finding,) = run.document["findings"]
    stem = Path(finding["file"]).stem
    assert finding["file"] == f"a report/findings/{stem}.json"
    kept = json.loads((tmp_path / "a report/runs/run-0001.json").read_text())
    assert [each["file"] for each in kept["findings"]] == [f"findings/{stem}.json"]
    assert {**kept, "findings": []} == {**run.document, "findings": []}
    html = (tmp_path / "a report/report.html").read_text()
    assert f'id="finding-{stem}"' in html and f'href="#finding-{stem}"' in html
    (line,) = replay_lines(tmp_path / "a report/junit.xml")
    assert line == f"tornproof replay 'a report/findings/{stem}.json'"
    again = tornproof(*shlex.split(line)[1:], folder=tmp_path)
    assert again.code == 1 and "it happens again" in again.out


def test_findings_can_be_written_somewhere_else_too(tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path) -> None:
    table = copy_of(CUT_DATA)
    run = tornproof("check", table, *READING, "--report", "out", "--findings", "mine", "--json", "-", folder=tmp_path)
    (finding,) = run.document["findings"]
    name = Path(finding["file"]).name
    assert finding["file"] == f"mine/{name}"
    assert (tmp_path / "mine" / name).read_bytes() == (tmp_path / "out/findings" / name).read_bytes()
    assert f'id="finding-{Path(name).stem}"' in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("documents", "code", "verdict"),
    [
        ((invalid_run("product-9"), run_document(phase_document())), 0, "VALID"),
        ((invalid_run("product-1"),), 1, "INVALID"),
        ((run_document(phase_document("power", "UNKNOWN")),), 3, "UNKNOWN"),
    ],
    ids=["valid", "invalid", "unknown"],
)
def test_the_exit_code_is_the_verdict_of_the_newest_results(
    tornproof: WarmRunner, tmp_path: Path, documents: tuple[dict[str, Any], ...], code: int, verdict: str
) -> None:
    for number, document in enumerate(documents, start=1):
        write_run(tmp_path / "out", number, document)
    run = tornproof("report", "out", folder=tmp_path)
    assert (run.code, run.err) == (code, "")
    assert f"run {len(documents)}, a small new table, hardened: {verdict}: " in run.out
    assert run.out.endswith(f"report: out/report.html (for CI: out/junit.xml)\nout: {verdict}\n")


def test_page_and_xml_go_where_they_are_asked_for_and_json_says_what_is_in_them(
    tornproof: WarmRunner, tmp_path: Path
) -> None:
    write_run(tmp_path / "out", 1, invalid_run("product-1", "product-2"))
    write(tmp_path / "out/other.json", {})
    before = sorted((tmp_path / "out").iterdir())
    run = tornproof("report", "out", "--out", "page.html", "--junit", "cases.xml", "--json", "-", folder=tmp_path)
    assert (run.code, run.err) == (1, "")
    assert sorted((tmp_path / "out").iterdir()) == before
    assert (tmp_path / "page.html").is_file() and (tmp_path / "cases.xml").is_file()
    document = run.document
    assert (document["report"], document["junit"], document["verdict"]) == ("page.html", "cases.xml", "INVALID")
    assert [page["key"] for page in document["pages"]] == [
        "run-0001",
        "finding-product-1",
        "finding-product-2",
        "left-out",
    ]
    assert [(each["file"], each["alike"]) for each in document["findings"]] == [
        ("out/findings/product-1.json", ["out/findings/product-2.json"])
    ]
    assert document["notices"] == ["is not a result of tornproof: out/other.json"]


def test_a_report_of_what_verify_wrote_is_made_again_with_the_same_bytes(tornproof: WarmRunner, tmp_path: Path) -> None:
    write(tmp_path / "out/verify.json", verify_document())
    contents = []
    for _ in range(2):
        run = tornproof("report", "out", folder=tmp_path)
        assert (run.code, run.err) == (0, "")
        contents.append([(tmp_path / "out" / name).read_bytes() for name in ("report.html", "junit.xml")])
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "missing"], "missing: the folder: expected a folder of results, found nothing of this name"),
        (
            ["report", "empty"],
            "empty: the folder: expected results of check, verify or campaign, or findings",
        ),
        (["report", "broken"], "broken/check.json: the document: expected JSON, found "),
        (
            ["report", "sound", "--out", "missing/page.html"],
            "missing/page.html: cannot write: No such file",
        ),
        (["check", "--report", "file"], "file: cannot write: Not a directory"),
        (["check", "--report", "file/below"], "file/below: cannot write: Not a directory"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    tornproof: WarmRunner, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/check.json").write_text("{")
    write_run(tmp_path / "sound", 1, run_document(phase_document()))
    run = tornproof(*arguments, folder=tmp_path)
    assert run.code == 2
    assert sentence_of(run).startswith(sentence)


def test_a_damaged_result_among_sound_ones_is_unknown_and_told(tornproof: WarmRunner, tmp_path: Path) -> None:
    write_run(tmp_path / "out", 1, run_document(phase_document()))
    (tmp_path / "out/runs/run-0002.json").write_text('{"a\x1b[31m": ')
    run = tornproof("report", "out", folder=tmp_path)
    assert (run.code, run.err) == (3, "")
    assert "left out cannot be read: out/runs/run-0002.json: the document: expected JSON" in run.out
    assert JUnitXml.fromfile(str(tmp_path / "out/junit.xml")).errors == 1


def test_a_check_whose_folder_holds_a_damaged_result_keeps_its_own(tornproof: WarmRunner, tmp_path: Path) -> None:
    TABLE.write_to(tmp_path / "table")
    (tmp_path / "out/runs").mkdir(parents=True)
    (tmp_path / "out/runs/run-0041.json").touch()
    run = tornproof("check", "table", *READING, "--report", "out", folder=tmp_path)
    assert (run.code, run.err) == (0, "")
    assert "left out cannot be read: out/runs/run-0041.json" in run.out
    assert (tmp_path / "out/runs/run-0042.json").is_file()


@pytest.mark.parametrize("command", [["check"], ["verify", "table"], ["report", "out"]], ids=lambda command: command[0])
def test_without_what_pages_take_a_report_is_rejected_in_one_sentence_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tornproof.cli.report_writing.PACKAGES", ("jinja2", "no_such_package"))
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError) as rejected:
        app([*command, *(["--report", "out"] if command != ["report", "out"] else [])], standalone_mode=False)
    assert str(rejected.value) == "a report needs no_such_package: pip install 'tornproof[reports]'"
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("commands", "unneeded"),
    [
        (COMMANDS, {"tornproof.reports", "jinja2", "matplotlib", "junitparser"}),
        (
            ("verify", "read", "inspect", "recover"),
            {"tornproof.reports", "tornproof.harness.explorers", "hypothesis", "pyspark"},
        ),
    ],
    ids=["all", "those of operators"],
)
def test_commands_load_nothing_that_only_pages_or_explorers_take(commands: Sequence[str], unneeded: set[str]) -> None:
    script = f"import sys, {', '.join(f'tornproof.cli.commands.{name}' for name in commands)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    loaded = set(done.stdout.split())
    assert {f"tornproof.cli.commands.{name}" for name in commands} <= loaded
    assert not loaded & unneeded
