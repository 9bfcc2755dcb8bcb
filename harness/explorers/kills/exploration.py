"""One exploration of a target by kills and failing calls: the distinct disks, and the findings on them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.kills.judge import Judge
from tornproof.harness.explorers.kills.plan import Cuts, Failing, Failure, Kill, Origin, few_cuts
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.filesystem.written import crash_points, replay_prefix

PHASE = "crash"
RECOVERY_KILLS_MAX = 2
WHOLE, FAILING, OPENING, CUT = "whole steps", "failing calls", "failing calls in openings", "cut writes"
OLD_STATE = "a kill inside a commit left the state before it"
NEW_STATE = "a kill inside a commit left the state after it"
WORKING_RECOVERY = "a recovery that wrote"
KILLED_RECOVERY = "a kill inside a recovery"
FAILED_CALL = "a call of a commit failed"
FAILED_OPENING = "a call of an opening failed"
POINTS = (OLD_STATE, NEW_STATE, WORKING_RECOVERY, KILLED_RECOVERY, FAILED_CALL, FAILED_OPENING)
COVERAGE_GOALS = (OLD_STATE, FAILED_CALL)
NEVER_MADE = "failing calls were never made"
ALL = 1 << 62

_NONE: Counter[str] = Counter()

SeenDisk: TypeAlias = tuple[bytes, int, int, int]
"""Digest of a disk, commits acknowledged, started, and read before the last kill."""
Signature: TypeAlias = tuple[object, ...]


class Share(NamedTuple):
    """The points of one kind from index `start` up to `stop`."""

    kind: str
    start: int = 0
    stop: int = ALL


EVERYTHING = (Share(WHOLE), Share(FAILING), Share(CUT), Share(OPENING))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareResult:
    """The result of one or several shares: the distinct disks, and one finding of each signature."""

    seen: frozenset[SeenDisk]
    counts: Counter[str]
    reached: Counter[str]
    left: Counter[str]
    findings: dict[Signature, Finding]

    @property
    def has_finding(self) -> bool:
        """Whether it has one at least."""
        return bool(self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there is to visit, as the fault-free run shows."""

    commit_count: int
    step_count: int
    cuts: Cuts
    failing: Failing
    recovery_kills_max: int
    point_counts: dict[str, int]
    """How many points of each kind there are."""

    @classmethod
    def of(
        cls, judge: Judge, cuts_max: int | None, recovery_kills_max: int, failing_calls_max: int | None = None
    ) -> Plan:
        """Plan about `cuts_max` cut writes and `failing_calls_max` failing calls, or all."""
        trace = judge.trace
        cuts = Cuts.at_most(cuts_max, trace.steps)
        failing = Failing.at_most(failing_calls_max, judge.failures())
        return cls(
            commit_count=len(trace.started),
            step_count=len(trace.steps),
            cuts=cuts,
            failing=failing,
            recovery_kills_max=recovery_kills_max,
            point_counts={
                WHOLE: len(trace.steps) + 1,
                FAILING: sum(1 for _ in failing.of(judge.failures())),
                CUT: sum(len(cuts.of(step)) for step in trace.steps if step.kind is CallKind.PWRITE),
                OPENING: sum(1 for _ in judge.opening_failures(failing)),
            },
        )

    def shares(self, size: int) -> list[Share]:
        """Split all points into shares of at most `size`."""
        return [
            Share(kind, start, min(start + size, count))
            for kind, count in self.point_counts.items()
            for start in range(0, count, size)
        ]


@dataclass(frozen=True, slots=True)
class _Disk:
    """A disk to be judged; `seen` commits were read before the last kill."""

    storage: MemoryStorage
    origin: Origin
    seen: int


