"""Several writers at once, with readers beside them, in every order of dependent calls.

What is seen must be what some order of their commits leaves: of all that were acknowledged, and of any that were begun;
each writer's own commits in its order. A reader sees a beginning of it that has what was acknowledged before the read
began, and never goes back. A commit may be rejected, because another writer is at work. Where that is asked for, the
first writer also comes to an end when the second one is about to take its first lock: it dies at each of its calls, or
one by which it opens fails. The second one must get in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat
from typing import NamedTuple

from tornproof.harness.common.read_numbers import count_of
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import OF_ANOTHER_RUN, Finding, HasTime, Phase, Verdict, always, shown
from tornproof.harness.counterexamples.actions import ActionNames
from tornproof.harness.counterexamples.words import title_of
from tornproof.harness.explorers.schedules.exploration import PHASE
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.explorers.schedules.writers_cause import cause_of
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.outcome import path_to
from tornproof.harness.search.staleness import LateReads
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.filesystem.faulty import FALLIBLE
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.filesystem.step_bound import STEP_BOUND
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.bodies import reader_session
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import (
    ONE_ORDER,
    Judge,
    Operations,
    Progress,
    Property,
    Reading,
    Violation,
)
from tornproof.harness.simulator.process.simulated_process import Node, NotDeterministicError, Process
from tornproof.harness.simulator.process.world import ProcessGroup, World
from tornproof.harness.systems.toy import Toy
from tornproof.harness.systems.toy_locks import (
    HandsOver,
    KeepsOut,
    LeavesItsLock,
    OrderedLocks,
    RejectedAfterwards,
    StumblesOverOthers,
    UnlockedReaders,
    UnlocksEarly,
)
from tornproof.impl.storage.interface import StorageReason

BOTH_ACKNOWLEDGED = "commits of two writers were acknowledged"
REJECTED = "a commit was rejected, because another writer was at work"
KEPT_OUT = "a writer was kept out, because another one was open"
DIED_AT_WORK = "a writer died before its commits were acknowledged"
FAILED_TO_OPEN = "a writer failed to open"
LAST = "a reader afterwards"
COVERAGE_GOALS = (BOTH_ACKNOWLEDGED,)
GOALS_OF_LOCKS = (KEPT_OUT, DIED_AT_WORK, FAILED_TO_OPEN)
"""Where the first writer comes to an end, too."""
DIES, FAILS = "the first writer dies", "the next call of the first writer fails"
FIRST, SECOND = 0, 1
"""The indexes of the writer that is killed and of the one that goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A test case whose operations are dealt to several writers in turn, with its readers."""

    case: TestCase
    writer_count: int

    @property
    def sessions(self) -> list[Operations]:
        """The operations of each writer."""
        return [self.case.first_session[index :: self.writer_count] for index in range(self.writer_count)]

    def begin(self) -> tuple[ProcessGroup, World]:
        """Return all processes, and the world at the start state; close the first after use."""
        writers = [
            self.case.writer(operations, name=f"writer {number}")
            for number, operations in enumerate(self.sessions, start=1)
        ]
        group = ProcessGroup(processes=(*writers, *self.case.reader_processes()), judge=_Notes(_nothing))
        return group, group.begin(self.case.kernel(), Progress())


class _Notes(Judge):
    """Judges nothing but how processes end, and notes what was acknowledged when each read began.

    What processes report is judged at the end of a run.
    """

    def observe(self, progress: Progress, process: str, node: Node) -> Progress:
        for mark in node.marks:
            if mark.kind == bodies.ACKNOWLEDGED:
                assert isinstance(mark.value, int)
                progress = progress._replace(committed=(*progress.committed, mark.value))
        violated = Property.ENDS if node.is_endless else Property.DISORDERLY
        return progress.broken(violated, process, node.outcome) if node.outcome else progress

    def begin_read(self, progress: Progress, process: str) -> Progress:
        reading = Reading(least=len(progress.committed))
        return progress._replace(readings=(*progress.readings, (process, reading)))


class _Said(NamedTuple):
    """What the processes of a run reported: how many commits each writer began and acknowledged, and what was read.

    `rejected` are the writers that were rejected, `before` the commits acknowledged before each read of each reader.
    """

    begun: tuple[int, ...]
    acknowledged: tuple[int, ...]
    reads: tuple[tuple[str, tuple[Hashable, ...]], ...]
    violations: tuple[Violation, ...]
    rejected: tuple[tuple[int, str], ...] = ()
    before: tuple[tuple[Operations, ...], ...] = ()


class _Orders:
    """Finds the order of commits that explains what was seen; the oracle remembers what each order leaves."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._sessions = group.sessions
        self.broken = cache(self._broken)
        self._after = cache(self._afterwards)

    def _broken(self, said: _Said, left: Hashable) -> Violation | None:
        """Return what no order explains, None if one explains everything."""
        for process, value in [*((process, each) for process, values in said.reads for each in values), (LAST, left)]:
            if isinstance(value, _Rejection):
                return Violation(Property.REJECTED, process, value.text)
        final = [order for order in self._all(said) if self._after(order) == left]
        if not final:
            acknowledged = sum(said.acknowledged)
            sentence = (
                f"after {acknowledged} acknowledged commits {shown(left)} is there, which no order of them leaves"
            )
            return Violation(ONE_ORDER, "writers", sentence)
        for process, values in said.reads:
            if not any(self._has(order, values) for order in final):
                sentence = f"{' and then '.join(map(shown, values))} was seen, in no order of the commits"
                return Violation(ONE_ORDER, process, sentence)
        if not any(all(self._has(order, values) for _, values in said.reads) for order in final):
            return Violation(ONE_ORDER, "readers", "what the readers saw fits no single order of the commits")
        return self._stale(said, final) if said.before else None

    def _stale(self, said: _Said, final: Sequence[Operations]) -> Violation | None:
        """Return a read that lacks what was acknowledged before it; None if one of the orders explains all reads."""
        reads = [(*read, before) for read, before in zip(said.reads, said.before, strict=True)]
        for process, values, before in reads:
            for number, value in enumerate(values):
                if not any(self._has(order, values[: number + 1], before) for order in final):
                    commits = f"{len(before[number])} commit{'s were' if len(before[number]) > 1 else ' was'}"
                    sentence = f"{shown(value)} was seen, although {commits} acknowledged before"
                    return Violation(Property.STALE, process, sentence)
        if not any(all(self._has(order, values, before) for _, values, before in reads) for order in final):
            sentence = "what the readers saw, and what was acknowledged before, fits no single order of the commits"
            return Violation(Property.STALE, "readers", sentence)
        return None

    def _all(self, said: _Said) -> Iterator[Operations]:
        """Yield all orders of the commits, of each writer of the acknowledged ones and of any that follow them."""

        def merged(left: tuple[Operations, ...]) -> Iterator[Operations]:
            if not any(left):
                yield ()
            for index, own in enumerate(left):
                if own:
                    rest = (*left[:index], own[1:], *left[index + 1 :])
                    yield from ((own[0], *after) for after in merged(rest))

        def counts(index: int) -> Iterator[tuple[Operations, ...]]:
            if index == len(self._sessions):
                yield ()
                return
            for count in range(said.acknowledged[index], said.begun[index] + 1):
                yield from ((self._sessions[index][:count], *others) for others in counts(index + 1))

        for sessions in counts(0):
            yield from merged(sessions)

    def _has(self, order: Operations, values: Sequence[Hashable], before: Sequence[Operations] = ()) -> bool:
        """Whether a reader may see these values one after the other, each after some first commits of the order.

        Those `before` each value must be among them.
        """
        at = 0
        for value, acknowledged in zip(values, before or repeat(()), strict=False):
            at = max(at, *(order.index(number) + 1 for number in acknowledged), 0)
            at = next((count for count in range(at, len(order) + 1) if self._after(order[:count]) == value), -1)
            if at < 0:
                return False
        return True

    def _afterwards(self, order: Operations) -> Hashable:
        return self._group.case.oracle(order)


