import struct

import pm_builder as pm
import pytest
from damage import flipped
from msgspec.structs import replace

from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import decode_bitset
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.encode import NewRowGroup
from tornproof.impl.pm.footer import BloomReference, FooterPosition, FooterSections, locate_footer
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.repair.plan import committed_file, whole_generations

FILE = pm.FILE
BLOOMED = pm.header(pm.TIMESTAMP, pm.VALUE, pm.UUID, bloom_columns=(1, 2))
SECTIONS = FooterSections(seq_txn=77, scratchpad=((5, b"five"), (6, b"")))
SECTION_FLAGS = layout.SEQ_TXN.mask | layout.SCRATCHPAD.mask


def jumping(of: FileHeader = BLOOMED, *, flags: int = SECTION_FLAGS, sections: FooterSections = SECTIONS) -> bytes:
    """A `_pm` whose committed generation (token 30,000) jumps over an orphan."""
    bits = (b"\x01" * 32, b"\x02" * 32)
    blooms = bits[: len(of.bloom_columns)]
    data = pm.file(of, pm.row_group(of, 0, blooms=blooms), footer=pm.facts(10_000))
    committed = pm.newest(data)
    data = pm.append(data, pm.row_group(of, 1), footer=pm.facts(20_000))
    footer = replace(pm.facts(30_000, flags=flags, sections=sections), unused_bytes=123)
    return pm.append(data, pm.row_group(of, 2), footer=footer, anchor=committed)


def meaning(data: bytes, read: Metadata) -> tuple[object, ...]:
    """Everything that a reader of the generation can see, independent of its offset in the file."""
    position, limit = read.generation.position, read.generation.position.offset_bytes
    blooms = [
        [
            decode_bitset(data, each.offset_bytes, limit_bytes=limit, file=FILE)
            if each is not None and each.length_bytes is None
            else each
            for each in row
        ]
        for row in read.generation.blooms
    ]
    fixed = position.fixed.changed(prev_parquet_meta_file_size=0)
    blocks = [(block.num_rows, block.chunks) for block in read.blocks]
    return read.header, fixed, blocks, blooms, read.generation.sections


def test_a_generation_that_is_written_anew_means_the_same() -> None:
    for of in (
        BLOOMED,
        pm.header(),
        pm.header(squash_tracker=9),
        pm.header(designated_timestamp=-1, sorting_columns=(1, 0)),
    ):
        data = jumping(of)
        made = committed_file(data, pm.newest(data), file=FILE)
        assert made.is_rewritten and not made.keeps_dead_bytes
        old, new = pm.read(data, 30_000), pm.read(made.content, 30_000)
        assert meaning(made.content, new) == meaning(data, old)
        assert (new.generation.position.fixed.unused_bytes, new.generation.sections) == (123, SECTIONS)
        assert new.generation.position.fixed.prev_parquet_meta_file_size == 0
        assert committed_file(made.content, pm.newest(made.content), file=FILE).content == made.content


def test_bloom_filters_in_data_parquet_stay_where_they_are() -> None:
    flags = layout.BLOOM_FILTERS_EXTERNAL.put(layout.BLOOM_FILTERS.put(layout.SORTING_IS_DTS_ASC.put(0, 1), 1), 1)
    of = pm.header(feature_flags=flags, bloom_columns=(1,))
    reference = BloomReference(offset_bytes=5_000, length_bytes=32)
    data = pm.file(of, footer=pm.facts(10_000))
    group = NewRowGroup(num_rows=10, chunks=pm.row_group(of, 1).chunks, blooms=(reference,))
    data = pm.append(data + b"dead dead", group, footer=pm.facts(20_000), anchor=pm.newest(data))
    made = committed_file(data, pm.newest(data), file=FILE)
    assert made.is_rewritten
    assert pm.read(made.content, 20_000).generation.blooms == ((None,), (reference,))


@pytest.mark.parametrize("bit", [2, 3, 31])
def test_a_generation_with_unknown_sections_keeps_its_chain(bit: int) -> None:
    data = jumping(flags=1 << bit, sections=FooterSections(unknown=b"what is this?"))
    newest = pm.newest(data)
    orphan = pm.append(data, footer=pm.facts(40_000))
    made = committed_file(orphan, newest, file=FILE)
    assert made.content == data
    assert made.keeps_dead_bytes and not made.is_rewritten
    of = pm.header(feature_flags=layout.SORTING_IS_DTS_ASC.put(1 << 20, 1), extra=b"12345678")
    data = jumping(of, flags=0, sections=FooterSections())
    assert committed_file(data, pm.newest(data), file=FILE).keeps_dead_bytes


