"""Filters of every type are made of its values, and those that miss one are reported; a blind look is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from replayed import first_that_replays

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.parquet import verified_filters
from tornproof.harness.explorers.roundtrip.parquet.verified_filters import failed_controls, filtered_columns
from tornproof.impl.types.arrow import valid_decimal_shape
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag, tag_of


def test_filters_are_made_of_all_values_and_those_that_miss_some_are_reported() -> None:
    tags = {tag_of(type_code(each.type) or 0) for each in filtered_columns()}
    assert tags == {*TypeTag} - {TypeTag.BOOLEAN, TypeTag.ARRAY}


def without_decimals(stored_of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, column: None if valid_decimal_shape(column.type) else stored_of(values, column)


def without_the_first(hashes_of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda stored: hashes_of(stored)[1:]


@pytest.mark.parametrize(
    ("function", "wrap"), [("pages:_stored", without_decimals), ("pages:hashes_of", without_the_first)]
)
def test_a_verification_that_leaves_values_out_is_found_and_replays(function: str, wrap: Any) -> None:
    findings = first_that_replays("filled", wrapped(f"tornproof.impl.verify.{function}", wrap))
    assert "filters of no values" in " ".join(each.sentence for each in findings)


@pytest.mark.nightly
def test_a_look_at_no_reports_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_filters, "_wrong", lambda _: iter(()))
    monkeypatch.setattr(verified_filters, "verify_table", lambda _: type("Report", (), {"all_problems": ()}))
    assert len([*failed_controls()]) == 3
