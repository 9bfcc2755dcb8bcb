"""What `migrate PATH` means: a Parquet file, a partition, a table, or all tables below a directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tornproof.impl.errors import UsageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition_names import looks_like_partition
from tornproof.impl.table.tables_below import is_root, is_table, names_below
from tornproof.impl.txn.transaction import TXN_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table, or with `only` one of its partitions, or a plain file.

    `below` is its path relative to the directory of tables that was given, "" if it was given itself.
    """

    path: str
    is_file: bool = False
    only: str | None = None
    below: str = ""


def find_sources(path: str) -> tuple[list[Source], str, str]:
    """Return the sources at a path, tables below a directory by name, and the notes of `names_below`.

    The data.parquet of a table's partition stands for the partition, because `_txn` has its committed size. Raises
    UsageError if there are none.
    """
    root = Path(path)
    try:
        if root.is_file():
            partition = root.absolute().parent
            is_partition = root.name == DATA_FILE and is_table(partition.parent)
            return [_partition(partition) if is_partition else Source(path=path, is_file=True)], "", ""
        if not path or not root.is_dir():
            raise UsageError(f"{path}: there is no file or directory at this path")
        if is_table(root):
            return [Source(path=path)], "", ""
        directory = root.absolute()
        if is_table(directory.parent) and looks_like_partition(directory.name):
            return [_partition(directory)], "", ""
        is_lone = (root / DATA_FILE).is_file() and not is_root(path)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: cannot read: {error.strerror or error}") from error
    if is_lone:
        raise UsageError(f"{path}: no {TXN_FILE} beside it says where {DATA_FILE} ends; for all of it, name the file")
    names, closed, left_out = names_below(path)
    return [Source(path=str(root / name), below=name) for name in names], closed, left_out


def _partition(directory: Path) -> Source:
    return Source(path=str(directory.parent), only=directory.name)
