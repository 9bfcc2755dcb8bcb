"""Finds every complete generation in the bytes of `_pm`, including unreachable ones, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

import numpy as np

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.chain import CHECKSUM_START
from tornproof.impl.pm.footer import (
    CHECKSUM_BYTES,
    FOOTER_BYTES,
    GENERATION_END_MINIMUM,
    TRAILER_BYTES,
    FooterPosition,
    locate_footer,
)
from tornproof.impl.storage.checksum import crc32

WINDOW_BYTES = 4 * 1024 * 1024
WORD_BYTES = 4


def computed_checksums(data: Buffer, positions: Iterable[FooterPosition]) -> dict[int, int]:
    """Return the CRC that each generation should have, by the generation's end.

    Each CRC continues the one before, so that a long chain takes one pass over the file.
    """
    checksums: dict[int, int] = {}
    start, running = CHECKSUM_START, 0
    for position in sorted(positions, key=lambda each: each.end_bytes):
        running = crc32(memoryview(data)[start : position.checksum_offset], running)
        start = position.checksum_offset
        checksums[position.end_bytes] = running
    return checksums


def whole_generations(data: Buffer, *, file: str) -> list[FooterPosition]:
    """Return all generations with a valid checksum, wherever they end, in file order."""
    positions = []
    view = memoryview(data)
    start, running = CHECKSUM_START, 0
    for end_bytes in _possible_ends(data):
        checksum_offset = end_bytes - TRAILER_BYTES
        running = crc32(view[start:checksum_offset], running)
        start = checksum_offset
        if running == int.from_bytes(view[checksum_offset : checksum_offset + CHECKSUM_BYTES], "little"):
            with suppress(CorruptError):
                positions.append(locate_footer(data, end_bytes, file=file))
    return positions


def _possible_ends(data: Buffer) -> Iterator[int]:
    """Yield, ascending, the offsets after words that can be a footer's length: few, except in crafted bytes."""
    for start in range(GENERATION_END_MINIMUM - WORD_BYTES, len(data) - WORD_BYTES + 1, WINDOW_BYTES):
        ends = []
        # Words start at any byte, so the same bytes are read four times, with each alignment.
        for first in range(start, min(start + WORD_BYTES, len(data) - WORD_BYTES + 1)):
            word_count = min(WINDOW_BYTES, len(data) - first) // WORD_BYTES
            lengths = np.frombuffer(data, "<u4", word_count, first)
            word_ends = first + WORD_BYTES + WORD_BYTES * np.arange(word_count, dtype=np.int64)
            ends.append(word_ends[(lengths >= FOOTER_BYTES + CHECKSUM_BYTES) & (lengths < word_ends)])
        yield from np.sort(np.concatenate(ends)).tolist()
