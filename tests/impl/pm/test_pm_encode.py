"""Encoding `_pm`: whole files, appended generations, and a checksum that continues the stored one."""

import zlib

import pm_builder as pm
import pytest
from damage import flipped
from hypothesis import given
from hypothesis import strategies as st
from rejections import rejection

from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import check_checksum, checksum_of, walk
from tornproof.impl.pm.encode import (
    AppendPoint,
    FooterFacts,
    NewRowGroup,
    ReusedRowGroup,
    append_generation,
    append_point,
    encode_file,
    patch_header,
)
from tornproof.impl.pm.footer import FooterSections

PLAIN = pm.header()


def test_a_whole_file_publishes_itself() -> None:
    data = pm.file()
    assert data[:8] == len(data).to_bytes(8, "little") == patch_header(len(data))
    assert pm.newest(data).fixed.prev_parquet_meta_file_size == 0
    assert zlib.crc32(data[8:-8]) == int.from_bytes(data[-8:-4], "little")


def test_an_appended_generation_leaves_all_older_bytes_but_the_size() -> None:
    first = pm.file(footer=pm.facts(10_000))
    second = pm.append(first, pm.row_group(PLAIN, 1), footer=pm.facts(20_000))
    assert second[8 : len(first)] == first[8:]
    assert second[:8] == patch_header(len(second))
    assert pm.newest(second).fixed.prev_parquet_meta_file_size == len(first)


def test_reused_row_groups_keep_their_blocks_and_bloom_references() -> None:
    of = pm.header(pm.TIMESTAMP, pm.VALUE, bloom_columns=(1,))
    first = pm.file(of, pm.row_group(of, blooms=(b"b" * 32,)), footer=pm.facts(10_000))
    second = pm.append(first, pm.row_group(of, 1), footer=pm.facts(20_000))
    old, new = pm.read(first, 10_000), pm.read(second, 20_000)
    assert new.generation.block_offsets[0] == old.generation.block_offsets[0]
    assert new.generation.blooms == (*old.generation.blooms, (None,))
    assert new.blocks[0] == old.blocks[0]
    assert pm.problems(second, 20_000) == []


def test_an_encoded_footer_is_read_back() -> None:
    footer = FooterFacts(
        parquet_footer_offset=1 << 40,
        parquet_footer_length=(1 << 32) - 1,
        unused_bytes=77,
        footer_feature_flags=layout.SEQ_TXN.mask,
        sections=FooterSections(seq_txn=-1),
    )
    generation = pm.read(pm.file(footer=footer), (1 << 40) + (1 << 32) + 7).generation
    fixed = generation.position.fixed
    assert (fixed.parquet_footer_offset, fixed.parquet_footer_length) == (1 << 40, (1 << 32) - 1)
    assert (fixed.unused_bytes, generation.sections.seq_txn) == (77, -1)


def test_a_file_may_hold_no_row_group_and_no_column() -> None:
    empty = encode_file(pm.header(), [], pm.facts())
    assert (pm.read(empty).blocks, pm.problems(empty)) == ((), [])
    bare = pm.set_header(encode_file(pm.header(designated_timestamp=-1), [], pm.facts()), "column_count", 0)
    assert pm.read(bare).header.columns == ()


@given(name_bytes=st.integers(0, 20), groups=st.integers(0, 3), rows=st.integers(0, (1 << 64) - 1))
def test_blocks_are_aligned_wherever_header_and_generations_end(name_bytes: int, groups: int, rows: int) -> None:
    of = pm.header(pm.TIMESTAMP, pm.column("n" * name_bytes))
    data = encode_file(of, [pm.row_group(of, nth, rows=rows) for nth in range(groups)], pm.facts(10_000))
    data = pm.append(data, pm.row_group(of, groups, rows=rows), footer=pm.facts(20_000))
    metadata = pm.read(data, 20_000)
    assert all(block.offset_bytes % 8 == 0 for block in metadata.blocks)
    assert metadata.row_count == rows * (groups + 1)
    assert pm.problems(data, 20_000) == []


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=5),
    groups=st.lists(st.integers(0, 2), min_size=1, max_size=4),
)
def test_the_continued_checksum_equals_the_full_one(lengths: list[int], groups: list[int]) -> None:
    of = pm.header(pm.TIMESTAMP, pm.column("n" * lengths[0]))
    data = pm.file(of, footer=pm.facts(10_000))
    anchor = pm.newest(data)
    for nth, count in enumerate(groups):
        # Dead bytes of any length between the generations are covered too.
        data += bytes([0xD5]) * lengths[nth % len(lengths)]
        point = append_point(data, anchor, base_bytes=len(data))
        new = [pm.row_group(of, 1 + index) for index in range(count)]
        data = pm.publish(data + append_generation(of, point, new, pm.facts(20_000 + nth)))
        assert checksum_of(data, pm.newest(data)) == pm.newest(data).trailer.checksum
        assert point.prev == anchor.end_bytes


@given(offset_bytes=st.integers(8, len(pm.file()) - 9), bit=st.integers(0, 7))
def test_the_continued_checksum_does_not_vouch_for_rot(offset_bytes: int, bit: int) -> None:
    first = pm.file(footer=pm.facts(10_000))
    anchor = pm.newest(first)
    rotten = flipped(first, 8 * offset_bytes + bit)
    point = append_point(rotten, anchor, base_bytes=len(rotten))
    data = rotten + append_generation(PLAIN, point, [pm.row_group(PLAIN, 1)], pm.facts(20_000))
    assert rejection(lambda: check_checksum(data, pm.newest(data), file=pm.FILE)).field == "CHECKSUM"


def test_an_append_point_needs_only_the_bytes_since_the_last_checksum() -> None:
    data = pm.chain_of(10_000, 20_000)
    point = append_point(data, pm.newest(data), base_bytes=len(data))
    assert point == AppendPoint(
        base_bytes=len(data),
        prev=len(data),
        checksum=int.from_bytes(data[-8:-4], "little"),
        since_checksum=data[-8:],
    )


def test_a_generation_past_an_orphan_continues_the_committed_one() -> None:
    data = pm.chain_of(10_000, 20_000)
    committed = pm.newest(data[: pm.newest(data).fixed.prev_parquet_meta_file_size])
    after = pm.append(data, pm.row_group(PLAIN, 1), footer=pm.facts(30_000), anchor=committed)
    assert [position.token for position in walk(after, file=pm.FILE)] == [30_000, 10_000]
    assert after[8 : len(data)] == data[8:]
    assert pm.problems(after, 30_000) == []


def test_a_bitset_for_each_bloom_column_or_none_at_all() -> None:
    of = pm.header(pm.TIMESTAMP, pm.VALUE, bloom_columns=(0, 1))
    chunks = pm.row_group(of).chunks
    with pytest.raises(ValueError, match="zip"):
        pm.file(of, NewRowGroup(num_rows=10, chunks=chunks, blooms=(b"only one",)))
    assert pm.read(pm.file(of)).generation.blooms == ((None, None),)


def test_a_block_that_no_entry_can_address_is_our_bug() -> None:
    far = ReusedRowGroup(block_offset=1 << 35)
    data = pm.file()
    with pytest.raises(AssertionError):
        append_generation(PLAIN, append_point(data, pm.newest(data), base_bytes=len(data)), [far], pm.facts(20_000))
