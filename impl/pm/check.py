"""The checks of one decoded generation of `_pm` beyond its CRC, which `chain` checks (docs/format.md)."""

from __future__ import annotations

from collections.abc import Iterator

from tornproof.impl.errors import Problem
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.layout.record import Buffer, RecordPosition
from tornproof.impl.pm.block import Block, Chunk, chunk_offset, region_offset
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.extent import Interval, bitset_intervals, block_intervals
from tornproof.impl.pm.footer import bloom_reference_offset
from tornproof.impl.pm.header import Column, FileHeader, descriptor_offset
from tornproof.impl.pm.statistics import are_signed_addresses, are_unsigned, bounds_of, in_order, older_row_count
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag, tag_of


def check_metadata(data: Buffer, metadata: Metadata, *, file: str, newer: Metadata | None = None) -> Iterator[Problem]:
    """Yield what is wrong with the generation: positions of blocks, counts, byte ranges, statistics, order of rows.

    `data` are the published bytes. Blocks that are also in `newer`, a generation already checked, are not checked
    again. Raises CorruptError if a bloom bitset cannot be read at all.
    """
    checked = frozenset(newer.generation.block_offsets) if newer is not None else frozenset()
    yield from _check_columns(metadata, file)
    yield from _check_footer(metadata, file)
    yield from _check_blocks(data, metadata, file)
    yield from _check_bitsets(data, metadata, file)
    yield from _check_external_blooms(metadata, file)
    for ordinal, block in enumerate(metadata.blocks):
        if block.offset_bytes in checked:
            continue
        for index, (column, chunk) in enumerate(zip(metadata.header.columns, block.chunks, strict=True)):
            for found in _check_chunk(column, chunk, block, metadata):
                yield _chunk_position(metadata, ordinal, index, file).problem(*found)
    if not checked.issuperset(metadata.generation.block_offsets):
        yield from _check_ranges(metadata, file)
        yield from _check_row_order(metadata, file)


def _chunk_position(metadata: Metadata, ordinal: int, index: int, file: str) -> RecordPosition:
    location = chunk_offset(metadata.blocks[ordinal].offset_bytes, index)
    of = f" of column {metadata.header.columns[index].name!r} of row group {ordinal}"
    return layout.ColumnChunk.at(file, location, of)


def _check_columns(metadata: Metadata, file: str) -> Iterator[Problem]:
    for index, column in enumerate(metadata.header.columns):
        for found in _check_column(index, column, metadata.header):
            at = layout.ColumnDescriptor.at(file, descriptor_offset(index), f" of column {column.name!r}")
            yield at.problem(*found)
    header = metadata.header
    dts = header.designated_timestamp
    if dts >= 0 and header.sorting[:1] != (dts,):
        yield layout.Header.at(file, 0).problem("designated_timestamp", "the first of the sorting columns", dts)


def _check_column(index: int, column: Column, header: FileHeader) -> Iterator[tuple[str, object, object]]:
    """Yield (layout field, expected, actual)."""
    if index == header.designated_timestamp and layout.DESCENDING.get(column.flags):
        yield "flags", "not DESCENDING, because it is the designated timestamp", f"{column.flags:#x}"
    # In files of other writers the converter also accepts milliseconds, whose type is DATE.
    if index == header.designated_timestamp and tag_of(column.type) not in (TypeTag.TIMESTAMP, TypeTag.DATE, None):
        yield "type", "a timestamp, because it is the designated one", column.type
    if (column.physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY) != (column.fixed_byte_len > 0):
        yield "fixed_byte_len", "a length for FIXED_LEN_BYTE_ARRAY, 0 for other types", column.fixed_byte_len
    if column.max_rep_level > column.max_def_level:
        yield "max_rep_level", f"at most MAX_DEF_LEVEL, {column.max_def_level}", column.max_rep_level


def _check_footer(metadata: Metadata, file: str) -> Iterator[Problem]:
    location = metadata.generation.position
    fixed, at = location.fixed, layout.Footer.at(file, location.offset_bytes)
    if fixed.parquet_footer_offset < len(MAGIC):
        yield at.problem("parquet_footer_offset", f"{len(MAGIC)} or more", fixed.parquet_footer_offset)
    if fixed.unused_bytes > fixed.parquet_footer_offset:
        expected = f"at most {fixed.parquet_footer_offset}, the bytes before the Thrift footer"
        yield at.problem("unused_bytes", expected, fixed.unused_bytes)
    if metadata.header.size_bytes > location.offset_bytes:
        expected = f"a footer after the header, which ends at byte {metadata.header.size_bytes}"
        trailer = layout.Trailer.at(file, location.checksum_offset)
        yield trailer.problem("footer_length", expected, f"a footer at {location.offset_bytes}")


def _check_blocks(data: Buffer, metadata: Metadata, file: str) -> Iterator[Problem]:
    entries = metadata.generation.position.offset_bytes + layout.Footer.layout.size_bytes
    intervals = block_intervals(data, metadata, file=file)
    for start, ordinal, free_from in _overlaps(intervals, metadata.header.size_bytes):
        entry = entries + ordinal * layout.RowGroupEntry.layout.size_bytes
        expected = f"a block at byte {free_from} or later, where the header and the blocks before it end"
        at = layout.RowGroupEntry.at(file, entry, f" of row group {ordinal}")
        yield at.problem("block_offset", expected, f"byte {start}")


