"""One execution of a target: commits, kills, failing calls and openings, and a check of what a reader sees after each.

A fault-free reference run does the same commits on a disk of its own, and says what a reader must see. A kill is not an
exception inside the target. The session runs to its end, and the disk is rebuilt from the steps before the kill, so
that nothing that the target does after it (`finally`, `except BaseException`) has an effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import shown
from tornproof.harness.explorers.kills.exploration import (
    FAILED_CALL,
    KILLED_RECOVERY,
    NEW_STATE,
    OLD_STATE,
    WORKING_RECOVERY,
)
from tornproof.harness.explorers.kills.plan import Failure, failures
from tornproof.harness.explorers.kills.sessions import Reference, Session, Violation, orderly
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.written import replay_prefix
from tornproof.harness.simulator.process.observer import Property
from tornproof.model.trace import Event, Kind, Known, NoBehaviourError, follow

# Takes the number of possibilities and returns one of them, from 0 on.
Choose = Callable[[int], int]
KILLS_IN_COMMITS = "kills in commits"
KILLS_IN_RECOVERY = "kills in recovery"
FAILING_CALLS = "failing calls"
OPENING = "open the writer"
REOPENING = "close the writer, open another"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not 1."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


class Execution:
    """Executes steps one after the other, and raises `Violation` for a broken property; `lines` describe the steps."""

    def __init__(self, target: Target, path: str) -> None:
        """Make an empty state for the execution and for its reference run."""
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self._target = target
        self._path = path
        self._session: Session | None = None
        self._storage = MemoryStorage().bounded()
        with orderly(target, Property.FAULT_FREE, "making an empty state"):
            target.create(self._storage, path)
        self._start = self._storage.copy()
        self._reference = Reference(target, path, self._start)
        self._low = self._high = self._seen = 0
        self._known = Known(is_open=False)
        self._is_faulty = self._is_recovered = False

    def end(self) -> None:
        """Close the writers."""
        self._reference.session.abandon()
        if self._session is not None:
            self._session.abandon()

    def commit(self, operation: Any, choose: Choose) -> None:
        """Commit, and check that a reader sees it."""
        session = self._opened()
        self._begin(operation)
        self.lines.append(f"commit {shown(operation)}")
        with orderly(self._target, self._commit_property, "a commit"):
            session.writer.commit(operation)
        self._acknowledge()
        self._observe()

    def commit_killed(self, operation: Any, choose: Choose) -> None:
        """Kill the writer after a chosen step of a commit, or inside a write."""
        session = self._opened()
        begin = len(session.steps)
        self._begin(operation)
        self.lines.append(f"commit {shown(operation)}, and a kill")
        with orderly(self._target, self._commit_property, "a commit"):
            session.writer.commit(operation)
        step_count, cut_bytes = _chosen_kill(session.steps, begin, choose)
        self.lines[-1] = (
            f"commit {shown(operation)}, killed {_kill_in_words(session.steps, begin, step_count, cut_bytes)}"
        )
        is_whole = step_count == len(session.steps)
        if is_whole:
            self._acknowledge()
        self._die(session, step_count, cut_bytes)
        self.counts[KILLS_IN_COMMITS] += 1
        if step_count == begin and not cut_bytes and not is_whole:
            self._forget()
        is_open = self._low < self._high
        index = self._observe()
        if is_open:
            self.reached[OLD_STATE if index == self._low else NEW_STATE] += 1

    def commit_failing(self, operation: Any, choose: Choose) -> None:
        """Let a chosen call of a commit fail; the process continues."""
        session = self._opened()
        self._begin(operation)
        ways = tuple(failures(0, self._reference.calls))
        self.lines.append(f"commit {shown(operation)}, of which no call can fail")
        if ways:
            failure = ways[choose(len(ways))]
            session.arm(failure, self._reference.calls)
            self.lines[-1] = f"commit {shown(operation)}, while a call fails: {failure_in_words(failure)}"
        with orderly(self._target, None, "a commit with a failing call"):
            rejected = self._try_to_commit(session, operation)
        has_failed = session.has_failed
        self.counts[FAILING_CALLS] += has_failed
        self.reached[FAILED_CALL] += has_failed
        self._is_faulty |= has_failed
        self.lines[-1] += ": acknowledged" if rejected is None else ": rejected"
        if rejected is None:
            if has_failed and failure.call.kind in BARRIERS:
                raise Violation(Property.SYNCED, "the commit was acknowledged")
            self._acknowledge()
        elif not has_failed:
            raise Violation(self._commit_property, f"a commit was rejected: {rejected}")
        self._observe()

    def reopen(self, choose: Choose) -> None:
        """Close the writer, if there is one, and open another."""
        self.lines.append(REOPENING if self._session else OPENING)
        self._close()
        self._open()

    def recovery_killed(self, choose: Choose) -> None:
        """Kill the next writer after a chosen step of its opening, or inside a write."""
        self.lines.append(REOPENING if self._session else OPENING)
        self._close()
        session = self._start_session()
        step_count, cut_bytes = _chosen_kill(session.steps, 0, choose)
        self.lines[-1] += f", killed {_kill_in_words(session.steps, 0, step_count, cut_bytes)}"
        self._die(session, step_count, cut_bytes)
        self.counts[KILLS_IN_RECOVERY] += 1
        self.reached[KILLED_RECOVERY] += bool(session.steps)
        self._observe()

    @property
    def _commit_property(self) -> str:
        return Property.COMMIT if self._is_faulty else Property.FAULT_FREE

    def _begin(self, operation: Any) -> None:
        self.counts["commits"] += 1
        self._reference.commit(operation)
        self._high += 1
        self._is_recovered = False
        self._follow(Kind.COMMIT)

    def _acknowledge(self) -> None:
        self._low = self._high
        self._follow(Kind.ACKNOWLEDGED)

    def _follow(self, kind: Kind, version: int = 0) -> None:
        """Follow in the model what was reported: a second judge, which shares nothing with this one."""
        try:
            self._known = follow(self._known, Event(kind, version))
        except NoBehaviourError as error:
            raise Violation(Property.BEHAVIOUR, str(error)) from error

    def _forget(self) -> None:
        """Forget the commit that left nothing: the reference run starts again without it."""
        self._high -= 1
        operations = self._reference.operations[:-1]
        self._reference.session.abandon()
        self._reference = Reference(self._target, self._path, self._start)
        for operation in operations:
            self._reference.commit(operation)

    def _try_to_commit(self, session: Session, operation: Any) -> Exception | None:
        """Commit, and return the exception that rejected it, if any; the writer is then closed."""
        try:
            session.writer.commit(operation)
        except self._target.rejections as error:
            self._session = None
            self._follow(Kind.STOPPED)
            with suppress(*self._target.rejections):
                session.__exit__(type(error), error, error.__traceback__)
            return error
        return None

    def _start_session(self) -> Session:
        with orderly(self._target, Property.RECOVERY, "opening the writer"):
            return Session(self._target, self._path, self._storage)

    def _opened(self) -> Session:
        """Return the open session, or a new one."""
        if self._session is not None:
            return self._session
        self.lines.append(OPENING)
        return self._open()

    def _open(self) -> Session:
        """Start a session; after its recovery every earlier commit is there or lost."""
        before = self._storage.digest()
        self._session = self._start_session()
        if self._storage.digest() != before:
            self.reached[WORKING_RECOVERY] += 1
            if self._is_recovered:
                raise Violation(Property.IDEMPOTENT, "opening the writer a second time changed the files again")
        self._is_recovered = True
        found = self._observe()
        self._follow(Kind.RECOVERED, found)
        if found < self._high:
            self._forget()
        self._low = self._high
        return self._session

    def _close(self) -> None:
        if self._session is None:
            return
        before, session, self._session = self._read(), self._session, None
        self._follow(Kind.STOPPED)
        with orderly(self._target, self._commit_property, "closing the writer"):
            session.__exit__(None, None, None)
        if self._read() != before:
            raise Violation(Property.FAULT_FREE, "closing the writer changed what a reader sees")

    def _die(self, session: Session, step_count: int, cut_bytes: int) -> None:
        self._storage = replay_prefix(session.start, session.steps, step_count, cut_bytes)
        self._session, self._is_faulty = None, True
        self._follow(Kind.STOPPED)
        session.abandon()

    def _read(self) -> Hashable:
        self.counts["reads"] += 1
        with orderly(self._target, Property.REJECTED, "reading"):
            return self._target.read(self._storage.fork_process(), self._path)

    def _observe(self) -> int:
        """Read, and return the number of commits in what a reader sees, the largest that fits."""
        seen = self._read()
        fitting = [number for number, right in enumerate(self._reference.observations) if right == seen]
        if not fitting:
            raise Violation(Property.WRONG_SNAPSHOT, f"a reader sees {shown(seen)}, which no commit left")
        if fitting[-1] < self._low:
            raise Violation(
                Property.LOST, f"a reader sees {shown(seen)}, though {shown(self._acknowledged)} was acknowledged"
            )
        if fitting[-1] < self._seen:
            raise Violation(
                Property.SEEN_LOST,
                f"a reader saw {shown(self._reference.observations[self._seen])} before, and {shown(seen)} now",
            )
        self._seen = fitting[-1]
        self._follow(Kind.BEGUN)
        self._follow(Kind.SEEN, self._seen)
        return self._seen

    @property
    def _acknowledged(self) -> Hashable:
        return self._reference.observations[self._low]


def _chosen_kill(steps: Sequence[Call], begin: int, choose: Choose) -> tuple[int, int]:
    """Return the whole steps before a kill, and the bytes of the next one that are done: 0 unless it is a write."""
    step_count = begin + choose(len(steps) - begin + 1)
    torn = steps[step_count] if step_count < len(steps) else None
    is_cuttable = torn is not None and torn.kind is CallKind.PWRITE and len(torn.content) > 1
    return step_count, choose(len(torn.content)) if torn is not None and is_cuttable else 0


def _kill_in_words(steps: Sequence[Call], begin: int, step_count: int, cut_bytes: int) -> str:
    done = f"after {step_count - begin} of {len(steps) - begin} steps"
    if step_count == len(steps):
        return done
    following = steps[step_count]
    inside = f"{cut_bytes} of {len(following.content)} bytes into" if cut_bytes else "before"
    return f"{done}, {inside}: {following.kind} {following.path}"


def failure_in_words(failure: Failure) -> str:
    """Return which call fails, and how."""
    part = f" after {failure.fault.written_bytes} bytes" if failure.fault.written_bytes else ""
    return f"{failure.call.kind} {failure.call.path}{part} ({failure.fault.reason})"
