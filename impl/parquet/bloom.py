"""Split-block bloom filters: their size, the bits that a value sets, and whether a filter may contain a value.

Source: Apache Parquet format, "Bloom Filter": xxHash64 with seed 0 of a value's PLAIN bytes, without a length prefix.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES, SALTS, SIZE_MAX_BYTES, SIZE_MIN_BYTES, WORD_BITS

BIT_SHIFT: Final = 27
"""The upper 5 of 32 bits choose a bit of a word."""

PRIME_1: Final = np.uint64(0x9E3779B185EBCA87)
PRIME_2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
PRIME_3: Final = np.uint64(0x165667B19E3779F9)
PRIME_4: Final = np.uint64(0x85EBCA77C2B2AE63)
PRIME_5: Final = np.uint64(0x27D4EB2F165667C5)
STRIPE_BYTES: Final = 32
"""xxHash64 processes longer values differently."""

Hashes: TypeAlias = npt.NDArray[np.uint64]


def bitset_size_bytes(distinct_count: int, false_positive_rate: float) -> int:
    """Return the size of a filter for `distinct_count` values: a power of two, 32 bytes to 128 MiB.

    The rule of pyarrow, parquet-java and QuestDB; the rate is above 0 and below 1.
    """
    assert distinct_count >= 0 and 0 < false_positive_rate < 1, (distinct_count, false_positive_rate)
    bits_per_value = -len(SALTS) / math.log1p(-(false_positive_rate ** (1 / len(SALTS))))
    size_bits = max(8 * SIZE_MIN_BYTES, min(8 * SIZE_MAX_BYTES, int(distinct_count * bits_per_value)))
    return 1 << (size_bits - 1).bit_length() >> 3


def hash_of(plain: bytes) -> int:
    """Return the hash of one value's PLAIN bytes."""
    return xxhash.xxh64_intdigest(plain)


def can_be_hashed(stored: pa.DataType) -> bool:
    """Return whether values of an array in stored form have hashes: booleans and lists have none."""
    stored = _inner(stored)
    return not (pa.types.is_boolean(stored) or pa.types.is_nested(stored) or pa.types.is_decimal(stored))


