"""Numbers of a few bits each, packed from the least significant bit on, as Parquet does; many vectors at once."""

from __future__ import annotations

import numpy as np

from tornproof.impl.extension.columnar import Array

WORD_BITS = 64
BYTE_BITS = 8
WHOLE_WIDTHS = (8, 16, 32, 64)


def packed_size_bytes(count: int, width: int) -> int:
    """Return the bytes of so many numbers of `width` bits."""
    return -(-count * width // BYTE_BITS)


def pack(numbers: Array, width: int) -> Array:
    """Return rows of unsigned numbers below 2^width as rows of bytes, which have room for a multiple of 64 numbers."""
    row_count, count = numbers.shape
    if width == 0:
        return np.zeros((row_count, 0), np.uint8)
    if width in WHOLE_WIDTHS:
        return numbers.astype(f"<u{width // BYTE_BITS}").view(np.uint8)
    block_count = -(-count // WORD_BITS)
    padded = np.zeros((row_count, block_count * WORD_BITS), np.uint64)
    padded[:, :count] = numbers
    # The numbers at one position of every block are next to each other, because they are shifted alike.
    lanes = np.ascontiguousarray(padded.reshape(-1, WORD_BITS).T)
    words = np.zeros((width, lanes.shape[1]), np.uint64)
    for position, lane in enumerate(lanes):
        word, shift = divmod(position * width, WORD_BITS)
        words[word] |= lane << np.uint64(shift)
        if shift + width > WORD_BITS:
            words[word + 1] |= lane >> np.uint64(WORD_BITS - shift)
    return np.ascontiguousarray(words.T).astype("<u8", copy=False).view(np.uint8).reshape(row_count, -1)


def unpack(content: Array, width: int, count: int) -> Array:
    """Return `count` numbers of each row of bytes, which has room for a multiple of 64 numbers."""
    row_count = len(content)
    if width == 0:
        return np.zeros((row_count, count), np.uint64)
    if width in WHOLE_WIDTHS:
        return content.view(f"<u{width // BYTE_BITS}")[:, :count].astype(np.uint64)
    words = np.ascontiguousarray(content.view("<u8").reshape(-1, width).T)
    lanes = np.empty((WORD_BITS, words.shape[1]), np.uint64)
    mask = np.uint64((1 << width) - 1)
    for position, lane in enumerate(lanes):
        word, shift = divmod(position * width, WORD_BITS)
        np.right_shift(words[word], np.uint64(shift), out=lane)
        if shift + width > WORD_BITS:
            lane |= words[word + 1] << np.uint64(WORD_BITS - shift)
        lane &= mask
    return np.ascontiguousarray(lanes.T).reshape(row_count, -1)[:, :count]


def bit_widths(numbers: Array) -> Array:
    """Return the bits of each unsigned number; of one from 2^53 on it may be one bit more, because it is rounded."""
    return np.minimum(np.frexp(numbers.astype(np.float64))[1], WORD_BITS)


def bit_width(number: int) -> int:
    """Return the bits of a number."""
    return int(number).bit_length()
