"""Row group blocks of `_pm`: 64 bytes a column, then the block's out-of-line region."""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence

import msgspec

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.bits import Bits
from tornproof.impl.layout.record import Buffer, RecordPosition
from tornproof.impl.parquet.fields import Codec

CODEC_COUNT = len(Codec)
CHUNK_BYTES = layout.ColumnChunk.layout.size_bytes
STATISTIC_LIMIT_BYTES = (1 << layout.STATISTIC_LENGTH_BITS) - 1


class OutOfLineOrder(enum.Enum):
    """The two orders in which QuestDB fills a block's out-of-line region (docs/format.md)."""

    STATISTICS_FIRST = "all statistics, then all bloom bitsets"
    BY_COLUMN = "minimum, maximum and bloom bitset of each column in turn"


class Statistic(msgspec.Struct, frozen=True):
    """A minimum or maximum: the same bytes as in Parquet's statistics."""

    value: bytes
    exact: bool


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One column of one row group; `encodings` is the bit mask of the format, unknown counts are None."""

    codec: int
    encodings: int
    num_values: int
    byte_range_start: int
    total_compressed: int
    null_count: int | None
    distinct_count: int | None
    minimum: Statistic | None
    maximum: Statistic | None

    @property
    def byte_range_end(self) -> int:
        """The first byte of data.parquet after the chunk."""
        return self.byte_range_start + self.total_compressed


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One row group; `end_bytes` is the end of everything that its chunks refer to, without bloom bitsets."""

    offset_bytes: int
    end_bytes: int
    num_rows: int
    chunks: tuple[Chunk, ...]


def region_offset(block_offset: int, column_count: int) -> int:
    """Return the offset in the file of a block's out-of-line region."""
    return chunk_offset(block_offset, column_count)


def decode_block(data: Buffer, offset_bytes: int, column_count: int, *, limit_bytes: int, file: str) -> Block:
    """Decode the block at `offset_bytes`, which must end before `limit_bytes`.

    The limit is the start of the generation's next block or of its footer. Raises CorruptError, also if all out-of-line
    statistics together are longer than their region.
    """
    window = memoryview(data)[:limit_bytes]
    header = layout.RowGroupHeader.unpack(window, offset_bytes, file=file)
    region_start = region_offset(offset_bytes, column_count)
    if region_start > limit_bytes:
        expected = f"{column_count} column chunks before byte {limit_bytes}"
        raise CorruptError(file, "BLOCK_OFFSET", offset_bytes, expected, f"a block that ends at byte {region_start}")
    region = _Region(window, region_start)
    first = chunk_offset(offset_bytes, 0)
    records = layout.ColumnChunk.layout.packer.iter_unpack(window[first:region_start])
    chunks = tuple(
        [
            _decode_chunk(record, first + index * CHUNK_BYTES, region, index, file)
            for index, record in enumerate(records)
        ]
    )
    return Block(offset_bytes=offset_bytes, end_bytes=region.end_bytes, num_rows=header.num_rows, chunks=chunks)


def decode_chunk_record(
    data: Buffer, block_offset: int, index: int, column_count: int, *, limit_bytes: int, file: str
) -> Chunk:
    """Decode only one chunk of the block at `block_offset`, which is known to end before `limit_bytes`."""
    window = memoryview(data)[:limit_bytes]
    position = chunk_offset(block_offset, index)
    record = layout.ColumnChunk.layout.packer.unpack_from(window, position)
    return _decode_chunk(record, position, _Region(window, region_offset(block_offset, column_count)), index, file)


def chunk_offset(block_offset: int, index: int) -> int:
    """Return the offset in the file of the record of a block's chunk."""
    return block_offset + layout.RowGroupHeader.layout.size_bytes + index * CHUNK_BYTES


def decode_bitset(data: Buffer, offset_bytes: int, *, limit_bytes: int, file: str) -> bytes:
    """Return the inlined bloom bitset whose length word is at `offset_bytes`."""
    _, end = bitset_interval(data, offset_bytes, limit_bytes=limit_bytes, file=file)
    return bytes(data[offset_bytes + layout.BloomBitset.layout.size_bytes : end])


