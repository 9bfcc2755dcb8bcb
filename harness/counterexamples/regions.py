"""Names the bytes of a table's files: a field of a layout, a column chunk, a part of data.parquet."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from tornproof.harness.common.system import TARGET_ERRORS, Target
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, ParquetTail
from tornproof.impl.layout.record import Layout
from tornproof.impl.pm.block import region_offset
from tornproof.impl.pm.chain import Metadata, decode_chain, walk
from tornproof.impl.pm.footer import FooterPosition, locate_footer
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, ResolvedPartition, read_published, resolve_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import ENTRY_BYTES, RECORD_BYTES, SIZE_BYTES, TXN_FILE, Partition, area_of

PAGE = "page"
PAGE_HEADER = "page header"
THRIFT_FOOTER = "Thrift footer"
OUTSIDE = "outside of both areas"
PAST_PUBLISHED_END = "past the published end"
PAST_TOKEN = "past the token"
UNUSED = "unused below the token"
UNREACHED = frozenset({OUTSIDE, PAST_PUBLISHED_END, PAST_TOKEN, UNUSED})
"""Bytes that nothing refers to."""
LEADING_MAGIC, FOOTER, FOOTER_LENGTH, TRAILING_MAGIC = "magic", "footer (Thrift)", "footer length", "magic at the end"
OF_NEWEST = "newest generation: "
"""Begins the labels of bytes that only the newest published generation refers to."""
UNNAMED = Partition(
    timestamp=0, row_count=0, name_txn=-1, token=0, flags=0, entry_offset_bytes=0, row_count_offset_bytes=0
)
"""The entry that is assumed for a directory that `_txn` does not name."""


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes [start, end) of a file and what they are."""

    start: int
    end: int
    label: str


class RegionMap:
    """Finds the label of a byte: the first given region that holds it names it, else `fallback`."""

    def __init__(self, regions: Iterable[Region], size_bytes: int, fallback: str) -> None:
        """Split the file into pieces with one label each."""
        regions = list(regions)
        edges = sorted({0, *(min(edge, size_bytes) for region in regions for edge in (region.start, region.end))})
        self._starts = edges
        self._labels = [fallback] * len(edges)
        for region in reversed(regions):
            first, last = bisect.bisect_left(edges, region.start), bisect.bisect_left(edges, region.end)
            self._labels[first:last] = [region.label] * (last - first)

    def label(self, offset_bytes: int) -> str:
        """Return the label of the byte at `offset_bytes`."""
        return self._labels[bisect.bisect_right(self._starts, offset_bytes) - 1]


def txn_regions(content: bytes) -> RegionMap:
    """Name the bytes of a `_txn` that decodes."""
    base = txn_layout.BaseHeader.unpack(content, 0, file="_txn")
    live, other = area_of(base, base.version), area_of(base, base.version + 1)
    symbols_start = live.record_offset + RECORD_BYTES
    table_start = symbols_start + live.symbols_size + SIZE_BYTES
    regions = _fields(txn_layout.BaseHeader.layout, 0)
    regions += _fields(txn_layout.TransactionRecord.layout, live.record_offset)
    regions.append(Region(symbols_start, table_start - SIZE_BYTES, "symbol counts"))
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
    committed = resolved.resolved.position
    regions += _footer_regions(committed, "")
    label = resolved.files.pm_label
    for location in itertools.takewhile(lambda each: each.end_bytes > committed.end_bytes, walk(content, file=label)):
        checksum = location.checksum_offset
        regions.append(Region(location.offset_bytes, checksum, "orphan footer"))
        regions.append(Region(checksum, location.end_bytes, "orphan trailer"))
    for older in itertools.islice(decode_chain(content, file=label, end_bytes=committed.end_bytes), 1, None):
        regions += _footer_regions(older.generation.position, "older ")
        regions += [Region(block.offset_bytes, block.end_bytes, "older block") for block in older.blocks]
    regions.append(Region(0, committed.end_bytes, "padding and bloom bitsets"))
    regions.append(Region(committed.end_bytes, len(content), "orphan block"))
    return RegionMap(regions, file_size_bytes, PAST_PUBLISHED_END)


def data_regions(resolved: ResolvedPartition, content: bytes) -> RegionMap:
    """Name the bytes of a data.parquet at its token."""
    fixed, token = resolved.metadata.generation.position.fixed, resolved.partition.token
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


def _footer_regions(location: FooterPosition, prefix: str) -> list[Region]:
    checksum = location.checksum_offset
    return [
        *_fields(pm_layout.Footer.layout, location.offset_bytes, prefix=prefix),
        Region(location.offset_bytes, checksum, f"{prefix}entries and sections"),
        *_fields(pm_layout.Trailer.layout, checksum, prefix=prefix),
    ]


