"""What tasks encode and the commit adopts, batches that are written once, and what killed drivers leave."""

import functools
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from day_tables import change_columns, new_table, rename_column, staging_of, target_of, version_of
from depth import nightly
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.functions import timestamp_micros
from pyspark.sql.types import StructType

from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.pipeline.datasource import prepared
from tornproof.pipeline.datasource.ledger import (
    LEDGER_DIRECTORY,
    PENDING,
    Batch,
    OtherCheckpointError,
    UnsettledBatchError,
)
from tornproof.pipeline.datasource.options import OptionRejectedError, batch_of, checkpoint_of, query_of
from tornproof.pipeline.datasource.source import by_partition, register
from tornproof.pipeline.datasource.staging import (
    INTENT_FILE,
    OWNER_FILE,
    STAGING_PREFIX,
    make_folder,
    new_folder,
    this_driver,
)
from tornproof.pipeline.datasource.writer import StagedRows, TornproofStreamWriter, TornproofWriter
from tornproof.pipeline.whole_file import PARTIAL

STORAGE = OperatingSystemStorage()
DAY_SECONDS = 86_400
SCHEMA = StructType().add("ts", "timestamp").add("v", "long").add("s", "string")
SYMBOLS = ("a", "b", "cc", None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return new_table(tmp_path / "t", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL})


def rows_of(seconds: Sequence[int], first: int, symbols: Sequence[str | None] = SYMBOLS) -> pa.RecordBatch:
    times = pa.array(np.array(seconds, np.int64) * 1_000_000, pa.timestamp("us", tz="UTC"))
    numbers = range(first, first + len(seconds))
    texts = pa.array([symbols[number % len(symbols)] for number in numbers], pa.string())
    return pa.record_batch({"ts": times, "v": pa.array(numbers, pa.int64()), "s": texts})


def content_of(path: Path) -> list[tuple[int, int, str | None]]:
    """Return second, number and symbol of each row of a sound table."""
    table = open_table(STORAGE, str(path))
    assert verify_table(table).sound
    found = []
    for batch in open_snapshot(table).batches():
        found += rows_in([batch.set_column(2, "s", batch.column("s").cast(pa.string()))])
    return sorted(found, key=lambda row: row[1])