class Exploration:
    """Visits the points of a plan in a fixed order; shares of them may be visited in parallel."""

    def __init__(
        self,
        judge: Judge,
        target: str,
        plan: Plan,
        has_time: HasTime = always,
        on_progress: OnProgress = lambda done, total: None,
    ) -> None:
        """Explore for `judge`'s target while there is time."""
        self._judge = judge
        self._target = target
        self._cuts = plan.cuts
        self._failing = plan.failing
        self._has_time = has_time
        self._on_progress = on_progress
        self._recovery_kills_max = plan.recovery_kills_max
        self._seen: dict[SeenDisk, int] = {}
        self._findings: dict[Signature, Finding] = {}
        self._counts: Counter[str] = Counter()
        self._reached: Counter[str] = Counter(dict.fromkeys(POINTS, 0))
        self._left: Counter[str] = Counter()

    def run(self, shares: Sequence[Share] = EVERYTHING) -> ShareResult:
        """Visit the points of these shares."""
        for share in shares:
            if share.kind == FAILING:
                self._fail(share)
            elif share.kind == OPENING:
                self._fail_openings(share)
            else:
                self._kill(share)
        return ShareResult(
            seen=frozenset(self._seen),
            counts=self._counts,
            reached=self._reached,
            left=self._left,
            findings=self._findings,
        )

    def _kill(self, share: Share) -> None:
        trace, is_cut = self._judge.trace, share.kind == CUT
        points = crash_points(trace.start, trace.steps, self._cuts.of if is_cut else lambda step: ())
        wanted = (point for point in points if bool(point[2]) is is_cut)
        for storage, step_count, cut_bytes in islice(wanted, share.start, share.stop):
            if self._begins(share.kind):
                low, high = trace.bounds(step_count, cut_bytes)
                self._visit(storage, low, high, Origin((Kill(step_count, cut_bytes),)))

    def _fail(self, share: Share) -> None:
        for failure in islice(self._failing.of(self._judge.failures()), share.start, share.stop):
            if not self._begins(FAILING):
                continue
            origin, trace = Origin(failure=failure), self._judge.trace
            base = replay_prefix(trace.start, trace.steps, trace.started[failure.operation])
            try:
                failed = self._judge.fail(base.copy(), failure)
            except Violation as violation:
                self._find(violation, origin)
                continue
            if failed is None:
                self._left[NEVER_MADE] += 1
                continue
            self._reached[FAILED_CALL] += 1
            self._visit(*failed, origin)
            try:
                self._judge.commit_again(base, failure)
            except Violation as violation:
                self._find(violation, origin)

    def _fail_openings(self, share: Share) -> None:
        for origin in islice(self._judge.opening_failures(self._failing), share.start, share.stop):
            if not self._begins(OPENING):
                continue
            trace, step_count, opening = self._judge.trace, origin.kills[0].step_count, origin.opening
            assert opening is not None
            storage = replay_prefix(trace.start, trace.steps, step_count)
            self._reached[FAILED_OPENING] += 1
            try:
                self._judge.fail_opening(storage, *trace.bounds(step_count, 0), opening)
            except Violation as violation:
                self._find(violation, origin)

    def _begins(self, kind: str) -> bool:
        """Count a point, and say whether there is time for it."""
        if not self._has_time():
            self._left[kind] += 1
            return False
        self._counts[kind] += 1
        self._on_progress(len(self._seen), None)
        return True

    def _visit(self, storage: MemoryStorage, low: int, high: int, origin: Origin) -> None:
        """Judge a disk and, unless a write was cut, the disks after kills in its recovery; fewer kills come first."""
        pending = deque(self._unseen(storage, low, high, origin, low))
        while pending:
            disk = pending.popleft()
            if disk.origin.recovery_kill_count and not self._has_time():
                self._left["kills in recovery"] += 1
                continue
            try:
                recovered = self._judge.examine(disk.storage, low, high, disk.seen)
            except Violation as violation:
                self._find(violation, disk.origin)
                continue
            if low < high and origin.failure is None:
                # A commit may change nothing that a reader sees.
                states = self._judge.trace.observations
                self._reached[OLD_STATE if states[recovered.index] == states[low] else NEW_STATE] += 1
            if not recovered.steps:
                continue
            self._reached[WORKING_RECOVERY] += 1
            if origin.is_inside_a_write or disk.origin.recovery_kill_count >= self._recovery_kills_max:
                self._counts["recoveries killed no further"] += 1
                continue
            for inner, step_count, cut_bytes in crash_points(recovered.before, recovered.steps, few_cuts):
                self._reached[KILLED_RECOVERY] += 1
                kill = Kill.of(recovered.steps, step_count, cut_bytes)
                pending.extend(self._unseen(inner, low, high, disk.origin.then(kill), recovered.index))

    def _unseen(self, storage: MemoryStorage, low: int, high: int, origin: Origin, seen: int) -> Iterator[_Disk]:
        """Yield a copy of the disk, unless it was visited after as few kills of recoveries."""
        key = storage.digest(), low, high, seen
        kill_count = origin.recovery_kill_count
        if kill_count < self._seen.get(key, kill_count + 1):
            self._seen[key] = kill_count
            yield _Disk(storage.copy(), origin, seen)

    def _find(self, violation: Violation, origin: Origin) -> None:
        """Keep the first finding of each signature, and count the rest."""
        self._counts["violations"] += 1
        description, location = self._describe(origin)
        signature = violation.violated, location, origin.recovery_kill_count > 0
        if signature not in self._findings:
            self._findings[signature] = Finding(
                property=violation.violated,
                phase=PHASE,
                sentence=f"{violation.reason}. {description}.",
                evidence={"target": self._target, **self._judge.trace.position(origin), **origin.evidence()},
            )

    def _describe(self, origin: Origin) -> tuple[str, tuple[object, ...]]:
        """Describe the injected fault, and return the part of it that belongs to the signature."""
        kill_count = origin.recovery_kill_count
        recovery = f", with {kill_count} kill{'s' * (kill_count > 1)} in recovery" if kill_count else ""
        if origin.failure is not None:
            where = f"in commit {origin.failure.operation + 1}"
            return f"When {_failing(origin.failure, where)}{recovery}", ("failure", _name(origin.failure.call))
        steps, kill = self._judge.trace.steps, origin.kills[0]
        step = steps[min(kill.step_count, len(steps) - 1)] if steps else None
        inside = f" and {kill.cut_bytes} bytes of the next" if kill.cut_bytes else ""
        next_words = f", before the call to {step.kind} {step.path}" if step and kill.step_count < len(steps) else ""
        killed = f"Killed after {kill.step_count} steps{inside}{next_words}{recovery}"
        if origin.opening is not None:
            failing = _failing(origin.opening, "in the opening after that")
            return f"{killed}, when {failing}", ("opening", _name(origin.opening.call))
        return killed, ("kill", step and _name(step))


