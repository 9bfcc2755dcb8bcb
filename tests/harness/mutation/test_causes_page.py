"""The causes of planted faults: what a place stands for, and docs/causes.md, whose examples a person can judge."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import causes_page
import pytest
from depth import sampled

from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.alike import alike
from tornproof.harness.counterexamples.words import causes_of
from tornproof.harness.mutation import causes
from tornproof.harness.mutation.catalogue import ALL
from tornproof.harness.mutation.causes import EXAMPLES, PLACES, Place, find, names_place, place_of
from tornproof.harness.mutation.fault_file import file_named
from tornproof.harness.mutation.known_causes import CAUSES, FILE, entry
from tornproof.harness.systems.scenario import Explorer

DOCS = Path(__file__).parents[3] / "docs"
REMADE = "python docs/causes_page.py > docs/causes.md; python -m tornproof.harness.mutation.known_causes"
LINES_MAX, WIDTH = 12, 80


@pytest.mark.parametrize("name", sampled(1, EXAMPLES))
def test_the_cause_of_a_planted_fault_names_its_place_and_stands_on_the_page_as_it_is_printed(name: str) -> None:
    fault = file_named(name)
    finding = find(fault)
    assert finding is not None
    place = place_of(fault)
    assert place is not None and names_place(finding, place)
    assert "\n".join(causes_page.example(fault, finding)) in (DOCS / "causes.md").read_text(), REMADE
    assert entry(name, CAUSES, finding) in json.loads(FILE.read_text()), REMADE
    assert alike(finding)


def test_examples_are_of_as_many_families_and_fit_a_terminal() -> None:
    assert len({file_named(name).family for name in EXAMPLES}) == len(EXAMPLES) >= 12
    blocks = (DOCS / "causes.md").read_text().split("```text\n")[1:]
    printed = [block.partition("```")[0].splitlines() for block in blocks]
    assert len(printed) == len(EXAMPLES)
    for lines in printed:
        # The command that replays it comes last.
        assert len(lines) < LINES_MAX and all(len(line) <= WIDTH for line in lines)
        assert any(line.startswith("  cause") for line in lines)


def test_the_measured_part_follows_from_the_results() -> None:
    assert causes_page.measured(json.loads(causes_page.RESULTS.read_text())) in (DOCS / "causes.md").read_text(), REMADE


def test_each_fault_has_a_place_and_each_place_a_fault() -> None:
    places = [place_of(fault) for fault in ALL]
    without = [fault.name for fault, place in zip(ALL, places, strict=True) if place is None]
    # Limits, layouts and what arguments may be are declared in one place, and used in many.
    declared = ("impl/limits.py", "impl/layout/", "impl/arguments.py")
    assert all(file_named(name).file.startswith(declared) or "fence" in name for name in without), without
    assert [each.at for each in PLACES if each not in places] == []


def test_a_place_is_named_by_a_file_and_an_action_and_not_by_one_of_them() -> None:
    place = Place("", ("_txn",), ("sync",))
    why = {"kind": "", "passes_when": {"tried": 0, "enough": 0, "changes": []}}
    for text, is_named in (("sync _txn", True), ("sync _pm", False), ("store version (_txn)", False), ("", False)):
        finding = Finding(property="", phase="", sentence="sync _txn", evidence={"why": {**why, "cause": text}})
        assert names_place(finding, place) is is_named
    assert causes_of({}) == []


def test_the_first_finding_with_a_cause_is_taken_though_others_come_before(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [Finding(property="p", phase="crash", sentence=f"{number}", evidence={}) for number in range(3)]
    phase = Phase(name="crash", explored=1, complete=True, bound="", verdict=Verdict.INVALID, findings=tuple(findings))
    monkeypatch.setattr(causes, "simulate", lambda *_, **__: phase)
    monkeypatch.setattr(causes, "causes_of", lambda evidence: ("it",) if evidence is findings[1].evidence else ())
    assert causes._simulated("append-and-power-cut", Explorer.SCHEDULES, ()) is findings[1]


def test_a_finding_is_like_what_breaks_the_same_property_by_the_same_causes_alone() -> None:
    why = {"cause": "", "kind": "commit: VERSION in _txn", "passes_when": {"tried": 0, "enough": 0, "changes": []}}
    known = next(each for each in json.loads(FILE.read_text()) if each["name"] == "prev is always 0")
    finding = Finding(
        property=known["property"], phase="", sentence="", evidence={"why": {**why, "kind": known["causes"][0]}}
    )
    assert [each.name for each in alike(finding)] == [known["name"]]
    assert alike(replace(finding, property="another one")) == []
    assert alike(replace(finding, evidence={"why": why})) == []
    assert alike(replace(finding, evidence={})) == []


@pytest.mark.parametrize(
    "evidence", [{"log": [{}]}, {"log": 3}, {"why": {}}, {"explanation": []}, {"cuts": [{"choice": "1"}]}]
)
def test_a_finding_whose_evidence_was_changed_is_like_none(evidence: dict[str, Any]) -> None:
    assert (
        alike(Finding(property="a reader gets an answer", phase="power", sentence="It does not.", evidence=evidence))
        == []
    )
