"""A new table is one that readers, `verify` and real servers' files agree on, and never half of one."""

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import cold_run
from msgspec.structs import replace
from real_tables import snapshot_of, verified
from type_values import array_type, decimal_type, geohash_type

from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage, Run
from tornproof.impl.errors import BusyError, NotATableError, StorageError
from tornproof.impl.storage.interface import OpenMode, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, TableRejectedError, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.transaction import decode_transaction
from tornproof.impl.types.questdb import TypeTag

TS = NewColumn(name="ts", type=TypeTag.TIMESTAMP)
COLUMNS = (TS, NewColumn(name="v", type=TypeTag.LONG), NewColumn(name="n", type=TypeTag.VARCHAR))
NAMES = ["_cv", "_meta", "_name", "_txn"]
OWN_NAMES = ["_cv", "_meta", "_name", "_pins", "_txn"]
FASTPATH = "tables/9.4.2/fastpath/table"


def create(path: Path | str, *columns: NewColumn, storage: Any = None, **changes: Any) -> Table:
    options: dict[str, Any] = {"timestamp": "ts", "partition_by": PartitionBy.DAY, **changes}
    return create_table(storage or OperatingSystemStorage(), str(path), columns or COLUMNS, **options)


def test_new_table_is_open_empty_and_sound(tmp_path: Path) -> None:
    path = tmp_path / "trades"
    table = create(path, TS, NewColumn(name="price", type=TypeTag.DOUBLE))
    assert table.metadata is not None
    assert table.metadata.columns == (
        TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),
        TableColumn(id=1, name="price", type=TypeTag.DOUBLE),
    )
    assert (table.metadata.timestamp_id, table.metadata.partition_by) == (0, PartitionBy.DAY)
    report = verified(path)
    assert report.sound and not report.all_problems
    snapshot = snapshot_of(path)
    assert (snapshot.transaction.version, snapshot.transaction.partitions) == (0, ())
    assert list(snapshot.batches()) == []
    run = cold_run("verify", path)
    assert (run.code, run.err) == (0, "")


def test_files_are_those_of_a_real_table_that_has_no_log(questdb_data: Path, tmp_path: Path) -> None:
    real = questdb_data / FASTPATH
    create(tmp_path / "fastpath~7", table_id=7)
    assert sorted(entry.name for entry in real.iterdir() if entry.is_file()) == NAMES
    assert sorted(entry.name for entry in (tmp_path / "fastpath~7").iterdir()) == OWN_NAMES
    for name in NAMES[:3]:
        assert (tmp_path / "fastpath~7" / name).read_bytes() == (real / name).read_bytes()
    first, later = ((path / "_txn").read_bytes() for path in (tmp_path / "fastpath~7", real))
    assert len(first) == len(later)
    empty, grown = (decode_transaction(content, file="_txn").record for content in (first, later))
    assert (empty.txn, empty.transient_row_count, empty.fixed_row_count) == (0, 0, 0)
    assert (empty.min_timestamp, empty.max_timestamp) == ((1 << 63) - 1, -(1 << 63))
    assert (empty.lag_min_timestamp, empty.lag_max_timestamp) == (grown.lag_min_timestamp, grown.lag_max_timestamp)
    assert empty.symbol_column_count == grown.symbol_column_count == 0


def test_a_dictionary_begins_as_a_server_makes_it(questdb_data: Path, tmp_path: Path) -> None:
    made = create(tmp_path / "t", TS, NewColumn(name="s", type=TypeTag.SYMBOL, symbol_capacity=100))
    assert made.metadata is not None and made.metadata.columns[1].symbol_capacity == 128
    assert [(count.count, count.transient_count) for count in made.transaction().symbol_counts] == [(0, 0)]
    real = questdb_data / "tables/9.4.2/chain/table"
    for kind, size_bytes, same_bytes in (("o", 4096, slice(4, 64)), ("k", 4096, slice(17, 21))):
        ours, theirs = ((path / f"s.{kind}").read_bytes() for path in (tmp_path / "t", real))
        assert (len(ours), len(theirs)) == (size_bytes, size_bytes)
        assert ours[same_bytes] == theirs[same_bytes]
    assert all((tmp_path / "t" / f"s.{kind}").read_bytes() == b"" for kind in "cv")
    assert verified(tmp_path / "t").sound


def test_deduplication_keys_and_any_position_of_the_timestamp_are_kept(tmp_path: Path) -> None:
    columns = (NewColumn(name="k", type=TypeTag.INT, is_dedup_key=True), NewColumn(name="TS2", type=TypeTag.TIMESTAMP))
    with pytest.raises(TableRejectedError, match="lack the designated timestamp 'TS2'"):
        create(tmp_path / "t", *columns, timestamp="TS2")
    keyed = (columns[0], NewColumn(name="TS2", type=TypeTag.TIMESTAMP | 1 << 18, is_dedup_key=True))
    table = create(tmp_path / "t", *keyed, timestamp="TS2", partition_by=PartitionBy.HOUR)
    assert table.metadata is not None
    assert [column.is_dedup_key for column in table.metadata.columns] == [True, True]
    assert (table.metadata.timestamp_id, table.metadata.counts_nanoseconds) == (1, True)


