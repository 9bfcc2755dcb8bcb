"""Tables through Spark's own reader: the rows that our reader finds, or those of the slower way with a warning."""

import re
import shutil
import stat
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import table_builder
from day_tables import new_table
from depth import always_if, nightly
from golden_data import CRASHES, TABLES
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession, functions
from type_values import NEVER_NULL, SHOWN, TYPES, arrow
from written_tables import alter, leave_between

from tornproof.harness.common.new_tables import metadata_with_type
from tornproof.impl.errors import CorruptError, NotATableError, UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import ENCODABLE, PYARROW_CODECS, ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.read.reader import UnknownColumnError, open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import META_FILE, TableColumn
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource.har import SUFFIX, Beginning, write_archive
from tornproof.pipeline.datasource.options import OptionRejectedError
from tornproof.pipeline.datasource.scan import SlowScanWarning, scan
from tornproof.pipeline.datasource.types import spark_arrow_schema, to_spark
from tornproof.pipeline.spark.java import PipelineUnavailableError

STORAGE = OperatingSystemStorage()
ROW_COUNT = 300
IN_PLACE = WriterOptions(row_group_row_count_max=100, rewrite_unused_ratio=1.0)
SLOW_TABLES = {"tables/9.4.2/oddcols": "still called", "tables/9.4.2/types": "has no reader for"}
SOME_TABLES = (*SLOW_TABLES, "tables/2026-07/nanosecond")
SPARK_LACKS = ("array", "array of 3 dimensions", "decimal256")


def expected_of(path: Path, names: list[str] | None = None) -> pa.Table:
    """Return what our own reader finds, in Spark's types."""
    snapshot = open_snapshot(open_table(STORAGE, str(path)))
    schema = spark_arrow_schema(snapshot.schema_of(snapshot.selected(names)))
    return pa.Table.from_batches([to_spark(batch, schema) for batch in snapshot.batches(names)], schema=schema)


