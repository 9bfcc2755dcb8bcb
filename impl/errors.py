"""What can be wrong with a table, as values and as exceptions whose messages help the user to act."""

from __future__ import annotations

from typing import Self

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with one file: where, what was expected there, and what was found.

    The fields are in the order of the message. `offset_bytes` is None where the problem concerns the whole file.
    """

    file: str
    field: str
    offset_bytes: int | None
    expected: str
    actual: str

    def __str__(self) -> str:
        offset = "" if self.offset_bytes is None else f" at byte {self.offset_bytes}"
        return f"{self.file}: {self.field}{offset}: expected {self.expected}, found {self.actual}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class TornproofError(Exception):
    """Base of every error caused by bad input or a bad environment; a failed assert is a bug in this library."""


class ProblemError(TornproofError):
    """Base of the errors that name a field of a file."""

    def __init__(self, file: str, field: str, offset_bytes: int | None, expected: object, actual: object) -> None:
        self.problem = Problem(file, field, offset_bytes, str(expected), str(actual))
        super().__init__(str(self.problem))

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the error that reports `problem`."""
        return cls(problem.file, problem.field, problem.offset_bytes, problem.expected, problem.actual)

    def __reduce__(self) -> tuple[object, ...]:
        # Default pickling passes only the message to the constructor, and worker processes raise these errors.
        return type(self).of, (self.problem,), self.__dict__


class CorruptError(ProblemError):
    """The bytes contradict the format, or each other."""


class UnsupportedError(ProblemError):
    """The bytes may be right, but need a feature that this reader does not have, or more memory than it allows."""


class StorageError(TornproofError):
    """The file system rejected a call: missing, not permitted, not a regular file, an input/output error."""

    def __init__(self, file: str, operation: str, reason: str) -> None:
        self.file = file
        self.operation = operation
        self.reason = reason
        super().__init__(f"{file}: cannot {operation}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.file, self.operation, self.reason)


class FileMissingError(StorageError):
    """The file or directory is not there."""


class FileVanishedError(FileMissingError):
    """A writer removed a file of a version that a later one has replaced; the current version can be read."""

    def __init__(self, file: str, operation: str = "read", reason: str = "") -> None:
        super().__init__(file, operation, reason or "it was removed, because a later version has replaced it")


class NotATableError(TornproofError):
    """The directory does not hold a table."""


class BusyError(TornproofError):
    """A writer kept changing the file until the reader's time limit, or another process holds the table."""


class RowsRejectedError(TornproofError):
    """Rows that the table cannot take, because of their columns, types, values or timestamps."""

    @classmethod
    def at(cls, column: str, row: int | None, expected: object, actual: object) -> Self:
        """Return the error about one value, or about a whole column where `row`, counted from 0, is None."""
        row_text = "" if row is None else f", row {row}"
        return cls(f"column {column!r}{row_text}: expected {expected}, found {actual}")


class IndexedColumnError(TornproofError):
    """A table has an index, which would no longer fit its rows."""


class ParquetLastError(TornproofError):
    """A commit would leave a table that servers fail to insert into."""


class OptionsRejectedError(TornproofError, ValueError):
    """Options of a writer that are invalid, or invalid for this table."""


class UsageError(TornproofError):
    """The request is invalid, whatever the files contain."""


EMPTY_PATH = "the path is empty, as of a variable that is not set; this directory is `.`"
