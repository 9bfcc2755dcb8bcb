"""A table under a writer beside a plain merge of the same rows: after every commit both must be alike.

What is compared: our reader, others, every older version, committed bytes, and the verdict of `verify_table`.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from independent_readers import READERS, normalised, ours_and_content
from real_tables import image_of, only, parquet_partitions, rows_of, verified

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import Snapshot, open_snapshot
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import TableWriter, open_writer

EVERY_OLDER_VERSION_AT = 10
OTHER_READERS_AT = 20
IN_PLACE = WriterOptions(row_group_row_count_max=40, rewrite_unused_ratio=1.0)
MICROSECONDS = {PartitionBy.DAY: 86_400_000_000, PartitionBy.HOUR: 3_600_000_000}
SIZE_BYTES = 8


def integers(times: pa.ChunkedArray) -> list[int]:
    """Return timestamps in their own unit."""
    counts: list[int] = times.cast(pa.int64()).to_pylist()
    return counts


def merged(old: pa.Table, new: pa.Table, timestamp: str, keys: list[str]) -> pa.Table:
    """Return rows in time order, the old ones first; of equal keys the last one at the place of the first."""
    rows = pa.concat_tables([old, new])
    times = integers(rows[timestamp])
    order = sorted(range(len(rows)), key=times.__getitem__)
    if keys:
        values = list(zip(*(rows[key].to_pylist() for key in keys), strict=True))
        last = {values[row]: row for row in order}
        first = {values[row]: row for row in reversed(order)}
        order = [last[values[row]] for row in order if first[values[row]] == row]
    return rows.take(order)


@dataclass
class Run:
    """A table in memory, its writer, and the rows that each of its parquet partitions must have."""

    storage: MemoryStorage
    path: str
    writer: TableWriter
    folder: Path
    rows: dict[int, pa.Table]
    timestamp: str
    keys: list[str]
    interval: int
    main: int
    other_readers_at: int = OTHER_READERS_AT
    older: dict[Any, tuple[Snapshot, Partition, pa.Table]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    staged: list[pa.Table] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    seed: int = 1000

    def times(self, partition: int | None = None) -> list[int]:
        """Return the timestamps of a partition's rows, by default the main one's."""
        rows = self.rows[self.main if partition is None else partition]
        return integers(rows[self.timestamp])

    def write(self, times: list[int], *, is_ascii: bool = True) -> None:
        """Stage made-up rows at these times."""
        rows = rows_for(self.writer.table, times, seed=self.seed, is_ascii=is_ascii)
        self.seed += len(times)
        self.writer.write(rows)
        self.staged.append(rows)

    def drop(self, partition: int) -> None:
        """Stage the removal of a partition."""
        self.writer.drop_partition(partition)
        del self.rows[partition]
        self.reached["dropped"] += 1

    def taken(self) -> list[int]:
        """Return the starts of all committed partitions, native ones too."""
        return [each.timestamp for each in self.writer.transaction.partitions]

    def commit(self) -> None:
        """Commit, merge the same rows plainly, and see that no committed byte changed."""
        before, files = self.writer.transaction, self.storage.image().files
        for batch in self.staged:
            starts = [
                time // self.interval * self.interval for time in batch[self.timestamp].cast(pa.int64()).to_pylist()
            ]
            for start in sorted(set(starts)):
                new = batch.filter(pa.array([each == start for each in starts]))
                old = self.rows.get(start, batch.schema.empty_table())
                self.rows[start] = pa.concat_tables([old, new])
        for start, unsorted in self.rows.items():
            self.rows[start] = merged(unsorted, unsorted.slice(0, 0), self.timestamp, self.keys)
        self.staged.clear()
        assert self.writer.commit() == before.version + 1
        self.remember()
        self._check_committed_bytes(before.partitions, files)
        self._report_progress_what_was_done({each.timestamp: each for each in before.partitions})

    def remember(self) -> None:
        """Keep each partition's committed rows, to be read again under later versions."""
        snapshot = open_snapshot(self.writer.table)
        for partition in parquet_partitions(snapshot):
            key = partition.timestamp, partition.name_txn, partition.token
            self.older.setdefault(key, (snapshot, partition, self.rows[partition.timestamp]))

    def _check_committed_bytes(self, partitions: tuple[Partition, ...], before: Any) -> None:
        after = self.storage.image().files
        for partition in partitions:
            if partition.is_parquet:
                path = f"{self.path}/{self.writer.table.directory_of(partition)}"
                data, pm = f"{path}/{DATA_FILE}", f"{path}/{PM_FILE}"
                assert after[data][: partition.token] == before[data][: partition.token]
                published = int.from_bytes(before[pm][:SIZE_BYTES], "little")
                assert after[pm][SIZE_BYTES:published] == before[pm][SIZE_BYTES:published]

    def _report_progress_what_was_done(self, before: dict[int, Partition]) -> None:
        self.changed.clear()
        for partition in self.writer.transaction.partitions:
            old = before.get(partition.timestamp)
            if old is not None and (old.name_txn, old.token) == (partition.name_txn, partition.token):
                continue
            self.changed.add(partition.timestamp)
            if old is None:
                self.reached["created"] += 1
            elif old.name_txn != partition.name_txn:
                self.reached["rewritten"] += 1
            else:
                self.reached["in place"] += 1

    def check(self, number: int, *, is_last: bool) -> None:
        """Compare the committed version with the plain merge; `number` says how thoroughly."""
        snapshot = open_snapshot(self.writer.table)
        assert [each.timestamp for each in parquet_partitions(snapshot)] == sorted(self.rows)
        for partition in parquet_partitions(snapshot):
            if is_last or partition.timestamp in self.changed:
                self._check_partition(snapshot, partition, every_reader=is_last or number % self.other_readers_at == 0)
        if is_last or number % EVERY_OLDER_VERSION_AT == 0:
            for older, partition, rows in self.older.values():
                assert rows_of(only(older, partition)).equals(rows)
        report = verified(self.path, self.storage, quick=not is_last, whole=False)
        assert report.all_problems == ()

    def _check_partition(self, snapshot: Snapshot, partition: Partition, *, every_reader: bool) -> None:
        expected = self.rows[partition.timestamp]
        assert rows_of(only(snapshot, partition)).equals(expected)
        assert partition.row_count == expected.num_rows
        ours, content = ours_and_content(snapshot, partition)
        for name, read in READERS.items():
            if every_reader or name == "pyarrow":
                theirs, mine = normalised(read(content, self.folder), ours)
                assert theirs.equals(mine), name


def start_run(
    folder: Path, image_path: Path, *, options: WriterOptions = IN_PLACE, other_readers_at: int = OTHER_READERS_AT
) -> Run:
    """Open a writer on a copy in memory of a table; DuckDB and Polars read at every so manieth commit."""
    storage, path = MemoryStorage.of(image_of(image_path)), str(image_path)
    writer = open_writer(storage, path, options=options, allow_parquet_last=True)
    snapshot, metadata = open_snapshot(writer.table), writer.table.metadata
    assert metadata is not None
    partitions = parquet_partitions(snapshot)
    run = Run(
        storage=storage,
        path=path,
        writer=writer,
        folder=folder,
        rows={each.timestamp: rows_of(only(snapshot, each)) for each in partitions},
        timestamp=next(column.name for column in metadata.columns if column.id == metadata.timestamp_id),
        keys=[column.name for column in metadata.columns if column.is_dedup_key],
        interval=MICROSECONDS[metadata.partition_by] * (1000 if metadata.counts_nanoseconds else 1),
        main=max(partitions, key=lambda each: each.row_count).timestamp,
        other_readers_at=other_readers_at,
    )
    run.remember()
    return run
