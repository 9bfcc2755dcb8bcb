"""Why a Parquet file is not converted, in the error classes of QuestDB's converter (docs/migration.md)."""

from __future__ import annotations

import enum

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.parquet.thrift import BrokenError, Step, path_text


class Cause(enum.Enum):
    """Classes of rejections, in the order in which the converter checks them."""

    TAIL = "the size given is not where a Parquet file ends"
    NEGATIVE = "a size, a count or an offset is negative"
    FIELD_MISSING = "a required field is missing"
    BAD_DATA = "an unknown member of a union, text that is no UTF-8, or an unknown wire type"
    BUDGET = "the footer asks for more memory than its length allows"
    TRUNCATED = "the footer ends too early"
    VARINT = "an integer has too many bytes"
    DEPTH = "structs are nested too deeply"
    SCHEMA = "the schema is not one tree of legal elements"
    OUT_OF_RANGE = "an enumeration has no such value"
    ROW_GROUP = "a row group does not have the chunks of its schema"
    JSON = "the `questdb` JSON is not what it should be"
    FILE_PATH = "a chunk lies in another file"
    SORTING = "row groups are sorted differently"
    LEVELS = "a column is nested too deeply"
    LONG_STATISTIC = "a minimum or maximum is too long"
    BLOOM = "a bloom filter cannot be read"
    PAGES = "the timestamps of a row group cannot be decoded"


UNSUPPORTED = frozenset({Cause.BUDGET, Cause.DEPTH, Cause.FILE_PATH, Cause.SORTING, Cause.LEVELS, Cause.LONG_STATISTIC})


class RejectedCorruptError(CorruptError):
    """The file is damaged; `cause` says how."""

    cause: Cause


class RejectedUnsupportedError(UnsupportedError):
    """The file may be sound, but `_pm` cannot describe it, or it would take too much memory."""

    cause: Cause


class RejectionError(BrokenError):
    """A problem inside a footer; each level of nesting adds its step while the error propagates, innermost first."""

    def __init__(
        self,
        cause: Cause,
        expected: object,
        actual: object,
        offset_bytes: int | None = None,
        *,
        step: Step | None = None,
    ) -> None:
        super().__init__(expected, actual, offset_bytes, step=step)
        self.cause = cause

    def at(self, *steps: Step) -> RejectionError:
        """Add steps, innermost first, and return self."""
        self.steps += steps
        return self


def error_of(rejection: RejectionError, *, file: str) -> RejectedCorruptError | RejectedUnsupportedError:
    """Return the public error."""
    field = path_text(rejection.steps[::-1])
    kind = RejectedUnsupportedError if rejection.cause in UNSUPPORTED else RejectedCorruptError
    error = kind(
        file=file,
        field="footer" if field == "struct" else field,
        offset_bytes=rejection.offset_bytes,
        expected=rejection.expected,
        actual=rejection.actual,
    )
    error.cause = rejection.cause
    return error
