"""Migration of a table under power cuts: a crash after every step, in every model of persistence, and later runs.

After each crash a reader must find every `_pm` absent or as it was, or whole and as an undisturbed run makes it, and
the next run must end with the same bytes.
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import HasTime, OnProgress, Phase, always
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.explorer import IN_ORDER, explore_power
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.models import CDIR, Model
from tornproof.harness.simulator.process.case import TestCase
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

PHASE = "migration"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationTarget(Target):
    """Tables that are migrated; an operation is the name of a partition's directory."""

    name: str = "migration"
    syncs_first: bool = True
    """Whether a run begins by making names durable that it finds; otherwise it does so for each partition in turn."""

    def create(self, storage: Storage, path: str) -> None:
        """Raise NotMigratedError: a table to migrate is written by another release."""
        raise NotMigratedError(f"{path}: there is nothing to migrate without a start state")

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[MigrationRuns]:
        """Make durable what is there, as the judge expects of a recovery; the runs replace what is unfinished."""
        for name in parquet_partitions(storage, path) if self.syncs_first else ():
            storage.sync_directory(f"{path}/{name}")
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


def migration_case(image: DiskImage, path: str) -> TestCase:
    """Return a run over each parquet partition of a table, and the same after a crash; raises as reading it does."""
    names = tuple(parquet_partitions(image, path))
    numbers = tuple(range(len(names)))
    return TestCase(
        target=MigrationTarget(),
        path=path,
        operations=names,
        first_session=numbers,
        second_session=numbers,
        start=image,
    )


def coverage_goals(models: Sequence[Model]) -> tuple[str, ...]:
    """Return the points that a migration reaches under models: it writes, syncs and names, and overwrites nothing."""
    points: list[str] = []
    for model in models:
        if model.fails_syncs:
            points += (power_points.SYNC_FAILED, power_points.CUT_AFTER_FAILURE, power_points.EVICTED)
            points += (power_points.CUT_AFTER_KILL,)
        else:
            points += (power_points.OLD_STATE, power_points.NEW_STATE)
            points += (power_points.WRITE_LOST, power_points.WRITE_KEPT) if model.everything_dies else ()
            points += (power_points.NAME_LOST,) if model is CDIR else ()
    return tuple(dict.fromkeys(points))


def explore_migration(
    case: TestCase,
    *,
    models: Sequence[Model] = IN_ORDER,
    settings: Settings | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Cut the power of a migration at every step; raises NotExplorableError where it fails by itself."""
    phase = explore_power(
        case,
        models=models,
        settings=settings,
        has_time=has_time,
        on_progress=on_progress,
        points=coverage_goals(models),
    )
    return dataclasses.replace(phase, name=PHASE)
