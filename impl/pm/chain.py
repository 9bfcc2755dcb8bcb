"""The chain of generations in `_pm`: walking it from the published end, and finding the generation of a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.block import Block, decode_block
from tornproof.impl.pm.footer import (
    GENERATION_END_MINIMUM,
    FooterPosition,
    Generation,
    check_flags,
    decode_block_offsets,
    decode_generation,
    locate_footer,
    same_but_history,
)
from tornproof.impl.pm.header import FileHeader, decode_header
from tornproof.impl.storage.checksum import large_crc32

CHECKSUM_START = layout.Header.layout.offset_of("feature_flags")


class TokenMissingError(CorruptError):
    """No generation of the published chain has the token; `tokens` are those of the chain, newest first."""

    tokens: tuple[int, ...] = ()


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The generation of a token, and the number of newer generations in the published chain."""

    position: FooterPosition
    orphan_count: int


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """One generation with everything that it refers to, decoded."""

    header: FileHeader
    generation: Generation
    blocks: tuple[Block, ...]

    @property
    def token(self) -> int:
        """The size of data.parquet that the generation describes."""
        return self.generation.position.token

    @property
    def row_count(self) -> int:
        """Rows of all row groups."""
        return sum(block.num_rows for block in self.blocks)


def walk(data: Buffer, *, file: str, end_bytes: int | None = None) -> Iterator[FooterPosition]:
    """Yield the footers from the one that ends at `end_bytes` (by default the end of `data`) to the oldest.

    `data` are the published bytes. Sizes strictly decrease, so the walk ends; tokens never increase.
    Raises CorruptError, and UnsupportedError beyond 65,536 generations (docs/format.md).
    """
    newer: FooterPosition | None = None
    header: FileHeader | None = None
    end: int = len(data) if end_bytes is None else end_bytes
    for _ in range(limits.GENERATION_COUNT_LIMIT):
        position = locate_footer(data, end, file=file)
        if newer is not None and position.token >= newer.token:
            header = header or decode_header(data, file=file)
            _check_restated(data, newer, position, header, file)
        yield position
        prev = position.fixed.prev_parquet_meta_file_size
        if prev == 0:
            return
        if not GENERATION_END_MINIMUM <= prev <= position.offset_bytes:
            raise layout.Footer.at(file, position.offset_bytes).corrupt(
                "prev_parquet_meta_file_size", f"0, or {GENERATION_END_MINIMUM} to {position.offset_bytes}", prev
            )
        newer, end = position, prev
    expected = f"a chain of at most {limits.GENERATION_COUNT_LIMIT} generations"
    raise UnsupportedError(file, "PREV_PARQUET_META_FILE_SIZE", None, expected, "more")


def find_token(data: Buffer, token: int, *, file: str) -> tuple[FooterPosition, int]:
    """Return the newest generation with this token, and the number of newer ones, without checking the CRC.

    Raises TokenMissingError if the chain has no such generation, CorruptError if it is broken before it.
    """
    tokens: list[int] = []
    for position in walk(data, file=file):
        if position.token == token:
            return position, len(tokens)
        tokens.append(position.token)
    error = TokenMissingError(
        file, "token", None, f"one of the chain's {len(tokens)}: {', '.join(map(str, tokens[:8]))}", token
    )
    error.tokens = tuple(tokens)
    raise error


def resolve(data: Buffer, token: int, *, file: str) -> Resolved:
    """Find the newest generation with this token and check its CRC; all newer ones are orphans.

    Raises TokenMissingError if the chain has no such generation, CorruptError if it is broken before it.
    """
    position, orphan_count = find_token(data, token, file=file)
    check_checksum(data, position, file=file)
    return Resolved(position=position, orphan_count=orphan_count)


def checksum_of(data: Buffer, position: FooterPosition) -> int:
    """Return the CRC-32 that the generation's CHECKSUM must hold (docs/format.md)."""
    return large_crc32(memoryview(data)[CHECKSUM_START : position.checksum_offset])


def check_checksum(data: Buffer, position: FooterPosition, *, file: str) -> None:
    """Raise CorruptError unless CHECKSUM is the CRC of the bytes before it."""
    computed = checksum_of(data, position)
    if computed != position.trailer.checksum:
        expected = f"{computed:#010x}, the CRC-32 of bytes {CHECKSUM_START} to {position.checksum_offset}"
        raise CorruptError(file, "CHECKSUM", position.checksum_offset, expected, f"{position.trailer.checksum:#010x}")


def decode_metadata(data: Buffer, position: FooterPosition, *, file: str) -> Metadata:
    """Decode the header, the footer at `position` and all its blocks.

    Raises CorruptError, also if blocks overlap; UnsupportedError for unknown required bits.
    """
    check_flags(position, file=file)
    return next(decode_chain(data, file=file, end_bytes=position.end_bytes))


def decode_chain(data: Buffer, *, file: str, end_bytes: int, decoded: Iterable[Block] = ()) -> Iterator[Metadata]:
    """Yield the generation that ends at `end_bytes` and all older ones, newest first.

    A block that several generations refer to, or that the caller has `decoded`, is decoded once, so the cost of a chain
    is proportional to its bytes. Footers with unknown required bits are decoded too; only reading by them is rejected.
    Raises CorruptError and UnsupportedError.
    """
    header: FileHeader | None = None
    known = {block.offset_bytes: block for block in decoded}
    for position in walk(data, file=file, end_bytes=end_bytes):
        if header is None:
            header = _decode_header(data, position, file)
        generation = decode_generation(data, position, header, file=file)
        blocks = []
        for offset_bytes, limit_bytes in zip(generation.block_offsets, _block_limits(generation), strict=True):
            block = known.get(offset_bytes)
            if block is None or block.end_bytes > limit_bytes:
                block = decode_block(data, offset_bytes, len(header.columns), limit_bytes=limit_bytes, file=file)
                known[offset_bytes] = block
            blocks.append(block)
        yield Metadata(header=header, generation=generation, blocks=tuple(blocks))


def _decode_header(data: Buffer, position: FooterPosition, file: str) -> FileHeader:
    header = decode_header(data, file=file)
    if not header.unknown_optional_flags:
        return header
    first = _first_block_offset(data, position, header, file)
    return decode_header(data, file=file, first_block_offset=first)


def _first_block_offset(data: Buffer, position: FooterPosition, header: FileHeader, file: str) -> int:
    """Return where the oldest generation starts, which is also where the header with all its sections ends."""
    for oldest in walk(data, file=file, end_bytes=position.end_bytes):
        position = oldest
    return min((*decode_block_offsets(data, position, header, file=file), position.offset_bytes))


def _block_limits(generation: Generation) -> list[int]:
    """Return the start of the next block for each block: they must not share bytes, so decoding all is one pass."""
    offsets, limit = generation.block_offsets, generation.position.offset_bytes
    limits = [limit] * len(offsets)
    for ordinal in sorted(range(len(offsets)), key=offsets.__getitem__, reverse=True):
        limits[ordinal] = limit
        limit = min(limit, offsets[ordinal])
    return limits


def _check_restated(data: Buffer, newer: FooterPosition, older: FooterPosition, header: FileHeader, file: str) -> None:
    # Only a footer that restates its predecessor may repeat a token; otherwise a token would be ambiguous.
    if same_but_history(data, newer, older, header, file=file):
        return
    expected = f"a token below {newer.token}, that of the next newer generation"
    raise CorruptError(file, "PARQUET_FOOTER_OFFSET", older.offset_bytes, expected, older.token)
