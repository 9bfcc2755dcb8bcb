"""`tornproof faults [NAME...]`: plant mistakes into the implementation, and see which of them a check finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tornproof.cli.console import error_console, result_console
from tornproof.cli.effort_option import METAVAR, parse_effort
from tornproof.cli.numbers import CORES, workers_within
from tornproof.cli.output import ExitCode, JsonOption, write_json
from tornproof.cli.progress import progress_bar
from tornproof.cli.report_writing import ReportOption, prepare_outputs, write_report
from tornproof.harness.check import PhaseName
from tornproof.harness.common.effort import DEFAULT
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES, FaultFile, fault_files, fault_files_in
from tornproof.harness.trial import PHASES, REPLAYS, Row, Trials, is_set_aside, seed_of
from tornproof.impl.errors import UsageError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table

REPLAYS_MAX = 100
SEEDS_MAX = 10_000


def faults(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names of faults; all by default.")] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this family; may be repeated. {JUDGES} and {BENIGN} are tried only when named."),
    ] = None,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Only the third that was drawn, and at which nothing is tuned.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Folder of families of faults that are tried instead of ours.",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="The table that is checked; a small new one by default.")
    ] = None,
    effort: Annotated[
        int, typer.Option(parser=parse_effort, metavar=METAVAR, help="How many cases each check tries.")
    ] = DEFAULT,  # type: ignore[assignment]  # the parser turns it into a number
    only: Annotated[list[PhaseName] | None, typer.Option(help="Try only this phase; may be repeated.")] = None,
    all_phases: Annotated[
        bool, typer.Option("--all-phases", help="Try each phase alone, also those that find nothing first.")
    ] = False,
    told: Annotated[
        bool, typer.Option("--told", help="Also run the cheapest explorer of each fault, told the scenario.")
    ] = False,
    seeds: Annotated[
        int, typer.Option(min=0, max=SEEDS_MAX, help="With so many seeds, from 0; with none only as --told says.")
    ] = 1,
    one_seed: Annotated[
        bool, typer.Option("--one-seed", help="Each fault with one of the seeds, drawn by its name, instead of all.")
    ] = False,
    replays: Annotated[
        int, typer.Option(min=1, max=REPLAYS_MAX, help="How often a finding must replay to count.")
    ] = REPLAYS,
    workers: Annotated[
        int | None,
        typer.Option(callback=workers_within(), help="Number of checks at a time.", show_default=str(CORES)),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list the faults.")] = False,
    report: ReportOption = None,
    json_target: JsonOption = None,
) -> int:
    """Plant mistakes into copies of tornproof, and see which of them a check finds that is told nothing."""
    if others := [phase for phase in only or () if phase not in PHASES]:
        raise UsageError(f"--only {others[0]}: the phases that are tried are {', '.join(PHASES)}")
    chosen = _chosen(folder, names or [], family or [], set_aside=set_aside)
    console = result_console(json_target)
    if listed:
        write_json({"format": 1, "faults": [_listed(each) for each in chosen]}, json_target)
        console.print(_list(chosen))
        return ExitCode.VALID
    if table is not None:
        # A check of what is no table explores nothing, whatever is planted.
        open_table(OperatingSystemStorage(), str(table))
    prepare_outputs(report, json_target)
    trials = Trials(
        table=None if table is None else str(table.absolute()),
        effort=str(effort),
        phases=tuple(phase for phase in PHASES if not only or phase in only),
        replay_count=replays,
        tries_all=all_phases,
    )
    rows: list[Row] = []
    wanted = [(fault, seed) for fault in chosen for seed in _seeds(fault, seeds, is_told=told, is_only_one=one_seed)]
    if not wanted:
        raise UsageError("--seeds 0: nothing is tried but what --told adds, where a fault has an explorer")
    # Imported here, because other commands are without what reports need.
    from tornproof.cli.trial_report import print_trials, trials_document, write_trials

    def save(ended: list[Row]) -> None:
        rows[:] = ended
        if report is not None:
            write_trials(rows, len(wanted), report)

    is_interrupted = _run(trials, wanted, save, workers or CORES)
    document = trials_document(rows, len(wanted))
    try:
        # Before the first trial has ended, the report is that of earlier ones.
        written = None if report is None or not rows else write_report(report)
        write_json(document, json_target)
    finally:
        print_trials(console, rows)
    if written is not None:
        written.print(console)
    if is_interrupted:
        raise KeyboardInterrupt
    return ExitCode[document["verdict"]]


def _chosen(folder: Path | None, names: Sequence[str], families: Sequence[str], *, set_aside: bool) -> list[FaultFile]:
    """Return the faults that are meant, in the order of the catalogue; raises UsageError if there are none."""
    files = fault_files() if folder is None else fault_files_in(folder)
    if not files:
        raise UsageError(f"{folder}: holds no faults; each is a file in the folder of its family")
    for kind, asked, known in (
        ("fault", names, {each.name for each in files}),
        ("family", families, {each.family for each in files}),
    ):
        if unknown := [each for each in asked if each not in known]:
            raise UsageError(f"there is no {kind} {unknown[0]!r}: tornproof faults --list names all")
    wanted = [
        each
        for each in files
        if (each.name in names if names else not families or each.family in families)
        and (names or families or each.family not in (JUDGES, BENIGN))
        and (not set_aside or is_set_aside(each.name))
    ]
    if not wanted and set_aside:
        raise UsageError("none of these faults is set aside")
    if not wanted:
        raise UsageError(f"{folder}: all of its faults are in {JUDGES} and {BENIGN}, which are tried only when named")
    return wanted


def _run(
    trials: Trials, wanted: Sequence[tuple[FaultFile, int | None]], save: Callable[[list[Row]], None], workers: int
) -> bool:
    """Save the rows of the trials that have ended, in their order, at each end; return whether an interrupt came."""
    ended: dict[int, list[Row]] = {}
    errors = error_console()

    def rows_of(one: tuple[FaultFile, int | None]) -> list[Row]:
        fault, seed = one
        return [trials.told_row(fault)] if seed is None else list(trials.rows(fault, seed))

    with progress_bar() as progress, ThreadPoolExecutor(workers) as pool:
        task = progress.add_task("trials", total=len(wanted))
        try:
            numbers = {pool.submit(rows_of, one): number for number, one in enumerate(wanted)}
            for future in as_completed(numbers):
                ended[numbers[future]] = future.result()
                save([row for number in sorted(ended) for row in ended[number]])
                progress.update(task, completed=len(ended))
                if not errors.is_terminal:
                    # A log has no bars, and some trials take minutes.
                    for row in ended[numbers[future]]:
                        errors.print(f"{len(ended)} of {len(wanted)}: {_ended(row)}", soft_wrap=True)
        except KeyboardInterrupt:
            trials.stop()
            return True
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return False


def _ended(row: Row) -> str:
    return f"{row['fault']}: {row['verdict']} in {row['phase']} after {row['cpu_seconds']:.1f} s of CPU time"


def _seeds(fault: FaultFile, count: int, *, is_told: bool, is_only_one: bool) -> Iterator[int | None]:
    yield from [None] if is_told and fault.explorer is not None else []
    yield from [seed_of(fault.name, count)] if is_only_one and count else range(count)


def _listed(fault: FaultFile) -> dict[str, Any]:
    return {
        "name": fault.name,
        "family": fault.family,
        "story": fault.story,
        "place": fault.patch.location,
        "set_aside": is_set_aside(fault.name),
        "reference": fault.reference,
        "argument": fault.argument,
    }


def _list(chosen: Sequence[FaultFile]) -> Table:
    table = Table(title=f"{len(chosen)} faults")
    for title in ("family", "name", "what is done wrong"):
        table.add_column(title, overflow="fold")
    for fault in chosen:
        table.add_row(fault.family, fault.name, fault.story)
    return table
