"""What clients are known to touch, and by that which calls can be made at once: nobody else can notice their order.

Such a call conflicts only with calls that come before it in every schedule of the same order. What is known grows while
schedules are run. When a client touches what another one was thought to have for itself, all that was explored on that
belief is worth nothing, and `is_refuted` says so: explore again, with what is known now.
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
"""By client: how many of its calls surely come before."""
_Key: TypeAlias = tuple[int, int]


class _Open(NamedTuple):
    """What a client has open, which no answer has told it: a name can lead to another file by now."""

    handles: dict[_Key, Handle]
    mappings: dict[_Key, Mapped]

    @classmethod
    def of(cls, kernel: Kernel, process_index: int) -> _Open:
        return cls(
            {key: handle for key, handle in kernel.handles.items() if key[0] == process_index},
            {key: mapped for key, mapped in kernel.mappings.items() if key[0] == process_index},
        )

    def is_there(self, kernel: Kernel) -> bool:
        return self.handles.items() <= kernel.handles.items() and self.mappings.items() <= kernel.mappings.items()


class Leap(NamedTuple):
    """Looks in a row whose answers are known: where they lead, what is open then, and after how much of the others."""

    node: Node
    needs: Depths
    start: _Open
    opened: tuple[tuple[_Key, Handle], ...]
    mapped: tuple[tuple[_Key, Mapped], ...]
    closed: tuple[_Key, ...]
    said: tuple[Node, ...]

    def take(self, world: World, process_index: int) -> None:
        """Make the calls."""
        kernel, process_group = world.kernel, world.process_group
        for key in self.closed:
            kernel.handles.pop(key, None)
            kernel.mappings.pop(key, None)
        kernel.handles.update(self.opened)
        kernel.mappings.update(self.mapped)
        world.nodes[process_index] = self.node
        for node in self.said:
            world.progress = process_group.judge.observe(
                world.progress, process_group.processes[process_index].name, node
            )


class _Effect:
    """What a client touches in one call, how late it did so, and how early others touch something in conflict."""

    __slots__ = ("accessed", "depth", "is_believed", "needs")

    def __init__(self, accessed: tuple[Access, ...], process_count: int) -> None:
        self.accessed = accessed
        self.depth = -1
        self.needs = [0] * process_count
        self.is_believed = False


class Contention:
    """All that each client was seen to touch; the leaps are what follows from it."""

    def __init__(self, process_count: int) -> None:
        """Start without knowledge."""
        self._effects: list[dict[tuple[Access, ...], _Effect]] = [{} for _ in range(process_count)]
        self._by_object: list[dict[object, set[_Effect]]] = [{} for _ in range(process_count)]
        self.nothing: Depths = (0,) * process_count
        self.forget_beliefs()

    def forget_beliefs(self) -> None:
        """Keep the knowledge, and believe nothing that followed from less of it."""
        self.is_refuted = False
        self._leaps: list[dict[int, list[Leap]]] = [{} for _ in self._effects]
        self._steps: list[dict[int, tuple[_Effect, _Open]]] = [{} for _ in self._effects]
        for effects in self._effects:
            for effect in effects.values():
                effect.is_believed = False

    def settle(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        """Let a client make the calls whose order nobody can notice, and return what its next one touches.

        None is its end. The first look of a read is never made early, because what is acknowledged before it counts.
        """
        leaps, steps, kernel = self._leaps[process_index], self._steps[process_index], world.kernel
        while True:
            node = world.nodes[process_index]
            if node.call is None:
                return None
            for leap in leaps.get(node.number, ()):
                if _covers(known, leap.needs) and leap.start.is_there(kernel):
                    leap.take(world, process_index)
                    break
            else:
                step = steps.get(node.number)
                if step is None or not _covers(known, step[0].needs) or not step[1].is_there(kernel):
                    accessed = world.accesses(process_index)
                    effect = self.learn(process_index, node.depth, accessed)
                    if node.begins or not _covers(known, effect.needs):
                        return accessed
                    effect.is_believed = True
                    if _is_look(node.call, accessed) and self._leap(world, process_index, known):
                        continue
                    steps[node.number] = effect, _Open.of(kernel, process_index)
                world.step(process_index)

    def learn(self, process_index: int, depth: int, accessed: tuple[Access, ...]) -> _Effect:
        """Remember that a client touches that when it has made so many calls."""
        effect = self._effects[process_index].get(accessed)
        if effect is None:
            effect = self._effects[process_index][accessed] = _Effect(accessed, len(self._effects))
            for other in self._conflicts(process_index, accessed):
                for rival in other[1]:
                    effect.needs[other[0]] = max(effect.needs[other[0]], rival.depth + 1)
            for access in accessed:
                self._by_object[process_index].setdefault(access.of, set()).add(effect)
        if depth > effect.depth:
            effect.depth = depth
            for _, rivals in self._conflicts(process_index, accessed):
                for rival in rivals:
                    if rival.needs[process_index] <= depth:
                        rival.needs[process_index] = depth + 1
                        self.is_refuted |= rival.is_believed
        return effect

    def _conflicts(self, process_index: int, accessed: tuple[Access, ...]) -> list[tuple[int, list[_Effect]]]:
        found = []
        for other, by_object in enumerate(self._by_object):
            if other != process_index:
                near = {effect for access in accessed for effect in by_object.get(access.of, ())}
                found.append((other, [effect for effect in near if are_dependent(effect.accessed, accessed)]))
        return found

    def _leap(self, world: World, process_index: int, known: Depths) -> bool:
        """Learn to make all looks from here on that nobody can notice; whether there is one."""
        tried = world.fork()
        said: list[Node] = []
        needs: Depths = self.nothing
        while (node := tried.nodes[process_index]).call is not None and not node.begins:
            accessed = tried.accesses(process_index)
            effect = self.learn(process_index, node.depth, accessed)
            if not _is_look(node.call, accessed) or not _covers(known, effect.needs):
                break
            effect.is_believed = True
            needs = [max(pair) for pair in zip(needs, effect.needs, strict=True)]
            tried.step(process_index)
            if tried.nodes[process_index].marks or tried.nodes[process_index].outcome:
                said.append(tried.nodes[process_index])
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
            tuple(said),
        )
        self._leaps[process_index].setdefault(start.number, []).append(leap)
        return True


def _is_look(call: Call, accessed: tuple[Access, ...]) -> bool:
    return call.kind in READ_ONLY_CALLS or (call.kind is CallKind.CLOSE and not accessed)


def _covers(known: Depths, needs: Depths) -> bool:
    return all(map(ge, known, needs))
