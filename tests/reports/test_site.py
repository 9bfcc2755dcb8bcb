"""The report on a folder: which pages it has in which order, its verdict, and its bound in bytes."""

import html
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from finding_documents import finding_document
from markupsafe import Markup
from rich.console import Console
from run_documents import (
    HOSTILE,
    damaged_verify_document,
    invalid_run,
    phase_document,
    run_document,
    verify_document,
    write,
    write_run,
)

from tornproof.reports import site as sites
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import DOCUMENT_BYTES_MAX, Page
from tornproof.reports.omissions import NAMES_SHOWN
from tornproof.reports.site import RUN_PAGES_MAX, Site, site_of
from tornproof.reports.terminal import print_summary

VALID_RUN = run_document(phase_document())


LINE = re.compile(r'tornproof replay ([^\n<"]*)')


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tornproof.reports.run.trend._plot", lambda runs, lines: "the plot")
    monkeypatch.setattr("tornproof.reports.table.page.partitions_plot", lambda bars: "the plot")
    yield


def keys_of(site: Site) -> list[str]:
    return [page.key for page in site.pages]


def test_runs_come_first_then_findings_then_tables_then_what_is_left_out(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    write(tmp_path / "trades.json", verify_document())
    write(tmp_path / "other.json", {})
    site = site_of(tmp_path)
    assert keys_of(site) == ["run-0001", "finding-product-1", "table-1", "left-out"]
    assert '<a href="#finding-product-1">' in site.pages[0].body
    assert all(f'id="{key}"' in site.html for key in keys_of(site))
    assert site.notices == [f"is not a result of tornproof: {tmp_path}/other.json"]


@pytest.mark.parametrize(("folder", "word"), [("-rp", "./-rp/%s"), ("a\tb", "$'a\\x09b/%s'")])
def test_each_form_of_the_report_names_a_finding_so_that_a_shell_finds_it(
    folder: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder was an option of `replay`, or its tab two characters."""
    monkeypatch.chdir(tmp_path)
    write_run(Path(folder), 1, invalid_run("product-1"))
    site = site_of(Path(folder))
    printed = io.StringIO()
    print_summary(Console(file=printed, width=400), site)
    texts = (html.unescape(site.html), site.junit, printed.getvalue())
    assert [{*LINE.findall(text)} for text in texts] == [{word % "findings/product-1.json"}] * 3


def test_a_report_without_runs_does_not_open_with_a_finding(tmp_path: Path) -> None:
    write(tmp_path / "trades.json", verify_document())
    write(tmp_path / "findings/product-1.json", finding_document())
    assert keys_of(site_of(tmp_path)) == ["table-1", "finding-product-1"]


def test_the_campaign_of_a_directory_has_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def page_of(directory: Path, sums: Any) -> Page:
        return Page(key="campaign", group="Campaign", title=directory.name, verdict="UNKNOWN", body=Markup())

    monkeypatch.setattr(sites, "campaign_page", page_of)
    write(tmp_path / "campaign.json", {"spec": {}, "digest": "d"})
    write(tmp_path / "findings/campaign-1.json", finding_document())
    site = site_of(tmp_path)
    assert keys_of(site) == ["campaign", "finding-campaign-1"]
    assert site.verdict == "UNKNOWN"


def test_findings_of_one_defect_follow_those_of_others(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1", "product-2"))
    write(tmp_path / "findings/aaa.json", finding_document(sentence="another one"))
    site = site_of(tmp_path)
    assert keys_of(site) == ["run-0001", "finding-product-1", "finding-aaa", "finding-product-2"]
    assert "product-2.json" in site.pages[1].body
    assert [page.group for page in site.pages[1:]] == ["Findings", "Findings of earlier runs", "Findings"]


def test_a_finding_that_the_newest_run_did_not_see_again_is_of_an_earlier_one(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    write_run(tmp_path, 2, run_document(phase_document("product")))
    site = site_of(tmp_path)
    assert [(page.key, page.group) for page in site.pages] == [
        ("run-0002", "Runs"),
        ("run-0001", "Runs"),
        ("history", "Runs"),
        ("finding-product-1", "Findings of earlier runs"),
    ]
    assert site.verdict == "VALID"


def test_the_newest_run_of_each_table_has_a_page_and_few_of_the_older_ones(tmp_path: Path) -> None:
    write_run(tmp_path, 1, VALID_RUN | {"target": "quiet"})
    for number in range(2, RUN_PAGES_MAX + 5):
        write_run(tmp_path, number, VALID_RUN)
    keys = keys_of(site_of(tmp_path))
    assert keys[:3] == [f"run-{RUN_PAGES_MAX + 4:04}", "run-0001", f"run-{RUN_PAGES_MAX + 3:04}"]
    assert len(keys) == RUN_PAGES_MAX


@pytest.mark.parametrize(
    ("documents", "verdict"),
    [
        ({"runs/run-0001.json": VALID_RUN}, "VALID"),
        ({"runs/run-0001.json": run_document(phase_document("power", "UNKNOWN"))}, "UNKNOWN"),
        ({"runs/run-0001.json": invalid_run("product-1")}, "INVALID"),
        ({"runs/run-0001.json": VALID_RUN, "t.json": damaged_verify_document()}, "INVALID"),
        ({"runs/run-0001.json": VALID_RUN, "t.json": verify_document()}, "VALID"),
        ({"runs/run-0001.json": VALID_RUN, "other.json": {}}, "VALID"),
        ({"runs/run-0001.json": VALID_RUN, "runs/run-0002.json": {}}, "UNKNOWN"),
        ({"runs/run-0001.json": VALID_RUN, "t.json": verify_document(sound=False)}, "UNKNOWN"),
        ({"runs/run-0001.json": VALID_RUN, "findings/product-1.json": finding_document()}, "VALID"),
        ({"findings/product-1.json": finding_document()}, "INVALID"),
    ],
)
def test_the_verdict_is_the_worst_of_the_newest_results(
    tmp_path: Path, documents: dict[str, Any], verdict: str
) -> None:
    for name, document in documents.items():
        write(tmp_path / name, document)
    assert site_of(tmp_path).verdict == verdict


def test_a_finding_whose_page_cannot_be_made_is_left_out_aloud(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1"))
    broken = write(tmp_path / "findings/product-1.json", finding_document({"lanes": "none"}))
    site = site_of(tmp_path)
    assert keys_of(site) == ["run-0001", "left-out"]
    (notice,) = site.notices
    assert notice.startswith(f"cannot be read: {broken}: evidence.explanation.lanes: expected a list")
    assert "#finding-product-1" not in site.html
    assert "product-1.json" in site.pages[1].body


def test_a_report_that_would_be_too_large_lists_the_findings_that_have_no_page(tmp_path: Path) -> None:
    stems = [f"product-{number:03}" for number in range(80)]
    write_run(tmp_path, 1, invalid_run(*stems))
    narrative = ["Because " + "the same reason, " * 70] * 40
    for number, stem in enumerate(stems):
        sentence = f"reader {'x' * number}: no answer"
        write(tmp_path / f"findings/{stem}.json", finding_document({"narrative": narrative}, sentence=sentence))
    site = site_of(tmp_path)
    size_bytes = len(site.html.encode())
    shown = [key for key in keys_of(site) if key.startswith("finding-")]
    assert DOCUMENT_BYTES_MAX * 0.8 < size_bytes <= DOCUMENT_BYTES_MAX
    assert len(shown) + len(site.notices) == len(stems)
    assert site.notices[0].removeprefix("has no page, because the report would be too large: ") in site.pages[-1].body
    assert f"{len(site.notices) - NAMES_SHOWN} more" in site.pages[-1].body
    assert (
        site.notices[-1] == f"has no page, because the report would be too large: {tmp_path}/findings/product-079.json"
    )
    assert site.verdict == "INVALID"


def test_a_page_that_has_no_room_still_counts_for_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.reports.omissions.DOCUMENT_BYTES_MAX", 0)
    write(tmp_path / "trades.json", damaged_verify_document())
    site = site_of(tmp_path)
    assert keys_of(site) == ["left-out"]
    assert site.verdict == "INVALID"
    assert 'failures="1"' in site.junit


def test_hostile_texts_everywhere_fit_and_are_text(tmp_path: Path) -> None:
    name = "&" * 200 + ".json"
    for number in range(60):
        (tmp_path / f"{number:02}{name}").write_text("{")
        (tmp_path / f"{number:02}x{name}").write_text("[]")
    write_run(tmp_path, 1, invalid_run("product-1", target=HOSTILE))
    site = site_of(tmp_path)
    assert len(site.html.encode()) <= DOCUMENT_BYTES_MAX
    assert site.html.count("<script") == 1
    assert site.verdict == "INVALID"


def test_the_same_results_make_the_same_bytes(tmp_path: Path) -> None:
    write_run(tmp_path, 1, invalid_run("product-1", "product-2"))
    write(tmp_path / "trades.json", verify_document())
    first, second = site_of(tmp_path), site_of(tmp_path)
    assert (first.html, first.junit) == (second.html, second.junit)


def test_nothing_to_report_on_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="expected results of check, verify or campaign, or findings, found none"):
        site_of(tmp_path)
    write(tmp_path / "other.json", {})
    with pytest.raises(ResultError, match="found 1 JSON files of other kinds"):
        site_of(tmp_path)
    (tmp_path / "check.json").write_text("{")
    with pytest.raises(ResultError, match=r"check\.json: the document: expected JSON"):
        site_of(tmp_path)
