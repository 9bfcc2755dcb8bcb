"""Sampled schedules: uniform random ones, and PCT with its guarantee for bugs of d steps (Burckhardt et al., 2010).

Each sample is recorded as a schedule, which replays without the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tornproof.harness.search.contention import Contention
from tornproof.harness.search.transitions import Schedule, State, compressed
from tornproof.harness.simulator.process.world import World

Choose: TypeAlias = Callable[[list[int], int], int]
"""Returns one of the given process indexes for the transition of that number."""


class Sampler:
    """Runs schedules from one world, and keeps what processes access, so that only dependent calls are ordered."""

    def __init__(self, world: World) -> None:
        """Sample the futures of a world."""
        self._world = world
        self._contention = Contention(len(world.nodes))
        self.transition_count = self.run(lambda process_indexes, transition: process_indexes[0])[2]

    def run(self, choose: Choose) -> tuple[World, Schedule, int]:
        """Run a schedule; return the world at its end, the schedule, and the number of transitions."""
        if self._contention.is_refuted:
            self._contention.drop_assumptions()
        before = [node.depth for node in self._world.nodes]
        state = State.begin(self._world, self._contention)
        transition_count = 0
        depths = [node.depth for node in state.world.nodes]
        transitions = [
            (process_index, depth - start)
            for process_index, (depth, start) in enumerate(zip(depths, before, strict=True))
        ]
        while process_indexes := state.open_indexes:
            process_index = choose(process_indexes, transition_count)
            state.take_transition(process_index)
            depth = state.world.nodes[process_index].depth
            transitions.append((process_index, depth - depths[process_index]))
            depths[process_index] = depth
            transition_count += 1
        transitions += [(process_index, 1) for process_index in state.world.finish()[0]]
        return state.world, compressed(transitions), transition_count


def uniform(generator: np.random.Generator) -> Choose:
    """Return a policy that chooses each process with the same probability at each transition."""
    values: list[float] = []

    def choose(process_indexes: list[int], transition: int) -> int:
        if not values:
            # Values are made in batches, because a call of the generator costs more than a transition does.
            values.extend(generator.random(64).tolist())
        return process_indexes[int(values.pop() * len(process_indexes))]

    return choose


def pct(generator: np.random.Generator, process_count: int, transition_count: int, depth: int) -> Choose:
    """Return a policy with random priorities that change at depth - 1 random transitions of about `transition_count`.

    A bug that needs `depth` ordered transitions is found with a probability of at least
    1 / (process_count * transition_count ** (depth - 1)).
    """
    assert depth >= 1 and transition_count >= 1
    priorities = (generator.permutation(process_count) + depth).tolist()
    changes = generator.integers(transition_count, size=depth - 1).tolist()

    def choose(process_indexes: list[int], transition: int) -> int:
        chosen = max(process_indexes, key=priorities.__getitem__)
        if transition in changes:
            priorities[chosen] = changes.index(transition)
            chosen = max(process_indexes, key=priorities.__getitem__)
        return chosen

    return choose
