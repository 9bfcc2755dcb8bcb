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
from tornproof.harness.search.turns import Schedule, compressed
from tornproof.harness.simulator.filesystem.intercept import LOOKS, CallKind
from tornproof.harness.simulator.filesystem.kernel import Handle, Kernel, Mapped
from tornproof.harness.simulator.filesystem.touches import Touch, touches
from tornproof.harness.simulator.process.client import Client, Node
from tornproof.harness.simulator.process.observer import Judge, Progress
from tornproof.harness.simulator.process.programs import RECOVERED
from tornproof.harness.simulator.process.situation import NotExplorableError
from tornproof.harness.simulator.process.world import World


class NotOnlyAReaderError(NotExplorableError):
    """The client changes, locks or leases something, so that others can tell of it."""


class Course:
    """What a writer did, moment by moment: the kernel and what the judge knew, before any call and after each."""

    def __init__(self, world: World) -> None:
        """Let the writer go on to its end, alone; the world is used up."""
        self.kernels: list[Kernel] = [world.kernel.fork()]
        self.progresses: list[Progress] = [world.progress]
        self.nodes: list[Node] = [world.nodes[WRITER_PLACE]]
        self._changes: defaultdict[object, list[tuple[int, int, int]]] = defaultdict(list)
        while world.nodes[WRITER_PLACE].call is not None:
            for touch in world.touches(WRITER_PLACE):
                if touch.changes or (touch.of.__class__ is tuple and touch.of[1] is None):
                    self._changes[touch.of].append((len(self.kernels), touch.start, touch.stop))
            world.step(WRITER_PLACE)
            self.kernels.append(world.kernel.fork())
            self.progresses.append(world.progress)
            self.nodes.append(world.nodes[WRITER_PLACE])
        counts = [len(progress.committed) for progress in self.progresses]
        self._acknowledgements = [moment for moment in range(1, len(counts)) if counts[moment] > counts[moment - 1]]
        said = [any(mark.kind == RECOVERED for mark in node.marks) for node in self.nodes]
        self.recovered_moment = said.index(True) if True in said else len(said)
        """When a recovery was done, or the end."""
        self.recovered_count = counts[self.recovered_moment] if True in said else None
        """After how many commits a recovery found the table."""

    def __len__(self) -> int:
        """How many moments there are."""
        return len(self.kernels)

    def next_change(self, moment: int, touched: tuple[Touch, ...], *, counts_acknowledged: bool) -> int | None:
        """Return the first later moment at which one of these ranges, or what is acknowledged, is another."""
        found = []
        for of, start, stop, _ in touched:
            changes = self._changes.get(of, ())
            for later, first, last in changes[bisect_right(changes, (moment, 1 << 64)) :]:
                if first < stop and start < last:
                    found.append(later)
                    break
        if counts_acknowledged:
            place = bisect_right(self._acknowledgements, moment)
            found += self._acknowledgements[place : place + 1]
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

    moment: int
    parent: ReaderState | None


Ways: TypeAlias = dict[ReaderState, Come]


class Cuts:
    """The search of one client that changes nothing over courses; states are counted over all of them."""

    def __init__(self, client: Client, place: int, judge: Judge) -> None:
        """Search for the client that is at `place` in its world."""
        self._client = client
        self._place = place
        self._judge = judge
        self.state_count = 0
        self.is_done = True
        """Whether no search was ended by the time."""

    def root(self) -> ReaderState:
        """Return the reader before its first call."""
        return ReaderState(self._client.root, frozenset(), frozenset(), Progress())

    def search(self, course: Course, begin: Iterable[ReaderState], *, has_time: HasTime = always) -> Ways:
        """Return every state that can be reached from others in a course, and how it is come to as early as can be.

        Those of `begin` go on from its beginning. Nobody goes on after a violation. Raises NotOnlyAReaderError.
        """
        come = {state: Come(0, None) for state in begin}
        pending = [(state, 0) for state in come]
        while pending:
            state, moment = pending.pop()
            if come[state].moment < moment:
                continue
            if not has_time():
                self.is_done = False
                break
            self.state_count += 1
            for following, later in self._steps(course, state, moment):
                known = come.get(following)
                if known is None or known.moment > later:
                    come[following] = Come(later, state)
                    pending.append((following, later))
        return come

    def _steps(self, course: Course, state: ReaderState, start: int) -> Iterator[tuple[ReaderState, int]]:
        node, life = state.node, self._place
        if state.is_at_end:
            return
        assert node.call is not None
        if node.call.kind not in LOOKS and node.call.kind is not CallKind.CLOSE:
            raise NotOnlyAReaderError(f"{self._client.name} changes something or takes locks: {node.call.kind}")
        moment: int | None = start
        while moment is not None:
            kernel = course.kernels[moment].fork()
            kernel.handles.update(state.handles)
            kernel.mappings.update(state.mappings)
            touched = touches(kernel, life, node.call)
            following = self._client.advance(node, node.make_call(kernel, life))
            yield self._after(state, course.progresses[moment], following, kernel), moment
            moment = course.next_change(moment, touched, counts_acknowledged=node.begins)

    def _after(self, state: ReaderState, writer: Progress, node: Node, kernel: Kernel) -> ReaderState:
        name, own = self._client.name, state.progress
        if state.node.begins or node.marks or node.outcome:
            progress = own._replace(committed=writer.committed, pending=writer.pending)
            if state.node.begins:
                progress = self._judge.begin_read(progress, name)
            if node.marks or node.outcome:
                progress = self._judge.observe(progress, name, node)
            own = progress._replace(committed=(), pending=None)
        return ReaderState(
            node,
            frozenset(item for item in kernel.handles.items() if item[0][0] == self._place),
            frozenset(item for item in kernel.mappings.items() if item[0][0] == self._place),
            own,
        )


def origin_of(come: Ways, state: ReaderState) -> ReaderState:
    """Return the state from which a search came to another one."""
    parent: ReaderState | None = state
    while parent is not None:
        state, parent = parent, come[parent].parent
    return state


def schedule_of(place: int, come: Ways, last: ReaderState, end: int) -> Schedule:
    """Return the calls of the writer and of a reader at `place` up to a state, and then of the writer to a moment."""
    moments: list[int] = []
    state: ReaderState | None = last
    while state is not None:
        at = come[state]
        if at.parent is not None:
            moments.append(at.moment)
        state = at.parent
    turns: list[tuple[int, int]] = []
    now = 0
    for moment in reversed(moments):
        turns += [(WRITER_PLACE, moment - now), (place, 1)]
        now = moment
    return compressed([*turns, (WRITER_PLACE, max(end - now, 0))])
