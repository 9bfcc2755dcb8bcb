"""What processes are known to access, and so which calls can be made at once because their order does not matter.

Such a call conflicts only with calls that come before it in every equivalent schedule. The knowledge grows while
schedules are run. When a process accesses what was assumed to be private to another one, whatever was explored under
that assumption is void, and `is_refuted` says so: explore again with the present knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.accesses import Access, are_dependent
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel, Mapped
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

Depths: TypeAlias = Sequence[int]
"""For each process, how many of its calls certainly come before."""
_Key: TypeAlias = tuple[int, int]


class _Open(NamedTuple):
    """The files that a process has open. Its answers do not determine them: a name can lead to another file by now."""

    handles: dict[_Key, Handle]
    mappings: dict[_Key, Mapped]

    @classmethod
    def of(cls, kernel: Kernel, process_index: int) -> _Open:
        return cls(
            {key: handle for key, handle in kernel.handles.items() if key[0] == process_index},
            {key: mapped for key, mapped in kernel.mappings.items() if key[0] == process_index},
        )

    def is_in(self, kernel: Kernel) -> bool:
        return self.handles.items() <= kernel.handles.items() and self.mappings.items() <= kernel.mappings.items()


class Leap(NamedTuple):
    """Consecutive read-only calls whose answers are known: the node and open files after them, and what they need.

    `start` is what must be open before, `needs` which calls of other processes must have been made, and `reported` are
    the nodes on the way that have marks or an outcome.
    """

    node: Node
    needs: Depths
    start: _Open
    opened: tuple[tuple[_Key, Handle], ...]
    mapped: tuple[tuple[_Key, Mapped], ...]
    closed: tuple[_Key, ...]
    reported: tuple[Node, ...]

    def take(self, world: World, process_index: int) -> None:
        """Make the calls."""
        kernel, process_group = world.kernel, world.process_group
        for key in self.closed:
            kernel.handles.pop(key, None)
            kernel.mappings.pop(key, None)
        kernel.handles.update(self.opened)
        kernel.mappings.update(self.mapped)
        world.nodes[process_index] = self.node
        for node in self.reported:
            world.progress = process_group.judge.observe(
                world.progress, process_group.processes[process_index].name, node
            )


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
    """All accesses of each process that were seen, and the leaps that follow from them."""

    def __init__(self, process_count: int) -> None:
        """Start without knowledge."""
        self._effects: list[dict[tuple[Access, ...], _Effect]] = [{} for _ in range(process_count)]
        self._by_object: list[dict[object, set[_Effect]]] = [{} for _ in range(process_count)]
        self.nothing: Depths = (0,) * process_count
        self.drop_assumptions()

    def drop_assumptions(self) -> None:
        """Keep the known accesses, and drop what was assumed when fewer of them were known."""
        self.is_refuted = False
        self._leaps: list[dict[int, list[Leap]]] = [{} for _ in self._effects]
        self._steps: list[dict[int, tuple[_Effect, _Open]]] = [{} for _ in self._effects]
        for effects in self._effects:
            for effect in effects.values():
                effect.is_assumed = False

    def advance(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        """Let a process make the calls whose order does not matter, and return the accesses of its next one.

        None is its end. The first access of a read is never made early, because the read must see what is acknowledged
        before it.
        """
        leaps, steps, kernel = self._leaps[process_index], self._steps[process_index], world.kernel
        while True:
            node = world.nodes[process_index]
            if node.call is None:
                return None
            for leap in leaps.get(node.number, ()):
                if _covers(known, leap.needs) and leap.start.is_in(kernel):
                    leap.take(world, process_index)
                    break
            else:
                step = steps.get(node.number)
                if step is None or not _covers(known, step[0].needs) or not step[1].is_in(kernel):
                    accessed = world.accesses(process_index)
                    effect = self.learn(process_index, node.depth, accessed)
                    if node.begins or not _covers(known, effect.needs):
                        return accessed
                    effect.is_assumed = True
                    if _is_read_only(node.call, accessed) and self._leap(world, process_index, known):
                        continue
                    steps[node.number] = effect, _Open.of(kernel, process_index)
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

    def _leap(self, world: World, process_index: int, known: Depths) -> bool:
        """Record a leap over the next read-only calls whose order does not matter; return whether there are any."""
        tried = world.fork()
        reported: list[Node] = []
        needs: Depths = self.nothing
        while (node := tried.nodes[process_index]).call is not None and not node.begins:
            accessed = tried.accesses(process_index)
            effect = self.learn(process_index, node.depth, accessed)
            if not _is_read_only(node.call, accessed) or not _covers(known, effect.needs):
                break
            effect.is_assumed = True
            needs = [max(pair) for pair in zip(needs, effect.needs, strict=True)]
            tried.step(process_index)
            if tried.nodes[process_index].marks or tried.nodes[process_index].outcome:
                reported.append(tried.nodes[process_index])
        start = world.nodes[process_index]
        if tried.nodes[process_index] is start:
            return False
        before, after = world.kernel, tried.kernel
        leap = Leap(
            tried.nodes[process_index],
            tuple(needs),
            _Open.of(before, process_index),
            tuple(item for item in after.handles.items() if item[0] not in before.handles),
            tuple(item for item in after.mappings.items() if item[0] not in before.mappings),
            tuple(
                key
                for key in (*before.handles, *before.mappings)
                if key not in after.handles and key not in after.mappings
            ),
            tuple(reported),
        )
        self._leaps[process_index].setdefault(start.number, []).append(leap)
        return True


def _is_read_only(call: Call, accessed: tuple[Access, ...]) -> bool:
    return call.kind in READ_ONLY_CALLS or (call.kind is CallKind.CLOSE and not accessed)


def _covers(known: Depths, needs: Depths) -> bool:
    return all(map(ge, known, needs))
