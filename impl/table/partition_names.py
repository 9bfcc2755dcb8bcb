"""The name of a partition's directory, from its timestamp, the table's interval and the name's transaction."""

from __future__ import annotations

import datetime
import re

from tornproof.impl.table.metadata_file import PartitionBy

NANOSECONDS_IN_MICROSECOND = 1_000
UNPARTITIONED_DIRECTORY = "default"
EPOCH = datetime.datetime(1970, 1, 1)
YEAR_10000 = 253_402_300_800_000_000
"""Its start in microseconds, which no datetime has."""

# How many characters of 2024-10-01T05:00:00 the name of an interval has.
_NAME_LENGTHS = {PartitionBy.DAY: 10, PartitionBy.MONTH: 7, PartitionBy.YEAR: 4, PartitionBy.HOUR: 13}
_INTERVALS = {
    PartitionBy.HOUR: datetime.timedelta(hours=1),
    PartitionBy.DAY: datetime.timedelta(days=1),
    PartitionBy.WEEK: datetime.timedelta(weeks=1),
}
_TIME = r"T\d{2}(\d{4}(-\d{6}(\d{3})?)?)?"
_DAY = rf"\d{{4}}-\d{{2}}-\d{{2}}({_TIME})?"
_PARTITION_NAMES = {
    partition_by: re.compile(rf"({name})(\.\d+)?", re.ASCII)
    for partition_by, name in {
        PartitionBy.NONE: "default",
        PartitionBy.YEAR: rf"\d{{4}}|{_DAY}",
        PartitionBy.MONTH: rf"\d{{4}}-\d{{2}}|{_DAY}",
        PartitionBy.WEEK: rf"\d{{4}}-W\d{{2}}(-\d({_TIME})?)?",
        PartitionBy.DAY: _DAY,
        PartitionBy.HOUR: _DAY,
    }.items()
}


def directory_names(timestamp: int, name_txn: int, partition_by: PartitionBy, *, nanoseconds: bool) -> tuple[str, ...]:
    """Return the names that the partition's directory can have: one, or none for an impossible time.

    A partition that was split off starts inside the interval and has a longer name (docs/format.md): as in QuestDB, the
    day, then only as much of the time as is not zero.
    """
    suffix = "" if name_txn == -1 else f".{name_txn}"
    if partition_by is PartitionBy.NONE:
        return (UNPARTITIONED_DIRECTORY + suffix,)
    microseconds, rest = divmod(timestamp, NANOSECONDS_IN_MICROSECOND) if nanoseconds else (timestamp, 0)
    try:
        start = EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return ()
    if start == _floor(start, partition_by) and not rest:
        return (_interval_name(start, partition_by) + suffix,)
    day = start.date().isoformat()
    if partition_by is PartitionBy.WEEK:
        day = f"{_interval_name(start, partition_by)}-{start.isoweekday()}"
    fraction = f"{start:%f}{rest:03d}" if nanoseconds else f"{start:%f}"
    return (day + _time_name(start, fraction) + suffix,)


def interval_end(timestamp: int, partition_by: PartitionBy, *, nanoseconds: bool) -> int | None:
    """Return the first timestamp after the interval of `timestamp`, or None if there is none."""
    unit, start = NANOSECONDS_IN_MICROSECOND if nanoseconds else 1, None
    try:
        start = _floor(EPOCH + datetime.timedelta(microseconds=timestamp // unit), partition_by)
        match partition_by:
            case PartitionBy.NONE:
                return None
            case PartitionBy.YEAR:
                end = start.replace(year=start.year + 1)
            case PartitionBy.MONTH:
                end = _floor(start + datetime.timedelta(days=31), partition_by)
            case _:
                end = start + _INTERVALS[partition_by]
    except (OverflowError, ValueError):
        return None if start is None else YEAR_10000 * unit
    return (end - EPOCH) // datetime.timedelta(microseconds=1) * unit


def interval_start(timestamp: int, partition_by: PartitionBy, *, nanoseconds: bool) -> int | None:
    """Return the first timestamp of the interval of `timestamp`, or None if there is none."""
    unit = NANOSECONDS_IN_MICROSECOND if nanoseconds else 1
    if partition_by is PartitionBy.NONE:
        return None
    try:
        start = _floor(EPOCH + datetime.timedelta(microseconds=timestamp // unit), partition_by)
    except (OverflowError, ValueError):
        return None
    return (start - EPOCH) // datetime.timedelta(microseconds=1) * unit


def looks_like_partition(name: str, partition_by: PartitionBy | None = None) -> bool:
    """Return whether a directory's name can be that of a partition, by default of any interval; of any transaction."""
    patterns = _PARTITION_NAMES.values() if partition_by is None else [_PARTITION_NAMES[partition_by]]
    return any(pattern.fullmatch(name) for pattern in patterns)


def split_name(name: str) -> tuple[str, int]:
    """Return the interval and the transaction of a partition directory's name, -1 if it has none."""
    interval, _, name_txn = name.partition(".")
    return interval, int(name_txn) if name_txn else -1


def _interval_name(start: datetime.datetime, partition_by: PartitionBy) -> str:
    if partition_by is PartitionBy.WEEK:
        year, week, _ = start.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return start.isoformat()[: _NAME_LENGTHS[partition_by]]


def _time_name(start: datetime.datetime, fraction: str) -> str:
    if int(fraction):
        return f"T{start:%H%M%S}-{fraction}"
    if start.minute or start.second:
        return f"T{start:%H%M%S}"
    return f"T{start:%H}" if start.hour else ""


def _floor(start: datetime.datetime, partition_by: PartitionBy) -> datetime.datetime:
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    match partition_by:
        case PartitionBy.HOUR:
            return start.replace(minute=0, second=0, microsecond=0)
        case PartitionBy.WEEK:
            return day - datetime.timedelta(days=day.weekday())
        case PartitionBy.MONTH:
            return day.replace(day=1)
        case PartitionBy.YEAR:
            return day.replace(day=1, month=1)
        case _:
            return day
