"""The pages of a chunk must tile it, add up, and claim nothing that their codec cannot reach."""

import zlib
from pathlib import Path
from typing import Any

import parquet_files
import pyarrow as pa
import pytest
from damage import each_flipped
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_of, start_of

from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.parquet.fields import (
    DATA_PAGE_HEADER,
    DATA_PAGE_HEADER_V2,
    DICTIONARY_PAGE_HEADER,
    PAGE_HEADER,
    Codec,
    PageType,
)
from tornproof.impl.parquet.footer import ColumnChunk
from tornproof.impl.parquet.pages import (
    EXPANSION_SLACK_BYTES,
    HEADER_NODE_COUNT_MAX,
    PAGE_SIZE_MAX_BYTES,
    PageInfo,
    walk_pages,
)
from tornproof.impl.parquet.records import Table
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, encode

PYARROW_CODECS = ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"]
PLAIN, RLE_DICTIONARY = 0, 8


def walk(chunk: bytes, *, codec: Codec = Codec.UNCOMPRESSED, value_count: int = 0) -> tuple[PageInfo, ...]:
    return walk_pages(chunk, file="data.parquet", offset_bytes=1000, codec=codec, value_count=value_count)


def rejected(chunk: bytes, kind: type[CorruptError | UnsupportedError] = CorruptError, **options: Any) -> str:
    """The field that the error names."""
    with pytest.raises(kind) as caught:
        walk(chunk, **options)
    assert type(caught.value) is kind
    offset_bytes = caught.value.problem.offset_bytes
    assert offset_bytes is not None and 1000 <= offset_bytes <= 1000 + len(chunk)
    return caught.value.problem.field


def struct(table: Table, **values: Any) -> Struct:
    ids = {member.name: member for member in table.by_id.values()}
    return Struct(tuple(Field(ids[name].id, ids[name].form.kind, value) for name, value in values.items()))


def page(kind: int, body: bytes = b"", inner: dict[str, Struct] | None = None, **changed: Any) -> bytes:
    """A header and its body; sizes and checksum are right unless they are among the changed members."""
    values = {"type": int(kind), "uncompressed_page_size": len(body), "compressed_page_size": len(body), **changed}
    return encode(struct(PAGE_HEADER, **values, **(inner or {}))) + body


def v1(body: bytes = b"", value_count: int = 1, **changed: Any) -> bytes:
    levels = {"definition_level_encoding": 3, "repetition_level_encoding": 3}
    inner = struct(DATA_PAGE_HEADER, num_values=value_count, encoding=PLAIN, **levels)
    return page(PageType.DATA_V1, body, {"data_page_header": inner}, **changed)


def v2(body: bytes = b"", inner: dict[str, Any] | None = None, **changed: Any) -> bytes:
    levels = {"definition_levels_byte_length": 0, "repetition_levels_byte_length": 0}
    values = {"num_values": 1, "num_nulls": 0, "num_rows": 1, "encoding": PLAIN, **levels, **(inner or {})}
    return page(PageType.DATA_V2, body, {"data_page_header_v2": struct(DATA_PAGE_HEADER_V2, **values)}, **changed)


def dictionary(body: bytes = b"", value_count: int = 1, **changed: Any) -> bytes:
    inner = struct(DICTIONARY_PAGE_HEADER, num_values=value_count, encoding=PLAIN)
    return page(PageType.DICTIONARY, body, {"dictionary_page_header": inner}, **changed)


def walked(content: bytes, chunk: ColumnChunk) -> tuple[PageInfo, ...]:
    start = start_of(chunk)
    return walk_pages(
        content[start : start + chunk.total_compressed_size],
        file="data.parquet",
        offset_bytes=start,
        codec=chunk.codec,
        value_count=chunk.num_values,
    )


def written(**options: Any) -> bytes:
    words = pa.array([None if row % 7 == 0 else f"word {row % 40}" for row in range(500)])
    numbers = pa.array([float(row) for row in range(500)])
    lists = pa.array([[row] * (row % 3) for row in range(500)])
    table = pa.table({"word": words, "number": numbers, "list": lists})
    return parquet_files.written(table, row_group_size=300, **options)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", PYARROW_CODECS)
