"""`tornproof inspect FILE`: what a file contains, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer

from tornproof.cli.console import result_console
from tornproof.cli.inspection.inspector import inspect_path
from tornproof.cli.inspection.report import counted
from tornproof.cli.inspection.tree import Printer
from tornproof.cli.numbers import within
from tornproof.cli.output import ExitCode, JsonOption, check_outputs, complain, standard_output, write_json
from tornproof.impl.storage.operating_system import OperatingSystemStorage


def inspect(
    file: Annotated[str, typer.Argument(help="A _pm, _txn, _meta or Parquet file, or the directory of a partition.")],
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="TOKEN",
            callback=within(0, (1 << 63) - 1),
            help="Show the footer that belongs to this committed size.",
        ),
    ] = None,
    hexadecimal: Annotated[
        bool, typer.Option("--hex", help="Show the fixed-size records as annotated hex as well.")
    ] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Show lists in full.")] = False,
    json_target: JsonOption = None,
) -> ExitCode:
    """Show what a file contains: structure, statistics, the purpose of every byte, and what is wrong."""
    check_outputs(json_target)
    found = inspect_path(OperatingSystemStorage(), file, at)
    write_json(found.document, json_target)
    if json_target != "-":
        # What it shows is asked for, too, and not only whether the file is damaged.
        standard_output()
        found.print(Printer(result_console(json_target), show_all=show_all), hexadecimal=hexadecimal)
    return _conclude(found.document["file"], len(found.document["problems"]))


def _conclude(file: str, problem_count: int) -> ExitCode:
    if not problem_count:
        return ExitCode.VALID
    complain(f"{file}: damaged or not as expected: {counted(problem_count, 'problem')}")
    return ExitCode.INVALID
