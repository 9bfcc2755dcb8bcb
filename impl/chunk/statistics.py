"""The values of a chunk compared with their statistics in `_pm`: count, null count and bounds.

Where pages have no checksum, only this finds a changed byte inside one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import (
    UNSIGNED_TAGS,
    Bound,
    maximum_of,
    may_be_undercounted,
    older_row_count,
    value_of,
)
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.compute import compute
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import DECIMAL_DIGITS_MAX, TypeTag, tag_of

FEW_VALUES = 200
"""So many are compared by Python before NumPy or Arrow have begun."""
_NUMBERS: dict[pa.DataType, np.dtype[Any]] = {
    of: np.dtype(of.to_pandas_dtype()) for of in (pa.int32(), pa.int64(), pa.float32(), pa.float64())
}
UTF8_CONTINUATION = bytes(range(0x80, 0xC0))
TEXTS = frozenset({TypeTag.STRING, TypeTag.SYMBOL, TypeTag.VARCHAR})


def without_older_rows(values: pa.Array, column: Column, chunk: Chunk) -> pa.Array:
    """Return values, in stored form, with null for the rows that are older than their column (`older_row_count`).

    If one of these has another value than false or 0, all are returned as they are, and the null count is wrong.
    """
    count = older_row_count(column, chunk)
    older = values.slice(0, count)
    if not count or count > len(values) or any(extreme for extreme in extremes_of(older, column)):
        return values
    return pa.concat_arrays([pa.nulls(count, values.type), values.slice(count)])


def check_counts(values: pa.Array, column: Column, chunk: Chunk, *, file: str) -> None:
    """Raise CorruptError unless the chunk's counts are those of its values, which are flat and in stored form."""
    if len(values) != chunk.num_values:
        raise_corrupt(column, chunk, file, "NUM_VALUES", f"{len(values)}, the values in the pages", chunk.num_values)
    null_count = values.null_count - uncounted_null_count(values, column, chunk)
    if chunk.null_count is not None and null_count != chunk.null_count:
        raise_corrupt(
            column, chunk, file, "NULL_COUNT", f"{values.null_count}, the nulls in the pages", chunk.null_count
        )


def uncounted_null_count(values: pa.Array, column: Column, chunk: Chunk) -> int:
    """Return how many nulls at the start of a chunk are not counted, because some servers count no older rows."""
    missing = 0 if chunk.null_count is None else values.null_count - chunk.null_count
    is_possible = missing > 0 and may_be_undercounted(column)
    return missing if is_possible and values.slice(0, missing).null_count == missing else 0


def check_rows(values: pa.Array, row_count: int, column: Column, chunk: Chunk, *, file: str) -> None:
    """Raise CorruptError unless a chunk has a value, a list or a null for each row of its row group."""
    if len(values) != row_count:
        raise_corrupt(column, chunk, file, "rows", f"{row_count}, as in the row group", len(values))


def check_bounds(values: pa.Array, column: Column, chunk: Chunk, *, file: str) -> None:
    """Raise CorruptError unless the chunk's bounds fit its values, which are flat and in stored form.

    EXACT bounds must occur among the values where that is known (`_may_be_exact`); a bound may also be the start of a
    long text, because the converter marks everything exact (docs/migration.md). Not compared is what has no known
    order: columns of unknown type, INT96, and minima above their maxima (unsigned integers of other writers), but for
    those of addresses; nor are maxima of BINARY (`has_known_maximum`).
    """
    minimum, maximum = chunk.minimum, maximum_of(column, chunk)
    if (minimum is None and maximum is None) or not has_known_order(column):
        return
    tag = tag_of(column.type)
    low, high = _bound(minimum, column, chunk, file), _bound(maximum, column, chunk, file)
    is_integer = column.physical_type in (PhysicalType.INT32, PhysicalType.INT64)
    if is_integer and low is not None and high is not None and low > high and tag is not TypeTag.IPV4:
        return
    smallest, largest = extremes_of(values, column)
    if low == smallest and high == largest:
        return
    is_alone = (low is None) != (high is None)
    if is_alone and tag in (TypeTag.INT, TypeTag.LONG) and column.id < 0 and smallest is not None and smallest < 0:
        # Another writer may have counted unsigned.
        return
    may_be_exact = _may_be_exact(column)
    for name, statistic, bound, value, holds in (
        ("MIN_STAT", minimum, low, smallest, operator.le),
        ("MAX_STAT", maximum, high, largest, operator.ge),
    ):
        if statistic is None or is_nan(bound):
            continue
        is_exact = statistic.exact and may_be_exact
        if value is None or is_nan(value):
            if is_exact:
                raise_corrupt(
                    column, chunk, file, name, "none, because the pages hold no value to compare", repr(bound)
                )
        elif not holds(bound, value):
            raise_corrupt(column, chunk, file, name, f"a bound of {value!r}, which is in the pages", repr(bound))
        elif is_exact and bound != value and not _is_truncation(bound, value):
            raise_corrupt(column, chunk, file, name, f"{value!r}, the outermost value in the pages", repr(bound))


def _may_be_exact(column: Column) -> bool:
    """Whether EXACT means that a bound is among the values; a text of another writer may be in its dictionary alone."""
    tag = tag_of(column.type)
    return tag not in (TypeTag.BINARY, TypeTag.ARRAY) and (tag not in TEXTS or column.id >= 0)


def has_known_order(column: Column) -> bool:
    """Whether values of the column can be compared with bounds (docs/format.md)."""
    tag = tag_of(column.type)
    if tag is None or column.physical_type == PhysicalType.INT96:
        return False
    # Decimals of an impossible precision stay bytes, whose order is not that of numbers.
    return tag not in DECIMAL_DIGITS_MAX or valid_decimal_shape(column.type) is not None


