"""Whether the headers of pages are taken and rejected by what they say, each alone and many at once.

Chunks are made here by [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift)
and judged by docs/format.md; what is in the bodies does not matter, except for checksums.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np

from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import (
    DEPTH_MAX,
    FALSE,
    KINDS,
    STRUCT,
    TRUE,
    Members,
    binary,
    byte,
    in_structs,
    items,
    number,
    struct,
)
from tornproof.impl.errors import ProblemError, UnsupportedError
from tornproof.impl.parquet.pages import PageInfo, walk_pages
from tornproof.impl.parquet.single_pages import SinglePages, single_pages

PROPERTY = "pages are what their headers say, and headers that contradict their pages are rejected"
FILE = "chunk.parquet"
LIMIT = "tornproof.impl.limits:PAGE_COUNT_LIMIT"
BASE_BYTES = 400
DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
MORE_ID = 4 + 16
INNER_IDS = {DATA: 5, INDEX: 6, DICTIONARY: 7, DATA_V2: 8}
INNER_NAMES = {DATA: "data_page_header", DICTIONARY: "dictionary_page_header", DATA_V2: "data_page_header_v2"}
NUMBERS = {
    DATA: ("value_count", "encoding", "definition_encoding", "repetition_encoding"),
    INDEX: (),
    DICTIONARY: ("value_count", "encoding"),
    DATA_V2: ("value_count", "null_count", "row_count", "encoding", "definition_bytes", "repetition_bytes"),
}
"""The required numbers of each kind of page, by id from 1 on."""
FLAGS, STATISTICS = {DICTIONARY: 3, DATA_V2: 7}, {DATA: 5, DATA_V2: 8}
PAGE_BYTES_MAX = 64 << 20
SLACK_BYTES = 64
RATIOS = {0: 1, 1: 255, 2: 1032, 4: PAGE_BYTES_MAX, 5: 255, 6: PAGE_BYTES_MAX, 7: 255}
"""How many bytes a codec can make of one."""
UNCOMPRESSED, SNAPPY, GZIP, ZSTD = 0, 1, 2, 6
WRONG, RIGHT = "wrong", "right"
PLACES = ((0, 0), (1, 1), (2, 0))
"""How many chunks are before one of many and behind it."""
ENCODING_MAX = 127
SHORT_STATISTICS: tuple[Members, ...] = (
    (),
    ((3, KINDS["i64"], number(0), 0),),
    ((1, KINDS["binary"], binary(b"max"), 0), (2, KINDS["binary"], binary(b""), 0), (3, KINDS["i64"], number(500), 0)),
    ((5, KINDS["binary"], binary(b"x" * 127), 0), (7, TRUE, byte(0), 0), (8, FALSE, byte(0), 0)),
    tuple((each, KINDS["i64"], number(each << 20), 0) for each in range(1, 9)),
)
"""Such as are usual, and can be skipped by many chunks at once."""
OTHER_STATISTICS: tuple[Members, ...] = (
    ((5, KINDS["binary"], binary(b"x" * 128), 0), (6, KINDS["binary"], binary(b"x" * 200), 0)),
    tuple((each, KINDS["i64"], number(each), 0) for each in range(1, 10)),
    ((3, KINDS["i64"], number(1 << 60), 0),),
    ((3, KINDS["i64"], number(1), 1), (1, KINDS["binary"], binary(b"y"), 1)),
    ((20, KINDS["list"], items(KINDS["i32"], (number(1),) * 3), 0), (21, STRUCT, struct(()), 0)),
    ((12, KINDS["byte"], byte(5), 0),),
)

Outcome: TypeAlias = object
"""The pages of a chunk, or the field that is wrong, where, and whether it only is not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a kind: the numbers of its header, its checksum if any, and how the header is written."""

    kind: int
    compressed_bytes: int = 10
    uncompressed_bytes: int = 10
    numbers: Mapping[str, int] = field(default_factory=dict)
    checksum: str = ""
    flag: bool | None = None
    statistics: Members | None = None
    id_width_bytes: int = 0
    number_width_bytes: int = 0
    has_inner: bool = True
    missing_bytes: int = 0
    more_levels: int = 0

    def of(self, name: str) -> int:
        """Return a number of the header."""
        return self.numbers.get(name, 1 if name in ("value_count", "row_count") else 0)

    @property
    def levels_bytes(self) -> int:
        """How many bytes at the start of the body are not compressed."""
        return self.of("definition_bytes") + self.of("repetition_bytes") if self.kind == DATA_V2 else 0

    def body(self) -> bytes:
        """Return the bytes behind the header."""
        return bytes([self.kind + 1]) * (self.compressed_bytes - self.missing_bytes)

    def header(self) -> bytes:
        """Return the header."""
        inner: Members = tuple(
            (index, KINDS["i32"], number(self.of(name), self.number_width_bytes), self.id_width_bytes)
            for index, name in enumerate(NUMBERS[self.kind], 1)
        )
        if self.flag is not None and self.kind in FLAGS:
            inner += ((FLAGS[self.kind], TRUE if self.flag else FALSE, byte(0), self.id_width_bytes),)
        if self.statistics is not None and self.kind in STATISTICS:
            inner += ((STATISTICS[self.kind], STRUCT, struct(self.statistics), self.id_width_bytes),)
        values = [(1, self.kind), (2, self.uncompressed_bytes), (3, self.compressed_bytes)]
        if self.checksum:
            values.append((4, self._stored_checksum()))
        members: Members = tuple(
            (number_of, KINDS["i32"], number(value, self.number_width_bytes), self.id_width_bytes)
            for number_of, value in values
        )
        if self.has_inner:
            members += ((INNER_IDS[self.kind], STRUCT, struct(inner), self.id_width_bytes),)
        if self.more_levels:
            members += ((MORE_ID, STRUCT, in_structs(self.more_levels - 1), self.id_width_bytes),)
        return struct(members)(0)[0]

    def _stored_checksum(self) -> int:
        """Return a checksum as the signed number that it is stored as."""
        found = zlib.crc32(self.body()) ^ (self.checksum == WRONG)
        return found - (1 << 32) if found >> 31 else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Pages one after another, as they are compressed, and how many values a chunk of them should have."""

    name: str
    pages: tuple[Page, ...]
    codec: int = UNCOMPRESSED
    value_count: int | None = None
    page_limit: int | None = None

    @property
    def kind(self) -> str:
        """What is varied."""
        return self.name.split(":")[0]

    @property
    def values(self) -> int:
        """How many values the chunk is said to have."""
        return sum(_counted(each) for each in self.pages) if self.value_count is None else self.value_count

    def content(self) -> bytes:
        """Return the bytes of the pages."""
        return b"".join(each.header() + each.body() for each in self.pages)


