"""Reads that miss what is acknowledged before them, in a schedule or in any equivalent one.

An acknowledgement and the beginning of a read are independent, so a reduced search runs only one order of them. In
another one the acknowledgement comes first, unless the read begins before it in every equivalent schedule. What
processes do when only time can help comes after all else in every schedule, and is judged as it ran.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator
from operator import attrgetter

from tornproof.harness.search.dpor import Run, Transition
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.observer import Operations, Property, Violation
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World


class StaleReads:
    """Finds stale reads beside one writer, and caches what processes said."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._reports = _Reports()
        self._versions: dict[tuple[Operations, Hashable], int | None] = {}

    def of(self, run: Run) -> Iterator[tuple[Violation, Transition]]:
        """Yield at most one violation for each read of a complete run, with the transition in which it began."""
        world = run.world
        acknowledged, earlier = self._reports.acknowledged(run), self._reports.earlier_count(run.world)
        for process_index, process in enumerate(world.process_group.processes):
            for first, value in self._reports.reads(run, process_index):
                seen = None if first is None else self._version(world, value)
                if first is None or seen is None:
                    # What is no version at all the judge has reported.
                    continue
                seen_here = max(seen - earlier, 0)
                for number, (last, _) in enumerate(acknowledged[seen_here:], start=earlier + seen_here + 1):
                    if _is_before(last, first, late=first):
                        sentence = f"commit {seen} was seen, although commit {number} was acknowledged before"
                        yield Violation(Property.STALE, process.name, sentence), first
                        break

    def _version(self, world: World, value: Hashable) -> int | None:
        """Return the last version with this value."""
        key = world.progress.committed, value
        if key not in self._versions:
            self._versions[key] = world.process_group.judge.version_of(world.progress, value)
        return self._versions[key]


class LateReads:
    """Finds what several writers had acknowledged before each read, and caches what processes said."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._reports = _Reports()

    def of(
        self, run: Run, process_indexes: Iterable[int]
    ) -> Iterator[tuple[Transition, tuple[tuple[Operations, ...], ...]]]:
        """Yield for each read, in the schedule in which it begins as late as possible, what came before all reads.

        That are the operations acknowledged before each read of each of these processes.
        """
        acknowledged = self._reports.acknowledged(run)
        reads = [[first for first, _ in self._reports.reads(run, index)] for index in process_indexes]
        for late in (first for own in reads for first in own if first is not None):
            yield (
                late,
                tuple(
                    tuple(
                        tuple(number for last, number in acknowledged if first and _is_before(last, first, late=late))
                        for first in own
                    )
                    for own in reads
                ),
            )


class _Reports:
    """The acknowledgements and reads of processes, found once for each node at which they end."""

    def __init__(self) -> None:
        self._acknowledged: dict[Node, tuple[tuple[int, int], ...]] = {}
        self._read: dict[Node, tuple[tuple[int, Hashable], ...]] = {}

    def acknowledged(self, run: Run) -> list[tuple[Transition | None, int]]:
        """Return the transition after which each commit was acknowledged, None before the first, and its operation.

        Without those that came when only time could help.
        """
        return [
            (_transition_of(run, process_index, call), number)
            for process_index, node in enumerate(run.world.nodes)
            for call, number in self._acknowledgements(node)
            if call < run.ends[process_index]
        ]

    def earlier_count(self, world: World) -> int:
        """Return how many commits an earlier session made, or a recovery found."""
        return len(world.progress.committed) - sum(len(self._acknowledgements(node)) for node in world.nodes)

    def reads(self, run: Run, process_index: int) -> list[tuple[Transition | None, Hashable]]:
        """Return the transition in which each read of a process began, and what it saw.

        None where that is in no transition of this run: before it, or when only time could help.
        """
        return [
            (_transition_of(run, process_index, call) if call < run.ends[process_index] else None, value)
            for call, value in self._reads(run.world.nodes[process_index])
        ]

    def _acknowledgements(self, leaf: Node) -> tuple[tuple[int, int], ...]:
        """Return after which call of a process, from 0, each of its commits was acknowledged."""
        if leaf not in self._acknowledged:
            self._acknowledged[leaf] = tuple(
                (node.depth - 1, mark.value)
                for node in path_to(leaf)
                for mark in node.marks
                if mark.kind == bodies.ACKNOWLEDGED and isinstance(mark.value, int)
            )
        return self._acknowledged[leaf]

    def _reads(self, leaf: Node) -> tuple[tuple[int, Hashable], ...]:
        """Return with which call of a process, from 0, each of its reads began, and what it saw."""
        if leaf not in self._read:
            reads: list[tuple[int, Hashable]] = []
            at = 0
            for node in path_to(leaf):
                reads += [(at, mark.value) for mark in node.marks if mark.kind == bodies.SEEN]
                at = node.depth if node.begins else at
            self._read[leaf] = tuple(reads)
        return self._read[leaf]


def _transition_of(run: Run, process_index: int, call: int) -> Transition | None:
    """Return the transition in which a process made the call of this number, from 0; None before its first one."""
    transitions = run.transitions[process_index]
    number = bisect_right(transitions, call, key=attrgetter("depth"))
    return transitions[number - 1] if number else None


def _is_before(one: Transition | None, other: Transition, *, late: Transition) -> bool:
    """Say which of two comes first in the schedule in which `late` comes as late as possible; None is the beginning."""
    return one is None or _place(one, late) < _place(other, late)


def _place(transition: Transition, late: Transition) -> tuple[bool, int]:
    return transition.is_after(late), transition.schedule_index
