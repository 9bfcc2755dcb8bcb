"""`tornproof verify TABLE`: is this table on disk sound?"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tornproof.api.steady import verify_until_stable
from tornproof.cli.console import result_console, result_grid
from tornproof.cli.next_steps import steps_after_damage
from tornproof.cli.numbers import CORES, WorkersOption
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, visible, write_json
from tornproof.cli.progress import progress_bar
from tornproof.cli.report_writing import ReportOption, prepare_outputs, write_report
from tornproof.harness.common.shell_word import shell_word
from tornproof.impl.errors import CorruptError, UsageError, counted
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.tables_below import is_root
from tornproof.impl.verify.verify import PartitionReport, TableReport

if TYPE_CHECKING:
    from tornproof.harness.systems.preset import Preset
    from tornproof.harness.systems.probe import Compatibility

PROBLEMS_SHOWN = 20
PARTITIONS_SHOWN = 500


def verify(
    table: Annotated[
        str,
        typer.Argument(help="Directory of a table, or of many, such as a server's db, also beside a server."),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Skip the pages of data.parquet, and indexes.")] = False,
    as_preset: Annotated[
        str | None,
        typer.Option("--as", metavar="PRESET", help="Also say whether that release could continue from these files."),
    ] = None,
    workers: WorkersOption = None,
    json_target: JsonOption = None,
    report_directory: ReportOption = None,
) -> int:
    """Say whether a table on disk is sound, and what is wrong: file, field, offset, expected, found."""
    if is_root(table):
        if as_preset is not None or report_directory is not None:
            raise UsageError(f"{table}: --as and --report are for one table, and this is a directory of tables")
        check_outputs(json_target)
        # This imports worker processes, which takes longer than verifying a small table.
        from tornproof.cli.root_result import verify_tables_below

        return verify_tables_below(table, quick=quick, workers=workers or CORES, json_target=json_target)
    preset = None
    if as_preset is not None:
        # This imports the explorers, which takes longer than verifying a small table; `_compatibility` does so, too.
        from tornproof.cli.preset_option import preset_named

        preset = preset_named(as_preset)
    storage = OperatingSystemStorage()
    prepare_outputs(report_directory, json_target)
    with progress_bar() as progress:
        task = progress.add_task("verifying", total=None)
        report = verify_until_stable(
            storage,
            table,
            quick=quick,
            progress=lambda name: progress.update(task, advance=1, description=name),
        )
        inspected = None
        if report_directory is not None:
            # First of all, before a running server commits much more. Its imports are those of `inspect`.
            from tornproof.cli.table_result import inspections_of

            inspected = inspections_of(
                storage, table, report, lambda name: progress.update(task, description=f"inspecting {name}")
            )
        compatibility = None
        if preset is not None:
            progress.update(task, description=f"trying {preset.name}")
            compatibility = _compatibility(table, preset)
    steps = [] if report.sound else steps_after_damage(storage, table, report)
    document = report_document(report, compatibility, steps)
    console, written = result_console(json_target), None
    try:
        if report_directory is not None and inspected is not None:
            from tornproof.cli.table_result import table_result, write_table_result

            write_table_result(report_directory, table, table_result(document, inspected))
            written = write_report(report_directory)
        write_json(document, json_target)
    finally:
        # After all is saved, because standard output may end; and also if that fails.
        print_report(console, report, quick=quick)
        if compatibility is not None:
            _print_compatibility(console, compatibility)
        for step in steps:
            console.print(Text.assemble(("next ", "bold"), visible(step)))
    if written is not None:
        written.print(console)
    is_compatible = compatibility is None or (compatibility.readable and compatibility.writable)
    return ExitCode.VALID if report.sound and is_compatible else ExitCode.INVALID


def _compatibility(table: str, preset: Preset) -> Compatibility:
    """Try a preset on a copy of the table in memory, of one committed version."""
    from tornproof.api.captured import capture_until_stable
    from tornproof.harness.systems.probe import Compatibility, cure_of, probe

    path, image = capture_until_stable(table)
    try:
        compatibility = probe(image, path, preset)
        cure = cure_of(image, path, preset, compatibility)
        if cure is None:
            return compatibility
        command = f"tornproof {cure} {shell_word(table)}"
        return dataclasses.replace(compatibility, reason=f"{compatibility.reason}; it can continue after {command}")
    except CorruptError as error:
        return Compatibility(preset=preset.name, readable=False, writable=False, reason=str(error))


def report_document(
    report: TableReport, compatibility: Compatibility | None = None, steps: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the JSON form of a report, of a preset's compatibility, and of what can be done (docs/reports.md)."""
    return {
        "format": 1,
        "table": report.table,
        "path": os.path.realpath(report.table),
        "version": report.version,
        "sound": report.sound,
        "verdict": report.verdict,
        "problems": list(map(structs.asdict, report.problems)),
        "unreferenced": list(report.unreferenced),
        "notes": list(report.notes),
        "next": list(steps),
        "counts": structs.asdict(report.counts),
        "partitions": [
            structs.asdict(partition) | {"problems": list(map(structs.asdict, partition.problems))}
            for partition in report.partitions
        ],
        "as": None
        if compatibility is None
        else {**dataclasses.asdict(compatibility), "hazards": list(compatibility.hazards)},
    }


