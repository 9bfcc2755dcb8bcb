"""All that can be decoded of one `_pm`: every generation of its chain and every block that any of them refers to.

Unlike a reader, this continues after each problem and keeps what decodes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from tornproof.cli.inspection.pm_scan import computed_checksums
from tornproof.cli.inspection.report import Problems, demand_at_most, problem_of
from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, Problem
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import Block, bitset_interval, decode_block, region_offset
from tornproof.impl.pm.chain import CHECKSUM_START, Metadata, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.footer import (
    GENERATION_END_MINIMUM,
    BloomReference,
    FooterPosition,
    Generation,
    decode_generation,
)
from tornproof.impl.pm.header import FileHeader, decode_header
from tornproof.impl.storage.interface import ReadableStorage

SIZE_FIELD = layout.Header.layout.field("parquet_meta_file_size")


@dataclass(slots=True, kw_only=True)
class MetadataFile:
    """One `_pm`, decoded as far as it goes.

    `content` is the whole file, `published_bytes` how much of it the header publishes (None: an impossible size), and
    `published` are those bytes, or all for an impossible size. `positions` are newest first; `generations` has None
    where a footer does not decode. `owners` has, for each block offset, the index of the oldest generation that refers
    to it, which wrote it. `bitset_sizes` are those of inlined bloom filters, by offset.
    """

    file: str
    content: bytes
    published_bytes: int | None = None
    published: bytes = b""
    fixed: layout.Header | None = None
    header: FileHeader | None = None
    positions: tuple[FooterPosition, ...] = ()
    checksums: dict[int, int] = field(default_factory=dict)
    generations: tuple[Generation | None, ...] = ()
    blocks: dict[int, Block] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    bitset_sizes: dict[int, int] = field(default_factory=dict)

    def index_of(self, token: int | None) -> int | None:
        """Return the index of the newest generation with this token, or without a token that of the newest."""
        if token is None:
            return 0 if self.positions else None
        return next((index for index, position in enumerate(self.positions) if position.token == token), None)


def read_metadata_file(storage: ReadableStorage, path: str, problems: Problems, *, file: str) -> MetadataFile:
    """Read and decode a `_pm`; raises StorageError, and UnsupportedError above 128 MiB."""
    with storage.open_for_reading(path) as handle:
        size_bytes = handle.size_bytes()
        demand_at_most(limits.PM_LIMIT_BYTES, size_bytes, file=file, field="size")
        # The published size first: a running writer appends only after it.
        head = handle.pread(SIZE_FIELD.end_bytes, 0)
        content = head + handle.pread(size_bytes, len(head))
    return decode_file(content, problems, file=file)


def decode_file(content: bytes, problems: Problems, *, file: str) -> MetadataFile:
    """Decode what can be decoded and note the problems of the rest."""
    found = MetadataFile(file=file, content=content)
    with problems.noted():
        found.fixed = layout.Header.unpack(content, 0, file=file)
    if found.fixed is None:
        return found
    with problems.noted():
        found.published_bytes = _published_bytes(found.fixed, len(content), file)
    data = found.published = content[: found.published_bytes]
    with problems.noted():
        found.header = decode_header(data, file=file)
    if found.published_bytes is not None:
        _decode_chain(found, problems)
    if found.header is not None and found.header.unknown_optional_flags and found.owners:
        with problems.noted():
            found.header = decode_header(data, file=file, first_block_offset=min(found.owners))
    return found


def _published_bytes(fixed: layout.Header, size_bytes: int, file: str) -> int:
    published = fixed.parquet_meta_file_size
    if not GENERATION_END_MINIMUM <= published <= size_bytes:
        raise CorruptError(
            file=file,
            field=SIZE_FIELD.format_name,
            offset_bytes=SIZE_FIELD.offset_bytes,
            expected=f"{GENERATION_END_MINIMUM} to {size_bytes}, the size of the file",
            actual=published,
        )
    return published


def _decode_chain(found: MetadataFile, problems: Problems) -> None:
    data = found.published
    positions: list[FooterPosition] = []
    try:
        positions.extend(walk(data, file=found.file))
    except CorruptError as error:
        problems.append(error.problem)
    found.positions = tuple(positions)
    found.checksums = computed_checksums(data, positions)
    problems += [
        _bad_checksum(found, position)
        for position in positions
        if found.checksums[position.end_bytes] != position.trailer.checksum
    ]
    if found.header is None:
        return
    generations: list[Generation | None] = []
    for position in positions:
        generations.append(None)
        with problems.noted():
            generations[-1] = decode_generation(data, position, found.header, file=found.file)
    found.generations = tuple(generations)
    for index, generation in enumerate(generations):
        if generation is not None:
            # Newest first, so the oldest one remains.
            found.owners.update(dict.fromkeys(generation.block_offsets, index))
    _decode_blocks(found, len(found.header.columns), problems)
    _measure_bitsets(found, problems)


def _bad_checksum(found: MetadataFile, position: FooterPosition) -> Problem:
    computed = found.checksums[position.end_bytes]
    expected = f"{computed:#010x}, the CRC-32 of bytes {CHECKSUM_START} to {position.checksum_offset}"
    return problem_of(found.file, "CHECKSUM", position.checksum_offset, expected, f"{position.trailer.checksum:#010x}")


def _decode_blocks(found: MetadataFile, column_count: int, problems: Problems) -> None:
    """Decode each block once; none may overlap the next one or the footer of the generation that wrote it."""
    starts = sorted(found.owners)
    for offset_bytes, following in zip(starts, [*starts[1:], len(found.published)], strict=False):
        footer = found.positions[found.owners[offset_bytes]].offset_bytes
        with problems.noted():
            found.blocks[offset_bytes] = decode_block(
                found.published, offset_bytes, column_count, limit_bytes=min(following, footer), file=found.file
            )


def _measure_bitsets(found: MetadataFile, problems: Problems) -> None:
    for generation in found.generations:
        for reference in inlined_blooms(generation):
            if generation is not None and reference.offset_bytes not in found.bitset_sizes:
                limit = generation.position.offset_bytes
                with problems.noted():
                    start, end = bitset_interval(
                        found.published, reference.offset_bytes, limit_bytes=limit, file=found.file
                    )
                    found.bitset_sizes[start] = end - start - layout.BloomBitset.layout.size_bytes


def inlined_blooms(generation: Generation | None) -> list[BloomReference]:
    """Return the references of a generation to bitsets in `_pm` itself."""
    rows = generation.blooms if generation else ()
    return [bloom for row in rows for bloom in row if bloom is not None and bloom.length_bytes is None]


def block_extents(found: MetadataFile) -> dict[int, tuple[int, int]]:
    """Return, by block offset, where the block's out-of-line region starts and ends, bloom bitsets included."""
    column_count = len(found.header.columns) if found.header else 0
    extents = {
        offset_bytes: (region_offset(offset_bytes, column_count), block.end_bytes)
        for offset_bytes, block in found.blocks.items()
    }
    starts = sorted(found.owners)
    for generation in found.generations:
        for reference in inlined_blooms(generation):
            owner = starts[bisect_right(starts, reference.offset_bytes) - 1] if starts else -1
            if owner in extents and reference.offset_bytes in found.bitset_sizes:
                region, end = extents[owner]
                size_bytes = layout.BloomBitset.layout.size_bytes + found.bitset_sizes[reference.offset_bytes]
                extents[owner] = region, max(end, reference.offset_bytes + size_bytes)
    return extents


def metadata_at(found: MetadataFile, index: int) -> Metadata | None:
    """Return a generation of the chain with its blocks, or None unless all of it is decoded."""
    if found.header is None or index >= len(found.generations):
        return None
    generation = found.generations[index]
    if generation is None or any(offset not in found.blocks for offset in generation.block_offsets):
        return None
    blocks = tuple(found.blocks[offset] for offset in generation.block_offsets)
    return Metadata(header=found.header, generation=generation, blocks=blocks)


def note_contradictions(found: MetadataFile, metadata: Metadata, problems: Problems) -> None:
    """Note contradictions within one generation."""
    with problems.noted():
        problems.extend(check_metadata(found.published, metadata, file=found.file))
