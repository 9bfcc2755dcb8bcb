"""Random files of pyarrow, converted, agree with what pyarrow reads in them; random damage raises only known errors."""

import io
import random
from pathlib import Path
from typing import Any

import migrated_files as mf
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from migrated_files import SERVER, TOOL, Source, chunks_in, chunks_of
from parquet_files import written
from work import counted_calls, peak_bytes

from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.migrate.convert import ConversionMode
from tornproof.impl.migrate.rejections import Cause, RejectedCorruptError, RejectedUnsupportedError
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.types.physical import PhysicalType

CALLS_MAX = 20_000
SMALL = st.integers(-(1 << 31), (1 << 31) - 1)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint16(), st.integers(0, 65_535)),
    (pa.int32(), SMALL),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.binary(16), st.binary(min_size=16, max_size=16)),
    (pa.date32(), st.integers(-100_000, 100_000)),
    (pa.timestamp("us"), SMALL),
    (pa.timestamp("ns"), SMALL.map(lambda number: number * 1000)),
    (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
]
TYPES = {
    pa.bool_(): 1,
    pa.int8(): 2,
    pa.uint16(): 5,
    pa.int32(): 5,
    pa.int64(): 6,
    pa.float32(): 9,
    pa.float64(): 10,
    pa.string(): 26,
    pa.binary(): 18,
    pa.binary(16): 24,
    pa.date32(): 7,
    pa.timestamp("us"): 8,
    pa.timestamp("ns"): 262152,
    pa.decimal128(9, 2): 30 + (9 << 8) + (2 << 18),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    row_count = draw(st.integers(0, 12))
    fields, arrays = [], []
    for index in range(draw(st.integers(1, 4))):
        kind, values = draw(st.sampled_from(VALUES))
        nullable = draw(st.booleans())
        depth = draw(st.integers(0, 2))
        for _ in range(depth):
            kind, values = pa.list_(kind), st.lists(st.none() | values, max_size=3)
        cells = draw(st.lists(st.none() | values if nullable else values, min_size=row_count, max_size=row_count))
        fields.append(pa.field(f"c{index}", kind, nullable=nullable))
        arrays.append(pa.array(cells, kind))
    return pa.table(arrays, schema=pa.schema(fields))


OPTIONS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
        "write_statistics": st.booleans(),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.integers(1, 8),
        "store_schema": st.booleans(),
        "version": st.sampled_from(["1.0", "2.4", "2.6"]),
        "write_page_index": st.booleans(),
    }
)


@settings(max_examples=50)
@given(tables(), OPTIONS)
def test_converted_file_has_what_pyarrow_reads(table: pa.Table, options: dict[str, Any]) -> None:
    content = written(table, **options)
    read = pq.read_metadata(io.BytesIO(content))
    pm = mf.converted(content, SERVER)
    metadata = mf.decoded(pm)
    assert [column.name for column in metadata.header.columns] == [
        read.schema.column(index).path.split(".")[0] for index in range(read.num_columns)
    ]
    for index, column in enumerate(metadata.header.columns):
        leaf = read.schema.column(index)
        assert PhysicalType(column.physical_type).name == leaf.physical_type
        assert (column.max_rep_level, column.max_def_level) == (leaf.max_repetition_level, leaf.max_definition_level)
    assert [block.num_rows for block in metadata.blocks] == [
        read.row_group(ordinal).num_rows for ordinal in range(read.num_row_groups)
    ]
    assert chunks_of(metadata) == chunks_in(read)
    start = metadata.generation.position.fixed.parquet_footer_offset
    footer = decode_footer(content[start:], file=mf.FILE, offset_bytes=start)
    assert list(compare_footer(footer, metadata, file=mf.FILE)) == []
    # Unsigned integers become signed ones, whose bounds may then be reversed.
    unsigned = {f"c{index}" for index, field in enumerate(table.schema) if "uint" in str(field.type)}
    problems = check_metadata(pm, metadata, file="_pm")
    assert [problem for problem in problems if not any(f"'{name}'" in problem.field for name in unsigned)] == []
    assert mf.converted(content, TOOL) == mf.converted(content, TOOL, as_questdb=True) or (
        mf.cause_of(content, TOOL, as_questdb=True) is Cause.BUDGET
    )


