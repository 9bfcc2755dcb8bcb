"""Reader cuts: one reader that writes nothing, against every moment of the writer's run that it could look at.

Such readers cannot tell of each other, and no writer can tell of them, so all outcomes of many are the products of the
outcomes of one. At each call the reader branches over the different answers from now on; of all moments with the same
answer the earliest is enough, because whatever can be met after a later one can be met after it (protocol notes 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from harness.disk.intercept import CallKind
from harness.disk.kernel import Answer, Handle, Kernel, Mapped
from harness.disk.kernel_calls import apply
from harness.disk.touches import are_dependent
from harness.explore.client import Node
from harness.explore.observer import Progress
from harness.explore.turns import Schedule, Touches, compressed
from harness.explore.world import World

WRITER_PLACE = 0
_LOOKS = frozenset(
    {
        CallKind.OPEN_FOR_READING,
        CallKind.KIND,
        CallKind.LISTDIR,
        CallKind.PREAD,
        CallKind.SIZE,
        CallKind.LOAD,
        CallKind.READ_MAPPED,
        CallKind.MAP,
        CallKind.UNMAP,
        CallKind.LOAD_FENCE,
        CallKind.STORE_FENCE,
        CallKind.CLOSE,
    }
)


class NotOnlyAReaderError(Exception):
    """The client changes, locks or leases something, so others can tell of it: explore it with DPOR."""


class CutCounts(NamedTuple):
    """How many readers' runs there were, and whether those are all."""

    runs: int
    is_done: bool


class _Open(NamedTuple):
    """What a reader has open."""

    handles: tuple[tuple[tuple[int, int], Handle], ...] = ()
    mappings: tuple[tuple[tuple[int, int], Mapped], ...] = ()


class Cut(NamedTuple):
    """A reader at a moment of the writer's run: after `time` calls of it; `before` is how it came there."""

    node: Node
    time: int
    progress: Progress
    opened: _Open
    before: Cut | None = None

    def schedule(self, place: int, end: int) -> Schedule:
        """Return the run of the writer, of `end` calls, and the reader's calls where it made them."""
        cuts = [self]
        while cuts[-1].before is not None:
            cuts.append(cuts[-1].before)
        turns, at = [], 0
        for cut in reversed(cuts[:-1]):
            turns += [(WRITER_PLACE, cut.time - at), (place, 1)]
            at = cut.time
        return compressed(turn for turn in (*turns, (WRITER_PLACE, end - at)) if turn[1])


class WriterRun:
    """The writer alone, from its start to its end: the kernel after each call, and what each call touched."""

    def __init__(self, world: World) -> None:
        """Run the writer of a world."""
        alone = world.fork()
        self.kernels = [alone.kernel.fork()]
        self._touched: list[Touches] = [()]
        self._at: dict[object, list[int]] = {}
        self.acknowledged = [0] * len(alone.progress.committed)
        while alone.nodes[WRITER_PLACE].call is not None:
            time = len(self.kernels)
            touched = alone.touches(WRITER_PLACE)
            for of in {touch.of for touch in touched}:
                self._at.setdefault(of, []).append(time)
            alone.step(WRITER_PLACE)
            self.kernels.append(alone.kernel.fork())
            self._touched.append(touched)
            self.acknowledged += [time] * (len(alone.progress.committed) - len(self.acknowledged))
        self.progress = alone.progress

    @property
    def end(self) -> int:
        """How many calls the writer makes."""
        return len(self.kernels) - 1

    def acknowledged_by(self, time: int) -> int:
        """Return how many commits are acknowledged then."""
        return sum(each <= time for each in self.acknowledged)

    def next_time(self, touched: Touches, after: int, *, is_first_look: bool) -> int | None:
        """Return when the writer next does what matters to a call; to the first look of a read, commits matter too."""
        times = {time for touch in touched for time in self._at.get(touch.of, ()) if time > after}
        dependent = (time for time in sorted(times) if are_dependent(self._touched[time], touched))
        acknowledged = (time for time in self.acknowledged if is_first_look and time > after)
        return min((*islice(dependent, 1), *islice(acknowledged, 1)), default=None)


def explore_reader(
    world: World, place: int, on_end: Callable[[Cut, WriterRun], None], *, has_time: Callable[[], bool] = lambda: True
) -> CutCounts:
    """Run a reader against the writer's run in every way that it can tell apart, and hand over each end.

    Raises NotOnlyAReaderError.
    """
    writer = WriterRun(world)
    run_count = 0
    pending = [Cut(world.nodes[place], 0, writer.progress, _Open())]
    while pending:
        if not has_time():
            return CutCounts(run_count, False)
        cut = pending.pop()
        if cut.node.call is None:
            run_count += 1
            on_end(cut, writer)
            continue
        pending.extend(_following(world, place, cut, writer))
    return CutCounts(run_count, True)


def _following(world: World, place: int, cut: Cut, writer: WriterRun) -> Iterator[Cut]:
    """Yield where a cut's call leads: each answer once, at the earliest."""
    call, client, judge = cut.node.call, world.cast.clients[place], world.cast.judge
    assert call is not None
    if call.kind not in _LOOKS:
        raise NotOnlyAReaderError(f"{client.name} would {call.kind} {call.path}")
    met: set[tuple[Answer, _Open, Progress]] = set()
    time: int | None = cut.time
    while time is not None:
        progress = _begun(cut, client.name, writer.acknowledged_by(time)) if cut.node.begins else cut.progress
        kernel = writer.kernels[time].fork()
        kernel.handles.update(cut.opened.handles)
        kernel.mappings.update(cut.opened.mappings)
        at_time = World(world.cast, kernel, [*world.nodes[:place], cut.node, *world.nodes[place + 1 :]], progress)
        touched = at_time.touches(place)
        answer = apply(kernel, place, call)
        opened = _opened(kernel, place)
        if (answer, opened, progress) not in met:
            met.add((answer, opened, progress))
            node = client.advance(cut.node, answer)
            yield Cut(node, time, judge.observe(progress, client.name, node), opened, cut)
        time = writer.next_time(touched, time, is_first_look=cut.node.begins)


def _begun(cut: Cut, name: str, acknowledged_count: int) -> Progress:
    """Return the progress when a read begins after so many commits were acknowledged."""
    reading = cut.progress.reading_of(name)
    return cut.progress.with_reading(name, reading._replace(least=max(reading.last, acknowledged_count)))


def _opened(kernel: Kernel, place: int) -> _Open:
    return _Open(
        tuple(item for item in kernel.handles.items() if item[0][0] == place),
        tuple(item for item in kernel.mappings.items() if item[0][0] == place),
    )
