"""Row groups are left out where no row can match, and only there; pruners and conditions that err are noticed."""

from __future__ import annotations

import math

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.roundtrip.conditions.pruned_row_groups import FACTS, Stated
from tornproof.harness.explorers.roundtrip.conditions.stored_kinds import Condition, kinds, truth_of
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


DECIMALS = {
    "DECIMAL(2,1)": (2, 1),
    "DECIMAL(9,2)": (9, 4),
    "DECIMAL(18,18)": (18, 8),
    "DECIMAL(38,10)": (38, 16),
    "DECIMAL(76,20)": (76, 32),
    "DECIMAL(9,2) in 2 bytes": (9, 2),
    "DECIMAL(9,2) in 9 bytes": (9, 9),
    "DECIMAL(9,2) as INT32": (9, 4),
    "DECIMAL(18,3) as INT64": (18, 8),
    "DECIMAL(18,3) as INT32": (18, 4),
    "DECIMAL(18,3) of any length": (18, 8),
}
"""The digits of each, and the bytes that it is stored in."""


def test_of_each_decimal_the_first_value_that_its_bytes_cannot_have_is_asked_for() -> None:
    """What should be too wide for 2 bytes fitted into them."""
    decimals = {kind.name: kind for kind in kinds() if isinstance(kind.bounds[0], int) and "DECIMAL" in kind.name}
    assert decimals.keys() == DECIMALS.keys()
    for name, (digits, width) in DECIMALS.items():
        kind, wide = decimals[name], 1 << 8 * width - 1
        assert {wide, 10**digits, -(10**digits)} <= {*kind.odd}, name
        # Without its sign it would fit.
        assert (wide in kind.values) is (wide < 10**digits), name
        stored = {kind.stored(value) for value in kind.values if abs(value) < wide}
        assert kind.stored(wide) is None and {len(each or b"") for each in stored} == {width}, name


RANGES = {
    **{name: (-(1 << bits - 1), 1 << bits - 1) for name, bits in (("BYTE", 8), ("SHORT", 16), ("INT", 32))},
    **dict.fromkeys(("LONG", "DATE", "TIMESTAMP", "TIMESTAMP_NS"), (-(1 << 63), 1 << 63)),
    **{name: (0, 1 << bits) for name, bits in (("BOOLEAN", 1), ("CHAR", 16), ("IPv4", 32), ("LONG256", 256))},
}
"""The least value of each integer, and what is just above the largest one."""


@pytest.mark.parametrize("name", RANGES)
def test_of_each_integer_both_ends_and_what_is_just_beyond_them_are_asked_for(name: str) -> None:
    low, above = RANGES[name]
    kind = next(kind for kind in kinds() if kind.name == name)
    assert {low, above - 1} <= {*kind.values} and {low - 1, above} <= {*kind.odd}
    assert all(low <= value < above for value in kind.values)


@pytest.mark.parametrize(
    ("location", "broken"),
    [
        ("pruning:numbers_of", lambda _: None),
        ("time_search:bounds_of", lambda *_: (0, 0)),
        ("predicate:LONG256_BYTES", 16),
    ],
)
def test_other_answers_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    first_that_replays("pruned", replaced(f"tornproof.impl.query.{location}", broken))
