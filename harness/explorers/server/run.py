"""One round: tables of its own are created, used by concurrent clients between kills, looked at, and dropped."""

from __future__ import annotations

import contextlib
import enum
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tornproof.harness.common.verdict import HasTime
from tornproof.harness.explorers.server.clients import Plan, Session, TableWork, Troubles
from tornproof.harness.explorers.server.content import FORMS, create_sql, first_rows, insert_sql
from tornproof.harness.explorers.server.record import Lane, TableRecord, select_sql
from tornproof.harness.explorers.server.target import Target
from tornproof.harness.systems.server.client import Client, RejectedError, ServerError, SuspendedError
from tornproof.impl.errors import CorruptError, TornproofError, UsageError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table

PREFIX = "tornproof_check"
"""Every table that a check makes has a name that begins so; it touches no other."""
POLL_SECONDS = 0.02
DELAY_MILLISECONDS_MAX = 12
"""How long after the statement at which a kill is due it comes at most."""
DROP_SECONDS_MAX = 5.0
DEATHS_MAX = 3
"""How often a server may die by itself before a check is ended."""
SOUND = "a table on disk is sound"


class End(enum.Enum):
    """How a session ended."""

    DONE = enum.auto()
    KILLED = enum.auto()
    DIED = enum.auto()
    CUT = enum.auto()


OnTables: TypeAlias = Callable[[Sequence[str]], None]
"""Takes the names of the tables that are on the server now and are not to stay there."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was done and what happened in all rounds."""

    tables: list[TableWork] = field(default_factory=list)
    troubles: Troubles = field(default_factory=Troubles)
    counts: Counter[str] = field(default_factory=Counter)
    dropped: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


