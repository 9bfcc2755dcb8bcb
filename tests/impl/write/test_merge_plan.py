import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornproof.impl.write.merge_plan import Insert, Keep, Merge, Span, Step, plan_merge, runs_of


def plan(spans: list[tuple[int, int]], timestamps: list[int], *, has_keys: bool = False) -> tuple[Step, ...]:
    return plan_merge([Span(*span) for span in spans], np.array(timestamps, np.int64), has_keys=has_keys)


@pytest.mark.parametrize(
    ("spans", "timestamps", "steps"),
    [
        ([], [1, 2], (Insert(0, 2),)),
        ([(1, 5)], [], (Keep(0, 1),)),
        ([(1, 5), (6, 9)], [10], (Keep(0, 2), Insert(0, 1))),
        ([(3, 5), (6, 9)], [1, 2], (Insert(0, 2), Keep(0, 2))),
        ([(1, 5), (6, 9)], [2, 7], (Merge(0, 0, 0, 1), Merge(1, 1, 1, 2))),
        ([(1, 3), (6, 9), (11, 12)], [4, 5], (Keep(0, 1), Insert(0, 2), Keep(1, 3))),
        (
            [(1, 3), (6, 9)],
            [0, 2, 5, 7, 10],
            (Insert(0, 1), Merge(0, 0, 1, 2), Insert(2, 3), Merge(1, 1, 3, 4), Insert(4, 5)),
        ),
    ],
)
def test_rows_go_where_their_time_belongs(
    spans: list[tuple[int, int]], timestamps: list[int], steps: tuple[Step, ...]
) -> None:
    assert plan(spans, timestamps) == steps


def test_a_row_at_the_last_time_of_a_row_group_stands_behind_it_and_with_keys_meets_it() -> None:
    assert plan([(1, 5), (6, 9)], [5]) == (Keep(0, 1), Insert(0, 1), Keep(1, 2))
    assert plan([(1, 5), (6, 9)], [5], has_keys=True) == (Merge(0, 0, 0, 1), Keep(1, 2))


def test_with_keys_all_row_groups_of_one_time_become_one() -> None:
    spans = [(1, 5), (5, 5), (5, 9), (10, 11)]
    assert plan(spans, [5], has_keys=True) == (Merge(0, 2, 0, 1), Keep(3, 4))
    assert plan(spans, [4, 5, 10], has_keys=True) == (Merge(0, 2, 0, 2), Merge(3, 3, 2, 3))
    assert plan(spans, [4, 9], has_keys=True) == (Merge(0, 0, 0, 1), Keep(1, 2), Merge(2, 2, 1, 2), Keep(3, 4))


@st.composite
def _test_cases(draw: st.DrawFn) -> tuple[list[list[int]], list[int], bool]:
    """Row groups as lists of times that ascend across groups, new times that ascend, and whether there are keys."""
    times = sorted(draw(st.lists(st.integers(0, 12), min_size=1, max_size=12)))
    cuts = sorted(draw(st.sets(st.integers(1, len(times) - 1), max_size=4))) if len(times) > 1 else []
    groups = [times[start:end] for start, end in itertools.pairwise([0, *cuts, len(times)])]
    return groups, sorted(draw(st.lists(st.integers(-1, 13), max_size=8))), draw(st.booleans())


@given(_test_cases())
def test_the_result_is_the_stable_order_of_old_and_new_rows(case: tuple[list[list[int]], list[int], bool]) -> None:
    groups, new, has_keys = case
    steps = plan([(group[0], group[-1]) for group in groups], new, has_keys=has_keys)
    result: list[tuple[int, bool]] = []
    met: list[tuple[set[int], set[int]]] = []
    kept_or_merged: list[int] = []
    for step in steps:
        match step:
            case Keep(first, end):
                kept_or_merged += range(first, end)
                result += [(time, False) for group in groups[first:end] for time in group]
                met += [(set(group), set()) for group in groups[first:end]]
            case Merge(first, last, start, end):
                kept_or_merged += range(first, last + 1)
                old = [(time, False) for group in groups[first : last + 1] for time in group]
                result += sorted(old + [(time, True) for time in new[start:end]], key=lambda row: row[0])
                met.append(({time for time, _ in old}, set(new[start:end])))
                assert start < end
            case Insert(start, end):
                result += [(time, True) for time in new[start:end]]
                met.append((set(), set(new[start:end])))
                assert start < end
    assert kept_or_merged == list(range(len(groups)))
    assert [time for time, _ in result] == sorted(time for time, _ in result)
    assert [time for time, is_new in result if is_new] == new
    if has_keys:
        # No row outside of a step has a time of its new rows, so every row that could have their key is merged.
        for position, (_, times) in enumerate(met):
            others = [seen for other, pair in enumerate(met) if other != position for seen in (pair[0] | pair[1])]
            assert times.isdisjoint(others)
    else:
        assert result == sorted(result)


@given(_test_cases())
def test_neighbours_that_stay_are_named_together(case: tuple[list[list[int]], list[int], bool]) -> None:
    groups, new, has_keys = case
    steps = plan([(group[0], group[-1]) for group in groups], new, has_keys=has_keys)
    assert not any(isinstance(left, Keep) and isinstance(right, Keep) for left, right in itertools.pairwise(steps))


@pytest.mark.parametrize(
    ("spans", "ordinals"),
    [
        ([], []),
        ([(1, 3), (3, 3), (3, 5), (6, 9)], [[0], [1], [2], [3]]),
        ([(5, 6), (1, 2), (3, 4)], [[1], [2], [0]]),
        ([(5, 9), (1, 5)], [[1, 0]]),
        ([(1, 9), (2, 3), (4, 9), (9, 9)], [[0, 1, 2], [3]]),
    ],
)
def test_row_groups_that_overlap_in_time_are_one_run(spans: list[tuple[int, int]], ordinals: list[list[int]]) -> None:
    assert [run.ordinals for run in runs_of([Span(*span) for span in spans])] == ordinals


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), max_size=6))
def test_runs_that_are_sorted_for_themselves_are_the_stable_order_of_all_rows(groups: list[list[int]]) -> None:
    numbered = [[(time, (ordinal, row)) for row, time in enumerate(times)] for ordinal, times in enumerate(groups)]
    found = []
    for run in runs_of([Span(min(times), max(times)) for times in groups]):
        rows = [row for ordinal in sorted(run.ordinals) for row in numbered[ordinal]]
        assert run.span == (min(rows)[0], max(rows)[0])
        found += sorted(rows)
    assert found == sorted(itertools.chain.from_iterable(numbered))
