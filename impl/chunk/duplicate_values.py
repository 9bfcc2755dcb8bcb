"""Values of a chunk that is in two encodings: the new one where nothing about it is in doubt, else the old one."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pyarrow as pa

from tornproof.impl import limits
from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.chunk.duplicate_pages import KINDS, NEW_ENCODINGS, decode_pages, is_encodable, is_same
from tornproof.impl.chunk.duplicates import UNKNOWN, duplicate_content, duplicate_of, duplicates_in, meta_data_of
from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError, UsageError
from tornproof.impl.extension.footer import ReadBytes
from tornproof.impl.layout.encodings import DuplicateTail
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.pm.header import Column
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag

STAND_INS = {
    PhysicalType.DOUBLE: TypeTag.DOUBLE,
    PhysicalType.FLOAT: TypeTag.FLOAT,
    PhysicalType.INT64: TypeTag.LONG,
    PhysicalType.INT32: TypeTag.INT,
}


class ChunkSource(enum.StrEnum):
    """Which chunk the values come from."""

    OLD = "the old encoding"
    DUPLICATE = "the new encoding, beside the old one"
    ALONE = "the new encoding alone"


class ChunkValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a chunk, as stored; `doubt` says why they come from the old encoding, if there is another one."""

    values: pa.Array
    source: ChunkSource
    doubt: str | None = None


class ColumnValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values of a column, and where those of each row group come from."""

    values: pa.ChunkedArray
    sources: tuple[ChunkSource, ...]
    doubts: tuple[str | None, ...]


def duplicate_problems(read: ReadBytes, footer: ParquetFooter, *, file: str) -> Iterator[Problem]:
    """Yield why duplicates are not believed, or have other values than the old chunks."""
    try:
        found = list(duplicates_in(footer, file=file))
    except CorruptError as error:
        yield error.problem
        return
    for index, column, duplicate in found:
        if duplicate.doubt == UNKNOWN:
            continue
        leaf, chunk = footer.leaves[column], footer.row_groups[index].chunks[column]
        doubt = duplicate.doubt
        if duplicate.record is not None and is_encodable(leaf):
            doubt = _difference(read, duplicate.record, footer, leaf, chunk, file)
        if doubt is not None:
            field = f"duplicate chunk of column {leaf.dotted_path!r} of row group {index}"
            yield Problem(file, field, chunk.offset_bytes, "the values of the chunk in another encoding", doubt)


def _difference(
    read: ReadBytes, record: DuplicateTail, footer: ParquetFooter, leaf: SchemaLeaf, chunk: ColumnChunk, file: str
) -> str | None:
    """Return why a duplicate has not the values of its chunk; None also if that itself is damaged."""
    made = _duplicate_values(read, record, footer, leaf, chunk, file)
    if isinstance(made, str):
        return made
    with suppress(ProblemError):
        if not is_same(made, _old_values(read, leaf, chunk, file), leaf.physical_type):
            return "its values are others"
    return None


def is_new_alone(chunk: ColumnChunk) -> bool:
    """Return whether a chunk itself is in a new encoding."""
    return not NEW_ENCODINGS.isdisjoint(chunk.encodings)


def read_chunk_values(read: ReadBytes, footer: ParquetFooter, row_group: int, column: int, *, file: str) -> ChunkValues:
    """Return the values of a chunk, in the new encoding if it has one beyond doubt, else in the old one.

    Raises CorruptError, UnsupportedError for columns that cannot be in a new encoding, IndexError for no such chunk.
    """
    if not 0 <= row_group < len(footer.row_groups) or not 0 <= column < len(footer.leaves):
        raise IndexError(f"there is no column {column} of row group {row_group}")
    leaf, chunk = footer.leaves[column], footer.row_groups[row_group].chunks[column]
    if not is_encodable(leaf) or chunk.file_path:
        expected = "a column of doubles, floats or integers, not in lists, in the file itself"
        raise UnsupportedError(file, "columns", chunk.offset_bytes, expected, leaf.dotted_path)
    found = duplicate_of(meta_data_of(footer, row_group, column), file=file)
    if is_new_alone(chunk):
        at = chunk.data_page_offset
        content = read(_bounded(chunk.total_compressed_size, file, chunk), at)
        values = _new_values(content, leaf, chunk, at, file)
        return ChunkValues(values=values, source=ChunkSource.ALONE)
    doubt = found.doubt
    if found.record is not None:
        made = _duplicate_values(read, found.record, footer, leaf, chunk, file)
        if not isinstance(made, str):
            return ChunkValues(values=made, source=ChunkSource.DUPLICATE)
        doubt = made
    return ChunkValues(values=_old_values(read, leaf, chunk, file), source=ChunkSource.OLD, doubt=doubt)


def read_column_values(read: ReadBytes, footer: ParquetFooter, name: str, *, file: str) -> ColumnValues:
    """Return a column by its dotted path; raises as `read_chunk_values`, and UsageError for no such column."""
    column = next((index for index, leaf in enumerate(footer.leaves) if leaf.dotted_path == name), None)
    if column is None:
        raise UsageError(f"{file}: it has no column {name!r}")
    found = [read_chunk_values(read, footer, index, column, file=file) for index in range(len(footer.row_groups))]
    kind = KINDS.get(footer.leaves[column].physical_type)
    return ColumnValues(
        values=pa.chunked_array([each.values for each in found], kind and kind.arrow),
        sources=tuple(each.source for each in found),
        doubts=tuple(each.doubt for each in found),
    )


def _duplicate_values(
    read: ReadBytes, record: DuplicateTail, footer: ParquetFooter, leaf: SchemaLeaf, chunk: ColumnChunk, file: str
) -> pa.Array | str:
    """Return the values of a duplicate, or a doubt."""
    if record.encoding != KINDS[leaf.physical_type].encoding:
        return f"its encoding is {record.encoding}"
    content = duplicate_content(read, record, footer)
    if isinstance(content, str):
        return content
    try:
        return _new_values(content, leaf, chunk, record.chunk_offset, file)
    except ProblemError as error:
        return f"its pages do not decode: {error.problem.field}"


def _new_values(content: bytes, leaf: SchemaLeaf, chunk: ColumnChunk, offset_bytes: int, file: str) -> pa.Array:
    return decode_pages(
        content,
        leaf.physical_type,
        chunk.num_values,
        is_optional=bool(leaf.max_def),
        file=file,
        offset_bytes=offset_bytes,
    )


def _bounded(size_bytes: int, file: str, chunk: ColumnChunk) -> int:
    if size_bytes > limits.CHUNK_LIMIT_BYTES:
        expected = f"at most {limits.CHUNK_LIMIT_BYTES} bytes"
        raise UnsupportedError(file, "total_compressed_size", chunk.offset_bytes, expected, size_bytes)
    return size_bytes


def _old_values(read: ReadBytes, leaf: SchemaLeaf, chunk: ColumnChunk, file: str) -> pa.Array:
    """Decode a chunk as that of a table's column with the same physical type, without what Parquet makes of it."""
    column = Column(
        name=leaf.dotted_path,
        id=0,
        type=STAND_INS[leaf.physical_type],
        flags=0,
        fixed_byte_len=0,
        physical_type=leaf.physical_type,
        max_rep_level=leaf.max_rep,
        max_def_level=leaf.max_def,
    )
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    stand_in = Chunk(
        codec=chunk.codec,
        encodings=encodings_mask(chunk.encodings) or 0,
        num_values=chunk.num_values,
        byte_range_start=start,
        total_compressed=chunk.total_compressed_size,
        null_count=None,
        distinct_count=None,
        minimum=None,
        maximum=None,
    )
    return decode_chunk(read(_bounded(chunk.total_compressed_size, file, chunk), start), column, stand_in, file=file)
