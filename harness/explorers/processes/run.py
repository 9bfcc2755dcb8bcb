"""A run of processes: writers are started and killed one after the other beside readers, then all processes end."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tornproof.harness.common.history import Event, EventKind, HistoryWriter, decode_file
from tornproof.harness.common.verdict import OnProgress
from tornproof.harness.explorers.processes.expected import ExpectedVersion, Operation
from tornproof.harness.explorers.processes.messages import DONE, FINISH, GO_ON, PAUSED, READ, RECOVERED, Session
from tornproof.harness.explorers.processes.plan import Plan, plan_kills, plan_last
from tornproof.harness.explorers.processes.reader import Style
from tornproof.harness.explorers.processes.start import Start
from tornproof.harness.explorers.processes.stop import Stopped
from tornproof.harness.explorers.processes.workers import Member, Workers
from tornproof.harness.explorers.processes.writer import CLIENT, expected_at, operation_of
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import LockMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import I64_MAX

WRITER_KILLS_BETWEEN_READER_KILLS = 5
STYLES = (Style.PINNED, Style.FOREIGN, Style.LONG_LIVED, Style.PINNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run: `kills` writers are killed, and one more ends normally."""

    seed: int
    reader_count: int
    kills: int

    @property
    def writer_count(self) -> int:
        """The number of writers, one after the other."""
        return self.kills + 1


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the parent itself observed; `pins` are versions that a killed reader may still hold.

    `expected` is what the last version must hold, None where that is unknown. `killed_at` are the positions at which
    writers were killed, without those of writers that never reached theirs.
    """

    expected: ExpectedVersion | None
    writer_kills: int = 0
    has_ended: bool = False
    reader_kills: int = 0
    pinned_reader_kills: int = 0
    freed_pins: int = 0
    pins: list[int] = field(default_factory=list)
    killed_at: list[Stopped] = field(default_factory=list)

    @property
    def writer_count(self) -> int:
        """The number of writers that were killed or have ended."""
        return self.writer_kills + self.has_ended


class Run:
    """One run; `events` are those of the parent."""

    def __init__(
        self, start: Start, workers: Workers, events: HistoryWriter, settings: Settings, on_progress: OnProgress
    ) -> None:
        """Start with the first version."""
        self.outcome = Outcome(expected=start.expected)
        self._start = start
        self._workers = workers
        self._events = events
        self._settings = settings
        self._on_progress = on_progress
        self._expected: ExpectedVersion = start.expected
        self._pending: Operation | None = None
        self._attempt = 0
        self._readers: list[Member] = []
        self._storage = OperatingSystemStorage()

    def run(self) -> None:
        """Run all writers; a process that fails by itself ends the run early.

        Raises NoAnswerError, OutOfTimeError.
        """
        for plan in islice(plan_kills(self._settings.seed), self._settings.kills):
            self._kill(self._start_writer(plan))
            self._on_progress(self.outcome.writer_count, self._settings.writer_count)
            if self._workers.failures():
                return
        self._end(self._start_writer(plan_last(self._settings.seed)))
        self._on_progress(self.outcome.writer_count, self._settings.writer_count)

    def _start_writer(self, plan: Plan) -> Member:
        return self._workers.start_writer(
            Session(
                expected=self._expected,
                pending=self._pending,
                attempt=self._attempt,
                seed=self._settings.seed,
                plan=plan,
            )
        )

    def _kill(self, writer: Member) -> None:
        """Let a writer run to the position where it is to be killed, let all readers read beside it, and kill it."""
        stopped = self._run_beside_readers(writer, is_killed=True)
        if writer.has_ended:
            self._update_expected(writer)
            return
        writer.kill()
        self._events.record(EventKind.KILLED, client=CLIENT)
        self.outcome.writer_kills += 1
        self.outcome.killed_at += [stopped] if stopped else []
        self._update_expected(writer)
        if self._readers and self.outcome.writer_kills % WRITER_KILLS_BETWEEN_READER_KILLS == 0:
            self._kill_reader()
        self._free_pins(has_readers=True)

    def _end(self, writer: Member) -> None:
        """Let all readers end, and then the writer."""
        self._run_beside_readers(writer, is_killed=False)
        if not writer.has_ended:
            self._workers.send_to_all(self._readers, READ)
            for reader in self._readers:
                reader.send(FINISH)
            self._workers.wait_for_ends(self._readers)
            writer.send(GO_ON)
            self._workers.wait_for_ends([writer])
            self._free_pins(has_readers=False)
            self.outcome.has_ended = True
        self._update_expected(writer)

    def _run_beside_readers(self, writer: Member, *, is_killed: bool) -> Stopped | None:
        """Let readers read wherever a writer stops, until it is done or to be killed; return where it stopped then."""
        while (message := self._workers.receive(writer)) not in (None, DONE):
            if message == RECOVERED:
                self._start_readers()
                continue
            self._workers.send_to_all(self._readers, READ)
            if is_killed and message != PAUSED:
                assert isinstance(message, Stopped)
                return message
            writer.send(GO_ON)
        return None

    def _start_readers(self) -> None:
        """Start the readers once the first writer has made the file of pins, so that every pin is locked."""
        for number in range(len(self._readers), self._settings.reader_count):
            self._readers.append(self._workers.start_reader(f"reader-{number}", STYLES[number % len(STYLES)]))

    def _committed_version(self) -> int:
        """Return the committed version, or -1 where a fault, which readers will report, makes it unreadable."""
        try:
            return open_table(self._storage, self._start.table_path).transaction().version
        except TornproofError:
            return -1

    def _update_expected(self, writer: Member) -> None:
        """Update what is expected by the events that a writer recorded before its end."""
        for event in read_events(writer.history):
            if event.kind is EventKind.COMMIT_START:
                self._pending = operation_of(event.details)
                self._attempt = self._pending.attempt + 1
            elif event.kind in (EventKind.RECOVERED, EventKind.COMMIT_ACKNOWLEDGED):
                assert event.version is not None
                expected = expected_at(self._expected, self._pending, event.version, self._start.form)
                self.outcome.expected = expected
                if expected is None:
                    # The writer itself has failed because of that, and the history says why.
                    return
                self._expected, self._pending = expected, None

    def _kill_reader(self) -> None:
        index = self.outcome.reader_kills % len(self._readers)
        reader = self._readers[index]
        # After that, a reader that pins holds a pin, and keeps it until the next writer has made commits.
        self._workers.send_to_all([reader], READ)
        reader.kill()
        if not reader.was_killed:
            return
        self._events.record(EventKind.KILLED, client=reader.client)
        self.outcome.reader_kills += 1
        version = pinned_version(read_events(reader.history))
        if version is not None:
            self.outcome.pinned_reader_kills += 1
            self.outcome.pins.append(version)
        self._readers[index] = self._workers.start_reader(reader.client, STYLES[index % len(STYLES)])

    def _free_pins(self, *, has_readers: bool) -> None:
        """Check whether a purge could lock what killed readers had pinned.

        While readers run, one of them or a purge may hold the same lock; then a later call checks again.
        """
        path = self._start.table_path
        if not self.outcome.pins:
            return
        # Readers pin the committed version now, and this lock must not be in their way.
        end = self._committed_version() if has_readers else I64_MAX
        with self._storage.open_for_writing(f"{path}/{PINS_FILE}") as file:
            held = []
            for version in self.outcome.pins:
                span = {"offset_bytes": version, "size_bytes": 1}
                if version < end and file.try_lock(LockMode.EXCLUSIVE, **span):
                    file.unlock(**span)
                    self.outcome.freed_pins += 1
                else:
                    held.append(version)
        self.outcome.pins = held


def read_events(history: Path) -> list[Event]:
    """Return the events of a process that has ended; one that ended very early has no file."""
    if not history.exists():
        return []
    events, _ = decode_file(history.read_bytes(), file=str(history))
    return events


def pinned_version(events: list[Event]) -> int | None:
    """Return the version that a reader had pinned when it ended."""
    last = [event for event in events if event.kind in (EventKind.PIN, EventKind.UNPIN)][-1:]
    return last[0].version if last and last[0].kind is EventKind.PIN else None
