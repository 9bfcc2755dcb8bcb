"""Every whole generation in the bytes of `_pm`, also those that no chain reaches, in one pass."""

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
    """Return the CRC that each generation should carry, by the generation's end.

    Each CRC starts where the one before ended, so that a long chain costs one pass over the file and not one each.
    """
    checksums: dict[int, int] = {}
    position, running = CHECKSUM_START, 0
    for location in sorted(positions, key=lambda location: location.end_bytes):
        running = crc32(memoryview(data)[position : location.checksum_offset], running)
        position = location.checksum_offset
        checksums[location.end_bytes] = running
    return checksums


def whole_generations(data: Buffer, *, file: str) -> list[FooterPosition]:
    """Return all generations whose checksum holds, wherever they end, in the order of the file."""
    positions = []
    view = memoryview(data)
    position, running = CHECKSUM_START, 0
    for end_bytes in _possible_ends(data):
        checksum_offset = end_bytes - TRAILER_BYTES
        running = crc32(view[position:checksum_offset], running)
        position = checksum_offset
        if running == int.from_bytes(view[checksum_offset : checksum_offset + CHECKSUM_BYTES], "little"):
            with suppress(CorruptError):
                positions.append(locate_footer(data, end_bytes, file=file))
    return positions


def _possible_ends(data: Buffer) -> Iterator[int]:
    """Yield, ascending, the ends before which a word can be a footer's length: few, in any but crafted bytes."""
    for start in range(GENERATION_END_MINIMUM - WORD_BYTES, len(data) - WORD_BYTES + 1, WINDOW_BYTES):
        ends = []
        # Words start at any byte, so four readings of the same bytes, each aligned differently.
        for first in range(start, min(start + WORD_BYTES, len(data) - WORD_BYTES + 1)):
            word_count = min(WINDOW_BYTES, len(data) - first) // WORD_BYTES
            lengths = np.frombuffer(data, "<u4", word_count, first)
            word_ends = first + WORD_BYTES + WORD_BYTES * np.arange(word_count, dtype=np.int64)
            ends.append(word_ends[(lengths >= FOOTER_BYTES + CHECKSUM_BYTES) & (lengths < word_ends)])
        yield from np.sort(np.concatenate(ends)).tolist()
