"""`tornproof recover TABLE`: remove from a table's files what was not committed, offline."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tornproof.api.holders import RECOVERED_OFFLINE, demand_offline
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.interruption import say_if_interrupted
from tornproof.cli.output import ExitCode, JsonOption, visible, write_json
from tornproof.cli.progress import progress_bar
from tornproof.impl.errors import BusyError, UsageError, counted
from tornproof.impl.repair.kept import KEPT_DIRECTORY
from tornproof.impl.repair.repair import Action, ActionKind, RepairReport, forget_kept, repair_table
from tornproof.impl.storage.operating_system import OperatingSystemStorage

LINES_SHOWN = 500
SENTENCES = {
    ActionKind.REMOVE_UNFINISHED: "remove what an interrupted recovery left",
    ActionKind.PUBLISH_COMMITTED: "make the committed generation the last one",
    ActionKind.REWRITE_COMMITTED: "rewrite with the committed generation alone",
    ActionKind.CUT_DATA: "truncate at the committed end",
    ActionKind.FORGET: "remove old bytes",
}


def recover(
    table: Annotated[str, typer.Argument(help="Directory of a table that no process has open.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help=f"Only remove the old bytes that earlier runs kept in {KEPT_DIRECTORY}.")
    ] = False,
    json_target: JsonOption = None,
) -> int:
    """Remove what a killed writer left, so that every release can continue from the committed version."""
    if forget:
        report = forget_kept(OperatingSystemStorage(), table, dry_run=dry_run)
    else:
        report = _recover(table, dry_run=dry_run)
    write_json(report_document(report), json_target)
    print_report(result_console(json_target), report)
    return ExitCode.INVALID if report.problems else ExitCode.VALID


def report_document(report: RepairReport) -> dict[str, Any]:
    """Return the JSON form of a report (docs/recover.md)."""
    return {
        "format": 1,
        "table": report.table,
        "version": report.version,
        "dry_run": report.is_dry_run,
        "actions": [
            {
                "action": str(action.kind),
                "file": action.file,
                "before_bytes": action.before_bytes,
                "after_bytes": action.after_bytes,
                "kept_as": action.kept_as,
            }
            for action in report.actions
        ],
        "problems": [dataclasses.asdict(problem) for problem in report.problems],
        "unreferenced": list(report.unreferenced),
        "notes": list(report.notes),
    }


def print_report(console: Console, report: RepairReport) -> None:
    """Print a report for a person."""
    if report.actions:
        console.print(_grid(report.actions[:LINES_SHOWN]))
    for name in report.unreferenced[:LINES_SHOWN]:
        console.print(f"unreferenced: {visible(name)} (no committed version names it; left unchanged)", markup=False)
    for note in report.notes[:LINES_SHOWN]:
        console.print(f"note: {visible(note)}", markup=False)
    for problem in report.problems[:LINES_SHOWN]:
        console.print(Text.assemble(("cannot be repaired ", "bold red"), visible(problem)))
    longest = max(map(len, (report.actions, report.unreferenced, report.notes, report.problems)))
    if longest > LINES_SHOWN:
        console.print(f"and more: the longest list has {longest} entries (--json lists them all)")
    version = "" if report.version is None else f" version {report.version}"
    console.print(Text.assemble(f"{visible(report.table)}{version}: ", _verdict(report)))
    if not report.is_dry_run and any(action.kept_as for action in report.actions):
        console.print(f"old bytes are kept in {KEPT_DIRECTORY} until `recover --forget`", style="dim", markup=False)


def _recover(table: str, *, dry_run: bool) -> RepairReport:
    storage = OperatingSystemStorage()
    if not dry_run:
        say_if_interrupted(f"{table} still has the same version; the same command does the rest")
    demand_offline(table, because=RECOVERED_OFFLINE, writes=not dry_run)
    with progress_bar() as progress:
        task = progress.add_task("recovering", total=None)

        def advance(name: str) -> None:
            progress.update(task, advance=1, description=name)

        try:
            return repair_table(storage, table, dry_run=dry_run, progress=advance)
        except BusyError as error:
            # The table is in use: that says nothing about the table, and this command must not run then.
            raise UsageError(str(error)) from error


def _verdict(report: RepairReport) -> Text:
    count = len(report.actions)
    done = f"{count} to do" if report.is_dry_run else f"{count} done"
    text = Text(done if count else "nothing to do", "bold green")
    if report.problems:
        text = Text.assemble(
            text, ", ", (f"{counted(len(report.problems), 'problem')} that cannot be repaired", "bold red")
        )
    return text


def _grid(actions: tuple[Action, ...]) -> Grid:
    grid = result_grid("file", "what", ">bytes before", ">after", "old bytes in")
    for action in actions:
        grid.add_row(
            Text(visible(action.file)),
            SENTENCES[action.kind],
            str(action.before_bytes),
            str(action.after_bytes),
            Text(visible(action.kept_as or "-")),
        )
    return grid
