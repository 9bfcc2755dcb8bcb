"""A `_pm` rewritten with other features, from its own bytes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_data
import migrated_files as mf
import pm_builder as pm
import pytest

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.migrate.features import Features, with_features
from tornproof.impl.pm.block import decode_bitset
from tornproof.impl.pm.chain import Metadata, decode_metadata, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.pm.footer import BloomReference, FooterSections
from tornproof.impl.pm.header import FileHeader

TABLES = tuple(
    name for name in golden_data.files_named("_pm") if name.startswith("tables/") and "/history/0" not in name
)
CHAINS = tuple(name for name in TABLES if "/chain/" in name)
HISTORIES = tuple(name for name in golden_data.files_named("_pm") if "/history/0" in name)
(BLOOM,) = (name for name in TABLES if "9.4.2/bloom/" in name)


def published(path: Path) -> bytes:
    content = path.read_bytes()
    return content[: int.from_bytes(content[:8], "little")]


def generations(content: bytes) -> list[Metadata]:
    return [decode_metadata(content, place, file="_pm") for place in walk(content, file="_pm")]


def meaning(metadata: Metadata) -> tuple[object, ...]:
    """All that a generation says, but not where it stands nor which features it is said with."""
    header, fixed = metadata.header, metadata.generation.place.fixed
    return (
        header.columns,
        header.designated_timestamp,
        header.sorting,
        [(block.num_rows, block.chunks) for block in metadata.blocks],
        (fixed.parquet_footer_offset, fixed.parquet_footer_length, fixed.unused_bytes),
    )


def rewritten(content: bytes, token: int | None = None, **features: Any) -> Metadata:
    new = with_features(content, Features(**features), file="_pm", token=token)
    metadata = mf.decoded(new)
    assert list(check_metadata(new, metadata, file="_pm")) == []
    assert metadata.generation.place.fixed.prev_parquet_meta_file_size == 0
    return metadata


def bitset_at(content: bytes, reference: BloomReference | None) -> bytes | None:
    if reference is None:
        return None
    return decode_bitset(content, reference.offset_bytes, limit_bytes=len(content), file="_pm")


def bitsets(content: bytes, metadata: Metadata) -> list[list[bytes | None]]:
    return [[bitset_at(content, reference) for reference in row] for row in metadata.generation.blooms]


@pytest.mark.parametrize("name", TABLES)
def test_newest_generation_of_real_files_says_the_same_alone(name: str, questdb_data: Path) -> None:
    content = published(questdb_data / name)
    newest = generations(content)[0]
    new = with_features(content, Features(), file="_pm")
    assert meaning(mf.decoded(new)) == meaning(newest)
    assert mf.decoded(new).header == newest.header
    assert bitsets(new, mf.decoded(new)) == bitsets(content, newest)
    assert len(new) <= len(content)


@pytest.mark.parametrize("name", CHAINS)
def test_any_generation_of_a_chain_may_be_named_by_its_token(name: str, questdb_data: Path) -> None:
    content = published(questdb_data / name)
    for old in generations(content):
        assert meaning(rewritten(content, old.token)) == meaning(old)


@pytest.mark.parametrize("name", HISTORIES[::7])
def test_every_commit_of_a_history_can_be_rewritten(name: str, questdb_data: Path) -> None:
    content = published(questdb_data / name)
    assert meaning(rewritten(content)) == meaning(generations(content)[0])


@pytest.mark.parametrize("name", CHAINS)
def test_shortcut_for_the_order_goes_and_comes_back(name: str, questdb_data: Path) -> None:
    content = published(questdb_data / name)
    (newest, *_) = generations(content)
    long = rewritten(content, sorting_shortcut=False)
    assert meaning(long) == meaning(newest)
    assert not layout.SORTING_IS_DTS_ASC.get(long.header.feature_flags)
    assert long.header.sorting_columns == (newest.header.designated_timestamp,)
    again = with_features(
        with_features(content, Features(sorting_shortcut=False), file="_pm"),
        Features(sorting_shortcut=True),
        file="_pm",
    )
    assert again == with_features(content, Features(), file="_pm")


def test_shortcut_is_only_for_rows_in_its_order() -> None:
    for header in (
        pm.header(pm.VALUE, designated_timestamp=-1),
        pm.header(replace(pm.VALUE, flags=layout.DESCENDING.put(pm.VALUE.flags, 1)), designated_timestamp=-1),
    ):
        content = one_generation(header)
        with pytest.raises(UnsupportedError, match="SORTING_IS_DTS_ASC"):
            with_features(content, Features(sorting_shortcut=True), file="_pm")


def one_generation(header: FileHeader) -> bytes:
    facts = FooterFacts(parquet_footer_offset=9_000, parquet_footer_length=100)
    return encode_file(header, [], facts)


def test_squash_tracker_is_set_kept_and_dropped(questdb_data: Path) -> None:
    content = published(questdb_data / CHAINS[0])
    (newest, *_) = generations(content)
    with_tracker = with_features(content, Features(squash_tracker=42), file="_pm")
    assert mf.decoded(with_tracker).header.squash_tracker == 42
    assert meaning(mf.decoded(with_tracker)) == meaning(newest)
    assert rewritten(with_tracker).header.squash_tracker == 42
    assert rewritten(with_tracker, squash_tracker=None).header.squash_tracker is None


def test_sections_of_the_footer_are_set_kept_and_dropped(questdb_data: Path) -> None:
    content = published(questdb_data / CHAINS[0])
    features = Features(seq_txn=7, scratchpad=((1, b"abc"), (2, b"")))
    with_sections = with_features(content, features, file="_pm")
    sections = mf.decoded(with_sections).generation.sections
    assert (sections.seq_txn, sections.scratchpad) == (7, ((1, b"abc"), (2, b"")))
    assert rewritten(with_sections).generation.sections == sections
    less = rewritten(with_sections, seq_txn=None).generation
    assert (less.sections.seq_txn, less.sections.scratchpad) == (None, sections.scratchpad)
    bare = with_features(with_sections, Features(seq_txn=None, scratchpad=None), file="_pm")
    assert bare == with_features(content, Features(), file="_pm")


def test_inlined_filters_are_kept_dropped_and_put_elsewhere(questdb_data: Path) -> None:
    content = published(questdb_data / BLOOM)
    (newest, *_) = generations(content)
    kept = with_features(content, Features(), file="_pm")
    assert mf.decoded(kept).header.bloom_columns == newest.header.bloom_columns != ()
    assert any(bitset for row in bitsets(kept, mf.decoded(kept)) for bitset in row)
    dropped = rewritten(content, blooms=None)
    assert (dropped.header.bloom_columns, layout.BLOOM_FILTERS.get(dropped.header.feature_flags)) == ((), 0)
    assert meaning(dropped) == meaning(newest)
    column = newest.header.bloom_columns[0]
    places = {(ordinal, column): BloomReference(offset_bytes=64, length_bytes=32) for ordinal in range(1)}
    external = with_features(content, Features(blooms=lambda *key: places.get(key)), file="_pm")
    metadata = mf.decoded(external)
    assert metadata.header.blooms_external
    assert metadata.header.bloom_columns == (column,)
    assert metadata.generation.blooms[0] == (places[0, column],)
    assert meaning(metadata) == meaning(newest)
    assert rewritten(external).generation.blooms == metadata.generation.blooms
    inlined = with_features(
        external, Features(blooms=lambda _, index: bytes(32) if index == column else None), file="_pm"
    )
    assert not mf.decoded(inlined).header.blooms_external
    assert bitsets(inlined, mf.decoded(inlined)) == [[bytes(32)]] * len(newest.blocks)


def test_filters_must_all_be_in_one_place(questdb_data: Path) -> None:
    content = published(questdb_data / BLOOM)
    reference = BloomReference(offset_bytes=64, length_bytes=32)
    with pytest.raises(UnsupportedError, match="one place"):
        with_features(content, Features(blooms=lambda _, index: (reference, bytes(32))[index % 2]), file="_pm")


def test_optional_bits_that_are_not_known_are_left_out(questdb_data: Path) -> None:
    content = published(questdb_data / CHAINS[0])
    (newest, *_) = generations(content)
    header = replace(newest.header, feature_flags=newest.header.feature_flags | 1 << 9, extra=b"8 bytes!")
    facts = FooterFacts(
        parquet_footer_offset=newest.token - 108,
        parquet_footer_length=100,
        footer_feature_flags=1 << 5,
        sections=FooterSections(unknown=b"unknown"),
    )
    row_groups = [NewRowGroup(num_rows=block.num_rows, chunks=block.chunks) for block in newest.blocks]
    new = rewritten(encode_file(header, row_groups, facts))
    assert new.header.unknown_optional_flags == 0
    assert (new.header.extra, new.generation.sections.unknown) == (b"", b"")
    assert new.generation.place.fixed.footer_feature_flags == 0
    assert meaning(new)[:4] == meaning(newest)[:4]


def test_generation_that_is_not_sound_is_refused(questdb_data: Path) -> None:
    content = published(questdb_data / CHAINS[0])
    damaged = bytearray(content)
    damaged[generations(content)[0].generation.block_offsets[0] + 3] ^= 1
    with pytest.raises(CorruptError, match="CHECKSUM"):
        with_features(bytes(damaged), Features(), file="_pm")
    (newest, *_) = generations(content)
    block = newest.blocks[0]
    wrong = replace(block.chunks[1], num_values=block.num_rows + 1)
    row_group = NewRowGroup(num_rows=block.num_rows, chunks=(block.chunks[0], wrong, *block.chunks[2:]))
    facts = FooterFacts.of(newest.generation)
    with pytest.raises(CorruptError, match="NUM_VALUES"):
        with_features(encode_file(newest.header, [row_group], facts), Features(), file="_pm")
    with pytest.raises(CorruptError, match="token"):
        with_features(content, Features(), file="_pm", token=newest.token + 1)
