"""Rows are merged into the row groups that they belong to; plans that merge others are noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replayed import all_that_replay

from tornproof.harness.common.patch import wrapped
from tornproof.harness.explorers.roundtrip.merge_plans import merge_plans
from tornproof.impl.write.merge_plan import Merge

PLAN = "tornproof.impl.write.merge_plan:plan_merge"


def test_rows_are_merged_where_they_belong() -> None:
    assert len({each.name for each in merge_plans()}) == len(merge_plans())


def with_all_behind(plan: Callable[..., Any]) -> Callable[..., Any]:
    def planned(spans: Any, times: Any, *, has_keys: bool) -> tuple[Any, ...]:
        steps = plan(spans, times, has_keys=has_keys)
        first = next((each for each in steps if isinstance(each, Merge)), None)
        return (
            steps
            if first is None
            else (*steps[: steps.index(first)], Merge(first.first, len(spans) - 1, 0, len(times)))
        )

    return planned


def test_a_row_group_that_is_merged_for_nothing_is_a_finding_that_replays() -> None:
    findings = all_that_replay("planned", wrapped(PLAN, with_all_behind))
    assert len(findings) == 2