class _Rejection(NamedTuple):
    text: str


class _Explorer:
    def __init__(self, group: Group) -> None:
        self.group = group
        self.reached: Counter[str] = Counter()
        self.found: dict[tuple[str, str], Finding] = {}
        self._orders = _Orders(group)
        case = group.case
        self._last = Process(LAST, reader_session(case.target, case.path, 1))
        self._processes, self.world = group.begin()
        self._points = Points()
        self._late_reads = LateReads()

    def close(self) -> None:
        """End all greenlets."""
        self._processes.close()
        self._last.close()

    def end(self, run: Run) -> None:
        """Judge a complete schedule, and where nothing is wrong in it, with each read as late as it can begin."""
        said = self._counted(run.world)
        if violations := self._violated(said, run.world):
            for violation in violations:
                self._find(violation, run.schedule(None))
            return
        for late, before in self._late_reads.of(run, range(self.group.writer_count, len(run.world.nodes))):
            for violation in self._violated(said._replace(before=before), run.world):
                self._find(violation, run.schedule(late))

    def kill(self, has_time: HasTime) -> int:
        """Kill the first writer after each of its steps, and let the others go on; return how often."""
        waiting, waited = self.about_to_lock()
        at_work, count = waiting.fork(), 0
        while at_work.nodes[FIRST].call is not None and has_time():
            at_work.step(FIRST)
            count += 1
            for end in self.ends_at(at_work):
                for violation in self.judge(self.without_first(at_work, end), end):
                    self._find(violation, (*((SECOND, waited),) * (waited > 0), (FIRST, count)), end)
        return count

    def ends_at(self, world: World) -> Iterator[str]:
        """Yield how the first writer may end here."""
        yield DIES
        node = world.nodes[FIRST]
        is_open = any(mark.kind == bodies.OPENED for each in path_to(node) for mark in each.marks)
        if node.call is not None and node.call.kind in FALLIBLE and not is_open:
            yield FAILS

    def about_to_lock(self) -> tuple[World, int]:
        """Return the world in which the second writer is about to take its first lock, and after how many calls."""
        world, count = self.world.fork(), 0
        while (call := world.nodes[SECOND].call) is not None and call.kind is not CallKind.LOCK:
            world.step(SECOND)
            count += 1
        # One that takes no lock has not begun.
        return (self.world, 0) if call is None else (world, count)

    def without_first(self, world: World, end: str) -> World:
        """Return the world in which the first writer ends in one of its ways now, and then the others go on."""
        after = world.fork()
        if end == FAILS:
            after.answer(FIRST, Rejected(StorageReason.INPUT_OUTPUT))
            after.run(FIRST)
        else:
            after.kernel.kill(FIRST)
            after.nodes[FIRST] = Node(-1, after.nodes[FIRST], None, None, ())
        for index in range(SECOND, len(after.nodes)):
            after.run(index)
        return after

    def judge(self, world: World, end: str = "") -> list[Violation]:
        """Return what the processes have violated; once the first one has come to an `end`, none may be rejected."""
        said = self._counted(world, end)
        if end and not said.violations:
            others = [(index, text) for index, text in said.rejected if index != FIRST]
            return [Violation(Property.RECOVERY, f"writer {index + 1}", text) for index, text in others]
        return self._violated(said, world)

    def _counted(self, world: World, end: str = "") -> _Said:
        """Return what the processes reported, and count what was reached."""
        said = self._said(world)
        acknowledged = [count for count in said.acknowledged if count]
        self.reached[BOTH_ACKNOWLEDGED] += len(acknowledged) > 1
        self.reached[REJECTED] += not end and any(map(int.__gt__, said.begun, said.acknowledged))
        self.reached[KEPT_OUT] += any(not said.begun[index] for index, _ in said.rejected)
        self.reached[FAILED_TO_OPEN] += end == FAILS
        self.reached[DIED_AT_WORK] += end == DIES and said.acknowledged[FIRST] < len(self.group.sessions[FIRST])
        self.reached.update(self._points.of(world))
        return said

    def _violated(self, said: _Said, world: World) -> list[Violation]:
        if said.violations:
            return list(said.violations)
        broken = self._orders.broken(said, self._left_by(world.kernel))
        return [] if broken is None else [broken]

    def _said(self, world: World) -> _Said:
        begun, acknowledged, reads, rejected, before = [], [], [], [], []
        committed, readings = world.progress.committed, world.progress.readings
        for index, (process, node) in enumerate(zip(self._processes.processes, world.nodes, strict=True)):
            marks = [mark for each in path_to(node) for mark in each.marks]
            if process.name.startswith("writer"):
                begun.append(sum(mark.kind == bodies.COMMIT for mark in marks))
                acknowledged.append(sum(mark.kind == bodies.ACKNOWLEDGED for mark in marks))
                rejected += [(index, str(mark.value)) for mark in marks if mark.kind == bodies.FAILED]
            else:
                values = [_Rejection(str(mark.value)) if mark.kind == bodies.REJECTED else mark.value for mark in marks]
                kept = [value for value, mark in zip(values, marks, strict=True) if mark.kind in _READS]
                reads.append((process.name, tuple(kept)))
                before.append(tuple(committed[: reading.least] for name, reading in readings if name == process.name))
        own = (each for each in world.progress.violations if each.property != Property.BEHAVIOUR)
        return _Said(tuple(begun), tuple(acknowledged), tuple(reads), tuple(own), tuple(rejected), tuple(before))

    def _left_by(self, kernel: Kernel) -> Hashable:
        kernel = kernel.fork()
        for index in range(len(self._processes.processes)):
            kernel.kill(index)
        alone = ProcessGroup(processes=(self._last,), judge=_Notes(_nothing))
        world = World(alone, kernel, [self._last.root], Progress())
        world.run(0)
        marks = [mark for each in path_to(world.nodes[0]) for mark in each.marks if mark.kind in _READS]
        if not marks:
            return _Rejection(world.nodes[0].outcome)
        return _Rejection(str(marks[-1].value)) if marks[-1].kind == bodies.REJECTED else marks[-1].value

    def _find(self, violation: Violation, schedule: Schedule, end: str = "") -> None:
        names = [process.name for process in self._processes.processes]
        finding = Finding(
            property=violation.property,
            phase=PHASE,
            sentence=title_of(violation.property, violation.process, violation.sentence) + (end and f" ({end})"),
            evidence={
                "target": self.group.case.target.name,
                "writers": self.group.writer_count,
                "clients": names,
                "schedule": [list(each) for each in schedule],
                "end": end,
            },
        )
        known = self.found.get((violation.property, violation.process))
        if known is None or len(schedule) < len(known.evidence["schedule"]):
            self.found[violation.property, violation.process] = finding

    def with_cause(self, finding: Finding) -> Finding:
        """Return a finding with its cause, if replays show one."""
        case, evidence = self.group.case, finding.evidence
        names = ActionNames(case.target, case.path, case.kernel().image().files)
        why = cause_of(self, names, evidence["clients"], evidence["schedule"], evidence["end"], finding.property)
        return replace(finding, evidence={**evidence, "why": why}) if why else finding


