"""The addresses `tornproof:///TABLE` in Spark: SQL over committed files, and the names that Java finds for them."""

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from day_tables import change_columns, new_table, rename_column
from depth import sampled
from msgspec.structs import replace
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tornproof.impl.layout.meta import MetaHeader
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.txn import PARQUET_FORMAT, PartitionEntry
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy
from tornproof.impl.table.partition_names import directory_names, interval_start
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.txn.write import encode_new_file, first_version
from tornproof.impl.types.questdb import TIMESTAMP_NS, TypeTag
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource.committed_files import SOURCE, add_addresses, address_of, layout_source

STORAGE = OperatingSystemStorage()
IN_PLACE = WriterOptions(row_group_row_count_max=10, rewrite_unused_ratio=1.0)
MICROSECONDS_MAX = 253_402_300_799_000_000  # the end of the year 9999


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    add_addresses(spark)
    return spark


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder, 100%[é]"
    folder.mkdir()
    return new_table(folder / "t", {"v": TypeTag.LONG})


def commit(path: Path, numbers: range) -> None:
    with open_writer(STORAGE, str(path), options=IN_PLACE, allow_parquet_last=True) as writer:
        times = pa.array(np.array(numbers) * 3_600_000_000, pa.timestamp("us", tz="UTC"))
        writer.write(pa.table({"ts": times, "v": pa.array(numbers)}))
        writer.commit()


def values_of(session: SparkSession, query: str) -> list[Any]:
    return [row[0] for row in session.sql(query).collect()]


def test_address_is_the_committed_version_in_sql_views_and_catalog_tables(session: SparkSession, table: Path) -> None:
    commit(table, range(50))
    address = address_of(str(table))
    assert sorted(values_of(session, f"SELECT v FROM parquet.`{address}` WHERE v % 2 = 0")) == list(range(0, 50, 2))
    session.sql(f"CREATE TABLE by_address USING parquet LOCATION '{address}'")
    session.sql("CREATE TEMPORARY VIEW sums AS SELECT date(ts) AS day, sum(v) AS v FROM by_address GROUP BY day")
    try:
        assert sorted(values_of(session, "SELECT v FROM sums")) == [97, 276, 852]
        commit(table, range(50, 60))
        session.sql("REFRESH TABLE by_address")
        assert values_of(session, "SELECT sum(v) FROM sums") == [sum(range(60))]
    finally:
        session.sql("DROP VIEW sums")
        session.sql("DROP TABLE by_address")


def test_types_that_spark_does_not_infer_are_read_by_a_schema(session: SparkSession, tmp_path: Path) -> None:
    address = address_of(str(new_table(tmp_path / "t", {"u": TypeTag.UUID, "n": TIMESTAMP_NS})))
    with open_writer(STORAGE, str(tmp_path / "t"), allow_parquet_last=True) as writer:
        times = pa.array([1], pa.timestamp("us", tz="UTC"))
        writer.write(pa.table({"ts": times, "u": pa.array([bytes(16)], pa.uuid()), "n": times.cast(pa.int64())}))
        writer.commit()
    with pytest.raises(PySparkException, match="PARQUET_TYPE_ILLEGAL"):
        session.sql(f"SELECT * FROM parquet.`{address}`")
    session.sql(f"CREATE TABLE by_schema (u BINARY, n BIGINT) USING parquet LOCATION '{address}'")
    try:
        assert session.table("by_schema").collect() == [(bytes(16), 1)]
    finally:
        session.sql("DROP TABLE by_schema")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: change_columns(table, drop="v", add=("v", TypeTag.LONG)),
        lambda table: change_columns(table, drop="v", add=("w", TypeTag.LONG)),
        lambda table: rename_column(table, "v", "w"),
    ],
    ids=["dropped and added again", "dropped", "renamed"],
)
def test_address_of_a_table_whose_files_have_columns_of_before_is_rejected(
    session: SparkSession, table: Path, change: Callable[[Path], None]
) -> None:
    """Spark showed the values of a dropped column as those of a new one with its name, without a word."""
    commit(table, range(3))
    change(table)
    count_change(table)
    address = address_of(str(table))
    with pytest.raises(
        Py4JJavaError, match=r"column 'v' of 1970-01-01\.0@[0-9]+\.parquet was dropped or renamed since"
    ):
        session.read.parquet(address)
    with pytest.raises(PySparkException, match="FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY") as caught:
        session.sql(f"SELECT * FROM parquet.`{address}`")
    assert "was dropped or renamed since" in str(vars(caught.value)["_cause"])


def test_address_of_a_table_to_which_a_column_was_added_is_read(session: SparkSession, table: Path) -> None:
    commit(table, range(3))
    change_columns(table, add=("w", TypeTag.LONG))
    count_change(table)
    assert sorted(values_of(session, f"SELECT v FROM parquet.`{address_of(str(table))}`")) == [0, 1, 2]


def test_address_of_a_table_in_which_a_server_renamed_a_column_is_rejected(
    session: SparkSession, questdb_data: Path
) -> None:
    with pytest.raises(
        Py4JJavaError, match=r"column 'a' of 2025-04-01\.4@[0-9]+\.parquet was dropped or renamed since"
    ):
        session.read.parquet(address_of(str(questdb_data / "tables/9.4.2/oddcols/table")))


def count_change(path: Path) -> None:
    """Leave the METADATA_VERSION of a server that has changed columns."""
    with path.joinpath(META_FILE).open("r+b") as file:
        file.seek(MetaHeader.layout.offset_of("metadata_version"))
        file.write(struct.pack("<q", 1))


