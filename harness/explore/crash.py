"""The crash explorer: a writer is killed after every step and inside every write, also in recovery, and calls fail.

Model A of persistence: what was written before the kill is there, whether synced or not. Every file system keeps that
promise to a killed process; what a power cut leaves is not explored here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from harness.disk.image import DiskImage
from harness.disk.written import replay_prefix
from harness.explore.crash_exploration import PHASE, RECOVERY_KILLS_MAX, Exploration, OnProgress
from harness.explore.crash_judge import Judge, Property, Violation
from harness.explore.crash_plan import Origin, origin_of
from harness.targets.protocol import Target
from harness.targets.toy import AcknowledgesFirst, HeaderFirst, NeverDone, RecoversInPlace, SwallowsErrors, Toy
from harness.verdict import Finding, Phase, Verdict

Clock = Callable[[], float]
CONTROL_OPERATIONS = (b"one", b"t", b"three")
CONTROLS = (
    (HeaderFirst(), Property.READABLE),
    (AcknowledgesFirst(), Property.UNDISTURBED),
    (SwallowsErrors(), Property.SYNCED),
    (RecoversInPlace(), Property.DURABLE),
    (NeverDone(), Property.IDEMPOTENT),
)


def explore_crashes(
    target: Target,
    operations: Sequence[Any],
    *,
    start: DiskImage | None = None,
    path: str,
    clock: Clock,
    seconds: float,
    on_progress: OnProgress = lambda done, total: None,
    expected: Sequence[Hashable] | None = None,
    recovery_kills_max: int = RECOVERY_KILLS_MAX,
) -> Phase:
    """Kill a writer of `operations` in every way of the plan, and check what readers and the next writer make of it.

    Starts from `start`, else from what the target creates. `expected` is what readers see before the first and after
    each operation; without it the undisturbed run says so. Runs for about `seconds` of `clock`; if whole steps, failing
    calls or kills in recovery are left then, the verdict is UNKNOWN; if lengths of torn writes are, the bound says so.
    """
    begin = clock()
    failed = failed_controls()
    try:
        judge = Judge(target, operations, start=start, path=path, expected=expected)
    except Violation as violation:
        return _undisturbed_phase(target, violation, clock() - begin)
    exploration = Exploration(judge, target.name, lambda: clock() - begin < seconds, on_progress, recovery_kills_max)
    exploration.run()
    phase = exploration.phase(clock() - begin)
    if not failed:
        return phase
    notes = "; ".join(filter(None, (phase.note, "a positive control failed")))
    return dataclasses.replace(
        phase, controls="; ".join(failed), note=notes, verdict=max(phase.verdict, Verdict.UNKNOWN)
    )


def failed_controls() -> list[str]:
    """Explore toys and return in words which broken one was not convicted, and if the sound one was."""
    failures = [f"{name}: {violated}" for name, violated in sorted(_violated(Toy()))]
    for target, violated in CONTROLS:
        if (target.name, violated) not in _violated(target):
            failures.append(f"the toy that {target.name!r} was not convicted: {violated}")
    return failures


def _violated(target: Target) -> set[tuple[str, str]]:
    try:
        judge = Judge(target, CONTROL_OPERATIONS, start=None, path="toy")
    except Violation as violation:
        return {(target.name, violation.violated)}
    exploration = Exploration(judge, target.name, lambda: True, lambda done, total: None)
    exploration.run()
    return {(target.name, finding.property) for finding in exploration.phase(0.0).findings}


def replay_crash(
    target: Target,
    operations: Sequence[Any],
    finding: Finding,
    *,
    start: DiskImage | None = None,
    path: str,
    expected: Sequence[Hashable] | None = None,
) -> Verdict:
    """Return INVALID when the finding's disturbance violates the same property again, VALID when not.

    UNKNOWN when it cannot be tried: the run has other steps now, or the evidence is none.
    """
    try:
        judge = Judge(target, operations, start=start, path=path, expected=expected)
        if finding.property == Property.UNDISTURBED:
            return Verdict.VALID
        _replay(judge, origin_of(finding.evidence))
    except Violation as violation:
        return Verdict.INVALID if violation.violated == finding.property else Verdict.UNKNOWN
    except (KeyError, TypeError, ValueError, IndexError):
        return Verdict.UNKNOWN
    return Verdict.VALID


def _replay(judge: Judge, origin: Origin) -> None:
    course = judge.course
    kills = list(origin.kills)
    if origin.failure is None:
        first = kills.pop(0)
        storage = replay_prefix(course.start, course.steps, first.step_count, first.cut_bytes)
        low, high = course.bounds(first.step_count, first.cut_bytes)
    else:
        at = course.started[origin.failure.operation]
        failed = judge.fail(replay_prefix(course.start, course.steps, at), origin.failure)
        if failed is None:
            raise ValueError("the call never came")
        storage, low, high = failed
    seen = 0
    for kill in kills:
        recovered = judge.examine(storage, low, high, seen)
        storage = replay_prefix(recovered.before, recovered.steps, kill.step_count, kill.cut_bytes)
        seen = recovered.index
    judge.examine(storage, low, high, seen)


def _undisturbed_phase(target: Target, violation: Violation, seconds: float) -> Phase:
    finding = Finding(
        property=violation.violated.value,
        phase=PHASE,
        sentence=f"Without any disturbance: {violation.reason}.",
        evidence={"target": target.name, "kills": []},
    )
    return Phase(
        name=PHASE,
        explored=1,
        complete=False,
        bound="the undisturbed run only",
        verdict=Verdict.INVALID,
        seconds=seconds,
        findings=(finding,),
    )
