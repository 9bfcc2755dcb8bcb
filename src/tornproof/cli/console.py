"""Consoles for tables and colours, with rich; commands that print neither start faster without this module."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from tornproof.cli.output import visible

PIPE_WIDTH = 220


class VisibleConsole(Console):
    """A console that writes out control characters in text, so that only its own styles control the terminal.

    Text has no markup and no emoji codes: a name with brackets or colons is printed as it is.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments with control characters written out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, kept="\n"), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to `main`: a closed pipe says nothing about a table."""
        raise BrokenPipeError


def error_console() -> Console:
    """Return where progress goes."""
    return VisibleConsole(stderr=True)


def result_console(json_target: str | None, *, width: int | None = None) -> Console:
    """Return where results for people go: nowhere when JSON has standard output.

    A pipe has no width, so lines are long there unless a width is given.
    """
    width = width or (None if sys.stdout.isatty() else PIPE_WIDTH)
    return VisibleConsole(quiet=json_target == "-", width=width)


def result_grid(*titles: str, wraps: Collection[str] = (), caption: str | None = None) -> Table:
    """Return an empty table of a result; columns whose title begins with `>` are right-aligned.

    Only the columns that `wraps` names continue on the next line where the terminal is too narrow.
    """
    grid = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for title in titles:
        name = title.removeprefix(">")
        grid.add_column(name, justify="left" if name == title else "right", no_wrap=name not in wraps)
    return grid
