"""A table is opened from its directory; what is no table is said in a sentence, and left-over directories are found."""

import errno
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import golden_data
import pm_builder as pm
import pytest
import table_builder as tb
from golden_data import CHAIN, CopyOf
from msgspec.structs import replace
from rejections import rejection

from tornproof.impl.errors import NotATableError, UsageError
from tornproof.impl.layout.meta import MetaHeader
from tornproof.impl.layout.txn import PARQUET_FORMAT, BaseHeader, PartitionEntry, TransactionRecord
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.read.reader import open_snapshot, snapshot_of
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.table.tables_below import is_root, names_below
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.transaction import I64_MAX, I64_MIN, safe_read
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table

TABLES = tuple(
    name.removesuffix("/_meta") for name in golden_data.files_named("_meta") if not name.startswith("power-loss/")
)


def opened(path: Path) -> Table:
    return open_table(OperatingSystemStorage(), str(path))


def no_table(path: Path) -> str:
    with pytest.raises(NotATableError) as caught:
        opened(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_nothing_at_the_path_is_no_table(tmp_path: Path) -> None:
    assert "there is nothing at this path" in no_table(tmp_path / "missing")


def test_a_file_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    assert "it is not a directory" in no_table(path)
    assert "there is nothing at this path" in no_table(path / "below")


def test_an_empty_directory_is_no_table(tmp_path: Path) -> None:
    assert "it holds no _txn" in no_table(tmp_path)


def test_a_directory_without_txn_is_no_table_and_with_it_is_one(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    assert opened(path).transaction().partitions
    (path / "_txn").unlink()
    assert "it holds no _txn" in no_table(path)


def test_a_table_without_meta_finds_the_same_directories_by_trying_every_interval(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    table = opened(path)
    assert table.metadata is not None and table.metadata.partition_by is PartitionBy.DAY
    names = [table.directory_of(partition) for partition in table.transaction().partitions]
    (path / "_meta").unlink()
    bare = opened(path)
    assert bare.metadata is None
    assert [bare.directory_of(partition) for partition in bare.transaction().partitions] == names


def test_a_damaged_meta_is_damage_and_not_a_missing_table(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    (path / "_meta").write_bytes(b"")
    assert rejection(lambda: opened(path)).file == "_meta"


@pytest.mark.parametrize("name", TABLES)
def test_every_directory_of_a_real_table_is_either_named_by_its_version_or_reported_as_left_over(
    questdb_data: Path, name: str
) -> None:
    table = opened(questdb_data / name)
    transaction = table.transaction()
    named = {table.directory_of(partition) for partition in transaction.partitions}
    left_over = table.unreferenced_directories(transaction)
    present = {path.name for path in (questdb_data / name).iterdir() if path.is_dir() and path.name.startswith("2")}
    assert named | set(left_over) == present
    assert named.isdisjoint(left_over)
    assert name.startswith("crashes/") or left_over == ()


def test_some_killed_servers_left_directories_over(questdb_data: Path) -> None:
    tables = [opened(questdb_data / name) for name in TABLES if name.startswith("crashes/")]
    assert any(table.unreferenced_directories(table.transaction()) for table in tables)


def test_only_directories_that_look_like_partitions_are_left_over(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    for name in ("2024-01-09.9", "2024-01-08", "default", "wal1", "2024-01-01.detached"):
        (path / name).mkdir()
    (path / "2024-01-07").write_bytes(b"a file")
    table = opened(path)
    assert table.unreferenced_directories(table.transaction()) == ("2024-01-08", "2024-01-09.9")


def test_an_older_directory_of_a_named_partition_is_left_over(copy_of: CopyOf) -> None:
    path = copy_of(CHAIN)
    table = opened(path)
    transaction = table.transaction()
    older = f"{table.directory_of(transaction.partitions[0])}7"
    (path / older).mkdir()
    assert table.unreferenced_directories(transaction) == (older,)


def test_a_partition_whose_directory_is_missing_is_called_by_the_name_that_it_should_have(copy_of: CopyOf) -> None:
    table = opened(copy_of(CHAIN))
    partition = replace(table.transaction().partitions[0], name_txn=99)
    assert table.directory_of(partition) == "2024-01-01.99"


def test_a_partition_of_an_impossible_time_is_damage_of_txn(copy_of: CopyOf) -> None:
    table = opened(copy_of(CHAIN))
    partition = replace(table.transaction().partitions[0], timestamp=2**63 - 1)
    problem = rejection(lambda: table.directory_of(partition))
    assert (problem.file, problem.offset_bytes) == ("_txn", partition.entry_offset_bytes)


@pytest.mark.parametrize(("partition_by", "left_over"), [(PartitionBy.NONE, ()), (PartitionBy.DAY, ("2024-01-01",))])
def test_the_one_directory_of_a_table_without_intervals_is_in_use(
    partition_by: PartitionBy, left_over: tuple[str, ...], tmp_path: Path
) -> None:
    content = pm.set_field(tb.meta({"ts": TypeTag.TIMESTAMP}), MetaHeader, 0, "partition_by", partition_by)
    tb.BuiltTable(files={"_txn": tb.txn(rows=0, token=0, entries=[]), "_meta": content}).write_to(tmp_path)
    for name in ("default", "2024-01-01"):
        (tmp_path / name).mkdir()
    table = opened(tmp_path)
    assert table.transaction().partitions == ()
    assert table.unreferenced_directories(table.transaction()) == left_over


def emptied(path: Path, partition_by: PartitionBy, entry: PartitionEntry, **fields: int) -> Table:
    """Return a table without rows whose only entry is this one."""
    types = {"ts": TypeTag.TIMESTAMP}
    meta = pm.set_field(tb.meta(types), MetaHeader, 0, "partition_by", partition_by)
    txn = tb.txn(rows=0, token=0, entries=[entry.pack()])
    for name, value in ({"min_timestamp": I64_MAX, "max_timestamp": I64_MIN} | fields).items():
        txn = pm.set_field(txn, TransactionRecord, BaseHeader.layout.size_bytes, name, value)
    tb.BuiltTable(files=tb.beside(types) | {"_txn": txn, "_meta": meta}).write_to(path)
    return opened(path)


LEFT_OVER = (
    # As a server left them in a table with three symbol columns, in one with none, and as one with one would be.
    PartitionEntry(timestamp=I64_MAX, row_count_and_flags=1 << 63, name_txn=1, token=0),
    PartitionEntry(timestamp=1, row_count_and_flags=1, name_txn=0, token=I64_MAX),
    PartitionEntry(timestamp=0, row_count_and_flags=0, name_txn=I64_MAX, token=I64_MIN),
    PartitionEntry(timestamp=I64_MIN, row_count_and_flags=PARQUET_FORMAT.put(0, 1), name_txn=0, token=4096),
)


@pytest.mark.parametrize("entry", LEFT_OVER)
def test_what_an_earlier_record_left_in_an_empty_table_without_intervals_is_no_partition(
    entry: PartitionEntry, tmp_path: Path
) -> None:
    """A table that a server truncated and then altered was called damaged, and could not be read."""
    table, storage = emptied(tmp_path, PartitionBy.NONE, entry), OperatingSystemStorage()
    with pin_committed(storage, str(tmp_path)) as pin:
        for snapshot in (open_snapshot(table), snapshot_of(table, pin.transaction)):
            assert list(snapshot.batches()) == [] and snapshot.native_partitions == ()
    report, repaired = verify_table(table), repair_table(storage, str(tmp_path), dry_run=True)
    assert report.sound and not report.partitions and not repaired.actions and not repaired.problems
    migration = migrate_table(storage, str(tmp_path), dry_run=True)
    assert not migration.partitions and not migration.native_count


@pytest.mark.parametrize("entry", LEFT_OVER)
def test_what_an_earlier_record_left_in_a_table_without_a_designated_timestamp_is_not_the_entry_of_its_rows(
    entry: PartitionEntry, tmp_path: Path
) -> None:
    """A table of a server was called damaged from about its third commit on, and could not be read."""
    path = emptied(tmp_path, PartitionBy.NONE, entry, transient_row_count=2).path
    meta = pm.set_field((tmp_path / "_meta").read_bytes(), MetaHeader, 0, "timestamp_index", -1)
    (tmp_path / "_meta").write_bytes(meta)
    (tmp_path / "default").mkdir()
    (tmp_path / "default/ts.d").write_bytes(bytes(16))
    table = opened(Path(path))
    (partition,) = table.transaction().partitions
    assert partition.identity == (0, -1, -1, 2, 0)
    assert verify_table(table).sound and open_snapshot(table).native_row_count == 2


def test_the_entry_of_a_table_that_is_not_empty_or_has_intervals_counts(tmp_path: Path) -> None:
    """One flipped bit in the number of rows would hide them."""
    *_, future, parquet = LEFT_OVER
    lost = emptied(tmp_path, PartitionBy.NONE, parquet, max_timestamp=5)
    assert len(lost.transaction().partitions) == 1 and not verify_table(lost).sound
    table = emptied(tmp_path, PartitionBy.DAY, future)
    transaction = safe_read(table.storage, f"{table.path}/_txn")
    for each in (table, replace(table, metadata=None)):
        for ask in (each.transaction, partial(snapshot_of, each, transaction)):
            assert rejection(ask).field == "NAME_TXN"


def test_files_of_a_partition_lie_in_its_directory(copy_of: CopyOf) -> None:
    table = opened(copy_of(CHAIN))
    files = table.files_of(table.transaction().partitions[0])
    assert (files.name, files.path) == ("2024-01-01.1", f"{table.path}/2024-01-01.1")
    assert files.has_pm()


def test_tables_beside_a_directory_that_cannot_be_read_or_is_gone_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either ended the search, also a directory that was removed between its listing and its turn."""

    def listed(directory: Path) -> Iterator[Path]:
        if directory.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(directory))
        if directory.name == "dropped":
            directory.rmdir()
        return all_of(directory)

    for name in ("closed", "dropped", "table"):
        (tmp_path / name).mkdir()
    all_of = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", listed)
    note = f"{tmp_path}/closed: cannot read: Permission denied"
    assert is_root(str(tmp_path))
    with pytest.raises(UsageError, match=re.escape(note)):
        names_below(str(tmp_path))
    (tmp_path / "dropped").mkdir()
    (tmp_path / "table/_txn").touch()
    assert names_below(str(tmp_path)) == (["table"], note, "")
