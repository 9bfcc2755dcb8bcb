"""Source-set DPOR with sleep sets: one complete schedule for each order in which dependent calls can come.

Algorithm 1 of Abdulla, Aronis, Jonsson and Sagonas, "Optimal dynamic partial order reduction" (POPL 2014), depth first
over worlds that fork, so that no prefix is ever run again. Nothing in the seam waits: who has not ended is enabled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.search.accesses import Accesses
from tornproof.harness.search.contention import Contention
from tornproof.harness.search.turns import Moment, Schedule, Touches, compressed
from tornproof.harness.simulator.process.world import World

Clock: TypeAlias = tuple[int, ...]
"""By client: how many of its turns come before a turn in every schedule of the same order, itself included."""


class Counts(NamedTuple):
    """What was explored; the end of a `blocked` schedule is known from another one. Steps are calls that were made."""

    complete: int
    blocked: int
    steps: int
    is_done: bool


class Turn(NamedTuple):
    """A turn of the current schedule: its number among its client's, from 1 on, and its place among all.

    `depth` is how many calls its client made before it.
    """

    place: int
    number: int
    position: int
    depth: int
    touched: Touches
    clock: Clock


class Run(NamedTuple):
    """A complete schedule: the world at its end, and the turns of each client. It changes when the search goes on.

    `schedule` returns it, or one like it in which a turn comes as late as it can.
    """

    world: World
    turns: Sequence[Sequence[Turn]]
    schedule: Callable[[Turn | None], Schedule]


OnEnd: TypeAlias = Callable[[Run], None]


def explore_all(world: World, on_end: OnEnd, *, has_time: HasTime = always, schedules_max: int | None = None) -> Counts:
    """Run every schedule of a world that differs from others in the order of dependent calls, and hand over each end.

    Stops after `schedules_max`, or when there is no time left, and then is not done. A search whose beliefs were
    refuted starts anew, and then hands over some ends again; the counts are those of the last one.
    """
    contention = Contention(len(world.nodes))
    while True:
        counts = _Search(world, on_end, contention).run(has_time, schedules_max)
        if not contention.is_refuted:
            return counts
        contention.forget_beliefs()


class _Frame:
    """A moment of the current schedule, whom to choose there, who was chosen before, and the turn that was taken."""

    __slots__ = ("asleep", "moment", "todo", "turn", "turn_counts")

    def __init__(self, moment: Moment, turn_counts: Clock, asleep: set[int], first: int) -> None:
        self.moment = moment
        self.turn_counts = turn_counts
        self.asleep = asleep
        self.todo = [first]
        self.turn: Turn | None = None


class _Search:
    def __init__(self, world: World, on_end: OnEnd, contention: Contention) -> None:
        begin = Moment.begin(world, contention)
        self._contention = contention
        self._on_end = on_end
        self._places = range(len(world.nodes))
        self._accesses = Accesses(len(self._places))
        self._turns: list[list[Turn]] = [[] for _ in self._places]
        self._frames: list[_Frame] = []
        self._settled = tuple(
            (place, after.depth - before.depth)
            for place, (before, after) in enumerate(zip(world.nodes, begin.world.nodes, strict=True))
        )
        self._complete = self._blocked = self._steps = 0
        self._enter(begin, (0,) * len(self._places), set(), 0)

    def run(self, has_time: HasTime, schedules_max: int | None) -> Counts:
        frames = self._frames
        while frames and not self._contention.is_refuted:
            frame = frames[-1]
            if frame.turn is not None:
                self._take_back(frame, frame.turn)
            place = next((place for place in frame.todo if place not in frame.asleep), None)
            if place is None:
                frames.pop()
            elif self._complete == schedules_max or not has_time():
                return Counts(self._complete, self._blocked, self._steps, False)
            else:
                self._take(frame, place)
        return Counts(self._complete, self._blocked, self._steps, True)

    def _take(self, frame: _Frame, place: int) -> None:
        touched = frame.moment.nexts[place]
        assert touched is not None
        turn = frame.turn = self._ordered(place, touched, frame)
        self._turns[place].append(turn)
        self._accesses.add(place, turn.number, touched)
        moment = frame.moment.fork()
        known = [own[count - 1].depth + 1 if count else 0 for own, count in zip(self._turns, turn.clock, strict=True)]
        awake = moment.take_turn(place, known)
        self._steps += moment.world.nodes[place].depth - turn.depth
        counts = frame.turn_counts
        self._enter(
            moment, (*counts[:place], turn.number, *counts[place + 1 :]), frame.asleep.difference(awake), place + 1
        )

    def _take_back(self, frame: _Frame, turn: Turn) -> None:
        self._accesses.remove(turn.place, turn.touched)
        self._turns[turn.place].pop()
        frame.asleep.add(turn.place)
        frame.turn = None

    def _enter(self, moment: Moment, turn_counts: Clock, asleep: set[int], favourite: int) -> None:
        """Go on from a moment, or be done.

        Clients take turns, because then the most schedules have the most in common.
        """
        enabled = moment.open_places
        awake = [place for place in enabled if place not in asleep]
        if awake:
            first = next((place for place in awake if place >= favourite), awake[0])
            self._frames.append(_Frame(moment, turn_counts, asleep, first))
        elif enabled:
            self._blocked += 1
        else:
            self._complete += 1
            self._on_end(Run(moment.world, self._turns, lambda late: self._schedule(moment.world, late)))

    def _ordered(self, place: int, touched: Touches, frame: _Frame) -> Turn:
        """Return the next turn of a client with its clock, and see to it that its races are run the other way round."""
        own = self._turns[place]
        known = list(own[-1].clock) if own else [0] * len(self._places)
        number = known[place] + 1
        position = len(self._frames) - 1
        latest = [self._turns[q][count - 1] for q, count in self._accesses.latest(place, touched, known).items()]
        races = [
            one
            for one in latest
            if not any(other.clock[one.place] >= one.number for other in latest if other is not one)
        ]
        for one in latest:
            known = [max(pair) for pair in zip(known, one.clock, strict=True)]
        known[place] = number
        turn = Turn(place, number, position, frame.moment.world.nodes[place].depth, touched, tuple(known))
        for race in races:
            self._reverse(race, turn)
        return turn

    def _reverse(self, race: Turn, turn: Turn) -> None:
        """Let someone who can begin a schedule with the later turn first be chosen where the earlier one was."""
        frame = self._frames[race.position]
        firsts = []
        for place in self._places:
            if place == race.place:
                continue
            own, count = self._turns[place], frame.turn_counts[place]
            first = own[count] if count < len(own) else turn if place == turn.place else None
            if first is not None and (first is turn or first.clock[race.place] < race.number):
                firsts.append(first)
        initials = [
            one.place
            for one in firsts
            if not any(one.clock[other.place] >= other.number for other in firsts if other is not one)
        ]
        if not any(place in frame.todo for place in initials):
            frame.todo.append(turn.place if turn.place in initials else initials[0])

    def _schedule(self, world: World, late: Turn | None) -> Schedule:
        turns = [frame.turn for frame in self._frames if frame.turn is not None]
        if late is not None:
            turns.sort(key=lambda turn: turn.clock[late.place] >= late.number)
        ends = [node.depth for node in world.nodes]
        depths = [[*(turn.depth for turn in own), end] for own, end in zip(self._turns, ends, strict=True)]
        calls = [(turn.place, depths[turn.place][turn.number] - turn.depth) for turn in turns]
        return compressed((*self._settled, *calls))
