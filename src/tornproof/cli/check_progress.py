"""The progress bars of `check`: one a phase, on standard error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tornproof.cli.console import error_console
from tornproof.harness.check import PhaseName
from tornproof.harness.parallel.tasks import OnProgress, Progress

RATE_SECONDS_MIN = 0.1
"""A shorter phase shows no rate."""


class RateColumn(ProgressColumn):
    """The cases per second of a phase."""

    def render(self, task: Task) -> Text:
        """Return the rate of one phase."""
        seconds = task.finished_time or task.elapsed or 0.0
        return Text(f"{task.fields['cases'] / seconds:>8,.0f}/s" if seconds > RATE_SECONDS_MIN else " " * 10)


@contextmanager
def progress_bars(phases: Sequence[PhaseName]) -> Iterator[OnProgress]:
    """Show a progress bar for each phase on standard error, if that is a terminal."""
    console = error_console()
    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TextColumn("{task.fields[cases]:>9,} cases"),
        RateColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        shown = {name: bars.add_task(name, total=1.0, start=False, cases=0) for name in phases}

        def on_progress(progress: Progress) -> None:
            bar = shown[PhaseName(progress.name)]
            bars.start_task(bar)
            bars.update(bar, completed=progress.done_part, cases=progress.cases)

        yield on_progress
