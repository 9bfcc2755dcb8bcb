"""The runs of a campaign by what they were on, as the pipeline sums them up and pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self


class Cell(NamedTuple):
    """What seeds of a group are run on."""

    group: str
    scenario: str
    preset: str
    fault: str

    @property
    def subject(self) -> str:
        """The fault or preset that a control must detect."""
        return self.fault or self.preset


@dataclass(slots=True, kw_only=True)
class CellRuns:
    """The runs of a cell; `first_number` is the number, from 1, of the first one that is INVALID."""

    run_count: int = 0
    detected_count: int = 0
    first_seed: int | None = None
    first_number: int | None = None
    step_count: int = 0
    step_count_max: int = 0

    @property
    def steps_a_run(self) -> float:
        """Mean steps per run."""
        return self.step_count / self.run_count

    def add(self, later: Self) -> None:
        """Add the runs after these."""
        if self.first_seed is None and later.first_number is not None:
            self.first_seed, self.first_number = later.first_seed, self.run_count + later.first_number
        self.run_count += later.run_count
        self.detected_count += later.detected_count
        self.step_count += later.step_count
        self.step_count_max = max(self.step_count_max, later.step_count_max)
