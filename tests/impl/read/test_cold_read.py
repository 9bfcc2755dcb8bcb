"""One chunk is decoded from its own bytes alone: a file that serves nothing else is enough."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import golden_data
import pm_builder as pm
import pyarrow as pa
import pytest
import table_builder as tb
from depth import sampled
from independent_readers import ours_and_content
from msgspec.structs import replace
from real_tables import parquet_partitions, resolved_partitions, snapshot_of
from written_tables import PATH, new_table, rows, write

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.pm.block import Chunk
from tornproof.impl.read.cold_read import read_cold
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.columns import is_all_null
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.types.questdb import TypeTag

CHAIN = "tables/9.4.2/chain/table"
WIDE = "tables/9.4.2/wide/table"
FOLDERS = [f"{name}/table" for name in golden_data.TABLES]
TOUCHED_LIMIT_PERCENT = 1.0


@dataclass
class ServingFile:
    """Serves one range of a file and counts; whatever else is asked of it fails the test."""

    content: bytes
    served: tuple[int, int] | None
    read_bytes: int = 0

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        assert (size_bytes, offset_bytes) == self.served, (size_bytes, offset_bytes)
        self.read_bytes += size_bytes
        return self.content[offset_bytes : offset_bytes + size_bytes]

    def size_bytes(self) -> int:
        pytest.fail("nobody needs the size of the file")

    def close(self) -> None:
        pytest.fail("the file belongs to the caller")

    def __enter__(self) -> Self:
        pytest.fail("the file is open already")

    def __exit__(self, *exception: object) -> None:
        pytest.fail("the file belongs to the caller")


def serving(content: bytes, chunk: Chunk, *, is_needed: bool = True) -> ServingFile:
    return ServingFile(content, (chunk.total_compressed, chunk.byte_range_start) if is_needed else None)


def partitions_of(folder: Path) -> Iterator[tuple[ResolvedPartition, pa.Table, bytes]]:
    """Yield each parquet partition with all of its rows, and its data.parquet up to the token."""
    snapshot = snapshot_of(folder)
    for partition in parquet_partitions(snapshot):
        yield snapshot.resolve(partition), *ours_and_content(snapshot, partition)


def first_chunk(folder: Path, name: str) -> tuple[ResolvedPartition, bytes, int]:
    """Return the first partition, its file, and the index of a column."""
    resolved, _, content = next(partitions_of(folder))
    names = [column.name for column in resolved.metadata.header.columns]
    return resolved, content, names.index(name)


@pytest.mark.parametrize("name", sampled(5, FOLDERS))
def test_every_chunk_of_a_real_table_is_read_from_its_own_range_alone(name: str, questdb_data: Path) -> None:
    looked_at_count = 0
    for resolved, whole, content in partitions_of(questdb_data / name):
        first = 0
        for block in resolved.metadata.blocks:
            for position, column in enumerate(resolved.metadata.header.columns):
                chunk = block.chunks[position]
                is_needed = chunk.null_count != chunk.num_values
                file = serving(content, chunk, is_needed=is_needed)
                values = read_cold(file, column, chunk, row_count=chunk.num_values, file="data.parquet")
                assert file.read_bytes == (chunk.total_compressed if is_needed else 0)
                expected = whole.column(position).slice(first, block.num_rows).combine_chunks()
                assert values.equals(expected)
                looked_at_count += 1
            first += block.num_rows
        assert first == whole.num_rows
    assert looked_at_count


def test_chunks_of_nulls_are_among_the_real_ones_and_cost_no_byte(questdb_data: Path) -> None:
    seen = 0
    for resolved, _, content in partitions_of(questdb_data / "tables/9.4.2/allnull/table"):
        for block in resolved.metadata.blocks:
            for column, chunk in zip(resolved.metadata.header.columns, block.chunks, strict=True):
                if is_all_null(column, chunk):
                    nothing = serving(content, chunk, is_needed=False)
                    values = read_cold(nothing, column, chunk, row_count=chunk.num_values, file="data.parquet")
                    assert values.null_count == len(values) == block.num_rows
                    # The bytes are there all the same.
                    unsaid = replace(chunk, null_count=None)
                    assert read_cold(
                        serving(content, unsaid), column, unsaid, row_count=unsaid.num_values, file="data.parquet"
                    ).equals(values)
                    seen += 1
    assert seen


def test_one_chunk_of_a_wide_table_reads_less_than_a_hundredth_of_its_file(questdb_data: Path) -> None:
    """Measured by the storage's own counters, which count every byte that leaves a file."""
    storage = OperatingSystemStorage()
    snapshot = snapshot_of(questdb_data / WIDE, storage)
    touched: list[float] = []
    for partition in parquet_partitions(snapshot):
        resolved = snapshot.resolve(partition)
        with resolved.files.open_data() as handle:
            for block in resolved.metadata.blocks:
                for column, chunk in zip(resolved.metadata.header.columns, block.chunks, strict=True):
                    before = storage.counters().read_bytes
                    read_cold(handle, column, chunk, row_count=chunk.num_values, file="data.parquet")
                    touched.append(100 * (storage.counters().read_bytes - before) / partition.token)
    assert len(touched) > 300
    print(f"{len(touched)} chunks, each at most {max(touched):.3f} % of data.parquet, {sum(touched):.1f} % together")
    assert 0 < max(touched) < TOUCHED_LIMIT_PERCENT
    # What the counters would show if the whole file were read.
    before = storage.counters().read_bytes
    list(snapshot.batches())
    assert storage.counters().read_bytes - before > partition.token * TOUCHED_LIMIT_PERCENT / 100


