"""Columns whose type was changed after a partition was written.

A server leaves the Parquet files as they are, with the column under its first id, and converts values while it reads.
Source: QuestDB's public sources of July 2026; the conversions here are those of theirs that lose nothing.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.table.check import is_same_type
from tornproof.impl.table.columns import SnapshotColumn, column_positions, position_of
from tornproof.impl.table.metadata_file import NamedColumn, TableMetadata
from tornproof.impl.types.compute import compute
from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import TypeTag, tag_of

TEXTS = (TypeTag.SYMBOL, TypeTag.STRING, TypeTag.VARCHAR)
CONVERTED = frozenset(
    {
        *((before, after) for before in TEXTS for after in (TypeTag.STRING, TypeTag.VARCHAR)),
        *((TypeTag.INT, TypeTag.LONG), (TypeTag.INT, TypeTag.DOUBLE), (TypeTag.FLOAT, TypeTag.DOUBLE)),
    }
)
"""A text that becomes a SYMBOL has no key in the table's dictionary, so servers make such a partition native first."""
INT_NULL = -(1 << 31)
"""In a server's memory; a file may have it as a value, which becomes null where the type changes."""


def is_changed(column: NamedColumn, stored: Column) -> bool:
    """Whether a partition has a table's column under an id, and with a type, that it had before."""
    return stored.id in column.former_ids and not is_same_type(stored, column.type)


def check_is_read(column: NamedColumn, stored: Column, *, file: str) -> None:
    """Raise UnsupportedError if a partition's values cannot be read as a table's column; `file` is its `_pm`."""
    if is_changed(column, stored) and (tag_of(stored.type), tag_of(column.type)) not in CONVERTED:
        expected = f"{type_name(column.type)}, as it is in the table now, or a type that is converted"
        raise UnsupportedError(file, f"TYPE of column {column.name!r}", None, expected, type_name(stored.type))


def check_types_are_read(header: FileHeader, metadata: TableMetadata | None, *, file: str) -> None:
    """Raise UnsupportedError if a partition has a column of the table whose values cannot be read."""
    positions = column_positions(header)
    for column in metadata.columns if metadata else ():
        position = position_of(column, positions)
        if position is not None:
            check_is_read(column, header.columns[position], file=file)


def type_in_both(before: SnapshotColumn, column: SnapshotColumn, *, file: str) -> SnapshotColumn:
    """Return a column of two partitions as a table without `_meta` has it, which would say what its type is now.

    If a type is converted to the other one, that is taken, because it has the values of both. Raises UnsupportedError
    if neither is; `file` is the `_pm` of the second partition.
    """
    if before.arrow_type == column.arrow_type:
        return replace(column, former_ids=before.former_ids)
    for former, now in ((before, column), (column, before)):
        if now.id >= 0 and (tag_of(former.type), tag_of(now.type)) in CONVERTED:
            return replace(now, name=column.name, former_ids=(now.id,))
    expected = f"{type_name(before.type)}, as in an earlier partition"
    actual = f"{type_name(column.type)}: the type was changed, and `_meta` is missing"
    raise UnsupportedError(file, f"TYPE of column {column.name!r}", None, expected, actual)


def converted(values: pa.Array, column: SnapshotColumn, stored: Column) -> pa.Array:
    """Return a partition's values in the type that the column has in the table."""
    if not is_changed(column, stored) or values.type == column.arrow_type:
        return values
    if tag_of(stored.type) is TypeTag.INT:
        is_null = compute("equal", values, pa.scalar(INT_NULL, values.type))
        values = compute("if_else", is_null, pa.scalar(None, values.type), values)
    return values.cast(column.arrow_type)
