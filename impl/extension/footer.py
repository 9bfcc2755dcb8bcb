"""The footer of any Parquet file: by preference its FlatBuffers form, which is believed only without any doubt.

Of a file with both, unknown or damaged FlatBuffers are a doubt, and the Thrift footer is read instead. If both are
whole and contradict each other, one of them is damaged or of another version of the file, and the file is rejected.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import msgspec

from tornproof.impl.errors import CorruptError, Problem
from tornproof.impl.extension.point import FORMS as ID_FORMS
from tornproof.impl.extension.point import HeaderForm, append_extension, extension_of, start_in_reverse
from tornproof.impl.layout.parquet import FINAL_MAGIC, ExtensionTail, FinalTail, FooterForm
from tornproof.impl.layout.record import Buffer
from tornproof.impl.parquet.fields import FILE_META_DATA
from tornproof.impl.parquet.footer import (
    TAIL_SIZE_BYTES,
    ParquetFooter,
    decode_footer,
    file_tail,
    read_footer_tail,
)
from tornproof.impl.parquet.thrift import STOP, Struct, decode, structs_in
from tornproof.impl.storage.checksum import crc32, large_crc32

if TYPE_CHECKING:
    from tornproof.impl.extension.chunks import ChunkFacts
    from tornproof.impl.extension.decode import FlatFooter

ReadBytes: TypeAlias = Callable[[int, int], bytes]
"""Reads `size_bytes` from `offset_bytes` of a file, fewer at its end."""
ReadViews: TypeAlias = Callable[[int, int], bytes | memoryview]
"""The same, or gives views of a file that is mapped."""
FINAL_SIZE_MIN_BYTES = len(FINAL_MAGIC) + FinalTail.layout.size_bytes
SIZE_BYTES, UUID_SIZE_BYTES = 4, 16


UUIDS = {
    FooterForm.PRIVATE: UUID("a4b886be-ba3c-4b3a-bc9d-1614d5de3ebf").bytes,
    FooterForm.MIGRATION: UUID("fe59266f-ff74-4af8-bf0a-cedfd250dc60").bytes,
}
"""The identities of our extensions, chosen for this project."""
FORMS = {uuid: form for form, uuid in UUIDS.items()}


class Source(enum.StrEnum):
    """Which footer the answers come from."""

    FLATBUFFERS = "FlatBuffers"
    THRIFT = "Thrift"


class FileFooter(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The footer of a file: its form, where it starts, and what the answers come from.

    `flat` is None where they come from Thrift, and `doubt` says why, if the file has an extension. `header` is how the
    extension's field id is encoded; `thrift_bytes` are those of the Thrift footer without it, None in the final form.
    """

    file: str
    form: FooterForm
    offset_bytes: int
    flat: FlatFooter | None = None
    doubt: str | None = None
    header: HeaderForm | None = None
    thrift_bytes: bytes | None = None

    @property
    def source(self) -> Source:
        """Which footer the answers come from."""
        return Source.THRIFT if self.flat is None else Source.FLATBUFFERS

    def thrift(self) -> bytes:
        """Return the Thrift footer without an extension, which of the final form is made again; raises CorruptError."""
        if self.thrift_bytes is not None:
            return self.thrift_bytes
        assert self.flat is not None
        return self.flat.thrift()

    def decoded(self) -> ParquetFooter:
        """Return the whole footer; raises CorruptError, UnsupportedError."""
        return self._decoded

    @functools.cached_property
    def _decoded(self) -> ParquetFooter:
        made = self.thrift() if self.flat is None else self.flat.thrift()
        return decode_footer(made, file=self.file, offset_bytes=self.offset_bytes)

    def chunk(self, row_group: int, column: int) -> ChunkFacts:
        """Return what the schema of FlatBuffers says of a chunk; raises IndexError, CorruptError, UnsupportedError.

        From FlatBuffers it takes the same time for any number of chunks; a Thrift footer is decoded at the first one.
        """
        if self.flat is not None:
            return self.flat.chunk(row_group, column)
        from tornproof.impl.extension.chunks import chunk_facts
        from tornproof.impl.extension.encode import FILE, GROUP

        footer = self._decoded
        groups = structs_in(footer.tree, FILE["row_groups"])
        if not 0 <= row_group < len(groups) or not 0 <= column < len(footer.leaves):
            raise IndexError(f"there is no column {column} of row group {row_group}")
        chunk = structs_in(groups[row_group], GROUP["columns"])[column]
        return chunk_facts(chunk, footer.leaves[column].physical_type, footer.row_groups[row_group].num_rows)


def footer_tail(thrift: bytes, form: FooterForm, *, file: str, header: HeaderForm = HeaderForm.PLAIN) -> bytes:
    """Return the end of a file in a form, from the start of its footer; `thrift` is its Thrift footer.

    Raises what making FlatBuffers of it raises.
    """
    if form is FooterForm.FINAL:
        flat = _flatbuffer_of(thrift, file)
        return flat + FinalTail(**checksums(flat), magic=FINAL_MAGIC).pack()
    return file_tail(extended_footer(thrift, form, file=file, header=header))


def extended_footer(thrift: bytes, form: FooterForm, *, file: str, header: HeaderForm = HeaderForm.PLAIN) -> bytes:
    """Return an encoded Thrift footer with the extension of a form, or as it is for that of Thrift alone."""
    if form is FooterForm.THRIFT:
        return thrift
    content = extension_content(_flatbuffer_of(thrift, file), form)
    return append_extension(thrift, content, header)


def _flatbuffer_of(thrift: bytes, file: str) -> bytes:
    # FlatBuffers are imported where a file has or gets them, because most files and commands have none.
    from tornproof.impl.extension.encode import flatbuffer_of

    return flatbuffer_of(thrift, file=file)


def _flat_footer(content: bytes | memoryview, file: str) -> FlatFooter:
    from tornproof.impl.extension.decode import FlatFooter

    return FlatFooter(content, file=file)


def form_of_extension(footer: Struct) -> FooterForm:
    """Return the form that the extension of a decoded footer claims by its UUID, without believing it."""
    for each in footer.fields:
        if each.id in ID_FORMS and isinstance(each.value, bytes) and each.value[-UUID_SIZE_BYTES:] in FORMS:
            return FORMS[each.value[-UUID_SIZE_BYTES:]]
    return FooterForm.THRIFT


def extension_content(flat: bytes, form: FooterForm) -> bytes:
    """Return the content of an extension with a FlatBuffers footer."""
    return flat + ExtensionTail(**checksums(flat), uuid=UUIDS[form]).pack()


def checksums(flat: Buffer) -> dict[str, int]:
    """Return the fields that both tails have of a FlatBuffers footer."""
    size = len(flat).to_bytes(SIZE_BYTES, "little")
    return {"flatbuffer_crc": large_crc32(flat), "flatbuffer_size": len(flat), "size_crc": crc32(size)}


def read_file_footer(read: ReadViews, size_bytes: int, *, file: str) -> FileFooter:
    """Return the footer of a file of `size_bytes`; raises CorruptError, UnsupportedError.

    Views are copied only of a Thrift footer: the FlatBuffers of the final form stay where `read` has them.
    """
    ending = read(len(FINAL_MAGIC), max(size_bytes - len(FINAL_MAGIC), 0))
    if ending == FINAL_MAGIC and size_bytes >= FINAL_SIZE_MIN_BYTES:
        return _final_footer(read, size_bytes, file)
    tail = read(TAIL_SIZE_BYTES, max(size_bytes - TAIL_SIZE_BYTES, 0))
    offset_bytes, length_bytes = read_footer_tail(tail, file=file, token=size_bytes)
    return split_extended_footer(bytes(read(length_bytes, offset_bytes)), file=file, offset_bytes=offset_bytes)


def _final_footer(read: ReadViews, size_bytes: int, file: str) -> FileFooter:
    at = size_bytes - FinalTail.layout.size_bytes
    tail = FinalTail.unpack(read(FinalTail.layout.size_bytes, at), 0, file=file)
    position = FinalTail.at(file, at)
    expected = crc32(tail.flatbuffer_size.to_bytes(SIZE_BYTES, "little"))
    if tail.size_crc != expected:
        raise position.corrupt("size_crc", expected, tail.size_crc)
    if tail.flatbuffer_size > at - len(FINAL_MAGIC):
        raise position.corrupt("flatbuffer_size", f"at most {at - len(FINAL_MAGIC)}", tail.flatbuffer_size)
    content = read(tail.flatbuffer_size, at - tail.flatbuffer_size)
    if large_crc32(content) != tail.flatbuffer_crc:
        raise position.corrupt("flatbuffer_crc", large_crc32(content), tail.flatbuffer_crc)
    flat = _flat_footer(content, file)
    return FileFooter(file=file, form=FooterForm.FINAL, offset_bytes=at - tail.flatbuffer_size, flat=flat)


