"""Verification of all pages of one generation, by checksums if these are sufficient, else by decoding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tornproof.impl.chunk.chunk import CheckedPages, are_vouched, check_pages, final_values, judged_values, pages_of
from tornproof.impl.chunk.page_index import ColumnIndex, StoredIndex, check_offset_index, column_index_of
from tornproof.impl.chunk.statistics import check_rows, uncounted_null_count, without_older_rows
from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.bloom import can_be_hashed, hashes_of, probe, with_positive_zeros
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.bloom_position import ReadData, bitset_of, reference_of
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import are_signed_addresses, older_row_count
from tornproof.impl.read.decoding import Decoding, InOrder
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.partition import ResolvedPartition, read_chunk
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.table.symbol_keys import dictionary_problem
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.compute import compute
from tornproof.impl.verify.beside_pages import FileParts

EARLIER_BOUNDS = "has bounds that leave out values, as earlier servers made them of pages: servers skip these rows"
UNCOUNTED_NULLS = (
    "has nulls that are not counted, of rows that are older than the column: later servers read values there, "
    "so rewrite the partition"
)


class ChunkFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a chunk; `offset_bytes` is its position in `file`, the name of `_pm`, None if in data.parquet."""

    column: Column
    ordinal: int
    bitset: bytes
    file: str
    offset_bytes: int | None

    def problem(self, values: pa.Array) -> Problem | None:
        """Return what is wrong with the filter for these values of the column's `arrow_type`, or None."""
        stored = _stored(values, self.column)
        missing = 0 if stored is None else missing_values(stored, self.bitset)
        if not missing:
            return None
        expected = "all values of the chunk in it"
        actual = f"{missing} of {len(values) - values.null_count} that are not"
        field = f"bloom filter of column {self.column.name!r} of row group {self.ordinal}"
        return Problem(self.file, field, self.offset_bytes, expected, actual)


def missing_values(stored: pa.Array, bitset: bytes | memoryview) -> int:
    """Return how many non-null values of an array in stored form are not in the filter, -0.0 neither as 0.0."""
    is_there, positive = probe(bitset, hashes_of(stored)), with_positive_zeros(stored)
    if positive is not stored:
        is_there |= probe(bitset, hashes_of(positive))
    return int(np.count_nonzero(~is_there))


def chunk_filter(
    content: Buffer, metadata: Metadata, ordinal: int, column_index: int, *, read_data: ReadData, file: str
) -> ChunkFilter | None:
    """Return the filter of a column in a row group, or None; the arguments are those of `bitset_of`.

    Raises as that does.
    """
    bitset = bitset_of(content, metadata, ordinal, column_index, read_data=read_data, file=file)
    if bitset is None:
        return None
    reference = reference_of(metadata, ordinal, column_index)
    assert reference is not None, "bitset_of went by it"
    return ChunkFilter(
        column=metadata.header.columns[column_index],
        ordinal=ordinal,
        bitset=bitset,
        file=file,
        offset_bytes=reference.offset_bytes if reference.length_bytes is None else None,
    )


def _stored(values: pa.Array, column: Column) -> pa.Array | None:
    """Return decoded values in stored form, None for columns that are not stored as QuestDB stores them."""
    if physical_form(column.type) != (column.physical_type, column.fixed_byte_len) or column.max_rep_level:
        return None
    if valid_decimal_shape(column.type) is not None:
        # Imported here because it imports the writer, and few columns are decimals with a filter.
        from tornproof.impl.write.stored_arrays import stored_array

        values = stored_array(values, column).array
    return values if can_be_hashed(values.type) else None


class CheckedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's size, whether its values were decoded, and what is wrong with it, or why that cannot be said.

    `note` is about what an earlier server did wrong with a sound chunk.
    """

    size_bytes: int
    is_decoded: bool
    note: str | None = None
    problem: Problem | None
    unsupported: UnsupportedError | None = None


def page_checks(
    resolved: ResolvedPartition,
    footer: ParquetFooter | None,
    decoding: Decoding,
    symbols: Mapping[int, SymbolTable] = MappingProxyType({}),
) -> Iterator[CheckedChunk]:
    """Yield every chunk after checking it, in the order of row groups and columns; raises StorageError.

    Those of columns in `symbols` must have the table's keys.
    """
    metadata, header = resolved.metadata, resolved.metadata.header
    groups = zip(metadata.blocks, _footer_chunks(metadata, footer), strict=True)
    chunks = (
        (ordinal, index, chunk, facts, block.num_rows)
        for ordinal, (block, of_footer) in enumerate(groups)
        for index, (chunk, facts) in enumerate(zip(block.chunks, of_footer, strict=True))
    )
    checks: InOrder[CheckedChunk] = InOrder(decoding)
    with resolved.files.open_data() as handle:
        parts = FileParts(read=handle.pread, file=resolved.files.data_label, size_bytes=metadata.token)
        for ordinal, index, chunk, facts, row_count in chunks:
            work = _fetched(
                handle,
                header.columns[index],
                chunk,
                functools.partial(_beside, resolved, handle, parts, ordinal, index, facts),
                file=parts.file,
                row_count=row_count,
                uncompressed_size=None if facts is None else facts.total_uncompressed_size,
                is_time=header.is_in_time_order and index == header.designated_timestamp,
                symbols=symbols.get(index),
            )
            checks.begin(work, chunk.total_compressed)
            yield from checks.due()
    yield from checks.rest()


def _footer_chunks(metadata: Metadata, footer: ParquetFooter | None) -> Sequence[Sequence[ColumnChunk | None]]:
    """Return for each row group the chunks in the Thrift footer, None for each if it has other ones."""
    chunks = [] if footer is None else [group.chunks for group in footer.row_groups]
    if list(map(len, chunks)) == [len(block.chunks) for block in metadata.blocks]:
        return chunks
    return [[None] * len(block.chunks) for block in metadata.blocks]


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored beside the pages of a chunk: filters, of which most chunks have one at most, and indexes."""

    filters: Sequence[ChunkFilter] = ()
    offset_index: StoredIndex | None = None
    column_index: StoredIndex | None = None


def _beside(
    resolved: ResolvedPartition,
    handle: ReadableFile,
    parts: FileParts,
    ordinal: int,
    index: int,
    facts: ColumnChunk | None,
) -> Beside:
    """Fetch what is beside the pages of a column in a row group; raises CorruptError, UnsupportedError."""
    header = resolved.metadata.header
    column, filters = header.columns[index], list[ChunkFilter]()
    if index in header.bloom_columns and (found := filter_of(resolved, handle, ordinal, index)) is not None:
        filters.append(found)
    if facts is None:
        return Beside(filters=filters)
    owner = f"column {column.name!r} of row group {ordinal}"
    bitset = parts.bitset_of(facts, owner)
    # Often it is the same filter.
    if bitset is not None and all(each.bitset != bitset for each in filters):
        at = facts.bloom_filter_offset
        filters.append(ChunkFilter(column=column, ordinal=ordinal, bitset=bitset, file=parts.file, offset_bytes=at))
    return Beside(
        filters=filters,
        offset_index=parts.offset_index_of(facts, owner),
        column_index=parts.column_index_of(facts, owner),
    )


def filter_of(resolved: ResolvedPartition, handle: ReadableFile, ordinal: int, index: int) -> ChunkFilter | None:
    """Return the filter of a column in a row group, or None; raises CorruptError."""
    content, label = resolved.published.content, resolved.files.pm_label
    return chunk_filter(content, resolved.metadata, ordinal, index, read_data=handle.pread, file=label)


