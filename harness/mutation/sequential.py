"""Commits one after the other, undisturbed: read under a fault and without it, by readers of now and pinned ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from tornproof.harness.mutation.fault import Planting
from tornproof.harness.mutation.ground import Ground
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.table import TableCommits, TableTarget
from tornproof.harness.systems.table_readers import Seen, see, seen_in
from tornproof.impl.errors import TornproofError
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.table.partition import resolve_partition
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.impl.verify.verify import verify_table

SOUND = "the files are sound"
PINNED = "a pinned snapshot stays readable and equal to itself"
ACCOUNTED = "the files account for their bytes and generations as the model does"


class BrokenError(Exception):
    """A property that does not hold."""

    def __init__(self, violated: str) -> None:
        self.violated = violated


class Alone:
    """One run of a scenario's lives by a planted writer; readers are other processes on the same disk."""

    def __init__(self, ground: Ground, planting: Planting) -> None:
        """Begin with the files of the start."""
        self.storage = ground.storage()
        self.read_count = 0
        self._ground = ground
        self._planting = planting
        self._pins: list[tuple[Pin, Seen]] = []
        self._opened = ExitStack()

    def commits(self) -> Iterator[tuple[int, ...]]:
        """Yield what is committed after each commit; raises what committing raises."""
        done: tuple[int, ...] = ()
        for life in self._ground.lives:
            with ExitStack() as opened:
                with self._planting.planted():
                    writer = opened.enter_context(self._planting.target.open_writer(self.storage, self.path))
                for number in life:
                    self._commit(writer, number)
                    done = (*done, number)
                    yield done

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._ground.sound.path

    def pin(self, expected: Seen) -> None:
        """Let a reader pin the version of now."""
        reader = self.storage.fork_life()
        self._pins.append((self._opened.enter_context(pin_committed(reader, self.path)), expected))

    def read(self, expected: Seen) -> None:
        """Read by all readers, with the fault and without it; raises BrokenError."""
        for is_planted in (True, False):
            with ExitStack() as planted:
                if is_planted:
                    planted.enter_context(self._planting.planted())
                self._read(expected, self._planting.target if is_planted else TableTarget())

    def _read(self, expected: Seen, target: TableTarget) -> None:
        self.read_count += 1
        try:
            seen = see(self.storage.fork_life(), self.path, target.reader)
        except TornproofError as error:
            raise BrokenError(Property.REFUSED) from error
        if seen != expected:
            raise BrokenError(Property.WRONG_SNAPSHOT)
        for pin, before in self._pins:
            self.read_count += 1
            try:
                table = open_table(self.storage.fork_life(), self.path)
                seen = seen_in(snapshot_of(table, pin.transaction, target.reader))
            except TornproofError as error:
                raise BrokenError(PINNED) from error
            if seen != before:
                raise BrokenError(PINNED)

    def verify(self) -> None:
        """Verify without the fault; raises BrokenError."""
        if not verify_table(open_table(self.storage, self.path)).sound:
            raise BrokenError(SOUND)

    def close(self) -> None:
        """Give all pins up."""
        self._opened.close()

    def _commit(self, writer: TableCommits, number: int) -> None:
        try:
            with self._planting.planted():
                writer.commit(self._ground.operation(number))
        except TornproofError as error:
            raise BrokenError(Property.COMMIT) from error


def run_alone(ground: Ground, planting: Planting) -> tuple[int, str]:
    """Return how many reads there were, and which property was broken first, or ""."""
    alone = Alone(ground, planting)
    try:
        alone.pin(ground.expected(()))
        for done in alone.commits():
            expected = ground.expected(done)
            alone.read(expected)
            alone.verify()
            alone.pin(expected)
    except BrokenError as broken:
        return alone.read_count, broken.violated
    except Exception:
        return alone.read_count, Property.DISORDERLY
    finally:
        alone.close()
    return alone.read_count, ""


def account(ground: Ground, planting: Planting) -> tuple[int, str]:
    """Return after how many commits the files account for themselves in another way than those without the fault."""
    alone, storage = Alone(ground, planting), ground.storage()
    count = 0
    with ExitStack() as opened:
        opened.callback(alone.close)
        writers = [TableTarget().open_writer(storage, ground.sound.path)]
        for count, done in enumerate(alone.commits(), start=1):
            if done[-1] in ground.sound.second_life[:1]:
                writers.pop().__exit__()
                writers.append(TableTarget().open_writer(storage, ground.sound.path))
            writers[0].commit(ground.operation(done[-1]))
            if _account(storage, ground) != _account(alone.storage, ground):
                return count, ACCOUNTED
    return count, ""


def _account(storage: MemoryStorage, ground: Ground) -> object:
    table = open_table(storage, ground.sound.path)
    report = verify_table(table)
    return report.version, report.partitions, report.unreferenced, _filter_count(table)


def _filter_count(table: Table) -> int:
    """Return how many chunks of the committed version have a bloom filter."""
    resolved = (resolve_partition(table.files_of(each), each) for each in table.transaction().partitions)
    rows = (row for each in resolved for row in each.metadata.generation.blooms)
    return sum(reference is not None for row in rows for reference in row)