def split_extended_footer(
    content: bytes, *, file: str, offset_bytes: int, decoded: ParquetFooter | None = None
) -> FileFooter:
    """Return a Thrift footer and the FlatBuffers footer in its extension, if it has one and that is beyond doubt.

    It is found from the end; `decoded` is what decoding `content` forward gave, if that was done. Raises CorruptError
    if both are whole and contradict each other.
    """
    size_bytes = ExtensionTail.layout.size_bytes
    start = len(content) - 1 - size_bytes
    tail = ExtensionTail.unpack(content, start, file=file) if start >= 0 and content[-1] == STOP else None
    form = FORMS.get(tail.uuid) if tail else None
    if tail is None or form is None:
        return _by_thrift(content, file, offset_bytes, FooterForm.THRIFT, "its UUID is unknown", decoded)
    if tail.size_crc != crc32(tail.flatbuffer_size.to_bytes(SIZE_BYTES, "little")):
        return _by_thrift(content, file, offset_bytes, form, "the checksum of its size is wrong", decoded)
    flat_size_bytes = tail.flatbuffer_size
    if flat_size_bytes > start:
        return _by_thrift(content, file, offset_bytes, form, "its size is larger than the footer", decoded)
    flat = memoryview(content)[start - flat_size_bytes : start]
    is_whole = large_crc32(flat) == tail.flatbuffer_crc
    found = start_in_reverse(content, flat_size_bytes + size_bytes)
    if found is None:
        if is_whole:
            at = offset_bytes + start - flat_size_bytes
            raise CorruptError(file, "extension", at, "the header of a binary field 32767 before it", "other bytes")
        doubt = "its checksum is wrong, and no header is before it"
        return _by_thrift(content, file, offset_bytes, form, doubt, decoded)
    thrift_size_bytes, header = found
    thrift = content[:thrift_size_bytes] + bytes([STOP])
    if not is_whole:
        return _doubted(thrift, file, offset_bytes, form, "its checksum is wrong", header)
    try:
        footer = _flat_footer(flat, file)
        identity = footer.thrift_identity()
    except CorruptError as error:
        return _doubted(thrift, file, offset_bytes, form, f"it is no such footer: {error.problem.field}", header)
    if identity is None:
        return _doubted(thrift, file, offset_bytes, form, "it does not say of which Thrift footer it is", header)
    if identity != (len(thrift), large_crc32(thrift)):
        expected = f"{identity[0]} bytes with checksum {identity[1]}, of which the FlatBuffers footer was made"
        actual = f"{len(thrift)} bytes with checksum {large_crc32(thrift)}"
        raise CorruptError(file, "Thrift footer", offset_bytes, expected, actual)
    return FileFooter(file=file, form=form, offset_bytes=offset_bytes, flat=footer, header=header, thrift_bytes=thrift)


def extension_problems(
    content: bytes, *, file: str, offset_bytes: int, decoded: ParquetFooter | None = None
) -> list[Problem]:
    """Return why the FlatBuffers footer in a Thrift footer's extension, if there is one of ours, is not the same."""
    try:
        found = split_extended_footer(content, file=file, offset_bytes=offset_bytes, decoded=decoded)
        if found.flat is not None:
            found.flat.thrift()
    except CorruptError as error:
        return [error.problem]
    if found.doubt is None or found.form is FooterForm.THRIFT:
        return []
    return [Problem(file, "extension", offset_bytes, f"a FlatBuffers footer of the {found.form} form", found.doubt)]


def _doubted(
    thrift: bytes, file: str, offset_bytes: int, form: FooterForm, doubt: str, header: HeaderForm | None
) -> FileFooter:
    return FileFooter(file=file, form=form, offset_bytes=offset_bytes, doubt=doubt, header=header, thrift_bytes=thrift)


def _by_thrift(
    content: bytes, file: str, offset_bytes: int, form: FooterForm, doubt: str, decoded: ParquetFooter | None
) -> FileFooter:
    """Return the footer of a struct that is read forward, for an extension that is not found from the end."""
    if decoded is None:
        tree, end = decode(content, file=file, offset_bytes=offset_bytes, path_of=FILE_META_DATA.path_text)
    else:
        tree, end = decoded.tree, decoded.length_bytes
    found = extension_of(tree, file=file)
    if found is None:
        return FileFooter(file=file, form=FooterForm.THRIFT, offset_bytes=offset_bytes, thrift_bytes=content)
    thrift = content[: found.offset_bytes - offset_bytes] + content[end - 1 :]
    return _doubted(thrift, file, offset_bytes, form, doubt, found.form)
