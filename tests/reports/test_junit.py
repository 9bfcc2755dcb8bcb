"""JUnit XML as systems of continuous integration read it: what is green there, and what must never be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml, TestCase, TestSuite
from markupsafe import Markup
from run_documents import (
    HOSTILE,
    damaged_verify_document,
    invalid_run,
    listed,
    phase_document,
    run_document,
    verify_document,
    write,
    write_run,
)

from tornproof.reports.folder import results_in
from tornproof.reports.junit import junit_of
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import Page


def page(key: str, verdict: str) -> Page:
    return Page(key=key, group="Results", title=f"{key} of ours", verdict=verdict, body=Markup())


def suites_of(folder: Path, *pages: Page, damaged: tuple[ResultError, ...] = ()) -> dict[str, TestSuite]:
    suites = list(JUnitXml.fromstring(junit_of(results_in(folder), pages, damaged).encode()))
    assert len({suite.name for suite in suites}) == len(suites)
    return {suite.name: suite for suite in suites}


def cases_of(suite: TestSuite) -> dict[str, TestCase]:
    return {case.name: case for case in suite}


def kind_of(case: TestCase) -> str:
    return "passed" if case.is_passed else type(case.result[0]).__name__


def kinds_of(suite: TestSuite) -> dict[str, str]:
    return {name: kind_of(case) for name, case in cases_of(suite).items()}


def test_a_phase_is_a_suite_and_a_case_a_case_with_its_denominators(tmp_path: Path) -> None:
    test_cases = {
        "append": {"explored": 5, "complete": True, "bound": "every order"},
        "merge": {"explored": 0, "complete": False, "bound": "not begun"},
    }
    write_run(tmp_path, 1, run_document(phase_document(test_cases=test_cases)))
    suite = suites_of(tmp_path)["check a small new table, hardened: schedules"]
    assert kinds_of(suite) == {"verdict on schedules": "passed", "append": "passed", "merge": "Skipped"}
    assert cases_of(suite)["append"].system_out == "explored 5, to the end of its bound: every order"
    assert {case.classname for case in suite} == {"tornproof.check.schedules"}
    assert suite.time == 4.0
    tree = ElementTree.fromstring(junit_of(results_in(tmp_path), (), ()))
    facts = {each.get("name"): each.get("value") for each in tree.iter("property")}
    assert facts["explored"] == "1200" and facts["complete"] == "true" and facts["bound"] == "2 commits x 1 reader"
    assert facts["reached: a reader saw the last version"] == "351"


def test_unknown_is_an_error_and_not_green(tmp_path: Path) -> None:
    write_run(tmp_path, 1, run_document(phase_document("power", "UNKNOWN", note="the time was over")))
    (suite,) = suites_of(tmp_path).values()
    (case,) = suite
    assert (suite.errors, kind_of(case), case.result[0].message) == (1, "Error", "the time was over")


def test_a_run_without_phases_is_an_error_and_not_green(tmp_path: Path) -> None:
    write_run(tmp_path, 1, run_document())
    (suite,) = suites_of(tmp_path).values()
    assert (suite.tests, suite.errors) == (1, 1)


def test_findings_are_failures_with_the_lines_that_show_them_again(tmp_path: Path) -> None:
    document = invalid_run("product-1", "product-2")
    document["phases"][0]["test_cases"] = {
        "reader-lives-through-a-kill": {"explored": 5, "complete": True, "bound": "b"},
        "another": {"explored": 5, "complete": True, "bound": "b"},
    }
    write_run(tmp_path, 1, document)
    (suite,) = suites_of(tmp_path).values()
    assert kinds_of(suite) == {"a reader gets an answer [product-1]": "Failure", "another": "passed"}
    (failure,) = cases_of(suite)["a reader gets an answer [product-1]"].result
    assert failure.message == "reader 1: found at byte 0 (and 1 like it)"
    for number in (1, 2):
        assert f"replay: tornproof replay {tmp_path}/findings/product-{number}.json" in failure.text


def test_an_invalid_phase_without_a_finding_and_a_finding_without_a_phase_fail(tmp_path: Path) -> None:
    strange = listed("lost-1", phase="lost")
    write_run(tmp_path, 1, run_document(phase_document("damage", "INVALID"), findings=(strange,)))
    suites = suites_of(tmp_path)
    assert kinds_of(suites["check a small new table, hardened: damage"]) == {"verdict on damage": "Failure"}
    assert kinds_of(suites["check a small new table, hardened"]) == {"a reader gets an answer [lost-1]": "Failure"}


def test_only_the_newest_run_of_each_table_counts(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    write_run(tmp_path, 2, run_document(phase_document("product")))
    (suite,) = suites_of(tmp_path).values()
    assert (suite.tests, suite.failures) == (1, 0)


@pytest.mark.parametrize(
    ("document", "kind"),
    [(verify_document(), "passed"), (damaged_verify_document(), "Failure")],
    ids=["sound", "damaged"],
)
def test_a_table_is_a_suite_and_a_partition_a_case(tmp_path: Path, document: Any, kind: str) -> None:
    write(tmp_path / "trades.json", document)
    suite = suites_of(tmp_path, page("table-1", "VALID"))["verify data/trades"]
    assert kinds_of(suite) == {"_txn and _meta": "passed", "2024-01-01.1": kind, "2024-01-02": "Skipped"}
    if kind == "Failure":
        (failure,) = cases_of(suite)["2024-01-01.1"].result
        assert failure.message == "2024-01-01.1/_pm: CHECKSUM at byte 120: expected 0x1, found 0x2"


@pytest.mark.parametrize(("writable", "kind"), [(True, "passed"), (False, "Failure")])
def test_a_release_that_cannot_go_on_fails(tmp_path: Path, writable: bool, kind: str) -> None:
    compatibility = {"preset": "questdb-9.4.2", "readable": True, "writable": writable, "reason": "why", "hazards": []}
    write(tmp_path / "trades.json", verify_document() | {"as": compatibility})
    suite = suites_of(tmp_path, page("table-1", "VALID"))["verify data/trades"]
    assert kinds_of(suite)["as questdb-9.4.2"] == kind


@pytest.mark.parametrize(("verdict", "kind"), [("VALID", "passed"), ("UNKNOWN", "Error"), ("INVALID", "Failure")])
def test_a_campaign_is_judged_by_its_page(tmp_path: Path, verdict: str, kind: str) -> None:
    write(tmp_path / "campaign.json", {"spec": {}, "digest": "d"})
    suites = suites_of(tmp_path, page("campaign", verdict))
    assert kinds_of(suites["campaign of ours"]) == {"verdict on campaign of ours": kind}


def test_findings_of_a_campaign_are_its_failures(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("campaign-1"))
    (tmp_path / "runs/run-0001.json").unlink()
    write(tmp_path / "campaign.json", {"spec": {}, "digest": "d"})
    suites = suites_of(tmp_path, page("campaign", "INVALID"))
    assert kinds_of(suites["campaign of ours"]) == {"a reader gets an answer [campaign-1]": "Failure"}


def test_findings_alone_are_failures(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    (tmp_path / "runs/run-0001.json").unlink()
    assert suites_of(tmp_path)["findings"].failures == 1


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    error = ResultError(file="runs/run-0002.json", field="the document", expected="JSON", actual="nothing")
    suite = suites_of(tmp_path, damaged=(error,))["results that cannot be read"]
    assert (suite.tests, suite.errors) == (1, 1)


def test_text_that_xml_cannot_hold_is_written_out(tmp_path: Path) -> None:
    finding = {"file": "findings/x.json", "property": HOSTILE, "phase": HOSTILE, "sentence": HOSTILE}
    document = run_document(phase_document(HOSTILE, "INVALID"), findings=(finding,), target=HOSTILE)
    path = tmp_path / "runs/run-0001.json"
    write(path, json.loads(json.dumps(document)))
    (suite,) = suites_of(tmp_path).values()
    assert suite.name.startswith("check <script>") and suite.failures == 1
