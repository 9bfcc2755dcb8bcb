"""`tornproof read` as its users meet it: CSV and Parquet, columns and times, rejections, a pipe that closes."""

import csv
import io
import json
import math
import os
import shlex
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import table_builder as tb
from command_line import ROOT, Run, WarmRunner, cold_run, run_here, sentence_of
from golden_data import BLOOM, CHAIN, LEGACY, TYPES, CopyOf
from real_tables import rows_of, snapshot_of

from tornproof.cli.commands import read as read_command
from tornproof.cli.csv_text import text_batch, text_schema
from tornproof.impl.errors import EMPTY_PATH, BusyError
from tornproof.impl.types.questdb import TypeTag

NATIVE_OF_CHAIN = "tornproof: left out: 2024-01-02 is a native partition (5 rows)\n"


def csv_rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_rows_come_as_csv_and_native_partitions_are_named(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / CHAIN)
    assert (run.code, run.err) == (0, NATIVE_OF_CHAIN)
    header, *rows = csv_rows(run.out)
    assert header == ["ts", "v", "s", "n"]
    expected = rows_of(snapshot_of(questdb_data / CHAIN))
    assert len(rows) == expected.num_rows == 23
    assert [row[1] for row in rows] == [str(value) for value in expected["v"].to_pylist()]
    assert rows[0] == ["2024-01-01 00:00:00.000000Z", "1", "s1", "n1"]


