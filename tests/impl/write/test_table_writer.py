"""What a writer guarantees: everything staged or nothing, rejection with a message, and one writer at a time."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from processes import forked
from real_tables import CHAIN, in_memory, only, resolved_partitions, rows_of, snapshot_of, verified
from written_tables import (
    DAY,
    DAY_LENGTH,
    DIRECTORY,
    IN_PLACE,
    PATH,
    filled,
    new_table,
    pairs_on,
    rows,
    table_on,
    write,
    writer_on,
)

import tornproof
from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.chunk import pages_of
from tornproof.impl.errors import BusyError, NotATableError, RowsRejectedError, StorageError, UsageError
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.questdb_json import QUESTDB_KEY
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, TXN_FILE
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import table_writer
from tornproof.impl.write.table_writer import TableWriter, WriterDeadError, open_writer


def on_disk(storage: MemoryStorage) -> dict[str, bytes]:
    return dict(storage.image().files)


def test_commit_makes_the_next_version_of_all_that_is_staged() -> None:
    storage, _ = new_table()
    with writer_on(storage) as writer:
        writer.write(rows([5, 3]))
        writer.write(rows([4, DAY_LENGTH, 3], 2))
        assert writer.transaction.version == 0 and pairs_on(storage) == []
        assert writer.commit() == writer.transaction.version == 1
    assert pairs_on(storage) == [(3, 1), (3, 4), (4, 2), (5, 0), (DAY_LENGTH, 3)]
    assert storage.listdir(PATH) == ("2024-01-01.0", "2024-01-02.0", "_cv", "_meta", "_name", "_pins", "_txn")


def test_new_rows_stand_behind_old_ones_of_the_same_time_also_at_row_group_borders() -> None:
    storage = filled(rows([0, 1, 2, 3, 3, 3, 4, 5]), rows([3, 3, 0, 5], 100), rows([3], 200))
    assert pairs_on(storage) == [
        (0, 0), (0, 102), (1, 1), (2, 2), (3, 3), (3, 4), (3, 5), (3, 100), (3, 101), (3, 200), (4, 6), (5, 7), (5, 103)
    ]  # fmt: skip


def test_commit_of_nothing_is_no_version_and_writes_nothing() -> None:
    storage = filled(rows([1]))
    with writer_on(storage) as writer:
        before = storage.counters().written_bytes, on_disk(storage)
        assert writer.commit() == 1
        writer.write(rows([]).cast(rows([1]).schema))
        assert writer.commit() == 1
        assert (storage.counters().written_bytes, on_disk(storage)) == before


def test_rollback_discards_rows_drops_and_rewrites_without_changing_a_byte() -> None:
    storage = filled(rows([1, DAY_LENGTH]))
    with writer_on(storage) as writer:
        before = on_disk(storage)
        writer.write(rows([7]))
        writer.drop_partition(DAY)
        writer.rewrite_partition(DAY + DAY_LENGTH)
        writer.rollback()
        assert writer.commit() == 1
        assert on_disk(storage) == before
        writer.write(rows([7]))
        writer.commit()
    assert pairs_on(storage) == [(1, 0), (7, 0), (DAY_LENGTH, 1)]


def test_rejected_commit_leaves_table_and_stage_as_they_were() -> None:
    storage = filled(rows([1]))
    with writer_on(storage) as writer:
        before = on_disk(storage)
        writer.write(rows([2]))
        writer.write(rows([-DAY - 1], 1))
        for _ in range(2):
            with pytest.raises(RowsRejectedError, match="lies in no partition"):
                writer.commit()
        assert on_disk(storage) == before
        writer.rollback()
        writer.write(rows([3], 9))
        assert writer.commit() == 2
    assert pairs_on(storage) == [(1, 0), (3, 9)]


def test_announcement_is_withdrawn_if_its_commit_is_rejected_and_not_if_it_may_have_come_about() -> None:
    storage = FaultyStorage(filled(rows([1])))
    withdrawn = list[str]()
    with writer_on(storage) as writer:
        writer.write(rows([-DAY - 1]))
        with pytest.raises(RowsRejectedError), writer.withdrawing(lambda: withdrawn.append("rejected")):
            writer.commit()
        assert withdrawn == ["rejected"]
        writer.rollback()
        writer.write(rows([2]))
        with pytest.raises(KeyboardInterrupt), writer.withdrawing(lambda: withdrawn.append("committed")):
            writer.commit()
            raise KeyboardInterrupt
        writer.write(rows([3]))
        storage.arm(Fault(at=0, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.PWRITE})))
        with pytest.raises(StorageError), writer.withdrawing(lambda: withdrawn.append("failed")):
            writer.commit()
    assert withdrawn == ["rejected"]


def test_committed_bytes_never_change_and_tokens_only_grow_in_place() -> None:
    storage, table = new_table()
    write(storage, rows(range(0, 20, 2)))
    with writer_on(storage) as writer:
        for number in range(5):
            before, token = on_disk(storage), writer.transaction.partitions[0].token
            writer.write(rows([3 * number, 5 * number + 1, 50 + number], 100 * number))
            writer.commit()
            after = on_disk(storage)
            published = int.from_bytes(before[f"{DIRECTORY}/_pm"][:8], "little")
            assert after[f"{DIRECTORY}/data.parquet"][:token] == before[f"{DIRECTORY}/data.parquet"]
            assert after[f"{DIRECTORY}/_pm"][8:published] == before[f"{DIRECTORY}/_pm"][8:]
            assert writer.transaction.partitions[0].token == len(after[f"{DIRECTORY}/data.parquet"]) > token
    assert table.directory_of(writer.transaction.partitions[0]) == "2024-01-01.0"


def test_second_writer_is_rejected_until_the_first_one_is_closed() -> None:
    storage, _ = new_table()
    other = storage.fork_process()
    with writer_on(storage) as writer:
        with pytest.raises(BusyError, match="another writer has the table open"):
            writer_on(other)
        writer.write(rows([1]))
        writer.commit()
    write(other, rows([2], 1))
    assert pairs_on(storage) == [(1, 0), (2, 1)]


def test_closed_writer_is_dead() -> None:
    storage, _ = new_table()
    writer = writer_on(storage)
    writer.write(rows([1]))
    writer.rollback()
    writer.close()
    writer.close()
    for call in (
        lambda: writer.write(rows([1])),
        lambda: writer.drop_partition(DAY),
        lambda: writer.rewrite_partition(DAY),
        writer.commit,
        writer.purge,
    ):
        with pytest.raises(WriterDeadError, match="closed or its last commit failed"):
            call()
    assert pairs_on(storage) == []


@pytest.mark.parametrize(
    "stage",
    [
        lambda writer: writer.write(rows([2], 1)),
        lambda writer: writer.drop_partition(DAY),
        lambda writer: writer.rewrite_partition(DAY),
    ],
    ids=["write", "drop", "rewrite"],
)
def test_a_writer_that_is_left_with_staged_changes_says_so(stage: Callable[[TableWriter], None]) -> None:
    """The changes were lost without a word."""
    storage = filled(rows([1]))
    with (
        pytest.raises(UsageError, match=r"staged changes, which are discarded; call commit\(\) before"),
        writer_on(storage) as writer,
    ):
        stage(writer)
    with pytest.raises(WriterDeadError):
        writer.commit()
    # The lock is free all the same, and nothing has changed.
    closed = writer_on(storage)
    stage(closed)
    with pytest.raises(UsageError, match=r"staged changes, which are discarded; call commit\(\) before"):
        closed.close()
    closed.close()
    writer_on(storage).close()
    assert pairs_on(storage) == [(1, 0)]


def test_what_was_committed_or_rolled_back_is_left_in_silence() -> None:
    storage = filled(rows([1]))
    with writer_on(storage) as writer:
        writer.write(rows([]))
    with writer_on(storage) as writer:
        writer.write(rows([2], 1))
        writer.rollback()
    with writer_on(storage) as writer:
        writer.write(rows([2], 1))
        writer.commit()
    writer = writer_on(storage)
    writer.write(rows([3], 2))
    writer.rollback()
    writer.close()
    assert pairs_on(storage) == [(1, 0), (2, 1)]


def test_another_error_is_not_hidden_by_what_it_left_staged() -> None:
    storage = filled(rows([1]))
    with pytest.raises(ZeroDivisionError), writer_on(storage) as writer:
        writer.write(rows([2], 1))
        raise ZeroDivisionError
    closed = writer_on(storage)
    with pytest.raises(ZeroDivisionError) as raised:
        try:
            closed.write(rows([2], 1))
            raise ZeroDivisionError
        finally:
            closed.close()
    assert raised.value.__context__ is None
    write(storage, rows([2], 1))
    assert pairs_on(storage) == [(1, 0), (2, 1)]


def test_a_forgotten_writer_is_warned_of_and_gives_its_lock_back(tmp_path: Path) -> None:
    """It held its lock as long as the process lived, and every other writer was told that it was busy."""
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)

    def forget() -> None:
        open_writer(storage, path).write(rows([1]).drop("n"))

    with pytest.warns(ResourceWarning, match="_pins: it was never closed, and held its lock until now"):
        forget()
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.write(rows([1]).drop("n"))
        assert writer.commit() == 1


def test_a_forked_process_can_neither_use_nor_close_the_writer_of_the_one_before_it(tmp_path: Path) -> None:
    """It committed beside its parent, and the parent's lock ended with its `with` block."""
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)

    def leave(writer: TableWriter) -> None:
        with writer:
            writer.rollback()

    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.write(rows([1]).drop("n"))
        expected = "WriterDeadError: .*: this writer belongs to the process that this one was forked from; open another"
        for call in (writer.commit, writer.purge, lambda: writer.drop_partition(DAY)):
            assert re.match(expected, forked(call))
        assert forked(writer.close) == forked(lambda: leave(writer)) == "None"
        assert "another writer has the table open" in forked(lambda: open_writer(storage, path))
        assert writer.commit() == 1


