"""`tornproof check [TABLE]`: explore what corruption, kills, failing calls and concurrent readers do to a copy."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tornproof.api.captured import capture_until_stable
from tornproof.cli.check_report import Asked, check_document, print_check
from tornproof.cli.console import error_console, result_console
from tornproof.cli.findings import FINDINGS, save_findings
from tornproof.cli.numbers import CORES, seconds_within, seed_within, workers_within
from tornproof.cli.output import ExitCode, JsonOption, write_json
from tornproof.cli.preset_option import preset_named
from tornproof.cli.report_writing import FINDINGS_OF_REPORT, ReportOption, make_folder, save_run, write_report
from tornproof.harness.check import CheckQuestion, PhaseName, bounds_of, check_image
from tornproof.harness.common.effort import DEFAULT, EFFORT_MAX, EFFORTS, effort_of
from tornproof.harness.common.verdict import worst
from tornproof.harness.parallel.tasks import OnProgress, Progress
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.harness.systems.workload import MADE_PATH, made_image
from tornproof.impl.errors import UsageError

WIDTH = 80
RATE_SECONDS_MIN = 0.1
"""A shorter phase shows no rate."""


def _effort(text: str) -> int:
    effort = effort_of(text)
    if effort is None:
        raise typer.BadParameter(
            f"{text!r} is neither one of {', '.join(EFFORTS)} nor a number from 1 to {EFFORT_MAX:,}"
        )
    return effort


def check(
    table: Annotated[
        str | None,
        typer.Argument(help="Directory of a table; a copy of it is explored. A small new table by default."),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            parser=_effort,
            metavar="|".join((*EFFORTS, "N")),
            help="How many cases are tried: multiplies the bounds of `small`.",
        ),
    ] = DEFAULT,  # type: ignore[assignment]  # the parser turns it into a number
    seconds: Annotated[
        float | None,
        typer.Option(callback=seconds_within(), help="Time limit; what it cuts off is missing from the bounds."),
    ] = None,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this phase; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(callback=seed_within(), help="Random seed, for the phases that sample.")] = 0,
    workers: Annotated[
        int, typer.Option(callback=workers_within(), help="Number of worker processes; the result is the same.")
    ] = CORES,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="Explore the protocol of another release, in the simulator.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Explore only this scenario; may be repeated.")
    ] = None,
    findings: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for findings, if there are any.",
            show_default=f"{FINDINGS}, with --report its DIR/{FINDINGS_OF_REPORT}",
        ),
    ] = None,
    bounds: Annotated[
        bool,
        typer.Option("--bounds", help="Also print what each phase covered, and the outcome of corruption by field."),
    ] = False,
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Explore a copy of a table: flipped bits, commits beside readers, kills at every step, failing calls."""
    chosen = None if preset is None else preset_named(preset)
    if table is not None and scenario:
        raise UsageError("a scenario has its own table: name either a TABLE or scenarios")
    if report is not None:
        make_folder(report)
    path, image = (MADE_PATH, made_image()) if table is None else capture_until_stable(table)
    question = CheckQuestion(
        image=image,
        path=path,
        has_table=table is not None,
        preset=None if chosen is None else chosen.name,
        scenarios=tuple(scenario or ()),
        seed=seed,
        bounds=bounds_of(effort, image, path),
    )
    asked = Asked(table=table, preset=(chosen or HARDENED_PRESET).name, seed=seed, effort=effort)
    phases = _phases(only, question)
    with progress_bars(phases) as on_progress:
        outcome = check_image(question, phases, workers=workers, seconds=seconds, on_progress=on_progress)
    directory = findings or (Path(FINDINGS) if report is None else report / FINDINGS_OF_REPORT)
    saved = save_findings(outcome.phases, asked.target, path, image, directory)
    document = check_document(asked, question.bounds, outcome, saved, workers)
    write_json(document, json_target)
    print_check(result_console(json_target, width=WIDTH), asked, outcome, saved, with_bounds=bounds)
    if report is not None:
        if findings is not None:
            save_findings(outcome.phases, asked.target, path, image, report / FINDINGS_OF_REPORT)
        save_run(document, report)
        write_report(report, result_console(json_target))
    if outcome.interrupted_by is not None:
        signal.raise_signal(outcome.interrupted_by)
    return ExitCode[worst(phase.verdict for phase in outcome.phases).name]


def _phases(only: list[PhaseName] | None, question: CheckQuestion) -> tuple[PhaseName, ...]:
    """Return the wanted phases; raises UsageError for one that does not apply to this question."""
    others = [name for name in only or () if name not in question.phases]
    if others:
        raise UsageError(f"--only {others[0]}: the phases that apply here are {', '.join(question.phases)}")
    return tuple(name for name in question.phases if not only or name in only)


class RateColumn(ProgressColumn):
    """The cases per second of a phase."""

    def render(self, task: Task) -> Text:
        """Return the rate of one phase."""
        seconds = task.finished_time or task.elapsed or 0.0
        return Text(f"{task.fields['cases'] / seconds:>8,.0f}/s" if seconds > RATE_SECONDS_MIN else " " * 10)


@contextmanager
def progress_bars(phases: Sequence[PhaseName]) -> Iterator[OnProgress]:
    """Show a progress bar for each phase on standard error, if that is a terminal."""
    console = error_console()
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[cases]:>9,} cases"),
        RateColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        shown = {name: bars.add_task(name, total=1.0, start=False, cases=0) for name in phases}

        def on_progress(progress: Progress) -> None:
            bar = shown[PhaseName(progress.name)]
            bars.start_task(bar)
            bars.update(bar, completed=progress.done_part, cases=progress.cases)

        yield on_progress
