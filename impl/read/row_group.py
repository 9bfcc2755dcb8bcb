"""One row group as Arrow arrays, with memory bounded in proportion to its bytes in data.parquet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa

from tornproof.impl.chunk.chunk import VALUE_COUNT_MAX, decode_chunk
from tornproof.impl.chunk.expansion import EXPANSION_MAX
from tornproof.impl.chunk.statistics import check_rows
from tornproof.impl.chunk.together import (
    MANY_COUNT,
    SMALL_EXPANDED_BYTES,
    TOGETHER_COUNT_MAX,
    Piece,
    decode_together,
    is_small,
)
from tornproof.impl.errors import TornproofError, UnsupportedError
from tornproof.impl.pm.block import Block, Chunk
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.header import Column
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding, InOrder
from tornproof.impl.storage.interface import ReadableFile
from tornproof.impl.table.changed_types import check_is_read, converted
from tornproof.impl.table.columns import SnapshotColumn, column_positions, is_all_null, position_of
from tornproof.impl.table.partition import PartitionFiles, read_chunk, read_chunks
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
    wanted: dict[int, _Wanted] = {}
    for shown in columns:
        position = position_of(shown, positions)
        if position is None:
            continue
        column, chunk = header.columns[position], block.chunks[position]
        check_is_read(shown, column, file=resolved.files.pm_label)
        if not is_all_null(column, chunk):
            wanted[shown.id] = _Wanted(shown, column, chunk, chunk.num_values * shown.width_bytes)
    group = _Group(resolved, block, InOrder(decoding))
    group.fetch_all(handle, sorted(wanted.values(), key=_effort))
    return _parts(group, columns)


def _parts(group: _Group, columns: Sequence[SnapshotColumn]) -> Iterator[list[pa.Array]]:
    arrays, row_count = group.arrays(), group.block.num_rows
    constant_width = sum(column.width_bytes for column in columns if column.id not in arrays)
    part_rows = max(1, CONSTANT_SLICE_BYTES // max(1, constant_width))
    for start in range(0, row_count, part_rows):
        count = min(part_rows, row_count - start)
        part = arrays if count == row_count else {key: array.slice(start, count) for key, array in arrays.items()}
        yield [part[column.id] if column.id in part else column.constant(count) for column in columns]


class _Wanted(NamedTuple):
    """A column with its chunk, and at least how much memory its values take."""

    shown: SnapshotColumn
    column: Column
    chunk: Chunk
    awaited_bytes: int


class _Group(msgspec.Struct):
    """The chunks of a row group while they are decoded, with a bound on all of them together.

    A few bytes must not decode to gigabytes, so only some chunks are decoded before the size of others is known.
    `uncounted` are those whose exact size, which takes longer to find than a small chunk to decode, is not yet in
    `held_bytes`; `uncounted_bytes` is not below it.
    """

    resolved: Described
    block: Block
    under_way: InOrder[list[tuple[_Wanted, Piece, pa.Array | None]]]
    done: dict[int, pa.Array] = msgspec.field(default_factory=dict)
    held_bytes: int = 0
    uncounted: list[pa.Array] = msgspec.field(default_factory=list)
    uncounted_bytes: int = 0
    awaited_bytes: int = 0
    bound_bytes: int = 0

    def __post_init__(self) -> None:
        self.bound_bytes = batch_bound_bytes(self.block.chunks)

    @property
    def known_bytes(self) -> int:
        """What arrays take that were decoded or will be, with `uncounted_bytes` for those not counted exactly."""
        return self.held_bytes + self.uncounted_bytes + self.awaited_bytes

    def fetch_all(self, handle: ReadableFile, wanted: Iterable[_Wanted]) -> None:
        """Fetch the chunks in this order."""
        together: list[_Wanted] = []
        for each in wanted:
            # Close to the bound, the size of each must be known before the next is decoded.
            if _is_small(each) and 2 * self.known_bytes <= self.bound_bytes:
                together.append(each)
                if len(together) < TOGETHER_COUNT_MAX:
                    continue
                self._fetch(handle, together)
            else:
                self._fetch(handle, together)
                self._fetch(handle, [each])
            together = []
        self._fetch(handle, together)

    def arrays(self) -> dict[int, pa.Array]:
        """Return all arrays by column, after waiting for them to be decoded."""
        self._take(self.under_way.rest())
        return self.done

    def _fetch(self, handle: ReadableFile, wanted: Sequence[_Wanted]) -> None:
        label, chunks = self.resolved.files.data_label, [each.chunk for each in wanted]
        are_many = len(chunks) >= MANY_COUNT
        contents = (
            read_chunks(handle, chunks, file=label)
            if are_many
            else (read_chunk(handle, chunk, file=label) for chunk in chunks)
        )
        pieces: list[Piece] = []
        try:
            for _, column, chunk, awaited_bytes in wanted:
                self.awaited_bytes += awaited_bytes
                self._check()
                pieces.append(Piece(next(contents), column, chunk))
        except TornproofError:
            # A problem in what was read before is reported first.
            self._begin(wanted, pieces)
            self._take(self.under_way.rest())
            raise
        self._begin(wanted, pieces)
        self._take(self.under_way.due())

    def _begin(self, wanted: Sequence[_Wanted], pieces: Sequence[Piece]) -> None:
        """Start to decode the first of the chunks that are wanted."""

        def decode() -> list[tuple[_Wanted, Piece, pa.Array | None]]:
            file = self.resolved.files.data_label
            alone = len(pieces) == 1
            arrays = [decode_chunk(*pieces[0], file=file)] if alone else decode_together(pieces, file=file)
            return list(zip(wanted, pieces, arrays, strict=False))

        if pieces:
            self.under_way.begin(decode, sum([len(piece.content) for piece in pieces]))

    def _take(self, decoded: Iterator[list[tuple[_Wanted, Piece, pa.Array | None]]]) -> None:
        label = self.resolved.files.data_label
        for each, piece, found in itertools.chain.from_iterable(decoded):
            array = decode_chunk(*piece, file=label) if found is None else found
            check_rows(array, self.block.num_rows, piece.column, piece.chunk, file=label)
            array = converted(array, each.shown, each.column)
            self.awaited_bytes -= each.awaited_bytes
            self.uncounted.append(array)
            self.uncounted_bytes += array.get_total_buffer_size()
            self._check()
            self.done[each.shown.id] = each.shown.without_nulls(array)

    def _check(self) -> None:
        if self.known_bytes <= self.bound_bytes:
            return
        self.held_bytes += sum(array.nbytes for array in self.uncounted)
        self.uncounted, self.uncounted_bytes = [], 0
        held_bytes = self.held_bytes + self.awaited_bytes
        if held_bytes > self.bound_bytes:
            expected = f"columns of at most {self.bound_bytes} bytes in memory; read fewer columns at a time"
            actual = f"{held_bytes} bytes or more"
            raise UnsupportedError(self.resolved.files.pm_label, "NUM_ROWS", self.block.offset_bytes, expected, actual)


def _is_small(wanted: _Wanted) -> bool:
    return is_small(wanted.chunk) and wanted.awaited_bytes <= SMALL_EXPANDED_BYTES


def _effort(wanted: _Wanted) -> tuple[bool, int]:
    """Return a sort key by which slow chunks are decoded first, so that threads finish a row group together."""
    return wanted.column.physical_type != PhysicalType.BYTE_ARRAY, -wanted.chunk.total_compressed


def batch_bound_bytes(chunks: Iterable[Chunk]) -> int:
    """Return the bound on the values of chunks that are read together, in bytes."""
    return max(BATCH_FLOOR_BYTES, EXPANSION_MAX * sum(chunk.total_compressed for chunk in chunks))


def _check_row_count(resolved: Described, block: Block) -> None:
    if block.num_rows > VALUE_COUNT_MAX:
        expected = f"at most {VALUE_COUNT_MAX} rows in a row group"
        raise UnsupportedError(resolved.files.pm_label, "NUM_ROWS", block.offset_bytes, expected, block.num_rows)
