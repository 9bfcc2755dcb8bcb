"""A commit that is acknowledged can be read: the writer knows each limit that readers impose.

6.7 million rows with two inlined filters made a `_pm` of 70 MB. The commit was acknowledged, and then nothing could
open the table any more: no reader, no `verify`, no writer, no recovery.
"""

from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest
from depth import nightly
from real_tables import resolved_partitions, verified
from written_tables import DAY, PATH, filled, new_table, pairs_on, rows, table_on, write, writer_on

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl import limits
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.parquet.bloom import bitset_size_bytes
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.pm.chain import walk
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

FILTERS = BloomOptions(columns={"v": 0.0001, "n": 0.0001})
GROWING = WriterOptions(rewrite_unused_ratio=1.0)
Patch = pytest.MonkeyPatch


def partition_on(storage: MemoryStorage) -> ResolvedPartition:
    (found,) = resolved_partitions(PATH, storage)
    return found


def generation_count(storage: MemoryStorage) -> int:
    return len(list(walk(partition_on(storage).published.content, file="_pm")))


def test_the_numbers_of_the_defect_exceed_what_readers_take() -> None:
    filters = 67 * 2 * bitset_size_bytes(100_000, 0.0001)
    found = limits.excess(pm_bytes=filters, row_group_count=67, column_count=3, generation_count=1)
    assert filters > 67_000_000 and found is not None
    assert (found.what, found.allowed) == (limits.PM_SIZE, 64 << 20)
    assert str(found) == f"{filters:,} bytes of _pm, and readers accept at most 67,108,864"


@pytest.mark.parametrize(
    "largest",
    [
        {"pm_bytes": 64 << 20},
        {"row_group_count": 100_000},
        {"row_group_count": 1_000, "column_count": 400},
        {"generation_count": 65_536},
    ],
)
def test_each_limit_itself_is_accepted_and_one_more_is_not(largest: dict[str, int]) -> None:
    numbers = {"pm_bytes": 1, "row_group_count": 1, "column_count": 1, "generation_count": 1, **largest}
    assert limits.excess(**numbers) is None
    for name in largest:
        found = limits.excess(**{**numbers, name: numbers[name] + 1})
        assert found is not None and found.actual > found.allowed


@pytest.mark.parametrize("position", [BloomPosition.INLINED, BloomPosition.BOTH])
def test_filters_that_do_not_fit_into_pm_go_to_data_parquet(monkeypatch: Patch, position: BloomPosition) -> None:
    monkeypatch.setattr(limits, "PM_LIMIT_BYTES", 8 << 10)
    filters = BloomOptions(columns=FILTERS.columns, position=position)
    batch = rows(range(1000))
    storage = filled(batch, options=WriterOptions(row_group_row_count_max=100, blooms=filters))
    assert partition_on(storage).metadata.header.blooms_external
    assert len(partition_on(storage).metadata.blocks) == 10
    assert table_on(storage)["v"].to_pylist() == list(range(1000))
    write(storage, rows([1000], 1000))
    assert len(table_on(storage)) == 1001


def test_a_pm_that_would_become_too_large_is_written_anew(monkeypatch: Patch) -> None:
    monkeypatch.setattr(limits, "PM_LIMIT_BYTES", 2 << 10)
    storage, names = filled(rows([0])), []
    with writer_on(storage, GROWING) as writer:
        for number in range(1, 12):
            writer.write(rows([number], number))
            writer.commit()
            assert pairs_on(storage) == [(n, n) for n in range(number + 1)]
            names.append(partition_on(storage).files.name)
    assert 1 < len(set(names)) < len(names)


@pytest.mark.parametrize("every", [6, nightly(1)])
def test_wherever_a_commit_is_killed_near_the_limit_its_recovery_fits(monkeypatch: Patch, every: int) -> None:
    """A recovery appends a footer behind the orphan, for which there has to be room."""
    monkeypatch.setattr(limits, "PM_LIMIT_BYTES", 2 << 10)
    storage = filled(*(rows([number], number) for number in range(3)), options=GROWING)
    for number in range(3, 7):
        for step in range(number % every, 40, every):
            killed = storage.copy()
            faulty = FaultyStorage(killed)
            with suppress(Killed), writer_on(faulty, GROWING) as writer:
                writer.write(rows([number], number))
                faulty.arm(Fault.kill(step))
                writer.commit()
                break
            survivor = killed.copy()
            with writer_on(survivor, GROWING) as writer:
                kept = sum(partition.row_count for partition in writer.transaction.partitions)
                writer.write(rows([kept], kept))
                writer.commit()
            assert pairs_on(survivor) == [(n, n) for n in range(kept + 1)]
        write(storage, rows([number], number), options=GROWING)


