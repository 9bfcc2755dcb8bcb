"""The messages that the processes of a run send each other through pipes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tornproof.harness.common.patch import original_of, wrapped
from tornproof.harness.common.whose_error import is_of_machine
from tornproof.harness.explorers.processes.expected import ExpectedVersion, Operation
from tornproof.harness.explorers.processes.plan import Plan

RECOVERED, PAUSED, DONE = "recovered", "paused", "done"
"""What a writer sends, besides `Stopped`; after that and the last two it waits for `GO_ON`."""
GO_ON = "go on"
READ, HAS_READ = "read", "has read"
"""A reader that receives `READ` starts a new read, and sends `HAS_READ` after it."""
FINISH = "finish"
FAILURE_TEXT_MAX = 8_000


class Connection(Protocol):
    """One end of a pipe."""

    def send(self, message: Any) -> None:
        """Send a message."""

    def recv(self) -> Any:
        """Wait for a message; raises EOFError when the other end is gone."""

    def poll(self, timeout: float = 0.0) -> bool:
        """Return whether a message, or the end, is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A planted fault: `location` (package.module:name) is replaced by the result of `substitute`, named the same way.

    `substitute` is called with the original, in the processes whose client's name begins with `client`.
    """

    location: str
    substitute: str
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a writer starts with: the last version that is known, and the operation that may have made the next one."""

    expected: ExpectedVersion
    pending: Operation | None
    attempt: int
    seed: int
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A process ended by an exception of its own; no finding if it may reject the table, or others are to blame."""

    text: str
    is_finding: bool


@contextmanager
def worker(
    connection: Connection, patches: Sequence[Patch], client: str, rejections: tuple[type[Exception], ...]
) -> Iterator[None]:
    """Apply the patches of a process, and send the exception that ends it; the end of the pipe ends it without one."""
    with ExitStack() as stack:
        for patch in (patch for patch in patches if client.startswith(patch.client)):
            stack.enter_context(wrapped(patch.location, original_of(patch.substitute)))
        try:
            yield
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:
            text = traceback.format_exc()[-FAILURE_TEXT_MAX:]
            is_finding = not (isinstance(error, rejections) or is_of_machine(error))
            with suppress(BrokenPipeError):
                connection.send(Failure(text=text, is_finding=is_finding))
