"""`tornproof archive SOURCE… --to TABLE`: files of telemetry frames into a time-partitioned table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tornproof.api.holders import demand_owner, has_table, reject_if_held
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.interruption import say_if_interrupted
from tornproof.cli.numbers import within
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, write_json
from tornproof.cli.progress import progress_bar
from tornproof.cli.spark_options import ConfOption, MasterOption, settings_of
from tornproof.impl.errors import UsageError
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import open_table
from tornproof.impl.types.names import type_name
from tornproof.pipeline.ingest.job import run_archive
from tornproof.pipeline.ingest.schema import ArchiveSchema, read_schema_file
from tornproof.pipeline.ingest.settings import ROW_GROUP_BYTES, ArchiveReport, ArchiveSettings
from tornproof.pipeline.ingest.source import find_sources
from tornproof.pipeline.spark.session import spark_session

LINES_SHOWN = 100
SAMPLE_LINES_MAX = 1_000_000


class Interval(StrEnum):
    """The interval of one partition."""

    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    YEAR = "YEAR"


class Compression(StrEnum):
    """The codec of all columns."""

    ZSTD = "zstd"
    LZ4 = "lz4"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"

    @property
    def codec(self) -> Codec:
        """Parquet's name of the codec."""
        return {Compression.LZ4: Codec.LZ4_RAW, Compression.NONE: Codec.UNCOMPRESSED}.get(self) or Codec[self.name]


def archive(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…", help="Files of JSON lines, plain or gzipped; directories; also s3:// and hdfs://."
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="TABLE", help="The table; created if it does not exist.")],
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="TOML or JSON file with columns and their types.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", metavar="COLUMN", help="The designated timestamp: timestamp, ts or time."),
    ] = None,
    partition_by: Annotated[
        Interval | None,
        typer.Option("--partition-by", case_sensitive=False, help="Partition interval of a new table; DAY by default."),
    ] = None,
    row_group_bytes: Annotated[
        int,
        typer.Option(
            callback=within(1, ROW_GROUP_BYTES), metavar="N", help="Size of a row group in bytes, before encoding."
        ),
    ] = ROW_GROUP_BYTES,
    codec: Annotated[Compression, typer.Option("--codec", case_sensitive=False)] = Compression.ZSTD,
    level: Annotated[int | None, typer.Option("--level", help="Compression level; 3 for zstd by default.")] = None,
    rejects: Annotated[
        str | None,
        typer.Option("--rejects", metavar="DIR", help="Where rejected lines go; TABLE/_archive by default."),
    ] = None,
    sample_lines: Annotated[
        int,
        typer.Option(
            callback=within(1, SAMPLE_LINES_MAX),
            metavar="N",
            help="Infer columns from the first N lines of each file (of at most 100).",
        ),
    ] = 1000,
    master: MasterOption = None,
    conf: ConfOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write although another process, such as a server, has the table open.")
    ] = False,
    allow_parquet_last: Annotated[
        bool,
        typer.Option(
            "--allow-parquet-last",
            help="Add to a server's table without write-ahead log even if its last partition is then in Parquet.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count all lines, but change nothing.")] = False,
    json_target: JsonOption = None,
) -> int:
    """Add files of telemetry frames to a table of parquet partitions, sorted by time; nothing is added twice."""
    check_outputs(json_target, other_folders=[Path(rejects)] if rejects and not dry_run else ())
    spark_settings = settings_of(conf)
    found = find_sources(sources, outside=[to, *([rejects] if rejects else [])])
    is_there = has_table(to)
    if is_there and partition_by is not None:
        _demand_interval(to, PartitionBy[partition_by])
    if is_there and not dry_run:
        if not force:
            reject_if_held(to, because="a table that a server has open is not written to (--force does)")
        demand_owner(to)
    given = read_schema_file(schema, timestamp) if schema else None
    settings = ArchiveSettings(
        partition_by=PartitionBy[partition_by or Interval.DAY],
        row_group_bytes=row_group_bytes,
        codec=codec.codec,
        level=3 if level is None and codec is Compression.ZSTD else level,
        schema=given,
        timestamp=timestamp,
        sample_lines=sample_lines,
        rejects_directory=rejects,
        dry_run=dry_run,
        force=force,
        allow_parquet_last=allow_parquet_last,
    )
    # Invalid writer options are rejected before Spark starts.
    assert settings.options
    if not dry_run:
        say_if_interrupted(f"{to} has either all rows of this run or none; the same command completes it")
    with spark_session(master, name="tornproof archive", settings=spark_settings) as spark, progress_bar() as progress:
        task = progress.add_task("starting", total=None)
        report = run_archive(
            spark,
            found,
            to,
            settings,
            on_stage=lambda what, done, total: progress.update(task, description=what, completed=done, total=total),
        )
    write_json(report_document(to, report, dry_run=dry_run), json_target)
    print_report(result_console(json_target), to, report, dry_run=dry_run)
    return ExitCode.INVALID if report.reject_counts else ExitCode.VALID


