"""Whether our encoder gives exactly the bytes of a `_pm`: every generation is decoded and encoded again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tornproof.impl.pm.block import OutOfLineOrder, decode_bitset
from tornproof.impl.pm.chain import CHECKSUM_START, Metadata, decode_chain, walk
from tornproof.impl.pm.encode import (
    FooterFacts,
    NewRowGroup,
    ReusedRowGroup,
    append_generation,
    append_point,
    encode_file,
    patch_header,
)
from tornproof.impl.pm.extent import find_generation
from tornproof.impl.pm.footer import FooterPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A generation that is encoded to other bytes: its end, and the offset of the first byte that differs."""

    generation_end_bytes: int
    offset_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """The number of generations that were encoded again, and those with other bytes, newest first."""

    generation_count: int
    mismatches: tuple[Mismatch, ...]


def reencode_generations(data: bytes, *, file: str) -> RoundTrip:
    """Decode and encode again every generation in the chain of `data`, the published bytes of a `_pm`.

    The checksum is encoded too, so damage is a mismatch of the generation that it is in. Raises CorruptError and
    UnsupportedError where a generation cannot be decoded (docs/format.md).
    """
    generations = list(decode_chain(data, file=file, end_bytes=len(data)))
    mismatches = []
    published = _first_difference(patch_header(len(data)), data[:CHECKSUM_START])
    if published is not None:
        mismatches.append(Mismatch(generation_end_bytes=len(data), offset_bytes=published))
    for metadata, older in itertools.zip_longest(generations, generations[1:]):
        end_bytes = metadata.generation.position.end_bytes
        start, encoded = _encode(data, metadata, older.generation.position if older else None, file)
        difference = _first_difference(encoded, data[start:end_bytes])
        if difference is not None:
            mismatches.append(Mismatch(generation_end_bytes=end_bytes, offset_bytes=start + difference))
    return RoundTrip(generation_count=len(generations), mismatches=tuple(mismatches))


def failed_controls(data: bytes, *, file: str) -> list[str]:
    """Falsify the checksum of each generation in turn, and return in words those in which no difference is found.

    An encoding that ends too early or too late must differ, too.
    """
    sizes = (len(data) - 1, len(data)), (len(data), len(data) - 1)
    ends_differ = all(_first_difference(data[:size], data[:other]) == len(data) - 1 for size, other in sizes)
    failures = [] if ends_differ else [f"{file}: an encoding that ends too early or too late is no other"]
    for position in walk(data, file=file):
        at = position.checksum_offset
        falsified = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        ends = [each.generation_end_bytes for each in reencode_generations(falsified, file=file).mismatches]
        if ends != [position.end_bytes]:
            failures.append(
                f"{file}: a wrong checksum of the generation that ends at byte {position.end_bytes} gave {ends}"
            )
    return failures


def _encode(data: bytes, metadata: Metadata, older: FooterPosition | None, file: str) -> tuple[int, bytes]:
    """Return the offset of a generation and its bytes as our writer encodes them, without the size in the header."""
    generation = metadata.generation
    facts = FooterFacts.of(generation)
    if older is None:
        new = [_new_row_group(data, metadata, ordinal, file) for ordinal in range(len(metadata.blocks))]
        return CHECKSUM_START, encode_file(metadata.header, new, facts)[CHECKSUM_START:]
    base_bytes = _append_base(data, metadata, older, file)
    row_groups = [
        ReusedRowGroup(block_offset=block.offset_bytes, blooms=blooms)
        if block.offset_bytes < base_bytes
        else _new_row_group(data, metadata, ordinal, file)
        for ordinal, (block, blooms) in enumerate(zip(metadata.blocks, generation.blooms, strict=True))
    ]
    point = append_point(data, older, base_bytes=base_bytes)
    return base_bytes, append_generation(metadata.header, point, row_groups, facts)


def _append_base(data: bytes, metadata: Metadata, older: FooterPosition, file: str) -> int:
    """Return where the generation's own bytes start: after the older one, or after the orphans between them."""
    generation = metadata.generation
    own = (offset for offset in generation.block_offsets if offset >= older.end_bytes)
    orphan = find_generation(data, older.end_bytes, min(own, default=generation.position.offset_bytes), file=file)
    return orphan.end_bytes if orphan else older.end_bytes


def _new_row_group(data: bytes, metadata: Metadata, ordinal: int, file: str) -> NewRowGroup:
    block, references = metadata.blocks[ordinal], metadata.generation.blooms[ordinal]
    limit_bytes = metadata.generation.position.offset_bytes
    placed = [bloom.offset_bytes for bloom in references if bloom and bloom.length_bytes is None]
    by_column = any(offset_bytes < block.end_bytes for offset_bytes in placed)
    return NewRowGroup(
        num_rows=block.num_rows,
        chunks=block.chunks,
        blooms=tuple(
            decode_bitset(data, bloom.offset_bytes, limit_bytes=limit_bytes, file=file)
            if bloom and bloom.length_bytes is None
            else bloom
            for bloom in references
        ),
        order=OutOfLineOrder.BY_COLUMN if by_column else OutOfLineOrder.STATISTICS_FIRST,
    )


def _first_difference(left: bytes, right: bytes) -> int | None:
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    return next((offset for offset, (one, other) in pairs if one != other), min(len(left), len(right)))
