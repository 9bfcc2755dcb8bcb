"""How opening for writing recovers the files that another process left, real servers' and our own."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import golden_data
import pytest
from real_tables import in_memory, put, rows_of, snapshot_of, verified, word
from written_tables import DAY, DAY_LENGTH, PATH, filled, pairs_on, rows, with_column_versions, write, writer_on

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl import limits
from tornproof.impl.errors import RowsRejectedError, StorageError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import EntryKind, File, OpenMode, Storage, StorageReason
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import open_writer

OPTIONS = WriterOptions(rewrite_unused_ratio=1.0)
CV = f"{PATH}/{CV_FILE}"
KILLED = (*golden_data.CRASHES, *golden_data.AFTER_RESTARTS)


def orphan_counts(path: str, storage: MemoryStorage) -> list[int]:
    snapshot = open_snapshot(open_table(storage, path))
    return [
        snapshot.resolve(partition).resolved.orphan_count
        for partition in snapshot.transaction.partitions
        if partition.is_parquet
    ]


def killed_table(questdb_data: Path, name: str) -> tuple[str, MemoryStorage]:
    return in_memory(questdb_data / name / "table")


def with_orphans(questdb_data: Path) -> list[str]:
    return [name for name in KILLED if any(orphan_counts(*killed_table(questdb_data, name)))]


@pytest.mark.nightly
def test_committed_generation_is_the_newest_again_after_a_kill_that_left_an_orphan(questdb_data: Path) -> None:
    names = with_orphans(questdb_data)
    assert len(names) >= 3
    for name in names:
        path, storage = killed_table(questdb_data, name)
        before = rows_of(snapshot_of(path, storage))
        generations = [each.generations for each in verified(path, storage).partitions]
        with open_writer(storage, path, options=OPTIONS, allow_parquet_last=True) as writer:
            assert not any(orphan_counts(path, storage))
            report = verified(path, storage)
            assert report.all_problems == ()
            # The restated generation is one more, and the orphans are out of the chain.
            assert sum(each.generations for each in report.partitions) > sum(generations)
            assert rows_of(snapshot_of(path, storage)).equals(before)
            writer.write(rows_for(writer.table, [writer.transaction.partitions[0].timestamp], seed=0))
            writer.commit()
        assert verified(path, storage).all_problems == ()
        assert rows_of(snapshot_of(path, storage)).num_rows == before.num_rows + 1


@pytest.mark.parametrize("name", KILLED)
def test_recovery_cuts_nothing_keeps_committed_bytes_and_the_second_one_finds_nothing_to_do(
    name: str, questdb_data: Path
) -> None:
    path, storage = killed_table(questdb_data, name)
    before = dict(storage.image().files)
    open_writer(storage, path, allow_parquet_last=True).close()
    once = dict(storage.image().files)
    snapshot = snapshot_of(path, storage)
    for partition in snapshot.transaction.partitions:
        if partition.is_parquet:
            directory = snapshot.table.files_of(partition).path
            data, pm = f"{directory}/data.parquet", f"{directory}/_pm"
            assert once[data] == before[data]
            published = int.from_bytes(before[pm][:8], "little")
            assert len(once[pm]) >= len(before[pm]) and once[pm][8:published] == before[pm][8:published]
    assert once[f"{path}/_txn"] == before[f"{path}/_txn"]
    open_writer(storage, path, allow_parquet_last=True).close()
    assert storage.image().files == once


def test_readers_of_a_killed_table_see_the_same_rows_before_and_after_recovery(questdb_data: Path) -> None:
    for name in with_orphans(questdb_data):
        path, storage = killed_table(questdb_data, name)
        pinned = snapshot_of(path, storage)
        before = rows_of(pinned)
        open_writer(storage, path, allow_parquet_last=True).close()
        assert rows_of(pinned).equals(before)


def test_directories_of_commits_that_never_came_about_are_removed_and_older_ones_kept() -> None:
    storage = filled(rows([1, 2]))
    with writer_on(storage) as writer:
        writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
    assert snapshot_of(PATH, storage).transaction.version == 2
    for name in ("2024-01-01.2", "2024-01-05.2", "2024-01-01.77"):
        storage.mkdir(f"{PATH}/{name}")
        with storage.open_for_writing(f"{PATH}/{name}/data.parquet", OpenMode.NEW) as file:
            file.pwrite(b"half", 0)
    storage.mkdir(f"{PATH}/2024-01-01.2/inner")
    for name in ("2023-01-01.1", "notes.9"):
        storage.mkdir(f"{PATH}/{name}")
    before = pairs_on(storage)
    recorded = FaultyStorage(storage)
    writer_on(recorded).close()
    names = [name for name in storage.listdir(PATH) if not name.startswith("_")]
    assert names == ["2023-01-01.1", "2024-01-01.0", "2024-01-01.1", "notes.9"]
    assert pairs_on(storage) == before
    kinds = [call.kind for call in recorded.calls if call.path.startswith(PATH)]
    # The removal of the names is durable before the writer may use them again.
    assert kinds.index(CallKind.SYNC_DIRECTORY) > max(
        position for position, kind in enumerate(kinds) if kind is CallKind.RMDIR
    )


def test_recovery_takes_back_the_version_of_columns_that_a_killed_commit_has_stored() -> None:
    """A server's readers wait for the version that `_txn` names until they give up."""
    storage = with_column_versions(filled(rows([1, 2])), [(DAY, 1, 7, 0)], version=5)
    ahead = storage.image().with_file(CV, put(0, word(6))(storage.image().files[CV]))
    left = MemoryStorage.of(ahead)
    recorded = FaultyStorage(left)
    writer_on(recorded).close()
    changes = [(call.kind, call.offset_bytes) for call in recorded.calls if call.path == CV and call.kind in STEPS]
    assert changes == [(CallKind.OPEN_FOR_WRITING, 0), (CallKind.STORE, 0), (CallKind.MSYNC, 0)]
    assert left.image().files[CV] == storage.image().files[CV]


