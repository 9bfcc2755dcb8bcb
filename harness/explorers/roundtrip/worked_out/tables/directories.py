"""The names of partitions' directories, and the intervals of time that they stand for."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.metadata.usual_records import partition_of
from tornproof.harness.explorers.roundtrip.parquet.partition_contents import Contents
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import files_of, storage_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.table import partition_names
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import TXN_FILE

PATH = "table"
DAYS = ("1969-12-31", "1970-01-01", "2019-12-30", "2020-02-29", "2021-01-03", "2024-12-31", "2026-11-27")
TIMES = (
    *("00:00:00", "07:00:00", "23:00:00", "07:00:30", "07:50:00", "07:50:30", "00:00:01", "00:01:00", "23:59:59"),
    *("07:00:00.5", "00:00:00.000001", "07:50:30.999999", "23:59:59.100000", "23:59:59.999999"),
)
NO_DIRECTORIES = (
    *("", ".1", "2024-", "24-01-01", "2024-1-01", "2024-01-01-1", "2024-W5", "2024-W05-", "2024-W05-12", "2024/01"),
    *("x2024", "default1", "2024-01-01.", "2024-01-01.x", "2024-01-01.-1", "2024-01-01.1.2", "2024-01-01 "),
    *("2024-01-01.detached", "2024-01-01.5.attachable", "2024-01-01.tmp", "2024.old", "2024-01-01T", "2024-01-01T7"),
    *("2024-01-01T0750", "2024-01-01T075030-", "2024-01-01T075030-1", "2024-01-01T075030-1234567", "2024T07", "_pm"),
)
"""Names that no partition's directory has: others of operators and servers begin like it."""
LAST_DAY, HOUR = "9999-12-31T23:00:00", 3_600_000_000
"""An hour before the year 10000, with which all intervals end; after it there is no time."""
NANOSECONDS = (0, 1, 120, 999)
SPLIT_TIME = "2026-11-27T07:50:30"
SPLIT_FRACTIONS = {"TIMESTAMP": (0, 1, 999_999), "TIMESTAMP_NS": (0, 1, 1_000, 999_999_999)}
"""What is added to this time, at which no interval begins, in the unit of each type."""
UNITS = {PartitionBy.YEAR: "Y", PartitionBy.MONTH: "M", PartitionBy.DAY: "D", PartitionBy.HOUR: "h"}


def directories() -> Iterator[Question]:
    """Yield names of partitions, which begin at an interval or where a server has split one, and their intervals."""
    for (day, time), by in itertools.product(itertools.product(DAYS, TIMES), PartitionBy):
        for nanosecond in (None, *(NANOSECONDS if "." in time else NANOSECONDS[:2])):
            is_fine = nanosecond is not None
            start = np.datetime64(f"{day}T{time}", "ns" if is_fine else "us") + (nanosecond or 0)
            timestamp = int(start.astype(np.int64))
            words = f"a partition by {by.name.lower()} at {start}"
            name = _directory(start, by)
            settings: dict[str, Any] = {"partition_by": by, "nanoseconds": is_fine}
            for txn in (-1, 0, 12):
                suffix = "" if txn == -1 else f".{txn}"
                yield ask(
                    "directories",
                    f"the directory of {words}",
                    (name + suffix,),
                    partition_names.directory_names,
                    timestamp,
                    txn,
                    **settings,
                )
                yield ask(
                    "names",
                    f"the parts of {name + suffix}",
                    (True, (name, txn if suffix else -1)),
                    _parts_of,
                    name + suffix,
                )
            asked = f"which directory is that of {words}, if the table has no _meta"
            yield ask("directories", asked, name, _found_without_meta, timestamp, name)
            first, end = interval_of(start, by)
            yield ask("starts", f"the start of {words}", first, partition_names.interval_start, timestamp, **settings)
            yield ask("ends", f"the end of {words}", end, partition_names.interval_end, timestamp, **settings)

    for by in PartitionBy:
        timestamp = int(np.datetime64(LAST_DAY, "us").astype(np.int64))
        found = functools.partial(partition_names.interval_end, timestamp, partition_by=by, nanoseconds=False)
        end = None if by is PartitionBy.NONE else timestamp + HOUR
        yield Question("ends", f"the end of a partition by {by.name.lower()} at {LAST_DAY}", found, end)
    for name in NO_DIRECTORIES:
        is_one = functools.partial(partition_names.looks_like_partition, name)
        yield Question("names", f"whether {name!r} is a partition's directory", is_one, False)
    yield from _rewritten()


