"""QuestDB's own form of arrays in data.parquet: one BYTE_ARRAY value per array (docs/format.md).

A value consists of a u32 length per dimension, zeros up to a multiple of 8 bytes, and the doubles in row-major order.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tornproof.impl.errors import CorruptError, RowsRejectedError, UnsupportedError
from tornproof.impl.types.arrow import list_type
from tornproof.impl.types.compute import compute

LENGTH_BYTES = 4
ELEMENT_BYTES = 8
# Empty lists take no bytes in the file, so their total number on all levels needs a limit of its own.
LIST_COUNT_MAX = 1 << 22
# More elements than any chunk can hold; exact as a double, as is its product with any smaller count.
ELEMENT_COUNT_CEILING = 2.0**40
# The limit of the offsets of an Arrow binary array.
BINARY_MAX_BYTES = (1 << 31) - 1

Integers: TypeAlias = npt.NDArray[np.int64]


def lists_of(values: pa.Array, dimensions: int, *, file: str, field: str, offset_bytes: int) -> pa.Array:
    """Return a binary array of raw arrays as lists; nulls stay null.

    `field` and `offset_bytes` are used in errors. Raises CorruptError for a value whose length does not fit its
    dimensions, UnsupportedError for more than 2^22 lists inside arrays.
    """
    header_bytes = _header_bytes(dimensions)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    offsets, data = _offsets_and_data(values)
    starts, sizes = offsets[:-1][is_valid], np.diff(offsets)[is_valid]

    def reject(expected: str, actual: object) -> None:
        raise CorruptError(file=file, field=field, offset_bytes=offset_bytes, expected=expected, actual=actual)

    if (sizes < header_bytes).any():
        reject(f"arrays of at least {header_bytes} bytes", f"one of {sizes.min()}")
    headers = data[starts[:, None] + np.arange(header_bytes)]
    lengths_end = dimensions * LENGTH_BYTES
    if headers[:, lengths_end:].any():
        reject("zeros between an array's lengths and its elements", "others")
    lengths = np.ascontiguousarray(headers[:, :lengths_end]).view("<u4").reshape(-1, dimensions)
    list_counts = _list_counts(lengths)
    expected_bytes = header_bytes + ELEMENT_BYTES * list_counts[:, -1]
    if (wrong := np.flatnonzero(expected_bytes != sizes)).size:
        shape = " x ".join(map(str, lengths[wrong[0]]))
        reject(f"{expected_bytes[wrong[0]]:.0f} bytes for an array of {shape}", sizes[wrong[0]])
    if (inner := list_counts[:, :-1].sum()) > LIST_COUNT_MAX:
        raise UnsupportedError(
            file=file,
            field=field,
            offset_bytes=offset_bytes,
            expected=f"at most {LIST_COUNT_MAX} lists inside of arrays",
            actual=f"{inner:.0f} or more",
        )
    # Every value has been checked to be whole words, and pyarrow's builders store no bytes for a null.
    assert sizes.sum() == len(data)
    words = data.view("<f8")
    is_header = (starts[:, None] + np.arange(0, header_bytes, ELEMENT_BYTES)) // ELEMENT_BYTES
    return _nest(np.delete(words, is_header.ravel()), lengths, is_valid)


def inner_list_count(lists: pa.ChunkedArray) -> int:
    """Return how many lists are inside of lists, on all levels, which `lists_of` allows `LIST_COUNT_MAX` of."""
    count = 0
    while pa.types.is_list(lists.type) and pa.types.is_list(lists.type.value_type):
        lists = compute("list_flatten", lists)
        count += len(lists)
    return count


def raw_of(lists: pa.Array, dimensions: int, *, column: str) -> pa.Array:
    """Return lists as a binary array of raw arrays, the inverse of `lists_of`; nulls stay null.

    `lists` has the type `list_type(dimensions)`. A null element becomes NaN, which is QuestDB's null of a double.
    Raises RowsRejectedError, naming `column`, for ragged lists and for more than 2^31 - 1 bytes together.
    """
    is_valid = lists.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_valid)
    lengths, elements = _lengths_and_elements(lists, dimensions, rows, column)
    header_words = _header_bytes(dimensions) // ELEMENT_BYTES
    sizes = np.zeros(len(lists), np.int64)
    sizes[rows] = header_words + lengths.prod(axis=1)
    word_offsets = np.concatenate(([0], np.cumsum(sizes)))
    size_bytes = int(word_offsets[-1]) * ELEMENT_BYTES
    if size_bytes > BINARY_MAX_BYTES:
        raise RowsRejectedError.at(
            column, None, expected=f"at most {BINARY_MAX_BYTES} bytes of arrays", actual=size_bytes
        )
    headers = np.zeros((len(rows), header_words * (ELEMENT_BYTES // LENGTH_BYTES)), "<u4")
    headers[:, :dimensions] = lengths
    is_header = word_offsets[rows][:, None] + np.arange(header_words)
    words = np.empty(word_offsets[-1], "<u8")
    is_element = np.ones(len(words), np.bool_)
    is_element[is_header] = False
    words[is_header] = headers.view("<u8")
    words[is_element] = elements.view("<u8")
    validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    offsets = pa.py_buffer((word_offsets * ELEMENT_BYTES).astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(lists), [validity, offsets, pa.py_buffer(words)])


def _header_bytes(dimensions: int) -> int:
    return -(-dimensions * LENGTH_BYTES // ELEMENT_BYTES) * ELEMENT_BYTES


def _lengths_and_elements(
    lists: pa.Array, dimensions: int, rows: Integers, column: str
) -> tuple[Integers, npt.NDArray[np.float64]]:
    """Return each array's lengths and all elements; `rows` are the indices of the arrays that are not null."""
    lengths = np.zeros((len(rows), dimensions), np.int64)
    level, arrays = lists.drop_null(), np.arange(len(rows))
    for dimension in range(dimensions):
        if level.null_count:
            position = arrays[level.is_null().index(True).as_py()]
            raise RowsRejectedError.at(
                column, rows[position], expected="no null inside of an array", actual="a null list"
            )
        sizes = compute("list_value_length", level).to_numpy().astype(np.int64)
        # Backwards, so that an array's first list determines the length.
        lengths[arrays[::-1], dimension] = sizes[::-1]
        if (ragged := np.flatnonzero(lengths[arrays, dimension] != sizes)).size:
            array, size = arrays[ragged[0]], sizes[ragged[0]]
            expected = f"lists of {lengths[array, dimension]} everywhere in dimension {dimension + 1} of the array"
            raise RowsRejectedError.at(column, rows[array], expected=expected, actual=f"one of {size}")
        arrays = np.repeat(arrays, sizes)
        level = level.flatten()
    return lengths, level.to_numpy(zero_copy_only=False).astype("<f8")


