"""Large new directories, written a row group at a time: the bytes are as at once, the memory that of few row groups."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from depth import nightly
from hypothesis import given, settings
from hypothesis import strategies as st
from real_tables import files_below, verified
from written_tables import DAY, PATH, new_table, rows, table_on

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl.errors import ParquetLastError, StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import Storage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import partition_change
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import TableWriter, WriterDeadError, open_writer

EVERYTHING, NOTHING = -1, 1 << 62
KILLS_MAX = 200
ROW_GROUPS, ROWS_IN_GROUP, TEXT_BYTES = 16, 20_000, 60
ROW_GROUPS_MAX = 4
"""How many row groups a rewrite may hold."""


@contextmanager
def streamed_above(size_bytes: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_change, "STREAMED_BYTES", size_bytes)
        yield


def writer_of(
    storage: Storage, path: str = PATH, row_count_max: int = 100_000, unused_ratio: float = 0.5
) -> TableWriter:
    options = WriterOptions(row_group_row_count_max=row_count_max, rewrite_unused_ratio=unused_ratio)
    return open_writer(storage, path, options=options, allow_parquet_last=True)


Commit = tuple[list[int], bool]
"""The times of new rows, and whether the partition is rewritten."""


def committed(commits: list[Commit], keys: list[str], row_count_max: int) -> MemoryStorage:
    storage, _ = new_table(keys=keys)
    first = 0
    # Only what is asked for is rewritten, because what is large would be rewritten instead of merged.
    with writer_of(storage, PATH, row_count_max, 1.0) as writer:
        for times, rewrites in commits:
            if rewrites and writer.transaction.partitions:
                writer.rewrite_partition(DAY)
            writer.write(rows(times, first))
            first += len(times)
            writer.commit()
            writer.purge()
    return storage


def plainly(commits: list[Commit], has_keys: bool) -> list[tuple[int, int]]:
    """Return time and number of each row, later ones after or, with the time as the key, in place of older ones."""
    found: list[tuple[int, int]] = []
    first = 0
    for times, _ in commits:
        for number, time in enumerate(times, start=first):
            place = next((place for place, row in enumerate(found) if has_keys and row[0] == time), None)
            if place is None:
                found.append((time, number))
            else:
                found[place] = (time, number)
        first += len(times)
    return sorted(found, key=lambda row: row[0])


@pytest.mark.parametrize("example_count", [3, nightly(500)])
def test_a_streamed_rewrite_makes_the_same_files_and_the_rows_of_a_plain_merge(example_count: int) -> None:
    commits = st.lists(st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.booleans()), min_size=1)

    @settings(max_examples=example_count)
    @given(commits, st.booleans(), st.sampled_from([1, 3, 4, 100]))
    def check(made: list[Commit], has_keys: bool, row_count_max: int) -> None:
        keys = ["ts"] if has_keys else []
        with streamed_above(NOTHING):
            at_once = committed(made, keys, row_count_max)
        with streamed_above(EVERYTHING):
            streamed = committed(made, keys, row_count_max)
        assert files_below(PATH, streamed) == files_below(PATH, at_once)
        found = table_on(streamed)
        times = [time - DAY for time in found["ts"].cast(pa.int64()).to_pylist()]
        assert list(zip(times, found["v"].to_pylist(), strict=True)) == plainly(made, has_keys)

    check()


def changed(writer: TableWriter) -> None:
    writer.rewrite_partition(DAY)
    writer.write(rows([5, 86_400_000_000], 100))


def start() -> MemoryStorage:
    storage, _ = new_table()
    with writer_of(storage, PATH, 3) as writer:
        writer.write(rows(range(10)))
        writer.commit()
    return storage


@pytest.mark.parametrize("stride", [4, nightly(1)])
def test_a_commit_killed_at_any_step_is_there_as_a_whole_or_not_and_leaves_no_directory_to_the_next_writer(
    stride: int,
) -> None:
    before, seen = start(), set()
    with streamed_above(EVERYTHING):
        for step_count in range(0, KILLS_MAX, stride):
            memory = MemoryStorage.of(before.image())
            storage = FaultyStorage(memory)
            writer = writer_of(storage, PATH, 3)
            changed(writer)
            storage.arm(Fault.kill(step_count))
            try:
                writer.commit()
                was_killed = False
            except Killed:
                was_killed = True
            after = MemoryStorage.of(memory.image())
            seen.add(len(table_on(after)))
            with writer_of(after) as next_writer:
                next_writer.purge()
            assert verified(PATH, after).sound
            assert not open_table(after, PATH).unreferenced_directories(open_table(after, PATH).transaction())
            if not was_killed:
                break
    assert seen == {10, 12}


def test_a_rejected_commit_leaves_no_directory_and_can_be_made_again() -> None:
    storage = start()
    before = storage.image().files
    with streamed_above(EVERYTHING), open_writer(storage, PATH) as writer:
        changed(writer)
        with pytest.raises(ParquetLastError):
            writer.commit()
        assert storage.image().files.keys() == before.keys()
        writer.rollback()
    full = FaultyStorage(storage)
    with streamed_above(EVERYTHING), writer_of(full, PATH, 3) as writer:
        changed(writer)
        full.arm(Fault(at=3, reason=StorageReason.NO_SPACE))
        with pytest.raises(StorageError):
            writer.commit()
        assert storage.image().files.keys() == before.keys()
        writer.commit()
    assert len(table_on(storage)) == 12 and verified(PATH, storage).sound


class Failing(InterceptedStorage):
    """A storage in which the `failing` calls on files of these names fail."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.failing: dict[CallKind, str] = {}

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.path.endswith(f"/{self.failing.get(call.kind)}"):
            raise StorageError(call.path, call.kind, StorageReason.INPUT_OUTPUT)
        return run()


