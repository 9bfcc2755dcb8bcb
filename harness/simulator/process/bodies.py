"""What processes of an exploration do: a life of a writer, and readers in their styles, as programs of clients."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.process.simulated_process import READ, Body, Say
from tornproof.impl.storage.interface import Storage

OPENED, RECOVERED, COMMIT, ACKNOWLEDGED, FAILED = "opened", "recovered", "commit", "acknowledged", "failed"
SEEN, REJECTED = "seen", "refused"


def writer_session(target: Target, path: str, operations: Sequence[tuple[int, Any]], *, looks: bool) -> Body:
    """Return a life that recovers and commits operations by their numbers.

    With `looks` it says what a reader sees right after the recovery: by that the judge learns which commit survived.
    """

    def run(storage: Storage, say: Say) -> None:
        try:
            with target.open_writer(storage, path) as writer:
                say(OPENED, None)
                if looks:
                    say(RECOVERED, target.read(storage, path))
                for number, operation in operations:
                    say(COMMIT, number)
                    writer.commit(operation)
                    say(ACKNOWLEDGED, number)
        except target.rejections as error:
            say(FAILED, _words(error))

    return run


def reader_session(target: Target, path: str, read_count: int, style: str = "fresh") -> Body:
    """Return a life that looks at the committed state so often, in one of the target's styles."""

    def run(storage: Storage, say: Say) -> None:
        try:
            with target.open_reader(storage, path, style) as read:
                for _ in range(read_count):
                    say(READ, None)
                    try:
                        seen: Hashable = read()
                    except target.rejections as error:
                        say(REJECTED, _words(error))
                    else:
                        say(SEEN, seen)
        except target.rejections as error:
            say(REJECTED, _words(error))

    return run


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