POSSIBLE = [
    *(tag for tag in TypeTag if TypeTag.TIMESTAMP != tag < TypeTag.GEOBYTE),
    TypeTag.TIMESTAMP | 1 << 18,
    geohash_type(TypeTag.GEOBYTE, 7),
    geohash_type(TypeTag.GEOSHORT, 8),
    geohash_type(TypeTag.GEOINT, 31),
    geohash_type(TypeTag.GEOLONG, 60),
    TypeTag.UUID,
    TypeTag.VARCHAR,
    TypeTag.IPV4,
    TypeTag.BINARY,
    array_type(32),
    decimal_type(TypeTag.DECIMAL64, 18, 18),
]
IMPOSSIBLE = [
    0,
    -6,
    200,
    TypeTag.LONG | 1 << 8,
    TypeTag.TIMESTAMP | 1 << 17,
    TypeTag.GEOBYTE,
    TypeTag.GEOBYTE | 4 << 8,
    geohash_type(TypeTag.GEOBYTE, 8),
    geohash_type(TypeTag.GEOLONG, 61),
    TypeTag.ARRAY | TypeTag.LONG << 8,
    TypeTag.ARRAY | TypeTag.DOUBLE << 8 | 1 << 19,
    decimal_type(TypeTag.DECIMAL64, 19, 0),
    decimal_type(TypeTag.DECIMAL64, 4, 5),
    decimal_type(TypeTag.DECIMAL64, 18, 4) | 1 << 26,
]


def test_possible_types_make_a_table(tmp_path: Path) -> None:
    columns = [NewColumn(name=f"c{position}", type=int(type_)) for position, type_ in enumerate(POSSIBLE)]
    table = create(tmp_path / "t", TS, *columns)
    assert table.metadata is not None
    assert [column.type for column in table.metadata.columns[1:]] == POSSIBLE


@pytest.mark.parametrize("column_type", IMPOSSIBLE)
def test_impossible_types_are_rejected(tmp_path: Path, column_type: int) -> None:
    with pytest.raises(TableRejectedError, match=f"column 'x': {column_type} is not a type"):
        create(tmp_path / "t", TS, NewColumn(name="x", type=int(column_type)))


def column(name: str) -> NewColumn:
    return NewColumn(name=name, type=TypeTag.LONG)


