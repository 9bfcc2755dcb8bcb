"""Tables below a directory, such as a server's data directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tornproof.impl.txn.transaction import TXN_FILE


def tables_below(top: Path) -> Iterator[Path]:
    """Yield the tables below a directory by name; links are followed, but no directory is entered twice."""
    entered: set[tuple[int, int]] = set()
    pending = [top]
    while pending:
        directory = pending.pop()
        status = directory.stat()
        if (status.st_dev, status.st_ino) in entered:
            continue
        entered.add((status.st_dev, status.st_ino))
        if is_table(directory):
            yield directory
        else:
            pending += sorted(filter(_is_directory, directory.iterdir()), reverse=True)


def is_table(directory: Path) -> bool:
    """Return whether a directory holds `_txn`."""
    return (directory / TXN_FILE).is_file()


def is_root(path: str) -> bool:
    """Return whether a directory is no table itself, and has a table below it."""
    with suppress(OSError):
        top = Path(path)
        # An empty path is none, and not the directory in which one is.
        return bool(path) and top.is_dir() and not is_table(top) and next(tables_below(top), None) is not None
    return False


def _is_directory(entry: Path) -> bool:
    with suppress(OSError):
        # A circular link raises OSError.
        return entry.is_dir()
    return False