def fields_of(image: DiskImage, start: DiskImage, path: str) -> dict[str, RegionMap]:
    """Return the maps of the files that decode, by path; a file that does not is named as in the image `start`."""
    return dict(_table_fields(start, path)) | dict(_table_fields(image, path))


def own_fields(target: Target, image: DiskImage, path: str) -> dict[str, RegionMap]:
    """Return the maps of the files whose fields a target names, by path; no mistake of it may lose a finding."""
    maps = {}
    for name, content in image.files.items():
        with suppress(*TARGET_ERRORS, EndlessError):
            fields = list(target.fields(name.removeprefix(f"{path}/"), content)) if name.startswith(f"{path}/") else []
            if fields:
                regions = [Region(each.offset_bytes, each.offset_bytes + each.size_bytes, each.name) for each in fields]
                maps[name] = RegionMap(regions, len(content), "")
    return maps


def _table_fields(image: DiskImage, path: str) -> Iterator[tuple[str, RegionMap]]:
    txn = f"{path}/{TXN_FILE}"
    if txn not in image.files:
        return
    with suppress(TornproofError, EndlessError):
        yield txn, txn_regions(image.files[txn])
        for files, partition in _directories(open_table(image, path)):
            yield from _partition_fields(image, files, partition)


def _directories(table: Table) -> Iterator[tuple[PartitionFiles, Partition]]:
    """Yield the directories that the committed version names, then those that it does not."""
    transaction = table.transaction()
    for partition in transaction.partitions:
        with suppress(TornproofError, EndlessError):
            yield table.files_of(partition), partition
    for name in table.unreferenced_directories(transaction):
        yield PartitionFiles(storage=table.storage, path=f"{table.path}/{name}", name=name), UNNAMED


def _partition_fields(image: DiskImage, files: PartitionFiles, partition: Partition) -> Iterator[tuple[str, RegionMap]]:
    committed = _resolved(files, partition)
    newest = _newest(files)
    seen = committed or newest
    if seen is None:
        return
    pm, data = f"{files.path}/{PM_FILE}", f"{files.path}/{DATA_FILE}"
    yield pm, pm_regions(seen, len(image.files[pm]))
    if data in image.files:
        yield data, _data_fields(seen, newest, len(image.files[data]))


def _resolved(files: PartitionFiles, partition: Partition) -> ResolvedPartition | None:
    with suppress(TornproofError, EndlessError):
        return resolve_partition(files, partition)
    return None


def _newest(files: PartitionFiles) -> ResolvedPartition | None:
    """Return a partition by its newest published generation, whatever `_txn` says."""
    with suppress(TornproofError, EndlessError):
        content = read_published(files).content
        location = locate_footer(content, len(content), file=files.pm_label)
        return resolve_partition(files, replace(UNNAMED, token=location.token))
    return None


def _data_fields(seen: ResolvedPartition, newest: ResolvedPartition | None, size_bytes: int) -> RegionMap:
    """Name the bytes of a data.parquet by the generation that is read, then by the newest one."""
    token = seen.metadata.token
    regions = [Region(0, len(MAGIC), LEADING_MAGIC), *_generation_fields(seen.metadata, "")]
    if newest is not None and newest.metadata.token != token:
        regions += [each for each in _generation_fields(newest.metadata, OF_NEWEST) if each.end > token]
    return RegionMap([*regions, Region(0, token, UNUSED)], size_bytes, PAST_TOKEN)


def _generation_fields(metadata: Metadata, prefix: str) -> Iterator[Region]:
    generation = metadata.generation
    names = [column.name for column in metadata.header.columns]
    for number, block in enumerate(metadata.blocks):
        for name, chunk in zip(names, block.chunks, strict=True):
            label = f'{prefix}row group {number} column "{name}"'
            yield Region(chunk.byte_range_start, chunk.byte_range_end, label)
    for number, references in enumerate(generation.blooms):
        for reference in references:
            if reference is not None and reference.length_bytes is not None:
                start = reference.offset_bytes
                yield Region(start, start + reference.length_bytes, f"{prefix}row group {number} bloom filter")
    start, end = generation.position.fixed.parquet_footer_offset, metadata.token - ParquetTail.layout.size_bytes
    magic = end + ParquetTail.layout.offset_of("magic")
    yield Region(start, end, f"{prefix}{FOOTER}")
    yield Region(end, magic, f"{prefix}{FOOTER_LENGTH}")
    yield Region(magic, metadata.token, f"{prefix}{TRAILING_MAGIC}")
