"""A server that answers the SQL of `check --server` from memory, over HTTP; it is right, or has one planted defect.

Half of what a write-ahead log holds is applied whenever somebody asks how far it is.
"""

import ast
import enum
import json
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tornproof.harness.systems.server.client import Address, ServerError

HOST = "127.0.0.1"
BUILD = "Build Information: QuestDB 9.3.4, JDK 17.0.15, Commit Hash 9ea3321"
NAMES = ("ts", "writer", "version", "place", "s", "v", "d")
PAUSE_SECONDS = 0.001
UNANSWERED_MAX = 3
"""A table has no more writers in the tests that kill this server, so an earlier commit is acknowledged."""
DIES_AT = 28
"""The insert at which a server dies or does not answer any more.

There is none while its tables are looked at, and this one is behind those that clients can have begun at a kill.
"""

Rows = list[list[Any]]


class Defect(enum.StrEnum):
    """What the server does wrong."""

    NONE = "none"
    LOSES_COMMIT = "loses an acknowledged commit when it is killed"
    KEEPS_HALF = "keeps half of the last commit when it is killed"
    SHOWS_HALF = "shows half of a commit"
    GOES_BACK = "shows an older version after a newer one"
    DOUBLES_ROW = "stores a row twice"
    KEEPS_REPLACED = "keeps a row that it replaces"
    DISORDER = "answers rows out of order"
    REJECTS_READ = "rejects a read"
    REJECTS_INSERT = "rejects an insert"
    REJECTS_CONVERSION = "rejects a conversion"
    SUSPENDS = "suspends a table"
    STOPS_ANSWERING = "stops answering"
    DIES = "its process ends"
    DOES_NOT_START = "does not start again"
    UNREADABLE_AFTER_KILL = "cannot read a table any more when it was killed"


@dataclass
class Table:
    """Rows that can be seen, all commits, those that are not applied yet, and the last one that is."""

    has_log: bool
    dedups: bool
    rows: Rows = field(default_factory=list)
    commits: list[Rows] = field(default_factory=list)
    pending: list[Rows] = field(default_factory=list)
    last: Rows = field(default_factory=list)
    before: Rows = field(default_factory=list)
    applied: int = 0
    is_unreadable: bool = False


class RejectedError(Exception):
    """The statement is rejected."""