def bitset_interval(data: Buffer, offset_bytes: int, *, limit_bytes: int, file: str) -> tuple[int, int]:
    """Return start and end of an inlined bloom bitset, length word included; CorruptError if it exceeds the limit."""
    window = memoryview(data)[:limit_bytes]
    start = offset_bytes + layout.BloomBitset.layout.size_bytes
    length = layout.BloomBitset.unpack(window, offset_bytes, file=file).length
    if not 0 < length <= limit_bytes - start:
        raise CorruptError(file, "bloom bitset LENGTH", offset_bytes, f"1 to {limit_bytes - start}", length)
    return offset_bytes, start + length


def encode_block(
    num_rows: int, chunks: tuple[Chunk, ...], bitsets: dict[int, bytes], order: OutOfLineOrder
) -> tuple[bytes, dict[int, int]]:
    """Encode a block; return its bytes and, by column, the bitsets' offsets from the start of the block.

    `bitsets` maps column indices to bitsets. Offsets are multiples of 8 if the block's own offset is.
    """
    region = bytearray()
    region_start = region_offset(0, len(chunks))
    references: dict[tuple[int, str], int] = {}
    bitset_offsets: dict[int, int] = {}

    def put_statistics(index: int) -> None:
        for name, statistic in (("min_stat", chunks[index].minimum), ("max_stat", chunks[index].maximum)):
            if statistic is not None and len(statistic.value) > layout.INLINE_STATISTIC_LIMIT_BYTES:
                references[index, name] = len(region)
                region.extend(statistic.value)

    def put_bitset(index: int) -> None:
        if index in bitsets:
            region.extend(bytes(-len(region) % layout.BLOCK_ALIGNMENT_BYTES))
            bitset_offsets[index] = region_start + len(region)
            region.extend(layout.BloomBitset(length=len(bitsets[index])).pack() + bitsets[index])

    if order is OutOfLineOrder.BY_COLUMN:
        for index in range(len(chunks)):
            put_statistics(index)
            put_bitset(index)
    else:
        for index in range(len(chunks)):
            put_statistics(index)
        for index in range(len(chunks)):
            put_bitset(index)
    parts = [layout.RowGroupHeader(num_rows=num_rows).pack()]
    parts += [_encode_chunk(chunk, index, references) for index, chunk in enumerate(chunks)]
    return b"".join([*parts, region]), bitset_offsets


class _Region:
    """A block's out-of-line region while its statistics are read; `end_bytes` is the end of those read so far."""

    def __init__(self, window: memoryview, start_bytes: int) -> None:
        self.window = window
        self.start_bytes = self.end_bytes = start_bytes
        self.free_bytes = len(window) - start_bytes

    def statistic(self, reference: int) -> memoryview | None:
        """Return the bytes that a chunk refers to, or None if they exceed the region, alone or with the others."""
        start = self.start_bytes + layout.STAT_REFERENCE_OFFSET.get(reference)
        end = start + layout.STAT_REFERENCE_LENGTH.get(reference)
        # Statistics that share bytes could take any amount of memory.
        self.free_bytes -= end - start
        if end > len(self.window) or self.free_bytes < 0:
            return None
        self.end_bytes = max(self.end_bytes, end)
        return self.window[start:end]


class _Known(msgspec.Struct, frozen=True):
    """STAT_FLAGS and STAT_SIZES of a minimum or a maximum; `inlined_end` is above all words that can be inlined."""

    name: str
    is_present: bool
    is_inlined: bool
    is_exact: bool
    size_bytes: int
    inlined_end: int


@functools.cache
def _known(flags: int, sizes: int) -> tuple[_Known, _Known, bool, bool]:
    """Return what the flags say of minimum and maximum, and whether null count and distinct count are known."""

    def known(name: str, bits: Sequence[Bits], size: Bits) -> _Known:
        present, inlined, exact = (bool(bit.get(flags)) for bit in bits)
        size_bytes = size.get(sizes)
        is_possible = present and inlined and 0 < size_bytes <= layout.INLINE_STATISTIC_LIMIT_BYTES
        return _Known(name, present, inlined, exact, size_bytes, 1 << 8 * size_bytes if is_possible else 0)

    minimum = known("min_stat", layout.STAT_FLAGS.bits[0:3], layout.MIN_STAT_SIZE)
    maximum = known("max_stat", layout.STAT_FLAGS.bits[3:6], layout.MAX_STAT_SIZE)
    return minimum, maximum, bool(layout.NULL_COUNT_PRESENT.get(flags)), bool(layout.DISTINCT_COUNT_PRESENT.get(flags))


