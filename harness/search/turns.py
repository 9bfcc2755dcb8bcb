"""Turns: what a client does when it is chosen, which is one call that others can notice and all after it that none can.

A call that no other one depends on commutes with everything, so making it at once loses no outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tornproof.harness.search.contention import Contention, Depths
from tornproof.harness.simulator.filesystem.touches import Touch, are_dependent
from tornproof.harness.simulator.process.world import World

Touches: TypeAlias = tuple[Touch, ...]
Schedule: TypeAlias = tuple[tuple[int, int], ...]
"""Who makes how many calls, one after the other: (place, calls)."""


class Moment:
    """A world between two turns, and what the next turn of each client touches; None is at its end."""

    __slots__ = ("contention", "nexts", "world")

    def __init__(self, world: World, nexts: list[Touches | None], contention: Contention) -> None:
        """Take over a settled world; use `begin`."""
        self.world = world
        self.nexts = nexts
        self.contention = contention

    @classmethod
    def begin(cls, world: World, contention: Contention) -> Moment:
        """Return a copy of a world in which all clients stand at a call that others can notice."""
        forked = world.fork()
        nexts = [contention.settle(forked, place, contention.nothing) for place in range(len(forked.nodes))]
        return cls(forked, nexts, contention)

    @property
    def open_places(self) -> list[int]:
        """Places of clients that go on."""
        return [place for place, touched in enumerate(self.nexts) if touched is not None]

    def fork(self) -> Moment:
        """Return another future of this moment."""
        return Moment(self.world.fork(), self.nexts.copy(), self.contention)

    def take_turn(self, place: int, known: Depths | None = None) -> list[int]:
        """Let a client take its turn, and return the others whose next turns may have changed by that.

        `known` is how many calls of each client surely come before it.
        """
        touched, nexts, world, contention = self.nexts[place], self.nexts, self.world, self.contention
        assert touched is not None
        world.step(place)
        nexts[place] = contention.settle(world, place, known or contention.nothing)
        woken = []
        for other, theirs in enumerate(nexts):
            if other != place and theirs and are_dependent(theirs, touched):
                theirs = nexts[other] = world.touches(other)
                contention.learn(other, world.nodes[other].depth, theirs)
                woken.append(other)
        return woken


def compressed(turns: Iterable[tuple[int, int]]) -> Schedule:
    """Join the turns that a client takes in a row."""
    joined: list[tuple[int, int]] = []
    for place, call_count in turns:
        if joined and joined[-1][0] == place:
            joined[-1] = (place, joined[-1][1] + call_count)
        elif call_count:
            joined.append((place, call_count))
    return tuple(joined)


def follow(world: World, schedule: Schedule) -> World:
    """Return the world after a schedule, call by call; IndexError where a client ends earlier."""
    followed = world.fork()
    for place, call_count in schedule:
        for _ in range(call_count):
            if followed.nodes[place].call is None:
                raise IndexError(f"client {place} has ended before it made {call_count} calls")
            followed.step(place)
    return followed
