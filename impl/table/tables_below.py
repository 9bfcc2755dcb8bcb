"""Tables below a directory, such as a server's data directory."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tornproof.impl.errors import UsageError
from tornproof.impl.storage.operating_system_file import LEADS_NOWHERE
from tornproof.impl.table.metadata_file import WITHOUT_ROWS
from tornproof.impl.txn.transaction import TXN_FILE

NAMED = 5
VIEW_FILE = "_view"
CHECKPOINT_DIRECTORY = ".checkpoint"
CHECKPOINT_FILES = ("_checkpoint_meta.d", "_snapshot")
"""In a whole checkpoint, the second one in those of early releases."""


def _raise(error: OSError) -> NoReturn:
    raise error


def _ignore(_: str) -> None:
    pass


def tables_below(
    top: Path, on_closed: Callable[[OSError], object] = _raise, on_left_out: Callable[[str], object] = _ignore
) -> Iterator[Path]:
    """Yield the tables below a directory by name; links are followed, but no directory is entered twice.

    `on_closed` takes the error of each directory that cannot be read; one that was removed meanwhile holds no table.
    `on_left_out` takes a note on each view and checkpoint of a server, which only look like tables.
    """
    entered: set[tuple[int, int]] = set()
    pending = [top]
    while pending:
        directory = pending.pop()
        try:
            status = directory.stat()
            if not stat.S_ISDIR(status.st_mode) or (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            holds_table = is_table(directory)
            below = [] if holds_table else sorted(directory.iterdir(), reverse=True)
            why = _why_left_out(directory, below)
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                error.filename = str(directory)  # and not the `_txn` that was looked for in it
                on_closed(error)
            continue
        if why:
            on_left_out(f"{directory}: left out, because it {why}")
        elif holds_table:
            yield directory
        pending += [] if why else below


def _why_left_out(directory: Path, below: Sequence[Path]) -> str:
    """Say what a directory is if it is left out; in that of a table nothing is below."""
    if not below:
        return f"is a view, {WITHOUT_ROWS}" if (directory / VIEW_FILE).is_file() else ""
    is_checkpoint = directory.name == CHECKPOINT_DIRECTORY or any(path.name in CHECKPOINT_FILES for path in below)
    return "holds a checkpoint, whose tables have no rows yet" if is_checkpoint else ""


def is_table(directory: Path) -> bool:
    """Return whether a directory holds `_txn`."""
    return (directory / TXN_FILE).is_file()


def is_root(path: str) -> bool:
    """Return whether a directory is no table itself, and below it is a table, or a directory that cannot be read."""
    with suppress(OSError):
        top, closed = Path(path), list[OSError]()
        # An empty path is none, and not the directory in which one is.
        if path and top.is_dir() and not is_table(top):
            return next(tables_below(top, closed.append), None) is not None or bool(closed)
    return False


def names_below(root: str) -> tuple[list[str], str, str]:
    """Return the tables below a directory, relative to it, and notes: what could not be read, and what was left out.

    Raises UsageError if there is no table.
    """
    errors: list[OSError] = []
    left_out: list[str] = []
    names = [str(path.relative_to(root)) for path in tables_below(Path(root), errors.append, left_out.append)]
    closed = [f"{error.filename}: cannot read: {error.strerror}" for error in errors]
    if not names:
        nothing = f"{root}: holds no table: there is no {TXN_FILE} in it or below it"
        raise UsageError(_in_words(closed or left_out) or nothing)
    return names, _in_words(closed), _in_words(left_out)


def _in_words(notes: Sequence[str]) -> str:
    more = [f"and {len(notes) - NAMED} more"] if len(notes) > NAMED else []
    return "; ".join([*notes[:NAMED], *more])
