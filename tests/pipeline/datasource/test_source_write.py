"""Batch write: one commit for a job, whatever fails and is tried again; nothing of it where the job fails."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from day_tables import new_table, staging_of, target_of, version_of
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tornproof.impl.errors import BusyError, NotATableError, ParquetLastError, RowsRejectedError, StorageError
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import take_writer_lock
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.pipeline.datasource.options import OptionRejectedError
from tornproof.pipeline.datasource.source import TornproofReader, TornproofSource, register
from tornproof.pipeline.datasource.staging import INTENT_FILE
from tornproof.pipeline.datasource.types import ValueRejectedError
from tornproof.pipeline.datasource.writer import CommitUnclearError, StagedRows, Target, TornproofWriter

STORAGE = OperatingSystemStorage()
SCHEMA = StructType().add("ts", "timestamp").add("v", "long").add("u", "string")
SOME_UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return new_table(tmp_path / "t", {"v": TypeTag.LONG, "u": TypeTag.UUID})


def values_of(path: Path) -> list[int]:
    """Return what is in the table, after seeing that it is sound."""
    table = open_table(STORAGE, str(path))
    assert verify_table(table).sound
    return [value for batch in open_snapshot(table).batches(["v"]) for value in batch.column(0).to_pylist()]


def folder_of(path: Path) -> Path:
    (found,) = (path / name for name in staging_of(path) if "." not in name)
    return found


def batch_of(first: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + count)
    times = pa.array(numbers * 1_000_000, pa.timestamp("us", tz="UTC"))
    return pa.record_batch({"ts": times, "v": pa.array(numbers), "u": pa.array([SOME_UUID] * count)})


def writer_on(path: Path, schema: StructType = SCHEMA, *, overwrite: bool = False) -> TornproofWriter:
    return TornproofWriter(target_of(path, overwrites=overwrite), schema)


def test_table_that_a_server_could_not_insert_into_afterwards_is_rejected_before_rows_are_computed(table: Path) -> None:
    with pytest.raises(ParquetLastError, match="without the option allow_parquet_last"):
        TornproofWriter(Target(path=str(table)), SCHEMA)
    assert staging_of(table) == []


def test_a_table_that_a_server_has_open_is_rejected_before_and_at_the_commit(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_on(table)
    message = writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    monkeypatch.setattr(OperatingSystemStorage, "mapped_by", lambda storage, path: (f"java that maps {path}",))
    with pytest.raises(BusyError, match=f"in use by java that maps {table}/_txn; stop it first"):
        writer_on(table)
    with pytest.raises(BusyError, match="in use by java"):
        writer.commit([message])
    assert version_of(table) == 0
    forced = TornproofWriter(target_of(table, force=True), SCHEMA)
    forced.commit([forced.stage(iter([batch_of(0, 5)]), "00000-0.arrow")])
    assert values_of(table) == list(range(5))


def test_a_job_begins_beside_a_commit_of_another_one_and_does_not_take_it_for_a_server(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to stop a process of Spark's own, or to write all the same."""
    monkeypatch.setattr(OperatingSystemStorage, "mapped_by", lambda storage, path: ("python (process 7)",))
    with take_writer_lock(STORAGE, str(table)):
        writer = writer_on(table)
        message = writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
        with pytest.raises(BusyError, match="another writer has the table open; try again when it is done"):
            writer.commit([message])
    looks = iter([("python (process 7)",), ()])
    monkeypatch.setattr(OperatingSystemStorage, "mapped_by", lambda storage, path: next(looks))
    writer_on(table)


def test_rows_of_successful_attempts_become_one_commit(table: Path) -> None:
    writer = writer_on(table)
    writer.stage(iter([batch_of(0, 7)]), "00000-0.arrow")
    messages = [writer.stage(iter([batch_of(0, 5), batch_of(5, 5)]), "00000-1.arrow"), None]
    messages.append(writer.stage(iter([batch_of(10, 5)]), "00001-2.arrow"))
    assert verify_table(open_table(STORAGE, str(table))).unreferenced == ()
    writer.commit(list(messages))
    assert values_of(table) == list(range(15))
    assert version_of(table) == 1
    assert staging_of(table) == []


