"""Single cases: what random programs leave out, because it is rare, or one of the two cannot do it or does it wrong."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from interop_table import (
    FIRST_HOUR,
    HOUR,
    KNOWN_SYMBOLS,
    OPTIONS,
    SECOND,
    SYMBOLS,
    Ending,
    Form,
    SharedTable,
    alone,
    path_of,
)
from interop_tally import DifferenceError, Tally, demand_equal

import tornproof
from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.server.clients import Plan
from tornproof.harness.explorers.server.explorer import explore_server
from tornproof.harness.systems.server.client import ANSWER_SECONDS_MAX, Client, ServerError, wait
from tornproof.harness.systems.server.process import Server

PARQUET_HOURS = 3
KILLS = 6
NULLS_IN_A_ROW = 40_000
CONVERTED_TABLES = 8
CHECK_ROUNDS = 8
STATEMENTS_BEFORE_KILL = 40
STEPS_TO_DATA = 2
"""Of a commit in place, until new bytes are in data.parquet, and nothing else has changed."""
STEPS_OF_SYMBOLS = 16
"""Of a commit with new symbols, until the dictionary has them."""
NOT_REJECTED = (
    tornproof.CorruptError,
    tornproof.StorageError,
    tornproof.BusyError,
    tornproof.NotATableError,
)
"""What is no answer of a writer that can read the table."""
TYPES = {
    "b": ("BOOLEAN", "true"),
    "y": ("BYTE", "7"),
    "h": ("SHORT", "-300"),
    "c": ("CHAR", "'ß'"),
    "i": ("INT", "-70000"),
    "l": ("LONG", "9007199254740993"),
    "a": ("DATE", "1704067200123"),
    "t": ("TIMESTAMP", "1704067200123456"),
    "f": ("FLOAT", "0.5"),
    "d": ("DOUBLE", "-1e100"),
    "s": ("SYMBOL", "'red'"),
    "r": ("STRING", "'größe 🌡'"),
    "n": ("VARCHAR", "'größe 🌡'"),
    "u": ("UUID", "'11111111-2222-3333-4444-555555555555'"),
    "p": ("IPV4", "'10.0.0.7'"),
    "x": ("LONG256", "CAST('0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef' AS LONG256)"),
    "g": ("GEOHASH(5c)", "#u33dc"),
}
"""Names of columns, their types, and a value as SQL writes it."""


class Outcome(StrEnum):
    """How a case ended."""

    AGREES = "agrees"
    REJECTED = "rejected by our writer"
    SERVER = "defect of the server"
    DIFFERS = "DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case: what was done, how it ended, and what was seen."""

    case: str
    did: str
    outcome: Outcome
    saw: str

    @property
    def is_sound(self) -> bool:
        """Whether it is as it should be on our side."""
        return self.outcome is not Outcome.DIFFERS


Case = Callable[[Server, Tally], tuple[Outcome, str]]


def run_cases(server: Server) -> Iterator[Result]:
    """Run all cases, and yield how each ended."""
    for case in CASES:
        assert case.__doc__ is not None
        name = case.__name__.strip("_").replace("_", " ")
        try:
            outcome, saw = case(server, Tally())
        except (DifferenceError, ServerError, tornproof.TornproofError) as error:
            outcome, saw = Outcome.DIFFERS, str(error)
        if not server.is_alive:
            server.restart()
        yield Result(case=name, did=case.__doc__.rstrip("."), outcome=outcome, saw=saw)


