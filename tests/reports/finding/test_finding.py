"""The page of a finding: it names the cause, and shows what it can of any document or says what is wrong with it."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from finding_documents import DECISION, HOSTILE, SEEN, explanation_document, finding_document, lane_row
from page_text import text_of
from random_runs import found, toy_case

from tornproof.cli.findings import finding_document as document_of_finding
from tornproof.harness.simulator.process.case import Readers
from tornproof.harness.systems.toy import HeaderFirst
from tornproof.reports.finding.page import finding_page
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import as_document


def body_of(document: dict[str, Any], file: str = "findings/a.json", folded: tuple[str, ...] = ()) -> str:
    return str(finding_page(document, file=file, key="finding-a", folded=folded).body)


def section(body: str, heading: str) -> str:
    """Return the text from a heading to the next one of its level."""
    start = body.index(f"<h3>{heading}</h3>")
    return text_of(body[start : body.find("<h3>", start + 1)])


def test_the_page_is_listed_by_its_failure() -> None:
    document = finding_document()
    page = finding_page(document, file="findings/a.json", key="finding-a")
    assert page.title.lower() == document["sentence"].lower() and page.title[0].isupper()
    assert (page.key, page.group, page.verdict) == ("finding-a", "Findings", "INVALID")


def test_the_head_says_what_is_broken_and_what_the_client_has_instead() -> None:
    said = text_of(body_of(finding_document({"broken": "a reader gets an answer (torn read)"})))
    assert SEEN in finding_document()["sentence"]
    assert said.startswith("Violated: a reader gets an answer (torn read).")
    long = finding_document() | {"sentence": "a long word " * 30}
    assert text_of(body_of(long)).startswith("a long word a long word") and finding_page(
        long, file="a.json", key="a"
    ).title.endswith("more characters)")


def test_what_prevents_it_is_said_with_the_number_of_changes_tried() -> None:
    passes_when = {"tried": 9, "enough": 1, "changes": [{"text": "<b> is synced before: c", "kind": "sync b"}]}
    cause = section(body_of(finding_document({"passes_when": passes_when})), "The cause")
    assert "It does not happen when <b> is synced before: c." in cause
    assert "9 small changes of the run tried, each by a replay; 1 enough." in cause
    none = section(body_of(finding_document({"passes_when": {"tried": 1, "enough": 0}})), "The cause")
    assert "None of the small changes of the run that were tried prevents it. 1 small change of" in none
    assert "prevents it" not in section(body_of(finding_document()), "The cause")


def test_a_finding_of_the_state_machine_begins_with_what_is_wrong_first() -> None:
    changes = [{"text": "a new writer makes the last commit", "kind": ""}]
    passes_when = {"tried": 2, "enough": 1, "changes": changes}
    why: dict[str, Any] = {"cause": "the commit leaves a wrong <file>", "kind": "", "passes_when": passes_when}
    said = text_of(body_of({**finding_document(), "evidence": {"why": why}}).partition("<dl")[0])
    assert "Cause: the commit leaves a wrong <file>." in said
    assert "It does not happen when a new writer makes the last commit. 2 small changes" in said
    why["passes_when"] = {"tried": 0, "enough": 0, "changes": []}
    said = text_of(body_of({**finding_document(), "evidence": {"why": why}}).partition("<dl")[0])
    assert said.endswith("wrong <file>.")


def test_what_a_finding_is_like_is_said_with_where_it_is_described() -> None:
    known = [{"name": "header before <body>", "where": "known-defects.md#header-before-body"}]
    said = text_of(body_of({**finding_document(), "known": known}).partition("<dl")[0])
    assert "Like “header before <body>”, which docs/known-defects.md#header-before-body describes" in said
    assert "Like “" not in body_of(finding_document())


def test_the_cause_is_what_was_done_what_came_between_and_what_was_still_to_do() -> None:
    cause = section(body_of(finding_document()), "The cause")
    assert "writer had done (in commit 0) store a word 2024-01-01T00/ _pm" in cause
    assert "Then this happened reader 1 goes on while writer stands in 'commit 0'" in cause
    assert "writer had not yet done (in commit 0) store a word _txn (number 2)" in cause


def test_the_cause_names_the_bytes_that_were_read_and_not_durable() -> None:
    cause = section(body_of(finding_document()), "The cause")
    assert "_pm 0–7 : PARQUET_META_FILE_SIZE (written)" in cause.replace("7:", "7 :")
    assert "600–647: orphan block (written)" in cause
    assert "388" not in cause


def test_the_narrative_begins_each_line_with_one_word() -> None:
    body = body_of(finding_document())
    start = body.index("finding-narrative")
    leads = re.findall(r"<dt>([^<]+)</dt>", body[start : body.index("</dl>", start)])
    assert leads == ["Let", "Then", "Because", "However", "Nearest run that passes"]


def test_the_line_to_copy_quotes_the_file() -> None:
    body = body_of(finding_document(), file="my findings/a'b.json")
    line = """tornproof replay 'my findings/a'"'"'b.json'"""
    assert f"<code>{line.replace(chr(39), '&#39;').replace(chr(34), '&#34;')}</code>" in body


def test_files_that_are_all_durable_come_behind_those_that_are_not() -> None:
    body = body_of(finding_document())
    assert body.index('aria-label="Bytes of 2024-01-01T00.0/_pm"') < body.index('aria-label="Bytes of _meta"')
    assert "<h3>The files at the violation</h3>" in body


def test_the_maps_after_a_crash_say_that_they_are_of_the_crash() -> None:
    lanes = [lane_row("writer", "writer", "commit 0", happens="power", is_decisive=True)]
    assert "<h3>The files at the crash</h3>" in body_of(finding_document({"lanes": lanes}))


def test_the_smallest_run_says_what_it_is_made_of_and_what_it_was() -> None:
    smallest = section(body_of(finding_document()), "The smallest run found")
    assert "The writer commits operation 0: writes rows, aborts before its version is stored." in smallest
    assert "1 reader of 2 reads each, opening the table each time." in smallest
    assert "1 operation of the 2 that the run had when it was found." in smallest
    assert "It is minimal" in smallest
    assert DECISION in smallest


def test_a_run_that_may_not_be_the_smallest_is_not_called_so() -> None:
    document = finding_document()
    document["evidence"]["shrunk"]["is_smallest"] = False
    smallest = section(body_of(document), "The smallest run found")
    assert "A smaller run may violate the property, too: shrinking stopped after 48 runs" in smallest


def test_the_nearest_run_that_passes_stands_beside_it() -> None:
    nearest = section(body_of(finding_document()), "The nearest run that passes")
    assert "in writer, commit 0, only the violating run has “store a word 2024-01-01T00/_pm”." in nearest


def test_a_run_without_a_passing_neighbour_says_so() -> None:
    document = finding_document({"neighbour": None, "cause": None, "decisions": []})
    body = body_of(document)
    assert "No run with one decision changed or removed passes." in body
    assert "No decision differs" in body
    assert "The cause" not in body


def test_findings_of_the_same_defect_are_listed() -> None:
    body = body_of(finding_document(), folded=tuple(f"findings/{number}.json" for number in range(60)))
    others = section(body + "<h3>", "Other findings of the same defect")
    assert "findings/49.json" in others
    assert "findings/50.json" not in others
    assert "10 more are left out." in others


def test_evidence_of_another_phase_is_shown_as_it_is() -> None:
    evidence = {
        "kills": [[3, 0]],
        "failure": {"step": 4},
        "loads": [{"at": 8, "value": 3}],
        "target": "table",
        "empty": [],
    }
    document = {"property": "rows survive", "phase": "crash", "sentence": "After a kill, rows are lost."}
    body = body_of({**document, "evidence": evidence})
    assert text_of(body).startswith("Violated: rows survive.")
    assert '<details class="finding-evidence" open>' in body
    assert "failure step 4 loads 1 at: 8; value: 3 target table" in text_of(body)
    assert "tornproof replay findings/a.json" in body


def test_evidence_that_tells_a_story_is_told_in_words() -> None:
    evidence = {"let": "a writer commit twice", "then": "the reader took version 3", "because": "its load was old"}
    document = finding_document(phase="memory", evidence=evidence)
    words = section(body_of(document), "In words")
    assert "Let a writer commit twice Then the reader took version 3 Because its load was old" in words


@pytest.mark.parametrize(
    ("evidence", "segment"),
    [
        ({"kind": "flip", "bit": 85}, "10–10 HEADER damaged"),
        ({"kind": "cut", "size_bytes": 90}, "90–99 HEADER cut off"),
        ({"kind": "pair", "bits": [{"file": "d/_pm", "bit": 85}, {"file": "x", "bit": 1}]}, "10–10 HEADER damaged"),
        ({"kind": "stale", "edits": [{"offset_bytes": 4, "content": "aabb"}]}, "4–5 HEADER damaged"),
    ],
)
def test_damage_is_shown_in_the_map_of_its_file(evidence: dict[str, Any], segment: str) -> None:
    packed = base64.b64encode(zlib.compress(bytes(100))).decode()
    evidence = {"file": "d/_pm", "field": "HEADER", "offset_bytes": 10, **evidence}
    document = finding_document(phase="damage", evidence=evidence, start_files={"d/_pm": packed})
    damaged = section(body_of(document) + "<h3>", "The damaged bytes")
    assert segment in damaged
    assert "100 bytes" in damaged


@pytest.mark.parametrize(
    "packed", ["", "no base64!", "aaaa", base64.b64encode(zlib.compress(bytes(32 << 20))).decode()]
)
def test_a_damaged_file_whose_size_is_not_cheap_to_know_has_no_map(packed: str) -> None:
    evidence = {"file": "_pm", "field": "HEADER", "kind": "flip", "bit": 8}
    document = finding_document(phase="damage", evidence=evidence, start_files={"_pm": packed})
    assert "The damaged bytes" not in body_of(document)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda document: document.pop("property"), "property"),
        (lambda document: document.update(sentence=7), "sentence"),
        (lambda document: document.update(evidence=[]), "evidence"),
        (lambda document: document.update(test_case="none"), "test_case"),
        (lambda document: document["evidence"].update(explanation=[1]), "evidence.explanation"),
        (lambda document: document["evidence"]["explanation"].update(lanes={}), "evidence.explanation.lanes"),
        (lambda document: document["evidence"]["explanation"]["lanes"].append(3), "evidence.explanation.lanes[3]"),
        (
            lambda document: document["evidence"]["explanation"]["lanes"][0].update(lane="x"),
            "evidence.explanation.lanes[0].lane",
        ),
        (
            lambda document: document["evidence"]["explanation"]["lanes"][1].update(does=[None]),
            "evidence.explanation.lanes[1].does[0]",
        ),
        (
            lambda document: document["evidence"]["explanation"]["files"][0].update(size_bytes=True),
            "evidence.explanation.files[0].size_bytes",
        ),
        (
            lambda document: document["evidence"]["explanation"].update(lanes=[["writer, open", "", ""]]),
            "evidence.explanation.lanes[0]",
        ),
    ],
)
def test_a_document_of_other_types_is_one_sentence_with_file_and_field(
    change: Callable[[dict[str, Any]], Any], field: str
) -> None:
    document = finding_document()
    change(document)
    with pytest.raises(ResultError, match=rf"^findings/a\.json: {re.escape(field)}: expected .+, found .+$"):
        body_of(document)


@pytest.mark.parametrize("name", sorted(explanation_document()))
def test_a_page_does_without_any_field_of_the_explanation(name: str) -> None:
    document = finding_document({name: None})
    assert "tornproof replay findings/a.json" in body_of(document)


def test_what_is_html_in_a_document_stays_text_wherever_it_is() -> None:
    def hostile(value: Any) -> Any:
        match value:
            case dict():
                return {name: each if name in ("lane", "happens") else hostile(each) for name, each in value.items()}
            case list():
                return [hostile(each) for each in value]
            case str():
                return value + HOSTILE
        return value

    body = body_of(hostile(finding_document()), folded=(HOSTILE,), file=HOSTILE)
    assert "<script" not in body
    assert body.count("&lt;script&gt;") > 50


def test_characters_that_turn_the_direction_of_text_are_shown_as_numbers() -> None:
    body = body_of(finding_document({"seen": "a\u202eb\x00"}, scenario="c\u2066d"))
    assert "a\\u202eb\\u0000" in body
    assert not re.search("[\u202e\u2066\x00]", body)


def test_a_huge_document_gives_a_page_of_bounded_size() -> None:
    long = "x" * 2_000
    row = lane_row("writer", long, long, *[long] * 20, ends=[long] * 5, disk=long)
    document = finding_document(
        {"lanes": [row] * 500, "narrative": [long] * 300, "seen": long, "decisions": [long] * 300}
    )
    document["evidence"]["more"] = [{"deep": [[[[[[long]]]]]]}] * 3000
    document["test_case"]["first_session"] = [0] * 3000
    body = body_of(document)
    assert len(body) < 1_000_000
    assert re.search(r"\d+ rows after these are left out\.", body)


def test_the_finding_of_a_real_run_names_the_step_that_did_the_harm() -> None:
    finding = found(toy_case(HeaderFirst(), readers=(Readers(),)))
    document = json.loads(json.dumps(document_of_finding(finding, "a toy", {})))
    body = body_of(document)
    explained = document["evidence"]["explanation"]
    done, not_yet = (explained["cause"][name].partition(": ")[2] for name in ("done_action", "not_yet_action"))
    cause = section(body, "The cause")
    for action in (done, not_yet):
        assert text_of(action).replace("(", "").replace(")", "") in cause
    assert f"It does not happen when {explained['passes_when']['changes'][0]['text']}." in cause
    assert body.count("Decisive step</p>") == 1
    assert "First difference" in body
    assert 'aria-label="Bytes of' in body


def test_the_page_has_no_serious_fault_for_those_who_cannot_see_it_and_playback_begins_at_the_decisive_step(
    open_report: Callable[..., Any], axe_violations: Callable[[Any], list[str]]
) -> None:
    document = finding_document()
    document["evidence"]["explanation"]["lanes"][1].update(happens="kill", disk="not durable: _txn")
    html_text = as_document("Findings", [finding_page(document, file="findings/a.json", key="finding-a")])
    page = open_report(html_text, theme="dark", width=390)
    assert axe_violations(page) == []
    assert page.locator("[aria-current=step]").get_attribute("data-text").startswith("Decisive step: reader 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_the_error_names_is_marked_values_are_shown_and_quiet_files_are_folded() -> None:
    def ranges(state: str, **more: Any) -> list[dict[str, Any]]:
        return [{"start": 0, "end": 8, "state": state, "field": "SIZE", **more}]

    files = [
        {"file": "a/_pm", "size_bytes": 8, "ranges": ranges("written", value="388 → 648"), "read": []},
        {"file": "b/_pm", "size_bytes": 8, "ranges": ranges("durable"), "read": []},
        {"file": "c/_pm", "size_bytes": 8, "ranges": ranges("durable"), "read": []},
    ]
    body = body_of(
        finding_document({"files": files, "seen": "CorruptError: b/_pm: SIZE at byte 4: expected 1, found 2"})
    )
    assert "SIZE 388 → 648" in text_of(body)
    assert body.count("named by the error") >= 1 and body.count("map-folded") == 1
    folded = body[body.index("map-folded") :]
    assert "<code>c/_pm</code>: nothing has changed in it" in folded and "named by the error" not in folded
