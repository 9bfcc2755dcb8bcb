"""Whether what contradicts a partition is named: its columns, its times, its rows, and the end of its data.parquet.

Metadata files are made byte by byte (`metadata_draft`), and put beside other columns, intervals and files than theirs.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from tornproof.harness.common.distinct import distinct
from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    GROUP_ROWS,
    SORTED_BY_TIMESTAMP,
    THRIFT_BYTES,
    Draft,
    DraftChunk,
    DraftColumn,
)
from tornproof.harness.explorers.roundtrip.metadata.usual_records import partition_of
from tornproof.harness.explorers.roundtrip.worked_out.tables.directories import interval_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import Problem, ProblemError
from tornproof.impl.table.check import check_against_table
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition import (
    PartitionFiles,
    check_native,
    check_partition,
    check_unmigrated,
    resolve_partition,
)
from tornproof.impl.txn.transaction import Partition

PROPERTY = "what contradicts a partition is named, where it is, and nothing else"
DIRECTORY = "2024-05-02"
UNITS: tuple[Literal["us", "ns"], ...] = ("us", "ns")
PLACES = "2024-02-29T23", "1969-12-29T00"
"""Times in intervals of other lengths, and before 1970."""
PATH, PM, DATA = f"table/{DIRECTORY}", f"{DIRECTORY}/_pm", f"{DIRECTORY}/data.parquet"
META, TXN = "_meta", "_txn"
ENTRY_AT, ROW_COUNT_AT = 1_000, 72
FLAGS_AT, TOKEN_AT = ENTRY_AT + 8, ENTRY_AT + 24
"""Where the partition is said to be in `_txn`; the rows of the last one are elsewhere."""
PARQUET, GENERATED = 1 << 61, 1 << 60
GROUP_COUNT, CHUNK_BYTES = 3, 100
MAGIC, TAIL_BYTES = b"PAR1", 8
TIMESTAMP, LONG, NANOSECONDS, DESIGNATED = 8, 6, 1 << 18, 1 << 17
UNKNOWN = -1
KNOWN = {1: 0, 5: 1, 6: 2, 8: 2, 8 | NANOSECONDS: 2, 17: 2, 7: 2, 9: 4, 10: 5, 11: 6, 12: 6, 18: 6, 26: 6, 25: 1}
"""Types with the number of the physical type that they are stored as."""
PLAIN = {0: {1}, 1: {5}, 2: {6, 17}, 4: {9}, 5: {10}, 6: {18}}
"""Which of them have the values of a physical type as it is, which a column without a known type has."""

Named: TypeAlias = tuple[str, str, int | None]
"""A file, a field, and an offset."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the partition and of the table; -1 as the number of one says that it has none."""

    number: int
    of: int
    physical: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """A partition, with what the table says of it; `data` is None where its data.parquet is missing.

    `timestamp` is the position of its designated timestamp, `times` the first and the last time of each row group.
    """

    name: str
    kind: str
    columns: tuple[Column, ...] = (Column(0, TIMESTAMP | DESIGNATED), Column(1, LONG))
    timestamp: int = 0
    times: tuple[tuple[int, int] | None, ...] = ((5, 9), (9, 12), (12, 20))
    flags: int = PARQUET | GENERATED
    row_count: int = GROUP_COUNT * GROUP_ROWS
    start: int = 0
    next_start: int | None = None
    table_columns: tuple[Column, ...] | None = (Column(0, TIMESTAMP), Column(1, LONG))
    table_timestamp: int = 0
    by: PartitionBy = PartitionBy.DAY
    data: bytes | None = b""
    token: int | None = None
    others: tuple[str, ...] = ()
    expected: tuple[Named, ...] = ()

    @property
    def draft(self) -> Draft:
        """Its metadata file; the end of data.parquet is behind all chunks."""
        names = [
            DraftColumn(name=f"c{each.number}", id=each.number, type=each.of, physical=each.physical)
            for each in self.columns
        ]
        groups, at = list[list[DraftChunk]](), 4
        for times in self.times:
            chunks = [DraftChunk(start=at + CHUNK_BYTES * place) for place in range(len(names))]
            if times is not None and self.timestamp >= 0:
                chunks[self.timestamp].low, chunks[self.timestamp].high = (struct.pack("<q", each) for each in times)
            groups.append(chunks)
            at += CHUNK_BYTES * len(names)
        flags = SORTED_BY_TIMESTAMP if self.timestamp >= 0 else 0
        return Draft(columns=names, groups=groups, timestamp=self.timestamp, flags=flags, footer_offset=at)

    @property
    def partition(self) -> Partition:
        """Its entry in `_txn`."""
        return partition_of(
            self.row_count,
            timestamp=self.start,
            token=self.draft.token if self.token is None else self.token,
            flags=self.flags,
            entry_offset_bytes=ENTRY_AT,
            row_count_offset_bytes=ROW_COUNT_AT,
            next_timestamp=self.next_start,
        )

    @property
    def files(self) -> PartitionFiles:
        """Its directory."""
        found = {f"{PATH}/{name}": b"" for name in self.others}
        if self.flags & PARQUET:
            found[f"{PATH}/_pm"] = self.draft.encoded()
        if self.data is not None:
            found[f"{PATH}/data.parquet"] = self.data or data_ending_at(self.partition.token)
        return PartitionFiles(storage=DiskImage.of_files(found), path=PATH, name=DIRECTORY)

    @property
    def metadata(self) -> TableMetadata | None:
        """What `_meta` says, if there is one."""
        if self.table_columns is None:
            return None
        columns = (TableColumn(id=each.number, name=f"c{each.number}", type=each.of) for each in self.table_columns)
        return TableMetadata(columns=tuple(columns), partition_by=self.by, timestamp_id=self.table_timestamp)