def assert_same_rows(frame: DataFrame, expected: pa.Table) -> None:
    found = frame.toArrow()
    assert (found.schema.names, found.schema.types) == (expected.schema.names, expected.schema.types)
    assert sorted(map(repr, rows_of(found))) == sorted(map(repr, rows_of(expected)))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of which times are integers, since most instants have no Python object."""
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist() for column in table
    ]
    return list(zip(*columns, strict=True))


def assert_native(spark: SparkSession, path: Path, names: list[str] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlowScanWarning)
        with scan(spark, str(path), columns=names) as frame:
            assert_same_rows(frame, expected_of(path, names))


def assert_slow(spark: SparkSession, path: Path, reason: str, names: list[str] | None = None) -> None:
    with pytest.warns(SlowScanWarning, match=reason), scan(spark, str(path), columns=names) as frame:
        assert_same_rows(frame, expected_of(path, names))


def times_from(first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + count) * 1_000_000, pa.timestamp("us", tz="UTC"))


def commit(path: Path, rows: dict[str, Any], options: WriterOptions = IN_PLACE) -> None:
    with open_writer(STORAGE, str(path), options=options, allow_parquet_last=True) as writer:
        writer.write(pa.table(rows))
        writer.commit()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG})
    commit(path, {"ts": times_from(0, ROW_COUNT), "v": range(ROW_COUNT)})
    return path


def data_of(path: Path) -> Path:
    (found,) = path.glob(f"*/{DATA_FILE}")
    return found


def test_a_scan_begins_once_a_server_has_changed_the_columns(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = leave_between(table, monkeypatch)
    with scan(spark, str(table)) as frame:
        assert frame.count() == ROW_COUNT and len(paused) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("names", [TABLES], ids=["all"])
def test_real_tables_have_the_rows_that_our_reader_finds(
    spark: SparkSession, questdb_data: Path, names: Sequence[str]
) -> None:
    for name in names:
        path = questdb_data / name / "table"
        if name in SLOW_TABLES:
            assert_slow(spark, path, SLOW_TABLES[name])
        else:
            assert_native(spark, path)


@pytest.mark.parametrize("name", always_if(lambda name: name == CRASHES[0], CRASHES))
def test_what_a_killed_server_left_behind_the_committed_bytes_is_not_read(
    spark: SparkSession, questdb_data: Path, name: str
) -> None:
    assert_native(spark, questdb_data / name / "table")


def test_real_columns_of_every_type_but_those_spark_lacks_are_read_by_spark(
    spark: SparkSession, questdb_data: Path
) -> None:
    path = questdb_data / "tables/9.4.2/types/table"
    lacking = {"arr", "arr2", "dec256"}
    names = [name for name in open_snapshot(open_table(STORAGE, str(path))).schema.names if name not in lacking]
    assert_native(spark, path, names)


@pytest.fixture(scope="module")
def some_values() -> dict[str, pa.Array]:
    """The extremes of each type and a null, over and over."""
    values = {}
    for name, (low, high) in SHOWN.items():
        if name not in SPARK_LACKS:
            given = [low, high, low if name in NEVER_NULL else None] * (ROW_COUNT // 3)
            values[name] = arrow(given, TYPES[name][1])
    return values


def written(path: Path, values: dict[str, pa.Array], encoding: EncodeOptions) -> Path:
    new_table(path, {name: TYPES[name][0] for name in values})
    options = WriterOptions(encoding=encoding, allow_unreadable_by_servers=True)
    commit(path, {"ts": times_from(0, ROW_COUNT), **values}, options)
    return path


@pytest.mark.parametrize("codec", always_if({Codec.ZSTD, Codec.SNAPPY}.__contains__, PYARROW_CODECS))
def test_pages_of_every_codec_that_spark_has_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, some_values: dict[str, pa.Array], codec: Codec
) -> None:
    path = written(tmp_path / "t", some_values, EncodeOptions(codec=codec))
    if codec is Codec.BROTLI:
        assert_slow(spark, path, "column 'ts' is compressed with BROTLI")
    else:
        assert_native(spark, path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "encoding",
    always_if({Encoding.BYTE_STREAM_SPLIT}.__contains__, Encoding),
)
def test_pages_of_every_encoding_that_spark_has_are_read_by_spark(
    spark: SparkSession, tmp_path: Path, some_values: dict[str, pa.Array], encoding: Encoding
) -> None:
    forms = {name: physical_form(TYPES[name][0]) for name in some_values}
    fitting = [name for name, form in forms.items() if form is not None and form[0] in ENCODABLE[encoding]]
    options = EncodeOptions(columns={name: ColumnOptions(encoding=encoding) for name in fitting})
    path = written(tmp_path / "t", some_values, options)
    if encoding is Encoding.BYTE_STREAM_SPLIT:
        assert_slow(spark, path, "is encoded as BYTE_STREAM_SPLIT", ["ts", "ipv4"])
    else:
        assert_native(spark, path)


@pytest.mark.parametrize("stride", [61, nightly(1)])
def test_filters_find_the_same_rows_as_without_any_statistics(
    spark: SparkSession, tmp_path: Path, some_values: dict[str, pa.Array], stride: int
) -> None:
    path = written(tmp_path / "t", some_values, EncodeOptions())
    with scan(spark, str(path)) as frame:
        rows = spark.createDataFrame(frame.toArrow(), frame.schema).cache()
        asked = []
        largest = rows.agg(*map(functions.max, some_values)).first() or ()
        for name, value in zip(some_values, map(functions.lit, largest), strict=True):
            column = functions.col(name)
            asked += [column == value, column < value, column >= value, column != value, column.isNull()]
        expected = rows.select(*[functions.count_if(each) for each in asked[::stride]]).first()
        assert [frame.where(each).count() for each in asked[::stride]] == list(expected or ())
        rows.unpersist()


def test_filters_find_nan_and_times_between_two_milliseconds(spark: SparkSession, tmp_path: Path) -> None:
    """Their row groups were skipped: bounds leave NaN out, and Spark cut the literals to milliseconds."""
    path = new_table(tmp_path / "t", {"x": TypeTag.DOUBLE, "f": TypeTag.FLOAT, "d": TypeTag.DATE})
    floats, dates = pa.array([1, np.nan, -0.0], pa.float32()), pa.array([-100, 100, 100], pa.timestamp("ms", tz="UTC"))
    commit(path, {"ts": times_from(0, 3), "x": floats.cast(pa.float64()), "f": floats, "d": dates})
    asked = {"x > 5": 1, "NOT (f <= 5)": 1, "f = float('NaN')": 1, "d > timestamp_micros(-100500)": 3}
    asked |= {f"d {comparison} timestamp_micros(100500)": 3 for comparison in ("<", "!=")}
    with scan(spark, str(path)) as frame:
        assert {each: frame.where(each).count() for each in asked} == asked
    assert_native(spark, path)


def test_spark_itself_leaves_columns_and_row_groups_out(spark: SparkSession, table: Path) -> None:
    with scan(spark, str(table)) as frame:
        plan = frame.where("v = 5").select("v")._jdf.queryExecution().toString()
    assert re.search(r"PushedFilters: \[IsNotNull\(v\), EqualTo\(v,5\)\]", plan)
    assert re.search(r"ReadSchema: struct<v:bigint>", plan)


def test_spark_leaves_no_row_groups_out_by_texts_and_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Rows were lost that are outside of the bounds, or null beyond the count, that earlier servers wrote."""
    of = (TypeTag.VARCHAR, TypeTag.STRING, TypeTag.SYMBOL, TypeTag.BINARY, TypeTag.LONG256, TypeTag.UUID)
    path = new_table(tmp_path / "t", {tag.name.lower(): tag for tag in of})
    commit(path, {"ts": times_from(0, 1), "varchar": ["a"], "string": ["b"], "symbol": ["c"]})
    with scan(spark, str(path)) as frame:
        for tag in of:
            plan = frame.where(functions.col(tag.name.lower()).isNull())._jdf.queryExecution().toString()
            assert re.search(r"PushedFilters: \[\]", plan), tag
        assert frame.where("varchar = 'a' AND string = 'b' AND symbol = 'c' AND binary IS NULL").count() == 1
    assert_native(spark, path)


