"""Tables on disk: reading committed versions, and writing rows."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

import numpy as np
import pyarrow as pa

from tornproof.impl.arguments import demanding_types
from tornproof.impl.errors import OptionsRejectedError, TornproofError, UsageError
from tornproof.impl.query.predicate import Predicate
from tornproof.impl.query.time_search import TimeRange
from tornproof.impl.read import reader
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.storage.operating_system_file import TranslateOsErrors
from tornproof.impl.table.create import NewColumn, TableRejectedError, create_table
from tornproof.impl.table.metadata_file import SYMBOL_CAPACITY, PartitionBy
from tornproof.impl.table.table import Table as TableDirectory
from tornproof.impl.table.table import agreeing, open_table
from tornproof.impl.txn.pins import Pin, pin_committed
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import TableWriter, open_writer
from tornproof.impl.write.writer_options import WriterOptions

Time = str | datetime.date | np.datetime64
TablePath = str | bytes | os.PathLike[str]


class SnapshotReleasedError(TornproofError):
    """A snapshot was read after its release."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table on disk; every property is read anew.

    `path` is its directory, whole also where a relative one was given, so that the table stays the same when the
    process changes its working directory. Returned by `open` and `create`.
    """

    path: str

    @property
    def version(self) -> int:
        """Number of the committed version; raises CorruptError, StorageError, NotATableError."""
        return self._directory().transaction().version

    @property
    def schema(self) -> pa.Schema:
        """Arrow names, types and nullability of the columns; raises as `version` does."""
        return reader.open_snapshot(self._directory()).schema

    def snapshot(self) -> Snapshot:
        """Pin the currently committed version for reading until the `with` block ends.

        A writer of this library keeps the files of a pinned version. A QuestDB server ignores pins: while it
        writes, a read may raise FileMissingError; take a new snapshot then. Raises as `version` does, and BusyError
        if commits keep overtaking the pin, or while a recovery keeps readers out.
        """
        storage = OperatingSystemStorage()
        directory = open_table(storage, self.path)
        pin = pin_committed(storage, self.path)
        try:
            return Snapshot(pin, reader.snapshot_of(*agreeing(directory, pin.transaction)))
        except BaseException:
            pin.release()
            raise

    @demanding_types(OptionsRejectedError)
    def writer(
        self, options: WriterOptions | None = None, *, force: bool = False, allow_parquet_last: bool = False
    ) -> TableWriter:
        """Become the table's only writer until the `with` block ends, after recovery from what a killed one left.

        `writer.write(rows)` takes Arrow rows in any order of times, `writer.commit()` makes all of them one version
        and returns its number when it is durable.

        All that is written is in Parquet. If that makes the last partition of a table without write-ahead log one in
        Parquet, a server's next insert into it fails or is lost, until `ALTER TABLE … SET TYPE WAL` and a restart; so
        `commit` then raises ParquetLastError unless `allow_parquet_last` is true. Raises BusyError while another writer
        has it, or a server as far as /proc shows (`force` writes all the same), IndexedColumnError, NotATableError,
        CorruptError, UnsupportedError, StorageError, OptionsRejectedError.
        """
        return open_writer(
            OperatingSystemStorage(),
            self.path,
            options=options,
            force=force,
            allow_parquet_last=allow_parquet_last,
        )

    def _directory(self) -> TableDirectory:
        return open_table(OperatingSystemStorage(), self.path)


class Snapshot:
    """One committed version of a table, whose files its writer keeps until this is released.

    It is an Arrow stream of all its rows (`__arrow_c_stream__`): `polars.DataFrame(snapshot)`, DuckDB likewise, and
    `pandas.DataFrame.from_arrow(snapshot)` from pandas 3 on. It cannot be copied or pickled. Rows of partitions in
    QuestDB's native format are not included: `native_partitions` names these.
    """

    def __init__(self, pin: Pin, snapshot: reader.Snapshot) -> None:
        """Take over a pin; use `Table.snapshot`."""
        self._pin = pin
        self._snapshot = snapshot
        self._is_released = False

    @property
    def version(self) -> int:
        """Number of the version."""
        return self._snapshot.transaction.version

    @property
    def schema(self) -> pa.Schema:
        """Arrow names, types and nullability of the columns."""
        return self._snapshot.schema

    @property
    def native_partitions(self) -> tuple[str, ...]:
        """Names of the partitions that are not in Parquet, whose rows are not included."""
        return self._snapshot.native_partitions

    @demanding_types(UsageError)
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        start: Time | None = None,
        end: Time | None = None,
    ) -> Scan:
        """Return rows to be read: all, or those for which `where` is true, from time `start`, before time `end`.

        `columns` are returned in the given order, by default all; `where` is a condition in SQL, such as
        `price > 10 AND sym IN ('A', 'B')`; times are texts such as `2026-01-31T10:00`, or those of Python, NumPy or
        pandas, without zone in UTC. Row groups that cannot contain such a row are not read. Raises UnknownColumnError,
        RepeatedColumnError, PredicateError, TimeTextError.
        """
        self._demand_pin()
        times = self._snapshot.time_range(_time_text(start), _time_text(end))
        names = None if columns is None else list(columns)
        predicate = self._snapshot.condition(where)
        schema = self._snapshot.schema_of(self._snapshot.selected(names))
        return Scan(self, schema, names, times, predicate)

    def to_arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Return rows as `scan` does, all at once; raises as reading a Scan does."""
        return self.scan(columns, where).to_arrow()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows as an Arrow stream in a capsule (Arrow's PyCapsule interface)."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def release(self) -> None:
        """Release the pin; releasing twice is harmless."""
        self._is_released = True
        self._pin.release()

    def __enter__(self) -> Self:
        """Return the snapshot itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Release."""
        self.release()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Raise TypeError: a copy would release the same pin."""
        raise TypeError("a snapshot cannot be copied or sent to another process; open the table there")

    def _demand_pin(self) -> None:
        if self._is_released:
            raise SnapshotReleasedError(
                f"{self._snapshot.table.path}: the snapshot of version {self.version} is released"
            )


class Scan:
    """Rows of a snapshot, read at each iteration.

    Iterating yields `pyarrow.RecordBatch`es in the order of partitions and row groups. Reading raises CorruptError for
    damaged bytes, UnsupportedError, StorageError, and SnapshotReleasedError.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        schema: pa.Schema,
        names: list[str] | None,
        times: TimeRange,
        predicate: Predicate | None,
    ) -> None:
        """Wait to be read; use `Snapshot.scan`."""
        self.schema = schema
        self._snapshot = snapshot
        self._names, self._times, self._predicate = names, times, predicate

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; threads decode ahead of what is taken."""
        self._snapshot._demand_pin()
        with by_threads() as decoding:
            rows = self._snapshot._snapshot.batches(self._names, self._times, self._predicate, decoding=decoding)
            for batch in rows:
                yield batch
                self._snapshot._demand_pin()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that holds no more than a few row groups at a time."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """Return all rows in memory."""
        return pa.Table.from_batches(iter(self), self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow stream in a capsule (Arrow's PyCapsule interface)."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


@demanding_types(UsageError)
def open(path: TablePath) -> Table:
    """Return the table in a directory; raises NotATableError, StorageError, CorruptError for a damaged `_meta`.

    A server may have it open; nothing is written.
    """
    table = Table(whole_path(path))
    table._directory()
    return table


@demanding_types(TableRejectedError)
def create(
    path: TablePath,
    columns: Mapping[str, str],
    *,
    timestamp: str,
    partition_by: str = "DAY",
    deduplication_keys: Sequence[str] = (),
    symbol_capacity: Mapping[str, int] | None = None,
) -> Table:
    """Create a table without rows in a new directory `path`, durable when this returns.

    `columns` are names with QuestDB's types, such as `{"ts": "TIMESTAMP", "price": "DOUBLE", "id": "UUID"}`; one of
    type TIMESTAMP is the designated `timestamp`. `partition_by` is HOUR, DAY, WEEK, MONTH or YEAR. Rows that agree
    with older ones in all `deduplication_keys`, the timestamp among them, replace these. `symbol_capacity` says about
    how many symbols SYMBOL columns will have, else 256; of more, servers look one up more slowly. Raises
    TableRejectedError for what no table can have, BusyError while another process creates the table, StorageError.

    The table has no write-ahead log, and all its partitions will be in Parquet: its writer needs `allow_parquet_last`,
    and before a server inserts into it, `ALTER TABLE … SET TYPE WAL` and a restart of the server are needed.
    """
    made, capacities = [], symbol_capacity or {}
    for name, kind in columns.items():
        code = type_code(kind)
        if code is None:
            raise TableRejectedError(f"column {name!r}: there is no type {kind!r}")
        made.append(
            NewColumn(
                name=name,
                type=code,
                is_dedup_key=name in deduplication_keys,
                symbol_capacity=int(capacities.get(name, SYMBOL_CAPACITY)),
            )
        )
    for name in capacities:
        if type_code(columns.get(name, "")) != TypeTag.SYMBOL:
            raise TableRejectedError(f"symbol_capacity: there is no SYMBOL column {name!r}")
    for key in deduplication_keys:
        if key not in columns:
            raise TableRejectedError(f"the deduplication key {key!r} is not among the columns")
    # A table without intervals has no partition that can be in Parquet.
    intervals = {each.name: each for each in PartitionBy if each is not PartitionBy.NONE}
    if partition_by.upper() not in intervals:
        raise TableRejectedError(f"partition_by: expected one of {', '.join(intervals)}, found {partition_by!r}")
    directory = whole_path(path)
    create_table(
        OperatingSystemStorage(), directory, made, timestamp=timestamp, partition_by=intervals[partition_by.upper()]
    )
    return Table(directory)


def whole_path(path: TablePath) -> str:
    """Return a path that stays right when the working directory changes; an empty one stays empty, to be refused.

    Raises FileMissingError for a relative path where the working directory was removed.
    """
    given = os.fsdecode(path)
    if not given or given.startswith("/"):
        return given
    with TranslateOsErrors(given, "look up from the working directory"):
        # Nothing is resolved: what `..` means behind a link is for the system to say.
        return f"{str(Path.cwd()).rstrip('/')}/{given}"


def _time_text(time: Time | None) -> str | None:
    """Return a time as it is written; those of pandas are also Python's."""
    if isinstance(time, datetime.date):
        return time.isoformat()
    return None if time is None else str(time)
