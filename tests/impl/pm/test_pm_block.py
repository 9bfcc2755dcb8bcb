"""Row group blocks: statistics in the slot or out of line, bloom bitsets, and why bad blocks are rejected."""

import pm_builder as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rejections import rejection

from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import (
    Block,
    Chunk,
    OutOfLineOrder,
    Statistic,
    bitset_interval,
    decode_bitset,
    decode_block,
    encode_block,
    region_offset,
)

STATISTICS = st.none() | st.builds(Statistic, value=st.binary(min_size=1, max_size=40), exact=st.booleans())
COUNTS = st.integers(0, (1 << 64) - 1)
CHUNKS = st.builds(
    Chunk,
    codec=st.integers(0, 7),
    encodings=st.integers(0, 255),
    num_values=COUNTS,
    byte_range_start=COUNTS,
    total_compressed=COUNTS,
    null_count=st.none() | COUNTS,
    distinct_count=st.none() | COUNTS,
    minimum=STATISTICS,
    maximum=STATISTICS,
)
LONG_MIN, LONG_MAX = b"a" * 16, b"b" * 16
WIDE = replace(pm.chunk(), minimum=pm.statistic(LONG_MIN), maximum=pm.statistic(LONG_MAX))
BLOOMED = pm.header(pm.TIMESTAMP, pm.UUID, bloom_columns=(0, 1))


def decode(data: bytes, column_count: int, *, offset_bytes: int = 0, limit_bytes: int | None = None) -> Block:
    limit_bytes = len(data) if limit_bytes is None else limit_bytes
    return decode_block(data, offset_bytes, column_count, limit_bytes=limit_bytes, file=pm.FILE)


@given(
    chunks=st.lists(CHUNKS, max_size=4).map(tuple),
    bitsets=st.dictionaries(st.integers(0, 3), st.binary(min_size=1, max_size=40)),
    order=st.sampled_from(OutOfLineOrder),
    num_rows=COUNTS,
)
def test_a_block_is_decoded_to_what_was_encoded(
    chunks: tuple[Chunk, ...], bitsets: dict[int, bytes], order: OutOfLineOrder, num_rows: int
) -> None:
    bitsets = {column: bitset for column, bitset in bitsets.items() if column < len(chunks)}
    data, offsets = encode_block(num_rows, chunks, bitsets, order)
    block = decode(b"\xff" * 8 + data, len(chunks), offset_bytes=8)
    assert (block.num_rows, block.chunks) == (num_rows, chunks)
    assert block.end_bytes <= 8 + len(data)
    assert offsets.keys() == bitsets.keys()
    for column, offset in offsets.items():
        assert offset % 8 == 0
        assert decode_bitset(data, offset, limit_bytes=len(data), file=pm.FILE) == bitsets[column]


def plainly_decoded(data: bytes, region: bytes) -> tuple[object, ...] | str:
    """Return a chunk's fields by the declared layout, or the name of the first field that is wrong."""
    raw = layout.ColumnChunk.unpack(data, 0, file=pm.FILE)
    if raw.codec > 7 or raw.reserved:
        return "CODEC" if raw.codec > 7 else "RESERVED"
    bounds: list[Statistic | None] = []
    used_bytes = 0
    for name, word, bits, size in (
        ("MIN_STAT", raw.min_stat, layout.STAT_FLAGS.bits[0:3], raw.stat_sizes & 15),
        ("MAX_STAT", raw.max_stat, layout.STAT_FLAGS.bits[3:6], raw.stat_sizes >> 4),
    ):
        is_present, is_inlined, is_exact = (bool(bit.get(raw.stat_flags)) for bit in bits)
        if not is_present:
            bounds.append(None)
            continue
        if is_inlined:
            if not 1 <= size <= 8:
                return "STAT_SIZES"
            if any(word.to_bytes(8, "little")[size:]):
                return name
            bounds.append(Statistic(value=word.to_bytes(8, "little")[:size], exact=is_exact))
            continue
        start, length = layout.STAT_REFERENCE_OFFSET.get(word), layout.STAT_REFERENCE_LENGTH.get(word)
        used_bytes += length
        if start + length > len(region) or used_bytes > len(region):
            return name
        bounds.append(Statistic(value=region[start : start + length], exact=is_exact) if length else None)
    return (
        raw.codec,
        raw.num_values,
        raw.null_count if layout.NULL_COUNT_PRESENT.get(raw.stat_flags) else None,
        raw.distinct_count if layout.DISTINCT_COUNT_PRESENT.get(raw.stat_flags) else None,
        *bounds,
    )


WORDS = st.one_of(st.integers(0, 300), st.integers(0, 40).map(lambda offset: offset << 16 | 5), COUNTS)


