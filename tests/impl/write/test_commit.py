"""The order of a commit on the disk: what is durable before what, and that nothing is seen of half a commit."""

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from depth import sampled
from real_tables import snapshot_of, verified
from written_tables import DAY, DAY_LENGTH, PATH, filled, pairs_on, rows, writer_on

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, Call, CallKind
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.write.commit import HARDENED, Action
from tornproof.impl.write.table_writer import TableWriter

OLD = f"{PATH}/2024-01-01.0"
TXN = f"{PATH}/_txn"
CHANGES_OR_BARRIERS = BARRIERS | {CallKind.PWRITE, CallKind.TRUNCATE, CallKind.STORE, CallKind.MKDIR}
Change = Callable[[TableWriter], None]


def in_place(writer: TableWriter) -> None:
    writer.write(rows([2], 7))


def new_partition(writer: TableWriter) -> None:
    writer.write(rows([DAY_LENGTH], 7))


def rewrite(writer: TableWriter) -> None:
    writer.rewrite_partition(DAY)


def several(writer: TableWriter) -> None:
    in_place(writer)
    new_partition(writer)
    writer.write(rows([4 * DAY_LENGTH], 8))


def start() -> MemoryStorage:
    return filled(rows([1, 3]), rows([5], 2))


def calls_of(change: Change, storage: MemoryStorage | None = None) -> list[Call]:
    recorded = FaultyStorage(storage or start())
    with writer_on(recorded) as writer:
        change(writer)
        recorded.arm()
        writer.commit()
        return [call for call in recorded.calls if call.kind in CHANGES_OR_BARRIERS]


def durable_calls(calls: list[Call]) -> list[tuple[str, str, int]]:
    return [(call.kind.value, call.path.removeprefix(f"{PATH}/"), call.offset_bytes) for call in calls]


def words_and(kind: CallKind, calls: list[Call]) -> list[int]:
    """Return the indices of the calls of a kind on `_txn`."""
    return [index for index, call in enumerate(calls) if call.kind is kind and call.path == TXN]


def test_update_syncs_data_then_pm_then_its_header_then_the_record_then_the_version() -> None:
    storage = start()
    files = storage.image().files
    data_bytes, pm_bytes = len(files[f"{OLD}/data.parquet"]), len(files[f"{OLD}/_pm"])
    calls = calls_of(in_place, storage)
    data, pm = "2024-01-01.0/data.parquet", "2024-01-01.0/_pm"
    assert durable_calls(calls)[:6] == [
        ("write", data, data_bytes),
        ("sync the data", data, 0),
        ("write", pm, pm_bytes),
        ("sync the data", pm, 0),
        ("store a word", pm, 0),
        ("sync the mapping", pm, 0),
    ]
    assert calls[4].size_bytes == 8
    check_publication(calls[6:])


def check_publication(calls: list[Call]) -> None:
    """Words of the record, sync, the version alone, sync."""
    assert {call.path for call in calls} == {TXN}
    record_sync, version_sync = words_and(CallKind.MSYNC, calls)
    assert version_sync == len(calls) - 1 and record_sync == len(calls) - 3
    assert all(call.kind is CallKind.STORE and call.offset_bytes != 0 for call in calls[:record_sync])
    assert (calls[-2].kind, calls[-2].offset_bytes) == (CallKind.STORE, 0)


@pytest.mark.parametrize(("change", "name"), [(new_partition, "2024-01-02.2"), (rewrite, "2024-01-01.2")])
def test_new_directory_is_durable_with_its_name_before_the_record_names_it(change: Change, name: str) -> None:
    calls = calls_of(change)
    assert durable_calls(calls)[:7] == [
        ("make directory", name, 0),
        ("write", f"{name}/data.parquet", 0),
        ("sync the data", f"{name}/data.parquet", 0),
        ("write", f"{name}/_pm", 0),
        ("sync the data", f"{name}/_pm", 0),
        ("sync directory", name, 0),
        ("sync directory", PATH, 0),
    ]
    check_publication(calls[7:])


def test_drop_changes_nothing_but_the_record() -> None:
    check_publication(calls_of(lambda writer: writer.drop_partition(DAY)))


