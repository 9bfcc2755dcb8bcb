"""A new partition's columns are those that real servers wrote, down to the bytes of the Thrift schema."""

from pathlib import Path

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from parquet_files import footer_bytes
from real_tables import parquet_partitions, snapshot_of

from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, decode, encode
from tornproof.impl.pm.header import Column, FileHeader, decode_header, encode_header
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition_schema import has_questdb_form, new_header, physical_form, schema_elements
from tornproof.impl.types.questdb import DECIMAL_TYPE, DESIGNATED, NANOSECOND, TypeTag, tag_of
from tornproof.impl.verify.verify import check_thrift_footer

TABLES = tuple(
    f"{name}/table"
    for name in (*golden_data.TABLES, *golden_data.CRASHES, *golden_data.AFTER_RESTARTS)
    if f"{name}/table/_meta" in golden_data.files_named("_meta")
)
CONVERTED = tuple(
    name
    for pattern in ("tables/*/*/regenerated/*.pm", "legacy/*/*/migrated/*.pm")
    for name in golden_data.files(pattern)
)
TYPES_TABLE = "tables/9.4.2/types/table"
FIELDS_OF_SCHEMA, FIELD_OF_NAME = 2, 4


def metadata_of(snapshot: Snapshot) -> TableMetadata:
    assert snapshot.table.metadata is not None
    return snapshot.table.metadata


def has_columns(header: FileHeader, metadata: TableMetadata) -> bool:
    return [(column.id, column.name) for column in header.columns] == [(c.id, c.name) for c in metadata.columns]


def without_drift(column: Column, *, is_direct: bool) -> Column:
    """Return the column without what real headers of equal columns differ in.

    IS_ASCII depends on the rows. The direct writer of 9.4.2 and later marks columns without levels as optional, and
    symbols whose rows have no null as required; the converter repeats the Thrift schema (docs/format.md).
    """
    flags = layout.IS_ASCII.put(column.flags, 0) if tag_of(column.type) is TypeTag.VARCHAR else column.flags
    if is_direct and (column.max_def_level == 0 or tag_of(column.type) is TypeTag.SYMBOL):
        flags = layout.FIELD_REPETITION.put(flags, 0)
    return replace(column, flags=flags)


def same_header(found: FileHeader, expected: FileHeader, *, is_direct: bool) -> None:
    for one, other in zip(found.columns, expected.columns, strict=True):
        assert without_drift(one, is_direct=is_direct) == without_drift(other, is_direct=is_direct)
    # Bloom filters are an option of the table's settings, which are in no file of the table.
    flags = [layout.BLOOM_FILTERS.put(header.feature_flags, 0) for header in (found, expected)]
    assert flags[0] == flags[1]
    assert (found.designated_timestamp, found.sorting_columns, found.squash_tracker) == (
        expected.designated_timestamp,
        expected.sorting_columns,
        expected.squash_tracker,
    )


def elements_of(data: bytes, token: int) -> tuple[Struct, ...]:
    footer, _ = decode(footer_bytes(data[:token])[0], file="data.parquet")
    (schema,) = (field.value for field in footer.fields if field.id == FIELDS_OF_SCHEMA)
    assert isinstance(schema, Items)
    return tuple(element for element in schema.elements if isinstance(element, Struct))


def name_of(element: Struct) -> str:
    (name,) = (field.value for field in element.fields if field.id == FIELD_OF_NAME)
    assert isinstance(name, bytes)
    return name.decode()


@pytest.mark.parametrize("name", TABLES)
def test_new_partition_has_the_columns_of_real_ones(questdb_data: Path, name: str) -> None:
    snapshot = snapshot_of(questdb_data / name)
    metadata = metadata_of(snapshot)
    compared = 0
    for partition in parquet_partitions(snapshot):
        resolved = snapshot.resolve(partition)
        if not has_columns(resolved.metadata.header, metadata):
            continue
        header = new_header(metadata)
        same_header(header, resolved.metadata.header, is_direct=True)
        with resolved.files.open_data() as handle:
            real = elements_of(handle.pread(partition.token, 0), partition.token)
        elements = schema_elements(header, table_name=name_of(real[0]))
        assert list(map(encode, elements)) == list(map(encode, real))
        compared += 1
    assert compared or "oddcols" in name


