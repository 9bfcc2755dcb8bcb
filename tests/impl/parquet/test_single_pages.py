"""Page headers that are read at once are those that `walk_pages` finds one by one, or are left to it."""

import random
from collections.abc import Sequence
from pathlib import Path

import golden_data
import pytest
from depth import nightly
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_of

from tornproof.impl.errors import ProblemError
from tornproof.impl.parquet.fields import Codec, PageType
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.parquet.single_pages import STATISTICS_MEMBER_COUNT_MAX, SinglePages, single_pages
from tornproof.impl.parquet.thrift import Field, Kind, Struct, encode

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
