"""How many bytes texts in pages share with those before them, by the lengths that stand at the beginning of each page.

The lengths are packed here as [Encodings.md](https://github.com/apache/parquet-format/blob/master/Encodings.md) has it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tornproof.harness.explorers.roundtrip.metadata.usual_records import chunk_of
from tornproof.harness.explorers.roundtrip.parquet.page_headers import DATA, DATA_V2, Page
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import signed, varint
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.impl.chunk.shared_prefixes import shared_byte_count
from tornproof.impl.parquet.pages import walk_pages

FILE, START_BYTES = "chunk.parquet", 100
RLE, DELTA_BYTE_ARRAY = 3, 7
BLOCK_COUNT, PART_COUNT = 128, 4
"""How many numbers are in a block, and in how many parts; a few are all in the first one."""
TEXTS = b"what is behind the lengths"
LENGTHS = (0, 1, 300, -1, -301)


def shared_prefixes() -> Iterator[Question]:
    """Yield up to three lengths, also negative ones, in one page, and in pages of their own, with levels and without.

    No other length makes up for a negative one.
    """
    for count in range(4):
        for lengths in itertools.product(LENGTHS, repeat=count):
            expected = "ValueError" if min(lengths, default=0) < 0 else sum(lengths)
            for kind, is_optional in itertools.product((DATA, DATA_V2), (False, True)):
                for pages in dict.fromkeys(((lengths,), tuple(zip(lengths)))):
                    levels = "an optional" if is_optional else "a required"
                    words = f"what texts share of {levels} column, in pages of kind {kind} with the lengths {pages}"
                    yield ask("shared prefixes", words, expected, _shared_bytes, pages, kind, is_optional=is_optional)


def _shared_bytes(pages: Sequence[Sequence[int]], kind: int, *, is_optional: bool) -> int | str:
    content = b"".join(_page(lengths, kind, is_optional=is_optional) for lengths in pages)
    count = sum(map(len, pages))
    chunk = chunk_of(count, byte_range_start=START_BYTES, total_compressed=len(content))
    found = walk_pages(content, file=FILE, offset_bytes=START_BYTES, codec=chunk.codec, value_count=count)
    try:
        return shared_byte_count(content, found, chunk, is_optional=is_optional)
    except ValueError as error:
        return type(error).__name__


def _page(lengths: Sequence[int], kind: int, *, is_optional: bool) -> bytes:
    levels = (varint(len(lengths) << 1) + b"\1") * is_optional
    numbers = {"value_count": len(lengths), "row_count": len(lengths), "encoding": DELTA_BYTE_ARRAY}
    if kind == DATA:
        numbers |= {"definition_encoding": RLE, "repetition_encoding": RLE}
        body = len(levels).to_bytes(4, "little") * is_optional + levels + _packed(lengths) + TEXTS
    else:
        numbers |= {"definition_bytes": len(levels)}
        body = levels + _packed(lengths) + TEXTS
    size_bytes = len(body)
    return Page(kind=kind, compressed_bytes=size_bytes, uncompressed_bytes=size_bytes, numbers=numbers).header() + body


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers as the first one and the steps to the others, each of which is packed as what the least lacks."""
    first = signed(numbers[0]) if numbers else 0
    head = b"".join(varint(each) for each in (BLOCK_COUNT, PART_COUNT, len(numbers), first))
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    if not steps:
        return head
    least = min(steps)
    width = (max(steps) - least).bit_length()
    bits = sum(step - least << width * place for place, step in enumerate(steps))
    packed = bits.to_bytes(width * BLOCK_COUNT // PART_COUNT // 8, "little")
    return head + varint(signed(least)) + bytes([width, *[0] * (PART_COUNT - 1)]) + packed
