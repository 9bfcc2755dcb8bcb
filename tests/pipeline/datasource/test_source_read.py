"""Planning and reading a version without Spark: which row groups, in which tasks, and from which files."""

import datetime
import json
import pickle
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from catalog_tables import properties_of, schema_in_catalog
from day_tables import new_table
from golden_data import TABLES, CopyOf
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, InputPartition, LessThan
from pyspark.sql.types import StructType
from source_holds import let_go
from work import peak_bytes
from written_tables import leave_between

from tornproof.impl.errors import CorruptError, NotATableError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.query.predicate_literal import PredicateError
from tornproof.impl.read.reader import UnknownColumnError, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions
from tornproof.pipeline.datasource import pins as source_pins
from tornproof.pipeline.datasource.metrics import read_metrics
from tornproof.pipeline.datasource.options import OptionRejectedError, path_of
from tornproof.pipeline.datasource.plan import Piece, SnapshotGoneError, splits_of
from tornproof.pipeline.datasource.source import OPTIONS_KEY, PushdownReader, TornproofReader, TornproofSource, pinned
from tornproof.pipeline.datasource.types import spark_arrow_schema, to_spark

STORAGE = OperatingSystemStorage()
DAY_LENGTH = 86_400_000_000
GROUP_ROW_COUNT = 100
OPTIONS = WriterOptions(
    row_group_row_count_max=GROUP_ROW_COUNT, rewrite_unused_ratio=1.0, blooms=BloomOptions(columns={"n": 0.01})
)


def rows_from(first: int, count: int, microseconds_a_row: int = 1_000_000) -> pa.Table:
    numbers = np.arange(first, first + count)
    times = pa.array(numbers * microseconds_a_row, pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times, "v": numbers, "n": [f"name-{number}" for number in numbers]})


def commit(path: Path, rows: pa.Table, options: WriterOptions = OPTIONS) -> int:
    with open_writer(STORAGE, str(path), options=options, allow_parquet_last=True) as writer:
        writer.write(rows)
        return writer.commit()


