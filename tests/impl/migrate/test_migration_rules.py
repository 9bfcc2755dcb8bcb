"""Rules of the converter for row groups, chunks, order of rows and the JSON, and what only the server does."""

import itertools
import json
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
    with_text,
)
from parquet_files import written

from tornproof.impl.layout import pm as layout
from tornproof.impl.migrate import blooms
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.json_rules import JsonError, parse_json
from tornproof.impl.migrate.rejections import Cause
from tornproof.impl.parquet.thrift import Items, Kind, encode
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata

# Row groups and chunks


@pytest.mark.parametrize(
    ("path", "value", "cause"),
    [
        ((3,), -1, Cause.NEGATIVE),
        ((4, [1], 2), -1, Cause.NEGATIVE),
        ((4, [1], 3), -1, Cause.NEGATIVE),
        ((*META, 7), -1, Cause.NEGATIVE),
        ((*META, 9), -1, Cause.NEGATIVE),
        ((*META, 11), -1, Cause.NEGATIVE),
        ((*META, 6), -1, None),
        ((*META, 10), -1, None),
        ((*META, 5), -1, None),
        ((*META, 4), 8, Cause.OUT_OF_RANGE),
        ((*META, 4), -1, Cause.OUT_OF_RANGE),
        ((*META, 4), 5, None),
        ((*META, 1), 3, None),
        ((4, [0], 1), Items(Kind.STRUCT, ()), Cause.ROW_GROUP),
        ((4, [0], 1, [1], 1), b"", Cause.FILE_PATH),
        ((4, [0], 1, [1], 1), b"other.parquet", Cause.FILE_PATH),
    ],
)
def test_numbers_of_row_groups(path: Any, value: Any, cause: Cause | None) -> None:
    content = mf.edited(PLAIN, path, value)
    assert mf.cause_of(content, TOOL) is mf.cause_of(content, TOOL, as_questdb=True) is cause


def test_negative_counts_are_0_and_stay_known() -> None:
    content = mf.edited(PLAIN, (*META, 5), -7)
    content = mf.edited(mf.edited(content, (*STATISTICS, 3), -1), (*STATISTICS, 4), -2, Kind.I64)
    chunk = first_chunk(content)
    assert (chunk.num_values, chunk.null_count, chunk.distinct_count) == (0, 0, 0)
    bare = first_chunk(mf.edited(PLAIN, STATISTICS, None))
    assert (bare.null_count, bare.distinct_count, bare.minimum, bare.maximum) == (None, None, None, None)


@pytest.mark.parametrize(
    ("encodings", "mask"),
    [((), 0), ((0,), 1), ((2, 8), 2), ((3, 4, 99, -1, 1), 0), ((5, 6, 7, 9), 0b111100), ((0, 0, 3), 1)],
)
def test_encodings_have_bits(encodings: tuple[int, ...], mask: int) -> None:
    assert first_chunk(mf.edited(PLAIN, (*META, 2), Items(Kind.I32, encodings))).encodings == mask


def test_chunk_starts_at_its_dictionary_page_wherever_that_is() -> None:
    data_page = 9_000
    content = mf.edited(PLAIN, (*META, 9), data_page)
    assert first_chunk(mf.edited(content, (*META, 11), 10_000)).byte_range_start == 10_000
    assert first_chunk(mf.edited(content, (*META, 11), None)).byte_range_start == data_page


def test_dictionary_page_at_offset_0_is_none_but_for_the_converter() -> None:
    content = mf.edited(mf.edited(PLAIN, (*META, 9), 9_000), (*META, 11), 0)
    assert first_chunk(content).byte_range_start == 9_000
    assert first_chunk(content, as_questdb=True).byte_range_start == 0


