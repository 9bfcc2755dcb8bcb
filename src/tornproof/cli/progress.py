"""Progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Unseen:
    """Replaces rich's progress bar where standard error is no terminal."""

    def add_task(self, description: str, **settings: Any) -> TaskID:
        """Do nothing."""
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
    # Imported here: this would take longer than reading a small table.
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