def test_filters_find_rows_that_are_older_than_a_column_without_nulls(spark: SparkSession, tmp_path: Path) -> None:
    """Their row group was skipped by bounds that servers up to 9.4 made of the newer rows alone."""
    columns = {
        "s": (TypeTag.SHORT, pa.array([0, 0, 5, 6], pa.int16())),
        "y": (TypeTag.BYTE, pa.array([0, 0, 5, 6], pa.int8())),
        "b": (TypeTag.BOOLEAN, pa.array([False, False, True, True])),
    }
    built = table_builder.build(columns, is_required=True, edit=lambda data: table_builder.with_older_rows(data, 2))
    path = built.write_to(tmp_path)
    asked = {"s = 0": 2, "s < 5": 2, "y IN (0, 6)": 3, "NOT y > 4": 2, "s IS NULL": 0, "NOT b": 2}
    with scan(spark, str(path), columns=list(columns)) as frame:
        assert {each: frame.where(each).count() for each in asked} == asked
    assert_native(spark, path, list(columns))


def test_bytes_behind_the_committed_ones_are_not_read(spark: SparkSession, table: Path) -> None:
    expected = expected_of(table)
    with data_of(table).open("ab") as file:
        file.write(bytes(1 << 20))
    with pytest.raises(Py4JJavaError, match="is not a Parquet file"):
        spark.read.parquet(str(data_of(table))).count()
    with scan(spark, str(table)) as frame:
        assert_same_rows(frame, expected)


def test_frame_stays_that_of_its_version_while_the_partition_grows_is_rewritten_and_purged(
    spark: SparkSession, table: Path
) -> None:
    expected = expected_of(table)
    with scan(spark, str(table)) as frame:
        commit(table, {"ts": times_from(ROW_COUNT, ROW_COUNT), "v": range(ROW_COUNT)})
        assert_same_rows(frame, expected)
        before = data_of(table)
        with open_writer(STORAGE, str(table), options=IN_PLACE, allow_parquet_last=True) as writer:
            writer.rewrite_partition(0)
            writer.commit()
            writer.purge()
        assert before.exists()
        assert_same_rows(frame, expected)
    with open_writer(STORAGE, str(table), options=IN_PLACE, allow_parquet_last=True) as writer:
        writer.purge()
    assert not before.exists()
    assert_native(spark, table)


def test_columns_are_found_by_what_they_are_and_not_by_what_they_were_called(spark: SparkSession, table: Path) -> None:
    """`v` was dropped, and another column got its name; the first partition predates both new ones."""
    alter(
        STORAGE,
        TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),
        TableColumn(id=1, name="v", type=-TypeTag.LONG),
        TableColumn(id=2, name="v", type=TypeTag.VARCHAR),
        TableColumn(id=3, name="odd `name", type=TypeTag.CHAR),
        path=str(table),
    )
    rows = {"ts": times_from(86_400, 2), "v": ["x", None], "odd `name": pa.array([1, 65_535], pa.uint16())}
    commit(table, rows)
    assert set(expected_of(table)["v"].to_pylist()) == {None, "x"}
    assert_native(spark, table)
    assert_native(spark, table, ["odd `name"])
    assert_native(spark, table, ["v"])


