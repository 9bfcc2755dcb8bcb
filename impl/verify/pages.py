"""Verification of all pages of one generation, by checksums if these are sufficient, else by decoding."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa

from tornproof.impl.chunk.chunk import are_vouched, check_pages, decode_checked, pages_of
from tornproof.impl.errors import Problem, ProblemError, UnsupportedError
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.bloom import can_be_hashed, hashes_of, probe
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.bloom_position import ReadData, bitset_of, reference_of
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.read.decoding import Decoding, InOrder
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.partition import ResolvedPartition, read_chunk
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.table.symbol_keys import dictionary_problem
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types.arrow import valid_decimal_shape


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
    """Return how many non-null values of an array in stored form are not in the filter."""
    return int(np.count_nonzero(~probe(bitset, hashes_of(stored))))


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
    """A chunk's size, whether its values were decoded, and what is wrong with it, or why that cannot be said."""

    size_bytes: int
    is_decoded: bool
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
    metadata = resolved.metadata
    groups = zip(metadata.blocks, _uncompressed_sizes(metadata, footer), strict=True)
    chunks = (
        (ordinal, index, chunk, size)
        for ordinal, (block, sizes) in enumerate(groups)
        for index, (chunk, size) in enumerate(zip(block.chunks, sizes, strict=True))
    )
    bloom_columns = frozenset(metadata.header.bloom_columns)
    checks: InOrder[CheckedChunk] = InOrder(decoding)
    with resolved.files.open_data() as handle:
        for ordinal, index, chunk, size in chunks:
            bloom = None
            if index in bloom_columns:
                bloom = functools.partial(filter_of, resolved, handle, ordinal, index)
            column, label = metadata.header.columns[index], resolved.files.data_label
            checks.begin(_check(handle, column, chunk, size, label, bloom, symbols.get(index)), chunk.total_compressed)
            yield from checks.due()
    yield from checks.rest()


def _uncompressed_sizes(metadata: Metadata, footer: ParquetFooter | None) -> list[list[int | None]]:
    """Return for each row group the chunks' uncompressed sizes, page headers included, in the Thrift footer."""
    sizes: list[list[int | None]] = []
    if footer is not None:
        sizes = [[chunk.total_uncompressed_size for chunk in group.chunks] for group in footer.row_groups]
    if list(map(len, sizes)) == [len(block.chunks) for block in metadata.blocks]:
        return sizes
    return [[None] * len(block.chunks) for block in metadata.blocks]


def filter_of(resolved: ResolvedPartition, handle: ReadableFile, ordinal: int, index: int) -> ChunkFilter | None:
    """Return the filter of a column in a row group, or None; raises CorruptError."""
    content, label = resolved.published.content, resolved.files.pm_label
    return chunk_filter(content, resolved.metadata, ordinal, index, read_data=handle.pread, file=label)


def _check(
    handle: ReadableFile,
    column: Column,
    chunk: Chunk,
    uncompressed_size: int | None,
    file: str,
    bloom: Callable[[], ChunkFilter | None] | None,
    symbols: SymbolTable | None,
) -> Callable[[], CheckedChunk]:
    """Fetch a chunk and its filter, and return the work of checking them."""
    bloom_filter, bloom_problem = None, None
    try:
        content = read_chunk(handle, chunk, file=file)
    except UnsupportedError as error:
        return functools.partial(_verdict, chunk, None, unsupported=error)
    except ProblemError as error:
        return functools.partial(_verdict, chunk, error.problem)
    try:
        bloom_filter = bloom() if bloom else None
    except ProblemError as error:
        bloom_problem = error.problem

    def check() -> CheckedChunk:
        is_decoded = False
        try:
            checked = check_pages(content, column, chunk, file=file)
            is_vouched = _size_bytes(checked.pages) == uncompressed_size and are_vouched(checked.pages, column, chunk)
            if symbols and (found := dictionary_problem(content, checked.pages, column, chunk, symbols, file=file)):
                return _verdict(chunk, found)
            if bloom_problem is not None or (bloom_filter is None and is_vouched):
                return _verdict(chunk, bloom_problem)
            is_decoded = True
            values = decode_checked(content, column, chunk, checked, file=file)
        except UnsupportedError as error:
            if bloom_problem is None and _is_sound_so_far(content, chunk, uncompressed_size, file):
                return _verdict(chunk, None, is_decoded=is_decoded, unsupported=error)
            return _verdict(chunk, bloom_problem or error.problem, is_decoded=is_decoded)
        except ProblemError as error:
            return _verdict(chunk, error.problem, is_decoded=is_decoded)
        return _verdict(chunk, bloom_filter.problem(values) if bloom_filter else None, is_decoded=True)

    return check


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


def _verdict(
    chunk: Chunk, problem: Problem | None, *, is_decoded: bool = False, unsupported: UnsupportedError | None = None
) -> CheckedChunk:
    size_bytes = chunk.total_compressed
    return CheckedChunk(size_bytes=size_bytes, is_decoded=is_decoded, problem=problem, unsupported=unsupported)
