"""A reader that changes nothing, beside the recorded course of a writer: every schedule of both, in few steps.

The writer does the same whatever such a reader does, so a schedule is only a choice, for each call of the reader, of
the moment in the writer's course. Moments between which nothing changes that the call looks at are one, and of two ways
to the same state of the reader the earlier one can go on in every way of the later. Such readers cannot tell of each
other either, so what many say is the product of what each of them says (docs/how-it-works.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.search.crash_world import WRITER_PLACE
from tornproof.harness.search.transitions import Schedule, compressed
from tornproof.harness.simulator.filesystem.accesses import Access, accesses
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel, Mapped
from tornproof.harness.simulator.process.bodies import RECOVERED
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Node, Process
from tornproof.harness.simulator.process.world import World


class NotOnlyAReaderError(NotExplorableError):
    """The client changes, locks or leases something, so that others can tell of it."""


class Trace:
    """What a writer did, moment by moment: the kernel and what the judge knew, before any call and after each."""

    def __init__(self, world: World) -> None:
        """Let the writer go on to its end, alone; the world is used up."""
        self.kernels: list[Kernel] = [world.kernel.fork()]
        self.progresses: list[Progress] = [world.progress]
        self.nodes: list[Node] = [world.nodes[WRITER_PLACE]]
        self._changes: defaultdict[object, list[tuple[int, int, int]]] = defaultdict(list)
        while world.nodes[WRITER_PLACE].call is not None:
            for access in world.accesses(WRITER_PLACE):
                if access.changes or (access.of.__class__ is tuple and access.of[1] is None):
                    self._changes[access.of].append((len(self.kernels), access.start, access.stop))
            world.step(WRITER_PLACE)
            self.kernels.append(world.kernel.fork())
            self.progresses.append(world.progress)
            self.nodes.append(world.nodes[WRITER_PLACE])
        counts = [len(progress.committed) for progress in self.progresses]
        self._acknowledgements = [
            execution_state
            for execution_state in range(1, len(counts))
            if counts[execution_state] > counts[execution_state - 1]
        ]
        said = [any(mark.kind == RECOVERED for mark in node.marks) for node in self.nodes]
        self.recovered_state = said.index(True) if True in said else len(said)
        """When a recovery was done, or the end."""
        self.recovered_count = counts[self.recovered_state] if True in said else None
        """After how many commits a recovery found the table."""

    def __len__(self) -> int:
        """How many moments there are."""
        return len(self.kernels)

    def next_change(
        self, execution_state: int, accessed: tuple[Access, ...], *, counts_acknowledged: bool
    ) -> int | None:
        """Return the first later moment at which one of these ranges, or what is acknowledged, is another."""
        found = []
        for of, start, stop, _ in accessed:
            changes = self._changes.get(of, ())
            for later, first, last in changes[bisect_right(changes, (execution_state, 1 << 64)) :]:
                if first < stop and start < last:
                    found.append(later)
                    break
        if counts_acknowledged:
            process_index = bisect_right(self._acknowledgements, execution_state)
            found += self._acknowledgements[process_index : process_index + 1]
        return min(found, default=None)


class ReaderState(NamedTuple):
    """A reader between two calls: where it stands, what it has open, and what the judge knows of it."""

    node: Node
    handles: frozenset[tuple[tuple[int, int], Handle]]
    mappings: frozenset[tuple[tuple[int, int], Mapped]]
    progress: Progress
    """Of the reader alone: its readings, what it saw, what it broke."""

    @property
    def is_at_end(self) -> bool:
        """Whether the reader does not go on."""
        return self.node.call is None or bool(self.progress.violations)


class Come(NamedTuple):
    """How a state was come to first: at which moment of a course, and from which state, or None where it began."""

    execution_state: int
    parent: ReaderState | None


Ways: TypeAlias = dict[ReaderState, Come]


class ReaderReduction:
    """The search of one client that changes nothing over courses; states are counted over all of them."""

    def __init__(self, process: Process, process_index: int, judge: Judge) -> None:
        """Search for the client that is at `place` in its world."""
        self._process = process
        self._position = process_index
        self._judge = judge
        self.state_count = 0
        self.is_done = True
        """Whether no search was ended by the time."""

    def root(self) -> ReaderState:
        """Return the reader before its first call."""
        return ReaderState(self._process.root, frozenset(), frozenset(), Progress())

    def search(self, trace: Trace, begin: Iterable[ReaderState], *, has_time: HasTime = always) -> Ways:
        """Return every state that can be reached from others in a course, and how it is come to as early as can be.

        Those of `begin` go on from its beginning. Nobody goes on after a violation. Raises NotOnlyAReaderError.
        """
        come = {state: Come(0, None) for state in begin}
        pending = [(state, 0) for state in come]
        while pending:
            state, execution_state = pending.pop()
            if come[state].execution_state < execution_state:
                continue
            if not has_time():
                self.is_done = False
                break
            self.state_count += 1
            for following, later in self._steps(trace, state, execution_state):
                known = come.get(following)
                if known is None or known.execution_state > later:
                    come[following] = Come(later, state)
                    pending.append((following, later))
        return come

    def _steps(self, trace: Trace, state: ReaderState, start: int) -> Iterator[tuple[ReaderState, int]]:
        node, session = state.node, self._position
        if state.is_at_end:
            return
        assert node.call is not None
        if node.call.kind not in READ_ONLY_CALLS and node.call.kind is not CallKind.CLOSE:
            raise NotOnlyAReaderError(f"{self._process.name} changes something or takes locks: {node.call.kind}")
        execution_state: int | None = start
        while execution_state is not None:
            kernel = trace.kernels[execution_state].fork()
            kernel.handles.update(state.handles)
            kernel.mappings.update(state.mappings)
            accessed = accesses(kernel, session, node.call)
            following = self._process.advance(node, node.make_call(kernel, session))
            yield self._after(state, trace.progresses[execution_state], following, kernel), execution_state
            execution_state = trace.next_change(execution_state, accessed, counts_acknowledged=node.begins)

    def _after(self, state: ReaderState, writer: Progress, node: Node, kernel: Kernel) -> ReaderState:
        name, own = self._process.name, state.progress
        if state.node.begins or node.marks or node.outcome:
            progress = own._replace(committed=writer.committed, pending=writer.pending)
            if state.node.begins:
                progress = self._judge.begin_read(progress, name)
            if node.marks or node.outcome:
                progress = self._judge.observe(progress, name, node)
            own = progress._replace(committed=(), pending=None)
        return ReaderState(
            node,
            frozenset(item for item in kernel.handles.items() if item[0][0] == self._position),
            frozenset(item for item in kernel.mappings.items() if item[0][0] == self._position),
            own,
        )


def origin_of(come: Ways, state: ReaderState) -> ReaderState:
    """Return the state from which a search came to another one."""
    parent: ReaderState | None = state
    while parent is not None:
        state, parent = parent, come[parent].parent
    return state


def schedule_of(process_index: int, come: Ways, last: ReaderState, end: int) -> Schedule:
    """Return the calls of the writer and of a reader at `place` up to a state, and then of the writer to a moment."""
    states: list[int] = []
    state: ReaderState | None = last
    while state is not None:
        at = come[state]
        if at.parent is not None:
            states.append(at.execution_state)
        state = at.parent
    transitions: list[tuple[int, int]] = []
    now = 0
    for execution_state in reversed(states):
        transitions += [(WRITER_PLACE, execution_state - now), (process_index, 1)]
        now = execution_state
    return compressed([*transitions, (WRITER_PLACE, max(end - now, 0))])
