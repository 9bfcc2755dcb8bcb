"""`tornproof check [TABLE]`: explore what corruption, kills, failing calls and concurrent readers do to a copy."""

from __future__ import annotations

import os
import signal
from itertools import chain
from typing import Annotated

import typer

from tornproof.api.captured import capture_or_make
from tornproof.cli.check_progress import progress_bars
from tornproof.cli.check_report import Asked, check_document, print_check
from tornproof.cli.console import result_console
from tornproof.cli.effort_option import METAVAR, parse_effort
from tornproof.cli.findings import FindingsOption, findings_directories, save_findings
from tornproof.cli.numbers import CORES, seconds_within, seed_within, workers_within
from tornproof.cli.output import ExitCode, JsonOption, write_json
from tornproof.cli.preset_option import preset_named
from tornproof.cli.report_writing import ReportOption, add_run, prepare_outputs
from tornproof.cli.server_check import Checked, check_server, reject_with_server, save_history
from tornproof.harness.check import CheckQuestion, PhaseName, bounds_of, check_image
from tornproof.harness.common.effort import DEFAULT
from tornproof.harness.common.shell_word import shell_word
from tornproof.harness.common.verdict import worst
from tornproof.harness.systems.releases import HARDENED_PRESET
from tornproof.impl.errors import UsageError

WIDTH = 80


def check(
    table: Annotated[
        str | None,
        typer.Argument(help="Directory of a table; a copy of it is explored. A small new table by default."),
    ] = None,
    effort: Annotated[
        int,
        typer.Option(
            parser=parse_effort,
            metavar=METAVAR,
            help="How many cases are tried: multiplies the bounds of `small`.",
        ),
    ] = DEFAULT,  # type: ignore[assignment]  # the parser turns it into a number
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL|maven[:VERSION]|CLASSPATH",
            help="Check a live QuestDB: one that runs at http://HOST:PORT, or one that is started here, and killed.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(callback=seconds_within(), help="Time limit; what it cuts off is missing from the bounds."),
    ] = None,
    fail_fast: Annotated[
        bool,
        typer.Option("--fail-fast", help="End with the first finding; which one that is depends on the processes."),
    ] = False,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this phase; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(callback=seed_within(), help="Random seed, for the phases that sample.")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            callback=workers_within(),
            help="Number of worker processes; the result is the same.",
            show_default=str(CORES),
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="PRESET", help="Explore the protocol of another release, in the simulator.")
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Explore only this scenario; may be repeated.")
    ] = None,
    findings: FindingsOption = None,
    bounds: Annotated[
        bool,
        typer.Option("--bounds", help="Also print what each phase covered, and the outcome of corruption by field."),
    ] = False,
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Explore a copy of a table: flipped bits, commits beside readers, kills at every step, failing calls."""
    folders = findings_directories(findings, report)
    prepare_outputs(report, json_target, findings=folders[-1])
    if server is not None:
        others = {
            **{"TABLE": table, "--preset": preset, "--scenario": scenario, "--workers": workers},
            "--fail-fast": fail_fast,
        }
        reject_with_server([name for name, value in others.items() if value], only)
        checked = check_server(server, effort, seed, seconds)
    else:
        names = tuple(scenario or ())
        checked = _check_table(
            table, effort, seconds, only, seed, workers or CORES, preset, names, fails_fast=fail_fast
        )
    asked, outcome, saved = checked.asked, checked.outcome, []
    try:
        for folder in folders:
            save_history(checked, folder)
            saved = save_findings(outcome.phases, asked.target, checked.path, checked.image, folder)
        document = check_document(asked, checked.bounds, outcome, saved, workers or CORES)
        written = add_run(document, report)
        write_json(document, json_target)
    finally:
        # After all is saved, because standard output may end; and also if that fails.
        print_check(result_console(json_target, width=WIDTH), asked, outcome, saved, with_bounds=bounds)
    if written is not None:
        written.print(result_console(json_target))
    if outcome.interrupted_by is not None:
        signal.raise_signal(outcome.interrupted_by)
    return ExitCode[worst(phase.verdict for phase in outcome.phases).name]


def _check_table(
    table: str | None,
    effort: int,
    seconds: float | None,
    only: list[PhaseName] | None,
    seed: int,
    workers: int,
    preset: str | None,
    scenarios: tuple[str, ...],
    *,
    fails_fast: bool,
) -> Checked:
    chosen = None if preset is None else preset_named(preset)
    if table is not None and scenarios:
        raise UsageError("a scenario has its own table: name either a TABLE or scenarios")
    path, image, start_error = capture_or_make(table)
    question = CheckQuestion(
        image=image,
        path=path,
        has_table=table is not None,
        start_error=start_error,
        preset=None if chosen is None else chosen.name,
        scenarios=scenarios,
        seed=seed,
        bounds=bounds_of(effort, image, path),
    )
    phases = _phases(only, question)
    with progress_bars(phases) as on_progress:
        outcome = check_image(
            question, phases, workers=workers, seconds=seconds, fails_fast=fails_fast, on_progress=on_progress
        )
    asked = Asked(
        target="a small new table" if table is None else table,
        path="" if table is None else os.path.realpath(table),
        arguments=(
            *(() if table is None else (shell_word(table),)),
            *(() if preset is None else ("--preset", shell_word(preset))),
            *chain.from_iterable(("--scenario", shell_word(name)) for name in scenarios),
            *chain.from_iterable(("--only", name) for name in only or ()),
        ),
        preset=(chosen or HARDENED_PRESET).name,
        seed=seed,
        effort=effort,
    )
    return Checked(asked=asked, bounds=question.bounds, outcome=outcome, path=path, image=image)


def _phases(only: list[PhaseName] | None, question: CheckQuestion) -> tuple[PhaseName, ...]:
    """Return the wanted phases; raises UsageError for one that does not apply to this question."""
    others = [name for name in only or () if name not in question.phases]
    if others:
        raise UsageError(f"--only {others[0]}: the phases that apply here are {', '.join(question.phases)}")
    return tuple(name for name in question.phases if not only or name in only)
