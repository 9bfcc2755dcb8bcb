"""Footers are divided and put together as they are spelled out; other ways to do that are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from depth import sampled
from replayed import first_findings, replayed

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.roundtrip.parquet.edited_footers import _some_groups, edited_footers, problem_of
from tornproof.impl.parquet.footer import FooterParts


def test_footers_are_divided_and_put_together() -> None:
    assert len({each.name for each in edited_footers()}) == len(edited_footers())


def no_rows(with_row_groups: Callable[..., FooterParts]) -> Callable[..., FooterParts]:
    return lambda parts, row_groups, _: with_row_groups(parts, row_groups, 0)


def first_pair(key_value: Callable[..., str | None]) -> Callable[..., str | None]:
    return lambda parts, key: next((key_value(parts, each) for each in (key, "other")), None) or "1"


def same(_: Callable[..., bool]) -> Callable[..., bool]:
    return lambda *_: True


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("method", "broken"), sampled(1, [("with_row_groups", no_rows), ("key_value", first_pair), ("same_schema", same)])
)
def test_other_parts_are_findings_that_replay(
    monkeypatch: pytest.MonkeyPatch, method: str, broken: Callable[..., Any]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(FooterParts, method, broken(getattr(FooterParts, method)))
        findings = first_findings("edited")
        assert replayed(findings) == {Verdict.INVALID}
    assert replayed(findings) == {Verdict.VALID}


@pytest.mark.nightly
def test_row_groups_whose_filters_and_indexes_are_not_counted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tornproof.impl.parquet.footer.sum", lambda _: 0, raising=False)
    assert {each.kind for each in edited_footers() if problem_of(each)} == {"facts"}


def test_lists_of_each_form_of_length_are_edited() -> None:
    """A length is in the head of a list up to 14, in one byte up to 127, and then in two."""
    assert {0, 1, 2, 3, 14, 15, 16, 130} <= {*map(len, _some_groups())}