def rewrite(path: Path, rows: pa.Table) -> None:
    """Commit rows, and write the first partition anew with it."""
    with open_writer(STORAGE, str(path), options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(rows)
        writer.rewrite_partition(0)
        writer.commit()


@pytest.fixture(autouse=True)
def no_holds() -> Iterator[None]:
    """Let go of what a helper process would hold for a minute."""
    yield
    let_go()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Ten row groups of one day, and one of the next."""
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG, "n": TypeTag.VARCHAR})
    commit(path, rows_from(0, 10 * GROUP_ROW_COUNT))
    commit(path, rows_from(86_400, GROUP_ROW_COUNT))
    return path


def reader_of(path: Path | str, *filters: Filter, schema: StructType | None = None, **options: str) -> TornproofReader:
    """Return a reader that has planned nothing yet, as the planner's process makes it."""
    given: Any = {"path": str(path), **options}
    source = TornproofSource(given)
    found = schema or source.schema()
    reader = pickle.loads(pickle.dumps(source)).reader(found)
    assert isinstance(reader, TornproofReader)
    if filters:
        assert isinstance(reader, PushdownReader)
        assert list(reader.pushFilters(list(filters))) == list(filters)
    made: TornproofReader = reader
    return made


def read_in(reader: TornproofReader, partitions: Sequence[InputPartition]) -> pa.Table:
    """Return the rows of all tasks, each read by a reader that came through a pickle."""
    batches = [
        batch
        for partition in pickle.loads(pickle.dumps(partitions))
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def rows_of(path: Path | str, *filters: Filter, **options: str) -> pa.Table:
    reader = reader_of(path, *filters, schema=None, **options)
    return read_in(reader, reader.partitions())


def values_of(path: Path, *filters: Filter, **options: str) -> list[int]:
    found = rows_of(path, *filters, **options)
    return found["v"].to_pylist() if found.num_columns else []


def at(second: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=second)


@pytest.mark.parametrize("name", TABLES)
def test_real_table_reads_as_our_reader_reads_it(questdb_data: Path, name: str) -> None:
    folder = questdb_data / name / "table"
    snapshot = open_snapshot(open_table(STORAGE, str(folder)))
    target = spark_arrow_schema(snapshot.schema)
    expected = [to_spark(batch, target) for batch in snapshot.batches()]
    found = rows_of(folder)
    assert found.num_rows == sum(batch.num_rows for batch in expected) > 0
    assert found.equals(pa.Table.from_batches(expected, schema=target))


def test_rows_are_those_of_the_version_that_was_loaded(table: Path) -> None:
    reader = reader_of(table)
    commit(table, rows_from(1000, 50))
    assert read_in(reader, reader.partitions()).num_rows == 11 * GROUP_ROW_COUNT
    assert rows_of(table).num_rows == 11 * GROUP_ROW_COUNT + 50


def test_planned_tasks_read_their_version_while_the_file_grows_and_is_merged_into(table: Path) -> None:
    expected = values_of(table)
    reader = reader_of(table)
    partitions = reader.partitions()
    commit(table, rows_from(500, 50))
    commit(table, rows_from(1000, 50))
    assert read_in(reader, partitions)["v"].to_pylist() == expected
    assert len(values_of(table)) == len(expected) + 100


def test_version_that_is_committed_can_be_named_and_no_other(table: Path) -> None:
    assert len(values_of(table, version="2")) == 11 * GROUP_ROW_COUNT
    with pytest.raises(OptionRejectedError, match="version 1 is not the committed one, which is 2"):
        reader_of(table, version="1")


def test_rewritten_partition_is_read_from_its_old_directory_until_it_is_purged(table: Path) -> None:
    expected = values_of(table)
    reader = reader_of(table)
    partitions = reader.partitions()
    rewrite(table, rows_from(1000, 50))
    assert read_in(reader, partitions)["v"].to_pylist() == expected
    with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
        assert writer.purge() == ()
        let_go()
        assert writer.purge() == ("1970-01-01.0",)
    with pytest.raises(SnapshotGoneError, match=r"version 2 can no longer be read, because 1970-01-01\.0 has been"):
        read_in(reader, partitions)
    with pytest.raises(SnapshotGoneError):
        reader.partitions()


def test_pin_of_the_driver_keeps_what_is_loaded_under_it(table: Path) -> None:
    expected = values_of(table)
    with pinned(str(table)) as pin:
        assert pin.is_held
        reader = reader_of(table)
        let_go()
        rewrite(table, rows_from(1000, 50))
        with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
            assert writer.purge() == ()
        assert read_in(reader, reader.partitions())["v"].to_pylist() == expected
    with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
        assert writer.purge() == ("1970-01-01.0",)


def test_task_pins_its_version_while_it_reads(table: Path) -> None:
    reader = reader_of(table, splits="1")
    batches = reader.read(reader.partitions()[0])
    next(batches)
    let_go()
    rewrite(table, rows_from(1000, 50))
    with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
        assert writer.purge() == ()
        assert sum(batch.num_rows for batch in batches) == 10 * GROUP_ROW_COUNT
        assert writer.purge() == ("1970-01-01.0",)


def test_damage_is_damage_also_after_a_later_commit(table: Path) -> None:
    reader = reader_of(table)
    partitions = reader.partitions()
    data = table / "1970-01-01.0" / DATA_FILE
    with data.open("r+b") as file:
        file.seek(4)
        file.write(bytes(100))
    commit(table, rows_from(86_500, 50))
    with pytest.raises(CorruptError, match=r"1970-01-01\.0/data\.parquet"):
        read_in(reader, partitions)


def test_missing_file_of_the_committed_version_is_damage(table: Path) -> None:
    shutil.rmtree(table / "1970-01-01.0")
    with pytest.raises(CorruptError, match="_txn names it"):
        rows_of(table)


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_what_is_no_table_is_called_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotATableError, match="not a table"):
        reader_of(tmp_path / name)


@pytest.mark.parametrize("given", ["n,v", '["n", "v"]', " n , v "])
def test_columns_are_those_asked_for_in_that_order(table: Path, given: str) -> None:
    assert rows_of(table, columns=given).schema.names == ["n", "v"]


def test_schema_of_the_user_chooses_columns(table: Path) -> None:
    schema = StructType().add("v", "long").add("ts", "timestamp")
    reader = reader_of(table, schema=schema)
    assert read_in(reader, reader.partitions()).schema.names == ["v", "ts"]


def test_schema_of_the_user_beside_other_columns_is_rejected(table: Path) -> None:
    """The option `columns` was left out without a word."""
    schema = StructType().add("v", "long").add("ts", "timestamp")
    assert reader_of(table, schema=schema, columns="v,ts").partitions()
    given: Any = {"path": str(table), "columns": "n"}
    for made in (TornproofSource(given).reader, TornproofSource(given).streamReader):
        with pytest.raises(OptionRejectedError, match="option columns: n are not the columns of the schema, v, ts"):
            made(schema)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "v,q"}, "no column 'q'"),
        ({"columns": "v,v"}, "each once"),
        ({"columns": ""}, "does not name columns"),
        ({"columns": "[1]"}, "does not name columns"),
        ({"columns": "[v"}, "not a JSON list"),
        ({"from": "yesterday"}, "'yesterday' is no time"),
        ({"from": "2024-01-02", "to": "2024-01-01"}, "from 2024-01-02 to 2024-01-01 end before they begin"),
        ({"where": "v >"}, "cannot be read at"),
        ({"where": "q = 1"}, "q"),
        ({"splits": "many"}, "'many' is not a whole number"),
        ({"splits": "0"}, "0 is not a number of tasks"),
        ({"pushdown": "maybe"}, "neither true nor false"),
        ({"version": "two"}, "'two' is not a whole number"),
        ({"colums": "v"}, "there is no option 'colums' for reading"),
    ],
    ids=str,
)
def test_option_that_makes_no_sense_is_rejected_in_words(table: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises((OptionRejectedError, UnknownColumnError, PredicateError), match=message) as rejected:
        rows_of(table, **options)
    assert "\n" not in str(rejected.value)


def test_column_of_another_type_is_rejected(table: Path) -> None:
    with pytest.raises(OptionRejectedError, match="column 'v' is of type bigint, not int"):
        reader_of(table, schema=StructType().add("v", "integer"))


@pytest.mark.parametrize("path", ["", "hdfs://host/t", "s3a://bucket/t"])
def test_path_must_be_a_directory_of_a_mounted_file_system(path: str) -> None:
    with pytest.raises(OptionRejectedError, match=r"directory is missing|mounted"):
        reader_of(path)


def test_path_may_be_a_file_uri(table: Path) -> None:
    assert values_of(table) == rows_of(f"file:{table}")["v"].to_pylist() == rows_of(f"file://{table}/")["v"].to_pylist()


NARROW = (GreaterThanOrEqual(("ts",), at(250)), LessThan(("ts",), at(260)))


@pytest.mark.parametrize(
    ("filters", "options"),
    [
        (NARROW, {"pushdown": "true"}),
        ((), {"from": "1970-01-01T00:04:10", "to": "1970-01-01T00:04:20"}),
        ((), {"where": "ts >= '1970-01-01T00:04:10' and ts < '1970-01-01T00:04:20'"}),
        ((NARROW[0],), {"pushdown": "true", "to": "1970-01-01T00:04:20"}),
    ],
    ids=["filters", "from_to", "where", "both"],
)
def test_time_range_opens_one_partition_and_reads_one_row_group(
    table: Path, tmp_path: Path, filters: tuple[Filter, ...], options: dict[str, str]
) -> None:
    assert values_of(table, *filters, metrics=str(tmp_path / "m"), **options) == list(range(250, 260))
    (found,) = read_metrics(str(tmp_path / "m"))
    assert (found["partitions"], found["partitions_left_out"]) == (2, 1)
    assert (found["row_groups"], found["row_groups_read"], found["tasks"]) == (10, 1, 1)
    assert found["row_groups_left_out"] == {"time": 9, "nulls": 0, "statistics": 0, "bloom_filter": 0}
    assert (found["scanned_row_count"], found["returned_row_count"]) == (100, 10)
    assert 0 < found["read_bytes"] < found["data_bytes"] / 5


def test_statistics_and_bloom_filters_leave_row_groups_out(table: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    assert values_of(table, EqualTo(("v",), 305), pushdown="true", metrics=folder) == [305]
    assert values_of(table, EqualTo(("n",), "name-305"), pushdown="true", metrics=folder) == [305]
    by_number, by_name = read_metrics(folder)
    assert by_number["row_groups_left_out"]["statistics"] == 10
    assert by_name["row_groups_read"] == 1
    assert by_name["row_groups_left_out"]["bloom_filter"] > 0
    assert by_name["row_groups_left_out"]["bloom_filter"] + by_name["row_groups_left_out"]["statistics"] == 10


def test_no_row_group_is_left_out_without_filters(table: Path, tmp_path: Path) -> None:
    rows_of(table, metrics=str(tmp_path / "m"))
    (found,) = read_metrics(str(tmp_path / "m"))
    assert found["row_groups"] == found["row_groups_read"] == 11
    assert found["returned_row_count"] == 11 * GROUP_ROW_COUNT
    assert found["tasks_done"] == found["tasks"]


def test_filters_are_pushed_only_where_that_is_asked_for(table: Path) -> None:
    assert isinstance(reader_of(table, pushdown="true"), PushdownReader)
    assert not isinstance(reader_of(table, pushdown="false"), PushdownReader)
    assert not isinstance(reader_of(table), PushdownReader)


def test_task_without_a_value_reads_nothing(table: Path) -> None:
    reader = reader_of(table, where="v = -1")
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_tasks_do_not_carry_the_list_of_partitions(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG, "n": TypeTag.VARCHAR})
    commit(path, rows_from(0, 200, microseconds_a_row=DAY_LENGTH))
    reader = reader_of(path)
    whole = len(pickle.dumps(reader.__dict__))
    assert len(pickle.dumps(reader)) < whole / 5


@pytest.mark.parametrize("split_count", [1, 2, 3, 8, 50, 1_000_000])
def test_row_groups_are_shared_out_in_order_and_each_once(table: Path, split_count: int) -> None:
    snapshot = open_snapshot(open_table(STORAGE, str(table)))
    partition = snapshot.transaction.partitions[0]
    groups = [(Piece(name="p", partition=partition, ordinals=(ordinal,)), 10) for ordinal in range(20)]
    splits = splits_of(groups, 2, split_count)
    # Memory for a million lists is some 60 MB.
    assert peak_bytes(lambda: splits_of(groups, 2, split_count)) < 1 << 20
    assert [ordinal for pieces in splits for piece in pieces for ordinal in piece.ordinals] == list(range(20))
    assert len(splits) == min(split_count, 20)
    sizes = [sum(len(piece.ordinals) for piece in pieces) for pieces in splits]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("megabytes", "expected"), [(0, 1), (1, 1), (5, 2), (100, 6), (2000, 16)])
