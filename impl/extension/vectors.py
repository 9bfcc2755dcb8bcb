"""Pages of vectors of packed integers with exceptions, which ALP and PFOR have in common: offsets, headers, parts.

Nothing is allocated before sizes and counts have been checked against the bytes that they describe.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.bit_packing import WORD_BITS, pack, packed_size_bytes, unpack
from tornproof.impl.extension.columnar import Array
from tornproof.impl.layout.encodings import AlpPage, PforPage
from tornproof.impl.layout.record import Record

LOG_VECTOR_SIZE = 10
LOG_VECTOR_SIZES = range(3, 16)
VECTOR_SIZE = 1 << LOG_VECTOR_SIZE
"""The values of a vector that is written."""
BLOCK_VALUE_COUNT = 1 << 17
"""So many values, and those of one vector, are decoded at a time, because numbers of no bits have no bytes."""
OFFSET, POSITION = np.dtype("<u4"), np.dtype("<u2")
POSITION_BITS = 8 * POSITION.itemsize


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
    """Vectors as rows: their headers, packed numbers, and exceptions by row and position.

    `counts` has the values of each row; those behind them are only padding. A number where an exception is has no
    meaning.
    """

    headers: Array
    counts: Array
    numbers: Array
    exception_rows: Array
    exception_positions: Array
    exceptions: Array


def check_page(page: AlpPage | PforPage, file: str, at: int, **expected: int) -> None:
    """Reject the header of a page at a position whose fields are not as expected; raises CorruptError."""
    position = page.at(file, at)
    for name, value in expected.items():
        if getattr(page, name) != value:
            raise position.corrupt(name, value, getattr(page, name))
    if page.log_vector_size not in LOG_VECTOR_SIZES:
        low, high = LOG_VECTOR_SIZES[0], LOG_VECTOR_SIZES[-1]
        raise position.corrupt("log_vector_size", f"{low} to {high}", page.log_vector_size)


def in_vectors(values: Array) -> tuple[Array, Array]:
    """Return values, at least one, as rows of vectors, the last one padded by its values again, and their counts."""
    full_count, last_count = divmod(len(values) - 1, VECTOR_SIZE)
    last_count += 1
    rows = np.empty((full_count + 1, VECTOR_SIZE), values.dtype)
    rows[:-1] = values[:-last_count].reshape(full_count, VECTOR_SIZE)
    rows[-1] = np.resize(values[-last_count:], VECTOR_SIZE)
    counts = np.full(full_count + 1, VECTOR_SIZE)
    counts[-1] = last_count
    return rows, counts


def encode_vectors(vectors: Vectors) -> bytes:
    """Return offsets and vectors, behind the header of a page."""
    row_count = len(vectors.counts)
    packed: list[bytes] = [b""] * row_count
    widths = vectors.headers["bit_width"]
    for width in map(int, np.unique(widths)):
        rows = np.flatnonzero(widths == width)
        for row, content in zip(rows, pack(vectors.numbers[rows], width), strict=True):
            packed[row] = content[: packed_size_bytes(int(vectors.counts[row]), width)].tobytes()
    ends = np.searchsorted(vectors.exception_rows, np.arange(row_count + 1)).tolist()
    positions, exceptions = vectors.exception_positions.astype(POSITION), vectors.exceptions
    header_size = vectors.headers.dtype.itemsize
    headers = vectors.headers.tobytes()
    parts = [
        b"".join(
            (
                headers[row * header_size : (row + 1) * header_size],
                content,
                positions[start:end].tobytes(),
                exceptions[start:end].tobytes(),
            )
        )
        for row, (content, start, end) in enumerate(zip(packed, ends, ends[1:], strict=False))
    ]
    sizes = np.array([len(part) for part in parts], np.int64)
    offsets = np.cumsum(sizes) - sizes + row_count * OFFSET.itemsize
    return offsets.astype(OFFSET).tobytes() + b"".join(parts)


def decode_vectors(
    content: memoryview, count: int, log_vector_size: int, layout: type[Record], value: str, *, file: str, at: int
) -> Iterator[Vectors]:
    """Yield the vectors of `count` values of the NumPy type `value`, whose offsets start `content`, in blocks.

    `at` is the position of `content` in the file. Raises CorruptError unless the vectors fill it to its end.
    """
    vector_size = 1 << log_vector_size
    row_count = -(-count // vector_size)
    header_size, value_dtype = layout.layout.size_bytes, np.dtype(value)
    if row_count * (OFFSET.itemsize + header_size) > len(content):
        raise CorruptError(file, "num_elements", at, f"at most what {len(content)} bytes can hold", count)
    counts = np.full(row_count, vector_size)
    counts[row_count - 1 :] = count - (row_count - 1) * vector_size
    offsets = np.frombuffer(content, OFFSET, row_count).astype(np.int64)
    if offsets.max(initial=0) > max(len(content) - header_size, 0):
        raise CorruptError(file, "offsets", at, f"vectors inside of {len(content)} bytes", offsets.max())
    octets = np.frombuffer(content, np.uint8)
    headers = octets[offsets[:, None] + np.arange(header_size)].view(layout.layout.dtype).reshape(row_count)
    widths, exception_counts = headers["bit_width"].astype(np.int64), headers["num_exceptions"].astype(np.int64)
    if widths.max(initial=0) > 8 * value_dtype.itemsize:
        raise CorruptError(file, "bit_width", at, f"at most {8 * value_dtype.itemsize}", widths.max())
    packed_sizes = -(-counts * widths // 8)
    ends = offsets + header_size + packed_sizes + exception_counts * (POSITION.itemsize + value_dtype.itemsize)
    expected, found = np.append(row_count * OFFSET.itemsize, ends), np.append(offsets, len(content))
    if (expected != found).any():
        wrong = int(np.flatnonzero(expected != found)[0])
        what = f"vector {wrong}" if wrong < row_count else "the end of the page"
        raise CorruptError(file, "offsets", at, f"{what} at byte {expected[wrong]}", found[wrong])
    starts = offsets + header_size
    rows, positions, exceptions = _exceptions(content, starts + packed_sizes, exception_counts, value_dtype)
    if (positions >= counts[rows]).any():
        raise CorruptError(file, "exception positions", at, "positions inside of their vectors", positions.max())
    row_step = max(BLOCK_VALUE_COUNT // vector_size, 1)
    for first in range(0, row_count, row_step):
        block = slice(first, first + row_step)
        begin, end = np.searchsorted(rows, (first, first + row_step))
        yield Vectors(
            headers=headers[block],
            counts=counts[block],
            numbers=_numbers(octets, starts[block], packed_sizes[block], widths[block], vector_size),
            exception_rows=rows[begin:end] - first,
            exception_positions=positions[begin:end],
            exceptions=exceptions[begin:end],
        )


def _numbers(octets: Array, starts: Array, sizes: Array, widths: Array, vector_size: int) -> Array:
    """Return the packed numbers of all vectors, those of one width together."""
    numbers = np.empty((len(starts), vector_size), np.uint64)
    for width in map(int, np.unique(widths)):
        rows = np.flatnonzero(widths == width)
        room = np.zeros((len(rows), -(-vector_size // WORD_BITS) * width * (WORD_BITS // 8)), np.uint8)
        for row, start, size in zip(room, starts[rows].tolist(), sizes[rows].tolist(), strict=True):
            row[:size] = octets[start : start + size]
        numbers[rows] = unpack(room, width, vector_size)
    return numbers


def _exceptions(content: memoryview, starts: Array, counts: Array, value: np.dtype) -> tuple[Array, Array, Array]:
    """Return rows, positions and values of all exceptions, which start at `starts` in each vector."""
    positions, values = [np.zeros(0, POSITION)], [np.zeros(0, value)]
    for row in np.flatnonzero(counts):
        start, count = int(starts[row]), int(counts[row])
        positions.append(np.frombuffer(content, POSITION, count, start))
        values.append(np.frombuffer(content, value, count, start + count * POSITION.itemsize))
    return np.repeat(np.arange(len(counts)), counts), np.concatenate(positions).astype(np.int64), np.concatenate(values)


def values_of(rows: Array, vectors: Vectors) -> Array:
    """Return the values of decoded rows, with the exceptions in their positions."""
    rows[vectors.exception_rows, vectors.exception_positions] = vectors.exceptions
    return rows.reshape(-1)[: vectors.counts.sum()]
