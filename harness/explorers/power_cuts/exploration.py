"""One exploration of power cuts: the disks that each crash point may leave under a model, and their verdicts."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tornproof.harness.common.verdict import Finding, HasTime, always
from tornproof.harness.counterexamples.moves import THEN
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.changed_again import Change, changes, why_of
from tornproof.harness.explorers.power_cuts.examination import SESSION, Bounds, Facts, Ruling
from tornproof.harness.explorers.power_cuts.judge import PowerJudge, recovered
from tornproof.harness.explorers.power_cuts.trace import CrashPoint, sync_whole_file
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import DEFAULT_LIMITS, Disk, LegalDisks, legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.legal_names import LegalNames, legal_names
from tornproof.harness.simulator.persistence.models import Choice, Model
from tornproof.harness.simulator.process.observer import Property

PHASE = "power"
Part = TypeVar("Part")
DiskKey: TypeAlias = tuple[object, Bounds]
"""The identity of a disk, and what may be on it."""
SHOWN_COUNT = 8
"""So many disks of each crash point are checked for coverage points."""
NESTED_LIMITS = Limits(file_count=64, names_count=32, disk_count=128)


class Cut(NamedTuple):
    """A crash after `step` calls of a session, in a recovery the last of them, and the disk that it left."""

    step: int
    call: Call | None
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of an exploration; `nested_depth` is how many recoveries in a row are crashed.

    Of more crash points than `points_max`, every n-th is visited.
    """

    limits: Limits = DEFAULT_LIMITS
    nested_limits: Limits = NESTED_LIMITS
    nested_depth: int = 1
    points_max: int | None = None
    disks_max: int | None = None
    """How many different disks are judged, by default all; the crash points and later sessions share them."""
    second_cuts_max: int | None = None
    """From how many disks the power is cut again besides one of each kind that a recovery can tell, by default all."""
    stops_at_first: bool = False
    """Whether to stop at the first finding."""

    def every(self, point_count: int) -> int:
        """Return n where every n-th of so many crash points is visited."""
        return -(-point_count // (self.points_max or point_count)) if point_count else 1


@dataclass(slots=True)
class Tally:
    """What was explored under one model."""

    points: int = 0
    legal: int = 0
    tried: int = 0
    nested_tried: int = 0
    committed_on: int = 0
    cut_again: int = 0
    not_cut_again: int = 0
    violations: int = 0
    is_complete: bool = True
    is_out_of_time: bool = False
    distinct: dict[DiskKey, int] = field(default_factory=dict)
    nested_distinct: int = 0
    reached: Counter[str] = field(default_factory=Counter)


class Found(NamedTuple):
    """A violation, with all that is needed to replay it."""

    verdict: Ruling
    model: Model
    point: CrashPoint
    cuts: tuple[Cut, ...]
    origin: dict[str, Any]
    changed_again: tuple[Change, ...] = ()
    """By a second recovery, where that is what is wrong."""


class ModelExploration:
    """Explores crash points under one model; `tally` and `found` are the result."""

    def __init__(self, judge: PowerJudge, model: Model, settings: Settings, has_time: HasTime = always) -> None:
        """Explore while there is time."""
        self.model = model
        self.tally = Tally()
        self.found: dict[tuple[object, ...], Found] = {}
        self._judge = judge
        self._settings = settings
        self._has_time = has_time
        self._explored_facts: set[tuple[Facts, Bounds]] = set()
        self.after_cut: Callable[[Disk, CrashPoint, Choice, Facts], None] = lambda disk, point, choice, facts: None
        """Is called with each disk that a power cut of the first session left and that is right."""
        self._tracks = False
        self._used_in_recovery: defaultdict[Facts, set[Facts]] = defaultdict(set)
        self._used_on: dict[DiskKey, tuple[Facts, set[Facts]]] = {}
        self._names: dict[Limits, tuple[object, object, int, LegalNames]] = {}
        self._stop_at = sys.maxsize if settings.disks_max is None else settings.disks_max

    @contextmanager
    def first_of(self, parts: int) -> Iterator[None]:
        """Judge meanwhile only so many disks that as many are left for each of the other parts."""
        before, distinct = self._stop_at, len(self.tally.distinct)
        self._stop_at = min(before, distinct + max(1, (before - distinct) // parts))
        yield
        self._stop_at = before

    def shared(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Yield the parts, each of which may judge its share of the disks that are left."""
        for number, part in enumerate(parts):
            with self.first_of(len(parts) - number):
                yield part

    @contextmanager
    def tracking(self) -> Iterator[set[Facts]]:
        """Collect all facts that verdicts depend on meanwhile, also those on disks that were judged before."""
        before, self._judge.used, self._tracks = self._judge.used, set(), True
        yield self._judge.used
        self._judge.used, self._tracks = before, False

    def reads_of(self, facts: Facts) -> tuple[tuple[str, int, int], ...]:
        """Return the ranges of files that some facts depend on, each as a path, start, stop."""
        return self._judge.reads_of(facts)

    @property
    def is_over(self) -> bool:
        """Whether the first finding is there and is enough, or there is no time left, or no disk."""
        if len(self.tally.distinct) >= self._stop_at:
            self.tally.is_complete = False
            return True
        if not self.tally.is_out_of_time and not self._has_time():
            self.tally.is_out_of_time = True
        return self.tally.is_out_of_time or (self._settings.stops_at_first and bool(self.found))

    def visit(self, point: CrashPoint, origin: dict[str, Any] | None = None) -> None:
        """Judge every disk that a crash at a point may leave; `origin` says what preceded the session of the point."""
        if self.is_over:
            return
        tally, model = self.tally, self.model
        tally.points += 1
        disks = legal_disks(
            point.kernel, model, self._settings.limits, self._names_of(point.kernel, self._settings.limits)
        )
        tally.legal += disks.legal_count
        tally.is_complete &= disks.is_complete
        reached = set(power_points.reached_by_trace(point))
        latest: Disk | None = None
        tried_before = tally.tried
        distinct = tally.distinct
        for picked in disks:
            disk = picked.disk
            tally.tried += 1
            latest = latest or disk
            if is_shown := tally.tried - tried_before <= SHOWN_COUNT:
                reached.update(power_points.reached_by_disk(point, latest, disk, model))
            key = disk.identity(), point.bounds
            depth = distinct.get(key)
            if depth == 0:
                self._track(key, disk)
                continue
            if self.is_over:
                break
            distinct[key] = 0
            if not is_shown and power_points.WRITE_LOST not in reached:
                reached.update(power_points.reached_by_disk(point, latest, disk, model))
            verdict, facts = self._judged(disk, point.bounds, is_sample=not disks.is_complete)
            if verdict.violated:
                cuts = (Cut(point.step, None, disks.choice(picked)),)
                self.find(Found(verdict, model, point, cuts, origin or {}, self._changed_again(verdict, disk, facts)))
            else:
                self._note(point.bounds, verdict, facts, reached)
                goes_deeper = self._goes_deeper(facts, point.bounds, is_sample=not disks.is_complete)
                if goes_deeper and self._settings.nested_depth:
                    cuts = (Cut(point.step, None, disks.choice(picked)),)
                    self._crash_recovery(disk, facts, verdict, point, cuts, origin or {})
                if not origin:
                    self.after_cut(disk, point, disks.choice(picked), facts)
        tally.reached.update(reached)

    def _track(self, key: DiskKey, disk: Disk) -> None:
        """Note what the verdicts on a known disk depend on, and those after crashes in its recovery."""
        if not self._tracks:
            return
        judge, known = self._judge, self._used_on.get(key)
        if known is None:
            before, judge.used = judge.used, set()
            _, facts = judge.judge(disk, key[1])
            known = self._used_on[key] = facts, judge.used
            judge.used = before
        judge.used |= known[1]
        judge.used |= self._used_in_recovery[known[0]]

    def _judged(self, disk: Disk, bounds: Bounds, *, is_sample: bool) -> tuple[Ruling, Facts]:
        """Judge a disk; of a sample's disks with the same facts, only one is committed on."""
        if not is_sample:
            self.tally.committed_on += 1
            return self._judge.judge(disk, bounds)
        verdict, facts = self._judge.judge(disk, bounds, commits=False)
        if not verdict.violated and (facts, bounds) not in self._explored_facts:
            self.tally.committed_on += 1
            return self._judge.judge(disk, bounds)
        return verdict, facts

    def _goes_deeper(self, facts: Facts, bounds: Bounds, *, is_sample: bool) -> bool:
        """Return whether to crash the recovery too; of a sample's disks with the same facts, one's is."""
        is_new = (facts, bounds) not in self._explored_facts
        self._explored_facts.add((facts, bounds))
        return bool(facts.recovery) and (is_new or not is_sample)

    def _note(self, bounds: Bounds, verdict: Ruling, facts: Facts, reached: set[str]) -> None:
        reached.update(power_points.reached_by_recovery(facts.recovery))
        if bounds.low < len(bounds.operations):
            before, oracle = bounds.operations[: bounds.low], self._judge.case.oracle
            # A commit may change nothing that a reader sees.
            is_old = verdict.found == before or oracle(verdict.found) == oracle(before)
            reached.add(power_points.OLD_STATE if is_old else power_points.NEW_STATE)

    def _crash_recovery(
        self,
        disk: Disk,
        facts: Facts,
        verdict: Ruling,
        point: CrashPoint,
        cuts: tuple[Cut, ...],
        origin: dict[str, Any],
    ) -> None:
        """Crash at every step of a recovery that changes something, and judge the disks that this leaves."""
        tally, depth, used = self.tally, len(cuts), self._judge.used
        bounds = point.bounds
        self._judge.used = self._used_in_recovery[facts]
        if not self.model.everything_dies:
            # A kill must not lose what a reader saw.
            bounds = Bounds(verdict.found, len(verdict.found))
        for step, call, kernel in recovery_steps(disk, facts.recovery, self.model):
            if call.kind not in STEPS:
                continue
            tally.reached[power_points.NESTED] += 1
            limits = self._settings.nested_limits
            disks = legal_disks(kernel, self.model, limits, self._names_of(kernel, limits))
            tally.is_complete &= disks.is_complete
            if any(len(state.versions) > 1 for state in kernel.files.values()) and disks.legal_count > 1:
                tally.reached[power_points.NESTED_LOST] += 1
            self._visit_nested(disks, partial(Cut, step, call), bounds, depth, point, cuts, origin)
        used |= self._judge.used
        self._judge.used = used

    def _visit_nested(
        self,
        disks: LegalDisks,
        cut_of: Callable[[Choice], Cut],
        bounds: Bounds,
        depth: int,
        point: CrashPoint,
        cuts: tuple[Cut, ...],
        origin: dict[str, Any],
    ) -> None:
        tally = self.tally
        for picked in disks:
            tally.nested_tried += 1
            key = picked.disk.identity(), bounds
            known = tally.distinct.get(key)
            if known is not None and known <= depth:
                self._track(key, picked.disk)
                continue
            if self.is_over:
                return
            tally.distinct[key] = depth
            tally.nested_distinct += known is None
            verdict, facts = self._judged(picked.disk, bounds, is_sample=not disks.is_complete)
            if verdict.violated:
                deeper = (*cuts, cut_of(disks.choice(picked)))
                again = self._changed_again(verdict, picked.disk, facts)
                self.find(Found(verdict, self.model, point, deeper, origin, again))
            elif (
                self._goes_deeper(facts, bounds, is_sample=not disks.is_complete)
                and depth < self._settings.nested_depth
            ):
                deeper = (*cuts, cut_of(disks.choice(picked)))
                self._crash_recovery(picked.disk, facts, verdict, point, deeper, origin)

    def _names_of(self, kernel: Kernel, limits: Limits) -> LegalNames:
        """Return the legal names of a kernel; mostly those of the crash point before are valid again."""
        known = self._names.get(limits)
        if (
            known is None
            or known[0] is not kernel.durable_directories
            or known[1] is not kernel.entry_changes
            or known[2] != kernel.journalled_count
        ):
            names = legal_names(kernel, self.model, limits)
            known = kernel.durable_directories, kernel.entry_changes, kernel.journalled_count, names
            self._names[limits] = known
        return known[3]

    def _changed_again(self, verdict: Ruling, disk: Disk, facts: Facts) -> tuple[Change, ...]:
        """Return what a second recovery changes of a disk, or the next one, where that is what is wrong."""
        if verdict.violated != Property.IDEMPOTENT:
            return ()
        disks = chain([(disk, facts)], self._judge.repetitions(disk, facts))
        disk, facts = next(((disk, facts) for disk, facts in disks if facts.changed_again), (disk, facts))
        once = recovered(disk, facts)
        _, again = self._judge.judge(once, Bounds(verdict.found, 0), commits=False)
        return tuple(changes(once, recovered(once, again), self._judge.case.path))

    def find(self, found: Found) -> None:
        """Keep the smallest finding of each signature, and count the rest."""
        self.tally.violations += 1
        before = found.point.before
        location = None if before is None else (before.kind, before.path.rpartition("/")[2])
        signature: tuple[object, ...]
        signature = found.verdict.violated, location, len(found.cuts) > 1, tuple(found.origin)
        if found.changed_again:
            # Wherever the cut was: the recovery is the cause.
            signature = found.verdict.violated, *(each.kind for each in found.changed_again)
        known = self.found.get(signature)
        if known is None or _size(found) < _size(known):
            self.found[signature] = found


def recovery_steps(disk: Disk, recovery: tuple[Call, ...], model: Model) -> list[tuple[int, Call, Kernel]]:
    """Return the calls of a recovery, numbered from 1, each with the kernel after it."""
    kernel = disk.kernel()
    steps = []
    for step, call in enumerate(recovery, start=1):
        apply(kernel, SESSION, call)
        sync_whole_file(kernel, call, model)
        steps.append((step, call, kernel.fork() if call.kind in STEPS else kernel))
    return steps


def said_of(call: Call | None) -> dict[str, str | None]:
    """Return what evidence says of a call, None at the end of a session."""
    return {"step_kind": None if call is None else call.kind.value, "path": None if call is None else call.path}


def finding_of(found: Found, target: str) -> Finding:
    """Return the finding of a violation, with its sentence and evidence."""
    point, cuts = found.point, found.cuts
    before = f"{_origin_text(found.origin)}, then a crash" if found.origin else "A crash"
    where = f"{before} after {point.step} calls"
    if point.next is not None:
        where += f", before the call to {point.next.kind} {point.next.path}"
    inner = f", and again in {len(cuts) - 1} recoveries" if len(cuts) > 1 else ""
    return Finding(
        property=found.verdict.violated,
        phase=PHASE,
        sentence=f"{found.verdict.sentence}. {where}{inner}, in model {found.model.name}.",
        evidence={
            "target": target,
            "model": found.model.name,
            "operation": point.operation,
            "step": point.step,
            **said_of(point.next),
            "acknowledged": list(point.bounds.acknowledged),
            "cuts": [
                {"step": cut.step, **(said_of(cut.call) if cut.call else {}), "choice": cut.choice.text()}
                for cut in cuts
            ],
            "origin": found.origin,
            **({"why": why_of(found.changed_again)} if found.changed_again else {}),
        },
    )


def _origin_text(origin: dict[str, Any]) -> str:
    if "failed_step" in origin:
        return f"The {_failure_text(origin)}"
    if "cut_step" in origin:
        return f"A power cut after {origin['cut_step']} calls and a recovery"
    killed = f"A kill after {origin['killed_step']} calls"
    return f"{killed}; in the recovery the {_failure_text(origin[THEN])}" if THEN in origin else killed


def _failure_text(origin: dict[str, Any]) -> str:
    return f"sync at call {origin['failed_step']} fails and the process {origin['process']}"


def _size(found: Found) -> tuple[int, int, int]:
    deviations = sum(len(choice.blocks) for cut in found.cuts for _, choice in cut.choice.files)
    return len(found.cuts), deviations, found.point.step
