"""Whether new rows are merged into just those row groups that they belong to, worked out for each row by itself.

Without keys a row comes behind the old ones of its time, so it belongs to a row group that begins at or before it and
ends behind it. With keys it belongs to each that has its time. What has a row in common is merged at once, and nothing
else is written again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, groupby
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import astuple

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.impl.write import merge_plan
from tornproof.impl.write.merge_plan import Keep, Span, Step

PROPERTY = "new rows are merged into the row groups that they belong to, and no others"
TIMES = range(4)
GROUPS_MAX, ROWS_MAX = 3, 3

Steps: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlans:
    """The first and last times of row groups, into which all sorts of rows are merged."""

    spans: tuple[tuple[int, int], ...]
    has_keys: bool

    @property
    def kind(self) -> str:
        """Whether the table has keys."""
        return "a table with keys" if self.has_keys else "a table without keys"

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.kind} and row groups of the times {self.spans}"


@functools.cache
def merge_plans() -> tuple[MergePlans, ...]:
    """Return all row groups of a few times, also those that share one."""
    return tuple(
        MergePlans(spans=tuple(zip(bounds[::2], bounds[1::2], strict=True)), has_keys=has_keys)
        for count in range(GROUPS_MAX + 1)
        for bounds in combinations_with_replacement(TIMES, 2 * count)
        for has_keys in (False, True)
    )


def problem_of(case: MergePlans) -> str | None:
    """Say what is planned otherwise than it should be; None if nothing is."""
    spans = [Span(*each) for each in case.spans]
    for count in range(ROWS_MAX + 1):
        for times in combinations_with_replacement(TIMES, count):
            plan = merge_plan.plan_merge(spans, np.array(times, np.int64), has_keys=case.has_keys)
            found = [(type(step).__name__, *astuple(step)) for step in plan]
            expected = _expected(case.spans, times, case.has_keys)
            if found != expected:
                return f"rows of the times {times} are planned as {found}, and should be as {expected}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of plans that are others."""
    location = "tornproof.impl.write.merge_plan:plan_merge"
    plan = original_of(location)
    controls: Controls = (
        ("keys do not matter", location, lambda spans, times, *, has_keys: plan(spans, times, has_keys=False)),
        ("row groups are kept one by one", location, lambda *given, **more: _one_by_one(plan(*given, **more))),
        ("the last step is forgotten", location, lambda *given, **more: plan(*given, **more)[:-1]),
        ("steps are in another order", location, lambda *given, **more: plan(*given, **more)[::-1]),
    )
    return not_noticed(controls, problem_of, merge_plans())


def _one_by_one(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Keep):
            yield from (Keep(number, number + 1) for number in range(step.first, step.end))
        else:
            yield step


def _expected(spans: tuple[tuple[int, int], ...], times: tuple[int, ...], has_keys: bool) -> Steps:
    """Return the steps in the order of the file."""
    belongs = [[low <= time and time < high + has_keys for low, high in spans] for time in times]
    owners = [[group for group, is_owner in enumerate(each) if is_owner] for each in belongs]
    merged = [min([group, *(each[0] for each in owners if group in each)]) for group in range(len(spans))]
    for group in range(len(spans)):
        # What the first of its row groups is merged with.
        merged[group] = merged[merged[group]]
    found: Steps = []
    for first, numbers in groupby(range(len(spans)), key=merged.__getitem__):
        last = list(numbers)[-1]
        rows = [row for row, each in enumerate(owners) if not {*range(first, last + 1)}.isdisjoint(each)]
        found += _inserted(owners, times, spans, first)
        if rows:
            found.append(("Merge", first, last, rows[0], rows[-1] + 1))
        elif found and found[-1][0] == "Keep":
            found[-1] = ("Keep", found[-1][1], last + 1)
        else:
            found.append(("Keep", first, last + 1))
    return found + _inserted(owners, times, spans, len(spans))


def _inserted(owners: list[list[int]], times: tuple[int, ...], spans: tuple[tuple[int, int], ...], place: int) -> Steps:
    """Return the rows of no row group that come behind the first `place` ones, and before the next one."""
    rows = [
        row
        for row, (each, time) in enumerate(zip(owners, times, strict=True))
        if not each and sum(high <= time for _, high in spans) == place
    ]
    return [("Insert", rows[0], rows[-1] + 1)] if rows else []