class Round:
    """The tables of one round, at work."""

    def __init__(
        self, target: Target, plan: Plan, number: int, seen: Seen, has_time: HasTime, on_tables: OnTables
    ) -> None:
        """Prepare; `run` runs it."""
        self._on_tables = on_tables
        self._target = target
        self._plan = plan
        self._number = number
        self._seen = seen
        self._has_time = has_time
        self._works: list[TableWork] = []

    @property
    def records(self) -> list[TableRecord]:
        """The records of its tables."""
        return [work.record for work in self._works]

    def run(self, on_progress: Callable[[int], None]) -> bool:
        """Create the tables, use them, and drop them; False if the round was cut.

        Raises UsageError if the tables cannot be created.
        """
        try:
            with self._client() as client:
                for work in self._created(client):
                    self._works.append(work)
                    self._seen.tables.append(work)
                    self._on_tables([each.record.name for each in self._works])
            return self._is_used(on_progress)
        finally:
            self._drop()

    def _created(self, client: Client) -> Iterator[TableWork]:
        for index, form in enumerate(FORMS):
            name = f"{PREFIX}_{self._plan.seed}_{self._number}_{form.name}"
            try:
                client.execute(create_sql(name, form))
            except RejectedError as error:
                raise UsageError(f"{error}; a check makes tables of its own, and touches none that is there") from error
            work = TableWork(
                record=TableRecord(name, form, self._plan.writers),
                seeds=(self._plan.seed, self._number, index),
                reads=[0] * self._plan.readers,
            )
            # From here on it is ours to drop.
            yield work
            first = [row for writer in range(self._plan.writers) for row in first_rows(writer)]
            client.execute(insert_sql(name, first))
            client.wait_until_applied(name)
            if self._target.data is not None:
                work.record.directory = self._directory(client, name)

    def _directory(self, client: Client, table: str) -> str:
        ((name,),) = client.execute(f"SELECT directoryName FROM tables() WHERE table_name = '{table}'")
        return str(name)

    def _is_used(self, on_progress: Callable[[int], None]) -> bool:
        """Let clients use the tables between kills, and look at the end; False if the round was cut."""
        draw = np.random.default_rng([self._plan.seed, self._number])
        for kill_at in (*self._kill_points(draw), None):
            delay_seconds = int(draw.integers(DELAY_MILLISECONDS_MAX)) / 1000
            while (end := self._session(kill_at, delay_seconds, on_progress)) is End.DIED:
                self._seen.counts["deaths"] += 1
                if self._seen.counts["deaths"] > DEATHS_MAX or not self._is_restarted("its process died"):
                    return False
            if end is End.CUT or (end is End.KILLED and not self._is_restarted("SIGKILL")):
                return False
        self._look_at_the_end()
        return True

    def _kill_points(self, draw: np.random.Generator) -> list[int]:
        """Return after how many statements the server is killed: once in each of as many equal parts as kills."""
        if not self._target.is_ours:
            return []
        statements = len(self._works) * self._plan.writers * self._plan.commits
        part = statements // (self._plan.kills + 1)
        return [part * (number + 1) - int(draw.integers(part // 2)) for number in range(self._plan.kills)]

    def _session(self, kill_at: int | None, delay_seconds: float, on_progress: Callable[[int], None]) -> End:
        """Let all clients work until they are done, or the server is dead, or the round is cut."""
        troubles = self._seen.troubles
        session = Session(self._target.address, self._works, self._plan, troubles, kill_at)
        while not (session.is_done or session.kill_is_due.wait(POLL_SECONDS) or session.ending.is_set()):
            on_progress(sum(work.record.statements for work in self._seen.tables))
            if not self._has_time():
                session.ending.set()
                if self._target.is_ours:
                    # It would take the time that is left after an interrupt.
                    self._target.kill()
        if session.kill_is_due.is_set() and not session.ending.is_set():
            time.sleep(delay_seconds)
            session.ending.set()
            self._target.kill()
            session.end()
            self._seen.counts["kills"] += 1
            return End.KILLED
        session.end()
        is_cut = troubles.defects or not self._has_time()
        if troubles.no_answers and not is_cut and self._target.has_died():
            troubles.no_answers.clear()
            troubles.findings.append(("a server stays alive", f"its process ended: {self._target.last_words()}", None))
            return End.DIED
        if troubles.no_answers or is_cut:
            for record in self.records:
                record.server_died()
            return End.CUT
        return End.DONE

    def _is_restarted(self, why: str) -> bool:
        """Look at the tables of a dead server, start it again, and record what it has; False if it does not start."""
        unanswered: list[Lane] = []
        for work in self._works:
            work.record.say(why)
            unanswered += [lane for lane in work.record.lanes if lane.is_open]
            work.record.server_died()
            self._verify(work.record)
        self._seen.counts["unanswered at a kill"] += len(unanswered)
        try:
            self._target.start()
            with self._client() as client:
                for work in self._works:
                    self._recover(client, work.record, unanswered)
        except ServerError as error:
            self._seen.troubles.findings.append(("a dead server can be started again", str(error), None))
            return False
        return True

    def _recover(self, client: Client, record: TableRecord, unanswered: Sequence[Lane]) -> None:
        """Record what a table has when its log is applied."""
        counts = self._seen.counts
        try:
            before = client.execute(select_sql(record.name))
            client.wait_until_applied(record.name)
            rows = [tuple(row) for row in client.execute(select_sql(record.name))]
        except (RejectedError, SuspendedError) as error:
            record.is_broken = True
            sentence = f"{record.name} cannot be read after a restart: {error.reason}"
            self._seen.troubles.findings.append(("a table can be read after a restart", sentence, record))
            return
        counts["tables that changed after a restart"] += len(rows) != len(before)
        for lane, is_there in record.recovered(rows):
            counts["unanswered and there"] += is_there and any(lane is each for each in unanswered)

    def _look_at_the_end(self) -> None:
        """Read each table once more when nobody writes, and verify it."""
        with self._client() as client:
            for work in self._works:
                record = work.record
                if record.is_broken:
                    continue
                record.begin_read("last reader")
                try:
                    client.wait_until_applied(record.name)
                    rows = [tuple(row) for row in client.execute(select_sql(record.name))]
                except (RejectedError, SuspendedError) as error:
                    record.read_failed("last reader", error.reason)
                else:
                    record.end_read("last reader", rows)
                self._seen.counts["last reads"] += 1
                self._verify(record)

    def _verify(self, record: TableRecord) -> None:
        if self._target.data is None or record.directory is None:
            return
        try:
            problems = verify_table(open_table(OperatingSystemStorage(), str(self._target.data / record.directory)))
        except CorruptError as error:
            found: Sequence[object] = (error.problem,)
        except TornproofError as error:
            self._seen.troubles.defects.append(f"{record.name} cannot be verified: {error}")
            return
        else:
            found = problems.all_problems
            self._seen.counts["verified partitions"] += len(problems.partitions)
            self._seen.counts["verified parquet partitions"] += len(problems.partitions) - len(problems.native)
        self._seen.counts["verified tables"] += 1
        self._seen.troubles.findings += [(SOUND, f"{record.name}: {problem}", record) for problem in found]

    def _drop(self) -> None:
        """Drop the tables that this round has created, and no other."""
        if self._target.is_ours and not self._has_time():
            # There is little time after an interrupt, and the folder of the server is removed.
            return
        names = [work.record.name for work in self._works]
        client = Client(self._target.address, seconds_max=DROP_SECONDS_MAX)
        for name in names:
            try:
                client.execute(f"DROP TABLE {name}")
            except ServerError:
                # The folder of a server that was started here is removed.
                self._seen.left += [] if self._target.is_ours else [name]
            else:
                self._seen.dropped.append(name)
        client.close()
        self._on_tables([name for name in names if name in self._seen.left])

    @contextlib.contextmanager
    def _client(self) -> Iterator[Client]:
        client = Client(self._target.address)
        try:
            yield client
        finally:
            client.close()
