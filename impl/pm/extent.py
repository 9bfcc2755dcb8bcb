"""Which bytes of `_pm` the chain of a generation reaches, and which are dead."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.block import bitset_interval
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import GENERATION_END_MINIMUM, FooterPosition, locate_footer
from tornproof.impl.storage.checksum import crc32

Interval = tuple[int, int]


def reached_intervals(data: Buffer, generations: Iterable[Metadata], *, file: str) -> list[Interval]:
    """Return the merged [start, end) intervals that the given generations reach, ascending.

    The zero bytes that align a block belong to the generation that wrote it.
    """
    intervals: set[Interval] = set()
    for metadata in generations:
        location = metadata.generation.position
        intervals.add((0, metadata.header.size_bytes))
        intervals.add((location.offset_bytes, location.end_bytes))
        intervals.update(block_intervals(data, metadata, file=file))
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif merged and _is_padding(data, merged[-1][1], start):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def block_intervals(data: Buffer, metadata: Metadata, *, file: str) -> list[Interval]:
    """Return one interval for each row group: its block with out-of-line statistics and inlined bloom bitsets."""
    ends = [block.end_bytes for block in metadata.blocks]
    for ordinal, _, (_, end) in bitset_intervals(data, metadata, file=file):
        ends[ordinal] = max(ends[ordinal], end)
    return [(block.offset_bytes, end) for block, end in zip(metadata.blocks, ends, strict=True)]


def bitset_intervals(data: Buffer, metadata: Metadata, *, file: str) -> list[tuple[int, int, Interval]]:
    """Return (row group, position among the bloom columns, interval) of every inlined bloom bitset."""
    limit = metadata.generation.position.offset_bytes
    return [
        (ordinal, position, bitset_interval(data, bloom.offset_bytes, limit_bytes=limit, file=file))
        for ordinal, blooms in enumerate(metadata.generation.blooms)
        for position, bloom in enumerate(blooms)
        if bloom is not None and bloom.length_bytes is None
    ]


def dead_byte_count(data: Buffer, file_size_bytes: int, intervals: list[Interval], *, file: str) -> int:
    """Return how many of the file's bytes no interval reaches.

    Between two reached generations there are orphans, the last of which ends up to 7 bytes before the next block. These
    bytes of alignment belong to the block, so the orphan's own end has to be found.
    """
    dead = file_size_bytes - intervals[-1][1]
    for (_, low), (high, _) in itertools.pairwise(intervals):
        orphan = find_generation(data, low, high, file=file)
        dead += (orphan.end_bytes if orphan else high) - low
    return dead


def find_generation(data: Buffer, low: int, high: int, *, file: str) -> FooterPosition | None:
    """Find a generation whose footer is in [low, high) and which ends at `high`, or less than 8 bytes before.

    Another one must end at `low`: the CRC is continued from its CHECKSUM, so that many gaps cost one pass.
    """
    try:
        anchor = locate_footer(data, low, file=file)
    except CorruptError:
        return None
    for end_bytes in range(high, high - layout.BLOCK_ALIGNMENT_BYTES, -1):
        if end_bytes < max(low, GENERATION_END_MINIMUM) or any(data[end_bytes:high]):
            continue
        try:
            location = locate_footer(data, end_bytes, file=file)
        except CorruptError:
            continue
        between = memoryview(data)[anchor.checksum_offset : location.checksum_offset]
        if location.offset_bytes >= low and crc32(between, anchor.trailer.checksum) == location.trailer.checksum:
            return location
    return None


def _is_padding(data: Buffer, start: int, end: int) -> bool:
    return end - start < layout.BLOCK_ALIGNMENT_BYTES and not any(data[start:end])
