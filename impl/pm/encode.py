"""Encoding `_pm`: a whole new file, or one more generation at a cost independent of the file's size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.block import Block, Chunk, OutOfLineOrder, encode_block
from tornproof.impl.pm.chain import CHECKSUM_START
from tornproof.impl.pm.footer import (
    CHECKSUM_BYTES,
    BloomReference,
    FooterPosition,
    FooterSections,
    Generation,
    encode_footer,
)
from tornproof.impl.pm.header import FileHeader, encode_header
from tornproof.impl.storage.checksum import crc32


class NewRowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A row group to be written; for each bloom column a bitset to inline, a reference into data.parquet, or None."""

    num_rows: int
    chunks: tuple[Chunk, ...]
    blooms: tuple[bytes | BloomReference | None, ...] = ()
    order: OutOfLineOrder = OutOfLineOrder.STATISTICS_FIRST


class ReusedRowGroup(NamedTuple):
    """A row group whose block is in an earlier generation; a tuple for speed, because every footer repeats them all."""

    block_offset: int
    blooms: tuple[BloomReference | None, ...] = ()


class FooterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A generation's statements about data.parquet, and its own optional sections."""

    parquet_footer_offset: int
    parquet_footer_length: int
    unused_bytes: int = 0
    footer_feature_flags: int = 0
    sections: FooterSections = msgspec.field(default_factory=FooterSections)

    @classmethod
    def of(cls, generation: Generation) -> Self:
        """Return the facts of a generation, for one that restates it."""
        fixed = generation.position.fixed
        return cls(
            parquet_footer_offset=fixed.parquet_footer_offset,
            parquet_footer_length=fixed.parquet_footer_length,
            unused_bytes=fixed.unused_bytes,
            footer_feature_flags=fixed.footer_feature_flags,
            sections=generation.sections,
        )


class AppendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the next generation is appended: `base_bytes` is the published end, `prev` the end of its predecessor.

    `checksum` is a stored CHECKSUM at or before `base_bytes`, `since_checksum` the bytes from that field to
    `base_bytes`: the CRC is continued from there, so that old bytes are neither read again nor certified anew.
    """

    base_bytes: int
    prev: int
    checksum: int
    since_checksum: bytes


class AppendedGeneration(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a generation and its decoded form; `new_blocks` are those of the new row groups."""

    content: bytes
    generation: Generation
    new_blocks: tuple[Block, ...]

    @property
    def next_point(self) -> AppendPoint:
        """The append point after this generation."""
        position = self.generation.position
        return AppendPoint(
            base_bytes=position.end_bytes,
            prev=position.end_bytes,
            checksum=position.trailer.checksum,
            since_checksum=position.trailer.pack(),
        )


def append_point(data: Buffer, anchor: FooterPosition, *, base_bytes: int) -> AppendPoint:
    """Return the append point at `base_bytes` for a generation whose predecessor is `anchor` (docs/format.md)."""
    return AppendPoint(
        base_bytes=base_bytes,
        prev=anchor.end_bytes,
        checksum=anchor.trailer.checksum,
        since_checksum=bytes(data[anchor.checksum_offset : base_bytes]),
    )


def encode_file(header: FileHeader, row_groups: Sequence[NewRowGroup], facts: FooterFacts) -> bytes:
    """Encode a whole `_pm` with one published generation, as a conversion or a rewrite writes it."""
    head, point = start_file(header)
    content = head + append_generation(header, point, row_groups, facts)
    return patch_header(len(content)) + content[CHECKSUM_START:]


def start_file(header: FileHeader) -> tuple[bytes, AppendPoint]:
    """Return the encoded header, which publishes nothing yet, and the append point of the first generation."""
    head = encode_header(header, parquet_meta_file_size=0)
    return head, AppendPoint(base_bytes=len(head), prev=0, checksum=0, since_checksum=head[CHECKSUM_START:])


