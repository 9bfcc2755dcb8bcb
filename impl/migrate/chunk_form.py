"""A Parquet file with its columns of numbers in a new encoding too, or in that alone, and back to how it was."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

import msgspec

from tornproof.impl.chunk.duplicate_pages import KINDS, encode_pages, is_encodable
from tornproof.impl.chunk.duplicate_values import is_new_alone, read_chunk_values
from tornproof.impl.chunk.duplicates import ChunkForm, NewChunk, duplicates_in, with_duplicate
from tornproof.impl.errors import CorruptError, UsageError
from tornproof.impl.extension.footer import ReadBytes
from tornproof.impl.layout.encodings import DuplicateTail, FormerTail
from tornproof.impl.migrate.chunk_layout import ChunkLayout, Moves, New, Span, lay_out_former, span_of
from tornproof.impl.parquet.arrow_writer import CHUNK, FOOTER, GROUP, META, meta_of, moved_index, with_meta
from tornproof.impl.parquet.fields import OFFSET_INDEX, Codec, PageEncoding
from tornproof.impl.parquet.footer import ParquetFooter, decode_footer
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import (
    BrokenError,
    Field,
    Items,
    Kind,
    Struct,
    decode,
    encode,
    path_text,
    struct_list,
    structs_in,
    value_of,
    with_fields,
    without,
    without_padding,
)
from tornproof.impl.storage.checksum import large_crc32

PART_SIZE_BYTES = 1 << 20
FORMER_SIZE_BYTES = FormerTail.layout.size_bytes
BLOOM_OFFSET = (META["bloom_filter_offset"],)
MOVED_OF_META = (
    *BLOOM_OFFSET,
    *(META[name] for name in ("data_page_offset", "index_page_offset", "dictionary_page_offset")),
)
MOVED_OF_CHUNK = tuple(CHUNK[name] for name in ("file_offset", "column_index_offset"))
NOT_OF_NEW = tuple(META[name] for name in ("index_page_offset", "dictionary_page_offset", "encoding_stats"))
INDEX_IDS = tuple(CHUNK[f"{name}_index_{what}"] for name in ("offset", "column") for what in ("offset", "length"))


class PlainFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose footer is Thrift without extension: its pages by `read`, and its footer behind them."""

    file: str
    read: ReadBytes
    thrift: bytes
    footer: ParquetFooter

    @classmethod
    def of(cls, read: ReadBytes, thrift: bytes, *, offset_bytes: int, file: str) -> PlainFile:
        """Return the file whose footer is at an offset; raises CorruptError, UnsupportedError."""
        return cls(
            file=file, read=read, thrift=thrift, footer=decode_footer(thrift, file=file, offset_bytes=offset_bytes)
        )

    def parts(self, spans: Iterator[Span] | None = None) -> Iterator[bytes]:
        """Yield the bytes of spans, by default of all before the footer, in parts."""
        for span in spans or iter([Span(0, self.footer.offset_bytes)]):
            for start in range(span.start, span.end, PART_SIZE_BYTES):
                yield self.read(min(PART_SIZE_BYTES, span.end - start), start)


def duplicates_of(plain: PlainFile) -> Mapping[New, DuplicateTail]:
    """Return the records of all duplicates that are beyond doubt; raises CorruptError."""
    found = duplicates_in(plain.footer, file=plain.file)
    return {New(index, column): each.record for index, column, each in found if each.record is not None}


def chunk_form_of(plain: PlainFile) -> ChunkForm:
    """Return in which encodings the file's numbers are; raises CorruptError."""
    if any(is_new_alone(chunk) for group in plain.footer.row_groups for chunk in group.chunks):
        return ChunkForm.ALP_ALONE
    return ChunkForm.ALP if duplicates_of(plain) else ChunkForm.OLD


