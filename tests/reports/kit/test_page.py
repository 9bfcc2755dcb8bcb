"""Pages as one HTML file: escaped, self-contained, guarded by a policy, and the same for the same pages."""

import base64
import hashlib
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from tornproof.reports.kit.page import DOCUMENT_BYTES_MAX, Page, as_document, as_key, fill, fits, templates

TEMPLATES = Path(__file__).parents[3] / "reports" / "kit" / "templates"


def page(key: str = "run-0001", group: str = "Runs", title: str = "Run", verdict: str = "") -> Page:
    return Page(key=key, group=group, title=title, verdict=verdict, body=Markup("<p>body</p>"))


def test_titles_and_groups_are_escaped(hostile: str) -> None:
    document = as_document(hostile, [page(group=hostile, title=hostile)])
    assert "<img" not in document
    assert document.count("<script>") == 1


def test_what_fills_a_gap_is_escaped_unless_it_is_markup(hostile: str) -> None:
    parts = templates().from_string('{% import "parts.html.j2" as parts %}{{ parts.command(line) }}')
    assert "<img" not in parts.render(line=hostile)
    assert "<img" in parts.render(line=Markup("<img>"))


def test_a_gap_that_nobody_fills_is_rejected() -> None:
    with pytest.raises(UndefinedError):
        fill("document.html.j2")


def test_the_policy_allows_the_one_script_of_the_document_and_nothing_from_elsewhere() -> None:
    document = as_document("Title", [page()])
    (script,) = re.findall(r"<script>(.*?)</script>", document, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in document
    assert not re.search(r'(src|href)="(?!#|data:,")', document)
    assert "@import" not in document


def test_every_style_and_script_of_the_templates_is_in_the_document() -> None:
    document = as_document("Title", [page()])
    for suffix, first in ((".css", "style.css"), (".js", "script.js")):
        files = sorted(TEMPLATES.glob(f"*{suffix}"), key=lambda file: (file.name != first, file.name))
        positions = [document.index(file.read_text(encoding="utf-8").rstrip("\n")) for file in files]
        assert positions == sorted(positions)


def test_the_same_pages_make_the_same_document() -> None:
    pages = [page(), page(key="campaign", group="Campaign")]
    assert as_document("Title", pages) == as_document("Title", pages)


def test_pages_stand_in_the_order_in_which_they_are_listed() -> None:
    pages = [page("run-1"), page("finding-1", "Findings"), page("run-2")]
    document = as_document("Title", pages)
    assert re.findall(r'<article class="page" id="(.*?)"', document) == ["run-1", "run-2", "finding-1"]
    assert re.findall(r'<li><a href="#(.*?)"', document) == ["run-1", "run-2", "finding-1"]
    assert re.findall(r'rel="next" href="#(.*?)"', document) == ["run-2", "finding-1"]


def test_a_document_without_pages_is_a_document() -> None:
    assert "0 pages" in as_document("Title", [])


def test_halves_of_characters_do_not_keep_a_document_from_its_file() -> None:
    document = as_document("half \ud800", [page(title="\udcff half")])
    assert "half \ufffd" in document
    assert document.encode().decode() == document


def test_a_key_is_safe_in_an_address_and_different_for_different_words() -> None:
    assert as_key("finding", "damage-12.b_c") == "finding-damage-12.b_c"
    strange = ["a b", "a  b", 'a"b', "ä", "\ud800", "", "../a", "<b>", "-"]
    keys = [as_key("finding", name) for name in strange]
    assert len(set(keys)) == len(keys)
    assert all(page(key=key).key == key for key in keys)


@pytest.mark.parametrize("key", ["", "a b", 'a"', "ä", "#a", "a\n"])
def test_a_page_rejects_a_key_that_is_not_safe(key: str) -> None:
    with pytest.raises(AssertionError, match="is no key"):
        page(key=key)


def test_a_page_rejects_a_verdict_that_is_none() -> None:
    with pytest.raises(AssertionError, match="MAYBE"):
        page(verdict="MAYBE")
    assert page(verdict="UNKNOWN").verdict == "UNKNOWN"


def test_a_document_fits_up_to_the_bound_and_not_beyond() -> None:
    assert fits("ä" * (DOCUMENT_BYTES_MAX // 2))
    assert not fits("ä" * (DOCUMENT_BYTES_MAX // 2) + "a")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (9_999, "9,999 bytes"),
        (10_000, "9.8 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (9 << 50, "9,216.0 TiB"),
    ],
)
def test_sizes_are_exact_while_short_and_rounded_beyond(size_bytes: int, text: str) -> None:
    assert templates().from_string("{{ size | bytes }}").render(size=size_bytes) == text
