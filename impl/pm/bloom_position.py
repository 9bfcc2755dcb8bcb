"""The bloom filter of a column chunk: in `_pm`, or in data.parquet at the position in the footer of `_pm`.

Source: parquet-metadata.md, Bloom filters. An external reference points to the bitset itself, as specified there, or
to Parquet's Thrift header in front of it.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import NoReturn

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES, HEADER_MAX_BYTES, SIZE_MAX_BYTES, decode_filter_header
from tornproof.impl.pm.block import decode_bitset
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import BloomReference, bloom_reference_offset

ReadData = Callable[[int, int], bytes]


def bitset_of(
    content: Buffer,
    metadata: Metadata,
    ordinal: int,
    column_index: int,
    *,
    read_data: ReadData | None,
    file: str,
) -> bytes | None:
    """Return the filter of a column in a row group, or None if there is none or no data.parquet to read it from.

    `content` are the published bytes of `_pm`, which errors call `file`; `read_data` takes a size and an offset in
    data.parquet, and returns fewer bytes at its end. Raises CorruptError for what is not a filter, whose bitset is a
    multiple of 32 bytes.
    """
    reference = reference_of(metadata, ordinal, column_index)
    if reference is None:
        return None
    if reference.length_bytes is None:
        limit_bytes = metadata.generation.position.offset_bytes
        bitset = decode_bitset(content, reference.offset_bytes, limit_bytes=limit_bytes, file=file)
    elif read_data is None:
        return None
    else:
        bitset = _external(reference, reference.length_bytes, metadata, ordinal, column_index, read_data, file)
    if len(bitset) % BLOCK_BYTES:
        raise CorruptError(
            file, "bloom bitset LENGTH", reference.offset_bytes, f"a multiple of {BLOCK_BYTES}", len(bitset)
        )
    return bitset


def reference_of(metadata: Metadata, ordinal: int, column_index: int) -> BloomReference | None:
    """Return the footer's reference to a column's filter in a row group, or None."""
    columns = metadata.header.bloom_columns
    position = bisect.bisect_left(columns, column_index)
    if columns[position : position + 1] != (column_index,):
        return None
    return metadata.generation.blooms[ordinal][position]


def _external(
    reference: BloomReference,
    length_bytes: int,
    metadata: Metadata,
    ordinal: int,
    column_index: int,
    read_data: ReadData,
    file: str,
) -> bytes:
    def reject(expected: str, actual: object) -> NoReturn:
        header, location = metadata.header, metadata.generation.position
        name = header.columns[column_index].name
        field = f"bloom reference of column {name!r} of row group {ordinal}"
        offset_bytes = bloom_reference_offset(location, header, ordinal, header.bloom_columns.index(column_index))
        raise CorruptError(file, field, offset_bytes, expected, actual)

    longest = min(metadata.token - reference.offset_bytes, SIZE_MAX_BYTES + HEADER_MAX_BYTES)
    if not 0 < length_bytes <= longest:
        reject(f"1 to {max(longest, 0)} bytes of data.parquet", length_bytes)
    raw = read_data(length_bytes, reference.offset_bytes)
    if len(raw) < length_bytes:
        reject(f"{length_bytes} bytes at {reference.offset_bytes} of data.parquet", f"{len(raw)} before the file ends")
    # A header is shorter than a block, so a bitset with a header is never a whole number of blocks.
    if length_bytes % BLOCK_BYTES == 0:
        return raw
    try:
        size_bytes, start = decode_filter_header(raw, file=file)
    except CorruptError as error:
        reject("a bitset, or a bloom filter header and its bitset", error.problem.actual)
    if start + size_bytes != length_bytes or size_bytes == 0:
        reject(f"a header and a bitset of {length_bytes - start} bytes", f"{size_bytes} bytes, as the header says")
    return raw[start:]