def test_unknown_sections_do_not_keep_orphans_on_top() -> None:
    committed = pm.file(footer=pm.facts(flags=1 << 3, sections=FooterSections(unknown=b"!")))
    data = pm.append(committed, footer=pm.facts(20_000))
    made = committed_file(data, pm.newest(committed), file=FILE)
    assert (made.content, made.keeps_dead_bytes, made.is_rewritten) == (committed, False, False)


def test_a_chain_that_is_broken_below_the_committed_generation_is_written_anew() -> None:
    data = pm.chain_of(10_000, 20_000)
    lost = pm.set_field(data, layout.Footer, pm.newest(data).offset_bytes, "prev_parquet_meta_file_size", 100)
    made = committed_file(lost, pm.newest(lost), file=FILE)
    assert made.is_rewritten
    assert pm.read(made.content, 20_000).row_count == 20


def test_generations_are_found_wherever_they_end() -> None:
    data = pm.chain_of(10_000, 20_000, 30_000)
    first, second, third = (locate_footer(data, end, file=FILE) for end in ends_of(data))
    for junk in (b"", b"\0" * 7, b"\xff" * 4096):
        for position in (first, second, third):
            assert found(data + junk, position) == [position]
    assert found(data[: second.end_bytes], third) == []
    assert found(b"", third) == []
    assert found(data[:8], third) == []


def test_a_generation_with_one_wrong_bit_is_not_found() -> None:
    data = pm.file()
    position = pm.newest(data)
    for offset in range(len(data)):
        assert bool(found(flipped(data, 8 * offset), position)) == (offset < 8)


def test_of_generations_with_one_token_the_last_is_found_first() -> None:
    data = pm.file()
    restated = pm.append(data, footer=pm.facts())
    positions = found(restated, pm.newest(data))
    assert [position.end_bytes for position in positions] == [len(restated), len(data)]


def test_no_more_generations_are_examined_than_a_chain_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pm.file()
    for _ in range(4):
        data = pm.append(data, footer=pm.facts())
    newest = pm.newest(data)
    assert len(found(data, newest)) == 5
    monkeypatch.setattr("tornproof.impl.limits.GENERATION_COUNT_LIMIT", 3)
    assert [position.end_bytes for position in found(data, newest)] == ends_of(data)[:1:-1]


def test_bytes_that_only_look_like_footers_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pm.file()
    newest = pm.newest(data)
    words = data[newest.offset_bytes : newest.offset_bytes + 12]
    monkeypatch.setattr("tornproof.impl.limits.GENERATION_COUNT_LIMIT", 3)
    assert len(found(data + words * 2, newest)) == 1
    assert found(data + words * 3, newest) == []
    looked_at = []

    def counting(data: bytes, end_bytes: int, *, file: str) -> FooterPosition:
        looked_at.append(end_bytes)
        return locate_footer(data, end_bytes, file=file)

    monkeypatch.setattr("tornproof.impl.repair.plan.locate_footer", counting)
    lengths = b"".join(struct.pack("<I", 12 + 4 * number) for number in range(1000))
    assert found(data + words + lengths, newest) == []
    assert looked_at == [len(data) + 12 + 4 * number for number in (998, 999, 1000)]


def test_a_header_that_looks_like_a_footer_does_not_hide_one() -> None:
    of = pm.header(feature_flags=8)
    footer = replace(pm.facts(), parquet_footer_offset=1_000, parquet_footer_length=8)
    data = pm.file(of, footer=footer)
    position = pm.newest(data)
    misleading = struct.pack("<Q", 1_000) + data[8:]
    assert misleading[:12] == struct.pack("<QI", 1_000, 8)
    assert found(misleading, position) == [position]


def test_windows_of_the_search_leave_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.repair.plan.WINDOW_WORDS", 7)
    data = pm.chain_of(10_000, 20_000)
    for end in ends_of(data):
        position = locate_footer(data, end, file=FILE)
        assert found(data, position) == [position]


def found(data: bytes, position: FooterPosition) -> list[FooterPosition]:
    return whole_generations(data, position.fixed.parquet_footer_offset, position.fixed.parquet_footer_length)


def ends_of(data: bytes) -> list[int]:
    """Ends of the chain's generations, the oldest first."""
    ends = []
    end = len(data)
    while end:
        ends.append(end)
        end = locate_footer(data, end, file=FILE).fixed.prev_parquet_meta_file_size
    return ends[::-1]
