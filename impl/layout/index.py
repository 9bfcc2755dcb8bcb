"""The byte layouts of a symbol column's index in one partition: `<column>.k` with keys, `<column>.v` with rows."""

from typing import Annotated

from tornproof.impl.layout.record import I32, I64, U8, Record, gap, layout_of, meaning

SOURCE = "QuestDB's public sources, checked on tables of 9.4.2 and 2026-07"


@layout_of(title="Symbol index header", size_bytes=64, source=SOURCE)
class IndexHeader(Record):
    """Start of `.k`; one entry for each key follows."""

    signature: U8 = meaning("250")
    sequence: I64 = meaning("changes with each write")
    value_mem_size: I64 = meaning("bytes of `.v` that are in use")
    block_value_count: I32 = meaning("rows in one block of `.v`")
    key_count: I32 = meaning("keys that follow: 0 for null, then a symbol's key + 1")
    unused: Annotated[bytes, gap(4)] = meaning("unused here")
    sequence_check: I64 = meaning("the sequence again, unless a write was not completed")
    max_value: I64 = meaning("the last row")
    unused_end: Annotated[bytes, gap(19)] = meaning("unused here")


@layout_of(title="Symbol index key", size_bytes=32, source=SOURCE)
class IndexKey(Record):
    """The rows of one symbol: a chain of blocks of `.v`.

    A block holds rows in ascending order, each 8 bytes, then the offsets of the block before it and of the one after.
    """

    value_count: I64 = meaning("rows")
    first_value_block_offset: I64 = meaning("offset of the first block in `.v`")
    last_value_block_offset: I64 = meaning("offset of the last block in `.v`")
    count_check: I64 = meaning("the number of rows again, unless a write was not completed")