REJECTED: dict[str, tuple[tuple[NewColumn, ...], dict[str, Any], str]] = {
    "no timestamp": ((column("v"),), {}, "'ts' is not among the columns"),
    "timestamp of another type": ((column("ts"),), {}, "'ts' is not of type TIMESTAMP"),
    "array as a key": (
        (replace(TS, is_dedup_key=True), NewColumn(name="a", type=array_type(2), is_dedup_key=True)),
        {},
        "column 'a': an array cannot be a deduplication key",
    ),
    "same name": ((TS, column("v"), column("v")), {}, "two columns are called 'v'"),
    "same name but for case": ((TS, column("v"), column("V")), {}, "two columns are called 'V'"),
    "symbol capacity": (
        (TS, NewColumn(name="s", type=TypeTag.SYMBOL, symbol_capacity=(1 << 20) + 1)),
        {},
        "expected a symbol capacity of 2 to 1048576, found 1048577",
    ),
    "name of a dictionary that is too long for its files": (
        (TS, NewColumn(name="漢" * 84, type=TypeTag.SYMBOL)),
        {},
        "its files would have names of more than 255 bytes",
    ),
    "more than is read of columns": (
        (TS, *(column(f"{number:0127}") for number in range(58_000))),
        {},
        "_meta would have 16,822,272 bytes, more than 16,777,216",
    ),
    "no partitions": (COLUMNS, {"partition_by": PartitionBy.NONE}, "without partitions"),
    "no name": ((TS, column("")), {}, "a name has 1 to 127"),
    "long name": ((TS, column("v" * 128)), {}, "a name has 1 to 127"),
    "name with a slash": ((TS, column("../v")), {}, "cannot be part of a name"),
    "name with a null byte": ((TS, column("a\0")), {}, "cannot be part of a name"),
    "half a character": ((TS, column("\ud800")), {}, "surrogates not allowed"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_columns_that_no_table_can_have_are_rejected_before_anything_is_made(tmp_path: Path, name: str) -> None:
    columns, options, message = REJECTED[name]
    with pytest.raises(TableRejectedError, match=re.escape(message)):
        create(tmp_path / "t", *columns, **options)
    assert list(tmp_path.iterdir()) == []
    create(tmp_path / "t", TS, column("v" * 127), column("größe 🌡"))


@pytest.mark.parametrize("name", ["a.b", "~7", "x" * 128])
def test_directory_whose_name_no_table_can_have_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(TableRejectedError, match="the table cannot be called"):
        create(tmp_path / name)


def test_directory_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    create(tmp_path / "t")
    before = {entry.name: entry.read_bytes() for entry in (tmp_path / "t").iterdir()}
    with pytest.raises(StorageError, match="already there"):
        create(tmp_path / "t", TS)
    assert {entry.name: entry.read_bytes() for entry in (tmp_path / "t").iterdir()} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").touch()
    with pytest.raises(StorageError, match="already there"):
        create(tmp_path / "other")
    with pytest.raises(StorageError):
        create(tmp_path / "missing" / "t")


class Interrupted(InterceptedStorage):
    """A storage that notes each change and stops before one of them."""

    def __init__(self, stop: int) -> None:
        super().__init__(OperatingSystemStorage())
        self.stop = stop
        self.done: list[tuple[CallKind, str]] = []

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        if call.kind in STEPS:
            if len(self.done) == self.stop:
                raise StorageError(file=call.path, operation=call.kind, reason="stopped")
            self.done.append((call.kind, Path(call.path).name))
        return run()


def changes_until(path: Path, stop: int) -> list[tuple[CallKind, str]]:
    storage = Interrupted(stop)
    create(path, storage=storage)
    return storage.done


def test_interrupted_creation_leaves_no_table_and_can_be_done_again(tmp_path: Path) -> None:
    done = changes_until(tmp_path / "whole", stop=-1)
    named = done.index((CallKind.RENAME, "_txn.new"))
    for stop in range(len(done)):
        path = tmp_path / f"stopped{stop}"
        with pytest.raises(StorageError, match="stopped"):
            changes_until(path, stop)
        if stop > named:
            assert verified(path).sound
            continue
        with pytest.raises(NotATableError):
            open_table(OperatingSystemStorage(), str(path))
        create(path)
        assert verified(path).sound
        assert sorted(entry.name for entry in path.iterdir()) == OWN_NAMES


def test_left_overs_of_an_interrupted_creation_leave_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    for name in ("_meta", "_name"):
        (path / name).write_bytes(b"\xff" * 9_000)
    create(path)
    assert ((path / "_name").read_bytes(), len((path / "_meta").read_bytes())) == (b"\x01\0\0\0t\0\0", 4096)


def test_everything_is_durable_before_the_table_has_its_name_and_the_name_before_it_is_returned(tmp_path: Path) -> None:
    done = changes_until(tmp_path / "t", stop=-1)
    named = done.index((CallKind.RENAME, "_txn.new"))
    for name in ("_meta", "_cv", "_name", "_txn.new"):
        written = done.index((CallKind.PWRITE, name))
        assert written < done.index((CallKind.FSYNC, name)) < named
    assert done[named - 1] == (CallKind.SYNC_DIRECTORY, "t")
    assert done[named + 1 :] == [(CallKind.SYNC_DIRECTORY, "t")]
    # From then on others can commit to the table.
    assert done.index((CallKind.SYNC_DIRECTORY, tmp_path.name)) < named


def test_a_second_creator_is_told_that_the_first_is_at_work(tmp_path: Path) -> None:
    """The second took a running creation for a killed one, and the first then put its empty `_txn` over commits."""
    told = []

    class Overtaken(Interrupted):
        def intercept(self, call: Call, run: Run[Answer]) -> Answer:
            answer = super().intercept(call, run)
            if call.kind in STEPS and len(self.done) > 2:  # after the directory and `_pins`
                with pytest.raises((BusyError, StorageError)) as refused:
                    create(tmp_path / "t")
                told.append(type(refused.value))
            return answer

    create(tmp_path / "t", storage=Overtaken(stop=-1))
    # From the renaming on, the table is there.
    assert told[-2:] == [StorageError] * 2 and set(told[:-2]) == {BusyError}
    assert verified(tmp_path / "t").sound


def test_a_creator_that_waited_for_the_lock_leaves_the_finished_table_alone(tmp_path: Path) -> None:
    class Late(InterceptedStorage):
        def intercept(self, call: Call, run: Run[Answer]) -> Answer:
            if call.path.endswith("_pins") and call.kind is CallKind.OPEN_FOR_WRITING:
                create(tmp_path / "t")
            return run()

    with pytest.raises(StorageError, match="already there"):
        create(tmp_path / "t", TS, storage=Late(OperatingSystemStorage()))
    metadata = open_table(OperatingSystemStorage(), str(tmp_path / "t")).metadata
    assert metadata is not None and len(metadata.columns) == len(COLUMNS)


def test_a_table_is_created_where_files_have_no_locks(tmp_path: Path) -> None:
    class WithoutLocks(InterceptedStorage):
        def intercept(self, call: Call, run: Run[Answer]) -> Answer:
            if call.kind is CallKind.LOCK:
                raise StorageError(call.path, "lock", StorageReason.NO_LOCKS)
            return run()

    create(tmp_path / "t", storage=WithoutLocks(OperatingSystemStorage()))
    assert verified(tmp_path / "t").sound


def test_relative_path_is_made_where_the_process_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert create("t/").path == "t"
    assert verified(tmp_path / "t").sound
    with OperatingSystemStorage().open_for_writing("t/_txn", OpenMode.EXISTING) as file:
        assert file.size_bytes() == 4096
