"""A partition whose rows and new ones are written without the writer: what the writer's own rewrite makes of them."""

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from depth import nightly
from msgspec.structs import replace
from real_tables import rows_of, snapshot_of, verified

from tornproof.harness.common.new_tables import metadata_with_type
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.txn import READ_ONLY
from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import SymbolTable, read_table_symbols
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.incoming_rows import conform, in_time_order, portions, without_duplicates
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions

HOUR = 3_600_000_000
COLUMNS = (
    NewColumn(name="ts", type=TypeTag.TIMESTAMP),
    NewColumn(name="v", type=TypeTag.LONG),
    NewColumn(name="s", type=TypeTag.SYMBOL),
)
OPTIONS = WriterOptions(row_group_row_count_max=3)
PREPARED = "t/prepared"
SYMBOLS = ("a", "b", None)


def table_with(times: list[int], keys: tuple[str, ...] = ()) -> MemoryStorage:
    storage = MemoryStorage()
    columns = [replace(column, is_dedup_key=column.name in keys) for column in COLUMNS]
    create_table(storage, "t", columns, timestamp="ts", partition_by=PartitionBy.HOUR)
    with opened(storage) as writer:
        writer.write(rows([0, 1, 2], 1_000))
        writer.write(rows(times, 0))
        writer.commit()
    return storage


def opened(storage: MemoryStorage, **settings: Any) -> TableWriter:
    return open_writer(storage, "t", options=OPTIONS, allow_parquet_last=True, **settings)


def rows(times: list[int], first: int) -> pa.Table:
    numbers = range(first, first + len(times))
    arrays = [
        pa.array(times, pa.timestamp("us", tz="UTC")),
        pa.array(numbers, pa.int64()),
        pa.array([SYMBOLS[number % len(SYMBOLS)] for number in numbers], pa.string()),
    ]
    return pa.Table.from_arrays(arrays, names=["ts", "v", "s"])


def prepared(
    storage: MemoryStorage, new: pa.Table, symbols: Mapping[str, SymbolTable] | None = None
) -> list[PreparedPartition]:
    """Write the new rows of each partition as a task does, which the writer's lock does not hinder."""
    snapshot = snapshot_of("t", storage)
    metadata = snapshot.table.metadata
    assert metadata is not None
    new = conform(new, snapshot.schema, "ts")
    if metadata.keys:
        new = without_duplicates(new, metadata.keys)
    symbols = symbols or read_table_symbols(snapshot.table, snapshot.transaction)
    found = portions(in_time_order(new, "ts"), "ts", metadata, snapshot.transaction.partitions)
    return [
        prepare_partition(storage, snapshot, portion, f"{PREPARED}-{number}", OPTIONS, symbols)
        for number, portion in enumerate(found)
    ]


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    files = storage.image().files
    return {name: content for name, content in files.items() if name.endswith((f"/{DATA_FILE}", f"/{PM_FILE}"))}


