"""Source-set DPOR with sleep sets: one complete schedule for each order of dependent calls.

Algorithm 1 of Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction" (POPL 2014), depth first
over worlds that fork, so that no prefix is run twice. A process that waits is enabled by a change of what it looked
at, and nothing disables it again. Where only waiting processes are left, time passes for them in one order only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.search.accesses import Accesses
from tornproof.harness.search.contention import Contention
from tornproof.harness.search.transitions import Schedule, State, compressed
from tornproof.harness.simulator.filesystem.accesses import Footprint
from tornproof.harness.simulator.process.world import World

Clock: TypeAlias = tuple[int, ...]
"""For each process, how many of its transitions happen before a transition, the latter included."""


class Counts(NamedTuple):
    """What was explored; the end of a `blocked` schedule is known from another one. `steps` are calls.

    In a `late` schedule a process that nobody could help went on by itself; with one, the search is not done.
    """

    complete: int
    blocked: int
    steps: int
    is_done: bool
    late: int = 0


class Transition(NamedTuple):
    """A transition of the current schedule: its number among those of its process, from 1, and its index among all.

    `depth` is how many calls its process made before it.
    """

    process_index: int
    number: int
    schedule_index: int
    depth: int
    accessed: Footprint
    clock: Clock

    def is_after(self, other: Transition) -> bool:
        """Say whether the other one is this one, or happens before it in every equivalent schedule."""
        return self.clock[other.process_index] >= other.number


class Run(NamedTuple):
    """A complete schedule: the world at its end, and the transitions by process. Valid until the search goes on.

    `ends` are how many calls each process had made when nobody could go on; those after it are in no transition.
    `schedule` returns it, or an equivalent one in which the given transition comes as late as possible.
    """

    world: World
    transitions: Sequence[Sequence[Transition]]
    ends: Sequence[int]
    schedule: Callable[[Transition | None], Schedule]


OnEnd: TypeAlias = Callable[[Run], None]


def explore_all(world: World, on_end: OnEnd, *, has_time: HasTime = always, schedules_max: int | None = None) -> Counts:
    """Run one schedule for each order of dependent calls, and call `on_end` with each.

    Stops after `schedules_max`, or when there is no time left, and is not done then. A search whose assumptions were
    refuted starts again, and then passes some schedules again; the counts are those of the last search.
    """
    contention = Contention(len(world.nodes))
    while True:
        counts = _Search(world, on_end, contention).run(has_time, schedules_max)
        if not contention.is_refuted:
            return counts
        contention.drop_assumptions()


class _Frame:
    """A state of the current schedule: the processes to choose there, those asleep, and the transition taken."""

    __slots__ = ("asleep", "state", "todo", "transition", "transition_counts")

    def __init__(self, state: State, transition_counts: Clock, asleep: set[int], first: int) -> None:
        self.state = state
        self.transition_counts = transition_counts
        self.asleep = asleep
        self.todo = [first]
        self.transition: Transition | None = None


class _Search:
    def __init__(self, world: World, on_end: OnEnd, contention: Contention) -> None:
        begin = State.begin(world, contention)
        self._contention = contention
        self._on_end = on_end
        self._process_indexes = range(len(world.nodes))
        self._accesses = Accesses(len(self._process_indexes))
        self._transitions: list[list[Transition]] = [[] for _ in self._process_indexes]
        self._frames: list[_Frame] = []
        self._prefix = tuple(
            (process_index, after.depth - before.depth)
            for process_index, (before, after) in enumerate(zip(world.nodes, begin.world.nodes, strict=True))
        )
        self._complete = self._blocked = self._steps = self._late = 0
        self._enter(begin, (0,) * len(self._process_indexes), set(), 0)

    def run(self, has_time: HasTime, schedules_max: int | None) -> Counts:
        frames = self._frames
        while frames and not self._contention.is_refuted:
            frame = frames[-1]
            if frame.transition is not None:
                self._take_back(frame, frame.transition)
            process_index = next(
                (process_index for process_index in frame.todo if process_index not in frame.asleep), None
            )
            if process_index is None:
                frames.pop()
            elif self._complete == schedules_max or not has_time():
                return self._counts(is_done=False)
            else:
                self._take(frame, process_index)
        return self._counts(is_done=not self._late)

    def _counts(self, *, is_done: bool) -> Counts:
        return Counts(self._complete, self._blocked, self._steps, is_done, self._late)

    def _take(self, frame: _Frame, process_index: int) -> None:
        accessed = frame.state.nexts[process_index]
        assert accessed is not None
        transition = frame.transition = self._ordered(process_index, accessed, frame)
        self._transitions[process_index].append(transition)
        self._accesses.add(process_index, transition.number, accessed)
        state = frame.state.fork()
        known = [
            own[count - 1].depth + 1 if count else 0
            for own, count in zip(self._transitions, transition.clock, strict=True)
        ]
        awake = state.take_transition(process_index, known)
        self._steps += state.world.nodes[process_index].depth - transition.depth
        counts = frame.transition_counts
        self._enter(
            state,
            (*counts[:process_index], transition.number, *counts[process_index + 1 :]),
            frame.asleep.difference(awake),
            process_index + 1,
        )

    def _take_back(self, frame: _Frame, transition: Transition) -> None:
        self._accesses.remove(transition.process_index, transition.accessed)
        self._transitions[transition.process_index].pop()
        frame.asleep.add(transition.process_index)
        frame.transition = None

    def _enter(self, state: State, transition_counts: Clock, asleep: set[int], preferred: int) -> None:
        """Push a frame for a state, or count the schedule when it is at its end.

        Processes alternate, because then schedules have the longest prefixes in common.
        """
        enabled = state.open_indexes
        awake = [process_index for process_index in enabled if process_index not in asleep]
        if awake:
            first = next((process_index for process_index in awake if process_index >= preferred), awake[0])
            self._frames.append(_Frame(state, transition_counts, asleep, first))
        elif enabled:
            self._blocked += 1
        else:
            self._complete += 1
            ends = [node.depth for node in state.world.nodes]
            made, is_late = state.world.finish()
            self._late += is_late
            self._on_end(Run(state.world, self._transitions, ends, lambda late: self._schedule(ends, made, late)))

    def _ordered(self, process_index: int, accessed: Footprint, frame: _Frame) -> Transition:
        """Return the next transition of a process with its clock, and add the reversals of its races to the search."""
        own = self._transitions[process_index]
        known = list(own[-1].clock) if own else [0] * len(self._process_indexes)
        number = known[process_index] + 1
        schedule_index = len(self._frames) - 1
        latest = [
            self._transitions[q][count - 1]
            for q, count in self._accesses.latest(process_index, accessed, known).items()
        ]
        races = [one for one in latest if not any(other.is_after(one) for other in latest if other is not one)]
        for one in latest:
            known = [max(pair) for pair in zip(known, one.clock, strict=True)]
        known[process_index] = number
        transition = Transition(
            process_index, number, schedule_index, frame.state.world.nodes[process_index].depth, accessed, tuple(known)
        )
        for race in races:
            self._reverse(race, transition)
        return transition

    def _reverse(self, race: Transition, transition: Transition) -> None:
        """Where the earlier transition was taken, add a process with which a reversed schedule can begin."""
        frame = self._frames[race.schedule_index]
        firsts = []
        for process_index in self._process_indexes:
            if process_index == race.process_index:
                continue
            own, count = self._transitions[process_index], frame.transition_counts[process_index]
            first = (
                own[count] if count < len(own) else transition if process_index == transition.process_index else None
            )
            if first is not None and (first is transition or not first.is_after(race)):
                firsts.append(first)
        # Where a process was woken by the earlier transition, the later one cannot come before it.
        initials = [
            one.process_index
            for one in firsts
            if frame.state.world.can_go_on(one.process_index)
            and not any(one.is_after(other) for other in firsts if other is not one)
        ]
        if initials and not any(process_index in frame.todo for process_index in initials):
            frame.todo.append(transition.process_index if transition.process_index in initials else initials[0])

    def _schedule(self, ends: Sequence[int], made: Sequence[int], late: Transition | None) -> Schedule:
        transitions = [frame.transition for frame in self._frames if frame.transition is not None]
        if late is not None:
            transitions.sort(key=lambda transition: transition.is_after(late))
        depths = [
            [*(transition.depth for transition in own), end] for own, end in zip(self._transitions, ends, strict=True)
        ]
        calls = [
            (transition.process_index, depths[transition.process_index][transition.number] - transition.depth)
            for transition in transitions
        ]
        return compressed((*self._prefix, *calls, *((process_index, 1) for process_index in made)))
