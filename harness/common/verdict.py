"""Verdicts, and what every phase reports with one: how much it explored, within which bound, and its controls."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Returns seconds."""
HasTime: TypeAlias = Callable[[], bool]
"""Returns whether an exploration may go on: False at a time limit or after an interrupt."""
OnProgress: TypeAlias = Callable[[int, int | None], None]
"""Takes the number of cases that are done, and the number of all if it is known."""


def always() -> bool:
    """Let an exploration go on to its bound."""
    return True


def calls_at_most(count: int) -> HasTime:
    """Let an exploration go on for so many calls."""
    left = iter(range(count))
    return lambda: next(left, None) is not None


_DIGITS = re.compile(r"\d+")
SHOWN_MAX = 120
NO_CONTROLS = "none needed"
PASSED = "passed"
NOT_TRIED = "not tried"
CUT_SHORT = "the run was cut before anything was explored"


class Verdict(enum.IntEnum):
    """VALID < UNKNOWN < INVALID: of several verdicts the largest counts."""

    VALID = 0
    UNKNOWN = 1
    INVALID = 2


def without_digits(text: str) -> str:
    """Return a sentence without its numbers, which is equal for findings at other offsets."""
    return _DIGITS.sub("", text)


def shown(value: object) -> str:
    """Return the text of a value, cut to `SHOWN_MAX` characters."""
    return shortened(repr(value))


def shortened(text: str, length_max: int = SHOWN_MAX) -> str:
    """Return a text cut to so many characters."""
    return text if len(text) <= length_max else f"{text[:length_max]}..."


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict; UNKNOWN for none, because nothing was explored."""
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
        controls=NOT_TRIED,
        note=reason,
    )


def cut_short(name: str) -> Phase:
    """Return the result of an explorer that a time limit or an interrupt ended before it had one."""
    return nothing_explored(name, CUT_SHORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violated property; `sentence` is made from `evidence`."""

    property: str
    phase: str
    sentence: str
    evidence: dict[str, Any]

    def verdict_of(self, violated: Collection[str]) -> Verdict:
        """Return what a run that violated these properties says of it: UNKNOWN if they are others than its own."""
        if not violated:
            return Verdict.VALID
        return Verdict.INVALID if self.property in violated else Verdict.UNKNOWN


OF_ANOTHER_RUN = (KeyError, TypeError, ValueError, IndexError)
"""What evidence raises that is not of the run that it is replayed in, or is damaged."""


def nearest_first(places: Iterable[int], to: int) -> list[int]:
    """Return the places at which a finding is replayed, in the order in which they are tried."""
    return sorted(places, key=lambda place: abs(place - to))


def summed_up(replays: Iterable[Verdict | None]) -> Verdict:
    """Return the verdict of places at which a finding is replayed until it happens; None is of one where it cannot."""
    verdicts = set[Verdict]()
    for verdict in replays:
        if verdict is Verdict.INVALID:
            return verdict
        if verdict is not None:
            verdicts.add(verdict)
    return Verdict.VALID if verdicts == {Verdict.VALID} else Verdict.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The result of one explorer (docs/reports.md).

    `counts` and `exposures` (undetectable corruption) are totals, `fields` the same by file and field, `reached` counts
    the coverage goals, `note` says why a verdict is UNKNOWN, `test_cases` how much was explored of each of several. Two
    runs of the same question differ only in `seconds`, `cpu_seconds` and `varying`: counts that depend on timing.
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

    @property
    def has_finding(self) -> bool:
        """Whether it has one at least."""
        return bool(self.findings)

    def with_controls(self, failed: Sequence[str] | None) -> Phase:
        """Return the phase with the result of its positive controls: those that failed, or None if none was tried."""
        if failed is None:
            return replace(self, controls=NOT_TRIED).doubted("the run was cut before a positive control was tried")
        reported = replace(self, controls="; ".join(failed) or PASSED)
        return reported.doubted("a positive control failed" if failed else "")

    def with_coverage_goals(self, goals: Sequence[str]) -> Phase:
        """Return the phase with its coverage goals; UNKNOWN if one was never reached and nothing was found.

        Where nothing was explored, that is said and no more.
        """
        reached = {**dict.fromkeys(goals, 0), **self.reached}
        missing = [name for name in goals if not reached[name]]
        phase = replace(self, reached=reached)
        if not missing or self.findings or (not self.explored and self.verdict is Verdict.UNKNOWN):
            return phase
        return phase.doubted(f"never reached: {', '.join(missing)}")

    def doubted(self, *reasons: str) -> Phase:
        """Return the phase with reasons why it cannot be VALID, or itself if all are empty."""
        if not any(reasons):
            return self
        note = "; ".join(dict.fromkeys(filter(None, (self.note, *reasons))))
        return replace(self, note=note, verdict=max(self.verdict, Verdict.UNKNOWN))
