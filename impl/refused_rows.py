"""The error for rows that a table cannot take; nothing is wrong with any file then."""

from __future__ import annotations

from typing import Self

from impl.errors import TornproofError


class RowsRefusedError(TornproofError):
    """Rows that the table cannot take, because of their columns, types, values or place."""

    @classmethod
    def at(cls, column: str, row: int | None, *, expected: object, actual: object) -> Self:
        """Return the error about one value, or about a whole column where `row`, from 0 in its array, is None."""
        place = "" if row is None else f", row {row}"
        return cls(f"column {column!r}{place}: expected {expected}, found {actual}")
