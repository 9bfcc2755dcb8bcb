"""A table without write-ahead log whose last partition is in Parquet: servers fail to insert into it.

They take the last partition of such a table for a native one. An insert in order ends in a NullPointerException; with
one row in the partition it is acknowledged, lost, and the partition's directory deleted (docs/known-defects.md).
"""

from __future__ import annotations

from tornproof.impl.table.table import Table, quoted


def parquet_last_advice(table: Table, last_is_parquet: bool) -> str | None:
    """Return what a server would do to the table if its last partition is in Parquet, and the cure; None if nothing."""
    if table.metadata is None or table.metadata.has_wal or not last_is_parquet:
        return None
    return (
        "the last partition of a table without write-ahead log is in Parquet, and a server's next insert into it fails "
        f"or is lost; with QuestDB, ALTER TABLE {quoted(table.name())} SET TYPE WAL and a restart cure that"
    )
