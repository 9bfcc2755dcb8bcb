"""The pages of one column chunk: their headers, checked before any decompressor allocates the sizes in them.

Sources: parquet.thrift of Apache Parquet format, PageHeader; Compression.md of the same for the codecs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.parquet.fields import PAGE_HEADER, Codec, PageType
from tornproof.impl.parquet.records import Table, read
from tornproof.impl.parquet.thrift import BINARY, BOOL, I16, I64, STRUCT, TRUE, BrokenError, Step, decode
from tornproof.impl.storage.checksum import crc32

DEPTH_MAX = 4
VARINT_SHIFT_MAX = 63

Values: TypeAlias = dict[str, Any]
_Plan: TypeAlias = tuple[dict[int, tuple[str, int, int, int, Any]], frozenset[str]]


def quick_read(data: bytes, position: int, table: Table) -> tuple[Values, int] | None:
    """Return the numbers and structs of `table` at `data[position]` by name, and the position behind its stop byte.

    Binaries, and structs that the table leaves as trees, are skipped. Returns None for anything unusual, which `decode`
    and `read` must judge; otherwise they would return the same numbers.
    """
    try:
        return _struct(data, position, _plan(table), DEPTH_MAX)
    except (IndexError, _UnusualError):
        return None


class _UnusualError(Exception):
    """Something that `quick_read` leaves to the full decoder."""


@functools.cache
def _plan(table: Table) -> _Plan:
    """Return (name, kind, lowest, highest, inner plan) of each member by its id, and the required names."""
    members = {
        id: (
            member.name,
            int(member.form.kind),
            member.form.low,
            member.form.high,
            _plan(member.form.table) if member.form.table is not None and not member.form.as_tree else None,
        )
        for id, member in table.by_id.items()
    }
    return members, frozenset(member.name for member in table.required)


UNKNOWN: _Plan = ({}, frozenset())


def _struct(data: bytes, position: int, plan: _Plan, depth_left: int) -> tuple[Values, int]:
    if not depth_left:
        raise _UnusualError
    members, required = plan
    values: Values = {}
    field_id = 0
    while header := data[position]:
        position += 1
        kind = header & 15
        if header < 16:  # an id that does not follow from the one before
            raise _UnusualError
        field_id += header >> 4
        member = members.get(field_id)
        if I16 <= kind <= I64:
            if (number := data[position]) < 128:
                position += 1
            else:
                number, position = _varint(data, position)
            value: Any = (number >> 1) ^ -(number & 1)
            if member is not None and not member[2] <= value <= member[3]:
                raise _UnusualError
        elif TRUE <= kind <= BOOL:
            value, kind = kind == TRUE, BOOL
        elif kind == BINARY:
            if (length := data[position]) < 128:
                position += 1 + length
            else:
                length, position = _varint(data, position)
                position += length
            value = None
        elif kind == STRUCT:
            inner = (member and member[4]) or UNKNOWN
            value, position = _struct(data, position, inner, depth_left - 1)
        else:
            raise _UnusualError
        if member is not None:
            if member[1] != kind:
                raise _UnusualError
            values[member[0]] = value
    if not required <= values.keys():
        raise _UnusualError
    return values, position + 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    number, shift = byte & 127, 7
    while (byte := data[position := position + 1]) >= 128:
        number |= (byte & 127) << shift
        shift += 7
        if shift >= VARINT_SHIFT_MAX:
            raise _UnusualError
    return number | byte << shift, position + 1


PAGE_SIZE_MAX_BYTES = 64 << 20
HEADER_NODE_COUNT_MAX = 10_000
# Even an empty page has a few bytes of framing, to which the ratio does not apply.
EXPANSION_SLACK_BYTES = 64
EXPANSION_MAX: dict[int, int] = {Codec.SNAPPY: 255, Codec.LZ4: 255, Codec.LZ4_RAW: 255, Codec.GZIP: 1032}
PAGE_TYPES = tuple(PageType)
HEADER_NAMES = {
    PageType.DATA_V1: "data_page_header",
    PageType.DICTIONARY: "dictionary_page_header",
    PageType.DATA_V2: "data_page_header_v2",
}


class PageInfo(msgspec.Struct, frozen=True):
    """One page; its body follows the header. Offsets count from the start of the file.

    The levels of a v2 page are at the start of its body, repetition before definition, and never compressed; both
    lengths are 0 for other pages, whose levels are compressed with the values. `null_count` and `row_count` are known
    for v2 pages only, `level_encodings` for v1 pages.
    """

    kind: PageType
    header_offset_bytes: int
    header_length_bytes: int
    compressed_size_bytes: int
    uncompressed_size_bytes: int
    value_count: int
    encoding: int
    crc: int | None
    is_compressed: bool
    repetition_levels_length_bytes: int
    definition_levels_length_bytes: int
    null_count: int | None
    row_count: int | None
    level_encodings: tuple[int | None, int | None]

    @property
    def body_offset_bytes(self) -> int:
        """Where the body begins in the file."""
        return self.header_offset_bytes + self.header_length_bytes

    @property
    def end_bytes(self) -> int:
        """Where the page ends in the file."""
        return self.body_offset_bytes + self.compressed_size_bytes

    @property
    def levels_length_bytes(self) -> int:
        """How many bytes of the body are v2 levels."""
        return self.repetition_levels_length_bytes + self.definition_levels_length_bytes


def walk_pages(chunk: bytes, *, file: str, offset_bytes: int, codec: int, value_count: int) -> tuple[PageInfo, ...]:
    """Return the dictionary and data pages of a chunk, in order, after checking that pages tile it to its end.

    `chunk` is all of the chunk's bytes, `offset_bytes` its position in `file`, `value_count` the total number of values
    in its data pages. Index pages are checked and left out; page checksums are verified if present. Raises
    CorruptError, or UnsupportedError for pages of an unknown kind or larger than 64 MiB uncompressed.
    """
    found: list[PageInfo] = []
    try:
        found.extend(_pages(chunk, file, offset_bytes, codec))
    except ProblemError:
        # The first problem in the chunk is reported: `found` has the pages before the broken one.
        _check_checksums(chunk, found, file, offset_bytes)
        raise
    _check_checksums(chunk, found, file, offset_bytes)
    pages = tuple([page for page in found if page.kind is not PageType.INDEX])
    count = sum([page.value_count for page in pages if page.kind is not PageType.DICTIONARY])
    if count != value_count:
        raise CorruptError(
            file=file, field="pages", offset_bytes=offset_bytes, expected=f"{value_count} values", actual=count
        )
    return pages


def _pages(chunk: bytes, file: str, offset_bytes: int, codec: int) -> Iterator[PageInfo]:
    """Yield all pages without verifying checksums."""
    position = index = 0
    while position < len(chunk):
        try:
            values, body_position = quick_read(chunk, position, PAGE_HEADER) or _strict_read(
                chunk, position, file, offset_bytes, index
            )
            page = _page(values, body_position, position, offset_bytes, codec)
            if page.kind is PageType.DICTIONARY and position > 0:
                at = page.header_offset_bytes
                raise BrokenError("a dictionary page only at the start", "one more", at, step="type")
            _check_counts(page)
            check_sizes(page, codec)
            position = _end_of_body(len(chunk), body_position, page)
        except BrokenError as error:
            error.report(file, _PagePath(index))
        yield page
        index += 1
        if index > limits.PAGE_COUNT_LIMIT:
            raise UnsupportedError(
                file=file,
                field="pages",
                offset_bytes=offset_bytes,
                expected=f"at most {limits.PAGE_COUNT_LIMIT} in a chunk",
                actual="more",
            )


def _check_checksums(chunk: bytes, pages: Sequence[PageInfo], file: str, offset_bytes: int) -> None:
    view = memoryview(chunk)
    for index, page in enumerate(pages):
        if page.crc is None:
            continue
        found = crc32(view[page.body_offset_bytes - offset_bytes : page.end_bytes - offset_bytes])
        if found != page.crc:
            error = BrokenError(
                f"{found:#010x}, as of the body", f"{page.crc:#010x}", page.header_offset_bytes, step="crc"
            )
            error.report(file, _PagePath(index))


class _PagePath(msgspec.Struct, frozen=True):
    """Names a field of one page header."""

    index: int

    def __call__(self, steps: Sequence[Step]) -> str:
        return f"pages[{self.index}].{PAGE_HEADER.path_text(steps)}"


def _strict_read(chunk: bytes, position: int, file: str, offset_bytes: int, index: int) -> tuple[dict[str, Any], int]:
    header, end = decode(
        chunk,
        file=file,
        offset_bytes=offset_bytes,
        start=position,
        node_count_max=HEADER_NODE_COUNT_MAX,
        path_of=_PagePath(index),
    )
    return read(header, PAGE_HEADER), end


def _page(values: dict[str, Any], body_position: int, position: int, offset_bytes: int, codec: int) -> PageInfo:
    """Return the page with its header at `position` of a chunk at `offset_bytes`, and its body behind that."""
    header_offset_bytes = offset_bytes + position
    kind = PAGE_TYPES[values["type"]]
    inner = {} if kind is PageType.INDEX else values.get(HEADER_NAMES[kind])
    if inner is None:
        raise BrokenError(f"a page of type {kind.name}", "none", header_offset_bytes, step=HEADER_NAMES[kind])
    crc = values.get("crc")
    # Positional, because keyword arguments would take as long as everything else here.
    return PageInfo(
        kind,
        header_offset_bytes,
        body_position - position,
        values["compressed_page_size"],
        values["uncompressed_page_size"],
        inner.get("num_values", 0),
        inner.get("encoding", 0),
        None if crc is None else crc & 0xFFFFFFFF,
        codec != Codec.UNCOMPRESSED and inner.get("is_compressed", True),
        inner.get("repetition_levels_byte_length", 0),
        inner.get("definition_levels_byte_length", 0),
        inner.get("num_nulls"),
        inner.get("num_rows"),
        (inner.get("definition_level_encoding"), inner.get("repetition_level_encoding")),
    )


def _check_counts(page: PageInfo) -> None:
    if page.kind is not PageType.DATA_V2:
        return
    for name, count in (("num_nulls", page.null_count), ("num_rows", page.row_count)):
        if count is not None and count > page.value_count:
            expected = f"at most the page's {page.value_count} values"
            raise BrokenError(expected, count, page.header_offset_bytes, step=name)


def check_sizes(page: PageInfo, codec: int) -> None:
    """Reject an uncompressed size that the codec cannot reach, or that is too large to allocate."""
    at, low = page.header_offset_bytes, page.levels_length_bytes
    compressed_bytes = page.compressed_size_bytes - low
    if compressed_bytes < 0:
        expected = f"at least the {low} bytes of levels"
        raise BrokenError(expected, page.compressed_size_bytes, at, step="compressed_page_size")
    high = low + compressed_bytes * EXPANSION_MAX.get(codec, PAGE_SIZE_MAX_BYTES) + EXPANSION_SLACK_BYTES
    if not page.is_compressed:
        low = high = page.compressed_size_bytes
    if not low <= page.uncompressed_size_bytes <= high:
        expected = f"{low} to {high} bytes" if high > low else f"{low} bytes"
        raise BrokenError(expected, page.uncompressed_size_bytes, at, step="uncompressed_page_size")
    if page.uncompressed_size_bytes > PAGE_SIZE_MAX_BYTES:
        expected = f"at most {PAGE_SIZE_MAX_BYTES} bytes"
        raise BrokenError(expected, page.uncompressed_size_bytes, at, step="uncompressed_page_size", is_supported=False)


def _end_of_body(size_bytes: int, position: int, page: PageInfo) -> int:
    """Return the position behind the body, after checking that it is within the chunk of `size_bytes`."""
    end = position + page.compressed_size_bytes
    if end > size_bytes:
        expected = f"at most the {size_bytes - position} bytes that remain of the chunk"
        raise BrokenError(expected, page.compressed_size_bytes, page.header_offset_bytes, step="compressed_page_size")
    return end
