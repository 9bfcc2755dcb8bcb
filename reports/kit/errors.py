"""What is wrong with result data that no report can be made of."""

from __future__ import annotations


class ResultError(ValueError):
    """Result data that is not what a report expects: in which file, in which field of it, and what stands there."""

    def __init__(self, *, file: str, field: str, expected: str, actual: str) -> None:
        """Make one sentence of it."""
        super().__init__(f"{file}: {field}: expected {expected}, found {actual}")
        self.file, self.field, self.expected, self.actual = file, field, expected, actual