@pytest.mark.parametrize("name", [CHAIN, TYPES])
def test_parquet_holds_what_the_reader_returns(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "out.parquet"
    run = tornproof("read", questdb_data / name, "--out", target)
    assert (run.code, run.out) == (0, "")
    expected = rows_of(snapshot_of(questdb_data / name))
    assert pq.read_table(target).equals(expected.cast(pq.read_schema(target)))
    assert list(tmp_path.iterdir()) == [target]


def test_csv_has_lists_as_json_and_bytes_as_hex(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    assert tornproof("read", questdb_data / TYPES, "--out", target).code == 0
    header, *rows = csv_rows(target.read_text())
    values = rows_of(snapshot_of(questdb_data / TYPES)).to_pydict()
    forms: dict[str, Callable[[Any], str]] = {
        "u": str,
        "l256": bytes.hex,
        "bi": bytes.hex,
        "arr": json.dumps,
        "arr2": json.dumps,
        "dec256": "{:f}".format,
        "dec128": "{:f}".format,
        "vc": str,
    }
    assert header == list(values)
    for name, form in forms.items():
        position = header.index(name)
        expected = ["" if value is None else form(value) for value in values[name]]
        assert [row[position] for row in rows] == expected, name
        assert any(expected)


def test_the_same_text_goes_to_a_file_and_to_standard_output(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out.csv"
    to_file, to_stdout = (tornproof("read", questdb_data / TYPES, "--out", out) for out in (target, "-"))
    assert to_file.out == ""
    assert target.read_text() == to_stdout.out != ""


@pytest.mark.parametrize(
    ("of", "value", "text"),
    [
        (pa.uuid(), uuid.UUID(int=5).bytes, str(uuid.UUID(int=5))),
        (pa.binary(16), bytes(range(16)), bytes(range(16)).hex()),
        (pa.binary(), b"", ""),
        (pa.decimal256(76, 3), "1234567890123456789012345678901234567890.125", None),
        (pa.list_(pa.float64()), [1.5, math.nan, None, math.inf], "[1.5, null, null, Infinity]"),
        (pa.list_(pa.list_(pa.float64())), [[1.0], [], [-math.inf]], "[[1.0], [], [-Infinity]]"),
    ],
    ids=str,
)
def test_what_arrow_cannot_write_as_csv_becomes_text(of: pa.DataType, value: Any, text: str | None) -> None:
    typed = pa.array([value, None]).cast(of) if isinstance(value, str) else pa.array([value, None], of)
    batch = pa.record_batch([typed, pa.array([1, 2])], ["x", "y"])
    written = text_batch(batch)
    assert written.schema == text_schema(batch.schema) == pa.schema([("x", pa.string()), ("y", pa.int64())])
    assert written.to_pydict() == {"x": [value if text is None else text, None], "y": [1, 2]}


def test_columns_come_in_the_order_asked_for(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / CHAIN, "--columns", "n,ts")
    header, *rows = csv_rows(run.out)
    assert header == ["n", "ts"]
    assert rows[0] == ["n1", "2024-01-01 00:00:00.000000Z"]
    assert len(rows) == 23


@pytest.mark.parametrize(
    ("times", "hours"),
    [
        (("--from", "2024-01-01T02:00:00"), [2, 3, 4, 5]),
        (("--to", "2024-01-01 02:00"), [0, 1]),
        (("--from", "2024-01-01T01:00:00Z", "--to", "2024-01-01T03:00:00.000001Z"), [1, 2, 3]),
        (("--from", "2030-01-01"), []),
        (("--from", "2024-01-01", "--to", "2024-01-01"), []),
    ],
)
def test_from_is_inclusive_and_to_is_exclusive(
    tornproof: WarmRunner, questdb_data: Path, times: tuple[str, ...], hours: list[int]
) -> None:
    run = tornproof("read", questdb_data / CHAIN, "--columns", "ts", *times)
    assert run.code == 0
    found = {row[0] for row in csv_rows(run.out)[1:]}
    whole_hours = {f"2024-01-01 {hour:02d}:00:00.000000Z" for hour in range(24)}
    assert {ts for ts in found & whole_hours if int(ts[11:13]) <= 5} == {
        f"2024-01-01 {hour:02d}:00:00.000000Z" for hour in hours
    }


def test_json_sums_up_what_was_read(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    run = tornproof("read", questdb_data / CHAIN, "--columns", "v,ts", "--out", tmp_path / "out.parquet", "--json", "-")
    assert run.code == 0
    assert run.document == {
        "format": 1,
        "table": str(questdb_data / CHAIN),
        "version": 5,
        "rows": 23,
        "columns": [{"name": "v", "type": "int64"}, {"name": "ts", "type": "timestamp[us, tz=UTC]"}],
        "native_partitions": ["2024-01-02"],
        "native_rows": 5,
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--columns", "ts,nope"), "there is no column 'nope'; the table has ts, v, s, n"),
        (("--columns", ""), "there is no column ''; the table has ts, v, s, n"),
        (("--columns", "v,ts,v"), "column 'v' is named 2 times; it can be returned once"),
        (
            ("--from", "2024-01-02", "--to", "2024-01-01T23:59"),
            "the times from 2024-01-02 to 2024-01-01T23:59 end before they begin",
        ),
        (("--from", "yesterday"), "'yesterday' is no time; write 2024-01-31 or 2024-01-31T12:30:00.5"),
        (("--from", "\udcff"), "'\\udcff' is no time; write 2024-01-31 or 2024-01-31T12:30:00.5"),
        (("--to", "2024-13-01"), "'2024-13-01' is no time; write 2024-01-31 or 2024-01-31T12:30:00.5"),
        (("--to", "99999-01-01"), "'99999-01-01' is no time; write 2024-01-31 or 2024-01-31T12:30:00.5"),
        (
            ("--out", "rows.txt"),
            "--out rows.txt: give a name that ends in .parquet or .csv, or - for CSV on standard output",
        ),
        (("--json", "-"), "two outputs cannot both go to standard output"),
    ],
)
def test_what_cannot_be_asked_for_is_exit_2(
    tornproof: WarmRunner, questdb_data: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    run = tornproof("read", questdb_data / CHAIN, *arguments)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run) == sentence


def test_times_need_a_designated_timestamp(tornproof: WarmRunner, tmp_path: Path) -> None:
    folder = tb.without_time(tb.build({"v": (TypeTag.LONG, pa.array([1]))})).write_to(tmp_path / "table")
    run = tornproof("read", folder, "--from", "2024-01-01")
    assert run.code == 2
    assert sentence_of(run) == "the table has no designated timestamp to select a time range by"
    assert tornproof("read", folder).code == 0


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_place_that_cannot_be_written_is_exit_2(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "missing" / name
    run = tornproof("read", questdb_data / CHAIN, "--out", target)
    assert run.code == 2
    assert sentence_of(run) == f"{target}: cannot write: No such file or directory"


def damaged_in_the_last_row_group(copy_of: CopyOf) -> Path:
    table = copy_of(CHAIN)
    snapshot = snapshot_of(table)
    (partition,) = (each for each in snapshot.transaction.partitions if each.is_parquet)
    chunk = snapshot.resolve(partition).metadata.blocks[-1].chunks[0]
    with (table / "2024-01-01.1" / "data.parquet").open("r+b") as file:
        file.seek(chunk.byte_range_start)
        file.write(bytes(chunk.total_compressed))
    return table


def test_a_damaged_table_is_exit_1_and_leaves_no_half_answer(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path
) -> None:
    table = damaged_in_the_last_row_group(copy_of)
    target = tmp_path / "out.csv"
    target.write_text("old")
    for out in (target, tmp_path / "new.parquet"):
        run = tornproof("read", table, "--out", out)
        assert (run.code, run.out) == (1, "")
        assert sentence_of(run).startswith("2024-01-01.1/data.parquet: ")
    assert target.read_text() == "old"
    assert not (tmp_path / "new.parquet").exists()
    assert not list(tmp_path.glob(".*"))


def test_rows_are_printed_as_they_are_read_and_the_first_damage_ends_them(
    tornproof: WarmRunner, copy_of: CopyOf, questdb_data: Path
) -> None:
    whole = tornproof("read", questdb_data / CHAIN).out.splitlines()
    run = tornproof("read", damaged_in_the_last_row_group(copy_of))
    first, last = run.err.splitlines()
    assert run.code == 1 and run.out.splitlines() == whole[:-1]
    assert first == f"tornproof: only the first {len(whole) - 2} rows were written"
    assert last.startswith("tornproof: 2024-01-01.1/data.parquet: ")


def test_damage_in_rows_of_a_version_that_was_replaced_meanwhile_is_no_damage(
    copy_of: CopyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server knows no pins, and removes what it has replaced."""
    table = damaged_in_the_last_row_group(copy_of)
    print_rows = read_command._print
    monkeypatch.setattr(
        read_command, "_print", lambda batches, schema, version: print_rows(batches, schema, version - 1)
    )
    with pytest.raises(BusyError, match="it was changed while it was read; try again: 2024-01-01"):
        run_here("read", table)


def test_a_table_from_before_pm_is_exit_2(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / LEGACY)
    assert run.code == 2
    assert "was written by a release before 9.4.0 and was not migrated" in sentence_of(run)


def test_a_history_folder_is_read_by_what_txn_and_pm_say(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / "tables/9.4.2/history/history/00")
    assert run.code == 0
    assert csv_rows(run.out)[0][0] == "ts"


@pytest.mark.parametrize("arguments", [("read", TYPES), ("--help",)], ids=["rows", "help"])
def test_a_closed_pipe_is_quiet(questdb_data: Path, arguments: tuple[str, ...]) -> None:
    """Of help the exit code was 1, which is that of damage."""
    reading, writing = os.pipe()
    os.close(reading)
    run = cold_run(*arguments, folder=questdb_data, stdout=writing)
    os.close(writing)
    assert run == Run(code=128 + 13, out="", err="")


def test_in_a_pipe_there_is_neither_colour_nor_progress(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / CHAIN)
    assert not {"\x1b", "\r"} & set(run.out + run.err)
    assert run.err == NATIVE_OF_CHAIN


@pytest.fixture
def table(copy_of: CopyOf) -> Path:
    """A table of its own, to which something could be written by mistake."""
    return copy_of(CHAIN)


def test_a_name_that_is_no_text_gets_the_rows(tornproof: WarmRunner, table: Path, tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        out = tmp_path / os.fsdecode(b"\xff" + suffix.encode())
        assert tornproof("read", table, "--out", out).code == 0
        assert out.stat().st_size > 0


def test_no_output_goes_where_another_one_or_a_table_is(tornproof: WarmRunner, table: Path, tmp_path: Path) -> None:
    out, inside = tmp_path / "rows.csv", table / "rows.csv"
    for arguments, words in (
        (("--out", out, "--json", out), "two outputs cannot both go to"),
        (("--out", inside), "which gets no output"),
        (("--out", out, "--json", table / "_txn"), "which gets no output"),
    ):
        done = tornproof("read", table, *arguments)
        assert done.code == 2 and words in done.err, arguments
    assert not inside.exists() and tornproof("verify", table).code == 0


def test_an_empty_path_is_not_the_directory_in_which_one_is(tornproof: WarmRunner, table: Path) -> None:
    for command in (("verify",), ("recover", "--dry-run"), ("migrate", "--dry-run")):
        done = tornproof(*command, "", folder=table.parent)
        assert done.code == 2 and EMPTY_PATH in sentence_of(done), command


# Conditions


NATIVE = "tornproof: left out: 2024-06-02 is a native partition (2 rows)\n"


def test_rows_that_a_condition_is_true_of_come_as_csv(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof("read", questdb_data / BLOOM, "--where", "id = 7919 OR n = 'name-13'", "--columns", "n,id")
    assert (run.code, run.err) == (0, NATIVE)
    assert csv_rows(run.out) == [["n", "id"], ["name-1", "7919"], ["name-13", "102947"]]


def test_explanation_says_what_was_not_read_and_why(tornproof: WarmRunner, questdb_data: Path) -> None:
    run = tornproof(
        "read",
        questdb_data / BLOOM,
        "--where",
        "n = 'name-13' AND ts < '2024-06-01T02:00'",
        "--explain",
        "--columns",
        "id",
    )
    assert run.code == 0
    assert csv_rows(run.out) == [["id"], ["102947"]]
    groups, rows, data = run.err.removeprefix(NATIVE).splitlines()
    left_out = "7 by their times, 0 by null counts, 0 by statistics, 2 by bloom filters"
    assert groups == f"tornproof: row groups: 2 of 11 read; left out: {left_out}"
    assert rows.startswith("tornproof: rows: 1 returned of ")
    assert data.startswith("tornproof: data.parquet: ")
    assert " of 57,448 bytes read (" in data


def test_json_accounts_for_the_read(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    run = tornproof(
        "read", questdb_data / BLOOM, "--where", "id = 7919", "--columns", "s", "--out", target, "--json", "-"
    )
    assert run.code == 0
    assert pq.read_table(target)["s"].to_pylist() == ["s1"]
    cost = run.document["cost"]
    assert run.document["rows"] == 1
    assert (cost["row_groups"], cost["row_groups_read"], cost["column_chunks_decoded"]) == (11, 1, 2)
    assert cost["row_groups_left_out"] == {"time": 0, "nulls": 0, "statistics": 10, "bloom_filter": 0}
    assert cost["data_bytes"] == 57_448
    assert 0 < cost["data_bytes_read"] < 2_000
    assert cost["data_percent_read"] == pytest.approx(100 * cost["data_bytes_read"] / 57_448, abs=0.001)


def test_json_accounts_for_a_read_of_everything_too(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    run = tornproof("read", questdb_data / BLOOM, "--explain", "--out", tmp_path / "rows.csv", "--json", "-")
    cost = run.document["cost"]
    assert cost["row_groups"] == cost["row_groups_read"] == 11
    assert cost["column_chunks_decoded"] == 77
    assert cost["rows_in_row_groups_read"] == run.document["rows"]
    assert set(cost["row_groups_left_out"].values()) == {0}


def test_times_and_condition_go_together(tornproof: WarmRunner, questdb_data: Path) -> None:
    limits = ["--from", "2024-06-01T00:10:00", "--to", "2024-06-01T03:00:00", "--columns", "ts"]
    both = tornproof("read", questdb_data / BLOOM, "--where", "k < 30", *limits)
    alone = "k < 30 AND ts >= '2024-06-01T00:10' AND ts < '2024-06-01T03:00'"
    one = tornproof("read", questdb_data / BLOOM, "--where", alone, "--columns", "ts")
    assert (both.code, one.code) == (0, 0)
    assert both.out == one.out
    assert len(csv_rows(both.out)) > 2


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("price > 10", "there is no column 'price'; the table has ts, b, by"),
        ("i LIKE 'x'", "is not supported"),
        ("i = 'many'", "column 'i' of type INT cannot be compared with 'many'; write a number"),
        ("ts > 'soon'", "write a time such as '2024-01-31T12:30:00.5Z'"),
        ("i = ", "the condition cannot be read at '='"),
        ("", "the condition cannot be read"),
        ("dec8 = 1.1 AND\x1b[31m", "the condition cannot be read"),
    ],
)
def test_condition_that_makes_no_sense_is_rejected_in_one_sentence(
    tornproof: WarmRunner, questdb_data: Path, tmp_path: Path, where: str, words: str
) -> None:
    target = tmp_path / "rows.csv"
    run = tornproof("read", questdb_data / TYPES, "--where", where, "--out", target)
    assert (run.code, run.out) == (2, "")
    assert words in sentence_of(run)
    assert not target.exists()


def test_the_example_of_the_documentation_is_what_happens(tornproof: WarmRunner, questdb_data: Path) -> None:
    text = (ROOT / "docs/reading.md").read_text()
    block = text.split("```console\n")[1].split("```")[0]
    command, expected = block.split("\n", 1)
    words = shlex.split(command.removeprefix("$ tornproof "))
    words[1] = str(questdb_data / BLOOM)
    run = tornproof(*words)
    assert run.code == 0
    assert run.out + run.err == expected


def test_summary_is_plain_json(tornproof: WarmRunner, questdb_data: Path, tmp_path: Path) -> None:
    target = tmp_path / "summary.json"
    run = tornproof("read", questdb_data / TYPES, "--where", "i IS NULL", "--json", target)
    assert run.code == 0
    assert json.loads(target.read_text())["rows"] == len(csv_rows(run.out)) - 1 > 0