def rows_in(batches: Sequence[pa.RecordBatch]) -> list[tuple[int, int, str | None]]:
    found = []
    for batch in batches:
        times = (second // 1_000_000 for second in batch.column("ts").cast(pa.int64()).to_pylist())
        found += list(zip(times, batch.column("v").to_pylist(), batch.column("s").to_pylist(), strict=True))
    return sorted(found, key=lambda row: row[1])


def writer_on(path: Path, batch: Batch | None = None, *, overwrites: bool = False) -> TornproofWriter:
    return TornproofWriter(target_of(path, overwrites=overwrites), SCHEMA, batch)


def save(path: Path, parts: Sequence[pa.RecordBatch], batch: Batch | None = None, *, overwrites: bool = False) -> None:
    """Write as a job of one task for each part does."""
    run_job(path, parts, batch, overwrites=overwrites)
    assert staging_of(path) == []


def run_job(
    path: Path, parts: Sequence[pa.RecordBatch], batch: Batch | None = None, *, overwrites: bool = False
) -> None:
    """Write as `save` does, where a killed job has left staged rows."""
    writer = writer_on(path, batch, overwrites=overwrites)
    writer.commit([writer.stage(iter([part]), f"{number:05d}-{number}.arrow") for number, part in enumerate(parts)])


def test_new_partitions_are_encoded_by_their_tasks_and_only_renamed_by_the_commit(table: Path) -> None:
    save(table, [rows_of(range(5), 0)])
    writer = writer_on(table)
    parts = [rows_of(range(5, 9), 5), rows_of([DAY_SECONDS, DAY_SECONDS + 1], 9), rows_of([2 * DAY_SECONDS], 11)]
    messages = [writer.stage(iter([part]), f"0000{number}-0.arrow") for number, part in enumerate(parts)]
    assert [len(message.prepared) for message in messages] == [0, 1, 1]
    made = itertools.chain(*(message.prepared for message in messages))
    encoded = [Path(each.directory_path, DATA_FILE).stat().st_ino for each in made]
    writer.commit(list(messages))
    found = [path.stat().st_ino for path in sorted(table.glob(f"1970-01-0[23]*/{DATA_FILE}"))]
    assert found == encoded
    assert content_of(table) == rows_in([rows_of(range(5), 0), *parts])
    assert version_of(table) == 2


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks merge however few rows with a partition of the table."""
    monkeypatch.setattr(prepared, "MERGED_BYTES_MIN", 0)
    monkeypatch.setattr(prepared, "MERGED_PARTS", 1 << 40)


def test_few_rows_are_left_to_the_commit_and_many_for_their_partition_are_merged_by_the_task(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(table, [rows_of(range(400), 0)])
    monkeypatch.setattr(prepared, "MERGED_BYTES_MIN", 1_000)
    for count, merged_count in ((4, 0), (200, 1)):
        message = writer_on(table).stage(iter([rows_of(range(count), 400)]), "00000-0.arrow")
        assert [each.new_row_count for each in message.prepared] == [count] * merged_count
        assert bool(message.file) is (merged_count == 0)
    monkeypatch.setattr(prepared, "MERGED_PARTS", 0)
    assert not writer_on(table).stage(iter([rows_of(range(200), 400)]), "00000-0.arrow").prepared


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("changed", ["", "by another writer", "by another task", "by rows of another task"])
def test_partition_that_a_task_has_merged_is_adopted_unless_it_has_changed_since(table: Path, changed: str) -> None:
    save(table, [rows_of(range(5), 0)])
    writer = writer_on(table)
    parts = [rows_of(range(3, 9), 5)]
    messages = [writer.stage(iter(parts), "00000-0.arrow")]
    (merged,) = messages[0].prepared
    encoded = Path(merged.directory_path, DATA_FILE).stat().st_ino
    if changed == "by another writer":
        with open_writer(STORAGE, str(table), allow_parquet_last=True) as other:
            other.write(pa.Table.from_batches([rows_of([2], 100)]))
            other.commit()
    elif changed:
        symbols = ["new"] if changed == "by rows of another task" else ["a"]
        parts.append(rows_of([2], 100, symbols))
        messages.append(writer.stage(iter(parts[1:]), "00001-0.arrow"))
        assert bool(messages[1].file) is (symbols == ["new"])
    writer.commit(list(messages))
    newest = max(table.glob(f"1970-01-01*/{DATA_FILE}"), key=lambda path: int(path.parent.name.rpartition(".")[2]))
    assert (newest.stat().st_ino == encoded) is (not changed)
    more = [rows_of([2], 100)] if changed == "by another writer" else []
    assert content_of(table) == rows_in([rows_of(range(5), 0), *parts, *more])
    assert staging_of(table) == []


@pytest.mark.parametrize("task_count", [1, 2], ids=["adopted", "joined"])
def test_rows_encoded_before_a_column_was_made_anew_are_rejected(table: Path, task_count: int) -> None:
    """Their values in that column were null in the table, and the job reported success."""
    save(table, [rows_of([DAY_SECONDS], 9, ["a"])])
    writer = writer_on(table)
    tasks = enumerate([rows_of([number], number, ["a"]) for number in range(task_count)])
    staged: list[WriterCommitMessage | None] = [
        writer.stage(iter([rows]), f"{number:05d}-{number}.arrow") for number, rows in tasks
    ]
    assert all(isinstance(each, StagedRows) and each.prepared for each in staged)
    change_columns(table, drop="v", add=("v", TypeTag.DOUBLE))
    with pytest.raises(RowsRejectedError, match="'v' was dropped and added again, or got another type, since"):
        writer.commit(staged)
    writer.abort(staged)
    assert staging_of(table) == []
    run_job(table, [rows_of([0], 3, ["a"])])
    found = [value for batch in open_snapshot(open_table(STORAGE, str(table))).batches() for value in batch["v"]]
    assert [value.as_py() for value in found] == [3.0, None]


def test_rows_encoded_before_a_column_was_added_are_those_of_a_commit_before(table: Path) -> None:
    writer = writer_on(table)
    staged = writer.stage(iter([rows_of([0], 7, [None])]), "00000-0.arrow")
    change_columns(table, add=("w", TypeTag.LONG))
    writer.commit([staged])
    assert [batch.column("w").to_pylist() for batch in open_snapshot(open_table(STORAGE, str(table))).batches()] == [
        [None]
    ]


def values_in(path: Path, name: str) -> list[Any]:
    return [
        value
        for batch in open_snapshot(open_table(STORAGE, str(path))).batches([name])
        for value in batch[name].to_pylist()
    ]


@pytest.mark.parametrize("renamed", ["before the tasks", "before the commit"])
@pytest.mark.parametrize("has_new", [False, True], ids=["", "and another one has the name"])
@pytest.mark.parametrize("staging", [None, "elsewhere"])
def test_rows_are_those_of_their_column_whatever_its_name_is_at_the_commit(
    table: Path, tmp_path: Path, renamed: str, has_new: bool, staging: str | None
) -> None:
    """Rows that were left to the commit were rejected, or went into a new column without a word."""
    save(table, [rows_of([0], 9, ["a"])])
    target = target_of(table, staging=staging and str(tmp_path / staging))
    staged: list[WriterCommitMessage | None] = []
    writer = TornproofWriter(target, SCHEMA)

    def stage() -> None:
        parts = [rows_of([1], 10, ["a"]), rows_of([DAY_SECONDS], 11, ["new"])]
        staged.extend(writer.stage(iter([part]), f"{number:05d}-0.arrow") for number, part in enumerate(parts))

    if renamed == "before the commit":
        stage()
    rename_column(table, "v", "w")
    if has_new:
        change_columns(table, add=("v", TypeTag.LONG))
    if renamed == "before the tasks":
        stage()
    assert not any(isinstance(each, StagedRows) and each.prepared for each in staged)
    writer.commit(staged)
    assert values_in(table, "w") == [9, 10, 11]
    assert not has_new or values_in(table, "v") == [None, None, None]


def test_partition_that_a_task_has_merged_is_merged_again_under_other_names(table: Path, merging: None) -> None:
    save(table, [rows_of([0], 9, ["a"])])
    writer = writer_on(table)
    staged = [writer.stage(iter([rows_of([number], number, ["a"])]), f"0000{number}-0.arrow") for number in (1, 2)]
    assert all(each.new_rows for each in staged)
    rename_column(table, "v", "w")
    writer.commit([*staged])
    assert values_in(table, "w") == [9, 1, 2]


def test_rows_left_to_the_commit_before_their_column_was_made_anew_are_rejected(table: Path) -> None:
    """They went into the new column."""
    writer = writer_on(table)
    staged = writer.stage(iter([rows_of([0], 9, ["new"])]), "00000-0.arrow")
    assert not staged.prepared
    change_columns(table, drop="v", add=("v", TypeTag.LONG))
    with pytest.raises(
        RowsRejectedError, match="column 'v' was dropped, or dropped and added again, since the job began"
    ):
        writer.commit([staged])


def test_symbol_that_is_not_in_the_dictionary_yet_is_left_to_the_commit(table: Path) -> None:
    save(table, [rows_of(range(8), 0)])
    writer = writer_on(table)
    part = rows_of([DAY_SECONDS, 2 * DAY_SECONDS], 8, symbols=["a", "new"])
    message = writer.stage(iter([part]), "00000-0.arrow")
    assert [each.row_count for each in message.prepared] == [1]
    writer.commit([message])
    assert content_of(table) == rows_in([rows_of(range(8), 0), part])


@pytest.mark.parametrize("seed", [0, *map(nightly, range(1, 6))])
@pytest.mark.parametrize(
    ("merged_bytes_min", "has_keys"),
    [
        pytest.param(prepared.MERGED_BYTES_MIN, False, id=""),
        nightly(prepared.MERGED_BYTES_MIN, True, id="keys"),
        nightly(0, False, id="merged by tasks"),
        pytest.param(0, True, id="merged by tasks, keys"),
    ],
)
def test_any_rows_in_any_tasks_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, has_keys: bool, merged_bytes_min: int
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(prepared, "MERGED_BYTES_MIN", merged_bytes_min)
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL}, keys=["ts"] if has_keys else [])
    expected: list[tuple[int, int, str | None]] = []
    count = 0
    for number in range(6):
        is_new = number in (0, 4)
        seconds = draw.sample(range(number * 100_000, number * 100_000 + 5 * DAY_SECONDS, 7), 60)
        if has_keys:
            # Some keys that tasks before, and other jobs, had.
            seconds += draw.sample([*seconds, *(row[0] for row in expected)], 20)
        symbols = [*SYMBOLS, f"new {number}"]
        cuts = sorted(draw.sample(range(len(seconds)), draw.randrange(4)))
        parts = [
            rows_of(seconds[start:end], count + start, symbols)
            for start, end in itertools.pairwise([0, *cuts, len(seconds)])
        ]
        count += len(seconds)
        save(table, parts, overwrites=is_new)
        expected = rows_in(parts) if is_new else sorted([*expected, *rows_in(parts)], key=lambda row: row[1])
        if has_keys:
            expected = sorted({row[0]: row for row in expected}.values(), key=lambda row: row[1])
        assert content_of(table) == expected


@pytest.mark.usefixtures("merging")
@pytest.mark.parametrize("symbols", [("a", "new"), ("new", "a"), ("new", "a", "new")], ids=" ".join)
def test_of_rows_with_equal_keys_that_of_the_last_task_stays_whichever_the_commit_has_to_read(
    tmp_path: Path, symbols: tuple[str, ...]
) -> None:
    """What tasks had left to the commit was written first, and replaced by what tasks before them had encoded."""
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL}, keys=["ts"])
    save(table, [rows_of([0, 1], 0, ["a"])])
    # In a partition that is there, and in a new one.
    parts = [rows_of([1, DAY_SECONDS], 10 * number, [symbol]) for number, symbol in enumerate(symbols, 1)]
    save(table, parts)
    assert content_of(table) == [(0, 0, "a"), *rows_in(parts[-1:])]


def test_rows_without_a_time_are_rejected_beside_those_of_other_tasks(table: Path) -> None:
    timed = rows_of([1], 0)
    untimed = timed.set_column(0, "ts", pa.nulls(1, timed.schema.field("ts").type))
    with pytest.raises(RowsRejectedError, match="column 'ts', row 0: expected a value"):
        save(table, [timed, untimed])


def test_rows_with_two_columns_of_one_name_are_rejected_before_they_are_computed(table: Path) -> None:
    with pytest.raises(RowsRejectedError, match="the rows have two columns of one name"):
        TornproofWriter(target_of(table), StructType([*SCHEMA, SCHEMA["ts"]]))
    assert staging_of(table) == []


def test_batch_that_is_written_again_adds_nothing_and_a_later_one_does(table: Path) -> None:
    for query, number, first in (("q", 7, 0), ("q", 7, 100), ("q", 3, 200), ("other", 3, 300), ("q", 8, 400)):
        save(table, [rows_of([first], first)], Batch(query=query, number=number))
    assert [row[1] for row in content_of(table)] == [0, 300, 400]
    assert version_of(table) == 3


def landing(action: Callable[[TableWriter], int], *, before: bool) -> Callable[[TableWriter], int]:
    """Return a commit whose process is killed before its first action or after its last one."""

    def commit(writer: TableWriter) -> int:
        if not before:
            action(writer)
        writer.rollback()
        # A process that is killed does nothing more.
        writer.close()
        raise KeyboardInterrupt

    return commit


@pytest.mark.parametrize("others", [0, 1], ids=["", "another_writer"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_batch_of_a_killed_driver_is_there_once_after_it_is_written_again(
    table: Path, monkeypatch: pytest.MonkeyPatch, before: bool, others: int
) -> None:
    save(table, [rows_of([5], 5)])
    part, batch = [rows_of([0, DAY_SECONDS], 0)], Batch(query="q", number=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableWriter, "commit", landing(TableWriter.commit, before=before))
        save(table, part, batch)
    assert len(list((table / LEDGER_DIRECTORY).glob(f"*{PENDING}"))) == 1
    (table / LEDGER_DIRECTORY / f".x{PENDING}.0{PARTIAL}").write_bytes(b"{")  # of a job that was killed while it wrote
    if others:
        with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
            writer.write(rows_of([50], 50))
            writer.commit()
        if not before:
            with pytest.raises(UnsettledBatchError, match="batch 1 of the query 'q' was interrupted when it made"):
                save(table, part, batch)
            return
    run_job(table, part, batch)
    assert [row[1] for row in content_of(table)] == [0, 1, 5, *[50] * others]
    assert not list((table / LEDGER_DIRECTORY).glob(f"*{PENDING}*"))


@pytest.mark.parametrize("batch", [Batch(query="q", number=1), None], ids=["batch", ""])
def test_job_that_is_rejected_leaves_nothing_that_a_later_one_cannot_decide(table: Path, batch: Batch | None) -> None:
    """It left its announcement, and after commits of another writer every job on the table was rejected."""
    save(table, [rows_of([5], 5)])
    writer = writer_on(table, batch)
    message = writer.stage(iter([rows_of([-1], 0)]), "00000-0.arrow")
    with pytest.raises(RowsRejectedError, match="in no partition"):
        writer.commit([message])
    for first in (6, 7):
        with open_writer(STORAGE, str(table), allow_parquet_last=True) as other:
            other.write(rows_of([first], first))
            other.commit()
    writer.abort([message])
    save(table, [rows_of([8], 8)], batch)
    assert [row[1] for row in content_of(table)] == [5, 6, 7, 8]


@pytest.mark.parametrize("others", ["equal rows", "other rows", "no rows"])
@pytest.mark.parametrize("keys", [[], ["ts"]], ids=["", "keys"])
def test_batch_that_was_not_committed_is_not_lost_because_another_writer_made_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], others: str
) -> None:
    """Such a batch was skipped: only the row counts of intervals were compared, and with keys not even these."""
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL}, keys=keys)
    save(table, [rows_of([1, 2], 0)])
    part, batch = rows_of([3, 4, 5], 10), Batch(query="q", number=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableWriter, "commit", landing(TableWriter.commit, before=True))
        save(table, [part], batch)
    foreign = {"equal rows": part, "other rows": rows_of([50, 51, 52], 20), "no rows": rows_of([], 0)}[others]
    with open_writer(STORAGE, str(table), allow_parquet_last=True) as writer:
        if others == "no rows":
            writer.rewrite_partition(0)
        writer.write(foreign)
        assert writer.commit() == 2
    run_job(table, [part], batch)
    run_job(table, [part], batch)
    added = [foreign, part] if not (keys and others == "equal rows") else [part]
    assert content_of(table) == rows_in([rows_of([1, 2], 0), *added])


@pytest.mark.parametrize("keys", [[], ["ts"]], ids=["", "keys"])
def test_batch_that_was_committed_is_skipped_and_an_overwrite_of_nothing_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    table = new_table(tmp_path / "t", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL}, keys=keys)
    save(table, [rows_of([1, 2], 0)])
    for number, part, overwrites in ((1, [rows_of([2, 4], 10)], False), (2, [], True)):
        batch = Batch(query="q", number=number)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(TableWriter, "commit", landing(TableWriter.commit, before=False))
            save(table, part, batch, overwrites=overwrites)
        found = content_of(table)
        run_job(table, part, batch, overwrites=overwrites)
        assert (content_of(table), version_of(table)) == (found, number + 1)


@pytest.mark.parametrize("version", [1, 2], ids=["version is there", "version is not there"])
def test_announcement_of_an_earlier_release_is_read_unless_a_version_may_be_its_own(table: Path, version: int) -> None:
    save(table, [rows_of([1], 0)])
    batch = Batch(query="q", number=1)
    (table / LEDGER_DIRECTORY).mkdir()
    path = table / LEDGER_DIRECTORY / f"{batch.file}{PENDING}"
    path.write_text(json.dumps({"query": "q", "number": 1, "version": version, "replaced": [], "counts": "0"}))
    if version == 1:
        with pytest.raises(UnsettledBatchError, match="made version 1, and the table has version 1 now; rename"):
            run_job(table, [rows_of([2], 1)], batch)
        path.rename(path.with_suffix(".json"))
    run_job(table, [rows_of([2], 1)], batch)
    assert [row[1] for row in content_of(table)] == [0, 1][:version]


@pytest.mark.parametrize("content", ["{}", '{"query": "q", "number": 1}', "[]", '{"query": "q", "number": "1"}'])
def test_announcement_that_is_none_is_rejected_in_words(table: Path, content: str) -> None:
    (table / LEDGER_DIRECTORY).mkdir()
    (table / LEDGER_DIRECTORY / f"x{PENDING}").write_text(content)
    with pytest.raises(CorruptError, match="expected a batch as JSON"):
        save(table, [rows_of([2], 1)])


def test_batches_of_a_stream_are_written_once_by_writers_that_know_only_messages(table: Path) -> None:
    def task(number: int, part: pa.RecordBatch) -> StagedRows:
        return writer.stage(iter([part]), f"00000-{number}.arrow")

    for number, first in ((0, 0), (1, 10), (1, 10), (2, 20)):
        writer = TornproofStreamWriter(target_of(table), SCHEMA, "q")
        messages = [task(2 * number, rows_of([first], first)), task(2 * number + 1, rows_of([first + 1], first + 1))]
        # Spark makes another one for the commit.
        TornproofStreamWriter(target_of(table), SCHEMA, "q").commit(list(messages), number)
        assert staging_of(table) == []
    assert [row[1] for row in content_of(table)] == [0, 1, 10, 11, 20, 21]
    writer.abort([task(9, rows_of([30], 30)), None], 3)
    assert (version_of(table), staging_of(table)) == (3, [])


def stream_batch(table: Path, number: int, first: int, checkpoint: str | None) -> None:
    writer = TornproofStreamWriter(target_of(table), SCHEMA, "q", checkpoint)
    writer.commit([writer.stage(iter([rows_of([first], first)]), "00000-0.arrow")], number)


def test_batch_of_a_known_query_with_another_checkpoint_is_rejected(table: Path) -> None:
    """It was taken for written, and its rows were dropped, because a new checkpoint counts from 0 again."""
    # The first one is of an earlier release, or of a checkpoint that could not be read.
    for number, checkpoint in ((0, None), (1, "a"), (1, "a"), (2, "a"), (2, None)):
        stream_batch(table, number, number, checkpoint)
    for number in (0, 3):
        with pytest.raises(
            OtherCheckpointError, match=f"batch {number} of the query 'q' .* give another name of `query`"
        ):
            stream_batch(table, number, 50, "b")
    stream_batch(table, 3, 3, "a")
    assert [row[1] for row in content_of(table)] == [0, 1, 2, 3]


def test_checkpoint_of_a_batch_whose_driver_was_killed_after_its_commit_is_known(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableWriter, "commit", landing(TableWriter.commit, before=False))
        stream_batch(table, 0, 0, "a")
    with pytest.raises(OtherCheckpointError):
        stream_batch(table, 0, 10, "b")
    stream_batch(table, 0, 0, "a")
    assert [row[1] for row in content_of(table)] == [0]


def dead_owner() -> dict[str, Any]:
    """Return the owner of a process that has ended, with the number of one that runs."""
    return {**this_driver(), "process": os.getpid(), "started": "1"}


def left_by(table: Path, owner: dict[str, Any]) -> Path:
    folder = new_folder(str(table))
    make_folder(folder, owner)
    folder.joinpath("00000-0.arrow").write_bytes(b"rows")
    Path(f"{folder}.00000-0.1970-01-01").mkdir()
    return folder


def test_next_job_sweeps_what_a_killed_driver_left_and_nothing_of_others(table: Path) -> None:
    left_by(table, dead_owner())
    left_by(table, {**this_driver(), "boot": "another"})
    alive = left_by(table, this_driver())
    elsewhere = left_by(table, {**dead_owner(), "host": "another"})
    contained = left_by(table, {**dead_owner(), "namespace": "pid:[1]"})
    unknown = left_by(table, {})
    (table / f"{STAGING_PREFIX}0.00000-0.1970-01-01").mkdir()
    old = left_by(table, {**dead_owner(), "host": "another"})
    for path in (*old.iterdir(), old):
        os.utime(path, (0, 0))
    save_alone = writer_on(table)
    save_alone.abort([])
    kept = {folder.name for folder in (alive, elsewhere, contained, unknown)}
    assert {name.partition(".")[0] for name in staging_of(table)} == kept
    assert len(staging_of(table)) == 2 * len(kept)
    shutil.rmtree(alive)


def test_rows_of_a_commit_that_may_have_landed_are_not_swept(table: Path) -> None:
    unclear, not_landed = left_by(table, dead_owner()), left_by(table, dead_owner())
    unclear.joinpath(INTENT_FILE).write_text(json.dumps({"version": 7}))
    not_landed.joinpath(INTENT_FILE).write_text(json.dumps({"version": 0}))
    writer_on(table).abort([])
    assert {name.partition(".")[0] for name in staging_of(table)} == {unclear.name}


@pytest.mark.parametrize("lands", [True, False])
def test_only_jobs_on_the_same_table_remove_rows_from_a_folder_that_tables_share(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    """The version of whichever table was written next was compared with that before the commit that was killed."""
    other = new_table(tmp_path / "other", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL})
    staging = str(tmp_path / "staging")
    writer = TornproofWriter(target_of(table, staging=staging), SCHEMA)
    staged = writer.stage(iter([rows_of([1], 0)]), "00000-0.arrow")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TableWriter, "commit", landing(TableWriter.commit, before=not lands))
        writer.commit([staged])
    folder = Path(staged.folder or "")
    folder.joinpath(OWNER_FILE).write_text(json.dumps(dead_owner()))
    for path, is_kept in ((other, True), (table, lands), (other, lands)):
        TornproofWriter(target_of(path, staging=staging), SCHEMA).abort([])
        assert folder.exists() is is_kept
        if is_kept and path == table:
            # As an earlier release noted it, so that nobody knows which table it is.
            folder.joinpath(INTENT_FILE).write_text(json.dumps({"version": 0}))


def test_owner_of_a_folder_is_the_java_above_or_the_parent_and_ends_with_it(table: Path) -> None:
    folder = new_folder(str(table))
    code = (
        "import sys; from pathlib import Path; from tornproof.pipeline.datasource.staging import *;"
        "make_folder(Path(sys.argv[1]), {**this_driver(), 'process': (p := __import__('os').getpid()), "
        "'started': __import__('tornproof.pipeline.datasource.staging').pipeline.datasource.staging._started(p)})"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert json.loads(folder.joinpath(OWNER_FILE).read_text())["started"] is not None
    writer_on(table).abort([])
    assert staging_of(table) == []


def test_options_of_batches_are_checked(tmp_path: Path) -> None:
    assert batch_of({}) is None and batch_of({"query": "q", "batch": "3"}) == Batch(query="q", number=3)
    with pytest.raises(OptionRejectedError, match="query and batch go together"):
        batch_of({"batch": "3"})
    with pytest.raises(OptionRejectedError, match="needs the option checkpointLocation, or query"):
        query_of({})
    with pytest.raises(OptionRejectedError, match="the id of the query cannot be read from its checkpoint"):
        query_of({"checkpointLocation": str(tmp_path)})
    for unreadable in ({}, {"checkpointLocation": str(tmp_path)}):
        assert checkpoint_of({"query": "q", **unreadable}) is None
    tmp_path.joinpath("metadata").write_text('{"id": "some-id"}')
    for address in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        assert query_of({"checkpointLocation": address}) == "some-id"
        assert query_of({"query": "q", "checkpointLocation": address}) == "q"
        assert checkpoint_of({"query": "q", "checkpointLocation": address}) == "some-id"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def frame_of(session: SparkSession, start: int, end: int) -> DataFrame:
    """Return an hour a row."""
    columns = ("timestamp_micros(id * 3600000000) ts", "id v", "if(id % 3 = 0, null, 'a') s")
    return session.range(start, end, 1, 3).selectExpr(*columns)


def numbers_of(path: Path) -> list[int]:
    return [row[1] for row in content_of(path)]


TIMES = {
    "timestamp": "timestamp_micros(id * 3600000000)",
    "timestamp_ntz": "timestampadd(HOUR, id, timestamp_ntz'1970-01-01 00:00:00')",
    "bigint": "id * 3600000000",
    "string": "concat(string(timestampadd(HOUR, id, timestamp_ntz'1970-01-01 00:00:00')), 'Z')",
    "date": "date_add(date'1970-01-01', int(id div 24))",
}


def test_frames_with_times_of_any_type_are_divided_by_partition(session: SparkSession, table: Path) -> None:
    """A timestamp without zone, and a date, were errors of Spark, and numbers were nanoseconds in every table."""
    zone = session.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    try:
        session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        parts = []
        for of, time in TIMES.items():
            frame = session.range(0, 72).selectExpr(f"{time} ts", "id v")
            assert dict(frame.dtypes)["ts"] == of
            parts.append(by_partition(frame, str(table)).selectExpr(f"'{of}' of", "spark_partition_id() task", "v"))
        rows = functools.reduce(DataFrame.union, parts).collect()
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)
    assert len(rows) == 72 * len(TIMES)
    days: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        days.setdefault((row.of, row.v // 24), set()).add(row.task)
    assert {day: tasks for day, tasks in days.items() if len(tasks) > 1} == {}


def test_frame_is_divided_by_times_whatever_their_column_is_called(session: SparkSession, tmp_path: Path) -> None:
    """A backtick in the name was an error of Spark's parser."""
    name = "the `time` of day"
    path, columns = str(tmp_path / "t"), [NewColumn(name=name, type=TypeTag.TIMESTAMP)]
    create_table(STORAGE, path, columns, timestamp=name, partition_by=PartitionBy.DAY)
    frame = session.range(3).select(timestamp_micros("id").alias(name))
    assert by_partition(frame, path).columns == [name]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["timestamp_micros(id) TS", "id v"], "there is no column 'TS'; the table has ts, v, s"),
        (["id v"], "the rows lack 'ts', the designated timestamp"),
        (["double(id) ts"], "column 'ts': expected times, found double"),
    ],
)
def test_frame_that_the_table_cannot_take_is_not_divided_but_rejected_in_words(
    session: SparkSession, table: Path, columns: list[str], message: str
) -> None:
    with pytest.raises(RowsRejectedError, match=message):
        by_partition(session.range(1).selectExpr(*columns), str(table))


