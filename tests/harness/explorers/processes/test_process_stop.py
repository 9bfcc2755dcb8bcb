"""A writer stops at the chosen position, also inside a write, reports it, and can continue."""

import pytest

from tornproof.harness.explorers.processes.stop import COMMIT, RECOVERY, Stop, Stopped, StoppingStorage
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl.storage.interface import OpenMode


def stopping(
    position: str, occurrence: int = 1, written_part: float = 0.0, *, is_killed: bool = True
) -> StoppingStorage:
    """A storage that records its stops in `stops`, and whose process is then killed or continues."""
    inner = MemoryStorage()
    inner.mkdir("t")

    def on_stop(stopped: Stopped) -> None:
        stops.append(stopped)
        if is_killed:
            raise Killed

    stops.clear()
    storage = StoppingStorage(inner, "t", on_stop)
    storage.stop_at(Stop(position=position, occurrence=occurrence, written_part=written_part))
    storage.stage = COMMIT
    return storage


stops: list[Stopped] = []


@pytest.mark.parametrize(("part", "written"), [(0.0, b""), (0.5, b"ab"), (1.0, b"abcd")])
def test_a_write_at_the_chosen_position_is_cut_off(part: float, written: bytes) -> None:
    storage = stopping("commit: append data", occurrence=2, written_part=part)
    with storage.open_for_writing("t/data.parquet", OpenMode.NEW) as file:
        file.pwrite(b"whole", 0)
        with pytest.raises(Killed):
            file.pwrite(b"abcd", 5)
    with storage.open_for_reading("t/data.parquet") as file:
        assert file.pread(100, 0) == b"whole" + written
    assert stops == [Stopped(position="commit: append data", is_published=False)]


def test_a_writer_that_continues_stops_once_and_writes_all() -> None:
    storage = stopping("commit: append data", written_part=0.5, is_killed=False)
    with storage.open_for_writing("t/data.parquet", OpenMode.NEW) as file:
        file.pwrite(b"abcd", 0)
        file.pwrite(b"efgh", 4)
    with storage.open_for_reading("t/data.parquet") as file:
        assert file.pread(100, 0) == b"abcdefgh"
    assert len(stops) == 1


@pytest.mark.parametrize(
    ("step", "is_published"),
    [("sync record", True), ("store version", True), ("sync version", False)],
)
def test_what_is_published_before_the_version_is_reported(step: str, is_published: bool) -> None:
    storage = stopping(f"commit: {step}")
    for name in ("_pm", "_txn"):
        with storage.open_for_writing(f"t/{name}", OpenMode.NEW) as file:
            file.truncate(64)
    with storage.open_for_writing("t/_pm") as pm, storage.open_for_writing("t/_txn") as txn:
        header, record = pm.map(8), txn.map(64)
        header.store_u64(0, 5)
        record.store_u64(8, 1)
        with pytest.raises(Killed):
            record.msync()
            record.store_u64(0, 1)
            record.msync()
    assert stops == [Stopped(position=f"commit: {step}", is_published=is_published)]


def test_steps_are_counted_from_when_the_stop_is_set() -> None:
    storage = stopping("commit: make directory", occurrence=2)
    storage.mkdir("t/a")
    storage.stop_at(Stop(position="commit: make directory", occurrence=2, written_part=0.0))
    storage.mkdir("t/b")
    assert (stops, storage.counts["commit: make directory"]) == ([], 2)
    with pytest.raises(Killed):
        storage.mkdir("t/c")


def test_another_stage_is_another_position() -> None:
    storage = stopping("purge: make directory")
    storage.mkdir("t/a")
    assert stops == []


def test_what_a_recovery_publishes_counts_for_no_commit() -> None:
    storage = stopping("commit: make directory")
    storage.stage = RECOVERY
    with storage.open_for_writing("t/_pm", OpenMode.NEW) as file:
        file.truncate(64)
        file.map(8).store_u64(0, 5)
    storage.stage = COMMIT
    with pytest.raises(Killed):
        storage.mkdir("t/a")
    assert stops == [Stopped(position="commit: make directory", is_published=False)]
