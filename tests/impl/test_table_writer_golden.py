"""Many commits on copies of what real servers wrote, each compared with other readers and with a plain merge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import golden_data
import pyarrow as pa
import pytest
from independent_readers import READERS, normalised, ours_and_content
from real_tables import image_of, only, parquet_partitions, rows_of, verified
from rows_for import rows_for

from harness.disk.memory import MemoryStorage
from impl.errors import CorruptError
from impl.metadata_file import PartitionBy
from impl.partition import DATA_FILE, PM_FILE
from impl.partition_change import WriterOptions
from impl.reader import Snapshot, open_snapshot
from impl.refused_rows import RowsRefusedError
from impl.table_writer import TableWriter, open_writer
from impl.transaction import Partition

FEW_COMMITS, MANY_COMMITS = 8, 50
MANY_COMMIT_TABLES = ("9.4.2/chain", "9.4.2/dedup", "9.4.2/oddcols", "2026-07/nanosecond")
EVERY_OLDER_VERSION_AT = 10
OTHER_READERS_AT = 20
IN_PLACE = WriterOptions(row_group_row_count_max=40, rewrite_unused_ratio=1.0)
IMAGES = (*golden_data.TABLES, *golden_data.CRASHES, *golden_data.AFTER_RESTARTS)
MICROSECONDS = {PartitionBy.DAY: 86_400_000_000, PartitionBy.HOUR: 3_600_000_000}
SIZE_BYTES = 8


def merged(old: pa.Table, new: pa.Table, timestamp: str, keys: list[str]) -> pa.Table:
    """Rows in time order, the old ones first; of equal keys the last one at the place of the first."""
    rows = pa.concat_tables([old, new])
    times = rows[timestamp].cast(pa.int64()).to_pylist()
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
    older: dict[Any, tuple[Snapshot, Partition, pa.Table]] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    staged: list[pa.Table] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    seed: int = 1000

    def times(self, partition: int | None = None) -> list[int]:
        return self.rows[self.main if partition is None else partition][self.timestamp].cast(pa.int64()).to_pylist()

    def write(self, times: list[int], *, is_ascii: bool = True) -> None:
        rows = rows_for(self.writer.table, times, seed=self.seed, is_ascii=is_ascii)
        self.seed += len(times)
        self.writer.write(rows)
        self.staged.append(rows)

    def drop(self, partition: int) -> None:
        self.writer.drop_partition(partition)
        del self.rows[partition]
        self.reached["dropped"] += 1

    def taken(self) -> list[int]:
        return [each.timestamp for each in self.writer.transaction.partitions]

    def commit(self) -> None:
        before, files = self.writer.transaction, self.storage.image().files
        for batch in self.staged:
            starts = [time // self.interval * self.interval for time in batch[self.timestamp].cast(pa.int64()).to_pylist()]
            for start in sorted(set(starts)):
                new = batch.filter(pa.array([each == start for each in starts]))
                old = self.rows.get(start, batch.schema.empty_table())
                self.rows[start] = pa.concat_tables([old, new])
        for start, unsorted in self.rows.items():
            self.rows[start] = merged(unsorted, unsorted.slice(0, 0), self.timestamp, self.keys)
        self.staged.clear()
        assert self.writer.commit() == before.version + 1
        self.remember()
        self.check_committed_bytes(before.partitions, files)
        self.tell_what_was_done({each.timestamp: each for each in before.partitions})

    def remember(self) -> None:
        snapshot = open_snapshot(self.writer.table)
        for partition in parquet_partitions(snapshot):
            key = partition.timestamp, partition.name_txn, partition.token
            self.older.setdefault(key, (snapshot, partition, self.rows[partition.timestamp]))

    def check_committed_bytes(self, partitions: tuple[Partition, ...], before: Any) -> None:
        after = self.storage.image().files
        for partition in partitions:
            if partition.is_parquet:
                path = f"{self.path}/{self.writer.table.directory_of(partition)}"
                data, pm = f"{path}/{DATA_FILE}", f"{path}/{PM_FILE}"
                assert after[data][: partition.token] == before[data][: partition.token]
                published = int.from_bytes(before[pm][:SIZE_BYTES], "little")
                assert after[pm][SIZE_BYTES:published] == before[pm][SIZE_BYTES:published]

    def tell_what_was_done(self, before: dict[int, Partition]) -> None:
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
        snapshot = open_snapshot(self.writer.table)
        assert [each.timestamp for each in parquet_partitions(snapshot)] == sorted(self.rows)
        for partition in parquet_partitions(snapshot):
            if is_last or partition.timestamp in self.changed:
                self.check_partition(snapshot, partition, every_reader=is_last or number % OTHER_READERS_AT == 0)
        if is_last or number % EVERY_OLDER_VERSION_AT == 0:
            for older, partition, rows in self.older.values():
                assert rows_of(only(older, partition)).equals(rows)
        report = verified(self.path, self.storage, quick=not is_last)
        assert report.all_problems == ()

    def check_partition(self, snapshot: Snapshot, partition: Partition, *, every_reader: bool) -> None:
        expected = self.rows[partition.timestamp]
        assert rows_of(only(snapshot, partition)).equals(expected)
        assert partition.row_count == expected.num_rows
        ours, content = ours_and_content(snapshot, partition)
        for name, read in READERS.items():
            if every_reader or name == "pyarrow":
                theirs, mine = normalised(read(content, self.folder), ours)
                assert theirs.equals(mine), name


def start_run(folder: Path, image_path: Path) -> Run:
    storage, path = MemoryStorage.of(image_of(image_path)), str(image_path)
    writer = open_writer(storage, path, options=IN_PLACE)
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
    )
    run.remember()
    return run


def append(run: Run) -> None:
    last = run.times()[-1]
    run.write([min(last + 1 + place, run.main + run.interval - 1) for place in range(5)])


def scatter(run: Run) -> None:
    times = run.times()
    span = times[-1] - times[0] + 1
    run.write([times[0] + place * 7919 * span // 16 % span for place in range(9)])


def tie(run: Run) -> None:
    times = run.times()
    run.write([times[place * len(times) // 6] for place in (5, 3, 1, 1)])
    run.write([times[0], times[-1], times[-1]])


def fill_gaps(run: Run) -> None:
    """Between row groups and before the first one, where no row group's span is met."""
    snapshot = open_snapshot(run.writer.table)
    partition = next(each for each in snapshot.transaction.partitions if each.timestamp == run.main)
    times, border, chosen = run.times(), 0, [max(run.times()[0] - 1, run.main)]
    for block in snapshot.resolve(partition).metadata.blocks[:-1]:
        border += block.num_rows
        chosen.append((times[border - 1] + times[border]) // 2)
    run.write(sorted(chosen[:6], reverse=True))


def several(run: Run) -> None:
    scatter(run)
    for partition in sorted(run.rows)[:3]:
        times = run.times(partition)
        run.write([times[-1], times[0], (times[0] + times[-1]) // 2])
    create(run)


def create(run: Run) -> None:
    start = max(run.taken()) + 2 * run.interval
    run.write([start + place * 1000 % 7777 for place in range(20)])
    # Two, so that the last partition can be dropped: a native one may not become the last.
    run.write([start + run.interval, start + run.interval])


def create_first(run: Run) -> None:
    start = min(run.taken()) - run.interval
    run.write([start + place for place in (5, 0, 3)])


def rewrite(run: Run) -> None:
    run.writer.rewrite_partition(run.main)
    append(run)


def other_text(run: Run) -> None:
    times = run.times()
    run.write([times[len(times) // 2], times[-1]], is_ascii=False)


def drop_newest(run: Run) -> None:
    append(run)
    run.drop(max(start for start in run.rows if start != run.main))


def drop_and_make_anew(run: Run) -> None:
    start = min(start for start in run.rows if start != run.main)
    run.drop(start)
    run.write([start + 9, start + 4])


STEPS = (append, scatter, several, tie, fill_gaps, create_first, drop_newest, scatter, fill_gaps, append, scatter)
STEPS += (rewrite, several, fill_gaps, drop_and_make_anew, tie, append, other_text, scatter, tie)


def drive(run: Run, commit_count: int) -> None:
    with run.writer:
        for number in range(commit_count):
            STEPS[number % len(STEPS)](run)
            run.commit()
            run.check(number + 1, is_last=number + 1 == commit_count)


@pytest.mark.parametrize("name", IMAGES)
def test_few_commits_are_what_a_plain_merge_makes_and_every_reader_sees(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / name / "table")
    drive(run, FEW_COMMITS)
    assert run.reached["in place"] >= 5 and run.reached["created"] == 3 and run.reached["dropped"] == 1


@pytest.mark.parametrize("name", MANY_COMMIT_TABLES)
def test_fifty_commits_are_what_a_plain_merge_makes_and_every_reader_sees(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    many(name, questdb_data, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", IMAGES)
def test_fifty_commits_on_every_real_table_are_what_a_plain_merge_makes(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    many(name, questdb_data, tmp_path)


def many(name: str, questdb_data: Path, tmp_path: Path) -> None:
    folder = f"{name}/table" if name in IMAGES else f"tables/{name}/table"
    run = start_run(tmp_path, questdb_data / folder)
    drive(run, MANY_COMMITS)
    print(run.reached)
    assert run.reached["in place"] > MANY_COMMITS and run.reached["rewritten"] > 2
    assert run.reached["created"] >= 5 and run.reached["dropped"] >= 4
