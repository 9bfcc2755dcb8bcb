"""What the processes of an exploration run: a session of a writer, and readers in their styles."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.process.simulated_process import READ, Body, Mark, Say
from tornproof.impl.storage.interface import Storage
from tornproof.model.trace import Event, Kind

OPENED, RECOVERED, COMMIT, ACKNOWLEDGED, FAILED = "opened", "recovered", "commit", "acknowledged", "failed"
CLOSED = "closed"
SEEN, REJECTED = "seen", "refused"
_KINDS = {COMMIT: Kind.COMMIT, ACKNOWLEDGED: Kind.ACKNOWLEDGED, FAILED: Kind.REJECTED, CLOSED: Kind.STOPPED}
TO_BE_TOLD = Call(kind=CallKind.SLEEP, path="until it is told what to do")
"""The call of an idle session: its answer is the number of an operation to commit, or None to close."""


def writer_session(
    target: Target, path: str, operations: Iterable[tuple[int, Any]], *, reads_first: bool, goes_on: bool = False
) -> Body:
    """Return a body that recovers, and commits the numbered operations.

    With `reads_first` it reports what a reader sees after the recovery, from which the judge learns what survived. With
    `goes_on` a writer that rejected a commit is given the next one, and no other if it rejects that, too.
    """

    def run(storage: Storage, say: Say) -> None:
        try:
            with target.open_writer(storage, path) as writer:
                say(OPENED, None)
                if reads_first:
                    say(RECOVERED, target.read(storage, path))
                may_reject = goes_on
                for number, operation in operations:
                    say(COMMIT, number)
                    try:
                        writer.commit(operation)
                    except target.rejections as error:
                        if not may_reject:
                            raise
                        may_reject = False
                        say(FAILED, _text(error))
                    else:
                        may_reject = goes_on
                        say(ACKNOWLEDGED, number)
        except target.rejections as error:
            say(FAILED, _text(error))

    return run


def obedient_session(target: Target, path: str, operations: Sequence[Any]) -> Body:
    """Return a body that recovers, and commits what it is told to; of the operations there may be more later."""

    def run(storage: Storage, say: Say) -> None:
        assert isinstance(storage, InterceptedStorage)
        numbers: Iterator[int] = iter(lambda: storage.intercept(TO_BE_TOLD, _nothing), None)
        commits = ((number, operations[number]) for number in numbers)
        writer_session(target, path, commits, reads_first=True, goes_on=True)(storage, say)
        say(CLOSED, None)

    return run


def reader_session(target: Target, path: str, read_count: int, style: str = "fresh") -> Body:
    """Return a body that reads the committed state `read_count` times, in one of the target's styles."""

    def run(storage: Storage, say: Say) -> None:
        try:
            with target.open_reader(storage, path, style) as read:
                for _ in range(read_count):
                    say(READ, None)
                    try:
                        seen: Hashable = read()
                    except target.rejections as error:
                        say(REJECTED, _text(error))
                    else:
                        say(SEEN, seen)
        except target.rejections as error:
            say(REJECTED, _text(error))

    return run


def event_of(mark: Mark, process: str, recovered: int, seen: Iterator[int]) -> Event | None:
    """Return what a mark is to the model, None if nothing; `seen` are the versions of what was seen, in order.

    What no version holds breaks a property of its own, and is nothing to the model.
    """
    if mark.kind == RECOVERED:
        return Event(Kind.RECOVERED, recovered)
    if mark.kind == SEEN:
        version = next(seen, None)
        return None if version is None else Event(Kind.SEEN, version, process)
    return Event(_KINDS[mark.kind]) if mark.kind in _KINDS else None


def _nothing() -> Any:
    """Do what an idle session does."""


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