CONTROLS: tuple[tuple[Target, str, str], ...] = (
    (Toy(), ONE_ORDER, "writers"),
    (UnlocksEarly(), ONE_ORDER, "writers"),
    (UnlockedReaders(), ONE_ORDER, "reader 1"),
    (HandsOver(), Property.STALE, "reader 1"),
    (RejectedAfterwards(), Property.REJECTED, LAST),
    (LeavesItsLock(), Property.RECOVERY, "writer 2"),
    (StumblesOverOthers(), Property.DISORDERLY, "writer 2"),
)
"""Toys that are broken beside a second writer, what is violated, and who shows it."""
SOUND = (OrderedLocks(), KeepsOut())
SCHEDULES_OF_A_CONTROL = 200


@cache
def controls_of_run() -> tuple[str, ...]:
    """Return the failed controls, which every exploration of this process asks for."""
    return tuple(failed_controls())


def failed_controls() -> list[str]:
    """Describe each broken toy that was not detected, and what was found wrong with those that lock."""
    failures = [
        f"the toy {toy.name!r} was not detected with two writers: {violated}"
        for toy, violated, process in CONTROLS
        if (violated, process) not in _found_in(toy)
    ]
    return failures + [
        f"the sound toy {toy.name!r} was said to be broken: {violated}"
        for toy in SOUND
        for violated, _ in _found_in(toy)
    ]