def _check_bitsets(data: Buffer, metadata: Metadata, file: str) -> Iterator[Problem]:
    placed = bitset_intervals(data, metadata, file=file)
    for ordinal, position, (start, _) in placed:
        region = region_offset(metadata.blocks[ordinal].offset_bytes, len(metadata.header.columns))
        if start < region:
            expected = f"byte {region} or later, in the block's own region"
            yield _bloom_problem(metadata, ordinal, position, expected, f"byte {start}", file)
    for start, nth, free_from in _overlaps([interval for *_, interval in placed], 0):
        ordinal, position, _ = placed[nth]
        expected = f"byte {free_from} or later: bitsets do not overlap"
        yield _bloom_problem(metadata, ordinal, position, expected, f"byte {start}", file)


def _bloom_problem(metadata: Metadata, ordinal: int, position: int, expected: str, actual: str, file: str) -> Problem:
    header, generation = metadata.header, metadata.generation
    offset = bloom_reference_offset(generation.position, header, ordinal, position)
    name = header.columns[header.bloom_columns[position]].name
    return Problem(file, f"bloom reference of column {name!r} of row group {ordinal}", offset, expected, actual)


def _overlaps(intervals: list[Interval], free_from: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, its index, end of what is before it) for intervals that start too early."""
    for (start, end), index in sorted((interval, index) for index, interval in enumerate(intervals)):
        if start < free_from:
            yield start, index, free_from
        free_from = max(free_from, end)


def _check_external_blooms(metadata: Metadata, file: str) -> Iterator[Problem]:
    limit = metadata.generation.position.fixed.parquet_footer_offset
    for ordinal, row in enumerate(metadata.generation.blooms):
        for position, bloom in enumerate(row):
            if bloom is None or bloom.length_bytes is None:
                continue
            if not len(MAGIC) <= bloom.offset_bytes <= bloom.offset_bytes + bloom.length_bytes <= limit:
                actual = f"{bloom.length_bytes} bytes at {bloom.offset_bytes}"
                yield _bloom_problem(metadata, ordinal, position, f"bytes {len(MAGIC)} to {limit}", actual, file)


def _check_chunk(
    column: Column, chunk: Chunk, block: Block, metadata: Metadata
) -> Iterator[tuple[str, object, object]]:
    """Yield (layout field, expected, actual)."""
    limit = metadata.generation.position.fixed.parquet_footer_offset
    if column.max_rep_level == 0 and chunk.num_values != block.num_rows:
        yield "num_values", f"{block.num_rows}, the rows of the row group", chunk.num_values
    if chunk.null_count is not None and chunk.null_count > chunk.num_values:
        yield "null_count", f"at most {chunk.num_values}, the values", chunk.null_count
    if chunk.null_count and column.max_def_level == 0 and not older_row_count(column, chunk):
        yield "null_count", "0, because the column is required", chunk.null_count
    if chunk.distinct_count is not None and chunk.distinct_count > chunk.num_values:
        yield "distinct_count", f"at most {chunk.num_values}, the values", chunk.distinct_count
    # Some writers have no valid position for chunks without values.
    if chunk.num_values and chunk.byte_range_start < len(MAGIC):
        yield "byte_range_start", f"{len(MAGIC)} or more", chunk.byte_range_start
    if chunk.byte_range_end > limit:
        yield "total_compressed", f"a chunk that ends by byte {limit}, the Thrift footer", chunk.byte_range_end
    if chunk.encodings & ~layout.ENCODINGS.known_mask:
        yield "encodings", "known encodings only", f"{chunk.encodings:#04x}"
    bounds = bounds_of(column, chunk)
    if isinstance(bounds, str):
        yield "min_stat", "statistics of the column's type", bounds
    elif bounds is not None and not in_order(column, *bounds):
        if are_unsigned(column, *bounds) or are_signed_addresses(column, chunk):
            return
        yield "min_stat", f"at most the maximum, {bounds[1]!r}", repr(bounds[0])


def _check_ranges(metadata: Metadata, file: str) -> Iterator[Problem]:
    chunks = [
        (ordinal, index, (chunk.byte_range_start, chunk.byte_range_end))
        for ordinal, block in enumerate(metadata.blocks)
        for index, chunk in enumerate(block.chunks)
        if chunk.total_compressed and chunk.num_values
    ]
    for start, nth, free_from in _overlaps([interval for *_, interval in chunks], 0):
        ordinal, index, _ = chunks[nth]
        expected = f"{free_from} or more: chunks do not overlap"
        yield _chunk_position(metadata, ordinal, index, file).problem("byte_range_start", expected, start)


def _check_row_order(metadata: Metadata, file: str) -> Iterator[Problem]:
    """Yield where row groups are not in the order of the designated timestamp."""
    dts = metadata.header.designated_timestamp
    if dts < 0 or not metadata.header.is_in_time_order:
        return
    column = metadata.header.columns[dts]
    newest: object = None
    for ordinal, block in enumerate(metadata.blocks):
        bounds = bounds_of(column, block.chunks[dts])
        if bounds is None or isinstance(bounds, str) or not isinstance(bounds[0], int):
            continue
        if isinstance(newest, int) and bounds[0] < newest:
            expected = f"{newest} or more, the row group before"
            yield _chunk_position(metadata, ordinal, dts, file).problem("min_stat", expected, bounds[0])
        newest = bounds[1]
