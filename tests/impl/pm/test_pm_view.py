"""A view of a generation agrees with the full decoder, and is rejected if that rejects it."""

from functools import partial
from pathlib import Path

import golden_data
import pm_builder as pm
import pytest
from damage import flipped
from depth import sampled
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rejections import rejection

from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import Metadata, TokenMissingError, decode_metadata, resolve, walk
from tornproof.impl.pm.footer import FOOTER_BYTES
from tornproof.impl.pm.statistics import bounds_of
from tornproof.impl.pm.view import INT64_MAX, INT64_MIN, MetadataView, VerifiedGenerations, open_view

DAMAGED = ("pm-one-bit-flipped-in-a-committed-block", "pm-tail-zeros-header-new-txn-old")
FILES = [
    *(name for name in golden_data.files_named("_pm") if not any(image in name for image in DAMAGED)),
    *golden_data.files("tables/*/*/regenerated/*"),
    *golden_data.files("external/*.pm"),
]
THREE = pm.chain_of(10_000, 20_000, 30_000)
SECONDS = pm.file(None, *(pm.row_group(pm.header(), ordinal) for ordinal in range(3)))
"""Row groups with times from 0 to 999, 1000 to 1999 and 2000 to 2999."""


def view_of(content: bytes, token: int) -> MetadataView:
    return open_view(content, token, file=pm.FILE, verified=VerifiedGenerations())


def newest(content: bytes) -> Metadata:
    return decode_metadata(content, next(walk(content, file=pm.FILE)), file=pm.FILE)


def assert_equal(view: MetadataView, metadata: Metadata) -> None:
    columns = metadata.header.columns
    assert view.row_counts.tolist() == [block.num_rows for block in metadata.blocks]
    assert [view.column(index) for index in range(len(columns))] == list(columns)
    for ordinal, block in enumerate(metadata.blocks):
        assert tuple(view.chunk(ordinal, index) for index in range(len(columns))) == block.chunks


@pytest.mark.parametrize("name", sampled(90, FILES))
def test_every_real_file_is_seen_as_it_is_decoded(questdb_data: Path, name: str) -> None:
    whole = (questdb_data / name).read_bytes()
    content = whole[: int.from_bytes(whole[:8], "little")]
    if not whole:
        return  # a killed rewrite's
    metadata = newest(content)
    view = view_of(content, metadata.token)
    assert_equal(view, metadata)
    names = [column.name for column in metadata.header.columns]
    assert [view.find_column(name) for name in names] == [names.index(name) for name in names]
    assert view.find_column("no such column") is None
    dts = metadata.header.designated_timestamp
    if dts >= 0 and metadata.header.columns[dts].physical_type == 2:
        bounds = [bounds_of(metadata.header.columns[dts], block.chunks[dts]) for block in metadata.blocks]
        low, high = view.timestamp_bounds()
        assert list(zip(low.tolist(), high.tolist(), strict=True)) == [
            bound if isinstance(bound, tuple) else (INT64_MIN, INT64_MAX) for bound in bounds
        ]


@pytest.mark.parametrize("token", [10_000, 20_000, 30_000])
def test_each_generation_of_a_chain_is_found_by_its_token(token: int) -> None:
    assert_equal(view_of(THREE, token), pm.read(THREE, token))


def test_a_token_that_the_chain_lacks_is_rejected() -> None:
    with pytest.raises(TokenMissingError):
        view_of(THREE, 15_000)


def test_row_groups_are_chosen_by_their_first_and_last_time() -> None:
    view = view_of(SECONDS, pm.TOKEN)
    assert view.row_groups_between() == [0, 1, 2]
    assert view.row_groups_between(999) == [0, 1, 2]
    assert view.row_groups_between(1000) == [1, 2]
    assert view.row_groups_between(None, 1000) == [0]
    assert view.row_groups_between(None, 1001) == [0, 1]
    assert view.row_groups_between(1500, 1501) == [1]
    assert view.row_groups_between(3000) == []
    assert view.row_groups_between(1 << 70) == []
    assert view.row_groups_between(-1 << 70, 1 << 70) == [0, 1, 2]


