"""`tornproof migrate PATH`: create the missing `_pm` of partitions."""

from __future__ import annotations

import heapq
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
import typer
from msgspec import structs
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tornproof.api.holders import MIGRATED_OFFLINE, demand_offline
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.interruption import say_if_interrupted
from tornproof.cli.migration_dataset import make_directory, write_dataset
from tornproof.cli.migration_sources import Source, find_sources
from tornproof.cli.numbers import CORES, WorkersOption
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, visible, write_json_list
from tornproof.cli.progress import ProgressBar, progress_bar
from tornproof.cli.spark_options import ConfOption, MasterOption, settings_of
from tornproof.cli.spool import Spool
from tornproof.impl.errors import BusyError, TornproofError, UsageError, counted
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.partition_migration import Conversion
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration, rejected_table
from tornproof.impl.migrate.table_migration import TablePlan, convert_table, plan_table, publish_table
from tornproof.impl.repair.kept import KEPT_DIRECTORY
from tornproof.impl.storage.holders import OpenFiles
from tornproof.impl.storage.interface import Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.partition import PM_FILE
from tornproof.pipeline.files import Location, local_path, location_of
from tornproof.pipeline.migration import WAVE_PARTITIONS, convert_tables
from tornproof.pipeline.spark.session import JobFailedError, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES_SHOWN = 500
T = TypeVar("T")
STYLES = {Outcome.REJECTED: "red", Outcome.REPLACED: "yellow", Outcome.ALREADY: "dim", Outcome.MIGRATED: ""}


class Mode(StrEnum):
    """Which of QuestDB's converters to follow."""

    SERVER = "server"
    TOOL = "tool"

    @property
    def conversion(self) -> ConversionMode:
        """The converter's name of the mode."""
        return ConversionMode[self.name]


