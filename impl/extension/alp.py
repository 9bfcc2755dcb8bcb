"""ALP: floating-point numbers that are short decimals, as bit-packed integers; others are stored as they are.

Source: Apache Parquet format, AlpEncoding.md. A number is decoded as integer * 10^factor * 10^-exponent, in its own
precision; one that does not come back exactly, to the bit, is an exception.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import msgspec
import numpy as np

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.bit_packing import bit_width
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
from tornproof.impl.layout.encodings import AlpDoubles, AlpFloats, AlpPage
from tornproof.impl.layout.record import Record

SAMPLED_VECTOR_COUNT, SAMPLE_SIZE, CANDIDATE_COUNT_MAX = 8, 256, 5
"""The paper's parameters of the search."""
CHOICE_SIZE = 128
"""So many values of a vector decide which of the candidates is the best for it."""
SAMPLE_STEP = 37
"""Values that repeat after a few, or after a power of two, do not all look alike in steps of a prime."""


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """A floating-point type: the integers of the same size, its exponents, and the layout of a vector."""

    value: str
    integer: str
    exponent_max: int
    vector: type[Record]

    @property
    def bits(self) -> int:
        """The bits of a value."""
        return 8 * np.dtype(self.value).itemsize

    @functools.cache  # noqa: B019 (there are two of them)
    def powers(self, sign: str) -> Array:
        """Return the powers of ten as Python reads them from text, which is rounded correctly."""
        return np.array([float(f"1e{sign}{each}") for each in range(self.exponent_max + 1)]).astype(self.value)


DOUBLES = Precision(value="<f8", integer="<i8", exponent_max=18, vector=AlpDoubles)
FLOATS = Precision(value="<f4", integer="<i4", exponent_max=10, vector=AlpFloats)
PRECISIONS = {np.dtype(each.value): each for each in (DOUBLES, FLOATS)}


class Scale(NamedTuple):
    """Exponents and factors, in a shape that values of rows are multiplied with."""

    exponent: Array
    factor: Array


def encode_alp(values: Array) -> bytes:
    """Return doubles or floats as the values of a page."""
    precision = PRECISIONS[values.dtype]
    page = AlpPage(compression_mode=0, integer_encoding=0, log_vector_size=LOG_VECTOR_SIZE, num_elements=len(values))
    if not len(values):
        return page.pack()
    rows, counts = in_vectors(values)
    scale = _best_scale(rows, precision, len(values))
    integers, is_exception = _integers(rows, scale, precision)
    is_exception |= _is_smaller_without(integers, is_exception, precision)[:, None]
    # A placeholder from the same vector keeps the range of its numbers small.
    first = np.argmin(is_exception, axis=1)
    placeholders = np.take_along_axis(np.where(is_exception, 0, integers), first[:, None], axis=1)
    integers = np.where(is_exception, placeholders, integers)
    frames = integers.min(axis=1)
    unsigned = np.dtype(precision.integer.replace("i", "u"))
    deltas = integers.view(unsigned) - frames.view(unsigned)[:, None]
    is_exception &= np.arange(VECTOR_SIZE) < counts[:, None]
    exception_rows, positions = np.nonzero(is_exception)
    headers = np.zeros(len(rows), precision.vector.layout.dtype)
    headers["exponent"], headers["factor"] = scale.exponent[:, 0], scale.factor[:, 0]
    headers["num_exceptions"] = is_exception.sum(axis=1)
    headers["frame_of_reference"] = frames
    headers["bit_width"] = [bit_width(each) for each in deltas.max(axis=1)]
    return page.pack() + encode_vectors(
        Vectors(
            headers=headers,
            counts=counts,
            numbers=deltas.astype(np.uint64),
            exception_rows=exception_rows,
            exception_positions=positions,
            exceptions=rows[is_exception],
        )
    )


def decode_alp(content: memoryview, count: int, value: str, *, file: str, at: int) -> Array:
    """Return the `count` values of the NumPy type `value` that a page at byte `at` of `file` has.

    Raises CorruptError.
    """
    precision = PRECISIONS[np.dtype(value)]
    page = AlpPage.unpack(content, 0, file=file)
    check_page(page, file, at, compression_mode=0, integer_encoding=0, num_elements=count)
    behind = AlpPage.layout.size_bytes
    vectors = decode_vectors(
        content[behind:], count, page.log_vector_size, precision.vector, value, file=file, at=at + behind
    )
    parts = [_values(each, precision, file, at) for each in vectors]
    return np.concatenate([np.zeros(0, value), *parts])


