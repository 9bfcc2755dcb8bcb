"""The crash explorer: a writer is killed after every step and inside every write, recovery included, and calls fail.

Persistence model A: what was written before the kill is kept, whether synced or not, as on every file system. Power
cuts are not explored here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

from tornproof.harness.common import model_controls
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import (
    OF_ANOTHER_RUN,
    Finding,
    HasTime,
    OnProgress,
    Phase,
    Verdict,
    always,
    summed_up,
)
from tornproof.harness.explorers.kills.exploration import (
    PHASE,
    RECOVERY_KILLS_MAX,
    Exploration,
    Plan,
    crash_phase,
)
from tornproof.harness.explorers.kills.judge import Judge, Recovered, Trace
from tornproof.harness.explorers.kills.plan import Failure, Kill, Origin, origin_of, places_of
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.written import replay_prefix
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.toy import (
    AcknowledgesFirst,
    HeaderFirst,
    NeverDone,
    RecoversInPlace,
    SwallowsErrors,
    SyncsAgain,
    Toy,
)
from tornproof.harness.systems.toy_locks import DropsUndo, LockFile, Undo, UndoesInVain
from tornproof.harness.systems.toy_losses import (
    BREAKS_IN_RECOVERY,
    FORBIDS_COMMITS,
    REJECTS_RECOVERY,
    TRUSTS_SECTORS,
    AppendsOnce,
    GivesIn,
    GoesOnBehindLoss,
    IgnoresLaterWrites,
    IgnoresNoSpace,
    LeavesLock,
    TakesPartForWhole,
    TakesUnreadForEmpty,
    UndoesLate,
    UndoesWhatWasSeen,
)
from tornproof.harness.systems.toy_specified import LosesALetter, Specified

Left: TypeAlias = tuple[MemoryStorage, int, int]
"""What a fault leaves: a disk, how many commits were acknowledged before it, and how many had started."""
CONTROL_OPERATIONS = (b"one", b"t", b"three")
SOUND = (Toy(), Specified(), Undo())
CONTROLS = (
    (HeaderFirst(), Property.REJECTED),
    (AcknowledgesFirst(), Property.FAULT_FREE),
    (SwallowsErrors(), Property.SYNCED),
    (SyncsAgain(), Property.SYNCED),
    (RecoversInPlace(), Property.LOST),
    (NeverDone(), Property.IDEMPOTENT),
    (AppendsOnce(), Property.WRONG_SNAPSHOT),
    (UndoesWhatWasSeen(), Property.SEEN_LOST),
    (REJECTS_RECOVERY, Property.RECOVERY),
    (FORBIDS_COMMITS, Property.COMMIT),
    (BREAKS_IN_RECOVERY, Property.DISORDERLY),
    (LosesALetter(), Property.CONTENT),
    # What is lost right after an acknowledgement, and what differs in bytes alone.
    (UndoesLate(CONTROL_OPERATIONS[-1]), Property.LOST),
    (TRUSTS_SECTORS, Property.REJECTED),
    # How calls fail: after a part, a later one, for want of space, and what a failed commit leaves to others.
    (TakesPartForWhole(), Property.WRONG_SNAPSHOT),
    (IgnoresLaterWrites(), Property.WRONG_SNAPSHOT),
    (IgnoresNoSpace(), Property.LOST),
    (LeavesLock(), Property.RECOVERY),
    # A writer that goes on after a commit that it rejected, an opening that fails, and one before every reader.
    (GivesIn(), Property.LOST),
    (GoesOnBehindLoss(), Property.LOST),
    (TakesUnreadForEmpty(), Property.WRONG_SNAPSHOT),
    (DropsUndo(), Property.LOST),
    (UndoesInVain(), Property.LOST),
)
ONE_OPERATION = (b"o",)
"""Enough for the control that waits for ever, because each of its waits takes as many calls as the bound allows."""


def explore_crashes(
    target: Target,
    operations: Sequence[Any],
    *,
    start: DiskImage | None = None,
    path: str,
    cuts_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    expected: Sequence[Hashable] | None = None,
    recovery_kills_max: int = RECOVERY_KILLS_MAX,
) -> Phase:
    """Kill a writer of `operations` in every way of the plan, and check what readers and the next writer see.

    Starts from `start`, else from what the target creates. `expected` is what readers see before the first and after
    each operation, by default as in the fault-free run. Of more than `cuts_max` lengths at which writes can tear, about
    that many are tried. The bound says what was left out for lack of time.
    """
    failed = controls_of_run()
    try:
        judge = Judge(target, operations, start=start, path=path, expected=expected)
    except Violation as violation:
        return fault_free_phase(target, violation)
    plan = Plan.of(judge, cuts_max, recovery_kills_max)
    result = Exploration(judge, target.name, plan, has_time, on_progress).run()
    return crash_phase(plan, [result]).with_controls(failed)


@cache
def controls_of_run() -> tuple[str, ...]:
    """Return the failed controls, which every exploration of this process asks for."""
    return tuple(failures())


def failures() -> Iterator[str]:
    """Explore one toy after the other; describe each broken one not detected, and what was found in a sound one."""
    sound = set().union(*(_violated(target, CONTROL_OPERATIONS) for target in SOUND))
    yield from (f"{name}: {violated}" for name, violated in sorted(sound))
    broken = [*((*control, CONTROL_OPERATIONS) for control in CONTROLS), (LockFile(), Property.ENDS, ONE_OPERATION)]
    for target, violated, operations in broken:
        if (target.name, violated) not in _violated(target, operations):
            yield f"the broken toy {target.name!r} was not detected: {violated}"
    yield from model_controls.failed_controls()


def _violated(target: Target, operations: Sequence[bytes]) -> set[tuple[str, str]]:
    try:
        judge = Judge(target, operations, start=None, path="toy")
    except Violation as violation:
        return {(target.name, violation.violated)}
    result = Exploration(judge, target.name, Plan.of(judge, None, RECOVERY_KILLS_MAX)).run()
    return {(target.name, finding.property) for finding in result.findings.values()}


def replay_crash(
    target: Target,
    operations: Sequence[Any],
    finding: Finding,
    *,
    start: DiskImage | None = None,
    path: str,
    expected: Sequence[Hashable] | None = None,
) -> Verdict:
    """Return INVALID when the finding's fault violates the same property again, VALID when it violates none.

    The fault comes at the same call to the same file, wherever that is now, and at each of several. UNKNOWN when it
    violates another property or cannot be injected: there is no such call any more, or the evidence is invalid.
    """
    try:
        judge = Judge(target, operations, start=start, path=path, expected=expected)
        if finding.property in (Property.FAULT_FREE, Property.CONTENT):
            return Verdict.VALID
        origin = origin_of(finding.evidence)
        faults, kills = _first_faults(judge, origin, path), origin.kills[origin.failure is None :]
    except Violation as violation:
        return violation.verdict_on(finding)
    except OF_ANOTHER_RUN:
        return Verdict.UNKNOWN
    return summed_up(verdict for fault in faults for verdict in _verdicts(judge, finding, path, fault, kills))


def _first_faults(judge: Judge, origin: Origin, path: str) -> list[Callable[[], Left]]:
    """Return what injects the first fault at each call of the run that is like the finding's, the nearest first."""
    trace, failure = judge.trace, origin.failure
    if failure is None:
        kill = origin.kills[0]
        killed: list[Callable[[], Left]]
        killed = [partial(_killed, trace, place, kill.cut_bytes) for place in kill.places(trace.steps, path)]
        if origin.opening is None:
            return killed
        return [fault for each in killed for fault in _failed_openings(judge, each, origin.opening, path)]
    storage = replay_prefix(trace.start, trace.steps, trace.started[failure.operation])
    places = places_of(failure.call, judge.calls_of_commit(storage.copy(), failure.operation), path, failure.fault.at)
    failures = (replace(failure, fault=replace(failure.fault, at=place)) for place in places)
    return [partial(_failed, judge, storage, each, goes_on=not origin.kills) for each in failures]


