"""Reads the JSON result of `check`, which may have been edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tornproof.reports.kit.json_fields import Fields, shortened, visible, what_is
from tornproof.reports.kit.page import VERDICTS, worst

FORMATS = (1, 2)
"""In format 1, test cases were called situations."""
TEXT_CHARACTERS_MAX = 2_000
COUNT_LIMIT = 1 << 63
CONTROLS_PASSED = ("", "passed", "none needed")
"""Values of `controls` if none failed."""
INTERRUPTED = "interrupt"

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """How much was explored of one of a phase's test cases."""

    name: str
    explored: int
    complete: bool
    bound: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """The result of one explorer; `fields` holds outcomes of damage by file and field."""

    name: str
    explored: int
    complete: bool
    bound: str = ""
    verdict: str
    seconds: float
    controls: str = ""
    note: str = ""
    counts: Counts
    exposures: Counts
    reached: Counts
    fields: Mapping[str, Mapping[str, Counts]]
    test_cases: tuple[TestCase, ...]

    @property
    def per_second(self) -> float | None:
        """Cases explored per second, None if no time was measured."""
        return self.explored / self.seconds if self.seconds > 0 else None

    @property
    def never_reached(self) -> tuple[str, ...]:
        """The coverage goals that were not reached."""
        return tuple(name for name, count in self.reached.items() if count == 0)

    @property
    def are_controls_passed(self) -> bool:
        """Whether no positive control failed."""
        return self.controls in CONTROLS_PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A finding in the list of a run; `file` is its path there."""

    file: str
    violated: str
    phase: str
    sentence: str

    @property
    def stem(self) -> str:
        """The stem of its file, which is a hash of its content."""
        return PurePath(self.file).stem


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of `check`: `name` is its name in the report, `file` its path.

    `path` is the whole path of what was checked, "" if it has none, or in runs of earlier releases.
    `cut_by` is what ended it before its bounds did, if anything: an interrupt, its time limit, or its first finding.
    """

    file: str
    name: str
    key: str
    target: str
    path: str = ""
    preset: str
    seed: int
    cut_by: str = ""
    verdict: str
    phases: tuple[PhaseResult, ...]
    findings: tuple[Listed, ...]

    @property
    def is_abandoned(self) -> bool:
        """Whether it was interrupted before it had a verdict."""
        return self.cut_by == INTERRUPTED and self.verdict == "UNKNOWN"

    @property
    def series(self) -> tuple[str, str]:
        """What was checked; runs with the same value are comparable.

        A relative path as it was typed, such as `.`, can be that of any table.
        """
        return self.path or self.target, self.preset

    @property
    def is_complete(self) -> bool:
        """Whether each phase was explored to the end of its bound."""
        return all(phase.complete for phase in self.phases)

    @property
    def seconds(self) -> float:
        """Total time of its phases."""
        return sum(phase.seconds for phase in self.phases)


class RunFields(Fields):
    """Fields with texts for a page, and numbers that are counts."""

    def shown(self, text: str) -> str:
        """Return text of any origin, shortened."""
        return shown(text)

    def number(self, name: str, default: int | None = None) -> int:
        """Return a field that is a count; raises ResultError for other numbers."""
        value = super().number(name, default)
        if not 0 <= value < COUNT_LIMIT:
            self.reject(name, "a count", what_is(value))
        return value

    def mapping(self, name: str) -> RunFields:
        """Return a field that is an object; empty if it is missing."""
        return self.inner(name) if name in self else RunFields({}, file=self.file)

    def counts(self, name: str) -> Counts:
        """Return a field that is an object of counts; empty if it is missing."""
        inner = self.mapping(name)
        return {shown(each): inner.number(each) for each in inner.document}

    def verdict(self) -> str:
        """Return the field `verdict`."""
        value = self.text("verdict")
        if value not in VERDICTS:
            self.reject("verdict", " or ".join(VERDICTS), what_is(value))
        return value


def shown(text: str) -> str:
    """Return text of any origin for a page."""
    return visible(shortened(text, TEXT_CHARACTERS_MAX))


def run_of(document: Any, *, file: str, name: str, key: str) -> Run:
    """Return a run from its document; raises ResultError."""
    fields = RunFields(document, file=file)
    fields.demand_format(*FORMATS)
    times = fields.mapping("times").mapping("phases")
    phases = tuple(_phase(each, times) for each in fields.inners("phases"))
    verdict, expected = fields.verdict(), worst(phase.verdict for phase in phases)
    if verdict != expected:
        fields.reject("verdict", f"{expected}, as its phases say", verdict)
    findings = tuple(
        each.record(Listed, file=visible(each.whole_text("file")), violated=each.text("property"))
        for each in fields.inners("findings")
    )
    path = fields.whole_text("path", "")
    return fields.record(
        Run, file=file, name=name, key=key, path=path, verdict=verdict, phases=phases, findings=findings
    )


def _phase(fields: RunFields, times: RunFields) -> PhaseResult:
    by_file = fields.mapping("fields")
    test_cases = fields.mapping("test_cases" if "test_cases" in fields else "situations")
    name = fields.whole_text("name")
    return fields.record(
        PhaseResult,
        verdict=fields.verdict(),
        # Runs of earlier releases have the time in the phase.
        seconds=_seconds(times.inner(name) if name in times else fields),
        counts=fields.counts("counts"),
        exposures=fields.counts("exposures"),
        reached=fields.counts("reached"),
        fields={
            shown(file): {shown(name): fields_of_file.counts(name) for name in fields_of_file.document}
            for file, fields_of_file in ((file, by_file.inner(file)) for file in by_file.document)
        },
        test_cases=tuple(test_cases.inner(each).record(TestCase, name=shown(each)) for each in test_cases.document),
    )


def _seconds(fields: RunFields) -> float:
    value = fields.document.get("seconds")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < COUNT_LIMIT:
        fields.reject("seconds", "a number of seconds", what_is(value))
    return float(value)
