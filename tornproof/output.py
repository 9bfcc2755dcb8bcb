"""How every command speaks: tables for people, JSON for machines, one sentence and an exit code for what went wrong."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from impl.errors import BusyError, CorruptError, TornproofError

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write the result as JSON to FILE, or to standard output for -."),
]

PIPE_WIDTH = 220


class ExitCode(enum.IntEnum):
    """What a command's exit code means (design, section 11)."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3


class UsageError(TornproofError):
    """The command line asks for something that cannot be done."""


def error_console() -> Console:
    """Return where progress, notes and errors go."""
    return Console(stderr=True, highlight=False)


def result_console(json_target: str | None) -> Console:
    """Return where results for people go: nowhere when JSON has standard output.

    A pipe has no width, so lines are not cut to one there.
    """
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(quiet=json_target == "-", highlight=False, width=width)


def write_json(document: dict[str, Any], target: str | None) -> None:
    """Write a JSON document to the file or to standard output; a file appears whole or not at all."""
    if target is None:
        return
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    with replacing(Path(target)) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to beside `path`, and move it there when all went well."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress on a terminal's standard error, and nothing in a pipe."""
    console = error_console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def exit_code_of(error: TornproofError) -> ExitCode:
    """Return the exit code that an error means when it ends a command."""
    match error:
        case CorruptError():
            return ExitCode.INVALID
        case BusyError():
            return ExitCode.UNKNOWN
        case _:
            return ExitCode.USAGE


def complain(sentence: str) -> None:
    """Print one sentence on standard error, as it is: names from files are no markup."""
    error_console().print(f"tornproof: {sentence}", markup=False, soft_wrap=True)
