"""A partition whose file does not say which column is the designated timestamp, as other programs write it."""

import datetime
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_tables import rows_of, snapshot_of, verified

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.convert import convert
from tornproof.impl.migrate.plan import Outcome
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import partition_change
from tornproof.impl.write.incoming_rows import conform, portions
from tornproof.impl.write.prepared_partition import prepare_partition
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions

START = 1_704_067_200_000_000
COLUMNS = (NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="v", type=TypeTag.LONG))


def rows(times: list[int | None], first: int) -> pa.Table:
    moments = [None if time is None else START + time for time in times]
    values = [pa.array(moments, pa.timestamp("us", tz="UTC")), pa.array(range(first, first + len(times)), pa.int64())]
    return pa.table(dict(zip(("ts", "v"), values, strict=True)))


def table_of_another_writer(times: list[int | None], *, has_ids: bool = True) -> MemoryStorage:
    """A table with one partition of another program, which `migrate` has seen; row groups have two rows."""
    storage = MemoryStorage()
    create_table(storage, "t", COLUMNS, timestamp="ts", partition_by=PartitionBy.DAY)
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.write(rows([0] * len(times), 0))
        writer.commit()
    target = io.BytesIO()
    named = [pa.field(name, rows([], 0).schema.field(name).type) for name in ("ts", "v")]
    ids = [{"PARQUET:field_id": str(index)} if has_ids else None for index in range(len(named))]
    schema = pa.schema([field.with_metadata(own) for field, own in zip(named, ids, strict=True)])
    written = rows(times, 0).cast(schema)
    pq.write_table(written, target, store_schema=False, row_group_size=2, write_statistics=False)
    (partition,) = open_table(storage, "t").transaction().partitions
    directory = f"t/{open_table(storage, 't').directory_of(partition)}"
    storage.unlink(f"{directory}/{PM_FILE}")
    token = len(target.getvalue()).to_bytes(8, "little")
    for path, content, offset_bytes in (
        (f"{directory}/{DATA_FILE}", target.getvalue(), 0),
        (f"t/{TXN_FILE}", token, partition.token_offset_bytes),
    ):
        with storage.open_for_writing(path) as file:
            file.pwrite(content, offset_bytes)
    migrate_table(storage, "t")
    return storage


IN_ORDER: list[int | None] = [0, 10, 10, 20, 30]
TURNED_ROUND: list[int | None] = [30, 20, 10, 10, 0]
OVERLAPPING: list[int | None] = [10, 20, 0, 30, 10]


def append(storage: MemoryStorage, new: pa.Table) -> None:
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.write(new)
        writer.commit()


def adopt(storage: MemoryStorage, new: pa.Table) -> None:
    snapshot = snapshot_of("t", storage)
    assert snapshot.table.metadata is not None
    there = snapshot.transaction.partitions
    (portion,) = portions(conform(new, snapshot.schema, "ts"), "ts", snapshot.table.metadata, there)
    prepared = prepare_partition(storage, snapshot, portion, "t/prepared", WriterOptions())
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.adopt(prepared)
        writer.commit()


@pytest.mark.parametrize("new", [[0, 5], [15], [99], [0, 5, 15, 99]])
@pytest.mark.parametrize("known", [IN_ORDER, TURNED_ROUND, OVERLAPPING], ids=str)
@pytest.mark.parametrize("write", [append, adopt])
def test_rows_are_merged_into_it_and_it_says_so_afterwards(
    write: Callable[[MemoryStorage, pa.Table], None], known: list[int | None], new: list[int | None]
) -> None:
    """It was CorruptError: expected a minimum and a maximum, as every writer stores them.

    Then new rows were written several times, once before each row group that is later than the one behind it.
    """
    storage = table_of_another_writer(known)
    write(storage, rows(new, 100))
    expected = sorted(zip([*known, *new], [*range(5), *range(100, 100 + len(new))], strict=True))
    found = rows_of(snapshot_of("t", storage))
    microsecond = datetime.timedelta(microseconds=1)
    first = datetime.datetime.fromtimestamp(START / 1e6, datetime.UTC)
    times = [(moment - first) // microsecond for moment in found["ts"].to_pylist()]
    assert list(zip(times, found["v"].to_pylist(), strict=True)) == expected
    assert verified("t", storage).sound


def test_too_many_bytes_of_row_groups_that_overlap_in_time_are_rejected_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_change, "RUN_BYTES_MAX", 1)
    append(table_of_another_writer(TURNED_ROUND[:2]), rows([5], 100))
    storage = table_of_another_writer(OVERLAPPING)
    with pytest.raises(RowsRejectedError, match=r"3 of its row groups overlap in time, .* and have more than 1 bytes"):
        append(storage, rows([5], 100))
    assert rows_of(snapshot_of("t", storage)).num_rows == len(OVERLAPPING)


def test_rows_without_a_time_are_rejected_in_a_sentence() -> None:
    storage = table_of_another_writer([0, 10, None, 30])
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.write(rows([5], 100))
        with pytest.raises(CorruptError, match="a designated timestamp in each row"):
            writer.commit()
        writer.rollback()


def test_a_partition_without_the_column_of_the_time_is_refused_and_named() -> None:
    """It was migrated and called sound, and its rows were read as nulls."""
    storage = table_of_another_writer([0, 10], has_ids=False)
    (migrated,) = migrate_table(storage, "t").partitions
    assert migrated.outcome is Outcome.REJECTED
    assert [(each.file, each.field) for each in migrated.problems] == [("2024-01-01.0/_pm", "COLUMN ID")]
    content = storage.image().files[f"t/2024-01-01.0/{DATA_FILE}"]
    made = convert(lambda size, at: content[at : at + size], size_bytes=migrated.token, file=DATA_FILE)
    image = storage.image().with_file(f"t/2024-01-01.0/{PM_FILE}", made)
    (problem,) = verified("t", image).all_problems
    assert problem == migrated.problems[0]
