"""A partition built away from the writer, and its adoption by a commit."""

import pyarrow as pa
import pytest
from msgspec import structs
from real_tables import rows_of, snapshot_of, verified

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl import limits
from tornproof.impl.errors import CorruptError, OptionsRejectedError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.storage.interface import EntryKind
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.symbols import read_table_symbols
from tornproof.impl.table.table import Table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions

COLUMNS = (
    NewColumn(name="ts", type=TypeTag.TIMESTAMP),
    NewColumn(name="v", type=TypeTag.LONG),
    NewColumn(name="s", type=TypeTag.VARCHAR),
)
HOUR = 3_600_000_000
OPTIONS = WriterOptions(row_group_row_count_max=4, encoding=EncodeOptions(codec=Codec.ZSTD, level=3))
PREPARED = "t/prepared"


def new_table() -> tuple[MemoryStorage, Table]:
    storage = MemoryStorage()
    return storage, create_table(storage, "t", COLUMNS, timestamp="ts", partition_by=PartitionBy.HOUR)


def rows(times: range) -> pa.Table:
    arrays = [
        pa.array(times, pa.timestamp("us", tz="UTC")),
        pa.array([time % 7 for time in times], pa.int64()),
        pa.array([None if time % 3 == 0 else f"text {time}" for time in times], pa.string()),
    ]
    return pa.Table.from_arrays(arrays, names=["ts", "v", "s"])


def built(storage: MemoryStorage, table: Table, content: pa.Table, start: int = 0) -> PreparedPartition:
    assert table.metadata is not None
    with PartitionBuild(storage, PREPARED, table.metadata, OPTIONS, table_name="t") as build:
        for offset in range(0, len(content), 4):
            build.append(build.encoded(content.slice(offset, 4)))
        return build.finish(start)


def files_below(storage: MemoryStorage, directory: str) -> dict[str, bytes]:
    return {name: content for name, content in storage.image().files.items() if name.startswith(f"{directory}/")}


def test_a_built_partition_has_the_bytes_that_the_writer_gives_it() -> None:
    storage, table = new_table()
    prepared = built(storage, table, rows(range(0, 100, 7)))
    with open_writer(storage, "t", options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows(range(0, 100, 7)))
        writer.commit()
    ours = {name.removeprefix(PREPARED): content for name, content in files_below(storage, PREPARED).items()}
    theirs = {
        name.removeprefix("t/1970-01-01T00.0"): content
        for name, content in files_below(storage, "t/1970-01-01T00.0").items()
    }
    assert ours == theirs and set(ours) == {f"/{DATA_FILE}", f"/{PM_FILE}"}
    assert prepared == PreparedPartition(
        directory_path=PREPARED, timestamp=0, row_count=15, token=len(ours[f"/{DATA_FILE}"])
    )


def test_a_commit_names_prepared_partitions_and_writes_rows_beside_them() -> None:
    storage, table = new_table()
    with open_writer(storage, "t", options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows(range(0, 100, 7)))
        writer.commit()
        writer.adopt(built(storage, table, rows(range(HOUR, HOUR + 50)), HOUR))
        assert storage.kind(PREPARED) is EntryKind.DIRECTORY
        writer.write(rows(range(101, 110)))
        assert writer.commit() == 2
        # The writer knows the adopted partition and goes on in it.
        writer.write(rows(range(HOUR + 20, HOUR + 30)))
        assert writer.commit() == 3
    assert storage.kind(PREPARED) is EntryKind.MISSING
    times = rows_of(snapshot_of("t", storage))["ts"].cast(pa.int64()).to_pylist()
    second_hour = sorted([*range(HOUR, HOUR + 50), *range(HOUR + 20, HOUR + 30)])
    assert times == [*range(0, 100, 7), *range(101, 110), *second_hour]
    assert verified("t", storage).sound


