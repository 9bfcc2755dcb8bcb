"""Processes on one kernel: a world that can be continued in every way, one call of one process after the other."""

from __future__ import annotations

from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.accesses import Access, accesses
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.simulator.process.simulated_process import Node, Process
from tornproof.harness.simulator.process.trace_rules import Broken, TraceRules

NO_RULES = TraceRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """Who takes part: clients in the order of the default policy, each a life on the kernel, and their judge."""

    processes: tuple[Process, ...]
    judge: Judge
    rules: TraceRules = NO_RULES

    def begin(self, kernel: Kernel, progress: Progress) -> World:
        """Return the world before anybody's first call; the kernel is copied."""
        world = World(self, kernel.fork(), [process.root for process in self.processes], progress)
        for process in self.processes:
            world.progress = self.judge.observe(world.progress, process.name, process.root)
        return world

    def close(self) -> None:
        """End all greenlets."""
        for process in self.processes:
            process.close()


class World:
    """A moment of a run; `fork` it before `step` to be able to come back."""

    __slots__ = ("kernel", "nodes", "process_group", "progress")

    def __init__(self, process_group: ProcessGroup, kernel: Kernel, nodes: list[Node], progress: Progress) -> None:
        """Take over a kernel and where each client stands."""
        self.process_group = process_group
        self.kernel = kernel
        self.nodes = nodes
        self.progress = progress

    def fork(self) -> World:
        """Return another future of this moment."""
        return World(self.process_group, self.kernel.fork(), self.nodes.copy(), self.progress)

    @property
    def enabled(self) -> list[int]:
        """Places of the clients that go on; nothing in the seam waits, so these are all that have not ended."""
        return [position for position, node in enumerate(self.nodes) if node.call is not None]

    def accesses(self, position: int) -> tuple[Access, ...]:
        """Return what a client's next call touches."""
        call = self.nodes[position].call
        assert call is not None
        return accesses(self.kernel, position, call)

    def call(self, position: int) -> Call:
        """Return a client's next call."""
        call = self.nodes[position].call
        assert call is not None
        return call

    def step(self, position: int) -> None:
        """Let a client make its next call."""
        node, kernel, process_group = self.nodes[position], self.kernel, self.process_group
        assert node.call is not None
        if node.begins:
            self.progress = process_group.judge.begin_read(self.progress, process_group.processes[position].name)
        watched = process_group.rules.before(kernel, node.call) if node.changes else None
        answer = node.make_call(kernel, position)
        if watched is not None:
            self._break_rule(watched, position)
        self._advance(position, process_group.processes[position].advance(node, answer))

    def answer(self, position: int, answer: Rejected) -> None:
        """Let a client's next call fail instead."""
        self._advance(position, self.process_group.processes[position].advance(self.nodes[position], answer))

    def _advance(self, position: int, node: Node) -> None:
        self.nodes[position] = node
        if node.marks or node.outcome:
            self.progress = self.process_group.judge.observe(
                self.progress, self.process_group.processes[position].name, node
            )
            if self.process_group.rules is not NO_RULES and any(mark.kind == ACKNOWLEDGED for mark in node.marks):
                watched = self.process_group.rules.acknowledged(self.kernel)
                if watched is not None:
                    self._break_rule(watched, position)
        if self.kernel.broken_leases:
            for broken in self.kernel.broken_leases:
                self._break(Property.LEASE, position, broken)
            self.kernel.broken_leases = ()

    def _break_rule(self, watched: Broken, position: int) -> None:
        self._break(Property.IMMUTABLE if watched.is_content else Property.BARRIERS, position, watched.sentence)

    def _break(self, violated: str, position: int, sentence: str) -> None:
        self.progress = self.progress.broken(violated, self.process_group.processes[position].name, sentence)

    def run(self, position: int) -> None:
        """Let a client go on to its end."""
        while self.nodes[position].call is not None:
            self.step(position)
