"""The report on a folder of results: all its pages as one HTML file of bounded size, and JUnit XML."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tornproof.reports.campaign.data import Sums
from tornproof.reports.campaign.page import campaign_page
from tornproof.reports.faults.page import faults_page
from tornproof.reports.finding.page import finding_page
from tornproof.reports.folder import FindingFile, Folder, results_in
from tornproof.reports.junit import junit_of
from tornproof.reports.kit.dedupe import Fold, folded
from tornproof.reports.kit.json_fields import ResultError, read_document
from tornproof.reports.kit.page import Page, as_document, fits, worst
from tornproof.reports.omissions import LeftOut, Room
from tornproof.reports.run.document import Run
from tornproof.reports.run.history import history_page
from tornproof.reports.run.page import run_page
from tornproof.reports.run.trend import Trend, trend_of
from tornproof.reports.table.page import table_page

TITLE = "tornproof report"
Translate: TypeAlias = Callable[[Any], Any]
EARLIER = "Findings of earlier runs"
RUN_PAGES_MAX = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A report: `results` are the pages of the campaign and of tables, `notices` sentences on omissions."""

    folder: Folder
    pages: Sequence[Page]
    results: Sequence[Page]
    findings: Sequence[Fold[FindingFile]]
    notices: Sequence[str]
    verdict: str
    html: str
    junit: str


def as_it_is(document: Any) -> Any:
    """Return a document that needs no translation."""
    return document


def no_sums(directory: Path) -> Sums:
    """Return no sums, for a folder that is not that of a campaign."""
    return {}


def site_of(directory: Path, *, translate: Translate = as_it_is, sums: Callable[[Path], Sums] = no_sums) -> Site:
    """Return the report on a folder; raises ResultError if there is nothing to report.

    `translate` returns a finding of an older format in the present one, `sums` those of a campaign's results.
    """
    folder = _filled(directory)
    left_out = LeftOut(damaged=folder.damaged, foreign=folder.foreign)
    room = Room(TITLE, left_out)
    trends = _trends(folder)
    runs = _runs_with_page(folder, trends, room)
    results = _results(folder, room, sums)
    result_pages = [page for file, page in results.items() if room.admits(file, page)]
    folds = folded(_in_order(folder))
    # With all links it is larger than it will be.
    history = history_page(folder.runs, {finding.stem: finding.key for finding in folder.findings})
    has_history = history is not None and room.admits("the history of findings", history)
    finding_pages = _finding_pages(folder, folds, room, translate)
    links = {stem: page.key for stem, page in finding_pages.items()}
    keys = {run.key for run in runs}
    run_pages = [run_page(run, trend=trends[run.series].markup(run, keys), links=links) for run in runs]
    history = history_page(folder.runs, links)
    run_pages += [history] if history is not None and has_history else []
    # Without runs, the campaign or table comes before its findings.
    middle = [*finding_pages.values(), *result_pages] if runs else [*result_pages, *finding_pages.values()]
    pages = [*run_pages, *middle, *left_out.pages()]
    html = as_document(TITLE, pages)
    assert fits(html), "the pages exceed the size limit"
    return Site(
        folder=folder,
        pages=pages,
        results=list(results.values()),
        findings=folds,
        notices=left_out.notices(),
        verdict=_verdict(folder, list(results.values()), left_out),
        html=html,
        junit=junit_of(folder, list(results.values()), left_out.damaged),
    )


def _filled(directory: Path) -> Folder:
    """Return the contents of a folder; raises ResultError if there are none."""
    folder = results_in(directory)
    if folder.is_empty and folder.damaged:
        raise folder.damaged[0]
    if folder.is_empty:
        actual = f"{len(folder.foreign)} JSON files of other kinds" if folder.foreign else "none"
        expected = "results of check, verify or campaign, or findings"
        raise ResultError(file=str(directory), field="the folder", expected=expected, actual=actual)
    return folder


def _trends(folder: Folder) -> dict[tuple[str, str], Trend]:
    """Return the trend of the runs of each table and preset."""
    series: dict[tuple[str, str], list[Run]] = {}
    for run in folder.runs:
        series.setdefault(run.series, []).append(run)
    return {each: trend_of(runs) for each, runs in series.items()}


def _runs_with_page(folder: Folder, trends: Mapping[tuple[str, str], Trend], room: Room) -> list[Run]:
    """Return the newest run of each table and preset, and the newest of the others, as far as they fit."""
    newest = folder.newest_runs
    keys = {run.key for run in newest}
    older = [run for run in reversed(folder.runs) if run.key not in keys]
    wanted = [*newest, *older[: max(0, RUN_PAGES_MAX - len(newest))]]
    keys = {run.key for run in wanted}

    def largest(run: Run) -> Page:
        # Links to runs take space; a finding takes less space with a link than without one.
        return run_page(run, trend=trends[run.series].markup(run, keys), links={})

    return [run for run in wanted if room.take(run.file, partial(largest, run)) is not None]


def _results(folder: Folder, room: Room, sums: Callable[[Path], Sums]) -> dict[str, Page]:
    """Return the pages of the campaign and of the newest result of each table, by their files."""
    pages = {}
    if folder.is_campaign:
        pages[str(folder.directory)] = room.made(lambda: campaign_page(folder.directory, sums(folder.directory)))
    if folder.trials is not None:
        pages[str(folder.trials)] = room.made(partial(faults_page, folder.trials))
    for table in folder.newest_tables:
        pages[table.file] = room.made(partial(table_page, table.document, key=table.key, file=table.file))
    return {file: page for file, page in pages.items() if page is not None}


def _in_order(folder: Folder) -> list[FindingFile]:
    """Return the findings of the newest runs first, in their order, and those that no run lists last."""
    by_stem = {finding.stem: finding for finding in reversed(folder.findings)}
    listed = [each.stem for run in (*folder.newest_runs, *reversed(folder.runs)) for each in run.findings]
    keys = {by_stem[stem].key: by_stem[stem] for stem in listed if stem in by_stem}
    return list((keys | {finding.key: finding for finding in folder.findings}).values())


def _finding_pages(
    folder: Folder, folds: Sequence[Fold[FindingFile]], room: Room, translate: Translate
) -> dict[str, Page]:
    """Return the pages of findings by the names of their files: one of each defect first, as far as they fit."""
    current = {each.stem for run in folder.newest_runs for each in run.findings}
    current |= {finding.stem for finding in folder.campaign_findings}
    pages: dict[str, Page] = {}
    chosen = [(fold.first, [other.file for other in fold.others]) for fold in folds]
    chosen += [(other, []) for fold in folds for other in fold.others]
    for finding, others in chosen:
        page = room.take(finding.file, partial(_finding_page, finding, others, translate))
        if page is not None:
            is_earlier = bool(folder.runs) and finding.stem not in current
            pages[finding.stem] = dataclasses.replace(page, group=EARLIER) if is_earlier else page
    return pages


def _finding_page(finding: FindingFile, others: Sequence[str], translate: Translate) -> Page:
    return finding_page(translate(read_document(finding.path)), file=finding.file, key=finding.key, folded=others)


def _verdict(folder: Folder, results: Sequence[Page], left_out: LeftOut) -> str:
    """Return the worst verdict of the newest results; UNKNOWN at best if a result is unreadable."""
    verdicts = [run.verdict for run in folder.newest_runs] + [page.verdict for page in results]
    if left_out.damaged:
        verdicts.append("UNKNOWN")
    if folder.findings and not folder.runs and not folder.is_campaign:
        verdicts.append("INVALID")
    return worst(verdicts)
