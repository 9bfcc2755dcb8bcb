"""The server under test: one that runs somewhere, or one that was started here and may be killed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tornproof.harness.systems.server.client import (
    PASSWORD,
    TOKEN,
    USER,
    Address,
    Client,
    ForeignAnswerError,
    LoginError,
    NoAnswerError,
    RejectedError,
)
from tornproof.impl.errors import UsageError

_VERSION = re.compile(r"QuestDB [^,]+")


class Target(Protocol):
    """A server under test."""

    @property
    def address(self) -> Address:
        """Where it listens now."""

    @property
    def is_ours(self) -> bool:
        """Whether it was started here; only then it is killed."""

    @property
    def data(self) -> Path | None:
        """The folder of its tables, None if it cannot be looked at."""

    def has_died(self) -> bool:
        """Whether its process has ended, or ends now; of one that was not started here nobody knows."""

    def kill(self) -> None:
        """Kill it by SIGKILL."""

    def start(self) -> None:
        """Start it again, and wait until it answers."""

    def last_words(self) -> str:
        """Return the last errors in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that somebody else started."""

    address: Address
    is_ours: bool = False
    data: None = None

    def has_died(self) -> bool:
        """Nobody knows."""
        return False

    def kill(self) -> None:
        """Never."""
        raise AssertionError("a server that was not started here is never killed")

    def start(self) -> None:
        """Never."""
        raise AssertionError("a server that was not started here is never started")

    def last_words(self) -> str:
        """Nothing, because its log is not here."""
        return ""


def version_of(address: Address) -> str:
    """Return which QuestDB answers; raises UsageError if there is none, or it wants to know who asks."""
    client = Client(address)
    try:
        ((build,),) = client.execute("SELECT build()")
        found = _VERSION.search(build)
    except NoAnswerError as error:
        reason = error.__cause__
        raise UsageError(f"no server answers at {address}: {getattr(reason, 'strerror', None) or reason}") from error
    except LoginError as error:
        raise UsageError(
            f"the server at {address} wants a login ({error}): http://USER:PASSWORD@HOST:PORT, or set {USER} and "
            f"{PASSWORD}, or {TOKEN}"
        ) from error
    except (ForeignAnswerError, RejectedError, ValueError, TypeError) as error:
        raise UsageError(f"what answers at {address} is no QuestDB: {error}") from error
    finally:
        client.close()
    if found is None:
        raise UsageError(f"what answers at {address} is no QuestDB that is known: {build!r}")
    return found[0]
