"""The examination of a disk after a crash: a reader, a recovery, both again, commits, and a reader."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tornproof.harness.common import behaviour
from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.persistence.legal_names import Tree
from tornproof.harness.simulator.process.observer import (
    ALL_THERE,
    Absent,
    Operations,
    Oracle,
    Property,
    RejectedLaterError,
    Rejection,
    is_rejected_later,
    last_version_in,
    without,
)
from tornproof.harness.simulator.process.simulated_process import Body, Say
from tornproof.impl.storage.interface import Storage
from tornproof.model.trace import Kind

BEGUN, SAW, REJECTED = "begun", "saw", "refused"
SESSION = 0
"""The only process of a power cut's world: its index there and its number in the kernel."""


class Stage(enum.StrEnum):
    """The stages of an examination in order; each value begins a sentence that ends "... fails"."""

    READ = "a reader after the crash"
    RECOVER = "the recovery"
    READ_AGAIN = "a reader after the recovery"
    RECOVER_AGAIN = "a second recovery"
    READ_ONCE_MORE = "a reader after the second recovery"
    OPEN = "another opening of the writer"
    COMMIT = "a commit after the recovery"
    READ_LAST = "a reader of that commit"


def recovery_body(target: Target, path: str, *, reads_first: bool = True) -> Body:
    """Return a process body that reads, recovers, reads again and recovers again, up to the first error.

    It reads once more where a second recovery may change files.
    """

    def run(session: _Session) -> None:
        if reads_first:
            session.read(target, path, Stage.READ)
        session.open(target, path, Stage.RECOVER)
        session.read(target, path, Stage.READ_AGAIN)
        session.open(target, path, Stage.RECOVER_AGAIN)
        if target.only_reads_count:
            session.read(target, path, Stage.READ_ONCE_MORE)
        else:
            session.begin(Stage.COMMIT)

    return _body(target, run)


def commit_body(target: Target, path: str, operations: Sequence[Any]) -> Body:
    """Return a process body that commits on a recovered disk, and reads what that gave, also where it is rejected."""

    def run(session: _Session) -> None:
        try:
            session.open(target, path, Stage.OPEN, operations)
        except target.rejections as error:
            session.reject(error)
            if session.stage is not Stage.COMMIT:
                return
        session.read(target, path, Stage.READ_LAST)

    return _body(target, run)


@dataclass(slots=True)
class _Session:
    storage: Storage
    say: Say
    stage: Stage = Stage.READ

    def begin(self, stage: Stage) -> None:
        self.stage = stage
        self.say(BEGUN, stage)

    def read(self, target: Target, path: str, stage: Stage) -> None:
        self.begin(stage)
        self.say(SAW, (stage, target.read(self.storage, path)))

    def open(self, target: Target, path: str, stage: Stage, operations: Sequence[Any] = ()) -> None:
        self.begin(stage)
        with target.open_writer(self.storage, path) as writer:
            for operation in operations:
                self.begin(Stage.COMMIT)
                writer.commit(operation)

    def reject(self, error: Exception) -> None:
        self.say(REJECTED, (self.stage, f"{type(error).__name__}: {error}"))


def _body(target: Target, run: Callable[[_Session], None]) -> Body:
    def body(storage: Storage, say: Say) -> None:
        session = _Session(storage, say)
        try:
            run(session)
        except target.rejections as error:
            session.reject(error)

    return body


