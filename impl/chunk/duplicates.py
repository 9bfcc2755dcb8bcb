"""Column chunks that a file has twice: in an encoding that every reader knows, and in a new one beside it.

An extension of the old chunk's ColumnMetaData leads to the new one. It is believed only without any doubt; else the old
chunk is read. If both are whole and the extension was made for other metadata, one of them is damaged or of another
version of the file, and the chunk is rejected.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.footer import ReadBytes
from tornproof.impl.extension.point import FORMS, extension_of, with_extension, without_extension
from tornproof.impl.layout.encodings import DuplicateTail
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.fields import COLUMN_CHUNK, FILE_META_DATA, ROW_GROUP, PageEncoding, ids_of
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.parquet.thrift import Struct, decode, encode, structs_in, value_of
from tornproof.impl.storage.checksum import crc32, large_crc32

DUPLICATE_UUID = UUID("914dd171-9045-4463-a7ad-a4723a410255").bytes
"""The identity of this extension, chosen for this project."""
RECORD_SIZE_BYTES = DuplicateTail.layout.size_bytes
CHECKED_SIZE_BYTES = DuplicateTail.layout.offset_of("record_crc")
GROUPS, COLUMNS, META = (
    ids_of(table)[name]
    for table, name in ((FILE_META_DATA, "row_groups"), (ROW_GROUP, "columns"), (COLUMN_CHUNK, "meta_data"))
)


class ChunkForm(enum.StrEnum):
    """In which encodings the columns of a file that can be in a new one are."""

    OLD = "old"
    ALP = "alp"
    ALP_ALONE = "alp-alone"


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
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
    def of(cls, content: bytes, encoding: PageEncoding) -> NewChunk:
        """Return the facts of an encoded chunk."""
        return cls(len(content), large_crc32(content), encoding)

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
    return _meta_of(structs_in(structs_in(footer.tree, GROUPS)[row_group], COLUMNS)[column])


def has_duplicates(footer: ParquetFooter) -> bool:
    """Return whether any chunk has an extension, which may lead to a duplicate."""
    return any(True for _ in _extended(footer))


def duplicates_in(footer: ParquetFooter, *, file: str) -> Iterator[tuple[int, int, Duplicate]]:
    """Yield row group, column and what is known of each duplicate; raises CorruptError."""
    for index, column, meta in _extended(footer):
        yield index, column, duplicate_of(meta, file=file)


def _extended(footer: ParquetFooter) -> Iterator[tuple[int, int, Struct]]:
    """Yield row group, column and ColumnMetaData of each chunk that has an extension."""
    for index, group in enumerate(structs_in(footer.tree, GROUPS)):
        for column, meta in enumerate(_metas(group)):
            if any(field.id in FORMS for field in meta.fields):
                yield index, column, meta


def _metas(row_group: Struct) -> Iterator[Struct]:
    yield from map(_meta_of, structs_in(row_group, COLUMNS))


def _meta_of(chunk: Struct) -> Struct:
    meta = value_of(chunk, META)
    assert isinstance(meta, Struct), "a decoded footer has it for each chunk"
    return meta


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


def duplicate_content(read: ReadBytes, record: DuplicateTail, footer: ParquetFooter) -> bytes | str:
    """Return the bytes of a duplicate, or why they are in doubt, without reading more than there are."""
    if record.chunk_offset + record.chunk_length > footer.offset_bytes:
        return "it ends behind the pages"
    if record.chunk_length > limits.CHUNK_LIMIT_BYTES:
        return f"it has more than {limits.CHUNK_LIMIT_BYTES} bytes"
    content = read(record.chunk_length, record.chunk_offset)
    return content if large_crc32(content) == record.chunk_crc else "its checksum is wrong"