def test_a_commit_that_cannot_read_txn_leaves_no_directory() -> None:
    """It stayed, and the next purge took it for one that a version had named, and a pinned one for replaced."""
    storage = start()
    before, failing = storage.image().directories, Failing(storage)
    with streamed_above(EVERYTHING), writer_of(failing, PATH, 3) as writer:
        writer.rewrite_partition(DAY)
        failing.failing = {CallKind.OPEN_FOR_READING: TXN_FILE}
        with pytest.raises(StorageError):
            writer.commit()
        assert storage.image().directories == before
        failing.failing = {}
        writer.commit()


@pytest.mark.parametrize(
    "place", [{CallKind.OPEN_FOR_READING: TXN_FILE}, {CallKind.OPEN_FOR_WRITING: PM_FILE}], ids=["commit", "streaming"]
)
def test_a_writer_that_cannot_remove_a_directory_again_leaves_it_to_the_next_one(place: dict[CallKind, str]) -> None:
    storage = start()
    before, failing = storage.image().directories, Failing(storage)
    with streamed_above(EVERYTHING), writer_of(failing, PATH, 3) as writer:
        writer.rewrite_partition(DAY)
        failing.failing = {CallKind.UNLINK: DATA_FILE, **place}
        with pytest.raises(StorageError):
            writer.commit()
        failing.failing = {}
        writer.rollback()
        with pytest.raises(WriterDeadError):
            writer.commit()
    assert storage.image().directories != before
    writer_of(storage).close()
    assert storage.image().directories == before


def large_table(path: str) -> int:
    """Create a partition of many row groups, and return the size of one in memory."""
    columns = [NewColumn(name=name, type=kind) for name, kind in (("ts", TypeTag.TIMESTAMP), ("n", TypeTag.VARCHAR))]
    storage = OperatingSystemStorage()
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    random = np.random.default_rng(0)
    size_bytes = 0
    with writer_of(storage, path, ROWS_IN_GROUP) as writer:
        for number in range(ROW_GROUPS):
            text = random.bytes(ROWS_IN_GROUP * TEXT_BYTES // 2).hex()
            texts = [text[place : place + TEXT_BYTES] for place in range(0, len(text), TEXT_BYTES)]
            times = DAY + number * ROWS_IN_GROUP + np.arange(ROWS_IN_GROUP)
            table = pa.table({"ts": pa.array(times), "n": texts})
            size_bytes = table.nbytes
            writer.write(table)
            writer.commit()
    return size_bytes


def peak_bytes(act: Callable[[], object]) -> int:
    """Return the most memory that Python and Arrow together have at any call, and at any return from one."""
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    peak = 0

    def look(*_: object) -> None:
        nonlocal peak
        peak = max(peak, tracemalloc.get_traced_memory()[0] + pool.bytes_allocated())

    pa.set_memory_pool(pool)
    tracemalloc.start()
    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
        tracemalloc.stop()
        pa.set_memory_pool(before)
    return peak


@pytest.mark.nightly
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_rewrite_takes_the_memory_of_a_few_row_groups_whatever_the_partition_has(
    tmp_path: Path, is_asked: bool
) -> None:
    path = str(tmp_path / "t")
    group_bytes = large_table(path)

    def rewrite() -> None:
        with writer_of(OperatingSystemStorage(), path, ROWS_IN_GROUP) as writer:
            if is_asked:
                writer.rewrite_partition(DAY)
            late = pa.table(
                {"ts": pa.array(DAY + ROWS_IN_GROUP * np.arange(ROW_GROUPS) + 7), "n": ["late"] * ROW_GROUPS}
            )
            writer.write(late)
            writer.commit()

    found = peak_bytes(rewrite)
    assert found <= ROW_GROUPS_MAX * group_bytes, found / group_bytes
    with streamed_above(NOTHING):
        assert peak_bytes(rewrite) > 2 * ROW_GROUPS_MAX * group_bytes
    assert verified(path).sound
