"""What `verify ROOT` prints and writes: a line for each table, the worst first."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from tornproof.api.roots import RootReport, TableSummary, verify_root
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.output import ExitCode, visible, write_json
from tornproof.cli.progress import progress_bar
from tornproof.harness.common.verdict import Verdict

TABLES_SHOWN = 500
STYLES = {Verdict.INVALID: "bold red", Verdict.UNKNOWN: "yellow", Verdict.VALID: "green"}


def verify_tables_below(root: str, *, quick: bool, workers: int, json_target: str | None) -> int:
    """Verify all tables below a directory, and return the exit code of the worst."""
    with progress_bar() as progress:
        task = progress.add_task("verifying", total=None)
        report = verify_root(
            root,
            quick=quick,
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    try:
        write_json(root_document(report), json_target)
    finally:
        print_root(result_console(json_target), report)
    if report.interrupted_by is not None:
        signal.raise_signal(report.interrupted_by)
    return ExitCode[report.verdict.name]


def root_document(report: RootReport) -> dict[str, Any]:
    """Return the JSON form (docs/reports.md)."""
    return {
        "format": 1,
        "root": report.root,
        "verdict": report.verdict.name,
        "sentence": report.sentence,
        "note": "; ".join(filter(None, (report.note, report.closed))),
        "table_count": report.table_count,
        "tables": [msgspec.to_builtins(table) | {"verdict": table.verdict.name} for table in report.tables],
    }


def print_root(console: Console, report: RootReport) -> None:
    """Print a line for each table, and the verdict."""
    grid = result_grid("table", ">version", ">partitions", ">rows", ">not applied", "verdict", wraps=("verdict",))
    for table in report.tables[:TABLES_SHOWN]:
        numbers = (table.version, table.partition_count, table.row_count, table.pending_transactions)
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        grid.add_row(Text(visible(table.table)), *shown, Text(visible(_sentence(table)), STYLES[table.verdict]))
    console.print(grid)
    if len(report.tables) > TABLES_SHOWN:
        console.print(f"and {len(report.tables) - TABLES_SHOWN:,} more tables (--json lists them all)")
    for note in filter(None, (report.note, report.closed)):
        console.print(f"note: {visible(note)}")
    console.print(Text.assemble(f"{visible(report.root)}: ", (report.sentence, STYLES[report.verdict])))


def _sentence(table: TableSummary) -> str:
    return f"{table.sentence}, the first: {table.problems[0]}" if table.problems else table.sentence
