"""`tornproof migrate PATH`: give partitions that were written without `_pm` theirs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from impl.errors import BusyError, TornproofError
from impl.heal_kept import KEPT_DIRECTORY
from impl.migration.convert import ConversionMode
from impl.migration.plain_file import migrate_file
from impl.migration.plan import Migration, Outcome, PartitionMigration, refused_table
from impl.migration.table_migration import migrate_table
from impl.operating_system import OperatingSystemStorage
from impl.partition import PM_FILE
from impl.verify import Progress
from tornproof.holders import demand_owner, refuse_if_held
from tornproof.migration_sources import Source, find_sources
from tornproof.output import ExitCode, JsonOption, UsageError, progress_bar, result_console, write_json

LINES_SHOWN = 500
STYLES = {Outcome.REFUSED: "red", Outcome.REPLACED: "yellow", Outcome.ALREADY: "dim", Outcome.MIGRATED: ""}


class Mode(StrEnum):
    """Which of QuestDB's converters is followed."""

    SERVER = "server"
    TOOL = "tool"

    @property
    def conversion(self) -> ConversionMode:
        """The mode as the converter calls it."""
        return ConversionMode[self.name]


def migrate(
    path: Annotated[str, typer.Argument(help="A Parquet file, a partition, a table, or a directory of tables.")],
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Write PARTITION.pm there and leave tables as they are.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    mode: Annotated[
        Mode, typer.Option("--mode", help="As the server does it, or as QuestDB's command-line tool: without blooms.")
    ] = Mode.SERVER,
    json_target: JsonOption = None,
) -> int:
    """Give every parquet partition that has no _pm its own, made from data.parquet as it is committed."""
    sources = find_sources(path)
    if out is not None:
        _demand_outside(out, sources)
    with progress_bar() as progress:
        task = progress.add_task("migrating", total=None)

        def advance(name: str) -> None:
            progress.update(task, advance=1, description=name)

        done = [_migrate(source, out=out, dry_run=dry_run, mode=mode, progress=advance) for source in sources]
    write_json(report_document(path, done, out=out, dry_run=dry_run, mode=mode), json_target)
    print_report(result_console(json_target), path, done, dry_run=dry_run)
    return ExitCode.VALID if all(each.is_complete for each in done) else ExitCode.INVALID


def report_document(
    path: str, done: Sequence[Migration], *, out: str | None, dry_run: bool, mode: Mode
) -> dict[str, Any]:
    """Return the JSON form of a report (docs/migration.md)."""
    return {
        "format": 1,
        "path": path,
        "mode": str(mode),
        "dry_run": dry_run,
        "out": out,
        "complete": all(each.is_complete for each in done),
        "counts": {"sources": len(done), **_counts(done)},
        "sources": [
            {
                "path": each.path,
                "version": each.version,
                "native": each.native_count,
                "reason": each.reason,
                "problems": [dataclasses.asdict(problem) for problem in each.problems],
                "partitions": [
                    {**dataclasses.asdict(partition), "outcome": str(partition.outcome)}
                    for partition in each.partitions
                ],
            }
            for each in done
        ],
    }


def print_report(console: Console, path: str, done: Sequence[Migration], *, dry_run: bool) -> None:
    """Print a report for a person."""
    lines = [(each, partition) for each in done for partition in each.partitions]
    if len(lines) > LINES_SHOWN:
        # What somebody has to look at comes first where not all is shown.
        lines.sort(key=lambda line: line[1].outcome not in (Outcome.REFUSED, Outcome.REPLACED))
    if lines:
        console.print(_grid(lines[:LINES_SHOWN], names_tables=len(done) > 1))
    if len(lines) > LINES_SHOWN:
        console.print(f"and {len(lines) - LINES_SHOWN} more partitions (--json lists them all)")
    for each in done:
        for sentence in filter(None, (each.reason, *map(str, each.problems))):
            console.print(Text.assemble(("refused ", "bold red"), f"{each.path}: {sentence}"))
    counts = _counts(done)
    named = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    said = Text(named or "nothing to migrate", "bold green" if all(each.is_complete for each in done) else "bold red")
    would = " (--dry-run: nothing was changed)" if dry_run else ""
    total = sum(counts[outcome] for outcome in Outcome)
    console.print(Text.assemble(f"{path}: ", said, would))
    console.print(
        f"looked at {len(done)} tables or files, {total} parquet partitions; {counts['native']} native partitions "
        f"have no {PM_FILE}",
        style="dim",
    )
    if not dry_run and any(partition.kept_as for _, partition in lines):
        console.print(f"old bytes are kept in {KEPT_DIRECTORY} until `recover --forget`", style="dim", markup=False)


def _migrate(source: Source, *, out: str | None, dry_run: bool, mode: Mode, progress: Progress) -> Migration:
    """Migrate one source; what ends a run on one table alone is a refusal of that table in a tree."""
    try:
        return _migrate_alone(source, out=out, dry_run=dry_run, mode=mode, progress=progress)
    except TornproofError as error:
        if source.below:
            return refused_table(source.path, error)
        if isinstance(error, BusyError):
            # Somebody uses the table, which is no verdict on it but against the terms of this command.
            raise UsageError(str(error)) from error
        raise


def _migrate_alone(source: Source, *, out: str | None, dry_run: bool, mode: Mode, progress: Progress) -> Migration:
    storage = OperatingSystemStorage()
    target = None if out is None else str(Path(out) / source.below)
    if source.is_file:
        return migrate_file(storage, source.path, mode=mode.conversion, dry_run=dry_run, out=target)
    if out is None:
        refuse_if_held(source.path, because="a server knows only the files that were there when it started")
        if not dry_run:
            demand_owner(source.path)
    return migrate_table(
        storage,
        source.path,
        mode=mode.conversion,
        dry_run=dry_run,
        out=target,
        only=source.only,
        progress=progress,
    )


def _demand_outside(out: str, sources: Sequence[Source]) -> None:
    """Refuse a directory that is none, or one in a table that is to stay as it is."""
    place = Path(out)
    if place.exists() and not place.is_dir():
        raise UsageError(f"{out}: is not a directory")
    for source in sources:
        if not source.is_file and place.resolve().is_relative_to(Path(source.path).resolve()):
            raise UsageError(f"{out}: lies in the table {source.path}, which --out leaves as it is")


def _counts(done: Sequence[Migration]) -> Counter[str]:
    counts = Migration(path="").counts()
    for each in done:
        counts.update(each.counts())
    return counts


def _grid(lines: Sequence[tuple[Migration, PartitionMigration]], *, names_tables: bool) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for name in ("table", "partition", "outcome", "ends at", "bytes of _pm", "old bytes in", "why"):
        if name == "table" and not names_tables:
            continue
        grid.add_column(name, no_wrap=name != "why", justify="right" if name in ("ends at", "bytes of _pm") else "left")
    for each, partition in lines:
        cells: list[str | Text] = [
            Text(partition.name),
            str(partition.outcome),
            str(partition.token),
            str(partition.pm_bytes) if partition.written_to else "-",
            Text(partition.kept_as or "-"),
            Text(partition.sentence),
        ]
        grid.add_row(*([Text(each.path)] if names_tables else []), *cells, style=STYLES[partition.outcome])
    return grid
