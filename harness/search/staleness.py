"""Stale reads that some schedule of the same order shows, whether or not the one that was run does.

An acknowledgement and the first look of a read touch nothing in common, so a reduced search runs one order of them. The
read is stale in another one unless its first look comes before the acknowledgement in every schedule like that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter

from tornproof.harness.search.dpor import Run, Transition
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.process import bodies as programs
from tornproof.harness.simulator.process.observer import Operations, Property, Violation
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World


class StaleReads:
    """Finds them, and remembers what clients said on their ways."""

    def __init__(self) -> None:
        """Start without memory."""
        self._acknowledged: dict[Node, tuple[int, ...]] = {}
        self._read: dict[Node, tuple[tuple[int, Hashable], ...]] = {}
        self._versions: dict[tuple[Operations, Hashable], int | None] = {}

    def of(self, run: Run) -> Iterator[tuple[Violation, Transition]]:
        """Yield the stale reads of a complete run, one for each read, and the turn in which it first looked."""
        world = run.world
        acknowledged = [
            (process_index, depth)
            for process_index, node in enumerate(world.nodes)
            for depth in self._acknowledgements(node)
        ]
        for process_index, node in enumerate(world.nodes):
            for begun, value in self._reads(node):
                seen = self._version(world, value)
                if seen is None:
                    # It is no version at all, and the judge has said so.
                    continue
                for number, (writer, depth) in enumerate(acknowledged[seen:], start=seen + 1):
                    first, last = (
                        _transition_of(run.transitions[process_index], begun),
                        _transition_of(run.transitions[writer], depth - 1),
                    )
                    assert first is not None, "no read begins before its client is chosen"
                    if last is None or last.clock[process_index] < first.number:
                        sentence = f"commit {seen} was seen, although commit {number} was acknowledged before"
                        yield (
                            Violation(Property.STALE, world.process_group.processes[process_index].name, sentence),
                            first,
                        )
                        break

    def _version(self, world: World, value: Hashable) -> int | None:
        """Return the last version that looks like that."""
        key = world.progress.committed, value
        if key not in self._versions:
            self._versions[key] = world.process_group.judge.version_of(world.progress, value)
        return self._versions[key]

    def _acknowledgements(self, leaf: Node) -> tuple[int, ...]:
        """Return after how many calls of a client each of its commits was acknowledged."""
        if leaf not in self._acknowledged:
            self._acknowledged[leaf] = tuple(
                node.depth for node in path_to(leaf) for mark in node.marks if mark.kind == programs.ACKNOWLEDGED
            )
        return self._acknowledged[leaf]

    def _reads(self, leaf: Node) -> tuple[tuple[int, Hashable], ...]:
        """Return after how many calls of a client each of its reads first looked, and what it saw."""
        if leaf not in self._read:
            reads: list[tuple[int, Hashable]] = []
            at = 0
            for node in path_to(leaf):
                reads += [(at, mark.value) for mark in node.marks if mark.kind == programs.SEEN]
                at = node.depth if node.begins else at
            self._read[leaf] = tuple(reads)
        return self._read[leaf]


def _transition_of(transitions: Sequence[Transition], call: int) -> Transition | None:
    """Return the turn in which a client made its call of that number, from 0 on; None is before its first turn."""
    number = bisect_right(transitions, call, key=attrgetter("depth"))
    return transitions[number - 1] if number else None
