"""The writer of a run: it recovers the table, does what its plan says and writes that down, until it is killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from tornproof.harness.common.history import EventKind, HistoryWriter
from tornproof.harness.explorers.processes.account import (
    Account,
    Change,
    Form,
    Operation,
    new_rows,
    plan_operation,
)
from tornproof.harness.explorers.processes.messages import (
    DONE,
    PAUSED,
    RECOVERED,
    Connection,
    Life,
    Patch,
    worker,
)
from tornproof.harness.explorers.processes.plan import Act
from tornproof.harness.explorers.processes.start import Start, take_stock
from tornproof.harness.explorers.processes.stop import (
    APPEND_PM,
    COMMIT,
    PURGE,
    RECOVERY,
    REMOVE_DIRECTORY,
    StoppingStorage,
)
from tornproof.impl.errors import RowsRefusedError, UnsupportedError
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import TableWriter, open_writer

CLIENT = "writer"
REFUSALS = (RowsRefusedError, UnsupportedError)
ROW_GROUP_ROW_COUNT_MAX = 100


class LostVersionError(Exception):
    """The table is at a version that no writer of this run can have left."""


def run_writer(
    connection: Connection, start: Start, patches: Sequence[Patch], process: str, history: Path, life: Life
) -> None:
    """Write until killed, or until the plan is done and word comes to end; `history` is the file to write events to."""
    with worker(connection, patches, CLIENT, REFUSALS), HistoryWriter(history, process) as events:
        _Writing(connection, start, life, events).run()


def operation_of(details: str) -> Operation:
    """Return the operation that the details of a commit_start name."""
    return msgspec.convert(json.loads(details)["operation"], Operation)


class _Writing:
    def __init__(self, connection: Connection, start: Start, life: Life, events: HistoryWriter) -> None:
        self._connection = connection
        self._start = start
        self._life = life
        self._events = events
        self._storage = StoppingStorage(OperatingSystemStorage(), start.table_path, self._wait)
        self._attempt = life.attempt
        self._purged_count = 0

    def run(self) -> None:
        plan = self._life.plan
        options = WriterOptions(
            row_group_row_count_max=ROW_GROUP_ROW_COUNT_MAX,
            rewrite_unused_ratio=WriterOptions().rewrite_unused_ratio if plan.rewrites_early else 1.0,
        )
        self._storage.stop_at(plan.stop_in_recovery)
        with open_writer(self._storage, self._start.table_path, options=options) as writer:
            account = self._recovered(writer)
            for step in plan.steps:
                if step.stop is not None:
                    self._storage.stop_at(step.stop)
                match step.act:
                    case Act.COMMIT:
                        account = self._commit(writer, account, step.change)
                    case Act.PURGE:
                        self._purge(writer)
                    case Act.PAUSE:
                        self._wait(PAUSED)
            self._wait(DONE)
            self._purge(writer)

    def _wait(self, reason: object) -> None:
        """Say where this writer stands, and wait until it may go on; raises EOFError when the parent is gone."""
        self._connection.send(reason)
        self._connection.recv()

    def _recovered(self, writer: TableWriter) -> Account:
        """Write down what recovery left, and return the account of it."""
        counts = self._storage.counts
        found = take_stock(snapshot_of(writer.table, writer.transaction), self._start.form)
        details = {
            "restated": counts[f"{RECOVERY}: {APPEND_PM}"],
            "removed": counts[f"{RECOVERY}: {REMOVE_DIRECTORY}"],
        }
        self._events.record(
            EventKind.RECOVERED,
            client=CLIENT,
            version=found.version,
            digest=found.digest,
            details=json.dumps(details),
        )
        self._connection.send(RECOVERED)
        account = settled(self._life.account, self._life.pending, found.version, self._start.form)
        if account is None:
            raise LostVersionError(f"version {found.version} after version {self._life.account.version}")
        return account

    def _commit(self, writer: TableWriter, account: Account, change: Change) -> Account:
        form = self._start.form
        operation = plan_operation(account, form, seed=self._life.seed, attempt=self._attempt, change=change)
        self._attempt += 1
        following = account.after(operation, form)
        for place in operation.drops:
            writer.drop_partition(form.targets[place].start)
        for place in operation.rewrites:
            writer.rewrite_partition(form.targets[place].start)
        for rows in new_rows(account, operation, form).values():
            writer.write(rows)
        details = {"operation": asdict(operation), "purged": self._purged_count}
        self._purged_count = 0
        self._events.record(
            EventKind.COMMIT_START,
            client=CLIENT,
            version=following.version,
            digest=following.digest,
            details=json.dumps(details),
        )
        self._storage.stage = COMMIT
        version = writer.commit()
        self._events.record(EventKind.COMMIT_ACKNOWLEDGED, client=CLIENT, version=version)
        if version != following.version:
            raise LostVersionError(f"the commit of version {following.version} said that it made version {version}")
        return following

    def _purge(self, writer: TableWriter) -> None:
        self._storage.stage = PURGE
        self._purged_count += len(writer.purge())


def settled(account: Account, pending: Operation | None, version: int, form: Form) -> Account | None:
    """Return the account of a version that was found, which is the last settled one or what was tried after it."""
    if version == account.version:
        return account
    if pending is not None and version == account.version + 1:
        return account.after(pending, form)
    return None
