"""A reader that changes nothing, beside the recorded trace of a writer: every schedule of both, in few steps.

The writer does the same whatever such a reader does, so a schedule only chooses, for each call of the reader, a state
of the writer's trace. States between which nothing changes that the call accesses count as one, and if the same state
of the reader is reached at two points of the trace, the earlier one can go on in every way of the later. Such readers
do not affect each other either, so the outcomes of many are the product of the outcomes of each (docs/how-it-works.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.search.crash_world import WRITER_INDEX
from tornproof.harness.search.transitions import Schedule, compressed
from tornproof.harness.simulator.filesystem.accesses import Access, accesses
from tornproof.harness.simulator.filesystem.intercept import READ_ONLY_CALLS, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel, Mapped
from tornproof.harness.simulator.process.bodies import RECOVERED
from tornproof.harness.simulator.process.case import NotExplorableError
from tornproof.harness.simulator.process.observer import ALL_THERE, Judge, Progress
from tornproof.harness.simulator.process.simulated_process import Node, Process
from tornproof.harness.simulator.process.world import World, followed
from tornproof.model.trace import Event, Kind, Known, follow

_OPENING = frozenset({CallKind.OPEN_FOR_READING, CallKind.CLOSE, CallKind.MAP, CallKind.UNMAP})
"""What changes the open files and mappings of a process."""


class NotOnlyAReaderError(NotExplorableError):
    """The process changes, locks or leases something, so that others may be affected by it, or waits for others."""


class Trace:
    """The execution of a writer: kernel, progress and node, before its first call and after each."""

    def __init__(self, world: World) -> None:
        """Run the writer to its end, alone, in `world` itself."""
        self.kernels: list[Kernel] = [world.kernel.fork()]
        self.progresses: list[Progress] = [world.progress]
        self.known: list[Known] = [world.known]
        self.nodes: list[Node] = [world.nodes[WRITER_INDEX]]
        self._changes: defaultdict[object, list[tuple[int, int, int]]] = defaultdict(list)
        while world.nodes[WRITER_INDEX].call is not None:
            for access in world.accesses(WRITER_INDEX):
                if access.changes or (access.of.__class__ is tuple and access.of[1] is None):
                    self._changes[access.of].append((len(self.kernels), access.start, access.stop))
            world.step(WRITER_INDEX)
            self.kernels.append(world.kernel.fork())
            self.progresses.append(world.progress)
            self.known.append(world.known)
            self.nodes.append(world.nodes[WRITER_INDEX])
        counts = [len(progress.committed) for progress in self.progresses]
        self._acknowledgements = [
            trace_index for trace_index in range(1, len(counts)) if counts[trace_index] > counts[trace_index - 1]
        ]
        recovered = [any(mark.kind == RECOVERED for mark in node.marks) for node in self.nodes]
        self.recovered_state = recovered.index(True) if True in recovered else len(recovered)
        """The index of the state after the recovery, or the length."""
        self.recovered_count = counts[self.recovered_state] if True in recovered else None
        """The number of commits that the recovery found."""

    def __len__(self) -> int:
        """The number of states."""
        return len(self.kernels)

    def next_change(
        self, trace_index: int, accessed: tuple[Access, ...], *, counts_acknowledged: bool, counts_recovered: bool
    ) -> int | None:
        """Return the first later index at which one of these ranges, or what is acknowledged or recovered, changed."""
        found = []
        for of, start, stop, _ in accessed:
            changes = self._changes.get(of, ())
            for later, first, last in changes[bisect_right(changes, (trace_index, 1 << 64)) :]:
                if first < stop and start < last:
                    found.append(later)
                    break
        if counts_acknowledged:
            next_one = bisect_right(self._acknowledgements, trace_index)
            found += self._acknowledgements[next_one : next_one + 1]
        if counts_recovered and trace_index < self.recovered_state < len(self):
            found.append(self.recovered_state)
        return min(found, default=None)


class ReaderState(NamedTuple):
    """A reader between two calls: its node, what it has open, and its progress."""

    node: Node
    handles: frozenset[tuple[tuple[int, int], Handle]]
    mappings: frozenset[tuple[tuple[int, int], Mapped]]
    progress: Progress
    """Of the reader alone: its readings, observations and violations."""
    reads: tuple[tuple[str, int], ...] = ()
    """What the model knows of its reads."""

    @property
    def is_at_end(self) -> bool:
        """Whether the reader makes no more calls."""
        return self.node.call is None or bool(self.progress.violations)


class Arrival(NamedTuple):
    """How a state was first reached: the index in the trace, and the state before it, or None for a start state."""

    trace_index: int
    parent: ReaderState | None


Arrivals: TypeAlias = dict[ReaderState, Arrival]


class ReaderReduction:
    """The search of one process that changes nothing over traces; states are counted over all of them."""

    def __init__(self, process: Process, process_index: int, judge: Judge) -> None:
        """Search for the process with index `process_index` in its world."""
        self._process = process
        self._index = process_index
        self._judge = judge
        self.state_count = 0
        self.end_count = 0
        self.is_done = True
        """Whether no search was cut."""

    def root(self) -> ReaderState:
        """Return the reader before its first call."""
        return ReaderState(self._process.root, frozenset(), frozenset(), Progress())

    def search(self, trace: Trace, begin: Iterable[ReaderState], *, has_time: HasTime = always) -> Arrivals:
        """Return every state that can be reached beside a trace, each with its earliest arrival.

        The states of `begin` start at its beginning. A reader ends at its first violation. Raises NotOnlyAReaderError.
        """
        arrivals = {state: Arrival(0, None) for state in begin}
        pending = [(state, 0) for state in arrivals]
        while pending:
            state, trace_index = pending.pop()
            if arrivals[state].trace_index < trace_index:
                continue
            if not has_time():
                self.is_done = False
                break
            self.state_count += 1
            self.end_count += state.is_at_end
            for following, later in self._steps(trace, state, trace_index):
                known = arrivals.get(following)
                if known is None or known.trace_index > later:
                    arrivals[following] = Arrival(later, state)
                    pending.append((following, later))
        return arrivals

    def is_earliest(self, trace: Trace, arrivals: Arrivals) -> bool:
        """Say whether no state could be reached earlier, which would miss orders; for a search that was not cut."""
        return all(
            arrivals[following].trace_index <= later
            for state, arrival in arrivals.items()
            for following, later in self._steps(trace, state, arrival.trace_index)
        )

    def _steps(self, trace: Trace, state: ReaderState, start: int) -> Iterator[tuple[ReaderState, int]]:
        node, session = state.node, self._index
        if state.is_at_end:
            return
        assert node.call is not None
        if not node.goes_on:
            raise NotOnlyAReaderError(f"{self._process.name} waits for others")
        if node.call.kind not in READ_ONLY_CALLS and node.call.kind is not CallKind.CLOSE:
            raise NotOnlyAReaderError(f"{self._process.name} changes something or takes locks: {node.call.kind}")
        trace_index: int | None = start
        while trace_index is not None:
            kernel = trace.kernels[trace_index]
            # The call changes nothing but what the reader itself has open, so the kernel need not be copied for it.
            others = kernel.handles, kernel.mappings
            kernel.handles, kernel.mappings = dict(state.handles), dict(state.mappings)
            accessed = accesses(kernel, session, node.call)
            following = self._process.advance(node, node.make_call(kernel, session))
            if node.call.kind in _OPENING:
                opened = state._replace(
                    handles=frozenset(kernel.handles.items()), mappings=frozenset(kernel.mappings.items())
                )
            else:
                opened = state
            kernel.handles, kernel.mappings = others
            yield self._after(opened, trace, trace_index, following), trace_index
            # What is told after a recovery that dropped the commit under way is judged without that commit.
            trace_index = trace.next_change(
                trace_index, accessed, counts_acknowledged=node.begins, counts_recovered=bool(following.marks)
            )

    def _after(self, state: ReaderState, trace: Trace, trace_index: int, node: Node) -> ReaderState:
        name, own, reads = self._process.name, state.progress, state.reads
        if state.node.begins or node.marks or node.outcome:
            writer, known = trace.progresses[trace_index], trace.known[trace_index]._replace(reads=reads)
            progress = own._replace(
                committed=writer.committed, rejected=writer.rejected, pending=writer.pending, absences=writer.absences
            )
            if state.node.begins:
                progress = self._judge.begin_read(progress, name)
                known = follow(known, Event(Kind.BEGUN, reader=name))
            if node.marks or node.outcome:
                known, progress = followed(known, progress, self._judge.observe(progress, name, node), name, node)
            own, reads = progress._replace(committed=(), rejected=(), pending=None, absences=ALL_THERE), known.reads
        return ReaderState(node, state.handles, state.mappings, own, reads)


def origin_of(arrivals: Arrivals, state: ReaderState) -> ReaderState:
    """Return the start state from which a search reached a state."""
    parent: ReaderState | None = state
    while parent is not None:
        state, parent = parent, arrivals[parent].parent
    return state


def schedule_of(process_index: int, arrivals: Arrivals, last: ReaderState, end: int) -> Schedule:
    """Return the calls of the writer and of a reader up to a reader state, then of the writer up to index `end`."""
    states: list[int] = []
    state: ReaderState | None = last
    while state is not None:
        at = arrivals[state]
        if at.parent is not None:
            states.append(at.trace_index)
        state = at.parent
    transitions: list[tuple[int, int]] = []
    now = 0
    for trace_index in reversed(states):
        transitions += [(WRITER_INDEX, trace_index - now), (process_index, 1)]
        now = trace_index
    return compressed([*transitions, (WRITER_INDEX, max(end - now, 0))])
