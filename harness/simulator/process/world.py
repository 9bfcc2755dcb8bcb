"""Processes on one kernel: a state from which every order of their calls can be explored."""

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
    """Processes in the order of the default policy, and their judge; the index of each is its session on the kernel."""

    processes: tuple[Process, ...]
    judge: Judge
    rules: TraceRules = NO_RULES

    def begin(self, kernel: Kernel, progress: Progress) -> World:
        """Return the world before the first call; the kernel is copied."""
        world = World(self, kernel.fork(), [process.root for process in self.processes], progress)
        for process in self.processes:
            world.progress = self.judge.observe(world.progress, process.name, process.root)
        return world

    def close(self) -> None:
        """End all greenlets."""
        for process in self.processes:
            process.close()


class World:
    """A state of a run; `fork` it before `step` to be able to come back. Methods take the index of a process."""

    __slots__ = ("kernel", "nodes", "process_group", "progress")

    def __init__(self, process_group: ProcessGroup, kernel: Kernel, nodes: list[Node], progress: Progress) -> None:
        """Take over a kernel, and the node that each process has reached."""
        self.process_group = process_group
        self.kernel = kernel
        self.nodes = nodes
        self.progress = progress

    def fork(self) -> World:
        """Return a copy that can go another way."""
        return World(self.process_group, self.kernel.fork(), self.nodes.copy(), self.progress)

    @property
    def enabled(self) -> list[int]:
        """Indexes of the processes that have not ended; no call of the storage blocks, so all of them can go on."""
        return [index for index, node in enumerate(self.nodes) if node.call is not None]

    def accesses(self, index: int) -> tuple[Access, ...]:
        """Return what a process's next call accesses."""
        call = self.nodes[index].call
        assert call is not None
        return accesses(self.kernel, index, call)

    def call(self, index: int) -> Call:
        """Return a process's next call."""
        call = self.nodes[index].call
        assert call is not None
        return call

    def step(self, index: int) -> None:
        """Let a process make its next call."""
        node, kernel, process_group = self.nodes[index], self.kernel, self.process_group
        assert node.call is not None
        if node.begins:
            self.progress = process_group.judge.begin_read(self.progress, process_group.processes[index].name)
        broken = process_group.rules.before(kernel, node.call) if node.changes else None
        answer = node.make_call(kernel, index)
        if broken is not None:
            self._break_rule(broken, index)
        self._advance(index, process_group.processes[index].advance(node, answer))

    def answer(self, index: int, answer: Rejected) -> None:
        """Give a process this answer to its next call, which does not happen."""
        self._advance(index, self.process_group.processes[index].advance(self.nodes[index], answer))

    def _advance(self, index: int, node: Node) -> None:
        self.nodes[index] = node
        if node.marks or node.outcome:
            self.progress = self.process_group.judge.observe(
                self.progress, self.process_group.processes[index].name, node
            )
            if self.process_group.rules is not NO_RULES and any(mark.kind == ACKNOWLEDGED for mark in node.marks):
                broken = self.process_group.rules.acknowledged(self.kernel)
                if broken is not None:
                    self._break_rule(broken, index)
        if self.kernel.broken_leases:
            for lease in self.kernel.broken_leases:
                self._break(Property.LEASE, index, lease)
            self.kernel.broken_leases = ()

    def _break_rule(self, broken: Broken, index: int) -> None:
        self._break(Property.IMMUTABLE if broken.is_content else Property.BARRIERS, index, broken.sentence)

    def _break(self, violated: str, index: int, sentence: str) -> None:
        self.progress = self.progress.broken(violated, self.process_group.processes[index].name, sentence)

    def run(self, index: int) -> None:
        """Let a process run to its end."""
        while self.nodes[index].call is not None:
            self.step(index)
