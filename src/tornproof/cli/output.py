"""How every command speaks: tables for people, JSON for machines, one sentence and an exit code for what went wrong."""

from __future__ import annotations

import enum
import glob
import io
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table

from tornproof.cli import interruption
from tornproof.impl.errors import BusyError, CorruptError, TornproofError, UsageError

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write the result as JSON to FILE, or to standard output for -."),
]

PIPE_WIDTH = 220


class ExitCode(enum.IntEnum):
    """What a command's exit code means (README.md)."""

    VALID = 0
    INVALID = 1
    USAGE = 2
    UNKNOWN = 3


def visible(value: object, *, kept: str = "") -> str:
    """Return text whose control characters are written out, so that a name in a file cannot steer the terminal."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )


class VisibleConsole(Console):
    """A console on which only its own styles steer the terminal, whatever the text that it is given."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Write control characters out, wherever the text came from."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, kept="\n"), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to `main`: what was not read says nothing about a table."""
        raise BrokenPipeError


def error_console() -> Console:
    """Return where progress, notes and errors go."""
    return VisibleConsole(stderr=True, highlight=False)


def result_console(json_target: str | None, *, width: int | None = None) -> Console:
    """Return where results for people go: nowhere when JSON has standard output.

    A pipe has no width, so lines are not cut to one there, unless a width is asked for.
    """
    width = width or (None if sys.stdout.isatty() else PIPE_WIDTH)
    return VisibleConsole(quiet=json_target == "-", highlight=False, width=width)


def copy_to_stdout(content: IO[bytes]) -> None:
    """Copy UTF-8 text to standard output as it is; on a terminal its control characters are written out."""
    if sys.stdout.isatty():
        for line in io.TextIOWrapper(content, encoding="utf-8", errors="backslashreplace", newline="\n"):
            sys.stdout.write(visible(line, kept="\n"))
    else:
        shutil.copyfileobj(content, sys.stdout.buffer)


def result_grid(*titles: str, wraps: Collection[str] = (), caption: str | None = None) -> Table:
    """Return an empty table of a result; a title that begins with `>` stands over numbers.

    Of what is too wide for a terminal, only the columns that `wraps` names go on in the next line.
    """
    grid = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for title in titles:
        name = title.removeprefix(">")
        grid.add_column(name, justify="left" if name == title else "right", no_wrap=name not in wraps)
    return grid


def write_json(document: dict[str, Any], target: str | None) -> None:
    """Write a JSON document to the file or to standard output; a file appears whole or not at all."""
    if target is None:
        return
    text = json.dumps(document, indent=1) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    with replacing(Path(target)) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to beside `path`, and move it there when all went well.

    A link or a device is no file that could be replaced, so it is written to directly.
    """
    is_replaceable = not path.is_symlink() and (path.is_file() or not path.exists())
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial") if is_replaceable else path
    if is_replaceable:
        interruption.remove_at_end(partial.parent, glob.escape(partial.name))
    try:
        with partial.open("wb"):
            # Python says in words why a file cannot be made; pyarrow names the partial one.
            pass
        yield partial
        if is_replaceable:
            partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        if is_replaceable:
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
    """Print one sentence on standard error, in one line: names from files are neither markup nor line ends."""
    error_console().print(f"tornproof: {visible(sentence)}", markup=False, soft_wrap=True)
