"""Processes on one kernel: a state from which every order of their calls can be explored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.accesses import Access, accesses, are_dependent, as_look
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, Call
from tornproof.harness.simulator.filesystem.kernel import Answer, Kernel, Rejected
from tornproof.harness.simulator.filesystem.step_bound import LIVELOCK
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED, event_of
from tornproof.harness.simulator.process.observer import Judge, Progress, Property
from tornproof.harness.simulator.process.simulated_process import Node, Process
from tornproof.harness.simulator.process.trace_rules import Broken, TraceRules
from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow

NO_RULES = TraceRules()
NOTHING_HAPPENED = Known()


def followed(known: Known, before: Progress, progress: Progress, process: str, node: Node) -> tuple[Known, Progress]:
    """Follow in the model what a process has reported at a node, by which the progress went on from the one before.

    Nothing is followed once a property is broken.
    """
    if progress.violations:
        return known, progress
    seen = (count for _, count in progress.observations[len(before.observations) :])
    # A session recovers before it commits, and it may do so without a call in between.
    recovered = len(progress.committed) - sum(mark.kind == ACKNOWLEDGED for mark in node.marks)
    try:
        for mark in node.marks:
            event = event_of(mark, process, recovered, seen)
            known = known if event is None else follow(known, event)
    except NoBehaviourError as error:
        return known, progress.broken(Property.BEHAVIOUR, process, str(error))
    return known, progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """Processes in the order of the default policy, and their judge; the index of each is its session on the kernel."""

    processes: tuple[Process, ...]
    judge: Judge
    rules: TraceRules = NO_RULES

    def begin(self, kernel: Kernel, progress: Progress, known: Known = NOTHING_HAPPENED) -> World:
        """Return the world before the first call; the kernel is copied."""
        world = World(self, kernel.fork(), [process.root for process in self.processes], progress, known)
        for index in range(len(self.processes)):
            world.report(index)
        return world

    def close(self) -> None:
        """End all greenlets."""
        for process in self.processes:
            process.close()


class Watch(NamedTuple):
    """What a process has looked at since it last slept, and whether any of it was changed after it was looked at."""

    looked: tuple[Access, ...] = ()
    is_changed: bool = False


UNWATCHED = Watch(is_changed=True)
"""The watch of a process that nothing is known of: it need not wait."""

Watches: TypeAlias = Mapping[int, Watch]
"""By the index of the process, of those that may soon wait; never changed in place."""
NOBODY_WATCHES: Watches = MappingProxyType({})


class World:
    """A state of a run; `fork` it before `step` to be able to come back. Methods take the index of a process."""

    __slots__ = ("kernel", "known", "nodes", "process_group", "progress", "watches")

    def __init__(
        self,
        process_group: ProcessGroup,
        kernel: Kernel,
        nodes: list[Node],
        progress: Progress,
        known: Known = NOTHING_HAPPENED,
        watches: Watches = NOBODY_WATCHES,
    ) -> None:
        """Take over a kernel, the node that each process has reached, and what the model knows."""
        self.process_group = process_group
        self.kernel = kernel
        self.nodes = nodes
        self.progress = progress
        self.known = known
        self.watches = watches

    def fork(self) -> World:
        """Return a copy that can go another way."""
        return World(self.process_group, self.kernel.fork(), self.nodes.copy(), self.progress, self.known, self.watches)

    def can_go_on(self, index: int) -> bool:
        """Say whether a process goes on, or waited for what has changed meanwhile."""
        node = self.nodes[index]
        return node.goes_on or (node.is_waiting and self._watch(index).is_changed)

    @property
    def enabled(self) -> list[int]:
        """Indexes of the processes that can go on."""
        return [
            index
            for index, node in enumerate(self.nodes)
            if node.goes_on or (node.is_waiting and self._watch(index).is_changed)
        ]

    def following(self, index: int) -> int | None:
        """Return who goes on after a call of a process: the same one if it can, else the first that can.

        If nobody can, time passes for the one that time can help and that has made the fewest calls. None is the end.
        """
        if self.can_go_on(index):
            return index
        if enabled := self.enabled:
            return enabled[0]
        left = [index for index, node in enumerate(self.nodes) if node.call is not None]
        return min(left, key=lambda index: (self._is_stuck(index), self.nodes[index].depth), default=None)

    def _is_stuck(self, index: int) -> bool:
        node = self.nodes[index]
        return node.is_waiting and self.process_group.processes[index].advance(node, False).is_endless

    def finish(self) -> tuple[list[int], bool]:
        """Run to the end when nobody can go on; return who made each call, and whether one did more than be ended."""
        made: list[int] = []
        is_late = False
        following = self.following(0)
        while following is not None:
            self.step(following)
            made.append(following)
            is_late |= not self.nodes[following].is_endless
            following = self.following(following)
        return made, is_late

    def accesses(self, index: int) -> tuple[Access, ...]:
        """Return what a process's next call accesses."""
        node = self.nodes[index]
        assert node.call is not None
        return self._watch(index).looked if node.is_waiting else accesses(self.kernel, index, node.call)

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
            name = process_group.processes[index].name
            self.progress = process_group.judge.begin_read(self.progress, name)
            self.known = follow(self.known, Event(Kind.BEGUN, reader=name))
        broken = process_group.rules.before(kernel, node.call) if node.changes else None
        is_watched = self.watches or node.slept or node.is_waiting
        answer = self._make_watched(index, node) if is_watched else node.make_call(kernel, index)
        if broken is not None:
            self._break_rule(broken, index)
        self._advance(index, node.children.get(answer) or process_group.processes[index].advance(node, answer))

    def _make_watched(self, index: int, node: Node) -> Answer:
        """Make a call that others may wait for, or of a process that has slept; waiting says if there is a change."""
        call, watches = node.call, dict(self.watches)
        assert call is not None
        if node.is_waiting:
            self.watches = watches
            return watches.pop(index, UNWATCHED).is_changed
        accessed = accesses(self.kernel, index, call)
        answer = node.make_call(self.kernel, index)
        has_changed = call.kind not in READ_ONLY_CALLS and answer is not False and not isinstance(answer, Rejected)
        if has_changed:
            for other, watch in self.watches.items():
                if other != index and are_dependent(watch.looked, accessed):
                    watches[other] = watch._replace(is_changed=True)
        if node.slept:
            watches[index] = Watch()
        if index in watches:
            looked, is_changed = watches[index]
            is_changed |= has_changed and any(access.changes for access in accessed)
            watches[index] = Watch((*looked, *map(as_look, accessed)), is_changed)
        self.watches = watches
        return answer

    def _watch(self, index: int) -> Watch:
        return self.watches.get(index, UNWATCHED)

    def answer(self, index: int, answer: Answer) -> None:
        """Give a process this answer to its next call, which does not happen."""
        self._advance(index, self.process_group.processes[index].advance(self.nodes[index], answer))

    def _advance(self, index: int, node: Node) -> None:
        self.nodes[index] = node
        if self.watches and not node.may_wait and index in self.watches:
            self.watches = {other: watch for other, watch in self.watches.items() if other != index}
        if node.is_endless:
            self._break(Property.ENDS, index, self._standstill(index))
        elif node.reports:
            self.report(index)
            if self.process_group.rules is not NO_RULES and any(mark.kind == ACKNOWLEDGED for mark in node.marks):
                broken = self.process_group.rules.acknowledged(self.kernel)
                if broken is not None:
                    self._break_rule(broken, index)
        if self.kernel.broken_leases:
            for lease in self.kernel.broken_leases:
                self._break(Property.LEASE, index, lease)
            self.kernel.broken_leases = ()

    def _standstill(self, index: int) -> str:
        others = " and ".join(
            process.name
            for other, (process, node) in enumerate(zip(self.process_group.processes, self.nodes, strict=True))
            if other != index and (node.is_endless or (node.call is not None and not self.can_go_on(other)))
        )
        said = self.nodes[index].outcome
        return f"deadlock, for {others} cannot go on either: {said.removeprefix(LIVELOCK)}" if others else said

    def report(self, index: int) -> None:
        """Judge what a process has reported at its node, and follow it in the model until a property is broken."""
        process, node, before = self.process_group.processes[index].name, self.nodes[index], self.progress
        self.progress = self.process_group.judge.observe(before, process, node)
        self.known, self.progress = followed(self.known, before, self.progress, process, node)

    def _break_rule(self, broken: Broken, index: int) -> None:
        self._break(Property.IMMUTABLE if broken.is_content else Property.BARRIERS, index, broken.sentence)

    def _break(self, violated: str, index: int, sentence: str) -> None:
        self.progress = self.progress.broken(violated, self.process_group.processes[index].name, sentence)

    def run(self, index: int) -> None:
        """Let a process run to its end."""
        while self.nodes[index].call is not None:
            self.step(index)