@pytest.mark.parametrize(
    ("first", "count"), [(0, 12), nightly(12, 13), *(nightly(1_000 * part, 1_000) for part in range(1, 4))]
)
def test_files_and_rows_are_those_of_the_writers_own_rewrite(first: int, count: int) -> None:
    for seed in range(first, first + count):
        draw = random.Random(seed)
        keys = ("ts",) if draw.randrange(3) == 0 else ()
        span = draw.choice([8, 40])
        times = [draw.randrange(2) * HOUR + draw.randrange(span) for _ in range(draw.randrange(12))]
        late = rows([draw.randrange(3) * HOUR + draw.randrange(span) for _ in range(draw.randrange(1, 8))], 100)
        theirs, ours = table_with(times, keys), table_with(times, keys)
        with opened(theirs) as writer:
            there = {partition.timestamp for partition in writer.transaction.partitions}
            for start in there & {time // HOUR * HOUR for time in late["ts"].cast(pa.int64()).to_pylist()}:
                writer.rewrite_partition(start)
            writer.write(late)
            writer.commit()
        with opened(ours) as writer:
            made = prepared(ours, late)
            for each in made:
                writer.adopt(each)
            assert writer.commit() == 2
        assert files_of(ours) == files_of(theirs), seed
        assert snapshot_of("t", ours).transaction.partitions == snapshot_of("t", theirs).transaction.partitions
        assert rows_of(snapshot_of("t", ours)).equals(rows_of(snapshot_of("t", theirs)))
        assert verified("t", ours).sound
        if not keys:
            assert sum(each.new_row_count for each in made) == len(late)


def test_a_partition_that_changed_meanwhile_is_not_replaced() -> None:
    storage = table_with([5, 6])
    (made,) = prepared(storage, rows([3], 50))
    with opened(storage) as writer:
        writer.write(rows([4], 60))
        writer.commit()
        with pytest.raises(RowsRejectedError, match="the partition has changed since rows were merged"):
            writer.adopt(made)
        writer.drop_partition(0)
        with pytest.raises(RowsRejectedError, match="the partition has changed since rows were merged"):
            writer.adopt(made)
        writer.rollback()
    assert rows_of(snapshot_of("t", storage)).num_rows == 6


def test_a_partition_is_not_dropped_once_another_one_takes_its_place() -> None:
    storage = table_with([5, 6])
    (made,) = prepared(storage, rows([3], 50))
    with opened(storage) as writer:
        writer.adopt(made)
        with pytest.raises(RowsRejectedError, match="a partition was adopted in its place; commit that first"):
            writer.drop_partition(0)
        writer.commit()
        writer.drop_partition(0)
        writer.commit()
    assert rows_of(snapshot_of("t", storage)).num_rows == 0


def test_a_partition_with_other_symbol_keys_is_not_adopted() -> None:
    """It was, and servers found the symbols of other keys in its rows."""
    storage = table_with([])
    (made,) = prepared(storage, rows([HOUR, HOUR + 1], 0), {"s": SymbolTable(("a", "b"))})
    with opened(storage) as writer:
        writer.adopt(made)
        with pytest.raises(CorruptError, match=r"T01.1/data.parquet: key 0 in .*: expected 'b', as in the table"):
            writer.commit()
        writer.rollback()
        writer.write(rows([5], 0))
        assert writer.commit() == 2
    assert verified("t", storage).sound and rows_of(snapshot_of("t", storage)).num_rows == 4


@pytest.mark.parametrize("new", [["c", "d"], ["d", "c"]])
def test_a_partition_may_have_symbols_that_the_same_commit_adds(new: list[str]) -> None:
    storage = table_with([])
    late = rows([HOUR, HOUR + 1], 0).set_column(2, "s", pa.array(["d", "c"]))
    (made,) = prepared(storage, late, {"s": SymbolTable(("b", "a", "c", "d"))})
    with opened(storage) as writer:
        writer.adopt(made)
        with pytest.raises(CorruptError, match=r"key 2 in .*: expected only the table's 2, found 'c'"):
            writer.commit()
        writer.write(rows([5, 6], 0).set_column(2, "s", pa.array(new)))
        if new == ["c", "d"]:
            assert writer.commit() == 2 and verified("t", storage).sound
        else:
            with pytest.raises(CorruptError, match=r"key 2 in .*: expected 'd', as in the table, found 'c'"):
                writer.commit()
            writer.rollback()


def test_a_partition_that_nobody_may_write_to_is_not_merged_with() -> None:
    storage = table_with([5])
    snapshot = snapshot_of("t", storage)
    (partition,) = snapshot.transaction.partitions
    offset_bytes = partition.flags_offset_bytes
    with storage.open_for_writing("t/_txn") as file:
        word = int.from_bytes(file.pread(8, offset_bytes), "little")
        file.pwrite(READ_ONLY.put(word, 1).to_bytes(8, "little"), offset_bytes)
    with pytest.raises(RowsRejectedError, match="it is marked as read-only"):
        prepared(storage, rows([3], 50))
    assert storage.kind(f"{PREPARED}-0") is EntryKind.MISSING


def test_a_partition_that_was_prepared_before_a_column_got_another_type_is_not_adopted() -> None:
    storage = table_with([])
    encoded = prepared(storage, rows([HOUR], 0))
    content = metadata_with_type(storage, "t", "v", "DOUBLE")
    changed = MemoryStorage.of(storage.image().with_file(f"t/{META_FILE}", content))
    with opened(changed) as writer, pytest.raises(RowsRejectedError, match="'v' was dropped and added again, or got"):
        for each in encoded:
            writer.adopt(each)
        writer.commit()
