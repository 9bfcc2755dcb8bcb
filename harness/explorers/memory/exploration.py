"""One exploration of a mapped reader: every answer that its loads may get beside one writer's stores, to the end."""

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
    POSITION_BYTES,
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
_SILENT = frozenset({CallKind.OPEN_FOR_READING, CallKind.MAP, CallKind.UNMAP, CallKind.CLOSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What an exploration stands on: a writer's life and its stores, and what processor and system promise."""

    trace: WriterTrace
    history: StoreHistory
    model: MemoryModel
    system_calls_are_fences: bool

    @classmethod
    def of(cls, trace: WriterTrace, model: MemoryModel, *, system_calls_are_fences: bool) -> Baseline:
        """Put the stores of a life under a model; raises NotMappedError."""
        history = trace.history(system_calls_are_fences=system_calls_are_fences)
        return cls(trace=trace, history=history, model=model, system_calls_are_fences=system_calls_are_fences)

    def answers(self, call: Call, view: View) -> Iterator[tuple[Answer, Loaded | None, View]]:
        """Yield what a reader's call may give, with what was loaded and the view after it; raises NotMappedError."""
        if self.system_calls_are_fences and is_system_call(call):
            view = view.fenced()
        if call.kind is CallKind.LOAD and call.path == self.trace.path:
            for loaded in self.history.loads(self.model, view, call.offset_bytes, call.size_bytes):
                yield int.from_bytes(loaded.content, "little"), loaded, loaded.view
        elif call.kind is CallKind.SIZE:
            # The system orders this look at its own number, as it does the change.
            for loaded in self.history.loads(self.model, view.fenced(), SIZE_OFFSET_BYTES, SIZE_BYTES):
                yield int.from_bytes(loaded.content, "little"), loaded, loaded.view.fenced()
        elif call.kind is CallKind.LOAD_FENCE:
            yield None, None, view.fenced()
        elif call.kind in _SILENT:
            yield None, None, view
        else:
            raise NotMappedError(f"the reader does not load but {call.kind} {call.path}")


class Look(NamedTuple):
    """A load, or a look at the file's size, and what it returned; `before` is the one before it."""

    before: Look | None
    offset_bytes: int
    content: bytes
    stores: tuple[int, ...]

    @property
    def is_at_version(self) -> bool:
        """Whether it is a look at VERSION."""
        return self.offset_bytes == 0

    @property
    def positions(self) -> range:
        """The locations that it covers."""
        return range(self.offset_bytes, self.offset_bytes + len(self.content), POSITION_BYTES)


class Standing(NamedTuple):
    """How far a reader has come: its view, its loads, the newest store that it has seen, the commits that it saw.

    `versions` are what its looks at VERSION gave since the read began. `violated` is the first broken property, or
    none, and `sentence` says how.
    """

    view: View = View()
    look: Look | None = None
    newest: int = 0
    seen: tuple[int, ...] = ()
    versions: tuple[bytes, ...] = ()
    violated: str = ""
    sentence: str = ""

    def broken(self, violated: str, sentence: str) -> Standing:
        """Return where it stands after a property was broken."""
        return self if self.violated else self._replace(violated=violated, sentence=sentence)


@dataclass(slots=True, kw_only=True)
class Explored:
    """What came of an exploration: ends by their numbers, one broken execution a property, what was reached and seen.

    An execution is the sequence of words that the reader's loads gave; `broken` are the ends of those that broke a
    property.
    """

    executions: set[int] = field(default_factory=set)
    broken: dict[str, set[int]] = field(default_factory=dict)
    detected: dict[str, Standing] = field(default_factory=dict)
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
        """Explore on this ground."""
        self.explored = Explored()
        self._baseline = baseline
        self._reader = reader
        self._commits = {version: number for number, version in enumerate(baseline.trace.versions)}

    def run(self, has_time: HasTime = always) -> Explored:
        """Go depth first, the oldest stores first, for as long as there is time."""
        waiting: list[tuple[Node | None, Answer, Standing]] = [(None, None, Standing())]
        while waiting:
            parent, answer, standing = waiting.pop()
            node = self._reader.root if parent is None else self._reader.advance(parent, answer)
            standing = self.observed(node, standing)
            if node.call is not None:
                following = [(node, *after) for after in self.after(node.call, standing)]
                waiting.extend(reversed(following))
            else:
                self._end(node, standing)
                if not has_time():
                    self.explored.is_complete = not waiting
                    break
        return self.explored

    def after(self, call: Call, standing: Standing) -> Iterator[tuple[Answer, Standing]]:
        """Yield the answers that a call may get and where the reader stands then."""
        for answer, loaded, view in self._baseline.answers(call, standing.view):
            if loaded is None:
                yield answer, standing._replace(view=view)
            else:
                offset_bytes = SIZE_OFFSET_BYTES if call.kind is CallKind.SIZE else call.offset_bytes
                look = Look(standing.look, offset_bytes, loaded.content, loaded.stores)
                yield answer, self._looked(standing, look, view)

    def observed(self, node: Node, standing: Standing) -> Standing:
        """Judge what the reader says."""
        for mark in node.marks:
            standing = self._heard(mark, standing)
        if node.outcome:
            return standing.broken(Property.DISORDERLY, f"the reader ends with {node.outcome}")
        return standing

    def _heard(self, mark: Mark, standing: Standing) -> Standing:
        match mark.kind:
            case kind if kind == READ:
                return standing._replace(versions=())
            case kind if kind == REJECTED:
                return standing.broken(Property.REJECTED, f"the reader is refused: {mark.value}")
            case kind if kind == SEEN:
                assert isinstance(mark.value, Transaction)
                return self._saw(mark.value, standing)
        return standing

    def _saw(self, transaction: Transaction, standing: Standing) -> Standing:
        commit = self._commits.get(transaction)
        if commit is None:
            sentence = f"the reader took version {transaction.version} with words that no committed version has"
            return standing.broken(Property.WRONG_SNAPSHOT, sentence)
        if standing.seen and commit < standing.seen[-1]:
            sentence = f"the reader saw commit {commit} after commit {standing.seen[-1]}"
            return standing.broken(Property.WENT_BACK, sentence)
        reached = self.explored.reached
        reached[RETRIED] += len(standing.versions) > 2
        reached[GREW] += has_grown(self._baseline.trace, commit)
        return standing._replace(seen=(*standing.seen, commit))

    def _looked(self, standing: Standing, look: Look, view: View) -> Standing:
        reached = self.explored.reached
        led_to = (self._baseline.history.latest(position, standing.newest) for position in look.positions)
        reached[OLDER_WORD] += any(map(int.__lt__, look.stores, led_to))
        reached[TWO_STORES] += len(set(look.stores)) > 1
        versions = standing.versions
        if look.is_at_version:
            if len(versions) % 2 and look.content != versions[-1]:
                reached[MOVED] += 1
                reached[MIXED] += self._is_mixed(standing.look)
            versions = (*versions, look.content)
        return standing._replace(view=view, look=look, newest=max(standing.newest, *look.stores), versions=versions)

    def _is_mixed(self, look: Look | None) -> bool:
        """Say whether no version ever stood in the file as it was loaded since the last look at VERSION."""
        possible = self._baseline.trace.contents
        while look is not None and not look.is_at_version:
            start, content = look.offset_bytes, look.content
            if start >= 0:
                possible = tuple(each for each in possible if each[start : start + len(content)] == content)
            look = look.before
        return not possible

    def _end(self, node: Node, standing: Standing) -> None:
        self.explored.executions.add(node.number)
        self.explored.seen.add(standing.seen)
        if standing.violated:
            self.explored.broken.setdefault(standing.violated, set()).add(node.number)
            self.explored.detected.setdefault(standing.violated, standing)


def has_grown(trace: WriterTrace, commit: int) -> bool:
    """Say whether a commit left a longer partition table than the first version has."""
    return len(trace.versions[commit].partitions) > len(trace.versions[0].partitions)
