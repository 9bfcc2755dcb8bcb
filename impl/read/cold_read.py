"""One column of one row group, read from the byte range in `_pm` alone: no Thrift footer, no other chunk."""

from __future__ import annotations

import pyarrow as pa

from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.chunk.statistics import check_rows
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.read.row_group import batch_bound_bytes
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn, is_all_null
from tornproof.impl.table.partition import read_chunk


def read_cold(handle: ReadableFile, column: Column, chunk: Chunk, *, row_count: int, file: str) -> pa.Array:
    """Return the values of one chunk in the column's `arrow_type`; the cost does not depend on any other column.

    `handle` is data.parquet, of which one range is read, or nothing if all values are null; `row_count` is that of the
    row group. Types that have no null in QuestDB have false and 0 instead. Raises CorruptError, UnsupportedError,
    StorageError.
    """
    as_column = SnapshotColumn.of(column.id, column)
    _check_size(as_column, chunk, file)
    if is_all_null(column, chunk):
        return as_column.constant(chunk.num_values)
    values = decode_chunk(read_chunk(handle, chunk, file=file), column, chunk, file=file)
    check_rows(values, row_count, column, chunk, file=file)
    return as_column.without_nulls(values)


def _check_size(column: SnapshotColumn, chunk: Chunk, file: str) -> None:
    """Reject a few bytes, or none, that would decode to gigabytes."""
    bound_bytes = batch_bound_bytes([chunk])
    if chunk.num_values * column.width_bytes > bound_bytes:
        expected = f"values of at most {bound_bytes} bytes in memory"
        actual = f"{chunk.num_values} values of {column.width_bytes} bytes"
        raise UnsupportedError(file, "NUM_VALUES", chunk.byte_range_start, expected, actual)
