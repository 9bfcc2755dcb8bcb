"""The view of a Parquet footer agrees with pyarrow's view of the same file."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from parquet_files import footer_of, written

from tornproof.impl.parquet.footer import ColumnChunk, ParquetFooter
from tornproof.impl.parquet.thrift import Items, Kind, Struct, decode
from tornproof.impl.types.physical import PhysicalType

ENCODINGS = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}
NUMPY_TYPES = {
    PhysicalType.BOOLEAN: "?",
    PhysicalType.INT32: "<i4",
    PhysicalType.INT64: "<i8",
    PhysicalType.FLOAT: "<f4",
    PhysicalType.DOUBLE: "<f8",
}


def rich_file() -> bytes:
    """Every feature that pyarrow writes into a footer."""
    nested = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.list_(pa.float64()))])
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("us"), nullable=False, metadata={"PARQUET:field_id": "7"}),
            pa.field("name", pa.string(), metadata={"PARQUET:field_id": "0"}),
            ("price", pa.decimal128(20, 3)),
            ("flag", pa.bool_()),
            ("small", pa.uint8()),
            ("bytes", pa.binary(4)),
            ("points", pa.list_(nested)),
            ("by_name", pa.map_(pa.string(), pa.int64())),
            ("nothing", pa.int32()),
        ],
        metadata={"questdb": "{}", "city": "Zürich"},
    )
    row_count = 50
    columns: list[Any] = [
        list(range(row_count)),
        [None if row % 5 == 0 else f"n{row}" for row in range(row_count)],
        [Decimal(row) for row in range(row_count)],
        [row % 2 == 0 for row in range(row_count)],
        list(range(row_count)),
        [row.to_bytes(4, "big") for row in range(row_count)],
        [[{"x": row, "y": [1.0, None]}] * (row % 3) for row in range(row_count)],
        [[("k", row)] for row in range(row_count)],
        [None] * row_count,
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return written(
        pa.table(arrays, schema=schema),
        row_group_size=20,
        compression={"ts": "zstd", "name": "snappy"},
        bloom_filter_options={"name": {"ndv": 20, "fpp": 0.01}},
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(0), pq.SortingColumn(1, descending=True, nulls_first=True)],
    )


def chunk_facts(chunk: ColumnChunk) -> dict[str, Any]:
    """What pyarrow also knows about a chunk, in its terms."""
    return {
        "path_in_schema": ".".join(chunk.path_in_schema),
        "physical_type": PhysicalType(chunk.physical_type).name,
        "compression": {"LZ4_RAW": "LZ4"}.get(chunk.codec.name, chunk.codec.name),
        "num_values": chunk.num_values,
        "total_compressed_size": chunk.total_compressed_size,
        "total_uncompressed_size": chunk.total_uncompressed_size,
        "data_page_offset": chunk.data_page_offset,
        "dictionary_page_offset": chunk.dictionary_page_offset,
        "bloom_filter_offset": chunk.bloom_filter_offset,
        "bloom_filter_length": chunk.bloom_filter_length,
        "has_column_index": chunk.column_index_offset is not None,
        "has_offset_index": chunk.offset_index_offset is not None,
        "file_path": chunk.file_path or "",
    }


def assert_agrees_with_pyarrow(footer: ParquetFooter, oracle: pq.FileMetaData) -> None:
    assert footer.num_rows == oracle.num_rows
    assert footer.created_by == oracle.created_by
    pairs = [(key.encode(), (value or "").encode()) for key, value in footer.metadata.items()]
    assert dict(pairs) == (oracle.metadata or {})
    assert len(footer.leaves) == oracle.num_columns
    for index, leaf in enumerate(footer.leaves):
        column = oracle.schema.column(index)
        assert leaf.dotted_path == column.path
        assert leaf.physical_type.name == column.physical_type
        assert (leaf.max_rep, leaf.max_def) == (column.max_repetition_level, column.max_definition_level)
        if leaf.physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY:
            assert leaf.element.type_length == column.length
    assert len(footer.row_groups) == oracle.num_row_groups
    for index, group in enumerate(footer.row_groups):
        expected = oracle.row_group(index)
        assert (group.num_rows, group.total_byte_size) == (expected.num_rows, expected.total_byte_size)
        sorting = [(entry.column_index, entry.descending, entry.nulls_first) for entry in group.sorting_columns]
        assert sorting == [(s.column_index, s.descending, s.nulls_first) for s in expected.sorting_columns]
        for position, chunk in enumerate(group.chunks):
            assert_chunk_agrees_with_pyarrow(chunk, expected.column(position))


def assert_chunk_agrees_with_pyarrow(chunk: ColumnChunk, oracle: pq.ColumnChunkMetaData) -> None:
    facts = chunk_facts(chunk)
    assert facts == {name: getattr(oracle, name) for name in facts}
    assert sorted(ENCODINGS[encoding] for encoding in chunk.encodings) == sorted(oracle.encodings)
    if oracle.statistics is not None:
        assert chunk.statistics is not None
        assert chunk.statistics.null_count == oracle.statistics.null_count
        assert chunk.statistics.distinct_count == oracle.statistics.distinct_count
        if oracle.statistics.has_min_max:
            low, high = oracle.statistics.min_raw, oracle.statistics.max_raw
            assert chunk.statistics.min_value == raw(low, chunk.physical_type)
            assert chunk.statistics.max_value == raw(high, chunk.physical_type)


def raw(value: Any, physical_type: int) -> bytes:
    """The stored bytes of a value that pyarrow decoded by its physical type."""
    if isinstance(value, bytes | str):
        return value if isinstance(value, bytes) else value.encode()
    return np.array(value, NUMPY_TYPES[PhysicalType(physical_type)]).tobytes()


def test_footer_with_every_feature_agrees_with_pyarrow() -> None:
    content = rich_file()
    footer = footer_of(content)
    assert_agrees_with_pyarrow(footer, pq.read_metadata(pa.BufferReader(content)))
    # So that the comparison above compares something.
    chunks = [chunk for group in footer.row_groups for chunk in group.chunks]
    assert any(chunk.bloom_filter_length for chunk in chunks)
    assert any(chunk.column_index_length and chunk.offset_index_length for chunk in chunks)
    assert {leaf.max_rep for leaf in footer.leaves} == {0, 1, 2}
    assert {chunk.codec.name for chunk in chunks} == {"ZSTD", "SNAPPY", "UNCOMPRESSED"}


def test_ids_and_annotations_are_those_that_arrow_wrote() -> None:
    footer = footer_of(rich_file())
    leaves = {leaf.dotted_path: leaf for leaf in footer.leaves}
    assert [leaves[name].element.field_id for name in ("ts", "name", "price")] == [7, 0, None]
    price = leaves["price"].element
    assert (price.converted_type, price.precision, price.scale) == (5, 20, 3)
    assert footer.metadata["city"] == "Zürich"
    inner = leaves["points.list.element.y.list.element"]
    assert (inner.top.name, inner.element.name) == ("points", "element")
    statistics = footer.row_groups[0].chunks[0].statistics
    assert statistics is not None
    assert (statistics.is_min_value_exact, statistics.is_max_value_exact) == (True, True)
    assert (statistics.deprecated_min, statistics.deprecated_max) == (bytes(8), (19).to_bytes(8, "little"))


def test_page_indexes_are_where_the_footer_says() -> None:
    content = rich_file()
    for chunk in footer_of(content).row_groups[0].chunks:
        assert chunk.offset_index_offset is not None and chunk.offset_index_length is not None
        index, end = decode(content, file="data.parquet", start=chunk.offset_index_offset)
        assert end == chunk.offset_index_offset + chunk.offset_index_length
        locations = index.fields[0].value
        assert isinstance(locations, Items) and isinstance(locations.elements[0], Struct)
        assert locations.elements[0].fields[0].value == chunk.data_page_offset
        assert chunk.column_index_offset is not None and chunk.column_index_length is not None
        index, end = decode(content, file="data.parquet", start=chunk.column_index_offset)
        assert end == chunk.column_index_offset + chunk.column_index_length
        null_pages = index.fields[0].value
        assert isinstance(null_pages, Items) and null_pages.element_kind in (Kind.TRUE, Kind.BOOL)


def test_every_real_footer_agrees_with_pyarrow(questdb_data: Path) -> None:
    paths = sorted(path for folder in ("tables", "legacy") for path in (questdb_data / folder).rglob("*.parquet"))
    assert len(paths) > 100
    for path in paths:
        assert_agrees_with_pyarrow(footer_of(path.read_bytes()), pq.read_metadata(path))
