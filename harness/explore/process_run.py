"""The course of a run of processes: writers live and die one after the other, readers beside them, then all stops."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.explore.process_account import Account, Operation
from harness.explore.process_crew import WAITING_WRITERS, Crew, Member
from harness.explore.process_kill import PLACES, RECOVERY, Death, Doom, read_testament
from harness.explore.process_messages import READY, RECOVERED, Life
from harness.explore.process_reader import Style
from harness.explore.process_start import Start
from harness.explore.process_writer import CLIENT, operation_of, settled, testament_of
from harness.history import Event, EventKind, HistoryWriter, decode_file
from impl.errors import TornproofError
from impl.operating_system import OperatingSystemStorage
from impl.pins import PINS_FILE
from impl.storage import LockMode
from impl.table import open_table
from impl.transaction_write import I64_MAX

Clock = Callable[[], float]
OnProgress = Callable[[int, int | None], None]

CHOSEN_PLACE_CHANCE = 0.7
RECOVERY_CHANCE = 0.5
OCCURRENCES_MAX = 3
CHOSEN_LIFE_SECONDS = 6.0
"""Only lives whose end does not come last so long; on a slow machine three commits take more than a second."""
LIFE_SECONDS = (0.01, 0.2)
LOOK_SECONDS = 0.05
LAST_LIFE_COMMITS, LAST_LIFE_SECONDS = 8, 20.0
"""The last writer makes so many versions before it ends, so that readers meet some, unless it is too slow."""
WRITER_KILLS_BETWEEN_READER_KILLS = 5
STYLES = (Style.PINNED, Style.FOREIGN, Style.LONG_LIVED, Style.PINNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How long a run goes on: until `kills` writers were killed, at most `seconds`; None means all that time allows."""

    seconds: float
    seed: int
    reader_count: int
    kills: int | None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the parent itself saw; `pins` are versions that a killed reader may still hold.

    `account` is what the last version must hold, or None where it is not known any more.
    """

    account: Account | None
    writer_kills: int = 0
    reader_kills: int = 0
    pinned_reader_kills: int = 0
    freed_pins: int = 0
    pins: list[int] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)


class Run:
    """One run; `events` are the parent's own."""

    def __init__(
        self,
        start: Start,
        crew: Crew,
        events: HistoryWriter,
        settings: Settings,
        clock: Clock,
        on_progress: OnProgress,
    ) -> None:
        """Start with the first version."""
        self.outcome = Outcome(account=start.account)
        self._start = start
        self._crew = crew
        self._events = events
        self._settings = settings
        self._clock = clock
        self._on_progress = on_progress
        self._begin = clock()
        self._draw = np.random.default_rng(settings.seed)
        self._places = deque(PLACES[place] for place in self._draw.permutation(len(PLACES)))
        self._account: Account = start.account
        self._pending: Operation | None = None
        self._attempt = 0
        self._readers: list[Member] = []
        self._storage = OperatingSystemStorage()

    def run(self) -> None:
        """Go through all lives; a process that fails by itself ends the run early. Raises NoAnswerError."""
        self._crew.prepare_writers(self._writers_to_come())
        writer: Member | None = None
        while self._goes_on():
            doom = self._doom() if self._readers else None
            writer = self._crew.next_writer(self._life(doom))
            self._start_readers(writer)
            self._crew.prepare_writers(self._writers_to_come())
            is_awaited = doom is not None and not doom.place.startswith(RECOVERY)
            self._end_life(writer, CHOSEN_LIFE_SECONDS if is_awaited else self._draw.uniform(*LIFE_SECONDS))
            self._on_progress(self.outcome.writer_kills, self._settings.kills)
        if not self._crew.failures():
            self._last_life()

    def _last_life(self) -> None:
        """Let a writer end in peace, when all readers have."""
        writer = self._crew.next_writer(self._life(None))
        self._crew.dismiss_writers()
        self._start_readers(writer)
        if writer.wait_for(RECOVERED) and self._lives_on(writer):
            self._crew.finish(self._readers)
            self._crew.finish([writer])
            self._free_pins(others_live=False)
        self._settle(writer)

    def _lives_on(self, writer: Member) -> bool:
        """Leave the last writer its time; False when it does not live that long."""
        is_all = self._settings.kills == 0
        first = self._committed_version()
        begin = self._clock()
        while self._clock() - begin < (self._settings.seconds if is_all else LAST_LIFE_SECONDS):
            if writer.wait_for_end(LOOK_SECONDS):
                return False
            if not is_all and self._committed_version() >= first + LAST_LIFE_COMMITS:
                break
        return True

    def _committed_version(self) -> int:
        """Return the version of now, or -1 where a fault that readers will report hides it."""
        try:
            return open_table(self._storage, self._start.table_path).transaction().version
        except TornproofError:
            return -1

    def _goes_on(self) -> bool:
        kills = self._settings.kills
        if kills is not None and self.outcome.writer_kills >= kills:
            return False
        return self._clock() - self._begin < self._settings.seconds and not self._crew.failures()

    def _writers_to_come(self) -> int:
        kills = self._settings.kills
        return WAITING_WRITERS if kills is None else kills - self.outcome.writer_kills + 1

    def _start_readers(self, writer: Member) -> None:
        """Start the readers once the first writer has made the file of pins, so that every pin is held."""
        if self._readers or not writer.wait_for(RECOVERED):
            return
        for number in range(self._settings.reader_count):
            self._readers.append(self._crew.start_reader(f"reader-{number}", STYLES[number % len(STYLES)]))
        for reader in self._readers:
            reader.wait_for(READY)

    def _life(self, doom: Doom | None) -> Life:
        return Life(
            account=self._account,
            pending=self._pending,
            attempt=self._attempt,
            seed=self._settings.seed,
            rewrites_early=self.outcome.writer_kills % 2 == 1,
            doom=doom,
        )

    def _doom(self) -> Doom | None:
        """Choose where the next writer dies; without a choice it is killed from outside at a moment of chance."""
        draw, deaths = self._draw, self.outcome.deaths
        place = self._places[0]
        if deaths and deaths[-1].is_published and draw.random() < RECOVERY_CHANCE:
            place = f"{RECOVERY}: append pm"
        elif draw.random() > CHOSEN_PLACE_CHANCE:
            return None
        else:
            self._places.rotate(-1)
        occurrence = 1 if place.startswith(RECOVERY) else int(draw.integers(1, OCCURRENCES_MAX, endpoint=True))
        return Doom(place=place, occurrence=occurrence, written_part=float(draw.random()))

    def _end_life(self, writer: Member, seconds: float) -> None:
        if not writer.wait_for_end(seconds):
            writer.kill()
        if not writer.was_killed:
            return
        self._events.record(EventKind.KILLED, client=CLIENT)
        self.outcome.writer_kills += 1
        death = read_testament(testament_of(writer.history))
        self.outcome.deaths += [death] if death else []
        self._settle(writer)
        if self.outcome.writer_kills % WRITER_KILLS_BETWEEN_READER_KILLS == 0:
            self._kill_reader()
        self._free_pins(others_live=True)

    def _settle(self, writer: Member) -> None:
        """Bring the account up to what a writer wrote down before its end."""
        for event in read_events(writer.history):
            if event.kind is EventKind.COMMIT_START:
                self._pending = operation_of(event.details)
                self._attempt = self._pending.attempt + 1
            elif event.kind in (EventKind.RECOVERED, EventKind.COMMIT_ACKNOWLEDGED):
                assert event.version is not None
                account = settled(self._account, self._pending, event.version, self._start.form)
                self.outcome.account = account
                if account is None:
                    # The writer itself has failed with that, and the history says why.
                    return
                self._account, self._pending = account, None

    def _kill_reader(self) -> None:
        place = self.outcome.reader_kills % len(self._readers)
        reader = self._readers[place]
        reader.kill()
        if not reader.was_killed:
            return
        self._events.record(EventKind.KILLED, client=reader.client)
        self.outcome.reader_kills += 1
        version = pinned_version(read_events(reader.history))
        if version is not None:
            self.outcome.pinned_reader_kills += 1
            self.outcome.pins.append(version)
        self._readers[place] = self._crew.start_reader(reader.client, STYLES[place % len(STYLES)])

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


def deaths_by_place(deaths: list[Death]) -> Counter[str]:
    """Count where lives ended by their doom."""
    return Counter(death.place for death in deaths)
