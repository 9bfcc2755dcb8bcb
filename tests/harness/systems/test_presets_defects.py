"""Known defects of released servers: their presets show them on a small table, and others do not."""

from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from real_tables import with_wal
from written_tables import DAY, DAY_LENGTH, DIRECTORY, IN_PLACE, PATH, new_table, rows

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.written import RecordingStorage, replay_prefix
from tornproof.harness.systems.preset import Preset
from tornproof.harness.systems.probe import probe
from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.errors import CorruptError, StorageError
from tornproof.impl.read.reader import snapshot_of
from tornproof.impl.storage.interface import EntryKind, OpenMode, Storage, StorageReason
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.write.table_writer import TableWriter, WriterDeadError, open_writer

DATA, PM = f"{DIRECTORY}/data.parquet", f"{DIRECTORY}/_pm"
DEFECTIVE = [PRESETS[f"questdb-{release}{mode}"] for release in ("9.4.2", "9.4.3") for mode in ("", "-async", "-sync")]
REPAIRED = [PRESETS[f"questdb-2026-07{mode}"] for mode in ("", "-async", "-sync")]
SOUND = [PRESETS["hardened"], *REPAIRED]


def writer_of(storage: Storage, preset: Preset) -> TableWriter:
    return open_writer(
        storage, PATH, options=IN_PLACE, protocol=preset.protocol, encode=preset.encode, allow_parquet_last=True
    )


def start(preset: Preset) -> MemoryStorage:
    """Return a table whose one partition has two row groups."""
    storage, _ = new_table()
    with writer_of(storage, preset) as writer:
        for batch in (rows([0, 10, 20, 30]), rows([100, 110, 120], 10)):
            writer.write(batch)
            writer.commit()
    return storage


def update(storage: Storage, preset: Preset, times: Sequence[int] = (5,)) -> None:
    with writer_of(storage, preset) as writer:
        writer.write(rows(times, 50))
        writer.commit()


def numbers(storage: Storage, preset: Preset, version: Transaction | None = None) -> list[int]:
    """Return what a preset's reader sees of a given version or of the committed one."""
    table = open_table(storage, PATH)
    snapshot = snapshot_of(table, version or table.transaction(), preset.reader)
    return sorted(v for batch in snapshot.batches(["v"]) for v in batch.column(0).to_pylist())


def steps_of_update(storage: MemoryStorage, preset: Preset) -> list[Call]:
    recorded = RecordingStorage(storage.copy())
    update(recorded, preset)
    return recorded.steps


def after_header(steps: Sequence[Call]) -> int:
    """Return how many steps there are up to the last store into the header of `_pm`."""
    return 1 + max(n for n, step in enumerate(steps) if step.kind is CallKind.STORE and step.path == PM)


OLD = [0, 1, 2, 3, 10, 11, 12]


@pytest.mark.parametrize("preset", [*DEFECTIVE, *SOUND], ids=lambda preset: preset.name)
def test_reader_that_took_a_version_before_an_update_is_rejected_by_the_releases_that_decode_by_the_newest_footer(
    preset: Preset,
) -> None:
    storage = start(preset)
    version = open_table(storage, PATH).transaction()
    steps = steps_of_update(storage, preset)
    patched = after_header(steps)
    for step_count in range(len(steps) + 1):
        disk = replay_prefix(storage, steps, step_count)
        if preset in DEFECTIVE and step_count >= patched:
            with pytest.raises(CorruptError, match=rf"exceeds data length {version.partitions[0].token}$"):
                numbers(disk, preset, version)
        else:
            assert numbers(disk, preset, version) == OLD
    done = replay_prefix(storage, steps, len(steps))
    assert patched < len(steps) and numbers(done, preset) == [*OLD, 50]


@pytest.mark.parametrize("preset", [*DEFECTIVE, *SOUND], ids=lambda preset: preset.name)
def test_kill_between_header_and_version_leaves_a_partition_that_those_releases_neither_read_nor_go_on_from(
    preset: Preset,
) -> None:
    storage = start(preset)
    steps = steps_of_update(storage, preset)
    killed = replay_prefix(storage, steps, after_header(steps))
    compatibility = probe(with_wal(killed.image(), PATH), PATH, preset)
    if preset in DEFECTIVE:
        assert (compatibility.readable, compatibility.writable) == (False, False)
        assert "exceeds data length" in compatibility.reason
        with pytest.raises(CorruptError, match="exceeds data length"):
            update(killed, preset)
        with pytest.raises(CorruptError, match="exceeds data length"):
            numbers(killed, preset)
    else:
        assert (compatibility.readable, compatibility.writable) == (True, True)
        update(killed, preset, (5, 6, 7, 8, 9, 11, 12, 13, 105, 106, 107))
        assert numbers(killed, preset) == [*OLD, *range(50, 61)]


