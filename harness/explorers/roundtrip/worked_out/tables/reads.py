"""What readers are asked for in words: columns in other letters, empty conditions, bytes, and rows without columns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import metadata_with, new_table
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import table_of_rows
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.pm.block import Block
from tornproof.impl.query.predicate import columns_of, truth
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.query.time_search import TimeRange
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.read.reader_protocol import HARDENED_READER
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.writer_options import WriterOptions

PATH = "table"
NAMES = ("price", "Price", "PRICE", "preis")
DAY_COUNT, DAY = 3, 86_400_000_000
ROWS = [(FIRST_TIME + number, number) for number in range(5)]


def asked_in_words() -> Iterator[Question]:
    """Yield columns as tables and conditions write them, conditions that are empty or without columns, and bytes."""
    for names, asked in itertools.product((*zip(NAMES), ("price", "PRICE"), ("a", "Preis")), NAMES):
        same = [name for name in names if name == asked] or [each for each in names if each.lower() == asked.lower()]
        words = f"which of the columns {', '.join(names)} a condition on {asked} is about"
        yield ask("columns asked for", words, same[0] if len(same) == 1 else "PredicateError", _column_of, names, asked)
    for where, expected in ((None, len(ROWS)), ("v > 2", 2), ("", "PredicateError"), (" ", "PredicateError")):
        for columns in (None, [], ["ts"]):
            words = f"how many rows of the columns {columns} come where {where!r} holds"
            yield ask("rows asked for", words, expected, _row_count, where, columns)
    for start, end in itertools.product((None, "", " ", "2024-01-01"), repeat=2):
        words = f"what comes of the rows from {start!r} to {end!r}"
        is_right = not {"", " "} & {start, end} and (start is None or end is None or start <= end)
        found = functools.partial(_range_of, start, end)
        yield Question("times asked for", words, found, (start is None, end is None) if is_right else "TimeTextError")
    for width, size_bytes in itertools.product((2, 16, 20), repeat=2):
        words = f"how many of two values of {width} bytes without a type are equal to one of {size_bytes}"
        count = 1 if width == size_bytes else "PredicateError"
        yield ask("bytes asked for", words, count, _equal_bytes, width, size_bytes)

    for shown in (["ts", "v"], ["v", "ts"], ["v"], ["ts"], []):
        words = f"which of the columns {shown} may have nulls"
        yield ask("nulls asked for", words, [each != "ts" for each in shown], _nullable, shown)
    for gone, column in itertools.product(("", "first", "last"), ("ts", "last")):
        if column != gone:
            words = f"which rows of three come by the time of the second, {gone or 'nothing'} dropped before"
            yield ask("times asked for", f"{words}, as {column}", [1], _by_time, gone, column)
    for start_at, end_at in itertools.product((None, 0, 1, 3), repeat=2):
        words = f"which of the first three microseconds come from {start_at} to {end_at}"
        times = [each for each in range(3) if (start_at or 0) <= each < (3 if end_at is None else end_at)]
        yield ask("times asked for", words, times, _between, start_at, end_at)
    days = itertools.combinations_with_replacement(range(DAY_COUNT), 2)
    for (first, last), damaged in itertools.product(days, range(DAY_COUNT)):
        words = f"which values come of the days {first} to {last}, if the metadata of day {damaged} is damaged"
        values = "CorruptError" if first <= damaged <= last else [*range(first, last + 1)]
        yield ask("times asked for", words, values, _beside_damage, damaged, first, last)
    for null_count, expected in ((0, len(ROWS)), (1, "CorruptError"), (None, len(ROWS))):
        words = f"how many rows come for a reader that expects {null_count} nulls in each column without any"
        yield ask("nulls asked for", words, expected, _expecting, null_count)


def _beside_damage(damaged: int, first: int, last: int) -> Any:
    """Return the values of some days of a table in which the metadata of one day is empty."""
    image = table_of_rows(PATH, [(FIRST_TIME + number * DAY, number) for number in range(DAY_COUNT)])
    path = sorted(path for path in image.files if path.endswith(PM_FILE))[damaged]
    storage = MemoryStorage.of(image.with_file(path, b""))
    times = TimeRange(start=FIRST_TIME + first * DAY, end=FIRST_TIME + last * DAY + 1)

    def found() -> list[int]:
        batches = open_snapshot(open_table(storage, PATH)).batches(["v"], times=times)
        return [value for batch in batches for value in batch.column(0).to_pylist()]

    return outcome_of(found)


def _expecting(null_count: int | None) -> Any:
    def described(block: Block) -> Block:
        return replace(block, chunks=tuple(replace(chunk, null_count=null_count) for chunk in block.chunks))

    snapshot = open_snapshot(_snapshot().table, replace(HARDENED_READER, described=described))
    return outcome_of(lambda: sum(batch.num_rows for batch in snapshot.batches()))


def _between(start: int | None, end: int | None) -> list[int]:
    """Return the times of the rows of a table at the epoch from one time to another."""
    snapshot = open_snapshot(open_table(table_of_rows(PATH, [(time, time) for time in range(3)]), PATH))
    batches = snapshot.batches(["ts"], times=TimeRange(start=start, end=end))
    return [value for batch in batches for value in batch.column(0).cast(pa.int64()).to_pylist()]


def _by_time(gone: str, column: str) -> list[int]:
    """Return the values of the rows at a time, each in a row group of its own, of a partition without a column."""
    storage = MemoryStorage()
    new_table(storage, PATH, {"first": "LONG", "ts": "TIMESTAMP", "last": "LONG"})
    content = metadata_with(storage, PATH, lambda columns: (each for each in columns if each.name != gone))
    storage = MemoryStorage.of(storage.image().with_file(f"{PATH}/{META_FILE}", content))
    with open_writer_of_copy(storage, PATH, options=WriterOptions(row_group_row_count_max=1)) as writer:
        values = {"first": [7, 8, 9], "ts": [time for time, _ in ROWS[:3]], "last": range(3)}
        writer.write(pa.table({name: values[name] for name in writer.schema.names}).cast(writer.schema))
        writer.commit()
    snapshot = open_snapshot(open_table(storage, PATH))
    time = ROWS[1][0]
    batches = snapshot.batches([column], times=TimeRange(start=time, end=time + 1))
    found = [value for batch in batches for value in batch.column(0).cast(pa.int64()).to_pylist()]
    return [value - FIRST_TIME for value in found] if column == "ts" else found


def _nullable(names: list[str]) -> list[bool]:
    snapshot = _snapshot()
    return [field.nullable for field in snapshot.schema_of(snapshot.selected(names))]


def _equal_bytes(width: int, size_bytes: int) -> Any:
    column = SnapshotColumn(
        id=0, name="h", type=-1, physical_type=PhysicalType.FIXED_LEN_BYTE_ARRAY, fixed_byte_len=width
    )
    values = pa.array([bytes(width), b"\x22" * width], pa.binary(width))
    where = f"h = x'{'22' * size_bytes}'"
    return outcome_of(lambda: truth(parse_predicate(where, [column]), {0: values}).to_pylist().count(True))


def _column_of(names: tuple[str, ...], asked: str) -> str:
    columns = [
        SnapshotColumn(id=number, name=name, type=TypeTag.LONG, physical_type=2) for number, name in enumerate(names)
    ]
    try:
        predicate = parse_predicate(f"{asked} = 1", columns)
    except PredicateError as error:
        return type(error).__name__
    column = the_only(columns_of(predicate))
    return column.name


def _row_count(where: str | None, columns: list[str] | None) -> Any:
    snapshot = _snapshot()
    return outcome_of(
        lambda: sum(batch.num_rows for batch in snapshot.batches(columns, where=snapshot.condition(where)))
    )


@functools.cache
def _range_of(start: str | None, end: str | None) -> Any:
    """Return which end of a range of times is none."""

    def found() -> tuple[bool, bool]:
        times = _snapshot().time_range(start, end)
        return times.start is None, times.end is None

    return outcome_of(found)


def _snapshot() -> Snapshot:
    return open_snapshot(open_table(table_of_rows(PATH, ROWS), PATH))
