"""Row groups that every reader of this library accepts, however well their values compress.

A reader bounds the memory for a page, a chunk, and a whole row group by their bytes on disk, so that a few hostile
bytes cannot decode to gigabytes (docs/format.md). Rows that would exceed these bounds are written as more row groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tornproof.impl import limits
from tornproof.impl.chunk.chunk import VALUE_COUNT_MAX, pages_of
from tornproof.impl.chunk.expansion import bound_bytes
from tornproof.impl.chunk.row_group_encoder import HOME_BYTES, EncodedRowGroup
from tornproof.impl.errors import RowsRejectedError, UnsupportedError
from tornproof.impl.parquet.arrow_writer import META, meta_of
from tornproof.impl.parquet.pages import PAGE_SIZE_MAX_BYTES
from tornproof.impl.parquet.thrift import Struct, value_of
from tornproof.impl.read.row_group import BATCH_FLOOR_BYTES, batch_bound_bytes
from tornproof.impl.table.columns import VARIABLE_WIDTH_BYTES
from tornproof.impl.types.raw_arrays import LIST_COUNT_MAX, inner_list_count


def readable_row_groups(rows: pa.Table, encode: Callable[[pa.Table], EncodedRowGroup]) -> Iterator[EncodedRowGroup]:
    """Yield rows as one row group, or halved repeatedly until each part can be read.

    The columns are in the order of the chunks. Raises as `encode` does, and RowsRejectedError for a row that is too
    large.
    """
    group = encode(rows)
    if _is_readable(rows, group):
        yield group
        return
    if rows.num_rows == 1:
        pages = map(_uncompressed_bytes, group.columns)
        sizes = {
            name: max(column.nbytes, page_bytes)
            for name, column, page_bytes in zip(rows.column_names, rows.columns, pages, strict=True)
        }
        largest = max(sizes, key=lambda name: sizes[name])
        expected = (
            f"at most {PAGE_SIZE_MAX_BYTES} bytes a value (a symbol with all before it),"
            f" {LIST_COUNT_MAX} lists inside of an array and {BATCH_FLOOR_BYTES} bytes a row"
        )
        raise RowsRejectedError.at(largest, None, expected, f"{sizes[largest]} in one row")
    middle = rows.num_rows // 2
    del group
    yield from readable_row_groups(rows.slice(0, middle), encode)
    yield from readable_row_groups(rows.slice(middle), encode)


def _is_readable(rows: pa.Table, group: EncodedRowGroup) -> bool:
    """Whether every reader accepts a row group of these rows."""
    row_count = rows.num_rows
    if row_count > VALUE_COUNT_MAX or any(inner_list_count(column) > LIST_COUNT_MAX for column in rows.columns):
        return False
    if any(new.size_bytes > limits.CHUNK_LIMIT_BYTES for _, new in group.duplicates.values()):
        return False
    sizes = [int(column.nbytes) for column in rows.columns]
    together = sum(max(size, VARIABLE_WIDTH_BYTES * row_count) + row_count for size in sizes)
    return together <= batch_bound_bytes(group.chunks) and all(
        _is_readable_chunk(size, row_count, index, group) for index, size in enumerate(sizes)
    )


def _is_readable_chunk(size_bytes: int, row_count: int, index: int, group: EncodedRowGroup) -> bool:
    chunk, pages_bytes = group.chunks[index], _uncompressed_bytes(group.columns[index])
    # The values, their pages, and eight bytes a value for levels, offsets and narrow types. A single value repeats
    # no other, so only its page counts. A dictionary of symbols has also those that are in no row.
    cost_bytes = max(size_bytes * min(row_count, 2) + VARIABLE_WIDTH_BYTES * row_count, pages_bytes)
    if cost_bytes > bound_bytes(chunk) or chunk.total_compressed > limits.CHUNK_LIMIT_BYTES:
        return False
    # Every row has a page of its own at most, and the dictionary is one more.
    if cost_bytes <= PAGE_SIZE_MAX_BYTES and row_count < limits.PAGE_COUNT_LIMIT:
        return True
    start = chunk.byte_range_start - HOME_BYTES
    try:
        pages_of(group.content[start : start + chunk.total_compressed], chunk, file="")
    except UnsupportedError:
        return False
    return True


def _uncompressed_bytes(column: Struct) -> int:
    size_bytes = value_of(meta_of(column), META["total_uncompressed_size"])
    assert isinstance(size_bytes, int), size_bytes
    return size_bytes
