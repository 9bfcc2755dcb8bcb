"""Tables as a program opens, reads, makes and writes them; every other reader takes a snapshot as it is."""

from __future__ import annotations

import copy
import datetime
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pandas  # type: ignore[import-untyped]
import polars
import pyarrow as pa
import pytest
from written_tables import leave_between

import tornproof
from tornproof.api.tables import SnapshotReleasedError
from tornproof.harness.common.verdict import Verdict
from tornproof.impl.query.time_search import TimeTextError
from tornproof.impl.read.reader import RepeatedColumnError, UnknownColumnError
from tornproof.impl.table.create import TableRejectedError
from tornproof.impl.types.names import type_code

COLUMNS = {"ts": "TIMESTAMP", "v": "LONG"}
DAY = 86_400_000_000


def rows(*values: int) -> pa.Table:
    times = pa.array([value * DAY for value in values], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "v": pa.array(values, pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> tornproof.Table:
    made = tornproof.create(tmp_path / "t", COLUMNS, timestamp="ts")
    with made.writer(allow_parquet_last=True) as writer:
        writer.write(rows(3, 1, 2))
        assert writer.commit() == made.version == 1
    return made


def test_a_snapshot_stays_what_it_was_while_a_writer_goes_on(table: tornproof.Table) -> None:
    with table.snapshot() as old, table.writer(allow_parquet_last=True) as writer:
        writer.write(rows(4))
        writer.commit()
        with table.snapshot() as new:
            assert (old.version, new.version, table.version) == (1, 2, 2)
            assert old.to_arrow()["v"].to_pylist() == [1, 2, 3]
            assert new.to_arrow()["v"].to_pylist() == [1, 2, 3, 4]


def test_a_snapshot_waits_until_a_server_has_changed_the_columns(
    table: tornproof.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = leave_between(Path(table.path), monkeypatch)
    with table.snapshot() as snapshot:
        assert snapshot.to_arrow().num_rows == 3 and len(paused) == 1
    with table.snapshot() as snapshot:
        assert snapshot.version == 1 and len(paused) == 1


def test_a_pinned_version_keeps_its_files_until_it_is_released(table: tornproof.Table) -> None:
    with table.writer(tornproof.WriterOptions(rewrite_unused_ratio=0.0), allow_parquet_last=True) as writer:
        snapshot = table.snapshot()
        for _ in range(2):
            writer.write(rows(1))
            writer.commit()
        assert writer.purge() == ()
        assert snapshot.to_arrow()["v"].to_pylist() == [1, 2, 3]
        snapshot.release()
        assert len(writer.purge()) == 1


def test_a_scan_returns_columns_in_the_given_order_and_rows_that_a_condition_is_true_of(table: tornproof.Table) -> None:
    with table.snapshot() as snapshot:
        scan = snapshot.scan(["v", "ts"], "v <> 2")
        assert scan.schema.names == ["v", "ts"]
        assert [row for batch in scan for row in batch["v"].to_pylist()] == [1, 3]
        assert scan.to_arrow().num_rows == scan.to_reader().read_all().num_rows == 2, "it can be read again"
        assert snapshot.scan(start="1970-01-03", end="1970-01-04").to_arrow()["v"].to_pylist() == [2]


def test_readers_of_arrow_streams_take_a_snapshot_and_a_scan(questdb_data: Path) -> None:
    with tornproof.open(questdb_data / "tables/9.4.2/chain/table").snapshot() as snapshot:
        expected = snapshot.to_arrow()
        assert pa.table(snapshot) == expected and expected.num_rows == 23
        assert polars.DataFrame(snapshot).to_arrow()["v"].to_pylist() == expected["v"].to_pylist()
        asked = duckdb.from_arrow(snapshot.scan(["v"]).to_reader()).aggregate("count(*), sum(v)")
        assert asked.fetchall() == [(23, sum(expected["v"].to_pylist()))]
        assert pa.table(snapshot).to_pandas()["v"].to_list() == expected["v"].to_pylist()
        assert snapshot.native_partitions == ("2024-01-02",)
        assert snapshot.schema == expected.schema


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_snapshot_cannot_be_copied_because_both_would_release_one_pin(
    copied: Callable[[object], object], table: tornproof.Table
) -> None:
    with table.snapshot() as snapshot, pytest.raises(TypeError, match="cannot be copied or sent to another process"):
        copied(snapshot)


def test_a_released_snapshot_says_so(table: tornproof.Table) -> None:
    with table.snapshot() as snapshot:
        scan, batches = snapshot.scan(), iter(snapshot.scan())
        next(batches)
    for ask in (snapshot.scan, snapshot.to_arrow, scan.to_arrow, lambda: next(batches)):
        with pytest.raises(SnapshotReleasedError, match="version 1 "):
            ask()


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda snapshot: snapshot.scan(["x"]), UnknownColumnError),
        (lambda snapshot: snapshot.scan(["v", "v"]), RepeatedColumnError),
        (lambda snapshot: snapshot.scan(where="x = 1"), tornproof.TornproofError),
        (lambda snapshot: snapshot.scan(start="yesterday"), TimeTextError),
    ],
)
def test_what_cannot_be_scanned_is_rejected_before_anything_is_read(
    table: tornproof.Table, ask: Callable[[tornproof.Snapshot], object], error: type[Exception]
) -> None:
    with table.snapshot() as snapshot, pytest.raises(error):
        ask(snapshot)


