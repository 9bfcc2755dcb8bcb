"""One generation of `_pm`: bloom references, optional sections, and how exactly its length must fit."""

from functools import partial

import pm_builder as pm
import pytest
from msgspec.structs import replace
from rejections import rejection

from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.encode import NewRowGroup, encode_file
from tornproof.impl.pm.footer import (
    GENERATION_END_MINIMUM,
    BloomReference,
    FooterSections,
    Generation,
    bloom_reference_offset,
    decode_generation,
    locate_footer,
)
from tornproof.impl.pm.header import FileHeader

SEQ_TXN = layout.SEQ_TXN.mask
SCRATCHPAD = layout.SCRATCHPAD.mask
COVERING_INDEX = layout.COVERING_INDEX.mask
UNKNOWN_OPTIONAL = 1 << 7
BLOOMED = pm.header(pm.TIMESTAMP, pm.VALUE, pm.UUID, bloom_columns=(1, 2))
EXTERNAL = replace(BLOOMED, feature_flags=BLOOMED.feature_flags | layout.BLOOM_FILTERS_EXTERNAL.mask)
SCRATCH_ENTRIES = ((7, b"seven"), (1, b""))


def generation_of(data: bytes) -> Generation:
    return decode_generation(data, pm.newest(data), pm.header_of(data), file=pm.FILE)


def with_sections(flags: int, *, of: FileHeader | None = None, **sections: object) -> bytes:
    made = FooterSections(**sections)  # type: ignore[arg-type]
    return pm.file(of or pm.header(), footer=pm.facts(flags=flags, sections=made))


def external_file(*references: BloomReference | None) -> bytes:
    group = pm.row_group(EXTERNAL)
    return pm.file(EXTERNAL, NewRowGroup(num_rows=group.num_rows, chunks=group.chunks, blooms=references))


def test_the_token_is_the_size_of_the_data_file() -> None:
    position = pm.newest(pm.file())
    assert position.fixed.parquet_footer_offset == pm.TOKEN - 8 - pm.THRIFT_BYTES
    assert position.token == pm.TOKEN


def test_external_bloom_references_lead_into_the_data_file() -> None:
    references = (BloomReference(offset_bytes=300, length_bytes=32), None)
    data = external_file(*references)
    assert generation_of(data).blooms == (references,)
    assert pm.problems(data) == []
    assert reencode_generations(data, file=pm.FILE).mismatches == ()


@pytest.mark.parametrize(("offset_bytes", "length"), [(3, 32), (pm.TOKEN - 80, 32), (1 << 63, 32), (4, (1 << 64) - 1)])
def test_an_external_bloom_reference_outside_of_the_pages_is_a_problem(offset_bytes: int, length: int) -> None:
    data = external_file(None, BloomReference(offset_bytes=offset_bytes, length_bytes=length))
    [problem] = pm.problems(data)
    assert problem.field == "bloom reference of column 'u' of row group 0"
    assert problem.offset_bytes == pm.newest(data).offset_bytes + 40 + 4 + 16


def test_references_to_inlined_bitsets_stand_row_by_row() -> None:
    groups = [pm.row_group(BLOOMED, ordinal, blooms=(bytes([ordinal]) * 32, None)) for ordinal in range(2)]
    data = pm.file(BLOOMED, *groups)
    generation = generation_of(data)
    for ordinal, (present, absent) in enumerate(generation.blooms):
        assert absent is None
        assert present is not None
        assert data[present.offset_bytes :][:36] == (32).to_bytes(4, "little") + bytes([ordinal]) * 32
        position = bloom_reference_offset(generation.position, BLOOMED, ordinal, 0)
        assert data[position : position + 4] == (present.offset_bytes >> 3).to_bytes(4, "little")


def test_sections_of_later_releases_are_read() -> None:
    both = with_sections(SEQ_TXN | SCRATCHPAD, seq_txn=-9, scratchpad=SCRATCH_ENTRIES)
    assert generation_of(both).sections == FooterSections(seq_txn=-9, scratchpad=SCRATCH_ENTRIES)
    assert generation_of(with_sections(SEQ_TXN, seq_txn=4)).sections == FooterSections(seq_txn=4)
    assert generation_of(pm.file()).sections == FooterSections()
    assert reencode_generations(both, file=pm.FILE).mismatches == ()


def test_sections_follow_the_bloom_references() -> None:
    data = with_sections(SEQ_TXN, of=BLOOMED, seq_txn=5)
    assert data[-8 - 8 : -8] == (5).to_bytes(8, "little")
    assert data[-8 - 8 - 8 : -8 - 8] == bytes(8)
    assert generation_of(data).blooms == ((None, None),)


@pytest.mark.parametrize(
    ("word_offset", "value"),
    [(0, 0), (0, 3), (0, 1 << 31), (0, (1 << 32) - 1), (8, 6), (8, 1 << 31), (8, (1 << 32) - 1)],
)
def test_a_scratchpad_that_leaves_the_footer_is_corrupt(word_offset: int, value: int) -> None:
    data = with_sections(SCRATCHPAD, scratchpad=((7, b"seven"),))
    start = len(data) - 8 - (4 + 8 + 5) + word_offset
    changed = pm.seal(data[:start] + value.to_bytes(4, "little") + data[start + 4 :])
    assert rejection(lambda: pm.read(changed)).field == "SCRATCHPAD"


def test_a_section_that_does_not_fit_is_corrupt() -> None:
    changed = pm.set_footer(pm.file(), "footer_feature_flags", SEQ_TXN)
    assert rejection(lambda: pm.read(changed)).field == "Sequencer transaction"