@pytest.mark.parametrize(("kind", "column_type"), TYPES.items(), ids=str)
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_types_that_pyarrow_writes(kind: pa.DataType, column_type: int, version: str) -> None:
    content = written(pa.table({"x": pa.array([None], kind)}), version=version)
    (column,) = mf.decoded(mf.converted(content)).header.columns
    # Version 1 has neither nanoseconds, which are stored as microseconds, nor narrow integers above 32 bits.
    expected = 8 if (version, column_type) == ("1.0", 262152) else column_type
    assert column.type == expected


SEED = written(
    pa.table(
        {
            "ts": pa.array(range(6), pa.timestamp("us")),
            "s": pa.array(["a", "b", None] * 2),
            "l": pa.array([[1.0], None, []] * 2),
        }
    ),
    row_group_size=3,
    sorting_columns=[pq.SortingColumn(0)],
)


def outcome(content: bytes, mode: ConversionMode, *, as_questdb: bool) -> bytes | Cause:
    """The `_pm`, or the cause of its rejection; anything else is raised."""
    try:
        return mf.converted(content, mode, as_questdb=as_questdb)
    except (RejectedCorruptError, RejectedUnsupportedError) as error:
        return error.cause


def chunks_in_pm(pm: bytes) -> list[Chunk]:
    return [chunk for block in mf.decoded(pm).blocks for chunk in block.chunks]


@pytest.mark.parametrize("seed", sampled(1, range(8)))
def test_damaged_footers_are_rejected_or_converted_and_nothing_else(seed: int) -> None:
    random_ = random.Random(seed)
    length = int.from_bytes(SEED[-8:-4], "little")
    outcomes = set()
    for _ in range(150):
        raw = bytearray(SEED)
        for _ in range(random_.choice([1, 1, 2, 5])):
            position = len(raw) - 8 - random_.randrange(1, length + 1)
            raw[position] = random_.choice([random_.randrange(256), raw[position] ^ 1 << random_.randrange(8), 0, 255])
        for mode in (TOOL, SERVER):
            with counted_calls(CALLS_MAX):
                as_questdb, ours = (outcome(bytes(raw), mode, as_questdb=as_questdb) for as_questdb in (True, False))
            outcomes |= {type(as_questdb), type(ours)}
            # What QuestDB converts is the same here, but for dictionaries at offset 0.
            if isinstance(as_questdb, bytes) and as_questdb != ours:
                assert isinstance(ours, bytes)
                assert any(chunk.byte_range_start == 0 for chunk in chunks_in_pm(as_questdb))
            elif isinstance(as_questdb, Cause) and isinstance(ours, Cause):
                assert as_questdb is ours
    assert outcomes == {bytes, Cause}


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def wrapped(footer: bytes) -> bytes:
    return MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC


COUNT = 10_000
VERSION = b"\x15\x02"
ROOT_AND_LEAF = b"\x19\x2c" + b"\x48\x01r\x15\x02\x00" + b"\x15\x04\x25\x00\x18\x01a\x00"
CHUNK = b"\x26\x08\x1c" + b"\x15\x04\x19\x05\x19\x08\x15\x00\x16\x02\x16\x02\x16\x02\x26\x08\x00" + b"\x00"
HOSTILE = {
    "elements without anything": wrapped(VERSION + b"\x19\xfc" + varint(COUNT) + b"\x48\x00\x00" * COUNT),
    "more elements than bytes": wrapped(VERSION + b"\x19\xfc" + varint((1 << 32) - 1) + b"\x48\x00\x00"),
    "chunks of nothing": wrapped(
        VERSION
        + ROOT_AND_LEAF
        + b"\x16\x02\x19\x1c\x19\xfc"
        + varint(COUNT)
        + CHUNK * COUNT
        + b"\x16\x02\x16\x02\x00\x00"
    ),
    "deep lists": wrapped(VERSION + b"\xf9" + b"\x19" * COUNT),
    "a long string": wrapped(VERSION + b"\x48" + varint((1 << 32) - 1) + b"x"),
    "unknown booleans": wrapped(VERSION + b"\xf9\xf1" + varint((1 << 32) - 1) + b"\x01" * COUNT),
}


