"""Where a command prints tables and colours for people, with rich; what prints none of them starts without it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from tornproof.cli.output import visible

PIPE_WIDTH = 220


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
    """Return where progress goes."""
    return VisibleConsole(stderr=True, highlight=False)


def result_console(json_target: str | None, *, width: int | None = None) -> Console:
    """Return where results for people go: nowhere when JSON has standard output.

    A pipe has no width, so lines are not cut to one there, unless a width is asked for.
    """
    width = width or (None if sys.stdout.isatty() else PIPE_WIDTH)
    return VisibleConsole(quiet=json_target == "-", highlight=False, width=width)


def result_grid(*titles: str, wraps: Collection[str] = (), caption: str | None = None) -> Table:
    """Return an empty table of a result; a title that begins with `>` stands over numbers.

    Of what is too wide for a terminal, only the columns that `wraps` names go on in the next line.
    """
    grid = Table(box=None, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for title in titles:
        name = title.removeprefix(">")
        grid.add_column(name, justify="left" if name == title else "right", no_wrap=name not in wraps)
    return grid
