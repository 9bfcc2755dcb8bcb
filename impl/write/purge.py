"""Removing partition directories that neither the committed version nor any pinned one names (docs/writing.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition_names import split_name
from tornproof.impl.table.table import Table
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.write.recovery import remove_directory


def purge(storage: Storage, table: Table, transaction: Transaction, lock: WriterLock) -> tuple[str, ...]:
    """Remove what no pin needs and return the names, sorted; `transaction` is the committed version, and durable.

    A directory that a later one replaced at version N is needed by readers below N only. Raises StorageError.
    """
    removed: list[str] = []
    for needed_below, names in _by_need(table, transaction):
        with lock.exclude_pins_below(needed_below) as nobody_reads:
            for name in names if nobody_reads else ():
                remove_directory(storage, f"{table.path}/{name}")
                removed.append(name)
    if removed:
        storage.sync_directory(table.path)
    return tuple(sorted(removed))


def _by_need(table: Table, transaction: Transaction) -> Iterator[tuple[int, list[str]]]:
    """Yield unreferenced directories by the version from which on nobody needs them."""
    unreferenced = [split_name(name) for name in table.unreferenced_directories(transaction)]
    born = unreferenced + [split_name(table.directory_of(partition)) for partition in transaction.partitions]
    needs = []
    for interval, name_txn in unreferenced:
        # A directory's name is the version before the commit that made it, so its successor was there one later.
        successors = [other + 1 for name, other in born if name == interval and other > name_txn]
        name = interval if name_txn < 0 else f"{interval}.{name_txn}"
        needs.append((min([*successors, transaction.version]), name))
    for needed_below, group in groupby(sorted(needs), itemgetter(0)):
        yield needed_below, [name for _, name in group]
