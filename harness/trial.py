"""Trials of a fault: what an explorer that is told where to look, and a check that is told nothing, make of it.

A trial of a check runs in a copy of the package, as a user would call it, up to the first finding.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.check import PhaseName
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.mutation.fault_file import FaultFile
from tornproof.harness.mutation.planted_copy import PlantedCopy, planted_copy

PHASES = tuple(phase for phase in PhaseName if phase not in (PhaseName.VERIFY, PhaseName.RANDOM, PhaseName.SERVER))
"""The phases that explore a given table."""
CHECK = "check"
"""What stands for the phase where several were tried side by side, and none has a finding."""
TOLD = "told"
"""What stands for the phase where an explorer is told the scenario."""
REPLAYS = 10
SECONDS_MAX = 1800.0
"""A process that takes longer hangs: a check takes a few minutes where nothing is planted."""
COMPLAINT_CHARACTERS_MAX = 500
HANGS = "it hangs"
PARTS = 3
"""One of so many parts of the faults is set aside: nobody looks into why they are missed."""
_TEXTS = ("fault", "family", "argument", "phase", "verdict", "property", "sentence", "cause")
_COUNTS = ("seed", "case_count", "replayed_count", "replay_count")
_TYPES = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(_COUNTS, pa.int64()),
    **dict.fromkeys(("is_set_aside", "reached", "triggered"), pa.bool_()),
    "cpu_seconds": pa.float64(),
}
SCHEMA = pa.schema([pa.field(name, of, nullable=False) for name, of in _TYPES.items()])
"""A row for each fault and seed, with the phase that has the first finding; or one for each phase that was tried alone.

`cpu_seconds` is the time of the processes, with their start, to the first finding, or to the end where there is none.
"""

Document: TypeAlias = Mapping[str, Any]
Row: TypeAlias = dict[str, Any]


def is_set_aside(name: str) -> bool:
    """Return whether a fault belongs to the third that was drawn, by a checksum of its name, before any tuning."""
    return zlib.crc32(name.encode()) % PARTS == 0


def seed_of(name: str, count: int) -> int:
    """Return the one of so many seeds that is drawn for a fault, whether or not it is set aside."""
    return zlib.crc32(name.encode()) // PARTS % count


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that has ended: the CPU time of it and its children, and what it complained about."""

    cpu_seconds: float
    complaint: str