def hashes_of(stored: pa.Array) -> Hashes:
    """Return the hashes of an array in stored form, without nulls; `can_be_hashed` says for which types."""
    if isinstance(stored, pa.ExtensionArray):
        stored = stored.storage
    if stored.null_count:
        stored = stored.drop_null()
    if isinstance(stored, pa.DictionaryArray):
        # A symbol column's dictionary may hold many values that no row uses.
        used, inverse = np.unique(np.asarray(stored.indices), return_inverse=True)
        return hashes_of(stored.dictionary.take(pa.array(used)))[inverse]
    assert can_be_hashed(stored.type), stored.type
    if pa.types.is_fixed_size_binary(stored.type):
        return _hashes_of_rows(_fixed_rows(stored, stored.type.byte_width))
    if _is_text(stored.type):
        values = stored.cast(_binary_of(stored.type)).to_pylist()
        return np.fromiter((xxhash.xxh64_intdigest(value) for value in values), np.uint64, len(values))
    if stored.type.bit_width < WORD_BITS:
        # Parquet stores narrow integers in 4 bytes.
        stored = stored.cast(pa.int32())
    return _hashes_of_rows(_fixed_rows(stored, stored.type.bit_width // 8))


def with_positive_zeros(stored: pa.Array) -> pa.Array:
    """Return floats without nulls and with 0.0 in place of -0.0, as which servers look for it; others as they are."""
    if not pa.types.is_floating(stored.type):
        return stored
    values = stored.drop_null().to_numpy()
    is_negative = (values == 0) & np.signbit(values)
    return pa.array(np.where(is_negative, np.zeros_like(values), values)) if is_negative.any() else stored


def bitset_of_values(stored: pa.Array, false_positive_rate: float) -> bytes:
    """Return the filter of an array in stored form, sized by its distinct values; with -0.0 it also has 0.0."""
    hashes, positive = hashes_of(stored), with_positive_zeros(stored)
    hashes = np.unique(hashes if positive is stored else np.append(hashes, hashes_of(positive)))
    return build_bitset(hashes, bitset_size_bytes(len(hashes), false_positive_rate))


def build_bitset(hashes: Hashes, size_bytes: int) -> bytes:
    """Return a filter of `size_bytes`, a multiple of 32, that contains all values with these hashes."""
    assert size_bytes > 0 and size_bytes % BLOCK_BYTES == 0, size_bytes
    words = np.zeros(size_bytes // 4, np.uint32)
    word_indices, masks = _bits(hashes, size_bytes)
    np.bitwise_or.at(words, word_indices, masks)
    return words.astype("<u4", copy=False).tobytes()


def may_contain(bitset: bytes | memoryview, value_hash: int) -> bool:
    """Return False only if no value with this hash is in the filter, whose size is a multiple of 32 bytes."""
    start = ((value_hash >> 32) * (len(bitset) // BLOCK_BYTES) >> 32) * BLOCK_BYTES
    block = int.from_bytes(bitset[start : start + BLOCK_BYTES], "little")
    key = value_hash & 0xFFFFFFFF
    return all(
        block >> (WORD_BITS * word + ((key * salt & 0xFFFFFFFF) >> BIT_SHIFT)) & 1 for word, salt in enumerate(SALTS)
    )


def probe(bitset: bytes | memoryview, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Return `may_contain` for every hash."""
    words = np.frombuffer(bitset, "<u4")
    word_indices, masks = _bits(hashes, len(bitset))
    return np.asarray((words[word_indices] & masks == masks).all(axis=0))


def _bits(hashes: Hashes, size_bytes: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the word and the mask of every hash's bit, one row for each of the 8 salts."""
    blocks = (hashes >> np.uint64(32)) * np.uint64(size_bytes // BLOCK_BYTES) >> np.uint64(32)
    salts = np.array(SALTS, np.uint32)[:, np.newaxis]
    masks = np.uint32(1) << (hashes.astype(np.uint32) * salts >> np.uint32(BIT_SHIFT))
    words = np.arange(len(SALTS))[:, np.newaxis]
    return blocks.astype(np.int64) * len(SALTS) + words, masks


def _hashes_of_rows(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Return xxHash64 of every row of bytes."""
    count, width_bytes = rows.shape
    if width_bytes >= STRIPE_BYTES:
        return np.fromiter((xxhash.xxh64_intdigest(row) for row in rows), np.uint64, count)
    hashes = np.full(count, PRIME_5 + np.uint64(width_bytes), np.uint64)
    position = 0
    for _ in range(width_bytes // 8):
        lane = _rotated(_lane(rows, position, "<u8") * PRIME_2, 31) * PRIME_1
        hashes = _rotated(hashes ^ lane, 27) * PRIME_1 + PRIME_4
        position += 8
    if width_bytes - position >= 4:
        hashes = _rotated(hashes ^ _lane(rows, position, "<u4") * PRIME_1, 23) * PRIME_2 + PRIME_3
        position += 4
    for index in range(position, width_bytes):
        hashes = _rotated(hashes ^ rows[:, index].astype(np.uint64) * PRIME_5, 11) * PRIME_1
    hashes = (hashes ^ hashes >> np.uint64(33)) * PRIME_2
    hashes = (hashes ^ hashes >> np.uint64(29)) * PRIME_3
    return np.asarray(hashes ^ hashes >> np.uint64(32))


def _rotated(words: Hashes, bit_count: int) -> Hashes:
    return words << np.uint64(bit_count) | words >> np.uint64(64 - bit_count)


def _lane(rows: npt.NDArray[np.uint8], position: int, dtype: str) -> Hashes:
    width_bytes = np.dtype(dtype).itemsize
    return np.ascontiguousarray(rows[:, position : position + width_bytes]).view(dtype)[:, 0].astype(np.uint64)


def _fixed_rows(stored: pa.Array, width_bytes: int) -> npt.NDArray[np.uint8]:
    content = stored.buffers()[1] or b""
    flat = np.frombuffer(content, np.uint8, len(stored) * width_bytes, stored.offset * width_bytes)
    return flat.reshape(len(stored), width_bytes)


def _inner(stored: pa.DataType) -> pa.DataType:
    if isinstance(stored, pa.DictionaryType):
        return stored.value_type
    return stored.storage_type if isinstance(stored, pa.BaseExtensionType) else stored


def _is_text(stored: pa.DataType) -> bool:
    return any(
        check(stored) for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    ) or pa.types.is_large_binary(stored)


def _binary_of(stored: pa.DataType) -> pa.DataType:
    is_large = pa.types.is_large_string(stored) or pa.types.is_large_binary(stored)
    return pa.large_binary() if is_large else pa.binary()
