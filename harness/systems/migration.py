"""Migration as a target: its writer makes the `_pm` of one partition per commit, its reader sees the whole table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tornproof.harness.common.system import Target
from tornproof.harness.systems.table_readers import see
from tornproof.impl.errors import ProblemError, TornproofError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.partition_publish import UNFINISHED_SUFFIX
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.repair.kept import KEPT_DIRECTORY
from tornproof.impl.storage.interface import EntryKind, ReadableStorage, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE


class NotMigratedError(TornproofError):
    """A run rejected the partition, or left a file unfinished."""


@dataclass(frozen=True, slots=True)
class MigratedPartition:
    """Digests of a partition's files, "" for a missing one; `kept` is the old `_pm`, "" until the table can be read."""

    name: str
    pm: str
    kept: str
    data: str


@dataclass(frozen=True, slots=True)
class MigratedTable:
    """What a reader sees: the digest of `_txn`, the parquet partitions, and a digest of the rows or the error."""

    txn: str
    partitions: tuple[MigratedPartition, ...]
    rows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationTarget(Target):
    """Tables that are migrated; an operation is the name of a partition's directory."""

    name: str = "migration"

    def create(self, storage: Storage, path: str) -> None:
        """Raise NotMigratedError: a table to migrate is written by another release."""
        raise NotMigratedError(f"{path}: there is nothing to migrate without a start state")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[MigrationRuns]:
        """Recover nothing: the next run on a partition replaces what an interrupted one left."""
        yield MigrationRuns(storage, path)

    def read(self, storage: Storage, path: str) -> MigratedTable:
        """Read everything that migration may change, and what it must not change."""
        try:
            rows, is_migrated = see(storage, path).digest, True
        except ProblemError as error:
            rows, is_migrated = str(error), False
        partitions = []
        for name in parquet_partitions(storage, path):
            kept = digest(storage, f"{path}/{KEPT_DIRECTORY}/{name}/{PM_FILE}") if is_migrated else ""
            pm, data = (digest(storage, f"{path}/{name}/{file}") for file in (PM_FILE, DATA_FILE))
            partitions.append(MigratedPartition(name, pm, kept, data))
        return MigratedTable(digest(storage, f"{path}/{TXN_FILE}"), tuple(partitions), rows)


class MigrationRuns:
    """One process that migrates partitions."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Migrate partitions of the table at `path`."""
        self._storage = storage
        self._path = path

    def commit(self, operation: str) -> None:
        """Migrate the partition of this name; raises NotMigratedError."""
        done = migrate_table(self._storage, self._path, only=operation)
        if not done.is_complete:
            raise NotMigratedError("; ".join(each.sentence for each in done.partitions) or done.reason)
        left = [name for name in self._storage.listdir(f"{self._path}/{operation}") if name.endswith(UNFINISHED_SUFFIX)]
        if left:
            raise NotMigratedError(f"{operation} still holds {', '.join(left)}")


def parquet_partitions(storage: ReadableStorage, path: str) -> list[str]:
    """Return the directories of the committed version's parquet partitions."""
    table = open_table(storage, path)
    return [table.directory_of(each) for each in table.transaction().partitions if each.is_parquet]


def digest(storage: ReadableStorage, path: str) -> str:
    """Return a digest of a file, "" if there is none."""
    if storage.kind(path) is not EntryKind.FILE:
        return ""
    with storage.open_for_reading(path) as file:
        return hashlib.sha256(file.pread(file.size_bytes(), 0)).hexdigest()[:16]