@pytest.mark.parametrize(("limit", "largest"), [("ROW_GROUP_COUNT_LIMIT", 4), ("CHUNK_COUNT_LIMIT", 12)])
def test_row_groups_become_larger_where_there_would_be_too_many(monkeypatch: Patch, limit: str, largest: int) -> None:
    monkeypatch.setattr(limits, limit, largest)
    storage = filled(rows(range(64)), options=WriterOptions(row_group_row_count_max=2, row_group_size_bytes_max=100))
    assert 1 < len(partition_on(storage).metadata.blocks) <= 4
    assert len(table_on(storage)) == 64
    for number in range(64, 72):
        write(storage, rows([number], number), options=WriterOptions(row_group_row_count_max=1))
        assert len(table_on(storage)) == number + 1


def test_row_groups_of_few_bytes_become_larger_too(monkeypatch: Patch) -> None:
    monkeypatch.setattr(limits, "ROW_GROUP_COUNT_LIMIT", 10)
    # All rows would fit into one row group, but for its bytes.
    storage = filled(rows(range(100)), options=WriterOptions(row_group_size_bytes_max=1))
    assert 1 < len(partition_on(storage).metadata.blocks) <= 10
    assert len(table_on(storage)) == 100


def test_a_chain_that_would_become_too_long_starts_anew(monkeypatch: Patch) -> None:
    monkeypatch.setattr(limits, "GENERATION_COUNT_LIMIT", 5)
    storage, counts = filled(rows([0])), []
    for number in range(1, 12):
        write(storage, rows([number], number), options=GROWING)
        assert pairs_on(storage)[-1] == (number, number)
        counts.append(generation_count(storage))
    assert max(counts) == 5 and counts.count(1) >= 2


def test_what_cannot_be_made_readable_is_rejected_in_words_and_changes_nothing(monkeypatch: Patch) -> None:
    storage = filled(rows([0]))
    with writer_on(storage) as writer:
        before = storage.digest()
        writer.write(rows([1], 1))
        with monkeypatch.context() as small:
            small.setattr(limits, "PM_LIMIT_BYTES", len(partition_on(storage).published.content))
            with pytest.raises(RowsRejectedError, match=r"2024-01-01\.1: it would have \d+ bytes of _pm, and readers"):
                writer.commit()
        assert storage.digest() == before
        assert writer.commit() == 2
    assert pairs_on(storage) == [(0, 0), (1, 1)]


def test_a_chunk_has_no_more_pages_than_readers_take(monkeypatch: Patch) -> None:
    monkeypatch.setattr(limits, "PAGE_COUNT_LIMIT", 10)
    options = WriterOptions(encoding=EncodeOptions(page_row_count_max=1))
    storage = filled(rows(range(30)), options=options)
    assert len(table_on(storage)) == 30


def late(storage: MemoryStorage, text: str) -> None:
    write(storage, rows([5, 4], 5).set_column(2, "n", pa.array([text, text])))


def unsorted(storage: MemoryStorage, text: str) -> None:
    write(storage, pa.concat_tables([rows([9], 9), rows([7, 8], 7).set_column(2, "n", pa.array([text, text]))]))


@pytest.mark.parametrize("commit", [late, unsorted])
def test_more_text_than_arrow_can_sort_at_once_is_rejected_in_words(
    monkeypatch: Patch, commit: Callable[[MemoryStorage, str], None]
) -> None:
    monkeypatch.setattr(limits, "ARRAY_LIMIT_BYTES", 1_000)
    storage = filled(rows([0]))
    commit(storage, "x" * 300)
    before = table_on(storage)
    expected = r"column 'n': expected at most 1,000 bytes at once; write and commit fewer rows at a time, found 2,0\d\d"
    with pytest.raises(RowsRejectedError, match=expected):
        commit(storage, "x" * 1_000)
    assert table_on(storage).equals(before)


def test_text_that_is_written_in_parts_and_in_order_has_no_such_limit(monkeypatch: Patch) -> None:
    monkeypatch.setattr(limits, "ARRAY_LIMIT_BYTES", 1_000)
    storage, _ = new_table()
    with writer_on(storage, WriterOptions()) as writer:
        for number in range(8):
            writer.write(rows([number], number).set_column(2, "n", pa.array(["x" * 400])))
        writer.commit()
        assert [block.num_rows for block in partition_on(storage).metadata.blocks] == [2, 2, 2, 2]
        writer.rewrite_partition(DAY)
        writer.commit()
    assert len(table_on(storage)) == 8 and verified(PATH, storage).sound
