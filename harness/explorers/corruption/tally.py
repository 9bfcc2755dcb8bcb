"""Counts of what judging found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tornproof.harness.counterexamples.regions import PAGE, PAGE_HEADER, UNREACHED
from tornproof.harness.explorers.corruption.judge import FOUND, Outcome
from tornproof.harness.explorers.corruption.plan import Damage, Flip, Kind

NOT_PAIRED = UNREACHED | {PAGE, PAGE_HEADER}


@dataclass(slots=True)
class Tally:
    """What one task or all together found; `outcomes` are by file and field, `disagreements` are bugs of the judge.

    `different` and `harmless` are the flips of metadata that were not rejected, by whether another answer was read,
    each with the field that it hit.
    """

    tried_by_kind: Counter[Kind] = field(default_factory=Counter)
    rechecked_count: int = 0
    outcomes: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    outcomes_by_kind: Counter[tuple[Kind, Outcome]] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    found: list[tuple[Damage, str, str]] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)
    different: list[tuple[Flip, str]] = field(default_factory=list)
    harmless: list[tuple[Flip, str]] = field(default_factory=list)

    @property
    def has_finding(self) -> bool:
        """Whether a damage is a finding."""
        return bool(self.found)

    @property
    def tried(self) -> int:
        """The number of damages that were judged."""
        return self.tried_by_kind.total()

    def add(self, other: Tally) -> None:
        """Add another tally."""
        self.tried_by_kind += other.tried_by_kind
        self.rechecked_count += other.rechecked_count
        self.outcomes += other.outcomes
        self.outcomes_by_kind += other.outcomes_by_kind
        self.reached += other.reached
        self.found += other.found
        self.disagreements += other.disagreements
        self.different += other.different
        self.harmless += other.harmless

    def count(self, damage: Damage, field_name: str, outcome: Outcome, reason: str = "") -> None:
        """Count the outcome of one damage; what is found is kept with the reason."""
        self.outcomes[damage.file, field_name, outcome] += 1
        self.outcomes_by_kind[damage.kind, outcome] += 1
        if outcome in FOUND:
            seen = ((found.kind, found.file, name) for found, name, _ in self.found)
            if (damage.kind, damage.file, field_name) not in seen:
                self.found.append((damage, field_name, reason))
        if isinstance(damage, Flip) and field_name not in NOT_PAIRED:
            if outcome is Outcome.HARMLESS:
                self.harmless.append((damage, field_name))
            elif outcome in (Outcome.LEGAL_STATE, Outcome.EXPOSURE, Outcome.ROLLBACK):
                self.different.append((damage, field_name))
