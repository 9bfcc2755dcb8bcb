"""Reading through the data source of Spark, compared with `spark.read.parquet` on the same row groups.

    python benchmarks/pipeline_source.py [ROWS]

One table has one partition, whose data.parquet is copied for the peer; two have a partition for each day, a hundred and
a thousand, and the peer reads their files as a list of paths. A full scan passes every value of every row to Spark,
which aggregates or drops them (`noop`): by `scan`, which resolves and checks the version and leaves the reading to
Spark (through its file system and through an archive), by an address, which does not check, and by the format
`tornproof`. For comparison there is a Python source of Spark that reads nothing: its batches are ready, so its time is
what Spark needs to move rows out of Python, and no such source can be faster. Of 1 % of the rows it gives the time that
Spark takes for any question.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from large_table import STORAGE, TRADE_TYPES, create, trades
from measure import Row, Work, compare
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.datasource import scan as source_scan
from tornproof.pipeline.datasource.committed_files import add_addresses, address_of
from tornproof.pipeline.datasource.source import register
from tornproof.pipeline.spark.session import spark_session

ROW_COUNT = 10_000_000
GROUP_COUNT = 100
DAYS_OF_LONG_TABLE = 1_000
TASKS = 6
DAY_MICROSECONDS = 86_400_000_000
ROUNDS = 9
Opened: TypeAlias = Callable[[], AbstractContextManager[DataFrame]]


class ReadySource(DataSource):
    """As many rows as `trades`, but the same in every batch."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return "ts timestamp, price double, amount double, order_id bigint, venue string, is_buy boolean"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]), int(self.options["batches"]))


