"""The lattice of verdicts."""

import itertools

import pytest

from tornproof.harness.common.verdict import Verdict, worst


def test_nothing_explored_is_unknown() -> None:
    assert worst([]) is Verdict.UNKNOWN


def test_invalid_dominates_unknown_dominates_valid() -> None:
    assert Verdict.VALID < Verdict.UNKNOWN < Verdict.INVALID


@pytest.mark.parametrize("verdicts", list(itertools.product(Verdict, repeat=3)), ids=str)
def test_a_whole_is_valid_only_where_every_part_is(verdicts: tuple[Verdict, ...]) -> None:
    whole = worst(iter(verdicts))
    assert (whole is Verdict.VALID) == (set(verdicts) == {Verdict.VALID})
    assert (whole is Verdict.INVALID) == (Verdict.INVALID in verdicts)