class Write(NamedTuple):
    """Bytes that were written to the file of a number; with `content` None it has so many bytes since."""

    file: int
    offset_bytes: int
    content: bytes | None

    def on(self, before: bytes) -> bytes:
        """Return the file's content after it."""
        head = before[: self.offset_bytes].ljust(self.offset_bytes, b"\0")
        return head if self.content is None else head + self.content + before[self.offset_bytes + len(self.content) :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The result of an examination.

    `rejected` is the stage that failed and its error, `broke` an outcome that the target does not declare, of a process
    that had to be ended if it `is_endless`. With `reader_repairs` the reader before the recovery changed something.
    `recovery` are the calls that repeat the work of the recovery, none where it changed nothing. The same is done by
    its `writes`, after which the files are those of a tree, each with a number.
    """

    seen: dict[Stage, Hashable]
    rejected: tuple[Stage, str] | None
    broke: str
    is_endless: bool
    is_idempotent: bool
    reader_repairs: bool
    recovery: tuple[Call, ...]
    writes: tuple[Write, ...]
    files: tuple[Tree, tuple[int, ...]]

    @property
    def changed_again(self) -> str:
        """What a second recovery changed though it must not, as a sentence, "" if nothing."""
        if not self.is_idempotent:
            return "a second recovery changed the files again"
        before = self.seen.get(Stage.READ_AGAIN)
        after = self.seen.get(Stage.READ_ONCE_MORE, before)
        return "" if after == before else f"another recovery changed what a reader sees: {before}, then {after}"

    def answers(self) -> tuple[object, ...]:
        """Return all facts as one comparable value."""
        return (
            tuple(self.seen.items()),
            self.rejected,
            self.broke,
            self.is_endless,
            self.is_idempotent,
            self.reader_repairs,
            self.recovery,
            self.writes,
            self.files,
        )


class Bounds(NamedTuple):
    """What may be on a disk: a prefix of these operations, at least the first `low`, without one of the absences."""

    operations: Operations
    low: int
    absences: tuple[Absent, ...] = ALL_THERE

    @property
    def acknowledged(self) -> Operations:
        """The operations that must be there."""
        return without(self.operations[: self.low], frozenset().union(*self.absences))


class Ruling(NamedTuple):
    """The operations that were found on a disk, and the violated property with its sentence, if any."""

    found: Operations
    violated: str = ""
    sentence: str = ""


def judge(facts: Facts, bounds: Bounds, oracle: Oracle) -> Ruling:
    """Compare the facts up to the second recovery with the commits that may be on the disk."""
    if facts.broke:
        return _broken((), facts)
    if facts.rejected is not None and facts.rejected[0] is Stage.READ:
        return Ruling((), Property.REJECTED, f"{Stage.READ} fails: {facts.rejected[1]}")
    found, ruling = _version(facts.seen[Stage.READ], bounds, oracle, "a reader")
    if ruling.violated:
        return ruling
    operations = ruling.found
    if facts.rejected is not None:
        return _rejected(operations, *facts.rejected)
    version = last_version_in(facts.seen[Stage.READ_AGAIN], bounds.operations, bounds.absences, oracle)
    if version is None or version[0] < found:
        sentence = f"a reader sees commit {found}, and after a recovery {facts.seen[Stage.READ_AGAIN]}"
        return Ruling(operations, Property.WENT_BACK, sentence)
    if facts.changed_again:
        return Ruling(operations, Property.IDEMPOTENT, facts.changed_again)
    again, absent = version
    impossible = behaviour.impossible_after(
        Kind.POWER_CUT, acknowledged=bounds.low, begun=len(bounds.operations), reads=(found,), recovered=again
    )
    operations = without(bounds.operations[:again], absent)
    return Ruling(operations, Property.BEHAVIOUR if impossible else "", impossible)


def judge_unread(facts: Facts, bounds: Bounds, oracle: Oracle) -> Ruling:
    """Compare the facts of a recovery before which nobody read with the commits that may be on the disk."""
    if facts.broke:
        return _broken((), facts)
    if facts.rejected is not None:
        return _rejected((), *facts.rejected)
    reader = "a reader after a recovery that came before every reader"
    _, ruling = _version(facts.seen[Stage.READ_AGAIN], bounds, oracle, reader)
    if ruling.violated or not facts.changed_again:
        return ruling
    return Ruling(ruling.found, Property.IDEMPOTENT, facts.changed_again)


def _version(seen: Hashable, bounds: Bounds, oracle: Oracle, reader: str) -> tuple[int, Ruling]:
    """Return after how many commits a reader sees that, and whether it may; `reader` begins a sentence."""
    version = last_version_in(seen, bounds.operations, bounds.absences, oracle)
    if version is None:
        return 0, Ruling((), Property.WRONG_SNAPSHOT, f"{reader} sees {seen}, which no commit left")
    found, absent = version
    operations = without(bounds.operations[:found], absent)
    if found < bounds.low:
        sentence = f"{reader} sees commit {found}, though {bounds.low} was acknowledged"
        return found, Ruling(operations, Property.LOST, sentence)
    return found, Ruling(operations)


def judge_commit(facts: Facts, found: Operations, oracle: Oracle, later: Operations, rejection: Rejection) -> Ruling:
    """Compare the facts of the commits of `later` with the state that they must leave after those that were found."""
    if facts.broke:
        return _broken(found, facts)
    after = (*found, *later)
    if facts.rejected is not None:
        stage, error = facts.rejected
        if stage is not Stage.COMMIT or not is_rejected_later(error, after, rejection):
            return _rejected(found, stage, error)
        after = found
    last = facts.seen[Stage.READ_LAST]
    try:
        wanted = oracle(after)
    except RejectedLaterError as rejected:
        return Ruling(found, Property.COMMIT, f"{Stage.COMMIT} was acknowledged, though {rejected}")
    if last != wanted:
        return Ruling(found, Property.COMMIT, f"after a recovery from commit {len(found)}, another one gave {last}")
    return Ruling(found)


def _broken(found: Operations, facts: Facts) -> Ruling:
    if facts.is_endless:
        return Ruling(found, Property.ENDS, f"a process does not end: {facts.broke}")
    return Ruling(found, Property.DISORDERLY, f"a process ended with {facts.broke}")


def _rejected(found: Operations, stage: Stage, error: str) -> Ruling:
    violated = {
        Stage.RECOVER: Property.RECOVERY,
        Stage.RECOVER_AGAIN: Property.RECOVERY,
        Stage.OPEN: Property.COMMIT,
        Stage.COMMIT: Property.COMMIT,
    }
    return Ruling(found, violated.get(stage, Property.UNREADABLE), f"{stage} fails: {error}")