def test_number_of_tasks_fits_the_cores_and_the_bytes(table: Path, megabytes: int, expected: int) -> None:
    partition = open_snapshot(open_table(STORAGE, str(table))).transaction.partitions[0]
    size_bytes = megabytes * (1 << 20) // 100
    groups = [(Piece(name="p", partition=partition, ordinals=(ordinal,)), size_bytes) for ordinal in range(100)]
    assert len(splits_of(groups, 2)) == expected


def test_table_of_a_copy_that_nobody_pins_is_read(copy_of: CopyOf) -> None:
    folder = copy_of("tables/9.4.2/chain/table")
    assert not (folder / "_pins").exists()
    with pinned(str(folder)) as pin:
        assert not pin.is_held
        assert rows_of(folder).num_rows > 0
    assert not (folder / "_pins").exists()


class Clock(OperatingSystemStorage):
    """The files of this machine at a time that the test sets."""

    seconds = 0.0

    def monotonic_seconds(self) -> float:
        return self.seconds


def test_process_holds_a_version_for_a_minute_and_few_of_them(table: Path) -> None:
    storage = Clock()
    for second in range(0, 200, 2):
        storage.seconds = float(second)
        assert source_pins.hold_committed(storage, str(table)).version == 2
        taken = [hold.taken_seconds for hold in source_pins._HOLDS]
        assert second - max(taken) < source_pins.RENEWAL_SECONDS
        assert second - min(taken) <= source_pins.HOLD_SECONDS
        assert len(taken) <= 5


