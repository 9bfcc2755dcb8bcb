"""Schedule × crash for readers that lock or change something: a crash before each call of a writer in each schedule.

What such a reader does may change what the writer does, so the reader reduction does not hold. Reduced schedules are
run instead, and from each distinct world after a crash in one of them reduced schedules of the next session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tornproof.harness.search.crash_world import READER_INDEX, WRITER_INDEX
from tornproof.harness.search.dpor import Run, explore_all
from tornproof.harness.search.outcome import path_to
from tornproof.harness.search.product_reduction import (
    BETWEEN_COMMITS,
    DROPPED,
    IN_COMMIT,
    KEPT,
    LIVED_THROUGH,
    READER_AT_WORK,
    SEEN_EARLY,
    CrashSearch,
    Moves,
    ReductionCounts,
    has_failed,
    is_at_work,
)
from tornproof.harness.search.random_schedules import Sampler, uniform
from tornproof.harness.search.staleness import StaleReads
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.process.bodies import RECOVERED
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

OnEnd: TypeAlias = Callable[[World, Schedule], None]
"""Gets the world at the end of a schedule, and the schedule."""
SCHEDULES_MIN = 4
"""Of a bound that does not suffice for all crashes, some are tried, each with about so many schedules."""


class _Crash(NamedTuple):
    moves: Moves
    before: World
    world: World


class CrashedSchedules(CrashSearch):
    """The search with readers that lock or change something; a state is a step of a schedule."""

    def __post_init__(self) -> None:
        """Begin with no crash."""
        super().__post_init__()
        self._known: set[object] = set()
        self._points: list[list[_Crash]] = []
        self._stopped: list[_Crash] = []
        self._stale = StaleReads()

    def run(self) -> ReductionCounts:
        """Search to the end."""
        counts, first = self.counts, self.sessions.case.begin(self.sessions.first)
        # The rest is kept for the crashes.
        self._stop_at = -(-self._states_max // 2)
        schedule_count = self._explore(first, [], lambda end, schedule: self._crash_in(first, end, schedule))
        states_each = SCHEDULES_MIN * counts.states // max(schedule_count, 1)
        crashes = self._tried(states_each)
        fails = any(crash.world.process_group is self.sessions.first for crash in crashes)
        self._go_on_from(crashes, (counts.states + self._states_max) // 2 if fails else self._states_max)
        stopped_max = (self._states_max - counts.states) // max(states_each, 1)
        self._is_whole &= len(self._stopped) <= stopped_max
        self._go_on_from(_spread(self._stopped, stopped_max), self._states_max)
        counts.is_complete = self._is_whole
        return counts

    def _go_on_from(self, crashes: Sequence[_Crash], states_max: int) -> None:
        """Explore what follows these crashes, each with its share of what is left."""
        for left, crash in zip(range(len(crashes), 0, -1), crashes, strict=True):
            states = self.counts.states
            self.on_progress(states)
            if states >= states_max or not self.has_time():
                self._is_whole = False
                break
            self._stop_at = states + -(-(states_max - states) // left)
            self.counts.traces += 1
            if crash.world.process_group is self.sessions.second:
                self._recover(crash)
            else:
                self._go_on_after_failure(crash)

    def _tried(self, states_each: int) -> Sequence[_Crash]:
        """Return all crashes, or some from the first to the last, so that each can have so many states.

        First comes the last one inside a commit after a reader that saw most, then the disks of each crash point that
        have all and that lack most, as far as the bound goes.
        """
        tried_max = max((self._states_max - self.counts.states) // max(states_each, 1), 1)
        ends = [crash for point in self._points for crash in (point[:1] + point[1:][-1:])]
        others = [crash for point in self._points for crash in point[1:-1]]
        self._is_whole &= len(ends) + len(others) <= tried_max
        first = max(
            (crash for crash in ends if crash.before.progress.pending is not None), key=_most_done, default=None
        )
        some = [*_spread(ends, tried_max), *_spread(others, tried_max - len(ends))]
        return some if first is None else [first, *(crash for crash in some if crash is not first)]

    def _goes_on(self) -> bool:
        if self.counts.states >= self._stop_at or not self.has_time():
            return False
        self.counts.states += 1
        return True

    def _explore(self, world: World, moves: Moves, on_end: OnEnd) -> int:
        """Run reduced schedules of a world after these moves, where they are too many half of them random ones.

        Return how many.
        """

        def on_run(run: Run) -> None:
            on_end(run.world, run.schedule(None))
            self.counts.found += [(stale, [*moves, *run.schedule(late)]) for stale, late in self._stale.of(run)]

        stop_at, begin = self._stop_at, self.counts.states
        self._stop_at = begin + -(-(stop_at - begin) // 2)
        counts = explore_all(world, on_run, has_time=self._goes_on)
        self._stop_at = stop_at
        if counts.is_done:
            return counts.complete
        self._is_whole = False
        sampler, generator, count, size = Sampler(world), np.random.default_rng(self.counts.traces), counts.complete, 0
        while self.counts.states + size < stop_at and self._goes_on():
            end, schedule, _ = sampler.run(uniform(generator))
            size = sum(call_count for _, call_count in schedule)
            self.counts.states += size
            count += 1
            on_end(end, schedule)
        return count

    def _crash_in(self, first: World, end: World, schedule: Schedule) -> None:
        """Collect the worlds after a crash at each step of a schedule that were in no schedule before."""
        self._find(end, list(schedule))
        for world, moves in self._in_time(_steps(first, schedule)):
            self._crash_at(world, moves)

    def _crash_at(self, world: World, moves: Moves) -> None:
        """Crash the writer here, and where a reader that lives through it has done all that it can before it."""
        if world.nodes[WRITER_INDEX].call is None or not self._is_new(self._left(world)):
            return
        self._collect(world, moves)
        if self._readers_survive:
            ahead, count = world.fork(), 0
            while ahead.can_go_on(READER_INDEX):
                ahead.step(READER_INDEX)
                count += 1
            self._collect(ahead, [*moves, (READER_INDEX, count)])

    def _collect(self, world: World, moves: Moves) -> None:
        """Keep the worlds after a crash here that are new, if all was right until then."""
        if world.progress.violations:
            return
        self.counts.crash_points += 1
        before, crashes = world.fork(), self._in_time(self.sessions.crashes(world, self.model, self.disks))
        self._points.append([_Crash([*moves, action], before, left) for action, left in crashes if self._is_new(left)])

    def _left(self, world: World) -> World:
        """Return what a crash can depend on: of processes that all die only what they have written."""
        if self._readers_survive:
            return world
        left = world.fork()
        for index in range(len(left.nodes)):
            left.kernel.kill(index)
        left.nodes, left.progress = [], left.progress._replace(seen=0, readings=(), observations=())
        return left

    def _is_new(self, world: World) -> bool:
        nodes = tuple(node.number for node in world.nodes)
        identity = world.process_group is self.sessions.first, nodes, world.progress, world.kernel.identity()
        is_new = identity not in self._known
        self._known.add(identity)
        return is_new

    def _go_on_after_failure(self, crash: _Crash) -> None:
        """Let the writer go on after a sync that failed; where it rejects a commit, the next session may begin."""

        def on_end(end: World, schedule: Schedule) -> None:
            self._find(end, [*crash.moves, *schedule])
            met = set[Node]()
            for world, moves in _steps(crash.world, schedule):
                writer = world.nodes[WRITER_INDEX]
                if writer not in met and has_failed(writer):
                    met.add(writer)
                    killed = self.sessions.after_kill(world)
                    if not end.progress.violations and self._is_new(killed):
                        self._stopped.append(_Crash([*crash.moves, *moves, ("kill",)], crash.before, killed))

        self._count(crash)
        self._explore(crash.world, crash.moves, on_end)

    def _recover(self, crash: _Crash) -> None:
        def on_end(end: World, schedule: Schedule) -> None:
            self._find(end, [*crash.moves, *schedule])
            self._count_recovery(crash, end)

        self._count(crash)
        self._explore(crash.world, crash.moves, on_end)

    def _find(self, end: World, moves: Moves) -> None:
        self.counts.found += [(violation, moves) for violation in end.progress.violations]

    def _count(self, crash: _Crash) -> None:
        reached, progress = self.counts.reached, crash.before.progress
        reached[IN_COMMIT if progress.pending is not None else BETWEEN_COMMITS] += 1
        if self._readers_survive:
            reached[SEEN_EARLY] += progress.seen > len(progress.committed)
            reached[READER_AT_WORK] += is_at_work(crash.before.nodes[READER_INDEX])

    def _count_recovery(self, crash: _Crash, end: World) -> None:
        reached, before = self.counts.reached, crash.before.progress
        found = [
            mark.value for node in path_to(end.nodes[WRITER_INDEX]) for mark in node.marks if mark.kind == RECOVERED
        ]
        if found and before.pending is not None:
            count = self.sessions.second.judge.version_of(before, found[0])
            reached[KEPT if count is not None and count > len(before.committed) else DROPPED] += 1
        if self._readers_survive:
            has_ended = end.nodes[READER_INDEX].call is None
            reached[LIVED_THROUGH] += has_ended and is_at_work(crash.before.nodes[READER_INDEX])


def _steps(world: World, schedule: Schedule) -> Iterator[tuple[World, Moves]]:
    """Yield the world before each step of a schedule and at its end, with the moves up to it; it goes on in place."""
    world = world.fork()
    moves: Moves = []
    for process_index, call_count in schedule:
        for _ in range(call_count):
            yield world, moves
            world.step(process_index)
            moves = [*moves, (process_index, 1)]
    yield world, moves


def _spread(crashes: Sequence[_Crash], count: int) -> Sequence[_Crash]:
    """Return so many of them, or a few fewer, from the first to the last."""
    return crashes[:: -(-len(crashes) // count)] if crashes and count > 0 else ()


def _most_done(crash: _Crash) -> tuple[int, int]:
    return crash.before.progress.seen, crash.before.nodes[WRITER_INDEX].depth
