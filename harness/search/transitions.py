"""Transitions: one call of a chosen process that others may depend on, and all independent calls that follow it.

A call that no other one depends on commutes with everything, so making it at once loses no outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tornproof.harness.search.contention import Contention, Depths
from tornproof.harness.simulator.filesystem.accesses import Footprint, are_dependent
from tornproof.harness.simulator.process.world import World

Schedule: TypeAlias = tuple[tuple[int, int], ...]
"""Which process makes how many calls, in order: (process index, calls)."""


class State:
    """A world between two transitions, and the accesses of each process's next one, or None at its end."""

    __slots__ = ("contention", "nexts", "world")

    def __init__(self, world: World, nexts: list[Footprint | None], contention: Contention) -> None:
        """Call `begin` instead."""
        self.world = world
        self.nexts = nexts
        self.contention = contention

    @classmethod
    def begin(cls, world: World, contention: Contention) -> State:
        """Return a copy of a world in which the next call of each process is one that others may depend on."""
        forked = world.fork()
        nexts = [
            contention.advance(forked, process_index, contention.nothing) for process_index in range(len(forked.nodes))
        ]
        return cls(forked, nexts, contention)

    @property
    def open_indexes(self) -> list[int]:
        """Indexes of the processes that can go on."""
        return self.world.enabled

    def fork(self) -> State:
        """Return a copy that can go another way."""
        return State(self.world.fork(), self.nexts.copy(), self.contention)

    def take_transition(self, process_index: int, known: Depths | None = None) -> list[int]:
        """Take a transition of a process, and return the others whose next transitions may have changed by that.

        `known` is how many calls of each process certainly come before it.
        """
        accessed, nexts, world, contention = self.nexts[process_index], self.nexts, self.world, self.contention
        assert accessed is not None
        world.step(process_index)
        nexts[process_index] = contention.advance(world, process_index, known or contention.nothing)
        woken = []
        for other, theirs in enumerate(nexts):
            if other != process_index and theirs and are_dependent(theirs, accessed):
                theirs = nexts[other] = world.accesses(other)
                contention.learn(other, world.nodes[other].depth, theirs)
                woken.append(other)
        return woken


def compressed(transitions: Iterable[tuple[int, int]]) -> Schedule:
    """Join consecutive entries of the same process."""
    joined: list[tuple[int, int]] = []
    for process_index, call_count in transitions:
        if joined and joined[-1][0] == process_index:
            joined[-1] = (process_index, joined[-1][1] + call_count)
        elif call_count:
            joined.append((process_index, call_count))
    return tuple(joined)


def follow(world: World, schedule: Schedule) -> World:
    """Return the world after a schedule; raises IndexError if a process ends earlier."""
    followed = world.fork()
    for process_index, call_count in schedule:
        for _ in range(call_count):
            if followed.nodes[process_index].call is None:
                raise IndexError(f"process {process_index} has ended before it made {call_count} calls")
            followed.step(process_index)
    return followed
