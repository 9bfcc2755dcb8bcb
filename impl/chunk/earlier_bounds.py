"""Bounds of a chunk that earlier servers made wrongly of those of its pages (docs/format.md).

They compared addresses as signed numbers, and texts no further than the shorter one goes, so that of two texts of which
one begins with the other the first counts as the outermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.chunk.statistics import TEXTS, check_bounds, extremes_of
from tornproof.impl.errors import CorruptError
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import ADDRESS_SIGN, value_of
from tornproof.impl.types.questdb import TypeTag, tag_of

TEXT_CUT_BYTES, BINARY_CUT_BYTES = 64, 9


def check_bounds_of_pages(
    values: pa.Array, column: Column, chunk: Chunk, row_counts: Sequence[int], *, file: str
) -> bool:
    """Check bounds as `check_bounds` does, and return whether one is wrong as earlier servers make it of pages.

    `row_counts` are those of the pages, whose values follow each other. Raises CorruptError.
    """
    try:
        check_bounds(values, column, chunk, file=file)
    except CorruptError:
        others = _without_earlier(values, column, chunk, row_counts)
        if others == chunk:
            raise
        check_bounds(values, column, others, file=file)
        return True
    return False


def signed_extremes_of(values: pa.Array, column: Column) -> tuple[int, int]:
    """Return the outermost ones of some addresses, compared as signed numbers."""
    low, high = extremes_of(values, replace(column, type=int(TypeTag.INT)))
    return low % (1 << 32), high % (1 << 32)


def _without_earlier(values: pa.Array, column: Column, chunk: Chunk, row_counts: Sequence[int]) -> Chunk:
    """Return the chunk without the bounds that earlier servers make of these pages."""
    tag = tag_of(column.type)
    pages = (values.slice(end - count, count) for end, count in zip(accumulate(row_counts), row_counts, strict=True))
    of_pages = [extremes_of(page, column) for page in pages if page.null_count < len(page)]
    if not of_pages or tag not in {*TEXTS, TypeTag.BINARY, TypeTag.IPV4}:
        return chunk
    earlier = _of_addresses(values, column, of_pages) if tag is TypeTag.IPV4 else _of_texts(tag, of_pages)

    def other(bound: Statistic | None, among: set[Any]) -> Statistic | None:
        return None if bound is None or value_of(column, bound.value) in among else bound

    return replace(chunk, minimum=other(chunk.minimum, earlier[0]), maximum=other(chunk.maximum, earlier[1]))


def _of_addresses(values: pa.Array, column: Column, of_pages: Sequence[tuple[int, int]]) -> tuple[set[int], set[int]]:
    """Return the possible minima and maxima; in pages with a dictionary numbers were compared as signed ones, too."""

    def signed(address: int) -> int:
        return address ^ ADDRESS_SIGN

    low, high = signed_extremes_of(values, column)
    lows, highs = zip(*of_pages, strict=True)
    return {min(lows, key=signed), low}, {max(highs, key=signed), high}


def _of_texts(tag: TypeTag, of_pages: Sequence[tuple[bytes, bytes]]) -> tuple[set[bytes], set[bytes]]:
    """Return the possible minima and maxima; some servers cut what is long, which changes nothing of wrong maxima."""
    lows, highs = zip(*of_pages, strict=True)
    return {reduce(_lower, lows), reduce(_lower, [_cut(tag, low) for low in lows])}, {reduce(_higher, highs)}


def _cut(tag: TypeTag, low: bytes) -> bytes:
    """Return what servers keep of a long minimum: no part of a character."""
    return low[:BINARY_CUT_BYTES] if tag is TypeTag.BINARY else low[:TEXT_CUT_BYTES].decode(errors="ignore").encode()


def _lower(first: bytes, second: bytes) -> bytes:
    return second if second[: len(first)] < first[: len(second)] else first


def _higher(first: bytes, second: bytes) -> bytes:
    return second if second[: len(first)] > first[: len(second)] else first
