"""The writer of a run: it recovers the table, executes its plan and records that, until it is killed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.history import EventKind, HistoryWriter
from tornproof.harness.explorers.processes.expected import (
    Change,
    ExpectedVersion,
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
from tornproof.harness.explorers.processes.start import Start, read_version
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
from tornproof.impl.write.table_writer import TableWriter

CLIENT = "writer"
REJECTIONS = (RowsRejectedError, UnsupportedError)
ROW_GROUP_ROW_COUNT_MAX = 100


class LostVersionError(Exception):
    """The table is at a version that no writer of this run can have left."""


def run_writer(
    connection: Connection, start: Start, patches: Sequence[Patch], process: str, history: Path, session: Session
) -> None:
    """Write until killed, or until the plan is done and the parent ends it; `history` is the file for its events."""
    with worker(connection, patches, CLIENT, REJECTIONS), HistoryWriter(history, process) as events:
        _Writing(connection, start, session, events).run()


def operation_of(details: str) -> Operation:
    """Return the operation in the details of a commit_start event."""
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
        with open_writer_of_copy(self._storage, self._start.table_path, options=options) as writer:
            expected = self._recovered(writer)
            for step in plan.steps:
                if step.stop is not None:
                    self._storage.stop_at(step.stop)
                match step.act:
                    case Act.COMMIT:
                        expected = self._commit(writer, expected, step.change)
                    case Act.PURGE:
                        self._purge(writer)
                    case Act.PAUSE:
                        self._wait(PAUSED)
            self._wait(DONE)
            self._purge(writer)

    def _wait(self, reason: object) -> None:
        """Send the reason for stopping, and wait for the parent to continue; raises EOFError when it is gone."""
        self._connection.send(reason)
        self._connection.recv()

    def _recovered(self, writer: TableWriter) -> ExpectedVersion:
        """Record the version after recovery, and return what it must hold."""
        counts = self._storage.counts
        found = read_version(snapshot_of(writer.table, writer.transaction), self._start.form)
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
        expected = expected_at(self._session.expected, self._session.pending, found.version, self._start.form)
        if expected is None:
            raise LostVersionError(f"version {found.version} after version {self._session.expected.version}")
        return expected

    def _commit(self, writer: TableWriter, expected: ExpectedVersion, change: Change) -> ExpectedVersion:
        form = self._start.form
        operation = plan_operation(expected, form, seed=self._session.seed, attempt=self._attempt, change=change)
        self._attempt += 1
        following = expected.after(operation, form)
        for index in operation.drops:
            writer.drop_partition(form.targets[index].start)
        for index in operation.rewrites:
            writer.rewrite_partition(form.targets[index].start)
        for rows in new_rows(expected, operation, form).values():
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
            raise LostVersionError(f"the commit of version {following.version} returned version {version}")
        return following

    def _purge(self, writer: TableWriter) -> None:
        self._storage.stage = PURGE
        self._purged_count += len(writer.purge())


def expected_at(known: ExpectedVersion, pending: Operation | None, version: int, form: Form) -> ExpectedVersion | None:
    """Return what a version must hold: the last known one, or the one that `pending` made; None for any other."""
    if version == known.version:
        return known
    if pending is not None and version == known.version + 1:
        return known.after(pending, form)
    return None
