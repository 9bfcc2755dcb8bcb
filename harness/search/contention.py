"""What processes are known to access, and so which calls can be made at once because their order does not matter.

Such a call conflicts only with calls that come before it in every equivalent schedule. The knowledge grows while
schedules are run. When a process accesses what was assumed to be private to another one, whatever was explored under
that assumption is void, and `is_refuted` says so: explore again with the present knowledge.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from operator import ge
from typing import TypeAlias

from tornproof.harness.simulator.filesystem.accesses import Access, are_dependent
from tornproof.harness.simulator.filesystem.file_state import REMEMBERED_BYTES_MAX
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World

Depths: TypeAlias = Sequence[int]
"""For each process, how many of its calls certainly come before."""


READS = frozenset(
    {
        CallKind.OPEN_FOR_READING,
        CallKind.LISTDIR,
        CallKind.KIND,
        CallKind.PREAD,
        CallKind.SIZE,
        CallKind.CLOSE,
        CallKind.LOAD_FENCE,
        CallKind.STORE_FENCE,
    }
)
REPEATED_COUNT = 8
"""So many reads are kept of each node."""


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


class _Reads:
    """Calls in a row that only read, up to the node `end`: the same wherever all that they read is the same.

    That are the names, ranges of files, and which files were open under the numbers in `before`; `after` are those that
    are open then. At the same node a process holds the same locks. `needs` are those of all calls together.
    """

    __slots__ = ("_after", "_before", "_directories", "_end", "_files", "_needs")

    def __init__(self, kernel: Kernel, begin: Node, process_count: int) -> None:
        self._directories = kernel.directories
        self._files: dict[int, tuple[bytes, list[tuple[int, int]]]] = {}
        self._before: dict[tuple[int, int], Handle] = {}
        self._after: dict[tuple[int, int], Handle | None] = {}
        self._needs = [0] * process_count
        self._end = begin

    def add(self, kernel: Kernel, process_index: int, handle: Handle | None, effect: _Effect, end: Node) -> None:
        """Add the next call, after it was made; `handle` is what it used."""
        call = self._end.call
        assert call is not None
        key = process_index, call.file
        if handle is not None:
            if key not in self._after:
                self._before[key] = handle
            read = self._files.setdefault(handle.file, (kernel.files[handle.file].content, []))
            read[1].append((call.offset_bytes, call.offset_bytes + call.size_bytes))
        self._after[key] = kernel.handles.get(key)
        self._needs = list(map(max, self._needs, effect.needs))
        self._end = end

    def fits(self, kernel: Kernel, known: Depths) -> bool:
        """Say whether a process makes these calls here too, and their order does not matter."""
        if kernel.directories is not self._directories or not _covers(known, self._needs):
            return False
        for key, handle in self._before.items():
            if kernel.handles.get(key) != handle:
                return False
        for file, (before, ranges) in self._files.items():
            content = kernel.files[file].content
            if content is before:
                continue
            if len(content) != len(before) or any(content[start:stop] != before[start:stop] for start, stop in ranges):
                return False
        return True

    def repeat(self, world: World, process_index: int) -> None:
        """Let a process make the calls."""
        handles = world.kernel.handles
        for key, handle in self._after.items():
            if handle is None:
                handles.pop(key, None)
            else:
                handles[key] = handle
        world.nodes[process_index] = self._end


class Contention:
    """All accesses of each process that were seen."""

    def __init__(self, process_count: int) -> None:
        """Start without knowledge."""
        self._effects: list[dict[tuple[Access, ...], _Effect]] = [{} for _ in range(process_count)]
        self._latest: dict[Node, _Effect] = {}
        self._reads: defaultdict[Node, deque[_Reads]] = defaultdict(partial(deque, maxlen=REPEATED_COUNT))
        self._by_object: list[dict[object, set[_Effect]]] = [{} for _ in range(process_count)]
        self.nothing: Depths = (0,) * process_count
        self.drop_assumptions()

    def drop_assumptions(self) -> None:
        """Keep the known accesses, and drop what was assumed when fewer of them were known."""
        self.is_refuted = False
        self._reads.clear()
        for effects in self._effects:
            for effect in effects.values():
                effect.is_assumed = False

    def advance(self, world: World, process_index: int, known: Depths) -> tuple[Access, ...] | None:
        """Let a process make the calls whose order does not matter, and return the accesses of its next one.

        None is its end. It stops where it waits for others. The first access of a read is never made early, because the
        read must see what is acknowledged before it.
        """
        reads: _Reads | None = None
        while True:
            node = world.nodes[process_index]
            if node.call is None:
                return None
            only_reads = node.call.kind in READS and node.goes_on and not node.slept and not world.watches
            if only_reads and reads is None:
                again = self._again(world, node, known)
                if again is not None:
                    again.repeat(world, process_index)
                    continue
            accessed = world.accesses(process_index)
            effect = self._latest.get(node)
            if effect is None or effect.accessed != accessed:
                effect = self._latest[node] = self.learn(process_index, node.depth, accessed)
            must_wait = not node.goes_on and not world.can_go_on(process_index)
            if node.begins or must_wait or not _covers(known, effect.needs):
                return accessed
            effect.is_assumed = True
            handle = world.kernel.handles.get((process_index, node.call.file))
            world.step(process_index)
            end = world.nodes[process_index]
            is_large = handle is not None and len(world.kernel.files[handle.file].content) > REMEMBERED_BYTES_MAX
            if not only_reads or is_large or end.reports or (accessed and node.call.kind is CallKind.CLOSE):
                reads = None
                continue
            if reads is None:
                reads = _Reads(world.kernel, node, len(self._effects))
                self._reads[node].append(reads)
            reads.add(world.kernel, process_index, handle, effect, end)

    def _again(self, world: World, node: Node, known: Depths) -> _Reads | None:
        for reads in self._reads[node]:
            if reads.fits(world.kernel, known):
                return reads
        return None

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
                        self._reads.clear()
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
