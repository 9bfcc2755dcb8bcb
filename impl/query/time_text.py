"""Times as people write them, and what they are as numbers of a column."""

from __future__ import annotations

import pyarrow as pa

from tornproof.impl.errors import TornproofError


class TimeTextError(TornproofError):
    """A text that is no time, or none that the column can hold."""


def time_of_text(text: str, unit: str) -> int:
    """Return a time as a column of that unit counts it; times without zone are UTC. Raises TimeTextError."""
    try:
        return int(pa.scalar(text.strip().removesuffix("Z")).cast(pa.timestamp(unit)).value)
    except ValueError as error:
        raise TimeTextError(f"{text!r} is no time; write 2024-01-31 or 2024-01-31T12:30:00.5") from error