@pytest.mark.parametrize("limit", ["ROW_GROUP_COUNT_LIMIT", "PM_LIMIT_BYTES"])
def test_a_partition_that_readers_would_not_take_is_not_built(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    storage, table = new_table()
    monkeypatch.setattr(limits, limit, 3)
    with pytest.raises(RowsRejectedError, match=r"t/prepared: it would have .* readers accept at most 3; write larger"):
        built(storage, table, rows(range(16)))
    assert PM_FILE not in storage.listdir(PREPARED)


def test_what_is_rolled_back_is_not_named() -> None:
    storage, table = new_table()
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.adopt(built(storage, table, rows(range(5))))
        writer.rollback()
        assert writer.commit() == 0
    assert storage.kind(PREPARED) is EntryKind.DIRECTORY


def test_a_prepared_partition_is_rejected_where_one_is_or_rows_are_staged() -> None:
    storage, table = new_table()
    prepared = built(storage, table, rows(range(5)))
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.adopt(prepared)
        writer.write(rows(range(5)))
        with pytest.raises(RowsRejectedError, match="prepared elsewhere"):
            writer.commit()
        writer.rollback()
        writer.write(rows(range(5)))
        writer.commit()
        with pytest.raises(RowsRejectedError, match="there is already a partition that starts at 0"):
            writer.adopt(prepared)


def test_a_prepared_partition_takes_the_place_of_one_that_the_same_commit_drops() -> None:
    storage, table = new_table()
    with open_writer(storage, "t", options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows(range(0, 100, 7)))
        writer.commit()
        writer.drop_partition(0)
        writer.adopt(built(storage, table, rows(range(50))))
        assert writer.commit() == 2
    assert rows_of(snapshot_of("t", storage))["ts"].cast(pa.int64()).to_pylist() == list(range(50))
    assert verified("t", storage).sound


def test_symbols_of_a_built_partition_have_the_keys_of_the_dictionary() -> None:
    storage = MemoryStorage()
    columns = (COLUMNS[0], NewColumn(name="s", type=TypeTag.SYMBOL))
    table = create_table(storage, "t", columns, timestamp="ts", partition_by=PartitionBy.HOUR)

    def symbols(start: int, texts: list[str | None]) -> pa.Table:
        times = pa.array(range(start, start + len(texts)), pa.timestamp("us", tz="UTC"))
        return pa.table({"ts": times, "s": pa.array(texts, pa.string())})

    prepared, written = symbols(HOUR, ["c", None, "a"]), symbols(2 * HOUR, ["c", None, "a"])
    assert table.metadata is not None
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        writer.write(symbols(0, ["a", "b", "c"]))
        writer.commit()
        known = dict(read_table_symbols(table, writer.transaction))
        with PartitionBuild(storage, PREPARED, table.metadata, OPTIONS, table_name="t", symbols=known) as build:
            build.append(build.encoded(prepared))
            writer.adopt(build.finish(HOUR))
        writer.write(written)
        writer.commit()
    assert rows_of(snapshot_of("t", storage))["s"].to_pylist() == ["a", "b", "c", *["c", None, "a"] * 2]
    assert verified("t", storage).sound


def test_a_directory_that_is_incomplete_or_of_another_time_is_rejected() -> None:
    storage, table = new_table()
    prepared = built(storage, table, rows(range(5)))
    with open_writer(storage, "t", allow_parquet_last=True) as writer:
        for wrong in (
            structs.replace(prepared, timestamp=HOUR),
            structs.replace(prepared, row_count=4),
            structs.replace(prepared, token=prepared.token - 1),
        ):
            with pytest.raises(CorruptError):
                writer.adopt(wrong)
        writer.adopt(prepared)
        assert writer.commit() == 1


def test_options_that_do_not_fit_the_table_are_rejected_before_anything_is_made() -> None:
    storage, table = new_table()
    assert table.metadata is not None
    options = WriterOptions(encoding=EncodeOptions(columns={"none": ColumnOptions(level=3)}))
    with pytest.raises(OptionsRejectedError):
        PartitionBuild(storage, PREPARED, table.metadata, options, table_name="t")
    assert storage.kind(PREPARED) is EntryKind.MISSING
