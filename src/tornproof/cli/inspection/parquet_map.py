"""The byte map of a Parquet file: the purpose of every range, and which ranges its footer does not refer to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from tornproof.cli.inspection.byte_map import Range, gaps_between, ordered
from tornproof.cli.inspection.pm_chain import MetadataFile
from tornproof.impl.chunk.duplicates import Duplicate
from tornproof.impl.errors import ProblemError
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.fields import COLUMN_META_DATA
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import BrokenError, decode

ReadBytes = Callable[[int, int], bytes]
BloomLengths = Mapping[tuple[int, int], int | None]
"""The lengths of bloom filters, headers included, by row group and column."""
CHUNK, DUPLICATE = "column chunk", "duplicate chunk"
UNUSED, COPY, AFTER, UNEXPLAINED = "unused", "column metadata copy", "after the token", "not explained"
# QuestDB's converter writes a copy after each chunk; searching every gap of a huge file would take too long.
COPY_LIMIT_BYTES = 1 << 16
GAPS_LOOKED_AT = 4096


def first_page_offset(chunk: ColumnChunk) -> int:
    """Return the offset of the chunk's bytes: a dictionary page, if any, precedes the data pages."""
    return min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)


def parquet_map(
    footer: ParquetFooter,
    end_bytes: int,
    size_bytes: int,
    *,
    tail_start_bytes: int,
    bloom_lengths: BloomLengths,
    duplicates: Collection[tuple[int, int, Duplicate]] = (),
    beside: MetadataFile | None,
    read_bytes: ReadBytes,
) -> list[Range]:
    """Return ranges that cover the whole file in order; they overlap only where references do.

    `end_bytes` is the token, `tail_start_bytes` where the footer ends.
    `beside` is the `_pm`, which knows what older and newer footers refer to.
    """
    live = [
        entry
        for entry in (
            *_live(footer, tail_start_bytes, end_bytes, bloom_lengths),
            *itertools.starmap(_duplicate, duplicates),
        )
        if 0 <= entry.start_bytes < entry.end_bytes <= size_bytes
    ]
    if end_bytes < size_bytes:
        live.append(Range(end_bytes, size_bytes, AFTER))
    others = [entry for entry in _others(beside) if entry.end_bytes <= size_bytes] if beside is not None else []
    known = _without_overlap(live, others)
    gaps = list(gaps_between(known, size_bytes))
    chunks = _chunks_before(known)
    named = [
        _gap(start, end, chunks.get(start), read_bytes if index < GAPS_LOOKED_AT else None)
        for index, (start, end) in enumerate(gaps)
    ]
    return ordered([*known, *(part for parts in named for part in parts)])


def dead_byte_count(ranges: Iterable[Range]) -> int:
    """Return how many bytes before the token the footer does not refer to; copies of column metadata are not dead."""
    return sum(entry.size_bytes for entry in ranges if entry.what == UNUSED or entry.generation is not None)


def _live(footer: ParquetFooter, tail: int, end_bytes: int, bloom_lengths: BloomLengths) -> Iterator[Range]:
    yield Range(0, len(MAGIC), "magic")
    for ordinal, group in enumerate(footer.row_groups):
        for index, chunk in enumerate(group.chunks):
            if chunk.file_path:
                continue
            start = first_page_offset(chunk)
            parts = (
                (CHUNK, start, chunk.total_compressed_size),
                ("bloom filter", chunk.bloom_filter_offset, bloom_lengths.get((ordinal, index))),
                ("column index", chunk.column_index_offset, chunk.column_index_length),
                ("offset index", chunk.offset_index_offset, chunk.offset_index_length),
            )
            for what, offset_bytes, length_bytes in parts:
                if offset_bytes is not None and length_bytes is not None:
                    yield Range(offset_bytes, offset_bytes + length_bytes, what, row_group=ordinal, column=index)
    yield Range(footer.offset_bytes, tail, "footer")
    yield Range(tail, end_bytes, "footer length and magic")


def _duplicate(row_group: int, column: int, duplicate: Duplicate) -> Range:
    assert duplicate.record is not None
    start, length = duplicate.record.chunk_offset, duplicate.record.chunk_length
    return Range(start, start + length, DUPLICATE, row_group=row_group, column=column)


def _others(beside: MetadataFile) -> Iterator[Range]:
    """Yield the footers of all generations, and the chunks of all blocks by the generation that wrote them."""
    for index, position in enumerate(beside.positions):
        start = position.fixed.parquet_footer_offset
        yield Range(start, position.token, "footer", generation=index)
    for offset_bytes, block in beside.blocks.items():
        for index, chunk in enumerate(block.chunks):
            yield Range(
                chunk.byte_range_start,
                chunk.byte_range_end,
                CHUNK,
                column=index,
                generation=beside.owners[offset_bytes],
            )


def _without_overlap(live: list[Range], others: list[Range]) -> list[Range]:
    """Return all live ranges, and those of the others that do not overlap them or each other."""
    taken = ordered(live)
    result, index, reached = list(taken), 0, 0
    for entry in ordered(others):
        while index < len(taken) and taken[index].end_bytes <= entry.start_bytes:
            index += 1
        is_free = index == len(taken) or entry.end_bytes <= taken[index].start_bytes
        if is_free and reached <= entry.start_bytes < entry.end_bytes:
            result.append(entry)
            reached = entry.end_bytes
    return result


def _chunks_before(ranges: list[Range]) -> dict[int, Range]:
    """Return each chunk by its end, and by the end of its bloom filter if that follows it directly."""
    chunks = {entry.end_bytes: entry for entry in ranges if entry.what == CHUNK}
    return chunks | {
        entry.end_bytes: chunks[entry.start_bytes]
        for entry in ranges
        if entry.what == "bloom filter" and entry.start_bytes in chunks
    }


def _gap(start: int, end: int, before: Range | None, read_bytes: ReadBytes | None) -> list[Range]:
    """Return the parts of a gap: the copy of a chunk's metadata right after the chunk, and the rest."""
    if read_bytes is None:
        return [Range(start, end, UNEXPLAINED)]
    copy_end = start
    if before is not None:
        copy_end += _copy_size_bytes(read_bytes(min(end - start, COPY_LIMIT_BYTES), start), before.size_bytes)
    row_group, column, generation = (before.row_group, before.column, before.generation) if before else (None,) * 3
    copy = Range(start, copy_end, COPY, row_group=row_group, column=column, generation=generation)
    rest = Range(copy_end, end, UNUSED)
    return [entry for entry in (copy, rest) if entry.size_bytes]


def _copy_size_bytes(raw: bytes, chunk_size_bytes: int) -> int:
    """Return the length of the ColumnMetaData of a chunk of that size at the start of `raw`; 0 for anything else."""
    try:
        tree, end = decode(raw, file="")
        return end if read(tree, COLUMN_META_DATA)["total_compressed_size"] == chunk_size_bytes else 0
    except (ProblemError, BrokenError):
        return 0
