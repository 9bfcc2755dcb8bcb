"""One chunk's bytes decode to the column's type, or are rejected before they can do harm."""

from __future__ import annotations

import dataclasses
import functools
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import golden_data
import numpy as np
import parquet_files
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from damage import flipped
from depth import nightly, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from parquet_files import chunk_of, column_of, footer_of
from rejections import rejection
from type_values import NANOSECONDS, array_type, decimal_type, text

from tornproof.impl.chunk import chunk as chunk_module
from tornproof.impl.chunk import expansion as chunk_expansion
from tornproof.impl.chunk import statistics
from tornproof.impl.chunk.chunk import VALUE_COUNT_MAX, decode_chunk, pages_of
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.layout.pm import Header
from tornproof.impl.parquet.fields import PageType
from tornproof.impl.parquet.thrift import Struct, decode, encode
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.chain import Metadata, decode_metadata, walk
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.pm.header import Column
from tornproof.impl.types.arrow import arrow_type
from tornproof.impl.types.questdb import TypeTag

MIB = 1 << 20
PARQUET_FILE = pq.ParquetFile


@dataclasses.dataclass(frozen=True)
class Written:
    """A chunk that pyarrow wrote, with its description for `_pm`."""

    content: bytes
    column: Column
    chunk: Chunk

    def decode(self) -> pa.Array:
        return decode_chunk(self.content, self.column, self.chunk, file="data.parquet")

    def with_column(self, **changes: Any) -> Written:
        return dataclasses.replace(self, column=structs.replace(self.column, **changes))

    def with_chunk(self, **changes: Any) -> Written:
        return dataclasses.replace(self, chunk=structs.replace(self.chunk, **changes))

    def with_content(self, content: bytes) -> Written:
        return dataclasses.replace(self, content=content).with_chunk(total_compressed=len(content))


def written(values: pa.Array, column_type: int, *, nullable: bool = True, **options: Any) -> Written:
    table = pa.table([values], schema=pa.schema([pa.field("x", values.type, nullable=nullable)]))
    data = parquet_files.written(table, store_schema=False, row_group_size=VALUE_COUNT_MAX, **options)
    footer = footer_of(data)
    (leaf,), (row_group,) = footer.leaves, footer.row_groups
    chunk = chunk_of(row_group.chunks[0])
    return Written(data[chunk.byte_range_start : chunk.byte_range_end], column_of(leaf, column_type), chunk)


def rejected(case: Written, kind: type[ProblemError]) -> str:
    with pytest.raises(kind) as caught:
        case.decode()
    assert type(caught.value) is kind
    assert caught.value.problem.offset_bytes == case.chunk.byte_range_start
    return caught.value.problem.field.removesuffix(" of column 'x'")


