"""The history of findings over many runs: when each was seen first and last, and whether it is still there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tornproof.reports.kit.dedupe import Fold, folded
from tornproof.reports.kit.json_fields import counted
from tornproof.reports.kit.page import Page, fill
from tornproof.reports.run.document import Listed, Run

KEY = "history"
GROUP = "Runs"
ROWS_SHOWN = 1_000
RUNS_MARKED = 40
OPEN, GONE, UNASKED = "open", "gone", "not looked for"
SEEN, ABSENT, UNEXPLORED = "●", "○", "·"
"""The marks of a run: it found the defect, it looked and did not, its phases were not explored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A defect in the runs of one table and preset; `marks` has a sign for each of the last runs, the newest last."""

    violated: str
    sentence: str
    phases: str
    target: str
    preset: str
    file: str
    link: str
    first: str
    last: str
    count: int
    state: str
    marks: str


def history_page(runs: Sequence[Run], links: Mapping[str, str]) -> Page | None:
    """Return the page over all runs, the oldest first; None without two of one table and preset, or findings.

    `links` are the keys of the findings that have a page, by the names of their files.
    """
    series: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if not run.is_abandoned:
            series.setdefault(run.series, []).append(run)
    if all(len(each) < 2 for each in series.values()):
        return None
    rows = [row for each in series.values() for row in rows_of(each, links)]
    if not rows:
        return None
    rows.sort(key=lambda row: (row.state != OPEN, row.state != GONE))
    states = {state: sum(row.state == state for row in rows) for state in (OPEN, GONE, UNASKED)}
    body = fill(
        "history.html.j2",
        sentence=_sentence(len(rows), states, len(runs)),
        rows=rows[:ROWS_SHOWN],
        left_out_count=max(0, len(rows) - ROWS_SHOWN),
        choices={
            name: sorted({getattr(row, name) for row in rows}) for name in ("violated", "phases", "preset", "state")
        },
        signs=(SEEN, ABSENT, UNEXPLORED),
    )
    return Page(key=KEY, group=GROUP, title="History of findings", body=body)


def rows_of(runs: Sequence[Run], links: Mapping[str, str]) -> list[Row]:
    """Return a row for each defect of the runs of one table and preset, the newest defect first."""
    by_run = [(run, {id(finding) for finding in run.findings}) for run in runs]
    return [_row(fold, by_run, links) for fold in reversed(folded(each for run in runs for each in run.findings))]


def _row(fold: Fold[Listed], by_run: Sequence[tuple[Run, set[int]]], links: Mapping[str, str]) -> Row:
    findings = {id(finding) for finding in fold.all}
    phases = list(dict.fromkeys(finding.phase for finding in fold.all))
    marks = [_mark(run, bool(listed & findings), phases) for run, listed in by_run]
    seen = [run for (run, _), mark in zip(by_run, marks, strict=True) if mark == SEEN]
    newest = fold.all[-1]
    return Row(
        violated=newest.violated,
        sentence=newest.sentence,
        phases=", ".join(phases),
        target=seen[-1].target,
        preset=seen[-1].preset,
        file=newest.file,
        link=links.get(newest.stem, ""),
        first=seen[0].name,
        last=seen[-1].name,
        count=len(seen),
        state={SEEN: OPEN, ABSENT: GONE, UNEXPLORED: UNASKED}[marks[-1]],
        marks="".join(marks[-RUNS_MARKED:]),
    )


def _mark(run: Run, is_seen: bool, phases: Sequence[str]) -> str:
    if is_seen:
        return SEEN
    looked = any(phase.name in phases and phase.explored and phase.verdict != "UNKNOWN" for phase in run.phases)
    return ABSENT if looked else UNEXPLORED


def _sentence(row_count: int, states: Mapping[str, int], run_count: int) -> str:
    said = ", ".join(f"{count:,} {state}" for state, count in states.items() if count)
    return f"{counted(row_count, 'defect')} in {counted(run_count, 'run')}: {said}."
