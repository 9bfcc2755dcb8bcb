"""What the processes of a run tell each other through their pipes."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.processes.counters import Counters, Operation
from tornproof.harness.explorers.processes.plan import Plan

RECOVERED, PAUSED, DONE = "recovered", "paused", "done"
"""What a writer says, and where it has come to a stop that it was told: after the last two it waits for `GO_ON`."""
GO_ON = "go on"
READ, HAS_READ = "read", "has read"
"""A reader that is told to read begins anew, and says when it has read."""
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
    """A planted fault: at `place` (package.module:name) stands what `substitute`, spelled the same way, returns.

    `substitute` is called with what stood there before, in the processes whose client's name begins with `client`.
    """

    position: str
    substitute: str
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a writer needs to go on: the last version that is settled, and what may have become the one after it."""

    counters: Counters
    pending: Operation | None
    attempt: int
    seed: int
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A process ended by an exception of its own; `is_rejection` when it may say no, because a table is beyond it."""

    text: str
    is_rejection: bool


@contextmanager
def worker(
    connection: Connection, patches: Sequence[Patch], client: str, rejections: tuple[type[Exception], ...]
) -> Iterator[None]:
    """Run a worker's life: it reports the exception that ended it; an end of the pipe ends it."""
    with ExitStack() as stack:
        for patch in (patch for patch in patches if client.startswith(patch.client)):
            make = _found(patch.substitute)
            stack.enter_context(replaced(patch.position, make(_found(patch.position))))
        try:
            yield
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:
            text = traceback.format_exc()[-FAILURE_TEXT_MAX:]
            with suppress(BrokenPipeError):
                connection.send(Failure(text=text, is_rejection=isinstance(error, rejections)))


def _found(position: str) -> Callable[..., Any]:
    module_name, _, name = position.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module_name), name)
    return found
