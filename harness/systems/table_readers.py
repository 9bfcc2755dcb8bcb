"""Readers of a table in three styles: opening it for each read, following its transactions, or under a pin."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tornproof.harness.common.arrow_bytes import arrow_bytes
from tornproof.harness.common.system import Target
from tornproof.harness.systems.answer import read_answer
from tornproof.impl.errors import CorruptError, FileMissingError, Problem, TornproofError
from tornproof.impl.read.reader import Snapshot, raise_first, snapshot_of
from tornproof.impl.read.reader_protocol import HARDENED_READER, ReaderProtocol
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.column_versions import CV_FILE, read_column_versions
from tornproof.impl.table.symbols import read_table_symbols, symbol_columns
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.verify.dictionaries import check_dictionary

FRESH, FOLLOW, PINNED = "fresh", "follow", "pinned"
RELOADS_MAX = 50


class UnannouncedChangeError(TornproofError):
    """An older partition changed without a new partition version in `_txn`: QuestDB's readers would miss it."""


class PinBrokenError(TornproofError):
    """A snapshot was not the same when it was read again under its pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a reader saw: the version, the names of its parquet partitions, and a digest of all bits of their rows."""

    version: int
    names: tuple[str, ...]
    row_count: int
    digest: str

    def __str__(self) -> str:
        rows = "1 row" if self.row_count == 1 else f"{self.row_count} rows"
        return f"version {self.version}: {rows} in {', '.join(self.names) or 'no partition'} (digest {self.digest[:8]})"


def see(storage: Storage, path: str, reader: ReaderProtocol = HARDENED_READER) -> Seen:
    """Return what a reader of the committed version sees."""
    table = open_table(storage, path)
    return seen_in(snapshot_of(table, table.transaction(), reader))


def seen_in(snapshot: Snapshot) -> Seen:
    """Return what a snapshot contains, whose symbols and first rows can be looked up; raises what reading it raises."""
    answer = read_answer(snapshot)
    rows = answer.rows.combine_chunks()
    look_symbols_up(snapshot, rows)
    tops = b"".join(top.to_bytes(8, "little") for top in first_rows(snapshot, rows))
    return Seen(
        version=answer.version,
        names=answer.names,
        row_count=rows.num_rows,
        digest=hashlib.blake2b(arrow_bytes(rows) + tops, digest_size=16).hexdigest(),
    )


def look_symbols_up(snapshot: Snapshot, rows: pa.Table) -> None:
    """Find the key of each symbol as a server does; raises CorruptError if the dictionary does not lead to it."""
    table, transaction = snapshot.table, snapshot.transaction
    columns = symbol_columns(table)
    dictionaries = read_table_symbols(table, transaction) if columns else {}
    for column in columns:
        raise_first(
            found
            for found in check_dictionary(table, transaction, column, dictionaries[column.name])
            if isinstance(found, Problem)
        )
        used = rows[column.name].unique().drop_null().to_pylist()
        for symbol in dictionaries[column.name].new_among(used):
            expected = f"so many that {symbol!r}, which rows have, is among them"
            actual = len(dictionaries[column.name].symbols)
            raise CorruptError(TXN_FILE, f"COUNT of symbols of column {column.name!r}", None, expected, actual)


def first_rows(snapshot: Snapshot, rows: pa.Table) -> Iterator[int]:
    """Yield the first row of each column in each partition, as a server needs it that makes a partition native.

    Nothing where `_cv` never changed. Raises CorruptError where there is a value before it, which would be lost then.
    """
    table, transaction = snapshot.table, snapshot.transaction
    version = transaction.record.column_version
    if version == 0 or table.metadata is None:
        return
    versions = read_column_versions(table.storage, f"{table.path}/{CV_FILE}", version=version)
    start = 0
    for partition in transaction.partitions:
        for column in table.metadata.columns:
            top = versions.top(partition.timestamp, column.id, partition.row_count)
            if rows[column.name][start : start + top].null_count < top:
                name = f"first row of column {column.name!r} in the partition at {partition.timestamp}"
                raise CorruptError(CV_FILE, name, None, "no value in a row before it", f"{top}, after a value")
            yield top
        start += partition.row_count


class TableReaders(Target, Protocol):
    """The readers of a table, which decode its files by `reader`."""

    reader: ReaderProtocol

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], Seen]]:
        """Start a reader: "fresh" opens the table for each read, "follow" and "pinned" once; the last pins versions.

        A pinned read reads its snapshot twice. Without a pin, files may vanish during a read, which then reads the
        version that replaced them.
        """
        if style == FRESH:
            yield lambda: self._reloading(lambda: _now(open_table(storage, path)))
            return
        table = open_table(storage, path)
        if style == PINNED:
            yield lambda: self._read_pinned(storage, table)
            return
        assert style == FOLLOW, style
        follower = TransactionReader(storage, f"{path}/{TXN_FILE}")
        yield lambda: self._reloading(lambda: (table, followed(follower)))

    def _read_pinned(self, storage: Storage, table: Table) -> Seen:
        with pin_committed(storage, table.path) as pin:
            if not pin.is_held:
                return self._reloading(lambda: _now(table))
            snapshot = snapshot_of(table, pin.transaction, self.reader)
            seen, again = seen_in(snapshot), seen_in(snapshot)
        if again != seen:
            raise PinBrokenError(f"version {pin.version} was {seen} and then, under the same pin, {again}")
        return seen

    def _reloading(self, load: Callable[[], tuple[Table, Transaction]]) -> Seen:
        """Read the version that `load` returns; load again if its files have vanished because it was replaced."""
        table, transaction = load()
        for _ in range(RELOADS_MAX):
            try:
                return seen_in(snapshot_of(table, transaction, self.reader))
            except (CorruptError, FileMissingError) as error:
                has_vanished = isinstance(error, FileMissingError) or error.problem.field == "file"
                table, later = load()
                if not has_vanished or later.version == transaction.version:
                    raise
                transaction = later
        return seen_in(snapshot_of(table, transaction, self.reader))


def _now(table: Table) -> tuple[Table, Transaction]:
    return table, table.transaction()


def followed(follower: TransactionReader) -> Transaction:
    """Return the committed version; raises UnannouncedChangeError if a reader of QuestDB would miss a change in it."""
    reload = follower.reload()
    if reload.unannounced:
        raise UnannouncedChangeError(f"version {reload.transaction.version}: {reload.unannounced}")
    return reload.transaction
