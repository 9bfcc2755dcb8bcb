"""Column chunks that a file has twice: in an encoding that every reader knows, and in a new one beside it.

An extension of the old chunk's ColumnMetaData leads to the new one. It is believed only without any doubt; else the old
chunk is read. If both are whole and the extension was made for other metadata, one of them is damaged or of another
version of the file, and the chunk is rejected.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from tornproof.impl import limits
from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.chunk.duplicate_pages import KINDS, NEW_ENCODINGS, decode_pages, is_encodable, is_same
from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError, UsageError
from tornproof.impl.extension.footer import ReadBytes
from tornproof.impl.extension.point import FORMS, extension_of, with_extension, without_extension
from tornproof.impl.layout.encodings import DuplicateTail
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.fields import COLUMN_CHUNK, FILE_META_DATA, ROW_GROUP, PageEncoding, ids_of
from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.parquet.schema import SchemaLeaf
from tornproof.impl.parquet.thrift import Items, Struct, decode, encode, value_of
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.pm.header import Column
from tornproof.impl.storage.checksum import crc32, large_crc32
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag

DUPLICATE_UUID = UUID("914dd171-9045-4463-a7ad-a4723a410255").bytes
"""The identity of this extension, chosen for this project."""
RECORD_SIZE_BYTES = DuplicateTail.layout.size_bytes
CHECKED_SIZE_BYTES = DuplicateTail.layout.offset_of("record_crc")
GROUPS, COLUMNS, META = (
    ids_of(table)[name]
    for table, name in ((FILE_META_DATA, "row_groups"), (ROW_GROUP, "columns"), (COLUMN_CHUNK, "meta_data"))
)
STAND_INS = {
    PhysicalType.DOUBLE: TypeTag.DOUBLE,
    PhysicalType.FLOAT: TypeTag.FLOAT,
    PhysicalType.INT64: TypeTag.LONG,
    PhysicalType.INT32: TypeTag.INT,
}


class ChunkForm(enum.StrEnum):
    """In which encodings the columns of a file that can be in a new one are."""

    OLD = "old"
    ALP = "alp"
    ALP_ALONE = "alp-alone"


class ChunkSource(enum.StrEnum):
    """Which chunk the values come from."""

    OLD = "the old encoding"
    DUPLICATE = "the new encoding, beside the old one"
    ALONE = "the new encoding alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkValues:
    """The values of a chunk, as stored; `doubt` says why they come from the old encoding, if there is another one."""

    values: pa.Array
    source: ChunkSource
    doubt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """The values of a column, and where those of each row group come from."""

    values: pa.ChunkedArray
    sources: tuple[ChunkSource, ...]
    doubts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """The extension of a chunk: its record, or why there is a doubt about it."""

    record: DuplicateTail | None = None
    doubt: str | None = None


NO_DUPLICATE = Duplicate()
UNKNOWN = "its UUID is unknown"


class NewChunk(NamedTuple):
    """What is known of a chunk in a new encoding: its size in bytes, checksum, encoding."""

    size_bytes: int
    crc: int
    encoding: PageEncoding

    @classmethod
    def of(cls, content: bytes, physical_type: PhysicalType) -> NewChunk:
        """Return the facts of an encoded chunk."""
        return cls(len(content), large_crc32(content), KINDS[physical_type].encoding)

    @classmethod
    def as_in(cls, record: DuplicateTail) -> NewChunk:
        """Return what a record says of its chunk."""
        return cls(record.chunk_length, record.chunk_crc, PageEncoding(record.encoding))


def with_duplicate(meta: Struct, new: NewChunk, offset_bytes: int, *, former_end: int = 0) -> Struct:
    """Return a ColumnMetaData, which is final but for its extension, that leads to a duplicate at `offset_bytes`."""
    meta = without_extension(meta)
    record = DuplicateTail(
        chunk_offset=offset_bytes,
        chunk_length=new.size_bytes,
        former_end=former_end,
        chunk_crc=new.crc,
        encoding=new.encoding,
        meta_crc=crc32(encode(meta)),
        record_crc=0,
        uuid=DUPLICATE_UUID,
    ).pack()
    checked = record[:CHECKED_SIZE_BYTES]
    return with_extension(meta, checked + crc32(checked).to_bytes(4, "little") + DUPLICATE_UUID)


def duplicate_of(meta: Struct, *, file: str) -> Duplicate:
    """Return what a decoded ColumnMetaData says of a duplicate; raises CorruptError if it was made for another one."""
    found = extension_of(meta, file=file)
    if found is None:
        return NO_DUPLICATE
    if len(found.content) != RECORD_SIZE_BYTES or not found.content.endswith(DUPLICATE_UUID):
        return Duplicate(doubt=UNKNOWN)
    record = DuplicateTail.unpack(found.content, 0, file=file)
    if record.record_crc != crc32(found.content[:CHECKED_SIZE_BYTES]):
        return Duplicate(doubt="the checksum of its record is wrong")
    actual = crc32(encode(without_extension(meta)))
    if record.meta_crc != actual:
        expected = f"the checksum {record.meta_crc} of the metadata that its duplicate was made for"
        raise CorruptError(file, "ColumnMetaData", meta.offset_bytes, expected, actual)
    return Duplicate(record=record)


def meta_data_of(footer: ParquetFooter, row_group: int, column: int) -> Struct:
    """Return the ColumnMetaData of a chunk that the footer has."""
    struct = footer.tree
    for field_id, index in ((GROUPS, row_group), (COLUMNS, column)):
        items = value_of(struct, field_id)
        assert isinstance(items, Items)
        struct = items.elements[index]  # type: ignore[assignment]
    meta = value_of(struct, META)
    assert isinstance(meta, Struct)
    return meta


def duplicates_in(footer: ParquetFooter, *, file: str) -> Iterator[tuple[int, int, Duplicate]]:
    """Yield row group, column and what is known of each duplicate; raises CorruptError."""
    for index, group in enumerate(structs_in(footer.tree, GROUPS)):
        for column, meta in enumerate(_metas(group)):
            if any(field.id in FORMS for field in meta.fields):
                yield index, column, duplicate_of(meta, file=file)


def structs_in(struct: Struct, field_id: int) -> list[Struct]:
    """Return the structs of a list that a struct has."""
    items = value_of(struct, field_id)
    assert isinstance(items, Items)
    return [element for element in items.elements if isinstance(element, Struct)]


def _metas(row_group: Struct) -> Iterator[Struct]:
    """Yield the ColumnMetaData of a row group, each of which it has."""
    for chunk in structs_in(row_group, COLUMNS):
        meta = value_of(chunk, META)
        assert isinstance(meta, Struct)
        yield meta


def duplicate_bytes_of(row_group: bytes) -> int:
    """Return the bytes of the duplicates of an encoded row group."""
    if DUPLICATE_UUID not in row_group:
        return 0
    return sum(record.chunk_length for record in records_of(row_group).values())


def records_of(row_group: bytes) -> dict[int, DuplicateTail]:
    """Return what an encoded row group says of its duplicates beyond doubt, by column; raises CorruptError."""
    tree, _ = decode(row_group, file=DATA_FILE)
    found = {column: duplicate_of(meta, file=DATA_FILE).record for column, meta in enumerate(_metas(tree))}
    return {column: record for column, record in found.items() if record is not None}


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


def duplicate_content(read: ReadBytes, record: DuplicateTail, footer: ParquetFooter) -> bytes | str:
    """Return the bytes of a duplicate, or why they are in doubt, without reading more than there are."""
    if record.chunk_offset + record.chunk_length > footer.offset_bytes:
        return "it ends behind the pages"
    if record.chunk_length > limits.CHUNK_LIMIT_BYTES:
        return f"it has more than {limits.CHUNK_LIMIT_BYTES} bytes"
    content = read(record.chunk_length, record.chunk_offset)
    return content if large_crc32(content) == record.chunk_crc else "its checksum is wrong"


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
