"""One generation of `_pm` as arrays over its bytes, to find single chunks without decoding the rest.

The cost does not depend on the number of columns, and is only a few numbers for each row group. A reader that returns
to a generation need not compute its CRC again: `VerifiedGenerations` remembers the valid ones.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.block import Chunk, chunk_offset, decode_chunk_record, region_offset
from tornproof.impl.pm.chain import check_checksum, find_token
from tornproof.impl.pm.footer import ENTRY_BYTES, FOOTER_BYTES, FooterPosition, block_offsets_at, check_flags
from tornproof.impl.pm.header import Column, decode_column, decode_fixed, descriptor_offset

WORD_BYTES = 8
INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
BOTH_BOUNDS_INLINED = (
    layout.MIN_STAT_PRESENT.mask
    | layout.MIN_STAT_INLINED.mask
    | layout.MAX_STAT_PRESENT.mask
    | layout.MAX_STAT_INLINED.mask
)
TWO_WORDS = layout.MAX_STAT_SIZE.put(layout.MIN_STAT_SIZE.put(0, WORD_BYTES), WORD_BYTES)


class VerifiedGenerations(msgspec.Struct, frozen=True):
    """The generations whose CRC this process has found valid: (file, end in bytes, CHECKSUM)."""

    known: set[tuple[str, int, int]] = msgspec.field(default_factory=set)

    def verify(self, data: Buffer, location: FooterPosition, *, file: str) -> None:
        """Raise CorruptError unless the generation's CRC is valid, or was when it was checked before."""
        key = (file, location.end_bytes, location.trailer.checksum)
        if key not in self.known:
            check_checksum(data, location, file=file)
            self.known.add(key)


class MetadataView(msgspec.Struct, frozen=True, kw_only=True):
    """A generation over `content`, the published bytes of `_pm`; usable as long as these are.

    `block_offsets` has the start of each row group's block, in bytes.
    """

    content: Buffer
    file: str
    position: FooterPosition
    fixed: layout.Header
    block_offsets: npt.NDArray[np.int64]

    @property
    def row_counts(self) -> npt.NDArray[np.uint64]:
        """The rows of each row group."""
        return self._words(self.block_offsets).view(np.uint64)

    def timestamp_bounds(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return each row group's smallest and largest designated timestamp; extreme values if they are not inlined."""
        index = self.fixed.designated_timestamp
        if index < 0:
            count = len(self.block_offsets)
            return np.full(count, INT64_MIN), np.full(count, INT64_MAX)
        record = layout.ColumnChunk.layout
        chunks = self.block_offsets + chunk_offset(0, index)
        content = np.frombuffer(self.content, np.uint8)
        flags = content[chunks + record.offset_of("stat_flags")] & BOTH_BOUNDS_INLINED
        sizes = content[chunks + record.offset_of("stat_sizes")]
        known = (flags == BOTH_BOUNDS_INLINED) & (sizes == TWO_WORDS)
        low = self._words(chunks + record.offset_of("min_stat"))
        high = self._words(chunks + record.offset_of("max_stat"))
        return np.where(known, low, INT64_MIN), np.where(known, high, INT64_MAX)

    def row_groups_between(self, start: int | None = None, end: int | None = None) -> list[int]:
        """Return the row groups that may hold a designated timestamp in [start, end), by their statistics."""
        low, high = self.timestamp_bounds()
        may_match = np.ones(len(low), bool)
        # Python integers of any size can be compared with those of an array.
        if end is not None:
            may_match &= low < end
        if start is not None:
            may_match &= high >= start
        return list(map(int, np.flatnonzero(may_match)))

    def find_column(self, name: str) -> int | None:
        """Return the first column of that name, without decoding the names of others."""
        wanted = name.encode()
        descriptors = np.frombuffer(
            self.content, layout.ColumnDescriptor.layout.dtype, self.fixed.column_count, descriptor_offset(0)
        )
        (candidates,) = np.nonzero(descriptors["name_length"] == len(wanted))
        starts = descriptors["name_offset"][candidates]
        inside = starts <= len(self.content) - len(wanted)
        candidates, starts = candidates[inside], starts[inside].astype(np.int64)
        content = np.frombuffer(self.content, np.uint8)
        # Of many names of one length, the last bytes are the most likely to differ.
        for position in reversed(range(len(wanted))):
            equal = content[starts + position] == wanted[position]
            candidates, starts = candidates[equal], starts[equal]
        return int(candidates[0]) if len(candidates) else None

    def column(self, index: int) -> Column:
        """Decode one column; raises CorruptError."""
        return decode_column(self.content, index, self.fixed, file=self.file)

    def chunk(self, ordinal: int, index: int) -> Chunk:
        """Decode one chunk of one row group; raises CorruptError."""
        return decode_chunk_record(
            self.content,
            int(self.block_offsets[ordinal]),
            index,
            self.fixed.column_count,
            limit_bytes=self.position.offset_bytes,
            file=self.file,
        )

    def _words(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the words at these offsets, all multiples of 8."""
        words = np.frombuffer(self.content, "<i8", len(self.content) // WORD_BYTES)
        return words[offsets // WORD_BYTES]


def open_view(content: Buffer, token: int, *, file: str, verified: VerifiedGenerations) -> MetadataView:
    """Find the newest generation with this token, verify its CRC unless `verified`, and check its block offsets.

    Raises TokenMissingError, CorruptError, and UnsupportedError for unknown required bits.
    """
    location, _ = find_token(content, token, file=file)
    verified.verify(content, location, file=file)
    fixed = decode_fixed(content, file=file)
    check_flags(location, file=file)
    return MetadataView(
        content=content,
        file=file,
        position=location,
        fixed=fixed,
        block_offsets=_block_offsets(content, location, fixed.column_count, file),
    )


def _block_offsets(content: Buffer, location: FooterPosition, column_count: int, file: str) -> npt.NDArray[np.int64]:
    count = location.fixed.row_group_count
    room = (location.checksum_offset - location.offset_bytes - FOOTER_BYTES) // ENTRY_BYTES
    if count > room:
        raise layout.Footer.at(file, location.offset_bytes).corrupt(
            "row_group_count", f"at most {room}, the entries that fit into the footer", count
        )
    offsets = block_offsets_at(content, location)
    limit = location.offset_bytes - region_offset(0, column_count)
    outside = np.flatnonzero(offsets > limit)
    if len(outside):
        ordinal = int(outside[0])
        expected = f"at most {limit}, so that {column_count} column chunks lie before the footer"
        actual = int(offsets[ordinal])
        field = f"BLOCK_OFFSET of row group {ordinal}"
        raise CorruptError(file, field, location.offset_bytes + FOOTER_BYTES + ordinal * ENTRY_BYTES, expected, actual)
    return offsets