@given(
    st.integers(0, 8),
    st.integers(0, 255),
    st.integers(0, 255),
    st.sampled_from([0, 0, 0, 1]),
    WORDS,
    WORDS,
    st.binary(),
)
def test_a_chunk_is_what_its_declared_layout_says(
    codec: int, flags: int, sizes: int, reserved: int, low: int, high: int, region: bytes
) -> None:
    record = layout.ColumnChunk(
        codec=codec,
        encodings=1,
        stat_flags=flags,
        stat_sizes=sizes,
        reserved=reserved,
        num_values=11,
        byte_range_start=4,
        total_compressed=99,
        null_count=5,
        distinct_count=6,
        min_stat=low,
        max_stat=high,
    ).pack()
    found: tuple[object, ...] | str
    try:
        (chunk,) = decode(bytes(8) + record + region, 1).chunks
        found = chunk.codec, chunk.num_values, chunk.null_count, chunk.distinct_count, chunk.minimum, chunk.maximum
    except CorruptError as error:
        found = error.problem.field.removesuffix(" of column 0")
    assert found == plainly_decoded(record, region)


@pytest.mark.parametrize(("size_bytes", "is_inlined"), [(1, True), (8, True), (9, False), (65_535, False)])
def test_statistics_of_up_to_eight_bytes_are_inlined(size_bytes: int, is_inlined: bool) -> None:
    value = bytes([0x80]) * size_bytes
    data, _ = encode_block(1, (replace(pm.chunk(), minimum=pm.statistic(value)),), {}, OutOfLineOrder.BY_COLUMN)
    raw = layout.ColumnChunk.unpack(data, 8, file=pm.FILE)
    assert layout.MIN_STAT_INLINED.get(raw.stat_flags) == is_inlined
    assert raw.stat_sizes == (size_bytes if is_inlined else 0)
    assert raw.min_stat == (int.from_bytes(value, "little") if is_inlined else size_bytes)
    assert data[8 + 64 :] == (b"" if is_inlined else value)
    assert decode(data, 1).chunks[0].minimum == Statistic(value=value, exact=True)


def test_a_statistic_that_no_reference_can_hold_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        encode_block(1, (replace(pm.chunk(), minimum=pm.statistic(bytes(65_536))),), {}, OutOfLineOrder.BY_COLUMN)


def test_references_count_from_the_out_of_line_region() -> None:
    data, _ = encode_block(1, (WIDE, WIDE), {}, OutOfLineOrder.STATISTICS_FIRST)
    words = [layout.ColumnChunk.unpack(data, 8 + 64 * index, file=pm.FILE) for index in range(2)]
    assert [(word.min_stat, word.max_stat) for word in words] == [(16, 16 << 16 | 16), (32 << 16 | 16, 48 << 16 | 16)]
    assert data[region_offset(0, 2) :] == (LONG_MIN + LONG_MAX) * 2


def test_both_orders_of_the_out_of_line_region() -> None:
    bitsets = {0: b"0" * 3, 1: b"1" * 32}
    three, long = (3).to_bytes(4, "little") + b"000", (32).to_bytes(4, "little") + b"1" * 32
    statistics_first, _ = encode_block(1, (WIDE, WIDE), bitsets, OutOfLineOrder.STATISTICS_FIRST)
    assert statistics_first[region_offset(0, 2) :] == (LONG_MIN + LONG_MAX) * 2 + three + b"\0" + long
    by_column, _ = encode_block(1, (WIDE, WIDE), bitsets, OutOfLineOrder.BY_COLUMN)
    # The second column's statistics follow the first bitset unaligned; only bitsets are aligned.
    expected = LONG_MIN + LONG_MAX + three + LONG_MIN + LONG_MAX + b"\0" + long
    assert by_column[region_offset(0, 2) :] == expected


@pytest.mark.parametrize("order", OutOfLineOrder)
def test_inlined_blooms_are_found_again_in_both_orders(order: OutOfLineOrder) -> None:
    groups = [pm.row_group(BLOOMED, nth, blooms=(b"x" * 33, b"y" * 32), order=order) for nth in range(2)]
    data = pm.file(BLOOMED, *groups)
    assert pm.problems(data) == []
    assert reencode_generations(data, file=pm.FILE).mismatches == ()
    generation = pm.read(data).generation
    found = [
        decode_bitset(data, bloom.offset_bytes, limit_bytes=generation.position.offset_bytes, file=pm.FILE)
        for row in generation.blooms
        for bloom in row
        if bloom is not None
    ]
    assert found == [b"x" * 33, b"y" * 32] * 2


