"""What our writer acknowledges, our reader reads: however well it compresses, and at each limit that readers impose.

Rows that compress too well become more row groups. 6.7 million rows with two inlined filters made a `_pm` of 70 MB:
the commit was acknowledged, and then nothing could open the table any more: no reader, no `verify`, no writer, no
recovery.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from depth import always_if, nightly, sampled
from real_tables import resolved_partitions, verified
from type_values import NEVER_NULL, SHOWN, TYPES, arrow
from written_tables import DAY, PATH, filled, new_table, pairs_on, rows, table_on, write, writer_on

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.memory import Killed, MemoryStorage
from tornproof.impl import limits
from tornproof.impl.chunk import expansion as chunk_expansion
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.parquet import pages
from tornproof.impl.parquet.bloom import bitset_size_bytes
from tornproof.impl.parquet.encode_options import ENCODABLE, ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.pm.chain import walk
from tornproof.impl.read import row_group
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types import raw_arrays
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import readable_row_groups
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

KIB = 1 << 10


def block_sizes(storage: MemoryStorage) -> list[int]:
    return [block.num_rows for each in resolved_partitions(PATH, storage) for block in each.metadata.blocks]


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of which a thousandth is enough to try."""
    monkeypatch.setattr(chunk_expansion, "EXPANDED_MAX_BYTES", 64 * KIB)
    monkeypatch.setattr(row_group, "BATCH_FLOOR_BYTES", 128 * KIB)


@pytest.mark.parametrize("encoding", [None, *always_if(lambda each: each is Encoding.DELTA_BYTE_ARRAY, Encoding)])
@pytest.mark.parametrize("name", sampled(3, sorted(SHOWN)))
def test_equal_values_of_every_type_and_encoding_can_be_read_whole(
    small_bounds: None, name: str, encoding: Encoding | None
) -> None:
    tag, of, _ = TYPES[name]
    form = physical_form(tag)
    assert form is not None
    if encoding is not None and form[0] not in ENCODABLE[encoding]:
        return
    storage, _ = new_table(NewColumn(name="x", type=tag))
    columns = {} if encoding is None else {"x": ColumnOptions(encoding=encoding)}
    options = WriterOptions(encoding=EncodeOptions(columns=columns), allow_unreadable_by_servers=True)
    row_count = 300 if name == "varchar" else 8_000
    for value in (SHOWN[name][1], None):
        if value is None and name in NEVER_NULL:
            continue
        batch = rows(range(row_count), x=arrow([value] * row_count, of))
        write(storage, batch, options=options)
    found = table_on(storage)
    assert len(found) == sum(block_sizes(storage)) > 0


def test_only_row_groups_that_no_reader_would_take_are_divided(small_bounds: None) -> None:
    def written(texts: list[str], row_count_max: int = 100_000) -> list[int]:
        storage, _ = new_table(NewColumn(name="x", type=TypeTag.VARCHAR))
        write(storage, rows(range(1_000), x=texts), options=WriterOptions(row_group_row_count_max=row_count_max))
        assert table_on(storage)["x"].to_pylist() == texts
        return block_sizes(storage)

    random = np.random.default_rng(1).integers(0, 256, 250_000, np.uint8).tobytes().hex()
    assert written([random[position : position + 500] for position in range(0, 500_000, 500)]) == [1_000]
    assert written(["y" * 20] * 1_000) == [1_000]
    # 500 bytes a value: what 64 KiB leave of each row group, a power of two of which makes a thousand.
    assert written(["y" * 500] * 1_000) == [62, 63] * 8
    assert written(["y" * 500] * 1_000, 10) == [10] * 100


def test_columns_that_are_too_much_together_are_divided_and_merged_into(small_bounds: None) -> None:
    names = [f"c{number}" for number in range(40)]
    storage, _ = new_table(*(NewColumn(name=name, type=TypeTag.LONG) for name in names))
    row_count = 10_000
    zeros: dict[str, Any] = dict.fromkeys(names, pa.array(np.zeros(row_count, np.int64)))
    write(storage, rows(range(0, 2 * row_count, 2), **zeros), options=WriterOptions())
    assert len(block_sizes(storage)) > 1
    ones = {name: column.slice(0, 1) for name, column in zeros.items()}
    write(storage, rows([501], **ones), options=WriterOptions())
    assert sum(block_sizes(storage)) == row_count + 1
    assert table_on(storage)["c39"].to_pylist() == [0] * (row_count + 1)


