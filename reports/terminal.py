"""A report's summary for a terminal: newest results, findings with their replay lines, and omissions."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tornproof.harness.common.shell_word import shell_word
from tornproof.reports.folder import FindingFile
from tornproof.reports.kit.dedupe import Fold, by_property
from tornproof.reports.kit.json_fields import counted
from tornproof.reports.run.document import Run
from tornproof.reports.run.page import reasons_of, verdict_sentence
from tornproof.reports.site import Site

STYLES = {"VALID": "bold green", "UNKNOWN": "bold yellow", "INVALID": "bold red"}
FINDINGS_SHOWN = 20
NOTICES_SHOWN = 10


def print_summary(console: Console, site: Site) -> None:
    """Print the newest results of a folder for a person."""
    for run in site.folder.newest_runs:
        _print_run(console, run)
    for page in site.results:
        _print_verdict(console, page.title, page.verdict)
    _print_findings(console, site)


def print_notices(console: Console, site: Site) -> None:
    """Print what is not in the report."""
    for notice in site.notices[:NOTICES_SHOWN]:
        console.print(Text.assemble(("left out ", "bold yellow"), notice), soft_wrap=True)
    if len(site.notices) > NOTICES_SHOWN:
        console.print(f"and {len(site.notices) - NOTICES_SHOWN:,} more, listed in the report")


def _print_run(console: Console, run: Run) -> None:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("phase")
    grid.add_column("explored", justify="right")
    grid.add_column("to the end")
    grid.add_column("seconds", justify="right")
    grid.add_column("per second", justify="right")
    grid.add_column("goals reached", justify="right")
    grid.add_column("verdict")
    for phase in run.phases:
        reached = len(phase.reached) - len(phase.never_reached)
        grid.add_row(
            Text(phase.name),
            f"{phase.explored:,}",
            "yes" if phase.complete else "no",
            f"{phase.seconds:.1f}",
            "-" if phase.per_second is None else f"{phase.per_second:,.1f}",
            f"{reached} of {len(phase.reached)}" if phase.reached else "-",
            Text(phase.verdict, STYLES[phase.verdict]),
        )
    console.print(grid)
    for phase_name, reason in reasons_of(run):
        console.print(f"{phase_name}: {reason}", markup=False)
    _print_verdict(console, f"{run.name}, {run.target}, {run.preset}", run.verdict, verdict_sentence(run))


def _print_verdict(console: Console, what: str, verdict: str, sentence: str = "") -> None:
    console.print(Text.assemble(f"{what}: ", (verdict, STYLES[verdict]), f": {sentence}" if sentence else ""))


def _print_findings(console: Console, site: Site) -> None:
    for violated, folds in by_property(site.findings[:FINDINGS_SHOWN]).items():
        console.print(Text.assemble(("violated ", "bold red"), violated))
        for fold in folds:
            _print_fold(console, fold)
    if len(site.findings) > FINDINGS_SHOWN:
        console.print(f"and {counted(len(site.findings) - FINDINGS_SHOWN, 'more finding')}, listed in the report")


def _print_fold(console: Console, fold: Fold[FindingFile]) -> None:
    more = f" (and {len(fold.others):,} like it)" if fold.others else ""
    console.print(f"  {fold.first.phase}: {fold.first.sentence}{more}", markup=False)
    console.print(f"    replay: tornproof replay {shell_word(fold.first.file)}", markup=False, soft_wrap=True)
