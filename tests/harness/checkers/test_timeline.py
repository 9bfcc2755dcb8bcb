from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornproof.harness.checkers.attempts import Attempt
from tornproof.harness.checkers.readings import NOWHERE
from tornproof.harness.checkers.timeline import Tried, positions_among

NEAR = st.integers(-5, 40)
FAR = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize("side", ["left", "right"])
@given(ordered=st.lists(NEAR | FAR).map(sorted), versions=st.lists(NEAR) | st.lists(NEAR | FAR))
def test_positions_are_those_of_a_plain_search(
    side: Literal["left", "right"], ordered: list[int], versions: list[int]
) -> None:
    found = positions_among(np.array(ordered, dtype=np.int64), np.array(versions, dtype=np.int64), side)
    plain = np.searchsorted(np.array(ordered, dtype=np.int64), np.array(versions, dtype=np.int64), side)
    assert found.tolist() == plain.tolist()


def test_attempts_at_the_largest_version_are_found() -> None:
    """The number after it is a float, which equals it."""
    newest = (1 << 63) - 1
    numbers = np.array([1, newest, newest])
    tried = Tried(version=numbers, digest=numbers, start=numbers, start_ns=numbers, discarded=np.full(3, NOWHERE))
    assert [len(tried.at(version)) for version in (1, newest - 1, newest)] == [1, 0, 2]


def test_attempts_come_back_in_their_order() -> None:
    tried = Tried(
        version=np.array([2, 1, 2, 3]),
        digest=np.array([7, 5, 6, 7]),
        start=np.array([10, 40, 30, 20]),
        start_ns=np.array([1, 2, 3, 4]),
        discarded=np.array([30, NOWHERE, NOWHERE, NOWHERE]),
    )
    first = Attempt(version=2, digest=7, start=10, start_ns=1, discarded=30)
    assert tried.at(2) == [first, Attempt(version=2, digest=6, start=30, start_ns=3)]
    assert tried.at(4) == tried.at(0) == []
    assert tried.writers == {7: 10, 5: 40, 6: 30}