def test_pages_that_pyarrow_wrote_agree_with_its_footer(codec: str, version: str) -> None:
    content = written(
        compression=codec,
        data_page_version=version,
        max_rows_per_page=100,
        use_dictionary=["word"],
        write_page_checksum=True,
    )
    data_kind = PageType.DATA_V1 if version == "1.0" else PageType.DATA_V2
    for group in footer_of(content).row_groups:
        for chunk in group.chunks:
            pages = walked(content, chunk)
            uncompressed_bytes = sum(page.header_length_bytes + page.uncompressed_size_bytes for page in pages)
            assert uncompressed_bytes == chunk.total_uncompressed_size
            assert all(page.crc is not None for page in pages)
            data = [page for page in pages if page.kind is data_kind]
            assert len(data) == len(pages) - (chunk.path_in_schema == ("word",)) == -(-group.num_rows // 100)
            assert data[0].header_offset_bytes == chunk.data_page_offset
            if data_kind is PageType.DATA_V2:
                assert sum(page.row_count or 0 for page in data) == group.num_rows
                assert chunk.statistics is not None
                assert sum(page.null_count or 0 for page in data) == chunk.statistics.null_count
                has_lists = chunk.path_in_schema[0] == "list"
                assert all((page.repetition_levels_length_bytes > 0) == has_lists for page in data)
                assert all(page.definition_levels_length_bytes > 0 for page in data)


def test_bodies_are_where_the_pages_say() -> None:
    content = written(compression="gzip", data_page_version="2.0", use_dictionary=["word"])
    for chunk in footer_of(content).row_groups[0].chunks:
        for found in walked(content, chunk):
            start = found.body_offset_bytes + found.levels_length_bytes
            body = content[start : found.body_offset_bytes + found.compressed_size_bytes]
            data = zlib.decompress(body, wbits=31) if found.is_compressed else body
            assert len(data) == found.uncompressed_size_bytes - found.levels_length_bytes


def test_every_real_chunk_is_tiled_by_its_pages(questdb_data: Path) -> None:
    paths = sorted(path for folder in ("tables", "legacy") for path in (questdb_data / folder).rglob("*.parquet"))
    assert len(paths) > 100
    hidden_dictionaries = 0
    for path in paths:
        content = path.read_bytes()
        for group in footer_of(content).row_groups:
            for chunk in group.chunks:
                pages = walked(content, chunk)
                is_dictionary = pages[0].kind is PageType.DICTIONARY
                assert is_dictionary == (RLE_DICTIONARY in chunk.encodings), path
                hidden_dictionaries += is_dictionary and chunk.dictionary_page_offset is None
                last = pages[-1]
                end = last.body_offset_bytes + last.compressed_size_bytes
                assert end == start_of(chunk) + chunk.total_compressed_size
    assert hidden_dictionaries > 0


def test_dictionary_and_data_pages_are_distinguished() -> None:
    chunk = (
        dictionary(b"abcd", 3)
        + v1(b"xy", 5)
        + v2(
            b"lrrv",
            {
                "num_values": 4,
                "num_nulls": 2,
                "num_rows": 3,
                "repetition_levels_byte_length": 1,
                "definition_levels_byte_length": 2,
                "is_compressed": False,
            },
        )
    )
    first, second, third = walk(chunk, value_count=9)
    assert [(found.kind.name, found.value_count) for found in (first, second, third)] == [
        ("DICTIONARY", 3),
        ("DATA_V1", 5),
        ("DATA_V2", 4),
    ]
    assert first.header_offset_bytes == 1000
    assert second.header_offset_bytes == first.body_offset_bytes + 4
    assert (third.repetition_levels_length_bytes, third.definition_levels_length_bytes) == (1, 2)
    assert (third.null_count, third.row_count, second.null_count, second.row_count) == (2, 3, None, None)


def test_chunk_without_values_may_be_empty() -> None:
    assert walk(b"") == ()
    assert rejected(b"", value_count=1) == "pages"


def test_index_pages_are_checked_and_left_out() -> None:
    index = page(PageType.INDEX, b"12", {"index_page_header": Struct(())})
    assert [found.kind for found in walk(index + v1() + index, value_count=1)] == [PageType.DATA_V1]
    assert rejected(v1() + page(PageType.INDEX, b"12", crc=1), value_count=1) == "pages[1].crc"


def test_dictionary_page_must_be_the_first() -> None:
    walk(dictionary() + v1(), value_count=1)
    assert rejected(v1() + dictionary(), value_count=1) == "pages[1].type"
    assert rejected(dictionary() + dictionary() + v1(), value_count=1) == "pages[1].type"


@pytest.mark.parametrize("value_count", [4, 6, 8])
def test_data_pages_must_add_up_to_the_expected_values(value_count: int) -> None:
    chunk = dictionary(value_count=3) + v1(value_count=2) + v1(value_count=3)
    walk(chunk, value_count=5)
    assert rejected(chunk, value_count=value_count) == "pages"


def test_pages_must_end_where_the_chunk_ends() -> None:
    chunk = v1(b"abc")
    walk(chunk, value_count=1)
    assert rejected(chunk[:-1], value_count=1) == "pages[0].compressed_page_size"
    for length_bytes in range(1, len(chunk) - 3):
        assert rejected(chunk[:length_bytes], value_count=1).startswith("pages[0].")
    assert rejected(chunk + b"\x15", value_count=1) == "pages[1].type"
    assert rejected(chunk + b"\x00", value_count=1) == "pages[1].type"


@pytest.mark.parametrize("name", ["compressed_page_size", "uncompressed_page_size"])
def test_negative_sizes_are_rejected(name: str) -> None:
    assert rejected(v1(b"", **{name: -1}), value_count=1) == f"pages[0].{name}"


@pytest.mark.parametrize("make", [dictionary, v1])
def test_negative_counts_are_rejected(make: Any) -> None:
    assert rejected(make(value_count=-1), value_count=-1).endswith("_page_header.num_values")


@pytest.mark.parametrize(
    "name", ["num_values", "num_nulls", "num_rows", "definition_levels_byte_length", "repetition_levels_byte_length"]
)
def test_negative_members_of_a_v2_header_are_rejected(name: str) -> None:
    assert rejected(v2(inner={name: -1}), value_count=1) == f"pages[0].data_page_header_v2.{name}"


@pytest.mark.parametrize("name", ["num_nulls", "num_rows"])
def test_v2_page_has_no_more_nulls_and_rows_than_values(name: str) -> None:
    walk(v2(inner={"num_values": 3, name: 3}), value_count=3)
    assert rejected(v2(inner={"num_values": 3, name: 4}), value_count=3) == f"pages[0].{name}"


@pytest.mark.parametrize("is_compressed", [True, False])
def test_levels_of_a_v2_page_lie_in_both_of_its_sizes(is_compressed: bool) -> None:
    def chunk(level_bytes: int, **sizes: int) -> bytes:
        lengths = {"definition_levels_byte_length": level_bytes - 1, "repetition_levels_byte_length": 1}
        return v2(b"abcd", {**lengths, "is_compressed": is_compressed}, **sizes)

    walk(chunk(4), codec=Codec.ZSTD, value_count=1)
    assert rejected(chunk(5), codec=Codec.ZSTD, value_count=1) == "pages[0].compressed_page_size"
    problem_field = rejected(chunk(4, uncompressed_page_size=3), codec=Codec.ZSTD, value_count=1)
    assert problem_field == "pages[0].uncompressed_page_size"


@pytest.mark.parametrize("kind", [PageType.DATA_V1, PageType.DICTIONARY, PageType.DATA_V2])
def test_page_needs_the_header_of_its_kind(kind: PageType) -> None:
    assert rejected(page(kind)).startswith("pages[0].d")


def test_unknown_kind_of_page_is_unsupported() -> None:
    assert rejected(page(4), UnsupportedError) == "pages[0].type"
    assert rejected(page(-1)) == "pages[0].type"


@pytest.mark.parametrize("size_bytes", [4, 6])
def test_uncompressed_pages_have_one_size(size_bytes: int) -> None:
    walk(v1(b"12345"), value_count=1)
    field = "pages[0].uncompressed_page_size"
    assert rejected(v1(b"12345", uncompressed_page_size=size_bytes), value_count=1) == field
    uncompressed_v2 = v2(b"12345", {"is_compressed": False}, uncompressed_page_size=size_bytes)
    assert rejected(uncompressed_v2, codec=Codec.ZSTD, value_count=1) == field


@pytest.mark.parametrize(
    ("codec", "ratio"), [(Codec.SNAPPY, 255), (Codec.LZ4_RAW, 255), (Codec.LZ4, 255), (Codec.GZIP, 1032)]
)
@pytest.mark.parametrize("level_bytes", [0, 3])
def test_expansion_is_bounded_by_the_codec(codec: Codec, ratio: int, level_bytes: int) -> None:
    def chunk(size_bytes: int) -> bytes:
        return v2(bytes(20), {"definition_levels_byte_length": level_bytes}, uncompressed_page_size=size_bytes)

    most = level_bytes + (20 - level_bytes) * ratio + EXPANSION_SLACK_BYTES
    assert walk(chunk(most), codec=codec, value_count=1)[0].uncompressed_size_bytes == most
    assert rejected(chunk(most + 1), codec=codec, value_count=1) == "pages[0].uncompressed_page_size"


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.BROTLI, Codec.LZO])
def test_size_of_a_page_is_capped(codec: Codec) -> None:
    walk(v1(b"12345", uncompressed_page_size=PAGE_SIZE_MAX_BYTES), codec=codec, value_count=1)
    too_large = v1(b"12345", uncompressed_page_size=PAGE_SIZE_MAX_BYTES + 1)
    assert rejected(too_large, UnsupportedError, codec=codec, value_count=1) == "pages[0].uncompressed_page_size"


