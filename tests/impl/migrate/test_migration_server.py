"""What only the server does: bloom filters inlined, missing bounds of timestamps decoded."""

from typing import Any

import migrated_files as mf
import pyarrow as pa
import pytest
from migrated_files import (
    META,
    MS,
    NS,
    PLAIN,
    SERVER,
    STATISTICS,
    TOOL,
    first_chunk,
    sorted_by,
    struct,
    text_bounds,
    timestamps,
    with_json,
)
from parquet_files import written

from tornproof.impl.migrate import blooms
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.rejections import Cause
from tornproof.impl.parquet.thrift import Kind, encode
from tornproof.impl.pm.block import Chunk

# Bloom filters


def bloom_header(num_bytes: int, algorithm: int = 1, hashing: int = 1, compression: int = 1) -> bytes:
    members = [(2, algorithm), (3, hashing), (4, compression)]
    fields = [(field, Kind.STRUCT, struct((member, Kind.STRUCT, struct()))) for field, member in members]
    return encode(struct((1, Kind.I32, num_bytes), *fields, (9, Kind.BINARY, b"unknown")))


def with_bloom(filter_bytes: bytes, *, length: int | None = 47, after: bool = False) -> mf.Source:
    """The file with a filter of its first chunk, in front of the footer or behind the end that is converted."""
    footer_length = int.from_bytes(PLAIN[-8:-4], "little")
    at = len(PLAIN) - 8 - footer_length
    content = PLAIN[:at] + (b"" if after else filter_bytes) + PLAIN[at:]
    position = 1 << 20 if after else at
    content = mf.edited(mf.edited(content, (*META, 14), position, Kind.I64), (*META, 15), length, Kind.I32)
    return mf.Source(len(content), content + bytes(max(position - len(content), 0)) + filter_bytes * after)


def inlined(source: mf.Source, mode: ConversionMode = SERVER) -> bytes:
    """The `_pm` of a file with more bytes behind its end."""
    return convert(
        lambda size, offset: source.tail[offset : offset + size],
        size_bytes=source.size_bytes,
        physical_size_bytes=len(source.tail),
        file=mf.FILE,
        mode=mode,
    )


def blooms_in(source: mf.Source, mode: ConversionMode = SERVER) -> tuple[int, ...]:
    return mf.decoded(inlined(source, mode)).header.bloom_columns


BITSET = bytes(range(64))


@pytest.mark.parametrize("after", [False, True])
def test_filters_are_inlined_by_the_server(after: bool) -> None:
    source = with_bloom(bloom_header(64) + BITSET, after=after)
    pm = inlined(source)
    metadata = mf.decoded(pm)
    assert metadata.header.bloom_columns == (0,)
    (reference,), (absent,) = metadata.generation.blooms
    assert reference is not None
    assert absent is None
    assert reference.offset_bytes % 8 == 0
    assert pm[reference.offset_bytes :][: 4 + 64] == (64).to_bytes(4, "little") + BITSET


def test_filters_are_not_inlined_by_the_tool() -> None:
    assert blooms_in(with_bloom(bloom_header(64) + BITSET), TOOL) == ()


@pytest.mark.parametrize("num_bytes", [0, 31, 48])
def test_filters_of_odd_sizes_are_none(num_bytes: int) -> None:
    assert blooms_in(with_bloom(bloom_header(num_bytes) + BITSET)) == ()


@pytest.mark.parametrize("length", [None, 0, -1])
def test_filter_without_a_length_is_none(length: int | None) -> None:
    assert blooms_in(with_bloom(b"garbage", length=length)) == ()


@pytest.mark.parametrize(
    "filter_bytes",
    [
        bloom_header(-32) + BITSET,
        bloom_header(64, algorithm=2) + BITSET,
        bloom_header(64, hashing=2) + BITSET,
        bloom_header(64, compression=2) + BITSET,
        bloom_header(1 << 20) + BITSET,
        b"\xff" * 64,
        bloom_header(64)[:5],
    ],
)
def test_filters_that_cannot_be_read_are_rejected(filter_bytes: bytes) -> None:
    assert mf.cause_of(with_bloom(filter_bytes)) is Cause.BLOOM


@pytest.mark.parametrize(("limit_bytes", "cause"), [(0, Cause.BLOOM), (8192, None)])
def test_shared_filters_are_copied_up_to_a_limit(
    limit_bytes: int, cause: Cause | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blooms, "TOTAL_MAX_BYTES", limit_bytes)
    content = with_bloom(bloom_header(4096) + bytes(4096)).tail
    assert mf.cause_of(content) is None
    (offset,) = [field.value for field in mf.meta_fields(content) if field.id == 14]
    other = (4, [0], 1, [1], 3)
    shared = mf.edited(mf.edited(content, (*other, 14), offset, Kind.I64), (*other, 15), 47, Kind.I32)
    assert mf.cause_of(shared) is cause