def _killed(trace: Trace, step_count: int, cut_bytes: int) -> Left:
    return replay_prefix(trace.start, trace.steps, step_count, cut_bytes), *trace.bounds(step_count, cut_bytes)


def _failed_openings(
    judge: Judge, killed: Callable[[], Left], opening: Failure, path: str
) -> Iterator[Callable[[], Left]]:
    """Return what lets each call fail that is like the finding's, of the opening after a kill."""
    calls = judge.calls_of_opening(killed()[0])
    for place in places_of(opening.call, calls, path, opening.fault.at):
        yield partial(_failed_opening, judge, killed, replace(opening, fault=replace(opening.fault, at=place)))


def _failed_opening(judge: Judge, killed: Callable[[], Left], opening: Failure) -> Left:
    left = killed()
    judge.fail_opening(left[0].copy(), *left[1:], opening)
    return left


def _failed(judge: Judge, storage: MemoryStorage, failure: Failure, *, goes_on: bool) -> Left:
    left = judge.fail(storage.copy(), failure)
    if left is None:
        raise ValueError("the call is never made")
    if goes_on:
        # As the explorer does, which may have found something else before the writer went on.
        judge.examine(left[0].copy(), *left[1:])
        judge.commit_again(storage.copy(), failure)
    return left


def _verdicts(
    judge: Judge, finding: Finding, path: str, fault: Callable[[], Left], kills: Sequence[Kill], seen: int = 0
) -> Iterator[Verdict | None]:
    """Yield the verdict on a finding after a fault and kills in the recoveries from it, None if they cannot be."""
    try:
        storage, low, high = fault()
        recovered = judge.examine(storage, low, high, seen)
        if not kills:
            yield Verdict.VALID
            return
        kill, *later = kills
        places = kill.places(recovered.steps, path)
    except Violation as violation:
        yield violation.verdict_on(finding)
    except OF_ANOTHER_RUN:
        yield None
    else:
        for place in places:
            again = partial(_killed_again, recovered, place, kill.cut_bytes, low, high)
            yield from _verdicts(judge, finding, path, again, later, recovered.index)


def _killed_again(recovered: Recovered, step_count: int, cut_bytes: int, low: int, high: int) -> Left:
    return replay_prefix(recovered.before, recovered.steps, step_count, cut_bytes), low, high


def fault_free_phase(target: Target, violation: Violation) -> Phase:
    """Return the phase of a target whose fault-free run violates a property."""
    finding = Finding(
        property=violation.violated,
        phase=PHASE,
        sentence=f"Without any fault: {violation.reason}.",
        evidence={"target": target.name, "kills": []},
    )
    return Phase(
        name=PHASE,
        explored=1,
        complete=False,
        bound="the fault-free run only",
        verdict=Verdict.INVALID,
        findings=(finding,),
    )