@pytest.mark.parametrize("preset", [*DEFECTIVE, *REPAIRED], ids=lambda preset: preset.name)
def test_commit_that_ends_inside_a_dead_tail_loses_the_partition_in_every_release(preset: Preset) -> None:
    storage = start(preset)
    with storage.open_for_writing(DATA) as data:
        data.pwrite(bytes(5000), data.size_bytes())
    assert numbers(storage, preset) == OLD
    compatibility = probe(with_wal(storage.image(), PATH), PATH, preset)
    assert (compatibility.readable, compatibility.writable, len(compatibility.hazards)) == (True, True, 1)
    assert "loses a partition" in compatibility.hazards[0]
    update(storage, preset)
    token = open_table(storage, PATH).transaction().partitions[0].token
    assert token == len(storage.image().files[DATA])
    with pytest.raises(CorruptError, match="token"):
        numbers(storage, preset)
    with pytest.raises(CorruptError, match="token"):
        update(storage, preset)


@pytest.mark.parametrize("name", ["hardened", "specification"])
def test_token_of_the_encoder_ignores_a_dead_tail(name: str) -> None:
    preset = PRESETS[name]
    storage = start(preset)
    with storage.open_for_writing(DATA) as data:
        data.pwrite(bytes(5000), data.size_bytes())
    assert probe(with_wal(storage.image(), PATH), PATH, preset).hazards == ()
    update(storage, preset)
    assert numbers(storage, preset) == [*OLD, 50]


def test_writer_of_the_specification_takes_the_rows_of_a_killed_commit_for_committed_ones() -> None:
    preset = PRESETS["specification"]
    storage = start(preset)
    steps = steps_of_update(storage, preset)
    killed = replay_prefix(storage, steps, after_header(steps))
    assert numbers(killed, preset) == OLD
    compatibility = probe(with_wal(killed.image(), PATH), PATH, preset)
    assert (compatibility.readable, compatibility.writable) == (True, False)
    assert compatibility.reason == "after a commit there are rows that no commit brought"
    with writer_of(killed, preset) as writer:
        writer.write(rows([130], 70))
        writer.commit()
    assert numbers(killed, preset) == [*OLD, 50, 70]


def failed_update(storage: MemoryStorage, preset: Preset, fault: Fault) -> MemoryStorage:
    faulty = FaultyStorage(storage)
    with writer_of(faulty, preset) as writer:
        writer.write(rows([5], 50))
        faulty.arm(fault)
        with pytest.raises(StorageError):
            writer.commit()
        with pytest.raises(WriterDeadError):
            writer.commit()
    assert faulty.fired
    return storage


PM_WRITE = Fault(at=1, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.PWRITE}))
PM_SYNC = Fault(at=0, reason=StorageReason.INPUT_OUTPUT, among=frozenset({CallKind.FDATASYNC}))


@pytest.mark.parametrize("fault", [PM_WRITE, PM_SYNC], ids=["write", "sync"])
@pytest.mark.parametrize("name", ["questdb-9.4.2-sync", "questdb-9.4.3-sync", "questdb-2026-07-sync"])
def test_failed_update_is_cut_back_by_9_4_x_and_left_as_it_is_by_2026_07(name: str, fault: Fault) -> None:
    preset = PRESETS[name]
    storage = start(preset)
    before = storage.image().files
    after = failed_update(storage, preset, fault).image().files
    is_cut = preset in DEFECTIVE
    assert (after[DATA] == before[DATA]) is is_cut
    assert (after[PM] == before[PM]) is (is_cut or fault is PM_WRITE)
    assert after[DATA].startswith(before[DATA]) and len(after[PM]) >= len(before[PM])
    assert numbers(storage, preset) == OLD


@pytest.mark.parametrize("name", ["questdb-9.4.2", "questdb-2026-07", "specification", "hardened"])
def test_released_servers_remove_a_replaced_directory_at_once_unless_a_reader_has_it_pinned(name: str) -> None:
    preset = PRESETS[name]
    for is_pinned in (False, True):
        storage = start(preset)
        with writer_of(storage, preset) as writer, ExitStack() as pins:
            if is_pinned:
                pins.enter_context(pin_committed(storage.fork_process(), PATH))
            writer.rewrite_partition(DAY)
            writer.commit()
        is_gone = name.startswith("questdb") and not is_pinned
        assert (storage.kind(DIRECTORY) is EntryKind.MISSING) is is_gone
        assert numbers(storage, preset) == OLD


def test_name_that_a_killed_rewrite_left_is_free_for_the_next_one() -> None:
    preset = PRESETS["questdb-9.4.2"]
    storage = start(preset)
    storage.mkdir(f"{PATH}/2024-01-01.2")
    with storage.open_for_writing(f"{PATH}/2024-01-01.2/_pm", OpenMode.NEW):
        pass
    with writer_of(storage, preset) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()
    assert numbers(storage, preset) == OLD


def test_a_session_goes_on_after_its_own_commits() -> None:
    for preset in PRESETS.values():
        storage, _ = new_table()
        with writer_of(storage, preset) as writer:
            for number in range(8):
                writer.write(rows([7 * number % 5, 20 * number, DAY_LENGTH], 10 * number))
                writer.commit()
        assert len(numbers(storage, preset)) == 24, preset.name
