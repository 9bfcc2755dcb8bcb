"""Commits to a table with columns that came later: what they leave in `_cv`, wherever they are killed.

A server read the rows of such a commit, but made their values null when it converted the partition to native, because
`_cv` went on to say that its rows are older than the column.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from real_tables import snapshot_of
from written_tables import DAY, DAY_LENGTH, PATH, filled, pairs_on, rows, with_column_versions, write, writer_on

from tornproof.harness.common.patch import replaced
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, REPEATED, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import N_512, A, Model
from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.column_versions import CV_FILE, DEFAULT_PARTITION, read_column_versions
from tornproof.impl.txn.write import StorePlan
from tornproof.impl.write import commit
from tornproof.impl.write.commit import Action, Protocol
from tornproof.impl.write.table_writer import TableWriter

CV = f"{PATH}/{CV_FILE}"
N, V = 2, 1
"""The ids of two columns, of which `n` came on the second day."""
SECOND, THIRD = DAY + DAY_LENGTH, DAY + 2 * DAY_LENGTH
DROPPED = tuple((SECOND, column_id, 3, 1) for column_id in range(10, 30))
"""Entries of columns that are gone, so that the areas are in several blocks."""
BEFORE = ((DEFAULT_PARTITION, N, -1, SECOND), (SECOND, N, -1, 1))
FEW = Limits(disk_count=6, names_count=4)
PUBLISH = f"{commit.__name__}:_publish"
Change = Callable[[TableWriter], None]


def start(*entries: tuple[int, int, int, int], version: int = 5) -> MemoryStorage:
    """Return a table whose second day has two rows, of which one is older than a column."""
    storage = filled(rows([DAY_LENGTH, DAY_LENGTH + 1]))
    return with_column_versions(storage, entries or BEFORE, version=version)


def first_day(writer: TableWriter) -> None:
    writer.write(rows([7], 2))


def second_day(writer: TableWriter) -> None:
    writer.write(rows([DAY_LENGTH + 2], 2))


def third_day(writer: TableWriter) -> None:
    writer.write(rows([2 * DAY_LENGTH], 2))


def rewrite(writer: TableWriter) -> None:
    writer.rewrite_partition(SECOND)


def drop(writer: TableWriter) -> None:
    writer.drop_partition(SECOND)


def drop_and_write(writer: TableWriter) -> None:
    drop(writer)
    second_day(writer)


def version_of(storage: MemoryStorage) -> int:
    return snapshot_of(PATH, storage).transaction.record.column_version


def stored_version(storage: MemoryStorage) -> int:
    return int(struct.unpack_from("<q", storage.image().files[CV])[0])


def tops(storage: MemoryStorage, *, by_its_own: bool = False) -> dict[tuple[int, int], tuple[int, int]]:
    """Return names and first rows as the committed version has them, or as a server that goes by `_cv` alone."""
    version = stored_version(storage) if by_its_own else version_of(storage)
    entries = read_column_versions(storage, CV, version=version).entries
    return {key: (entry.name_txn, entry.column_top) for key, entry in entries.items()}


def tops_of(*entries: tuple[int, int, int, int]) -> dict[tuple[int, int], tuple[int, int]]:
    return {entry[:2]: entry[2:] for entry in entries}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (first_day, (*BEFORE, (DAY, N, -1, 0))),
        (second_day, (BEFORE[0], (SECOND, N, -1, 0))),
        (rewrite, (BEFORE[0], (SECOND, N, -1, 0))),
        (drop, ((DEFAULT_PARTITION, N, -1, DEFAULT_PARTITION),)),
        (drop_and_write, (BEFORE[0],)),
    ],
)
def test_a_commit_says_of_its_partitions_that_no_row_is_older_than_a_column(
    change: Change, expected: tuple[tuple[int, int, int, int], ...]
) -> None:
    storage = start()
    with writer_on(storage) as writer:
        change(writer)
        writer.commit()
    assert (tops(storage), version_of(storage)) == (tops_of(*expected), 6)
    # The writer goes on from there, and what it has said need not be said again.
    with writer_on(storage) as writer:
        third_day(writer)
        writer.commit()
    pairs_on(storage)
    assert (tops(storage), version_of(storage)) == (tops_of(*expected), 6)


def test_one_writer_changes_it_several_times_and_each_version_is_beside_the_one_before() -> None:
    storage = start()
    with writer_on(storage) as writer:
        for change in (first_day, second_day, rewrite, drop):
            before = tops(storage)
            known = version_of(storage)
            change(writer)
            writer.commit()
            # A reader of the version before finds its entries until the next change.
            kept = read_column_versions(storage, CV, version=known).entries
            assert {key: (entry.name_txn, entry.column_top) for key, entry in kept.items()} == before
    assert version_of(storage) == 8


@pytest.mark.parametrize("change", [third_day, partial(TableWriter.drop_partition, timestamp=DAY)])
def test_nothing_is_written_or_synced_if_nothing_changes(change: Change) -> None:
    storage = with_column_versions(filled(rows([0, DAY_LENGTH])), BEFORE, version=5)
    before = storage.image().files[CV]
    recorded = FaultyStorage(storage)
    with writer_on(recorded) as writer:
        recorded.arm()
        for _ in range(2):
            change(writer)
            writer.commit()
            change = third_day
    assert [call.kind for call in recorded.calls if call.path == CV] == [
        CallKind.KIND,
        CallKind.OPEN_FOR_READING,
        CallKind.SIZE,
        CallKind.PREAD,
        CallKind.CLOSE,
    ]
    assert storage.image().files[CV] == before


def test_it_is_not_read_in_a_table_without_later_columns_and_need_not_be_there() -> None:
    storage = filled(rows([0]))
    recorded = FaultyStorage(storage)
    with writer_on(recorded) as writer:
        recorded.arm()
        third_day(writer)
        writer.commit()
    assert not [call for call in recorded.calls if call.path == CV]
    copy = MemoryStorage.of(start().image().without_file(CV))
    write(copy, rows([7], 2))
    assert CV not in copy.image().files


def test_a_damaged_one_is_reported_before_anything_is_written() -> None:
    storage = MemoryStorage.of(start().image().with_file(CV, struct.pack("<5q", 9, 0, 0, 0, 0)))
    before = storage.image().files
    with writer_on(storage) as writer:
        first_day(writer)
        with pytest.raises(CorruptError, match="VERSION"):
            writer.commit()
        writer.rollback()
    assert {path: content for path, content in storage.image().files.items() if path in before} == before


def crashes(change: Change, models: tuple[Model, ...]) -> Iterator[MemoryStorage]:
    """Yield what a kill, or a power cut, leaves of a commit right before each sync, and at its end."""
    storage = start(*BEFORE, *DROPPED)
    recorded = FaultyStorage(storage)
    with writer_on(recorded) as writer:
        change(writer)
        kernel = Kernel.of(storage.image())
        recorded.arm()
        writer.commit()
        calls = [call for call in recorded.calls if call.kind in REPEATED]
    seen = set()
    for call in [*calls, None]:
        if call is None or call.kind in BARRIERS:
            for picked in (picked for model in models for picked in legal_disks(kernel, model, FEW)):
                left = MemoryStorage.of(picked.disk.kernel().image())
                if left.digest() not in seen:
                    seen.add(left.digest())
                    yield left
        if call is not None:
            apply(kernel, 0, call)


def problem_of(left: MemoryStorage, outcomes: list[Any]) -> str | None:
    """Say what is wrong with a table after a crash, then with the next commit; None if nothing is."""
    try:
        if (pairs_on(left), tops(left)) not in outcomes:
            return f"neither version: {tops(left)}"
        if tops(left, by_its_own=True) not in [said for _, said in outcomes]:
            return f"a server reads neither version: {tops(left, by_its_own=True)}"
        write(left, rows([3 * DAY_LENGTH], 9), rows([9], 8))
        if stored_version(left) != version_of(left) or tops(left).get((DAY, N)) != (-1, 0):
            return f"after the next commit: {stored_version(left)}, {tops(left)}"
        return None if pairs_on(left) else "the rows are gone"
    except (CorruptError, AssertionError) as error:
        return str(error)


def problems_after(change: Change, *models: Model) -> Iterator[str]:
    outcomes = []
    for is_committed in (False, True):
        storage = start(*BEFORE, *DROPPED)
        with writer_on(storage) as writer:
            if is_committed:
                change(writer)
                writer.commit()
        outcomes.append((pairs_on(storage), tops(storage)))
    assert outcomes[0] != outcomes[1]
    problems = (problem_of(left, outcomes) for left in crashes(change, models))
    return (problem for problem in problems if problem is not None)


@pytest.mark.parametrize("change", [first_day, drop_and_write])
def test_a_kill_or_a_power_cut_leaves_one_of_both_versions_and_the_next_commit_goes_on(change: Change) -> None:
    assert list(problems_after(change, A, N_512)) == []


def with_order(*order: Action) -> AbstractContextManager[None]:
    """Publish `_cv` in another order."""
    original = commit._publish

    def publish(protocol: Protocol, storage: Storage, path: str, plan: StorePlan) -> None:
        original(replace(protocol, publish=order) if path == CV else protocol, storage, path, plan)

    return replaced(PUBLISH, publish)


def table_first() -> AbstractContextManager[None]:
    """Publish `_txn` before `_cv`."""
    original, later = commit._publish, list[tuple[Protocol, Storage, str, StorePlan]]()

    def publish(*publication: Any) -> None:
        later.insert(0, publication)
        while len(later) == 2:
            original(*later.pop(0))
            original(*later.pop(0))

    return replaced(PUBLISH, publish)


RECORD, VERSION = (Action.STORE_RECORD, Action.SYNC_RECORD), (Action.STORE_VERSION, Action.SYNC_VERSION)


@pytest.mark.parametrize(
    "mistake",
    [with_order(*VERSION, *RECORD), with_order(RECORD[0], *VERSION), with_order(*RECORD, VERSION[0]), table_first()],
    ids=["version first", "area not synced", "version not synced", "table first"],
)
def test_another_order_of_the_steps_leaves_entries_of_neither_version(mistake: AbstractContextManager[None]) -> None:
    with mistake:
        assert next(problems_after(first_day, A, N_512), None) is not None