def migrate(
    path: Annotated[str, typer.Argument(help="A Parquet file, a partition, a table, or a directory of tables.")],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Write PARTITION.pm files there, and leave the tables unchanged."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", help="Convert like the server, or like QuestDB's command-line tool: without bloom filters."
        ),
    ] = Mode.SERVER,
    master: MasterOption = None,
    conf: ConfOption = None,
    report: Annotated[
        Location | None,
        typer.Option(
            "--report",
            parser=location_of,
            metavar="DIR",
            help="Write a Parquet file with a row for each partition there; also s3:// and hdfs://.",
        ),
    ] = None,
    workers: WorkersOption = None,
    json_target: JsonOption = None,
) -> int:
    """Create the _pm of every parquet partition that has none, from its committed data.parquet."""
    sources, closed, left_out = find_sources(path)
    settings = settings_of(conf)
    if master is None and conf:
        raise UsageError("--conf is for Spark, and needs --master")
    job = Job(out=out, dry_run=dry_run, mode=mode)
    if not dry_run:
        say_if_interrupted("the _pm files written so far stay; the same command does the rest")
    if out is not None:
        _demand_outside(out, sources, "which --out leaves unchanged")
    if report is not None and report.is_local:
        _demand_outside(str(report), sources, "where --report must not write")
    folders = [None if out is None else Path(out), local_path(report)]
    check_outputs(json_target, other_folders=folders)
    if report is not None:
        make_directory(report)
    interrupted_by, note = None, ""
    with Spool[Migration]() as done:
        with progress_bar() as progress:
            # A plain file is always the only source, so there is nothing to distribute.
            if master is not None and not sources[0].is_file:
                done.extend(_run_on_spark(job, sources, progress, master, settings))
            elif len(sources) == 1:
                done.append(_run_here(job, sources[0], progress))
            else:
                found, interrupted_by, note = _run_in_processes(job, sources, progress, workers or CORES)
                done.extend(found)
        if report is not None:
            write_dataset(done, report)
        is_complete = _are_complete(done) and len(done) == len(sources) and not closed
        note = "; ".join(filter(None, (note, closed, left_out)))
        document = report_document(path, done, is_complete=is_complete, note=note, out=out, dry_run=dry_run, mode=mode)
        write_json_list(document, "sources", map(_source_document, done), json_target)
        console = result_console(json_target)
        print_report(console, path, done, dry_run=dry_run)
        if len(done) < len(sources):
            console.print(f"not begun: {counted(len(sources) - len(done), 'table')}")
        if note:
            console.print(f"note: {visible(note)}")
    if interrupted_by is not None:
        signal.raise_signal(interrupted_by)
    return ExitCode.VALID if is_complete else ExitCode.INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The options, which hold for every source; `storage` has its files."""

    out: str | None
    dry_run: bool
    mode: Mode
    storage: Storage = field(default_factory=OperatingSystemStorage)

    def plan(self, source: Source, opened: OpenFiles | None = None) -> TablePlan | Migration:
        """Return what there is to convert; a plain file is migrated at once. `opened` is that of `demand_offline`."""
        if source.is_file:
            return migrate_file(
                self.storage,
                source.path,
                mode=self.mode.conversion,
                dry_run=self.dry_run,
                out=self._target(source),
            )
        if self.out is None:
            demand_offline(source.path, because=MIGRATED_OFFLINE, writes=not self.dry_run, opened=opened)
        return plan_table(self.storage, source.path, only=source.only)

    def publish(self, source: Source, plan: TablePlan, converted: Iterable[Conversion]) -> Migration:
        """Publish the converted partitions of a table."""
        return publish_table(self.storage, plan, converted, dry_run=self.dry_run, out=self._target(source))

    def run(
        self, source: Source, progress: Callable[[str], None] = lambda name: None, opened: OpenFiles | None = None
    ) -> Migration:
        """Plan, convert and publish in this process."""
        plan = self.plan(source, opened)
        if isinstance(plan, Migration):
            return plan
        converted = convert_table(plan, self.mode.conversion, keeps_sound=self.out is None, progress=progress)
        return self.publish(source, plan, converted)

    def _target(self, source: Source) -> str | None:
        return None if self.out is None else str(Path(self.out) / source.below)


def _run_here(job: Job, source: Source, progress: ProgressBar) -> Migration:
    task = progress.add_task("migrating", total=None)

    def advance(name: str) -> None:
        progress.update(task, advance=1, description=name)

    return _or_rejected(source, partial(job.run, source, advance))


def _run_in_processes(
    job: Job, sources: Sequence[Source], progress: ProgressBar, workers: int
) -> tuple[list[Migration], signal.Signals | None, str]:
    """Return the outcome of each table that was begun, what interrupted the run, and why others are missing."""
    # This imports worker processes, which takes longer than migrating a small table.
    from tornproof.api.roots import look_below

    task = progress.add_task("migrating", total=len(sources))
    below = look_below(
        sources,
        _migrations,
        (job,),
        workers=workers,
        on_progress=lambda done, total: progress.update(task, completed=done),
    )
    return below.found, below.interrupted_by, below.note


def _migrations(sources: Sequence[Source], job: Job) -> Iterator[Migration]:
    opened = OpenFiles()
    for source in sources:
        yield _or_rejected(source, partial(job.run, source, opened=opened))


def _run_on_spark(
    job: Job, sources: Sequence[Source], progress: ProgressBar, master: str, settings: dict[str, str]
) -> Iterator[Migration]:
    """Convert on executors; what is published, and when, does not differ from a run without Spark.

    Tables are planned when their turn comes, so that the driver has the plans and outcomes of one wave.
    """
    task = progress.add_task("starting Spark", total=None)
    opened, before = OpenFiles(), 0
    with ExitStack() as session:
        spark: SparkSession | None = None
        for wave in waves(job, sources, opened):
            tables = [plan for _, plan in wave if isinstance(plan, TablePlan)]
            converted: Iterator[Conversion] = iter(())
            if any(plan.partitions for plan in tables):
                if spark is None:
                    spark = session.enter_context(spark_session(master, name="tornproof migrate", settings=settings))
                progress.update(task, description="converting")
                converted = convert_tables(
                    spark,
                    tables,
                    job.mode.conversion,
                    keeps_sound=job.out is None,
                    progress=lambda count, before=before: progress.update(task, completed=before + count),  # type: ignore[misc]
                )
            for migration in _published(job, wave, converted):
                before += len(migration.partitions)
                yield migration


def waves(
    job: Job, sources: Sequence[Source], opened: OpenFiles
) -> Iterator[list[tuple[Source, TablePlan | Migration]]]:
    """Yield sources with what there is to do for them, some at a time, which is enough work for a job."""
    wave: list[tuple[Source, TablePlan | Migration]] = []
    partition_count = 0
    for source in sources:
        plan = _or_rejected(source, partial(job.plan, source, opened))
        wave.append((source, plan))
        # A table without any is as large as one with one.
        partition_count += max(1, len(plan.partitions))
        if partition_count >= WAVE_PARTITIONS:
            yield wave
            wave, partition_count = [], 0
    if wave:
        yield wave


def _published(
    job: Job, wave: Sequence[tuple[Source, TablePlan | Migration]], converted: Iterator[Conversion]
) -> Iterator[Migration]:
    """Publish each table's share of the conversions, which come in the order of the plans."""
    for source, plan in wave:
        if isinstance(plan, Migration):
            yield plan
            continue
        share = islice(converted, len(plan.partitions))
        yield _or_rejected(source, partial(job.publish, source, plan, share))
        # If a table was rejected half way, the rest of its conversions must not go to the next one.
        deque(share, maxlen=0)


def report_document(
    path: str, done: Spool[Migration], *, is_complete: bool, note: str, out: str | None, dry_run: bool, mode: Mode
) -> dict[str, Any]:
    """Return the JSON form of a report (docs/migration.md), without its sources."""
    return {
        "format": 2,
        "path": path,
        "mode": str(mode),
        "dry_run": dry_run,
        "out": out,
        "complete": is_complete,
        "note": note,
        "counts": {"sources": len(done), **_counts(done)},
    }