def _decode_chunk(record: tuple[int, ...], position: int, region: _Region, index: int, file: str) -> Chunk:
    """Decode the fields of a chunk's record, which is at `position`."""
    # As a tuple, and without a closure, for speed: a file has such a record for each column of each row group.
    codec, encodings, flags, sizes, reserved, num_values, start, size, nulls, distinct, low, high = record
    minimum, maximum, has_nulls, has_distinct = _known(flags, sizes)
    if codec >= CODEC_COUNT:
        raise _at(file, position, index).corrupt("codec", f"0 to {CODEC_COUNT - 1}", codec)
    if reserved:
        raise _at(file, position, index).corrupt("reserved", "0", reserved)
    return Chunk(
        codec=codec,
        encodings=encodings,
        num_values=num_values,
        byte_range_start=start,
        total_compressed=size,
        null_count=nulls if has_nulls else None,
        distinct_count=distinct if has_distinct else None,
        minimum=Statistic(low.to_bytes(minimum.size_bytes, "little"), minimum.is_exact)
        if low < minimum.inlined_end
        else _statistic(minimum, low, position, region, index, file),
        maximum=Statistic(high.to_bytes(maximum.size_bytes, "little"), maximum.is_exact)
        if high < maximum.inlined_end
        else _statistic(maximum, high, position, region, index, file),
    )


def _statistic(known: _Known, word: int, position: int, region: _Region, index: int, file: str) -> Statistic | None:
    """Return the bound of a chunk that is not inlined, None if there is none or an empty one."""
    if not known.is_present:
        return None
    if known.is_inlined:
        at = _at(file, position, index)
        if not known.inlined_end:
            raise at.corrupt("stat_sizes", f"1 to 8 bytes for an inlined {known.name.upper()}", known.size_bytes)
        value = word.to_bytes(layout.INLINE_STATISTIC_LIMIT_BYTES, "little")
        raise at.corrupt(known.name, f"zeros after its {known.size_bytes} bytes", value.hex())
    stored = region.statistic(word)
    if stored is None:
        length, offset = layout.STAT_REFERENCE_LENGTH.get(word), layout.STAT_REFERENCE_OFFSET.get(word)
        expected = f"bytes of its own from {region.start_bytes} to {len(region.window)}"
        raise _at(file, position, index).corrupt(known.name, expected, f"{length} at +{offset}")
    return Statistic(value=bytes(stored), exact=known.is_exact) if stored else None


def _at(file: str, position: int, index: int) -> RecordPosition:
    return layout.ColumnChunk.at(file, position, f" of column {index}")


def _encode_chunk(chunk: Chunk, index: int, references: dict[tuple[int, str], int]) -> bytes:
    flags = sizes = 0
    words = {"min_stat": 0, "max_stat": 0}
    for name, statistic, bits, size_bits in (
        ("min_stat", chunk.minimum, layout.STAT_FLAGS.bits[0:3], layout.MIN_STAT_SIZE),
        ("max_stat", chunk.maximum, layout.STAT_FLAGS.bits[3:6], layout.MAX_STAT_SIZE),
    ):
        if statistic is None:
            continue
        present, inlined, exact = bits
        flags = exact.put(present.put(flags, 1), int(statistic.exact))
        if (index, name) in references:
            assert len(statistic.value) <= STATISTIC_LIMIT_BYTES, len(statistic.value)
            word = layout.STAT_REFERENCE_OFFSET.put(len(statistic.value), references[index, name])
        else:
            flags = inlined.put(flags, 1)
            sizes = size_bits.put(sizes, len(statistic.value))
            word = int.from_bytes(statistic.value, "little")
        words[name] = word
    flags = layout.NULL_COUNT_PRESENT.put(flags, int(chunk.null_count is not None))
    flags = layout.DISTINCT_COUNT_PRESENT.put(flags, int(chunk.distinct_count is not None))
    return layout.ColumnChunk(
        codec=chunk.codec,
        encodings=chunk.encodings,
        stat_flags=flags,
        stat_sizes=sizes,
        reserved=0,
        num_values=chunk.num_values,
        byte_range_start=chunk.byte_range_start,
        total_compressed=chunk.total_compressed,
        null_count=chunk.null_count or 0,
        distinct_count=chunk.distinct_count or 0,
        min_stat=words["min_stat"],
        max_stat=words["max_stat"],
    ).pack()