def _every_type(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server writes all types; we copy its rows to other times; it compares the copies as text, and goes on."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
    server.execute(f"CREATE TABLE every_type (ts TIMESTAMP, {columns}) TIMESTAMP(ts) PARTITION BY HOUR WAL")
    values = ", ".join(value for _, value in TYPES.values())
    nulls = ", ".join("NULL" for _ in TYPES)
    for number in range(8):
        hour, minute = divmod(number, 4)
        time = FIRST_HOUR + hour * HOUR + minute * 60 * SECOND
        server.execute(f"INSERT INTO every_type VALUES ({time}, {nulls if number % 4 == 3 else values})")
    server.settle("every_type")
    _apply(server, "every_type", "ALTER TABLE every_type CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'")
    path = path_of(server, "every_type")
    alone(server, path, lambda: tornproof.migrate(path))
    _demand_sound(path)
    shift = 30 * 60 * SECOND
    with tornproof.open(path).snapshot() as snapshot:
        rows = snapshot.to_arrow()
    later = pa.array([time + shift for time in rows["ts"].cast(pa.int64()).to_pylist()], pa.int64())
    copies = rows.set_column(0, rows.schema.field(0), later.cast(rows.schema.field(0).type))
    with tornproof.open(path).writer(OPTIONS) as writer:
        writer.write(copies)
        writer.commit()
    names = ", ".join(TYPES)
    for half in ("2024-01-01T00:00;30m", "2024-01-01T00:30;30m"):
        found = server.execute(f"SELECT {names} FROM every_type WHERE ts IN '{half}'")
        expected = server.execute(f"SELECT {names} FROM every_type WHERE ts IN '2024-01-01T01'")
        demand_equal(f"every type at {half}", expected, found)
    _apply(server, "every_type", f"INSERT INTO every_type VALUES ({FIRST_HOUR + SECOND}, {values})")
    demand_equal("rows afterwards", [[13]], server.execute("SELECT count() FROM every_type"))
    alone(server, path, lambda: tornproof.migrate(path))
    _demand_sound(path)
    with tornproof.open(path).snapshot() as snapshot:
        demand_equal("our rows afterwards", [9], [snapshot.to_arrow().num_rows])
    return Outcome.AGREES, f"{len(TYPES)} types, with nulls, both ways"


def _column_added_and_read_by_the_server_alone(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server adds a column, and reads it in partitions that it converted before; nothing is ours."""
    table = _prepared(server, "column_added_alone", Form(), tally)
    try:
        _add_column(server, table)
        found = server.execute(f"SELECT count(), count(e) FROM {table.name}")
    except ServerError as error:
        return Outcome.SERVER, _failure(server, error)
    demand_equal("rows", [[len(table.rows), 0]], found)
    return Outcome.AGREES, "nulls"


def _column_added_and_partitions_rewritten(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server adds a column; we commit a row with a value there, and rewrite all older partitions; it reads all."""
    table = _prepared(server, "column_added", Form(), tally)
    _add_column(server, table)
    alone(server, table.path, lambda: tornproof.migrate(table.path))
    with tornproof.open(table.path).writer(OPTIONS) as writer:
        for hour in range(PARQUET_HOURS):
            writer.rewrite_partition(FIRST_HOUR + hour * HOUR)
        values = {"ts": FIRST_HOUR + 900 * SECOND, "v": 99, "s": "red", "n": "x", "d": 1.0, "b": True, "e": 5}
        writer.write(pa.table({name: [value] for name, value in values.items()}).cast(writer.schema))
        writer.commit()
    demand_equal("the new column", [[5]], server.execute(f"SELECT e FROM {table.name} WHERE v = 99"))
    count = len(table.rows) + 1
    demand_equal("rows", [[count, 1]], server.execute(f"SELECT count(), count(e) FROM {table.name}"))
    return Outcome.AGREES, f"{count} rows, one with a value in the new column"


def _truncated(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server truncates a table that we had written to, and fills it again; both go on."""
    table = _prepared(server, "truncated", Form(), tally)
    table.we_commit([(0, 40, 1)])
    table.give_to_server()
    _apply(server, "truncated", "TRUNCATE TABLE truncated")
    table.forget_rows()
    table.server_inserts([(hour, minute, 0) for hour in range(3) for minute in range(5)])
    table.server_converts(0)
    table.we_commit([(0, 2, 0), (0, 50, 0)])
    table.end()
    return Outcome.AGREES, "17 rows in the end"


def _indexed_symbols(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We commit to parquet partitions with an indexed symbol column; the server looks rows up by the index."""
    table = _prepared(server, "indexed_symbols", Form(has_index=True), tally)
    saw = _rejection(table.path, lambda: table.we_commit([(0, 40, 1), (1, 0, 2)]))
    if saw is None:
        table.give_to_server()
        return Outcome.AGREES, "its lookups find our rows"
    table.give_to_server()
    _apply(server, "indexed_symbols", "ALTER TABLE indexed_symbols ALTER COLUMN s DROP INDEX")
    table.we_commit([(0, 40, 1), (1, 0, 2)])
    table.give_to_server()
    _apply(server, "indexed_symbols", "ALTER TABLE indexed_symbols ALTER COLUMN s ADD INDEX")
    table.server_inserts([(0, 41, 2)])
    table.end()
    return Outcome.REJECTED, f"{saw}; after DROP INDEX, our commit and ADD INDEX its lookups by the index find all rows"


def _new_symbols(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We commit new symbols, with and without a write-ahead log; the server adds others, restarts, and finds all."""
    for form in (Form(), Form(has_log=False), Form(symbol_capacity=2), Form(has_log=False, symbol_capacity=4)):
        name = f"new_symbols_{form.symbol_capacity}_{form.has_log}".lower()
        table = _prepared(server, name, form, tally)
        ours, theirs = range(KNOWN_SYMBOLS, len(SYMBOLS), 2), range(KNOWN_SYMBOLS + 1, len(SYMBOLS), 2)
        table.we_commit([(0, 1 + index, index) for index in ours])
        table.server_inserts([(1, 1 + index, index) for index in (*ours, *theirs)])
        server.restart()
        table.we_commit([(2, 1 + index, index) for index in range(len(SYMBOLS))])
        table.end()
    return Outcome.AGREES, f"{len(SYMBOLS)} symbols, of which the server had {KNOWN_SYMBOLS}; in 4 tables"


def _symbols_of_killed_commits(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We are killed at each step of adding a symbol, and nobody recovers; the server then adds others, and that one."""
    for form in (Form(symbol_capacity=2), Form(has_log=False, symbol_capacity=4)):
        table = _prepared(server, f"killed_symbols_{form.has_log}".lower(), form, tally)
        table.leaves_dead_bytes = True
        for steps in range(STEPS_OF_SYMBOLS):
            killed = KNOWN_SYMBOLS + steps % (len(SYMBOLS) - KNOWN_SYMBOLS)
            table.we_are_killed([(0, 200 + steps, killed)], after_steps=steps, ends=Ending.NONE)
            if steps % 3 == 0:
                table.server_inserts([(1, 200 + steps, (killed + 1) % len(SYMBOLS)), (1, 300 + steps, killed)])
        table.we_commit([(0, 400 + index, index) for index in range(len(SYMBOLS))])
        table.end()
    return Outcome.AGREES, f"{2 * STEPS_OF_SYMBOLS} kills, before a byte of the partition was written"


def _first_null_of_a_symbol_column(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We commit the first null of a symbol column; the server asks for the latest row of each symbol, and goes on."""
    table = _prepared(server, "first_null", Form(), tally)
    saw = _rejection(table.path, lambda: table.we_commit([(0, 40, None), (2, 1, None)]))
    if saw is not None:
        return Outcome.REJECTED, saw
    table.server_inserts([(0, 20, 0), (2, 0, 0)])
    table.end()
    return Outcome.AGREES, "the server finds the row, and adds others to the partition"


def _parquet_last_without_log(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We add the last partition of a table without write-ahead log; the server inserts a row after it."""
    table = _prepared(server, "last_parquet", Form(has_log=False), tally)
    saw = _rejection(table.path, lambda: table.we_commit([(9, 0, 0)]))
    if saw is not None:
        return Outcome.REJECTED, saw
    try:
        table.server_inserts([(9, 1, 0)])
        table.end()
    except (ServerError, DifferenceError) as error:
        return Outcome.SERVER, _first_part(error)
    return Outcome.AGREES, "the row is there"


def _dead_bytes_of_a_killed_commit(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We are killed in a large commit, and nobody recovers; the server then makes a smaller one."""
    table = _prepared(server, "dead_bytes", Form(), tally)
    table.leaves_dead_bytes = True
    table.we_are_killed([(0, second, 1) for second in range(200)], after_steps=STEPS_TO_DATA, ends=Ending.NONE)
    try:
        table.server_inserts([(0, 40, 0)])
        table.end()
    except (ServerError, DifferenceError, tornproof.TornproofError) as error:
        return Outcome.SERVER, f"{_first_part(error)}; `tornproof recover` before the server starts prevents it"
    return Outcome.AGREES, "all rows are there"


def _created_by_us(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We create a table and fill it; the server is restarted, makes it one with a write-ahead log, and goes on."""
    path = server.data / "created_by_us~1000"
    server.stop()
    columns = {"ts": "TIMESTAMP", "v": "LONG", "n": "VARCHAR", "d": "DOUBLE", "s": "SYMBOL"}
    made = tornproof.create(path, columns, timestamp="ts", partition_by="HOUR", symbol_capacity={"s": 4})
    times = [FIRST_HOUR + number * HOUR // 4 for number in range(10)]
    new = {"ts": times, "v": range(10), "n": ["x", None] * 5, "d": [0.5, None] * 5, "s": [*SYMBOLS[:9], None]}
    saw = _rejection(path, lambda: _commit(made, {name: list(values) for name, values in new.items()}))
    server.start()
    if saw is not None:
        return Outcome.REJECTED, saw
    query = "SELECT ts::long, v, n, d, s FROM created_by_us"
    expected = [list(row) for row in zip(*new.values(), strict=True)]
    demand_equal("rows of a table that we created", expected, server.execute(query))
    server.execute("ALTER TABLE created_by_us SET TYPE WAL")
    server.restart()
    for time, symbol in ((times[0] + SECOND, SYMBOLS[0]), (times[-1] + HOUR, "new")):
        _apply(server, "created_by_us", f"INSERT INTO created_by_us VALUES ({time}, 100, 'y', 0.25, '{symbol}')")
        expected = sorted([*expected, [time, 100, "y", 0.25, symbol]], key=lambda row: row[0])
        demand_equal("rows after the server's commit", expected, server.execute(query))
    for symbol in (*SYMBOLS[:9], "new"):
        found = server.execute(f"{query} WHERE s = '{symbol}'")
        demand_equal(f"rows where s = {symbol!r}", [row for row in expected if row[4] == symbol], found)
    alone(server, path, lambda: tornproof.migrate(path))
    _demand_sound(path)
    return Outcome.AGREES, f"{len(expected)} rows, two of them the server's"


def _altered_and_converted(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server alters tables, makes them ones with a write-ahead log and back, and inserts; nothing is ours."""
    numbers = range(CONVERTED_TABLES)
    for number in numbers:
        server.execute(f"CREATE TABLE converted_{number} (ts TIMESTAMP) TIMESTAMP(ts) PARTITION BY DAY BYPASS WAL")
        for column in range(1 + number):
            server.execute(f"ALTER TABLE converted_{number} ADD COLUMN c{column} INT")
    for day, conversion in enumerate(("", "SET TYPE WAL", "SET TYPE BYPASS WAL", "SET TYPE WAL")):
        if conversion:
            for number in numbers:
                server.execute(f"ALTER TABLE converted_{number} {conversion}")
            server.restart()
            _demand_all_sound(server, numbers)
        for number in numbers:
            _apply(
                server,
                f"converted_{number}",
                f"INSERT INTO converted_{number} (ts) VALUES ({FIRST_HOUR + (24 * day + number) * HOUR})",
            )
            demand_equal("rows", [[1 + day]], server.execute(f"SELECT count() FROM converted_{number}"))
        _demand_all_sound(server, numbers)
    return Outcome.AGREES, f"{len(numbers)} tables are sound after each of 3 conversions, and after each of 4 rows"


def _long_run_of_nulls(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """We commit more nulls of a SYMBOL in a row than pages have rows; the server counts them, and inserts there."""
    server.execute("CREATE TABLE nulls (ts TIMESTAMP, s SYMBOL) TIMESTAMP(ts) PARTITION BY DAY WAL")
    _apply(server, "nulls", f"INSERT INTO nulls VALUES ({FIRST_HOUR}, 'a'), ({FIRST_HOUR + 24 * HOUR}, 'b')")
    path, first = path_of(server, "nulls"), FIRST_HOUR - 24 * HOUR
    times = [first + number for number in range(1 + NULLS_IN_A_ROW)]
    rows = {"ts": times, "s": ["a", *[None] * NULLS_IN_A_ROW]}
    alone(server, path, lambda: _commit(tornproof.open(path), rows, tornproof.WriterOptions()))
    demand_equal("counts", [[3 + NULLS_IN_A_ROW, 3]], server.execute("SELECT count(), count(s) FROM nulls"))
    _apply(server, "nulls", f"INSERT INTO nulls VALUES ({first + SECOND}, 'c')")
    demand_equal("counts", [[4 + NULLS_IN_A_ROW, 4]], server.execute("SELECT count(), count(s) FROM nulls"))
    alone(server, path, lambda: tornproof.migrate(path))
    _demand_sound(path)
    return Outcome.AGREES, f"{NULLS_IN_A_ROW} nulls in a row, and a row of the server beside them"


def _types_changed_and_converted(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server changes types of columns and converts partitions; we read them and commit there; it reads all."""
    server.execute("CREATE TABLE retyped (ts TIMESTAMP, v INT, s STRING) TIMESTAMP(ts) PARTITION BY HOUR WAL")
    values = ", ".join(f"({FIRST_HOUR + hour * HOUR}, {hour}, 'text {hour}')" for hour in range(4))
    server.execute(f"INSERT INTO retyped VALUES {values}, ({FIRST_HOUR + SECOND}, NULL, NULL)")
    server.settle("retyped")
    for change in ("v TYPE LONG", "v TYPE DOUBLE", "s TYPE VARCHAR"):
        _apply(server, "retyped", f"ALTER TABLE retyped ALTER COLUMN {change}")
    hours = ", ".join(f"'2024-01-01T0{hour}'" for hour in range(PARQUET_HOURS))
    _apply(server, "retyped", f"ALTER TABLE retyped CONVERT PARTITION TO PARQUET LIST {hours}")
    path, last = path_of(server, "retyped"), FIRST_HOUR + PARQUET_HOURS * HOUR
    parquet_rows = server.execute(f"SELECT v, s FROM retyped WHERE ts < {last}")
    alone(server, path, lambda: tornproof.migrate(path))
    ours = _our_rows(path, ["v", "s"])
    demand_equal("rows", parquet_rows, ours)
    row = {"ts": [FIRST_HOUR + 2 * SECOND], "v": [0.5], "s": ["ours"]}
    alone(server, path, lambda: _commit(tornproof.open(path), row))
    rows = [*ours[:2], [0.5, "ours"], *ours[2:], [float(PARQUET_HOURS), f"text {PARQUET_HOURS}"]]
    demand_equal("rows", rows, server.execute("SELECT v, s FROM retyped"))
    return Outcome.AGREES, f"{len(rows)} rows of columns whose types were changed 3 times"


def _type_of_a_column_in_front_changed(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server changes the types of columns, one of them after the others, converts, and reads; nothing is ours."""
    server.execute("CREATE TABLE in_front (ts TIMESTAMP, a INT, b INT) TIMESTAMP(ts) PARTITION BY HOUR WAL")
    server.execute(f"INSERT INTO in_front VALUES ({FIRST_HOUR}, 1, 2), ({FIRST_HOUR + HOUR}, 3, 4)")
    server.settle("in_front")
    for change in ("a TYPE DOUBLE", "b TYPE DOUBLE", "a TYPE LONG", "a TYPE DOUBLE"):
        _apply(server, "in_front", f"ALTER TABLE in_front ALTER COLUMN {change}")
    _apply(server, "in_front", "ALTER TABLE in_front CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'")
    path = path_of(server, "in_front")
    found = server.execute("SELECT a, b FROM in_front")
    alone(server, path, lambda: tornproof.migrate(path))
    demand_equal("our rows", [[1.0, 2.0]], _our_rows(path, ["a", "b"]))
    if found == [[1.0, 2.0], [3.0, 4.0]]:
        return Outcome.AGREES, "two rows"
    return Outcome.SERVER, f"values of another column: it reads {found[0]}, and [1.0, 2.0] was inserted"


def _insert_after_a_change_of_type(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server changes the type of a column, converts, and inserts a row of a time that is there; nothing is ours."""
    # One that dies of a statement dies of it again when it is started.
    with _another(server) as own:
        own.execute("CREATE TABLE after (ts TIMESTAMP, n INT, a INT) TIMESTAMP(ts) PARTITION BY HOUR WAL")
        _apply(
            own,
            "after",
            f"INSERT INTO after VALUES ({FIRST_HOUR}, 0, 1), ({FIRST_HOUR + HOUR}, 0, 2)",
            "ALTER TABLE after ALTER COLUMN a TYPE LONG",
            "ALTER TABLE after CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'",
        )
        try:
            _apply(own, "after", f"INSERT INTO after VALUES ({FIRST_HOUR}, 0, 3)")
            found = own.execute("SELECT a FROM after")
        except ServerError as error:
            return Outcome.SERVER, _failure(own, error)
    demand_equal("rows", [[1], [3], [2]], found)
    return Outcome.AGREES, "three rows"


def _renamed_and_converted_back(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server renames a column of a parquet partition, converts that to native, and reads; nothing is ours."""
    server.execute("CREATE TABLE renamed (ts TIMESTAMP, a INT) TIMESTAMP(ts) PARTITION BY HOUR BYPASS WAL")
    server.execute(f"INSERT INTO renamed VALUES ({FIRST_HOUR}, 1), ({FIRST_HOUR + HOUR}, 2)")
    server.execute("ALTER TABLE renamed CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'")
    server.execute("ALTER TABLE renamed RENAME COLUMN a TO b")
    server.execute("ALTER TABLE renamed CONVERT PARTITION TO NATIVE LIST '2024-01-01T00'")
    try:
        found = server.execute("SELECT b FROM renamed")
    except ServerError as error:
        return Outcome.SERVER, _first_part(error).replace(f"{path_of(server, 'renamed').parent}/", "")
    demand_equal("rows", [[1], [2]], found)
    return Outcome.AGREES, "two rows"


def _server_killed(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server is killed among its commits; we migrate, recover, verify; it starts again and has all statements."""
    acknowledged = 0
    for kill in range(KILLS):
        table = _prepared(server, f"server_killed_{kill}", Form(), tally)
        table.take_over()
        for number in range(STATEMENTS_BEFORE_KILL):
            rows = [table._row((number % 3, (7 * number + kill) % 60, 0))]
            time, values = rows[0].time, rows[0].values
            text = "NULL" if values[2] is None else f"'{values[2]}'"
            double = "NULL" if values[3] is None else values[3]
            server.execute(
                f"INSERT INTO {table.name} VALUES ({time}, {values[0]}, 'red', {text}, {double}, {values[4]})"
            )
            acknowledged += 1
        server.kill()
        migration = tornproof.migrate(table.path)
        if not migration.is_complete:
            raise DifferenceError(f"migrate after a kill: {migration}")
        report = tornproof.recover(table.path)
        if report.problems:
            raise DifferenceError(f"recover after a kill: {report.problems}")
        _demand_sound(table.path)
        server.start()
        server.settle(table.name)
        count = len(table.rows) + STATEMENTS_BEFORE_KILL
        demand_equal("rows after the restart", [[count]], server.execute(f"SELECT count() FROM {table.name}"))
        table.drop()
    return Outcome.AGREES, f"{KILLS} of {KILLS} kills; 0 of {acknowledged} acknowledged statements lost"


def _server_upserts_beside_a_border_of_row_groups(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server upserts a row in Parquet; others of its time lie in the row group before; nothing is ours."""
    server.execute(
        "CREATE TABLE border (ts TIMESTAMP, w INT, v LONG) TIMESTAMP(ts) PARTITION BY HOUR WAL DEDUP UPSERT KEYS(ts, w)"
    )
    # The border between row groups of four rows is between the last two rows of the second time.
    keys = [
        (FIRST_HOUR, 0),
        (FIRST_HOUR, 1),
        *((FIRST_HOUR + 1, number) for number in range(3)),
        (FIRST_HOUR + HOUR, 0),
    ]
    _apply(
        server,
        "border",
        "INSERT INTO border VALUES " + ", ".join(f"({time}, {number}, 1)" for time, number in keys),
        "ALTER TABLE border CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'",
        f"INSERT INTO border VALUES ({FIRST_HOUR + 1}, 2, 2)",
    )
    found = server.execute("SELECT v FROM border WHERE w = 2")
    if found == [[2]]:
        return Outcome.AGREES, "the row has its new value"
    return Outcome.SERVER, f"the row that was to be replaced is still there: values {found}"


def _server_killed_in_its_own_commit(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """The server is killed while it appends to a data.parquet; it starts, and commits a row; nothing is ours."""
    server.execute("CREATE TABLE own_commit (ts TIMESTAMP, v LONG) TIMESTAMP(ts) PARTITION BY HOUR BYPASS WAL")
    rows = "INSERT INTO own_commit SELECT ({} + x * {})::timestamp, x FROM long_sequence({})"
    server.execute(rows.format(FIRST_HOUR, 7 * SECOND, 1_000))
    server.execute("ALTER TABLE own_commit CONVERT PARTITION TO PARQUET LIST '2024-01-01T00'")
    (data,) = path_of(server, "own_commit").glob("2024-01-01T00*/data.parquet")
    size = data.stat().st_size
    client = Client(server.address)
    sql = rows.format(FIRST_HOUR, SECOND // 10, 20_000)
    commit = Thread(target=lambda: _answered_or_not(client, sql), daemon=True)
    commit.start()
    wait(lambda: data.stat().st_size > 3 * size, ANSWER_SECONDS_MAX, lambda: "the commit does not append to the file")
    server.kill()
    commit.join()
    server.start()
    demand_equal("rows after the kill", [[1_000]], server.execute("SELECT count() FROM own_commit"))
    server.execute(f"INSERT INTO own_commit VALUES ({FIRST_HOUR + 5}, 5)")
    try:
        demand_equal("rows after the commit", [[1_001]], server.execute("SELECT count(v) FROM own_commit"))
    except (ServerError, DifferenceError) as error:
        return Outcome.SERVER, f"it acknowledges the row, and then: {_first_part(error)}"
    return Outcome.AGREES, "the row is there"


def _answered_or_not(client: Client, sql: str) -> None:
    """Execute a statement that may have no answer."""
    with suppress(ServerError):
        client.execute(sql)


def _checked_while_clients_use_it(server: Server, tally: Tally) -> tuple[Outcome, str]:
    """`check --server`: clients write, read and convert at the same time, and it is killed among their statements."""
    with _another(server) as own:
        phase = explore_server(own, Plan(seed=0), rounds=CHECK_ROUNDS).phase
    found = sorted({f"{finding.property} ({finding.evidence.get('what', 'any table')})" for finding in phase.findings})
    outcome = {Verdict.VALID: Outcome.AGREES, Verdict.INVALID: Outcome.SERVER, Verdict.UNKNOWN: Outcome.DIFFERS}
    return outcome[phase.verdict], "; ".join([*found, phase.note])


CASES: Sequence[Case] = (
    _every_type,
    _column_added_and_read_by_the_server_alone,
    _column_added_and_partitions_rewritten,
    _truncated,
    _indexed_symbols,
    _new_symbols,
    _symbols_of_killed_commits,
    _first_null_of_a_symbol_column,
    _parquet_last_without_log,
    _dead_bytes_of_a_killed_commit,
    _created_by_us,
    _altered_and_converted,
    _long_run_of_nulls,
    _types_changed_and_converted,
    _type_of_a_column_in_front_changed,
    _renamed_and_converted_back,
    _insert_after_a_change_of_type,
    _server_killed,
    _server_upserts_beside_a_border_of_row_groups,
    _server_killed_in_its_own_commit,
    _checked_while_clients_use_it,
)


@contextmanager
def _another(server: Server) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(dir=server.folder) as folder,
        Server(server.release, Path(folder)) as own,
    ):
        yield own


def _prepared(server: Server, name: str, form: Form, tally: Tally) -> SharedTable:
    """Return a table of four hours, of which the server has converted the first three to Parquet."""
    table = SharedTable(server, name, form, tally)
    table.server_inserts([(hour, 3 * number, number % 3) for hour in range(4) for number in range(13)])
    for hour in range(PARQUET_HOURS):
        table.server_converts(hour)
    return table


def _add_column(server: Server, table: SharedTable) -> None:
    _apply(server, table.name, f"ALTER TABLE {table.name} ADD COLUMN e LONG")


def _rejection(path: Path, act: Callable[[], Any]) -> str | None:
    """Return why our writer rejects what it is asked for, None if it does it."""
    try:
        act()
    except NOT_REJECTED:
        raise
    except tornproof.TornproofError as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def _commit(table: tornproof.Table, columns: dict[str, Any], options: tornproof.WriterOptions = OPTIONS) -> None:
    # A server is restarted with the table as one with a write-ahead log.
    with table.writer(options, allow_parquet_last=True) as writer:
        writer.write(pa.table(columns).cast(writer.schema))
        writer.commit()


def _apply(server: Server, table: str, *statements: str) -> None:
    """Execute statements, each once the server has applied the one before to the table."""
    for statement in statements:
        server.execute(statement)
        server.settle(table)


def _our_rows(path: Path, columns: Sequence[str]) -> list[list[Any]]:
    with tornproof.open(path).snapshot() as snapshot:
        return [[*row.values()] for row in snapshot.to_arrow(columns).to_pylist()]


def _failure(server: Server, error: ServerError) -> str:
    return f"{'its process dies' * server.has_died() or 'it refuses'}: {_first_part(error)}"


def _first_part(error: Exception) -> str:
    """Return a message without the server's log, which differs every time."""
    return str(error).partition("; ")[0]


def _demand_all_sound(server: Server, numbers: Iterable[int]) -> None:
    server.stop()
    for number in numbers:
        _demand_sound(path_of(server, f"converted_{number}"))
    server.start()


def _demand_sound(path: Path) -> None:
    report = tornproof.verify(path)
    if not report.sound:
        raise DifferenceError(f"verify: {[*report.all_problems]}")
