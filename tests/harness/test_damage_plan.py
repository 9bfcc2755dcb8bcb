"""The damage that is planned: nothing is left out, nothing is tried twice, and each damage is what it says."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.explore.damage_plan import BITS_IN_BYTE, Cut, Flip, Task, split

CONTENT = bytes(range(7, 24))


def task(*, start: int = 0, stop: int = 100, step: int = 1, cuts: bool = False, required: bool = True) -> Task:
    return Task(file="f", cuts=cuts, start=start, stop=stop, step=step, required=required)


@pytest.mark.parametrize("bit", range(len(CONTENT) * BITS_IN_BYTE))
def test_a_flip_inverts_its_bit_and_no_other(bit: int) -> None:
    flip = Flip("f", bit)
    difference = int.from_bytes(flip.apply(CONTENT), "little") ^ int.from_bytes(CONTENT, "little")
    assert difference == 1 << bit
    assert flip.offset_bytes == bit // 8
    assert flip.apply(flip.apply(CONTENT)) == CONTENT


@pytest.mark.parametrize("size_bytes", range(len(CONTENT)))
def test_a_cut_keeps_what_stands_before_it(size_bytes: int) -> None:
    cut = Cut("f", size_bytes)
    assert cut.apply(CONTENT) + CONTENT[size_bytes:] == CONTENT
    assert len(cut.apply(CONTENT)) == cut.offset_bytes == size_bytes


def test_damage_is_told_in_words() -> None:
    assert str(Flip("_txn", 17)) == "bit 1 of byte 2 of _txn flipped"
    assert str(Cut("_txn", 17)) == "_txn cut to 17 bytes"


def test_a_task_tries_what_its_size_says() -> None:
    flips, cuts = task(start=3, stop=20, step=5), task(start=3, stop=20, step=5, cuts=True)
    assert list(flips.damages()) == [Flip("f", 3), Flip("f", 8), Flip("f", 13), Flip("f", 18)]
    assert list(cuts.damages()) == [Cut("f", 3), Cut("f", 8), Cut("f", 13), Cut("f", 18)]
    assert flips.size == cuts.size == 4


@given(
    st.integers(0, 50), st.integers(0, 3_000), st.integers(0, 40).map(lambda half: 2 * half + 1), st.integers(1, 700)
)
def test_pieces_partition_their_task(start: int, length: int, step: int, size: int) -> None:
    whole = task(start=start, stop=start + length, step=step, required=False)
    pieces = list(split(whole, size))
    damages = [damage for piece in pieces for damage in piece.damages()]
    assert len(damages) == len(set(damages)) == whole.size
    assert set(damages) == set(whole.damages())
    assert all(0 < piece.size <= size for piece in pieces)
    assert {(piece.file, piece.cuts, piece.required) for piece in pieces} <= {("f", False, False)}


@pytest.mark.parametrize("step", [1, 3, 11])
def test_each_piece_is_an_even_sample_of_its_task(step: int) -> None:
    whole = task(stop=40_000 * step, step=step)
    pieces = list(split(whole, 512))
    for piece in pieces:
        damages = [damage.bit for damage in piece.damages() if isinstance(damage, Flip)]
        assert {bit % BITS_IN_BYTE for bit in damages} == set(range(BITS_IN_BYTE))
        gaps = {after - before for before, after in pairwise(damages)}
        assert gaps == {len(pieces) * step}
        assert damages[0] < max(gaps) and damages[-1] >= whole.stop - max(gaps)


def bits_visited(step: int) -> Counter[int]:
    bits = task(stop=8 * BITS_IN_BYTE * step, step=step).damages()
    return Counter(damage.bit % BITS_IN_BYTE for damage in bits if isinstance(damage, Flip))


@pytest.mark.parametrize("step", [1, 3, 9, 149])
def test_an_odd_step_visits_all_eight_bits_alike(step: int) -> None:
    assert bits_visited(step) == dict.fromkeys(range(BITS_IN_BYTE), 8)


def test_an_even_step_would_not() -> None:
    assert set(bits_visited(4)) == {0, 4}
