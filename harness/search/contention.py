"""What clients are known to touch, and by that which calls can be made at once: nobody else can notice their order.

Such a call conflicts only with calls that come before it in every schedule of the same order. What is known grows while
schedules are run. When a client touches what another one was thought to have for itself, all that was explored on that
belief is worth nothing, and `is_refuted` says so: explore again, with what is known now.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.intercept import LOOKS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel, Mapped
from tornproof.harness.simulator.filesystem.touches import Touch, are_dependent
from tornproof.harness.simulator.process.client import Node
from tornproof.harness.simulator.process.world import World

Depths: TypeAlias = Sequence[int]
"""By client: how many of its calls surely come before."""
_Key: TypeAlias = tuple[int, int]


class _Open(NamedTuple):
    """What a client has open, which no answer has told it: a name can lead to another file by now."""

    handles: dict[_Key, Handle]
    mappings: dict[_Key, Mapped]

    @classmethod
    def of(cls, kernel: Kernel, place: int) -> _Open:
        return cls(
            {key: handle for key, handle in kernel.handles.items() if key[0] == place},
            {key: mapped for key, mapped in kernel.mappings.items() if key[0] == place},
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

    def take(self, world: World, place: int) -> None:
        """Make the calls."""
        kernel, cast = world.kernel, world.cast
        for key in self.closed:
            kernel.handles.pop(key, None)
            kernel.mappings.pop(key, None)
        kernel.handles.update(self.opened)
        kernel.mappings.update(self.mapped)
        world.nodes[place] = self.node
        for node in self.said:
            world.progress = cast.judge.observe(world.progress, cast.clients[place].name, node)


class _Deed:
    """What a client touches in one call, how late it did so, and how early others touch something in conflict."""

    __slots__ = ("depth", "is_believed", "needs", "touched")

    def __init__(self, touched: tuple[Touch, ...], client_count: int) -> None:
        self.touched = touched
        self.depth = -1
        self.needs = [0] * client_count
        self.is_believed = False


class Contention:
    """All that each client was seen to touch; the leaps are what follows from it."""

    def __init__(self, client_count: int) -> None:
        """Start without knowledge."""
        self._deeds: list[dict[tuple[Touch, ...], _Deed]] = [{} for _ in range(client_count)]
        self._by_object: list[dict[object, set[_Deed]]] = [{} for _ in range(client_count)]
        self.nothing: Depths = (0,) * client_count
        self.forget_beliefs()

    def forget_beliefs(self) -> None:
        """Keep the knowledge, and believe nothing that followed from less of it."""
        self.is_refuted = False
        self._leaps: list[dict[int, list[Leap]]] = [{} for _ in self._deeds]
        self._steps: list[dict[int, tuple[_Deed, _Open]]] = [{} for _ in self._deeds]
        for deeds in self._deeds:
            for deed in deeds.values():
                deed.is_believed = False

    def settle(self, world: World, place: int, known: Depths) -> tuple[Touch, ...] | None:
        """Let a client make the calls whose order nobody can notice, and return what its next one touches.

        None is its end. The first look of a read is never made early, because what is acknowledged before it counts.
        """
        leaps, steps, kernel = self._leaps[place], self._steps[place], world.kernel
        while True:
            node = world.nodes[place]
            if node.call is None:
                return None
            for leap in leaps.get(node.number, ()):
                if _covers(known, leap.needs) and leap.start.is_there(kernel):
                    leap.take(world, place)
                    break
            else:
                step = steps.get(node.number)
                if step is None or not _covers(known, step[0].needs) or not step[1].is_there(kernel):
                    touched = world.touches(place)
                    deed = self.learn(place, node.depth, touched)
                    if node.begins or not _covers(known, deed.needs):
                        return touched
                    deed.is_believed = True
                    if _is_look(node.call, touched) and self._leap(world, place, known):
                        continue
                    steps[node.number] = deed, _Open.of(kernel, place)
                world.step(place)

    def learn(self, place: int, depth: int, touched: tuple[Touch, ...]) -> _Deed:
        """Remember that a client touches that when it has made so many calls."""
        deed = self._deeds[place].get(touched)
        if deed is None:
            deed = self._deeds[place][touched] = _Deed(touched, len(self._deeds))
            for other in self._conflicts(place, touched):
                for rival in other[1]:
                    deed.needs[other[0]] = max(deed.needs[other[0]], rival.depth + 1)
            for touch in touched:
                self._by_object[place].setdefault(touch.of, set()).add(deed)
        if depth > deed.depth:
            deed.depth = depth
            for _, rivals in self._conflicts(place, touched):
                for rival in rivals:
                    if rival.needs[place] <= depth:
                        rival.needs[place] = depth + 1
                        self.is_refuted |= rival.is_believed
        return deed

    def _conflicts(self, place: int, touched: tuple[Touch, ...]) -> list[tuple[int, list[_Deed]]]:
        found = []
        for other, by_object in enumerate(self._by_object):
            if other != place:
                near = {deed for touch in touched for deed in by_object.get(touch.of, ())}
                found.append((other, [deed for deed in near if are_dependent(deed.touched, touched)]))
        return found

    def _leap(self, world: World, place: int, known: Depths) -> bool:
        """Learn to make all looks from here on that nobody can notice; whether there is one."""
        tried = world.fork()
        said: list[Node] = []
        needs: Depths = self.nothing
        while (node := tried.nodes[place]).call is not None and not node.begins:
            touched = tried.touches(place)
            deed = self.learn(place, node.depth, touched)
            if not _is_look(node.call, touched) or not _covers(known, deed.needs):
                break
            deed.is_believed = True
            needs = [max(pair) for pair in zip(needs, deed.needs, strict=True)]
            tried.step(place)
            if tried.nodes[place].marks or tried.nodes[place].outcome:
                said.append(tried.nodes[place])
        start = world.nodes[place]
        if tried.nodes[place] is start:
            return False
        before, after = world.kernel, tried.kernel
        leap = Leap(
            tried.nodes[place],
            tuple(needs),
            _Open.of(before, place),
            tuple(item for item in after.handles.items() if item[0] not in before.handles),
            tuple(item for item in after.mappings.items() if item[0] not in before.mappings),
            tuple(
                key
                for key in (*before.handles, *before.mappings)
                if key not in after.handles and key not in after.mappings
            ),
            tuple(said),
        )
        self._leaps[place].setdefault(start.number, []).append(leap)
        return True


def _is_look(call: Call, touched: tuple[Touch, ...]) -> bool:
    return call.kind in LOOKS or (call.kind is CallKind.CLOSE and not touched)


def _covers(known: Depths, needs: Depths) -> bool:
    return all(map(ge, known, needs))