def _demand_interval(to: str, asked: PartitionBy) -> None:
    """Raise UsageError if a table has another interval; with its own, the command that created it can be repeated."""
    metadata = open_table(OperatingSystemStorage(), to).metadata
    if metadata and metadata.partition_by is not asked:
        raise UsageError(f"{to}: is partitioned by {metadata.partition_by.name}; --partition-by is for new tables")


def report_document(table: str, report: ArchiveReport, *, dry_run: bool) -> dict[str, Any]:
    """Return the JSON form of a report (docs/archive.md)."""
    return {
        "format": 1,
        "table": table,
        "dry_run": dry_run,
        "version": report.version,
        "counts": {
            "sources": len(report.sources),
            "skipped": len(report.skipped),
            "lines": report.total("line_count"),
            "rows": report.total("row_count"),
            "rejects": report.reject_counts.total(),
            "blank": report.total("blank_count"),
        },
        "reject_reasons": dict(sorted(report.reject_counts.items())),
        "rejects": report.rejects_path or None,
        "partitions": {"new": list(report.new_partitions), "grown": list(report.grown_partitions)},
        "columns": _columns(report.schema),
        "sources": [
            {
                "file": each.path,
                "digest": each.digest,
                "lines": each.line_count,
                "rows": each.row_count,
                "rejects": dict(each.reject_counts),
                "blank": each.blank_count,
            }
            for each in report.sources
        ],
        "skipped": [{"file": path, "same_as": first} for path, first in report.skipped.items()],
    }


def print_report(console: Console, table: str, report: ArchiveReport, *, dry_run: bool) -> None:
    """Print a report for a person."""
    counts = report.reject_counts
    if counts:
        grid = result_grid("rejected because of", ">lines", wraps=["rejected because of"])
        for reason, count in counts.most_common():
            grid.add_row(Text(reason), str(count))
        console.print(grid)
    for path, first in list(report.skipped.items())[:LINES_SHOWN]:
        same = "was added before" if path == first else f"has the content of {first}, which was added"
        console.print(Text(f"skipped {path}: {same}"), style="dim")
    if len(report.skipped) > LINES_SHOWN:
        console.print(f"and {len(report.skipped) - LINES_SHOWN} more skipped (--json lists them all)", style="dim")
    blank = report.total("blank_count")
    console.print(
        f"{report.total('line_count')} lines read = {report.total('row_count')} rows + {counts.total()} rejects"
        + (f" + {blank} blank" if blank else "")
        + f"; {len(report.sources)} files read, {len(report.skipped)} skipped"
    )
    if report.rejects_path:
        console.print(Text(f"rejects are in {report.rejects_path}"))
    if dry_run:
        console.print(f"{table}: --dry-run: nothing was changed")
        return
    new, grown = len(report.new_partitions), len(report.grown_partitions)
    said = Text(f"version {report.version}", "bold red" if counts else "bold green")
    console.print(Text.assemble(f"{table}: ", said, f", {new} partitions made, {grown} added to"))


def _columns(schema: ArchiveSchema | None) -> list[dict[str, Any]]:
    if schema is None:
        return []
    return [
        {
            "name": column.name,
            "type": type_name(column.type),
            "keys": list(column.keys),
            "designated": column.name == schema.timestamp,
        }
        for column in schema.columns
    ]
