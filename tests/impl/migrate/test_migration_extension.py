"""Valid files that QuestDB's converter rejects are converted here, and agree with what pyarrow reads in them."""

from pathlib import Path
from typing import Any

import migrated_files as mf
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from migrated_files import SERVER, TOOL, Source, chunks_in, chunks_of

from tornproof.impl.migrate.rejections import Cause
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.types.physical import PhysicalType

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
