"""Whether a writer takes rows by the names of their columns and by their times, and refuses what fits no partition.

What is refused must be said of the column or time, and leave the table as it is; columns that are missing have null, or
false and 0 where their type has none (docs/types.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.explorers.corruption.every_type import TYPES
from tornproof.harness.explorers.roundtrip.writing.kills import WRITER, Littering, UnnamedError
from tornproof.harness.explorers.roundtrip.writing.offered_values import NEVER_NULL
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.write.incoming_rows import in_time_order, portions

PROPERTY = "a writer takes rows by the names of their columns and by their times"
PATH, TIME = "rows", "c0"
INCOMING = "tornproof.impl.write.incoming_rows"
NOON = 1_704_110_400_000_000
"""Of the first day of 2024, in microseconds."""
HOUR = 3_600 * 10**6
LONG, SYMBOL = (f"c{TYPES.index(name)}" for name in ("LONG", "SYMBOL"))
MISSING = {f"c{number}": False if of == "BOOLEAN" else 0 for number, of in enumerate(TYPES) if of in NEVER_NULL}
END_TIME = 253_402_300_800_000_000
"""The end of the year 9999, in microseconds."""

Rows: TypeAlias = pa.Table | pa.RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRows:
    """Rows that are written one after the other, and values of each row in order of time; or what a refusal names."""

    name: str
    kind: str
    written: tuple[Rows, ...]
    rows: tuple[dict[str, Any], ...] = ()
    named: tuple[str, ...] = ()
    partition_by: PartitionBy = PartitionBy.DAY
    directories: tuple[str, ...] = ()
    symbols_max: int = 1 << 20


@functools.cache
def offered_rows() -> tuple[OfferedRows, ...]:
    """Return all rows, always in the same order."""
    return (*_named(), *_misnamed(), *_placed(), *_misplaced(), *_nulls(), *_symbols())


def problem_of(case: OfferedRows) -> str | None:
    """Say what is wrong with what becomes of rows; None if nothing is."""
    storage = MemoryStorage()
    types = dict(zip(columns_of_all(), TYPES, strict=True))
    table = new_table(storage, PATH, types, partition_by=case.partition_by)
    few_symbols = replaced("tornproof.impl.limits:SYMBOL_COUNT_LIMIT", case.symbols_max)
    with open_writer_of_copy(storage, PATH) as writer, few_symbols:
        before = storage.image().files
        try:
            for each in case.written:
                writer.write(each)
            writer.commit()
        except RowsRejectedError as error:
            writer.rollback()
            if not case.named:
                return f"they are refused: {error}"
            if storage.image().files != before:
                return "they are refused, and files have changed"
            missing = [each for each in case.named if each not in str(error)]
            return f"they are refused without {', '.join(missing)}: {error}" if missing else None
    if case.named:
        return "they are taken"
    directories = tuple(table.directory_of(each).rpartition(".")[0] for each in table.transaction().partitions)
    if case.directories and directories != case.directories:
        return f"they are in {directories}, and should be in {case.directories}"
    batches = list(open_snapshot(table).batches())
    found = pa.Table.from_batches(batches, open_snapshot(table).schema)
    found = found.set_column(0, TIME, found[TIME].cast(pa.int64())).to_pylist()
    wanted = [dict.fromkeys(columns_of_all()) | MISSING | each for each in case.rows]
    different = next((each for each in zip(found, wanted, strict=False) if each[0] != each[1]), None)
    if different is not None:
        return f"a row is {_short(different[0])}, and should be {_short(different[1])}"
    return None if len(found) == len(wanted) else f"{len(found)} rows are there, and should be {len(wanted)}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that take, lose or place rows wrongly, or name other columns."""
    writer, conform = WRITER, original_of(f"{WRITER}:conform")

    def conform_known(rows: Rows, schema: pa.Schema, time: str, *of: Any) -> pa.Table:
        return conform(rows.select([name for name in rows.schema.names if name in schema.names]), schema, time, *of)

    def conform_capitals(rows: Rows, *of: Any) -> pa.Table:
        return conform(rows.rename_columns([name.upper() for name in rows.schema.names]), *of)

    sound: Controls = (
        ("rows stay as they are written", f"{writer}:in_time_order", lambda rows, _: rows, "a row is"),
        (
            "rows of one time are turned round",
            f"{writer}:in_time_order",
            partial(_turned_round, in_time_order),
            "a row",
        ),
        ("rows of all times are dropped", f"{writer}:portions", lambda *_: iter(()), "rows are there, and should be"),
        ("columns by their positions", f"{writer}:conform", lambda rows, schema, *_: _by_position(rows, schema)),
        ("names are in capital letters", f"{writer}:conform", conform_capitals, "they are refused: there is no column"),
    )
    placed: Controls = (
        ("later partitions are left out", f"{writer}:portions", lambda *of: list(portions(*of))[:1], "they are in"),
    )
    misnamed: Controls = (
        ("columns that are not there are left out", f"{writer}:conform", conform_known, "they are taken"),
        ("no column is named", f"{INCOMING}:RowsRejectedError", UnnamedError, "they are refused without"),
        ("a file is left", f"{writer}:TableWriter", Littering, "they are refused, and files have changed"),
    )
    yield from not_noticed(sound, problem_of, [*_named()])
    yield from not_noticed(placed, problem_of, [*_placed()])
    yield from not_noticed(misnamed, problem_of, [*_misnamed()])


