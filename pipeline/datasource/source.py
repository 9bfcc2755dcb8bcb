"""`spark.read.format("tornproof").load(TABLE)`: one committed version of a table as a data source of Spark.

The version is chosen when the table is loaded, and the DataFrame keeps it whatever is committed meanwhile. Spark calls
the methods here in helper processes, so they share only what is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from tornproof.impl.errors import NotATableError, RowsRejectedError
from tornproof.impl.read.counters import ReadCounters
from tornproof.impl.read.reader import Snapshot, snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import agreeing, open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.pipeline.datasource.filters import predicate_of
from tornproof.pipeline.datasource.metrics import PlanFile, new_plan_file
from tornproof.pipeline.datasource.options import (
    OptionRejectedError,
    batch_of,
    boolean_of,
    checkpoint_of,
    columns_of_schema,
    condition_predicate,
    folder_of,
    integer_of,
    names_of,
    path_of,
    query_of,
    reject_columns,
    reject_unknown,
    times_predicate,
)
from tornproof.pipeline.datasource.pins import held, hold_committed
from tornproof.pipeline.datasource.plan import Piece, ReadRequest, core_count, plan_read, read_pieces, splits_of
from tornproof.pipeline.datasource.types import column_named, spark_schema
from tornproof.pipeline.spark.session import ship_code

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tornproof.pipeline.datasource.writer import Target

NAME = "tornproof"
CATALOG_PREFIX = "file:"
"""How the catalog begins the path of a table, and users hardly do."""
OPTIONS_KEY = "tornproof.options"
"""Where a schema keeps the options of `CREATE TABLE`: Spark gives them to `schema` alone, and not to a query.