def are_exact(values: pa.Array, column: Column, chunks: Sequence[Chunk]) -> list[bool]:
    """Whether each chunk's null count and bounds are exactly those of its values; False also where nobody knows yet.

    `values`, in stored form, are those of all chunks of one type, one after another, the same number of each.
    """
    number = _NUMBERS.get(values.type)
    if number is None or values.offset:
        return [False] * len(chunks)
    if tag_of(column.type) in UNSIGNED_TAGS:
        number = np.dtype(np.uint32)
    shape = len(chunks), len(values) // len(chunks)
    validity, content = values.buffers()
    found, valid = np.frombuffer(content, number, len(values)).reshape(shape), np.ones(shape, np.bool_)
    if validity is not None:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=len(values), bitorder="little")
        valid = bits.astype(np.bool_).reshape(shape)
    # The neutral elements of minimum and maximum.
    most, least = (np.inf, -np.inf) if number.kind == "f" else (np.iinfo(number).max, np.iinfo(number).min)
    smallest, largest = np.where(valid, found, most).min(axis=1), np.where(valid, found, least).max(axis=1)
    record = np.dtype([("null_count", np.uint64), ("minimum", number), ("maximum", number)])
    said = np.frombuffer(b"".join([_said(chunk, number.itemsize) for chunk in chunks]), record)
    # A NaN is in its own minimum and maximum, which are equal to nothing then.
    is_exact = (smallest == said["minimum"]) & (largest == said["maximum"]) & valid.any(axis=1)
    return list((is_exact & (np.sum(~valid, axis=1) == said["null_count"])).tolist())


def _said(chunk: Chunk, width_bytes: int) -> bytes:
    """Return null count, minimum and maximum, or a count that is above any if one of them is missing."""
    low, high = chunk.minimum, chunk.maximum
    if chunk.null_count is None or low is None or high is None or not len(low.value) == len(high.value) == width_bytes:
        return b"\xff" * (8 + 2 * width_bytes)
    return chunk.null_count.to_bytes(8, "little") + low.value + high.value


def raise_corrupt(column: Column, chunk: Chunk, file: str, field: str, expected: str, actual: object) -> NoReturn:
    """Raise CorruptError about a column's chunk, at its start offset."""
    raise _about(CorruptError, column, chunk, file, field, expected, actual)


def raise_unsupported(column: Column, chunk: Chunk, file: str, field: str, expected: str, actual: object) -> NoReturn:
    """Raise UnsupportedError about a column's chunk, at its start offset."""
    raise _about(UnsupportedError, column, chunk, file, field, expected, actual)


def _about(
    kind: type[ProblemError], column: Column, chunk: Chunk, file: str, field: str, expected: str, actual: object
) -> ProblemError:
    return kind(
        file=file,
        field=f"{field} of column {column.name!r}",
        offset_bytes=chunk.byte_range_start,
        expected=expected,
        actual=actual,
    )


def _bound(statistic: Statistic | None, column: Column, chunk: Chunk, file: str) -> Any:
    if statistic is None:
        return None
    bound = value_of(column, statistic.value)
    if bound is None:
        raise_corrupt(column, chunk, file, "statistics", "bytes of the physical type's width", statistic.value.hex())
    return bound


def extremes_of(values: pa.Array, column: Column) -> tuple[Any, Any]:
    """Return the smallest and largest value as those of `value_of`, or two None where all are null."""
    if tag_of(column.type) in UNSIGNED_TAGS:
        values = values.view(pa.uint32())
    smallest, largest = _min_max(values)
    shape = valid_decimal_shape(column.type)
    if smallest is None or shape is None:
        return smallest, largest
    # Not by decimal arithmetic, which rounds to 28 digits by default.
    scale = 10**shape.scale
    return int(Fraction(smallest) * scale), int(Fraction(largest) * scale)


def _min_max(values: pa.Array) -> tuple[Any, Any]:
    if len(values) <= FEW_VALUES:
        found = values.to_pylist()
        if values.null_count:
            found = [value for value in found if value is not None]
        if not found:
            return None, None
        # The sum is NaN if one of them is.
        if not isinstance(found[0], float) or not math.isnan(sum(found)):
            return min(found), max(found)
    is_number = pa.types.is_floating(values.type) or pa.types.is_integer(values.type)
    if is_number and len(values) and not values.null_count:
        # Many times as fast, but wrong if there is a NaN, which Arrow skips.
        numbers = values.to_numpy()
        smallest, largest = numbers.min().item(), numbers.max().item()
        if not is_nan(smallest):
            return smallest, largest
    extremes = compute("min_max", values)
    return extremes["min"].as_py(), extremes["max"].as_py()


def is_nan(value: Any) -> bool:
    """Whether a bound or a value is no number, which no comparison holds for."""
    return isinstance(value, float) and math.isnan(value)


def _is_truncation(bound: Bound, value: Bound) -> bool:
    """Whether a bound can be a truncated text: a prefix for a minimum, with its last character raised for a maximum.

    A raised character may have more bytes than the one before, so that only the number of characters is smaller.
    """
    if not isinstance(bound, bytes) or not isinstance(value, bytes):
        return False
    if _character_count(bound) >= _character_count(value):
        return False
    return value.startswith(bound if bound < value else bound.rstrip(UTF8_CONTINUATION)[:-1])


def _character_count(text: bytes) -> int:
    return len(text.translate(None, UTF8_CONTINUATION))
