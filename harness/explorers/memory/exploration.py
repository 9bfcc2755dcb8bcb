"""One exploration of a reader: every value that its loads may return while one writer stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.explorers.memory.trace import WriterTrace
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer
from tornproof.harness.simulator.memory_model.memory_views import (
    LOCATION_BYTES,
    SIZE_BYTES,
    SIZE_OFFSET_BYTES,
    Loaded,
    MemoryModel,
    NotMappedError,
    StoreHistory,
    View,
    is_system_call,
)
from tornproof.harness.simulator.process.bodies import REJECTED, SEEN
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.simulated_process import READ, Mark, Node, Process
from tornproof.impl.txn.transaction import Transaction

OLDER_WORD = "a load returned an older store than those seen before it lead to"
TWO_STORES = "a load of 8 bytes returned parts of two stores"
MOVED = "the version moved between the looks"
MIXED = "a mixed record was rejected by the final look"
RETRIED = "a read was tried again and succeeded"
GREW = "a reader took an area that had grown"
POINTS = (OLDER_WORD, TWO_STORES, MOVED, MIXED, RETRIED, GREW)
WORD_BYTES = 8
"""What a system call copies at once; it copies the words of its range one after the other."""
_SILENT = frozenset({CallKind.OPEN_FOR_READING, CallKind.CLOSE, CallKind.CLOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What an exploration starts from: a writer's trace and stores, and what the processor and the system guarantee."""

    trace: WriterTrace
    history: StoreHistory
    model: MemoryModel
    system_calls_are_fences: bool

    @classmethod
    def of(cls, trace: WriterTrace, model: MemoryModel, *, system_calls_are_fences: bool) -> Baseline:
        """Put the stores of a trace under a model; raises NotMappedError."""
        history = trace.history(system_calls_are_fences=system_calls_are_fences)
        return cls(trace=trace, history=history, model=model, system_calls_are_fences=system_calls_are_fences)

    def answers(self, call: Call, view: View) -> Iterator[tuple[Answer, tuple[Loaded, ...], View]]:
        """Yield each answer that a call may get, what was loaded, and the view after it; raises NotMappedError."""
        if self.system_calls_are_fences and is_system_call(call):
            view = view.fenced()
        if call.kind is CallKind.PREAD and call.path == self.trace.path:
            start, stop = call.offset_bytes, call.offset_bytes + call.size_bytes
            for end, size in self._ends(stop, view):
                for loads in self._words(start, end, size[-1].view.fenced() if size else view):
                    content = b"".join(loaded.content for loaded in loads)[: end - start]
                    yield content, (*size, *loads), loads[-1].view if loads else view
        elif call.kind is CallKind.LOAD_FENCE:
            yield None, (), view.fenced()
        elif call.kind in _SILENT:
            yield None, (), view
        else:
            raise NotMappedError(f"the reader calls {call.kind} {call.path}, which is not a load")

    def _ends(self, stop: int, view: View) -> Iterator[tuple[int, tuple[Loaded, ...]]]:
        """Yield where a read up to `stop` may end, with the load of the file's size that says so.

        The writer never truncates the file, so only what was behind its end needs one.
        """
        if stop <= len(self.trace.contents[0]):
            yield stop, ()
            return
        # The kernel orders reads of a file's size with its changes.
        for loaded in self.history.loads(self.model, view.fenced(), SIZE_OFFSET_BYTES, SIZE_BYTES):
            yield min(stop, int.from_bytes(loaded.content, "little")), (loaded,)

    def _words(self, start: int, stop: int, view: View) -> Iterator[tuple[Loaded, ...]]:
        if start >= stop:
            yield ()
            return
        for loaded in self.history.loads(self.model, view, start, min(WORD_BYTES, stop - start)):
            for others in self._words(start + WORD_BYTES, stop, loaded.view):
                yield loaded, *others


class Load(NamedTuple):
    """A load of the reader, or a read of the file's size, and what it returned; `before` is the one before it."""

    before: Load | None
    offset_bytes: int
    content: bytes
    stores: tuple[int, ...]

    @property
    def is_at_version(self) -> bool:
        """Whether it loads VERSION."""
        return self.offset_bytes == 0

    @property
    def positions(self) -> range:
        """The positions that it covers."""
        return range(self.offset_bytes, self.offset_bytes + len(self.content), LOCATION_BYTES)


class ReaderState(NamedTuple):
    """The state of a reader: its view, its last load, the newest store that it has seen, the commits that it saw.

    `versions` are the values of VERSION that it loaded since the read began, `reached` the coverage goals of its last
    call. `violated` is the first broken property, or empty, and `sentence` says how.
    """

    view: View = View()
    load: Load | None = None
    newest: int = 0
    seen: tuple[int, ...] = ()
    versions: tuple[bytes, ...] = ()
    reached: tuple[str, ...] = ()
    violated: str = ""
    sentence: str = ""

    def broken(self, violated: str, sentence: str) -> ReaderState:
        """Return the state after a property was broken."""
        return self if self.violated else self._replace(violated=violated, sentence=sentence)


