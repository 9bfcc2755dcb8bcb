"""What an exploration remembers of a run, and the rules by which it judges what processes report.

Snapshot isolation with one writer, and durability (docs/how-it-works.md): each observation equals one committed
version; a reader never goes back; what was acknowledged before a read began is in it; what was acknowledged survives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import shortened
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.simulated_process import Mark, Node

SEEN_MAX = 200
"""How many characters of what a reader saw stand in a violation: those of a table name its partitions."""
Operations: TypeAlias = tuple[int, ...]
Oracle: TypeAlias = Callable[[Operations], Hashable]
"""Returns what a reader sees when the operations of these numbers were committed, one after the other."""
Difference: TypeAlias = Callable[[Operations], str]
"""Says in words how that differs from what the model has, "" where it does not."""


class Violation(NamedTuple):
    """A broken property, the process that broke it, and what was seen."""

    property: str
    process: str
    sentence: str


class Property:
    """The names of what can be broken."""

    WRONG_SNAPSHOT = "a reader sees exactly one committed version"
    REJECTED = "a reader gets an answer"
    STALE = "a read sees what was acknowledged before it began"
    WENT_BACK = "a reader never goes back"
    LOST = "an acknowledged commit survives"
    SEEN_LOST = "what a reader saw survives while processes die"
    UNREADABLE = "the table can be read after a recovery"
    RECOVERY = "a writer can recover"
    COMMIT = "a commit goes through where nothing fails"
    DISORDERLY = "a process ends as it should"
    ENDS = "every process ends"
    LEASE = "nobody changes what is leased"
    IMMUTABLE = "committed bytes never change (I7)"
    BARRIERS = "no version is stored before its barriers (I9)"
    IDEMPOTENT = "a second recovery changes nothing"
    CONTENT = "a commit leaves the rows that the model has"
    BEHAVIOUR = "what processes report is a behaviour of the model"
    FAULT_FREE = "without a disturbance, every commit is acknowledged and then visible"
    SYNCED = "a commit whose sync failed is not acknowledged"


class Reading(NamedTuple):
    """The number of commits that a reader's current read must see at least, and that it last saw.

    `seen_before` is the largest number that any reader had seen when it began, which the model demands of it, too.
    """

    least: int = 0
    last: int = 0
    seen_before: int = 0


class Progress(NamedTuple):
    """All that the judge remembers: with equal progress it judges the same future the same way.

    `committed` are the numbers of the operations that were acknowledged or found by a recovery, `pending` is the one
    begun since. `seen` is the largest number of commits that any reader must have seen. `readings` are by process name.
    """

    committed: Operations = ()
    pending: int | None = None
    seen: int = 0
    readings: tuple[tuple[str, Reading], ...] = ()
    violations: tuple[Violation, ...] = ()
    observations: tuple[tuple[str, int], ...] = ()

    @property
    def begun(self) -> Operations:
        """The operations that a reader may see."""
        return self.committed if self.pending is None else (*self.committed, self.pending)

    def reading_of(self, process: str) -> Reading:
        """Return the reading of a process."""
        return dict(self.readings).get(process, Reading())

    def with_reading(self, process: str, reading: Reading) -> Progress:
        """Return the progress with another reading of a process."""
        return self._replace(readings=tuple(sorted({**dict(self.readings), process: reading}.items())))

    def broken(self, violated: str, process: str, sentence: str) -> Progress:
        """Return the progress with one more violation."""
        return self._replace(violations=(*self.violations, Violation(violated, process, sentence)))


class Judge:
    """Judges what processes report; with `fails` calls may fail in this exploration, and commits with them."""

    def __init__(self, oracle: Oracle, *, difference: Difference = lambda operations: "", fails: bool = False) -> None:
        """Take what to expect from `oracle`, which is checked by `difference`."""
        self._oracle = oracle
        self._difference = difference
        self._fails = fails

    def observe(self, progress: Progress, process: str, node: Node) -> Progress:
        """Return the progress after a process has reached a node."""
        for mark in node.marks:
            progress = self._mark(progress, process, node, mark)
        if node.outcome:
            violated = Property.ENDS if node.is_endless else Property.DISORDERLY
            progress = progress.broken(violated, process, node.outcome)
        return progress

    def begin_read(self, progress: Progress, process: str) -> Progress:
        """Return the progress when a read first accesses a file: it must see what is acknowledged by then.

        The latest possible start is taken, because nothing that the read did before depends on what is committed.
        """
        reading = progress.reading_of(process)
        least = max(reading.last, len(progress.committed))
        # A number that says no more than the least one would only tell equal states apart.
        begun = reading._replace(least=least, seen_before=progress.seen if progress.seen > least else 0)
        return progress if reading == begun else progress.with_reading(process, begun)

    def _mark(self, progress: Progress, process: str, node: Node, mark: Mark) -> Progress:
        match mark.kind:
            case bodies.COMMIT:
                assert isinstance(mark.value, int)
                return progress._replace(pending=mark.value)
            case bodies.ACKNOWLEDGED:
                assert isinstance(mark.value, int)
                return self._acknowledged(progress, process, mark.value)
            case bodies.FAILED if not self._fails:
                what = Property.COMMIT if _has_begun_a_commit(node) else Property.RECOVERY
                return progress.broken(what, process, str(mark.value))
            case bodies.RECOVERED:
                return self._recovered(progress, process, mark.value)
            case bodies.REJECTED:
                return progress.broken(Property.REJECTED, process, str(mark.value))
            case bodies.SEEN:
                return self._seen(progress, process, mark.value)
        return progress

    def _acknowledged(self, progress: Progress, process: str, number: int) -> Progress:
        committed = (*progress.committed, number)
        progress = progress._replace(committed=committed, pending=None)
        difference = self._difference(committed)
        return progress.broken(Property.CONTENT, process, difference) if difference else progress

    def _seen(self, progress: Progress, process: str, value: Hashable) -> Progress:
        reading = progress.reading_of(process)
        count = self._first_version_of(progress, value, max(reading))
        if count is None:
            return _no_version(progress, process, value)
        progress = progress._replace(observations=(*progress.observations, (process, count)))
        if count < reading.last:
            return progress.broken(Property.WENT_BACK, process, f"commit {count} was seen after commit {reading.last}")
        if count < reading.least:
            sentence = f"commit {count} was seen, although commit {reading.least} was acknowledged before"
            return progress.broken(Property.STALE, process, sentence)
        progress = progress._replace(seen=max(progress.seen, count))
        return progress.with_reading(process, reading._replace(last=count))

    def _first_version_of(self, progress: Progress, value: Hashable, least: int) -> int | None:
        """Return after how many commits a reader sees that, the smallest such number from `least` on, else the largest.

        Commits may lead back to an earlier state. The smallest number demands least of later reads and recoveries, so
        that these are wrong only if no other number explains them either.
        """
        begun = progress.begun
        for count in range(least, len(begun) + 1):
            if value == self._oracle(begun[:count]):
                return count
        return self.version_of(progress, value)

    def version_of(self, progress: Progress, value: Hashable) -> int | None:
        """Return after how many commits a reader sees that, the largest such number; None if after none."""
        begun = progress.begun
        counts = range(len(begun), -1, -1)
        return next((count for count in counts if value == self._oracle(begun[:count])), None)

    def _recovered(self, progress: Progress, process: str, value: Hashable) -> Progress:
        """Learn which version a recovery found: the last acknowledged one or what was begun after it."""
        count = self.version_of(progress, value)
        committed = progress.committed
        if count is None:
            return _no_version(progress, process, value)
        if count < len(committed):
            sentence = f"commit {len(committed)} was acknowledged, and {count} is what a recovery found"
            return progress.broken(Property.LOST, process, sentence)
        if count > len(committed):
            assert progress.pending is not None
            committed = (*committed, progress.pending)
        if count < progress.seen:
            progress = progress.broken(Property.SEEN_LOST, process, f"commit {progress.seen} was seen, and is gone")
        return progress._replace(committed=committed, pending=None)


def _has_begun_a_commit(node: Node) -> bool:
    """Say whether this session has; what is pending may be of the session before."""
    at: Node | None = node
    while at is not None:
        if any(mark.kind == bodies.COMMIT for mark in at.marks):
            return True
        at = at.parent
    return False


def _no_version(progress: Progress, process: str, value: Hashable) -> Progress:
    sentence = f"{shortened(str(value), SEEN_MAX)} is no version of the model"
    return progress.broken(Property.WRONG_SNAPSHOT, process, sentence)