def test_recovery_of_a_table_in_order_stores_the_version_again_and_syncs_it() -> None:
    """Its partitions are not opened for writing: all that the version names was durable before it was stored."""
    storage = filled(rows([1, 2]))
    before = storage.image().files
    recorded = FaultyStorage(storage)
    writer_on(recorded).close()
    calls = [
        (call.kind, call.path.rpartition("/")[2], call.offset_bytes)
        for call in recorded.calls
        if call.kind in (CallKind.PWRITE, CallKind.FDATASYNC, CallKind.STORE, CallKind.MSYNC)
    ]
    assert calls == [
        (CallKind.STORE, "_txn", 0),
        (CallKind.MSYNC, "_txn", 0),
    ]
    assert storage.image().files == before
    assert f"{PATH}/{PINS_FILE}" in before


def test_dead_bytes_behind_the_committed_ends_are_written_over_by_the_next_commit() -> None:
    storage = filled(rows([1, 2]))
    directory = f"{PATH}/2024-01-01.0"
    clean = storage.copy()
    for name in ("data.parquet", "_pm"):
        with storage.open_for_writing(f"{directory}/{name}") as file:
            file.pwrite(b"\xff" * 9_000, file.size_bytes())
    assert [each.dead_bytes for each in verified(PATH, storage).partitions] == [18_000]
    for disk in (storage, clean):
        write(disk, rows([3], 7))
    assert pairs_on(storage) == pairs_on(clean) == [(1, 0), (2, 1), (3, 7)]
    transactions = [snapshot_of(PATH, disk).transaction for disk in (storage, clean)]
    # The token is the encoder's end, not the length of the file.
    assert transactions[0].partitions[0].token == transactions[1].partitions[0].token
    token = transactions[0].partitions[0].token
    contents = [disk.image().files[f"{directory}/data.parquet"] for disk in (storage, clean)]
    assert contents[0][:token] == contents[1] and len(contents[0]) > token


def test_opening_costs_no_sync_a_partition() -> None:
    """It cost one for each."""
    costs = []
    for day_count in (1, 20):
        storage = filled(rows([day * DAY_LENGTH for day in range(day_count)]))
        before = storage.counters().sync_count
        writer_on(storage).close()
        costs.append(storage.counters().sync_count - before)
    assert costs == [2, 2]