UTC_MS, UTC_US, UTC_NS = (pa.timestamp(unit, tz="UTC") for unit in ("ms", "us", "ns"))
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
UUIDS = [uuid.UUID(int=1), None, uuid.UUID(int=2**128 - 1)]
# Each case: stored values, QuestDB type, the decoded array.
TYPES: dict[str, tuple[pa.Array, int, pa.Array]] = {
    "boolean": (pa.array([True, False]), TypeTag.BOOLEAN, pa.array([True, False])),
    "byte": (pa.array([-128, 127], pa.int32()), TypeTag.BYTE, pa.array([-128, 127], pa.int8())),
    "short": (pa.array([-32768, 32767], pa.int32()), TypeTag.SHORT, pa.array([-32768, 32767], pa.int16())),
    "char": (pa.array([0, 65535], pa.int32()), TypeTag.CHAR, pa.array([0, 65535], pa.uint16())),
    "int": (pa.array([-5, None], pa.int32()), TypeTag.INT, pa.array([-5, None], pa.int32())),
    "ipv4": (pa.array([2**32 - 1, None, 1], pa.uint32()), TypeTag.IPV4, pa.array([2**32 - 1, None, 1], pa.uint32())),
    "geobyte": (pa.array([-1, 3], pa.int32()), TypeTag.GEOBYTE | 4 << 8, pa.array([-1, 3], pa.int8())),
    "date": (pa.array([NOON, None], UTC_MS), TypeTag.DATE, pa.array([NOON, None], UTC_MS)),
    "date in days": (
        pa.array([date(2024, 5, 1), None]),
        TypeTag.DATE,
        pa.array([datetime(2024, 5, 1, tzinfo=UTC), None], UTC_MS),
    ),
    "timestamp": (pa.array([NOON, None], UTC_US), TypeTag.TIMESTAMP, pa.array([NOON, None], UTC_US)),
    "nanoseconds": (pa.array([7, None], pa.int64()), NANOSECONDS, pa.array([7, None], UTC_NS)),
    "float": (pa.array([1.5, None], pa.float32()), TypeTag.FLOAT, pa.array([1.5, None], pa.float32())),
    "double": (pa.array([-1.5, None]), TypeTag.DOUBLE, pa.array([-1.5, None])),
    "symbol": (pa.array(["a", None, "ä", "a"]), TypeTag.SYMBOL, pa.array(["a", None, "ä", "a"])),
    "binary": (pa.array([b"\xff", None, b""]), TypeTag.BINARY, pa.array([b"\xff", None, b""])),
    "long128": (
        pa.array([b"a" * 16, None], pa.binary(16)),
        TypeTag.LONG128,
        pa.array([b"a" * 16, None], pa.binary(16)),
    ),
    "long256": (
        pa.array([b"a" * 32, None], pa.binary(32)),
        TypeTag.LONG256,
        pa.array([b"a" * 32, None], pa.binary(32)),
    ),
    "uuid": (
        pa.array([value and value.bytes for value in UUIDS], pa.binary(16)),
        TypeTag.UUID,
        pa.array(UUIDS, pa.uuid()),
    ),
    "decimal": (
        pa.array([Decimal("-1.2"), None], pa.decimal128(2, 1)),
        decimal_type(TypeTag.DECIMAL8, 2, 1),
        pa.array([Decimal("-1.2"), None], pa.decimal128(2, 1)),
    ),
    "decimal of 256 bits": (
        pa.array([Decimal("9" * 62), None], pa.decimal256(70, 8)),
        decimal_type(TypeTag.DECIMAL256, 70, 8),
        pa.array([Decimal("9" * 62), None], pa.decimal256(70, 8)),
    ),
    "raw array": (
        pa.array([b"\1\0\0\0\0\0\0\0" + np.float64(2.5).tobytes(), None]),
        array_type(1),
        pa.array([[2.5], None], pa.list_(pa.field("element", pa.float64()))),
    ),
    "unknown": (pa.array([b"ab", None], pa.binary(2)), -1, pa.array([b"ab", None], pa.binary(2))),
    "only nulls": (pa.array([None, None], pa.string()), TypeTag.VARCHAR, pa.array([None, None], pa.string())),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_decodes(name: str, use_dictionary: bool, version: str) -> None:
    stored, column_type, expected = TYPES[name]
    found = written(stored, column_type, use_dictionary=use_dictionary, data_page_version=version).decode()
    assert found.type == expected.type
    assert found.equals(expected)


class ReadAsTable:
    """A file of one column that is read as a table, the plain way, where its reader is asked for the column."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.file = PARQUET_FILE(*arguments, **settings)
        self.reader = self

    def read_column(self, index: int) -> pa.ChunkedArray:
        return self.file.read(use_threads=False).column(index)


def outcome(case: Written) -> object:
    try:
        found = case.decode()
    except ProblemError as error:
        return type(error), error.problem.field, error.problem.offset_bytes
    return found.type, text(found)


@pytest.mark.parametrize("example_count", [30, nightly(5_000)])
def test_a_column_is_read_as_in_a_table_whatever_its_bytes_are(example_count: int) -> None:
    cases = [
        written(TYPES[name][0], TYPES[name][1], use_dictionary=use_dictionary, data_page_version=version)
        for name in TYPES
        for use_dictionary in (True, False)
        for version in ("1.0", "2.0")
    ]

    @settings(max_examples=example_count)
    @given(st.sampled_from(cases), st.none() | st.integers(0))
    def check(case: Written, bit: int | None) -> None:
        if bit is not None and case.content:
            case = case.with_content(flipped(case.content, bit % (8 * len(case.content))))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pq, "ParquetFile", ReadAsTable)
            plain = outcome(case)
        assert outcome(case) == plain

    check()


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_every_codec_decodes_with_and_without_levels(codec: str, nullable: bool) -> None:
    values = pa.array([f"text {index % 50}" for index in range(3000)])
    case = written(values, TypeTag.VARCHAR, compression=codec, nullable=nullable, write_page_checksum=True)
    assert case.column.max_def_level == nullable
    assert case.decode().equals(values)


@pytest.mark.parametrize(
    ("values", "column_type", "encoding"),
    [
        (pa.array(range(1000)), TypeTag.LONG, "DELTA_BINARY_PACKED"),
        (pa.array([index / 3 for index in range(1000)]), TypeTag.DOUBLE, "BYTE_STREAM_SPLIT"),
        (pa.array(list(map(str, range(1000)))), TypeTag.VARCHAR, "DELTA_LENGTH_BYTE_ARRAY"),
        (pa.array(list(map(str, range(1000)))), TypeTag.VARCHAR, "DELTA_BYTE_ARRAY"),
    ],
)
def test_every_encoding_decodes(values: pa.Array, column_type: int, encoding: str) -> None:
    case = written(values, column_type, column_encoding={"x": encoding}, use_dictionary=False)
    assert case.decode().equals(values)


def test_chunk_without_values_has_no_pages() -> None:
    case = written(pa.array([1]), TypeTag.LONG).with_chunk(num_values=0, minimum=None, maximum=None)
    empty = case.with_content(b"").decode()
    assert (len(empty), empty.type) == (0, pa.int64())
    with pytest.raises(CorruptError, match="0 values"):
        case.decode()


def test_levels_come_from_max_def_and_not_from_the_flags() -> None:
    values = pa.array([1, 2, 3])
    for flags in (0, 4, 8):
        assert written(values, TypeTag.LONG, nullable=False).with_column(flags=flags).decode().equals(values)
    assert rejected(written(values, TypeTag.LONG).with_column(max_def_level=0), CorruptError) == "page"


def lists(dimensions: int, *, inner_nullable: bool) -> pa.DataType:
    nested = pa.list_(pa.float64())
    for _ in range(dimensions - 1):
        nested = pa.list_(pa.field("list", nested, nullable=inner_nullable))
    return nested


@pytest.mark.parametrize("inner_nullable", [True, False])
@pytest.mark.parametrize(
    ("dimensions", "rows"),
    [
        (1, [[1.0, None], [], None, [3.0]]),
        (2, [[[1.0, 2.0], []], None, [], [[None]]]),
        (3, [[[[1.0], []], []], None, [], [[[2.0, 3.0]]]]),
    ],
)
def test_nested_lists_decode_to_the_type_of_arrays(dimensions: int, rows: list[Any], inner_nullable: bool) -> None:
    values = pa.array(rows, lists(dimensions, inner_nullable=inner_nullable))
    found = written(values, array_type(dimensions)).decode()
    assert found.to_pylist() == rows
    assert str(found.type) == str(lists(dimensions, inner_nullable=False)).replace("item", "element")


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_lists_behind_a_page_of_no_values_are_read(version: str) -> None:
    """pyarrow writes such a page where the first list does not fit on it, and reads no list behind it."""
    values = pa.array([[1.0, 2.0]], lists(1, inner_nullable=True))
    case = written(values, array_type(1), data_page_size=1, data_page_version=version, compression="none")
    pages = pages_of(case.content, case.chunk, file="data.parquet")
    assert [page.value_count for page in pages if page.kind is not PageType.DICTIONARY] == [0, 2]
    assert case.decode().to_pylist() == [[1.0, 2.0]]


@pytest.mark.parametrize("values", [[0, None], [None], [None, 10**18, -1]])
def test_times_of_96_bits_may_be_null(values: list[int | None]) -> None:
    """A null was NaN to the comparison with microseconds, and NaN is not equal to itself."""
    times = pa.array(values, pa.timestamp("ns"))
    case = written(times, NANOSECONDS, use_deprecated_int96_timestamps=True)
    assert case.decode().cast(pa.int64()).to_pylist() == values


def test_nested_columns_that_are_no_arrays_are_not_supported() -> None:
    case = written(pa.array([[1.0]], lists(1, inner_nullable=True)), array_type(1))
    for change in ({"max_def_level": 4}, {"type": array_type(2)}, {"type": TypeTag.DOUBLE}, {"max_rep_level": 0}):
        assert rejected(case.with_column(**change), UnsupportedError) == "levels"
    assert rejected(case.with_column(type=TypeTag.DOUBLE, max_rep_level=0), UnsupportedError) == "levels"
    with_null = pa.array([[[1.0], None]], lists(2, inner_nullable=True))
    assert rejected(written(with_null, array_type(2)), CorruptError) == "values"


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        (TypeTag.BYTE, 128),
        (TypeTag.SHORT, -32769),
        (TypeTag.CHAR, 65536),
        (TypeTag.CHAR, -1),
        (TypeTag.GEOSHORT, 2**20),
    ],
)
def test_narrow_integers_are_not_wrapped(column_type: int, value: int) -> None:
    case = written(pa.array([value], pa.int32()), column_type)
    assert rejected(case.with_chunk(minimum=None, maximum=None), CorruptError) == "values"


def test_text_that_is_not_utf8_is_corrupt() -> None:
    assert rejected(written(pa.array([b"ok", b"\xff"]), TypeTag.VARCHAR), CorruptError) == "values"


def test_decimal_with_too_many_digits_is_corrupt() -> None:
    case = written(pa.array([Decimal("123.4")], pa.decimal128(4, 1)), decimal_type(TypeTag.DECIMAL16, 4, 1))
    assert case.decode().to_pylist() == [Decimal("123.4")]
    assert rejected(case.with_column(type=decimal_type(TypeTag.DECIMAL16, 3, 1)), CorruptError) == "page"


def test_raw_array_that_is_cut_is_corrupt() -> None:
    assert rejected(written(pa.array([b"\1\0\0\0\0\0\0\0"]), array_type(1)), CorruptError) == "values"


def test_column_that_contradicts_itself_is_corrupt() -> None:
    case = written(pa.array([b"a" * 16], pa.binary(16)), TypeTag.UUID)
    assert case.decode().to_pylist() == [uuid.UUID(bytes=b"a" * 16)]
    assert rejected(case.with_column(physical_type=2), CorruptError) == "PHYSICAL_TYPE"
    assert rejected(case.with_column(fixed_byte_len=17), CorruptError) == "FIXED_BYTE_LEN"
    for change in ({"physical_type": 9}, {"fixed_byte_len": 0}, {"fixed_byte_len": -1}):
        assert rejected(case.with_column(type=-1, **change), CorruptError) == "TYPE"


def test_statistics_are_compared_with_the_stored_values() -> None:
    case = written(pa.array([1, None, 3]), TypeTag.LONG)
    three = Statistic(value=(3).to_bytes(8, "little"), exact=True)
    assert rejected(case.with_chunk(minimum=three), CorruptError) == "MIN_STAT"
    assert rejected(case.with_chunk(null_count=2), CorruptError) == "NULL_COUNT"


def test_content_of_another_length_than_the_chunk_is_corrupt() -> None:
    case = written(pa.array([1]), TypeTag.LONG)
    assert rejected(dataclasses.replace(case, content=case.content[:-1]), CorruptError) == "TOTAL_COMPRESSED"


def test_checksum_of_a_page_is_verified() -> None:
    case = written(pa.array([1, 2]), TypeTag.LONG, write_page_checksum=True, compression="none", use_dictionary=False)
    flipped = case.with_content(case.content[:-1] + bytes([case.content[-1] ^ 1])).with_chunk(maximum=None)
    with pytest.raises(CorruptError, match="crc"):
        flipped.decode()


@pytest.mark.parametrize(
    ("values", "column_type", "is_compared"),
    [
        (pa.array([1, 2]), TypeTag.TIMESTAMP, True),
        (pa.array([1, 2]), TypeTag.LONG, False),
        (pa.array([1, 2], pa.int32()), TypeTag.INT, False),
        (pa.array([1.0, 2.0]), TypeTag.DOUBLE, False),
        (pa.array(["a", "b"]), TypeTag.VARCHAR, False),
    ],
)
def test_pages_with_checksums_leave_the_bounds_of_timestamps_to_compare(
    values: pa.Array, column_type: int, is_compared: bool
) -> None:
    def with_wrong_minimum(**options: bool) -> Written:
        case = written(values, column_type, use_dictionary=False, **options)
        return case.with_chunk(minimum=case.chunk.maximum, encodings=encodings_mask((0,)))

    assert rejected(with_wrong_minimum(), CorruptError) == "MIN_STAT"
    vouched = with_wrong_minimum(write_page_checksum=True)
    if is_compared:
        assert rejected(vouched, CorruptError) == "MIN_STAT"
    else:
        assert len(vouched.decode()) == 2


def test_codec_that_pyarrow_lacks_is_not_supported() -> None:
    assert rejected(written(pa.array([1]), TypeTag.LONG).with_chunk(codec=3), UnsupportedError) == "CODEC"


def test_number_of_values_is_limited() -> None:
    values = pa.array(np.zeros(VALUE_COUNT_MAX, bool))
    case = written(values, TypeTag.BOOLEAN)
    assert len(case.decode()) == VALUE_COUNT_MAX
    assert rejected(case.with_chunk(num_values=VALUE_COUNT_MAX + 1), UnsupportedError) == "NUM_VALUES"


def repeated(count: int, dictionary: list[bytes]) -> Written:
    """`count` values, the first `len(dictionary)` once each and then the last again and again."""
    indices = pa.array(np.minimum(np.arange(count), len(dictionary) - 1).astype(np.int32))
    values = pa.DictionaryArray.from_arrays(indices, pa.array(dictionary))
    return written(values, TypeTag.VARCHAR, dictionary_pagesize_limit=4 * MIB)


def test_dictionary_is_measured_by_its_values_before_it_is_expanded() -> None:
    sound = repeated(300, [b"l" * MIB, b"s"])
    found = sound.decode()
    assert (len(found), found[0].as_py(), found[299].as_py()) == (300, "l" * MIB, "s")
    assert rejected(repeated(300, [b"s", b"l" * MIB]), UnsupportedError) == "pages"


def test_dictionary_before_pages_that_pyarrow_cannot_mix_with_it_is_measured_by_its_values() -> None:
    options: dict[str, Any] = {"column_encoding": {"x": "DELTA_LENGTH_BYTE_ARRAY"}, "use_dictionary": False}
    second = written(pa.array(["t"]), TypeTag.VARCHAR, **options)

    def behind(first: Written) -> Written:
        return first.with_content(first.content + second.content).with_chunk(num_values=301, maximum=None)

    found = behind(repeated(300, [b"l" * MIB, b"s"])).decode()
    assert (len(found), found[0].as_py(), found[299].as_py(), found[300].as_py()) == (301, "l" * MIB, "s", "t")
    assert rejected(behind(repeated(300, [b"s", b"l" * MIB])), UnsupportedError) == "pages"
    small = written(pa.array(["a", "b", "a"]), TypeTag.VARCHAR)
    mixed = small.with_content(small.content + second.content).with_chunk(num_values=4, maximum=None)
    assert mixed.decode().to_pylist() == ["a", "b", "a", "t"]


def test_dictionary_page_cannot_claim_more_values_than_bytes() -> None:
    case = written(pa.array(["a", "b", "a"]), TypeTag.VARCHAR, compression="none")
    header, body_at = decode(case.content, file="data.parquet")

    def claiming(value_count: int) -> Written:
        fields = [
            field._replace(value=Struct((field.value.fields[0]._replace(value=value_count), *field.value.fields[1:])))
            if field.id == 7 and isinstance(field.value, Struct)
            else field
            for field in header.fields
        ]
        return case.with_content(encode(Struct(tuple(fields))) + case.content[body_at:])

    assert claiming(2).decode().to_pylist() == ["a", "b", "a"]
    assert rejected(claiming(10), CorruptError) == "page"
    assert rejected(claiming(11), CorruptError) == "dictionary page"


def test_values_that_repeat_their_predecessors_are_measured_before_they_are_expanded() -> None:
    options: dict[str, Any] = {"column_encoding": {"x": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}
    long = "l" * MIB
    for page_version in ("1.0", "2.0"):
        for texts in ([f"{index:050}" for index in range(30_000)], [long, None] * 20):
            sound = written(pa.array(texts), TypeTag.VARCHAR, data_page_version=page_version, **options)
            assert sound.decode().to_pylist() == texts
        bomb = written(pa.array([long, None] * 65), TypeTag.VARCHAR, data_page_version=page_version, **options)
        assert rejected(bomb, UnsupportedError) == "pages"


def test_lengths_that_do_not_decode_are_damage() -> None:
    options: dict[str, Any] = {"column_encoding": {"x": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}
    case = written(pa.array(["l" * MIB] * 65), TypeTag.VARCHAR, compression="none", **options)
    _, body_at = decode(case.content, file="data.parquet")
    levels_length_bytes = 4 + int.from_bytes(case.content[body_at : body_at + 4], "little")
    position = body_at + levels_length_bytes
    # A block's size, its parts, 65 lengths and the first of them come first (Apache Parquet format, "Encodings").
    header = b"\x80\x01\x04\x41"
    assert case.content[position:].startswith(header + b"\x00")
    for lengths in (b"\xff" * 20, header + b"\x01"):
        content = case.content[:position] + lengths + case.content[position + len(lengths) :]
        assert rejected(case.with_content(content), CorruptError) == "page"


def test_wide_fixed_values_are_measured_before_they_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    case = written(pa.array([b"a" * 100] * 100, pa.binary(100)), -1)
    # 100 values of 100 bytes, and pages of 111: what the pages unpack to counts beside what the values take.
    needed_bytes = 10_000 + 111
    monkeypatch.setattr(chunk_expansion, "EXPANSION_MAX", 1)
    monkeypatch.setattr(chunk_expansion, "EXPANDED_MAX_BYTES", needed_bytes)
    assert len(case.decode()) == 100
    monkeypatch.setattr(chunk_expansion, "EXPANDED_MAX_BYTES", needed_bytes - 1)
    assert rejected(case, UnsupportedError) == "pages"


def test_what_a_chunk_may_expand_to_grows_with_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    case = written(pa.array([b"a" * 100] * 100, pa.binary(100)), -1)
    assert (chunk_expansion.EXPANDED_MAX_BYTES, chunk_expansion.EXPANSION_MAX) == (64 * MIB, 64)
    assert 38 * case.chunk.total_compressed < 10_111 < 39 * case.chunk.total_compressed
    monkeypatch.setattr(chunk_expansion, "EXPANDED_MAX_BYTES", 0)
    monkeypatch.setattr(chunk_expansion, "EXPANSION_MAX", 39)
    assert len(case.decode()) == 100
    monkeypatch.setattr(chunk_expansion, "EXPANSION_MAX", 38)
    assert rejected(case, UnsupportedError) == "pages"


# Chunks that real releases wrote


DAMAGED_CHUNKS_MAX, DAMAGES_OF_CHUNK = 60, 25
EXPORTED = [name for name in golden_data.TABLES if f"{name}/expected.parquet" in golden_data.files("tables/*/*/*")]


def generations(partition: Path) -> Iterator[Metadata]:
    """The published generations, newest first."""
    data = (partition / "_pm").read_bytes()
    data = data[: Header.unpack(data, 0, file="_pm").parquet_meta_file_size]
    for position in walk(data, file="_pm"):
        yield decode_metadata(data, position, file="_pm")


def content_of(data: bytes, chunk: Chunk) -> bytes:
    return data[chunk.byte_range_start : chunk.byte_range_end]


def rows_of(partition: Path, metadata: Metadata) -> pa.Table:
    data = (partition / "data.parquet").read_bytes()
    columns: dict[str, pa.ChunkedArray] = {}
    for index, column in enumerate(metadata.header.columns):
        chunks = [block.chunks[index] for block in metadata.blocks]
        arrays = [decode_chunk(content_of(data, chunk), column, chunk, file="data.parquet") for chunk in chunks]
        columns[column.name] = pa.chunked_array(arrays)
    return pa.table(columns)


def time_range(partition: Path) -> tuple[datetime, datetime]:
    """The hour or day that a partition's directory is called after."""
    name = partition.name.partition(".")[0]
    start = datetime.fromisoformat(name if "T" not in name else f"{name}:00").replace(tzinfo=UTC)
    return start, start + (timedelta(hours=1) if "T" in name else timedelta(days=1))


@pytest.mark.parametrize("name", EXPORTED)
def test_partitions_decode_to_the_rows_that_the_server_exports(questdb_data: Path, name: str) -> None:
    exported = pq.read_table(questdb_data / name / "expected.parquet")
    partitions = [pm.parent for pm in (questdb_data / name / "table").glob("*/_pm")]
    assert partitions
    for partition in partitions:
        metadata = next(generations(partition))
        designated = metadata.header.columns[metadata.header.designated_timestamp].name
        low, high = (pa.scalar(bound, exported.field(designated).type) for bound in time_range(partition))
        times = exported[designated]
        expected = exported.filter(pc.and_(pc.greater_equal(times, low), pc.less(times, high)))
        found = rows_of(partition, metadata)
        assert found.num_rows == metadata.row_count > 0
        assert found.column_names == expected.column_names
        for column_name in found.column_names:
            assert found[column_name].type == expected[column_name].type, column_name
            assert found[column_name].equals(expected[column_name]), column_name


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_chunks_of_every_generation_decode_and_fit_their_statistics(questdb_data: Path, name: str) -> None:
    for pm in (questdb_data / name / "table").glob("*/_pm"):
        for metadata in generations(pm.parent):
            assert rows_of(pm.parent, metadata).num_rows == metadata.row_count


@functools.cache
def sample_chunks(partition: Path) -> list[tuple[bytes, Column, Chunk]]:
    data = (partition / "data.parquet").read_bytes()
    metadata = next(generations(partition))
    return [
        (content_of(data, chunk), column, chunk)
        for block in metadata.blocks
        for column, chunk in zip(metadata.header.columns, block.chunks, strict=True)
    ]


@given(st.data())
def test_flipped_bytes_give_an_array_of_the_type_or_an_error_about_the_file(
    questdb_data: Path, data: st.DataObject
) -> None:
    chunks = sample_chunks(questdb_data / "tables/9.4.2/types/table/2024-05-01.2")
    content, column, chunk = data.draw(st.sampled_from(chunks))
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = decode_chunk(bytes(damaged), column, chunk, file="data.parquet")
    except ProblemError as error:
        assert error.problem.file == "data.parquet"
        position = error.problem.offset_bytes
        assert position is not None
        assert chunk.byte_range_start <= position <= chunk.byte_range_end
    else:
        found.validate(full=True)
        expected = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
        assert (len(found), found.type) == (chunk.num_values, expected)


def answer(content: bytes, column: Column, chunk: Chunk) -> str:
    """The values, or the sentence of the error."""
    try:
        found = decode_chunk(content, column, chunk, file="data.parquet")
        return f"{found.type} {found.to_pylist()}"
    except ProblemError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", sampled(3, golden_data.TABLES))
def test_small_chunks_get_the_answers_of_large_ones_whole_and_damaged(
    questdb_data: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(name)
    for pm in (questdb_data / name / "table").glob("*/_pm"):
        for content, column, chunk in sample_chunks(pm.parent)[:DAMAGED_CHUNKS_MAX]:
            damages = [bytearray(content) for _ in range(DAMAGES_OF_CHUNK)]
            for damaged in damages[1:]:
                # Half of them are in the second half, where the values are.
                damaged[draw.randrange(draw.choice((0, len(content) // 2)), len(content))] ^= 1 << draw.randrange(8)
            small = [answer(bytes(damaged), column, chunk) for damaged in damages]
            with monkeypatch.context() as patch:
                patch.setattr(statistics, "FEW_VALUES", -1)
                patch.setattr(chunk_module, "FEW_BYTES", -1)
                large = [answer(bytes(damaged), column, chunk) for damaged in damages]
            assert small == large


def test_byte_that_a_power_loss_changed_is_found_by_the_statistics(questdb_data: Path) -> None:
    image = questdb_data / "power-loss/9.4.2/one-byte-flipped-inside-a-data-page"
    (pm,) = image.rglob("_pm")
    problem = rejection(lambda: rows_of(pm.parent, next(generations(pm.parent))))
    assert problem.field == "MAX_STAT of column 'ts'"
