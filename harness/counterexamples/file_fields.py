"""What bytes of a table's files are called at a moment: fields of the layouts, and column chunks of data.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from tornproof.harness.counterexamples.regions import PAST_TOKEN, UNUSED, Region, RegionMap, pm_regions, txn_regions
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, ParquetTail
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import locate_footer
from tornproof.impl.table.partition import PM_FILE, PartitionFiles, ResolvedPartition, read_published, resolve_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE, Partition

LEADING_MAGIC, FOOTER, FOOTER_LENGTH, TRAILING_MAGIC = "magic", "footer (Thrift)", "footer length", "magic at the end"
OF_NEWEST = "newest generation: "
"""How labels begin of what only the newest published generation refers to."""
UNNAMED = Partition(
    timestamp=0, row_count=0, name_txn=-1, token=0, flags=0, entry_offset_bytes=0, row_count_offset_bytes=0
)
"""Stands for the entry of a directory that `_txn` does not name."""


def fields_of(image: DiskImage, start: DiskImage, path: str) -> dict[str, RegionMap]:
    """Return maps of the files that can be told apart, by path; what cannot now is called as in the image `start`."""
    return dict(_table_fields(start, path)) | dict(_table_fields(image, path))


def _table_fields(image: DiskImage, path: str) -> Iterator[tuple[str, RegionMap]]:
    txn = f"{path}/{TXN_FILE}"
    if txn not in image.files:
        return
    with suppress(TornproofError):
        yield txn, txn_regions(image.files[txn])
        for files, partition in _directories(open_table(image, path)):
            yield from _partition_fields(image, files, partition)


def _directories(table: Table) -> Iterator[tuple[PartitionFiles, Partition]]:
    """Yield the directories that the committed version names, then those that it does not."""
    transaction = table.transaction()
    for partition in transaction.partitions:
        with suppress(TornproofError):
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
    with suppress(TornproofError):
        return resolve_partition(files, partition)
    return None


def _newest(files: PartitionFiles) -> ResolvedPartition | None:
    """Return a partition as the newest published generation has it, whatever `_txn` says."""
    with suppress(TornproofError):
        content = read_published(files).content
        place = locate_footer(content, len(content), file=files.pm_label)
        return resolve_partition(files, replace(UNNAMED, token=place.token))
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
    start, end = generation.place.fixed.parquet_footer_offset, metadata.token - ParquetTail.layout.size_bytes
    magic = end + ParquetTail.layout.offset_of("magic")
    yield Region(start, end, f"{prefix}{FOOTER}")
    yield Region(end, magic, f"{prefix}{FOOTER_LENGTH}")
    yield Region(magic, metadata.token, f"{prefix}{TRAILING_MAGIC}")
