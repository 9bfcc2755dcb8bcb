"""Every limit that readers impose, so that hostile bytes cost little, and that writers therefore obey.

A writer asks `excess` before it writes anything: what it acknowledges must be readable (docs/writing.md).
"""

from __future__ import annotations

from typing import NamedTuple

PM_LIMIT_BYTES = 64 * 1024 * 1024
"""The published size of a `_pm`, which is read as a whole."""
CHUNK_LIMIT_BYTES = 128 * 1024 * 1024
GENERATION_COUNT_LIMIT = 65_536
ROW_GROUP_COUNT_LIMIT = 100_000
CHUNK_COUNT_LIMIT = 400_000
PAGE_COUNT_LIMIT = 65_536
"""The pages of one chunk."""
ARRAY_LIMIT_BYTES = (1 << 31) - 1
"""The text or binary values of one Arrow array, whose offsets have 32 bits."""
SYMBOL_COUNT_LIMIT = 1 << 20
"""The symbols of one column, whose dictionary is read as a whole."""
SYMBOL_CHARACTERS_LIMIT_BYTES = 64 * 1024 * 1024
"""The characters of these symbols, with the length of each."""

PM_SIZE = "bytes of _pm"


class Excess(NamedTuple):
    """One limit that a generation would exceed."""

    what: str
    actual: int
    allowed: int

    def __str__(self) -> str:
        return f"{self.actual:,} {self.what}, and readers accept at most {self.allowed:,}"


def excess(*, pm_bytes: int, row_group_count: int, column_count: int, generation_count: int) -> Excess | None:
    """Return the first limit that a `_pm` with these numbers exceeds, or None."""
    numbers = (
        Excess("row groups", row_group_count, ROW_GROUP_COUNT_LIMIT),
        Excess("column chunks", row_group_count * max(1, column_count), CHUNK_COUNT_LIMIT),
        Excess(PM_SIZE, pm_bytes, PM_LIMIT_BYTES),
        Excess("generations in _pm", generation_count, GENERATION_COUNT_LIMIT),
    )
    return next((number for number in numbers if number.actual > number.allowed), None)
