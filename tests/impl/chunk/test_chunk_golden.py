"""Chunks that real releases wrote decode to the rows that those releases answer, and damaged ones never do harm."""

import functools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import golden_data
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from depth import sampled
from hypothesis import given
from hypothesis import strategies as st
from rejections import rejection

from tornproof.impl.chunk import chunk as chunk_module
from tornproof.impl.chunk import statistics
from tornproof.impl.chunk.chunk import decode_chunk
from tornproof.impl.errors import ProblemError
from tornproof.impl.layout.pm import Header
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata, decode_metadata, walk
from tornproof.impl.pm.header import Column
from tornproof.impl.types.arrow import arrow_type

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
