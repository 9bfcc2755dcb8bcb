"""A reader of a run: it reads snapshots in its own style until it is killed, and records what it read."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tornproof.harness.common.history import EventKind, HistoryWriter
from tornproof.harness.common.whose_error import is_of_machine
from tornproof.harness.explorers.processes.expected import digest_of_rows, digest_of_table
from tornproof.harness.explorers.processes.messages import FINISH, HAS_READ, Connection, Patch, worker
from tornproof.harness.explorers.processes.start import Start, rows_by_partition
from tornproof.harness.systems.table_readers import followed
from tornproof.impl.errors import CorruptError, FileMissingError, TornproofError
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.transaction import TXN_FILE, Transaction

PAUSE_SECONDS, POLL_SECONDS = 0.02, 0.05
PAUSE_RATIO = 4.0
"""How many times as long as a read the pause after it is, so that four readers do not keep a machine busy."""
LATER_COMMITS = 4
"""A pinned reader waits for so many commits before it reads its snapshot again, unless a message arrives."""
RELOADS_MAX = 50
DETAILS_MAX = 2_000


class Style(enum.StrEnum):
    """How a reader opens and pins what it reads."""

    PINNED = "pins a version and reads it twice"
    FOREIGN = "opens the table anew for each read, without a pin"
    LONG_LIVED = "keeps the table open and follows its transactions, without a pin"


def run_reader(
    connection: Connection,
    start: Start,
    patches: Sequence[Patch],
    process: str,
    history: Path,
    client: str,
    style: Style,
) -> None:
    """Read until killed or told to finish; `history` is the file to write events to."""
    with worker(connection, patches, client, ()), HistoryWriter(history, process) as events:
        reading = _Reading(connection, start, client, events)
        read = {
            Style.PINNED: reading.read_pinned,
            Style.FOREIGN: reading.read_anew,
            Style.LONG_LIVED: reading.follow,
        }[style]
        pause_seconds = 0.0
        while not connection.poll(pause_seconds) or reading.takes(connection.recv()):
            begin, before = time.process_time(), reading.version
            read()
            reading.answer()
            least_seconds = max(PAUSE_SECONDS, PAUSE_RATIO * (time.process_time() - begin))
            # While a writer waits for the disk or the processor, readers read less often.
            pause_seconds = least_seconds if reading.version != before else max(least_seconds, 2 * pause_seconds)


class _Reading:
    def __init__(self, connection: Connection, start: Start, client: str, events: HistoryWriter) -> None:
        self._connection = connection
        self._path = start.table_path
        self._client = client
        self._events = events
        self._storage = OperatingSystemStorage()
        self._table = open_table(self._storage, self._path)
        self._follower = TransactionReader(self._storage, f"{self._path}/{TXN_FILE}")
        self._is_asked = False
        self.version: int | None = None

    def takes(self, message: str) -> bool:
        """Return whether to read again, which the parent then waits for; False for `FINISH`."""
        self._is_asked = message != FINISH
        return self._is_asked

    def answer(self) -> None:
        """Send that something was read, if the parent waits for it."""
        if self._is_asked:
            self._is_asked = False
            self._connection.send(HAS_READ)

    def read_pinned(self) -> None:
        """Pin, read, let the writer go on, read the same snapshot again, unpin."""
        self._record(EventKind.READ_START)
        try:
            pin = pin_committed(self._storage, self._path)
        except TornproofError as error:
            self._rejected(error)
            return
        with pin:
            self._record(EventKind.PIN, version=pin.version)
            self._end(lambda: (pin.version, self._digest(self._table, pin.transaction)))
            self.answer()
            self._wait_for_commits(pin.version)
            self._record(EventKind.READ_START)
            self._end(lambda: (pin.version, self._digest(self._table, pin.transaction)))
            self._record(EventKind.UNPIN)

    def read_anew(self) -> None:
        """Open the table and read."""

        def read() -> tuple[int, str]:
            table = open_table(self._storage, self._path)
            transaction = table.transaction()
            return transaction.version, self._digest(table, transaction)

        self._record(EventKind.READ_START)
        self._end(lambda: self._reloading(read))

    def follow(self) -> None:
        """Read the version that the open table's transaction file has now."""

        def read() -> tuple[int, str]:
            transaction = followed(self._follower)
            return transaction.version, self._digest(self._table, transaction)

        self._record(EventKind.READ_START)
        self._end(lambda: self._reloading(read))

    def _reloading(self, read: Callable[[], tuple[int, str]]) -> tuple[int, str]:
        """Read, and again when a file is gone and there is a later version, as a reader without a pin must."""
        for _ in range(RELOADS_MAX):
            before = self._table.transaction().version
            try:
                return read()
            except (CorruptError, FileMissingError) as error:
                has_vanished = isinstance(error, FileMissingError) or error.problem.field == "file"
                if not has_vanished or self._table.transaction().version == before:
                    raise
        return read()

    def _digest(self, table: Table, transaction: Transaction) -> str:
        snapshot = snapshot_of(table, transaction)
        return digest_of_table((start, digest_of_rows(rows)) for start, rows in rows_by_partition(snapshot))

    def _wait_for_commits(self, version: int) -> None:
        while not self._connection.poll(POLL_SECONDS):
            try:
                if self._table.transaction().version >= version + LATER_COMMITS:
                    return
            except TornproofError:
                # The next read reports what is wrong.
                return

    def _end(self, read: Callable[[], tuple[int, str]]) -> None:
        """Read and record the result; any exception counts as a failed read, unless this machine is to blame."""
        try:
            version, digest = read()
        except Exception as error:
            self._rejected(error)
        else:
            self.version = version
            self._record(EventKind.READ_END, version=version, digest=digest)

    def _rejected(self, error: Exception) -> None:
        if is_of_machine(error):
            raise error
        self._record(EventKind.READ_FAILED, details=f"{type(error).__name__}: {error}"[:DETAILS_MAX])

    def _record(
        self, kind: EventKind, *, version: int | None = None, digest: str | None = None, details: str = ""
    ) -> None:
        self._events.record(kind, client=self._client, version=version, digest=digest, details=details)
