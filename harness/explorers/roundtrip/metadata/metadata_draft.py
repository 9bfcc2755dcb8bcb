"""Metadata files of three row groups made byte by byte, as docs/format.md lays them out, with any value in any field.

Nothing is shared with the encoder: what both know of the layout is told a second time here.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from tornproof.harness.explorers.corruption.crafted import overwritten

HEADER, DESCRIPTOR, CHUNK, FOOTER = "<QQiIII", "<QiiiiIBBBB", "<BBBBIQQQQQQQ", "<QIIQQQ"
INLINE_BYTES_MAX, LENGTH_BITS = 8, 16
HEADER_BYTES, DESCRIPTOR_BYTES, FOOTER_BYTES = map(struct.calcsize, (HEADER, DESCRIPTOR, FOOTER))
HEADER_FIELDS = {"feature_flags": 8, "designated_timestamp": 16, "sorting_column_count": 20, "reserved": 28}
COLUMN_FIELDS = {
    **{"name_offset": 0, "type": 12, "flags": 16, "fixed_byte_len": 20, "name_length": 24},
    **{"physical_type": 28, "max_rep_level": 29, "reserved": 31},
}
CHUNK_FIELDS = {
    **{"codec": 0, "encodings": 1, "stat_flags": 2, "stat_sizes": 3, "reserved": 4, "num_values": 8},
    **{"byte_range_start": 16, "total_compressed": 24, "null_count": 32, "distinct_count": 40},
    **{"min_stat": 48, "max_stat": 56},
}
ENTRY_FIELDS = {"block_offset": 0}
FOOTER_FIELDS = {"parquet_footer_offset": 0, "row_group_count": 12, "unused_bytes": 16, "footer_feature_flags": 32}
"""Where fields are in their records."""
WORD_BYTES, SLOT_BYTES = 8, 4
SORTED_BY_TIMESTAMP, DESCENDING = 4, 16
INLINED_BLOOMS, EXTERNAL_BLOOMS = 1, 3
HAS_MINIMUM, MINIMUM_INLINED, HAS_MAXIMUM, MAXIMUM_INLINED, HAS_DISTINCT, HAS_NULLS = 1, 2, 8, 16, 64, 128
GROUP_ROWS = 10
CHUNK_BYTES, FIRST_BYTE = 100, 4
THRIFT_BYTES, TAIL_BYTES = 60, 8
BITSET = bytes(32)


@dataclass(slots=True, kw_only=True)
class DraftColumn:
    """A column: its writer index, types, levels, and flags, of which bit 2 says that there may be nulls."""

    name: str
    id: int
    type: int
    physical: int
    fixed_bytes: int = 0
    max_rep: int = 0
    max_def: int = 1
    flags: int = 4


@dataclass(slots=True, kw_only=True)
class DraftChunk:
    """A column chunk; a bound that is None is not there, nor is a count."""

    start: int
    values: int = GROUP_ROWS
    size_bytes: int = CHUNK_BYTES
    nulls: int | None = None
    distinct: int | None = None
    low: bytes | None = None
    high: bytes | None = None
    encodings: int = 1


@dataclass(slots=True, kw_only=True)
class Draft:
    """A file; `place` are the blocks in the order in which they are written.

    Of the row groups whose first column has a filter in the file, `bitsets` has those of which it is there, and
    `blooms` those of which it is referred to, with the bytes by which the reference is moved. Of filters in
    `data.parquet`, `blooms` has the offset and the length.
    """

    columns: list[DraftColumn]
    groups: list[list[DraftChunk]]
    rows: list[int] = field(default_factory=lambda: [GROUP_ROWS] * 3)
    timestamp: int = 0
    flags: int = SORTED_BY_TIMESTAMP
    sorting: tuple[int, ...] = ()
    unused_bytes: int = 0
    footer_offset: int = 0
    place: list[int] = field(default_factory=lambda: [0, 1, 2])
    patches: list[tuple[str, int, str, int]] = field(default_factory=list)
    """Numbers in place of others: where their record begins, by its name, their offset in it, format and value."""
    bloom_columns: tuple[int, ...] = (0,)
    header_extra: bytes = b""
    shared_bytes: int = 0
    """What the header's end is of the block that is written first, too."""
    footer_flags: int = 0
    sections: bytes = b""
    references: bytes = b""
    """All references to filters, in place of those that `blooms` has."""
    older: Draft | None = None
    """The generation before, which has the blocks of the row groups that are not written again."""
    at: dict[str, int] = field(default_factory=dict)
    """Where each record begins, once the file is encoded."""
    bitsets: tuple[int, ...] = ()
    blooms: dict[int, tuple[int, int]] = field(default_factory=dict)
    footer_start: int | None = None
    """Where the last word says that the footer begins, if elsewhere."""

    @property
    def token(self) -> int:
        """The size of `data.parquet` that it describes."""
        return self.footer_offset + THRIFT_BYTES + TAIL_BYTES

    def encoded(self) -> bytes:
        """Return the bytes."""
        out = bytearray(self.older.encoded() if self.older else self._header())
        at, previous_bytes = self.at, len(out) if self.older else 0
        at |= self.older.at if self.older else {}
        at |= {"header": 0, **{f"column {index}": column_start(index) for index in range(len(self.columns))}}
        at["bloom columns"] = len(self._header()) - len(self.header_extra) - SLOT_BYTES * (1 + len(self.bloom_columns))
        for nth, group in enumerate(self.place):
            shared_bytes = 0 if nth else self.shared_bytes
            at[f"block {group}"] = _aligned(out) - shared_bytes
            out += self._block(group)[shared_bytes:]
            at |= {f"chunk {group} {n}": chunk_start(at[f"block {group}"], n) for n in range(len(self.columns))}
            if group in self.bitsets:
                at[f"bitset {group}"] = _aligned(out)
                out += struct.pack("<i", len(BITSET)) + BITSET
        at["footer"] = len(out)
        counts = THRIFT_BYTES, len(self.groups), self.unused_bytes, previous_bytes, self.footer_flags
        out += struct.pack(FOOTER, self.footer_offset, *counts)
        for group in range(len(self.groups)):
            at[f"entry {group}"] = len(out)
            out += struct.pack("<I", at[f"block {group}"] // WORD_BYTES)
        out += self._references(at) + self.sections
        struct.pack_into("<Q", out, 0, len(out) + WORD_BYTES)
        for place, offset, form, value in self.patches:
            struct.pack_into(form, out, at[place] + offset, value)
        out += struct.pack("<I", zlib.crc32(out[WORD_BYTES:]))
        start = at["footer"] if self.footer_start is None else self.footer_start
        return bytes(out + struct.pack("<I", len(out) - start))

    def _header(self) -> bytes:
        count = len(self.columns)
        blooms = self.bloom_columns if self.flags & INLINED_BLOOMS else ()
        bloom = struct.pack(f"<{1 + len(blooms)}I", len(blooms), *blooms) if blooms else b""
        slots = struct.pack(f"<{len(self.sorting)}I", *self.sorting)
        names = column_start(count) + len(slots)
        out = struct.pack(HEADER, 0, self.flags, self.timestamp, len(self.sorting), count, 0)
        text = b""
        for column in self.columns:
            name, at = column.name.encode(), names + len(text)
            numbers = column.id, column.type, column.flags, column.fixed_bytes, len(name)
            out += struct.pack(DESCRIPTOR, at, *numbers, column.physical, column.max_rep, column.max_def, 0)
            text += name
        return out + slots + text + bloom + self.header_extra

    def _block(self, group: int) -> bytes:
        out, region = struct.pack("<Q", self.rows[group]), b""
        for chunk in self.groups[group]:
            flags = (chunk.distinct is not None) * HAS_DISTINCT | (chunk.nulls is not None) * HAS_NULLS
            words, sizes = [], 0
            for shift, bound, present, inlined in (
                (0, chunk.low, HAS_MINIMUM, MINIMUM_INLINED),
                (4, chunk.high, HAS_MAXIMUM, MAXIMUM_INLINED),
            ):
                content = bound or b""
                flags |= (bound is not None) * present
                if len(content) <= INLINE_BYTES_MAX:
                    flags |= (bound is not None) * inlined
                    sizes |= len(content) << shift
                    words.append(int.from_bytes(content, "little"))
                else:
                    words.append(len(content) | len(region) << LENGTH_BITS)
                    region += content
            head = 0, chunk.encodings, flags, sizes, 0
            counts = chunk.values, chunk.start, chunk.size_bytes, chunk.nulls or 0, chunk.distinct or 0
            out += struct.pack(CHUNK, *head, *counts, *words)
        return out + region

    def _references(self, at: dict[str, int]) -> bytes:
        if self.references:
            return self.references
        groups = range(len(self.groups))
        if self.flags & EXTERNAL_BLOOMS == EXTERNAL_BLOOMS:
            return b"".join(struct.pack("<QQ", *self.blooms.get(group, (0, 0))) for group in groups)
        if not self.flags & INLINED_BLOOMS:
            return b""
        moved = {group: at[f"bitset {group}"] + moved_bytes for group, (moved_bytes, _) in self.blooms.items()}
        return b"".join(struct.pack("<I", moved.get(group, 0) // WORD_BYTES) for group in groups)


def with_checksum(content: bytes) -> bytes:
    """Return the bytes of a `_pm` that ends with a generation, with the checksum that this has now."""
    # The checksum is the word before the last one, which has the footer's length.
    end = len(content) - WORD_BYTES
    return overwritten(content, end, struct.pack("<I", zlib.crc32(content[WORD_BYTES:end])))


def column_start(index: int) -> int:
    """Return where a column's descriptor begins; after the last one, where the sorting columns do."""
    return HEADER_BYTES + DESCRIPTOR_BYTES * index


def chunk_start(block: int, index: int) -> int:
    """Return where the record of a column chunk begins in a block."""
    return block + WORD_BYTES + struct.calcsize(CHUNK) * index


def _aligned(out: bytearray) -> int:
    """Return the length of what is made, after zeros up to the next word."""
    out += bytes(-len(out) % WORD_BYTES)
    return len(out)
