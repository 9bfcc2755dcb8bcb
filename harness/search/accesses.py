"""The accesses of the current schedule by object, which find the latest transition that another one depends on."""

from __future__ import annotations

from typing import TypeAlias

from tornproof.harness.simulator.filesystem.accesses import Footprint

_Ranges: TypeAlias = list[tuple[int, int, int]]


class Accesses:
    """For each object and process a stack: numbers of transitions with the range that each accessed."""

    def __init__(self, process_count: int) -> None:
        """Start without accesses."""
        self._processes = range(process_count)
        self._changes: dict[object, tuple[_Ranges, ...]] = {}
        self._reads: dict[object, tuple[_Ranges, ...]] = {}

    def add(self, process_index: int, number: int, accessed: Footprint) -> None:
        """Push a transition of a process."""
        for of, start, stop, changes in accessed:
            table = self._changes if changes else self._reads
            stacks = table.get(of)
            if stacks is None:
                stacks = table[of] = tuple([] for _ in self._processes)
            stacks[process_index].append((number, start, stop))

    def remove(self, process_index: int, accessed: Footprint) -> None:
        """Pop the latest transition of a process."""
        for of, _, _, changes in accessed:
            (self._changes if changes else self._reads)[of][process_index].pop()

    def latest(self, process_index: int, accessed: Footprint, known: list[int]) -> dict[int, int]:
        """Return by process the latest transition after the `known` ones that these accesses depend on."""
        found: dict[int, int] = {}
        for of, start, stop, changes in accessed:
            tables = (self._changes, self._reads) if changes else (self._changes,)
            for table in tables:
                stacks = table.get(of)
                if stacks is None:
                    continue
                for other, stack in enumerate(stacks):
                    if other == process_index or not stack:
                        continue
                    least = found.get(other, known[other])
                    for number, other_start, other_stop in reversed(stack):
                        if number <= least:
                            break
                        if other_start < stop and start < other_stop:
                            found[other] = number
                            break
        return found