def test_file_ends_where_its_committed_bytes_do(session: SparkSession, table: Path) -> None:
    commit(table, range(20))
    (data,) = table.glob(f"*/{DATA_FILE}")
    committed = data.read_bytes()
    with data.open("ab") as file:
        file.write(b"not committed")
    (row,) = session.read.format("binaryFile").load(address_of(str(table))).collect()
    assert (row.length, bytes(row.content)) == (len(committed), committed)
    data.write_bytes(committed[:-1])
    with pytest.raises(Py4JJavaError, match="bytes, fewer than are committed"):
        session.read.format("binaryFile").load(address_of(str(table))).collect()


def test_address_without_a_table_says_so_and_nothing_is_written_to_one(session: SparkSession, table: Path) -> None:
    with pytest.raises(PySparkException, match=r"PATH_NOT_FOUND.*nowhere"):
        session.read.parquet(address_of(str(table / "nowhere")))
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="addresses are read only"):
            session.range(3).write.mode(mode).parquet(address_of(str(table)))
    assert not table.joinpath("_temporary").exists()


@pytest.mark.parametrize(
    "by", sampled(1, [by for by in PartitionBy if by is not PartitionBy.NONE]), ids=lambda by: by.name
)
@pytest.mark.parametrize("of", [TypeTag.TIMESTAMP, TIMESTAMP_NS], ids=["microseconds", "nanoseconds"])
def test_java_names_directories_as_python_does(session: SparkSession, tmp_path: Path, by: PartitionBy, of: int) -> None:
    path = tmp_path / "t"
    create_table(STORAGE, str(path), [NewColumn(name="ts", type=of)], timestamp="ts", partition_by=by)
    names = []
    for timestamp, suffix in some_partitions(by, is_fine=of == TIMESTAMP_NS):
        with_entry(path, timestamp, suffix)
        (name,) = directory_names(timestamp, suffix, by, nanoseconds=of == TIMESTAMP_NS)
        path.joinpath(name).mkdir(exist_ok=True)
        path.joinpath(name, DATA_FILE).write_bytes(bytes(9))
        names.append(name)
        found = listed(session, path)
        assert found == [f"{name}@9.parquet"], timestamp
        shutil.rmtree(path / name)
    assert len(set(names)) > len(names) // 2


def test_weeks_have_the_same_names_in_languages_with_digits_of_their_own(session: SparkSession, tmp_path: Path) -> None:
    """Where the language of the system was Arabic as in Egypt, no file of such a table was found."""
    columns = [NewColumn(name="ts", type=TypeTag.TIMESTAMP)]
    create_table(STORAGE, str(tmp_path / "t"), columns, timestamp="ts", partition_by=PartitionBy.WEEK)
    with_entry(tmp_path / "t", 0, 12)
    data = tmp_path / "t" / "1970-W01-4.12" / DATA_FILE
    data.parent.mkdir()
    data.write_bytes(bytes(9))
    java: Any = session._jvm
    before = java.java.util.Locale.getDefault()
    java.java.util.Locale.setDefault(java.java.util.Locale.forLanguageTag("ar-EG"))
    try:
        assert listed(session, tmp_path / "t") == ["1970-W01-4.12@9.parquet"]
    finally:
        java.java.util.Locale.setDefault(before)


def some_partitions(by: PartitionBy, *, is_fine: bool) -> list[tuple[int, int]]:
    """Return starts of intervals, and times at which partitions were split, as fine as hours to the table's unit."""
    draw, unit, found = random.Random(by), 1_000 if is_fine else 1, []
    for number in range(60):
        microseconds = draw.randrange(MICROSECONDS_MAX // (100 if is_fine else 1))
        coarse = microseconds - microseconds % (1, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000)[number % 5]
        timestamp = coarse * unit + (draw.randrange(unit) if number % 5 == 0 else 0)
        start = interval_start(timestamp, by, nanoseconds=is_fine)
        found.append((timestamp if number % 2 or start is None or start < 0 else start, draw.choice((-1, 0, 7, 123))))
    return found


def with_entry(path: Path, timestamp: int, suffix: int) -> None:
    """Give a table without rows a `_txn` with one partition of nine bytes."""
    row_count_and_flags = PARQUET_FORMAT.put(1, 1)
    entry = PartitionEntry(timestamp=timestamp, row_count_and_flags=row_count_and_flags, name_txn=suffix, token=9)
    path.joinpath(TXN_FILE).write_bytes(encode_new_file(replace(first_version(0), entries=(entry,))))


def listed(session: SparkSession, path: Path) -> list[str]:
    """Return the names of the files at the address of a table."""
    java: Any = session._jvm
    folder = java.org.apache.hadoop.fs.Path(address_of(str(path)))
    system = folder.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
    return [str(file.getPath().getName()) for file in system.listStatus(folder)]


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler")
@pytest.mark.parametrize("release", ["17", "21"])
def test_class_is_plain_java(tmp_path: Path, release: str) -> None:
    whole = tmp_path / SOURCE.name
    whole.write_text(SOURCE.read_text() + layout_source())
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    lint = "-Xlint:all,-cast,-classfile,-path"  # Spark's compiler needs casts that Java does not
    command = ["javac", "--release", release, lint, "-Werror", "-cp", str(jars), "-d", str(tmp_path), str(whole)]
    done = subprocess.run(command, capture_output=True, text=True)
    if f"release version {release} not supported" in done.stderr:
        pytest.skip(f"this Java compiler is older than {release}")
    assert done.returncode == 0, done.stderr