def columns_of_all() -> tuple[str, ...]:
    """Return the names of all columns."""
    return tuple(f"c{number}" for number in range(len(TYPES)))


def _turned_round(in_order: Callable[..., pa.Table], rows: pa.Table, name: str) -> pa.Table:
    return in_order(rows.take(pa.array(range(len(rows))[::-1], pa.int64())), name)


def _by_position(rows: Rows, schema: pa.Schema) -> pa.Table:
    arrays = [column.cast(of) for column, of in zip(rows.columns, schema.types, strict=False)]
    missing = [pa.nulls(len(rows)).cast(each.type) for each in list(schema)[len(arrays) :]]
    return pa.Table.from_arrays([*arrays, *missing], schema=schema)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _named() -> Iterator[OfferedRows]:
    times, numbers = pa.array([NOON, NOON + 1]), pa.array([7, 8])
    wanted = ({TIME: NOON, LONG: 7}, {TIME: NOON + 1, LONG: 8})
    table = pa.table({TIME: times, LONG: numbers})
    for name, written in (
        ("columns in order", table),
        ("columns in another order", table.select([LONG, TIME])),
        ("a record batch", table.to_batches()[0]),
        ("rows in the opposite order", table.take(pa.array([1, 0]))),
        ("rows in pieces", pa.concat_tables([table[:1], table[1:]])),
        ("naive times", table.set_column(0, TIME, times.cast(pa.timestamp("us")))),
        ("times of another zone", table.set_column(0, TIME, times.cast(pa.timestamp("us", "America/Lima")))),
        ("whole nanoseconds", table.set_column(0, TIME, times.cast(pa.timestamp("us")).cast(pa.timestamp("ns")))),
    ):
        yield OfferedRows(name=name, kind="named", written=(written,), rows=wanted)
    yield OfferedRows(name="rows in two writes", kind="named", written=(table[1:], table[:1]), rows=wanted)
    only_times = pa.table({TIME: times})
    yield OfferedRows(name="only times", kind="named", written=(only_times,), rows=({TIME: NOON}, {TIME: NOON + 1}))
    yield OfferedRows(name="no rows", kind="named", written=(table[:0],))
    same = pa.table({TIME: [NOON] * 4, LONG: [3, 1, 2, 1]})
    in_order = tuple({TIME: NOON, LONG: number} for number in (3, 1, 2, 1))
    yield OfferedRows(name="rows of one time", kind="named", written=(same[:2], same[2:]), rows=in_order)


