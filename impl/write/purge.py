"""Removing partition directories that neither the committed nor any pinned version names (docs/writing.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from operator import itemgetter

from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.partition_names import split_name
from tornproof.impl.table.table import Table
from tornproof.impl.txn.pins import WriterLock
from tornproof.impl.txn.transaction import Transaction
from tornproof.impl.write.recovery import remove_directory


def purge(
    storage: Storage, table: Table, transaction: Transaction, lock: WriterLock, named: Collection[str]
) -> tuple[str, ...]:
    """Remove directories that no pin needs; return their names, sorted. `transaction` is the durable committed version.

    A directory is named from the version after that of its name on, and if it was replaced at version N, only by those
    below N. `named` are directories that committed versions name or named, among them those of `transaction`; of others
    it is not known. Raises StorageError.
    """
    removed: list[str] = []
    for versions, names in _by_need(table, transaction, named):
        with lock.exclude_pins(versions) as nobody_reads:
            for name in names if nobody_reads else ():
                remove_directory(storage, f"{table.path}/{name}")
                removed.append(name)
    if removed:
        storage.sync_directory(table.path)
    return tuple(sorted(removed))


def _by_need(table: Table, transaction: Transaction, named: Collection[str]) -> Iterator[tuple[range, list[str]]]:
    """Yield unreferenced directories with the versions that may name them."""
    # Others prove nothing: a directory that a killed server left was never named, and has replaced no other.
    known = [split_name(name) for name in named]
    needs = []
    for interval, name_txn in map(split_name, table.unreferenced_directories(transaction)):
        # A directory is named by the version before its commit, so its successor exists from one version later on.
        successors = [other + 1 for name, other in known if name == interval and other > name_txn]
        name = interval if name_txn < 0 else f"{interval}.{name_txn}"
        needs.append((name_txn + 1, min([*successors, transaction.version]), name))
    for (first, end), group in groupby(sorted(needs), itemgetter(0, 1)):
        yield range(first, end), [name for *_, name in group]