def _counted(page: Page) -> int:
    return page.of("value_count") if page.kind in (DATA, DATA_V2) else 0


@functools.cache
def page_chunks() -> tuple[Chunk, ...]:
    """Return all chunks, always in the same order."""
    return (*_forms(), *_sizes(), *_counts(), *_in_order(), *_checksums(), *_limits())


def problem_of(chunk: Chunk) -> str | None:
    """Say what is wrong with how the pages of a chunk are found; None if nothing is."""
    expected, found = _expected(chunk), _found(chunk)
    if found != expected:
        return f"the pages are {found}, and should be {expected}"
    return _problem_of_many(chunk, expected)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that take every size, every count and every checksum."""
    parquet = "tornproof.impl.parquet"
    many = f"{parquet}.single_pages"
    pages: Controls = (
        ("every size is taken", f"{parquet}.pages:check_sizes", lambda *_: None, "the pages are"),
        ("every count is taken", f"{parquet}.pages:_check_counts", lambda *_: None, "the pages are"),
        ("checksums are not looked at", f"{parquet}.pages:_check_checksums", lambda *_: None, "the pages are"),
    )
    of_many: Controls = (
        ("no page of many is found", f"{many}:ENCODING_COUNT_MAX", 0, "an ordinary page beside it"),
        ("every encoding is one of many", f"{many}:ENCODING_COUNT_MAX", 1 << 30, "it has an encoding that none is"),
        ("statistics of many have no members", f"{many}:STATISTICS_MEMBER_COUNT_MAX", 0, "it is no ordinary page"),
        ("every size is taken", f"{many}:_are_possible", lambda sizes, *_: sizes >= 0, "it is one ordinary page"),
        ("encodings of many are sizes", f"{many}:SinglePages", _with_sizes, "the size and the encoding"),
        ("every page of many is ordinary", f"{__name__}:single_pages", _walked, "its checksum is not looked at"),
        *(
            (
                f"every page with {before} before it is ordinary",
                f"{__name__}:single_pages",
                functools.partial(_walked_behind, before, single_pages),
                "its checksum is not looked at",
            )
            for before, _ in PLACES
        ),
    )
    yield from not_noticed(pages, problem_of, page_chunks())
    ordinary = [each for each in page_chunks() if len(each.pages) == 1 and each.pages[0].kind == DATA]
    yield from not_noticed(of_many, problem_of, ordinary)


def _with_sizes(usual: Any, uncompressed_bytes: Any, _: Any) -> SinglePages:
    return SinglePages(usual, uncompressed_bytes, uncompressed_bytes)


def _walked(content: bytes, sizes: Sequence[int], codecs: Sequence[int], value_count: int) -> SinglePages:
    """Take all pages for ordinary ones, also those with a checksum."""
    pages = [
        walk_pages(content[end - size : end], file=FILE, offset_bytes=0, codec=codec, value_count=value_count)[0]
        for end, size, codec in zip(itertools.accumulate(sizes), sizes, codecs, strict=True)
    ]
    numbers = np.array([(page.uncompressed_size_bytes, page.encoding) for page in pages])
    return SinglePages(np.ones(len(pages), np.bool_), numbers[:, 0], numbers[:, 1])


def _walked_behind(
    before: int,
    take: Callable[..., SinglePages],
    content: bytes,
    sizes: Sequence[int],
    codecs: Sequence[int],
    value_count: int,
) -> SinglePages:
    """Take only the page for an ordinary one that has so many before it, also if it has a checksum."""
    usual = take(content, sizes, codecs, value_count).usual | (np.arange(len(sizes)) == before)
    return _walked(content, sizes, codecs, value_count)._replace(usual=usual)


def _found(chunk: Chunk) -> Outcome:
    limit = original_of(LIMIT) if chunk.page_limit is None else chunk.page_limit
    try:
        with replaced(LIMIT, limit):
            pages = walk_pages(
                chunk.content(), file=FILE, offset_bytes=BASE_BYTES, codec=chunk.codec, value_count=chunk.values
            )
    except ProblemError as error:
        return error.problem.field, error.problem.offset_bytes, isinstance(error, UnsupportedError)
    return [_facts(each) for each in pages]


def _facts(page: PageInfo) -> dict[str, Any]:
    """Return the fields of a page by name, with plain numbers."""
    found = msgspec.structs.asdict(page)
    return {name: int(value) if isinstance(value, int) else value for name, value in found.items()}


def _expected(chunk: Chunk) -> Outcome:
    """Judge the pages in order; a checksum that is wrong comes before the first other problem."""
    found: list[dict[str, Any]] = []
    position = 0
    problem: Outcome = None
    for index, page in enumerate(chunk.pages):
        start = len(page.header())
        if page.more_levels >= DEPTH_MAX:
            path, stops = ".".join([str(MORE_ID), *["1"] * (DEPTH_MAX - 1)]), page.more_levels + 1
            at = position + start - stops - (page.more_levels - DEPTH_MAX)
            problem = f"pages[{index}].{path}", BASE_BYTES + at, False
            break
        if wrong := _problem_of_page(chunk, page, position):
            name, is_supported = wrong
            problem = f"pages[{index}].{name}", BASE_BYTES + position, not is_supported
            break
        found.append(_expected_page(chunk, page, position))
        position += start + page.compressed_bytes
        if chunk.page_limit is not None and index == chunk.page_limit:
            problem = "pages", BASE_BYTES, True
            break
    for index, (page, facts) in enumerate(zip(chunk.pages, found, strict=False)):
        if page.checksum == WRONG:
            return f"pages[{index}].crc", facts["header_offset_bytes"], False
    if problem:
        return problem
    if sum(_counted(each) for each in chunk.pages) != chunk.values:
        return "pages", BASE_BYTES, False
    return [each for each in found if each["kind"] != INDEX]


def _problem_of_page(chunk: Chunk, page: Page, position: int) -> tuple[str, bool] | None:
    """Return the field of a page that is wrong, if one is, and whether it would be right in a smaller page."""
    if not page.has_inner and page.kind != INDEX:
        return INNER_NAMES[page.kind], True
    if page.kind == DICTIONARY and position:
        return "type", True
    if page.kind == DATA_V2:
        for name in ("null_count", "row_count"):
            if page.of(name) > page.of("value_count"):
                return {"null_count": "num_nulls", "row_count": "num_rows"}[name], True
    packed_bytes = page.compressed_bytes - page.levels_bytes
    if packed_bytes < 0:
        return "compressed_page_size", True
    low, high = page.levels_bytes, page.levels_bytes + packed_bytes * RATIOS[chunk.codec] + SLACK_BYTES
    if not _is_compressed(chunk, page):
        low = high = page.compressed_bytes
    if not low <= page.uncompressed_bytes <= high:
        return "uncompressed_page_size", True
    if page.uncompressed_bytes > PAGE_BYTES_MAX:
        return "uncompressed_page_size", False
    return ("compressed_page_size", True) if page.missing_bytes else None


def _is_compressed(chunk: Chunk, page: Page) -> bool:
    return chunk.codec != UNCOMPRESSED and not (page.kind == DATA_V2 and page.flag is False)


def _expected_page(chunk: Chunk, page: Page, position: int) -> dict[str, Any]:
    is_first, is_second = page.kind == DATA, page.kind == DATA_V2
    return {
        "kind": page.kind,
        "header_offset_bytes": BASE_BYTES + position,
        "header_length_bytes": len(page.header()),
        "compressed_size_bytes": page.compressed_bytes,
        "uncompressed_size_bytes": page.uncompressed_bytes,
        "value_count": 0 if page.kind == INDEX else page.of("value_count"),
        "encoding": 0 if page.kind == INDEX else page.of("encoding"),
        "crc": (zlib.crc32(page.body()) ^ (page.checksum == WRONG)) if page.checksum else None,
        "is_compressed": int(_is_compressed(chunk, page)),
        "repetition_levels_length_bytes": page.of("repetition_bytes") if is_second else 0,
        "definition_levels_length_bytes": page.of("definition_bytes") if is_second else 0,
        "null_count": page.of("null_count") if is_second else None,
        "row_count": page.of("row_count") if is_second else None,
        "level_encodings": (page.of("definition_encoding"), page.of("repetition_encoding"))
        if is_first
        else (None, None),
    }


def _problem_of_many(chunk: Chunk, expected: Outcome) -> str | None:
    """Say what is wrong with how the chunk is found among others, before and behind it."""
    content, other = chunk.content(), _ordinary(chunk.values).content()
    for before, behind in PLACES:
        sizes = [len(other)] * before + [len(content)] + [len(other)] * behind
        codecs = [UNCOMPRESSED] * before + [chunk.codec] + [UNCOMPRESSED] * behind
        found = single_pages(other * before + content + other * behind, sizes, codecs, chunk.values)
        if not all(np.delete(found.usual, before)):
            return f"an ordinary page beside it, {before} before and {behind} behind it, is not found"
        if not found.usual[before]:
            if _is_ordinary(chunk, expected):
                return "as one of many it is no ordinary page"
            continue
        facts = int(found.uncompressed_bytes[before]), int(found.encodings[before])
        if not isinstance(expected, list) or len(expected) != 1 or expected[0]["kind"] != DATA:
            return f"as one of many it is one ordinary page, and should be {expected}"
        if facts != (expected[0]["uncompressed_size_bytes"], expected[0]["encoding"]):
            return f"as one of many it has the size and the encoding {facts}, and should be {expected}"
        if expected[0]["crc"] is not None:
            return "as one of many its checksum is not looked at"
        if not all(0 <= each <= ENCODING_MAX for each in (facts[1], *expected[0]["level_encodings"])):
            return "as one of many it has an encoding that none is"
    return None


def _ordinary(value_count: int) -> Chunk:
    return Chunk(name="ordinary", pages=(Page(kind=DATA, numbers={"value_count": value_count}),))


def _is_ordinary(chunk: Chunk, expected: Outcome) -> bool:
    """Return whether it is one page as servers write them."""
    if not isinstance(expected, list) or len(chunk.pages) != 1:
        return False
    page = the_only(chunk.pages)
    is_short = page.statistics is None or page.statistics in SHORT_STATISTICS
    names = ("encoding", "definition_encoding", "repetition_encoding")
    encodings = [page.of(name) for name in names]
    is_plain = (
        page.kind == DATA
        and not page.checksum
        and not page.more_levels
        and not page.id_width_bytes
        and not page.number_width_bytes
    )
    return is_plain and is_short and min(encodings) >= 0 and max(encodings) <= ENCODING_MAX


def _one(name: str, page: Page, **settings: Any) -> Chunk:
    return Chunk(name=name, pages=(page,), **settings)


def _forms() -> Iterator[Chunk]:
    for kind in (DATA, INDEX, DICTIONARY, DATA_V2):
        for flag, checksum in itertools.product((None, True, False), ("", RIGHT, WRONG)):
            yield _one(f"forms: {kind}, {flag}, {checksum}", Page(kind=kind, flag=flag, checksum=checksum))
        for width in (1, 2, 3):
            yield _one(f"forms: {kind} with ids of {width} bytes", Page(kind=kind, id_width_bytes=width))
        for width in (2, 4, 5, 6, 10):
            yield _one(f"forms: {kind} with numbers of {width} bytes", Page(kind=kind, number_width_bytes=width))
        yield _one(f"forms: {kind} without more", Page(kind=kind, has_inner=False))
        for levels in (1, 2, DEPTH_MAX - 2, DEPTH_MAX - 1):
            yield _one(f"forms: {kind} with {levels} levels more", Page(kind=kind, more_levels=levels))
    for levels in (DEPTH_MAX, DEPTH_MAX + 6):
        page = Page(kind=INDEX, more_levels=levels, has_inner=False)
        yield _one(f"forms: an index with {levels} levels more", page)
    for kind in (DATA, INDEX, DICTIONARY, DATA_V2):
        for statistics in (*SHORT_STATISTICS, *OTHER_STATISTICS):
            if kind in STATISTICS:
                name = f"forms: {kind} with statistics of {[each[:2] for each in statistics]}"
                yield _one(name, Page(kind=kind, statistics=statistics))
        for name, value in itertools.product(NUMBERS[kind], (0, 1, 2, 63, 64, 127, 128, 300, 1 << 20)):
            if "encoding" in name:
                yield _one(f"forms: {kind} with {name} {value}", Page(kind=kind, numbers={name: value}))
    for name in ("encoding", "definition_encoding", "repetition_encoding"):
        yield _one(f"forms: {name} -1", Page(kind=DATA, numbers={name: -1}))


def _sizes() -> Iterator[Chunk]:
    for kind, codec in itertools.product((DATA, DICTIONARY, DATA_V2, INDEX), RATIOS):
        for compressed_bytes in (0, 1, 10, 200):
            for flag, levels in ((None, {}), (False, {"definition_bytes": 3}), (True, {"repetition_bytes": 5})):
                page = Page(kind=kind, compressed_bytes=compressed_bytes, flag=flag, numbers=levels)
                low = page.levels_bytes
                high = low + max(compressed_bytes - low, 0) * RATIOS[codec] + SLACK_BYTES
                for size in sorted({0, low - 1, low, compressed_bytes, compressed_bytes + 1, high, high + 1}):
                    if 0 <= size < 1 << 31:
                        name = f"sizes: {kind}, codec {codec}, {flag}, {compressed_bytes} bytes of {size}"
                        yield _one(name, replace(page, uncompressed_bytes=size), codec=codec)
    for codec, compressed_bytes in itertools.product((ZSTD, GZIP), (2, 70_000)):
        for size in (PAGE_BYTES_MAX, PAGE_BYTES_MAX + 1):
            page = Page(kind=DATA, compressed_bytes=compressed_bytes, uncompressed_bytes=size)
            yield _one(f"sizes: codec {codec}, {compressed_bytes} bytes of {size}", page, codec=codec)
    for kind, levels_bytes in itertools.product((DATA, DATA_V2), (9, 10, 11)):
        page = Page(kind=kind, numbers={"definition_bytes": 4, "repetition_bytes": levels_bytes - 4})
        yield _one(f"sizes: {kind}, {levels_bytes} bytes of levels", page, codec=SNAPPY)
    for kind, missing in itertools.product((DATA, INDEX, DICTIONARY, DATA_V2), (1, 10)):
        yield _one(f"sizes: {kind}, {missing} bytes too few", Page(kind=kind, missing_bytes=missing))


def _counts() -> Iterator[Chunk]:
    for kind, count in itertools.product((DATA, DATA_V2), (0, 1, 5, 64, 128, 1 << 20, (1 << 31) - 1)):
        page = Page(kind=kind, numbers={"value_count": count, "row_count": 0})
        for said in (count - 1, count, count + 1):
            yield _one(f"counts: {kind}, {count} values for {said}", page, value_count=said)
    for kind, name, count in itertools.product((DATA, DATA_V2), ("null_count", "row_count"), (0, 4, 5, 6)):
        page = Page(kind=kind, numbers={"value_count": 5, "row_count": 5, name: count})
        yield _one(f"counts: {kind}, {name} {count} of 5", page)


def _in_order() -> Iterator[Chunk]:
    pages = {
        "data": Page(kind=DATA, numbers={"value_count": 3}),
        "second data": Page(kind=DATA_V2, numbers={"value_count": 4}),
        "dictionary": Page(kind=DICTIONARY, numbers={"value_count": 2}),
        "index": Page(kind=INDEX),
        "short data": Page(kind=DATA, missing_bytes=1),
    }
    yield Chunk(name="order: none", pages=())
    for length in (2, 3):
        for names in itertools.product(pages, repeat=length):
            if "short data" in names[:-1]:
                continue
            chosen = tuple(pages[each] for each in names)
            yield Chunk(name=f"order: {', '.join(names)}", pages=chosen)
            count = sum(map(_counted, chosen))
            if length == 2:
                yield Chunk(name=f"order: {', '.join(names)}, one more", pages=chosen, value_count=count + 1)


def _checksums() -> Iterator[Chunk]:
    choices: Sequence[str] = ("", RIGHT, WRONG)
    for kinds in itertools.product((DATA, INDEX, DATA_V2), repeat=2):
        for checksums in itertools.product(choices, repeat=2):
            pages = tuple(Page(kind=kind, checksum=each) for kind, each in zip(kinds, checksums, strict=True))
            for last in ((), (Page(kind=DATA, uncompressed_bytes=11),), (Page(kind=DICTIONARY, checksum=WRONG),)):
                name = f"checksums: {kinds}, {checksums}, {[each.kind for each in last]}"
                yield Chunk(name=name, pages=(*pages, *last))


def _limits() -> Iterator[Chunk]:
    for count in (2, 3, 4):
        for kind in (DATA, INDEX):
            pages = (Page(kind=kind),) * count
            yield Chunk(name=f"limits: {count} of kind {kind} where 3 may be", pages=pages, page_limit=3)
