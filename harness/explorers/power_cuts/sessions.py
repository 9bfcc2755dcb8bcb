"""One persistence model on one trace: the crash points of the first session, and in model D those of later sessions.

In model D a sync fails or the process is killed, the process dies or goes on, a second session recovers, and then the
power is cut; after a kill a sync of that recovery fails, too. In model N-512 the power is cut twice: once in the first
session, once in a recovery or a commit after it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.counterexamples.moves import DIES, EVICTED, GOES_ON, THEN
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.alike import Alike, needs_of
from tornproof.harness.explorers.power_cuts.examination import SESSION, Bounds, Facts, Ruling
from tornproof.harness.explorers.power_cuts.exploration import Found, ModelExploration, Settings, said_of
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.trace import CrashPoint, Traces, bounds_of, points_of
from tornproof.harness.search.crash_world import begun_with, fail_call, synced_by
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.filesystem.file_state import PAGE_BYTES, FileState
from tornproof.harness.simulator.filesystem.intercept import BARRIERS
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_files import Limits, legal_file
from tornproof.harness.simulator.persistence.models import C_4096, N_512, Choice, FileChoice, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Judge, JudgeOfFailedRecovery, has_begun_a_commit, without
from tornproof.harness.simulator.process.world import ProcessGroup, World

CUT_TWICE = frozenset({N_512})
"""The power is cut again at every step of a recovery and the commits after it where a cut leaves most disks."""
WRITTEN_LIMITS = Limits(file_count=64)
"""Up to so many subsets of the blocks that a failed sync was to write are all tried; of more, some."""
SECOND_CUT_PARTS = 4
"""Of the disks that are left for a crash point, so many parts are made, one of them for each second cut."""


def explore_model(
    judge: PowerJudge,
    traces: Traces,
    model: Model,
    settings: Settings,
    *,
    has_time: HasTime = always,
    on_point: Callable[[int], None] = lambda done: None,
) -> ModelExploration:
    """Explore the first session under a model; after a failed sync or a kill, power cuts follow model C-4096.

    The judge may be that of another test case with the same table and commits.
    """
    points = traces.of(model).points
    every = settings.every(len(points))
    points = points[::every]
    if not model.fails_syncs:
        exploration = ModelExploration(judge, model, settings, has_time)
        sessions = LaterSessions(traces.case, exploration, every, settings.second_cuts_max)
        if model in CUT_TWICE:
            exploration.after_cut = sessions.explore_second_cut
        for done, point in enumerate(exploration.shared(points), start=1):
            exploration.visit(point)
            on_point(done)
        sessions.close()
        return exploration
    exploration = ModelExploration(judge, C_4096, settings, has_time)
    sessions = LaterSessions(traces.case, exploration, every)
    with exploration.first_of(2):
        sessions.explore_failed_syncs()
    for done, point in enumerate(exploration.shared(points), start=1):
        sessions.explore_kills((point,))
        on_point(done)
    sessions.close()
    return exploration


class LaterSessions:
    """Explores sessions whose page cache differs from the disk; `exploration` judges what power cuts leave.

    The power is cut at one in `every` of their crash points.
    """

    def __init__(
        self, case: TestCase, exploration: ModelExploration, every: int = 1, second_cuts_max: int | None = None
    ) -> None:
        """Start the writer of the second session; the settings say what `second_cuts_max` is."""
        self._case = case
        self._exploration = exploration
        self._every = every
        self._process_group = second_process_group(case)
        self._failing_group = second_process_group(case, fails=True)
        self._seen: set[object] = set()
        self._left = math.inf if second_cuts_max is None else second_cuts_max
        self._kinds: set[object] = set()
        self._alike: defaultdict[object, Alike] = defaultdict(
            lambda: Alike(exploration.model.stale_block_bytes or PAGE_BYTES)
        )

    def close(self) -> None:
        """End all greenlets."""
        self._process_group.close()
        self._failing_group.close()

    def explore_failed_syncs(self) -> None:
        """Let each sync of the first session fail once."""
        process_group = self._case.process_group(fails=True)
        self._fail_each(self._case.begin(process_group), {})
        process_group.close()

    def explore_kills(self, points: tuple[CrashPoint, ...]) -> None:
        """Run a second session after a kill at each of these points, while the machine keeps its page cache."""
        for point in points:
            kernel = point.kernel.fork()
            kernel.kill(SESSION)
            origin = {"killed_step": point.step, **said_of(point.next), "session": 2}
            with self._exploration.first_of(2):
                is_new = self._run_second(kernel, point.bounds, origin) is not None
            if is_new:
                self._exploration.tally.reached[power_points.CUT_AFTER_KILL] += 1
                self._fail_each(begin_session(self._failing_group, kernel, point.bounds), origin)

    def explore_second_cut(self, disk: Disk, point: CrashPoint, choice: Choice, facts: Facts) -> None:
        """Recover and commit on a disk that a power cut left, and cut the power again; of disks alike, on one."""
        alike = self._alike[disk.tree, point.bounds]
        if alike.has(disk):
            return
        tally, kind = self._exploration.tally, (disk.tree, point.bounds, facts)
        if kind in self._kinds:
            if not self._left:
                tally.not_cut_again += 1
                return
            self._left -= 1
        self._kinds.add(kind)
        origin = {"cut_step": point.step, **said_of(point.next), "choice": choice.text(), "session": 2}
        with self._exploration.first_of(SECOND_CUT_PARTS), self._exploration.tracking() as used:
            end = self._run_second(disk.kernel(), point.bounds, origin)
        if end is not None:
            tally.reached[power_points.CUT_TWICE] += 1
            tally.cut_again += 1
            calls = [node.call for node in path_to(end.nodes[SESSION]) if node.call is not None]
            repeated = (call for facts in used for call in facts.recovery)
            read = (each for facts in used for each in self._exploration.reads_of(facts))
            alike.add(disk, needs_of(disk, calls, repeated, read))

    def _fail_each(self, world: World, before: dict[str, Any]) -> None:
        """Let each sync of a session fail once, of one that comes after something else each of its recovery."""
        syncs: list[World] = []
        while world.nodes[SESSION].call is not None and not (before and has_begun_a_commit(world.nodes[SESSION])):
            if world.call(SESSION).kind in BARRIERS:
                syncs.append(world.fork())
            world.step(SESSION)
        for sync in self._exploration.shared(syncs):
            self._fail(sync, before)

    def _fail(self, world: World, before: dict[str, Any]) -> None:
        """Let the next sync fail, after which any of the unwritten blocks are on disk."""
        synced = synced_by(world, SESSION)
        if synced is None:
            self._go_on_after_failure(world, None, before)
            return
        written = legal_file(synced, C_4096, WRITTEN_LIMITS)
        tally = self._exploration.tally
        tally.is_complete &= written.is_complete
        # Each subset that is not tried leaves at least one more disk.
        tally.legal += written.legal_count - len(written.choices)
        for choice in self._exploration.shared(written.choices):
            self._go_on_after_failure(world.fork(), choice, before)

    def _go_on_after_failure(self, world: World, written: FileChoice | None, before: dict[str, Any]) -> None:
        failed = {"failed_step": world.nodes[SESSION].depth, **said_of(world.nodes[SESSION].call)}
        fail_call(world, written=written)
        on_disk = {} if written is None else {"written": written.numbers()}
        reached = self._exploration.tally.reached

        def origin_of(session: int, *process: str) -> dict[str, Any]:
            origin = {**failed, "process": "".join(process), **on_disk, "session": session}
            return {**before, THEN: origin} if before else origin

        with self._exploration.first_of(3):
            self._kill(world.kernel, bounds_of(world.progress), partial(origin_of, 2, DIES))
        origin = origin_of(1, GOES_ON)
        with self._exploration.first_of(2):
            for point in islice(points_of(world, self._exploration.model), 0, None, self._every):
                reached[power_points.CUT_AFTER_FAILURE] += not self._exploration.is_over
                self._exploration.visit(point, origin)
        reached[power_points.SYNC_FAILED] += 1
        self._kill(world.kernel, bounds_of(world.progress), partial(origin_of, 2, GOES_ON))

    def _kill(self, kernel: Kernel, bounds: Bounds, origin_of: Callable[..., dict[str, Any]]) -> None:
        kept = kernel.fork()
        kept.kill(SESSION)
        self._run_second(kept, bounds, origin_of())
        evicted = evicted_of(kept)
        if evicted is not None:
            self._exploration.tally.reached[power_points.EVICTED] += 1
            self._run_second(evicted, bounds, origin_of(EVICTED))

    def _run_second(self, kernel: Kernel, bounds: Bounds, origin: dict[str, Any]) -> World | None:
        """Recover and commit with a power cut at every step; return the end, or None if this was explored before."""
        key = kernel.identity(), bounds
        if key in self._seen or self._exploration.is_over:
            return None
        self._seen.add(key)
        last: CrashPoint | None = None
        world = begin_session(self._process_group, kernel, bounds)
        for number, last in enumerate(points_of(world, self._exploration.model)):
            if number % self._every == 0:
                self._exploration.visit(last, origin)
        for violation in world.progress.violations:
            assert last is not None
            found = without(world.progress.committed, world.progress.absences[0])
            verdict = Ruling(found, violation.property, violation.sentence)
            self._exploration.find(Found(verdict, self._exploration.model, last, (), origin))
        return world


def second_process_group(case: TestCase, *, fails: bool = False) -> ProcessGroup:
    """Return the writer of the second session, alone, of whose recovery a sync may fail; close it after use."""
    kind = JudgeOfFailedRecovery if fails else Judge
    return ProcessGroup(
        processes=(case.writer(case.second_session, reads_first=True),),
        judge=kind(case.oracle, difference=case.difference, rejection=case.rejection, fails=fails),
        rules=case.rules,
    )


def begin_session(process_group: ProcessGroup, kernel: Kernel, bounds: Bounds) -> World:
    """Return the world in which a second session begins on a kernel with these commits."""
    return process_group.begin(kernel, *begun_with(bounds.operations, bounds.low, bounds.absences))


def evicted_of(kernel: Kernel) -> Kernel | None:
    """Return the kernel after its page cache was dropped and read from disk again; None if that changes nothing."""
    evicted = {
        number: FileState(state.versions[-1], state.versions)
        for number, state in kernel.files.items()
        if state.versions[-1] != state.content
    }
    if not evicted:
        return None
    other = kernel.fork()
    other.files.update(evicted)
    return other
