"""The explorer of the seam to the operating system: any sequence of calls on real files answers as on simulated ones.

Everything else explores the simulated files, or takes the answers of the real ones for granted.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.verdict import Finding, OnProgress, Phase, Verdict
from tornproof.harness.explorers.storage import forked
from tornproof.harness.explorers.storage.calls import ARGUMENTS, CALLS_MAX, Call, Session, drawn, usable_calls
from tornproof.harness.simulator.filesystem.kernel import BusError
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.storage.interface import LockMode, OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.storage.operating_system_file import OpenFile

PHASE = "storage"
PROPERTY = "files of the operating system answer as the simulated ones do"
CALLS = "calls"
"""The key of the evidence that holds the calls."""
CONTROL_SEQUENCES_MAX = 200
DESCRIPTORS = Path("/proc/self/fd")


class _ReadsOneByteLess(OpenFile):
    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        return super().pread(max(0, size_bytes - 1), offset_bytes)


class _GrantsEveryLock(OpenFile):
    def try_lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> bool:
        super().try_lock(mode, offset_bytes=offset_bytes, size_bytes=size_bytes)
        return True


class _WritesAtTheBeginning(OpenFile):
    def pwrite(self, content: bytes | bytearray | memoryview, offset_bytes: int) -> None:
        super().pwrite(content, 0)


class _NeverCloses(OpenFile):
    left: ClassVar[ExitStack] = ExitStack()

    def close(self) -> None:
        super().close()
        self.left.callback(os.close, os.open(os.devnull, os.O_RDONLY))


STORAGE = "tornproof.impl.storage.operating_system"
CONTROLS: dict[str, tuple[str, Any]] = {
    "a new file that is there already": ("_MODE_FLAGS", dict.fromkeys(OpenMode, os.O_CREAT | os.O_NOFOLLOW)),
    "reads that are a byte too short": ("OpenFile", _ReadsOneByteLess),
    "locks that are always granted": ("OpenFile", _GrantsEveryLock),
    "writes at another place": ("OpenFile", _WritesAtTheBeginning),
    "descriptors that stay open": ("OpenFile", _NeverCloses),
}
"""Mistakes of the storage that must be noticed: what is replaced, and by what."""


def explore_storage(
    sequences_max: int, seed: int, scratch: str, on_progress: OnProgress = lambda done, total: None
) -> Phase:
    """Draw so many sequences of calls, make each of them on both, and make the first that differs smaller.

    Then see whether a forked process reads as the one before it.
    """
    sequence_count, found, answered = _explored(sequences_max, seed, scratch, on_progress)
    findings = [] if found is None else [_finding(_smaller(found, scratch), scratch)]
    if forked.IS_POSSIBLE and (problem := forked.problem()) is not None:
        sentence = f"After a process has read by threads and is forked, {problem}."
        evidence = {forked.FORKED: True}
        findings.append(Finding(property=forked.PROPERTY, phase=PHASE, sentence=sentence, evidence=evidence))
    phase = Phase(
        name=PHASE,
        explored=sequence_count + forked.IS_POSSIBLE,
        complete=False,
        bound=f"{sequence_count} sequences of {CALLS_MAX} calls, random from seed {seed}, of one process; "
        f"{'one forked process' if forked.IS_POSSIBLE else 'no process can be forked here'}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={
            "sequences": sequence_count,
            "calls": sequence_count * CALLS_MAX,
            "forked processes": int(forked.IS_POSSIBLE),
        },
        findings=tuple(findings),
    )
    failed = [*failed_controls(scratch), *forked.failed_controls()]
    return replace(phase, reached=answered).with_coverage_goals([*ARGUMENTS]).with_controls(failed)


def _finding(calls: Sequence[Call], scratch: str) -> Finding:
    different = difference(calls, scratch)
    sentence = f"After {len(calls) - 1} calls on a new folder, {different}." if different else "It happened once only."
    return Finding(property=PROPERTY, phase=PHASE, sentence=sentence, evidence={CALLS: [[*call] for call in calls]})


def replay_storage(finding: Finding) -> Verdict:
    """Make the calls of a finding again; raises KeyError, TypeError or ValueError for what are no such calls."""
    if forked.FORKED in finding.evidence:
        if not forked.IS_POSSIBLE:
            return Verdict.UNKNOWN
        return Verdict.VALID if forked.problem() is None else Verdict.INVALID
    calls = usable_calls(finding.evidence[CALLS])
    with tempfile.TemporaryDirectory() as scratch:
        return Verdict.VALID if difference(calls, scratch) is None else Verdict.INVALID


def failed_controls(scratch: str) -> Iterator[str]:
    """Return each mistake of the storage that is not noticed."""
    for name, (place, broken) in CONTROLS.items():
        with replaced(f"{STORAGE}:{place}", broken), _NeverCloses.left:
            _, found, _ = _explored(CONTROL_SEQUENCES_MAX, 0, scratch)
        if found is None:
            yield f"{name} were not noticed"


def _explored(
    sequences_max: int, seed: int, scratch: str, on_progress: OnProgress = lambda done, total: None
) -> tuple[int, list[Call] | None, Counter[str]]:
    """Return how many sequences were made, the first that differs, and how often each call was answered."""
    answered = Counter[str]()
    chance = np.random.Generator(np.random.PCG64(seed))
    for number in range(1, sequences_max + 1):
        calls = drawn(chance)
        on_progress(number, sequences_max)
        if difference(calls, scratch, answered) is not None:
            return number, calls, answered
    return sequences_max, None, answered


def _smaller(calls: list[Call], scratch: str) -> list[Call]:
    """Leave out calls, the last ones first, until each that is left is needed."""
    for index in reversed(range(len(calls))):
        fewer = calls[:index] + calls[index + 1 :]
        if difference(fewer, scratch) is not None:
            return _smaller(fewer, scratch)
    return calls


def difference(calls: Sequence[Call], scratch: str, answered: Counter[str] | None = None) -> str | None:
    """Make calls in a new folder and on simulated files, and say what answers otherwise; None if nothing does.

    It ends where a real process would be killed by a bus error. In `answered` it counts calls that were no error. Once
    everything is closed, no descriptor may be left.
    """
    before = _descriptor_count()
    found = _different_answer(calls, scratch, answered)
    # Fewer are left if what an earlier sequence could not close is collected meanwhile.
    left_count = _descriptor_count() - before
    return found or (f"{left_count} descriptors stay open" if left_count > 0 else None)


def _descriptor_count() -> int:
    """Return how many descriptors this process has open; 0 where the system does not tell."""
    return len([*DESCRIPTORS.iterdir()]) if DESCRIPTORS.is_dir() else 0


def _different_answer(calls: Sequence[Call], scratch: str, answered: Counter[str] | None) -> str | None:
    with _sessions(scratch) as (memory, simulated, real):
        real.answered = Counter() if answered is None else answered
        for call in calls:
            try:
                expected = simulated.answer(call)
            except BusError:
                return None
            if (answer := real.answer(call)) != expected:
                return f"{_in_words(call)} answers '{answer}', and simulated files '{expected}'"
        if (closed := real.close()) != (expected_ends := simulated.close()):
            return f"what is open is closed with {closed} instead of {expected_ends}"
        if simulated.storage.counters() != real.storage.counters():
            return f"the counters are {real.storage.counters()}, and of simulated files {simulated.storage.counters()}"
        kept, expected_files = _files_below(Path(real.root)), dict(memory.image().files)
        different = [name for name in sorted({*kept, *expected_files}) if kept.get(name) != expected_files.get(name)]
        return f"{Path(different[0]).relative_to(real.root)} has another content" if different else None


@contextmanager
def _sessions(scratch: str) -> Iterator[tuple[MemoryStorage, Session, Session]]:
    """Yield a simulated disk, and sessions on it and on real files in a new folder, which paths may lead out of."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder, ExitStack() as stack:
        root = Path(folder, "top", "inner")
        root.mkdir(parents=True)
        memory = MemoryStorage()
        for parent in reversed([root, *root.parents[:-1]]):
            memory.mkdir(str(parent))
        real = Session(OperatingSystemStorage(), str(root))
        stack.callback(real.close)
        yield memory, Session(memory.fork_process(), str(root)), real


def _files_below(root: Path) -> dict[str, bytes]:
    """Return the content of files by their path; links are none, and neither are files that a link leads to."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path): path.read_bytes() for path in files}


def _in_words(call: Call) -> str:
    name, *arguments = call
    return f"{name}({', '.join(map(repr, arguments))})"