@pytest.mark.parametrize("length", [0, 1, 8, 9, 65_535])
def test_bounds_are_bytes_of_any_length(length: int) -> None:
    content = mf.edited(PLAIN, (*STATISTICS, 6), b"\xa5" * length, Kind.BINARY)
    chunk = first_chunk(content)
    assert text_bounds(chunk)[0] == (b"\xa5" * length or None)
    assert chunk.maximum is not None
    assert chunk.maximum.exact


@pytest.mark.parametrize("field", [5, 6])
def test_bounds_too_long_for_pm_are_rejected(field: int) -> None:
    content = mf.edited(PLAIN, (*STATISTICS, field), bytes(65_536), Kind.BINARY)
    assert mf.cause_of(content) is Cause.LONG_STATISTIC


def test_deprecated_bounds_are_not_used_and_exactness_is_not_read() -> None:
    content = mf.edited(mf.edited(PLAIN, (*STATISTICS, 5), None), (*STATISTICS, 6), None)
    assert text_bounds(first_chunk(content)) == (None, None)
    inexact = mf.edited(PLAIN, (*STATISTICS, 8), False, Kind.BOOL)
    assert mf.decoded(mf.converted(inexact)).blocks == mf.decoded(mf.converted(PLAIN)).blocks


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda content: content[:11], Cause.TAIL),
        (lambda content: content[:-1] + b"2", Cause.TAIL),
        (lambda content: content[:-4] + b"PARE", Cause.TAIL),
        (lambda content: content[:-8] + (len(content) - 7).to_bytes(4, "little") + b"PAR1", Cause.TAIL),
        (lambda content: content[:-8] + b"\xff\xff\xff\xffPAR1", Cause.NEGATIVE),
        (lambda content: bytes(4) + content[4:], None),
    ],
)
def test_end_of_file(change: Any, cause: Cause | None) -> None:
    assert mf.cause_of(change(PLAIN)) is cause


def test_only_the_bytes_up_to_the_size_count() -> None:
    longer = PLAIN + b"of a later commit"
    read = mf.whole(longer).read
    assert convert(read, size_bytes=len(PLAIN), file=mf.FILE) == mf.converted(PLAIN)
    assert mf.cause_of(mf.Source(len(PLAIN) + 5, PLAIN + bytes(5))) is Cause.TAIL


# Order of rows


def order_in(metadata: Metadata) -> tuple[int, tuple[int, ...], int, list[int]]:
    """Designated timestamp, stored sorting columns, shortcut bit, descending columns."""
    header = metadata.header
    descending = [index for index, column in enumerate(header.columns) if layout.DESCENDING.get(column.flags)]
    shortcut = layout.SORTING_IS_DTS_ASC.get(header.feature_flags)
    return header.designated_timestamp, header.sorting_columns, shortcut, descending


@pytest.mark.parametrize(
    ("content", "sorting", "expected"),
    [
        (timestamps(), [sorted_by((0, False))] * 2, (0, (), 1, [])),
        (timestamps(), [None, sorted_by((0, False))], (0, (), 1, [])),
        (timestamps(), [sorted_by(), sorted_by((0, False), nulls_first=True)], (0, (), 1, [])),
        (timestamps(MS), [sorted_by((0, False))] * 2, (0, (), 1, [])),
        (timestamps(), [sorted_by((0, True))] * 2, (-1, (0,), 0, [0])),
        (timestamps(), [sorted_by((0, False), (1, True))] * 2, (0, (0, 1), 0, [1])),
        (timestamps(), [sorted_by((1, False), (0, False))] * 2, (-1, (1, 0), 0, [])),
        (timestamps(), [sorted_by((0, False), (0, True))] * 2, (0, (0, 0), 0, [])),
        (timestamps(nullable=True), [sorted_by((0, False))] * 2, (-1, (0,), 0, [])),
        (timestamps(), [None, None], (-1, (), 0, [])),
    ],
)
def test_order_of_row_groups(content: bytes, sorting: list[Items | None], expected: Any) -> None:
    for position, entries in enumerate(sorting):
        content = mf.edited(content, (4, [position], 4), entries)
    assert order_in(mf.decoded(mf.converted(content))) == expected


