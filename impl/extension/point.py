"""Parquet's extension point: one binary field with the id 32767, the last one of any Thrift struct.

Source: Apache Parquet format, "Binary protocol extensions". Its header bytes, 08 FF FF 01, hold the id as it is, while
Thrift's compact protocol would store it zigzag-encoded as 08 FE FF 03, and reads the former as id -16384. Both are read
here, and told apart; the documented bytes are written.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.thrift import STOP, Field, Kind, Padded, Struct, put_varint, zigzag

EXTENSION_SIZE_MAX_BYTES = (1 << 31) - 1
"""Thrift's lengths of binaries are signed 32-bit integers."""
ID_WIDTH_BYTES = 3


class HeaderForm(enum.Enum):
    """How the field id 32767 is encoded; the value is the id that a Thrift decoder reads."""

    PLAIN = -16384
    ZIGZAG = 32767

    def header(self, content_size_bytes: int) -> bytes:
        """Return the bytes before the content: type, id, length."""
        out = bytearray([Kind.BINARY])
        put_varint(out, zigzag(self.value), ID_WIDTH_BYTES)
        put_varint(out, content_size_bytes, 1)
        return bytes(out)

    def field(self, content: bytes) -> Field:
        """Return the field with this content."""
        return Field(self.value, Kind.BINARY, content, id_width_bytes=ID_WIDTH_BYTES)


FORMS = {form.value: form for form in HeaderForm}


class Extension(NamedTuple):
    """An extension of a struct: its content, how its id is encoded, and the position of its field in the file."""

    content: bytes
    form: HeaderForm
    offset_bytes: int


def extension_of(struct: Struct, *, file: str) -> Extension | None:
    """Return the extension of a decoded struct; raises CorruptError if it is not the last field."""
    for index, field in enumerate(struct.fields):
        if field.id in FORMS and field.kind == Kind.BINARY:
            if index + 1 < len(struct.fields):
                after = f"{len(struct.fields) - index - 1} more"
                raise CorruptError(file, "extension", field.offset_bytes, "the last field of its struct", after)
            content = field.value.value if isinstance(field.value, Padded) else field.value
            assert isinstance(content, bytes)
            return Extension(content, FORMS[field.id], field.offset_bytes)
    return None


def with_extension(struct: Struct, content: bytes, form: HeaderForm = HeaderForm.PLAIN) -> Struct:
    """Return the struct with an extension, which replaces the one that it has."""
    assert len(content) <= EXTENSION_SIZE_MAX_BYTES
    return Struct((*without_extension(struct).fields, form.field(content)), struct.offset_bytes)


def without_extension(struct: Struct) -> Struct:
    """Return the struct without its extension."""
    kept = tuple(field for field in struct.fields if field.id not in FORMS or field.kind != Kind.BINARY)
    return Struct(kept, struct.offset_bytes)


def append_extension(encoded: bytes, content: bytes, form: HeaderForm = HeaderForm.PLAIN) -> bytes:
    """Return an encoded struct, which has no extension, with one; nothing before its stop byte changes."""
    assert encoded[-1] == STOP and len(content) <= EXTENSION_SIZE_MAX_BYTES
    return encoded[:-1] + form.header(len(content)) + content + bytes([STOP])


def start_in_reverse(encoded: bytes, content_size_bytes: int) -> tuple[int, HeaderForm] | None:
    """Return where the field of an extension of that size starts, which ends an encoded struct, and its form.

    It is found from the end, without decoding what precedes it; None if there is no such header.
    """
    for form in HeaderForm:
        header = form.header(content_size_bytes)
        start = len(encoded) - 1 - content_size_bytes - len(header)
        if start >= 0 and encoded[-1] == STOP and encoded.startswith(header, start):
            return start, form
    return None
