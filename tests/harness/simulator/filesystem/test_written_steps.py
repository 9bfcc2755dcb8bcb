"""What a recorder keeps, done again from the start, is what the run left: after every step and inside every write."""

import pytest

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CHANGES, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.harness.simulator.filesystem.written import RecordingStorage, crash_points, replay_prefix
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import LockMode, OpenMode, Storage


def start() -> MemoryStorage:
    storage = MemoryStorage()
    storage.mkdir("table")
    with storage.open_for_writing("table/_txn", OpenMode.NEW) as file:
        file.pwrite(bytes(range(64)), 0)
    return storage


def workload(storage: Storage) -> None:
    """Every kind of step, also through a file that moves and one that has no name any more."""
    with storage.open_for_writing("table/_txn") as txn, txn.map(64) as mapping:
        storage.mkdir("table/new")
        with storage.open_for_writing("table/new/_pm", OpenMode.NEW) as pm:
            pm.pwrite(b"header", 0)
            pm.fdatasync()
            storage.rename("table/new", "table/2024")
            pm.pwrite(b"body", 10)
            pm.truncate(12)
        mapping.store_u64(8, 1 << 63)
        storage.store_fence()
        mapping.store_u32(0, 7)
        mapping.msync()
        storage.link("table/_txn", "table/second")
        storage.unlink("table/_txn")
        txn.pwrite(b"through another name", 60)
        txn.fsync()
        storage.unlink("table/second")
        txn.pwrite(b"nobody sees this", 0)
        storage.sync_directory("table")
    storage.mkdir("table/gone")
    storage.rmdir("table/gone")


def recorded() -> tuple[RecordingStorage, MemoryStorage]:
    storage = start()
    recording = RecordingStorage(storage)
    workload(recording)
    return recording, storage


def test_every_change_and_every_barrier_is_recorded_in_order() -> None:
    recording, _ = recorded()
    kinds = [step.kind for step in recording.steps]
    assert set(kinds) == BARRIERS | CHANGES
    assert kinds[:4] == [CallKind.OPEN_FOR_WRITING, CallKind.MKDIR, CallKind.OPEN_FOR_WRITING, CallKind.PWRITE]
    stored = [step for step in recording.steps if step.kind is CallKind.STORE]
    assert [(step.path, step.offset_bytes, step.content) for step in stored] == [
        ("table/_txn", 8, bytes(7) + b"\x80"),
        ("table/_txn", 0, b"\x07\0\0\0"),
    ]


def test_reading_locking_and_rejected_calls_are_no_steps() -> None:
    storage = RecordingStorage(start())
    with storage.open_for_reading("table/_txn") as file, file.map(64) as mapping:
        file.pread(10, 0)
        file.try_lock(LockMode.SHARED, offset_bytes=0, size_bytes=1)
        mapping.load_u64(0)
        with mapping.view(10, 0) as leased:
            assert leased[9] == 9
        with pytest.raises(StorageError):
            file.pwrite(b"x", 0)
        with pytest.raises(StorageError):
            storage.mkdir("table")
    assert storage.steps == []


def test_all_steps_done_again_leave_what_the_run_left() -> None:
    recording, storage = recorded()
    again = replay_prefix(start(), recording.steps, len(recording.steps))
    assert again.digest() == storage.digest()
    assert again.image().files == {"table/2024/_pm": b"header\0\0\0\0bo"}


def test_a_session_killed_after_any_step_leaves_what_replaying_so_far_leaves() -> None:
    """Two ways to the same disk: interrupting the run itself, and replaying its record."""
    recording, _ = recorded()
    whole = {count: disk.digest() for disk, count, _ in crash_points(start(), recording.steps, lambda step: ())}
    assert list(whole) == list(range(len(recording.steps) + 1))
    for count in range(len(recording.steps)):
        storage = start()
        fault = Fault.kill(count)
        faulty = FaultyStorage(storage, fault)
        with pytest.raises(Killed):
            workload(faulty)
        assert faulty.fired[fault] == 1
        assert storage.digest() == whole[count]
        assert replay_prefix(start(), recording.steps, count).digest() == whole[count]
    assert len(set(whole.values())) > 10


def test_a_session_killed_inside_a_write_leaves_what_replaying_a_part_of_it_leaves() -> None:
    recording, _ = recorded()
    cut_count = 0
    for disk, count, cut in crash_points(start(), recording.steps, lambda step: range(1, len(step.content))):
        if cut:
            storage = start()
            with pytest.raises(Killed):
                workload(FaultyStorage(storage, Fault.kill(count, cut)))
            assert storage.digest() == disk.digest()
            assert replay_prefix(start(), recording.steps, count, cut).digest() == disk.digest()
            cut_count += 1
    assert cut_count == 5 + 3 + 19 + 15


@pytest.mark.parametrize(("step_count", "written_bytes"), [(-1, 0), (99, 0), (0, 1), (3, 6), (3, -1)])
def test_a_point_that_the_steps_do_not_have_is_rejected(step_count: int, written_bytes: int) -> None:
    recording, _ = recorded()
    assert replay_prefix(start(), recording.steps, 3, 5).image().files["table/new/_pm"] == b"heade"
    with pytest.raises(ValueError, match="step"):
        replay_prefix(start(), recording.steps, step_count, written_bytes)