@dataclass(slots=True, kw_only=True)
class Explored:
    """The result of an exploration.

    An execution is the sequence of values that the reader's loads returned, and is counted by the number of its end.
    `broken` are the executions that broke each property, and `detected` has the last state of the first of them.
    """

    executions: set[int] = field(default_factory=set)
    broken: dict[str, set[int]] = field(default_factory=dict)
    detected: dict[str, ReaderState] = field(default_factory=dict)
    reached: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(POINTS, 0)))
    seen: set[tuple[int, ...]] = field(default_factory=set)
    is_complete: bool = True

    @property
    def wrong_count(self) -> int:
        """How many executions broke a property."""
        return sum(map(len, self.broken.values()))


class MemoryExploration:
    """Visits every execution of a reader."""

    def __init__(self, baseline: Baseline, reader: Process) -> None:
        """Explore `reader` from `baseline`."""
        self.explored = Explored()
        self._baseline = baseline
        self._reader = reader
        self._commits = {version: number for number, version in enumerate(baseline.trace.versions)}

    def run(self, has_time: HasTime = always) -> Explored:
        """Visit executions depth first, the oldest stores first, while there is time."""
        waiting: list[tuple[Node | None, Answer, ReaderState]] = [(None, None, ReaderState())]
        while waiting:
            parent, answer, state = waiting.pop()
            node = self._reader.root if parent is None else self._reader.advance(parent, answer)
            state = self.observed(node, state)
            if node.call is not None:
                following = [(node, *after) for after in self.after(node.call, state)]
                waiting.extend(reversed(following))
            else:
                self._end(node, state)
                if not has_time():
                    self.explored.is_complete = not waiting
                    break
        return self.explored

    def after(self, call: Call, state: ReaderState) -> Iterator[tuple[Answer, ReaderState]]:
        """Yield each answer that a call may get and the reader's state after it."""
        for answer, loads, view in self._baseline.answers(call, state.view):
            following = state._replace(reached=())
            for loaded in loads:
                load = Load(following.load, loaded.offset_bytes, loaded.content, loaded.stores)
                following = self._loaded(following, load)
            yield answer, following._replace(view=view)

    def observed(self, node: Node, state: ReaderState) -> ReaderState:
        """Check what the reader reports, and count the coverage goals."""
        self.explored.reached.update(state.reached)
        for mark in node.marks:
            state = self._marked(mark, state)
        if node.outcome:
            violated = Property.ENDS if node.is_endless else Property.DISORDERLY
            return state.broken(violated, f"the reader ends with {node.outcome}")
        return state

    def _marked(self, mark: Mark, state: ReaderState) -> ReaderState:
        match mark.kind:
            case kind if kind == READ:
                return state._replace(versions=())
            case kind if kind == REJECTED:
                return state.broken(Property.REJECTED, f"the read fails: {mark.value}")
            case kind if kind == SEEN:
                assert isinstance(mark.value, Transaction)
                return self._saw(mark.value, state)
        return state

    def _saw(self, transaction: Transaction, state: ReaderState) -> ReaderState:
        commit = self._commits.get(transaction)
        if commit is None:
            sentence = f"the reader took version {transaction.version} with words that no committed version has"
            return state.broken(Property.WRONG_SNAPSHOT, sentence)
        if state.seen and commit < state.seen[-1]:
            sentence = f"the reader saw commit {commit} after commit {state.seen[-1]}"
            return state.broken(Property.WENT_BACK, sentence)
        reached = self.explored.reached
        reached[RETRIED] += len(state.versions) > 2
        reached[GREW] += has_grown(self._baseline.trace, commit)
        return state._replace(seen=(*state.seen, commit))

    def _loaded(self, state: ReaderState, load: Load) -> ReaderState:
        led_to = (self._baseline.history.latest(position, state.newest) for position in load.positions)
        is_moved = load.is_at_version and len(state.versions) % 2 == 1 and load.content != state.versions[-1]
        is_reached = {
            OLDER_WORD: any(map(int.__lt__, load.stores, led_to)),
            TWO_STORES: len(set(load.stores)) > 1,
            MOVED: is_moved,
            MIXED: is_moved and self._is_mixed(state.load),
        }
        reached = (*state.reached, *(point for point, is_so in is_reached.items() if is_so))
        versions = (*state.versions, load.content) if load.is_at_version else state.versions
        return state._replace(reached=reached, load=load, newest=max(state.newest, *load.stores), versions=versions)

    def _is_mixed(self, load: Load | None) -> bool:
        """Return whether the file never held at once what was loaded since the last load of VERSION."""
        possible = self._baseline.trace.contents
        while load is not None and not load.is_at_version:
            start, content = load.offset_bytes, load.content
            if start >= 0:
                possible = tuple(each for each in possible if each[start : start + len(content)] == content)
            load = load.before
        return not possible

    def _end(self, node: Node, state: ReaderState) -> None:
        self.explored.executions.add(node.number)
        self.explored.seen.add(state.seen)
        if state.violated:
            self.explored.broken.setdefault(state.violated, set()).add(node.number)
            self.explored.detected.setdefault(state.violated, state)


def has_grown(trace: WriterTrace, commit: int) -> bool:
    """Return whether a commit left a longer partition table than the first version has."""
    return len(trace.versions[commit].partitions) > len(trace.versions[0].partitions)