def test_job_without_rows_makes_no_version(table: Path) -> None:
    writer = writer_on(table)
    writer.commit([writer.stage(iter([]), "00000-0.arrow")])
    assert version_of(table) == 0
    assert staging_of(table) == []


def test_overwriting_leaves_only_the_new_rows_in_one_commit(table: Path) -> None:
    for first, overwrite in ((0, False), (100, False), (50, True)):
        writer = writer_on(table, overwrite=overwrite)
        writer.commit([writer.stage(iter([batch_of(first, 10)]), "00000-0.arrow")])
    assert values_of(table) == list(range(50, 60))
    assert version_of(table) == 3


def test_aborted_job_leaves_nothing_and_late_tasks_fail(table: Path) -> None:
    writer = writer_on(table)
    writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    writer.abort([None])
    assert (version_of(table), staging_of(table)) == (0, [])
    with pytest.raises(FileNotFoundError):
        writer.stage(iter([batch_of(0, 5)]), "00001-0.arrow")
    assert staging_of(table) == []


def test_commit_that_is_rejected_leaves_the_table_and_abort_removes_the_rest(table: Path) -> None:
    writer = writer_on(table)
    staged = writer.stage(iter([batch_of(-5, 3)]), "00000-0.arrow")
    with pytest.raises(RowsRejectedError):
        writer.commit([staged])
    writer.abort([staged])
    assert (version_of(table), staging_of(table)) == (0, [])


def failing(action: Callable[[TableWriter], int], *, lands: bool) -> Callable[[TableWriter], int]:
    def commit(writer: TableWriter) -> int:
        if lands:
            action(writer)
        raise StorageError(file="_txn", operation="sync", reason="input/output error")

    return commit


def test_commit_that_fails_after_it_landed_says_so_and_abort_keeps_the_rows(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_on(table)
    staged = writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "commit", failing(TableWriter.commit, lands=True))
        with pytest.raises(CommitUnclearError, match="its rows are in the table"):
            writer.commit([staged])
    with pytest.raises(CommitUnclearError, match="was at version 0 when this job began to commit, and is at 1"):
        writer.abort([staged])
    assert values_of(table) == list(range(5))
    assert len(staging_of(table)) == 1


def test_commit_that_fails_before_it_landed_raises_that_and_abort_removes_the_rows(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = writer_on(table)
    staged = writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "commit", failing(TableWriter.commit, lands=False))
        with pytest.raises(StorageError, match="input/output error"):
            writer.commit([staged])
    writer.abort([staged])
    assert (values_of(table), version_of(table), staging_of(table)) == ([], 0, [])


@pytest.mark.parametrize("content", ["", '{"ver', '{"version": 0}'])
def test_abort_after_a_kill_before_the_first_action_removes_the_rows(table: Path, content: str) -> None:
    writer = writer_on(table)
    writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    folder_of(table).joinpath(INTENT_FILE).write_text(content)
    writer.abort([])
    assert staging_of(table) == []


def test_abort_after_a_kill_behind_the_last_action_keeps_the_rows(table: Path) -> None:
    writer = writer_on(table)
    writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    folder_of(table).joinpath(INTENT_FILE).write_text(json.dumps({"version": 0}))
    with open_writer(STORAGE, str(table), allow_parquet_last=True) as other:
        other.write(pa.table({"ts": pa.array([1], pa.timestamp("us", tz="UTC"))}))
        other.commit()
    with pytest.raises(CommitUnclearError, match="its rows may be in the table"):
        writer.abort([])
    assert folder_of(table).is_dir()


def test_staging_may_be_elsewhere(table: Path, tmp_path: Path) -> None:
    writer = TornproofWriter(target_of(table, staging=str(tmp_path / "staging")), SCHEMA)
    staged = writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    assert (staging_of(table), len(staging_of(tmp_path / "staging"))) == ([], 1)
    writer.commit([staged])
    assert (values_of(table), staging_of(tmp_path / "staging")) == (list(range(5)), [])


def source_on(table: Path, **options: str) -> TornproofSource:
    given: Any = {"path": str(table), **options}
    return TornproofSource(given)


def writer_with(table: Path, staging: str) -> TornproofWriter:
    writer = source_on(table, allow_parquet_last="true", staging=staging).writer(SCHEMA, False)
    assert isinstance(writer, TornproofWriter)
    return writer