def _parts_of(name: str) -> tuple[bool, tuple[str, int]]:
    return partition_names.looks_like_partition(name), partition_names.split_name(name)


def _rewritten() -> Iterator[Question]:
    """Yield partitions that a server has split off, and where their rows are once they are rewritten."""
    intervals = [each for each in PartitionBy if each is not PartitionBy.NONE]
    for by, (of, fractions) in itertools.product(intervals, SPLIT_FRACTIONS.items()):
        for fraction in fractions:
            start = np.datetime64(SPLIT_TIME, "ns" if of == "TIMESTAMP_NS" else "us") + fraction
            name, timestamp = _directory(start, by), int(start.astype(np.int64))
            words = f"the rows, by directory, of a partition by {by.name.lower()} at {start} that is rewritten"
            yield ask("directories", words, {f"{name}.1": 1}, _rows_rewritten, timestamp, name, by, of)


def _rows_rewritten(timestamp: int, name: str, by: PartitionBy, of: str) -> dict[str, int]:
    """Return the rows in each directory of a table with one partition, which begins at its only row."""
    storage = MemoryStorage()
    new_table_of_rows(storage, PATH, {"ts": of}, [timestamp], partition_by=by)
    table, files = open_table(storage, PATH), files_of(storage.image())
    partition = the_only(table.transaction().partitions)
    whole, content = table.directory_of(partition), bytearray(files[TXN_FILE])
    struct.pack_into("<q", content, partition.entry_offset_bytes, timestamp)
    split = {path.replace(f"{whole}/", f"{name}.0/"): each for path, each in files.items()}
    storage = storage_of({**split, TXN_FILE: bytes(content)})
    with open_writer_of_copy(storage, PATH) as writer:
        writer.rewrite_partition(timestamp)
        writer.commit()
    table = open_table(storage, PATH)
    partitions = table.transaction().partitions
    return {table.directory_of(each): Contents.of(table, each).metadata.row_count for each in partitions}


def _found_without_meta(timestamp: int, name: str) -> str:
    """Return the directory of a partition of a table that has only this one, and says nothing of its intervals."""
    storage = MemoryStorage()
    storage.mkdir(PATH)
    storage.mkdir(f"{PATH}/{name}")
    return Table(storage=storage, path=PATH, metadata=None).directory_of(partition_of(1, timestamp=timestamp))


def _directory(start: np.datetime64, by: PartitionBy) -> str:
    if by is PartitionBy.NONE:
        return "default"
    interval, day = _interval_name(start, by), str(start.astype("datetime64[D]"))
    first = interval_of(start, by)[0]
    if first == int(start.astype(np.int64)):
        return interval
    if by is PartitionBy.WEEK:
        day = f"{interval}-{1 + _weekday(start)}"
    clock, _, fraction = str(start).partition("T")[2].partition(".")
    hours, minutes, seconds = clock.split(":")
    if int(fraction):
        return f"{day}T{hours}{minutes}{seconds}-{fraction}"
    if minutes + seconds != "0000":
        return f"{day}T{hours}{minutes}{seconds}"
    return f"{day}T{hours}" if hours != "00" else day


def _interval_name(start: np.datetime64, by: PartitionBy) -> str:
    if by is PartitionBy.WEEK:
        # A week is of the year in which its Thursday is.
        thursday = start.astype("datetime64[D]") - _weekday(start) + 3
        week = int((thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)) // 7 + 1
        return f"{thursday.astype('datetime64[Y]')}-W{week:02d}"
    return str(start.astype(f"datetime64[{UNITS[by]}]"))


def _weekday(start: np.datetime64) -> int:
    """Return the days since the last Monday."""
    return (int(start.astype("datetime64[D]").astype(np.int64)) + 3) % 7


def interval_of(start: np.datetime64, by: PartitionBy) -> tuple[int | None, int | None]:
    """Return where the interval begins and ends, in the unit of the time."""
    if by is PartitionBy.NONE:
        return None, None
    unit = np.datetime_data(start)[0]
    if by is PartitionBy.WEEK:
        first = start.astype("datetime64[D]") - _weekday(start)
        following = first + 7
    else:
        first = start.astype(f"datetime64[{UNITS[by]}]")
        following = first + 1
    begin, end = (int(each.astype(f"datetime64[{unit}]").astype(np.int64)) for each in (first, following))
    return begin, end