def print_report(console: Console, report: TableReport, *, quick: bool) -> None:
    """Print a report for a person."""
    if report.partitions:
        partitions = _most_telling(report.partitions)
        console.print(_partition_grid(partitions))
        if len(partitions) < len(report.partitions):
            console.print(f"and {len(report.partitions) - len(partitions)} more partitions (--json lists them all)")
    for name in report.unreferenced:
        console.print(f"unreferenced: {visible(name)} (no committed version names it)")
    for note in report.notes:
        console.print(f"note: {visible(note)}")
    problems = report.all_problems
    for problem in problems[:PROBLEMS_SHOWN]:
        console.print(Text.assemble(("problem ", "bold red"), visible(problem)))
    if len(problems) > PROBLEMS_SHOWN:
        console.print(f"and {len(problems) - PROBLEMS_SHOWN} more problems (--json lists them all)")
    counts = report.counts
    by_checksums = counts.chunks - counts.decoded_chunks
    looked_at = (
        f"{counted(counts.partitions, 'partition')}, {counted(counts.generations, 'generation')}, "
        f"{counted(counts.thrift_footers, 'Thrift footer')}, {counted(counts.row_groups, 'row group')}, "
        f"{counted(counts.rows, 'row')}, {counted(counts.chunks, 'column chunk')} of {counts.pages_bytes} bytes "
        f"({counts.decoded_chunks} decoded, {by_checksums} by their checksums), "
        f"{counts.indexes} {'index' if counts.indexes == 1 else 'indexes'}"
    )
    verdict = Text(report.verdict, "bold green" if report.sound else "bold red")
    version = "" if report.version is None else f" version {report.version}"
    console.print(Text.assemble(f"{visible(report.table)}{version}: ", verdict))
    console.print(
        f"looked at {looked_at}" + (" (--quick: pages were left out, and indexes)" if quick else ""), style="dim"
    )


def _print_compatibility(console: Console, compatibility: Compatibility) -> None:
    verdict = Text("can continue", "bold green")
    if not compatibility.readable:
        verdict = Text("cannot read it", "bold red")
    elif not compatibility.writable:
        verdict = Text("can read it, but not continue", "bold red")
    console.print(Text.assemble(f"{compatibility.preset}: ", verdict, f": {visible(compatibility.reason)}"))
    for hazard in compatibility.hazards:
        console.print(Text.assemble(("hazard ", "bold yellow"), visible(hazard)))


def _most_telling(partitions: tuple[PartitionReport, ...]) -> list[PartitionReport]:
    """Return at most PARTITIONS_SHOWN partitions, damaged ones first chosen, in their order."""
    ranked = sorted(enumerate(partitions), key=lambda each: not each[1].problems)[:PARTITIONS_SHOWN]
    return [partition for _, partition in sorted(ranked, key=lambda each: each[0])]


def _partition_grid(partitions: list[PartitionReport]) -> Grid:
    grid = result_grid(
        *("partition", "format", ">rows", ">token", ">generations", ">orphans", ">unused", ">dead", ">problems"),
        caption="unused and dead: bytes",
    )
    for partition in partitions:
        numbers = (
            partition.rows,
            partition.token,
            partition.generations,
            partition.orphans,
            partition.unused_bytes,
            partition.dead_bytes,
            len(partition.problems),
        )
        shown = [str(number) for number in numbers]
        if partition.format == "native":
            shown[1:6] = ["-"] * 5
        style = "red" if partition.problems else "dim" if partition.format == "native" else ""
        grid.add_row(Text(visible(partition.name)), partition.format, *shown, style=style)
    return grid