def former_file(plain: PlainFile) -> PlainFile:
    """Return the file as it was before its chunks got duplicates, or as it is if they have none.

    Raises CorruptError, UnsupportedError, and UsageError if there is no way back.
    """
    form = chunk_form_of(plain)
    if form is ChunkForm.OLD:
        return plain
    records = duplicates_of(plain)
    ends = {record.former_end for record in records.values()}
    if form is ChunkForm.ALP_ALONE or ends == {0}:
        why = "the chunks that it had before are gone" if form is ChunkForm.ALP_ALONE else "a table's writer made them"
        raise UsageError(f"{plain.file}: its chunks cannot be as they were: {why}")
    if len(ends) != 1 or not FORMER_SIZE_BYTES <= min(ends) <= plain.footer.offset_bytes:
        raise CorruptError(plain.file, "former_end", None, f"one, before byte {plain.footer.offset_bytes}", ends)
    tail_at = min(ends) - FORMER_SIZE_BYTES
    tail = FormerTail.unpack(plain.read(FORMER_SIZE_BYTES, tail_at), 0, file=plain.file)
    at = max(tail_at - tail.footer_length, 0)
    thrift = plain.read(tail_at - at, at)
    if large_crc32(thrift) != tail.footer_crc:
        raise FormerTail.at(plain.file, tail_at).corrupt("footer_crc", large_crc32(thrift), tail.footer_crc)
    sizes = {chunk: record.chunk_length for chunk, record in records.items()}
    former = decode_footer(thrift, file=plain.file, offset_bytes=at - sum(sizes.values()))
    shapes = [(len(each.row_groups), len(each.leaves)) for each in (former, plain.footer)]
    if shapes[0] != shapes[1]:
        raise CorruptError(plain.file, "former footer", at, "as many row groups and columns as now", shapes[0])
    layout = lay_out_former(former, sizes, file=plain.file)
    moves = Moves(layout.moves)
    starts = {chunk: record.chunk_offset for chunk, record in records.items()}
    if layout.new_starts != starts or layout.position != at:
        raise CorruptError(plain.file, "chunk_offset", None, "the duplicates of the file as it was", "others")

    def read(size_bytes: int, offset_bytes: int) -> bytes:
        wanted = Span(offset_bytes, min(offset_bytes + size_bytes, former.offset_bytes))
        return b"".join(itertools.starmap(plain.read, moves.pieces(wanted)))

    return PlainFile(file=plain.file, read=read, thrift=thrift, footer=former)


def _former_tail(thrift: bytes) -> bytes:
    return thrift + FormerTail(footer_length=len(thrift), footer_crc=large_crc32(thrift)).pack()


