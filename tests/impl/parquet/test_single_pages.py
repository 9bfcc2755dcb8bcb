"""Page headers that are read quickly, and many at once, are those that the lossless decoder and `walk_pages` find."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import golden_data
import pytest
from depth import nightly
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_of

from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.fields import PAGE_HEADER, Codec, PageType
from tornproof.impl.parquet.pages import quick_read, walk_pages
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.single_pages import STATISTICS_MEMBER_COUNT_MAX, SinglePages, single_pages
from tornproof.impl.parquet.thrift import BrokenError, Field, Kind, Struct, decode, encode

VALUE_COUNT = 20
BODY = bytes(12)


def number(id: int, value: int, kind: Kind = Kind.I32, **form: int) -> Field:
    return Field(id, kind, value, **form)


def chunk_of(*statistics: Field, body: bytes = BODY, crc: int | None = None, has_statistics: bool = True) -> bytes:
    """A chunk that is one page, with any statistics."""
    inner = [number(1, VALUE_COUNT), number(2, 0), number(3, 3), number(4, 3)]
    if has_statistics:
        inner.append(Field(5, Kind.STRUCT, Struct(statistics)))
    checksum = () if crc is None else (number(4, crc),)
    sizes = number(1, PageType.DATA_V1), number(2, len(body)), number(3, len(body))
    return encode(Struct((*sizes, *checksum, Field(5, Kind.STRUCT, Struct(tuple(inner)))))) + body


STATISTICS = [
    Field(1, Kind.BINARY, b"largest"),
    Field(2, Kind.BINARY, b""),
    number(3, 3, Kind.I64),
    number(4, 1 << 30, Kind.I64),
    Field(5, Kind.BINARY, b"z" * 127),
    Field(6, Kind.BINARY, b"a"),
    Field(7, Kind.BOOL, True),
    Field(8, Kind.BOOL, False),
    number(9, 0, Kind.I64),
]


def quick(chunks: list[bytes], codecs: Sequence[int] | None = None, count: int = VALUE_COUNT) -> SinglePages:
    return single_pages(b"".join(chunks), list(map(len, chunks)), codecs or [Codec.UNCOMPRESSED] * len(chunks), count)


def assert_agrees(chunks: list[bytes], codecs: Sequence[int] | None = None, count: int = VALUE_COUNT) -> list[bool]:
    """Whether each had a quick answer, after checking that it is the strict one."""
    found = quick(chunks, codecs, count)
    for index, chunk in enumerate(chunks):
        if found.usual[index]:
            codec = codecs[index] if codecs else Codec.UNCOMPRESSED
            (page,) = walk_pages(chunk, file="data", offset_bytes=0, codec=codec, value_count=count)
            assert page.kind is PageType.DATA_V1 and page.crc is None
            assert found.uncompressed_bytes[index] == page.uncompressed_size_bytes
            assert found.encodings[index] == page.encoding
    return [bool(usual) for usual in found.usual]


@pytest.mark.parametrize("count", range(STATISTICS_MEMBER_COUNT_MAX + 1))
def test_ordinary_headers_have_an_answer_whatever_statistics_they_have(count: int) -> None:
    chunks = [chunk_of(*STATISTICS[:count]), chunk_of(has_statistics=False), chunk_of(*STATISTICS[:2], body=b"")]
    assert assert_agrees(chunks) == [True] * 3


def test_what_is_unusual_is_left_to_the_strict_reader_and_nothing_else() -> None:
    usual = chunk_of(*STATISTICS[:3])
    unusual = [
        b"",
        usual[:-1],
        usual + b"\0",
        usual + usual,
        chunk_of(crc=1),
        chunk_of(*STATISTICS),
        chunk_of(Field(1, Kind.BINARY, b"z" * 128)),
        chunk_of(Field(1, Kind.STRUCT, Struct(()))),
        chunk_of(number(17, 1)),
        chunk_of(number(1, 1 << 40, Kind.I64)),
        chunk_of(number(1, 1, id_width_bytes=1)),
    ]
    chunks = [chunk for each in unusual for chunk in (usual, each)]
    assert assert_agrees([*chunks, usual]) == [*[True, False] * len(unusual), True]


@pytest.mark.parametrize("name", golden_data.files("tables/*/*/table/*/data.parquet"))
def test_the_pages_of_real_chunks_are_those_of_the_strict_reader(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    for group in footer_of(content).row_groups:
        chunks, codecs = [], []
        for chunk in group.chunks:
            if chunk.total_compressed_size and chunk.num_values == group.num_rows:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                chunks.append(content[start : start + chunk.total_compressed_size])
                codecs.append(chunk.codec)
        found = assert_agrees(chunks, codecs, group.num_rows)
        # All but those with a dictionary.
        assert sum(found) >= len(found) / 4


@pytest.mark.parametrize("seed", [0, 1, *[nightly(seed) for seed in range(2, 20)]])
def test_changed_headers_have_the_strict_answer_or_none(seed: int) -> None:
    random_ = random.Random(seed)
    answered = rejected = 0
    for _ in range(50):
        chunks = []
        for _ in range(50):
            chunk = bytearray(chunk_of(*STATISTICS[: random_.randrange(9)], has_statistics=random_.random() < 0.8))
            for _ in range(random_.randint(0, 2)):
                position = random_.randrange(len(chunk) - len(BODY))
                chunk[position] = random_.choice((chunk[position] ^ 1 << random_.randrange(8), random_.randrange(256)))
            chunks.append(bytes(chunk[: random_.choice((len(chunk), len(chunk), random_.randrange(len(chunk))))]))
        try:
            found = assert_agrees(chunks)
        except ProblemError:
            pytest.fail("the strict reader rejects it")
        answered += sum(found)
        rejected += len(found) - sum(found)
    assert answered > 500 and rejected > 500


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_random_bytes_have_no_answer_that_the_strict_reader_rejects(chunks: list[bytes]) -> None:
    try:
        assert_agrees(chunks)
    except ProblemError:
        pytest.fail("the strict reader rejects it")


# Thrift that is read quickly


def header_of(*fields: Field) -> bytes:
    return encode(Struct(fields))


DATA_PAGE = Struct((number(1, 1024), number(2, 0), number(3, 3), number(4, 3)))
HEADER = header_of(
    number(1, 0), number(2, 8199), number(3, 4733), number(4, -80839362), Field(5, Kind.STRUCT, DATA_PAGE)
)


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """What both ways have in common: numbers, and structs of numbers."""
    return {
        name: numbers(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if name != "offset_bytes" and isinstance(value, dict | int)
    }


def strict_read(data: bytes) -> tuple[dict[str, Any], int]:
    header, end = decode(data, file="data.parquet")
    return read(header, PAGE_HEADER), end


def assert_quick_agrees(data: bytes) -> bool:
    """Whether `quick_read` returned something, after checking that the strict decoder returns the same."""
    quick = quick_read(data, 0, PAGE_HEADER)
    if quick is None:
        return False
    values, end = strict_read(data)
    # The quick way leaves trees alone, such as statistics in a header; the strict one keeps them as trees.
    found = numbers(quick[0])
    for inner in found.values():
        if isinstance(inner, dict):
            inner.pop("statistics", None)
    assert (found, quick[1]) == (numbers(values), end)
    return True


def test_an_ordinary_header_is_read() -> None:
    assert assert_quick_agrees(HEADER)
    values, end = quick_read(HEADER, 0, PAGE_HEADER) or ({}, 0)
    assert (values["compressed_page_size"], end) == (4733, len(HEADER))
    assert quick_read(b"\xff" * 3 + HEADER, 3, PAGE_HEADER) == (values, end + 3)


@pytest.mark.parametrize("name", golden_data.files("tables/*/*/table/*/data.parquet"))
def test_the_first_header_of_every_real_chunk_has_a_quick_answer(questdb_data: Path, name: str) -> None:
    content = (questdb_data / name).read_bytes()
    chunks = [chunk for group in footer_of(content).row_groups for chunk in group.chunks if chunk.total_compressed_size]
    for chunk in chunks:
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        assert assert_quick_agrees(content[start : start + chunk.total_compressed_size])


@given(st.data())
def test_whatever_bytes_there_are_the_quick_answer_is_the_strict_one(data: st.DataObject) -> None:
    changed = bytearray(HEADER)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(changed) - 1))
        changed[position] = data.draw(st.integers(0, 255))
    cut = bytes(changed)[: data.draw(st.integers(0, len(changed)))]
    assert_quick_agrees(cut + data.draw(st.binary(max_size=4)))


@given(st.binary(max_size=40))
def test_random_bytes_have_no_answer_that_the_strict_decoder_rejects(content: bytes) -> None:
    if quick_read(content, 0, PAGE_HEADER) is not None:
        try:
            assert_quick_agrees(content)
        except (ProblemError, BrokenError):
            pytest.fail("the strict decoder rejects it")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        HEADER[:-1],
        HEADER[:12],
        header_of(number(1, 7), number(2, 1), number(3, 1)),
        header_of(number(1, 0, Kind.I64), number(2, 1), number(3, 1)),
        header_of(number(1, 0), number(2, -1), number(3, 1)),
        header_of(number(1, 0), number(3, 1)),
        header_of(number(1, 0, id_width_bytes=1), number(2, 1), number(3, 1)),
        header_of(number(1, 0), number(2, 1), number(3, 1), number(9, 1, Kind.BYTE)),
        header_of(number(1, 0), number(2, 1), number(3, 1), Field(5, Kind.STRUCT, Struct(()))),
    ],
)
def test_what_is_wrong_or_unusual_is_left_to_the_strict_decoder(header: bytes) -> None:
    assert quick_read(header, 0, PAGE_HEADER) is None
