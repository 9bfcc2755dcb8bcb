"""The writer of a run: it recovers the table, does what its plan says and writes that down, until it is killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from tornproof.harness.common.history import EventKind, HistoryWriter
from tornproof.harness.explorers.processes.counters import (
    Change,
    Counters,
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
    Patch,
    Session,
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
from tornproof.impl.errors import RowsRejectedError, UnsupportedError
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import TableWriter, open_writer

CLIENT = "writer"
REJECTIONS = (RowsRejectedError, UnsupportedError)
ROW_GROUP_ROW_COUNT_MAX = 100


class LostVersionError(Exception):
    """The table is at a version that no writer of this run can have left."""


def run_writer(
    connection: Connection, start: Start, patches: Sequence[Patch], process: str, history: Path, session: Session
) -> None:
    """Write until killed, or until the plan is done and word comes to end; `history` is the file to write events to."""
    with worker(connection, patches, CLIENT, REJECTIONS), HistoryWriter(history, process) as events:
        _Writing(connection, start, session, events).run()


def operation_of(details: str) -> Operation:
    """Return the operation that the details of a commit_start name."""
    return msgspec.convert(json.loads(details)["operation"], Operation)


class _Writing:
    def __init__(self, connection: Connection, start: Start, session: Session, events: HistoryWriter) -> None:
        self._connection = connection
        self._start = start
        self._session = session
        self._events = events
        self._storage = StoppingStorage(OperatingSystemStorage(), start.table_path, self._wait)
        self._attempt = session.attempt
        self._purged_count = 0

    def run(self) -> None:
        plan = self._session.plan
        options = WriterOptions(
            row_group_row_count_max=ROW_GROUP_ROW_COUNT_MAX,
            rewrite_unused_ratio=WriterOptions().rewrite_unused_ratio if plan.rewrites_early else 1.0,
        )
        self._storage.stop_at(plan.stop_in_recovery)
        with open_writer(self._storage, self._start.table_path, options=options) as writer:
            counters = self._recovered(writer)
            for step in plan.steps:
                if step.stop is not None:
                    self._storage.stop_at(step.stop)
                match step.act:
                    case Act.COMMIT:
                        counters = self._commit(writer, counters, step.change)
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

    def _recovered(self, writer: TableWriter) -> Counters:
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
        counters = settled(self._session.counters, self._session.pending, found.version, self._start.form)
        if counters is None:
            raise LostVersionError(f"version {found.version} after version {self._session.counters.version}")
        return counters

    def _commit(self, writer: TableWriter, counters: Counters, change: Change) -> Counters:
        form = self._start.form
        operation = plan_operation(counters, form, seed=self._session.seed, attempt=self._attempt, change=change)
        self._attempt += 1
        following = counters.after(operation, form)
        for position in operation.drops:
            writer.drop_partition(form.targets[position].start)
        for position in operation.rewrites:
            writer.rewrite_partition(form.targets[position].start)
        for rows in new_rows(counters, operation, form).values():
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


def settled(counters: Counters, pending: Operation | None, version: int, form: Form) -> Counters | None:
    """Return the account of a version that was found, which is the last settled one or what was tried after it."""
    if version == counters.version:
        return counters
    if pending is not None and version == counters.version + 1:
        return counters.after(pending, form)
    return None