def test_a_row_group_without_inlined_times_is_kept() -> None:
    flags = layout.MAX_STAT_PRESENT.mask | layout.MAX_STAT_INLINED.mask | layout.NULL_COUNT_PRESENT.mask
    without_minimum = pm.seal(pm.set_chunk(SECONDS, "stat_flags", flags, row_group=1))
    assert view_of(without_minimum, pm.TOKEN).row_groups_between(None, 0) == [1]
    narrow = pm.seal(pm.set_chunk(SECONDS, "stat_sizes", 0x84, row_group=2))
    assert view_of(narrow, pm.TOKEN).row_groups_between(None, 0) == [2]


def test_without_a_designated_timestamp_all_are_kept() -> None:
    header = pm.header(pm.VALUE, designated_timestamp=-1, feature_flags=0)
    assert view_of(pm.file(header), pm.TOKEN).row_groups_between(5, 6) == [0]


def test_a_checksum_is_computed_once_and_only_for_what_held() -> None:
    verified = VerifiedGenerations()
    broken = flipped(THREE, 8 * 200)
    with pytest.raises(CorruptError):
        open_view(broken, 30_000, file=pm.FILE, verified=verified)
    assert not verified.known
    open_view(THREE, 30_000, file=pm.FILE, verified=verified)
    assert len(verified.known) == 1
    # The same name, end and CHECKSUM: this process has seen that it held.
    open_view(broken, 30_000, file=pm.FILE, verified=verified)
    with pytest.raises(CorruptError):
        open_view(broken, 30_000, file="another file", verified=verified)
    with pytest.raises(CorruptError):
        open_view(broken, 20_000, file=pm.FILE, verified=verified)


def test_unknown_required_bits_are_rejected() -> None:
    with pytest.raises(UnsupportedError):
        view_of(pm.seal(pm.set_header(pm.file(), "feature_flags", 1 << 40)), pm.TOKEN)
    with pytest.raises(UnsupportedError):
        view_of(pm.seal(pm.set_footer(pm.file(), "footer_feature_flags", 1 << 33)), pm.TOKEN)


def test_a_block_beyond_the_footer_is_rejected() -> None:
    content = pm.file()
    location = pm.newest(content)
    entry = location.offset_bytes + FOOTER_BYTES

    def with_block_at(word: int) -> bytes:
        return pm.seal(content[:entry] + word.to_bytes(4, "little") + content[entry + 4 :])

    assert view_of(with_block_at(pm.read(content).blocks[0].offset_bytes >> 3), pm.TOKEN)
    for word in (location.offset_bytes >> 3, 1 << 31):
        assert rejection(partial(view_of, with_block_at(word), pm.TOKEN)).field == "BLOCK_OFFSET of row group 0"


def test_more_row_groups_than_entries_are_rejected() -> None:
    content = pm.seal(pm.set_footer(pm.file(), "row_group_count", 1 << 30))
    assert rejection(lambda: view_of(content, pm.TOKEN)).field == "ROW_GROUP_COUNT"


@given(st.data())
def test_no_flipped_bit_lets_a_view_say_what_the_decoder_does_not(data: st.DataObject) -> None:
    content = pm.chain_of(10_000, 20_000)
    position = data.draw(st.integers(8, len(content) - 1))
    try:
        sealed = pm.seal(flipped(content, 8 * position + data.draw(st.integers(0, 7))))
    except ProblemError:
        return  # a chain that cannot be walked
    try:
        metadata = decode_metadata(sealed, resolve(sealed, 20_000, file=pm.FILE).position, file=pm.FILE)
    except ProblemError:
        # What is wrong may be in a part that a view was not asked for, but nothing else than an error may come of it.
        try:
            view = view_of(sealed, 20_000)
            view.row_groups_between(0, 1)
            view.find_column("v")
            for ordinal in range(len(view.block_offsets)):
                view.chunk(ordinal, 0)
        except ProblemError:
            pass
        return
    assert_equal(view_of(sealed, 20_000), metadata)


def test_row_count_with_its_highest_bit_is_seen_as_it_is_decoded() -> None:
    content = pm.file(None, structs.replace(pm.row_group(pm.header(), 0), num_rows=(1 << 64) - 1))
    metadata = newest(content)
    assert view_of(content, metadata.token).row_counts.tolist() == [(1 << 64) - 1] == [metadata.row_count]
