"""One exploration of a target by kills and failing calls: the disks that were seen, and what was found on them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.disk.intercept import Call
from harness.disk.memory import MemoryStorage
from harness.disk.written import crash_points, replay_prefix
from harness.explore.crash_judge import Judge, Violation
from harness.explore.crash_plan import CUTS_IN_WORDS, Kill, Origin, border_cuts, failures, few_cuts, sampled_cuts
from harness.verdict import Finding, Phase, Verdict

PHASE = "crash"
RECOVERY_KILLS_MAX = 2
CUTS = "cut writes"
SAMPLE = "sampled cuts"
CUT_PARTS = 8
OLD_STATE = "a kill inside a commit left the state before it"
NEW_STATE = "a kill inside a commit left the state after it"
WORKING_RECOVERY = "a recovery that wrote"
KILLED_RECOVERY = "a kill inside a recovery"
FAILED_CALL = "a call of a commit failed"
POINTS = (OLD_STATE, NEW_STATE, WORKING_RECOVERY, KILLED_RECOVERY, FAILED_CALL)
MUST_REACH = (OLD_STATE, FAILED_CALL)

OnProgress = Callable[[int, int], None]
Cuts = Callable[[Call], Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Disk:
    """A disk to be judged; `seen` commits were read before the last kill."""

    storage: MemoryStorage
    origin: Origin
    seen: int


class Exploration:
    """Visits the points of the plan in a fixed order; `phase` says what came of it."""

    def __init__(
        self,
        judge: Judge,
        target: str,
        has_time: Callable[[], bool],
        on_progress: OnProgress,
        recovery_kills_max: int = RECOVERY_KILLS_MAX,
    ) -> None:
        """Explore for `judge`'s target while there is time."""
        self._judge = judge
        self._target = target
        self._has_time = has_time
        self._on_progress = on_progress
        self._recovery_kills_max = recovery_kills_max
        self._seen: dict[tuple[bytes, int, int, int], int] = {}
        self._findings: dict[tuple[object, ...], Finding] = {}
        self._counts: Counter[str] = Counter()
        self._reached: Counter[str] = Counter(dict.fromkeys(POINTS, 0))
        self._left: Counter[str] = Counter()
        self._total = self._done = 0

    def run(self) -> None:
        """Whole steps first, then failing calls, then kills inside writes; the sample comes last."""
        steps = self._judge.course.steps
        self._total = len(steps) + 1 + sum(len(border_cuts(step)) + len(sampled_cuts(step)) for step in steps)
        self._kill("whole steps", lambda step: ())
        for operation in range(len(self._judge.course.started)):
            self._fail(operation)
        for part in range(CUT_PARTS):
            # Whatever time is left, the lengths that were tried spread over all writes.
            self._kill(CUTS, lambda step, part=part: border_cuts(step)[part::CUT_PARTS])  # type: ignore[misc]
        self._kill(SAMPLE, sampled_cuts)

    def _kill(self, name: str, cuts_of: Cuts) -> None:
        course = self._judge.course
        for storage, step_count, cut_bytes in crash_points(course.start, course.steps, cuts_of):
            if cut_bytes == 0 and name != "whole steps":
                continue
            self._count(name)
            if not self._has_time():
                self._left[name] += 1
                continue
            low, high = course.bounds(step_count, cut_bytes)
            self._visit(storage, low, high, Origin((Kill(step_count, cut_bytes),)))

    def _fail(self, operation: int) -> None:
        course = self._judge.course
        base = replay_prefix(course.start, course.steps, course.started[operation])
        try:
            calls = self._judge.calls_of_commit(base.copy(), operation)
        except Violation:
            # The kill before this commit shows the same, with its own finding.
            self._left["failing calls"] += 1
            return
        planned = list(failures(operation, calls))
        self._total += len(planned)
        for failure in planned:
            self._count("failing calls")
            if not self._has_time():
                self._left["failing calls"] += 1
                continue
            origin = Origin(failure=failure)
            try:
                failed = self._judge.fail(base.copy(), failure)
            except Violation as violation:
                self._find(violation, origin)
                continue
            if failed is None:
                self._left["failing calls"] += 1
                continue
            self._reached[FAILED_CALL] += 1
            self._visit(*failed, origin)

    def _count(self, name: str) -> None:
        self._counts[name] += 1
        self._done += 1
        self._on_progress(self._done, self._total)

    def _visit(self, storage: MemoryStorage, low: int, high: int, origin: Origin) -> None:
        """Judge a disk and, after whole steps, what kills inside its recovery leave; the fewest kills come first."""
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
                self._reached[OLD_STATE if recovered.index == low else NEW_STATE] += 1
            if not recovered.steps:
                continue
            self._reached[WORKING_RECOVERY] += 1
            if origin.is_inside_a_write or disk.origin.recovery_kill_count >= self._recovery_kills_max:
                self._counts["recoveries killed no further"] += 1
                continue
            for inner, step_count, cut_bytes in crash_points(recovered.before, recovered.steps, few_cuts):
                self._reached[KILLED_RECOVERY] += 1
                kill = Kill(step_count, cut_bytes)
                pending.extend(self._unseen(inner, low, high, disk.origin.then(kill), recovered.index))

    def _unseen(self, storage: MemoryStorage, low: int, high: int, origin: Origin, seen: int) -> Iterator[_Disk]:
        """Yield a copy of the disk, unless it was there after as few kills of recoveries."""
        key = storage.digest(), low, high, seen
        kill_count = origin.recovery_kill_count
        if kill_count < self._seen.get(key, kill_count + 1):
            self._seen[key] = kill_count
            yield _Disk(storage.copy(), origin, seen)

    def _find(self, violation: Violation, origin: Origin) -> None:
        """Keep the first finding of each signature, and count the rest."""
        self._counts["violations"] += 1
        disturbance, place = self._describe(origin)
        signature = violation.violated, place, origin.recovery_kill_count > 0
        if signature not in self._findings:
            self._findings[signature] = Finding(
                property=violation.violated.value,
                phase=PHASE,
                sentence=f"{disturbance}: {violation.reason}.",
                evidence={"target": self._target, **self._judge.course.place(origin), **origin.evidence()},
            )

    def _describe(self, origin: Origin) -> tuple[str, tuple[object, ...]]:
        """Return the disturbance in words, and the part of them that tells signatures apart."""
        recovery = f", and {origin.recovery_kill_count} in recovery" if origin.recovery_kill_count else ""
        if origin.failure is not None:
            call, fault = origin.failure.call, origin.failure.fault
            words = f"When the call to {call.kind} {call.path} in commit {origin.failure.operation + 1} fails"
            part = f" after {fault.written_bytes} bytes" if fault.written_bytes else ""
            return f"{words}{part} ({fault.reason}){recovery}", ("failure", call.path.rpartition("/")[2])
        steps, kill = self._judge.course.steps, origin.kills[0]
        where = steps[min(kill.step_count, len(steps) - 1)] if steps else None
        inside = f" and {kill.cut_bytes} bytes of the next" if kill.cut_bytes else ""
        next_words = f", before the call to {where.kind} {where.path}" if where and kill.step_count < len(steps) else ""
        signature = ("kill", where and where.path.rpartition("/")[2])
        return f"After a kill behind {kill.step_count} steps{inside}{next_words}{recovery}", signature

    def phase(self, seconds: float) -> Phase:
        """Say what was explored and what it means."""
        required_left = {name: count for name, count in self._left.items() if name not in (CUTS, SAMPLE) and count}
        notes = [f"{count} {name} were not tried" for name, count in sorted(required_left.items())]
        missing = [name for name in MUST_REACH if not self._reached[name]]
        if missing and not required_left:
            notes.append(f"never reached: {', '.join(missing)}")
        course = self._judge.course
        cut_count = self._counts[CUTS] + self._counts[SAMPLE]
        cuts_left = self._left[CUTS] + self._left[SAMPLE]
        return Phase(
            name=PHASE,
            explored=len(self._seen),
            complete=not self._left and not any(sampled_cuts(step) for step in course.steps),
            bound=f"process kill of {len(course.started)} commits with {len(course.steps)} steps, {CUTS_IN_WORDS}; "
            f"kills in up to {self._recovery_kills_max} recoveries after a kill between steps or a failing call, at "
            "three lengths of each write; every call of a commit failing once"
            + (f"; {cut_count - cuts_left} of {cut_count} cuts tried in the time given" if cuts_left else ""),
            verdict=Verdict.INVALID if self._findings else Verdict.UNKNOWN if notes else Verdict.VALID,
            seconds=seconds,
            counts={**self._counts, "steps": len(course.steps), "distinct disks": len(self._seen)},
            reached=dict(self._reached),
            controls="passed",
            note="; ".join(notes),
            findings=tuple(self._findings.values()),
        )