def _found_in(toy: Target) -> dict[tuple[str, str], Finding]:
    case = TestCase(
        target=toy, path="toy", operations=(b"one", b"t"), first_session=(0, 1), readers=(Readers(read_count=1),)
    )
    explorer = _Explorer(Group(case=case, writer_count=2))
    try:
        explore_all(explorer.world, explorer.end, schedules_max=SCHEDULES_OF_A_CONTROL)
        if isinstance(toy, KeepsOut):
            explorer.kill(always)
    finally:
        explorer.close()
    return explorer.found


_READS = (bodies.SEEN, bodies.REJECTED)


def _nothing(operations: Operations) -> None:
    return None


def explore_writers(
    group: Group,
    *,
    schedules_max: int,
    ends: bool = False,
    has_time: HasTime = always,
    controls: Sequence[str] | None = None,
) -> Phase:
    """Run the writers and readers in every order of dependent calls, or in the first `schedules_max` of them.

    With `ends` the first writer also dies, or fails to open, which is not for a system that rejects what has changed
    since it looked. `controls` are the failed ones, if they were already tried.
    """
    explorer = _Explorer(group)
    try:
        counts = explore_all(explorer.world, explorer.end, has_time=has_time, schedules_max=schedules_max)
        death_count = explorer.kill(has_time) if ends else 0
        findings = [explorer.with_cause(each) for each in explorer.found.values()]
    finally:
        explorer.close()
    writers = " and ".join(str(len(operations)) for operations in group.sessions)
    deaths = (
        f"; the first one dead at each of {death_count} calls, or unable to open, when the second one is about to take "
        "a lock"
    )
    orders = f"every order of dependent calls, in {counts.complete} schedules"
    phase = Phase(
        name=PHASE,
        explored=counts.complete + death_count,
        complete=counts.is_done,
        bound=f"writers of {writers} commits beside {sum(each.count for each in group.case.readers)} readers: "
        f"{orders if counts.is_done else f'the first {counts.complete} reduced schedules'}{deaths * ends}; "
        f"{STEP_BOUND}",
        verdict=Verdict.INVALID if explorer.found else Verdict.VALID,
        counts={
            "reduced schedules": counts.complete,
            "blocked schedules": counts.blocked,
            "calls": counts.steps,
            "deaths": death_count,
        },
        reached=dict(explorer.reached),
        findings=tuple(findings),
    )
    goals = (*COVERAGE_GOALS, *GOALS_OF_LOCKS * ends)
    return phase.with_controls(controls_of_run() if controls is None else controls).with_coverage_goals(goals)


def replay_writers(group: Group, finding: Finding) -> Verdict:
    """Return INVALID when the finding's schedule violates the same property again, VALID when it violates none."""
    explorer = _Explorer(group)
    try:
        world = explorer.world
        end = finding.evidence.get("end", "")
        if end not in ("", DIES, FAILS):
            raise ValueError(f"no end of the first writer: {end!r}")
        for index, count in finding.evidence["schedule"]:
            for _ in range(count_of(count)):
                if world.nodes[count_of(index)].call is None:
                    return Verdict.UNKNOWN
                world.step(index)
        if end:
            world = explorer.without_first(world, end)
        world.finish()
        violated = {violation.property for violation in explorer.judge(world, end)}
    except (*OF_ANOTHER_RUN, NotDeterministicError):
        return Verdict.UNKNOWN
    finally:
        explorer.close()
    return finding.verdict_of(violated)