@pytest.mark.parametrize("payload", [b"", b"x", b"payload\0\0\0"])
@pytest.mark.parametrize("flag", [UNKNOWN_OPTIONAL, COVERING_INDEX, 1 << 31])
def test_sections_of_unknown_optional_bits_are_ignored_and_kept(flag: int, payload: bytes) -> None:
    data = with_sections(SEQ_TXN | flag, seq_txn=3, unknown=payload)
    assert generation_of(data).sections == FooterSections(seq_txn=3, unknown=payload)
    assert pm.problems(data) == []
    assert reencode_generations(data, file=pm.FILE).mismatches == ()


def test_behind_the_section_of_an_unknown_header_bit_nothing_is_interpreted() -> None:
    plain = pm.header()
    made = replace(plain, feature_flags=plain.feature_flags | UNKNOWN_OPTIONAL)
    # Taken for a scratchpad, these bytes would be corrupt.
    data = with_sections(SCRATCHPAD, of=made, unknown=b"\xff" * 12)
    assert generation_of(data).sections == FooterSections(unknown=b"\xff" * 12)
    assert reencode_generations(data, file=pm.FILE).mismatches == ()


@pytest.mark.parametrize("flag", [1 << 32, 1 << 32 | COVERING_INDEX, 1 << 40, 1 << 63])
def test_an_unknown_required_bit_rejects_this_generation_only(flag: int) -> None:
    data = pm.append(pm.file(), pm.row_group(pm.header(), 1), footer=pm.facts(20_000, flags=flag))
    problem = rejection(lambda: pm.read(data, 20_000), UnsupportedError)
    assert problem.field == "FOOTER_FEATURE_FLAGS"
    assert ("COVERING_INDEX" in problem.actual) == bool(flag & layout.COVERING_INDEX_REQUIRED.mask)
    assert pm.read(data) == pm.read(pm.file())


def test_an_older_generation_is_found_behind_a_restated_one_with_an_unknown_required_bit() -> None:
    data = pm.append(pm.chain_of(10_000, 20_000), footer=pm.facts(20_000, flags=1 << 32))
    rejection(lambda: pm.read(data, 20_000), UnsupportedError)
    assert pm.read(data, 10_000).token == 10_000


@pytest.mark.parametrize("extra", [1, 4, 8])
def test_a_footer_has_no_bytes_that_its_flags_do_not_announce(extra: int) -> None:
    data = with_sections(0, unknown=bytes(extra))
    problem = rejection(lambda: pm.read(data))
    assert (problem.field, problem.offset_bytes) == ("FOOTER_LENGTH", len(data) - 4)
    assert (problem.expected[:2], problem.actual) == ("48", str(48 + extra))


@pytest.mark.parametrize("count", [2, 1 << 31, (1 << 32) - 1])
def test_entries_that_leave_the_footer_are_corrupt(count: int) -> None:
    changed = pm.set_footer(pm.file(), "row_group_count", count)
    assert rejection(lambda: pm.read(changed)).field == "ROW_GROUP_COUNT"


def test_the_room_for_entries_counts_their_bloom_references() -> None:
    data = encode_file(BLOOMED, [pm.row_group(BLOOMED, ordinal) for ordinal in range(3)], pm.facts())
    assert len(generation_of(data).block_offsets) == 3
    changed = pm.set_footer(data, "row_group_count", 4)
    assert rejection(lambda: pm.read(changed)).field == "ROW_GROUP_COUNT"


@pytest.mark.parametrize("end_bytes", [-1, 0, GENERATION_END_MINIMUM - 1])
def test_no_generation_ends_before_there_is_room_for_one(end_bytes: int) -> None:
    problem = rejection(lambda: locate_footer(pm.file(), end_bytes, file=pm.FILE))
    assert problem.field == "PARQUET_META_FILE_SIZE"


def test_no_generation_ends_behind_the_published_bytes() -> None:
    data = pm.file()
    assert locate_footer(data, len(data), file=pm.FILE).end_bytes == len(data)
    rejection(lambda: locate_footer(data, len(data) + 1, file=pm.FILE))


@pytest.mark.parametrize("length", [0, 43, (1 << 31) - 1, (1 << 32) - 1])
def test_a_footer_length_that_leads_nowhere_is_corrupt(length: int) -> None:
    data = pm.file()
    position = pm.newest(data)
    changed = pm.set_field(data, layout.Trailer, position.checksum_offset, "footer_length", length)
    problem = rejection(lambda: pm.newest(changed))
    assert (problem.field, problem.offset_bytes) == ("FOOTER_LENGTH", len(data) - 4)


def test_a_footer_may_start_right_behind_the_fixed_header_and_no_earlier() -> None:
    data = pm.file()
    for length, is_located in ((len(data) - 4 - 32, True), (len(data) - 4 - 31, False)):
        changed = pm.set_field(data, layout.Trailer, len(data) - 8, "footer_length", length)
        if is_located:
            assert pm.newest(changed).offset_bytes == 32
        else:
            rejection(partial(pm.newest, changed))


@pytest.mark.parametrize(
    ("field", "value", "blamed"),
    [
        ("parquet_footer_offset", 3, "PARQUET_FOOTER_OFFSET"),
        ("unused_bytes", pm.TOKEN - 57, "UNUSED_BYTES"),
        ("unused_bytes", (1 << 64) - 1, "UNUSED_BYTES"),
    ],
)
def test_a_footer_that_contradicts_its_data_file_is_a_problem(field: str, value: int, blamed: str) -> None:
    assert pm.problems(pm.set_footer(pm.file(), "unused_bytes", pm.TOKEN - 58)) == []
    changed = pm.set_footer(pm.file(), field, value)
    token = pm.newest(changed).token
    [problem] = [each for each in pm.problems(changed, token) if "row group" not in each.field]
    assert problem.field == blamed
    assert problem.offset_bytes == pm.newest(changed).offset_bytes + layout.Footer.layout.offset_of(field)
