"""Walking the generations of `_pm` and finding the one that a token names."""

import pickle
from functools import partial

import pm_builder as pm
import pytest
from damage import flipped
from hypothesis import given
from hypothesis import strategies as st
from rejections import rejection

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.chain import TokenMissingError, check_checksum, checksum_of, resolve, walk
from tornproof.impl.pm.footer import GENERATION_END_MINIMUM, FooterSections

THREE = pm.chain_of(10_000, 20_000, 30_000)
ENDS = [position.end_bytes for position in walk(THREE, file=pm.FILE)]


def tokens(data: bytes) -> list[int]:
    return [position.token for position in walk(data, file=pm.FILE)]


def test_the_chain_is_walked_from_the_published_end_to_the_oldest() -> None:
    assert tokens(THREE) == [30_000, 20_000, 10_000]
    assert ENDS[0] == len(THREE)
    assert tokens(THREE[: ENDS[1]]) == [20_000, 10_000]
    assert [position.token for position in walk(THREE, file=pm.FILE, end_bytes=ENDS[1])] == [20_000, 10_000]


@pytest.mark.parametrize(("token", "orphan_count"), [(30_000, 0), (20_000, 1), (10_000, 2)])
def test_the_newest_generation_with_the_token_is_found_and_those_above_are_orphans(
    token: int, orphan_count: int
) -> None:
    resolved = resolve(THREE, token, file=pm.FILE)
    assert (resolved.position.token, resolved.orphan_count) == (token, orphan_count)
    assert pm.read(THREE, token).row_count == 10 * (3 - orphan_count)


@pytest.mark.parametrize("token", [0, -1, 10_001, 30_001, 1 << 63, (1 << 64) - 1])
def test_a_token_that_is_not_there_is_rejected_with_those_that_are(token: int) -> None:
    with pytest.raises(TokenMissingError) as caught:
        resolve(THREE, token, file=pm.FILE)
    assert caught.value.tokens == (30_000, 20_000, 10_000)
    assert "one of the chain's 3: 30000, 20000, 10000" in str(caught.value)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.tokens, copied.problem) == (caught.value.tokens, caught.value.problem)


def test_a_token_is_not_taken_modulo_64_bits() -> None:
    data = pm.set_footer(pm.file(), "parquet_footer_offset", (1 << 64) - 1)
    assert pm.newest(data).token == (1 << 64) + pm.THRIFT_BYTES + 7
    with pytest.raises(TokenMissingError):
        resolve(data, pm.THRIFT_BYTES + 7, file=pm.FILE)


def test_a_broken_newest_footer_hides_the_older_ones() -> None:
    broken = THREE[:-4] + bytes(4)
    with pytest.raises(CorruptError) as caught:
        resolve(broken, 10_000, file=pm.FILE)
    assert not isinstance(caught.value, TokenMissingError)
    assert caught.value.problem.field == "FOOTER_LENGTH"


@pytest.mark.parametrize(
    "prev",
    [
        pytest.param(len(THREE), id="to itself"),
        pytest.param(len(THREE) + 1, id="forward"),
        pytest.param(pm.newest(THREE).offset_bytes + 1, id="into its own footer"),
        pytest.param(GENERATION_END_MINIMUM - 1, id="too small"),
        pytest.param(1, id="into the header"),
        pytest.param((1 << 63) - 1, id="signed maximum"),
        pytest.param((1 << 64) - 1, id="unsigned maximum"),
    ],
)
def test_a_chain_never_leads_forward_or_out_of_the_file(prev: int) -> None:
    changed = pm.set_field(THREE, layout.Footer, pm.newest(THREE).offset_bytes, "prev_parquet_meta_file_size", prev)
    problem = rejection(lambda: tokens(changed))
    assert problem.field == "PREV_PARQUET_META_FILE_SIZE"
    assert problem.offset_bytes == pm.newest(THREE).offset_bytes + 24
    assert problem.actual == str(prev)


def test_a_chain_ends_nowhere_but_at_the_end_of_a_footer() -> None:
    footer = pm.newest(THREE[: ENDS[1]]).offset_bytes
    for prev in range(footer, ENDS[1]):
        changed = pm.set_field(THREE, layout.Footer, pm.newest(THREE).offset_bytes, "prev_parquet_meta_file_size", prev)
        rejection(partial(tokens, changed))


def test_increasing_tokens_are_rejected() -> None:
    data = pm.append(pm.file(footer=pm.facts(20_000)), footer=pm.facts(19_999))
    problem = rejection(lambda: tokens(data))
    assert (problem.field, problem.actual) == ("PARQUET_FOOTER_OFFSET", "20000")
    # The newest one is found before anything below it is looked at.
    assert resolve(data, 19_999, file=pm.FILE).orphan_count == 0


