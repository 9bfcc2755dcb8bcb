"""SQL over HTTP, as QuestDB answers it at `/exec`; a client has one connection and asks one thing at a time."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from tornproof.impl.errors import UsageError

ANSWER_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.01
PORT = 9000
"""Where servers answer HTTP unless they are told otherwise."""
TOKEN, USER, PASSWORD = "QUESTDB_TOKEN", "QUESTDB_USER", "QUESTDB_PASSWORD"
"""Variables of the environment; a user and a password may stand in the URL, too."""
REJECTED_LOGIN = (401, 403)
TEXT_SHOWN_MAX = 200


class ServerError(Exception):
    """A server does not do what it is asked for; `reason` is what it says itself, if it says anything."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class RejectedError(ServerError):
    """It rejects a statement, of which nothing is executed."""


class LoginError(ServerError):
    """It wants to know who asks."""


class SuspendedError(ServerError):
    """It has suspended a table, whose write-ahead log it does not apply any more."""


class NoAnswerError(ServerError):
    """There is no answer, so nobody knows whether the statement was executed."""


class ForeignAnswerError(ServerError):
    """What answers is no QuestDB server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server listens, and how one logs in; as a text it has no password."""

    host: str
    port: int
    is_encrypted: bool = False
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' * self.is_encrypted}://{host}:{self.port}{self.path}"


def address_of(url: str, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the address in a URL, `http://[USER:PASSWORD@]HOST[:PORT]`; raises UsageError."""
    # What is wrong with it is not said in more detail, because it may hold a password.
    wrong = UsageError("--server: the URL of a server has the form http://HOST:PORT, or https://")
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise wrong
    return Address(
        host=parts.hostname,
        port=port,
        is_encrypted=parts.scheme == "https",
        path=parts.path.rstrip("/"),
        headers=_login(parts, environment),
    )


def _login(parts: SplitResult, environment: Mapping[str, str]) -> dict[str, str]:
    user, password = parts.username, parts.password
    if user is not None:
        user, password = unquote(user), unquote(password or "")
    elif token := environment.get(TOKEN):
        return {"Authorization": f"Bearer {token}"}
    else:
        user, password = environment.get(USER), environment.get(PASSWORD, "")
    if not user:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


class Client:
    """A client with a connection of its own."""

    def __init__(self, address: Address, *, seconds_max: float = ANSWER_SECONDS_MAX) -> None:
        """Connect at the first statement; one that takes longer than `seconds_max` has no answer."""
        self.address = address
        kind = http.client.HTTPSConnection if address.is_encrypted else http.client.HTTPConnection
        self._connection = kind(address.host, address.port, timeout=seconds_max)

    def execute(self, sql: str, *, on_sent: Callable[[], None] = lambda: None) -> list[list[Any]]:
        """Return the rows that a statement answers, none for one that changes something; raises ServerError.

        `on_sent` is called when the statement was sent and its answer is not there yet.
        """
        rows: list[list[Any]] = self._answer(sql, on_sent).get("dataset", [])
        return rows

    def documents(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query by the names of their columns, which differ between releases."""
        answer = self._answer(sql, lambda: None)
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["dataset"]]

    def wait_until_applied(self, table: str) -> None:
        """Wait until what the write-ahead log of a table holds now is applied; raises SuspendedError, NoAnswerError."""
        target: int | None = None

        def is_applied() -> bool:
            nonlocal target
            for state in self.documents(f"SELECT * FROM wal_tables() WHERE name = '{table}'"):
                if state["suspended"]:
                    raise SuspendedError(f"{table} is suspended: {state.get('errorMessage') or 'it does not say why'}")
                target = state["sequencerTxn"] if target is None else target
                return bool(state["writerTxn"] >= target)
            return True

        wait(is_applied, ANSWER_SECONDS_MAX, lambda: f"the log of {table} is not applied")

    def interrupt(self) -> None:
        """Let the statement that another thread waits for have no answer."""
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _answer(self, sql: str, on_sent: Callable[[], None]) -> dict[str, Any]:
        path = f"{self.address.path}/exec?{urlencode({'query': sql})}"
        try:
            self._connection.request("GET", path, headers=dict(self.address.headers))
            on_sent()
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise NoAnswerError(f"no answer to {sql!r}: {error!r}") from error
        if response.status in REJECTED_LOGIN:
            raise LoginError(f"HTTP status {response.status}, {response.reason}")
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not answer.keys() & {"error", "dataset", "ddl", "dml"}:
            said = content[:TEXT_SHOWN_MAX].decode(errors="replace")
            raise ForeignAnswerError(f"HTTP status {response.status}, and no answer in JSON: {said!r}")
        if "error" in answer:
            raise RejectedError(f"{sql!r} is rejected: {answer['error']}", str(answer["error"]))
        return answer


def wait(is_done: Callable[[], bool], seconds_max: float, why: Callable[[], str]) -> None:
    """Wait for another process; the limit only ends what hangs."""
    end = time.monotonic() + seconds_max
    while not is_done():
        if time.monotonic() > end:
            raise NoAnswerError(f"{why()} after {seconds_max:.0f} s")
        time.sleep(PAUSE_SECONDS)