class FakeServer:
    """A server that can be killed and started again; leaving the `with` block ends it."""

    def __init__(self, defect: Defect = Defect.NONE, *, is_ours: bool = True, login: str | None = None) -> None:
        self.defect = defect
        self.is_ours = is_ours
        self.data = None
        self.tables: dict[str, Table] = {}
        self.statements: list[str] = []
        self.dropped: list[str] = []
        self._login = login
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._is_dead = True
        self._has_died = False

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address(host=HOST, port=self._http.server_port)

    def has_died(self) -> bool:
        """Whether it died of its defect."""
        return self._has_died

    def last_words(self) -> str:
        """Return what a log would end with."""
        return "#  SIGSEGV (0xb)"

    def start(self) -> None:
        """Listen, on a new port."""
        if self._counts and self.defect is Defect.DOES_NOT_START:
            raise ServerError("the server did not start")
        self._is_dead = self._has_died = False
        self._connections: list[socket] = []
        self._http = ThreadingHTTPServer((HOST, 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(PAUSE_SECONDS,), daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Answer nothing any more; what is kept is that of a server whose process was killed, or less."""
        with self._lock:
            if self._is_dead:
                return
            self._is_dead = True
            for table in self.tables.values():
                self._damage(table)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)

    def __enter__(self) -> "FakeServer":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def answer(self, sql: str) -> dict[str, Any]:
        """Return what the server answers to a statement."""
        self.statements.append(sql)
        if sql == "SELECT build()":
            return {"columns": [{"name": "build"}], "dataset": [[BUILD]]}
        if found := re.fullmatch(r"CREATE TABLE (\w+) .* PARTITION BY HOUR (WAL|BYPASS WAL)(.*)", sql):
            if found[1] in self.tables:
                raise RejectedError("table already exists")
            self.tables[found[1]] = Table(has_log=found[2] == "WAL", dedups="DEDUP" in found[3])
            return {"ddl": "OK"}
        if found := re.fullmatch(r"SELECT \* FROM wal_tables\(\) WHERE name = '(\w+)'", sql):
            return self._log(found[1])
        if found := re.search(r"(?:INTO|FROM|TABLE) (\w+)", sql):
            if found[1] not in self.tables:
                raise RejectedError(f"table does not exist [table={found[1]}]")
            table = self.tables[found[1]]
            match sql.split()[0]:
                case "INSERT":
                    return self._insert(table, sql)
                case "SELECT":
                    return self._select(table, is_backward=sql.endswith("DESC"))
                case "ALTER":
                    if self._is_due(Defect.REJECTS_CONVERSION, least=1):
                        raise RejectedError("cannot convert")
                    return {"ddl": "OK"}
                case "DROP":
                    del self.tables[found[1]]
                    self.dropped.append(found[1])
                    return {"ddl": "OK"}
        raise RejectedError("unexpected statement")

    def _insert(self, table: Table, sql: str) -> dict[str, Any]:
        if self._is_due(Defect.REJECTS_INSERT):
            raise RejectedError("bulk update failed and will be rolled back")
        values = ast.literal_eval(f"[{sql.partition(' VALUES ')[2].replace('NULL', 'None')}]")
        rows = [list(row) for row in values]
        if self._is_due(Defect.DOUBLES_ROW):
            rows.append(rows[0])
        table.commits.append(rows)
        table.pending.append(rows)
        if not table.has_log:
            self._apply(table)
        return {"dml": "OK"}

    def _apply(self, table: Table) -> None:
        new = table.pending.pop(0)
        table.before, table.last = list(table.rows), new
        if table.dedups:
            keys = {(row[0], row[1]) for row in new}
            kept = [row for row in table.rows if (row[0], row[1]) not in keys]
            is_wrong = len(kept) < len(table.rows) and self._is_due(Defect.KEEPS_REPLACED, least=0, every=1)
            table.rows = list(table.rows) if is_wrong else kept
        table.rows = sorted([*table.rows, *new], key=lambda row: row[0])
        table.applied += 1

    def _log(self, name: str) -> dict[str, Any]:
        table = self.tables[name]
        columns = [{"name": name} for name in ("name", "suspended", "writerTxn", "sequencerTxn", "errorMessage")]
        if not table.has_log:
            return {"columns": columns, "dataset": []}
        for _ in range(-(-len(table.pending) // 2)):
            self._apply(table)
        is_suspended = self._is_due(Defect.SUSPENDS, least=20)
        state = [name, is_suspended, table.applied, table.applied + len(table.pending), "out of space"]
        return {"columns": columns, "dataset": [state]}

    def _select(self, table: Table, *, is_backward: bool) -> dict[str, Any]:
        rows = table.rows
        if table.is_unreadable or self._is_due(Defect.REJECTS_READ):
            raise RejectedError("could not read parquet file")
        if len(table.last) > 1 and self._is_due(Defect.SHOWS_HALF):
            rows = [row for row in rows if row not in table.last[1:]]
        if table.before and self._is_due(Defect.GOES_BACK):
            rows = table.before
        rows = rows[::-1] if is_backward else rows
        if self._is_due(Defect.DISORDER):
            rows = [*rows[2:], *rows[:2]]
        return {"columns": [{"name": name} for name in NAMES], "dataset": rows}

    def _damage(self, table: Table) -> None:
        if self.defect is Defect.LOSES_COMMIT:
            self._forget(table, [row for rows in table.commits[-UNANSWERED_MAX - 1 :] for row in rows])
        elif self.defect is Defect.KEEPS_HALF:
            large = next((rows for rows in reversed(table.commits) if len(rows) > 1), [])
            self._forget(table, large[1:])
        elif self.defect is Defect.UNREADABLE_AFTER_KILL:
            table.is_unreadable = True

    def _forget(self, table: Table, lost: Rows) -> None:
        table.rows = [row for row in table.rows if row not in lost]
        table.pending = [[row for row in rows if row not in lost] for rows in table.pending]

    def _is_due(self, defect: Defect, least: int = 10, every: int = 3) -> bool:
        """Whether the defect is planted and shows itself now: not at the very beginning, and not always."""
        if self.defect is not defect:
            return False
        self._counts[defect] = count = self._counts.get(defect, 0) + 1
        return count > least and count % every == 0

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body go out together: a second packet would wait for an acknowledgement.
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                server._connections.append(self.connection)

            def do_GET(self) -> None:
                if server._login is not None and self.headers["Authorization"] != server._login:
                    self._send(401, {"error": "Unauthorized"})
                    return
                status, answer = server._serve(parse_qs(urlsplit(self.path).query)["query"][0])
                if answer is None:
                    self.close_connection = True
                    return
                self._send(status, answer)

            def _send(self, status: int, answer: dict[str, Any]) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

            def handle(self) -> None:
                with suppress(OSError):
                    super().handle()

        return Handler

    def _serve(self, sql: str) -> tuple[int, dict[str, Any] | None]:
        """Return status and answer, none if it is dead before it can answer."""
        time.sleep(PAUSE_SECONDS)
        with self._lock:
            if self._is_dead:
                return 0, None
            is_insert = sql.startswith("INSERT")
            self._counts["inserts"] = count = self._counts.get("inserts", 0) + is_insert
            if is_insert and count == DIES_AT and self.defect in (Defect.DIES, Defect.STOPS_ANSWERING):
                self._has_died = self.defect is Defect.DIES
                self._is_dead = True
                threading.Thread(target=self._close, daemon=True).start()
                return 0, None
            try:
                answer = self.answer(sql)
            except RejectedError as error:
                return 400, {"query": sql, "error": str(error)}
        time.sleep(PAUSE_SECONDS)
        return (200, answer) if not self._is_dead else (0, None)

    def _close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(SHUT_RDWR)
