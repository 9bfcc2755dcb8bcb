"""Migration of Parquet files outside of tables: where `_pm` goes, when it is written again, what is rejected."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data
import pytest
from real_tables import put

from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl import limits
from tornproof.impl.errors import StorageError
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration
from tornproof.impl.storage.interface import StorageReason
from tornproof.impl.table.partition import PM_FILE

FILE = "some/rows.parquet"
SIDECAR = f"{FILE}.pm"


@pytest.fixture
def data(questdb_data: Path) -> bytes:
    return (questdb_data / "legacy/9.3.4/types/table/2024-05-01.2/data.parquet").read_bytes()


@pytest.fixture
def golden(questdb_data: Path) -> bytes:
    return (questdb_data / "legacy/9.3.4/types/migrated/2024-05-01.2.pm").read_bytes()


def only_one(done: Migration) -> PartitionMigration:
    (partition,) = done.partitions
    assert (done.version, done.native_count, done.problems, done.reason) == (None, 0, (), "")
    return partition


def test_a_file_gets_its_pm_beside_it_once(data: bytes, golden: bytes) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))
    planned = migrate_file(storage, FILE, dry_run=True)
    assert dict(storage.image().files) == {FILE: data}
    done = migrate_file(storage, FILE)
    assert done == planned and done.is_complete
    partition = only_one(done)
    assert (partition.name, partition.outcome, partition.token) == ("rows.parquet", Outcome.MIGRATED, len(data))
    assert (partition.written_to, partition.pm_bytes) == (SIDECAR, len(golden))
    assert dict(storage.image().files) == {FILE: data, SIDECAR: golden}
    written_bytes = storage.counters().written_bytes
    assert only_one(migrate_file(storage, FILE)).outcome is Outcome.ALREADY
    assert storage.counters().written_bytes == written_bytes


@pytest.mark.parametrize("limit", ["PM_LIMIT_BYTES", "CHUNK_COUNT_LIMIT"])
def test_a_pm_that_readers_would_not_take_is_not_written(
    data: bytes, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))
    monkeypatch.setattr(limits, limit, 1)
    assert not migrate_file(storage, FILE).is_complete
    assert dict(storage.image().files) == {FILE: data}


def test_one_without_a_directory_in_its_path_and_one_that_goes_elsewhere(data: bytes, golden: bytes) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({"rows": data}))
    migrate_file(storage, "rows")
    migrate_file(storage, "rows", out="out/of/here")
    assert dict(storage.image().files) == {"rows": data, "rows.pm": golden, "out/of/here/rows.pm": golden}


def test_the_pm_of_a_file_that_is_another_one_by_now_is_replaced(data: bytes, golden: bytes) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data, SIDECAR: b"of before", f"{SIDECAR}.migrating": b"half"}))
    assert only_one(migrate_file(storage, FILE, dry_run=True)).outcome is Outcome.REPLACED
    assert only_one(migrate_file(storage, FILE)).outcome is Outcome.REPLACED
    assert dict(storage.image().files) == {FILE: data, SIDECAR: golden}


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_no_file_in_place_of_a_pm_is_rejected(data: bytes, dry_run: bool) -> None:
    """A dry run said that it would be migrated or replaced, and the real run rejected it."""
    for name in (SIDECAR, f"{SIDECAR}.migrating"):
        storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))
        storage.mkdir(name)
        with pytest.raises(StorageError, match=f"^{name}: cannot replace: it is not a regular file$"):
            migrate_file(storage, FILE, dry_run=dry_run)


def test_the_mode_is_the_one_that_is_asked_for(questdb_data: Path) -> None:
    # A file with bloom filters, which the two modes treat differently.
    folder = questdb_data / "tables/9.4.2/bloom"
    (pm,) = (folder / "regenerated").glob("*.pm")
    data = (folder / "table" / pm.stem / "data.parquet").read_bytes()
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))
    migrate_file(storage, FILE, mode=ConversionMode.TOOL)
    assert storage.image().files[SIDECAR] == pm.read_bytes()
    assert only_one(migrate_file(storage, FILE, mode=ConversionMode.SERVER)).outcome is Outcome.REPLACED
    assert len(storage.image().files[SIDECAR]) > len(pm.read_bytes())


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no Parquet at all", bytes(100), b"\xff" * 8 + b"PAR1", b"PAR1" * 3], ids=repr
)
def test_what_is_no_parquet_file_is_rejected(content: bytes) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: content}))
    done = migrate_file(storage, FILE)
    assert (only_one(done).outcome, done.is_complete) == (Outcome.REJECTED, False)
    assert only_one(done).sentence.startswith("rows.parquet: ")
    assert dict(storage.image().files) == {FILE: content}


@pytest.mark.parametrize(
    "change",
    [lambda data: data[:-1], lambda data: data + b"PAR1", lambda data: put(len(data) - 60, b"x")(data)],
    ids=["shrank", "grew", "other footer"],
)
def test_a_file_that_changes_meanwhile_is_rejected(
    data: bytes, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))

    def convert_and_change(*arguments: Any, **settings: Any) -> bytes:
        content = convert(*arguments, **settings)
        with storage.open_for_writing(FILE) as file:
            file.pwrite(change(data), 0)
            file.truncate(len(change(data)))
        return content

    monkeypatch.setattr("tornproof.impl.migrate.plain_file.convert", convert_and_change)
    assert only_one(migrate_file(storage, FILE)).outcome is Outcome.REJECTED
    assert SIDECAR not in storage.image().files


def test_a_path_that_cannot_be_written_to_is_an_error(data: bytes) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: data}))
    fault = Fault(at=0, reason=StorageReason.READ_ONLY, among=frozenset({CallKind.OPEN_FOR_WRITING}))
    with pytest.raises(StorageError, match="read-only"):
        migrate_file(FaultyStorage(storage, fault), FILE)
    with pytest.raises(StorageError):
        migrate_file(storage, "some/other.parquet")


@pytest.mark.parametrize("name", golden_data.files_named(PM_FILE)[:3])
def test_a_pm_is_no_parquet_file(questdb_data: Path, name: str) -> None:
    storage = MemoryStorage.of(DiskImage.of_files({FILE: (questdb_data / name).read_bytes()}))
    assert only_one(migrate_file(storage, FILE)).outcome is Outcome.REJECTED
