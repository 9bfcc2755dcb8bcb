"""Tables below a directory, such as a server's data directory."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tornproof.impl.errors import UsageError
from tornproof.impl.storage.operating_system_file import LEADS_NOWHERE
from tornproof.impl.txn.transaction import TXN_FILE

CLOSED_NAMED = 5


def _raise(error: OSError) -> NoReturn:
    raise error


def tables_below(top: Path, on_closed: Callable[[OSError], object] = _raise) -> Iterator[Path]:
    """Yield the tables below a directory by name; links are followed, but no directory is entered twice.

    `on_closed` takes the error of each directory that cannot be read; one that was removed meanwhile holds no table.
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
            if not holds_table:
                pending += sorted(directory.iterdir(), reverse=True)
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                error.filename = str(directory)  # and not the `_txn` that was looked for in it
                on_closed(error)
            continue
        if holds_table:
            yield directory


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


def names_below(root: str) -> tuple[list[str], str]:
    """Return the tables below a directory, relative to it, and in words which directories could not be read, if any.

    Raises UsageError if there is no table.
    """
    closed: list[OSError] = []
    names = [str(path.relative_to(root)) for path in tables_below(Path(root), closed.append)]
    if not names:
        raise UsageError(_in_words(closed) or f"{root}: holds no table: there is no {TXN_FILE} in it or below it")
    return names, _in_words(closed)


def _in_words(closed: Sequence[OSError]) -> str:
    named = [f"{error.filename}: cannot read: {error.strerror}" for error in closed[:CLOSED_NAMED]]
    more = [f"and {len(closed) - CLOSED_NAMED} more"] if len(closed) > CLOSED_NAMED else []
    return "; ".join([*named, *more])
