"""SYMBOL columns with an index: nothing that changes rows may write to a table that has one.

A server looks rows up by `<column>.k` and `<column>.v` of each partition, which writers here do not update: lookups
would miss rows or return wrong ones.
"""

from __future__ import annotations

from tornproof.impl.errors import IndexedColumnError
from tornproof.impl.table.metadata_file import TableColumn, TableMetadata
from tornproof.impl.table.table import Table, quoted


def indexed_columns(metadata: TableMetadata | None) -> tuple[TableColumn, ...]:
    """Return the columns with an index."""
    return () if metadata is None else tuple(column for column in metadata.columns if column.is_indexed)


def index_advice(table: Table) -> str | None:
    """Return a sentence about the first column with an index, and what to do about it; None if there is none."""
    columns = indexed_columns(table.metadata)
    if not columns:
        return None
    alter = f"ALTER TABLE {quoted(table.name())} ALTER COLUMN {quoted(columns[0].name)}"
    return (
        f"column {columns[0].name!r} has an index, which only a server keeps up to date; with QuestDB, "
        f"{alter} DROP INDEX first, and {alter} ADD INDEX afterwards"
    )


def reject_indexed(table: Table) -> None:
    """Raise IndexedColumnError if a column has an index."""
    advice = index_advice(table)
    if advice is not None:
        raise IndexedColumnError(f"{table.path}: not written to: {advice}")
