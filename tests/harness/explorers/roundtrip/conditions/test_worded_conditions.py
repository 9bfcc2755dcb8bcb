"""Conditions are true of what their text says; other literals, signs and limits are noticed."""

from __future__ import annotations

import math

import pytest
from depth import sampled
from replayed import first_that_replays

from tornproof.harness.common.patch import original_of, replaced
from tornproof.harness.explorers.roundtrip.conditions.worded_conditions import _truth, typed, worded_conditions
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.types.names import type_name


def test_conditions_are_true_of_what_they_say() -> None:
    assert [type_name(each.code) for each in typed()] == [each.name for each in typed()]
    assert sum(isinstance(each.expected, str) for each in worded_conditions()) > 400


def test_the_answers_are_those_of_sql() -> None:
    assert [_truth("<", 5, key) for key in (4, 5, None)] == [True, False, None]
    assert [_truth(sign, 1.0, math.nan) for sign in ("=", "!=", "<")] == [False, True, False]


def test_months_and_days_that_are_none_are_rejected() -> None:
    column = next(each.column for each in typed() if each.name == "TIMESTAMP")
    for text in ("2024-00", "2024-01-00", "2024-01-01T00:00+24:00", "2024-01-01T00:00-02:60"):
        with pytest.raises(PredicateError, match="cannot be compared with"):
            parse_predicate(f"value = '{text}'", [column])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("location", "broken"),
    sampled(
        2,
        [
            ("types.texts:CODE_UNIT_MAX", 0x20AB),
            ("types.texts:GEOHASH_DIGITS", "0123456789abcdefghjkmnpqrstuvwxy"),
            ("query.predicate_literal:EXPONENT_MAX", 1),
            ("query.predicate_text:TEXT_CHARACTERS_MAX", 1 << 20),
            ("query.comparison:FLOAT_MAX", 1.0),
            ("query.predicate:_reversed_bytes", lambda array: array),
        ],
    ),
)
def test_other_conditions_are_noticed_and_their_findings_replay(location: str, broken: object) -> None:
    assert original_of(f"tornproof.impl.{location}") != broken
    first_that_replays("worded", replaced(f"tornproof.impl.{location}", broken))