@pytest.mark.parametrize("index", [2, 7, -1])
def test_sorting_columns_are_written_as_given(index: int) -> None:
    pm = mf.converted(mf.edited(timestamps(row_group_size=4), (4, [0], 4), sorted_by((index, False))))
    position = layout.Header.layout.size_bytes + 2 * layout.ColumnDescriptor.layout.size_bytes
    assert layout.Header.unpack(pm, 0, file="_pm").designated_timestamp == -1
    assert layout.SortingColumn.unpack(pm, position, file="_pm").index == index & 0xFFFFFFFF


@pytest.mark.parametrize("other", [sorted_by((0, True)), sorted_by((1, False)), sorted_by((0, False), (1, False))])
def test_row_groups_must_agree_in_their_order(other: Items) -> None:
    content = mf.edited(mf.edited(timestamps(), (4, [0], 4), sorted_by((0, False))), (4, [1], 4), other)
    assert mf.cause_of(content) is Cause.SORTING
    designated = with_json(content, [{"column_type": 8 + (1 << 17)}, {"column_type": 6}])
    assert order_in(mf.decoded(mf.converted(designated))) == (0, (), 1, [])


# JSON


def test_json_gives_types_flags_and_order() -> None:
    columns = [
        {"column_type": 8 + (1 << 17) + (1 << 20), "format": 1, "ascii": False},
        {"column_type": 26, "ascii": True},
    ]
    metadata = mf.decoded(mf.converted(with_json(timestamps(), columns, squash_tracker=3, unused_bytes=99)))
    first, second = metadata.header.columns
    assert (first.type, first.flags) == (columns[0]["column_type"], 0b10001)
    assert (second.type, second.flags) == (26, 0b110)
    assert metadata.header.squash_tracker == 3
    assert order_in(metadata) == (0, (0,), 0, [0])
    assert metadata.generation.position.fixed.unused_bytes == 0


def test_sorted_column_is_designated_only_if_the_json_says_timestamp() -> None:
    content = mf.edited(timestamps(row_group_size=4), (4, [0], 4), sorted_by((0, False)))
    for column_type, expected in ((8, 0), (262152, 0), (6, -1), (6 + (1 << 17), -1)):
        given = with_json(content, [{"column_type": column_type}, {"column_type": 6}])
        assert mf.decoded(mf.converted(given)).header.designated_timestamp == expected


def test_only_the_first_pair_counts_and_only_with_a_value() -> None:
    good = json.dumps({"version": 1, "schema": [{"column_type": 2}, {"column_type": 3}]})
    types = {
        name: [column.type for column in mf.decoded(mf.converted(content)).header.columns]
        for name, content in {
            "first": with_text(PLAIN, good, "no JSON"),
            "none": with_text(PLAIN, None, good),
        }.items()
    }
    assert types == {"first": [2, 3], "none": [6, 26]}


def test_id_of_a_column_is_that_of_the_json_before_the_field_id() -> None:
    with_field_id = mf.edited(PLAIN, (2, [1], 9), 3, Kind.I32)
    ids: tuple[dict[str, int | None], ...] = ({"id": 7}, {"id": 0}, {"id": -1}, {"id": None}, {})
    found = []
    for content, more in itertools.product((PLAIN, with_field_id), ids):
        told = with_json(content, [{"column_type": 6, **more}, {"column_type": 26}])
        found.append([column.id for column in mf.decoded(mf.converted(told)).header.columns])
    assert found == [[each, -1] for each in (7, 0, -1, -1, -1, 7, 0, 3, 3, 3)]


