"""Chunks that decode to more than is allowed are rejected, and a reader that does not reject them is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from planted_faults import planted
from replayed import all_that_replay, first_findings, replayed

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.parquet import expansion
from tornproof.harness.explorers.roundtrip.parquet.expansion import EXPANSION, failed_controls, problem_of, repeated
from tornproof.impl.parquet.fields import PageEncoding


def test_each_is_another_file_that_decodes_and_is_limited() -> None:
    assert len({each.content() for each in repeated()}) == len({each.name for each in repeated()}) == len(repeated())


def test_most_are_far_smaller_than_what_they_decode_to() -> None:
    small = [each for each in repeated() if len(each.content()) < each.decoded_bytes // 2]
    assert len(small) > len(repeated()) // 2


def test_a_reader_that_knows_one_number_of_dictionaries_only_is_noticed() -> None:
    findings = all_that_replay("repeated", replaced(f"{EXPANSION}:BY_DICTIONARY", {PageEncoding.RLE_DICTIONARY}))
    assert {each.evidence["repeated"] for each in findings} == {
        number
        for number, each in enumerate(repeated())
        if each.encoding is None and each.settings.get("version") == "1.0" and each.value_bytes > 100
    }


@pytest.mark.parametrize(
    "change",
    [lambda values: values[:-1], lambda values: [*values, *values[:1]], lambda values: []],
    ids=["one less", "one more", "none"],
)
def test_values_that_are_missing_or_too_many_at_the_end_are_other_values(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Any]], list[Any]]
) -> None:
    each = repeated()[0]
    monkeypatch.setattr(expansion, "_decode", lambda each: change([*each.all_values]))
    assert problem_of(each) == "it decodes to other values"


def test_a_judge_that_sees_no_excess_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = expansion._is_rejected
    monkeypatch.setattr(
        expansion,
        "_is_rejected",
        lambda each, allowed_bytes: allowed_bytes < each.decoded_bytes or seen(each, allowed_bytes),
    )
    assert len([*failed_controls()]) == len(repeated())


def test_what_is_rejected_and_not_too_large_is_noticed() -> None:
    with planted("given up dictionary is too large"):
        assert replayed(findings := first_findings("repeated")) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}
