"""Directories go when no version that is committed or pinned names them, and not before."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from real_tables import rows_of, snapshot_of, verified
from written_tables import DAY, DAY_LENGTH, PATH, filled, pairs_on, rows, writer_on

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer


def rewrite(storage: Storage, path: str = PATH) -> None:
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()


def purge(storage: Storage, path: str = PATH) -> tuple[str, ...]:
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        return writer.purge()


def table_with_old_directories() -> MemoryStorage:
    """Version 3: `.0` was replaced at 2, `.1` at 3; the next day was never written again."""
    storage = filled(rows([1, 2, DAY_LENGTH]))
    rewrite(storage)
    rewrite(storage)
    return storage


def partitions_on(storage: Storage) -> list[str]:
    return [name for name in storage.listdir(PATH) if name.startswith("2024")]


def test_what_no_version_names_is_removed_and_what_one_names_stays() -> None:
    storage = table_with_old_directories()
    before = pairs_on(storage)
    assert partitions_on(storage) == ["2024-01-01.0", "2024-01-01.1", "2024-01-01.2", "2024-01-02.0"]
    assert purge(storage) == ("2024-01-01.0", "2024-01-01.1")
    assert partitions_on(storage) == ["2024-01-01.2", "2024-01-02.0"]
    assert purge(storage) == ()
    assert pairs_on(storage) == before


def test_pin_keeps_the_directories_of_its_version_and_no_others() -> None:
    storage = filled(rows([1, 2]))
    with writer_on(storage) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()
        with pin_committed(storage.fork_process(), PATH) as pin:
            assert (pin.version, pin.is_held) == (2, True)
            pinned = snapshot_of(PATH, storage)
            before = rows_of(pinned)
            for _ in range(2):
                writer.rewrite_partition(DAY)
                writer.commit()
            # What came after it and is gone again is none of its own either.
            assert writer.purge() == ("2024-01-01.0", "2024-01-01.2")
            assert rows_of(pinned).equals(before)
            assert partitions_on(storage) == ["2024-01-01.1", "2024-01-01.3"]
        assert writer.purge() == ("2024-01-01.1",)


def test_a_directory_that_no_version_ever_named_has_replaced_nothing() -> None:
    """A killed server left it; what was said to be replaced by it was removed below a pinned reader."""
    storage = filled(rows([1, 2]))
    with writer_on(storage) as writer:
        writer.write(rows([DAY_LENGTH]))
        writer.commit()
    storage.mkdir(f"{PATH}/2024-01-01.1")
    with pin_committed(storage.fork_process(), PATH) as pin:
        pinned = snapshot_of(PATH, storage)
        rewrite(storage)
        assert purge(storage) == ()
        assert (pin.version, rows_of(pinned).num_rows) == (2, 3)
    assert purge(storage) == ("2024-01-01.0", "2024-01-01.1")


def test_pin_on_the_committed_version_keeps_nothing_that_is_old() -> None:
    storage = table_with_old_directories()
    with pin_committed(storage.fork_process(), PATH):
        assert purge(storage) == ("2024-01-01.0", "2024-01-01.1")


def test_dropped_partition_goes_when_no_reader_of_before_is_left() -> None:
    storage = filled(rows([1, DAY_LENGTH]))
    pin = pin_committed(storage.fork_process(), PATH)
    with writer_on(storage) as writer:
        writer.drop_partition(DAY)
        writer.commit()
        assert writer.purge() == ()
        pin.release()
        assert writer.purge() == ("2024-01-01.0",)
    assert pairs_on(storage) == [(DAY_LENGTH, 1)]


def test_pin_of_a_killed_process_is_gone() -> None:
    storage = table_with_old_directories()
    reader = storage.fork_process()
    rewrite_pin = pin_committed(reader, PATH)
    rewrite(storage)
    # A new writer cannot know whether `.1` and `.2` were ever named, and have replaced what came before.
    assert purge(storage) == ()
    reader.kill_process()
    assert purge(storage) == ("2024-01-01.0", "2024-01-01.1", "2024-01-01.2")
    assert rewrite_pin.version == 3


def hold_pin(path: str, connection: Connection) -> None:
    with pin_committed(OperatingSystemStorage(), path) as pin:
        connection.send((pin.version, pin.is_held))
        connection.recv()
    connection.send("released")


def test_pin_of_another_process_keeps_its_directories(tmp_path: Path) -> None:
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name=name, type=type_) for name, type_ in {"ts": TypeTag.TIMESTAMP, "v": TypeTag.LONG}.items()]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.write(rows([1]).drop("n"))
        writer.commit()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hold_pin, args=(path, theirs))
    process.start()
    # What only the child has open ends with it; waiting for a child that has exited would fail.
    theirs.close()
    try:
        assert ours.recv() == (1, True)
        rewrite(storage, path)
        assert purge(storage, path) == ()
        ours.send("let go")
        assert ours.recv() == "released"
        assert purge(storage, path) == ("2024-01-01.0",)
    finally:
        process.kill()
        process.join()
    assert verified(path).sound


def test_removal_that_was_interrupted_is_finished_by_the_next_purge() -> None:
    storage = table_with_old_directories()
    before = pairs_on(storage)
    stops = 0
    for stop in range(6):
        copy = storage.copy()
        faulty = FaultyStorage(copy)
        fault = Fault(at=stop, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.UNLINK, CallKind.RMDIR}))
        with open_writer(faulty, PATH, allow_parquet_last=True) as writer:
            faulty.arm(fault)
            with pytest.raises(StorageError):
                writer.purge()
        stops += faulty.fired[fault]
        assert pairs_on(copy) == before
        purge(copy)
        assert partitions_on(copy) == ["2024-01-01.2", "2024-01-02.0"]
    assert stops == 6


def test_names_that_are_no_partitions_are_never_removed() -> None:
    storage = table_with_old_directories()
    others = ("2024-01-01.x", "2024-01-01.0.bak", "wal1", "notes", "2024.txt", "2024-01-01.1.kept")
    for name in others:
        storage.mkdir(f"{PATH}/{name}")
    storage.open_for_writing(f"{PATH}/file-2024-01-01.0", mode=OpenMode.NEW).close()
    purge(storage)
    assert set(others) < set(storage.listdir(PATH)) and "file-2024-01-01.0" in storage.listdir(PATH)


def soft_linked(tmp_path: Path) -> tuple[OperatingSystemStorage, str, Path]:
    """Write a table on disk, whose first partition is then moved to another volume and linked."""
    storage, path = OperatingSystemStorage(), str(tmp_path / "t")
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG)]
    create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.write(rows([1, 2, DAY_LENGTH]).drop("n"))
        writer.commit()
    volume = tmp_path / "volume"
    (tmp_path / "t" / "2024-01-01.0").rename(volume)
    (tmp_path / "t" / "2024-01-01.0").symlink_to(volume)
    return storage, path, volume


def test_a_purge_removes_a_soft_link_and_nothing_that_it_leads_to(tmp_path: Path) -> None:
    """A purge followed the link, emptied the volume, and failed at the link; so did every later one."""
    storage, path, volume = soft_linked(tmp_path)
    before = {file.name: file.read_bytes() for file in volume.iterdir()}
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.drop_partition(DAY)
        writer.commit()
        assert writer.purge() == ("2024-01-01.0",)
        assert writer.purge() == ()
    assert not Path(path, "2024-01-01.0").is_symlink()
    assert {file.name: file.read_bytes() for file in volume.iterdir()} == before
    assert verified(path).sound


def test_a_link_inside_a_removed_directory_is_not_followed_either(tmp_path: Path) -> None:
    storage, path, volume = soft_linked(tmp_path)
    Path(path, "2024-01-02.0", "column").symlink_to(volume)
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.drop_partition(DAY + DAY_LENGTH)
        writer.commit()
        assert writer.purge() == ("2024-01-02.0",)
    assert {file.name for file in volume.iterdir()} == {"_pm", "data.parquet"}


@pytest.mark.parametrize("target", ["volume", "nowhere", "t/_meta"])
def test_a_link_with_the_name_of_an_uncommitted_directory_does_not_keep_writers_out(
    tmp_path: Path, target: str
) -> None:
    """Opening a writer failed for ever where the link led somewhere, and a commit where it led nowhere."""
    storage, path, volume = soft_linked(tmp_path)
    Path(path, "2024-01-02.1").symlink_to(tmp_path / target)
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        writer.rewrite_partition(DAY + DAY_LENGTH)
        assert writer.commit() == 2
    assert Path(path, "2024-01-02.1").is_dir() and not Path(path, "2024-01-02.1").is_symlink()
    assert {file.name for file in volume.iterdir()} == {"_pm", "data.parquet"} and Path(path, "_meta").is_file()
    assert verified(path).sound