def reader_with(table: Path, metrics: str) -> TornproofReader:
    source = source_on(table, metrics=metrics)
    reader = source.reader(source.schema())
    assert isinstance(reader, TornproofReader)
    return reader


@pytest.mark.parametrize("given", ["elsewhere", "file:{}/elsewhere", "file://{}/elsewhere"])
def test_folders_are_those_that_the_driver_sees(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Executors, which have another working directory, did not find them, and `file:` was a directory."""
    folder = given.format(tmp_path)
    monkeypatch.chdir(tmp_path)
    writer, reader = writer_with(table, folder), reader_with(table, folder)
    monkeypatch.chdir("/")
    writer.stage(iter([batch_of(0, 5)]), "00000-0.arrow")
    assert reader.partitions() == []
    assert all(path.is_dir() or path.stat().st_size for path in (tmp_path / "elsewhere").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"t", "elsewhere"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("s3://bucket/x", "the folder of the option {} must be on a file system that is mounted on every machine"),
        ("hdfs:/x", "the folder of the option {} must be on a file system that is mounted on every machine"),
        ("", "option {}: names no folder"),
    ],
)
def test_folders_on_other_file_systems_are_rejected(table: Path, given: str, words: str) -> None:
    """Local directories of these names were made."""
    for option, opened in (("staging", writer_with), ("metrics", reader_with)):
        with pytest.raises(OptionRejectedError, match=words.format(option)):
            opened(table, given)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("ts", "timestamp").add("q", "long"), "there is no column 'q'"),
        (StructType().add("v", "long"), "the rows lack 'ts'"),
    ],
    ids=["unknown", "no_timestamp"],
)
def test_rows_that_cannot_fit_are_rejected_before_anything_is_staged(
    table: Path, schema: StructType, message: str
) -> None:
    with pytest.raises(RowsRejectedError, match=message):
        writer_on(table, schema)
    assert staging_of(table) == []


def test_tables_are_not_made_by_writing(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="there is nothing at this path"):
        writer_on(tmp_path / "missing")


def test_value_that_does_not_fit_fails_its_task(table: Path) -> None:
    rows = batch_of(0, 2).set_column(2, "u", pa.array(["no", "uuid"]))
    with pytest.raises(ValueRejectedError, match="column 'u'"):
        writer_on(table).stage(iter([rows]), "00000-0.arrow")


def test_message_of_a_task_without_rows_is_not_read(table: Path) -> None:
    writer = writer_on(table)
    writer.commit([StagedRows(file="was never made", row_count=0)])
    assert version_of(table) == 0


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    register(spark)
    columns = ("timestamp_micros(id * 1000) ts", "id v", f"'{SOME_UUID}' u")
    return spark.range(0, 300, 1, 3).selectExpr(*columns)


def save(frame: DataFrame, path: Path, mode: str = "append") -> None:
    frame.write.format("tornproof").mode(mode).option("allow_parquet_last", "true").save(str(path))


@pytest.mark.nightly
def test_task_that_fails_once_is_tried_again_and_its_rows_are_there_once(
    frame: DataFrame, table: Path, tmp_path: Path
) -> None:
    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            raise ValueError("the first attempt fails after its last row")

    save(frame.mapInArrow(fails_once, frame.schema), table)
    assert sorted(values_of(table)) == list(range(300))
    assert (version_of(table), staging_of(table)) == (1, [])


@pytest.mark.nightly
def test_job_that_fails_leaves_the_table_as_it_was(frame: DataFrame, table: Path) -> None:
    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("every attempt fails after its last row")

    save(frame, table)
    with pytest.raises(PySparkException, match="every attempt fails"):
        save(frame.mapInArrow(fails, frame.schema), table)
    assert sorted(values_of(table)) == list(range(300))
    assert (version_of(table), staging_of(table)) == (1, [])


def test_commit_that_fails_reaches_the_user_as_its_sentence(frame: DataFrame, table: Path) -> None:
    with (
        open_writer(STORAGE, str(table), allow_parquet_last=True),
        pytest.raises(PySparkException, match="another writer has the table open"),
    ):
        save(frame, table)
    assert (version_of(table), staging_of(table)) == (0, [])
