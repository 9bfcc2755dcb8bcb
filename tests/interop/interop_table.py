"""A table that two writers change in turn, beside the model's rows: the server by SQL, we by files.

Whoever takes the table over first looks at what the other one left, by all its ways of reading.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from interop_tally import DifferenceError, Direction, Tally, demand_equal

import tornproof
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed
from tornproof.harness.systems.server.process import Server
from tornproof.impl.errors import Problem, RowsRejectedError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.model.rows import Change, Content, Interval, Row, after

SECOND = 1_000_000
HOUR = 3_600 * SECOND
FIRST_HOUR = 1_704_067_200 * SECOND
"""2024-01-01T00 UTC in microseconds, the table's unit of time."""
COLUMNS = "ts TIMESTAMP, v LONG, s SYMBOL CAPACITY {capacity}{index}, n VARCHAR, d DOUBLE, b BOOLEAN"
NAMES = ("ts", "v", "s", "n", "d", "b")
SELECTED = "ts::long, v, s, n, d, b"
SYMBOLS = ("red", "green", "größe", "", "Aa", "BB", "🌡", "blue", "a" * 300, "white", "black", "'")
"""The server writes the first ones at the beginning; two have one hash."""
KNOWN_SYMBOLS = 3
TEXT_NULL_EVERY, TEXT_WIDE_EVERY, DOUBLE_NULL_EVERY, TRUE_EVERY = 5, 7, 11, 3
HANDOVERS_MAX = 100
OPTIONS = WriterOptions(row_group_row_count_max=4, rewrite_unused_ratio=0.9)

Done = TypeVar("Done")
NewRow: TypeAlias = tuple[int, int, int | None]
"""The hour of a row, its second within the hour, and the index of its symbol or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What kind of table it is."""

    has_log: bool = True
    has_keys: bool = False
    has_index: bool = False
    symbol_capacity: int = 256

    @property
    def sql(self) -> str:
        """The end of CREATE TABLE."""
        log = "WAL" if self.has_log else "BYPASS WAL"
        return f"TIMESTAMP(ts) PARTITION BY HOUR {log}" + (" DEDUP UPSERT KEYS(ts, s)" if self.has_keys else "")


class Ending(StrEnum):
    """What comes after a killed commit."""

    RECOVER = "killed, then recover"
    NEXT_WRITER = "killed, then the next writer"
    NONE = "killed"


