"""`tornproof barriers` as its users meet it: the table, the JSON, the page, and the exit code."""

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tornproof.cli.commands.barriers as command
from tornproof.cli.app import app
from tornproof.harness.explorers.barriers.document import document
from tornproof.harness.explorers.barriers.explorer import ALL, Names, Outcome, explore_barriers
from tornproof.harness.simulator.persistence.models import A, B

SETS: list[Names] = [(), ALL]


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return explore_barriers(models=(A, B), sets=SETS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome]) -> None:
    monkeypatch.setattr(command, "explore_barriers", lambda on_progress: outcomes)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["barriers", *arguments], standalone_mode=False)
    return result.return_value, result.stdout


def test_the_table_names_the_smallest_safe_sets() -> None:
    code, out = run()
    assert code == 0
    assert "F1 F2 F3 F4 F5 F6" in out and "1 of 2" in out and "2 of 2" in out


def test_json_goes_to_standard_output_alone_or_to_a_file(outcomes: list[Outcome], tmp_path: Path) -> None:
    code, out = run("--json", "-")
    assert (code, json.loads(out)) == (0, document(outcomes))
    code, out = run("--json", str(tmp_path / "out.json"))
    assert json.loads((tmp_path / "out.json").read_text()) == document(outcomes)
    assert "smallest safe sets" in out
    found = {(tuple(each["barriers"]), each["model"]): each["safe"] for each in document(outcomes)["outcomes"]}
    assert found == {((), "A"): True, ((), "B"): False, (ALL, "A"): True, (ALL, "B"): True}


def test_the_page_is_written_as_it_is(monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome]) -> None:
    # The page needs every set; what it says of them is tested where it is made.
    monkeypatch.setattr(command, "markdown", lambda given: f"page of {len(given)}\n")
    assert run("--markdown") == (0, f"page of {len(outcomes)}\n")


def test_a_hardened_commit_that_is_unsafe_is_invalid(monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome]) -> None:
    unsafe = [outcome for outcome in outcomes if not outcome.is_safe]
    broken = [dataclasses.replace(outcome, barriers=ALL) for outcome in unsafe]
    monkeypatch.setattr(command, "explore_barriers", lambda on_progress: broken)
    assert run()[0] == 1


def test_two_documents_for_one_standard_output_are_rejected() -> None:
    result = CliRunner().invoke(app, ["barriers", "--markdown", "--json", "-"])
    assert "both ask for standard output" in str(result.exception)