@functools.cache
def placed_partitions() -> tuple[PlacedPartition, ...]:
    """Return all partitions, always in the same order."""
    return distinct((*_types(), *_timestamps(), *_times(), *_ends(), *_unmigrated(), *_native()))


def problem_of(placed: PlacedPartition) -> str | None:
    """Say what is named of a partition, if it is not what contradicts it; None if it is."""
    found = _named(placed)
    return None if found == placed.expected else f"named is {_words(found)}, and should be {_words(placed.expected)}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of comparisons that are not made."""
    controls: Controls = tuple(
        (name, function, lambda *_, **__: iter(()))
        for name, function in (
            ("columns are not compared", "tornproof.impl.table.check:_check_columns"),
            ("times are not compared", "tornproof.impl.table.check:_check_times"),
            ("the end of data.parquet is not looked at", "tornproof.impl.table.partition:_check_data"),
        )
    )
    return not_noticed(controls, problem_of, placed_partitions())


def _words(named: tuple[Named, ...]) -> str:
    return "; ".join(f"{file}, {field} at {offset}" for file, field, offset in named) or "nothing"


def _named(placed: PlacedPartition) -> tuple[Named, ...]:
    try:
        return tuple((each.file, each.field, each.offset_bytes) for each in _problems(placed))
    except ProblemError as error:
        return ((error.problem.file, error.problem.field, error.problem.offset_bytes),)


def _problems(placed: PlacedPartition) -> Iterator[Problem]:
    files, partition = placed.files, placed.partition
    if not partition.is_parquet:
        yield from check_native(files, partition)
    elif not partition.parquet_was_generated:
        yield from check_unmigrated(files, partition)
    else:
        resolved = resolve_partition(files, partition)
        yield from check_partition(resolved)
        yield from check_against_table(resolved, placed.metadata)


def data_ending_at(token: int, footer_bytes: int = THRIFT_BYTES, magic: bytes = MAGIC) -> bytes:
    """Return a data.parquet of which only the end counts."""
    tail = struct.pack("<I", footer_bytes) + magic
    return tail.rjust(max(token, len(tail)), b"\xcd")


