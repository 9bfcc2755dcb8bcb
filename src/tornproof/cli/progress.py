"""How far a command has come, for whoever watches it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Unseen:
    """Stands for the progress bar of rich where nobody would see it."""

    def add_task(self, description: str, **settings: Any) -> TaskID:
        """Do nothing, as all of these."""
        return 0  # type: ignore[return-value]

    def update(self, task: TaskID, **changes: Any) -> None:
        """Do nothing."""


ProgressBar: TypeAlias = "Progress | Unseen"


@contextmanager
def progress_bar() -> Iterator[ProgressBar]:
    """Show progress on a terminal's standard error, and nothing in a pipe."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Unseen()
        return
    # Only here: in a pipe these would cost more than reading a small table does.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from tornproof.cli.console import error_console

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = error_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress
