"""One column of one row group, from the bytes that `_pm` names and nothing else: no footer, no other chunk.

Source: docs/writing.md, cold chunk decode.
"""

from __future__ import annotations

import pyarrow as pa

from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.errors import TornproofError, UnsupportedError
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.read.row_group import Described, batch_bound_bytes
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn, is_all_null
from tornproof.impl.table.partition import read_chunk


class ChunkMissingError(TornproofError):
    """The caller asked for a column or a row group that the partition does not have."""


def read_column_chunk(resolved: Described, handle: ReadableFile, *, ordinal: int, column: str) -> pa.Array:
    """Return a column's values in row group `ordinal`, both as the partition's own `_pm` has them.

    `handle` is its data.parquet, of which one range is read, or nothing where all values are null. Raises
    ChunkMissingError, and as `read_cold` does.
    """
    metadata = resolved.metadata
    place = next((place for place, found in enumerate(metadata.header.columns) if found.name == column), None)
    if place is None:
        raise ChunkMissingError(f"{resolved.files.name} has no column {column!r}")
    if not 0 <= ordinal < len(metadata.blocks):
        raise ChunkMissingError(f"{resolved.files.name} has {len(metadata.blocks)} row groups, and no number {ordinal}")
    chunk = metadata.blocks[ordinal].chunks[place]
    return read_cold(handle, metadata.header.columns[place], chunk, file=resolved.files.data_label)


def read_cold(handle: ReadableFile, column: Column, chunk: Chunk, *, file: str) -> pa.Array:
    """Return the values of one chunk in the column's `arrow_type`; the cost does not depend on any other column.

    Types that QuestDB knows no null of have false and 0 instead. Raises CorruptError, UnsupportedError, StorageError.
    """
    as_column = SnapshotColumn.of(column.id, column)
    _check_size(as_column, chunk, file)
    if is_all_null(column, chunk):
        return as_column.constant(chunk.num_values)
    return as_column.without_nulls(decode_chunk(read_chunk(handle, chunk, file=file), column, chunk, file=file))


def _check_size(column: SnapshotColumn, chunk: Chunk, file: str) -> None:
    """Refuse a few bytes, or none, that stand for gigabytes."""
    bound_bytes = batch_bound_bytes([chunk])
    if chunk.num_values * column.width_bytes > bound_bytes:
        expected = f"values of at most {bound_bytes} bytes in memory"
        actual = f"{chunk.num_values} values of {column.width_bytes} bytes"
        raise UnsupportedError(file, "NUM_VALUES", chunk.byte_range_start, expected, actual)