class ReadyReader(DataSourceReader):
    def __init__(self, row_count: int, batch_count: int) -> None:
        self._batch_row_count, self._batch_count = row_count // batch_count, batch_count

    def partitions(self) -> list[InputPartition]:
        task_count = min(TASKS, self._batch_count)
        return [InputPartition(range(task, self._batch_count, task_count)) for task in range(task_count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        times = pa.array(range(self._batch_row_count), pa.timestamp("us", "UTC"))
        numbers = pa.array(range(self._batch_row_count))
        columns = [times, numbers.cast(pa.float64()), numbers.cast(pa.float64()), numbers]
        columns += [pa.array(["venue 7"] * self._batch_row_count), pa.array([True] * self._batch_row_count)]
        batch = pa.record_batch(columns, names=list(TRADE_TYPES))
        for _ in partition.value:
            yield batch


def main() -> None:
    row_count = int(sys.argv[1]) if len(sys.argv) > 1 else ROW_COUNT
    settings = {"spark.sql.python.filterPushdown.enabled": "true"}
    opened = spark_session("local[2]", name="benchmark", settings=settings)
    with tempfile.TemporaryDirectory() as name, opened as session:
        register(session)
        add_addresses(session)
        session.dataSource.register(ReadySource)
        folder = Path(name)
        in_one, by_day, of_years = folder / "in_one", folder / "by_day", folder / "of_years"
        write(in_one, row_count, row_count // GROUP_COUNT)
        write(by_day, row_count, row_count // GROUP_COUNT, by_day=True)
        write(of_years, row_count, row_count // DAYS_OF_LONG_TABLE, by_day=True)
        peer = folder / "peer.parquet"
        shutil.copyfile(data_files(in_one)[0], peer)
        for row in rows(session, in_one, [str(peer)], by_day, of_years):
            print(
                f"{row.what}: {row.ours_ms:.0f} ms; {row.peer}: {row.peer_ms:.0f} ms; {row.times_as_fast:.2f} times "
                f"as fast{'' if row.goal is None else f', goal {row.goal:.2f}'} ({row.rounds} rounds)",
                flush=True,
            )


def rows(session: SparkSession, in_one: Path, peer: list[str], by_day: Path, of_years: Path) -> list[Row]:
    peer_by_day = data_files(by_day)

    def ours(path: Path, **options: str) -> DataFrame:
        return session.read.format("tornproof").options(**options).load(str(path))

    def theirs(paths: list[str]) -> DataFrame:
        return session.read.parquet(*paths)

    def scanned(path: Path) -> Opened:
        return lambda: source_scan.scan(session, str(path))

    def archived(path: Path) -> Opened:
        return lambda: source_scan.scan(session, str(path), staging=str(path.parent))

    def at_address(path: Path) -> Callable[[], DataFrame]:
        return lambda: session.read.parquet(address_of(str(path)))

    hour = "1970-01-01 01:00:00"
    near = f"ts >= timestamp'{hour}' and ts < timestamp'{hour}' + interval 100 seconds"

    def days(path: Path) -> str:
        """The middle hundredth of a table's days."""
        day_count = len(data_files(path))
        middle, width = day_count // 2 * DAY_MICROSECONDS, day_count // 100 * DAY_MICROSECONDS
        return f"ts >= timestamp_micros({middle}) and ts < timestamp_micros({middle + width})"

    row_count, one_day = theirs(peer).count(), days(by_day)

    def ready(part: int) -> DataFrame:
        return session.read.format("ready").options(rows=row_count // part, batches=GROUP_COUNT // part).load()

    def of_days(path: Path, goal: float | None = None) -> Row:
        files, condition = data_files(path), days(path)
        return against(
            f"1 % of the time, {len(files)} partitions, filter pushed",
            lambda: ours(path, pushdown="true").where(condition),
            lambda: theirs(files).where(condition),
            sums,
            goal=goal,
        )

    return [
        against("a full scan of batches that are ready", lambda: ready(1), lambda: theirs(peer), scan),
        against("their sums", lambda: ready(1), lambda: theirs(peer), sums),
        against("scan(), all columns", scanned(in_one), lambda: theirs(peer), scan, goal=1 / 1.5),
        against("scan(), sums of all columns", scanned(in_one), lambda: theirs(peer), sums, goal=1 / 1.5),
        against(
            f"scan(), all columns of {len(peer_by_day)} partitions",
            scanned(by_day),
            lambda: theirs(peer_by_day),
            scan,
            goal=1 / 1.5,
        ),
        against("scan() by an archive, all columns", archived(in_one), lambda: theirs(peer), scan, goal=1 / 1.5),
        against("tornproof:///TABLE, all columns", at_address(in_one), lambda: theirs(peer), scan, goal=1 / 1.5),
        against("the format, all columns", lambda: ours(in_one), lambda: theirs(peer), scan),
        against("the format, sums of all columns", lambda: ours(in_one), lambda: theirs(peer), sums),
        against(
            "the format, one column",
            lambda: ours(in_one, columns="price"),
            lambda: theirs(peer).select("price"),
            scan,
        ),
        against(
            "1 % of the time, one file, filter pushed",
            lambda: ours(in_one, pushdown="true").where(near),
            lambda: theirs(peer).where(near),
            sums,
        ),
        against(
            "a batch of 1 % that is ready",
            lambda: ready(100),
            lambda: theirs(peer_by_day).where(one_day),
            sums,
        ),
        of_days(by_day, goal=3),
        of_days(of_years, goal=3),
    ]


def against(
    what: str,
    ours: Opened | Callable[[], DataFrame],
    theirs: Callable[[], DataFrame],
    action: Callable[[DataFrame], object],
    goal: float | None = None,
) -> Row:
    """Load and act in each round, as a single query does; first check that both have the same number of rows."""
    assert within(ours, DataFrame.count) == theirs().count() > 0

    def work(frame: Opened | Callable[[], DataFrame]) -> Work:
        return lambda: within(frame, action)

    return compare(what, work(ours), "spark.read.parquet", work(theirs), goal=goal, rounds=ROUNDS, round_seconds=0)


def within(frame: Opened | Callable[[], DataFrame], action: Callable[[DataFrame], object]) -> object:
    """Act on a frame, inside the `with` block of its context manager if it has one."""
    opened = frame()
    with nullcontext(opened) if isinstance(opened, DataFrame) else opened as found:
        return action(found)


def scan(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def sums(frame: DataFrame) -> list[object]:
    names = {"price": "sum", "amount": "sum", "order_id": "sum", "venue": "count", "is_buy": "count", "ts": "max"}
    return list(frame.agg(names).collect())


def write(path: Path, row_count: int, group_row_count: int, *, by_day: bool = False) -> None:
    """Write a table of `GROUP_COUNT` row groups: in one partition, or each in the partition of its day."""
    create(path, TRADE_TYPES)
    options = WriterOptions(row_group_row_count_max=group_row_count, rewrite_unused_ratio=1.0)
    with open_writer(STORAGE, str(path), options=options, allow_parquet_last=True) as writer:
        for number, start in enumerate(range(0, row_count, group_row_count)):
            group = trades(start, group_row_count)
            if by_day:
                begin = number * DAY_MICROSECONDS - start * 1_000
                moved = pa.array(group["ts"].cast(pa.int64()).to_numpy() + begin, pa.timestamp("us"))
                group = group.set_column(0, "ts", moved)
            writer.write(group)
            if by_day or number % 10 == 9:
                writer.commit()
        writer.commit()


def data_files(path: Path) -> list[str]:
    table = open_table(STORAGE, str(path))
    return [f"{table.files_of(partition).path}/{DATA_FILE}" for partition in table.transaction().partitions]


if __name__ == "__main__":
    main()
