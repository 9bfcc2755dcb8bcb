"""First and last timestamp of a row group, decoded if the footer lacks them (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.chunk.chunk import check_pages, decode_checked
from tornproof.impl.errors import ProblemError
from tornproof.impl.layout.pm import INLINE_STATISTIC_LIMIT_BYTES
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.parquet.fields import BY_DICTIONARY, PageEncoding, PageType
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TIMESTAMP_NS, TypeTag

CHUNK_MAX_BYTES = 1 << 30
NULL = -1 << 63
ENCODINGS = {
    PhysicalType.INT64: {PageEncoding.PLAIN, *BY_DICTIONARY, PageEncoding.DELTA_BINARY_PACKED},
    PhysicalType.INT96: {PageEncoding.PLAIN, *BY_DICTIONARY},
}
"""Encodings of the data pages that are decoded."""
_DECODED_AS = {PhysicalType.INT64: int(TypeTag.LONG), PhysicalType.INT96: TIMESTAMP_NS}


def with_bounds(chunk: Chunk, column: Column, read: Callable[[int, int], bytes], *, file: str) -> Chunk:
    """Return the chunk with the first and last row's value as minimum and maximum, unless it has both inlined.

    For unsorted rows these are not bounds. Raises RejectionError if the pages cannot be decoded.
    """
    if chunk.num_values == 0 or (_is_inlined(chunk.minimum) and _is_inlined(chunk.maximum)):
        return chunk
    first, last = _first_and_last(chunk, column, read, file)
    return replace(chunk, minimum=_statistic(first), maximum=_statistic(last))


def _is_inlined(statistic: Statistic | None) -> bool:
    return statistic is not None and len(statistic.value) <= INLINE_STATISTIC_LIMIT_BYTES


def _statistic(value: int) -> Statistic:
    return Statistic(value=value.to_bytes(8, "little", signed=True), exact=True)


def _first_and_last(chunk: Chunk, column: Column, read: Callable[[int, int], bytes], file: str) -> tuple[int, int]:
    physical_type = PhysicalType(column.physical_type)
    if physical_type not in ENCODINGS or chunk.total_compressed > CHUNK_MAX_BYTES:
        raise _rejection(chunk, f"a chunk of {' or '.join(kind.name for kind in ENCODINGS)}", physical_type.name)
    content = read(chunk.total_compressed, chunk.byte_range_start)
    # The statistics that are replaced must not be used, and neither must the null count.
    bare = replace(chunk, null_count=None, distinct_count=None, minimum=None, maximum=None)
    stored = replace(column, type=_DECODED_AS[physical_type])
    try:
        checked = check_pages(content, stored, bare, file=file)
        for page in checked.pages:
            if page.kind is not PageType.DICTIONARY and page.encoding not in ENCODINGS[physical_type]:
                raise _rejection(chunk, "an encoding of timestamps", page.encoding)
        values = decode_checked(content, stored, bare, checked, file=file)
    except ProblemError as error:
        raise _rejection(chunk, error.problem.expected, error.problem.actual) from None
    if len(values) == 0:
        raise _rejection(chunk, "rows", "none")
    return _value(values, 0), _value(values, len(values) - 1)


def _value(values: pa.Array, row: int) -> int:
    value = values[row].cast(pa.int64()).as_py()
    return NULL if value is None else int(value)


def _rejection(chunk: Chunk, expected: object, actual: object) -> RejectionError:
    return RejectionError(Cause.PAGES, expected, actual, chunk.byte_range_start, step="pages")