def test_a_footer_that_restates_its_predecessor_may_repeat_its_token() -> None:
    sections = FooterSections(seq_txn=8)
    data = pm.append(THREE, footer=pm.facts(30_000, flags=layout.SEQ_TXN.mask, sections=sections))
    assert tokens(data) == [30_000, 30_000, 20_000, 10_000]
    resolved = resolve(data, 30_000, file=pm.FILE)
    assert (resolved.position.end_bytes, resolved.orphan_count) == (len(data), 0)
    assert resolve(data, 20_000, file=pm.FILE).orphan_count == 2
    assert pm.read(data, 30_000).blocks == pm.read(THREE, 30_000).blocks


@pytest.mark.parametrize(
    ("field", "value"), [("unused_bytes", 1), ("parquet_footer_offset", 29_941), ("row_group_count", 1)]
)
def test_a_footer_that_repeats_a_token_with_other_contents_is_rejected(field: str, value: int) -> None:
    data = pm.append(THREE, footer=pm.facts(30_000))
    changed = pm.set_field(data, layout.Footer, pm.newest(data).offset_bytes, field, value)
    if field == "parquet_footer_offset":
        changed = pm.set_field(changed, layout.Footer, pm.newest(data).offset_bytes, "parquet_footer_length", 51)
    assert tokens(data)[:2] == [30_000, 30_000]
    assert pm.newest(changed).token == 30_000
    assert rejection(lambda: tokens(changed)).field == "PARQUET_FOOTER_OFFSET"


def test_a_footer_that_repeats_a_token_with_other_blocks_is_rejected() -> None:
    data = pm.append(THREE, pm.row_group(pm.header(), 3), footer=pm.facts(30_000))
    assert rejection(lambda: tokens(data)).field == "PARQUET_FOOTER_OFFSET"


def test_recovery_may_restate_the_committed_generation_over_an_orphan() -> None:
    committed = pm.newest(THREE[: ENDS[1]])
    data = pm.append(THREE, footer=pm.facts(20_000), anchor=committed)
    assert tokens(data) == [20_000, 20_000, 10_000]
    assert resolve(data, 20_000, file=pm.FILE).orphan_count == 0
    assert pm.read(data, 20_000).blocks == pm.read(THREE, 20_000).blocks


def test_a_torn_newer_body_does_not_hurt_an_older_generation() -> None:
    newest_footer = pm.newest(THREE).offset_bytes
    torn = THREE[: ENDS[1]] + bytes(newest_footer - ENDS[1]) + THREE[newest_footer:]
    assert pm.read(torn, 20_000) == pm.read(THREE, 20_000)
    assert rejection(lambda: resolve(torn, 30_000, file=pm.FILE)).field == "CHECKSUM"


@given(offset_bytes=st.integers(8, ENDS[1] - 9), bit=st.integers(0, 7))
def test_a_flip_below_the_resolved_checksum_is_rejected(offset_bytes: int, bit: int) -> None:
    rejection(lambda: resolve(flipped(THREE, 8 * offset_bytes + bit), 20_000, file=pm.FILE))


def test_the_published_size_is_under_no_checksum() -> None:
    data = bytes(8) + THREE[8:]
    assert pm.read(data, 30_000) == pm.read(THREE, 30_000)


def test_rot_below_is_named_with_the_checksum_that_it_breaks() -> None:
    problem = rejection(lambda: resolve(flipped(THREE, 8 * 40), 10_000, file=pm.FILE))
    assert problem.field == "CHECKSUM"
    assert problem.offset_bytes == ENDS[2] - 8


def test_a_prefix_with_a_valid_checksum_of_its_own_can_be_exchanged_unnoticed() -> None:
    """A weakness of the format: a CRC-32 over bytes that end in their own CRC-32 is always the same (notes 1.5)."""
    others = pm.chain_of(10_000, of=pm.header(pm.TIMESTAMP, pm.column("w", id=9)))
    older = ENDS[2]
    exchanged = others[: older - 4] + THREE[older - 4 :]
    assert exchanged[8:older] != THREE[8:older]
    for position in walk(exchanged, file=pm.FILE):
        check_checksum(exchanged, position, file=pm.FILE)
    assert [column.name for column in pm.read(exchanged, 30_000).header.columns] == ["ts", "w"]


def test_the_checksum_is_the_one_that_the_format_names() -> None:
    position = pm.newest(THREE)
    assert checksum_of(b"????????123456789", pm.newest(THREE)) == 0xCBF43926
    assert THREE[position.checksum_offset :][:4] == checksum_of(THREE, position).to_bytes(4, "little")
