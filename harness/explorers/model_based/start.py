"""The start of a stateful run: the files and rows of a table, and the times that new rows may have."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tornproof.harness.explorers.model_based.rows import Rows
from tornproof.harness.explorers.model_based.system_calls import Durable, intercepted
from tornproof.harness.explorers.model_based.tables import PATH, PLAIN, TABLE_NAME, empty_image
from tornproof.harness.parallel.tasks import shared_memory
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.plain_rows import RowShape
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import TornproofError
from tornproof.impl.layout import txn as layout
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import Storage
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import PartitionBy, TableMetadata
from tornproof.impl.table.partition_names import interval_end, interval_start, split_name
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import Partition, Transaction
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions, has_hashes
from tornproof.model.table import DirectoryName

TIMES_IN_INTERVAL = 8
TURN_OF_YEAR = 1_735_603_200_000_000
"""A day of 2024, in microseconds, whose week is the first one of 2025."""
INTERVAL_COUNT = 3
# Small row groups, so that there are several; in small files only the ratio decides when they are rewritten.
OPTIONS = (
    WriterOptions(row_group_row_count_max=6, rewrite_unused_ratio=1.0),
    WriterOptions(row_group_row_count_max=3, rewrite_unused_ratio=1_000.0),
    WriterOptions(row_group_row_count_max=3, rewrite_unused_ratio=0.7),
)
FALSE_POSITIVE_RATE = 0.01


class NothingToExploreError(TornproofError):
    """The table cannot be written to; the message says why."""


class StorageKind(StrEnum):
    """Where the files of a run are."""

    FILES = "files"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A partition interval that rows may be written to, from `start` to before `end`, and times in it, ascending."""

    start: int
    end: int
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The table that each program starts from; `files` are by path below the table's directory.

    Each program has one of the `options`. `unreferenced` are directories that the version does not name, `absent` those
    of native partitions that it names and that hold no file: a program neither reads nor writes them. It `is_ours` if
    this implementation wrote all of it.
    """

    files: dict[str, bytes]
    rows: Rows
    metadata: TableMetadata
    transaction: Transaction
    intervals: tuple[Interval, ...]
    options: tuple[WriterOptions, ...]
    unreferenced: dict[DirectoryName, str]
    absent: frozenset[str]
    is_ours: bool = False


def prepare(image: DiskImage | None, path: str) -> Start:
    """Return the start for the table at `path` of an image, or for a new table without rows if there is none.

    Raises NothingToExploreError, and what opening and reading a table raise.
    """
    is_ours = image is None
    if image is None:
        image, path = empty_image(PLAIN.name), PATH
    table = open_table(image, path)
    snapshot = open_snapshot(table)
    if table.metadata is None or snapshot.timestamp_id < 0:
        raise NothingToExploreError("a table without _meta or designated timestamp cannot be written to")
    rows = Rows(RowShape.of(snapshot))
    known = [identity for batch in snapshot.batches() for identity in rows.identify(batch)]
    prefix = f"{path.rstrip('/')}/"
    files = {name.removeprefix(prefix): content for name, content in image.files.items() if name.startswith(prefix)}
    files.pop("_pins", None)
    return Start(
        files=files,
        rows=rows,
        metadata=table.metadata,
        transaction=snapshot.transaction,
        intervals=tuple(_intervals(table, snapshot.transaction, rows, known)),
        options=(*OPTIONS, *_with_filters(table.metadata)),
        unreferenced=_unreferenced(table, snapshot.transaction),
        is_ours=is_ours,
        absent=frozenset(_native_directories(table, snapshot.transaction) - {name.partition("/")[0] for name in files}),
    )


@contextmanager
def scratch_directory(kind: StorageKind, directory: str | None) -> Iterator[str]:
    """Yield a new directory for the files of a run, by default in shared memory, where a sync costs nothing."""
    if kind is StorageKind.MEMORY:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="stateful-", dir=directory or shared_memory()) as made:
        yield made


FOLDER_NAME = "ä folder"
"""Many a path has spaces, and what is no ASCII."""


class Copy(NamedTuple):
    """A copy of the table: a storage, the path on it, and on real files what is durable of them."""

    storage: Storage
    path: str
    durable: Durable | None


@contextmanager
def fresh_copy(start: Start, kind: StorageKind, scratch: str) -> Iterator[Copy]:
    """Yield a fresh copy of the table, which is removed afterwards."""
    if kind is StorageKind.MEMORY:
        image = DiskImage.of_files({f"{PATH}/{name}": content for name, content in start.files.items()})
        yield Copy(MemoryStorage.of(image), PATH, None)
        return
    root = Path(scratch, FOLDER_NAME, TABLE_NAME)
    try:
        for name, content in start.files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        with intercepted(root) as durable:
            yield Copy(OperatingSystemStorage(), str(root), durable)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _with_filters(metadata: TableMetadata) -> Iterator[WriterOptions]:
    """Yield the options with bloom filters of all columns but one that can have them, in each of their places."""
    names = [column.name for column in metadata.columns if has_hashes(column.type)]
    # One has none, and must not be taken to have that of the next one.
    names = names[1:] or names
    for number, position in enumerate(BloomPosition if names else ()):
        filters = BloomOptions(columns=dict.fromkeys(names, FALSE_POSITIVE_RATE), position=position)
        yield replace(OPTIONS[number % len(OPTIONS)], blooms=filters)


def _intervals(table: Table, transaction: Transaction, rows: Rows, known: list[int]) -> Iterator[Interval]:
    """Yield the last interval that a writer may change, then empty ones before and after all others."""
    metadata = table.metadata
    assert metadata is not None
    by = metadata.partition_by
    nanoseconds = metadata.counts_nanoseconds
    unit = 1000 if nanoseconds else 1

    def interval_of(timestamp: int) -> tuple[int, int]:
        start = interval_start(timestamp, by, nanoseconds=nanoseconds)
        end = interval_end(timestamp, by, nanoseconds=nanoseconds)
        if start is None or end is None:
            raise NothingToExploreError("a table that is not partitioned cannot be written to")
        return start, end

    taken = {interval_of(partition.timestamp) for partition in transaction.partitions}
    closed = {
        interval_of(partition.timestamp) for partition in transaction.partitions if not _is_open(table, partition)
    }
    used = sorted(taken - closed)[-1:]
    first_time = unit * (TURN_OF_YEAR if by is PartitionBy.WEEK else FIRST_TIME)
    lowest, highest = (min(taken), max(taken)) if taken else ((first_time,) * 2,) * 2
    found = list(used)
    if used and interval_of(lowest[0] - 1)[0] >= 0:
        found.append(interval_of(lowest[0] - 1))
    while len(found) < INTERVAL_COUNT:
        highest = interval_of(highest[1])
        found.append(highest)
    for start, end in found:
        inside = [identity for identity in known if start <= rows.timestamp(identity) < end]
        yield Interval(start=start, end=end, times=_times(start, end, sorted(map(rows.timestamp, inside))))


def _is_open(table: Table, partition: Partition) -> bool:
    is_read_only = bool(layout.READ_ONLY.get(partition.flags))
    return partition.is_parquet and not is_read_only and table.files_of(partition).has_pm()


def _times(start: int, end: int, known: list[int]) -> tuple[int, ...]:
    """Return times of known rows and times just after these; where there are too few, evenly spaced ones."""
    half = TIMES_IN_INTERVAL // 2
    picked = [known[nth * (len(known) - 1) // max(1, half - 1)] for nth in range(half)] if known else []
    times = {start, *picked, *(min(time + 1, end - 1) for time in picked)}
    even = (start + nth * ((end - start) // TIMES_IN_INTERVAL) for nth in range(TIMES_IN_INTERVAL))
    for time in even:
        if len(times) < TIMES_IN_INTERVAL:
            times.add(time)
    return tuple(sorted(times)[:TIMES_IN_INTERVAL])


def _native_directories(table: Table, transaction: Transaction) -> set[str]:
    return {table.directory_of(partition) for partition in transaction.partitions if not partition.is_parquet}


def _unreferenced(table: Table, transaction: Transaction) -> dict[DirectoryName, str]:
    """Return directories that the version does not name, each under a partition timestamp that no table has."""
    names = table.unreferenced_directories(transaction)
    return {(-1 - number, split_name(name)[1]): name for number, name in enumerate(names)}
