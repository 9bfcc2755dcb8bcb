"""One generation of `_pm`: its footer, located from its end, and its sections."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import ParquetTail
from tornproof.impl.layout.record import Buffer
from tornproof.impl.pm.header import FileHeader

TRAILER_BYTES = layout.Trailer.layout.size_bytes
FOOTER_BYTES = layout.Footer.layout.size_bytes
ENTRY_BYTES = layout.RowGroupEntry.layout.size_bytes
CHECKSUM_BYTES = 4
FOOTER_LENGTH_BYTES = TRAILER_BYTES - CHECKSUM_BYTES
GENERATION_END_MINIMUM = layout.Header.layout.size_bytes + FOOTER_BYTES + TRAILER_BYTES


class FooterPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed part of a footer and its position; enough to walk the chain.

    `end_bytes` is the generation's published size.
    """

    end_bytes: int
    offset_bytes: int
    fixed: layout.Footer
    trailer: layout.Trailer

    @property
    def token(self) -> int:
        """The size of data.parquet that the generation describes."""
        return self.fixed.parquet_footer_offset + self.fixed.parquet_footer_length + ParquetTail.layout.size_bytes

    @property
    def checksum_offset(self) -> int:
        """The position of CHECKSUM; the CRC covers the bytes from 8 up to here."""
        return self.end_bytes - TRAILER_BYTES


