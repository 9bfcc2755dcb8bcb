"""The heat map of crash points and the planted faults of a campaign's page, from counts that a person can check."""

import itertools
import re
from pathlib import Path

import pytest

from tornproof import reports
from tornproof.harness.common.campaign_sums import Cell, CellRuns
from tornproof.reports.campaign.coverage import ROWS_MAX, HeatMap, heat_map, levels_up_to
from tornproof.reports.campaign.data import CrashPoint
from tornproof.reports.campaign.faults import curves_of, fault_groups

KILLED, CUT, FAILED = ("process killed", "A", ""), ("power cut", "B", "a mixture"), ("sync failed", "D", "")


def mapped(points: dict[CrashPoint, int]) -> HeatMap:
    heat = heat_map(points)
    assert heat is not None
    return heat


def rows_of(heat: HeatMap) -> dict[tuple[str, str], list[str]]:
    """The counts of each row as a page shows them."""
    return {
        (operation, row.position.call): [
            str(count.run_count) if count.run_count else "○" if count.can_be else "·" for count in row.counts
        ]
        for operation, rows in heat.operations
        for row in rows
    }


def test_steps_are_rows_with_commits_and_most_runs_first_and_what_was_left_are_columns() -> None:
    heat = mapped(
        {
            CrashPoint("writer@commit 10: write 2024-01-01T00/_pm #1", *CUT): 3,
            CrashPoint("writer@commit 2: sync the data 2024-01-01T00/_pm #1", *FAILED): 5,
            CrashPoint("writer@commit 2: store a word _txn #1", *KILLED): 1,
            CrashPoint("writer@commit 2: store a word _txn #28", *KILLED): 1,
            CrashPoint("writer@commit 2: fence stores #1", *CUT): 2,
            CrashPoint("writer@open: sync directory . #2", *KILLED): 4,
            CrashPoint("writer.2@close: close _pins #1", *CUT): 1,
            CrashPoint("writer@end", *KILLED): 1,
        }
    )
    assert [left.injected_fault for left in heat.columns] == ["power cut", "process killed", "sync failed"]
    assert heat.injected_faults == (("power cut", 1), ("process killed", 1), ("sync failed", 1))
    assert list(rows_of(heat).items()) == [
        (("commit 2", "sync the data _pm"), ["○", "○", "5"]),
        (("commit 2", "fence stores"), ["2", "○", "·"]),
        (("commit 2", "store a word _txn"), ["○", "2", "·"]),
        (("commit 10", "write _pm"), ["3", "○", "·"]),
        (("writer.2 close", "close _pins"), ["1", "○", "·"]),
        (("open", "sync directory ."), ["○", "4", "·"]),
        (("end", ""), ["○", "1", "·"]),
    ]
    assert (heat.run_count, heat.step_count, heat.cell_count, heat.empty_count) == (18, 8, 15, 8)
    assert heat.left_out_run_count == heat.left_out_row_count == heat.left_out_column_count == 0


def test_of_too_many_rows_those_with_the_most_runs_stay() -> None:
    points = {CrashPoint(f"writer@open: call {number} _pm #1", *KILLED): number for number in range(1, ROWS_MAX + 4)}
    heat = mapped(points)
    assert len(rows_of(heat)) == ROWS_MAX and ("open", "call 3 _pm") not in rows_of(heat)
    assert (heat.left_out_row_count, heat.left_out_run_count) == (3, 1 + 2 + 3)


def test_no_crash_makes_no_map_and_what_is_no_step_is_a_row() -> None:
    assert heat_map({}) is None
    assert list(rows_of(mapped({CrashPoint("@:# " * 90, *KILLED): 1})).values()) == [["1"]]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 193, 10**6])
def test_levels_meet_without_gaps_and_grow_like_a_logarithm(most: int) -> None:
    levels = levels_up_to(most)
    assert levels[0][0] == 1 and levels[-1][1] == most and len(levels) <= 5
    assert all(low <= high for low, high in levels)
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(levels))
    assert all(after[0] / before[0] <= 2 * most**0.2 + 1 for before, after in itertools.pairwise(levels))


def luminance(colour: str) -> float:
    parts = [int(colour[position : position + 2], 16) / 255 for position in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_counts_can_be_read_on_each_level_of_colour(theme: int) -> None:
    templates = Path(reports.__file__).parent / "kit" / "templates"
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (templates / "style.css").read_text())
    colours = {name: values[theme] for name, *values in pairs}
    pattern = r'\[data-level="\d"\] \{ background: var\(--(heat-\d)\); color: (.*); \}'
    rules = re.findall(pattern, (templates / "campaign.css").read_text())
    assert [name for name, _ in rules] == [f"heat-{level}" for level in range(1, 6)]
    for name, colour in rules:
        ink = re.findall(r"var\(--(\w+)\)", colour)
        light, dark = sorted((luminance(colours[name]), luminance(colours[ink[theme % len(ink)]])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, name


def runs(run_count: int, first: int | None = None) -> CellRuns:
    return CellRuns(
        run_count=run_count,
        detected_count=0 if first is None else 2,
        first_seed=None if first is None else first + 99,
        first_number=first,
    )


def test_faults_on_the_same_scenarios_are_a_matrix_with_a_curve() -> None:
    cells = {
        Cell("planted", "one", "hardened", "F1"): runs(200, first=1),
        Cell("planted", "two", "hardened", "F1"): runs(200, first=30),
        Cell("planted", "one", "hardened", "F2"): runs(200),
        Cell("ours", "one", "hardened", ""): runs(200, first=2),
    }
    (group,) = fault_groups(cells)
    assert group.scenarios == ("one", "two") and group.found_count == 2
    (first, of_first), (second, of_second) = group.faults
    assert (first, second) == ("F1", "F2")
    assert of_first == (("one", runs(200, first=1)), ("two", runs(200, first=30)))
    assert of_second == (("one", runs(200)), None)
    assert curves_of([group]) == [group]
    assert group.times == ((1, True), (30, True), (200, False))


def test_faults_on_scenarios_of_their_own_are_no_matrix_and_two_are_no_curve() -> None:
    cells = {Cell("planted", f"its own {number}", "hardened", f"F{number}"): runs(64, first=5) for number in (1, 2)}
    (group,) = fault_groups(cells)
    assert group.scenarios == () and [len(each) for _, each in group.faults] == [1, 1]
    assert curves_of([group]) == []