def _types() -> Iterator[PlacedPartition]:
    """Yield each type of a column beside each type in `_meta`, of columns that are elsewhere, or not there."""
    usual = PlacedPartition(name="", kind="columns")
    time = usual.columns[0]
    for (of, physical), (said, _) in itertools.product(KNOWN.items(), KNOWN.items()):
        columns = (time, Column(1, of, physical))
        table = (Column(0, TIMESTAMP), Column(1, said))
        wrong = ((META, "TYPE of column 'c1'", None),) if of != said else ()
        words = f"a column of type {of} that should have {said}"
        yield replace(usual, name=words, columns=columns, table_columns=table, expected=wrong)
    for physical, (said, _) in itertools.product(PLAIN, KNOWN.items()):
        columns, table = (time, Column(1, UNKNOWN, physical)), (Column(0, TIMESTAMP), Column(1, said))
        wrong = ((META, "TYPE of column 'c1'", None),) if said not in PLAIN[physical] else ()
        words = f"a column of physical type {physical} that should have {said}"
        yield replace(usual, name=words, columns=columns, table_columns=table, expected=wrong)
    others: tuple[tuple[str, tuple[Column, ...] | None], ...] = (
        ("columns in another order", (Column(1, LONG), Column(0, TIMESTAMP))),
        ("a column less", (Column(0, TIMESTAMP),)),
        ("a column more", (Column(0, TIMESTAMP), Column(7, 26), Column(1, LONG))),
        ("no columns", None),
    )
    for words, of_table in others:
        yield replace(usual, name=words, table_columns=of_table)
    nameless = (time, Column(UNKNOWN, LONG))
    yield replace(usual, name="a column without a number", columns=nameless, table_columns=(Column(0, TIMESTAMP),))


def _timestamps() -> Iterator[PlacedPartition]:
    """Yield tables whose designated timestamp is each of three columns, or none, in partitions where it is another."""
    usual, numbers = PlacedPartition(name="", kind="timestamps"), (0, 2, 5)
    for order, timestamp, said in itertools.product(itertools.permutations(numbers), range(-1, 3), (-1, *numbers)):
        columns = tuple(
            Column(number, TIMESTAMP | DESIGNATED * (place == timestamp)) for place, number in enumerate(order)
        )
        differs = timestamp >= 0 and said not in (-1, order[timestamp])
        yield replace(
            usual,
            name=f"columns {order} by that at {timestamp}, and by {said} in the table",
            columns=columns,
            timestamp=timestamp,
            table_columns=tuple(Column(number, TIMESTAMP) for number in numbers),
            table_timestamp=said,
            expected=((META, "TIMESTAMP_INDEX", None),) if differs else (),
        )
    for number, timestamp in itertools.product((2, UNKNOWN), (-1, 0)):
        named: Named = (PM, "COLUMN ID", None) if timestamp < 0 else (META, "TIMESTAMP_INDEX", None)
        yield replace(
            usual,
            name=f"no column with the number of the table's time, and that at {timestamp} with the number {number}",
            columns=(Column(number, TIMESTAMP | DESIGNATED * (timestamp == 0)), Column(1, LONG)),
            timestamp=timestamp,
            times=((5, 9), (9, 12), (12, 20)) if timestamp == 0 else (None,) * GROUP_COUNT,
            expected=(named,),
        )


def _times() -> Iterator[PlacedPartition]:
    """Yield times at both ends of intervals of each length, and of parts of them."""
    for by, unit, place in itertools.product(PartitionBy, UNITS, PLACES):
        time = np.datetime64(place, unit)
        begin, end = interval_of(time, by)
        start = int(time.astype(np.int64)) if begin is None else begin
        middle = start + 7_000_000
        nexts = (None, middle) if end is None else (None, middle, end, end + 1, end + (1 << 40))
        for at, following in (*((start, each) for each in nexts), (middle, None), (middle, end)):
            limits = [each for each in (end, following) if each is not None]
            last = min(limits, default=at + (1 << 50))
            for low, high in (
                (at, last - 1),
                (at - 1, last - 1),
                (at, last),
                (at + 1, last + 1),
                (at, at),
                (last, last),
            ):
                is_right = at <= low and all(high < limit for limit in limits)
                yield from _timed(f"{at} in {by.name} of {unit}", by, unit, at, following, low, high, is_right)


