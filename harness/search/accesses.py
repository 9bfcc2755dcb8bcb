"""What the turns of the current schedule touched, by object, so that the latest one that a turn depends on is near."""

from __future__ import annotations

from typing import TypeAlias

from tornproof.harness.search.turns import Touches

_Ranges: TypeAlias = list[tuple[int, int, int]]


class Accesses:
    """A stack for each object and client: numbers of turns with the range that each touched."""

    def __init__(self, client_count: int) -> None:
        """Start with nothing touched."""
        self._clients = range(client_count)
        self._changes: dict[object, tuple[_Ranges, ...]] = {}
        self._reads: dict[object, tuple[_Ranges, ...]] = {}

    def add(self, place: int, number: int, touched: Touches) -> None:
        """Remember a turn of a client."""
        for of, start, stop, changes in touched:
            table = self._changes if changes else self._reads
            stacks = table.get(of)
            if stacks is None:
                stacks = table[of] = tuple([] for _ in self._clients)
            stacks[place].append((number, start, stop))

    def remove(self, place: int, touched: Touches) -> None:
        """Forget a client's latest turn."""
        for of, _, _, changes in touched:
            (self._changes if changes else self._reads)[of][place].pop()

    def latest(self, place: int, touched: Touches, known: list[int]) -> dict[int, int]:
        """Return, by client, the latest turn that one of `place` depends on, where it comes after the `known` ones."""
        found: dict[int, int] = {}
        for of, start, stop, changes in touched:
            tables = (self._changes, self._reads) if changes else (self._changes,)
            for table in tables:
                stacks = table.get(of)
                if stacks is None:
                    continue
                for other, stack in enumerate(stacks):
                    if other == place or not stack:
                        continue
                    least = found.get(other, known[other])
                    for number, other_start, other_stop in reversed(stack):
                        if number <= least:
                            break
                        if other_start < stop and start < other_stop:
                            found[other] = number
                            break
        return found