def test_options_for_writing_are_taken_by_a_reader_too_as_a_view_has_one_set_for_both(table: Path) -> None:
    source = TornproofSource({"path": str(table), "allow_parquet_last": "true", "force": "false"})
    assert source.reader(source.schema()).partitions()


def test_options_of_a_table_in_the_catalog_are_those_of_its_queries(table: Path) -> None:
    """Those that nobody knows were left out without a word, so that a misspelt condition returned all rows."""
    schema = schema_in_catalog(table, where="v < 5", changes="skip", allow_parquet_last="true")
    reader = TornproofSource({}).reader(schema)
    assert isinstance(reader, TornproofReader)
    assert read_in(reader, reader.partitions())["v"].to_pylist() == list(range(5))
    schema.fields[0].metadata = {OPTIONS_KEY: json.dumps(properties_of(table, wher="v < 5"))}
    with pytest.raises(OptionRejectedError, match="there is no option 'wher' for reading"):
        TornproofSource({}).reader(schema)


def test_option_that_nobody_knows_is_rejected_when_the_catalog_takes_a_table(table: Path) -> None:
    """Queries were never told of the option, and returned all rows."""
    with pytest.raises(OptionRejectedError, match="there is no option 'wher' for a table in the catalog"):
        schema_in_catalog(table, wher="v < 5")


def test_a_table_is_loaded_once_a_server_has_changed_its_columns(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = leave_between(table, monkeypatch)
    assert len(TornproofSource({"path": str(table)}).schema()) and len(paused) == 1


def test_executors_are_told_a_path_that_does_not_depend_on_their_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = str(tmp_path / "some" / "table")
    assert [path_of(path) for path in ("some/table", "some/table/", wanted, f"file:{wanted}", f"file://{wanted}")] == [
        wanted
    ] * 5