def _timed(
    words: str, by: PartitionBy, unit: str, start: int, following: int | None, low: int, high: int, is_right: bool
) -> Iterator[PlacedPartition]:
    """Yield a partition with these times; where there is no `_meta`, its interval is not known."""
    of = TIMESTAMP | NANOSECONDS * (unit == "ns")
    middle = (low + high) // 2
    timed = PlacedPartition(
        name=f"{low} to {high} in {words}, before {following}",
        kind="times",
        columns=(Column(0, of | DESIGNATED), Column(1, LONG)),
        times=((low, middle), None, (middle, high)),
        table_columns=(Column(0, of), Column(1, LONG)),
        start=start,
        next_start=following,
        by=by,
        expected=() if is_right else ((TXN, f"TIMESTAMP of {DIRECTORY}", ENTRY_AT),),
    )
    yield timed
    if following is None and low >= start:
        yield replace(timed, name=f"{timed.name}, without a table", table_columns=None, expected=())


def _ends() -> Iterator[PlacedPartition]:
    """Yield other counts of rows, and data.parquet of other sizes, with other ends."""
    usual = PlacedPartition(name="", kind="ends")
    token = usual.partition.token
    for row_count in (0, usual.row_count - 1, usual.row_count + 1):
        wrong = ((TXN, f"ROW_COUNT of {DIRECTORY}", ROW_COUNT_AT),)
        yield replace(usual, name=f"{row_count} rows", row_count=row_count, expected=wrong)
    yield replace(usual, name="no data.parquet", data=None, expected=((DATA, "file", None),))
    yield from _tails(usual, token, THRIFT_BYTES)


def _tails(usual: PlacedPartition, token: int, footer_bytes: int | None) -> Iterator[PlacedPartition]:
    """Yield data.parquet of other sizes and with other last bytes; the length counts only if it is known."""
    for more in (1, 8, 1000):
        yield replace(usual, name=f"{more} bytes more", data=data_ending_at(token) + b"\xff" * more)
    for size_bytes in (1, 7, token - 8, token - 1):
        yield replace(
            usual, name=f"{size_bytes} bytes", data=data_ending_at(token)[:size_bytes], expected=((DATA, "size", None),)
        )
    magic = (DATA, "MAGIC", token - 4)
    length = () if footer_bytes is None else ((DATA, "FOOTER_LENGTH", token - TAIL_BYTES),)
    for step in (-1, 1):
        yield replace(
            usual, name=f"a length {step} more", data=data_ending_at(token, THRIFT_BYTES + step), expected=length
        )
        data = data_ending_at(token, THRIFT_BYTES + step, b"PARE")
        yield replace(usual, name=f"a length {step} more before PARE", data=data, expected=(magic, *length))
    for other in (b"PAR2", b"par1", bytes(4)):
        yield replace(usual, name=f"{other!r} at the end", data=data_ending_at(token, magic=other), expected=(magic,))


def _unmigrated() -> Iterator[PlacedPartition]:
    """Yield partitions of releases without `_pm`."""
    usual = PlacedPartition(name="", kind="unmigrated", flags=PARQUET)
    yield replace(usual, name="as a release without _pm left it")
    yield replace(usual, name="no data.parquet, unmigrated", data=None, expected=((DATA, "file", None),))
    for token in (-1, 0, TAIL_BYTES - 1):
        yield replace(usual, name=f"token {token}", token=token, expected=((TXN, "token", TOKEN_AT),))
    yield from _tails(usual, usual.partition.token, None)


def _native() -> Iterator[PlacedPartition]:
    """Yield partitions that are not in Parquet, with each token, and with files of either format."""
    usual = PlacedPartition(name="", kind="native", flags=0, data=None)
    for flags, token in itertools.product((0, GENERATED), (-(1 << 63), -1, 0, 1, 7, 8, 1 << 40)):
        # Releases that write `_pm` leave the token of a partition that was converted back.
        wrong = ((TXN, f"TOKEN of {DIRECTORY}", TOKEN_AT),) if token > 0 and not flags else ()
        yield replace(usual, name=f"token {token} and flags {flags:#x}", flags=flags, token=token, expected=wrong)
    for others in ((), ("c0.d",), ("c0.k", "c0.v"), ("c0.d.3",)):
        wrong = ((TXN, f"PARQUET_FORMAT of {DIRECTORY}", FLAGS_AT),) if not {"c0.d", "c0.d.3"} & {*others} else ()
        yield replace(usual, name=f"{others} beside data.parquet", others=others, data=b"x", token=0, expected=wrong)
        yield replace(usual, name=f"{others}", others=others, token=0)