def test_renamed_and_added_columns_are_what_the_odd_table_differs_in(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/oddcols/table")
    headers = [snapshot.resolve(partition).metadata.header for partition in parquet_partitions(snapshot)]
    assert headers
    by_id = {column.id: column for column in new_header(metadata_of(snapshot)).columns}
    for header in headers:
        for column in header.columns:
            wanted = replace(by_id[column.id], name=column.name)
            assert without_drift(column, is_direct=True) == without_drift(wanted, is_direct=True)


@pytest.mark.parametrize("name", CONVERTED)
def test_new_partition_has_the_header_that_the_servers_converter_makes(questdb_data: Path, name: str) -> None:
    snapshot = snapshot_of(questdb_data / Path(name).parents[1] / "table")
    converted = decode_header((questdb_data / name).read_bytes(), file=name)
    header = new_header(metadata_of(snapshot))
    if not has_columns(converted, metadata_of(snapshot)):
        assert "oddcols" in name
        return
    same_header(header, converted, is_direct=False)


def test_every_type_but_long128_was_compared_with_a_real_one(questdb_data: Path) -> None:
    # No SQL makes a LONG128 column, so no real file has one.
    columns = metadata_of(snapshot_of(questdb_data / TYPES_TABLE)).columns
    assert {tag_of(column.type) for column in columns} == set(TypeTag) - {TypeTag.LONG128}


def table(*columns: tuple[str, int], timestamp_id: int = -1) -> TableMetadata:
    return TableMetadata(
        columns=tuple(TableColumn(id=index, name=name, type=type_) for index, (name, type_) in enumerate(columns)),
        partition_by=PartitionBy.DAY,
        timestamp_id=timestamp_id,
    )


def test_header_of_a_new_partition_decodes_to_itself() -> None:
    header = new_header(table(("größe", TypeTag.SYMBOL), ("ts", TypeTag.TIMESTAMP), timestamp_id=1))
    content = encode_header(header, parquet_meta_file_size=0)
    assert decode_header(content, file="_pm") == header
    assert header.size_bytes == len(content)
    assert header.sorting == (1,)


def test_only_the_designated_timestamp_is_marked_and_sorted_by() -> None:
    columns = (("other", TypeTag.TIMESTAMP), ("ts", TypeTag.TIMESTAMP))
    marked = new_header(table(*columns, timestamp_id=1))
    assert [DESIGNATED.get(column.type) for column in marked.columns] == [0, 1]
    assert [column.max_def_level for column in marked.columns] == [1, 0]
    unmarked = new_header(table(*columns))
    assert (unmarked.designated_timestamp, unmarked.feature_flags, unmarked.sorting) == (-1, 0, ())
    assert [DESIGNATED.get(column.type) for column in unmarked.columns] == [0, 0]


@pytest.mark.parametrize(
    "column_type",
    [
        200,
        -5,
        TypeTag.ARRAY | TypeTag.LONG << 8,
        DECIMAL_TYPE.bits[1].put(int(TypeTag.DECIMAL8), 3),
        int(TypeTag.DECIMAL64),
    ],
)
def test_impossible_types_are_rejected_in_words(column_type: int) -> None:
    assert physical_form(column_type) is None
    with pytest.raises(UnsupportedError, match="TYPE of column 'x'"):
        new_header(table(("x", column_type)))


def test_pyarrow_reads_the_schema_with_the_types_meaning() -> None:
    header = new_header(
        table(
            ("ns", TypeTag.TIMESTAMP | 1 << 18),
            ("id", TypeTag.UUID),
            ("address", TypeTag.IPV4),
            ("wide", TypeTag.LONG128),
            ("price", TypeTag.DECIMAL64 | 18 << 8 | 4 << 18),
            ("array", TypeTag.ARRAY | TypeTag.DOUBLE << 8),
            ("letter", TypeTag.CHAR),
        )
    )
    fields = (
        Field(1, Kind.I32, 1),
        Field(2, Kind.LIST, Items(Kind.STRUCT, schema_elements(header, table_name="t"))),
        Field(3, Kind.I64, 0),
        Field(4, Kind.LIST, Items(Kind.STRUCT, ())),
    )
    footer = encode(Struct(fields))
    tail = ParquetTail(footer_length=len(footer), magic=MAGIC).pack()
    schema = pq.read_schema(pa.BufferReader(MAGIC + footer + tail))
    assert [(field.name, field.type, field.nullable) for field in schema] == [
        ("ns", pa.timestamp("ns", "UTC"), True),
        ("id", pa.uuid(), True),
        ("address", pa.uint32(), True),
        ("wide", pa.binary(16), True),
        ("price", pa.decimal128(18, 4), True),
        ("array", pa.binary(), True),
        ("letter", pa.uint16(), False),
    ]


@pytest.mark.parametrize("name", [TYPES_TABLE, "tables/2026-07/nanosecond/table"])
def test_columns_of_real_files_have_the_form_of_their_type_and_of_no_other(questdb_data: Path, name: str) -> None:
    snapshot = snapshot_of(questdb_data / name)
    compared = 0
    for partition in parquet_partitions(snapshot):
        resolved = snapshot.resolve(partition)
        footer, problems = check_thrift_footer(resolved)
        assert footer is not None and problems == []
        types = [column.type for column in resolved.metadata.header.columns]
        for leaf, stored_as in zip(footer.leaves, types, strict=True):
            for of in types:
                assert has_questdb_form(leaf.element, of) == (form_name(of) == form_name(stored_as))
                compared += 1
            element = leaf.element
            for odd in (
                replace(element, converted_type=1 if element.converted_type is None else None),
                replace(element, scale=1 if element.scale is None else None),
                replace(element, precision=1 if element.precision is None else None),
                replace(element, logical_type=element.logical_type and Struct(())),
                replace(element, type_length=1 if element.type_length is None else None),
            ):
                assert odd == element or not any(has_questdb_form(odd, of) for of in types)
    assert compared


def form_name(column_type: int) -> tuple[TypeTag, bool]:
    """Return a name that types have in common which are stored and annotated alike."""
    same = {
        TypeTag.SYMBOL: TypeTag.STRING,
        TypeTag.VARCHAR: TypeTag.STRING,
        TypeTag.ARRAY: TypeTag.BINARY,
        TypeTag.GEOBYTE: TypeTag.BYTE,
        TypeTag.GEOSHORT: TypeTag.SHORT,
    }
    tag = tag_of(column_type)
    assert tag is not None
    return same.get(tag, tag), tag is TypeTag.TIMESTAMP and bool(NANOSECOND.get(column_type))
