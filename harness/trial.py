"""What a check that is told nothing makes of a fault: phase after phase, in a copy of the package, up to a finding."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tornproof.harness.check import PhaseName
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.mutation.planted_copy import PlantedCopy, planted_copy

PHASES = (
    PhaseName.STATEFUL,
    PhaseName.SCHEDULES,
    PhaseName.CRASH,
    PhaseName.PRODUCT,
    PhaseName.ROUNDTRIP,
    PhaseName.MEMORY,
    PhaseName.POWER,
    PhaseName.PROCESSES,
    PhaseName.DAMAGE,
)
"""The phases of a check in the order in which they are tried: those that find most for their time come first."""
REPLAYS = 10
SECONDS_MAX = 600.0
"""A phase that takes longer hangs: it takes at most half a minute where nothing is planted."""
UNKNOWN_SENTENCE = "it could not be told"

Document: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The trial of one fault with one seed.

    `reached`: its code was executed. `triggered`: a phase counted, or found, something else than without it. `phase` is
    the one whose finding, with its `property_broken` and `sentence`, was the first, after `cpu_seconds` of all
    processes and `case_count` cases; it is a kill if it replayed each of the `replay_count` times. `noticed` are the
    phases that did not end with VALID for another reason: a control that failed, or an exception.
    """

    fault: str
    family: str
    seed: int
    reached: bool
    triggered: bool
    phase: str
    property_broken: str
    sentence: str
    noticed: str
    case_count: int
    cpu_seconds: float
    replayed_count: int
    replay_count: int

    @property
    def detected(self) -> bool:
        """Whether there is a finding that replays each time."""
        return bool(self.phase) and self.replayed_count == self.replay_count


@dataclass(slots=True, kw_only=True)
class Trials:
    """Tries faults on one table, or on a new one; what phases count without a fault is remembered by seed."""

    table: str | None
    effort: str
    phases: Sequence[PhaseName] = PHASES
    replay_count: int = REPLAYS
    _sound: dict[tuple[PhaseName, int], Document] = field(default_factory=dict)

    def run(self, fault: FaultFile, seed: int) -> Trial:
        """Return the trial of a fault; raises PatchError if it does not apply."""
        with planted_copy(fault.patch) as copy:
            cpu_seconds, cases, noticed, is_triggered = 0.0, 0, [], False
            for phase in self.phases:
                begin = _children_cpu_seconds()
                document, findings = self._check(copy, phase, seed)
                cpu_seconds += _children_cpu_seconds() - begin
                found = document["findings"]
                of_phase = [each for each in document["phases"] if each["name"] == phase or found]
                cases += sum(each["explored"] for each in of_phase)
                if document["verdict"] != Verdict.VALID.name and not found:
                    noticed.append(phase)
                is_triggered = is_triggered or bool(found) or _answer(document) != _answer(self.sound(phase, seed))
                if found:
                    break
            first = found[0] if found else {}
            return Trial(
                fault=fault.name,
                family=fault.family,
                seed=seed,
                reached=copy.mark.exists(),
                triggered=is_triggered,
                phase=first.get("phase", ""),
                property_broken=first.get("property", ""),
                sentence=first.get("sentence", ""),
                noticed=", ".join(noticed),
                case_count=cases,
                cpu_seconds=cpu_seconds,
                replayed_count=sum(_replays(copy, findings[0]) for _ in range(self.replay_count)) if findings else 0,
                replay_count=self.replay_count,
            )

    def sound(self, phase: PhaseName, seed: int) -> Document:
        """Return the document of a phase without a fault."""
        if (phase, seed) not in self._sound:
            with planted_copy(None) as copy:
                self._sound[phase, seed] = self._check(copy, phase, seed)[0]
        return self._sound[phase, seed]

    def _check(self, copy: PlantedCopy, phase: PhaseName, seed: int) -> tuple[Document, list[Path]]:
        folder = Path(tempfile.mkdtemp(dir=copy.folder))
        document = folder / "check.json"
        arguments = [*([self.table] if self.table else []), "--only", phase, "--seed", str(seed), "--workers", "1"]
        paths = ["--effort", self.effort, "--json", str(document), "--findings", str(folder / "findings")]
        done = _run(copy, ["check", *arguments, *paths])
        if not document.exists():
            died = {"name": phase, "explored": 0, "note": done}
            return {"verdict": Verdict.UNKNOWN.name, "phases": [died], "findings": []}, []
        return json.loads(document.read_text()), sorted((folder / "findings").glob("*.json"))


def _answer(document: Document) -> object:
    return document["verdict"], [(each["name"], each["explored"], each.get("counts")) for each in document["phases"]]


def _replays(copy: PlantedCopy, finding: Path) -> bool:
    """Return whether a finding happens again in a process of its own."""
    document = finding.with_suffix(".replay")
    _run(copy, ["replay", str(finding), "--json", str(document)])
    return document.exists() and json.loads(document.read_text())["verdict"] == Verdict.INVALID.name


def _run(copy: PlantedCopy, arguments: Sequence[str]) -> str:
    """Run a command of the package in the copy, and return the end of what it complains about."""
    try:
        done = subprocess.run(
            [*copy.python, "-m", "tornproof", *arguments],
            env=copy.environment,
            cwd=copy.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    return done.stderr[-500:]


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
