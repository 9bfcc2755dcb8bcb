"""What the turns of the current schedule touched, by object, so that the latest one that a turn depends on is near."""

from __future__ import annotations

from typing import TypeAlias

from tornproof.harness.search.transitions import Footprint

_Ranges: TypeAlias = list[tuple[int, int, int]]


class Accesses:
    """A stack for each object and client: numbers of turns with the range that each touched."""

    def __init__(self, process_count: int) -> None:
        """Start with nothing touched."""
        self._processes = range(process_count)
        self._changes: dict[object, tuple[_Ranges, ...]] = {}
        self._reads: dict[object, tuple[_Ranges, ...]] = {}

    def add(self, process_index: int, number: int, accessed: Footprint) -> None:
        """Remember a turn of a client."""
        for of, start, stop, changes in accessed:
            table = self._changes if changes else self._reads
            stacks = table.get(of)
            if stacks is None:
                stacks = table[of] = tuple([] for _ in self._processes)
            stacks[process_index].append((number, start, stop))

    def remove(self, process_index: int, accessed: Footprint) -> None:
        """Forget a client's latest turn."""
        for of, _, _, changes in accessed:
            (self._changes if changes else self._reads)[of][process_index].pop()

    def latest(self, process_index: int, accessed: Footprint, known: list[int]) -> dict[int, int]:
        """Return, by client, the latest turn that one of `place` depends on, where it comes after the `known` ones."""
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