def test_commit_takes_two_writes_and_a_header_for_each_partition_however_many_rows_it_has() -> None:
    storage = filled(rows([0, DAY_LENGTH, 2 * DAY_LENGTH]))

    def large(writer: TableWriter) -> None:
        for day in range(5):
            writer.write(rows([day * DAY_LENGTH + 7 * number % 300 for number in range(200)]))

    calls = calls_of(large, storage)
    partitions = [call for call in calls if call.path != TXN]
    kinds = Counter(call.kind for call in partitions)
    # Three partitions grow in place and two are new; only those that grow have a header to store.
    assert (kinds[CallKind.PWRITE], kinds[CallKind.FDATASYNC]) == (2 * 5, 2 * 5)
    assert (kinds[CallKind.STORE], kinds[CallKind.MSYNC]) == (3, 3)
    assert all(call.size_bytes > 100 for call in partitions if call.kind is CallKind.PWRITE)


def test_every_commit_of_a_process_syncs_record_and_version() -> None:
    storage = start()
    recorded = FaultyStorage(storage)
    syncs = []
    with writer_on(recorded) as writer:
        for number in range(4):
            writer.write(rows([10 + number], number))
            recorded.arm()
            writer.commit()
            syncs.append(sum(call.kind is CallKind.MSYNC and call.path == TXN for call in recorded.calls))
    assert syncs == [2, 2, 2, 2]


@pytest.mark.parametrize("change", sampled(2, [in_place, new_partition, rewrite, several], seed=1))
def test_commit_that_is_killed_anywhere_is_there_whole_or_not_at_all_and_the_next_writer_goes_on(
    change: Change,
) -> None:
    storage = start()
    before = pairs_on(storage)
    done = storage.copy()
    calls_of(change, done)
    after = pairs_on(done)
    reached = set()
    for stop in itertools.count():
        copy = storage.copy()
        process = copy.fork_process()
        faulty = FaultyStorage(process)
        writer = writer_on(faulty)
        change(writer)
        faulty.arm(Fault.kill(stop))
        with suppress(Killed):
            writer.commit()
        process.kill_process()
        found, version = pairs_on(copy), snapshot_of(PATH, copy).transaction.version
        assert (version, found) in ((2, before), (3, after))
        reached.add(version)
        with writer_on(copy) as successor:
            change(successor)
            assert successor.commit() == version + 1
        # Nothing is left of the killed commit but what it replaced.
        replaced = [f"2024-01-01.{name}" for name in (0, *range(2, version))] if change is rewrite else []
        assert verified(PATH, copy).unreferenced == tuple(replaced)
        if not faulty.fired:
            break
    assert reached == {2, 3} and stop > 10


def test_txn_grows_by_zeros_that_are_written_and_a_full_disk_refuses_them() -> None:
    """It grew by a hole, and on a full disk the store into that killed the process."""
    storage = filled(rows([day * DAY_LENGTH for day in range(60)]))
    before = len(storage.image().files[TXN])
    recorded = FaultyStorage(storage.copy())
    with writer_on(recorded) as writer:
        new_partition(writer)
        recorded.arm()
        writer.commit()
    changes = [call for call in recorded.calls if call.path == TXN and call.kind in CHANGES_OR_BARRIERS]
    grown, synced, *_, stored = changes
    assert (grown.kind, grown.offset_bytes, set(grown.content)) == (CallKind.PWRITE, before, {0})
    assert (synced.kind, stored.kind) == (CallKind.FSYNC, CallKind.MSYNC)
    earlier = [call for call in recorded.calls[: recorded.calls.index(grown)] if call.kind is CallKind.PWRITE]
    full = FaultyStorage(storage)
    with writer_on(full) as writer:
        new_partition(writer)
        full.arm(Fault(at=len(earlier), reason=StorageReason.NO_SPACE, among=frozenset({CallKind.PWRITE})))
        with pytest.raises(StorageError, match=r"_txn: cannot write: no space is left"):
            writer.commit()
    assert len(pairs_on(storage)) == 60


def test_hardened_protocol_leaves_no_barrier_out() -> None:
    actions = [*HARDENED.dictionary, *HARDENED.update, *HARDENED.rewrite, *HARDENED.adoption, *HARDENED.publish]
    assert set(actions) == set(Action)
    assert HARDENED.publish[-1] is Action.FENCE_AFTER_VERSION
