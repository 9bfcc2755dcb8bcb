"""PFOR: integers as bit-packed distances from a frame of reference; outliers are stored as they are.

Source: PforEncoding.md, proposed for the Apache Parquet format.
"""

from __future__ import annotations

import numpy as np

from tornproof.impl.extension.bit_packing import WORD_BITS, bit_widths
from tornproof.impl.extension.columnar import Array
from tornproof.impl.extension.vectors import (
    LOG_VECTOR_SIZE,
    POSITION_BITS,
    VECTOR_SIZE,
    Vectors,
    check_page,
    decode_vectors,
    encode_vectors,
    in_vectors,
    values_of,
)
from tornproof.impl.layout.encodings import PforInts, PforLongs, PforPage

VECTOR_LAYOUTS = {np.dtype("<i8"): PforLongs, np.dtype("<i4"): PforInts}
LOW_OUTLIERS_SHARE = 32
"""At most one of so many values of a vector is below its frame."""


def encode_pfor(values: Array) -> bytes:
    """Return 64-bit or 32-bit integers as the values of a page."""
    size_bytes = values.dtype.itemsize
    page = PforPage(
        packing_mode=0, log_vector_size=LOG_VECTOR_SIZE, value_byte_width=size_bytes, num_elements=len(values)
    )
    if not len(values):
        return page.pack()
    rows, counts = in_vectors(values)
    is_value = np.arange(VECTOR_SIZE) < counts[:, None]
    ordered = np.sort(rows, axis=1)
    lowest, clustered = ordered[:, 0], _above_outliers(ordered)
    widths, sizes = _best_widths(rows, lowest, is_value, counts)
    other_widths, other_sizes = _best_widths(rows, clustered, is_value, counts)
    is_clustered = other_sizes < sizes
    frames, widths = np.where(is_clustered, clustered, lowest), np.where(is_clustered, other_widths, widths)
    deltas = _deltas(rows, frames)
    limits = np.array([(1 << int(width)) - 1 for width in widths], np.uint64)[:, None]
    is_exception = (deltas > limits) & is_value
    exception_rows, positions = np.nonzero(is_exception)
    headers = np.zeros(len(rows), VECTOR_LAYOUTS[values.dtype].layout.dtype)
    headers["frame_of_reference"], headers["bit_width"] = frames, widths
    headers["num_exceptions"] = is_exception.sum(axis=1)
    return page.pack() + encode_vectors(
        Vectors(
            headers=headers,
            counts=counts,
            numbers=np.where(deltas > limits, np.uint64(0), deltas),
            exception_rows=exception_rows,
            exception_positions=positions,
            exceptions=rows[is_exception],
        )
    )


def decode_pfor(content: memoryview, count: int, value: str, *, file: str, at: int) -> Array:
    """Return the `count` values of the NumPy type `value` that a page at byte `at` of `file` has.

    Raises CorruptError.
    """
    dtype = np.dtype(value)
    page = PforPage.unpack(content, 0, file=file)
    check_page(page, file, at, packing_mode=0, value_byte_width=dtype.itemsize, num_elements=count)
    behind = PforPage.layout.size_bytes
    vectors = decode_vectors(
        content[behind:], count, page.log_vector_size, VECTOR_LAYOUTS[dtype], value, file=file, at=at + behind
    )
    return np.concatenate([np.zeros(0, value), *(_values(each, value) for each in vectors)])


def _values(vectors: Vectors, value: str) -> Array:
    unsigned = value.replace("i", "u")
    frames = vectors.headers["frame_of_reference"].astype(value).view(unsigned)
    rows = vectors.numbers.astype(unsigned) + frames[:, None]
    return values_of(rows.view(value), vectors)


def _above_outliers(ordered: Array) -> Array:
    """Return the value above the widest gap among the lowest values of each sorted row."""
    low = ordered[:, : VECTOR_SIZE // LOW_OUTLIERS_SHARE + 1]
    gaps = _unsigned(low[:, 1:]) - _unsigned(low[:, :-1])
    return np.take_along_axis(low, gaps.argmax(axis=1)[:, None] + 1, axis=1)[:, 0]


def _deltas(rows: Array, frames: Array) -> Array:
    """Return the distances from frames; those of lower values are so large that these are exceptions."""
    return (_unsigned(rows) - _unsigned(frames)[:, None]).astype(np.uint64)


def _unsigned(values: Array) -> Array:
    return values.view(values.dtype.str.replace("i", "u"))


def _best_widths(rows: Array, frames: Array, is_value: Array, counts: Array) -> tuple[Array, Array]:
    """Return the width of each row that takes the fewest bits, and these bits."""
    value_bits = 8 * rows.dtype.itemsize
    widths = np.where(is_value, bit_widths(_deltas(rows, frames)), 0)
    steps = WORD_BITS + 1
    cells = widths + steps * np.arange(len(rows))[:, None]
    histogram = np.bincount(cells.ravel(), minlength=steps * len(rows)).reshape(len(rows), steps)[:, : value_bits + 1]
    exception_counts = VECTOR_SIZE - histogram.cumsum(axis=1)
    sizes = counts[:, None] * np.arange(value_bits + 1) + exception_counts * (POSITION_BITS + value_bits)
    best = sizes.argmin(axis=1)
    return best, sizes[np.arange(len(rows)), best]
