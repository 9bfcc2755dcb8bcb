"""Sampled schedules: uniform random ones, and PCT with its guarantee for bugs of d steps (Burckhardt et al., 2010).

What is drawn becomes a schedule at once, and the schedule is the run: nobody needs the seed to see it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tornproof.harness.search.contention import Contention
from tornproof.harness.search.turns import Moment, Schedule, compressed
from tornproof.harness.simulator.process.world import World

Choose: TypeAlias = Callable[[list[int], int], int]
"""Returns one of the places that are open, at the turn of that number."""


class Sampler:
    """Runs schedules from one world, and remembers what clients touch, so that only turns that matter are drawn."""

    def __init__(self, world: World) -> None:
        """Sample the futures of a world."""
        self._world = world
        self._contention = Contention(len(world.nodes))
        self.turn_count = self.run(lambda places, turn: places[0])[2]

    def run(self, choose: Choose) -> tuple[World, Schedule, int]:
        """Run a schedule; return the world at its end, what was run, and in how many turns."""
        if self._contention.is_refuted:
            self._contention.forget_beliefs()
        before = [node.depth for node in self._world.nodes]
        moment = Moment.begin(self._world, self._contention)
        turns = []
        turn_count = 0
        depths = [node.depth for node in moment.world.nodes]
        turns = [(place, depth - start) for place, (depth, start) in enumerate(zip(depths, before, strict=True))]
        while places := moment.open_places:
            place = choose(places, turn_count)
            moment.take_turn(place)
            depth = moment.world.nodes[place].depth
            turns.append((place, depth - depths[place]))
            depths[place] = depth
            turn_count += 1
        return moment.world, compressed(turns), turn_count


def uniform(generator: np.random.Generator) -> Choose:
    """Return a policy by which everybody is as likely as everybody else at each turn."""
    drawn: list[float] = []

    def choose(places: list[int], turn: int) -> int:
        if not drawn:
            # One draw for many turns, because each costs more than a turn does.
            drawn.extend(generator.random(64).tolist())
        return places[int(drawn.pop() * len(places))]

    return choose


def pct(generator: np.random.Generator, client_count: int, turn_count: int, depth: int) -> Choose:
    """Return a policy with priorities that change at depth - 1 turns of about so many, each drawn anew.

    A bug that needs `depth` ordered turns is met with probability 1 / (clients * turns ** (depth - 1)) or more.
    """
    assert depth >= 1 and turn_count >= 1
    priorities = (generator.permutation(client_count) + depth).tolist()
    changes = generator.integers(turn_count, size=depth - 1).tolist()

    def choose(places: list[int], turn: int) -> int:
        chosen = max(places, key=priorities.__getitem__)
        if turn in changes:
            priorities[chosen] = changes.index(turn)
            chosen = max(places, key=priorities.__getitem__)
        return chosen

    return choose
