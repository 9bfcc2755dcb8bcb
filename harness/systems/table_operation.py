"""One commit to a table, as data."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


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