def append_generation(
    header: FileHeader,
    point: AppendPoint,
    row_groups: Sequence[NewRowGroup | ReusedRowGroup],
    facts: FooterFacts,
) -> bytes:
    """Return the bytes that follow `point.base_bytes`: new blocks, footer, checksum and length."""
    return lay_out_generation(header, point, row_groups, facts).content


def lay_out_generation(
    header: FileHeader,
    point: AppendPoint,
    row_groups: Sequence[NewRowGroup | ReusedRowGroup],
    facts: FooterFacts,
) -> AppendedGeneration:
    """Encode the bytes that follow `point.base_bytes`, with the positions of everything in them."""
    appended = bytearray()
    offsets: list[int] = []
    blooms: list[tuple[BloomReference | None, ...]] = []
    new_blocks: list[Block] = []
    for row_group in row_groups:
        if isinstance(row_group, ReusedRowGroup):
            offsets.append(row_group.block_offset)
            blooms.append(row_group.blooms)
            continue
        appended.extend(bytes(-(point.base_bytes + len(appended)) % layout.BLOCK_ALIGNMENT_BYTES))
        offset_bytes = point.base_bytes + len(appended)
        block, references = _place(header, row_group, offset_bytes)
        appended.extend(block)
        end_bytes = point.base_bytes + len(appended)
        new_blocks.append(
            Block(offset_bytes=offset_bytes, end_bytes=end_bytes, num_rows=row_group.num_rows, chunks=row_group.chunks)
        )
        offsets.append(offset_bytes)
        blooms.append(references)
    footer_offset = point.base_bytes + len(appended)
    generation = Generation(
        position=_footer_position(footer_offset, len(row_groups), point.prev, facts),
        block_offsets=tuple(offsets),
        blooms=tuple(blooms),
        sections=facts.sections,
    )
    footer = encode_footer(generation, header)
    appended.extend(footer)
    trailer = layout.Trailer(
        checksum=crc32(appended, crc32(point.since_checksum, point.checksum)),
        footer_length=len(footer) + CHECKSUM_BYTES,
    )
    appended.extend(trailer.pack())
    position = replace(generation.position, end_bytes=point.base_bytes + len(appended), trailer=trailer)
    return AppendedGeneration(
        content=bytes(appended), generation=replace(generation, position=position), new_blocks=tuple(new_blocks)
    )


def patch_header(parquet_meta_file_size: int) -> bytes:
    """Return the 8 bytes that, stored at offset 0, publish the generation that ends there."""
    field = layout.Header.layout.field("parquet_meta_file_size")
    return parquet_meta_file_size.to_bytes(field.wire.size_bytes, "little")


def _place(
    header: FileHeader, row_group: NewRowGroup, offset_bytes: int
) -> tuple[bytes, tuple[BloomReference | None, ...]]:
    blooms = row_group.blooms or (None,) * len(header.bloom_columns)
    by_column = dict(zip(header.bloom_columns, blooms, strict=True))
    bitsets = {column: bloom for column, bloom in by_column.items() if isinstance(bloom, bytes)}
    block, bitset_offsets = encode_block(row_group.num_rows, row_group.chunks, bitsets, row_group.order)
    references = tuple(
        BloomReference(offset_bytes=offset_bytes + bitset_offsets[column], length_bytes=None)
        if isinstance(bloom, bytes)
        else bloom
        for column, bloom in by_column.items()
    )
    return block, references


def _footer_position(footer_offset: int, row_group_count: int, prev: int, facts: FooterFacts) -> FooterPosition:
    # The trailer is unknown until the footer is encoded, and encode_footer does not use it.
    return FooterPosition(
        end_bytes=footer_offset,
        offset_bytes=footer_offset,
        fixed=layout.Footer(
            parquet_footer_offset=facts.parquet_footer_offset,
            parquet_footer_length=facts.parquet_footer_length,
            row_group_count=row_group_count,
            unused_bytes=facts.unused_bytes,
            prev_parquet_meta_file_size=prev,
            footer_feature_flags=facts.footer_feature_flags,
        ),
        trailer=layout.Trailer(checksum=0, footer_length=0),
    )
