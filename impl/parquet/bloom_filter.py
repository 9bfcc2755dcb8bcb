"""The Thrift header that stands in front of a bloom filter's bitset in a Parquet file."""

from __future__ import annotations

from tornproof.impl.parquet.fields import BLOOM_FILTER_HEADER, ids_of
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import BrokenError, Field, Kind, Struct, decode, encode

HEADER_MAX_BYTES = 1024
HEADER = ids_of(BLOOM_FILTER_HEADER)
# Split blocks, xxHash and no compression are each the first member of a union, and the only one there is.
_FIRST_OF_UNION = Struct((Field(1, Kind.STRUCT, Struct(())),))


def encode_filter_header(size_bytes: int) -> bytes:
    """Return the header of a bitset of so many bytes."""
    choices = (Field(HEADER[name], Kind.STRUCT, _FIRST_OF_UNION) for name in ("algorithm", "hash", "compression"))
    return encode(Struct((Field(HEADER["num_bytes"], Kind.I32, size_bytes), *choices)))


def decode_filter_header(raw: bytes, *, file: str) -> tuple[int, int]:
    """Return the size of the bitset and that of the header which `raw` begins with; raises CorruptError."""
    path_of = BLOOM_FILTER_HEADER.path_text
    tree, end = decode(raw[:HEADER_MAX_BYTES], file=file, path_of=path_of)
    try:
        return read(tree, BLOOM_FILTER_HEADER)["num_bytes"], end
    except BrokenError as error:
        error.report(file, path_of)