def _misnamed() -> Iterator[OfferedRows]:
    times = pa.array([NOON])
    for name, arrays, names, named in (
        ("a column that is not there", [times, times], [TIME, "C1 "], ("'C1 '",)),
        ("a column in capital letters", [times, times], [TIME, LONG.upper()], (f"'{LONG.upper()}'",)),
        ("two columns of one name", [times, times, times], [TIME, LONG, LONG], ("name",)),
        ("two times", [times, times], [TIME, TIME], ("name",)),
        ("no time", [times], [LONG], (f"'{TIME}'",)),
        ("no columns", [], [], (f"'{TIME}'",)),
        ("a null in place of a time", [pa.array([NOON, None])], [TIME], (f"'{TIME}'", "row 1")),
        ("times of no type", [pa.nulls(2)], [TIME], (f"'{TIME}'", "row 0")),
        ("parts of microseconds", [pa.array([NOON * 1000 + 1], pa.timestamp("ns"))], [TIME], (f"'{TIME}'",)),
        ("text in place of times", [pa.array(["2024-01-01 noon"])], [TIME], (f"'{TIME}'",)),
    ):
        rows = pa.Table.from_arrays(arrays, names=names)
        yield OfferedRows(name=name, kind="misnamed", written=(rows,), named=named)


def _nulls() -> Iterator[OfferedRows]:
    for of in sorted(NEVER_NULL):
        name = f"c{TYPES.index(of)}"
        for row in range(3):
            values = pa.array([None if number == row else 1 for number in range(3)], pa.int8())
            rows = pa.table({TIME: [NOON] * 3, name: values})
            named = (f"'{name}'", f"row {row}")
            yield OfferedRows(name=f"a null of {of} in row {row}", kind="null", written=(rows,), named=named)


def _symbols() -> Iterator[OfferedRows]:
    """Yield as many symbols as a column may have, in one write and in two, and one more."""
    for count, ends in ((3, (3,)), (3, (1, 3)), (4, (4,)), (4, (3, 4))):
        every = pa.table({TIME: range(NOON, NOON + count), SYMBOL: [f"symbol {each}" for each in range(count)]})
        written = tuple(every[start:end] for start, end in zip((0, *ends), ends, strict=False))
        rows = tuple({TIME: NOON + each, SYMBOL: f"symbol {each}"} for each in range(count))
        yield OfferedRows(
            name=f"{count} symbols where 3 may be, up to {ends}",
            kind="symbols",
            written=written,
            rows=rows,
            named=(f"'{SYMBOL}'",) if count > 3 else (),
            symbols_max=3,
        )


def _placed() -> Iterator[OfferedRows]:
    """Yield times at the bounds of partitions, and the directories of these."""
    for by, before, after, directories in (
        (PartitionBy.HOUR, NOON - 1, NOON, ("2024-01-01T11", "2024-01-01T12")),
        (PartitionBy.DAY, NOON - 12 * HOUR - 1, NOON - 12 * HOUR, ("2023-12-31", "2024-01-01")),
        (PartitionBy.WEEK, NOON - 12 * HOUR - 1, NOON - 12 * HOUR, ("2023-W52", "2024-W01")),
        (PartitionBy.MONTH, NOON - 12 * HOUR - 1, NOON - 12 * HOUR, ("2023-12", "2024-01")),
        (PartitionBy.YEAR, NOON - 12 * HOUR - 1, NOON - 12 * HOUR, ("2023", "2024")),
        (PartitionBy.DAY, 0, 24 * HOUR, ("1970-01-01", "1970-01-02")),
        # The first week begins before 1970.
        (PartitionBy.WEEK, 0, 4 * 24 * HOUR, ("1970-W01", "1970-W02")),
        # Partitions of the last interval are not taken: the end of each is compared.
        (PartitionBy.YEAR, 0, END_TIME - 365 * 24 * HOUR - 1, ("1970", "9998")),
        (PartitionBy.DAY, 0, END_TIME - 24 * HOUR - 1, ("1970-01-01", "9999-12-30")),
    ):
        rows = pa.table({TIME: [after, before], LONG: [2, 1]})
        wanted = ({TIME: before, LONG: 1}, {TIME: after, LONG: 2})
        name = f"times around {directories[1]}"
        yield OfferedRows(
            name=name, kind="placed", written=(rows,), rows=wanted, partition_by=by, directories=directories
        )


def _misplaced() -> Iterator[OfferedRows]:
    """Yield times before 1970 and in the year 10000, alone and beside others."""
    for time in (-1, -HOUR, -(1 << 63), END_TIME, (1 << 63) - 1):
        for more in ((), (NOON,)):
            rows = pa.table({TIME: [*more, time]})
            name = f"a time of {time} beside {len(more)} others"
            yield OfferedRows(name=name, kind="misplaced", written=(rows,), named=(str(time),))