def test_a_statistic_is_absent_by_its_flag_or_by_no_length() -> None:
    data, _ = encode_block(1, (WIDE,), {}, OutOfLineOrder.BY_COLUMN)
    no_length = pm.set_field(data, layout.ColumnChunk, 8, "min_stat", 0)
    assert (decode(no_length, 1).chunks[0].minimum, decode(no_length, 1).chunks[0].maximum) == (None, WIDE.maximum)
    no_flags = pm.set_field(data, layout.ColumnChunk, 8, "stat_flags", 0)
    chunk = decode(no_flags, 1).chunks[0]
    assert (chunk.minimum, chunk.maximum, chunk.null_count, chunk.distinct_count) == (None, None, None, None)


@pytest.mark.parametrize("sizes", [0x80, 0x08, 0x98, 0x89, 0xFF])
def test_an_inlined_statistic_has_one_to_eight_bytes(sizes: int) -> None:
    data = pm.set_chunk(pm.file(), "stat_sizes", sizes)
    assert rejection(lambda: pm.read(data)).field == "STAT_SIZES of column 0"


def test_an_inlined_statistic_is_followed_by_zeros() -> None:
    data = pm.set_chunk(pm.file(), "stat_sizes", 0x44)
    assert pm.read(data).blocks[0].chunks[0].maximum == Statistic(value=(999).to_bytes(4, "little"), exact=True)
    assert rejection(lambda: pm.read(pm.set_chunk(data, "max_stat", 1 << 32))).field == "MAX_STAT of column 0"


@pytest.mark.parametrize(
    ("field", "value", "blamed"), [("codec", 8, "CODEC"), ("codec", 255, "CODEC"), ("reserved", 1, "RESERVED")]
)
def test_a_chunk_with_an_impossible_field_is_corrupt(field: str, value: int, blamed: str) -> None:
    data = pm.file()
    problem = rejection(lambda: pm.read(pm.set_chunk(data, field, value, column=1)))
    assert problem.field == f"{blamed} of column 1"
    assert problem.offset_bytes == pm.chunk_offset(data, 1) + layout.ColumnChunk.layout.offset_of(field)


@pytest.mark.parametrize("reference", [1 << 16 | 32, 17 << 16 | 16, (1 << 64) - 1, 33, (1 << 48) - 1 << 16 | 16])
def test_an_out_of_line_statistic_outside_of_its_region_is_corrupt(reference: int) -> None:
    data, _ = encode_block(1, (WIDE,), {}, OutOfLineOrder.BY_COLUMN)
    changed = pm.set_field(data, layout.ColumnChunk, 8, "max_stat", reference)
    problem = rejection(lambda: decode(changed, 1))
    assert (problem.field, problem.offset_bytes) == ("MAX_STAT of column 0", 8 + 56)


def test_out_of_line_statistics_that_share_bytes_beyond_the_regions_size_are_corrupt() -> None:
    data, _ = encode_block(1, (WIDE, WIDE), {}, OutOfLineOrder.BY_COLUMN)
    shared = pm.set_field(data, layout.ColumnChunk, 8, "min_stat", 64)
    assert rejection(lambda: decode(shared, 2)).field == "MAX_STAT of column 0"


def test_a_region_ends_where_the_next_block_starts() -> None:
    of = pm.header(pm.TIMESTAMP, pm.UUID)
    data = pm.file(of, pm.row_group(of, 0), pm.row_group(of, 1))
    first, second = pm.read(data).blocks
    assert first.end_bytes == second.offset_bytes
    beyond = pm.set_chunk(data, "max_stat", 24 << 16 | 16, column=1)
    assert rejection(lambda: pm.read(beyond)).field == "MAX_STAT of column 1"


@pytest.mark.parametrize("offset_bytes", [-8, 1, 8, 1 << 40])
def test_a_block_that_leaves_its_limit_is_corrupt(offset_bytes: int) -> None:
    data, _ = encode_block(1, (pm.chunk(),), {}, OutOfLineOrder.BY_COLUMN)
    assert decode(data, 1).num_rows == 1
    rejection(lambda: decode(data, 1, offset_bytes=offset_bytes))
    rejection(lambda: decode(data + bytes(100), 1, limit_bytes=len(data) - 1))
    rejection(lambda: decode(data, 1 << 31))


@pytest.mark.parametrize(("length", "is_sound"), [(-1, False), (0, False), (1, True), (32, True), (33, False)])
def test_a_bitset_has_bytes_and_ends_in_time(length: int, is_sound: bool) -> None:
    data = length.to_bytes(4, "little", signed=True) + b"b" * 40
    if is_sound:
        assert decode_bitset(data, 0, limit_bytes=36, file=pm.FILE) == b"b" * length
        assert bitset_interval(data, 0, limit_bytes=36, file=pm.FILE) == (0, 4 + length)
    else:
        assert rejection(lambda: decode_bitset(data, 0, limit_bytes=36, file=pm.FILE)).field == "bloom bitset LENGTH"