class ChunkChange(msgspec.Struct, kw_only=True):
    """A file on its way to another form of its chunks.

    When all `parts` were taken, `thrift` is the footer that belongs behind them, at `end_bytes`.
    """

    old: PlainFile
    form: ChunkForm
    chunk_count: int = 0
    end_bytes: int = 0
    thrift: bytes = b""

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes before the footer; raises CorruptError, UnsupportedError, UsageError if nothing changes."""
        old = self.old
        if self.form is ChunkForm.OLD:
            yield from old.parts()
            self.thrift, self.end_bytes = old.thrift, old.footer.offset_bytes
            return
        columns = [index for index, leaf in enumerate(old.footer.leaves) if is_encodable(leaf)]
        if not columns or not old.footer.row_groups:
            raise UsageError(f"{old.file}: it has no chunks of doubles, floats or integers outside of lists")
        is_alone = self.form is ChunkForm.ALP_ALONE
        layout = ChunkLayout(old.footer, file=old.file, dropped=[*_dropped(old.footer, columns)] if is_alone else ())
        new: dict[New, NewChunk] = {}
        for index in layout.order:
            yield from old.parts(layout.before(index))
            for column in columns:
                content = self._encoded(New(index, column))
                new[New(index, column)] = NewChunk.of(content, KINDS[old.footer.leaves[column].physical_type].encoding)
                layout.new(New(index, column), len(content))
                yield content
            yield from old.parts(layout.group(index, columns))
        yield from old.parts(layout.rest())
        former_tail = b"" if is_alone else _former_tail(old.thrift)
        yield former_tail
        self.chunk_count, self.end_bytes = len(new), layout.position + len(former_tail)
        edit = _FooterEdit(old, layout, new, None if is_alone else self.end_bytes)
        for part in edit.offset_indexes(self.end_bytes):
            yield part
            self.end_bytes += len(part)
        self.thrift = encode(edit.footer())

    def _encoded(self, chunk: New) -> bytes:
        found = read_chunk_values(self.old.read, self.old.footer, *chunk, file=self.old.file)
        leaf = self.old.footer.leaves[chunk.column]
        return encode_pages(found.values, leaf.physical_type, is_optional=bool(leaf.max_def))


def _dropped(footer: ParquetFooter, columns: Collection[int]) -> Iterator[Span]:
    """Yield what a file without old chunks does not need: these, their column indexes, and all offset indexes."""
    for group in footer.row_groups:
        for column, chunk in enumerate(group.chunks):
            yield from _spans(chunk.offset_index_offset, chunk.offset_index_length)
            if column in columns:
                yield span_of(chunk)
                yield from _spans(chunk.column_index_offset, chunk.column_index_length)


def _spans(start: int | None, length: int | None) -> Iterator[Span]:
    if start and length:
        yield Span(start, start + length)


class _FooterEdit:
    """The footer of a file whose chunks were moved, from the one that it had.

    `former_end` is where the file as it was ends, None if it is gone.
    """

    def __init__(
        self, old: PlainFile, layout: ChunkLayout, new: Mapping[New, NewChunk], former_end: int | None
    ) -> None:
        self._old, self._new, self._former_end = old, new, former_end
        self._starts, self._moves = layout.new_starts, Moves(layout.moves)
        self._indexes: dict[New, Span] = {}

    def offset_indexes(self, position: int) -> Iterator[bytes]:
        """Yield offset indexes for the pages where they are now, which start at a position."""
        for index, group in enumerate(self._old.footer.row_groups):
            for column, chunk in enumerate(group.chunks):
                key = New(index, column)
                if not chunk.offset_index_offset or not chunk.offset_index_length or self._is_replaced(key):
                    continue
                content = self._old.read(chunk.offset_index_length, chunk.offset_index_offset)
                found, _ = decode(content, file=self._old.file, offset_bytes=chunk.offset_index_offset)
                try:
                    read(found, OFFSET_INDEX)
                except BrokenError as error:
                    error.report(self._old.file, path_text)
                start = span_of(chunk).start
                part = encode(moved_index(found, self._moves(start) - start))
                self._indexes[key] = Span(position, position + len(part))
                position += len(part)
                yield part

    def footer(self) -> Struct:
        """Return the footer."""
        tree = without_padding(self._old.footer.tree)
        groups = [self._group(index, each) for index, each in enumerate(structs_in(tree, FOOTER["row_groups"]))]
        return with_fields(tree, struct_list(FOOTER["row_groups"], groups))

    def _is_replaced(self, key: New) -> bool:
        return self._former_end is None and key in self._new

    def _group(self, index: int, group: Struct) -> Struct:
        chunks = self._old.footer.row_groups[index].chunks
        columns = [
            self._chunk(New(index, column), each) for column, each in enumerate(structs_in(group, GROUP["columns"]))
        ]
        changes = [struct_list(GROUP["columns"], columns)]
        starts = [span_of(chunk).start for chunk in chunks]
        if value_of(group, GROUP["file_offset"]) == min(starts):
            first = min(
                self._starts[key] if self._is_replaced(key) else self._moves(start)
                for column, start in enumerate(starts)
                for key in (New(index, column),)
            )
            changes.append(Field(GROUP["file_offset"], Kind.I64, first))
        if self._former_end is None:
            for name, what in (("total_byte_size", "uncompressed"), ("total_compressed_size", "compressed")):
                if value_of(group, GROUP[name]) is not None:
                    sizes = [
                        self._new[key].size_bytes if key in self._new else getattr(chunk, f"total_{what}_size")
                        for column, chunk in enumerate(chunks)
                        for key in (New(index, column),)
                    ]
                    changes.append(Field(GROUP[name], Kind.I64, sum(sizes)))
        return with_fields(group, *changes)

    def _chunk(self, key: New, chunk: Struct) -> Struct:
        meta = meta_of(chunk)
        if self._is_replaced(key):
            chunk = without(chunk, *INDEX_IDS)
            if value_of(chunk, CHUNK["file_offset"]):
                chunk = with_fields(chunk, Field(CHUNK["file_offset"], Kind.I64, self._starts[key]))
            return with_meta(chunk, self._new_meta(meta, self._new[key], self._starts[key]))
        chunk, meta = self._moved(chunk, MOVED_OF_CHUNK), self._moved(meta, MOVED_OF_META)
        if key in self._indexes:
            start, end = self._indexes[key]
            chunk = with_fields(
                chunk,
                Field(CHUNK["offset_index_offset"], Kind.I64, start),
                Field(CHUNK["offset_index_length"], Kind.I32, end - start),
            )
        if key in self._new:
            assert self._former_end is not None
            meta = with_duplicate(meta, self._new[key], self._starts[key], former_end=self._former_end)
        return with_meta(chunk, meta)

    def _new_meta(self, meta: Struct, new: NewChunk, start: int) -> Struct:
        sizes = (("total_uncompressed_size", new.size_bytes), ("total_compressed_size", new.size_bytes))
        encodings = Items(Kind.I32, (new.encoding, PageEncoding.RLE))
        return with_fields(
            without(self._moved(meta, BLOOM_OFFSET), *NOT_OF_NEW),
            Field(META["encodings"], Kind.LIST, encodings),
            Field(META["codec"], Kind.I32, Codec.UNCOMPRESSED),
            Field(META["data_page_offset"], Kind.I64, start),
            *(Field(META[name], Kind.I64, size) for name, size in sizes),
        )

    def _moved(self, struct: Struct, field_ids: Collection[int]) -> Struct:
        fields = [
            each._replace(value=self._moves(each.value))
            if each.id in field_ids and isinstance(each.value, int) and each.value
            else each
            for each in struct.fields
        ]
        return Struct(tuple(fields), struct.offset_bytes)