@pytest.mark.nightly
def test_frame_by_partition_has_each_partition_in_one_task(session: SparkSession, table: Path) -> None:
    save(table, [rows_of([0], 1_000, symbols=["a"])])
    shuffled = frame_of(session, 24, 24 * 9).orderBy("s")
    clustered = by_partition(shuffled, str(table))
    (row,) = (
        clustered.selectExpr("date(ts) day", "spark_partition_id() task")
        .groupBy("day")
        .agg({"task": "min", "*": "count"})
        .selectExpr("max(`count(1)`)")
        .collect()
    )
    assert row[0] == 24
    clustered.write.format("tornproof").mode("append").option("allow_parquet_last", "true").save(str(table))
    assert numbers_of(table) == [*range(24, 24 * 9), 1_000]


@pytest.mark.nightly
def test_sql_makes_tables_and_views_of_one_and_inserts_into_it(session: SparkSession, table: Path) -> None:
    with pytest.raises(PySparkException, match="there is no option 'wher' for a table in the catalog"):
        session.sql(f"CREATE TABLE quotes USING tornproof OPTIONS (path '{table}', wher 'v > 2')")
    session.sql(
        f"CREATE TABLE quotes USING tornproof OPTIONS (path '{table}') COMMENT 'prices' TBLPROPERTIES ('x'='y')"
    )
    try:
        frame_of(session, 0, 50).createOrReplaceTempView("incoming")
        with pytest.raises(PySparkException, match=r"in SQL INSERT INTO … WITH \(path = 'TABLE'\)"):
            session.sql("INSERT INTO quotes SELECT * FROM incoming")
        session.sql(f"INSERT INTO quotes WITH (path '{table}', allow_parquet_last true) SELECT * FROM incoming")
        assert numbers_of(table) == list(range(50))
        session.sql("CREATE TEMPORARY VIEW by_day AS SELECT date(ts) AS day, count(*) AS n FROM quotes GROUP BY 1")
        found = session.sql("SELECT n FROM by_day ORDER BY day").collect()
        assert [row.n for row in found] == [24, 24, 2]
        session.sql(f"CREATE TEMPORARY VIEW target USING tornproof OPTIONS (path '{table}', allow_parquet_last 'true')")
        session.sql("INSERT OVERWRITE target SELECT * FROM incoming WHERE v < 7")
        session.sql(f"CREATE TEMPORARY VIEW direct USING tornproof OPTIONS (path '{table}', where 'v > 2')")
        assert session.sql("SELECT count(*), max(q.v) FROM quotes q JOIN direct USING (v)").collect()[0][:] == (4, 6)
    finally:
        session.sql("DROP TABLE quotes")


