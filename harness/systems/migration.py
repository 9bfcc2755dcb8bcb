"""Migration as a target: its writer gives one partition after the other its `_pm`, its reader sees what there is."""

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
    """A run refused the partition, or left a file unfinished."""


@dataclass(frozen=True, slots=True)
class MigratedPartition:
    """Digests of a partition's files, "" where there is none; `kept` is the old `_pm` where there is a sound one."""

    name: str
    pm: str
    kept: str
    data: str


@dataclass(frozen=True, slots=True)
class MigratedTable:
    """What a reader finds: the digest of `_txn`, the parquet partitions, and their rows or why there are none."""

    txn: str
    partitions: tuple[MigratedPartition, ...]
    rows: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationTarget(Target):
    """Tables that are migrated; an operation is the name of a partition's directory."""

    name: str = "migration"

    def create(self, storage: Storage, path: str) -> None:
        """Refuse: what is to be migrated was written by somebody else."""
        raise NotMigratedError(f"{path}: there is nothing to migrate without a start state")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[MigrationRuns]:
        """Do nothing: what an interrupted run left is for the next run on the same partition."""
        yield MigrationRuns(storage, path)

    def read(self, storage: Storage, path: str) -> MigratedTable:
        """Look at all that migration may change, and at what it must not."""
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
        """Remember the table."""
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
    """Return what tells a file from others, "" where there is none."""
    if storage.kind(path) is not EntryKind.FILE:
        return ""
    with storage.open_for_reading(path) as file:
        return hashlib.sha256(file.pread(file.size_bytes(), 0)).hexdigest()[:16]
