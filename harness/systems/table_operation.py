"""One commit to a table, as data."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import pyarrow as pa

from tornproof.impl.table.partition_names import EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOperation:
    """One commit: the partitions that are dropped and rewritten (by timestamp), the new rows, and a purge after it.

    With `abandons` it ends before its version is stored, as that of a killed writer does, and leaves orphans.
    """

    rows: tuple[pa.Table, ...] = ()
    dropped: tuple[int, ...] = ()
    rewritten: tuple[int, ...] = ()
    purges: bool = False
    abandons: bool = False

    def __str__(self) -> str:
        """Say in words what it does."""
        row_count = sum(rows.num_rows for rows in self.rows)
        words = {
            f"writes {row_count:,} row{'' if row_count == 1 else 's'}": bool(self.rows),
            f"drops {', '.join(map(_time, self.dropped))}": bool(self.dropped),
            f"rewrites {', '.join(map(_time, self.rewritten))}": bool(self.rewritten),
            "purges": self.purges,
            "is aborted before its version is stored": self.abandons,
        }
        return " and ".join(text for text, is_done in words.items() if is_done) or "changes nothing"


def _time(timestamp: int) -> str:
    """Return the start of a partition, in microseconds, as a time."""
    return (EPOCH + datetime.timedelta(microseconds=timestamp)).isoformat()