@pytest.mark.parametrize("of", [TypeTag.STRING, TypeTag.VARCHAR])
def test_texts_that_became_symbols_are_rejected_as_by_our_reader(tmp_path: Path, of: TypeTag) -> None:
    """The rows were given to Spark, because their file stores both types alike."""
    path = new_table(tmp_path / "t", {"v": of})
    commit(path, {"ts": times_from(0, 2), "v": ["x", None]})
    (path / META_FILE).write_bytes(metadata_with_type(STORAGE, str(path), "v", "SYMBOL"))
    words = "TYPE of column 'v': expected SYMBOL"
    with pytest.raises(UnsupportedError, match=words):
        expected_of(path)
    session: Any = SimpleNamespace()
    with pytest.raises(UnsupportedError, match=words), scan(session, str(path)):
        pass


def test_nulls_of_types_that_have_none_are_read_as_our_reader_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "b": (TypeTag.BOOLEAN, pa.array([True, None])),
        "y": (TypeTag.BYTE, pa.array([-1, None], pa.int8())),
        "s": (TypeTag.SHORT, pa.array([-1, None], pa.int16())),
        "c": (TypeTag.CHAR, pa.array([1, None], pa.uint16())),
        "i": (TypeTag.INT, pa.array([1, None], pa.int32())),
    }
    path = table_builder.build(columns, use_dictionary=False).write_to(tmp_path)
    assert expected_of(path, ["b", "y", "s", "c", "i"]).slice(1).to_pylist() == [
        {"b": False, "y": 0, "s": 0, "c": 0, "i": None}
    ]
    assert_native(spark, path, ["b", "y", "s", "c"])