def _values(vectors: Vectors, precision: Precision, file: str, at: int) -> Array:
    exponents, factors = vectors.headers["exponent"], vectors.headers["factor"]
    if exponents.max() > precision.exponent_max or (factors > exponents).any():
        expected = f"a factor of at most the exponent, and that at most {precision.exponent_max}"
        raise CorruptError(file, "exponent", at, expected, f"{exponents.max()} and {factors.max()}")
    unsigned = precision.integer.replace("i", "u")
    frames = vectors.headers["frame_of_reference"].astype(precision.integer).view(unsigned)
    integers = vectors.numbers.astype(unsigned) + frames[:, None]
    rows = _decimals(integers.view(precision.integer), Scale(exponents[:, None], factors[:, None]), precision)
    return values_of(rows, vectors)


def _decimals(integers: Array, scale: Scale, precision: Precision) -> Array:
    """Return integers * 10^factor * 10^-exponent by two multiplications, as every reader must."""
    values = integers.astype(precision.value)
    values *= precision.powers("")[scale.factor]
    values *= precision.powers("-")[scale.exponent]
    return values


def _integers(values: Array, scale: Scale, precision: Precision) -> tuple[Array, Array]:
    """Return the integers of values, and which values they do not give back."""
    with np.errstate(all="ignore"):
        scaled = values * precision.powers("")[scale.exponent]
        scaled *= precision.powers("-")[scale.factor]
        np.rint(scaled, out=scaled)
        limit = np.asarray(2.0 ** (precision.bits - 1), precision.value)
        is_exception = ~((scaled >= -limit) & (scaled < limit))
        scaled[is_exception] = 0
        integers = scaled.astype(precision.integer)
        made = _decimals(integers, scale, precision)
    is_exception |= made.view(precision.integer) != np.ascontiguousarray(values).view(precision.integer)
    return integers, is_exception


def _is_smaller_without(integers: Array, is_exception: Array, precision: Precision) -> Array:
    """Return for which rows packed numbers would take more bits than as many exceptions."""
    saved_bits = (~is_exception).sum(axis=-1) * (POSITION_BITS + precision.bits)
    return _packed_bits(integers, is_exception) > saved_bits


def _best_scale(rows: Array, precision: Precision, count: int) -> Scale:
    """Return exponents and factors, one of each for each row, from those that make samples of some rows small."""
    candidates = _candidates(rows, precision, count)
    sizes = _sizes(rows[:, _sampled(CHOICE_SIZE, count)], candidates, precision)
    exponents, factors = (each.reshape(-1)[sizes.argmin(axis=0)] for each in candidates)
    return Scale(exponents[:, None], factors[:, None])


@functools.cache
def _pairs(precision: Precision) -> Array:
    """Return all pairs, the larger exponents and factors first."""
    powers = range(precision.exponent_max, -1, -1)
    return np.array([(exponent, factor) for exponent in powers for factor in range(exponent, -1, -1)])


def _candidates(rows: Array, precision: Precision, count: int) -> Scale:
    """Return the pairs that are the best for most of some rows; of equal sizes the larger exponent counts."""
    sampled = np.unique(np.linspace(0, len(rows) - 1, SAMPLED_VECTOR_COUNT).astype(np.int64))
    pairs = _pairs(precision)
    sizes = _sizes(rows[sampled][:, _sampled(SAMPLE_SIZE, count)], _scale_of(pairs), precision)
    chosen = Counter(sizes.argmin(axis=0).tolist())
    best = sorted(chosen, key=lambda index: (-chosen[index], index))[:CANDIDATE_COUNT_MAX]
    return _scale_of(pairs[best])


def _scale_of(pairs: Array) -> Scale:
    """Return pairs as columns for rows of values."""
    return Scale(pairs[:, 0][:, None, None], pairs[:, 1][:, None, None])


def _sampled(size: int, count: int) -> Array:
    """Return positions of a sample of vectors that have `count` values together."""
    return np.arange(min(size, count)) * SAMPLE_STEP % VECTOR_SIZE


def _sizes(rows: Array, scale: Scale, precision: Precision) -> Array:
    """Return the bits that rows would take at each of several scales."""
    integers, is_exception = _integers(rows, scale, precision)
    exception_bits = POSITION_BITS + precision.bits
    sizes = _packed_bits(integers, is_exception) + is_exception.sum(axis=-1) * exception_bits
    return np.minimum(sizes, rows.shape[-1] * exception_bits)


def _packed_bits(integers: Array, is_exception: Array) -> Array:
    """Return the bits of all packed numbers of each row, or a little more, because of rounding."""
    high = np.where(is_exception, np.iinfo(integers.dtype).min, integers).max(axis=-1).astype(np.float64)
    low = np.where(is_exception, np.iinfo(integers.dtype).max, integers).min(axis=-1).astype(np.float64)
    return np.ceil(np.log2(np.maximum(high - low, 0) + 1)) * integers.shape[-1]
