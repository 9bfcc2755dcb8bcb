"""QuestDB's own form of arrays in data.parquet: one BYTE_ARRAY value an array (format notes 11, Bytes).

A value is a u32 length per dimension, zeros up to a multiple of 8 bytes, then the doubles in row-major order.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from impl.arrow_types import list_type
from impl.errors import CorruptError, UnsupportedError

LENGTH_BYTES = 4
ELEMENT_BYTES = 8
# Lists of no elements cost no bytes in the file, so their count needs a limit of its own.
LIST_COUNT_MAX = 1 << 24
# Exact in a double, and so is its product with any smaller count; more elements than any chunk can hold.
ELEMENT_COUNT_CEILING = 2.0**40

Integers: TypeAlias = npt.NDArray[np.int64]


def lists_of(values: pa.Array, dimensions: int, *, file: str, field: str, offset_bytes: int) -> pa.Array:
    """Return the lists that a binary array of raw arrays holds; nulls stay null.

    `field` and `offset_bytes` are where errors say that the values stand. Raises CorruptError for a value whose length
    does not fit its dimensions, UnsupportedError for more than 2^24 lists in one level.
    """
    header_bytes = -(-dimensions * LENGTH_BYTES // ELEMENT_BYTES) * ELEMENT_BYTES
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
    if (worst := list_counts[:, :-1].sum(axis=0).max(initial=0)) > LIST_COUNT_MAX:
        raise UnsupportedError(
            file=file,
            field=field,
            offset_bytes=offset_bytes,
            expected=f"at most {LIST_COUNT_MAX} lists in one level",
            actual=f"{worst:.0f} or more",
        )
    # Every value is whole words by now, and pyarrow's builders put no bytes behind a null.
    assert sizes.sum() == len(data)
    words = data.view("<f8")
    is_header = (starts[:, None] + np.arange(0, header_bytes, ELEMENT_BYTES)) // ELEMENT_BYTES
    return _nest(np.delete(words, is_header.ravel()), lengths, is_valid)


def _offsets_and_data(values: pa.Array) -> tuple[Integers, npt.NDArray[np.uint8]]:
    """Return the bounds of all values, from 0, and the bytes that they cut up."""
    _, bounds, content = values.buffers()
    if len(values) == 0 or content is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    return offsets - offsets[0], np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]


def _list_counts(lengths: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
    """Return, for each array, how many parts each dimension divides it into; the last are its elements.

    Counts above ELEMENT_COUNT_CEILING are cut to it, so that no product overflows.
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
    levels = [np.zeros(len(is_valid), np.int64)]
    levels[0][is_valid] = lengths[:, 0]
    parents = np.arange(len(lengths))
    for dimension in range(1, dimensions):
        parents = np.repeat(parents, lengths[parents, dimension - 1])
        levels.append(lengths[parents, dimension].astype(np.int64))
    nested = pa.array(elements)
    for dimension in range(dimensions - 1, -1, -1):
        bounds = np.concatenate(([0], np.cumsum(levels[dimension]))).astype(np.int32)
        mask = pa.array(~is_valid) if dimension == 0 else None
        nested = pa.ListArray.from_arrays(pa.array(bounds), nested, type=list_type(dimensions - dimension), mask=mask)
    return nested
