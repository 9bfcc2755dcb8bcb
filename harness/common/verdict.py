"""Verdicts and what every phase must say beside one: how much it explored, inside which bound, and its controls."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns seconds."""
HasTime: TypeAlias = Callable[[], bool]
"""Returns whether an exploration may go on; it says no when a ceiling of time is reached or somebody interrupts."""
OnProgress: TypeAlias = Callable[[int, int | None], None]
"""Is told how much is done, and of how much where that is known."""


def always() -> bool:
    """Let an exploration go on to the bound that it stated."""
    return True


def calls_at_most(count: int) -> HasTime:
    """Let an exploration ask so often whether it may go on."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


_DIGITS = re.compile(r"\d+")
NO_CONTROLS = "none needed"
PASSED = "passed"
NOT_TRIED = "not tried"


class Verdict(enum.IntEnum):
    """VALID < UNKNOWN < INVALID: of several verdicts the largest counts."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2


def without_digits(text: str) -> str:
    """Return what stays of a sentence when places and sizes are other ones."""
    return _DIGITS.sub("", text)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on the whole; nothing at all is UNKNOWN, because nothing was explored."""
    return max(verdicts, default=Verdict.UNKNOWN)


def nothing_explored(name: str, reason: str, seconds: float = 0.0) -> Phase:
    """Return the result of an explorer that could not begin."""
    return Phase(
        name=name,
        explored=0,
        complete=False,
        bound="nothing was explored",
        verdict=Verdict.UNKNOWN,
        seconds=seconds,
        note=reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violated property; `evidence` is data from which the sentence was made."""

    property: str
    phase: str
    sentence: str
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The result of one explorer (docs/reports.md).

    `counts` and `exposures` are totals, `fields` the same by file and field, `reached` the must-reach points, `note`
    says why a verdict is UNKNOWN, `situations` how much was explored of each of several. Two runs of the same question
    differ in `seconds` and `cpu_seconds`, and in `varying`: counts of what free-running processes happened to meet.
    """

    name: str
    explored: int
    complete: bool
    bound: str
    verdict: Verdict
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    exposures: dict[str, int] = field(default_factory=dict)
    fields: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    controls: str = NO_CONTROLS
    note: str = ""
    findings: tuple[Finding, ...] = ()
    test_cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    varying: dict[str, int] = field(default_factory=dict)

    def with_controls(self, failed: Sequence[str] | None) -> Phase:
        """Return the phase with its positive controls: those that failed, in words, or None where none was tried."""
        if failed is None:
            return replace(self, controls=NOT_TRIED).doubted("the run was cut before a positive control was tried")
        reported = replace(self, controls="; ".join(failed) or PASSED)
        return reported.doubted("a positive control failed" if failed else "")

    def doubted(self, *reasons: str) -> Phase:
        """Return the phase with reasons for which it cannot be VALID; without any, as it is."""
        if not any(reasons):
            return self
        note = "; ".join(dict.fromkeys(filter(None, (self.note, *reasons))))
        return replace(self, note=note, verdict=max(self.verdict, Verdict.UNKNOWN))