def test_folder_without_meta_is_not_written_to() -> None:
    storage, _ = new_table()
    for name in ("_meta", "_pins"):
        storage.unlink(f"{PATH}/{name}")
    with pytest.raises(NotATableError, match="no _meta with a designated timestamp"):
        writer_on(storage)
    assert "_pins" not in storage.listdir(PATH)


@pytest.mark.parametrize("kind", [CallKind.PWRITE, CallKind.FDATASYNC, CallKind.MSYNC, CallKind.MKDIR])
def test_failed_commit_kills_the_writer_and_the_table_stays_at_the_old_version(kind: CallKind) -> None:
    storage = filled(rows([1, 5]))
    faulty = FaultyStorage(storage)
    fault = Fault(at=0, reason=StorageReason.INPUT_OUTPUT, among=frozenset({kind}))
    with writer_on(faulty) as writer:
        writer.write(rows([3, DAY_LENGTH], 10))
        faulty.arm(fault)
        with pytest.raises(StorageError, match="input/output error"):
            writer.commit()
        assert faulty.fired[fault] == 1
        assert pairs_on(storage) == [(1, 0), (5, 1)]
        with pytest.raises(WriterDeadError):
            writer.commit()
    write(storage, rows([4], 20))
    assert pairs_on(storage) == [(1, 0), (4, 20), (5, 1)]


