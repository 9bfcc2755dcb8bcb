"""One row group as Arrow record batches, at a cost in memory that its bytes in data.parquet can justify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from impl.arrow_types import arrow_type, is_nullable, missing_value
from impl.chunk import EXPANSION_MAX, VALUE_COUNT_MAX, decode_chunk
from impl.errors import UnsupportedError
from impl.partition import PartitionFiles, read_chunk
from impl.pm.block import Block
from impl.pm.chain import Metadata
from impl.pm.header import Column
from impl.storage import ReadableFile

BATCH_FLOOR_BYTES = 128 << 20
CONSTANT_SLICE_BYTES = 32 << 20
VARIABLE_WIDTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotColumn:
    """A column as the table has it; `physical_type` matters only where the QuestDB type says nothing."""

    id: int
    name: str
    type: int
    physical_type: int
    fixed_byte_len: int = 0

    @property
    def arrow_type(self) -> pa.DataType:
        """The type that its values are returned in."""
        return arrow_type(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)

    def constant(self, row_count: int) -> pa.Array:
        """Return the values of rows that hold nothing in this column: nulls, or false and 0 where there are none."""
        value = missing_value(self.type, physical_type=self.physical_type, fixed_byte_len=self.fixed_byte_len)
        return pa.repeat(value, row_count).cast(self.arrow_type)


def column_key(position: int, column: Column) -> int:
    """Return what tells a partition's columns apart: the writer index, or a negative number where there is none."""
    return column.id if column.id >= 0 else -2 - position


class Described(Protocol):
    """A partition's files and a generation that describes them, as a reader resolves or a writer remembers it."""

    @property
    def files(self) -> PartitionFiles:
        """Where the partition's files are."""

    @property
    def metadata(self) -> Metadata:
        """The generation to read by."""


def row_group_columns(
    resolved: Described, block: Block, handle: ReadableFile, columns: Sequence[SnapshotColumn]
) -> Iterator[list[pa.Array]]:
    """Yield arrays in the order of `columns` until all rows of the row group are there.

    Columns that the partition predates and chunks of nulls are not fetched, but made as they are needed; where there
    are many of them, the rows come in several parts. Raises CorruptError, UnsupportedError, StorageError.
    """
    _check_row_count(resolved, block)
    places = {column_key(place, column): place for place, column in enumerate(resolved.metadata.header.columns)}
    fetched = {
        column.id: places[column.id]
        for column in columns
        if column.id in places and not _is_all_null(resolved, block, places[column.id])
    }
    arrays = _fetch(resolved, block, handle, fetched, {column.id: column for column in columns})
    constant_width = sum(_width_bytes(column.arrow_type) for column in columns if column.id not in fetched)
    part_rows = max(1, CONSTANT_SLICE_BYTES // max(1, constant_width))
    for start in range(0, block.num_rows, part_rows):
        row_count = min(part_rows, block.num_rows - start)
        yield [
            arrays[column.id].slice(start, row_count) if column.id in arrays else column.constant(row_count)
            for column in columns
        ]


def _fetch(
    resolved: Described,
    block: Block,
    handle: ReadableFile,
    fetched: dict[int, int],
    columns: dict[int, SnapshotColumn],
) -> dict[int, pa.Array]:
    """Decode the chunks, with a bound on all of them together: a few bytes may not stand for gigabytes."""
    label = resolved.files.data_label
    bound_bytes = max(BATCH_FLOOR_BYTES, EXPANSION_MAX * sum(chunk.total_compressed for chunk in block.chunks))
    arrays: dict[int, pa.Array] = {}
    held_bytes = 0
    for key, place in fetched.items():
        chunk = block.chunks[place]
        _check_held(held_bytes + chunk.num_values * _width_bytes(columns[key].arrow_type), bound_bytes, resolved, block)
        array = decode_chunk(
            read_chunk(handle, chunk, file=label), resolved.metadata.header.columns[place], chunk, file=label
        )
        held_bytes += array.nbytes
        _check_held(held_bytes, bound_bytes, resolved, block)
        if array.null_count and not is_nullable(columns[key].type):
            # Later releases write these types as optional, but the server knows no nulls of them.
            array = array.fill_null(missing_value(columns[key].type, physical_type=columns[key].physical_type))
        arrays[key] = array
    return arrays


def _is_all_null(resolved: Described, block: Block, place: int) -> bool:
    column, chunk = resolved.metadata.header.columns[place], block.chunks[place]
    return column.max_rep_level == 0 and 0 < chunk.num_values == chunk.null_count


def _width_bytes(of: pa.DataType) -> int:
    try:
        return -(-int(of.bit_width) // 8)
    except ValueError:
        return VARIABLE_WIDTH_BYTES


def _check_row_count(resolved: Described, block: Block) -> None:
    if block.num_rows > VALUE_COUNT_MAX:
        raise UnsupportedError(
            file=resolved.files.pm_label,
            field="NUM_ROWS",
            offset_bytes=block.offset_bytes,
            expected=f"at most {VALUE_COUNT_MAX} rows in a row group",
            actual=block.num_rows,
        )


def _check_held(held_bytes: int, bound_bytes: int, resolved: Described, block: Block) -> None:
    if held_bytes > bound_bytes:
        raise UnsupportedError(
            file=resolved.files.pm_label,
            field="NUM_ROWS",
            offset_bytes=block.offset_bytes,
            expected=f"columns of at most {bound_bytes} bytes in memory; read fewer columns at a time",
            actual=f"{held_bytes} bytes or more",
        )
