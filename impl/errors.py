"""What can be wrong with a table, as values and as exceptions that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one file: where it stands, what should stand there, what does.

    The parts come in the order of the sentence that says it. `offset_bytes` is the place in `file`, or None where the
    whole file is meant.
    """

    file: str
    field: str
    offset_bytes: int | None
    expected: str
    actual: str

    def __str__(self) -> str:
        position = "" if self.offset_bytes is None else f" at byte {self.offset_bytes}"
        return f"{self.file}: {self.field}{position}: expected {self.expected}, found {self.actual}"


class TornproofError(Exception):
    """Base of every error that bad input or a bad environment can cause; an assert means our own bug."""


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
        # The default pickling would give the message alone to the constructor, and worker processes raise these.
        return type(self).of, (self.problem,), self.__dict__


class CorruptError(ProblemError):
    """The bytes contradict the format, or each other."""


class UnsupportedError(ProblemError):
    """The bytes may be right, but use something that this reader does not know or refuses to spend memory on."""


class StorageError(TornproofError):
    """The file system refused a call: missing, not permitted, not a regular file, an input/output error."""

    def __init__(self, file: str, operation: str, reason: str) -> None:
        self.file = file
        self.operation = operation
        self.reason = reason
        super().__init__(f"{file}: cannot {operation}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.file, self.operation, self.reason)


class FileMissingError(StorageError):
    """The file or directory is not there."""


class NotATableError(TornproofError):
    """The directory does not hold a table."""


class BusyError(TornproofError):
    """A writer kept changing the file for as long as the reader was willing to try."""


class RowsRejectedError(TornproofError):
    """Rows that the table cannot take, because of their columns, types, values or place."""

    @classmethod
    def at(cls, column: str, row: int | None, expected: object, actual: object) -> Self:
        """Return the error about one value, or about a whole column where `row`, from 0 in its array, is None."""
        position = "" if row is None else f", row {row}"
        return cls(f"column {column!r}{position}: expected {expected}, found {actual}")


class UsageError(TornproofError):
    """What was asked for cannot be done, whatever is in the files."""
