"""The error for rows that a table cannot take, when nothing is wrong with any file, and partitions that take none."""

from __future__ import annotations

from typing import Self

from impl.errors import TornproofError
from impl.layout import txn as layout
from impl.table import Table
from impl.transaction import Partition


class RowsRefusedError(TornproofError):
    """Rows that the table cannot take, because of their columns, types, values or place."""

    @classmethod
    def at(cls, column: str, row: int | None, *, expected: object, actual: object) -> Self:
        """Return the error about one value, or about a whole column where `row`, from 0 in its array, is None."""
        place = "" if row is None else f", row {row}"
        return cls(f"column {column!r}{place}: expected {expected}, found {actual}")


def refuse_unless_writable(table: Table, partition: Partition) -> None:
    """Raise RowsRefusedError for a partition that only a server writes to."""
    name = table.directory_of(partition)
    if not partition.is_parquet:
        raise RowsRefusedError(f"{name}: its rows are not in Parquet; only the server writes to it")
    if layout.READ_ONLY.get(partition.flags):
        raise RowsRefusedError(f"{name}: it is marked as read-only")
    if not table.files_of(partition).has_pm():
        raise RowsRefusedError(f"{name}: it has no _pm, because a release before 9.4.0 wrote it")