def _source_document(done: Migration) -> dict[str, Any]:
    return {
        "path": done.path,
        "version": done.version,
        "native": done.native_count,
        "reason": done.reason,
        "problems": list(map(structs.asdict, done.problems)),
        "partitions": list(map(msgspec.to_builtins, done.partitions)),
    }


def print_report(console: Console, path: str, done: Spool[Migration], *, dry_run: bool) -> None:
    """Print a report for a person."""
    only = next(iter(done)) if len(done) == 1 else None
    lines = _table_lines(path, done) if only is None else _partition_lines(only.partitions)
    if lines.grid.row_count:
        console.print(lines.grid)
    if lines.left:
        console.print(f"and {lines.left:,} more {lines.of} (--json lists them all)")
    if only is not None:
        for sentence in filter(None, (only.reason, *map(str, only.problems))):
            console.print(Text.assemble(("rejected ", "bold red"), visible(f"{path}: {sentence}")))
    counts = _counts(done)
    named = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    said = Text(named or "nothing to migrate", "bold green" if _are_complete(done) else "bold red")
    would = " (--dry-run: nothing was changed)" if dry_run else ""
    total = sum(counts[outcome] for outcome in Outcome)
    console.print(Text.assemble(f"{visible(path)}: ", said, would))
    console.print(
        f"looked at {_sources(done)}, {counted(total, 'parquet partition')}; "
        f"{counted(counts['native'], 'native partition')} without {PM_FILE}",
        style="dim",
    )
    if not dry_run and any(partition.kept_as for each in done for partition in each.partitions):
        console.print(f"old bytes are kept in {KEPT_DIRECTORY} until `recover --forget`", style="dim")


def _or_rejected(source: Source, action: Callable[[], T]) -> T | Migration:
    """Return what an action on one source returns; an error ends the run, but in a tree it only rejects the source.

    That of a job ends it in any case, because the job is that of several sources.
    """
    try:
        return action()
    except JobFailedError:
        raise
    except TornproofError as error:
        if source.below:
            return rejected_table(source.path, error)
        if isinstance(error, BusyError):
            # The table is in use: that says nothing about the table, and this command must not run then.
            raise UsageError(str(error)) from error
        raise


def _demand_outside(directory: str, sources: Sequence[Source], reason: str) -> None:
    """Raise UsageError unless this is a directory outside of all tables, or does not exist yet."""
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{directory}: is not a directory")
    for source in sources:
        if not source.is_file and path.resolve().is_relative_to(Path(source.path).resolve()):
            raise UsageError(f"{directory}: is inside the table {source.path}, {reason}")


def _are_complete(done: Iterable[Migration]) -> bool:
    return all(each.is_complete for each in done)


def _sources(done: Spool[Migration]) -> str:
    return f"{len(done)} {'table or file' if len(done) == 1 else 'tables or files'}"


def _counts(done: Iterable[Migration]) -> Counter[str]:
    counts = Migration(path="").counts()
    for each in done:
        counts.update(each.counts())
    return counts


class _Lines(NamedTuple):
    """A line for each of the first, how many are left out, and what they are."""

    grid: Grid
    left: int
    of: str


def _table_lines(root: str, done: Spool[Migration]) -> _Lines:
    grid = result_grid("table", *(f">{outcome}" for outcome in Outcome), ">native", "why", wraps=["why"])
    # What needs attention comes first.
    for each in heapq.nsmallest(LINES_SHOWN, done, key=lambda each: (each.is_complete, each.path)):
        counts = each.counts()
        numbers = (counts[name] for name in (*Outcome, "native"))
        rejected = [f"rejected: {sentence}" for sentence in filter(None, (each.reason, *map(str, each.problems)))]
        sentences = (*rejected, *(f"{part.name}: {part.sentence}" for part in each.partitions if part.sentence))
        grid.add_row(
            Text(visible(str(Path(each.path).relative_to(root)))),
            *(f"{number:,}" for number in numbers),
            Text(visible(next(iter(sentences), ""))),
            style="" if each.is_complete else "red",
        )
    return _Lines(grid, max(0, len(done) - LINES_SHOWN), "tables")


def _partition_lines(partitions: Sequence[PartitionMigration]) -> _Lines:
    if len(partitions) > LINES_SHOWN:
        # What needs attention comes first if not all is shown.
        partitions = sorted(partitions, key=lambda each: each.outcome not in (Outcome.REJECTED, Outcome.REPLACED))
    grid = result_grid("partition", "outcome", ">ends at", ">bytes of _pm", "old bytes in", "why", wraps=["why"])
    for partition in partitions[:LINES_SHOWN]:
        grid.add_row(
            Text(visible(partition.name)),
            str(partition.outcome),
            str(partition.token),
            str(partition.pm_bytes) if partition.written_to else "-",
            Text(visible(partition.kept_as or "-")),
            Text(visible(partition.sentence)),
            style=STYLES[partition.outcome],
        )
    return _Lines(grid, max(0, len(partitions) - LINES_SHOWN), "partitions")
