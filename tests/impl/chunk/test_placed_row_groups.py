"""Files grown in place from placed row groups read the same with every reader, at every committed size."""

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pm_builder
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import flipped
from independent_readers import READERS, read_with_pyarrow
from msgspec.structs import replace
from parquet_files import footer_bytes, written

from tornproof.impl.chunk.row_group_encoder import (
    ColumnOptions,
    EncodedRowGroup,
    EncodeOptions,
    Encoding,
    PlacedRowGroup,
    encode_row_group,
)
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.bloom import bitset_of_values
from tornproof.impl.parquet.fields import FILE_META_DATA, Codec, ids_of
from tornproof.impl.parquet.footer import (
    FooterParts,
    ParquetFooter,
    SortingColumn,
    decode_footer,
    empty_footer,
    file_tail,
    split_footer,
    unused_bytes_of,
)
from tornproof.impl.parquet.thrift import Items, Struct, value_of
from tornproof.impl.pm.chain import decode_chain
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.table.questdb_json import QUESTDB_KEY, JsonColumn, new_json, updated_json
from tornproof.impl.types.physical import PhysicalType

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("s", pa.dictionary(pa.int32(), pa.string())),
        pa.field("v", pa.float64()),
        pa.field("n", pa.string()),
        pa.field("points", pa.list_(pa.float64())),
    ]
)
SYMBOLS = ["not used", "beta", "", "alpha"]
ASCENDING = SortingColumn(column_index=0, descending=False, nulls_first=False)
OPTIONS = [
    EncodeOptions(),
    EncodeOptions(codec=Codec.ZSTD, sorting=(ASCENDING,)),
    EncodeOptions(codec=Codec.SNAPPY, page_size_bytes=256, columns={"n": ColumnOptions(encoding=Encoding.DICTIONARY)}),
    EncodeOptions(codec=Codec.UNCOMPRESSED),
]
BLOOMS: list[tuple[str, ...]] = [(), ("n",), (), ("ts", "n")]
HEADER = pm_builder.header(
    *[
        pm_builder.column(
            name, column_type, physical_type, id=location, flags=0, max_rep_level=levels[0], max_def_level=levels[1]
        )
        for location, (name, column_type, physical_type, levels) in enumerate(
            [
                ("ts", 131080, PhysicalType.INT64, (0, 0)),
                ("s", 12, PhysicalType.BYTE_ARRAY, (0, 1)),
                ("v", 10, PhysicalType.DOUBLE, (0, 1)),
                ("n", 26, PhysicalType.BYTE_ARRAY, (0, 1)),
                ("points", 27, PhysicalType.DOUBLE, (1, 3)),
            ]
        )
    ],
    feature_flags=0,
)


def encoded(stored: pa.Table, options: EncodeOptions, blooms: tuple[str, ...]) -> EncodedRowGroup:
    """Return an encoded row group with bloom filters of the named columns."""
    indexes = map(stored.column_names.index, blooms)
    bitsets = {index: bitset_of_values(stored.column(index).combine_chunks(), 0.01) for index in indexes}
    return encode_row_group(stored, options=options, bitsets=bitsets)


