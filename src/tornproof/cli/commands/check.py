"""`tornproof check [TABLE]`: explore what damage, kills, failing calls and readers beside a writer do to a copy."""

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
"""A phase that is over sooner has no speed."""


def _effort(text: str) -> int:
    effort = effort_of(text)
    if effort is None:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(EFFORTS)}, and no number from 1 to {EFFORT_MAX:,}")
    return effort


def check(
    table: Annotated[
        str | None,
        typer.Argument(help="Directory of a table, which is copied and never changed; else a small new one."),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            parser=_effort,
            metavar="|".join((*EFFORTS, "N")),
            help="How many cases are tried: the bound of every explorer, as a factor to that of `small`.",
        ),
    ] = DEFAULT,  # type: ignore[assignment]  # the parser makes a number of it
    seconds: Annotated[
        float | None,
        typer.Option(callback=seconds_within(), help="A ceiling of time; what it cuts makes bounds smaller."),
    ] = None,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this explorer; may be repeated.")] = None,
    seed: Annotated[
        int, typer.Option(callback=seed_within(), help="Where chance starts, for the explorers that use it.")
    ] = 0,
    workers: Annotated[
        int, typer.Option(callback=workers_within(), help="Processes that explore; the answer is the same.")
    ] = CORES,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="Explore the protocol of another release, in the simulator.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Explore only this situation; may be repeated.")
    ] = None,
    findings: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where findings are written, if there are any.",
            show_default=f"{FINDINGS}, with --report its DIR/{FINDINGS_OF_REPORT}",
        ),
    ] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Also say what each explorer covered, and what became of the damage.")
    ] = False,
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Explore a table from a copy: flipped bits, commits beside readers, kills at every step, failing calls."""
    chosen = None if preset is None else preset_named(preset)
    if table is not None and scenario:
        raise UsageError("a scenario brings its own table: name either a TABLE or scenarios")
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
    position = findings or (Path(FINDINGS) if report is None else report / FINDINGS_OF_REPORT)
    saved = save_findings(outcome.phases, asked.target, path, image, position)
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
    """Return the wanted phases; raises UsageError for one that there is not to the question."""
    others = [name for name in only or () if name not in question.phases]
    if others:
        raise UsageError(f"--only {others[0]}: what is asked for is explored by {', '.join(question.phases)}")
    return tuple(name for name in question.phases if not only or name in only)


class RateColumn(ProgressColumn):
    """How many cases of a phase are tried in a second."""

    def render(self, task: Task) -> Text:
        """Return what stands in the column of a phase."""
        seconds = task.finished_time or task.elapsed or 0.0
        return Text(f"{task.fields['cases'] / seconds:>8,.0f}/s" if seconds > RATE_SECONDS_MIN else " " * 10)


@contextmanager
def progress_bars(phases: Sequence[PhaseName]) -> Iterator[OnProgress]:
    """Show a bar for each phase on a terminal's standard error: what is done, how fast, and what is left."""
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
