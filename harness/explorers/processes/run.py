"""The course of a run of processes: writers live and die one after the other, readers beside them, then all stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tornproof.harness.common.history import Event, EventKind, HistoryWriter, decode_file
from tornproof.harness.common.verdict import OnProgress
from tornproof.harness.explorers.processes.counters import Counters, Operation
from tornproof.harness.explorers.processes.messages import DONE, FINISH, GO_ON, PAUSED, READ, RECOVERED, Session
from tornproof.harness.explorers.processes.plan import Plan, plan_kills, plan_last
from tornproof.harness.explorers.processes.reader import Style
from tornproof.harness.explorers.processes.start import Start
from tornproof.harness.explorers.processes.stop import Stopped
from tornproof.harness.explorers.processes.workers import Member, Workers
from tornproof.harness.explorers.processes.writer import CLIENT, operation_of, settled
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import LockMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.write import I64_MAX

WRITER_KILLS_BETWEEN_READER_KILLS = 5
STYLES = (Style.PINNED, Style.FOREIGN, Style.LONG_LIVED, Style.PINNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run does: `kills` writers are killed, and one more ends in order."""

    seed: int
    reader_count: int
    kills: int

    @property
    def writer_count(self) -> int:
        """How many writers there are, one after the other."""
        return self.kills + 1


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the parent itself saw; `pins` are versions that a killed reader may still hold.

    `account` is what the last version must hold, or None where it is not known any more. `deaths` are where writers
    stood when they were killed; those that never came to their place are not among them.
    """

    counters: Counters | None
    writer_kills: int = 0
    has_ended: bool = False
    reader_kills: int = 0
    pinned_reader_kills: int = 0
    freed_pins: int = 0
    pins: list[int] = field(default_factory=list)
    deaths: list[Stopped] = field(default_factory=list)

    @property
    def writer_count(self) -> int:
        """How many writers came to their end."""
        return self.writer_kills + self.has_ended


class Run:
    """One run; `events` are the parent's own."""

    def __init__(
        self, start: Start, workers: Workers, events: HistoryWriter, settings: Settings, on_progress: OnProgress
    ) -> None:
        """Start with the first version."""
        self.outcome = Outcome(counters=start.counters)
        self._start = start
        self._workers = workers
        self._events = events
        self._settings = settings
        self._on_progress = on_progress
        self._counters: Counters = start.counters
        self._pending: Operation | None = None
        self._attempt = 0
        self._readers: list[Member] = []
        self._storage = OperatingSystemStorage()

    def run(self) -> None:
        """Go through all lives; a process that fails by itself ends the run early.

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
                counters=self._counters,
                pending=self._pending,
                attempt=self._attempt,
                seed=self._settings.seed,
                plan=plan,
            )
        )

    def _kill(self, writer: Member) -> None:
        """Let a writer come to where it is to be killed, all readers read beside it, and kill it."""
        stopped = self._accompany(writer, is_to_die=True)
        if writer.has_ended:
            self._settle(writer)
            return
        writer.kill()
        self._events.record(EventKind.KILLED, client=CLIENT)
        self.outcome.writer_kills += 1
        self.outcome.deaths += [stopped] if stopped else []
        self._settle(writer)
        if self._readers and self.outcome.writer_kills % WRITER_KILLS_BETWEEN_READER_KILLS == 0:
            self._kill_reader()
        self._free_pins(others_live=True)

    def _end(self, writer: Member) -> None:
        """Let a writer end in peace, when all readers have."""
        self._accompany(writer, is_to_die=False)
        if not writer.has_ended:
            self._workers.report_progress_all(self._readers, READ)
            for reader in self._readers:
                reader.say(FINISH)
            self._workers.wait_for_ends(self._readers)
            writer.say(GO_ON)
            self._workers.wait_for_ends([writer])
            self._free_pins(others_live=False)
            self.outcome.has_ended = True
        self._settle(writer)

    def _accompany(self, writer: Member, *, is_to_die: bool) -> Stopped | None:
        """Let readers read wherever a writer stops, until it has done all or is to die; return where it then stands."""
        while (said := self._workers.hear(writer)) not in (None, DONE):
            if said == RECOVERED:
                self._start_readers()
                continue
            self._workers.report_progress_all(self._readers, READ)
            if is_to_die and said != PAUSED:
                assert isinstance(said, Stopped)
                return said
            writer.say(GO_ON)
        return None

    def _start_readers(self) -> None:
        """Start the readers once the first writer has made the file of pins, so that every pin is held."""
        for number in range(len(self._readers), self._settings.reader_count):
            self._readers.append(self._workers.start_reader(f"reader-{number}", STYLES[number % len(STYLES)]))

    def _committed_version(self) -> int:
        """Return the version of now, or -1 where a fault that readers will report hides it."""
        try:
            return open_table(self._storage, self._start.table_path).transaction().version
        except TornproofError:
            return -1

    def _settle(self, writer: Member) -> None:
        """Bring the account up to what a writer wrote down before its end."""
        for event in read_events(writer.history):
            if event.kind is EventKind.COMMIT_START:
                self._pending = operation_of(event.details)
                self._attempt = self._pending.attempt + 1
            elif event.kind in (EventKind.RECOVERED, EventKind.COMMIT_ACKNOWLEDGED):
                assert event.version is not None
                counters = settled(self._counters, self._pending, event.version, self._start.form)
                self.outcome.counters = counters
                if counters is None:
                    # The writer itself has failed with that, and the history says why.
                    return
                self._counters, self._pending = counters, None

    def _kill_reader(self) -> None:
        position = self.outcome.reader_kills % len(self._readers)
        reader = self._readers[position]
        # Who pins has a pin then, and keeps it until the next writer has made commits.
        self._workers.report_progress_all([reader], READ)
        reader.kill()
        if not reader.was_killed:
            return
        self._events.record(EventKind.KILLED, client=reader.client)
        self.outcome.reader_kills += 1
        version = pinned_version(read_events(reader.history))
        if version is not None:
            self.outcome.pinned_reader_kills += 1
            self.outcome.pins.append(version)
        self._readers[position] = self._workers.start_reader(reader.client, STYLES[position % len(STYLES)])

    def _free_pins(self, *, others_live: bool) -> None:
        """Try whether a purger could lock what killed readers had pinned.

        While others live, a reader may hold the same version, or the purger its lock: then another try comes later.
        """
        path = self._start.table_path
        if not self.outcome.pins:
            return
        # Whoever pins now pins the committed version, and is not to be disturbed.
        end = self._committed_version() if others_live else I64_MAX
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
    """Return the events of a process that has ended; one that ended early enough left no file."""
    if not history.exists():
        return []
    events, _ = decode_file(history.read_bytes(), file=str(history))
    return events


def pinned_version(events: list[Event]) -> int | None:
    """Return the version that a reader held a pin of at the end of its life."""
    last = [event for event in events if event.kind in (EventKind.PIN, EventKind.UNPIN)][-1:]
    return last[0].version if last and last[0].kind is EventKind.PIN else None