class BloomReference(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a bloom filter, in `_pm` (`length_bytes` is None, the bitset has it) or in data.parquet."""

    offset_bytes: int
    length_bytes: int | None


class FooterSections(msgspec.Struct, frozen=True, kw_only=True):
    """A footer's optional sections; `unknown` are the bytes of unknown optional bits, unchanged."""

    seq_txn: int | None = None
    scratchpad: tuple[tuple[int, bytes], ...] | None = None
    unknown: bytes = b""


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One decoded footer: block offsets in bytes, and per row group a bloom reference for each bloom column."""

    position: FooterPosition
    block_offsets: tuple[int, ...]
    blooms: tuple[tuple[BloomReference | None, ...], ...]
    sections: FooterSections


def locate_footer(data: Buffer, end_bytes: int, *, file: str) -> FooterPosition:
    """Find the footer of the generation that ends at `end_bytes`; raises CorruptError if there can be none.

    The trailer's last word says how far back the footer starts (docs/format.md).
    """
    if not GENERATION_END_MINIMUM <= end_bytes <= len(data):
        expected = f"a generation's end, {GENERATION_END_MINIMUM} to {len(data)}"
        raise layout.Header.at(file, 0).corrupt("parquet_meta_file_size", expected, end_bytes)
    trailer = layout.Trailer.unpack(data, end_bytes - TRAILER_BYTES, file=file)
    offset_bytes = end_bytes - FOOTER_LENGTH_BYTES - trailer.footer_length
    longest = end_bytes - FOOTER_LENGTH_BYTES - layout.Header.layout.size_bytes
    if not FOOTER_BYTES + CHECKSUM_BYTES <= trailer.footer_length <= longest:
        expected = f"{FOOTER_BYTES + CHECKSUM_BYTES} to {longest} for the generation that ends at byte {end_bytes}"
        at = layout.Trailer.at(file, end_bytes - TRAILER_BYTES)
        raise at.corrupt("footer_length", expected, trailer.footer_length)
    return FooterPosition(
        end_bytes=end_bytes,
        offset_bytes=offset_bytes,
        fixed=layout.Footer.unpack(data, offset_bytes, file=file),
        trailer=trailer,
    )


def decode_generation(data: Buffer, location: FooterPosition, header: FileHeader, *, file: str) -> Generation:
    """Decode the entries and sections of a footer; every count is checked against FOOTER_LENGTH first.

    Raises CorruptError, but not for unknown required bits: `check_flags` rejects reading by such a generation.
    """
    block_offsets = decode_block_offsets(data, location, header, file=file)
    blooms, position = _decode_blooms(data, location, header)
    sections = FooterSections()
    # The section of an unknown header bit would come before those of the footer's own bits.
    if not header.unknown_optional_flags:
        sections, position = _decode_sections(data, position, location, file)
    if position < location.checksum_offset:
        if not _has_unknown_bits(location, header):
            expected = f"{position + CHECKSUM_BYTES - location.offset_bytes}, all that the flags announce"
            at = layout.Trailer.at(file, location.checksum_offset)
            raise at.corrupt("footer_length", expected, location.trailer.footer_length)
        unknown = bytes(data[position : location.checksum_offset])
        sections = replace(sections, unknown=unknown)
    return Generation(position=location, block_offsets=block_offsets, blooms=blooms, sections=sections)


def decode_block_offsets(data: Buffer, location: FooterPosition, header: FileHeader, *, file: str) -> tuple[int, ...]:
    """Return the block offsets in the footer's entries, without checking its flags.

    Raises CorruptError if entries and bloom references do not fit into the footer.
    """
    _entries_end(location, header, file)
    return tuple(block_offsets_at(data, location).tolist())


def block_offsets_at(data: Buffer, location: FooterPosition) -> npt.NDArray[np.int64]:
    """Return the block offsets of a footer's entries, which are known to be within `data`."""
    entries = np.frombuffer(data, "<u4", location.fixed.row_group_count, location.offset_bytes + FOOTER_BYTES)
    return entries.astype(np.int64) << layout.BLOCK_OFFSET_SHIFT


def encode_footer(generation: Generation, header: FileHeader) -> bytes:
    """Encode a footer without its checksum and length."""
    # Every footer repeats all row groups, so entries of old ones must be cheap.
    entries = np.array(generation.block_offsets, np.uint64) >> np.uint64(layout.BLOCK_OFFSET_SHIFT)
    assert not entries.size or entries.max() <= np.iinfo(np.uint32).max, (
        "a block beyond what a row group entry can name"
    )
    parts = [
        generation.position.fixed.pack(),
        entries.astype(layout.RowGroupEntry.layout.dtype["block_offset"]).tobytes(),
    ]
    for row in generation.blooms:
        parts += [_encode_reference(reference, external=header.blooms_external) for reference in row]
    sections = generation.sections
    if sections.seq_txn is not None:
        parts.append(layout.SequencerTransaction(seq_txn=sections.seq_txn).pack())
    if sections.scratchpad is not None:
        parts.append(layout.Scratchpad(entry_count=len(sections.scratchpad)).pack())
        for code, content in sections.scratchpad:
            parts += [layout.ScratchpadEntry(code=code, length=len(content)).pack(), content]
    return b"".join([*parts, sections.unknown])


def bloom_reference_offset(location: FooterPosition, header: FileHeader, ordinal: int, position: int) -> int:
    """Return the offset of the bloom reference of a row group and of the bloom column at `position`."""
    matrix = location.offset_bytes + FOOTER_BYTES + location.fixed.row_group_count * ENTRY_BYTES
    return matrix + (ordinal * len(header.bloom_columns) + position) * _reference_layout_bytes(header)


def same_but_history(
    data: Buffer, left: FooterPosition, right: FooterPosition, header: FileHeader, *, file: str
) -> bool:
    """Whether two footers differ only in `prev`, flags and their sections (docs/recover.md).

    Raises CorruptError if entries and bloom references do not fit into one of the footers.
    """

    def essence(location: FooterPosition) -> tuple[layout.Footer, bytes]:
        entries = bytes(data[location.offset_bytes + FOOTER_BYTES : _entries_end(location, header, file)])
        return location.fixed.changed(prev_parquet_meta_file_size=0, footer_feature_flags=0), entries

    return essence(left) == essence(right)


def check_flags(location: FooterPosition, *, file: str) -> None:
    """Raise UnsupportedError for a required bit that this reader does not know."""
    # COVERING_INDEX_REQUIRED has a name here, but this reader does not support it, so it counts as unknown.
    required = location.fixed.footer_feature_flags & layout.REQUIRED_FEATURES.mask
    if required:
        covering = layout.COVERING_INDEX_REQUIRED.get(required)
        expected = "no required feature bit that this reader does not know"
        actual = f"{required:#x}" + (" (COVERING_INDEX)" if covering else "")
        raise layout.Footer.at(file, location.offset_bytes).unsupported("footer_feature_flags", expected, actual)


def _has_unknown_bits(location: FooterPosition, header: FileHeader) -> bool:
    parsed = layout.SEQ_TXN.mask | layout.SCRATCHPAD.mask
    return bool(location.fixed.footer_feature_flags & ~parsed or header.unknown_optional_flags)


def _entries_end(location: FooterPosition, header: FileHeader, file: str) -> int:
    """Return where the row group entries and bloom references end, which must be inside the footer."""
    start = location.offset_bytes + FOOTER_BYTES
    row_bytes = ENTRY_BYTES + _reference_layout_bytes(header) * len(header.bloom_columns)
    end = start + location.fixed.row_group_count * row_bytes
    at = partial(layout.Footer.at, file, location.offset_bytes)
    if end > location.checksum_offset:
        expected = f"entries that fit into the footer's {location.checksum_offset - start} bytes"
        raise at().corrupt("row_group_count", expected, location.fixed.row_group_count)
    chunk_count = location.fixed.row_group_count * max(1, len(header.columns))
    if location.fixed.row_group_count > limits.ROW_GROUP_COUNT_LIMIT or chunk_count > limits.CHUNK_COUNT_LIMIT:
        expected = f"at most {limits.ROW_GROUP_COUNT_LIMIT} row groups and {limits.CHUNK_COUNT_LIMIT} column chunks"
        actual = f"{location.fixed.row_group_count} row groups of {len(header.columns)} columns"
        raise at().unsupported("row_group_count", expected, actual)
    return end


def _reference_layout_bytes(header: FileHeader) -> int:
    kind = layout.ExternalBloomReference if header.blooms_external else layout.InlineBloomReference
    return kind.layout.size_bytes


def _decode_blooms(
    data: Buffer, location: FooterPosition, header: FileHeader
) -> tuple[tuple[tuple[BloomReference | None, ...], ...], int]:
    row_group_count, width = location.fixed.row_group_count, len(header.bloom_columns)
    position = bloom_reference_offset(location, header, 0, 0)
    if not width:
        return ((),) * row_group_count, position
    count = row_group_count * width
    references: list[BloomReference | None]
    if header.blooms_external:
        external = np.frombuffer(data, layout.ExternalBloomReference.layout.dtype, count, position)
        references = [
            BloomReference(offset_bytes=offset, length_bytes=length) if offset or length else None
            for offset, length in external.tolist()
        ]
    else:
        inlined = np.frombuffer(data, layout.InlineBloomReference.layout.dtype, count, position)
        references = [
            BloomReference(offset_bytes=offset << layout.BLOCK_OFFSET_SHIFT, length_bytes=None) if offset else None
            for (offset,) in inlined.tolist()
        ]
    rows = tuple(tuple(references[start : start + width]) for start in range(0, count, width))
    return rows, position + count * _reference_layout_bytes(header)


def _encode_reference(reference: BloomReference | None, *, external: bool) -> bytes:
    offset_bytes = reference.offset_bytes if reference else 0
    if external:
        length = (reference.length_bytes or 0) if reference else 0
        return layout.ExternalBloomReference(bitset_offset=offset_bytes, bitset_length=length).pack()
    return layout.InlineBloomReference(bitset_offset=offset_bytes >> layout.BLOCK_OFFSET_SHIFT).pack()


def _decode_sections(data: Buffer, position: int, location: FooterPosition, file: str) -> tuple[FooterSections, int]:
    flags, limit = location.fixed.footer_feature_flags, location.checksum_offset
    window = memoryview(data)[:limit]
    seq_txn, scratchpad = None, None
    if layout.SEQ_TXN.get(flags):
        seq_txn = layout.SequencerTransaction.unpack(window, position, file=file).seq_txn
        position += layout.SequencerTransaction.layout.size_bytes
    if layout.SCRATCHPAD.get(flags):
        scratchpad, position = _decode_scratchpad(window, position, file)
    return FooterSections(seq_txn=seq_txn, scratchpad=scratchpad), position


def _decode_scratchpad(window: memoryview, position: int, file: str) -> tuple[tuple[tuple[int, bytes], ...], int]:
    entry_bytes = layout.ScratchpadEntry.layout.size_bytes
    count = layout.Scratchpad.unpack(window, position, file=file).entry_count
    position += layout.Scratchpad.layout.size_bytes
    room = (len(window) - position) // entry_bytes
    if not 0 < count <= room:
        start = position - layout.Scratchpad.layout.size_bytes
        raise CorruptError(file, "SCRATCHPAD", start, f"1 to {room} entries", count)
    entries = []
    for _ in range(count):
        entry = layout.ScratchpadEntry.unpack(window, position, file=file)
        start = position + entry_bytes
        if entry.length > len(window) - start:
            expected = f"an entry of at most {len(window) - start} bytes"
            raise CorruptError(file, "SCRATCHPAD", position, expected, entry.length)
        position = start + entry.length
        entries.append((entry.code, bytes(window[start:position])))
    return tuple(entries), position