def test_empty_compressed_page_cannot_become_large() -> None:
    walk(v2(b"", uncompressed_page_size=0), codec=Codec.ZSTD, value_count=1)
    empty = v2(b"", uncompressed_page_size=EXPANSION_SLACK_BYTES + 1)
    assert rejected(empty, codec=Codec.ZSTD, value_count=1) == "pages[0].uncompressed_page_size"


@pytest.mark.parametrize("make", [dictionary, v1])
def test_checksum_counts_the_whole_body_and_is_signed_on_the_wire(make: Any) -> None:
    bodies = [bytes([byte]) * 9 for byte in range(8)]
    checksums = [zlib.crc32(body) for body in bodies]
    assert {crc >> 31 for crc in checksums} == {0, 1}
    for body, crc in zip(bodies, checksums, strict=True):
        signed = crc - (1 << 32) if crc >> 31 else crc
        chunk = make(body, crc=signed) + v1()
        pages = walk(chunk, value_count=1 if make is dictionary else 2)
        assert pages[0].crc == crc
        assert rejected(make(body, crc=signed ^ 1) + v1(), value_count=2) == "pages[0].crc"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_flipped_bit_of_a_body_with_checksum_is_rejected(version: str) -> None:
    content = written(compression="snappy", data_page_version=version, write_page_checksum=True, use_dictionary=False)
    chunk = footer_of(content).row_groups[1].chunks[0]
    start = start_of(chunk)
    data = content[start : start + chunk.total_compressed_size]
    body_position = walked(content, chunk)[0].header_length_bytes
    for damaged in each_flipped(data, 7, body_position * 8):
        assert rejected(damaged, codec=chunk.codec, value_count=chunk.num_values) == "pages[0].crc"
    walk(data, codec=chunk.codec, value_count=chunk.num_values)