An `INSERT` never takes them from there: its schema is that of the rows, which may come from another table."""
OPTION_PREFIX = "option."
"""How Spark begins options of `CREATE TABLE`, which it gives twice, among all properties of the table."""
MICROSECONDS, NANOSECONDS = 1_000_000, 1_000_000_000
HOUR_SECONDS, DAY_SECONDS, DAYS_IN_WEEK = 3_600, 86_400, 7
DAYS_FROM_MONDAY = 3
"""1970 began on a Thursday."""
READ_OPTIONS = frozenset({"path", "version", "columns", "from", "to", "where", "pushdown", "splits", "metrics"})


def register(spark: SparkSession) -> None:
    """Register the format `tornproof` in a session, and send it the code."""
    ship_code(spark)
    spark.dataSource.register(TornproofSource)


def by_partition(frame: DataFrame, path: str) -> DataFrame:
    """Return the rows such that each partition of the table at `path` is in one task, which then encodes it alone.

    Raises as the format does when it opens a table, and RowsRejectedError for columns that the table cannot take.
    """
    from pyspark.sql import functions

    table = open_table(OperatingSystemStorage(), path_of(path))
    if table.metadata is None or table.metadata.timestamp_id < 0:
        raise NotATableError(f"{path}: not a table to write to: it has no _meta with a designated timestamp")
    names = {column.id: column.name for column in table.metadata.columns}
    name = names[table.metadata.timestamp_id]
    reject_columns(frame.columns, tuple(names.values()), name)
    seconds = _seconds(frame, name, NANOSECONDS if table.metadata.counts_nanoseconds else MICROSECONDS)
    day = functions.floor(seconds / DAY_SECONDS).cast("int")
    # Years and months of UTC, whatever the session's zone.
    date = functions.date_from_unix_date(day)
    interval = {
        PartitionBy.HOUR: functions.floor(seconds / HOUR_SECONDS),
        PartitionBy.WEEK: functions.floor((day + DAYS_FROM_MONDAY) / DAYS_IN_WEEK),
        PartitionBy.MONTH: functions.trunc(date, "month"),
        PartitionBy.YEAR: functions.year(date),
    }.get(table.metadata.partition_by, day)
    return frame.repartition(interval)


def _seconds(frame: DataFrame, name: str, a_second: int) -> Column:
    """Return the seconds since 1970 of a column of times as the writer takes them, numbers as so many `a_second`."""
    from pyspark.sql import functions

    column = column_named(name)
    match of := dict(frame.dtypes)[name]:
        case "timestamp":
            return functions.unix_seconds(column)
        case "timestamp_ntz" | "date":
            # The writer takes them for UTC, and no partition is shorter than an hour.
            hours = functions.hour(column.cast("timestamp_ntz"))
            return functions.unix_date(column.cast("date")) * DAY_SECONDS + hours * HOUR_SECONDS
        case "tinyint" | "smallint" | "int" | "bigint":
            # Not `/`, which would round nanoseconds.
            return functions.call_function("div", column, functions.lit(a_second))
        case "string":
            return functions.unix_seconds(column.try_cast("timestamp"))
    raise RowsRejectedError(f"column {name!r}: expected times, found {of}")


@contextmanager
def pinned(path: str) -> Iterator[Pin]:
    """Keep the files of the committed and all later versions from being purged within the `with` block.

    For queries beside a writer of this library that rewrites and purges: tables loaded inside the block stay readable
    in it. `is_held` of the yielded pin says whether the table supports pins.
    """
    with pin_committed(OperatingSystemStorage(), path_of(path)) as pin:
        yield pin


class TornproofSource(DataSource):
    """The format `tornproof`; its options are in docs/source.md."""

    _snapshot: Snapshot | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Choose the version, and return its columns, or those of the option `columns`, in Spark's types."""
        self._snapshot = self._open()
        names = names_of(self.options.get("columns"))
        found = spark_schema(self._snapshot.schema_of(self._snapshot.selected(names)))
        if self.options["path"].startswith(CATALOG_PREFIX):
            reject_unknown(_options_in(self.options), _options_of_tables(), "a table in the catalog")
            found.fields[0].metadata = {OPTIONS_KEY: json.dumps(dict(self.options.items()))}
        return found

    def _take_options(self, schema: StructType, known: frozenset[str], what: str) -> None:
        """Take the options of a table in the catalog from its schema; raises OptionRejectedError for unknown ones."""
        stored = [field.metadata[OPTIONS_KEY] for field in schema.fields if OPTIONS_KEY in field.metadata]
        if stored and "path" not in self.options:
            options = _options_in(json.loads(stored[0]))
            reject_unknown(options, known, what)
            self.options.update(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the chosen version, of the columns in a schema if the user gave one."""
        from tornproof.pipeline.datasource.writer import WRITE_OPTIONS

        # A view that rows are inserted into has options of both.
        reject_unknown(self.options, READ_OPTIONS | WRITE_OPTIONS, "reading")
        self._take_options(schema, _options_of_tables(), "reading")
        snapshot, self._snapshot = self._snapshot or self._open(), None
        options = dict(self.options.items())
        pushes = boolean_of("pushdown", options.get("pushdown", "false"))
        return (PushdownReader if pushes else TornproofReader)(snapshot, schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of rows appended to the table."""
        from tornproof.pipeline.datasource.stream import STREAM_OPTIONS, TornproofStreamReader
        from tornproof.pipeline.datasource.writer import WRITE_OPTIONS

        reject_unknown(self.options, STREAM_OPTIONS, "streaming")
        self._take_options(schema, STREAM_OPTIONS | WRITE_OPTIONS, "streaming")
        snapshot, self._snapshot = self._snapshot or self._open(), None
        columns = columns_of_schema(snapshot, schema, self.options.get("columns"))
        return TornproofStreamReader(snapshot, columns, dict(self.options.items()))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that commits all rows of a job at once."""
        from tornproof.pipeline.datasource.writer import BATCH_OPTIONS, TornproofWriter

        reject_unknown(self.options, BATCH_OPTIONS, "writing")
        return TornproofWriter(self._target(overwrite), schema, batch_of(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return a writer that commits each batch of a query once."""
        from tornproof.pipeline.datasource.writer import STREAM_WRITE_OPTIONS, TornproofStreamWriter

        reject_unknown(self.options, STREAM_WRITE_OPTIONS, "writing a stream")
        query, checkpoint = query_of(self.options), checkpoint_of(self.options)
        return TornproofStreamWriter(self._target(overwrite), schema, query, checkpoint)

    def _target(self, overwrite: bool) -> Target:
        from tornproof.pipeline.datasource.writer import Target

        return Target(
            path=path_of(self.options.get("path")),
            staging=folder_of(self.options, "staging"),
            overwrites=overwrite,
            force=boolean_of("force", self.options.get("force", "false")),
            allow_parquet_last=boolean_of("allow_parquet_last", self.options.get("allow_parquet_last", "false")),
        )

    def _open(self) -> Snapshot:
        storage, path = OperatingSystemStorage(), path_of(self.options.get("path"))
        table = open_table(storage, path)
        snapshot = snapshot_of(*agreeing(table, hold_committed(storage, path)))
        wanted, found = self.options.get("version"), snapshot.transaction.version
        if wanted is not None and integer_of("version", wanted) != found:
            raise OptionRejectedError(
                f"{snapshot.table.path}: version {wanted} is not the committed one, which is {found}; a table has "
                "a list of partitions for that version only, so load a version while it is committed"
            )
        return snapshot


def _options_of_tables() -> frozenset[str]:
    """Return the options that a table in the catalog may have, for queries, for streams, and for writing."""
    from tornproof.pipeline.datasource.stream import STREAM_OPTIONS
    from tornproof.pipeline.datasource.writer import WRITE_OPTIONS

    return READ_OPTIONS | STREAM_OPTIONS | WRITE_OPTIONS


def _options_in(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options among the properties of a table in the catalog: of OPTIONS all, of others those with a name.

    The names are in lower case.
    """
    known = {name.lower() for name in _options_of_tables()}
    given = {name.removeprefix(OPTION_PREFIX) for name in properties if name.startswith(OPTION_PREFIX)}
    return {name: text for name, text in properties.items() if name in known | given}


class TornproofReader(DataSourceReader):
    """Reads one version; it plans in one process, and is pickled for the tasks."""

    def __init__(self, snapshot: Snapshot, schema: StructType, options: dict[str, str]) -> None:
        """Choose the columns that `schema` names; raises UnknownColumnError, OptionRejectedError."""
        columns = columns_of_schema(snapshot, schema, options.get("columns"))
        self._snapshot: Snapshot | None = snapshot
        self._options = options
        self._by_name = {column.name: column for column in snapshot.columns}
        metrics = folder_of(options, "metrics")
        self._plan_file: PlanFile | None = None if metrics is None else new_plan_file(metrics)
        self._request = ReadRequest.of(snapshot, columns)
        self._request = self._request.where(times_predicate(snapshot, options.get("from"), options.get("to")))
        self._request = self._request.where(condition_predicate(snapshot, options.get("where")))

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read: which row groups, in how many tasks."""
        assert self._snapshot is not None
        storage, request = OperatingSystemStorage(), self._request
        with held(storage, request.path, request.version):
            plan = plan_read(self._snapshot, request)
        split_count = integer_of("splits", self._options["splits"]) if "splits" in self._options else None
        if split_count is not None and split_count < 1:
            raise OptionRejectedError(f"option splits: {split_count} is not a number of tasks")
        splits = splits_of(plan.row_groups, core_count(), split_count)
        if self._plan_file is not None:
            self._plan_file.write_plan(request, plan, len(splits))
        return [InputPartition((number, pieces)) for number, pieces in enumerate(splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task; Spark runs a task without value if there is nothing to read."""
        if partition.value is None:
            return
        number, pieces = partition.value
        yield from read_split(self._request, number, pieces, self._plan_file)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what tasks do not need: the list of all partitions is long."""
        return {**self.__dict__, "_snapshot": None, "_by_name": {}}


class PushdownReader(TornproofReader):
    """Reads a version with Spark's filters pushed down, which Spark rejects unless its own setting allows them.

    No code of this library sets that, because PySpark then converts every literal for every source, and fails at times
    outside the years 1 to 9999.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Add the filters, and return all of them, so that Spark checks the rows again."""
        self._request = self._request.where(predicate_of(filters, self._by_name))
        return filters


def read_split(
    request: ReadRequest, number: int, pieces: Sequence[Piece], plan_file: PlanFile | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task, and then write its metrics beside the plan."""
    counters = ReadCounters()
    yield from read_pieces(OperatingSystemStorage(), request, pieces, counters)
    if plan_file is not None:
        plan_file.write_task(number, counters)
