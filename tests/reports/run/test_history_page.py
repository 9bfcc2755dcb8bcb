"""The history of findings: first and last seen, gone only where somebody looked, and no page without two runs."""

from typing import Any

import pytest
from page_text import text_of
from run_documents import listed, phase_document, run_document

from tornproof.reports.run.document import Run, run_of
from tornproof.reports.run.history import (
    ABSENT,
    GONE,
    OPEN,
    ROWS_SHOWN,
    SEEN,
    UNASKED,
    UNEXPLORED,
    history_page,
    rows_of,
)

TORN, LOST = "a reader is refused: token at byte {}", "a commit is lost"


def run(number: int, *sentences: str, phase: str = "power", preset: str = "hardened", **phases: Any) -> Run:
    findings = [
        {**listed(f"{phase}-{number}{index}"), "sentence": text, "phase": phase} for index, text in enumerate(sentences)
    ]
    phase_of = phase_document(phase, **{"verdict": "INVALID" if findings else "VALID", **phases})
    document = run_document(phase_of, findings=tuple(findings), preset=preset)
    return run_of(document, file=f"runs/run-{number:04}.json", name=f"run {number}", key=f"run-{number:04}")


def test_a_defect_has_its_first_and_last_run_and_is_open_or_gone() -> None:
    runs = [run(1), run(2, TORN.format(1)), run(3, TORN.format(22), LOST), run(4, LOST)]
    lost, torn = rows_of(runs, {"power-40": "finding-x"})
    assert (lost.first, lost.last, lost.count, lost.state, lost.link) == ("run 3", "run 4", 2, OPEN, "finding-x")
    assert (torn.first, torn.last, torn.count, torn.state, torn.link) == ("run 2", "run 3", 2, GONE, "")
    assert (torn.sentence, torn.marks) == (TORN.format(22), ABSENT + SEEN + SEEN + ABSENT)


@pytest.mark.parametrize(
    "last", [run(2, phase="schedules"), run(2, explored=0), run(2, verdict="UNKNOWN")], ids=["other", "none", "unknown"]
)
def test_where_nobody_looked_nothing_is_gone(last: Run) -> None:
    (row,) = rows_of([run(1, LOST), last], {})
    assert (row.state, row.marks) == (UNASKED, SEEN + UNEXPLORED)


def test_the_page_has_open_defects_first_and_can_be_filtered() -> None:
    page = history_page([run(1, TORN.format(1)), run(2, LOST), run(3, LOST, preset="other")], {})
    assert page is not None and page.title == "History of findings" and not page.verdict
    said = text_of(page.body)
    assert said.startswith("3 defects in 3 runs: 2 open, 1 gone.")
    assert said.index("a commit is lost") < said.index("token at byte 1")
    assert page.body.count("data-filter-row") == 3
    for name in ("violated", "phases", "preset", "state"):
        assert f'data-filter-by="{name}"' in page.body and f"data-{name}=" in page.body


def test_two_runs_that_cannot_be_compared_have_no_history_and_many_defects_are_bounded() -> None:
    assert history_page([run(1, LOST), run(2, LOST, preset="other")], {}) is None
    letters = ("".join(chr(97 + number // 26**power % 26) for power in range(3)) for number in range(ROWS_SHOWN + 5))
    page = history_page([run(1, *letters), run(2)], {})
    assert (
        page is not None and page.body.count("data-filter-row") == ROWS_SHOWN and "5 more are not listed" in page.body
    )