def _offsets_and_data(values: pa.Array) -> tuple[Integers, npt.NDArray[np.uint8]]:
    """Return the bounds of all values, from 0, and the bytes that they divide."""
    _, bounds, content = values.buffers()
    if len(values) == 0 or content is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return offsets - offsets[0], np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]


def _list_counts(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return, for each array, the number of parts in each dimension; the last is the number of elements.

    Counts are limited to ELEMENT_COUNT_CEILING, so that no product overflows.
    """
    counts = np.empty(lengths.shape, np.float64)
    running = np.ones(len(lengths), np.float64)
    for dimension in range(lengths.shape[1]):
        running = np.minimum(running * lengths[:, dimension], ELEMENT_COUNT_CEILING)
        counts[:, dimension] = running
    return counts


def _nest(
    elements: npt.NDArray[np.float64], lengths: npt.NDArray[np.uint32], is_valid: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return the lists, built from the innermost dimension outwards."""
    dimensions = lengths.shape[1]
    counts = np.zeros(len(is_valid), np.uint32)
    counts[is_valid] = lengths[:, 0]
    levels = [_bounds(counts)]
    parents = np.arange(len(lengths), dtype=np.int32)
    for dimension in range(1, dimensions):
        parents = np.repeat(parents, lengths[parents, dimension - 1])
        levels.append(_bounds(lengths[parents, dimension]))
    nested = pa.array(elements)
    for dimension in range(dimensions - 1, -1, -1):
        mask = pa.array(~is_valid) if dimension == 0 else None
        bounds = pa.array(levels[dimension])
        nested = pa.ListArray.from_arrays(bounds, nested, type=list_type(dimensions - dimension), mask=mask)
    return nested


def _bounds(counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Return where each list starts and the last one ends; there are fewer parts than a chunk has bytes."""
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, dtype=np.int32, out=bounds[1:])
    return bounds
