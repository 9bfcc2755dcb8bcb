"""Detection of the planted faults: on which scenarios, and after how many seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from markupsafe import Markup

from tornproof.reports.campaign.data import Cell, CellRuns
from tornproof.reports.kit.plots import COLOURS, DASHES, plot
from tornproof.reports.kit.survival import Survival, draw_curve, survival

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS_MAX = 6
FAULTS_MAX = 150
GROUPS_MAX = 20
CURVES_MAX = 5
FAULTS_A_CURVE_MIN = 3
LETTERS = "ABCDE"
FaultRuns: TypeAlias = tuple[str, CellRuns]
"""A scenario, and the runs of a fault on it."""
_COLOURS = ("accent", "lost", "written", "torn", "damaged")


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

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for group, letter, colour, dashes in zip(groups, LETTERS, _COLOURS, DASHES, strict=False):
            draw_curve(axes, group.survival, letter, COLOURS[colour], dashes)
        axes.set_xscale("log")
        axes.set_xlim(left=1)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("seeds")
        axes.set_ylabel("faults not detected")
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.grid(axis="y")

    detected = "; ".join(
        f"{letter}: {group.found_count} of {len(group.times)} detected"
        for group, letter in zip(groups, LETTERS, strict=False)
    )
    return plot(
        draw,
        title=f"Share of the planted faults that are not detected, by number of seeds. {detected}",
        width_inches=6.5,
    )
