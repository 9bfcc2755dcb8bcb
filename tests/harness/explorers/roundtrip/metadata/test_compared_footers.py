"""Footers are compared with `_pm` field by field; comparisons that leave out one, or see one too many, are noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from replayed import all_that_replay

from tornproof.harness.common.patch import replaced, wrapped
from tornproof.harness.explorers.roundtrip.metadata.compared_footers import compared_footers, problem_of

MODULE = "tornproof.impl.pm.footer_comparison"


def test_footers_agree_where_they_say_the_same() -> None:
    assert len({each.name for each in compared_footers()}) == len(compared_footers())
    fields = {each.kind.split(".")[-1] for each in compared_footers()}
    assert {"the same", "null_count", "min_value", "codec", "encodings", "data_page_offset"} < fields


def without(field: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(compare: Callable[..., Any]) -> Callable[..., Any]:
        def compared(*arguments: Any) -> Iterator[Any]:
            return (each for each in compare(*arguments) if each[0] != field)

        return compared

    return wrap


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("_compare_leaf", "repetition_type"),
        ("_compare_chunk", "data_page_offset"),
        ("_compare_statistics", "max_value"),
    ],
)
def test_a_field_that_is_not_compared_is_a_finding_that_replays(function: str, field: str) -> None:
    findings = all_that_replay("compared", wrapped(f"{MODULE}:{function}", without(field)))
    assert all(field in each.sentence for each in findings)


def test_what_nobody_compares_must_not_contradict() -> None:
    def more(*_: object) -> Iterator[tuple[str, object, object]]:
        yield "path_in_schema", "one", "another"

    with replaced(f"{MODULE}:_compare_chunk", more):
        assert {each.kind for each in compared_footers() if problem_of(each)} > {"the same"}
