"""Finding files of older formats, as their releases wrote them: they replay, in the words of the present format."""

import shutil
from pathlib import Path

import pytest
from command_line import WarmRunner

from tornproof.cli.findings import load_finding
from tornproof.harness.counterexamples.older_words import OLDER_FORMATS, in_present_words

FOLDER = Path(__file__).parents[1] / "golden" / "older_findings"
CODES = {1: 0, 2: 0, 3: 1}
"""The exit code of a replay: the second was found in a writer that left out a barrier, which ours does not."""


@pytest.mark.parametrize("number", OLDER_FORMATS)
def test_a_finding_of_an_older_format_replays(tornproof: WarmRunner, number: int) -> None:
    run = tornproof("replay", FOLDER / f"format-{number}.json", "--json", "-")
    assert (run.code, run.err) == (CODES[number], "")
    if number == 2:
        # The writer makes other calls now, before the decision that matters, so the runs are not the same.
        before, now = (
            load_finding(FOLDER / f"format-{number}.json")[0].evidence["explanation"],
            run.document["explanation"],
        )
        assert now["seen"] == before["seen"] and now["decisions"] == before["decisions"]
        assert "The writer does others now" in run.document["note"]


def test_older_words_of_damage_are_translated() -> None:
    finding, _, _ = load_finding(FOLDER / "format-1.json")
    assert finding.evidence["description"] == "8 bytes zeroed"
    assert "told" not in finding.evidence


def test_older_words_of_a_log_are_translated() -> None:
    finding, _, _ = load_finding(FOLDER / "format-2.json")
    assert {"first_session", "second_session"} < finding.evidence["test_case"].keys()
    assert finding.evidence["explanation"]["narrative"]
    assert not {"situation", "story"} & (finding.evidence.keys() | finding.evidence["explanation"].keys())


def test_older_words_of_power_cuts_are_translated() -> None:
    finding, _, _ = load_finding(FOLDER / "format-3.json")
    assert finding.evidence["origin"] == {"killed_step": 48, "session": 2}


def test_an_older_phase_has_its_present_name() -> None:
    assert in_present_words({"format": 2, "phase": "drawn", "evidence": {}})["phase"] == "random"


def test_a_report_shows_an_older_finding_as_a_present_one(tornproof: WarmRunner, tmp_path: Path) -> None:
    (tmp_path / "findings").mkdir()
    shutil.copy(FOLDER / "format-2.json", tmp_path / "findings")
    assert tornproof("report", tmp_path).code == 1
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a writer commit 1 operation beside 1 reader" in html, "the narrative"
    assert "commits operation" in html, "who takes part"
