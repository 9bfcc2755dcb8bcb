"""Whether a migration finds the bloom filters of a file wherever a footer says that they are, and only those.

A filter is a header, as [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift)
declares it, and a bitset behind it; how long a footer says that they are together counts only if it is nothing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import (
    KINDS,
    STRUCT,
    Made,
    Members,
    binary,
    number,
    struct,
)
from tornproof.impl.migrate.blooms import BloomFilters
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import ColumnMetaData

PROPERTY = "a migration finds the bloom filters of a file"
PLACES = (1, 40, 300)
LENGTHS = (None, -1, 0, 1, 32, 47, 1 << 30)
"""What footers say of how long a filter is."""
SIZES_BYTES = (-32, -1, 0, 1, 31, 32, 33, 64, 96)
LONG_BYTES = (200, 300, 5_000, 70_000)
"""Of members that nobody knows, so that a header is longer than what is read of it at first."""
TOTAL_MAX_BYTES = 64 << 20
NOTHING = struct(())


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedFilter:
    """A file with a filter `at` an offset, what a footer says of it, and what is found: nothing, or a rejection."""

    name: str
    kind: str
    content: bytes
    at: int | None = 4
    length: int | None = 47
    found: bytes | None = None
    is_rejected: bool = False


@functools.cache
def migrated_filters() -> tuple[MigratedFilter, ...]:
    """Return all filters, always in the same order."""
    return (*_placed(), *_sized(), *_cut(), *_headers(), *_long())


def problem_of(case: MigratedFilter) -> str | None:
    """Say what is wrong with what is found; None if nothing is."""
    filters = BloomFilters(lambda length, offset: case.content[offset : offset + length], len(case.content))
    meta = ColumnMetaData(
        **{
            **dict.fromkeys(ColumnMetaData._fields),  # type: ignore[arg-type]
            "bloom_filter_offset": case.at,
            "bloom_filter_length": case.length,
        }
    )
    try:
        found = filters.bitset_of(meta)
    except RejectionError as error:
        if error.cause is not Cause.BLOOM or error.offset_bytes != case.at:
            return f"it is rejected for {error.cause} at {error.offset_bytes}"
        return None if case.is_rejected else f"it is rejected: {error.expected}, not {error.actual}"
    if case.is_rejected:
        return "it is not rejected"
    left_bytes = max(TOTAL_MAX_BYTES, len(case.content)) - len(found or b"")
    if filters.free_bytes != left_bytes:
        return f"{filters.free_bytes} bytes are left for others, and should be {left_bytes}"
    return None if found == case.found else f"{_words(found)} is found, and should be {_words(case.found)}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of migrations that read filters of no length, and whose headers end too early."""
    blooms = "tornproof.impl.migrate.blooms"
    controls: Controls = (
        ("any size is one of a filter", f"{blooms}:BLOCK_BYTES", 1, "is found, and should be"),
        ("longer headers are rejected", f"{blooms}:HEADER_MAX_BYTES", 0, "it is rejected: "),
        ("the cause is another one", f"{blooms}:Cause", SimpleNamespace(BLOOM=Cause.BAD_DATA), "it is rejected for"),
        ("filters have more room", f"{blooms}:TOTAL_MAX_BYTES", TOTAL_MAX_BYTES + 32, "bytes are left for others"),
        ("what is cut is filled", f"{__name__}:BloomFilters", _Filling, "it is not rejected"),
    )
    return not_noticed(controls, problem_of, migrated_filters())


class _Filling(BloomFilters):
    def _read(self, length: int, offset_bytes: int) -> bytes:
        return super()._read(length, offset_bytes).ljust(length, b"\0")


def _words(found: bytes | None) -> str:
    return "none" if found is None else f"a filter of {len(found)} bytes, {found[:8].hex()}"


def _header(size_bytes: int, *more: tuple[int, int, Made, int], kind: Made | None = None) -> bytes:
    one_kind = kind or struct(((1, STRUCT, NOTHING, 0),))
    members: Members = (
        (1, KINDS["i32"], number(size_bytes), 0),
        (2, STRUCT, one_kind, 0),
        (3, STRUCT, struct(((1, STRUCT, NOTHING, 0),)), 0),
        (4, STRUCT, struct(((1, STRUCT, NOTHING, 0),)), 0),
        *more,
    )
    return struct(members)(0)[0]


def _bitset(size_bytes: int) -> bytes:
    return bytes(1 + at % 251 for at in range(size_bytes))


def _placed() -> Iterator[MigratedFilter]:
    """Yield filters in other places, of which footers say other lengths, or none."""
    for place, length, size_bytes in itertools.product(PLACES, LENGTHS, (32, 64)):
        content = b"\xee" * place + _header(size_bytes) + _bitset(size_bytes) + b"\xdd" * 100
        is_there = length is not None and length > 0
        yield MigratedFilter(
            name=f"a filter of {size_bytes} bytes at {place} of the length {length}",
            kind="place",
            content=content,
            at=place,
            length=length,
            found=_bitset(size_bytes) if is_there else None,
        )
    for at in (None, 0, -1):
        content = _header(32) + _bitset(32)
        yield MigratedFilter(name=f"a filter at {at}", kind="place", content=content, at=at)


def _sized() -> Iterator[MigratedFilter]:
    """Yield filters of all sizes, of which only whole blocks are filters."""
    for size_bytes in SIZES_BYTES:
        is_filter = size_bytes >= 32 and size_bytes % 32 == 0
        yield MigratedFilter(
            name=f"a filter that says {size_bytes} bytes",
            kind="size",
            content=b"PAR1" + _header(size_bytes) + _bitset(max(0, size_bytes)),
            found=_bitset(size_bytes) if is_filter else None,
            is_rejected=size_bytes < 0,
        )
    content = b"PAR1" + _header(TOTAL_MAX_BYTES + 32) + _bitset(32)
    yield MigratedFilter(name="more than all may have", kind="size", content=content, is_rejected=True)


def _cut() -> Iterator[MigratedFilter]:
    """Yield files that end at each byte of a filter."""
    whole = b"PAR1" + _header(32) + _bitset(32)
    for size_bytes in range(4, len(whole)):
        yield MigratedFilter(
            name=f"{size_bytes} of {len(whole)} bytes", kind="cut", content=whole[:size_bytes], is_rejected=True
        )
    for at in (len(whole), len(whole) + 1):
        yield MigratedFilter(
            name=f"a filter at {at} of {len(whole)} bytes", kind="cut", content=whole, at=at, is_rejected=True
        )


def _headers() -> Iterator[MigratedFilter]:
    """Yield headers of other kinds of filters, and without a kind."""
    for words, kind in (("another kind", struct(((2, STRUCT, NOTHING, 0),))), ("no kind", NOTHING)):
        content = b"PAR1" + _header(32, kind=kind) + _bitset(32)
        yield MigratedFilter(name=f"a filter of {words}", kind="header", content=content, is_rejected=True)


def _long() -> Iterator[MigratedFilter]:
    """Yield headers with a member that nobody knows, before a bitset or the end of the file."""
    for long_bytes in LONG_BYTES:
        header = _header(32, (9, KINDS["binary"], binary(bytes(long_bytes)), 0))
        for behind in (b"", b"\xdd" * 10):
            yield MigratedFilter(
                name=f"a header of {len(header)} bytes before {32 + len(behind)}",
                kind="long header",
                content=b"PAR1" + header + _bitset(32) + behind,
                found=_bitset(32),
            )
