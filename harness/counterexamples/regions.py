"""What each byte of a table's files is called: a field of a layout, or a part of data.parquet."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.layout.record import Layout
from tornproof.impl.pm.block import region_offset
from tornproof.impl.pm.chain import decode_chain, walk
from tornproof.impl.pm.footer import FooterPlace
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import ENTRY_BYTES, RECORD_BYTES, SIZE_BYTES, area_of

PAGE = "page"
PAGE_HEADER = "page header"
THRIFT_FOOTER = "Thrift footer"
OUTSIDE = "outside of both areas"
PAST_PUBLISHED_END = "past the published end"
PAST_TOKEN = "past the token"
UNUSED = "unused below the token"
UNREACHED = frozenset({OUTSIDE, PAST_PUBLISHED_END, PAST_TOKEN, UNUSED})
"""Bytes that nothing refers to."""


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes [start, end) of a file and what they are."""

    start: int
    end: int
    label: str


class RegionMap:
    """Finds the label of a byte; of overlapping regions the one given first counts, the rest is `fallback`."""

    def __init__(self, regions: Iterable[Region], size_bytes: int, fallback: str) -> None:
        """Cut the file into pieces with one label each."""
        regions = list(regions)
        edges = sorted({0, *(min(edge, size_bytes) for region in regions for edge in (region.start, region.end))})
        self._starts = edges
        self._labels = [fallback] * len(edges)
        for region in reversed(regions):
            first, last = bisect.bisect_left(edges, region.start), bisect.bisect_left(edges, region.end)
            self._labels[first:last] = [region.label] * (last - first)

    def label(self, offset_bytes: int) -> str:
        """Return what the byte at `offset_bytes` is called."""
        return self._labels[bisect.bisect_right(self._starts, offset_bytes) - 1]


def txn_regions(content: bytes) -> RegionMap:
    """Name the bytes of a `_txn` that decodes."""
    base = txn_layout.BaseHeader.unpack(content, 0, file="_txn")
    live, other = area_of(base, base.version), area_of(base, base.version + 1)
    position = live.record_offset + RECORD_BYTES
    table_start = position + live.symbols_size + SIZE_BYTES
    regions = _fields(txn_layout.BaseHeader.layout, 0)
    regions += _fields(txn_layout.TransactionRecord.layout, live.record_offset)
    regions.append(Region(position, table_start - SIZE_BYTES, "symbol counts"))
    regions += _fields(txn_layout.PartitionTableSize.layout, table_start - SIZE_BYTES)
    for start in range(table_start, table_start + live.partitions_size, ENTRY_BYTES):
        regions += _fields(txn_layout.PartitionEntry.layout, start, prefix="partition ")
    if other.record_offset > 0 and min(other.symbols_size, other.partitions_size) >= 0:
        regions.append(Region(other.record_offset, other.record_offset + other.size_bytes, "the other area"))
    return RegionMap(regions, len(content), OUTSIDE)


def pm_regions(resolved: ResolvedPartition, file_size_bytes: int) -> RegionMap:
    """Name the bytes of a `_pm` by the chain of the committed generation."""
    content, metadata = resolved.published.content, resolved.metadata
    columns = len(metadata.header.columns)
    descriptor = pm_layout.ColumnDescriptor.layout
    regions = _fields(pm_layout.Header.layout, 0)
    for index in range(columns):
        start = pm_layout.Header.layout.size_bytes + index * descriptor.size_bytes
        regions += _fields(descriptor, start, prefix="column ")
    regions.append(Region(0, metadata.header.size_bytes, "names and header sections"))
    chunk_bytes = pm_layout.ColumnChunk.layout.size_bytes
    for block in metadata.blocks:
        regions += _fields(pm_layout.RowGroupHeader.layout, block.offset_bytes)
        for start in range(block.offset_bytes + 8, region_offset(block.offset_bytes, columns), chunk_bytes):
            regions += _fields(pm_layout.ColumnChunk.layout, start, prefix="chunk ")
        regions.append(Region(block.offset_bytes, block.end_bytes, "out-of-line statistics"))
    committed = resolved.resolved.place
    regions += _footer_regions(committed, "")
    label = resolved.files.pm_label
    for place in itertools.takewhile(lambda each: each.end_bytes > committed.end_bytes, walk(content, file=label)):
        checksum = place.checksum_offset
        regions.append(Region(place.offset_bytes, checksum, "orphan footer"))
        regions.append(Region(checksum, place.end_bytes, "orphan trailer"))
    for older in itertools.islice(decode_chain(content, file=label, end_bytes=committed.end_bytes), 1, None):
        regions += _footer_regions(older.generation.place, "older ")
        regions += [Region(block.offset_bytes, block.end_bytes, "older block") for block in older.blocks]
    regions.append(Region(0, committed.end_bytes, "padding and bloom bitsets"))
    regions.append(Region(committed.end_bytes, len(content), "orphan block"))
    return RegionMap(regions, file_size_bytes, PAST_PUBLISHED_END)


def data_regions(resolved: ResolvedPartition, content: bytes) -> RegionMap:
    """Name the bytes of a data.parquet at its token."""
    fixed, token = resolved.metadata.generation.place.fixed, resolved.partition.token
    tail = token - ParquetTail.layout.size_bytes
    regions = [Region(0, len(MAGIC), "leading magic")]
    for block in resolved.metadata.blocks:
        for chunk in block.chunks:
            chunk_content = content[chunk.byte_range_start : chunk.byte_range_end]
            pages = pages_of(chunk_content, chunk, file=resolved.files.data_label)
            regions += [Region(page.header_offset_bytes, page.body_offset_bytes, PAGE_HEADER) for page in pages]
            regions.append(Region(chunk.byte_range_start, chunk.byte_range_end, PAGE))
    regions.append(
        Region(fixed.parquet_footer_offset, fixed.parquet_footer_offset + fixed.parquet_footer_length, THRIFT_FOOTER)
    )
    regions += _fields(ParquetTail.layout, tail)
    regions.append(Region(0, token, UNUSED))
    return RegionMap(regions, len(content), PAST_TOKEN)


def _fields(layout: Layout, start: int, *, prefix: str = "") -> list[Region]:
    return [
        Region(start + spec.offset_bytes, start + spec.end_bytes, prefix + spec.format_name) for spec in layout.fields
    ]


def _footer_regions(place: FooterPlace, prefix: str) -> list[Region]:
    checksum = place.checksum_offset
    return [
        *_fields(pm_layout.Footer.layout, place.offset_bytes, prefix=prefix),
        Region(place.offset_bytes, checksum, f"{prefix}entries and sections"),
        *_fields(pm_layout.Trailer.layout, checksum, prefix=prefix),
    ]
