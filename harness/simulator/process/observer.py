"""What an exploration remembers of a run, and the rules by which it judges what processes report.

Snapshot isolation with one writer, and durability (docs/how-it-works.md): each observation equals one committed
version; a reader never goes back; what was acknowledged before a read began is in it; what was acknowledged survives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeAlias

from tornproof.harness.common.verdict import shortened, without_digits
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.simulated_process import Mark, Node

SEEN_MAX = 200
"""How many characters of what a reader saw stand in a violation: those of a table name its partitions."""
RECOVERIES_MAX = 8
"""How often a recovery that still changes files is repeated where only what a reader sees must stay."""
Operations: TypeAlias = tuple[int, ...]
Oracle: TypeAlias = Callable[[Operations], Hashable]
"""Returns what a reader sees when the operations of these numbers were committed, one after the other."""
Rejection: TypeAlias = Callable[[Operations], str]
"""Returns the error that rejects the last of these in a session after a crash where nothing fails, "" if none does."""
Difference: TypeAlias = Callable[[Operations], str]
"""Says in words how that differs from what the model has, "" where it does not."""
Absent: TypeAlias = frozenset[int]
"""The positions among the operations begun of rejected ones that are not there."""
ALL_THERE: tuple[Absent, ...] = (frozenset(),)


class NoVersionError(Exception):
    """These operations cannot be committed one after the other."""


class RejectedLaterError(NoVersionError):
    """The last of these operations is rejected in a session after a crash, also where nothing fails."""


def without(operations: Operations, absent: Absent) -> Operations:
    """Return the operations that are there."""
    if not absent:
        return operations
    return tuple([number for position, number in enumerate(operations) if position not in absent])


def version_in(
    value: Hashable, begun: Operations, absences: Iterable[Absent], counts: Iterable[int], oracle: Oracle
) -> tuple[int, Absent] | None:
    """Return the first of the counts of operations begun after which a reader sees that, and which are not there."""
    return next(
        (
            (count, absent)
            for count in counts
            for absent in absences
            if _is_version(value, begun[:count], absent, oracle)
        ),
        None,
    )


def last_version_in(
    value: Hashable, begun: Operations, absences: Iterable[Absent], oracle: Oracle
) -> tuple[int, Absent] | None:
    """Return the largest such count, and which are not there."""
    return version_in(value, begun, absences, range(len(begun), -1, -1), oracle)


def _is_version(value: Hashable, begun: Operations, absent: Absent, oracle: Oracle) -> bool:
    try:
        return value == oracle(without(begun, absent))
    except RejectedLaterError:
        return False
    except NoVersionError:
        # An operation may need one before it that was rejected.
        if not absent:
            raise
        return False


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


ONE_ORDER = "what several writers leave is what some order of their commits leaves"
"""What only several writers can break, of which the model has one."""


class Reading(NamedTuple):
    """The number of commits that a reader's current read must see at least, and that it last saw.

    `seen_before` is the largest number that any reader had seen when it began, which the model demands of it, too.
    """

    least: int = 0
    last: int = 0
    seen_before: int = 0


class Progress(NamedTuple):
    """All that the judge remembers: with equal progress it judges the same future the same way.

    `committed` are the numbers of the operations up to the last one that was acknowledged or found by a recovery. The
    `rejected` were begun since, and `pending` is the last one begun. Of rejected ones with another behind them, one of
    `absences` is not there. `seen` is the largest number of commits that any reader must have seen. `readings` are by
    process name.
    """

    committed: Operations = ()
    rejected: Operations = ()
    pending: int | None = None
    absences: tuple[Absent, ...] = ALL_THERE
    seen: int = 0
    readings: tuple[tuple[str, Reading], ...] = ()
    violations: tuple[Violation, ...] = ()
    observations: tuple[tuple[str, int], ...] = ()

    @property
    def begun(self) -> Operations:
        """The operations that a reader may see."""
        return self.committed if self.pending is None else (*self.committed, *self.rejected, self.pending)

    def with_begun(self, number: int) -> Progress:
        """Return the progress when an operation begins, with the one before rejected if it is still pending."""
        if self.pending is None:
            return self._replace(pending=number)
        position = len(self.begun) - 1
        return self._replace(
            rejected=self.begun[len(self.committed) :],
            pending=number,
            absences=(*self.absences, *(absent | {position} for absent in self.absences)),
        )

    def with_committed(self, count: int, absences: tuple[Absent, ...]) -> Progress:
        """Return the progress when the first operations begun are committed, and none is pending."""
        return self._replace(committed=self.begun[:count], rejected=(), pending=None, absences=absences)

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

    def __init__(
        self,
        oracle: Oracle,
        *,
        difference: Difference = lambda operations: "",
        rejection: Rejection = lambda operations: "",
        fails: bool = False,
    ) -> None:
        """Take what to expect from `oracle`, which is checked by `difference`, and which commits do nothing."""
        self._oracle = oracle
        self._difference = difference
        self._rejection = rejection
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
                return progress.with_begun(mark.value)
            case bodies.ACKNOWLEDGED:
                assert isinstance(mark.value, int)
                return self._acknowledged(progress, process, mark.value)
            case bodies.FAILED if not self._fails:
                return self._failed(progress, process, node, str(mark.value))
            case bodies.RECOVERED:
                return self._recovered(progress, process, mark.value)
            case bodies.REJECTED:
                return progress.broken(Property.REJECTED, process, str(mark.value))
            case bodies.SEEN:
                return self._seen(progress, process, mark.value)
        return progress

    def _failed(self, progress: Progress, process: str, node: Node, error: str) -> Progress:
        if not has_begun_a_commit(node):
            return progress.broken(Property.RECOVERY, process, error)
        begun = [without(progress.begun, absent) for absent in progress.absences]
        if any(is_rejected_later(error, operations, self._rejection) for operations in begun):
            return progress._replace(pending=None)
        return progress.broken(Property.COMMIT, process, error)

    def _acknowledged(self, progress: Progress, process: str, number: int) -> Progress:
        progress = progress._replace(pending=number) if progress.pending is None else progress
        progress = progress.with_committed(len(progress.begun), progress.absences)
        differences = [self._difference(without(progress.committed, absent)) for absent in progress.absences]
        difference = "" if "" in differences else differences[0]
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
        progress = progress._replace(seen=max(progress.seen, count), absences=self._absences_in(progress, count, value))
        return progress.with_reading(process, reading._replace(last=count))

    def _absences_in(self, progress: Progress, count: int, value: Hashable) -> tuple[Absent, ...]:
        """Return which rejected operations may not be there if a reader sees that after so many commits or more."""
        if progress.absences == ALL_THERE:
            return ALL_THERE
        counts = range(count, len(progress.begun) + 1)
        return tuple(
            absent
            for absent in progress.absences
            if version_in(value, progress.begun, (absent,), counts, self._oracle) is not None
        )

    def _first_version_of(self, progress: Progress, value: Hashable, least: int) -> int | None:
        """Return after how many commits a reader sees that, the smallest such number from `least` on, else the largest.

        Commits may lead back to an earlier state. The smallest number demands least of later reads and recoveries, so
        that these are wrong only if no other number explains them either.
        """
        begun = progress.begun
        first = version_in(value, begun, progress.absences, range(least, len(begun) + 1), self._oracle)
        return self.version_of(progress, value) if first is None else first[0]

    def version_of(self, progress: Progress, value: Hashable) -> int | None:
        """Return after how many commits a reader sees that, the largest such number; None if after none."""
        last = last_version_in(value, progress.begun, progress.absences, self._oracle)
        return None if last is None else last[0]

    def _recovered(self, progress: Progress, process: str, value: Hashable) -> Progress:
        """Learn which version a recovery found: the last acknowledged one or what was begun after it."""
        found = last_version_in(value, progress.begun, progress.absences, self._oracle)
        ended = progress._replace(rejected=(), pending=None)
        if found is None:
            return _no_version(ended, process, value)
        count, absent = found
        if count < len(progress.committed):
            sentence = f"commit {len(progress.committed)} was acknowledged, and {count} is what a recovery found"
            return ended.broken(Property.LOST, process, sentence)
        if count < progress.seen:
            progress = progress.broken(Property.SEEN_LOST, process, f"commit {progress.seen} was seen, and is gone")
        # What was begun behind them is another operation from now on.
        return progress.with_committed(count, (frozenset(position for position in absent if position < count),))


class JudgeOfFailedRecovery(Judge):
    """Judges a session in whose recovery a sync fails: what that found, and nobody acknowledged, may be lost again."""

    def _recovered(self, progress: Progress, process: str, value: Hashable) -> Progress:
        known, found = len(progress.committed), super()._recovered(progress, process, value)
        lost = [frozenset(range(first, len(found.committed))) for first in range(known, len(found.committed))]
        return found._replace(
            absences=tuple({absent | also: None for absent in found.absences for also in [*ALL_THERE, *lost]})
        )


def is_rejected_later(error: str, operations: Operations, rejection: Rejection) -> bool:
    """Say whether an error may reject the last of these operations, because it does so where nothing fails.

    It says the same there, apart from numbers; the same class alone may have another reason.
    """
    expected = rejection(operations)
    return bool(expected) and without_digits(error) == without_digits(expected)


def has_begun_a_commit(node: Node) -> bool:
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