def _failing(failure: Failure, where: str) -> str:
    call, fault = failure.call, failure.fault
    part = f" after {fault.written_bytes} bytes" if fault.written_bytes else ""
    return f"the call to {call.kind} {call.path} {where} fails{part} ({fault.reason})"


def _name(call: Call) -> str:
    return call.path.rpartition("/")[2]


def crash_phase(plan: Plan, results: Sequence[ShareResult], not_begun: Counter[str] = _NONE) -> Phase:
    """Combine the results of all shares into a phase."""
    counts, reached, left = (
        sum((getattr(each, name) for each in results), Counter[str]()) for name in ("counts", "reached", "left")
    )
    missed = sum((Counter(plan.point_counts) - counts - left - not_begun).values())
    seen = frozenset[SeenDisk]().union(*(each.seen for each in results))
    left += not_begun
    findings = {signature: found for each in reversed(results) for signature, found in each.findings.items()}
    skipped = "".join(f"; {count} {name} were not tried" for name, count in sorted(left.items()) if name != NEVER_MADE)
    phase = Phase(
        name=PHASE,
        explored=len(seen),
        complete=not left,
        bound=f"process kill of {plan.commit_count} commits with {plan.step_count} steps, {plan.cuts}; "
        f"kills in up to {plan.recovery_kills_max} recoveries after a kill between steps or a failing call, at "
        f"three lengths of each write; {plan.failing}; {STEP_BOUND}{skipped}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={**counts, "steps": plan.step_count, "distinct disks": len(seen)},
        reached={name: reached[name] for name in POINTS},
        findings=tuple(findings.values()),
    )
    # Calls of mapped memory alone cannot fail.
    goals = [goal for goal in COVERAGE_GOALS if goal != FAILED_CALL or plan.point_counts[FAILING]]
    return phase.with_coverage_goals(goals).doubted(
        f"{left[NEVER_MADE]} {NEVER_MADE}: the target is not deterministic" if left[NEVER_MADE] else "",
        f"{missed} planned points were left out" if missed else "",
    )