def test_header_of_too_many_nodes_is_rejected() -> None:
    def chunk(count: int) -> bytes:
        unknown = Field(99, Kind.LIST, Items(Kind.BYTE, (0,) * count))
        values = {"type": 1, "uncompressed_page_size": 0, "compressed_page_size": 0}
        return encode(Struct((*struct(PAGE_HEADER, **values).fields, unknown)))

    fields = 4
    walk(chunk(HEADER_NODE_COUNT_MAX - fields))
    with pytest.raises(UnsupportedError, match="limit"):
        walk(chunk(HEADER_NODE_COUNT_MAX - fields + 1))


def test_a_chunk_has_a_limit_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    three = v1(b"ab", 1) * 3
    assert limits.PAGE_COUNT_LIMIT == 65_536
    monkeypatch.setattr(limits, "PAGE_COUNT_LIMIT", 3)
    assert len(walk(three, value_count=3)) == 3
    monkeypatch.setattr(limits, "PAGE_COUNT_LIMIT", 2)
    with pytest.raises(UnsupportedError, match="pages at byte 1000: expected at most 2 in a chunk"):
        walk(three, value_count=3)


@given(st.binary(max_size=60), st.sampled_from(Codec))
def test_random_bytes_are_rejected(data: bytes, codec: Codec) -> None:
    with pytest.raises((CorruptError, UnsupportedError)):
        walk(data, codec=codec, value_count=1)


SAMPLE = dictionary(b"abcd", 3) + v1(b"xy", 5) + v2(b"lv", {"definition_levels_byte_length": 1})


@given(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_damaged_chunks_are_rejected_or_tiled(position: int, inserted: bytes, removed_bytes: int) -> None:
    data = SAMPLE[:position] + inserted + SAMPLE[position + removed_bytes :]
    try:
        pages = walk(data, value_count=6)
    except (CorruptError, UnsupportedError):
        return
    last = pages[-1]
    assert last.body_offset_bytes + last.compressed_size_bytes <= 1000 + len(data)
    assert sum(found.value_count for found in pages if found.kind is not PageType.DICTIONARY) == 6


def test_of_a_wrong_checksum_and_a_broken_header_the_first_is_named() -> None:
    sound, wrong = v1(b"abcd", crc=zlib.crc32(b"abcd") - (1 << 32)), v1(b"abcd", crc=1)
    broken = v1(b"abcd", compressed_page_size=1000, uncompressed_page_size=1000)
    assert rejected(sound + wrong + broken, value_count=3) == "pages[1].crc"
    assert rejected(sound + broken + wrong, value_count=3) == "pages[1].compressed_page_size"
    assert rejected(wrong + sound + wrong, value_count=3) == "pages[0].crc"
    assert rejected(sound + sound + wrong, value_count=3) == "pages[2].crc"
