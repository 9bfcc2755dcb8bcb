"""What the processes of a run tell each other through their pipes."""

from __future__ import annotations

import importlib
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from harness.explore.process_account import Account, Operation
from harness.explore.process_kill import Doom
from harness.faults.patch import replaced

READY, RECOVERED, FINISH, FINISHED = "ready", "recovered", "finish", "finished"
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

    place: str
    substitute: str
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a writer needs to go on: the last version that is settled, and what may have become the one after it."""

    account: Account
    pending: Operation | None
    attempt: int
    seed: int
    rewrites_early: bool
    doom: Doom | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A process ended by an exception of its own; `is_refusal` when it may say no, because a table is beyond it."""

    text: str
    is_refusal: bool


@contextmanager
def worker(
    connection: Connection, patches: Sequence[Patch], client: str, refusals: tuple[type[Exception], ...]
) -> Iterator[None]:
    """Run a worker's life: it reports that it is ready, and the exception that ended it; an end of the pipe ends it."""
    # Ctrl-C reaches all processes of a terminal; the parent alone ends the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ExitStack() as stack:
        for patch in (patch for patch in patches if client.startswith(patch.client)):
            make = _found(patch.substitute)
            stack.enter_context(replaced(patch.place, make(_found(patch.place))))
        try:
            connection.send(READY)
            yield
        except (EOFError, BrokenPipeError):
            return
        except Exception as error:
            text = traceback.format_exc()[-FAILURE_TEXT_MAX:]
            connection.send(Failure(text=text, is_refusal=isinstance(error, refusals)))


def is_over(connection: Connection, timeout_seconds: float = 0.0) -> bool:
    """Return whether the parent said to finish; raises EOFError when it is gone."""
    return connection.poll(timeout_seconds) and connection.recv() == FINISH


def _found(place: str) -> Callable[..., Any]:
    module_name, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module_name), name)
    return found
