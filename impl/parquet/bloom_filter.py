"""The format of a bloom filter in a Parquet file: a Thrift header, and a bitset of blocks of words."""

from __future__ import annotations

from typing import Final

from tornproof.impl.parquet.fields import (
    BLOOM_FILTER_ALGORITHM,
    BLOOM_FILTER_COMPRESSION,
    BLOOM_FILTER_HASH,
    BLOOM_FILTER_HEADER,
)
from tornproof.impl.parquet.records import make, read
from tornproof.impl.parquet.thrift import BrokenError, Struct, decode, encode

BLOCK_BYTES: Final = 32
"""A block has 8 words of 32 bits, and a value sets one bit in each of them."""
SIZE_MIN_BYTES: Final = BLOCK_BYTES
SIZE_MAX_BYTES: Final = 1 << 27
HEADER_MAX_BYTES: Final = 1024
SALTS: Final = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
WORD_BITS: Final = 32


def encode_filter_header(size_bytes: int) -> bytes:
    """Return the header of a bitset of `size_bytes`."""
    algorithm = make(BLOOM_FILTER_ALGORITHM, BLOCK=Struct(()))
    hashing = make(BLOOM_FILTER_HASH, XXHASH=Struct(()))
    compression = make(BLOOM_FILTER_COMPRESSION, UNCOMPRESSED=Struct(()))
    return encode(
        make(BLOOM_FILTER_HEADER, num_bytes=size_bytes, algorithm=algorithm, hash=hashing, compression=compression)
    )


def decode_filter_header(raw: bytes, *, file: str, offset_bytes: int = 0) -> tuple[int, int]:
    """Return the sizes of the bitset and of the header at the start of `raw`; raises CorruptError."""
    path_of = BLOOM_FILTER_HEADER.path_text
    tree, end = decode(raw[:HEADER_MAX_BYTES], file=file, offset_bytes=offset_bytes, path_of=path_of)
    try:
        return read(tree, BLOOM_FILTER_HEADER)["num_bytes"], end
    except BrokenError as error:
        error.report(file, path_of)
