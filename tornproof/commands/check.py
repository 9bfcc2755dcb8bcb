"""`tornproof check [TABLE]`: explore what damage, kills, failing calls and readers beside a writer do to a copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from harness.check import CAPTURE_LIMIT_BYTES, SIMULATED, CheckSettings, PhaseName, check_image
from harness.disk.image import DiskImage
from harness.explore.damage import COMPLETE_BYTES
from harness.presets import HARDENED_PRESET, Preset
from harness.simulation import Setting, settings_of, settings_of_table
from harness.verdict import worst
from harness.workload import MADE_PATH, made_image
from impl.errors import TornproofError
from tornproof.captured import capture_steadily
from tornproof.check_report import check_document, print_check
from tornproof.findings import FINDINGS, save_findings
from tornproof.numbers import CORES, seconds_within, seed_within, within, workers_within
from tornproof.output import ExitCode, JsonOption, UsageError, progress_bar, result_console, write_json
from tornproof.preset_option import preset_named
from tornproof.report_writing import FINDINGS_OF_REPORT, ReportOption, make_folder, save_run, write_report


def check(
    table: Annotated[
        str | None,
        typer.Argument(help="Directory of a table, which is copied and never changed; else a small new one."),
    ] = None,
    seconds: Annotated[float, typer.Option(callback=seconds_within(), help="Time for the explorations.")] = 60.0,
    only: Annotated[list[PhaseName] | None, typer.Option(help="Run only this explorer; may be repeated.")] = None,
    seed: Annotated[
        int, typer.Option(callback=seed_within(), help="Where chance starts, for the explorers that use it.")
    ] = 0,
    bound: Annotated[
        int,
        typer.Option(
            callback=within(1, CAPTURE_LIMIT_BYTES, "the largest table that is copied"),
            metavar="BYTES",
            help="Try every bit of a data.parquet up to this size, else some.",
        ),
    ] = COMPLETE_BYTES,
    workers: Annotated[int, typer.Option(callback=workers_within(), help="Processes that explore.")] = CORES,
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
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Explore a table from a copy: flipped bits, commits beside readers, kills at every step, failing calls."""
    chosen = None if preset is None else preset_named(preset)
    if table is not None and scenario:
        raise UsageError("a scenario brings its own table: name either a TABLE or scenarios")
    if report is not None:
        make_folder(report)
    name = "a small new table" if table is None else table
    path, image = (MADE_PATH, made_image()) if table is None else capture_steadily(table)
    situations = _situations(scenario or (), chosen, None if table is None else (image, path))
    settings = CheckSettings(
        seconds=seconds,
        workers=workers,
        complete_bytes=bound,
        seed=seed,
        phases=_phases(only, situations, preset, scenario, has_table=table is not None),
        situations=situations,
        preset=chosen or HARDENED_PRESET,
    )
    with progress_bar() as progress:
        task = progress.add_task("copying", total=None)
        phases = list(
            check_image(
                image,
                path,
                settings,
                clock=time.monotonic,
                on_progress=lambda phase, done, total: progress.update(
                    task, description=phase, completed=done, total=total
                ),
            )
        )
    place = findings or (Path(FINDINGS) if report is None else report / FINDINGS_OF_REPORT)
    saved = save_findings(phases, name, path, image, place)
    document = check_document(name, settings.preset.name, seed, phases, saved)
    write_json(document, json_target)
    console = result_console(json_target)
    print_check(console, name, phases, saved)
    if report is not None:
        if findings is not None:
            save_findings(phases, name, path, image, report / FINDINGS_OF_REPORT)
        save_run(document, report)
        write_report(report, console)
    return ExitCode[worst(phase.verdict for phase in phases).name]


def _situations(
    scenarios: Sequence[str], preset: Preset | None, table: tuple[DiskImage, str] | None
) -> tuple[Setting, ...]:
    """Return what the simulator explores: a given table, or else scenarios."""
    if table is None:
        return tuple(settings_of(scenarios, preset))
    with suppress(TornproofError):
        return tuple(settings_of_table(*table, preset or HARDENED_PRESET))
    # What is wrong with the table is what the other phases say.
    return ()


def _phases(
    only: list[PhaseName] | None,
    situations: tuple[Setting, ...],
    preset: str | None,
    scenarios: list[str] | None,
    *,
    has_table: bool,
) -> tuple[PhaseName, ...]:
    """Return the wanted phases; other releases and scenarios exist in the simulator alone, and drawn tables are new."""
    named = {explorer for setting in situations for explorer in setting.explorers}
    possible = list(PhaseName)
    if preset is not None or scenarios:
        possible = [name for name, explorer in SIMULATED.items() if explorer in named or not scenarios]
        possible += [] if scenarios else [PhaseName.DRAWN]
    if has_table and PhaseName.DRAWN in possible:
        possible.remove(PhaseName.DRAWN)
    others = [name for name in only or () if name not in possible]
    if others:
        raise UsageError(f"--only {others[0]}: what is asked for is explored by {', '.join(possible)}")
    return tuple(name for name in possible if not only or name in only)
