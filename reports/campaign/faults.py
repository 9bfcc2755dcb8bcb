"""Detection of the planted faults: on which scenarios, and after how many seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from tornproof.harness.common.campaign_sums import Cell, CellRuns
from tornproof.reports.kit.survival import LETTERS, Survival, plot_of_curves, survival

COLUMNS_MAX = 6
FAULTS_MAX = 150
GROUPS_MAX = 20
CURVES_MAX = 5
FAULTS_A_CURVE_MIN = 3
FaultRuns: TypeAlias = tuple[str, CellRuns]
"""A scenario, and the runs of a fault on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultGroup:
    """The faults of a group, each with its runs on each scenario.

    With `scenarios`, each fault has an entry for each of these, which may be None; otherwise each fault has its own
    scenarios. `times` has the number of seeds until a fault was detected on a scenario, or until the end, and which.
    """

    name: str
    scenarios: tuple[str, ...]
    faults: tuple[tuple[str, tuple[FaultRuns | None, ...]], ...]
    left_out_count: int
    times: tuple[tuple[int, bool], ...]

    @property
    def survival(self) -> tuple[Survival, ...]:
        """The share of faults not detected, by number of seeds."""
        return survival(self.times)

    @property
    def found_count(self) -> int:
        """Number of detected faults, counted on each scenario."""
        return sum(is_found for _, is_found in self.times)


def fault_groups(cells: Mapping[Cell, CellRuns]) -> list[FaultGroup]:
    """Return the groups with planted faults, in the order of the plan."""
    of_groups: dict[str, dict[str, list[FaultRuns]]] = {}
    times: dict[str, list[tuple[int, bool]]] = {}
    for cell, runs in cells.items():
        if cell.fault:
            of_groups.setdefault(cell.group, {}).setdefault(cell.fault, []).append((cell.scenario, runs))
            is_found = runs.first_number is not None
            times.setdefault(cell.group, []).append((runs.first_number or runs.run_count, is_found))
    return [_group(name, faults, times[name]) for name, faults in of_groups.items()]


def _group(name: str, faults: Mapping[str, list[FaultRuns]], times: list[tuple[int, bool]]) -> FaultGroup:
    scenarios = tuple(dict.fromkeys(scenario for each in faults.values() for scenario, _ in each))
    filled_count = sum(map(len, faults.values()))
    # If each fault had its own scenario, most cells of a matrix would be empty.
    is_matrix = 1 < len(scenarios) <= COLUMNS_MAX and 2 * filled_count > len(scenarios) * len(faults)
    rows: dict[str, tuple[FaultRuns | None, ...]] = {}
    for fault, each in faults.items():
        by_scenario = {on_one[0]: on_one for on_one in each}
        rows[fault] = tuple(map(by_scenario.get, scenarios)) if is_matrix else tuple(each[:COLUMNS_MAX])
    return FaultGroup(
        name=name,
        scenarios=scenarios if is_matrix else (),
        faults=tuple(rows.items())[:FAULTS_MAX],
        left_out_count=max(0, len(rows) - FAULTS_MAX),
        times=tuple(times),
    )


def curves_of(groups: list[FaultGroup]) -> list[FaultGroup]:
    """Return the groups that have enough faults for a curve, the largest first where there are too many."""
    return sorted(
        (group for group in groups if len(group.times) >= FAULTS_A_CURVE_MIN), key=lambda group: -len(group.times)
    )[:CURVES_MAX]


def survival_plot(groups: list[FaultGroup]) -> Markup:
    """Return a plot of the share of undetected faults by seeds, a curve with a letter for each group."""
    detected = "; ".join(
        f"{letter}: {group.found_count} of {len(group.times)} detected"
        for group, letter in zip(groups, LETTERS, strict=False)
    )
    return plot_of_curves(
        [group.survival for group in groups],
        unit="seeds",
        title=f"Share of the planted faults that are not detected, by number of seeds. {detected}",
    )
