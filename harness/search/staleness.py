"""Stale reads of a schedule or of any equivalent one.

An acknowledgement and the first access of a read are independent, so a reduced search runs only one order of them. The
read is stale in another one unless the access happens before the acknowledgement in every equivalent schedule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter

from tornproof.harness.search.dpor import Run, Transition
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.observer import Operations, Property, Violation
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World


class StaleReads:
    """Finds stale reads, and caches what processes said."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._acknowledged: dict[Node, tuple[int, ...]] = {}
        self._read: dict[Node, tuple[tuple[int, Hashable], ...]] = {}
        self._versions: dict[tuple[Operations, Hashable], int | None] = {}

    def of(self, run: Run) -> Iterator[tuple[Violation, Transition]]:
        """Yield at most one violation for each read of a complete run, with the transition of its first access."""
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
                    # It is no version at all, which the judge has reported.
                    continue
                for number, (writer, depth) in enumerate(acknowledged[seen:], start=seen + 1):
                    first, last = (
                        _transition_of(run.transitions[process_index], begun),
                        _transition_of(run.transitions[writer], depth - 1),
                    )
                    assert first is not None, "no read begins before its process is chosen"
                    if last is None or last.clock[process_index] < first.number:
                        sentence = f"commit {seen} was seen, although commit {number} was acknowledged before"
                        yield (
                            Violation(Property.STALE, world.process_group.processes[process_index].name, sentence),
                            first,
                        )
                        break

    def _version(self, world: World, value: Hashable) -> int | None:
        """Return the last version with this value."""
        key = world.progress.committed, value
        if key not in self._versions:
            self._versions[key] = world.process_group.judge.version_of(world.progress, value)
        return self._versions[key]

    def _acknowledgements(self, leaf: Node) -> tuple[int, ...]:
        """Return after how many calls of a process each of its commits was acknowledged."""
        if leaf not in self._acknowledged:
            self._acknowledged[leaf] = tuple(
                node.depth for node in path_to(leaf) for mark in node.marks if mark.kind == bodies.ACKNOWLEDGED
            )
        return self._acknowledged[leaf]

    def _reads(self, leaf: Node) -> tuple[tuple[int, Hashable], ...]:
        """Return after how many calls of a process each of its reads began, and what it saw."""
        if leaf not in self._read:
            reads: list[tuple[int, Hashable]] = []
            at = 0
            for node in path_to(leaf):
                reads += [(at, mark.value) for mark in node.marks if mark.kind == bodies.SEEN]
                at = node.depth if node.begins else at
            self._read[leaf] = tuple(reads)
        return self._read[leaf]


def _transition_of(transitions: Sequence[Transition], call: int) -> Transition | None:
    """Return the transition in which a process made the call of this number, from 0; None before its first one."""
    number = bisect_right(transitions, call, key=attrgetter("depth"))
    return transitions[number - 1] if number else None
