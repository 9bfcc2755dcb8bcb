"""Schedule × crash for one reader that changes nothing: every crash of the writer, every schedule of the reader.

It uses the reader reduction twice: on the writer's trace before the crash, and for each disk on the trace after it,
beside a reader that survived or begins anew.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.search.crash_world import READER_INDEX, WRITER_INDEX, Action, Disks, Sessions
from tornproof.harness.search.outcome import Said, said_by
from tornproof.harness.search.reader_reduction import (
    Arrivals,
    ReaderReduction,
    ReaderState,
    Trace,
    origin_of,
    schedule_of,
)
from tornproof.harness.simulator.persistence.models import model_named
from tornproof.harness.simulator.process.bodies import FAILED
from tornproof.harness.simulator.process.observer import Progress, Property, Violation
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

Moves: TypeAlias = list[Action]
Made = TypeVar("Made")
IN_COMMIT, BETWEEN_COMMITS = "crash inside a commit", "crash outside of commits"
SEEN_EARLY = "crash after a reader saw what is not acknowledged"
READER_AT_WORK, LIVED_THROUGH = "reader at work when the writer died", "reader lived through a crash and a recovery"
KEPT, DROPPED = "recovery found the commit that was under way", "recovery found the version before it"
ORPHAN_SEEN = "reader at work beside a recovery"
OnStates: TypeAlias = Callable[[int], None]
PARTS = 8
UNBOUNDED = sys.maxsize
CRASHES_MIN = 32
"""A bound that is too small for all crashes is divided into parts: so many, or more where a reader has fewer states."""


@dataclass(slots=True)
class ReductionCounts:
    """What a search went through: reader states, crash points, traces after them, and violations with their moves.

    An outcome is what the reader said, the commits at the end, and whether the writer died.
    """

    states: int = 0
    outcomes: set[tuple[Said, int, bool]] = field(default_factory=set)
    crash_points: int = 0
    traces: int = 0
    is_complete: bool = False
    reached: Counter[str] = field(default_factory=Counter)
    found: list[tuple[Violation, Moves]] = field(default_factory=list)


class _Crash(NamedTuple):
    trace_index: int
    action: Action
    world: World


class _Leg(NamedTuple):
    """A part of a run that an action ended, when the writer had reached the index `end` of a trace."""

    arrivals: Arrivals
    end: int
    action: Action


@dataclass(eq=False)
class CrashSearch:
    """A search of a test case under one model, "A", "D", or that of `disks`, for about so many states at most."""

    sessions: Sessions
    model: str
    disks: Disks
    states_max: int | None = None
    has_time: HasTime = always
    on_progress: OnStates = lambda states: None

    def __post_init__(self) -> None:
        """Begin with nothing found."""
        self._readers_survive = not model_named(self.model).everything_dies
        self._states_max = UNBOUNDED if self.states_max is None else self.states_max
        self._stop_at = self._states_max
        self._is_whole = True
        self.counts = ReductionCounts()

    def _in_time(self, made: Iterable[Made]) -> Iterator[Made]:
        """Yield the first, and others while there is time to make them: a world with large files takes long."""
        for each in made:
            yield each
            if not self.has_time():
                self._is_whole = False
                return


class ProductReduction(CrashSearch):
    """The search with one reader that changes nothing, whose states are counted."""

    def __post_init__(self) -> None:
        """Begin with the writer's trace without a crash."""
        super().__post_init__()
        sessions = self.sessions
        self._reduction = ReaderReduction(sessions.first.processes[READER_INDEX], READER_INDEX, sessions.first.judge)
        self._first = Trace(sessions.case.begin(sessions.first))
        self._before: Arrivals = {}
        self._call_count = 0
        self._living: list[tuple[ReaderState, int]] = []

    def run(self) -> ReductionCounts:
        """Search to the end."""
        counts, first = self.counts, self._first
        # The rest is kept for the crashes.
        self._stop_at = -(-self._states_max // 2)
        self._before = self._reduction.search(first, [self._reduction.root()], has_time=self._goes_on)
        counts.found += [(violation, [(WRITER_INDEX, len(first) - 1)]) for violation in first.progresses[-1].violations]
        for state in self._before:
            for violation in state.progress.violations:
                counts.found.append((violation, list(schedule_of(READER_INDEX, self._before, state, 0))))
        self._end(first, self._before, has_crashed=False)
        self._call_count = max(state.node.depth for state in self._before) + 1
        self._living = self._living_before()
        crashes = self._crashes()
        arrived = sorted(trace_index for _, trace_index in self._living)
        readers_count = sum(bisect_right(arrived, crash.trace_index) for crash in crashes)
        shares_states = readers_count > self._states_max - self._reduction.state_count
        states_min = min(self._reduction.state_count, self._states_max // CRASHES_MIN)
        for crashes_left in range(len(crashes), 0, -1):
            states = self._reduction.state_count
            left = self._states_max - states
            self.on_progress(states)
            if left <= 0 or not self.has_time():
                self._is_whole = False
                break
            self._stop_at = states + (min(left, max(left // crashes_left, states_min)) if shares_states else left)
            counts.traces += 1
            self._after(crashes[-crashes_left])
        counts.is_complete = self._is_whole and self._reduction.is_done
        counts.states = self._reduction.state_count
        return counts

    def _goes_on(self) -> bool:
        return self._reduction.state_count < self._stop_at and self.has_time()

    def _crashes(self) -> Sequence[_Crash]:
        """Return one crash for each distinct world after it; of equal ones the last, which most reader states precede.

        They are interleaved, so that a search that stops early has tried crashes all over the writer's session. The
        last one inside a commit comes first, because readers can have seen and done most before it.
        """
        distinct: dict[object, _Crash] = {}
        for trace_index in self._in_time(range(len(self._first) - 1)):
            self.counts.crash_points += 1
            for action, world in self._in_time(self._crashes_at(trace_index)):
                identity = (world.kernel.identity(), world.progress, world.nodes[WRITER_INDEX].number)
                distinct[identity] = _Crash(trace_index, action, world)
        crashes = list(distinct.values())
        in_commit = [crash for crash in crashes if crash.world.progress.pending is not None]
        first = max(in_commit, key=lambda crash: crash.trace_index, default=None)
        rest = [crash for part in range(PARTS) for crash in crashes[part::PARTS] if crash is not first]
        return rest if first is None else [first, *rest]

    def _crashes_at(self, trace_index: int) -> Iterator[tuple[Action, World]]:
        return self.sessions.crashes(self._world_at(self._first, trace_index), self.model, self.disks)

    def _world_at(self, trace: Trace, trace_index: int) -> World:
        """Return the world of the first session beside a reader that has not begun."""
        nodes = [trace.nodes[trace_index], self._reduction.root().node]
        kernel, progress, known = trace.kernels[trace_index], trace.progresses[trace_index], trace.known[trace_index]
        return World(self.sessions.first, kernel.fork(), nodes, progress, known)

    def _after(self, crash: _Crash) -> None:
        readers = self._bounded(self._readers_at(crash))
        self._count(crash, readers)
        legs, world = [_Leg(self._before, crash.trace_index, crash.action)], crash.world
        if world.process_group is not self.sessions.first:
            self._recover(world, readers, legs)
            return
        trace = Trace(world)
        arrivals = self._search(trace, readers, legs)
        has_violation = bool(trace.progresses[-1].violations)
        if has_violation or not has_failed(trace.nodes[-1]):
            # The writer ends as if nothing had failed.
            self._end(trace, arrivals, has_crashed=False)
        for trace_index, node in enumerate(trace.nodes):
            if has_failed(node) and not has_violation:
                kill = _Leg(arrivals, trace_index, ("kill",))
                met = [state for state, index in _right(arrivals) if index <= trace_index]
                self._recover(self.sessions.after_kill(self._world_at(trace, trace_index)), met, [*legs, kill])

    def _recover(self, world: World, readers: list[ReaderState], legs: Sequence[_Leg]) -> None:
        """Search the second session, which begins after these legs."""
        before = world.progress
        trace = Trace(world)
        arrivals = self._search(trace, readers, legs)
        self._count_recovery(trace, arrivals, before)
        self._end(trace, arrivals, has_crashed=True)

    def _living_before(self) -> list[tuple[ReaderState, int]]:
        """Return all that can be of the reader when the writer crashes, and from which index of its trace on."""
        if not self._readers_survive:
            return [(self._reduction.root(), 0)]
        return _right(self._before)

    def _readers_at(self, crash: _Crash) -> list[ReaderState]:
        """Return what the reader can have done when the writer crashes."""
        return [state for state, trace_index in self._living if trace_index <= crash.trace_index]

    def _bounded(self, readers: list[ReaderState]) -> list[ReaderState]:
        """Return all readers if there are states for them, or some in all stages of their work, with what saw most."""
        left = self._stop_at - self._reduction.state_count
        if len(readers) <= left:
            return readers
        self._is_whole = False
        apart = -(-len(readers) // max(1, left // self._call_count))
        return [max(readers, key=lambda state: state.progress.seen), *readers[::apart]]

    def _search(self, trace: Trace, readers: list[ReaderState], legs: Sequence[_Leg]) -> Arrivals:
        """Search a trace that begins after these legs, and keep its violations with their moves."""
        arrivals = self._reduction.search(trace, readers, has_time=self._goes_on)
        for violation, last, end in self._violations(trace, arrivals, readers):
            moves: Moves = list(schedule_of(READER_INDEX, arrivals, last, end))
            state = origin_of(arrivals, last)
            for leg in reversed(legs):
                moves = [*schedule_of(READER_INDEX, leg.arrivals, state, leg.end), leg.action, *moves]
                state = origin_of(leg.arrivals, state)
            self.counts.found.append((violation, moves))
        return arrivals

    def _violations(
        self, trace: Trace, arrivals: Arrivals, readers: list[ReaderState]
    ) -> Iterator[tuple[Violation, ReaderState, int]]:
        """Yield each violation, the reader's state that belongs to it, and the index that the writer must reach."""
        for violation in trace.progresses[-1].violations:
            yield violation, readers[0], len(trace) - 1
        for state in arrivals:
            for violation in state.progress.violations:
                yield violation, state, 0
        recovered = trace.recovered_count
        if recovered is not None:
            for state in readers:
                if state.progress.seen > recovered:
                    sentence = f"commit {state.progress.seen} was seen, and is gone"
                    yield Violation(Property.SEEN_LOST, "writer", sentence), state, len(trace) - 1

    def _end(self, trace: Trace, arrivals: Arrivals, *, has_crashed: bool) -> None:
        commit_count = len(trace.progresses[-1].committed)
        for state in arrivals:
            if state.node.call is None and not state.progress.violations and not trace.progresses[-1].violations:
                self.counts.outcomes.add((said_by(state.node), commit_count, has_crashed))

    def _count(self, crash: _Crash, readers: list[ReaderState]) -> None:
        reached, progress = self.counts.reached, crash.world.progress
        reached[IN_COMMIT if progress.pending is not None else BETWEEN_COMMITS] += 1
        if self._readers_survive:
            reached[SEEN_EARLY] += any(state.progress.seen > len(progress.committed) for state in readers)
            reached[READER_AT_WORK] += any(is_at_work(state.node) for state in readers)

    def _count_recovery(self, trace: Trace, arrivals: Arrivals, before: Progress) -> None:
        reached = self.counts.reached
        if before.pending is not None and trace.recovered_count is not None:
            reached[KEPT if trace.recovered_count > len(before.committed) else DROPPED] += 1
        reached[ORPHAN_SEEN] += any(0 < each.trace_index < trace.recovered_state for each in arrivals.values())
        if self._readers_survive:
            origins = [(state, origin_of(arrivals, state).node) for state in arrivals]
            # Who was at work may end in the state of one that had ended already, and is not told from it then.
            has_ended = any(state.node.call is None and origin.depth > 0 for state, origin in origins)
            reached[LIVED_THROUGH] += has_ended and any(is_at_work(origin) for _, origin in origins)


def _right(arrivals: Arrivals) -> list[tuple[ReaderState, int]]:
    """Return the states of a reader that has seen nothing wrong, each with the index of the trace when it got there."""
    return [(state, arrival.trace_index) for state, arrival in arrivals.items() if not state.progress.violations]


def has_failed(writer: Node) -> bool:
    """Whether a writer has just rejected a commit."""
    return any(mark.kind == FAILED for mark in writer.marks)


def is_at_work(reader: Node) -> bool:
    """Whether a reader has begun and not ended."""
    return reader.depth > 0 and reader.call is not None


def met_by_kills(sessions: Sessions) -> Iterator[str]:
    """Yield what a kill at each step of a commit meets, beside a reader that runs as far as it can right before it."""
    world = sessions.case.begin(sessions.first)
    while world.nodes[WRITER_INDEX].call is not None:
        if world.progress.pending is not None:
            acknowledged_count, ahead = len(world.progress.committed), world.fork()
            while ahead.can_go_on(READER_INDEX):
                ahead.step(READER_INDEX)
            if ahead.progress.seen > acknowledged_count:
                yield SEEN_EARLY
            if (Trace(sessions.after_kill(world)).recovered_count or 0) > acknowledged_count:
                yield KEPT
        world.step(WRITER_INDEX)
