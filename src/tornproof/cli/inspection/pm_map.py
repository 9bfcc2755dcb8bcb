"""The byte map of `_pm`: the purpose of every range, and which ranges nothing refers to."""

from __future__ import annotations

from tornproof.cli.inspection.byte_map import Range, gaps_between, ordered
from tornproof.cli.inspection.pm_chain import MetadataFile, block_extents
from tornproof.cli.inspection.pm_scan import whole_generations
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.footer import FooterPosition
from tornproof.impl.pm.header import U32_BYTES, FileHeader

HEADER_BYTES = layout.Header.layout.size_bytes
PADDING_LIMIT_BYTES = layout.BLOCK_ALIGNMENT_BYTES - 1
DEAD, PADDING, UNEXPLAINED = "dead", "padding", "not explained"


def byte_map(found: MetadataFile) -> list[Range]:
    """Return ranges that cover the whole file in order; they overlap only where references do."""
    ranges = _header_ranges(found)
    ranges += _block_ranges(found)
    for index, position in enumerate(found.positions):
        ranges += [
            Range(position.offset_bytes, position.checksum_offset, "footer", generation=index),
            Range(position.checksum_offset, position.end_bytes, "trailer", generation=index),
        ]
    return _with_gaps(found, [entry for entry in ranges if entry.start_bytes < entry.end_bytes])


def _header_ranges(found: MetadataFile) -> list[Range]:
    if found.fixed is None:
        return []
    ends: list[tuple[int, str]] = [(HEADER_BYTES, "header")]
    header = found.header
    if header is not None:
        descriptors_end = HEADER_BYTES + len(header.columns) * layout.ColumnDescriptor.layout.size_bytes
        sorting_end = descriptors_end + len(header.sorting_columns) * U32_BYTES
        ends += [(descriptors_end, "column descriptors"), (sorting_end, "sorting columns")]
        ends += _section_ends(header)
    starts = [0, *(end for end, _ in ends)]
    return [Range(start, end, what) for start, (end, what) in zip(starts, ends, strict=False)]


def _section_ends(header: FileHeader) -> list[tuple[int, str]]:
    """Return the ends of what follows the sorting columns; the sections are contiguous up to the header's end."""
    squash_start = header.size_bytes - len(header.extra)
    bloom_start = bloom_end = squash_start
    if header.squash_tracker is not None:
        bloom_start = bloom_end = squash_start - layout.SquashTracker.layout.size_bytes
    if header.bloom_columns:
        bloom_start -= layout.BloomColumns.layout.size_bytes + len(header.bloom_columns) * U32_BYTES
    return [
        (bloom_start, "names"),
        (bloom_end, "bloom columns"),
        (squash_start, "squash tracker"),
        (header.size_bytes, "unknown header sections"),
    ]


def _block_ranges(found: MetadataFile) -> list[Range]:
    ranges = []
    ordinals = {
        (index, offset_bytes): ordinal
        for index, generation in enumerate(found.generations)
        if generation is not None
        for ordinal, offset_bytes in enumerate(generation.block_offsets)
    }
    for offset_bytes, (region, end) in block_extents(found).items():
        owner = found.owners[offset_bytes]
        ordinal = ordinals[owner, offset_bytes]
        ranges += [
            Range(offset_bytes, region, "block", generation=owner, row_group=ordinal),
            Range(region, end, "out-of-line region", generation=owner, row_group=ordinal),
        ]
    return ranges


def _with_gaps(found: MetadataFile, ranges: list[Range]) -> list[Range]:
    gaps = list(gaps_between(ranges, len(found.content)))
    unreached = [gap for gap in gaps if not _is_padding(found, *gap)]
    orphans = whole_generations(found.content, file=found.file) if unreached else []
    return ordered([*ranges, *(part for gap in gaps for part in _gap_ranges(found, *gap, orphans))])


def _gap_ranges(found: MetadataFile, start: int, end: int, orphans: list[FooterPosition]) -> list[Range]:
    """Return the parts of a gap, split after each complete generation in it."""
    ranges = []
    for orphan in orphans:
        if start <= orphan.offset_bytes and orphan.end_bytes <= end:
            ranges.append(Range(start, orphan.end_bytes, _unreached(found), token=orphan.token))
            start = orphan.end_bytes
    if start < end:
        what = PADDING if _is_padding(found, start, end) else _unreached(found)
        ranges.append(Range(start, end, what))
    return ranges


def _unreached(found: MetadataFile) -> str:
    is_whole = bool(found.generations) and found.positions[-1].fixed.prev_parquet_meta_file_size == 0
    is_decoded = None not in found.generations and len(found.blocks) == len(found.owners)
    return DEAD if is_whole and is_decoded else UNEXPLAINED


def _is_padding(found: MetadataFile, start: int, end: int) -> bool:
    """Return whether a gap only aligns what follows; at the end of the file nothing follows."""
    return end - start <= PADDING_LIMIT_BYTES and end < len(found.content) and not any(found.content[start:end])