@pytest.mark.parametrize("as_questdb", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_footers_cost_little(name: str, as_questdb: bool) -> None:
    causes = []
    assert peak_bytes(lambda: causes.append(mf.cause_of(HOSTILE[name], as_questdb=as_questdb))) < 60 << 20
    assert causes != [None]


def test_wide_file_without_row_groups_is_linear() -> None:
    elements = b"".join(b"\x15\x04\x25\x00\x18\x05" + b"%05d" % index + b"\x00" for index in range(20_000))
    root = b"\x48\x01r\x15" + varint(2 * 20_000) + b"\x00"
    footer = VERSION + b"\x19\xfc" + varint(20_001) + root + elements + b"\x16\x00\x19\x0c\x00"
    metadata = mf.decoded(mf.converted(wrapped(footer)))
    assert [column.name for column in metadata.header.columns[::9_999]] == ["00000", "09999", "19998"]


# Valid files that QuestDB's converter rejects


VALID = tuple(name for name in mf.REJECTED if "1481" not in name)


def columns_of(metadata: Metadata) -> list[tuple[Any, ...]]:
    return [
        (PhysicalType(column.physical_type).name, column.max_rep_level, column.max_def_level, column.fixed_byte_len)
        for column in metadata.header.columns
    ]


def columns_in(metadata: pq.FileMetaData) -> list[tuple[Any, ...]]:
    schema = metadata.schema
    leaves = [schema.column(index) for index in range(metadata.num_columns)]
    return [
        (leaf.physical_type, leaf.max_repetition_level, leaf.max_definition_level, max(leaf.length, 0))
        for leaf in leaves
    ]


def file_with_footer(source: Source) -> pa.BufferReader:
    """The file for pyarrow, with zeros instead of its pages."""
    return pa.BufferReader(bytes(source.size_bytes - len(source.tail)) + source.tail)


@pytest.mark.parametrize("mode", [TOOL, SERVER])
@pytest.mark.parametrize("name", VALID)
def test_valid_file_that_questdb_rejects_is_converted(name: str, mode: Any, questdb_data: Path) -> None:
    source = mf.external(questdb_data, name)
    pm = mf.converted(source, mode)
    metadata = mf.decoded(pm)
    read = pq.read_metadata(file_with_footer(source))
    assert columns_of(metadata) == columns_in(read)
    assert chunks_of(metadata) == chunks_in(read)
    assert [block.num_rows for block in metadata.blocks] == [
        read.row_group(ordinal).num_rows for ordinal in range(read.num_row_groups)
    ]
    assert list(check_metadata(pm, metadata, file="_pm")) == []
    footer = decode_footer(source.tail, file=name, offset_bytes=source.size_bytes - len(source.tail))
    assert list(compare_footer(footer, metadata, file=name)) == []
    assert metadata.token == source.size_bytes


def test_bounds_of_a_converted_file_are_those_of_its_footer(questdb_data: Path) -> None:
    (name,) = [name for name in VALID if "float16_nonzeros" in name]
    source = mf.external(questdb_data, name)
    (chunk,) = mf.decoded(mf.converted(source)).blocks[0].chunks
    statistics = decode_footer(source.tail, file=name, offset_bytes=0).row_groups[0].chunks[0].statistics
    assert statistics is not None
    assert chunk.minimum is not None
    assert chunk.maximum is not None
    assert (chunk.minimum.value, chunk.maximum.value) == (statistics.min_value, statistics.max_value)


def test_types_where_questdb_has_none(questdb_data: Path) -> None:
    types = {
        name.split("/")[1]: [
            column.type for column in mf.decoded(mf.converted(mf.external(questdb_data, name))).header.columns
        ]
        for name in VALID
    }
    assert types["float16_nonzeros_and_nans.parquet"] == [-1]
    assert types["float16_zeros_and_nans.parquet"] == [-1]
    # A leaf of bytes whose annotation is not known is binary.
    assert 18 in types["unknown-logical-type.parquet"]


def test_corrupt_file_stays_rejected(questdb_data: Path) -> None:
    (name,) = set(mf.REJECTED) - set(VALID)
    assert mf.cause_of(mf.external(questdb_data, name)) is Cause.SCHEMA


def test_dictionary_page_at_offset_0_is_none(questdb_data: Path) -> None:
    source = mf.external(questdb_data, "external/dict-page-offset-zero.parquet")
    (chunk,) = mf.decoded(mf.converted(source)).blocks[0].chunks
    assert chunk.byte_range_start == 4