@pytest.mark.parametrize(("row_count", "sizes"), [(7, [7]), (8, [4, 4])])
def test_a_dictionary_is_one_of_the_pages_that_readers_take(
    monkeypatch: pytest.MonkeyPatch, row_count: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(limits, "PAGE_COUNT_LIMIT", 8)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.LONG))
    encoding = EncodeOptions(page_row_count_max=1, columns={"x": ColumnOptions(encoding=Encoding.DICTIONARY)})
    write(storage, rows(range(row_count), x=[5] * row_count), options=WriterOptions(encoding=encoding))
    assert block_sizes(storage) == sizes
    assert table_on(storage)["x"].to_pylist() == [5] * row_count


def test_lists_inside_of_arrays_are_as_many_as_readers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (raw_arrays, readable_row_groups):
        monkeypatch.setattr(module, "LIST_COUNT_MAX", 12)
    storage, _ = new_table(NewColumn(name="x", type=type_code("DOUBLE[][]") or 0))
    arrays = [[[0.5]] * 3] * 10
    write(storage, rows(range(10), x=arrays), options=WriterOptions())
    assert block_sizes(storage) == [2, 3, 2, 3]
    assert table_on(storage)["x"].to_pylist() == arrays
    with pytest.raises(RowsRejectedError, match="12 lists inside of an array"):
        write(storage, rows([10], x=[[[0.5]] * 13]), options=WriterOptions())


def test_a_number_in_its_new_encoding_takes_no_more_than_readers_take_of_a_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CHUNK_LIMIT_BYTES", 6_000)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.DOUBLE))
    encoding = EncodeOptions(duplicates=True, columns={"x": ColumnOptions(encoding=Encoding.DICTIONARY)})
    values = np.random.default_rng(1).integers(1 << 62, size=16).view(np.float64).repeat(100)
    options = WriterOptions(encoding=encoding, allow_unreadable_by_servers=True)
    write(storage, rows(range(1_600), x=values), options=options)
    assert block_sizes(storage) == [400] * 4
    assert verified(PATH, storage).sound


def test_all_symbols_before_that_of_a_row_are_in_the_page_that_readers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pages, readable_row_groups):
        monkeypatch.setattr(module, "PAGE_SIZE_MAX_BYTES", 1_000)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.SYMBOL))
    symbols = [f"{number}" * 100 for number in range(8)]
    write(storage, rows(range(8), x=symbols), options=WriterOptions())
    assert table_on(storage)["x"].to_pylist() == symbols
    with pytest.raises(RowsRejectedError, match=r"'x': expected at most 1000 bytes a value \(a symbol with all"):
        write(storage, rows([8, 9], x=["8" * 100, "9" * 100]), options=WriterOptions())
    assert table_on(storage)["x"].to_pylist() == symbols


@pytest.mark.nightly
def test_a_table_of_many_equal_columns_is_read_at_full_size() -> None:
    names = [f"c{number}" for number in range(200)]
    storage, _ = new_table(*(NewColumn(name=name, type=TypeTag.LONG) for name in names))
    row_count = 100_000
    zeros: dict[str, Any] = dict.fromkeys(names, np.zeros(row_count, np.int64))
    write(storage, rows(range(row_count), **zeros), options=WriterOptions())
    assert block_sizes(storage) == [row_count // 2] * 2
    assert len(table_on(storage)) == row_count


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("row_count", "size_bytes"), [pytest.param(2, 60 << 20, id="few"), pytest.param(1_000, 100_000, id="many")]
)
def test_values_that_do_not_compress_are_divided_by_what_readers_take_of_a_chunk_and_a_page(
    row_count: int, size_bytes: int
) -> None:
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.BINARY))
    random = np.random.default_rng(1).integers(0, 256, size_bytes + row_count, np.uint8).tobytes()
    values = [random[position : position + size_bytes] for position in range(row_count)]
    write(storage, rows(range(row_count), x=values), options=WriterOptions())
    assert len(block_sizes(storage)) > 1
    assert table_on(storage)["x"].to_pylist() == values


def test_a_value_that_no_reader_takes_is_rejected_and_the_largest_that_one_takes_is_not() -> None:
    for size_bytes, is_taken in ((64 << 20) - 100, True), (64 << 20, False):
        storage, _ = new_table(NewColumn(name="x", type=TypeTag.VARCHAR))
        batch = rows([0], x=["x" * size_bytes])
        if is_taken:
            write(storage, batch, options=WriterOptions())
            assert len(table_on(storage)["x"][0].as_py()) == size_bytes
            continue
        with pytest.raises(RowsRejectedError, match=r"column 'x': expected at most 67108864 bytes a value"):
            write(storage, batch, options=WriterOptions())
        assert block_sizes(storage) == []


# Limits of readers


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
