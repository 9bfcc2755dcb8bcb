"""The clients of a session: writers, readers, and one that converts partitions, each in a thread with a connection."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

import numpy as np

from tornproof.harness.explorers.server.content import HOURS, after, hours_of, insert_sql, made_rows
from tornproof.harness.explorers.server.record import BACKWARD, IN_ORDER, Lane, TableRecord, select_sql
from tornproof.harness.systems.server.client import (
    Address,
    Client,
    RejectedError,
    ServerError,
    SuspendedError,
)

BUSY = ("busy", "could not lock")
"""What a server says of a table that another of its clients writes to; the statement is tried again."""
BUSY_MAX = 200
POLL_SECONDS = 0.02
NATIVE_CHANCE = 0.3
ANSWER_SECONDS_MAX, HANG_SECONDS_MAX = 0.2, 10.0
"""How long clients may wait for an answer when a session ends, and then take to notice that there will be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many of each there are: clients of each table, and what each of them does."""

    seed: int
    writers: int = 3
    commits: int = 24
    readers: int = 2
    reads: int = 24
    conversions: int = 8
    kills: int = 2


@dataclass(slots=True, kw_only=True)
class TableWork:
    """A table, and how far its clients are; `seeds` are those from which they draw."""

    record: TableRecord
    seeds: Sequence[int]
    reads: list[int]
    conversions: int = 0
    to_parquet: int = 0
    to_native: int = 0
    commits_into_parquet: int = 0


@dataclass(slots=True, kw_only=True)
class Troubles:
    """What kept clients from going on; a finding is a property, a sentence, and a table if it is about one."""

    findings: list[tuple[str, str, TableRecord | None]] = field(default_factory=list)
    no_answers: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    busy: int = 0


class Session:
    """All clients at work, until they are done, a kill is due, or they are told to end."""

    def __init__(
        self, address: Address, tables: Sequence[TableWork], plan: Plan, troubles: Troubles, kill_at: int | None
    ) -> None:
        """Start the threads; a kill is due when so many commits have begun in all tables."""
        self._address = address
        self._plan = plan
        self._troubles = troubles
        self._kill_at = kill_at
        self._tables = tables
        self._lock = Lock()
        self._clients: list[Client] = []
        self.ending = Event()
        self.kill_is_due = Event()
        self._threads = [Thread(target=self._run, args=body, daemon=True) for body in self._bodies()]
        for thread in self._threads:
            thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all threads have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def end(self) -> None:
        """End all threads: those that wait for an answer may have it, for a moment."""
        self.ending.set()
        self._join(ANSWER_SECONDS_MAX)
        for client in self._clients:
            client.interrupt()
        self._join(HANG_SECONDS_MAX)

    def _join(self, seconds_max: float) -> None:
        end = time.monotonic() + seconds_max
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _bodies(self) -> list[tuple[Callable[..., None], TableWork, int]]:
        bodies: list[tuple[Callable[..., None], TableWork, int]] = []
        for work in self._tables:
            bodies += [(self._write, work, number) for number in range(self._plan.writers)]
            bodies += [(self._read, work, number) for number in range(self._plan.readers)]
            bodies.append((self._convert, work, 0))
        return bodies

    def _run(self, body: Callable[[Client, TableWork, int], None], work: TableWork, number: int) -> None:
        if work.record.is_broken:
            return
        client = Client(self._address)
        with self._lock:
            self._clients.append(client)
        try:
            body(client, work, number)
        except SuspendedError as error:
            self._found("a table stays usable", str(error), work.record)
        except ServerError as error:
            if not self.ending.is_set():
                with self._lock:
                    self._troubles.no_answers.append(str(error))
                self.ending.set()
        except Exception:
            with self._lock:
                self._troubles.defects.append(traceback.format_exc())
            self.ending.set()
        finally:
            client.close()

    def _write(self, client: Client, work: TableWork, number: int) -> None:
        record = work.record
        lane = record.lanes[number]
        while lane.statement < self._plan.commits and not lane.is_over and not self.ending.is_set():
            statement = lane.statement
            lane.statement += 1
            new = made_rows(work.seeds, writer=number, version=lane.version + 1, statement=statement)
            with self._lock:
                work.commits_into_parquet += bool(hours_of(new) & record.parquet_hours)
            record.begin_commit(lane, after(lane.rows[lane.version], new, record.form))
            if self._insert(client, work, lane, insert_sql(record.name, new)):
                try:
                    if record.form.has_log and not record.form.reader_waits:
                        client.wait_until_applied(record.name)
                except SuspendedError:
                    # Nobody can see the commit any more.
                    lane.is_over = True
                    raise
                except ServerError:
                    # It was acknowledged: after a restart it must be there, and nobody reads before that.
                    record.commit_is_there(lane)
                    raise
                record.commit_is_there(lane)

    def _insert(self, client: Client, work: TableWork, lane: Lane, sql: str) -> bool:
        """Execute the statement of a commit, and return whether it is acknowledged."""
        record = work.record
        for attempt in range(BUSY_MAX):
            record.say(f"{lane.client}: {sql}")
            try:
                client.execute(sql, on_sent=self._sent)
            except RejectedError as error:
                record.commit_failed(lane, error.reason)
                if not _is_busy(error):
                    sentence = f"an INSERT of {lane.client} into {record.name} is rejected: {error.reason}"
                    self._found("an insert into a sound table is accepted", sentence, record)
                    lane.is_over = True
                    return False
                with self._lock:
                    self._troubles.busy += 1
                if self.ending.wait(POLL_SECONDS) or attempt == BUSY_MAX - 1:
                    return False
                record.begin_commit(lane, lane.rows[lane.version + 1])
            else:
                return True
        return False

    def _read(self, client: Client, work: TableWork, number: int) -> None:
        record = work.record
        name = f"reader {number}"
        while work.reads[number] < self._plan.reads and self._reaches(work, work.reads[number], self._plan.reads):
            record.begin_read(name)
            try:
                if record.form.reader_waits:
                    client.wait_until_applied(record.name)
                order = (IN_ORDER, BACKWARD)[(work.reads[number] + number) % 2]
                rows = [tuple(row) for row in client.execute(select_sql(record.name, order))]
            except (RejectedError, SuspendedError) as error:
                record.read_failed(name, error.reason)
            else:
                record.end_read(name, rows)
            work.reads[number] += 1

    def _convert(self, client: Client, work: TableWork, number: int) -> None:
        """Convert partitions to Parquet, and some of them back."""
        record = work.record
        while work.conversions < self._plan.conversions and self._reaches(
            work, work.conversions, self._plan.conversions
        ):
            draw = np.random.default_rng([*work.seeds, work.conversions])
            hour, is_native = int(draw.integers(HOURS - 1)), bool(draw.random() < NATIVE_CHANCE)
            to = "NATIVE" if is_native else "PARQUET"
            work.conversions += 1
            sql = f"ALTER TABLE {record.name} CONVERT PARTITION TO {to} LIST '2024-01-01T{hour:02}'"
            record.say(f"converter: {sql}")
            try:
                client.execute(sql)
            except RejectedError as error:
                if not _is_busy(error):
                    self._found("a partition can be converted", str(error), record)
                continue
            work.to_native += is_native
            work.to_parquet += not is_native
            with self._lock:
                (record.parquet_hours.discard if is_native else record.parquet_hours.add)(hour)

    def _reaches(self, work: TableWork, done: int, count: int) -> bool:
        """Wait until as large a part of the commits has begun as is done of `count`; False if the session ends."""
        record = work.record
        all_commits = self._plan.writers * self._plan.commits
        while not self.ending.is_set():
            with record.changed:
                left = sum(self._plan.commits - lane.statement for lane in record.lanes if not lane.is_over)
                if (all_commits - left) * count >= all_commits * done:
                    return True
                record.changed.wait(POLL_SECONDS)
        return False

    def _sent(self) -> None:
        if self._kill_at is not None and sum(work.record.statements for work in self._tables) >= self._kill_at:
            self.kill_is_due.set()

    def _found(self, violated: str, sentence: str, record: TableRecord) -> None:
        record.say(sentence)
        with self._lock:
            self._troubles.findings.append((violated, sentence, record))


def _is_busy(error: RejectedError) -> bool:
    return any(word in error.reason for word in BUSY)
