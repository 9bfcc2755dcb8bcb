"""The damage that is planned: nothing is left out, nothing is tried twice, and each damage is what it says."""

from collections import Counter
from itertools import pairwise

import pytest
import table_builder as tb
from hypothesis import given
from hypothesis import strategies as st

from tornproof.harness.explorers.corruption.catalogue import damages_of
from tornproof.harness.explorers.corruption.judge import Judge
from tornproof.harness.explorers.corruption.plan import (
    BITS_IN_BYTE,
    Cut,
    Damage,
    Edit,
    Flip,
    Kind,
    Overwrite,
    Pair,
    Task,
    difference,
    split,
)

CONTENT = bytes(range(7, 24))
JUDGE = Judge(tb.build({}, has_meta=False).image(), "/table")


def task(*, start: int = 0, stop: int = 100, step: int = 1, cuts: bool = False) -> Task:
    kind = Kind.CUT if cuts else Kind.FLIP
    return Task(file="f", kind=kind, start=start, stop=stop, step=step)


def damages_in(task: Task) -> list[Damage]:
    return list(damages_of(JUDGE, task))


@pytest.mark.parametrize("bit", range(len(CONTENT) * BITS_IN_BYTE))
def test_a_flip_inverts_its_bit_and_no_other(bit: int) -> None:
    flip = Flip("f", bit)
    difference = int.from_bytes(flip.apply(CONTENT), "little") ^ int.from_bytes(CONTENT, "little")
    assert difference == 1 << bit
    assert flip.offset_bytes == bit // 8
    assert flip.apply(flip.apply(CONTENT)) == CONTENT


@pytest.mark.parametrize("size_bytes", range(len(CONTENT)))
def test_a_cut_keeps_the_bytes_before_it(size_bytes: int) -> None:
    cut = Cut("f", size_bytes)
    assert cut.apply(CONTENT) + CONTENT[size_bytes:] == CONTENT
    assert len(cut.apply(CONTENT)) == cut.offset_bytes == size_bytes


BYTES = st.binary(min_size=1, max_size=40)


@given(BYTES, st.integers(0, 45), BYTES)
def test_a_difference_is_the_shortest_edit_with_the_same_effect(
    content: bytes, offset: int, replacement: bytes
) -> None:
    wanted = (content[:offset] + replacement + content[offset + len(replacement) :])[: len(content)]
    edit = difference("f", content, offset, replacement)
    if edit is None:
        assert wanted == content
        return
    damaged = Overwrite(Kind.STALE_WORD, (edit,), "").apply(content)
    assert damaged == wanted != content
    assert damaged[edit.offset_bytes] != content[edit.offset_bytes]
    assert damaged[edit.end_bytes - 1] != content[edit.end_bytes - 1]


DAMAGES = st.one_of(
    st.builds(Flip, st.just("f"), st.integers(0, 8 * len(CONTENT) - 1)),
    st.builds(Cut, st.just("f"), st.integers(0, len(CONTENT) - 1)),
    st.builds(
        lambda offset, replacement: Overwrite(Kind.ZEROED_BLOCK, (Edit("f", offset, replacement),), ""),
        st.integers(0, len(CONTENT) - 3),
        st.binary(min_size=1, max_size=3),
    ),
    st.builds(
        lambda first, second: Pair(Flip("f", first), Flip("f", second)),
        *(st.integers(0, 8 * len(CONTENT) - 1) for _ in range(2)),
    ),
)


@given(DAMAGES, st.integers(0, len(CONTENT)), st.integers(0, len(CONTENT)))
def test_damage_of_a_part_is_the_part_of_the_damaged_file(damage: Damage, start: int, end: int) -> None:
    assert damage.apply(CONTENT[start:end], start_bytes=start) == damage.apply(CONTENT)[start:end]


def test_damage_of_two_files_changes_each_at_its_offset() -> None:
    lost = Overwrite(Kind.LOST_WORD, (Edit("f", 0, b"xy"), Edit("g", 1, b"z")), "")
    assert (lost.apply(b"abc"), lost.apply(b"abc", "g"), lost.apply(b"abc", "h")) == (b"xyc", b"azc", b"abc")
    pair = Pair(Flip("f", 0), Flip("g", 8))
    assert (pair.apply(b"\0\0"), pair.apply(b"\0\0", "g")) == (b"\1\0", b"\0\1")
    assert (lost.file, lost.offset_bytes, pair.file) == ("f", 0, "f")


def test_damage_is_described_in_words() -> None:
    assert str(Flip("_txn", 17)) == "bit 1 of byte 2 of _txn flipped"
    assert str(Cut("_txn", 17)) == "_txn cut to 17 bytes"


def test_a_task_tries_what_its_size_says() -> None:
    flips, cuts = task(start=3, stop=20, step=5), task(start=3, stop=20, step=5, cuts=True)
    assert damages_in(flips) == [Flip("f", 3), Flip("f", 8), Flip("f", 13), Flip("f", 18)]
    assert damages_in(cuts) == [Cut("f", 3), Cut("f", 8), Cut("f", 13), Cut("f", 18)]
    assert flips.size == cuts.size == 4


@given(
    st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 40).map(lambda half: 2 * half + 1), st.integers(1, 700)
)
def test_pieces_partition_their_task(start: int, length: int, step: int, size: int) -> None:
    whole = task(start=start, stop=start + length, step=step)
    pieces = list(split(whole, size))
    damages = [damage for piece in pieces for damage in damages_in(piece)]
    assert len(damages) == len(set(damages)) == whole.size
    assert set(damages) == set(damages_in(whole))
    assert all(0 < piece.size <= size for piece in pieces)
    assert {(piece.file, piece.kind) for piece in pieces} <= {("f", Kind.FLIP)}


@pytest.mark.parametrize("step", [1, 3, 11])
def test_each_piece_is_an_even_sample_of_its_task(step: int) -> None:
    whole = task(stop=40_000 * step, step=step)
    pieces = list(split(whole, 512))
    for piece in pieces:
        damages = [damage.bit for damage in damages_in(piece) if isinstance(damage, Flip)]
        assert {bit % BITS_IN_BYTE for bit in damages} == set(range(BITS_IN_BYTE))
        gaps = {after - before for before, after in pairwise(damages)}
        assert gaps == {len(pieces) * step}
        assert damages[0] < max(gaps) and damages[-1] >= whole.stop - max(gaps)


def bits_visited(step: int) -> Counter[int]:
    bits = task(stop=8 * BITS_IN_BYTE * step, step=step)
    return Counter(damage.bit % BITS_IN_BYTE for damage in damages_in(bits) if isinstance(damage, Flip))


@pytest.mark.parametrize("step", [1, 3, 9, 149])
def test_an_odd_step_visits_all_eight_bits_equally_often(step: int) -> None:
    assert bits_visited(step) == dict.fromkeys(range(BITS_IN_BYTE), 8)


def test_an_even_step_would_not() -> None:
    assert set(bits_visited(4)) == {0, 4}