def test_file_that_serves_one_range_rejects_every_other(questdb_data: Path) -> None:
    resolved, content, position = first_chunk(questdb_data / CHAIN, "v")
    column = resolved.metadata.header.columns[position]
    own, other = (resolved.metadata.blocks[ordinal].chunks[position] for ordinal in (0, 1))
    assert len(read_cold(serving(content, own), column, own, row_count=own.num_values, file="data.parquet"))
    with pytest.raises(AssertionError):
        read_cold(serving(content, other), column, own, row_count=own.num_values, file="data.parquet")


def test_bytes_that_are_not_the_chunks_own_are_found_out(questdb_data: Path) -> None:
    resolved, content, position = first_chunk(questdb_data / CHAIN, "v")
    column, chunk = resolved.metadata.header.columns[position], resolved.metadata.blocks[0].chunks[position]
    for damaged in (content[: chunk.byte_range_end - 1], bytes(len(content))):
        with pytest.raises(CorruptError):
            read_cold(serving(damaged, chunk), column, chunk, row_count=chunk.num_values, file="data.parquet")


def test_types_without_null_hold_zero_where_a_file_has_nulls_of_them() -> None:
    storage, _ = new_table(NewColumn(name="d", type=TypeTag.INT))
    write(storage, rows([0, 1, 2, 3], d=pa.array([5, None, None, 6], pa.int32())))
    (resolved,) = resolved_partitions(PATH, storage)
    column, chunk = resolved.metadata.header.columns[3], resolved.metadata.blocks[0].chunks[3]
    with resolved.files.open_data() as handle:
        as_short = replace(column, type=int(TypeTag.SHORT))
        assert read_cold(handle, column, chunk, row_count=chunk.num_values, file="data.parquet").to_pylist() == [
            5,
            None,
            None,
            6,
        ]
        assert read_cold(handle, as_short, chunk, row_count=chunk.num_values, file="data.parquet").to_pylist() == [
            5,
            0,
            0,
            6,
        ]
    all_null = replace(chunk, null_count=4, minimum=None, maximum=None)
    assert (
        read_cold(
            ServingFile(b"", None), as_short, all_null, row_count=all_null.num_values, file="data.parquet"
        ).to_pylist()
        == [0] * 4
    )


def test_nulls_of_no_bytes_are_rejected_too_where_there_are_billions(questdb_data: Path) -> None:
    resolved, content, position = first_chunk(questdb_data / CHAIN, "v")
    column = replace(resolved.metadata.header.columns[position], type=-1, physical_type=7, fixed_byte_len=0)
    many = replace(resolved.metadata.blocks[0].chunks[position], num_values=(1 << 32) - 1, null_count=(1 << 32) - 1)
    with pytest.raises(UnsupportedError, match="at most 134217728 bytes in memory"):
        read_cold(ServingFile(content, None), column, many, row_count=many.num_values, file="data.parquet")


@pytest.mark.parametrize("width_bytes", [1 << 27, 1 << 28, (1 << 28) + 5, 1 << 30, (1 << 31) - 1])
def test_values_are_as_wide_as_they_are_even_where_their_bits_are_too_many_to_count(
    questdb_data: Path, width_bytes: int
) -> None:
    resolved, content, position = first_chunk(questdb_data / CHAIN, "v")
    column = replace(resolved.metadata.header.columns[position], type=-1, physical_type=7, fixed_byte_len=width_bytes)
    nulls = replace(resolved.metadata.blocks[0].chunks[position], num_values=2, null_count=2)
    with pytest.raises(UnsupportedError, match=f"2 values of {width_bytes} bytes"):
        read_cold(ServingFile(content, None), column, nulls, row_count=nulls.num_values, file="data.parquet")


def test_nulls_that_would_take_gigabytes_are_rejected(questdb_data: Path) -> None:
    resolved, content, position = first_chunk(questdb_data / CHAIN, "v")
    column, chunk = resolved.metadata.header.columns[position], resolved.metadata.blocks[0].chunks[position]
    for row_count, is_rejected in ((1 << 20, False), (1 << 25, True), (1 << 62, True)):
        many = replace(chunk, num_values=row_count, null_count=row_count)
        nothing = ServingFile(content, None)
        if is_rejected:
            with pytest.raises(UnsupportedError, match="at most 134217728 bytes in memory"):
                read_cold(nothing, column, many, row_count=many.num_values, file="data.parquet")
        else:
            assert (
                read_cold(nothing, column, many, row_count=many.num_values, file="data.parquet").null_count == row_count
            )


def test_lists_that_are_not_as_many_as_the_rows_are_damage() -> None:
    table = tb.build({"x": (TypeTag.ARRAY | TypeTag.DOUBLE << 8, pa.array([[1.0, 2.0], None], pa.list_(pa.float64())))})
    metadata = pm.read(table.files[tb.PM], len(table.files[tb.DATA]))
    column, chunk = metadata.header.columns[1], metadata.blocks[0].chunks[1]
    file = serving(table.files[tb.DATA], chunk)
    assert read_cold(file, column, chunk, row_count=2, file="data.parquet").to_pylist() == [[1.0, 2.0], None]
    with pytest.raises(CorruptError, match=r"rows of column 'x' at byte \d+: expected 3"):
        read_cold(file, column, chunk, row_count=3, file="data.parquet")
