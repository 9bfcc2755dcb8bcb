"""`tornproof read --where` as its users meet it: rows, what was spared, and conditions that make no sense."""

import csv
import io
import json
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import ROOT, WarmRunner, sentence_of

BLOOM = "tables/9.4.2/bloom/table"
TYPES = "tables/9.4.2/types/table"
NATIVE = "tornproof: left out: 2024-06-02 is a native partition (2 rows)\n"


def csv_rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


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