@pytest.mark.parametrize(
    "arguments",
    [
        {"columns": 5},
        {"columns": "v"},
        {"columns": [[]]},
        {"columns": [b"v"]},
        {"where": 5},
        {"where": b"v > 1"},
        {"start": 0},
        {"end": b"2024"},
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_rejected_by_a_scan(table: tornproof.Table, arguments: dict[str, Any]) -> None:
    """It ended in an error of Python's, or `v` was taken for a list of its letter."""
    with table.snapshot() as snapshot, pytest.raises(tornproof.UsageError) as rejected:
        snapshot.scan(**arguments)
    ((name, value),) = arguments.items()
    assert re.fullmatch(rf"{name}: expected .* \| None, found {re.escape(repr(value))}", str(rejected.value))


@pytest.mark.parametrize(
    "time",
    [
        datetime.date(1970, 1, 3),
        datetime.datetime(1970, 1, 3),
        datetime.datetime(1970, 1, 3, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        numpy.datetime64("1970-01-03"),
        numpy.datetime64("1970-01-02T23:59:59.999999999", "ns"),
        pandas.Timestamp("1970-01-02 21:59:59.999999999-02:00"),
    ],
    ids=repr,
)
def test_times_of_python_numpy_and_pandas_are_taken_and_are_in_utc_without_a_zone(
    table: tornproof.Table, time: Any
) -> None:
    with table.snapshot() as snapshot:
        assert snapshot.scan(["v"], end=time).to_arrow().to_pydict() == {"v": [1]}
        assert snapshot.scan(["v"], start=time).to_arrow().to_pydict() == {"v": [2, 3]}
        for none in (numpy.datetime64("NaT"), pandas.NaT):
            with pytest.raises(TimeTextError, match="'NaT' is no time"):
                snapshot.scan(start=none)


@pytest.mark.parametrize("options", [5, {}, "fast", []], ids=str)
def test_options_that_are_none_are_rejected(table: tornproof.Table, options: Any) -> None:
    """Empty ones were taken for none without a word."""
    with pytest.raises(ValueError, match=r"^options: expected WriterOptions \| None, found ") as rejected:
        table.writer(options)
    assert isinstance(rejected.value, tornproof.TornproofError)
    table.writer(allow_parquet_last=True).close()


@pytest.mark.parametrize("rows", [polars.Series("ts", [0]), pa.chunked_array([[1]])], ids=["Polars", "Arrow"])
def test_a_single_column_is_no_rows(table: tornproof.Table, rows: Any) -> None:
    with (
        table.writer() as writer,
        pytest.raises(tornproof.RowsRejectedError, match=r"^expected rows of columns, found "),
    ):
        writer.write(rows)


@pytest.mark.parametrize("given", [None, 5, "x"], ids=str)
def test_what_is_neither_a_prepared_partition_nor_an_identity_is_rejected(table: tornproof.Table, given: Any) -> None:
    with table.writer() as writer:
        with pytest.raises(tornproof.UsageError, match=r"^prepared: expected PreparedPartition, found "):
            writer.adopt(given)
        with pytest.raises(tornproof.UsageError, match=r"^identity: expected bytes, found "):
            writer.announce(given)


@pytest.mark.parametrize("time", ["2300-01-01", "9999-12-31T23:59:59", "0001-01-01", "2024-01-31T00:00:00.0000000001"])
def test_times_that_the_column_cannot_hold_divide_its_rows_as_a_condition_does(tmp_path: Path, time: str) -> None:
    table = tornproof.create(tmp_path / "t", {"ts": "TIMESTAMP_NS"}, timestamp="ts")
    with table.writer(allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": [1_706_659_200 * 10**9 + more for more in (0, 1)]}))
        writer.commit()
    with table.snapshot() as snapshot:
        for scan, sign in ((snapshot.scan(start=time), ">="), (snapshot.scan(end=time), "<")):
            assert scan.to_arrow() == snapshot.to_arrow(where=f"ts {sign} '{time}'")


def test_rows_replace_those_with_the_same_keys(tmp_path: Path) -> None:
    table = tornproof.create(tmp_path / "t", COLUMNS, timestamp="ts", deduplication_keys=["ts"], partition_by="month")
    with table.writer(allow_parquet_last=True) as writer:
        writer.write(rows(1, 2))
        writer.commit()
        writer.write(pa.table({"ts": rows(1)["ts"], "v": pa.array([9])}))
        writer.commit()
    with table.snapshot() as snapshot:
        assert snapshot.to_arrow()["v"].to_pylist() == [9, 2]


def test_every_type_can_be_a_column(tmp_path: Path) -> None:
    names = """
        BOOLEAN BYTE SHORT CHAR INT LONG DATE TIMESTAMP TIMESTAMP_NS FLOAT DOUBLE STRING VARCHAR BINARY UUID LONG256
        IPv4 GEOHASH(1b) GEOHASH(3c) GEOHASH(31b) GEOHASH(12c) DECIMAL(2,1) DECIMAL(4,0) DECIMAL(9,9) DECIMAL(18,3)
        DECIMAL(38,2) DECIMAL(76,0) DOUBLE[] DOUBLE[][] SYMBOL
    """.split()  # noqa: SIM905 (a line each would be a page)
    columns = {"ts": "TIMESTAMP"} | {f"c{number}": name for number, name in enumerate(names)}
    table = tornproof.create(tmp_path / "t", columns, timestamp="ts")
    assert tornproof.open(table.path).schema.names == list(columns)
    assert tornproof.verify(table.path).sound


@pytest.mark.parametrize(
    ("columns", "other", "sentence"),
    [
        ({**COLUMNS, "x": "NUMBER"}, {}, "column 'x': there is no type 'NUMBER'"),
        ({**COLUMNS, "x": "DECIMAL(3,4)"}, {}, "there is no type"),
        ({**COLUMNS, "x": "DECIMAL(77,4)"}, {}, "there is no type"),
        ({**COLUMNS, "x": "GEOHASH(13c)"}, {}, "there is no type"),
        (
            {**COLUMNS, "x": "SYMBOL"},
            {"symbol_capacity": {"x": 1}},
            "expected a symbol capacity of 2 to 1048576, found 1",
        ),
        ({**COLUMNS, "x": "LONG"}, {"symbol_capacity": {"x": 256}}, "symbol_capacity: there is no SYMBOL column 'x'"),
        (COLUMNS, {"timestamp": "t"}, "the designated timestamp 't' is not among the columns"),
        (COLUMNS, {"partition_by": "FORTNIGHT"}, "expected one of DAY, MONTH, YEAR, HOUR, WEEK, found"),
        (COLUMNS, {"deduplication_keys": ["k"]}, "the deduplication key 'k' is not among the columns"),
    ],
)
def test_what_no_table_can_have_is_rejected(
    tmp_path: Path, columns: dict[str, str], other: dict[str, object], sentence: str
) -> None:
    with pytest.raises(TableRejectedError) as rejected:
        tornproof.create(tmp_path / "t", columns, **{"timestamp": "ts", **other})  # type: ignore[arg-type]
    assert sentence in str(rejected.value)
    assert list(tmp_path.iterdir()) == []


OF_ANOTHER_TYPE: dict[str, list[Any]] = {
    "path": [None, 5, []],
    "columns": [None, "ts", [("ts", "TIMESTAMP")], {"ts": None}, {5: "INT"}],
    "timestamp": [None, b"ts"],
    "partition_by": [None, 5, ["DAY"]],
    "deduplication_keys": [None, 5, "ts", b"ts", [5]],
    "symbol_capacity": [5, ["s"], {"s": "5"}, {"s": None}, {"s": 2.5}, {"s": True}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, each in OF_ANOTHER_TYPE.items() for value in each])
def test_an_argument_of_another_type_makes_no_table(tmp_path: Path, name: str, value: Any) -> None:
    """It ended in an error of Python's."""
    others: dict[str, Any] = {"path": tmp_path / "t", "columns": {**COLUMNS, "s": "SYMBOL"}, "timestamp": "ts"}
    with pytest.raises(TableRejectedError) as rejected:
        tornproof.create(**{**others, name: value})
    assert re.fullmatch(rf"{name}: expected .*, found {re.escape(repr(value))}", str(rejected.value))
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_and_sets_of_names_are_arguments(tmp_path: Path) -> None:
    table = tornproof.create(
        tmp_path / "t",
        {"ts": "TIMESTAMP", "s": "SYMBOL"},
        timestamp="ts",
        deduplication_keys={"ts"},  # type: ignore[arg-type]
        symbol_capacity={"s": numpy.int64(1000)},  # type: ignore[dict-item]
    )
    assert tornproof.verify(table.path).sound


def test_a_directory_that_is_no_table_is_none(tmp_path: Path) -> None:
    with pytest.raises(tornproof.NotATableError):
        tornproof.open(tmp_path)


def test_a_path_may_be_bytes(table: tornproof.Table) -> None:
    path = os.fsencode(table.path)
    assert tornproof.open(path).path == table.path and tornproof.verify(path).sound


def test_names_of_types_and_codes_lead_to_each_other(questdb_data: Path) -> None:
    from tornproof.impl.storage.operating_system import OperatingSystemStorage
    from tornproof.impl.table.table import open_table
    from tornproof.impl.types.names import type_name

    found = open_table(OperatingSystemStorage(), str(questdb_data / "tables/9.4.2/types/table"))
    assert found.metadata is not None
    codes = [column.type for column in found.metadata.columns]
    assert [type_code(type_name(code)) for code in codes] == codes and len(codes) > 20


def test_a_table_stays_the_same_when_the_process_changes_its_working_directory(
    table: tornproof.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot read the rows of another table, and a commit whose lock was in one table went into the other."""
    (tmp_path / "other").mkdir()
    shutil.copytree(table.path, tmp_path / "other/t")
    monkeypatch.chdir(tmp_path)
    opened, made = tornproof.open("t"), tornproof.create("u", COLUMNS, timestamp="ts")
    with opened.snapshot() as snapshot, opened.writer(allow_parquet_last=True) as writer:
        writer.write(rows(4))
        monkeypatch.chdir("other")
        assert writer.commit() == opened.version == 2 and tornproof.open("t").version == 1
        shutil.rmtree("t")
        assert snapshot.to_arrow()["v"].to_pylist() == [1, 2, 3]
    assert (opened.path, made.path) == (f"{tmp_path}/t", f"{tmp_path}/u")
    assert tornproof.verify(opened.path).sound and made.version == 0


def test_a_relative_path_is_one_below_the_working_directory_also_behind_a_link_and_at_the_root(
    table: tornproof.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "a/b")
    # What is beside the target of a link, and not beside the link.
    found = f"link/../{tmp_path.name}/t"
    assert tornproof.open(found).version == 1 and tornproof.verify(found).table == f"{tmp_path}/a/b/{found}"
    assert tornproof.check(found, only=["verify"], effort="small").verdict is Verdict.VALID
    monkeypatch.chdir("/")
    assert tornproof.open(table.path[1:]).path == table.path


@pytest.mark.parametrize(
    "operation", [tornproof.open, tornproof.verify, tornproof.recover, tornproof.migrate, tornproof.check]
)
def test_a_working_directory_that_was_removed_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: Callable[[str], object]
) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    with pytest.raises(tornproof.FileMissingError, match="t: cannot look up from the working directory: it is not th"):
        operation("t")


@pytest.mark.parametrize("operation", [tornproof.open, tornproof.verify, tornproof.recover, tornproof.migrate])
def test_an_empty_path_is_none_of_the_working_directory(
    table: tornproof.Table, monkeypatch: pytest.MonkeyPatch, operation: Callable[[str], object]
) -> None:
    monkeypatch.chdir(table.path)
    with pytest.raises(tornproof.NotATableError):
        operation("")
