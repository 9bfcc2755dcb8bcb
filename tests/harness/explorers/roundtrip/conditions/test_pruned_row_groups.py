"""Row groups are left out where no row can match, and only there; pruners and conditions that err are noticed."""

from __future__ import annotations

import math

import pytest
from replayed import first_findings, replayed

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.conditions.pruned_row_groups import (
    FACTS,
    Stated,
)
from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import Condition, kinds, truth_of
from tornproof.harness.explorers.roundtrip.parts import PRUNED_ROW_GROUPS
from tornproof.impl.query.pruning import Reason


def test_row_groups_are_left_out_where_no_row_can_match() -> None:
    assert [*FACTS] == [each.value for each in Reason]


@pytest.mark.parametrize(
    ("condition", "truths"),
    [
        (("=", 0, 3), (True, False, None)),
        (("not", ("<", 0, 5)), (False, True, None)),
        (("and", ("=", 0, 3), ("null", 0)), (False, False, None)),
        (("or", ("=", 0, 3), ("null", 0)), (True, False, True)),
        (("in", 0, ()), (False, False, None)),
    ],
)
def test_a_condition_is_true_false_or_unknown(condition: Condition, truths: tuple[bool | None, ...]) -> None:
    assert tuple(truth_of(condition, (key,)) for key in (3, math.inf, None)) == truths
    assert truth_of(("=", 0, math.nan), (math.nan,)) is False


def test_values_that_a_row_may_have_are_those_within_bounds_and_in_a_filter() -> None:
    kind = next(kind for kind in kinds() if kind.name == "SHORT")
    low, middle, high = kind.bounds
    stated = Stated(kind=kind, low=low, high=middle, held=(middle, high), null_count=None)

    def possible(*facts: str, is_precise: bool = True) -> set[int]:
        found = stated.possible(frozenset(facts), stated.value_count, is_precise=is_precise, uses_filter=True)
        return {kind.values[position] for position in found}

    assert possible() == {*kind.values}
    assert possible("statistics") == {each for each in kind.values if low <= each <= middle} | {0}
    assert possible("bloom filter") == {middle, high, 0}
    assert possible(*FACTS) == {middle, 0}
    # Between the bounds and a missing value bounds do not say that there is none.
    assert possible("statistics", is_precise=False) == {each for each in kind.values if low <= each <= 0}


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("pruning:numbers_of", lambda _: None),
        ("time_search:bounds_of", lambda *_: (0, 0)),
        ("predicate:LONG256_BYTES", 16),
    ],
)
def test_other_answers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    with replaced(f"tornproof.impl.query.{location}", broken):
        findings = first_findings(PRUNED_ROW_GROUPS)
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