class SharedTable:
    """One table, both writers, and the model."""

    def __init__(self, server: Server, name: str, form: Form, tally: Tally) -> None:
        """Let the server create it."""
        self.server, self.name, self.form, self.tally = server, name, form, tally
        self.content = Content(version=0, partitions=(), interval=Interval.HOUR, ticks=SECOND)
        self.is_ours = False
        self.leaves_dead_bytes = False
        self._has_dead_bytes = False
        self.commit_counts = {"server": 0, "ours": 0}
        self._row_count = 0
        self._left_by_server: list[str] = []
        self._left_by_us: list[str] = []
        columns = COLUMNS.format(index=" INDEX" if form.has_index else "", capacity=form.symbol_capacity)
        server.execute(f"CREATE TABLE {name} ({columns}) {form.sql}")
        self.path = path_of(server, name)

    # The server's operations.

    def server_inserts(self, rows: Sequence[NewRow]) -> None:
        """Insert rows by one statement."""
        self.give_to_server()
        made = [self._row(each) for each in rows]
        parquet = {each.timestamp for each in self._partitions() if each.is_parquet}
        hours = {each.time // HOUR * HOUR for each in made}
        values = ", ".join(f"({each.time}, {', '.join(map(_literal, each.values))})" for each in made)
        operation = "commits into Parquet" if hours & parquet else "commits"
        self._server_does(operation, f"INSERT INTO {self.name} VALUES {values}")
        self.content = _after(self.content, Change(rows=tuple(made)))

    def server_converts(self, hour: int) -> None:
        """Convert a native partition to Parquet."""
        self._server_alters("converts to Parquet", "CONVERT PARTITION TO PARQUET", hour)

    def server_restores(self, hour: int) -> None:
        """Convert a parquet partition back to the native format."""
        self._server_alters("converts to native", "CONVERT PARTITION TO NATIVE", hour)

    def server_drops(self, hour: int) -> None:
        """Drop a partition."""
        self._server_alters("drops a partition", "DROP PARTITION", hour)
        self.content = _after(self.content, Change(dropped=(_start(hour),)))

    def _server_alters(self, operation: str, action: str, hour: int) -> None:
        self.give_to_server()
        self._server_does(operation, f"ALTER TABLE {self.name} {action} LIST '{_hour_name(hour)}'")

    def _server_does(self, operation: str, sql: str) -> None:
        self.server.execute(sql)
        self.server.settle(self.name)
        self.commit_counts["server"] += 1
        self._left_by_server.append(operation)
        self.tally.add(self._left_by_us, Direction.SERVER_CONTINUED)

    # Ours.

    def we_commit(self, rows: Sequence[NewRow]) -> None:
        """Commit rows at once, then remove what no version needs."""
        self.take_over()
        made = [self._row(each) for each in rows]
        before = {each.timestamp: each for each in self._partitions()}
        last = {start: kept[-1].time for start, kept in self.content.partitions}
        with self._writer() as writer:
            writer.write(self._arrow(writer, made))
            # As jobs on Spark do, which servers must not mind.
            writer.announce(repr(made).encode())
            writer.commit()
            removed = writer.purge()
        operations = {_kind_of(each, before.get(each.timestamp), made, last) for each in self._partitions()} - {""}
        self._we_did(operations | ({"purges"} if removed else set()), Change(rows=tuple(made)))

    def we_rewrite(self, hour: int) -> None:
        """Rewrite a parquet partition into a new directory."""
        self.take_over()
        with self._writer() as writer:
            writer.rewrite_partition(_start(hour))
            writer.commit()
        self._we_did(["rewrites"], Change(rewritten=(_start(hour),)))

    def we_drop(self, hour: int) -> None:
        """Drop a partition, if its neighbour's rows tell the table's new bounds."""
        self.take_over()

        def drop(writer: TableWriter) -> None:
            writer.drop_partition(_start(hour))
            writer.commit()

        if self._unless_rejected("drops a partition", drop):
            self._we_did(["drops a partition"], Change(dropped=(_start(hour),)))

    def we_are_rejected(self, rows: Sequence[NewRow], operation: str) -> None:
        """Try to commit rows that only a server can take."""
        self.take_over()

        def commit(writer: TableWriter) -> None:
            writer.write(self._arrow(writer, [self._row(each) for each in rows]))
            writer.commit()

        _demand(not self._unless_rejected(operation, commit), f"{operation}: it must be rejected")

    def we_are_killed(self, rows: Sequence[NewRow], *, after_steps: int, ends: Ending, written_bytes: int = 0) -> None:
        """Die while committing; what comes then is `ends`."""
        self.take_over()
        made = [self._row(each) for each in rows]
        version = tornproof.open(self.path).version
        storage = _MortalStorage(OperatingSystemStorage())
        try:
            with self._writer(storage) as writer:
                writer.write(self._arrow(writer, made))
                storage.arm(Fault.kill(after_steps, written_bytes))
                writer.commit()
        except Killed:
            self.tally.counts["commits of ours that were killed"] += 1
            self._has_dead_bytes = True
        # A version that was seen stays while the machine runs, whether it was acknowledged or not.
        happened = tornproof.open(self.path).version > version
        if ends is Ending.RECOVER:
            self._recover()
        elif ends is Ending.NEXT_WRITER:
            with self._writer():
                pass
        self._we_did([ends.value], Change(rows=tuple(made)) if happened else Change())

    def _recover(self) -> None:
        report = alone(self.server, self.path, lambda: tornproof.recover(self.path))
        _demand(not report.problems, f"recover: {report.problems}")
        self._has_dead_bytes = False

    def _we_did(self, operations: Iterable[str], change: Change) -> None:
        self.tally.add(self._left_by_server, Direction.CONTINUED)
        self._left_by_server = []
        self._left_by_us += operations
        self.commit_counts["ours"] += 1
        self.content = _after(self.content, change)
        self._verify()
        self._compare_with_reads()

    def _unless_rejected(self, operation: str, act: Callable[[TableWriter], None]) -> bool:
        """Return whether it was done; what is rejected must change nothing."""
        version = tornproof.open(self.path).version
        try:
            with self._writer() as writer:
                try:
                    act(writer)
                except RowsRejectedError:
                    writer.rollback()
                    raise
        except (RowsRejectedError, tornproof.UnsupportedError) as error:
            _demand(tornproof.open(self.path).version == version, f"{operation}: rejected, and done all the same")
            self._compare_with_reads()
            self.tally.rejected[operation, _without_names(str(error))] += 1
            return False
        return True

    # Handing over.

    def give_to_server(self) -> None:
        """Let the server compare what we left with the model."""
        if not self.is_ours:
            return
        if self._has_dead_bytes and not self.leaves_dead_bytes:
            # A server takes the size of data.parquet for the end of its next commit (docs/recover.md).
            self._recover()
        self.is_ours = False
        self._compare_with_queries()
        self.tally.add(self._left_by_us, Direction.QUERIED)

    def take_over(self) -> None:
        """Have the server close the table, and compare what it left with the model."""
        if self.is_ours:
            return
        self._adopt_order()
        self._compare_with_queries()
        self.server.release_table(self.path)
        self.is_ours = True
        report = tornproof.verify(self.path)
        if not report.sound:
            # A release that knows no `_pm` leaves an old one beside the data that it has changed in place.
            stale = [each for each in report.all_problems if not _is_about_old_pm(each)]
            _demand(not self.server.release.writes_pm and not stale, f"verify: {[*report.all_problems]}")
            self.tally.counts["tables with a _pm that a server left behind"] += 1
        self.tally.add(self._left_by_server, Direction.VERIFIED)
        migration = alone(self.server, self.path, lambda: tornproof.migrate(self.path))
        _demand(migration.is_complete, f"migrate: {migration.problems} {migration.partitions}")
        self.tally.counts.update(f"migrate: {each.outcome}" for each in migration.partitions)
        self._verify()
        self.tally.add(self._left_by_server, Direction.MIGRATED)
        self._compare_with_reads()
        self.tally.add(self._left_by_server, Direction.READ)
        self.tally.add(self._left_by_us, Direction.READ_AGAIN)
        self._left_by_us = []

    def end(self) -> None:
        """Let both look a last time, and remove the table."""
        self.take_over()
        self.give_to_server()
        self.drop()

    def forget_rows(self) -> None:
        """Take note that the server truncated the table."""
        self.content = replace(self.content, partitions=())

    def drop(self) -> None:
        """Remove the table."""
        self.server.execute(f"DROP TABLE {self.name}")

    # Comparing.

    @property
    def rows(self) -> list[list[Any]]:
        """The model's rows."""
        return [[row.time, *row.values] for _, rows in self.content.partitions for row in rows]

    def hours(self, *, parquet: bool) -> list[int]:
        """Return the hours of the partitions in Parquet, or of those in the native format."""
        return [(each.timestamp - FIRST_HOUR) // HOUR for each in self._partitions() if each.is_parquet is parquet]

    def _adopt_order(self) -> None:
        """Give rows of equal times in the model the order of the server, which does not specify any."""
        found = self.server.execute(f"SELECT {SELECTED} FROM {self.name}")
        places = {repr(row): place for place, row in enumerate(found)}

        def place(row: Row) -> tuple[int, int]:
            return row.time, places.get(repr([row.time, *row.values]), -1)

        ordered = tuple((start, tuple(sorted(rows, key=place))) for start, rows in self.content.partitions)
        self.content = replace(self.content, partitions=ordered)

    def _compare_with_queries(self) -> None:
        query, rows = self.server.execute, self.rows
        demand_equal(f"{self.name}: the server's rows", rows, query(f"SELECT {SELECTED} FROM {self.name}"))
        demand_equal("count()", [[len(rows)]], query(f"SELECT count() FROM {self.name}"))
        for symbol in {row[2] for row in rows}:
            condition = "s IS NULL" if symbol is None else f"s = {_literal(symbol)}"
            found = query(f"SELECT {SELECTED} FROM {self.name} WHERE {condition}")
            demand_equal(f"the server's rows where {condition}", [row for row in rows if row[2] == symbol], found)
        latest = {row[2]: row for row in rows}
        found = query(f"SELECT {SELECTED} FROM {self.name} LATEST ON ts PARTITION BY s")
        demand_equal("LATEST ON ts PARTITION BY s", sorted(latest.values(), key=repr), sorted(found, key=repr))
        for start, kept in self.content.partitions:
            condition = f"ts IN '{_hour_name((start - FIRST_HOUR) // HOUR)}'"
            found = query(f"SELECT v FROM {self.name} WHERE {condition}")
            demand_equal(f"the server's rows where {condition}", [[row.values[0]] for row in kept], found)

    def _compare_with_reads(self) -> None:
        starts = {each.timestamp for each in self._partitions() if each.is_parquet}
        kept = [row for start, rows in self.content.partitions if start in starts for row in rows]
        expected = [[row.time, *row.values] for row in kept]
        with tornproof.open(self.path).snapshot() as snapshot:
            demand_equal("our rows", expected, _plain(snapshot.to_arrow(NAMES)))
            symbol = SYMBOLS[0]
            wanted = [row for row in expected if row[2] == symbol]
            demand_equal(f"our rows where s = {symbol}", wanted, _plain(snapshot.to_arrow(NAMES, f"s = '{symbol}'")))
        partitions = [(each.timestamp, each.row_count) for each in self._partitions()]
        demand_equal("partitions", [(start, len(rows)) for start, rows in self.content.partitions], partitions)

    def _verify(self) -> None:
        report = tornproof.verify(self.path)
        _demand(report.sound, f"verify: {[*report.all_problems]}")

    # Details.

    def _partitions(self) -> tuple[Partition, ...]:
        return open_table(OperatingSystemStorage(), str(self.path)).transaction().partitions

    def _writer(self, storage: Storage | None = None) -> TableWriter:
        return alone(
            self.server,
            self.path,
            lambda: open_writer(storage or OperatingSystemStorage(), str(self.path), options=OPTIONS),
        )

    def _row(self, new: NewRow) -> Row:
        hour, second, index = new
        number = self._row_count
        self._row_count += 1
        symbol = None if index is None else SYMBOLS[index]
        text = None if number % TEXT_NULL_EVERY == 0 else f"text {number}{' größe 🌡' * (number % TEXT_WIDE_EVERY == 0)}"
        double = None if number % DOUBLE_NULL_EVERY == 0 else number / 4
        values = (number, symbol, text, double, number % TRUE_EVERY == 0)
        return Row(_start(hour) + second * SECOND, (symbol,) if self.form.has_keys else None, values)

    def _arrow(self, writer: TableWriter, rows: Sequence[Row]) -> pa.Table:
        columns = zip(*((row.time, *row.values) for row in rows), strict=True)
        return pa.table(dict(zip(NAMES, map(list, columns), strict=True))).cast(writer.schema)


class _MortalStorage(FaultyStorage):
    """As the kernel does for a dead process, it closes files after the kill."""

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Make the call, or die."""
        is_ending = call.kind in (CallKind.CLOSE, CallKind.UNMAP, CallKind.UNLOCK, CallKind.END_VIEW)
        return run() if is_ending else super().intercept(call, run)


def _kind_of(now: Partition, before: Partition | None, rows: Sequence[Row], last: dict[int, int]) -> str:
    """Return what a commit did with a partition, nothing if it has none of the rows."""
    times = [row.time for row in rows if row.time // HOUR * HOUR == now.timestamp]
    if not times:
        return ""
    if before is None:
        return "adds a partition"
    if before.name_txn != now.name_txn:
        return "rewrites for a commit"
    return "appends in place" if min(times) >= last[now.timestamp] else "merges in place"


def _after(content: Content, change: Change) -> Content:
    following = after(content, change)
    assert following is not None, "rows of equal keys in the model"
    return following


def _plain(rows: pa.Table) -> list[list[Any]]:
    columns = [rows[name].cast(pa.int64()) if name == "ts" else rows[name] for name in NAMES]
    return [list(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else str(value)


def _start(hour: int) -> int:
    return FIRST_HOUR + hour * HOUR


def _hour_name(hour: int) -> str:
    day, hour = divmod(hour, 24)
    return f"2024-01-{day + 1:02}T{hour:02}"


def _is_about_old_pm(problem: Problem) -> bool:
    return problem.field == "token" or problem.file.endswith("/_pm")


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise DifferenceError(message)


def _without_names(message: str) -> str:
    """Return a message without what differs between two tables."""
    return message.rpartition(": ")[2]


def alone(server: Server, path: Path, act: Callable[[], Done]) -> Done:
    """Do what a table in use is rejected for, as soon as the server has closed the table."""
    for _ in range(HANDOVERS_MAX):
        server.release_table(path)
        # A job of the server may look into the table at any time, and then leaves it again.
        with suppress(tornproof.BusyError, tornproof.UsageError):
            return act()
    raise DifferenceError("the server does not leave the table")


def path_of(server: Server, name: str) -> Path:
    """Return the directory of a table."""
    (path,) = (each for each in server.data.iterdir() if each.is_dir() and each.name.split("~")[0] == name)
    return path
