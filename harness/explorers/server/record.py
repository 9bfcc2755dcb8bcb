"""The record of one table: what each writer's versions hold, and what everybody did and saw, as histories.

Each writer has a history of its own, of which it is the only writer; a read of the table is a read in all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Condition

from tornproof.harness.common.history import Event, EventKind
from tornproof.harness.explorers.server.content import (
    SELECTED,
    TIME,
    VERSION,
    WRITER,
    Form,
    Row,
    Rows,
    difference,
    digest_of,
    first_rows,
)

PROCESS = "tornproof"
"""One process records all events, with the clock of one machine."""
IN_ORDER, BACKWARD = "", " ORDER BY ts DESC"


@dataclass(slots=True, kw_only=True)
class Lane:
    """One writer of a table: its version, the rows of each version, its history, and how far it is.

    `statement` counts its statements. `is_open` from the start of a commit until its outcome is known; `is_over` if
    there is no way to go on.
    """

    writer: int
    rows: dict[int, Rows]
    written: set[Row] = field(default_factory=set)
    version: int = 0
    statement: int = 0
    is_open: bool = False
    is_over: bool = False
    events: list[Event] = field(default_factory=list)

    @property
    def client(self) -> str:
        """Its name in histories."""
        return f"writer {self.writer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one read saw: the version of each writer."""

    client: str
    time_ns: int
    versions: tuple[int, ...]


class TableRecord:
    """All that is known of a table; its methods may be called by several threads.

    `log` is for people: it has the statements in the order in which they were sent, rejections, and restarts. One that
    `is_broken` cannot be read any more.
    """

    def __init__(self, name: str, form: Form, writers: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Begin with the first rows of each writer."""
        self.name = name
        self.form = form
        self.directory: str | None = None
        self.lanes = [Lane(writer=writer, rows={0: first_rows(writer)}) for writer in range(writers)]
        self.sights: list[Sight] = []
        self.log: list[str] = []
        self.is_broken = False
        self.parquet_hours: set[int] = set()
        self.changed = Condition()
        self._clock = clock
        self._reading: set[str] = set()
        for lane in self.lanes:
            lane.written.update(lane.rows[0])
            self._add(lane, EventKind.RECOVERED, lane.client, version=0, digest=digest_of(lane.rows[0]))

    @property
    def statements(self) -> int:
        """How many statements its writers have begun."""
        return sum(lane.statement for lane in self.lanes)

    def say(self, sentence: str) -> None:
        """Add a sentence to the log: statements in the order in which they were sent, answers, and what happened."""
        with self.changed:
            self.log.append(sentence)

    def begin_commit(self, lane: Lane, rows: Rows) -> None:
        """Record that a writer is about to make its next version, of which these are the rows."""
        with self.changed:
            version = lane.version + 1
            lane.rows[version] = rows
            lane.written.update(rows)
            lane.is_open = True
            self._add(lane, EventKind.COMMIT_START, lane.client, version=version, digest=digest_of(rows))
            self.changed.notify_all()

    def commit_is_there(self, lane: Lane) -> None:
        """Record that a writer's commit is acknowledged, and that from now on every read must see it."""
        with self.changed:
            lane.version += 1
            lane.is_open = False
            self._add(lane, EventKind.COMMIT_ACKNOWLEDGED, lane.client, version=lane.version)

    def commit_failed(self, lane: Lane, reason: str) -> None:
        """Record that the server rejected a writer's commit."""
        with self.changed:
            lane.is_open = False
            self._add(lane, EventKind.COMMIT_FAILED, lane.client, details=reason)

    def begin_read(self, client: str) -> None:
        """Record that a read begins."""
        with self.changed:
            self._reading.add(client)
            for lane in self.lanes:
                self._add(lane, EventKind.READ_START, client)

    def end_read(self, client: str, rows: Sequence[Row]) -> None:
        """Record what a read saw."""
        with self.changed:
            self._reading.discard(client)
            versions = []
            for lane, version, digest, details in self._seen(rows):
                self._add(lane, EventKind.READ_END, client, version=version, digest=digest, details=details)
                versions.append(version)
            self.sights.append(Sight(client=client, time_ns=self._clock(), versions=tuple(versions)))

    def read_failed(self, client: str, reason: str) -> None:
        """Record that the server rejected a read."""
        with self.changed:
            self._reading.discard(client)
            for lane in self.lanes:
                self._add(lane, EventKind.READ_FAILED, client, details=reason)

    def server_died(self) -> None:
        """Record that nobody knows the outcome of what is under way."""
        with self.changed:
            for lane in self.lanes:
                for client in (lane.client, *sorted(self._reading)):
                    self._add(lane, EventKind.KILLED, client)
                lane.is_open = False
            self._reading.clear()

    def recovered(self, rows: Sequence[Row]) -> Iterator[tuple[Lane, bool]]:
        """Record what a restarted server has, and yield each writer with whether the commit under way is there.

        A writer whose rows are not those of a version is over.
        """
        with self.changed:
            for lane, version, digest, details in self._seen(rows):
                self._add(lane, EventKind.RECOVERED, lane.client, version=version, digest=digest, details=details)
                is_there = version > lane.version
                lane.version, lane.is_over = version, lane.is_over or bool(details)
                yield lane, is_there

    def _seen(self, rows: Sequence[Row]) -> list[tuple[Lane, int, str, str]]:
        """Return for each writer the version that rows show, their digest, and what is wrong with them."""
        by_writer: dict[int, list[Row]] = {lane.writer: [] for lane in self.lanes}
        for row in rows:
            by_writer.setdefault(row[WRITER], []).append(row)
        times = [row[TIME] for row in rows]
        disorder = "" if times in (sorted(times), sorted(times, reverse=True)) else "rows are not in order of time"
        foreign = by_writer.keys() - {lane.writer for lane in self.lanes}
        strange = f"there are rows of writers {sorted(foreign)}" if foreign else ""
        seen = []
        for lane in self.lanes:
            own = by_writer[lane.writer]
            version = max((row[VERSION] for row in own), default=-1)
            wrong = "; ".join(
                filter(None, (disorder, strange, difference(lane.rows.get(version, ()), own, lane.written)))
            )
            seen.append((lane, version, digest_of(own) if not (disorder or strange) else wrong, wrong))
        return seen

    def _add(
        self,
        lane: Lane,
        kind: EventKind,
        client: str,
        *,
        version: int | None = None,
        digest: str | None = None,
        details: str = "",
    ) -> None:
        lane.events.append(
            Event(
                process=PROCESS,
                sequence=len(lane.events),
                client=client,
                kind=kind,
                time_ns=self._clock(),
                version=version,
                digest=digest,
                details=details,
            )
        )


def select_sql(table: str, end: str = IN_ORDER) -> str:
    """Return the query of a read."""
    return f"SELECT {SELECTED} FROM {table}{end}"
