"""The result of `check` as its JSON says it, read with care: anybody may have edited the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tornproof.reports.kit.json_fields import Fields, shortened, visible, what_is
from tornproof.reports.kit.page import VERDICTS, worst

FORMAT = 1
TEXT_CHARACTERS_MAX = 2_000
COUNT_LIMIT = 1 << 63
CONTROLS_PASSED = ("", "passed", "none needed")
"""What a phase says of its controls where none of them failed."""
INTERRUPTED = "interrupt"

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How much was explored of one of a phase's situations."""

    name: str
    explored: int
    complete: bool
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """The result of one explorer; `fields` holds outcomes of damage by file and field."""

    name: str
    explored: int
    complete: bool
    bound: str
    verdict: str
    seconds: float
    controls: str
    note: str
    counts: Counts
    exposures: Counts
    reached: Counts
    fields: Mapping[str, Mapping[str, Counts]]
    situations: tuple[Situation, ...]

    @property
    def per_second(self) -> float | None:
        """How many were explored in a second, None where it took no time that was measured."""
        return self.explored / self.seconds if self.seconds > 0 else None

    @property
    def never_reached(self) -> tuple[str, ...]:
        """The must-reach points that were not reached."""
        return tuple(name for name, count in self.reached.items() if count == 0)

    @property
    def are_controls_passed(self) -> bool:
        """Whether no positive control failed."""
        return self.controls in CONTROLS_PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A finding as a run lists it; `file` is how the run calls its file."""

    file: str
    violated: str
    phase: str
    sentence: str

    @property
    def stem(self) -> str:
        """The name of its file, which follows from its content."""
        return PurePath(self.file).stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of `check`: `name` is what the report calls it, `file` where it stands.

    `cut_by` is what ended it before its bounds did, if anything: somebody who interrupted it, or its ceiling of time.
    """

    file: str
    name: str
    key: str
    target: str
    preset: str
    seed: int
    cut_by: str
    verdict: str
    phases: tuple[PhaseResult, ...]
    findings: tuple[Listed, ...]

    @property
    def is_abandoned(self) -> bool:
        """Whether somebody interrupted it before it came to a verdict: it says nothing of the table."""
        return self.cut_by == INTERRUPTED and self.verdict == "UNKNOWN"

    @property
    def series(self) -> tuple[str, str]:
        """What was checked: runs of the same can be compared."""
        return self.target, self.preset

    @property
    def seconds(self) -> float:
        """How long its phases took together."""
        return sum(phase.seconds for phase in self.phases)


def run_of(document: Any, *, file: str, name: str, key: str) -> Run:
    """Return a run from its document; raises ResultError."""
    fields = Fields(document, file=file)
    fields.demand_format(FORMAT)
    times = _mapping(_mapping(fields, "times"), "phases")
    phases = tuple(_phase(each, times) for each in fields.inners("phases"))
    verdict, expected = _verdict(fields), worst(phase.verdict for phase in phases)
    if verdict != expected:
        fields.refuse("verdict", f"{expected}, as its phases say", verdict)
    return Run(
        file=file,
        name=name,
        key=key,
        target=_text(fields, "target"),
        preset=_text(fields, "preset"),
        seed=_count(fields, "seed"),
        cut_by=_text(fields, "cut_by", ""),
        verdict=verdict,
        phases=phases,
        findings=tuple(_listed(each) for each in fields.inners("findings")),
    )


def _phase(fields: Fields, times: Fields) -> PhaseResult:
    by_file = _mapping(fields, "fields")
    situations = _mapping(fields, "situations")
    return PhaseResult(
        name=_text(fields, "name"),
        explored=_count(fields, "explored"),
        complete=fields.flag("complete"),
        bound=_text(fields, "bound", ""),
        verdict=_verdict(fields),
        # Runs of earlier releases have the time in the phase.
        seconds=_seconds(times.inner(name) if (name := fields.text("name")) in times else fields),
        controls=_text(fields, "controls", ""),
        note=_text(fields, "note", ""),
        counts=_counts(fields, "counts"),
        exposures=_counts(fields, "exposures"),
        reached=_counts(fields, "reached"),
        fields={
            _shown(file): {_shown(name): _counts(fields_of_file, name) for name in fields_of_file.document}
            for file, fields_of_file in ((file, by_file.inner(file)) for file in by_file.document)
        },
        situations=tuple(_situation(name, situations.inner(name)) for name in situations.document),
    )


def _situation(name: str, fields: Fields) -> Situation:
    return Situation(
        name=_shown(name),
        explored=_count(fields, "explored"),
        complete=fields.flag("complete"),
        bound=_text(fields, "bound", ""),
    )


def _listed(fields: Fields) -> Listed:
    return Listed(
        file=fields.text("file"),
        violated=_text(fields, "property"),
        phase=_text(fields, "phase"),
        sentence=_text(fields, "sentence"),
    )


def _text(fields: Fields, name: str, default: str | None = None) -> str:
    return _shown(fields.text(name, default))


def _shown(text: str) -> str:
    """Return text of any origin as a page can show it."""
    return visible(shortened(text, TEXT_CHARACTERS_MAX))


def _verdict(fields: Fields) -> str:
    value = fields.text("verdict")
    if value not in VERDICTS:
        fields.refuse("verdict", " or ".join(VERDICTS), what_is(value))
    return value


def _count(fields: Fields, name: str) -> int:
    value = fields.number(name)
    if not 0 <= value < COUNT_LIMIT:
        fields.refuse(name, "a count", what_is(value))
    return value


def _counts(fields: Fields, name: str) -> Counts:
    inner = _mapping(fields, name)
    return {_shown(each): _count(inner, each) for each in inner.document}


def _mapping(fields: Fields, name: str) -> Fields:
    """Return a field that is an object; one that is missing is an empty one."""
    return fields.inner(name) if name in fields else Fields({}, file=fields.file)


def _seconds(fields: Fields) -> float:
    value = fields.document.get("seconds")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < COUNT_LIMIT:
        fields.refuse("seconds", "a number of seconds", what_is(value))
    return float(value)
