"""The page headers of many small chunks, read at once with NumPy, where each chunk is one ordinary data page.

`walk_pages` decides about all others, and about everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tornproof.impl.parquet.fields import Codec, PageType
from tornproof.impl.parquet.pages import EXPANSION_MAX, EXPANSION_SLACK_BYTES, PAGE_SIZE_MAX_BYTES
from tornproof.impl.parquet.thrift import BINARY, BOOL, I16, I64, STOP, STRUCT, Kind

Integers = npt.NDArray[np.int64]
I32_NEXT = 1 << 4 | Kind.I32
STRUCT_NEXT = 1 << 4 | STRUCT
STRUCT_AFTER_NEXT = 2 << 4 | STRUCT
STATISTICS_MEMBER_COUNT_MAX = 8
VARINT_LENGTH_MAX_BYTES = 5
LONG_VARINT = 0x80
ENCODING_COUNT_MAX = 128
PAGE_NUMBERS = ("num_values", "encoding", "definition_level_encoding", "repetition_level_encoding")


class SinglePages(NamedTuple):
    """For each of many chunks, whether it is one ordinary page, and only then that page's size and encoding."""

    usual: npt.NDArray[np.bool_]
    uncompressed_bytes: Integers
    encodings: Integers


def single_pages(content: bytes, sizes_bytes: Sequence[int], codecs: Sequence[int], value_count: int) -> SinglePages:
    """Return which chunks are one data page of version 1 without checksum, as servers write them.

    `content` are the bytes of chunks of `value_count` values, one after another. `walk_pages` accepts such a chunk.
    """
    ends = np.cumsum(sizes_bytes)
    headers = _Headers(content, ends - np.asarray(sizes_bytes))
    headers.expect(I32_NEXT)
    headers.expect(PageType.DATA_V1 << 1)
    headers.expect(I32_NEXT)
    uncompressed = headers.number()
    headers.expect(I32_NEXT)
    compressed = headers.number()
    # The member between is the checksum.
    headers.expect(STRUCT_AFTER_NEXT)
    numbers = []
    for _ in PAGE_NUMBERS:
        headers.expect(I32_NEXT)
        numbers.append(headers.number())
    headers.skip_statistics()
    headers.expect(STOP)
    usual = headers.usual & (compressed >= 0) & (headers.positions + compressed == ends) & (numbers[0] == value_count)
    for encoding in numbers[1:]:
        usual &= (encoding >= 0) & (encoding < ENCODING_COUNT_MAX)
    usual &= _are_possible(compressed, uncompressed, codecs)
    return SinglePages(usual, uncompressed, numbers[1])


def _are_possible(compressed: Integers, uncompressed: Integers, codecs: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether `check_sizes` accepts the sizes of each page."""
    expansion = np.array([EXPANSION_MAX.get(codec, PAGE_SIZE_MAX_BYTES) for codec in codecs])
    is_compressed = np.asarray(codecs) != Codec.UNCOMPRESSED
    low = np.where(is_compressed, 0, compressed)
    high = np.where(is_compressed, compressed * expansion + EXPANSION_SLACK_BYTES, compressed)
    return (low <= uncompressed) & (uncompressed <= np.minimum(high, PAGE_SIZE_MAX_BYTES))


class _Headers:
    """A position in each of many structs, moved by what all of them have in common.

    `usual` is false from where one of them has something else; its position means nothing then.
    """

    def __init__(self, content: bytes, positions: Integers) -> None:
        # NumPy takes nothing from an empty array.
        self.data = np.frombuffer(content or b"\0", np.uint8)
        self.positions = positions
        self.usual = np.ones(len(positions), np.bool_)

    def expect(self, byte: int) -> None:
        """Move behind this byte."""
        self.usual &= self._here() == byte
        self.positions += 1

    def number(self) -> Integers:
        """Return the signed numbers here, and move behind them."""
        found, more = np.zeros(len(self.positions), np.int64), self.usual.copy()
        for index in range(VARINT_LENGTH_MAX_BYTES):
            byte = self._here()
            found |= np.where(more, (byte & ~LONG_VARINT) << 7 * index, 0)
            self.positions += more
            more &= byte >= LONG_VARINT
            if not more.any():
                break
        self.usual &= ~more
        return (found >> 1) ^ -(found & 1)

    def skip_statistics(self) -> None:
        """Move behind statistics, where there are any, and behind the stop byte of the struct that may have them."""
        inside = self._here() == STRUCT_NEXT
        self.positions += 1
        # Where there are none, this was the stop byte.
        self.usual &= inside | (self._before() == STOP)
        had_any = inside.copy()
        for _ in range(STATISTICS_MEMBER_COUNT_MAX + 1):
            member = self._here()
            self.positions += inside
            inside &= member != STOP
            if not inside.any():
                break
            self._skip_value(member, inside)
        self.usual &= ~inside
        self.usual &= ~had_any | (self._here() == STOP)
        self.positions += had_any

    def _skip_value(self, member: Integers, inside: npt.NDArray[np.bool_]) -> None:
        """Move behind the values of members, given by the first byte of each, where they are `inside` of statistics."""
        kind = member & 15
        is_binary, is_number = inside & (kind == BINARY), inside & (kind >= I16) & (kind <= I64)
        length = self._here()
        self.usual &= ~inside | ((member >= 16) & (is_binary | is_number | ((kind > 0) & (kind <= BOOL))))
        self.usual &= ~is_binary | (length < LONG_VARINT)
        self.positions += np.where(is_binary, length + 1, 0)
        for _ in range(VARINT_LENGTH_MAX_BYTES):
            if not is_number.any():
                break
            byte = self._here()
            self.positions += is_number
            is_number &= byte >= LONG_VARINT
        self.usual &= ~is_number

    def _here(self) -> Integers:
        return self.data.take(self.positions, mode="clip").astype(np.int64)

    def _before(self) -> Integers:
        return self.data.take(self.positions - 1, mode="clip").astype(np.int64)