def _fetched(
    handle: ReadableFile, column: Column, chunk: Chunk, fetch: Callable[[], Beside], **of_file: Any
) -> Callable[[], CheckedChunk]:
    """Fetch a chunk and what is beside it, and return the work of checking them."""
    try:
        content = read_chunk(handle, chunk, file=of_file["file"])
    except ProblemError as error:
        return functools.partial(_rejected, chunk, error)
    beside, beside_error = Beside(), None
    try:
        beside = fetch()
    except ProblemError as error:
        # The name of an exception is gone behind its clause.
        beside_error = error
    return Fetched(
        content=content, column=column, chunk=chunk, beside=beside, beside_error=beside_error, **of_file
    ).checked


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk in memory, and what is beside it or why that could not be fetched.

    Times are to be in order. `row_count` is that of the row group, `uncompressed_size` that of the Thrift footer, None
    if it is not known.
    """

    content: bytes
    column: Column
    chunk: Chunk
    file: str
    row_count: int
    uncompressed_size: int | None
    is_time: bool
    beside: Beside
    beside_error: ProblemError | None
    symbols: SymbolTable | None

    def checked(self) -> CheckedChunk:
        """Return what is wrong with the chunk or beside it."""
        content, column, chunk, file = self.content, self.column, self.chunk, self.file
        is_decoded = False
        try:
            checked = check_pages(content, column, chunk, file=file)
            sizes_agree = _size_bytes(checked.pages) == self.uncompressed_size
            # Checksums of pages say neither how many rows are older than the column, nor how many rows lists have.
            counts_rows = older_row_count(column, chunk) > 0 or column.max_rep_level > 0
            is_vouched = sizes_agree and not counts_rows and are_vouched(checked.pages, column, chunk)
            found = self.symbols and dictionary_problem(content, checked.pages, column, chunk, self.symbols, file=file)
            if found:
                return _verdict(chunk, found)
            index = _checked_indexes(self.beside, column, chunk, checked.pages)
            needs_values = bool(self.beside.filters) or index is not None or self.is_time
            needs_values |= are_signed_addresses(column, chunk)
            if self.beside_error is not None or (is_vouched and not needs_values):
                return _rejected(chunk, self.beside_error)
            is_decoded = True
            return self._verdict_on_values(checked, index, is_vouched)
        except UnsupportedError as error:
            if self.beside_error is None and _is_sound_so_far(content, chunk, self.uncompressed_size, file):
                return _verdict(chunk, None, is_decoded=is_decoded, unsupported=error)
            return _verdict(chunk, (self.beside_error or error).problem, is_decoded=is_decoded)
        except ProblemError as error:
            return _verdict(chunk, error.problem, is_decoded=is_decoded)

    def _verdict_on_values(self, checked: CheckedPages, index: ColumnIndex | None, is_vouched: bool) -> CheckedChunk:
        """Decode the pages, and say which filter lacks a value; raises ProblemError for anything else."""
        column, chunk, file = self.column, self.chunk, self.file
        stored, has_earlier_bounds = judged_values(self.content, column, chunk, checked, file=file)
        stored = without_older_rows(stored, column, chunk)
        check_rows(stored, self.row_count, column, chunk, file=file)
        # Where checksums vouch for pages, only filters need values in the column's type.
        is_final = bool(self.beside.filters) or not is_vouched
        values = final_values(stored, column, chunk, file) if is_final else stored
        uncounted_count = uncounted_null_count(stored, column, chunk)
        if index is not None:
            has_earlier_bounds |= index.check_values(stored, uncounted_count)
        if self.is_time:
            _check_ascending(stored, column, chunk, file)
        problem = next((problem for each in self.beside.filters if (problem := each.problem(values))), None)
        notes = [EARLIER_BOUNDS] * has_earlier_bounds
        if uncounted_count:
            notes.append(UNCOUNTED_NULLS)
        note = f"column {column.name!r} {'; and '.join(notes)}" if notes else None
        return replace(_verdict(chunk, problem, is_decoded=True), note=note)


def _checked_indexes(beside: Beside, column: Column, chunk: Chunk, pages: Sequence[PageInfo]) -> ColumnIndex | None:
    """Check indexes by page headers and by `_pm`, and return the column index if values are needed to confirm it.

    Raises CorruptError, UnsupportedError.
    """
    is_flat = column.max_rep_level == 0
    if beside.offset_index is not None:
        check_offset_index(beside.offset_index, pages, is_flat=is_flat)
    if beside.column_index is None:
        return None
    index = column_index_of(beside.column_index, column, pages)
    # Which elements of lists are in which page is not known here.
    return None if not is_flat or index.is_confirmed_by(chunk) else index


def _check_ascending(stored: pa.Array, column: Column, chunk: Chunk, file: str) -> None:
    """Raise CorruptError unless times are in the order that SORTING_IS_DTS_ASC says, by which readers search them."""
    times = compute("drop_null", stored).view(pa.int64()).to_numpy()
    for row in np.flatnonzero(times[1:] < times[:-1])[:1]:
        field = f"row {row + 1} of column {column.name!r}"
        expected = f"{times[row]} or more, the row before, because SORTING_IS_DTS_ASC is set"
        raise CorruptError(file, field, chunk.byte_range_start, expected, int(times[row + 1]))


def _size_bytes(pages: Iterable[PageInfo]) -> int:
    """Return a chunk's uncompressed size as page headers say it, which no checksum covers; the footer confirms it."""
    return sum(page.header_length_bytes + page.uncompressed_size_bytes for page in pages)


def _is_sound_so_far(content: bytes, chunk: Chunk, uncompressed_size: int | None, file: str) -> bool:
    """Return whether page headers are not what is wrong with a chunk that cannot be decoded."""
    try:
        pages = pages_of(content, chunk, file=file)
    except ProblemError:
        return False
    return uncompressed_size is None or _size_bytes(pages) == uncompressed_size


def _rejected(chunk: Chunk, error: ProblemError | None) -> CheckedChunk:
    """Return the verdict on a chunk that was not decoded, and beside which this may be wrong."""
    if isinstance(error, UnsupportedError):
        return _verdict(chunk, None, unsupported=error)
    return _verdict(chunk, None if error is None else error.problem)


def _verdict(
    chunk: Chunk, problem: Problem | None, *, is_decoded: bool = False, unsupported: UnsupportedError | None = None
) -> CheckedChunk:
    size_bytes = chunk.total_compressed
    return CheckedChunk(size_bytes=size_bytes, is_decoded=is_decoded, problem=problem, unsupported=unsupported)