def test_json_of_another_width_is_rejected_in_both_modes_and_no_json_at_all_by_the_server() -> None:
    narrow, broken = with_json(PLAIN, [{"column_type": 2}]), with_text(PLAIN, "{")
    assert [mf.cause_of(narrow, mode) for mode in (TOOL, SERVER)] == [Cause.JSON, Cause.JSON]
    assert [mf.cause_of(broken, mode) for mode in (TOOL, SERVER)] == [None, Cause.JSON]
    assert [column.type for column in mf.decoded(mf.converted(broken, TOOL)).header.columns] == [6, 26]


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"schema":[]}',
        ' {"version":1,"schema":[],"x":{"version":2,"version":3},"y":-0,"z":1e999}\n',
        '{"version":1,"schema":[],"squash_tracker":-9223372036854775808,"unused_bytes":18446744073709551615}',
        '{"version":1,"schema":[{"column_type":40,"column_top":5,"format":null,"ascii":null,"id":null}]}',
        '{"version":1,"schema":[{"column_type":5,"id":-2147483648},{"column_type":5,"id":2147483647}]}',
        '{"\\u0076ersion":1,"schema":[{"column_type":2147483393}]}',
        '{"version":1,"schema":[],"x":%s}' % ("9" * 5000),
    ],
)
def test_json_that_is_taken(text: str) -> None:
    assert parse_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"version":1}',
        '{"schema":[]}',
        '{"version":2,"schema":[]}',
        '{"version":1.0,"schema":[]}',
        '{"version":"1","schema":[]}',
        '{"version":true,"schema":[]}',
        '{"version":1,"schema":{}}',
        '{"version":1,"schema":[]} x',
        '{"version":1,"schema":[],}',
        '{"version":1,"schema":[],"version":1}',
        '{"version":1,"schema":[],"x":NaN}',
        '{"version":1,"schema":[],"\\ud800":1}',
        '{"version":1,"schema":[],"unused_bytes":-1}',
        '{"version":1,"schema":[],"unused_bytes":-0}',
        '{"version":1,"schema":[],"unused_bytes":18446744073709551616}',
        '{"version":1,"schema":[],"squash_tracker":null}',
        '{"version":1,"schema":[],"squash_tracker":9223372036854775808}',
        '{"version":1,"schema":[5]}',
        '{"version":1,"schema":[{}]}',
        '{"version":1,"schema":[{"column_type":0}]}',
        '{"version":1,"schema":[{"column_type":-8}]}',
        '{"version":1,"schema":[{"column_type":20}]}',
        '{"version":1,"schema":[{"column_type":256}]}',
        '{"version":1,"schema":[{"column_type":2147483648}]}',
        '{"version":1,"schema":[{"column_type":5,"column_top":-1}]}',
        '{"version":1,"schema":[{"column_type":5,"column_top":null}]}',
        '{"version":1,"schema":[{"column_type":5,"format":0}]}',
        '{"version":1,"schema":[{"column_type":5,"format":true}]}',
        '{"version":1,"schema":[{"column_type":5,"ascii":1}]}',
        '{"version":1,"schema":[{"column_type":5,"ascii":true,"ascii":true}]}',
        '{"version":1,"schema":[{"column_type":5,"id":"1"}]}',
        '{"version":1,"schema":[{"column_type":5,"id":true}]}',
        '{"version":1,"schema":[{"column_type":5,"id":1.0}]}',
        '{"version":1,"schema":[{"column_type":5,"id":2147483648}]}',
        '{"version":1,"schema":[{"column_type":5,"id":-2147483649}]}',
        '{"version":1,"schema":[{"column_type":5,"id":1,"id":1}]}',
        '{"version":1,"schema":[],"x":' + "[" * 100_000,
    ],
)
def test_json_that_is_rejected(text: str) -> None:
    with pytest.raises(JsonError):
        parse_json(text)


def test_tags_of_columns() -> None:
    taken = []
    for tag in range(1, 256):
        try:
            parse_json(f'{{"version":1,"schema":[{{"column_type":{tag}}}]}}')
            taken.append(tag)
        except JsonError:
            continue
    assert taken == [*range(1, 20), *range(24, 34), 40]


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
