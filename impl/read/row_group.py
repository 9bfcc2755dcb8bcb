"""One row group as Arrow arrays, with memory bounded in proportion to its bytes in data.parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
import pyarrow as pa

from tornproof.impl.chunk.chunk import VALUE_COUNT_MAX, decode_chunk
from tornproof.impl.chunk.expansion import EXPANSION_MAX
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.pm.block import Block, Chunk
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding, InOrder
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.columns import SnapshotColumn, column_positions, is_all_null
from tornproof.impl.table.partition import PartitionFiles, read_chunk
from tornproof.impl.types.physical import PhysicalType

BATCH_FLOOR_BYTES = 128 << 20
CONSTANT_SLICE_BYTES = 8 << 20


class Described(Protocol):
    """A partition's files and the generation that describes them, as resolved by a reader or kept by a writer."""

    @property
    def files(self) -> PartitionFiles:
        """The partition's files."""

    @property
    def metadata(self) -> Metadata:
        """The generation that describes them."""


def row_group_columns(
    resolved: Described,
    block: Block,
    handle: ReadableFile,
    columns: Sequence[SnapshotColumn],
    decoding: Decoding = SYNCHRONOUS,
) -> Iterator[list[pa.Array]]:
    """Yield arrays in the order of `columns`, in one part or several, for all rows of the row group.

    Columns that are newer than the partition, and chunks of nulls, are not read but generated; if there are many of
    them, the rows come in several parts. Everything else is read before this returns, and may still be decoded by other
    threads then. Raises CorruptError, UnsupportedError, StorageError, also during iteration.
    """
    _check_row_count(resolved, block)
    header = resolved.metadata.header
    positions = column_positions(header)
    fetched = {
        column.id: positions[column.id]
        for column in columns
        if column.id in positions
        and not is_all_null(header.columns[positions[column.id]], block.chunks[positions[column.id]])
    }
    group = _Group(resolved, block, {column.id: column for column in columns}, InOrder(decoding))
    for key, position in sorted(
        fetched.items(), key=lambda item: _effort(header.columns[item[1]], block.chunks[item[1]])
    ):
        group.fetch(handle, key, position)
    return _parts(group, columns)


def _parts(group: _Group, columns: Sequence[SnapshotColumn]) -> Iterator[list[pa.Array]]:
    arrays, row_count = group.arrays(), group.block.num_rows
    constant_width = sum(column.width_bytes for column in columns if column.id not in arrays)
    part_rows = max(1, CONSTANT_SLICE_BYTES // max(1, constant_width))
    for start in range(0, row_count, part_rows):
        count = min(part_rows, row_count - start)
        yield [
            arrays[column.id].slice(start, count) if column.id in arrays else column.constant(count)
            for column in columns
        ]


class _Group(msgspec.Struct):
    """The chunks of a row group while they are decoded, with a bound on all of them together.

    A few bytes must not decode to gigabytes, so only some chunks are decoded before the size of others is known.
    `uncounted` are those whose exact size, which takes longer to find than a small chunk to decode, is not yet in
    `held_bytes`; `uncounted_bytes` is not below it.
    """

    resolved: Described
    block: Block
    columns: dict[int, SnapshotColumn]
    under_way: InOrder[tuple[int, pa.Array]]
    done: dict[int, pa.Array] = msgspec.field(default_factory=dict)
    held_bytes: int = 0
    uncounted: list[pa.Array] = msgspec.field(default_factory=list)
    uncounted_bytes: int = 0
    awaited_bytes: dict[int, int] = msgspec.field(default_factory=dict)
    bound_bytes: int = 0

    def __post_init__(self) -> None:
        self.bound_bytes = batch_bound_bytes(self.block.chunks)

    def fetch(self, handle: ReadableFile, key: int, position: int) -> None:
        chunk, header = self.block.chunks[position], self.resolved.metadata.header
        self.awaited_bytes[key] = chunk.num_values * self.columns[key].width_bytes
        self._check()
        label = self.resolved.files.data_label
        content = read_chunk(handle, chunk, file=label)

        def decode() -> tuple[int, pa.Array]:
            return key, decode_chunk(content, header.columns[position], chunk, file=label)

        self.under_way.begin(decode, len(content))
        self._take(self.under_way.due())

    def arrays(self) -> dict[int, pa.Array]:
        """Return all arrays by column, after waiting for them to be decoded."""
        self._take(self.under_way.rest())
        return self.done

    def _take(self, decoded: Iterator[tuple[int, pa.Array]]) -> None:
        for key, array in decoded:
            del self.awaited_bytes[key]
            self.uncounted.append(array)
            self.uncounted_bytes += array.get_total_buffer_size()
            self._check()
            self.done[key] = self.columns[key].without_nulls(array)

    def _check(self) -> None:
        awaited_bytes = sum(self.awaited_bytes.values())
        if self.held_bytes + self.uncounted_bytes + awaited_bytes <= self.bound_bytes:
            return
        self.held_bytes += sum(array.nbytes for array in self.uncounted)
        self.uncounted, self.uncounted_bytes = [], 0
        held_bytes = self.held_bytes + awaited_bytes
        if held_bytes > self.bound_bytes:
            expected = f"columns of at most {self.bound_bytes} bytes in memory; read fewer columns at a time"
            actual = f"{held_bytes} bytes or more"
            raise UnsupportedError(self.resolved.files.pm_label, "NUM_ROWS", self.block.offset_bytes, expected, actual)


def _effort(column: Column, chunk: Chunk) -> tuple[bool, int]:
    """Return a sort key by which slow chunks are decoded first, so that threads finish a row group together."""
    return column.physical_type != PhysicalType.BYTE_ARRAY, -chunk.total_compressed


def batch_bound_bytes(chunks: Iterable[Chunk]) -> int:
    """Return the bound on the values of chunks that are read together, in bytes."""
    return max(BATCH_FLOOR_BYTES, EXPANSION_MAX * sum(chunk.total_compressed for chunk in chunks))


def _check_row_count(resolved: Described, block: Block) -> None:
    if block.num_rows > VALUE_COUNT_MAX:
        expected = f"at most {VALUE_COUNT_MAX} rows in a row group"
        raise UnsupportedError(resolved.files.pm_label, "NUM_ROWS", block.offset_bytes, expected, block.num_rows)