def test_writer_that_cannot_read_its_own_version_is_dead_lest_it_commits_the_same_rows_again() -> None:
    storage, _ = new_table()
    faulty = FaultyStorage(storage)
    with writer_on(faulty) as writer:
        writer.write(rows([1]))
        # `_txn` is opened to be read first, then `_name` for a new file, and `_txn` again after the commit.
        fault = Fault(at=2, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.OPEN_FOR_READING}))
        faulty.arm(fault)
        with pytest.raises(StorageError):
            writer.commit()
        assert faulty.fired[fault] == 1 and pairs_on(storage) == [(1, 0)]
        with pytest.raises(WriterDeadError):
            writer.commit()
    write(storage, rows([2], 1))
    assert pairs_on(storage) == [(1, 0), (2, 1)]


def test_a_writer_keeps_the_metadata_of_the_partitions_that_it_wrote_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "REMEMBERED_PARTITIONS_MAX", 2)
    storage, _ = new_table()
    with writer_on(storage) as writer:
        for day in (0, 1, 2, 0, 3, 1):
            writer.write(rows([day * DAY_LENGTH]))
            writer.commit()
            assert len(writer._open) <= 2
        assert [(timestamp - DAY) // DAY_LENGTH for timestamp in writer._open] == [3, 1]
    assert [time // DAY_LENGTH for time, _ in pairs_on(storage)] == [0, 0, 1, 1, 2, 3]


def test_dropped_partitions_leave_the_times_of_what_remains() -> None:
    days = [0, DAY_LENGTH, 2 * DAY_LENGTH, 3 * DAY_LENGTH]
    storage = filled(rows([day + time for day in days for time in (10, 20)]))
    bounds = []
    with writer_on(storage) as writer:
        for chosen in ([1], [0], [3], [2]):
            for day in chosen:
                writer.drop_partition(DAY + days[day])
            writer.commit()
            record = writer.transaction.record
            bounds.append((record.min_timestamp, record.max_timestamp, len(writer.transaction.partitions)))
            assert verified(PATH, storage).all_problems == ()
    assert bounds == [
        (DAY + 10, DAY + days[3] + 20, 3),
        (DAY + days[2] + 10, DAY + days[3] + 20, 2),
        (DAY + days[2] + 10, DAY + days[2] + 20, 1),
        (I64_MAX, I64_MIN, 0),
    ]
    write(storage, rows([4]))
    assert pairs_on(storage) == [(4, 0)]


def test_rows_staged_with_a_drop_make_the_partition_anew() -> None:
    storage = filled(rows([1, 2]))
    with writer_on(storage) as writer:
        writer.write(rows([7], 70))
        writer.drop_partition(DAY)
        writer.commit()
        assert writer.transaction.record.min_timestamp == DAY + 7
        writer.write(rows([8], 80))
        writer.commit()
    assert pairs_on(storage) == [(7, 70), (8, 80)]


def test_partition_that_is_not_there_cannot_be_dropped_or_rewritten() -> None:
    storage = filled(rows([1]))
    with writer_on(storage) as writer:
        for change in (writer.drop_partition, writer.rewrite_partition):
            with pytest.raises(RowsRejectedError, match=f"no partition starts at {DAY + 1}"):
                change(DAY + 1)
            with pytest.raises(UsageError, match="timestamp: expected int, found False"):
                change(False)


def test_native_partition_is_neither_written_nor_made_the_first_or_last_one(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / CHAIN)
    before = storage.image().files
    with open_writer(storage, path, options=IN_PLACE, allow_parquet_last=True) as writer:
        parquet, native = writer.transaction.partitions
        with pytest.raises(RowsRejectedError, match="not in Parquet; only the server writes to it"):
            writer.rewrite_partition(native.timestamp)
        writer.write(rows_for(writer.table, [native.timestamp], seed=0))
        with pytest.raises(RowsRejectedError, match="2024-01-02: its rows are not in Parquet"):
            writer.commit()
        writer.rollback()
        writer.drop_partition(parquet.timestamp)
        with pytest.raises(RowsRejectedError, match="cannot drop its neighbour"):
            writer.commit()
        writer.rollback()
        writer.drop_partition(native.timestamp)
        writer.commit()
        assert len(writer.transaction.partitions) == 1
    after = storage.image().files
    assert all(after[name] == content for name, content in before.items() if "2024-01-02" in name)
    assert verified(path, storage).sound


def test_partition_that_is_marked_as_read_only_is_left_alone() -> None:
    storage = filled(rows([1, DAY_LENGTH]))
    with writer_on(storage) as writer:
        entry = writer.transaction.partitions[0]
        position = entry.entry_offset_bytes + txn_layout.PartitionEntry.layout.field("row_count_and_flags").offset_bytes
    with storage.open_for_writing(f"{PATH}/{TXN_FILE}") as file:
        word = int.from_bytes(file.pread(8, position), "little")
        file.pwrite((word | txn_layout.READ_ONLY.put(0, 1)).to_bytes(8, "little"), position)
    with writer_on(storage) as writer:
        with pytest.raises(RowsRejectedError, match=r"2024-01-01\.0: it is marked as read-only"):
            writer.rewrite_partition(DAY)
        writer.write(rows([2]))
        with pytest.raises(RowsRejectedError, match="marked as read-only"):
            writer.commit()
        writer.rollback()
        writer.write(rows([DAY_LENGTH + 1], 5))
        writer.commit()
    assert pairs_on(storage) == [(1, 0), (DAY_LENGTH, 1), (DAY_LENGTH + 1, 5)]


def test_new_and_known_symbols_are_taken(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / CHAIN)
    with open_writer(storage, path, options=IN_PLACE, allow_parquet_last=True) as writer:
        day = writer.transaction.partitions[0].timestamp
        writer.write(pa.table({"ts": [day, day], "s": [None, "nobody knows it"]}))
        known = next(value for value in table_on(storage, path)["s"].to_pylist() if value is not None)
        writer.write(pa.table({"ts": [day], "s": [known]}))
        writer.commit()
    assert pc.sum(pc.equal(table_on(storage, path)["s"], known)).as_py() > 1
    assert pc.sum(pc.equal(table_on(storage, path)["s"], "nobody knows it")).as_py() == 1


def test_row_of_a_known_key_replaces_the_old_one_wherever_it_is() -> None:
    storage, _ = new_table(keys=["ts", "n"])
    write(storage, rows([1, 2, 2, 2, 2, 2, 3]))
    # The key of v = 5 is in the second row group, with the same time on both sides of the boundary.
    new = pa.table({"ts": [DAY + 2, DAY + 2, DAY + 9, DAY + 2], "v": [50, 60, 70, 80], "n": ["n5", "n1", None, "n5"]})
    write(storage, new)
    assert pairs_on(storage) == [(1, 0), (2, 60), (2, 2), (2, 3), (2, 4), (2, 80), (3, 6), (9, 70)]
    write(storage, pa.table({"ts": [DAY + 9, DAY + 9], "v": [71, 72], "n": pa.nulls(2, pa.string())}))
    assert pairs_on(storage)[-2:] == [(3, 6), (9, 72)]


def test_without_keys_equal_rows_are_all_kept() -> None:
    storage = filled(rows([1, 1]), rows([1, 1]))
    assert pairs_on(storage) == [(1, 0), (1, 1), (1, 0), (1, 1)]


def test_real_table_with_keys_takes_a_row_again_only_as_a_replacement_of_the_old_one(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "tables/9.4.2/dedup/table")
    old = table_on(storage, path)
    doubled = old.set_column(2, "v", pc.multiply(old["v"], 2.0)).take(list(reversed(range(len(old)))))
    with open_writer(storage, path, options=IN_PLACE, allow_parquet_last=True) as writer:
        writer.write(doubled)
        writer.commit()
    new = table_on(storage, path)
    assert new.drop("v").equals(old.drop("v"))
    assert new["v"].to_pylist() == [2 * value for value in old["v"].to_pylist()]


def test_pages_that_are_written_have_checksums_and_indexes_and_the_footer_names_the_types() -> None:
    storage, _ = new_table(NewColumn(name="b", type=TypeTag.BOOLEAN), NewColumn(name="d", type=TypeTag.DOUBLE))
    write(storage, rows(range(0, 40, 4), b=[True] * 10, d=[0.5] * 10), rows([2, 38, 90], 50))
    (resolved,) = resolved_partitions(PATH, storage)
    content = storage.image().files[f"{DIRECTORY}/data.parquet"]
    page_count = 0
    for block in resolved.metadata.blocks:
        for chunk in block.chunks:
            pages = pages_of(content[chunk.byte_range_start : chunk.byte_range_end], chunk, file="data.parquet")
            assert all(page.crc is not None for page in pages)
            page_count += len(pages)
    assert page_count >= 5 * len(resolved.metadata.blocks) >= 20
    found = pq.read_metadata(pa.BufferReader(content))
    for group in range(found.num_row_groups):
        for column in range(found.num_columns):
            assert found.row_group(group).column(column).has_offset_index
            assert found.row_group(group).column(column).has_column_index
    questdb = json.loads(found.metadata[QUESTDB_KEY.encode()])
    assert questdb["unused_bytes"] == resolved.metadata.generation.position.fixed.unused_bytes > 0
    assert [each["column_type"] for each in questdb["schema"]] == [
        column.type for column in resolved.metadata.header.columns
    ]


def test_json_of_a_real_file_is_kept_but_for_its_unused_bytes(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / CHAIN)

    def json_and_unused() -> tuple[dict[str, object], int]:
        resolved, *_ = resolved_partitions(path, storage)
        with resolved.files.open_data() as handle:
            content = handle.pread(resolved.partition.token, 0)
        unused_bytes = resolved.metadata.generation.position.fixed.unused_bytes
        return json.loads(pq.read_metadata(pa.BufferReader(content)).metadata[QUESTDB_KEY.encode()]), unused_bytes

    before, _ = json_and_unused()
    with open_writer(storage, path, options=IN_PLACE, allow_parquet_last=True) as writer:
        writer.write(rows_for(writer.table, [writer.transaction.partitions[0].timestamp], seed=0))
        writer.commit()
    after, unused_bytes = json_and_unused()
    assert after == {**before, "unused_bytes": unused_bytes}


def test_version_that_was_opened_before_a_commit_reads_as_it_was_after_it() -> None:
    storage = filled(rows([1, 3]))
    snapshot = snapshot_of(PATH, storage)
    (partition,) = snapshot.transaction.partitions
    before = rows_of(only(snapshot, partition))
    write(storage, rows([2], 9), rows([2], 10))
    assert rows_of(only(snapshot, partition)).equals(before)
    assert len(pairs_on(storage)) == 4


@contextmanager
def other_process(path: str, script: str) -> Iterator[int]:
    """Run a script in another process, and yield its id once it has said that it is there."""
    script = f"import sys; path = sys.argv[1]; {script}; print('there', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "there\n"
        yield process.pid
        process.stdin.close()


SERVER = "import mmap; file = open(path + '/_txn', 'r+b'); held = mmap.mmap(file.fileno(), 0); file.close()"
READER = (
    "import tornproof; snapshot = tornproof.open(path).snapshot(); rows = iter(snapshot.scan()); next(rows); "
    "txn = open(path + '/_txn', 'rb')"
)


def test_a_table_that_a_server_has_open_is_not_written_to(tmp_path: Path) -> None:
    """A writer was opened, and removed what the server was about to commit."""
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.write(rows([1]).drop("n"))
        writer.commit()
    (tmp_path / "t" / "2024-01-01.1").mkdir()
    before = sorted(path.name for path in (tmp_path / "t").iterdir())
    with other_process(path, READER), open_writer(storage, path):
        pass
    (tmp_path / "t" / "2024-01-01.1").mkdir()
    with other_process(path, SERVER) as process_id:
        expected = rf"t: in use by \S+ \(process {process_id}\); stop it first, because recovery removes directories"
        for _ in range(2):
            with pytest.raises(BusyError, match=expected):
                open_writer(storage, path)
        assert sorted(path.name for path in (tmp_path / "t").iterdir()) == before
        with pytest.raises(BusyError, match="in use by"):
            tornproof.open(path).writer(allow_parquet_last=True)
        with tornproof.open(path).writer(force=True, allow_parquet_last=True) as writer:
            assert not (tmp_path / "t" / "2024-01-01.1").exists()
            writer.write(rows([2], 1).drop("n"))
            writer.commit()
    open_writer(storage, path).close()
