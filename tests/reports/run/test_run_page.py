"""The page of a run: what it says first, its denominators, and what it makes of documents that nobody should trust."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from markupsafe import Markup
from page_text import text_of
from run_documents import HOSTILE, invalid_run, listed, phase_document, run_document

from tornproof.reports.kit.dedupe import folded
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import Page
from tornproof.reports.run.document import Run, run_of
from tornproof.reports.run.page import damage_of, run_page, verdict_sentence
from tornproof.reports.run.trend import RUNS_SHOWN, trend_of


def run_from(document: Any, number: int = 7) -> Run:
    return run_of(document, file=f"out/runs/run-{number:04}.json", name=f"run {number}", key=f"run-{number:04}")


def page_of(document: Any, links: dict[str, str] | None = None) -> Page:
    return run_page(run_from(document), trend=Markup("<p>the trend</p>"), links=links or {})


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (run_document(phase_document()), "Nothing was found by 1 phase, each explored to the end of its bound."),
        (
            run_document(phase_document(), phase_document("crash", complete=False)),
            "Nothing was found by 2 phases: 1 explored to the end of the bound, the others a sample.",
        ),
        (
            run_document(phase_document(), phase_document("crash", "UNKNOWN"), phase_document("power", "UNKNOWN")),
            "Nothing was found, but crash and power of 3 phases gave no verdict.",
        ),
        (run_document(), "No phase was run."),
        (invalid_run("product-1"), "1 finding violates 1 property."),
        (invalid_run("product-1", "product-2"), "2 findings of 1 kind violate 1 property."),
    ],
)
def test_the_verdict_is_one_sentence_with_its_denominators(document: Any, sentence: str) -> None:
    assert verdict_sentence(run_from(document)) == sentence
    page = page_of(document)
    assert (page.verdict, page.group, page.key) == (document["verdict"], "Runs", "run-0007")
    assert text_of(page.body).startswith(sentence)


def test_a_phase_has_its_speed_its_bound_its_points_and_its_test_cases() -> None:
    reached = {"a reader saw two versions": 0, "a reader saw the last version": 351}
    test_cases = {"append": {"explored": 1_150, "complete": False, "bound": "cut by the time"}}
    text = text_of(page_of(run_document(phase_document(reached=reached, test_cases=test_cases))).body)
    assert "schedules ✓ VALID 1,200 yes 4.0 300 1 of 2 passed 0" in text
    assert "Bound. 2 commits x 1 reader" in text
    assert "✗ never a reader saw two versions 351 × a reader saw the last version" in text
    assert "1 test case begun, 0 explored to the end" in text
    assert "append 1,150 no cut by the time" in text
    assert "reduced schedules 31" in text


def test_a_phase_that_took_no_time_has_no_speed() -> None:
    assert "not measured" in text_of(page_of(run_document(phase_document(seconds=0))).body)


def test_what_is_missing_to_a_full_answer_stands_in_front() -> None:
    silent = text_of(page_of(run_document(phase_document())).body)
    phase = phase_document("power", "UNKNOWN", note="the time was over", controls="FAILED: no torn write was found")
    text = text_of(page_of(run_document(phase)).body)
    assert "power : the time was over power : positive controls: FAILED: no torn write was found" in text
    assert "✗ FAILED: no torn write was found" in text
    assert "What is missing" not in silent


def test_exposures_are_named_and_none_is_not() -> None:
    exposed = page_of(run_document(phase_document(exposures={"data.parquet page": 12, "_txn": 0}))).body
    assert "in bytes without a checksum: 12 in data.parquet page" in text_of(exposed)
    assert (
        "Undetectable corruption" not in page_of(run_document(phase_document(exposures={"data.parquet page": 0}))).body
    )


def test_damage_of_all_partitions_is_added_up_field_by_field() -> None:
    fields = {
        "2024-01-01.1/_pm": {"CHECKSUM": {"rejected": 4}, "padding": {"harmless": 2, "odd": 1}},
        "2024-01-02.1/_pm": {"CHECKSUM": {"rejected": 5, "rollback": 1}},
    }
    document = run_document(phase_document("damage", fields=fields))
    damage = damage_of(run_from(document).phases[0])
    assert list(damage.outcomes) == ["rejected", "harmless", "rollback", "silent", "odd"]
    assert damage.rows == [("_pm", "CHECKSUM", [9, 0, 1, 0, 0]), ("_pm", "padding", [0, 2, 0, 0, 1])]
    assert damage.totals == [9, 2, 1, 0, 1]
    assert "_pm CHECKSUM 9 0 1 0 0" in text_of(page_of(document).body)


def test_findings_stand_below_their_property_and_lead_to_their_pages() -> None:
    body = page_of(
        invalid_run("product-1", "product-2", "product-3"),
        {"product-1": "finding-product-1", "product-3": "finding-product-3"},
    ).body
    assert re.search(r"<h4>a reader gets an answer</h4>\s*<ul>\s*<li><a href=\"#finding-product-1\">", body)
    assert "and 2 like it" in body
    assert '<a href="#finding-product-3">' in body
    assert "#finding-product-2" not in body and "no page: <code>findings/product-2.json</code>" in body


def test_findings_that_differ_in_more_than_numbers_or_in_the_property_are_not_folded() -> None:
    listings = (
        listed("a", sentence="found at byte 1"),
        listed("b", sentence="found at byte 22"),
        listed("c", sentence="found at page 1"),
        listed("d", sentence="found at byte 1", property="another"),
    )
    run = run_from(run_document(phase_document("product", "INVALID"), findings=listings))
    assert [[each.stem for each in fold.all] for fold in folded(run.findings)] == [["a", "b"], ["c"], ["d"]]


def test_the_newest_run_has_the_trend_and_the_others_lead_to_it() -> None:
    first = run_from(run_document(phase_document(explored=10)), 1)
    second = run_from(run_document(phase_document(explored=20), phase_document("memory", explored=7)), 2)
    trend = trend_of([first, second])
    newest = trend.markup(second, {second.key})
    assert newest.count("<svg") == 1
    assert "run 2 ✓ VALID 0 8.0 20 7 run 1 ✓ VALID 0 4.0 10 not run" in text_of(newest)
    assert '<a href="#run-0002">run 2</a>' in newest and "#run-0001" not in newest
    assert '<a href="#run-0002">run 2</a> is newer' in trend.markup(first, {first.key, second.key})
    assert trend.markup(second, ()) == trend_of([first, second]).markup(second, ())


def test_one_run_has_no_trend_and_of_many_the_last_are_shown() -> None:
    (run,) = [run_from(run_document(phase_document()))]
    assert "There is no other run" in trend_of([run]).markup(run, ())
    runs = [run_from(run_document(phase_document()), number) for number in range(1, RUNS_SHOWN + 4)]
    text = text_of(trend_of(runs).markup(runs[-1], ()))
    assert "3 older runs are not shown" in text and "run 4 " in text and "run 3 " not in text


def hostile_run() -> dict[str, Any]:
    phase = phase_document(
        HOSTILE,
        "INVALID",
        bound=HOSTILE,
        note=HOSTILE,
        controls=HOSTILE,
        counts={HOSTILE: 1},
        exposures={HOSTILE: 1},
        reached={HOSTILE: 1},
        fields={HOSTILE: {HOSTILE: {HOSTILE: 1}}},
        test_cases={HOSTILE: {"explored": 1, "complete": True, "bound": HOSTILE}},
    )
    finding = {"file": HOSTILE, "property": HOSTILE, "phase": HOSTILE, "sentence": HOSTILE}
    return run_document(phase, findings=(finding,), target=HOSTILE, preset=HOSTILE)


def test_names_and_sentences_that_are_scripts_are_text() -> None:
    page = page_of(hostile_run())
    runs = [run_from(hostile_run(), number) for number in (1, 2)]
    body = page.body + trend_of(runs).markup(runs[1], ())
    assert "<script" not in body and "&lt;script&gt;" in body
    assert "\x1b" not in body and "\u202e" not in body


def test_long_lists_and_long_texts_are_cut_and_say_so() -> None:
    test_cases = {f"s{number}": {"explored": 1, "complete": True, "bound": "b" * 10_000} for number in range(1_000)}
    page = page_of(run_document(phase_document(test_cases=test_cases, note="n" * 10_000_000)))
    assert "600 more are not listed" in page.body and "(9,998,000 more characters)" in page.body
    assert len(page.body) < 1_200_000


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "the document: expected an object, found a list of 0"),
        (run_document(phase_document()) | {"format": 9}, "format: expected 1 or 2, found 9"),
        (run_document(phase_document()) | {"verdict": "FINE"}, "verdict: expected VALID or UNKNOWN or INVALID, found"),
        (run_document(phase_document()) | {"verdict": "INVALID"}, "verdict: expected VALID, as its phases say"),
        (run_document(phase_document(explored=-1)), "phases[0].explored: expected a count, found the number -1"),
        (run_document(phase_document(explored=1 << 70)), "phases[0].explored: expected a count, found the number"),
        (run_document(phase_document(seconds="4")), "phases[0].seconds: expected a number of seconds, found the text"),
        (run_document(phase_document(seconds=float("nan"))), "phases[0].seconds: expected a number of seconds"),
        (run_document(phase_document(reached={"x": "y"})), "phases[0].reached.x: expected a whole number, found the"),
        (
            run_document(phase_document(fields={"_pm": 3})),
            "phases[0].fields._pm: expected an object, found",
        ),
    ],
)
def test_a_document_that_is_none_of_a_run_is_one_sentence(document: Any, sentence: str) -> None:
    with pytest.raises(ResultError) as raised:
        run_from(document)
    assert str(raised.value).startswith(f"out/runs/run-0007.json: {sentence}")


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


@pytest.mark.parametrize("value", [None, True, -1, 1.5, 1e300, "", "\ud800", [], [[]], {}, {"x": {"y": []}}])
def test_no_value_in_any_place_does_more_than_end_in_one_sentence(value: Any) -> None:
    test_cases = {"append": {"explored": 1, "complete": False, "bound": "b"}}
    phase = phase_document("product", "INVALID", test_cases=test_cases, fields={"_pm": {"CHECKSUM": {"rejected": 1}}})
    document = run_document(phase, findings=(listed("product-1"),))
    rejected = 0
    for *parents, last in paths_of(document):
        changed = json.loads(json.dumps(document))
        position = changed
        for parent in parents:
            position = position[parent]
        position[last] = value
        try:
            assert page_of(changed).body
        except ResultError as error:
            assert "\n" not in str(error)
            rejected += 1
    assert rejected > 10


def test_a_run_of_format_1_shows_its_test_cases() -> None:
    old = phase_document()
    old["situations"] = {"merge": {"explored": 3, "complete": True, "bound": "all of it"}}
    del old["test_cases"]
    assert "all of it" in text_of(page_of(run_document(old, format=1)).body)