@pytest.mark.nightly
def test_insert_without_a_path_writes_to_no_table_wherever_its_rows_come_from(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    """Rows of a table in the catalog have its options in their schema, and were inserted into it again."""
    other = new_table(tmp_path / "other", {"v": TypeTag.LONG, "s": TypeTag.SYMBOL})
    save(other, [rows_of(range(5), 0)])
    names = {"quotes": table, "others": other}
    for name, path in names.items():
        session.sql(f"CREATE TABLE {name} USING tornproof OPTIONS (path '{path}', allow_parquet_last 'true')")
    try:
        for columns in ("*", "ts, cast(v AS int) v, s"):
            with pytest.raises(PySparkException, match=r"in SQL INSERT INTO … WITH \(path = 'TABLE'\)"):
                session.sql(f"INSERT INTO quotes SELECT {columns} FROM others")
        assert (version_of(table), version_of(other)) == (0, 1)
        session.sql(f"INSERT INTO quotes WITH (path '{table}', allow_parquet_last true) SELECT * FROM others")
        assert (numbers_of(table), numbers_of(other)) == ([*range(5)], [*range(5)])
    finally:
        for name in names:
            session.sql(f"DROP TABLE {name}")


# By day the same is asked without Spark.
@pytest.mark.nightly
def test_batch_of_foreach_batch_that_is_run_again_adds_nothing(session: SparkSession, table: Path) -> None:
    for _ in range(2):
        options = {"query": "q", "batch": "0", "allow_parquet_last": "true"}
        frame_of(session, 0, 30).write.format("tornproof").mode("append").options(**options).save(str(table))
        assert numbers_of(table) == list(range(30))
    assert version_of(table) == 1


@pytest.mark.nightly
def test_stream_into_a_table_writes_a_batch_once_though_spark_forgot_that_it_did(
    session: SparkSession, table: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    for start in range(0, 60, 20):
        frame_of(session, start, start + 20).write.mode("append").parquet(str(source))
        run_stream(session, source, table, tmp_path / "checkpoint")
        assert numbers_of(table) == list(range(start + 20))
    # As if the driver had been killed between the commit of the table and that of the query.
    for path in (tmp_path / "checkpoint" / "commits").iterdir():
        if path.name.strip(".").startswith("2"):
            path.unlink()
    run_stream(session, source, table, tmp_path / "checkpoint")
    assert numbers_of(table) == list(range(60))
    assert (version_of(table), staging_of(table)) == (3, [])


def run_stream(session: SparkSession, source: Path, table: Path, checkpoint: Path) -> None:
    query = (
        session.readStream.schema(SCHEMA)
        .parquet(str(source))
        .writeStream.format("tornproof")
        .option("checkpointLocation", str(checkpoint))
        .option("allow_parquet_last", "true")
        .trigger(availableNow=True)
        .start(str(table))
    )
    assert query.awaitTermination(600)
