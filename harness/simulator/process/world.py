"""Processes on one kernel: a world that can be continued in every way, one call of one process after the other."""

from __future__ import annotations

from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import Kernel, Refused
from tornproof.harness.simulator.filesystem.touches import Touch, touches
from tornproof.harness.simulator.process.client import Client, Node
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.simulator.process.programs import ACKNOWLEDGED
from tornproof.harness.simulator.process.trace_rules import Broken, TraceRules

NO_RULES = TraceRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part: clients in the order of the default policy, each a life on the kernel, and their judge."""

    clients: tuple[Client, ...]
    judge: Judge
    rules: TraceRules = NO_RULES

    def begin(self, kernel: Kernel, progress: Progress) -> World:
        """Return the world before anybody's first call; the kernel is copied."""
        world = World(self, kernel.fork(), [client.root for client in self.clients], progress)
        for client in self.clients:
            world.progress = self.judge.observe(world.progress, client.name, client.root)
        return world

    def close(self) -> None:
        """End all greenlets."""
        for client in self.clients:
            client.close()


class World:
    """A moment of a run; `fork` it before `step` to be able to come back."""

    __slots__ = ("cast", "kernel", "nodes", "progress")

    def __init__(self, cast: Cast, kernel: Kernel, nodes: list[Node], progress: Progress) -> None:
        """Take over a kernel and where each client stands."""
        self.cast = cast
        self.kernel = kernel
        self.nodes = nodes
        self.progress = progress

    def fork(self) -> World:
        """Return another future of this moment."""
        return World(self.cast, self.kernel.fork(), self.nodes.copy(), self.progress)

    @property
    def enabled(self) -> list[int]:
        """Places of the clients that go on; nothing in the seam waits, so these are all that have not ended."""
        return [place for place, node in enumerate(self.nodes) if node.call is not None]

    def touches(self, place: int) -> tuple[Touch, ...]:
        """Return what a client's next call touches."""
        call = self.nodes[place].call
        assert call is not None
        return touches(self.kernel, place, call)

    def call(self, place: int) -> Call:
        """Return a client's next call."""
        call = self.nodes[place].call
        assert call is not None
        return call

    def step(self, place: int) -> None:
        """Let a client make its next call."""
        node, kernel, cast = self.nodes[place], self.kernel, self.cast
        assert node.call is not None
        if node.begins:
            self.progress = cast.judge.begin_read(self.progress, cast.clients[place].name)
        watched = cast.rules.before(kernel, node.call) if node.changes else None
        answer = node.make_call(kernel, place)
        if watched is not None:
            self._break_rule(watched, place)
        self._advance(place, cast.clients[place].advance(node, answer))

    def answer(self, place: int, answer: Refused) -> None:
        """Let a client's next call fail instead."""
        self._advance(place, self.cast.clients[place].advance(self.nodes[place], answer))

    def _advance(self, place: int, node: Node) -> None:
        self.nodes[place] = node
        if node.marks or node.outcome:
            self.progress = self.cast.judge.observe(self.progress, self.cast.clients[place].name, node)
            if self.cast.rules is not NO_RULES and any(mark.kind == ACKNOWLEDGED for mark in node.marks):
                watched = self.cast.rules.acknowledged(self.kernel)
                if watched is not None:
                    self._break_rule(watched, place)
        if self.kernel.broken_leases:
            for broken in self.kernel.broken_leases:
                self._break(Property.LEASE, place, broken)
            self.kernel.broken_leases = ()

    def _break_rule(self, watched: Broken, place: int) -> None:
        self._break(Property.IMMUTABLE if watched.is_content else Property.BARRIERS, place, watched.sentence)

    def _break(self, violated: str, place: int, sentence: str) -> None:
        self.progress = self.progress.broken(violated, self.cast.clients[place].name, sentence)

    def run(self, place: int) -> None:
        """Let a client go on to its end."""
        while self.nodes[place].call is not None:
            self.step(place)