class ReadOnlyVolume(InterceptedStorage):
    """A disk of which one directory is on a volume that cannot be written to."""

    def __init__(self, inner: Storage, directory: str) -> None:
        super().__init__(inner)
        self._directory = directory

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.kind is CallKind.OPEN_FOR_WRITING and call.path.startswith(f"{self._directory}/"):
            raise StorageError(file=call.path, operation=call.kind.value, reason=StorageReason.READ_ONLY)
        return run()


def with_an_orphan() -> MemoryStorage:
    """A table of two days, in the first of which a killed commit has left an orphan."""
    storage = filled(rows([1, DAY_LENGTH]))
    for step in range(30):
        killed = storage.copy()
        faulty = FaultyStorage(killed)
        with suppress(Killed), writer_on(faulty) as writer:
            writer.write(rows([2], 2))
            faulty.arm(Fault.kill(step))
            writer.commit()
        if orphan_counts(PATH, killed) == [1, 0]:
            return killed.copy()
    raise AssertionError("no step of a commit leaves an orphan")


@pytest.mark.parametrize("is_killed", [False, True], ids=["in order", "with an orphan"])
def test_a_partition_on_a_read_only_volume_does_not_make_the_table_unwritable(*, is_killed: bool) -> None:
    """It did: recovery opened every `_pm` for writing."""
    storage = with_an_orphan() if is_killed else filled(rows([1, DAY_LENGTH]))
    with writer_on(ReadOnlyVolume(storage, f"{PATH}/2024-01-01.0")) as writer:
        writer.write(rows([DAY_LENGTH + 1], 3))
        assert writer.commit() == 2
        assert pairs_on(storage) == [(1, 0), (DAY_LENGTH, 1), (DAY_LENGTH + 1, 3)]
        writer.write(rows([3], 4))
        if is_killed:
            with pytest.raises(RowsRejectedError, match=r"2024-01-01\.0: a killed commit left rows in it, which this"):
                writer.commit()
            writer.rollback()
            writer.rewrite_partition(DAY)
            assert writer.commit() == 3
            writer.write(rows([2], 3))
            assert writer.commit() == 4
        else:
            with pytest.raises(StorageError, match="the file system is read-only"):
                writer.commit()
    write(storage, rows([3], 4))
    assert orphan_counts(PATH, storage) == [0, 0]
    assert pairs_on(storage) == [(1, 0), *[(2, 3)] * is_killed, (3, 4), (DAY_LENGTH, 1), (DAY_LENGTH + 1, 3)]


def test_an_orphan_beside_which_there_is_no_room_stays_and_the_partition_can_be_rewritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = with_an_orphan()
    monkeypatch.setattr(limits, "PM_LIMIT_BYTES", len(storage.image().files[f"{PATH}/2024-01-01.0/_pm"]))
    with writer_on(storage) as writer:
        assert orphan_counts(PATH, storage) == [1, 0]
        writer.rewrite_partition(DAY)
        writer.commit()
    assert orphan_counts(PATH, storage) == [0, 0] and pairs_on(storage) == [(1, 0), (DAY_LENGTH, 1)]


def test_a_disk_that_uncommitted_directories_fill_does_not_keep_writers_out_for_good() -> None:
    """The orphan was put aside first, which needs space, so each writer ended before it removed a directory."""
    storage, filling = with_an_orphan(), f"{PATH}/2024-01-05.1"
    storage.mkdir(filling)

    class Full(InterceptedStorage):
        def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
            if storage.kind(filling) is not EntryKind.MISSING:
                raise StorageError(file=call.path, operation=call.kind.value, reason=StorageReason.NO_SPACE)
            run()

    writer_on(Full(storage)).close()
    assert orphan_counts(PATH, storage) == [0, 0]
    assert storage.kind(filling) is EntryKind.MISSING


def test_another_failure_to_put_an_orphan_aside_is_an_error() -> None:
    faulty = FaultyStorage(
        with_an_orphan(), Fault(at=0, reason=StorageReason.NO_SPACE, among=frozenset({CallKind.PWRITE}))
    )
    with pytest.raises(StorageError, match="no space is left"):
        writer_on(faulty)