@dataclass(slots=True, kw_only=True)
class Trials:
    """Tries faults on one table, or on a new one; what phases count without a fault is remembered by seed.

    With `tries_all` each phase is tried alone, whether or not another one finds the fault. Several threads may use it.
    """

    table: str | None
    effort: str
    phases: Sequence[PhaseName] = PHASES
    replay_count: int = REPLAYS
    tries_all: bool = False
    _sound: dict[tuple[tuple[PhaseName, ...], int], Document] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _is_stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        # A check that is told no phase tries all of them.
        assert self.phases

    def rows(self, fault: FaultFile, seed: int) -> Iterator[Row]:
        """Yield the rows of SCHEMA for a fault and a seed; raises PatchError if it does not apply."""
        with planted_copy(fault.patch) as copy:
            for phases in [(each,) for each in self.phases] if self.tries_all else [tuple(self.phases)]:
                yield {**_of_fault(fault), "seed": seed, **self._row(copy, phases, seed)}

    def told_row(self, fault: FaultFile) -> Row:
        """Return the row of SCHEMA for the cheapest explorer of a fault, told its scenario, in a process of its own."""
        with planted_copy(None) as copy:
            path = copy.folder / "run.json"
            ended = self._run(copy, ["-m", "tornproof.harness.mutation.told", fault.name, str(path)])
            run = json.loads(path.read_text()) if path.exists() else {}
        detected = bool(run.get("detected"))
        return {
            **_of_fault(fault),
            "seed": 0,
            "phase": TOLD,
            "verdict": (Verdict.INVALID if detected else Verdict.VALID if run else Verdict.UNKNOWN).name,
            "reached": bool(run.get("reached")),
            "triggered": bool(run.get("triggered")),
            "property": run.get("property", ""),
            "sentence": "" if run else ended.complaint,
            "cause": "",
            "case_count": run.get("explored_count", 0),
            "cpu_seconds": run.get("cpu_seconds", ended.cpu_seconds),
            "replayed_count": 0,
            "replay_count": 0,
        }

    def stop(self) -> None:
        """Kill what runs in other threads, and what they start from now on: its rows are UNKNOWN."""
        self._is_stopped.set()
        for process in tuple(self._running):
            process.kill()

    def _row(self, copy: PlantedCopy, phases: tuple[PhaseName, ...], seed: int) -> Row:
        copy.mark.unlink(missing_ok=True)
        document, files, cpu_seconds = self._check(copy, phases, seed)
        first: Row = next(iter(document["findings"]), {})
        is_same = not first and _answer(document) == _answer(self._sound_document(phases, seed))
        return {
            "phase": phases[0] if len(phases) == 1 else first.get("phase", CHECK),
            "verdict": document["verdict"],
            "reached": copy.mark.exists(),
            "triggered": not is_same,
            "property": first.get("property", ""),
            "sentence": first.get("sentence", "") or _doubts(document),
            "cause": "; ".join(first.get("causes", ())),
            "case_count": sum(each["explored"] for each in document["phases"]),
            "cpu_seconds": cpu_seconds,
            "replayed_count": sum(self._replays(copy, files[0]) for _ in range(self.replay_count)) if files else 0,
            "replay_count": self.replay_count,
        }

    def _sound_document(self, phases: tuple[PhaseName, ...], seed: int) -> Document:
        with self._lock:
            if (phases, seed) not in self._sound:
                with planted_copy(None) as copy:
                    self._sound[phases, seed] = self._check(copy, phases, seed)[0]
            return self._sound[phases, seed]

    def _check(self, copy: PlantedCopy, phases: tuple[PhaseName, ...], seed: int) -> tuple[Document, list[Path], float]:
        folder = Path(tempfile.mkdtemp(dir=copy.folder))
        path = folder / "check.json"
        only = [argument for phase in phases for argument in ("--only", phase)]
        arguments = [*([self.table] if self.table else []), *only, "--seed", str(seed), "--workers", "1"]
        outputs = ["--fail-fast", "--effort", self.effort, "--json", str(path), "--findings", str(folder / "findings")]
        ended = self._run(copy, ["-m", "tornproof", "check", *arguments, *outputs])
        if not path.exists():
            died = {"name": ", ".join(phases), "explored": 0, "note": ended.complaint}
            return {"verdict": Verdict.UNKNOWN.name, "phases": [died], "findings": []}, [], ended.cpu_seconds
        document = json.loads(path.read_text())
        cpu_seconds = ended.cpu_seconds - _cpu_seconds_after(document["times"])
        return document, [Path(each["file"]) for each in document["findings"]], cpu_seconds

    def _replays(self, copy: PlantedCopy, finding: Path) -> bool:
        """Return whether a finding happens again in a process of its own."""
        document = finding.with_suffix(".replay")
        self._run(copy, ["-m", "tornproof", "replay", str(finding), "--json", str(document)])
        return document.exists() and json.loads(document.read_text())["verdict"] == Verdict.INVALID.name

    def _run(self, copy: PlantedCopy, arguments: Sequence[str]) -> Ended:
        """Run Python in the copy; a process that hangs is killed with all that it started."""
        with (copy.folder / "complaints").open("w+", errors="backslashreplace") as complaints:
            process = subprocess.Popen(
                [*copy.python, *arguments],
                env=copy.environment,
                cwd=copy.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
            )
            self._running.add(process)
            if self._is_stopped.is_set():
                process.kill()
            clock = threading.Timer(SECONDS_MAX, process.kill)
            clock.start()
            # Only this call tells the CPU time of one child.
            _, status, used = os.wait4(process.pid, 0)
            self._running.discard(process)
            clock.cancel()
            process.returncode = code = os.waitstatus_to_exitcode(status)
            complaints.seek(0)
            said = complaints.read()[-COMPLAINT_CHARACTERS_MAX:]
        return Ended(cpu_seconds=used.ru_utime + used.ru_stime, complaint=HANGS if code == -signal.SIGKILL else said)


def _of_fault(fault: FaultFile) -> Row:
    return {
        "fault": fault.name,
        "family": fault.family,
        "is_set_aside": is_set_aside(fault.name),
        "argument": fault.argument,
    }


def _cpu_seconds_after(times: Document) -> float:
    """Return the CPU time of what ran after the first finding was there, to make it smaller."""
    first: float | None = times["first_finding_cpu_seconds"]
    return 0.0 if first is None else sum(each["cpu_seconds"] for each in times["phases"].values()) - first


def _answer(document: Document) -> object:
    return document["verdict"], [(each["name"], each["explored"], each.get("counts")) for each in document["phases"]]


def _doubts(document: Document) -> str:
    """Return why a phase without a finding is not VALID."""
    return "; ".join(
        f"{each['name']}: {each.get('note') or each.get('controls')}"
        for each in document["phases"]
        if each.get("verdict") != Verdict.VALID.name
    )