def rows(first: int, count: int) -> pa.Table:
    """Rows with ascending timestamps from `first` on; symbols beta and alpha, some of everything null."""
    numbers = range(first, first + count)
    keys = [None if number % 6 == 4 else 1 + number % 2 * 2 for number in numbers]
    columns = [
        pa.array(numbers, pa.timestamp("us")),
        pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), pa.array(SYMBOLS)),
        pa.array([None if number % 4 == 1 else number / 8 for number in numbers], pa.float64()),
        pa.array([None if number % 9 == 3 else f"name {number}" * (number % 3) for number in numbers]),
        pa.array(
            [[number / 2, None] * (number % 3) if number % 5 else None for number in numbers], pa.list_(pa.float64())
        ),
    ]
    return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What one commit left: all bytes of the file so far, its footer, what it holds, what is unused in it."""

    content: bytes
    footer: FooterParts
    footer_length: int
    row_groups: tuple[PlacedRowGroup, ...]
    rows: pa.Table
    unused_bytes: int


def new_file() -> Committed:
    """A file without row groups."""
    plain = pa.schema([field.with_type(pa.string()) if field.name == "s" else field for field in SCHEMA])
    footer_only, location = footer_bytes(written(plain.empty_table(), store_schema=False))
    parts = split_footer(footer_only, file="model", offset_bytes=location)
    elements = value_of(parts.fields, ids_of(FILE_META_DATA)["schema"])
    assert isinstance(elements, Items)
    schema = [element for element in elements.elements if isinstance(element, Struct)]
    json = new_json([JsonColumn(column.type, False, column.name == "s", column.id) for column in HEADER.columns])
    footer = empty_footer(schema, {QUESTDB_KEY: json}, "tests")
    encoded = footer.encode()
    return Committed(
        content=MAGIC + file_tail(encoded),
        footer=footer,
        footer_length=len(encoded),
        row_groups=(),
        rows=plain.empty_table(),
        unused_bytes=0,
    )


def commit(before: Committed, changes: dict[int, EncodedRowGroup], rows_after: pa.Table) -> Committed:
    """Replace or append row groups by their ordinal, as an update in place does."""
    position = len(before.content)
    unused_bytes = before.unused_bytes + before.footer_length + 8
    row_groups, content = list(before.row_groups), []
    for ordinal, encoded in sorted(changes.items()):
        placed = encoded.place(position)
        position += len(placed.content)
        content.append(placed.content)
        unused_bytes += sum(unused_bytes_of(old.thrift) for old in row_groups[ordinal : ordinal + 1])
        row_groups[ordinal : ordinal + 1] = [placed]
    raws = [placed.thrift for placed in row_groups]
    footer = before.footer.with_row_groups(raws, sum(placed.row_count for placed in row_groups))
    json = footer.key_value(QUESTDB_KEY)
    assert json is not None
    footer = footer.with_key_value(QUESTDB_KEY, updated_json(json, unused_bytes=unused_bytes))
    encoded_footer = footer.encode()
    return Committed(
        content=b"".join([before.content, *content, file_tail(encoded_footer)]),
        footer=footer,
        footer_length=len(encoded_footer),
        row_groups=tuple(row_groups),
        rows=rows_after.set_column(1, "s", rows_after.column("s").cast(pa.string())),
        unused_bytes=unused_bytes,
    )


@pytest.fixture(scope="module")
def commits() -> list[Committed]:
    """Two row groups, one more, the first one merged with new rows and so moved behind the others, one more."""
    new, appended, merged, last = (
        encoded(rows(*at), options, blooms)
        for at, options, blooms in zip([(0, 40), (200, 30), (0, 90), (300, 25)], OPTIONS, BLOOMS, strict=True)
    )
    second = encoded(rows(100, 35), OPTIONS[1], BLOOMS[1])
    history = [new_file()]
    steps = [
        ({0: new, 1: second}, [(0, 40), (100, 35)]),
        ({2: appended}, [(0, 40), (100, 35), (200, 30)]),
        ({0: merged}, [(0, 90), (100, 35), (200, 30)]),
        ({3: last, 1: appended}, [(0, 90), (200, 30), (200, 30), (300, 25)]),
    ]
    for changes, held in steps:
        history.append(commit(history[-1], changes, pa.concat_tables([rows(*at) for at in held])))
    return history


@pytest.mark.parametrize("reader", READERS)
def test_every_committed_size_reads_as_what_was_committed(
    reader: str, commits: list[Committed], tmp_path: Path
) -> None:
    whole = commits[-1].content
    for committed in commits:
        found = READERS[reader](whole[: len(committed.content)], tmp_path)
        assert found.to_pylist() == committed.rows.to_pylist()


def test_pinned_footer_reads_the_uncut_file(commits: list[Committed]) -> None:
    whole = commits[-1].content
    for committed in commits[1:]:
        pinned = pq.read_metadata(pa.BufferReader(committed.content))
        file = pq.ParquetFile(pa.BufferReader(whole), metadata=pinned, page_checksum_verification=True)
        assert file.read().to_pylist() == committed.rows.to_pylist()


def test_filters_find_rows_by_bounds_page_indexes_and_bloom_filters(commits: list[Committed], tmp_path: Path) -> None:
    path = tmp_path / "whole.parquet"
    path.write_bytes(commits[-1].content)
    expected = [row for row in commits[-1].rows.to_pylist() if row["n"] == "name 7"]
    assert expected
    with duckdb.connect() as connection:
        query = "SELECT * FROM read_parquet(?) WHERE n = 'name 7'"
        assert connection.sql(query, params=[str(path)]).to_arrow_table().to_pylist() == expected
    assert polars.scan_parquet(path).filter(polars.col("n") == "name 7").collect().to_arrow().to_pylist() == expected
    assert pq.read_table(path, filters=[("n", "=", "name 7")]).to_pylist() == expected


def test_changed_byte_in_any_page_is_noticed_by_its_checksum(commits: list[Committed]) -> None:
    committed = commits[1]
    chunk = committed.row_groups[1].chunks[2]
    damaged = flipped(committed.content, 8 * (chunk.byte_range_end - 1))
    with pytest.raises(OSError, match="CRC"):
        read_with_pyarrow(damaged, Path())


def test_unused_bytes_are_all_that_no_row_group_of_the_footer_uses(commits: list[Committed]) -> None:
    for committed in commits:
        used = len(MAGIC) + committed.footer_length + 8
        used += sum(len(row_group.content) for row_group in committed.row_groups)
        assert committed.unused_bytes == len(committed.content) - used


def test_both_footers_agree_at_every_commit(commits: list[Committed]) -> None:
    for committed in commits[1:]:
        problems, footer = compared(committed, committed.row_groups)
        assert problems == []
        assert footer.num_rows == committed.rows.num_rows


def test_footer_comparison_notices_a_row_group_at_another_offset(commits: list[Committed]) -> None:
    first, *others = commits[1].row_groups
    chunk = first.chunks[0]
    elsewhere = replace(first, chunks=(replace(chunk, byte_range_start=chunk.byte_range_start + 1), *first.chunks[1:]))
    problems, _ = compared(commits[1], (elsewhere, *others))
    assert problems == ["row_groups[0].columns[0].first page offset"]


def compared(committed: Committed, row_groups: tuple[PlacedRowGroup, ...]) -> tuple[list[str], ParquetFooter]:
    """How the Thrift footer contradicts a `_pm` of the row groups' chunks, and the footer."""
    location = len(committed.content) - 8 - committed.footer_length
    facts = FooterFacts(parquet_footer_offset=location, parquet_footer_length=committed.footer_length)
    pm = encode_file(
        HEADER, [NewRowGroup(num_rows=placed.row_count, chunks=placed.chunks) for placed in row_groups], facts
    )
    metadata = next(decode_chain(pm, file="_pm", end_bytes=len(pm)))
    footer = decode_footer(committed.content[location:-8], file="data.parquet", offset_bytes=location)
    return [problem.field for problem in compare_footer(footer, metadata, file="data.parquet")], footer
