"""What processes are known to access, and so which calls can be made at once because their order does not matter.

Such a call conflicts only with calls that come before it in every equivalent schedule. The knowledge grows while
schedules are run. When a process accesses what was assumed to be private to another one, whatever was explored under
that assumption is void, and `is_refuted` says so: explore again with the present knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import TypeAlias

from tornproof.harness.simulator.filesystem.accesses import Access, are_dependent
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

Depths: TypeAlias = Sequence[int]
"""For each process, how many of its calls certainly come before."""


class _Effect:
    """The accesses of one call of a process, the last depth at which it made it, and the calls that may conflict.

    `needs` are the numbers of calls of the others after which no conflict is known. `is_assumed` says that a schedule
    relied on that.
    """

    __slots__ = ("accessed", "depth", "is_assumed", "needs")

    def __init__(self, accessed: tuple[Access, ...], process_count: int) -> None:
        self.accessed = accessed
        self.depth = -1
        self.needs = [0] * process_count
        self.is_assumed = False


class Contention:
    """All accesses of each process that were seen."""

    def __init__(self, process_count: int) -> None:
        """Start without knowledge."""
        self._effects: list[dict[tuple[Access, ...], _Effect]] = [{} for _ in range(process_count)]
        self._latest: dict[Node, _Effect] = {}
        self._by_object: list[dict[object, set[_Effect]]] = [{} for _ in range(process_count)]
        self.nothing: Depths = (0,) * process_count
        self.drop_assumptions()

    def drop_assumptions(self) -> None:
        """Keep the known accesses, and drop what was assumed when fewer of them were known."""
        self.is_refuted = False
        for effects in self._effects:
            for effect in effects.values():
                effect.is_assumed = False

    def advance(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        """Let a process make the calls whose order does not matter, and return the accesses of its next one.

        None is its end. It stops where it waits for others. The first access of a read is never made early, because the
        read must see what is acknowledged before it.
        """
        while True:
            node = world.nodes[process_index]
            if node.call is None:
                return None
            accessed = world.accesses(process_index)
            effect = self._latest.get(node)
            if effect is None or effect.accessed != accessed:
                effect = self._latest[node] = self.learn(process_index, node.depth, accessed)
            must_wait = not node.goes_on and not world.can_go_on(process_index)
            if node.begins or must_wait or not _covers(known, effect.needs):
                return accessed
            effect.is_assumed = True
            world.step(process_index)

    def learn(self, process_index: int, depth: int, accessed: tuple[Access, ...]) -> _Effect:
        """Record that a process has these accesses after `depth` calls."""
        effect = self._effects[process_index].get(accessed)
        if effect is None:
            effect = self._effects[process_index][accessed] = _Effect(accessed, len(self._effects))
            for other, rivals in self._conflicts(process_index, accessed):
                for rival in rivals:
                    effect.needs[other] = max(effect.needs[other], rival.depth + 1)
            for access in accessed:
                self._by_object[process_index].setdefault(access.of, set()).add(effect)
        if depth > effect.depth:
            effect.depth = depth
            for _, rivals in self._conflicts(process_index, accessed):
                for rival in rivals:
                    if rival.needs[process_index] <= depth:
                        rival.needs[process_index] = depth + 1
                        self.is_refuted |= rival.is_assumed
        return effect

    def _conflicts(self, process_index: int, accessed: tuple[Access, ...]) -> list[tuple[int, list[_Effect]]]:
        found = []
        for other, by_object in enumerate(self._by_object):
            if other != process_index:
                near = {effect for access in accessed for effect in by_object.get(access.of, ())}
                found.append((other, [effect for effect in near if are_dependent(effect.accessed, accessed)]))
        return found


def _covers(known: Depths, needs: Depths) -> bool:
    return all(map(ge, known, needs))