# Back-filled timestamps


def designated(content: bytes, column_type: int = 8) -> bytes:
    return with_json(content, [{"column_type": column_type | 1 << 17}, {"column_type": 6}])


def numbers(chunk: Chunk) -> tuple[int, int]:
    low, high = text_bounds(chunk)
    assert low is not None
    assert high is not None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"ts": "DELTA_BINARY_PACKED", "v": "PLAIN"}},
        {"data_page_version": "2.0"},
        {"data_page_size": 16, "use_dictionary": False},
        *({"compression": codec} for codec in ("none", "gzip", "brotli", "zstd", "lz4", "snappy")),
    ],
)
def test_missing_bounds_of_the_timestamp_are_decoded(options: dict[str, Any]) -> None:
    content = designated(timestamps(rows=40, row_group_size=20, write_statistics=False, **options))
    metadata = mf.decoded(mf.converted(content))
    assert [numbers(block.chunks[0]) for block in metadata.blocks] == [(10, 29), (30, 49)]
    assert all(block.chunks[1].minimum is None for block in metadata.blocks)
    assert mf.decoded(mf.converted(content, TOOL)).blocks[0].chunks[0].minimum is None


def test_first_and_last_rows_count_not_smallest_and_largest() -> None:
    table = pa.table({"ts": pa.array([None, 9, 1, 5, None], pa.int64()), "v": pa.array(range(5))})
    content = designated(written(table, write_statistics=False))
    assert numbers(first_chunk(content)) == (-1 << 63, -1 << 63)
    table = pa.table({"ts": pa.array([4, 9, 1, None, 5], pa.int64()), "v": pa.array(range(5))})
    content = designated(written(table, write_statistics=False))
    assert numbers(first_chunk(content)) == (4, 5)
    assert first_chunk(content).null_count is None


def test_int96_counts_nanoseconds() -> None:
    table = pa.table({"ts": pa.array([5, -7], NS), "v": pa.array([1, 2])})
    content = designated(written(table, use_deprecated_int96_timestamps=True))
    assert numbers(first_chunk(content)) == (5, -7)


def test_bounds_that_are_there_are_kept_and_long_ones_replaced() -> None:
    content = designated(timestamps(row_group_size=4))
    odd = mf.edited(content, (*STATISTICS, 6), b"\x07", Kind.BINARY)
    assert text_bounds(first_chunk(odd))[0] == b"\x07"
    long = mf.edited(content, (*STATISTICS, 6), bytes(70_000), Kind.BINARY)
    assert numbers(first_chunk(long)) == (10, 13)
    assert mf.cause_of(long, TOOL) is Cause.LONG_STATISTIC


def test_dates_and_empty_row_groups_have_no_bounds_decoded() -> None:
    dates = mf.edited(timestamps(MS, row_group_size=4, write_statistics=False), (4, [0], 4), sorted_by((0, False)))
    assert mf.decoded(mf.converted(dates)).header.designated_timestamp == 0
    assert first_chunk(dates).minimum is None
    empty = mf.edited(designated(timestamps(row_group_size=4, write_statistics=False)), (*META, 5), 0)
    assert first_chunk(empty).minimum is None


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([1, 2], pa.int64()), {"use_dictionary": False, "column_encoding": {"ts": "BYTE_STREAM_SPLIT"}}),
        (pa.array([1, 2], pa.int32()), {}),
        (pa.array([1.0, 2.0]), {}),
        (pa.array(["a", "b"]), {}),
    ],
)
def test_other_encodings_and_types_are_rejected(column: pa.Array, options: dict[str, Any]) -> None:
    content = written(pa.table({"ts": column, "v": pa.array([1, 2])}), write_statistics=False, **options)
    assert mf.cause_of(designated(content)) is Cause.PAGES
    assert mf.cause_of(designated(content), TOOL) is None


def test_damaged_pages_are_rejected() -> None:
    content = designated(timestamps(row_group_size=4, write_statistics=False))
    start = first_chunk(content, TOOL).byte_range_start
    assert mf.cause_of(content) is None
    assert mf.cause_of(content[:start] + bytes(30) + content[start + 30 :]) is Cause.PAGES
    assert mf.cause_of(mf.edited(content, (*META, 4), 3)) is Cause.PAGES
    assert mf.cause_of(mf.edited(content, (*META, 7), 1 << 40, Kind.I64)) is Cause.PAGES


def test_reading_costs_the_footer_and_the_chunks_that_are_decoded() -> None:
    content = timestamps(rows=4000, row_group_size=2000, use_dictionary=False, compression="none")
    read: list[int] = []

    def counted(size_bytes: int, offset_bytes: int) -> bytes:
        read.append(size_bytes)
        return content[offset_bytes : offset_bytes + size_bytes]

    convert(counted, size_bytes=len(content), file=mf.FILE)
    assert sum(read) == 8 + 8 + int.from_bytes(content[-8:-4], "little")
