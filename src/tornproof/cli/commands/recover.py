"""`tornproof recover TABLE`: remove from a table's files what was not committed, offline."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tornproof.api.holders import RECOVERED_OFFLINE, demand_offline
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.interruption import say_if_interrupted
from tornproof.cli.numbers import CORES, WorkersOption
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, visible, write_json
from tornproof.cli.progress import progress_bar
from tornproof.harness.common.verdict import Verdict
from tornproof.impl.errors import BusyError, TornproofError, UsageError, counted
from tornproof.impl.repair.kept import KEPT_DIRECTORY
from tornproof.impl.repair.repair import Action, ActionKind, RepairReport, forget_kept, repair_table
from tornproof.impl.storage.holders import OpenFiles
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.tables_below import is_root, names_below

LINES_SHOWN = 500
URGENCIES = ("with problems that cannot be repaired", "not looked at", "to recover", "with nothing to do")
SENTENCES = {
    ActionKind.REMOVE_UNFINISHED: "remove what an interrupted recovery left",
    ActionKind.PUBLISH_COMMITTED: "make the committed generation the last one",
    ActionKind.REWRITE_COMMITTED: "rewrite with the committed generation alone",
    ActionKind.CUT_DATA: "truncate at the committed end",
    ActionKind.TAKE_BACK_VERSION: "store the committed version again",
    ActionKind.FORGET: "remove old bytes",
}


def recover(
    table: Annotated[
        str, typer.Argument(help="Directory of a table that no process has open; with --dry-run also of many tables.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help=f"Only remove the old bytes that earlier runs kept in {KEPT_DIRECTORY}.")
    ] = False,
    workers: WorkersOption = None,
    json_target: JsonOption = None,
) -> int:
    """Remove what a killed writer left, so that every release can continue from the committed version."""
    check_outputs(json_target)
    if is_root(table):
        names, closed, left_out = names_below(table)
        if forget or not dry_run:
            raise UsageError(
                f"{table}: a directory of tables; name one of them, or give --dry-run to see what each needs"
            )
        return _recoveries_below(table, names, closed, left_out, workers or CORES, json_target)
    if forget:
        report = forget_kept(OperatingSystemStorage(), table, dry_run=dry_run)
    else:
        report = _recover(table, dry_run=dry_run)
    write_json(report_document(report), json_target)
    print_report(result_console(json_target), report)
    return ExitCode.INVALID if report.problems else ExitCode.VALID


def _recoveries_below(
    root: str, names: Sequence[str], closed: str, left_out: str, workers: int, json_target: str | None
) -> int:
    """Say what would be done to each table below a directory, those that need most first; changes nothing."""
    # This imports worker processes, which takes longer than recovering a small table.
    from tornproof.api.roots import NOT_ALL_READ, look_below

    with progress_bar() as progress:
        task = progress.add_task("recovering", total=len(names))
        below = look_below(
            names,
            _documents,
            (root,),
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done),
        )
    documents = below.found
    documents.sort(key=_urgency)
    counts = [sum(_urgency(document)[0] == rank for document in documents) for rank in range(len(URGENCIES))]
    left = len(names) - len(documents)
    named = (*zip(counts, URGENCIES, strict=True), (left, "not begun"))
    sentence = f"of {counted(len(names), 'table')}: " + ", ".join(f"{count:,} {word}" for count, word in named if count)
    sentence += NOT_ALL_READ if closed else ""
    verdict = Verdict.INVALID if counts[0] else Verdict.UNKNOWN if counts[1] or left or closed else Verdict.VALID
    notes = [*filter(None, (below.note, closed, left_out))]
    write_json(
        {
            "format": 1,
            "root": root,
            "dry_run": True,
            "verdict": verdict.name,
            "sentence": sentence,
            "note": "; ".join(notes),
            "table_count": len(names),
            "tables": documents,
        },
        json_target,
    )
    grid = result_grid("table", "what", wraps=("what",))
    for document in documents[:LINES_SHOWN]:
        grid.add_row(Text(visible(document["table"])), Text(visible(_in_words(document))))
    console = result_console(json_target)
    console.print(grid)
    if len(documents) > LINES_SHOWN:
        console.print(f"and {len(documents) - LINES_SHOWN:,} more tables (--json lists them all)")
    for note in notes:
        console.print(f"note: {visible(note)}")
    console.print(f"{visible(root)}: {sentence}")
    if below.interrupted_by is not None:
        signal.raise_signal(below.interrupted_by)
    return ExitCode[verdict.name]


def _documents(names: Sequence[str], root: str) -> Iterator[dict[str, Any]]:
    """Yield what would be done to each table; what needs nothing is only counted, because there can be thousands."""
    opened = OpenFiles()
    for name in names:
        path = str(Path(root, name))
        try:
            demand_offline(path, because=RECOVERED_OFFLINE, writes=False, opened=opened)
            report = repair_table(OperatingSystemStorage(), path, dry_run=True)
        except TornproofError as error:
            yield {"table": path, "rejected": str(error)}
        else:
            document = report_document(report)
            is_needless = not (document["actions"] or document["problems"])
            yield {"table": path, "nothing_to_do": True} if is_needless else document


def _urgency(document: dict[str, Any]) -> tuple[int, str]:
    ranks = (document.get("problems"), document.get("rejected"), document.get("actions"), True)
    return next(rank for rank, found in enumerate(ranks) if found), document["table"]


def _in_words(document: dict[str, Any]) -> str:
    if rejected := document.get("rejected"):
        return f"not looked at: {rejected}"
    actions, problems = document.get("actions", ()), document.get("problems", ())
    parts = [f"{len(actions)} to do"] if actions else []
    if problems:
        parts.append(f"{counted(len(problems), 'problem')} that cannot be repaired")
    return ", ".join(parts) or "nothing to do"


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
        "problems": [structs.asdict(problem) for problem in report.problems],
        "unreferenced": list(report.unreferenced),
        "notes": list(report.notes),
    }


def print_report(console: Console, report: RepairReport) -> None:
    """Print a report for a person."""
    if report.actions:
        console.print(_grid(report.actions[:LINES_SHOWN]))
    for name in report.unreferenced[:LINES_SHOWN]:
        console.print(f"unreferenced: {visible(name)} (no committed version names it; left unchanged)")
    for note in report.notes[:LINES_SHOWN]:
        console.print(f"note: {visible(note)}")
    for problem in report.problems[:LINES_SHOWN]:
        console.print(Text.assemble(("cannot be repaired ", "bold red"), visible(problem)))
    longest = max(map(len, (report.actions, report.unreferenced, report.notes, report.problems)))
    if longest > LINES_SHOWN:
        console.print(f"and more: the longest list has {longest} entries (--json lists them all)")
    version = "" if report.version is None else f" version {report.version}"
    console.print(Text.assemble(f"{visible(report.table)}{version}: ", _verdict(report)))
    if not report.is_dry_run and any(action.kept_as for action in report.actions):
        console.print(f"old bytes are kept in {KEPT_DIRECTORY} until `recover --forget`", style="dim")


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