def test_columns_that_other_writers_annotate_otherwise_are_not_given_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would read these addresses as negative numbers."""
    columns = {"a": (TypeTag.IPV4, pa.array([-2, -1], pa.int32()))}
    path = table_builder.build(columns, use_dictionary=False).write_to(tmp_path)
    assert expected_of(path, ["a"])["a"].to_pylist() == [(1 << 32) - 2, (1 << 32) - 1]
    assert_slow(spark, path, "column 'a' is not stored as QuestDB stores uint32", ["a"])


def test_files_are_local_whatever_file_system_is_the_default(spark: SparkSession, table: Path) -> None:
    assert spark._jsc is not None
    configuration = spark._jsc.hadoopConfiguration()
    default = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "hdfs://nowhere.invalid:1")
    try:
        assert_native(spark, table)
    finally:
        configuration.set("fs.defaultFS", default)


@pytest.mark.nightly
def test_table_without_rows_has_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    assert_native(spark, new_table(tmp_path / "t", {"v": TypeTag.UUID}))


def test_damaged_page_fails_and_is_not_read_as_something_else(spark: SparkSession, tmp_path: Path) -> None:
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG})
    encoding = EncodeOptions(codec=Codec.UNCOMPRESSED, columns={"v": ColumnOptions(encoding=Encoding.PLAIN)})
    commit(path, {"ts": times_from(0, 2), "v": [0x1122334455667788] * 2}, WriterOptions(encoding=encoding))
    content = data_of(path).read_bytes()
    position = content.index(bytes.fromhex("8877665544332211") * 2)
    data_of(path).write_bytes(content[:position] + b"\x89" + content[position + 1 :])
    with scan(spark, str(path)) as frame, pytest.raises(Py4JJavaError, match="CRC checksum verification failed"):
        frame.collect()


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose settings let Spark leave out what it cannot read, and take old times for those of Julius."""
    settings = {
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.enableVectorizedReader": "false",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.nightly
def test_settings_of_the_session_do_not_change_what_is_read(
    lenient: SparkSession, tmp_path: Path, some_values: dict[str, pa.Array]
) -> None:
    path = written(tmp_path / "t", some_values, EncodeOptions())
    lenient.conf.set("spark.sql.parquet.enableVectorizedReader", "true")
    assert_native(lenient, path)
    lenient.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    assert_native(lenient, path)


def test_files_that_vanish_or_break_are_not_left_out_whatever_the_session_allows(
    lenient: SparkSession, table: Path
) -> None:
    content = data_of(table).read_bytes()
    with scan(lenient, str(table)) as frame:
        data_of(table).write_bytes(content[:4] + bytes(100) + content[104:])
        with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
            frame.collect()
        data_of(table).unlink()
        with pytest.raises(Py4JJavaError, match=r"1970-01-01\.0@\d+\.parquet"):
            frame.collect()


def test_footer_that_contradicts_pm_is_not_given_to_spark(spark: SparkSession, table: Path) -> None:
    content = data_of(table).read_bytes()
    footer_length = int.from_bytes(content[-8:-4], "little")
    position = content.index(b"\x18\x01v", len(content) - 8 - footer_length) + 2
    data_of(table).write_bytes(content[:position] + b"w" + content[position + 1 :])
    assert_slow(spark, table, "name at byte [0-9]+: expected 'v', as in _pm, found 'w'")


def test_names_that_differ_by_case_alone_are_not_given_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = new_table(tmp_path / "t", {"v": TypeTag.LONG, "w": TypeTag.LONG})
    commit(path, {"ts": times_from(0, 2), "v": [1, 2], "w": [3, 4]})
    # Of servers they are two, whose characters are compared one by one.
    names = {"ts": TypeTag.TIMESTAMP, "ß": TypeTag.LONG, "SS": TypeTag.LONG}
    columns = [TableColumn(id=number, name=name, type=of) for number, (name, of) in enumerate(names.items())]
    alter(STORAGE, *columns, path=str(path))
    commit(path, {"ts": times_from(86_400, 2), "ß": [5, 6], "SS": [7, 8]})
    assert_slow(spark, path, "column 'ß' has the name of another one except for case", ["ß"])


def test_missing_tables_and_columns_are_rejected_as_by_the_source(
    spark: SparkSession, table: Path, questdb_data: Path
) -> None:
    with pytest.raises(NotATableError, match="there is nothing at this path"), scan(spark, str(table / "missing")):
        pass
    with pytest.raises(UnknownColumnError, match="there is no column 'q'"), scan(spark, str(table), columns=["q"]):
        pass
    shutil.rmtree(data_of(table).parent)
    with pytest.raises(CorruptError, match="expected a file, because _txn names it"), scan(spark, str(table)):
        pass


def test_list_of_files_lies_where_it_is_asked_for_and_is_gone_afterwards(
    spark: SparkSession, table: Path, tmp_path: Path
) -> None:
    staging = tmp_path / "für %20 alle"
    staging.mkdir()
    with scan(spark, str(table), staging=str(staging)) as frame:
        (directory,) = staging.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755
        assert frame.count() == ROW_COUNT
    assert list(staging.iterdir()) == []
    pattern = tmp_path / "[a]"
    pattern.mkdir()
    with (
        pytest.raises(OptionRejectedError, match=r"treats '\[' as part of a pattern"),
        scan(spark, str(table), staging=str(pattern)),
    ):
        pass
    assert list(pattern.iterdir()) == []


def test_files_of_an_archive_may_be_called_anything(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    directory = tmp_path / f"a{SUFFIX}"
    directory.mkdir()
    data = data_of(table)
    size_bytes = data.stat().st_size
    names = ("a b.parquet", "a+b.parquet", "a%20b.parquet", "ü.parquet")
    write_archive(directory, [Beginning(folder="0", name=name, path=data, size_bytes=size_bytes) for name in names])
    frame = spark.read.parquet(f"har://{directory}/0")
    assert frame.count() == len(names) * ROW_COUNT
    assert len(frame.inputFiles()) == len(names)


def test_frame_used_after_its_block_says_so_in_whatever_is_made_of_it(
    spark: SparkSession, table: Path, tmp_path: Path
) -> None:
    with scan(spark, str(table)) as frame:
        assert frame.count() == ROW_COUNT
        grouped = frame.groupBy("v").count()
        frame.createOrReplaceTempView("scanned")
    for use in (
        frame.count,
        grouped.collect,
        frame.toArrow,
        lambda: spark.sql("SELECT sum(v) FROM scanned").collect(),
        lambda: list(frame.toLocalIterator()),
        lambda: frame.write.parquet(str(tmp_path / "copy")),
    ):
        with pytest.raises(IllegalArgumentException) as caught:
            use()
        assert str(caught.value).startswith(f"{table}: a frame of scan() was used after its `with` block")
        assert "\n" not in str(caught.value)
    with scan(spark, str(table)) as frame:
        assert frame.count() == ROW_COUNT


def test_folder_of_a_table_may_be_called_anything(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "[a] b+c%20ü{*}?\\"
    folder.mkdir()
    path = new_table(folder / "ü", {"v": TypeTag.LONG})
    commit(path, {"ts": times_from(0, 3), "v": range(3)})
    assert_native(spark, path)


def test_spark_connect_is_told_that_it_has_no_file_systems(table: Path) -> None:
    session: Any = SimpleNamespace()
    with pytest.raises(PipelineUnavailableError, match="Spark Connect cannot be given"), scan(session, str(table)):
        pass
